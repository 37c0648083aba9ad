/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Protection domains, thread domains, and parent domains, which bring a thread domain and the
 * application's own allocator to a protection domain. Protection asks for the root alone.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "provider.h"
#include "door.h"

#define BUF_ALIGN 64

struct urxe_td {
	struct ibv_td td;
	atomic_int users; /* parent domains with it */
};

static struct urxe_pd *pd_new(struct ibv_context *ctx)
{
	struct urxe_device *dev = to_urxe_dev(ctx);
	struct urxe_pd *pd = NULL;
	int err = urxe_device_claim(dev, &dev->num_pd, URXE_MAX_PD);

	if (!err)
		pd = calloc(1, sizeof(*pd));
	if (!pd) {
		atomic_fetch_sub(&dev->num_pd, 1);
		errno = err ? err : ENOMEM;
		return NULL;
	}
	pd->dev = dev;
	pd->pd.context = ctx;
	urxe_context_get(ctx);
	pd->root = pd;
	pd->pd.handle = urxe_handle(&pd->pd);
	return pd;
}

struct ibv_pd *urxe_alloc_pd(struct ibv_context *ctx)
{
	struct urxe_pd *pd = pd_new(ctx);

	return pd ? &pd->pd : NULL;
}

int urxe_dealloc_pd(struct ibv_pd *ibpd)
{
	struct urxe_pd *pd = to_urxe_pd(ibpd);

	if (atomic_load(&pd->users))
		return EBUSY;
	if (pd->root != pd)
		atomic_fetch_sub(&pd->root->users, 1);
	if (pd->td)
		atomic_fetch_sub(&pd->td->users, 1);
	atomic_fetch_sub(&pd->dev->num_pd, 1);
	urxe_context_put(ibpd->context);
	free(pd);
	return 0;
}

struct ibv_td *urxe_alloc_td(struct ibv_context *ctx, struct ibv_td_init_attr *attr)
{
	int err = attr->comp_mask ? EINVAL : urxe_device_check(to_urxe_dev(ctx));
	struct urxe_td *td;

	if (err) {
		errno = err;
		return NULL;
	}
	td = calloc(1, sizeof(*td));
	if (!td) {
		errno = ENOMEM;
		return NULL;
	}
	td->td.context = ctx;
	urxe_context_get(ctx);
	return &td->td;
}

int urxe_dealloc_td(struct ibv_td *ibtd)
{
	struct urxe_td *td = urxe_container_of(ibtd, struct urxe_td, td);

	if (atomic_load(&td->users))
		return EBUSY;
	urxe_context_put(ibtd->context);
	free(td);
	return 0;
}

struct ibv_pd *urxe_alloc_parent_domain(struct ibv_context *ctx,
					struct ibv_parent_domain_init_attr *attr)
{
	const uint32_t known =
		IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
	struct urxe_pd *pd;

	if (attr->comp_mask & ~known) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (!attr->pd || attr->pd->context != ctx || (attr->td && attr->td->context != ctx)) {
		errno = EINVAL;
		return NULL;
	}
	pd = pd_new(ctx);
	if (!pd)
		return NULL;
	pd->root = to_urxe_pd(attr->pd)->root;
	atomic_fetch_add(&pd->root->users, 1);
	if (attr->td) {
		pd->td = urxe_container_of(attr->td, struct urxe_td, td);
		atomic_fetch_add(&pd->td->users, 1);
	}
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) {
		pd->alloc = attr->alloc;
		pd->free = attr->free;
	}
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT)
		pd->pd_context = attr->pd_context;
	return &pd->pd;
}

int urxe_buf_alloc(struct urxe_buf *buf, struct urxe_pd *pd, size_t size, uint64_t type)
{
	void *p = IBV_ALLOCATOR_USE_DEFAULT;

	memset(buf, 0, sizeof(*buf));
	size = (size + BUF_ALIGN - 1) & ~(size_t)(BUF_ALIGN - 1);
	if (pd && pd->alloc)
		p = pd->alloc(&pd->pd, pd->pd_context, size, BUF_ALIGN, type);
	if (!p)
		return ENOMEM;
	if (p != IBV_ALLOCATOR_USE_DEFAULT) {
		buf->p = p;
		buf->from = pd;
		buf->type = type;
		return 0;
	}
	/* Not aligned_alloc(), which takes small blocks from no cache, and cuts them out of larger
	 * ones. Pages of a large buffer are the kernel's zeros until they are used. */
	buf->block = malloc(size + BUF_ALIGN);
	if (!buf->block)
		return ENOMEM;
	buf->p = (char *)buf->block + (-(uintptr_t)buf->block & (BUF_ALIGN - 1));
	return 0;
}

void urxe_buf_free(struct urxe_buf *buf)
{
	if (!buf->from)
		free(buf->block);
	else if (buf->from->free)
		buf->from->free(&buf->from->pd, buf->from->pd_context, buf->p, buf->type);
	buf->p = buf->block = NULL;
	buf->from = NULL;
}
