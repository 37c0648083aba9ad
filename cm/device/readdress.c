/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Own addresses that come and go while the process runs: `urxe ip` asks for it (report.c), or they
 * are the host's.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cm/device/device.h"
#include "provider/gsi.h"
#include "urxe/gid.h"
#include "urxe/json.h"

void urxe_cma_read_gids(struct urxe_cma_dev *dev)
{
	memset(dev->gids, 0, sizeof(dev->gids));
	/* Before, so that a change in between is looked at once more. */
	dev->gids_news = urxe_gsi_gids_news(dev->verbs);
	for (unsigned i = 0; i < URXE_CMA_MAX_GIDS; i++)
		urxe_gsi_gid(dev->verbs, i, &dev->gids[i]);
}

static bool has(const union ibv_gid *gids, const union ibv_gid *gid)
{
	for (unsigned i = 0; i < URXE_CMA_MAX_GIDS; i++) {
		if (!memcmp(&gids[i], gid, sizeof(*gid)))
			return true;
	}
	return false;
}

void urxe_cma_follow_gids(struct urxe_cma_dev *dev)
{
	const struct urxe_device_client *client = urxe_cma_get_client();
	const union ibv_gid none = {{0}};
	union ibv_gid old[URXE_CMA_MAX_GIDS];

	if (dev->gids_news == urxe_gsi_gids_news(dev->verbs))
		return;
	memcpy(old, dev->gids, sizeof(old));
	urxe_cma_read_gids(dev);
	if (dev->agent)
		urxe_agent_readdress(dev->agent);
	for (unsigned i = 0; client && i < URXE_CMA_MAX_GIDS; i++) {
		if (memcmp(&old[i], &none, sizeof(none)) != 0 && !has(dev->gids, &old[i]))
			client->readdressed(dev, false, &old[i]);
		if (memcmp(&dev->gids[i], &none, sizeof(none)) != 0 && !has(old, &dev->gids[i]))
			client->readdressed(dev, true, &dev->gids[i]);
	}
}

void urxe_cma_look(struct urxe_cma_dev *dev)
{
	urxe_gsi_look(dev->verbs);
	urxe_cma_follow_gids(dev);
}

static int readdress(struct urxe_cma_dev *dev, bool add, const union ibv_gid *gid,
		     unsigned prefix_len) URXE_REQUIRES(urxe_cma_lock)
{
	int err = dev->lost ? ENODEV : urxe_gsi_addr(dev->verbs, add, gid, prefix_len);

	if (!err)
		urxe_cma_follow_gids(dev);
	return err;
}

static void put_addresses(struct urxe_json *j, const struct urxe_cma_dev *dev)
{
	char gid[URXE_GID_STRLEN], text[URXE_GID_STRLEN + 8];
	union ibv_gid g;
	int err = 0;

	urxe_json_array(j, "addresses");
	for (unsigned i = 0; err != EINVAL; i++) {
		err = urxe_gsi_gid(dev->verbs, i, &g);
		if (err)
			continue;
		snprintf(text, sizeof(text), "%s/%d", urxe_gid_print(g.raw, gid, sizeof(gid)),
			 urxe_gsi_prefix(dev->verbs, i));
		urxe_json_string(j, NULL, text);
	}
	urxe_json_end(j);
}

void urxe_cma_ip_list(struct urxe_json *j)
{
	urxe_json_array(j, "devices");
	for (unsigned i = 0; i < urxe_cma_num_devices(); i++) {
		int err;
		const struct urxe_cma_dev *dev = urxe_cma_device(i, &err);

		if (!dev || dev->lost)
			continue;
		urxe_json_object(j, NULL);
		urxe_json_string(j, "name", ibv_get_device_name(dev->device));
		put_addresses(j, dev);
		urxe_json_end(j);
	}
	urxe_json_end(j);
}

static struct urxe_cma_dev *find_device(const char *name) URXE_REQUIRES(urxe_cma_lock)
{
	for (unsigned i = 0; i < urxe_cma_num_devices(); i++) {
		int err;
		struct urxe_cma_dev *dev = urxe_cma_device(i, &err);

		if (dev && !strcmp(ibv_get_device_name(dev->device), name))
			return dev;
	}
	return NULL;
}

static const char *why(bool add, int err)
{
	switch (err) {
	case EEXIST:
		return "the device has this address";
	case EADDRNOTAVAIL:
		return add ? "its port can receive at no other address than those that it began "
			     "with"
			   : "the device has no such address";
	case ENOSPC:
		return "the GID table is full";
	case EBUSY:
		return "another process has this address on the same interface";
	case EOPNOTSUPP:
		return "the device has the host's addresses, and follows them: change those, or "
		       "start the program with an address of its own (--ip)";
	case ENODEV:
	case EIO:
		return "the device is gone";
	default:
		return strerror(err);
	}
}

const char *urxe_cma_ip_change(bool add, const char *args)
{
	struct urxe_cma_dev *dev;
	char name[64], addr[64];
	union ibv_gid gid;
	unsigned len;
	int err = EINVAL;

	if (sscanf(args, "%63s %63s %u", name, addr, &len) == 3 &&
	    inet_pton(AF_INET6, addr, &gid) == 1) {
		dev = find_device(name);
		err = dev ? readdress(dev, add, &gid, len) : ENODEV;
	}
	return err ? why(add, err) : NULL;
}
