/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * DPDK's vhost thread polls with a time-out of one second and does not notice a new listening
 * socket before that (22.11). It does notice a new connection: so connect something, to a socket of
 * our own, and take it away again.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <rte_vhost.h>

#include "netio/ethdev.h"

static int no_device(int vid)
{
	return -1;
}

static void no_destroy(int vid)
{
}

static const struct rte_vhost_device_ops no_ops = {
	.new_device = no_device,
	.destroy_device = no_destroy,
};

void ethdev_nudge_vhost(void)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	char dir[] = "/tmp/urxe-XXXXXX";
	int fd;

	if (!mkdtemp(dir))
		return;
	snprintf(un.sun_path, sizeof(un.sun_path), "%s/nudge", dir);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && !bind(fd, (struct sockaddr *)&un, sizeof(un)) && !listen(fd, 1) &&
	    !rte_vhost_driver_register(un.sun_path,
				       RTE_VHOST_USER_CLIENT | RTE_VHOST_USER_NO_RECONNECT)) {
		if (!rte_vhost_driver_callback_register(un.sun_path, &no_ops))
			rte_vhost_driver_start(un.sun_path);
		rte_vhost_driver_unregister(un.sun_path);
	}
	if (fd >= 0)
		close(fd);
	unlink(un.sun_path);
	rmdir(dir);
}
