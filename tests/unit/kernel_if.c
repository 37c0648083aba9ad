/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A kernel's interface whose device is detached (reset, suspended, an error of its bus): ethtool
 * says ENODEV of it, though it is there.
 */
#include <errno.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <linux/sockios.h>

#include "harness.h"
#include "netio/kernel_if.h"

static unsigned asked;

/* In the place of libc's. */
int ioctl(int fd, unsigned long request, ...)
{
	struct ifreq *ifr;
	va_list ap;

	va_start(ap, request);
	ifr = va_arg(ap, struct ifreq *);
	va_end(ap);
	errno = 0;
	switch (request) {
	case SIOCGIFNAME:
		strcpy(ifr->ifr_name, "eth9");
		return 0;
	case SIOCETHTOOL:
		if (++asked > 100000) {
			CU_FAIL_FATAL("asked for ever");
			exit(1);
		}
		errno = ENODEV;
		return -1;
	case SIOCGIFHWADDR:
		ifr->ifr_hwaddr.sa_family = 1;
		return 0;
	case SIOCGIFMTU:
		ifr->ifr_mtu = 1500;
		return 0;
	default:
		errno = EINVAL;
		return -1;
	}
}

static void detached(void)
{
	struct urxe_kernel_if info;
	int bit = -1;

	CU_ASSERT_EQUAL(urxe_kernel_if_query(9, &info), 0);
	CU_ASSERT_EQUAL(info.mtu, 1500);
	CU_ASSERT_EQUAL(info.speed_mbps, 0);
	CU_ASSERT_FALSE(urxe_kernel_if_segments_udp(9, &bit));
	CU_ASSERT(asked < 100);
}

URXE_TEST_MAIN("kernel_if", T(detached))
