/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What `urxe run` and liburxe-view.so, which is in the programs it runs, agree on. The provider has
 * the name of the variable, too (provider/live.h).
 */
#ifndef URXE_TOOL_VIEW_PRELOAD_H
#define URXE_TOOL_VIEW_PRELOAD_H

#include "provider/live.h"

/** The variable with the folder, an absolute path. */
#define TOOL_VIEW_ROOT URXE_LIVE_ROOT

/** What is found in it, below paths of the same names. */
#define TOOL_VIEW_FOLDERS "/sys/class/infiniband", "/sys/class/infiniband_verbs", "/dev/infiniband"

#endif
