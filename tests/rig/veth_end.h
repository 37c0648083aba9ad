/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A veth pair in a network of our own, and links of packet sockets at its ends.
 */
#ifndef URXE_TEST_VETH_END_H
#define URXE_TEST_VETH_END_H

#include "ethdev_end.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/socket.h>

#define MTU 1024

static bool own_network; /* veth_setup() could make one */

static const char port_a[] = "net_af_packet0,iface=urxea", port_b[] = "net_af_packet1,iface=urxeb";

static inline bool ip(const char *args)
{
	char cmd[200];

	snprintf(cmd, sizeof(cmd), "ip link %s >/dev/null 2>&1", args);
	return !system(cmd);
}

static inline bool wire(void)
{
	if (own_network && ip("add urxea type veth peer name urxeb") &&
	    ip("set urxea mtu 9000 up") && ip("set urxeb mtu 9000 up"))
		return true;
	printf("skipped: no network namespace of our own ");
	return false;
}

static inline bool ends_open(struct end *a, struct end *b, const char *more_b)
{
	char port[128];

	if (!wire())
		return false;
	snprintf(port, sizeof(port), "%s%s", port_b, more_b);
	CU_ASSERT_EQUAL_FATAL(end_open(a, port_a, MTU), 0);
	CU_ASSERT_EQUAL_FATAL(end_open(b, port, MTU), 0);
	CU_ASSERT_TRUE_FATAL(both_up(a, b));
	/* Not all that is sent here is RoCEv2. */
	a->ops->everything(a->link, true);
	b->ops->everything(b->link, true);
	return true;
}

/* A socket that sees each thing that the kernel carries to an interface. */
static inline int peek(const char *at_if)
{
	struct sockaddr_ll at = {.sll_family = AF_PACKET,
				 .sll_protocol = htons(ETH_P_ALL),
				 .sll_ifindex = (int)if_nametoindex(at_if)};
	int fd = socket(AF_PACKET, SOCK_RAW, 0), bytes = 4 << 20;

	CU_ASSERT_EQUAL_FATAL(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes));
	return fd;
}

static inline void ends_close(struct end *a, struct end *b)
{
	end_close(a);
	end_close(b);
	CU_ASSERT(ip("del urxea"));
}

/* The first of a program's tests. */
static inline void veth_setup(void)
{
	FILE *quiet;
	cpu_set_t one;

	/* The kernel keeps the order of what one processor sends. */
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	sched_setaffinity(0, sizeof(one), &one);
	urxe_log_set_level(URXE_LOG_NONE);
	/* Before the first thread: all are to live in it. */
	own_network = !unshare(CLONE_NEWNET);
	/* The kernel is to send nothing of its own on interfaces that come. */
	quiet = own_network ? fopen("/proc/sys/net/ipv6/conf/default/disable_ipv6", "we") : NULL;
	if (quiet) {
		fputs("1", quiet);
		fclose(quiet);
	}
}

#endif
