/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Memory windows (IBTA 10.6.7): type 1, bound by ibv_bind_mw() and open to the PD, and type 2B,
 * bound by a work request and open to the QP that bound it. The owner of a window chooses the low
 * eight bits of its key anew with each bind; the rest stays.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "provider.h"
#include "rcu.h"
#include "urxe/free.h"

#define ACCESS_REMOTE (IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)
#define ACCESS_WRITES (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)

struct ibv_mw *urxe_alloc_mw(struct ibv_pd *ibpd, enum ibv_mw_type type)
{
	struct urxe_pd *pd = to_urxe_pd(ibpd);
	struct urxe_device *dev = pd->dev;
	struct urxe_mw *mw;
	int err = urxe_device_check(dev);

	if (!err && type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2)
		err = EINVAL;
	if (err) {
		errno = err;
		return NULL;
	}
	err = ENOMEM;
	mw = calloc(1, sizeof(*mw));
	if (!mw)
		goto fail;
	mw->idle.kind = type == IBV_MW_TYPE_1 ? URXE_MKEY_MW1 : URXE_MKEY_MW2;
	mw->idle.mw = mw;
	urxe_mutex_lock(&dev->mutex);
	if (dev->mw_count < URXE_MAX_MW)
		err = urxe_mkey_publish(dev, &mw->idle);
	if (!err)
		dev->mw_count++;
	urxe_mutex_unlock(&dev->mutex);
	if (err)
		goto fail;
	mw->dev = dev;
	mw->pd = pd;
	atomic_fetch_add(&pd->users, 1);
	mw->mw.context = ibpd->context;
	mw->mw.pd = ibpd;
	mw->mw.rkey = mw->idle.key;
	mw->mw.handle = mw->idle.key;
	mw->mw.type = type;
	return &mw->mw;

fail:
	free(mw);
	errno = err;
	return NULL;
}

static void unbind(struct urxe_device *dev, struct urxe_mw *mw) URXE_REQUIRES(dev->mw_lock)
{
	if (!mw->bound)
		return;
	urxe_mkey_set(dev, mw->idle.key, &mw->idle);
	urxe_mkey_free_later(mw->bound);
	mw->bound = NULL;
	mw->mr->windows--;
	mw->mr = NULL;
	if (mw->qp)
		cds_list_del(&mw->node);
	mw->qp = NULL;
}

int urxe_dealloc_mw(struct ibv_mw *ibmw)
{
	struct urxe_mw *mw = urxe_container_of(ibmw, struct urxe_mw, mw);
	struct urxe_device *dev = mw->dev;

	urxe_mutex_lock(&dev->mutex);
	urxe_spin_lock(&dev->mw_lock);
	unbind(dev, mw);
	urxe_mkey_set(dev, mw->idle.key, NULL);
	urxe_spin_unlock(&dev->mw_lock);
	dev->mw_count--;
	urxe_mutex_unlock(&dev->mutex);
	urxe_rcu_synchronize();
	atomic_fetch_sub(&mw->pd->users, 1);
	free(mw);
	return 0;
}

/* May the window be bound so (IBTA 10.6.7.2.1)? */
static int bind_check(const struct urxe_qp *qp, const struct urxe_mw *mw,
		      const struct urxe_mkey *region, uint64_t addr, uint64_t length,
		      unsigned access)
{
	uint64_t off;

	if (mw->pd->root != qp->pd || !region || region->kind != URXE_MKEY_MR ||
	    region->pd != qp->pd || !(region->access & IBV_ACCESS_MW_BIND))
		return EACCES;
	if (access & ACCESS_WRITES && !(region->access & IBV_ACCESS_LOCAL_WRITE))
		return EACCES;
	off = addr - region->iova;
	if (addr < region->iova || off > region->length || length > region->length - off)
		return ERANGE;
	return 0;
}

void urxe_mw_posted(struct urxe_device *dev, uint32_t key)
{
	const struct urxe_mkey *mk;

	urxe_rcu_read_lock();
	mk = urxe_mkey_at(dev, key);
	if (mk && mk->kind != URXE_MKEY_MR)
		mk->mw->mw.rkey = key;
	urxe_rcu_read_unlock();
}

int urxe_mw_bind(struct urxe_qp *qp, uint32_t key, uint32_t lkey, uint64_t addr, uint64_t length,
		 unsigned access)
{
	struct urxe_device *dev = qp->dev;
	struct urxe_mkey *mk = calloc(1, sizeof(*mk));
	const struct urxe_mkey *now, *region;
	struct urxe_mw *mw;
	int err = EINVAL;

	urxe_free_rest();
	if (!mk)
		return ENOMEM;
	urxe_spin_lock(&dev->mw_lock);
	now = urxe_mkey_at(dev, key);
	if (!now || now->kind == URXE_MKEY_MR || (now->key ^ key) >> URXE_MW_OWNER_BITS)
		goto out;
	mw = now->mw;
	if (now->kind == URXE_MKEY_MW2 && (mw->bound || !length))
		goto out; /* to be invalidated first */
	if (!length) {
		err = mw->pd->root == qp->pd ? 0 : EACCES;
		if (!err)
			unbind(dev, mw);
		goto out;
	}
	region = urxe_mkey_get(dev, lkey);
	err = bind_check(qp, mw, region, addr, length, access);
	if (err)
		goto out;
	unbind(dev, mw);
	mk->key = key;
	mk->kind = mw->idle.kind;
	mk->flags = region->flags;
	mk->access = access & (ACCESS_REMOTE | (region->access & URXE_ACCESS_FLUSH));
	mk->pd = qp->pd;
	mk->iova = access & IBV_ACCESS_ZERO_BASED ? 0 : addr;
	mk->length = length;
	mk->addr = region->addr + (addr - region->iova);
	mk->mw = mw;
	mk->mr = mw->mr = region->mr;
	mw->mr->windows++;
	if (mk->kind == URXE_MKEY_MW2) {
		mk->qpn = qp->qpn;
		mw->qp = qp;
		cds_list_add(&mw->node, &qp->windows);
	}
	mw->bound = mk;
	urxe_mkey_set(dev, key, mk);
	mk = NULL;
out:
	urxe_spin_unlock(&dev->mw_lock);
	free(mk);
	return err;
}

int urxe_mw_invalidate(struct urxe_qp *qp, const struct urxe_pd *pd, uint32_t key)
{
	struct urxe_device *dev = qp->dev;
	const struct urxe_mkey *mk;
	int err = EINVAL;

	urxe_spin_lock(&dev->mw_lock);
	mk = urxe_mkey_get(dev, key);
	if (mk && mk->kind == URXE_MKEY_MW2 && mk->pd == pd && mk->qpn == qp->qpn) {
		unbind(dev, mk->mw);
		err = 0;
	}
	urxe_spin_unlock(&dev->mw_lock);
	return err;
}

void urxe_mw_release_qp(struct urxe_qp *qp)
{
	struct urxe_device *dev = qp->dev;
	struct urxe_mw *mw, *next;

	urxe_spin_lock(&dev->mw_lock);
	cds_list_for_each_entry_safe (mw, next, &qp->windows, node)
		unbind(dev, mw);
	urxe_spin_unlock(&dev->mw_lock);
}
