/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Memory regions: of the application's memory, pinned or on demand (the whole address space too),
 * of device memory (dm.c), of a dma-buf, and the null region.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "provider.h"
#include "flush.h"
#include "rcu.h"
#include "urxe/guarded.h"

#define ACCESS_WRITES (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)
#define ACCESS_KNOWN                                                                            \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | ACCESS_WRITES | IBV_ACCESS_MW_BIND | \
	 IBV_ACCESS_HUGETLB | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_ON_DEMAND |                    \
	 URXEDV_ACCESS_FLUSH_GLOBAL | URXEDV_ACCESS_FLUSH_PERSISTENT |                          \
	 (int)IBV_ACCESS_OPTIONAL_RANGE)

/* What a registration is made of. */
struct region {
	void *addr;
	uint64_t length, iova;
	unsigned access, flags; /* URXE_MKEY_* */
};

static int region_check(struct region *r)
{
	if (r->access & ~(unsigned)ACCESS_KNOWN)
		return EOPNOTSUPP;
	/* Remote writes imply local ones (IBTA 10.6.3.1; ibv_reg_mr). */
	if (r->access & ACCESS_WRITES && !(r->access & IBV_ACCESS_LOCAL_WRITE))
		return EINVAL;
	if (r->access & IBV_ACCESS_ZERO_BASED) {
		if (r->iova && r->iova != (uintptr_t)r->addr)
			return EINVAL;
		r->iova = 0;
	}
	if (r->iova + r->length < r->iova || (uintptr_t)r->addr + r->length < (uintptr_t)r->addr)
		return EINVAL;
	if (r->access & IBV_ACCESS_ON_DEMAND)
		r->flags |= URXE_MKEY_ON_DEMAND;
	/* All of the address space: on demand alone. */
	else if (r->length == SIZE_MAX && !(r->flags & URXE_MKEY_NULL))
		return EINVAL;
	/* As pinning would: the pages exist from now on, and can be written if need be. */
	if (!r->flags &&
	    !urxe_memory_fault_in(r->addr, r->length, r->access & IBV_ACCESS_LOCAL_WRITE))
		return EFAULT;
	/* Persistence can be promised for what a file holds (A19); everything else dies with us. */
	if (r->access & URXEDV_ACCESS_FLUSH_PERSISTENT && !urxe_memory_of_file(r->addr, r->length))
		return EINVAL;
	return 0;
}

static struct urxe_mkey *region_mkey(const struct region *r, struct urxe_mr *mr, struct urxe_pd *pd)
{
	struct urxe_mkey *mk = calloc(1, sizeof(*mk));

	if (!mk)
		return NULL;
	mk->kind = URXE_MKEY_MR;
	mk->flags = (uint8_t)r->flags;
	mk->access = r->access;
	mk->pd = pd;
	mk->addr = r->addr;
	mk->iova = r->iova;
	mk->length = r->length;
	mk->mr = mr;
	return mk;
}

static struct ibv_mr *mr_create(struct ibv_pd *ibpd, struct region *r, enum ibv_mr_type type)
{
	struct urxe_pd *pd = to_urxe_pd(ibpd);
	struct urxe_device *dev = pd->dev;
	int err = urxe_device_check(dev);
	struct urxe_mr *mr = NULL;

	if (!err)
		err = region_check(r);
	if (!err && r->access & URXEDV_ACCESS_FLUSH_PERSISTENT)
		err = urxe_flusher_start(dev);
	if (err)
		goto fail;
	urxe_guarded_start();
	err = ENOMEM;
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		goto fail;
	mr->mkey = region_mkey(r, mr, pd->root);
	if (!mr->mkey)
		goto fail;
	mr->dev = dev;
	urxe_mutex_lock(&dev->mutex);
	if (dev->mr_count < URXE_MAX_MR)
		err = urxe_mkey_publish(dev, mr->mkey);
	if (!err)
		dev->mr_count++;
	urxe_mutex_unlock(&dev->mutex);
	if (err)
		goto fail;
	mr->pd = pd;
	atomic_fetch_add(&pd->users, 1);
	mr->vmr.ibv_mr.lkey = mr->vmr.ibv_mr.rkey = mr->mkey->key;
	mr->vmr.ibv_mr.handle = mr->mkey->key;
	mr->vmr.ibv_mr.context = ibpd->context;
	mr->vmr.ibv_mr.pd = ibpd;
	mr->vmr.ibv_mr.addr = r->addr;
	mr->vmr.ibv_mr.length = r->length;
	mr->vmr.mr_type = type;
	mr->vmr.access = (int)r->access;
	return &mr->vmr.ibv_mr;

fail:
	if (mr)
		free(mr->mkey);
	free(mr);
	errno = err;
	return NULL;
}

