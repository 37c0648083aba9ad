#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# In a Debian with what urxe-tutorial(7) names: the package is installed, and a new user types the page.
set -eu
apt-get -q -y --no-install-recommends install /srv/urxe_*.deb
cd /srv/tree
URXE_TOOL=/usr/bin/urxe URXE_BUILD=/nonexistent python3 -B tests/e2e/run.py --special tutorial | tee /tmp/tutorial.out
grep -qx 'ok .*' /tmp/tutorial.out
