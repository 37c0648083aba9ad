/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Times are counted in nanoseconds: longer units in these. */
#ifndef URXE_UNITS_H
#define URXE_UNITS_H

#define URXE_USEC 1000ull
#define URXE_MSEC 1000000ull
#define URXE_SEC  1000000000ull

#endif
