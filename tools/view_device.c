/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the view says of the devices: as the provider says it before they start.
 */
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "netio/link.h"
#include "urxe/gid.h"
#include "view.h"

/* As provider/device.c makes it. */
static void make_guid(uint8_t guid[8], const uint8_t mac[6])
{
	guid[0] = mac[0] ^ 2;
	guid[1] = mac[1];
	guid[2] = mac[2];
	guid[3] = 0xff;
	guid[4] = 0xfe;
	memcpy(guid + 5, mac + 3, 3);
}

static bool has_address(const struct ifaddrs *i, const uint8_t gid[16])
{
	const struct sockaddr *sa = i->ifa_addr;
	uint8_t is[16];

	if (!sa)
		return false;
	if (sa->sa_family == AF_INET)
		urxe_gid_from_v4(
			is,
			(const uint8_t *)&((const struct sockaddr_in *)(const void *)sa)->sin_addr);
	else if (sa->sa_family == AF_INET6)
		memcpy(is, &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr, 16);
	else
		return false;
	return !memcmp(is, gid, 16);
}

static void name_interfaces(struct tool_view_device *d, const struct ifaddrs *all)
{
	for (unsigned i = 0; i < URXE_PORT_MAX_GIDS; i++) {
		for (const struct ifaddrs *a = all; a && d->has_gid[i]; a = a->ifa_next) {
			if (has_address(a, d->gids[i].gid)) {
				snprintf(d->ifnames[i], sizeof(d->ifnames[i]), "%s", a->ifa_name);
				break;
			}
		}
	}
}

static int gather(struct tool_view_device *d, const struct urxe_port_config *cfg)
{
	const struct urxe_link_ops *ops;
	struct urxe_port_info info;
	struct urxe_port *port;
	void *arg;
	int ret;

	urxe_link_select(cfg, &ops, &arg);
	ret = urxe_port_create(&port, cfg, ops, arg);
	if (ret)
		return ret;
	urxe_port_query(port, &info);
	d->name = cfg->name;
	make_guid(d->guid, info.mac);
	d->mbps = info.speed_mbps;
	d->active = info.link_up && !info.dead;
	for (unsigned i = 0; i < URXE_PORT_MAX_GIDS; i++)
		d->has_gid[i] = !urxe_port_gid(port, i, &d->gids[i]);
	urxe_port_destroy(port);
	return 0;
}

int tool_view_devices(const struct urxe_config *cfg, struct tool_view_device **devices)
{
	struct ifaddrs *all = NULL;
	int ret = 0;

	*devices = calloc(cfg->num_devices + 1u, sizeof(**devices));
	if (!*devices)
		return -1;
	if (getifaddrs(&all))
		all = NULL;
	for (unsigned i = 0; i < cfg->num_devices && !ret; i++) {
		ret = gather(&(*devices)[i], &cfg->devices[i]);
		name_interfaces(&(*devices)[i], all);
	}
	if (all)
		freeifaddrs(all);
	if (!ret)
		return (int)cfg->num_devices;
	free(*devices);
	*devices = NULL;
	errno = ret;
	return -1;
}
