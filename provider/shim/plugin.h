/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The provider, loaded at first need.
 */
#ifndef URXE_SHIM_PLUGIN_H
#define URXE_SHIM_PLUGIN_H

#include "urxe/shim_ops.h"

/**
 * plugin_ops - the provider's calls, or NULL when there is no provider
 *
 * The first call loads it, and says on stderr why if it cannot. Thread-safe. Within that load, a
 * call of the same thread gets NULL.
 */
const struct urxe_shim_ops *plugin_ops(void);

#endif
