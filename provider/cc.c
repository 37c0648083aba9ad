/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The algorithms of congestion control: to add one, add a row. */
#include "cc.h"

const struct urxe_cc_ops *const urxe_cc_table[URXE_NUM_CC] = {
	[URXE_CC_WINDOW] = &urxe_cc_window_ops,
};
