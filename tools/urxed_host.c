/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A gateway on an interface of the kernel's with the host's own addresses: what these are, and how
 * the kernel is kept from answering for the UDP port.
 */
#include <errno.h>
#include <ifaddrs.h>
#include <linux/filter.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "netio/config.h"
#include "netio/devargs.h"
#include "netio/kernel_if.h"
#include "urxe/gid.h"
#include "urxe/wire.h"
#include "urxed.h"

static uint8_t prefix_of(const uint8_t *mask, unsigned len)
{
	unsigned bits = 0;

	while (bits < 8 * len && mask[bits / 8] >> (7 - bits % 8) & 1)
		bits++;
	return (uint8_t)bits;
}

static bool take(struct urxe_config_ip *ip, const struct ifaddrs *a)
{
	if (a->ifa_addr->sa_family == AF_INET) {
		const struct sockaddr_in *in = (const void *)a->ifa_addr;
		const struct sockaddr_in *mask = (const void *)a->ifa_netmask;

		urxe_gid_from_v4(ip->gid, (const uint8_t *)&in->sin_addr);
		ip->prefix_len = prefix_of((const uint8_t *)&mask->sin_addr, 4);
		ip->ipv4 = true;
	} else if (a->ifa_addr->sa_family == AF_INET6) {
		const struct sockaddr_in6 *in = (const void *)a->ifa_addr;
		const struct sockaddr_in6 *mask = (const void *)a->ifa_netmask;

		memcpy(ip->gid, &in->sin6_addr, 16);
		ip->prefix_len = prefix_of((const uint8_t *)&mask->sin6_addr, 16);
		ip->ipv4 = false;
	} else {
		return false;
	}
	return urxe_config_ip_valid(ip);
}

/* The next hop of the default route; by the kernel's text, which has it in the machine's order. */
static void find_router(struct urxe_port_config *cfg, const char *iface)
{
	FILE *f = fopen("/proc/net/route", "re");
	char line[256], name[64];
	unsigned to, router, flags;
	uint32_t addr;

	while (f && !cfg->has_gw4 && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%63s %x %x %x", name, &to, &router, &flags) != 4 ||
		    strcmp(name, iface) || to || !router)
			continue;
		addr = router;
		urxe_gid_from_v4(cfg->gw4, (const uint8_t *)&addr);
		cfg->has_gw4 = true;
	}
	if (f)
		fclose(f);
}

int urxed_host_addresses(struct urxe_port_config *cfg)
{
	struct ifaddrs *all, *a;
	struct urxe_kernel_if kif;
	char iface[64];

	if (!urxe_devargs_get(cfg->port, "iface", iface, sizeof(iface)) || getifaddrs(&all))
		return ENOENT;
	for (a = all; a && cfg->num_ips < URXE_CONFIG_MAX_IPS; a = a->ifa_next) {
		if (!strcmp(a->ifa_name, iface) && a->ifa_addr && a->ifa_netmask &&
		    take(&cfg->ips[cfg->num_ips], a))
			cfg->num_ips++;
	}
	freeifaddrs(all);
	if (!urxe_kernel_if_query(if_nametoindex(iface), &kif) && kif.mtu > cfg->mtu)
		cfg->mtu = kif.mtu < 9600 ? kif.mtu : 9600;
	find_router(cfg, iface);
	return cfg->num_ips ? 0 : ENOENT;
}

static int hold(int family)
{
	struct sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
	struct sock_fprog prog = {1, &nothing};
	struct sockaddr_storage any = {.ss_family = (sa_family_t)family};
	int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = 1, ret = 0;

	/* A kernel without a family has nothing to say in it. */
	if (fd < 0)
		return errno == EAFNOSUPPORT ? 0 : errno;
	if (family == AF_INET) {
		((struct sockaddr_in *)&any)->sin_port = htons(URXE_UDP_DPORT);
	} else {
		((struct sockaddr_in6 *)&any)->sin6_port = htons(URXE_UDP_DPORT);
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	}
	if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)) ||
	    bind(fd, (const struct sockaddr *)&any,
		 family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6))) {
		ret = errno;
		close(fd);
	}
	return ret;
}

int urxed_host_hold(char *err, size_t errlen)
{
	int ret = hold(AF_INET);

	if (!ret)
		ret = hold(AF_INET6);
	if (ret == EADDRINUSE)
		snprintf(
			err, errlen,
			"UDP port %u of this host is taken: by the kernel's Soft-RoCE (rdma link), "
			"or another urxed (ss -ulpn)",
			URXE_UDP_DPORT);
	else if (ret)
		snprintf(err, errlen, "cannot hold UDP port %u: %s", URXE_UDP_DPORT, strerror(ret));
	return ret;
}
