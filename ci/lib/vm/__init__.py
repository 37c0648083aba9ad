# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Virtual machines of stock Debian for tests: README.md has the contents."""


class Failed(Exception):
    """Something that a machine needs is missing or does not work; the text says what."""


class Broken(Failed):
    """QEMU has ended by an assertion in its own device model: nothing is known of what ran in the machine."""
