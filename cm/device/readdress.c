/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Own addresses that come and go while the process runs: `urxe ip` asks for it over the socket of
 * report.c.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cm/device/device.h"
#include "cm/device/report_path.h"
#include "provider/gsi.h"
#include "urxe/gid.h"

static int readdress(struct urxe_cma_dev *dev, bool add, const union ibv_gid *gid,
		     unsigned prefix_len)
{
	const struct urxe_device_client *client = urxe_cma_get_client();
	int err = dev->lost ? ENODEV : urxe_gsi_addr(dev->verbs, add, gid, prefix_len);

	if (err)
		return err;
	if (dev->agent)
		urxe_agent_readdress(dev->agent);
	if (client)
		client->readdressed(dev, add, gid);
	return 0;
}

static void put_addresses(FILE *out, const struct urxe_cma_dev *dev)
{
	const char *sep = "";
	union ibv_gid gid;
	char buf[URXE_GID_STRLEN];
	int err = 0;

	for (unsigned i = 0; err != EINVAL; i++) {
		err = urxe_gsi_gid(dev->verbs, i, &gid);
		if (err)
			continue;
		fprintf(out, "%s%s/%d", sep, urxe_gid_print(gid.raw, buf, sizeof(buf)),
			urxe_gsi_prefix(dev->verbs, i));
		sep = ",";
	}
	fputs(*sep ? "" : "-", out);
}

void urxe_cma_ip_list(FILE *out, const char *command)
{
	for (unsigned i = 0; i < urxe_cma_num_devices(); i++) {
		int err;
		const struct urxe_cma_dev *dev = urxe_cma_device(i, &err);

		if (!dev || dev->lost)
			continue;
		fprintf(out, "%s %d ", ibv_get_device_name(dev->device), (int)getpid());
		put_addresses(out, dev);
		fprintf(out, " %s\n", command);
	}
}

static struct urxe_cma_dev *find_device(const char *name)
{
	for (unsigned i = 0; i < urxe_cma_num_devices(); i++) {
		int err;
		struct urxe_cma_dev *dev = urxe_cma_device(i, &err);

		if (dev && !strcmp(ibv_get_device_name(dev->device), name))
			return dev;
	}
	return NULL;
}

static const char *why(int err)
{
	switch (err) {
	case EEXIST:
		return "the device has this address";
	case EADDRNOTAVAIL:
		return "the device has no such address";
	case ENOSPC:
		return "the GID table is full";
	case ENODEV:
	case EIO:
		return "the device is gone";
	default:
		return strerror(err);
	}
}

void urxe_cma_ip_change(FILE *out, const char *line)
{
	struct urxe_cma_dev *dev;
	char name[64], addr[64];
	union ibv_gid gid;
	unsigned len;
	int err = EINVAL;

	if (sscanf(line + 1, " %63s %63s %u", name, addr, &len) == 3 &&
	    inet_pton(AF_INET6, addr, &gid) == 1) {
		dev = find_device(name);
		err = dev ? readdress(dev, line[0] == URXE_REPORT_ADD, &gid, len) : ENODEV;
	}
	fprintf(out, "%s\n", err ? why(err) : URXE_REPORT_DONE);
}
