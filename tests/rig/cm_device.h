/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* rdma_cm on a simulated device: the library's list of devices is this one. */
#ifndef URXE_TEST_CM_DEVICE_H
#define URXE_TEST_CM_DEVICE_H

#include <infiniband/verbs.h>

/** cm_device - the device; to be set before the first call of rdma_cma.h. */
extern struct ibv_device *cm_device;

/** cm_device_own - rdma_cm's device of it; aborts when it cannot be opened. */
struct urxe_cma_dev *cm_device_own(void);

#endif
