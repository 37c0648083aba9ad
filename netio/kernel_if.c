/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The state of a kernel interface (kernel_if.h), by the ioctls of netdevice(7) and ethtool. */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/ethtool.h>
#include <linux/sockios.h>

#include "netio/kernel_if.h"

#define NAME_TRIES 3

int urxe_kernel_if_name(int fd, unsigned ifindex, char name[IF_NAMESIZE])
{
	struct ifreq ifr = {.ifr_ifindex = (int)ifindex};

	if (ioctl(fd, SIOCGIFNAME, &ifr))
		return errno == ENODEV ? ENXIO : errno;
	memcpy(name, ifr.ifr_name, IF_NAMESIZE);
	return 0;
}

/* 0 or errno: ENXIO when it has been deleted. */
static int ask(int fd, unsigned ifindex, unsigned long request, struct ifreq *ifr)
{
	int err = ENODEV;

	/* It was renamed, or deleted, between the two. Or its device is detached (reset, suspended)
	 * and it is there all the same: ethtool says so for as long as that lasts. */
	for (unsigned i = 0; i < NAME_TRIES && err == ENODEV; i++) {
		err = urxe_kernel_if_name(fd, ifindex, ifr->ifr_name);
		if (err)
			return err;
		err = ioctl(fd, request, ifr) ? errno : 0;
	}
	return err;
}

static int ethtool(int fd, unsigned ifindex, void *cmd)
{
	struct ifreq ifr = {.ifr_data = cmd};

	return ask(fd, ifindex, SIOCETHTOOL, &ifr);
}

static uint32_t speed(int fd, unsigned ifindex)
{
	struct ethtool_cmd cmd = {.cmd = ETHTOOL_GSET};
	uint32_t mbps;

	if (ethtool(fd, ifindex, &cmd))
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

bool urxe_kernel_if_up(int fd, unsigned ifindex, int *err)
{
	struct ifreq ifr = {0};

	*err = ask(fd, ifindex, SIOCGIFFLAGS, &ifr);
	return *err || (ifr.ifr_flags & IFF_UP && ifr.ifr_flags & IFF_RUNNING);
}

/* ---- features ---- */

/* How many features this kernel knows; 0: unknown. */
static uint32_t num_features(int fd, unsigned ifindex)
{
	struct {
		struct ethtool_sset_info info;
		uint32_t len;
	} q = {.info = {.cmd = ETHTOOL_GSSET_INFO, .sset_mask = 1ull << ETH_SS_FEATURES}};

	return ethtool(fd, ifindex, &q) || !q.info.sset_mask ? 0 : q.len;
}

/* The number of the feature @name, of @num; -1: there is none. */
static int find_feature(int fd, unsigned ifindex, uint32_t num, const char *name)
{
	struct ethtool_gstrings *names = calloc(1, sizeof(*names) + (size_t)num * ETH_GSTRING_LEN);
	int bit = -1;

	if (!names)
		return -1;
	names->cmd = ETHTOOL_GSTRINGS;
	names->string_set = ETH_SS_FEATURES;
	names->len = num;
	if (!ethtool(fd, ifindex, names)) {
		for (uint32_t i = 0; i < num && i < names->len && bit < 0; i++) {
			if (!strncmp((char *)names->data + (size_t)i * ETH_GSTRING_LEN, name,
				     ETH_GSTRING_LEN))
				bit = (int)i;
		}
	}
	free(names);
	return bit;
}

#define FEATURE_BLOCKS 8 /* of 32; Linux 6.18 has two */

static bool has_feature(int fd, unsigned ifindex, int bit)
{
	struct {
		struct ethtool_gfeatures get;
		struct ethtool_get_features_block block[FEATURE_BLOCKS];
	} q = {.get = {.cmd = ETHTOOL_GFEATURES, .size = FEATURE_BLOCKS}};

	return bit >= 0 && bit < FEATURE_BLOCKS * 32 && !ethtool(fd, ifindex, &q) &&
	       q.block[bit / 32].active >> bit % 32 & 1;
}

bool urxe_kernel_if_segments_udp(unsigned ifindex, int *bit)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool has;

	if (fd < 0)
		return false;
	if (*bit < 0)
		*bit = find_feature(fd, ifindex, num_features(fd, ifindex), "tx-udp-segmentation");
	has = has_feature(fd, ifindex, *bit);
	close(fd);
	return has;
}

/* Who sends to an address of the kernel's does so from that address. */
bool urxe_kernel_if_owns(const uint8_t gid[16], bool ipv4)
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
	return value != '0' && !urxe_kernel_if_owns(gid, ipv4);
}
