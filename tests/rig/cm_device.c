/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The device list of a test that has one device of its own: stands for provider/registry.c. */
#include "cm_device.h"

#include <errno.h>
#include <stdlib.h>

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

void urxedv_free_device_list(struct ibv_device **list)
{
	free(list);
}
