/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <errno.h>
#include <stdlib.h>

#include "provider.h"

struct ibv_pd *urxe_alloc_pd(struct ibv_context *ctx)
{
	struct urxe_device *dev = to_urxe_dev(ctx);
	struct urxe_pd *pd;

	if (atomic_fetch_add(&dev->num_pd, 1) >= URXE_MAX_PD) {
		atomic_fetch_sub(&dev->num_pd, 1);
		errno = ENOMEM;
		return NULL;
	}
	pd = calloc(1, sizeof(*pd));
	if (!pd) {
		atomic_fetch_sub(&dev->num_pd, 1);
		errno = ENOMEM;
		return NULL;
	}
	pd->dev = dev;
	pd->pd.context = ctx;
	return &pd->pd;
}

int urxe_dealloc_pd(struct ibv_pd *ibpd)
{
	struct urxe_pd *pd = urxe_container_of(ibpd, struct urxe_pd, pd);

	if (atomic_load(&pd->users))
		return EBUSY;
	atomic_fetch_sub(&pd->dev->num_pd, 1);
	free(pd);
	return 0;
}