struct ibv_mr *urxe_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
	struct region r = {
		.addr = addr, .length = length, .iova = iova, .access = (unsigned)access};

	return mr_create(pd, &r, IBV_MR_TYPE_MR);
}

struct ibv_mr *urxe_alloc_null_mr(struct ibv_pd *pd)
{
	/* Of local use alone: reads give zeros, writes go nowhere. */
	struct region r = {
		.length = SIZE_MAX, .access = IBV_ACCESS_LOCAL_WRITE, .flags = URXE_MKEY_NULL};

	return mr_create(pd, &r, IBV_MR_TYPE_NULL_MR);
}

struct ibv_mr *urxe_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *ibdm, uint64_t offset,
			      size_t length, unsigned int access)
{
	struct urxe_dm *dm = urxe_container_of(ibdm, struct urxe_dm, vdm.dm);
	struct region r = {.addr = dm->mem + offset, .length = length, .access = access};
	struct ibv_mr *mr;

	/* Its memory has no address but the offset (ibv_alloc_dm). */
	if (!(access & IBV_ACCESS_ZERO_BASED) || access & IBV_ACCESS_ON_DEMAND ||
	    offset > dm->length || length > dm->length - offset || ibdm->context != pd->context) {
		errno = EINVAL;
		return NULL;
	}
	mr = mr_create(pd, &r, IBV_MR_TYPE_MR);
	if (mr) {
		to_urxe_mr(mr)->dm = dm;
		atomic_fetch_add(&dm->users, 1);
		mr->addr = NULL;
	}
	return mr;
}

struct ibv_mr *urxe_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				  int fd, int access)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), skip = offset & (page - 1);
	int prot = PROT_READ | (access & IBV_ACCESS_LOCAL_WRITE ? PROT_WRITE : 0);
	struct region r = {.length = length, .iova = iova, .access = (unsigned)access};
	struct ibv_mr *mr = NULL;
	struct stat st;
	off_t end;
	void *map;

	if (fstat(fd, &st))
		return NULL;
	/* A dma-buf tells its size by seeking alone; that of a file may change under us. */
	end = S_ISREG(st.st_mode) ? st.st_size : lseek(fd, 0, SEEK_END);
	if (!length || end < 0 || offset > (uint64_t)end || length > (uint64_t)end - offset ||
	    access & IBV_ACCESS_ON_DEMAND) {
		errno = EINVAL;
		return NULL;
	}
	map = mmap(NULL, length + skip, prot, MAP_SHARED, fd, (off_t)(offset - skip));
	if (map == MAP_FAILED)
		return NULL;
	r.addr = (uint8_t *)map + skip;
	if (S_ISREG(st.st_mode))
		r.flags = URXE_MKEY_ON_DEMAND;
	mr = mr_create(pd, &r, IBV_MR_TYPE_DMABUF_MR);
	if (!mr) {
		int err = errno;

		munmap(map, length + skip);
		errno = err;
		return NULL;
	}
	to_urxe_mr(mr)->map = map;
	to_urxe_mr(mr)->map_length = length + skip;
	return mr;
}

int urxe_dereg_mr(struct verbs_mr *vmr)
{
	struct urxe_mr *mr = urxe_container_of(vmr, struct urxe_mr, vmr);
	struct urxe_device *dev = mr->dev;
	bool bound;

	urxe_mutex_lock(&dev->mutex);
	urxe_spin_lock(&dev->mw_lock);
	bound = mr->windows;
	if (!bound)
		urxe_mkey_set(dev, mr->mkey->key, NULL);
	urxe_spin_unlock(&dev->mw_lock);
	dev->mr_count -= !bound;
	urxe_mutex_unlock(&dev->mutex);
	if (bound)
		return EBUSY; /* IBTA 10.6.7.2: windows go first */
	/* The caller may unmap the memory as soon as we return. */
	urxe_rcu_synchronize();
	atomic_fetch_sub(&mr->pd->users, 1);
	if (mr->dm)
		atomic_fetch_sub(&mr->dm->users, 1);
	if (mr->map)
		munmap(mr->map, mr->map_length);
	free(mr->mkey);
	free(mr);
	return 0;
}

