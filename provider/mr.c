/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Memory regions. A key is <index:20><random:12>: the index finds the region, the rest
 * must match, so that a stale or guessed key finds nothing.
 */
#include <errno.h>
#include <stdlib.h>

#include "provider.h"
#include "rcu.h"

#define MR_TAG_BITS (32 - URXE_MR_INDEX_BITS)
#define MR_MASK	    ((1u << URXE_MR_INDEX_BITS) - 1)

#define MR_ACCESS_KNOWN                                                              \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_HUGETLB |        \
	 IBV_ACCESS_RELAXED_ORDERING)
#define MR_ACCESS_LATER (IBV_ACCESS_ZERO_BASED | IBV_ACCESS_ON_DEMAND)

/* dev->mutex held */
static int mr_publish(struct urxe_device *dev, struct urxe_mr *mr)
{
	int err;

	if (dev->mr_count >= URXE_MAX_MR - 1)
		return ENOMEM;
	for (;;) {
		dev->mr_next = (dev->mr_next + 1) & MR_MASK;
		/* Index 0 stays free: an lkey of 0 or a small number is a common mistake. */
		if (dev->mr_next && !urxe_table_get(&dev->mrs, dev->mr_next))
			break;
	}
	mr->key = dev->mr_next << MR_TAG_BITS |
		  ((uint32_t)urxe_port_random(dev->port) & ((1u << MR_TAG_BITS) - 1));
	err = urxe_table_set(&dev->mrs, dev->mr_next, mr);
	if (!err)
		dev->mr_count++;
	return err;
}

static int mr_check_access(int access)
{
	if (access & ~(MR_ACCESS_KNOWN | MR_ACCESS_LATER | (int)IBV_ACCESS_OPTIONAL_RANGE))
		return EOPNOTSUPP;
	if (access & MR_ACCESS_LATER)
		return EOPNOTSUPP;
	/* Remote writes imply local ones (IBTA 10.6.3.1; ibv_reg_mr). */
	if ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) &&
	    !(access & IBV_ACCESS_LOCAL_WRITE))
		return EINVAL;
	return 0;
}

struct ibv_mr *urxe_reg_mr(struct ibv_pd *ibpd, void *addr, size_t length, uint64_t iova,
			   int access)
{
	struct urxe_pd *pd = urxe_container_of(ibpd, struct urxe_pd, pd);
	struct urxe_device *dev = pd->dev;
	struct urxe_mr *mr = NULL;
	int err = mr_check_access(access);

	if (!err && (iova + length < iova || (uintptr_t)addr + length < (uintptr_t)addr))
		err = EINVAL;
	if (err)
		goto fail;
	mr = calloc(1, sizeof(*mr));
	if (!mr) {
		err = ENOMEM;
		goto fail;
	}
	mr->dev = dev;
	mr->pd = pd;
	mr->addr = addr;
	mr->iova = iova;
	mr->length = length;
	mr->access = (unsigned)access;
	pthread_mutex_lock(&dev->mutex);
	err = mr_publish(dev, mr);
	pthread_mutex_unlock(&dev->mutex);
	if (err)
		goto fail;
	atomic_fetch_add(&pd->users, 1);
	mr->vmr.ibv_mr.lkey = mr->vmr.ibv_mr.rkey = mr->key;
	mr->vmr.ibv_mr.context = ibpd->context;
	mr->vmr.ibv_mr.pd = ibpd;
	mr->vmr.ibv_mr.addr = addr;
	mr->vmr.ibv_mr.length = length;
	mr->vmr.mr_type = IBV_MR_TYPE_MR;
	mr->vmr.access = access;
	return &mr->vmr.ibv_mr;

fail:
	free(mr);
	errno = err;
	return NULL;
}

int urxe_dereg_mr(struct verbs_mr *vmr)
{
	struct urxe_mr *mr = urxe_container_of(vmr, struct urxe_mr, vmr);
	struct urxe_device *dev = mr->dev;

	pthread_mutex_lock(&dev->mutex);
	urxe_table_set(&dev->mrs, mr->key >> MR_TAG_BITS, NULL);
	dev->mr_count--;
	pthread_mutex_unlock(&dev->mutex);
	/* The caller may unmap the memory as soon as we return. */
	urxe_rcu_synchronize();
	atomic_fetch_sub(&mr->pd->users, 1);
	free(mr);
	return 0;
}

uint8_t *urxe_mr_access(struct urxe_device *dev, struct urxe_pd *pd, uint32_t key, uint64_t va,
			uint64_t len, unsigned access)
{
	struct urxe_mr *mr = urxe_table_get(&dev->mrs, key >> MR_TAG_BITS);
	uint64_t off;

	if (!mr || mr->key != key || mr->pd != pd || (mr->access & access) != access)
		return NULL;
	/* Written so that nothing wraps: va may be anything. */
	off = va - mr->iova;
	if (va < mr->iova || off > mr->length || len > mr->length - off)
		return NULL;
	return mr->addr + off;
}
