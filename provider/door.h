/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The door of the control verbs (door.c).
 */
#ifndef URXE_PROVIDER_DOOR_H
#define URXE_PROVIDER_DOOR_H

#include <errno.h>
#include <stdint.h>

#include "abi/rdma_driver.h"

/** Verbs that are looked at on their way in and out; over those of context.c. */
extern const struct verbs_context_ops urxe_door_ops;

/** urxe_ret - an errno as the verbs return it: in errno as well. */
static inline int urxe_ret(int err)
{
	if (__builtin_expect(err != 0, 0))
		errno = err;
	return err;
}

/** urxe_handle - the `handle` of an object that has no number: made of its address. */
static inline uint32_t urxe_handle(const void *object)
{
	return (uint32_t)((uintptr_t)object * 0x9e3779b97f4a7c15ull >> 32) | 1;
}

#endif