/* The keys stay. Whatever fails, the region is as it was. */
int urxe_rereg_mr(struct verbs_mr *vmr, int flags, struct ibv_pd *ibpd, void *addr, size_t length,
		  int access)
{
	struct urxe_mr *mr = urxe_container_of(vmr, struct urxe_mr, vmr);
	struct urxe_mkey *old = mr->mkey, *mk;
	struct urxe_pd *pd = flags & IBV_REREG_MR_CHANGE_PD ? to_urxe_pd(ibpd) : mr->pd;
	struct region r = {
		.addr = old->addr, .length = old->length, .iova = old->iova, .access = old->access};
	int err = urxe_device_check(mr->dev);

	if (flags & IBV_REREG_MR_CHANGE_PD && (!ibpd || ibpd->context != vmr->ibv_mr.context))
		err = EINVAL;
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		r.addr = addr;
		r.length = length;
		r.iova = (uintptr_t)addr;
	}
	if (flags & IBV_REREG_MR_CHANGE_ACCESS)
		r.access = (unsigned)access;
	if (!err && mr->dm)
		err = EOPNOTSUPP;
	if (!err)
		err = region_check(&r);
	if (!err && r.access & URXEDV_ACCESS_FLUSH_PERSISTENT)
		err = urxe_flusher_start(mr->dev);
	mk = err ? NULL : region_mkey(&r, mr, pd->root);
	if (!err && !mk)
		err = ENOMEM;
	if (err)
		goto fail;
	mk->key = old->key;
	urxe_spin_lock(&mr->dev->mw_lock);
	if (mr->windows)
		err = EBUSY;
	else
		urxe_mkey_set(mr->dev, mk->key, mk);
	urxe_spin_unlock(&mr->dev->mw_lock);
	if (err)
		goto fail;
	mr->mkey = mk;
	atomic_store(&mr->gone, false);
	mr->vmr.access = (int)r.access;
	urxe_rcu_synchronize();
	free(old);
	if (pd != mr->pd) {
		atomic_fetch_add(&pd->users, 1);
		atomic_fetch_sub(&mr->pd->users, 1);
		mr->pd = pd;
	}
	return 0;

fail:
	free(mk);
	errno = err;
	return err;
}

static int advise_one(struct urxe_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		      const struct ibv_sge *sge)
{
	const struct urxe_mkey *mk = urxe_mkey_get(pd->dev, sge->lkey);
	uint64_t off;
	uint8_t *addr;

	if (!mk)
		return EFAULT;
	if (mk->kind != URXE_MKEY_MR)
		return EINVAL;
	if (mk->pd != pd->root)
		return EPERM;
	if (!(mk->flags & URXE_MKEY_ON_DEMAND))
		return ENOENT;
	if (advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE && !(mk->access & IBV_ACCESS_LOCAL_WRITE))
		return EPERM;
	off = sge->addr - mk->iova;
	if (sge->addr < mk->iova || off > mk->length || sge->length > mk->length - off)
		return EFAULT;
	addr = mk->addr + off;
	if (advice == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return 0; /* what is there for the processor is there for us */
	/* It need not be done now, but there is nobody who would do it later. */
	if (!urxe_memory_fault_in(addr, sge->length,
				  advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE) &&
	    flags & IBV_ADVISE_MR_FLAG_FLUSH)
		return EFAULT;
	return 0;
}

int urxe_advise_mr(struct ibv_pd *ibpd, enum ibv_advise_mr_advice advice, uint32_t flags,
		   struct ibv_sge *sges, uint32_t n)
{
	int err = 0;

	if (advice != IBV_ADVISE_MR_ADVICE_PREFETCH &&
	    advice != IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE &&
	    advice != IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return EOPNOTSUPP;
	if (flags & ~(uint32_t)IBV_ADVISE_MR_FLAG_FLUSH || !n)
		return EINVAL;
	urxe_rcu_read_lock();
	for (uint32_t i = 0; i < n && !err; i++)
		err = advise_one(to_urxe_pd(ibpd), advice, flags, &sges[i]);
	urxe_rcu_read_unlock();
	return err;
}
