/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Memory keys: what a key stands for, and who may use it for what. Regions and windows share one
 * table. A key is <index:21><tag:11>: the index finds the entry, the rest must match, so that a
 * stale or guessed key finds nothing. An entry never changes; another takes its place under RCU.
 */
#include <errno.h>
#include <stdlib.h>

#include "provider.h"
#include "trace.h"
#include "rcu.h"

#define TAG_BITS (32 - URXE_MKEY_INDEX_BITS)
#define TAG_MASK ((1u << TAG_BITS) - 1)
#define INDEX(k) ((k) >> TAG_BITS)

uint8_t urxe_null_memory[1];

int urxe_mkey_publish(struct urxe_device *dev, struct urxe_mkey *mk)
{
	uint32_t index = dev->mkey_next;
	int err;

	do { /* index 0 stays free: an lkey of 0 or a small number is a common mistake */
		index = (index + 1) & ((1u << URXE_MKEY_INDEX_BITS) - 1);
	} while (!index || urxe_table_get(&dev->mkeys, index));
	mk->key = index << TAG_BITS | ((uint32_t)urxe_port_random(dev->port) & TAG_MASK);
	err = urxe_table_set(&dev->mkeys, index, mk);
	if (!err)
		dev->mkey_next = index;
	return err;
}

void urxe_mkey_set(struct urxe_device *dev, uint32_t key, struct urxe_mkey *mk)
{
	/* Cannot fail: the leaf has been there since the key was published. */
	urxe_table_set(&dev->mkeys, INDEX(key), mk);
}

struct urxe_mkey *urxe_mkey_get(struct urxe_device *dev, uint32_t key)
{
	struct urxe_mkey *mk = urxe_table_get(&dev->mkeys, INDEX(key));

	return mk && mk->key == key ? mk : NULL;
}

void urxe_mkey_free_later(struct urxe_mkey *mk)
{
	urxe_rcu_free(&mk->rcu, mk);
}

static void region_gone(const struct urxe_mkey *mk, const void *at, uint64_t len)
{
	struct urxe_mr *mr = mk->mr;
	const struct ibv_mr *region = &mr->vmr.ibv_mr;

	if (atomic_exchange_explicit(&mr->gone, true, memory_order_relaxed))
		return;
	urxe_warn("%s: MR of lkey %#x, %zu bytes at %p: of %llu bytes at %p some are unmapped, "
		  "read-only or behind the end of their file. Accesses are refused, and their QPs "
		  "fail",
		  mr->dev->cfg.name, region->lkey, region->length, region->addr,
		  (unsigned long long)len, at);
}

uint8_t *urxe_mkey_special(const struct urxe_mkey *mk, uint64_t off, uint64_t len, unsigned access)
{
	const unsigned writes =
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
	uint8_t *at = (uint8_t *)((uintptr_t)mk->addr + off); /* all of memory begins at NULL */

	if (mk->flags & URXE_MKEY_NULL)
		return urxe_null_memory;
	/*
	 * Pages of a region on demand come and go, and may be gone for good: then the access is
	 * refused instead of carried out into nothing. Asking each time is the price of paging.
	 */
	if (!urxe_memory_fault_in(at, len, access & writes)) {
		region_gone(mk, at, len);
		return NULL;
	}
	return at;
}

/* IBTA 10.6.7: a type 1 window belongs to a PD, one of type 2B to a PD and to one QP. */
const struct urxe_mkey *urxe_mkey_remote(const struct urxe_qp *qp, const struct urxe_pd *pd,
					 uint32_t key, unsigned access)
{
	const struct urxe_mkey *mk = urxe_table_get(&qp->dev->mkeys, INDEX(key));

	if (!mk || mk->key != key || mk->pd != pd || (mk->access & access) != access ||
	    (mk->kind == URXE_MKEY_MW2 && mk->qpn != qp->qpn))
		return NULL;
	return mk;
}

uint8_t *urxe_mr_remote(const struct urxe_qp *qp, const struct urxe_pd *pd, uint32_t key,
			uint64_t va, uint64_t len, unsigned access)
{
	const struct urxe_mkey *mk = urxe_mkey_remote(qp, pd, key, access);
	uint8_t *at = mk ? urxe_mkey_memory(mk, va, len, access) : NULL;

	if (!at)
		urxe_trace_rkey_denied(qp, key, va, len, access);
	return at;
}

static void gone(struct urxe_device *dev, uint32_t key, uint64_t va, uint64_t len)
{
	const struct urxe_mkey *mk = urxe_mkey_get(dev, key);

	if (mk)
		region_gone(mk, mk->addr + (va - mk->iova), len);
}

void urxe_lkey_gone(struct urxe_device *dev, uint32_t lkey, uint64_t va, uint64_t len,
		    unsigned access)
{
	gone(dev, lkey, va, len);
	urxe_trace_lkey_denied(lkey, va, len, access);
}

void urxe_rkey_gone(const struct urxe_qp *qp, uint32_t rkey, uint64_t va, uint64_t len,
		    unsigned access)
{
	gone(qp->dev, rkey, va, len);
	urxe_trace_rkey_denied(qp, rkey, va, len, access);
}
