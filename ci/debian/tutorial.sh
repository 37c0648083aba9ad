#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# In a Debian with what urxe-tutorial(7) names: the package is installed, and a new user types the page.
set -eu
apt-get -q -y --no-install-recommends install /srv/urxe_*.deb
cd /srv/tree
# By a file, since a pipe has the status of its end.
status=0
URXE_TOOL=/usr/bin/urxe URXE_BUILD=/nonexistent python3 -B tests/e2e/run.py --special tutorial >/tmp/tutorial.out 2>&1 || status=$?
cat /tmp/tutorial.out
[ $status = 0 ]
grep -qx 'ok .*' /tmp/tutorial.out
