/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The state of a kernel interface (kernel_if.h), by the ioctls of netdevice(7) and ethtool. */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/ethtool.h>
#include <linux/sockios.h>

#include "netio/kernel_if.h"

/* 0 or errno: ENXIO when it has been deleted. */
static int ask(int fd, unsigned ifindex, unsigned long request, struct ifreq *ifr)
{
	int err;

	do {
		err = if_indextoname(ifindex, ifr->ifr_name) ? 0 : errno;
		if (!err && ioctl(fd, request, ifr))
			err = errno;
	} while (err == ENODEV); /* it was renamed, or deleted, between the two */
	return err;
}

static uint32_t speed(int fd, unsigned ifindex)
{
	struct ethtool_cmd cmd = {.cmd = ETHTOOL_GSET};
	struct ifreq ifr = {.ifr_data = (char *)&cmd};
	uint32_t mbps;

	if (ask(fd, ifindex, SIOCETHTOOL, &ifr))
		return 0;
	mbps = ethtool_cmd_speed(&cmd);
	return mbps == (uint32_t)SPEED_UNKNOWN ? 0 : mbps;
}

static int query(int fd, unsigned ifindex, struct urxe_kernel_if *info)
{
	struct ifreq ifr = {0};
	int err = ask(fd, ifindex, SIOCGIFHWADDR, &ifr);

	if (err)
		return err;
	if (ifr.ifr_hwaddr.sa_family != ARPHRD_ETHER && ifr.ifr_hwaddr.sa_family != ARPHRD_LOOPBACK)
		return EAFNOSUPPORT;
	memcpy(info->mac, ifr.ifr_hwaddr.sa_data, 6);
	err = ask(fd, ifindex, SIOCGIFMTU, &ifr);
	if (err)
		return err;
	info->mtu = ifr.ifr_mtu > 0 ? (uint32_t)ifr.ifr_mtu : 0;
	info->speed_mbps = speed(fd, ifindex);
	return 0;
}

int urxe_kernel_if_query(unsigned ifindex, struct urxe_kernel_if *info)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), err;

	if (fd < 0)
		return errno;
	err = query(fd, ifindex, info);
	close(fd);
	return err;
}

bool urxe_kernel_if_up(unsigned ifindex, int *err)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq ifr = {0};

	if (fd < 0) {
		*err = errno;
		return true;
	}
	*err = ask(fd, ifindex, SIOCGIFFLAGS, &ifr);
	close(fd);
	return *err || (ifr.ifr_flags & IFF_UP && ifr.ifr_flags & IFF_RUNNING);
}

/* Who sends to an address of the kernel's does so from that address. */
static bool is_kernels(const uint8_t gid[16], bool ipv4)
{
	union {
		struct sockaddr_in sin;
		struct sockaddr_in6 sin6;
	} to = {{0}}, from = {{0}};
	socklen_t len = ipv4 ? sizeof(to.sin) : sizeof(to.sin6);
	int fd = socket(ipv4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool own;

	if (ipv4) {
		to.sin.sin_family = AF_INET;
		to.sin.sin_port = htons(9);
		memcpy(&to.sin.sin_addr, gid + 12, 4);
	} else {
		to.sin6.sin6_family = AF_INET6;
		to.sin6.sin6_port = htons(9);
		memcpy(&to.sin6.sin6_addr, gid, 16);
	}
	own = fd >= 0 && !connect(fd, (struct sockaddr *)&to, len) &&
	      !getsockname(fd, (struct sockaddr *)&from, &len) &&
	      (ipv4 ? !memcmp(&from.sin.sin_addr, &to.sin.sin_addr, 4)
		    : !memcmp(&from.sin6.sin6_addr, &to.sin6.sin6_addr, 16));
	if (fd >= 0)
		close(fd);
	return own;
}

bool urxe_kernel_if_forwards(const char *name, const uint8_t gid[16], bool ipv4)
{
	char path[96], value = '0';
	int fd;

	snprintf(path, sizeof(path), "/proc/sys/net/ipv%c/conf/%.16s/forwarding", ipv4 ? '4' : '6',
		 name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	if (read(fd, &value, 1) != 1)
		value = '0';
	close(fd);
	return value != '0' && !is_kernels(gid, ipv4);
}
