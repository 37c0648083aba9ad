/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Device memory: of this device, ordinary memory that the application reaches by copies alone.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "provider.h"

#define DM_ALIGN	 4 /* of offsets and lengths of copies */
#define DM_MAX_LOG_ALIGN 21

static struct urxe_dm *to_urxe_dm(struct ibv_dm *dm)
{
	return urxe_container_of(dm, struct urxe_dm, vdm.dm);
}

static bool dm_range(const struct urxe_dm *dm, uint64_t offset, size_t length)
{
	return !((offset | length) & (DM_ALIGN - 1)) && offset <= dm->length &&
	       length <= dm->length - offset;
}

static int dm_to(struct ibv_dm *ibdm, uint64_t offset, const void *host, size_t length)
{
	struct urxe_dm *dm = to_urxe_dm(ibdm);

	if (!dm_range(dm, offset, length))
		return EINVAL;
	memcpy(dm->mem + offset, host, length);
	return 0;
}

static int dm_from(void *host, struct ibv_dm *ibdm, uint64_t offset, size_t length)
{
	struct urxe_dm *dm = to_urxe_dm(ibdm);

	if (!dm_range(dm, offset, length))
		return EINVAL;
	memcpy(host, dm->mem + offset, length);
	return 0;
}

struct ibv_dm *urxe_alloc_dm(struct ibv_context *ctx, struct ibv_alloc_dm_attr *attr)
{
	struct urxe_device *dev = to_urxe_dev(ctx);
	uint32_t log = attr->log_align_req < 6 ? 6 : attr->log_align_req;
	struct urxe_dm *dm = NULL;
	size_t size;
	/* A child may have memory of its own: that needs neither port nor thread. */
	int err = urxe_device_inherited(dev) ? 0 : urxe_device_check(dev);

	if (err)
		goto fail;
	err = EINVAL;
	if (attr->comp_mask || !attr->length || attr->length > URXE_MAX_DM ||
	    log > DM_MAX_LOG_ALIGN)
		goto fail;
	err = ENOMEM;
	if (atomic_fetch_add(&dev->dm_used, attr->length) + attr->length > URXE_MAX_DM)
		goto fail_used;
	dm = calloc(1, sizeof(*dm));
	if (!dm)
		goto fail_used;
	size = (attr->length + ((size_t)1 << log) - 1) & ~(((size_t)1 << log) - 1);
	dm->mem = aligned_alloc((size_t)1 << log, size);
	if (!dm->mem)
		goto fail_used;
	/* What another program left behind is nobody's business. */
	memset(dm->mem, 0, size);
	dm->dev = dev;
	dm->length = attr->length;
	dm->vdm.dm.context = ctx;
	urxe_context_get(ctx);
	dm->vdm.dm.memcpy_to_dm = dm_to;
	dm->vdm.dm.memcpy_from_dm = dm_from;
	return &dm->vdm.dm;

fail_used:
	atomic_fetch_sub(&dev->dm_used, attr->length);
fail:
	free(dm);
	errno = err;
	return NULL;
}

int urxe_free_dm(struct ibv_dm *ibdm)
{
	struct urxe_dm *dm = to_urxe_dm(ibdm);

	if (atomic_load(&dm->users))
		return EBUSY;
	atomic_fetch_sub(&dm->dev->dm_used, dm->length);
	free(dm->mem);
	urxe_context_put(ibdm->context);
	free(dm);
	return 0;
}
