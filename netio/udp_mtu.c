/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * How much the way to an address takes, as the kernel knows it: by the route's interface, and by
 * what routers have reported to it (RFC 1191, RFC 8201) within the last minutes. A socket of our
 * own that is connected says it; nothing is sent.
 */
#include "netio/udp.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "netio/config.h"
#include "urxe/cancel.h"
#include "urxe/gid.h"
#include "urxe/wire.h"

unsigned udp_interface_of(const uint8_t addr[16])
{
	struct ifaddrs *list, *a;
	unsigned index = 0;
	int cancel = urxe_cancel_off(); /* a sender has a lane */

	if (!getifaddrs(&list)) {
		for (a = list; a && !index; a = a->ifa_next) {
			if (a->ifa_addr && a->ifa_addr->sa_family == AF_INET6 &&
			    !memcmp(&((struct sockaddr_in6 *)(void *)a->ifa_addr)->sin6_addr, addr,
				    16))
				index = if_nametoindex(a->ifa_name);
		}
		freeifaddrs(list);
	}
	urxe_cancel_back(cancel);
	return index;
}

bool udp_link_local(const uint8_t a[16])
{
	return (a[0] == 0xfe && (a[1] & 0xc0) == 0x80) || (a[0] == 0xff && (a[1] & 15) == 2);
}

static uint32_t ask(int fd, int level, int name)
{
	int mtu = 0;
	socklen_t len = sizeof(mtu);

	return !getsockopt(fd, level, name, &mtu, &len) && mtu > 0 ? (uint32_t)mtu : 0;
}

static uint32_t way_v4(int fd, const uint8_t src[16], const uint8_t dst[16])
{
	struct sockaddr_in own = {.sin_family = AF_INET}, to = own;

	memcpy(&own.sin_addr, src + 12, 4);
	memcpy(&to.sin_addr, dst + 12, 4);
	to.sin_port = htons(URXE_UDP_DPORT);
	if (bind(fd, (struct sockaddr *)&own, sizeof(own)) ||
	    connect(fd, (struct sockaddr *)&to, sizeof(to)))
		return 0;
	return ask(fd, IPPROTO_IP, IP_MTU);
}

static uint32_t way_v6(int fd, const uint8_t src[16], const uint8_t dst[16])
{
	struct sockaddr_in6 own = {.sin6_family = AF_INET6}, to = own;

	memcpy(&own.sin6_addr, src, 16);
	memcpy(&to.sin6_addr, dst, 16);
	to.sin6_port = htons(URXE_UDP_DPORT);
	if (udp_link_local(src) || udp_link_local(dst))
		own.sin6_scope_id = to.sin6_scope_id = udp_interface_of(src);
	if (bind(fd, (struct sockaddr *)&own, sizeof(own)) ||
	    connect(fd, (struct sockaddr *)&to, sizeof(to)))
		return 0;
	return ask(fd, IPPROTO_IPV6, IPV6_MTU);
}

static uint32_t way(const struct urxe_port_config *cfg, const uint8_t src[16],
		    const uint8_t dst[16])
{
	bool ipv4 = urxe_gid_is_v4(dst);
	int fd = socket(ipv4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint32_t mtu;

	if (fd < 0)
		return 0;
	if (cfg->host_if[0])
		(void)setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, cfg->host_if,
				 (socklen_t)strlen(cfg->host_if));
	mtu = ipv4 ? way_v4(fd, src, dst) : way_v6(fd, src, dst);
	close(fd);
	return mtu;
}

/* Do we send by it? */
static bool ours(const struct urxe_port_config *cfg, const struct ifaddrs *a)
{
	const struct sockaddr_in *v4 = (const void *)a->ifa_addr;
	const struct sockaddr_in6 *v6 = (const void *)a->ifa_addr;
	uint8_t gid[16];

	if (!a->ifa_addr || (a->ifa_flags & IFF_LOOPBACK) || !(a->ifa_flags & IFF_UP))
		return false;
	if (a->ifa_addr->sa_family == AF_INET)
		urxe_gid_from_v4(gid, (const uint8_t *)&v4->sin_addr);
	else if (a->ifa_addr->sa_family == AF_INET6)
		memcpy(gid, &v6->sin6_addr, 16);
	else
		return false;
	if (cfg->host)
		return !cfg->host_if[0] || !strcmp(cfg->host_if, a->ifa_name);
	for (unsigned i = 0; i < cfg->num_ips; i++) {
		if (!memcmp(cfg->ips[i].gid, gid, 16))
			return true;
	}
	return false;
}

static uint32_t interface_mtu(int fd, const char *name)
{
	struct ifreq ifr = {0};

	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", name);
	return !ioctl(fd, SIOCGIFMTU, &ifr) && ifr.ifr_mtu > 0 ? (uint32_t)ifr.ifr_mtu : 0;
}

/* The interface that takes most: no destination is known. */
static uint32_t any_way(const struct urxe_port_config *cfg)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifaddrs *list, *a;
	uint32_t most = 0;

	if (fd < 0 || getifaddrs(&list)) {
		if (fd >= 0)
			close(fd);
		return 0;
	}
	for (a = list; a; a = a->ifa_next) {
		uint32_t mtu = ours(cfg, a) ? interface_mtu(fd, a->ifa_name) : 0;

		most = mtu > most ? mtu : most;
	}
	freeifaddrs(list);
	close(fd);
	return most;
}

uint32_t udp_way_mtu(const struct urxe_port_config *cfg, const uint8_t *src, const uint8_t *dst)
{
	return dst ? way(cfg, src, dst) : any_way(cfg);
}
