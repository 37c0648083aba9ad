/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The device list of a test that has one device of its own: stands for provider/registry.c. */
#include "cm_device.h"

#include <errno.h>
#include <stdlib.h>

#include "cm/device/device.h"
#include "urxedv.h"

struct ibv_device *cm_device;

struct ibv_device **urxedv_get_device_list(int *num_devices)
{
	struct ibv_device **list = calloc(2, sizeof(struct ibv_device *));

	*num_devices = 0;
	if (!list || !cm_device) {
		free(list);
		errno = ENODEV;
		return NULL;
	}
	list[0] = cm_device;
	*num_devices = 1;
	return list;
}

struct urxe_cma_dev *cm_device_own(void)
{
	struct urxe_cma_dev *dev;
	int err;

	urxe_cma_hold();
	dev = urxe_cma_device(0, &err);
	urxe_cma_release();
	if (!dev)
		abort();
	return dev;
}

void urxedv_free_device_list(struct ibv_device **list)
{
	free(list);
}
