/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The link that is the kernel's UDP: a socket on port 4791 for each family. No privilege, no
 * neighbours (the kernel routes), no interface of ours. Frames are made and taken apart in udp_rx.c
 * and udp_tx.c.
 */
#include "netio/link_udp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "netio/clock.h"
#include "netio/config.h"
#include "netio/devargs.h"
#include "netio/link.h"
#include "netio/stack.h"
#include "netio/udp.h"
#include "netio/udp_holder.h"
#include "urxe/log.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103 /* linux/udp.h */
#define UDP_GRO	    104
#endif
#ifndef UDP_NO_CHECK6_RX
#define UDP_NO_CHECK6_RX 102
#endif

#define SOCKET_BUFFER (8 << 20) /* as much of it as net.core.rmem_max and wmem_max let us have */

/* ---- configuration ---- */

bool urxe_udp_port(const char *port)
{
	return !strncmp(port, "udp", 3) && (!port[3] || port[3] == ',');
}

static bool read_bind(const char *port, struct urxe_config_ip *ip)
{
	char text[64];
	uint8_t v4[4];

	if (!urxe_devargs_get(port, "bind", text, sizeof(text)))
		return false;
	if (inet_pton(AF_INET, text, v4) == 1)
		urxe_gid_from_v4(ip->gid, v4);
	else if (inet_pton(AF_INET6, text, ip->gid) != 1)
		return false;
	ip->ipv4 = urxe_gid_is_v4(ip->gid);
	ip->prefix_len = ip->ipv4 ? 32 : 128;
	return true;
}

void urxe_udp_defaults(struct urxe_port_config *cfg)
{
	if (!urxe_devargs_get(cfg->port, "if", cfg->host_if, sizeof(cfg->host_if)))
		cfg->host_if[0] = 0;
	if (cfg->num_ips)
		return;
	if (read_bind(cfg->port, &cfg->ips[0]))
		cfg->num_ips = 1;
	else
		cfg->host = true;
}

/* bind= and ip mean the same; urxe_udp_defaults() makes the one of the other. */
static bool has_others(const struct urxe_port_config *cfg, const struct urxe_config_ip *ip)
{
	return cfg->num_ips > 1 || (cfg->num_ips && memcmp(cfg->ips[0].gid, ip->gid, 16));
}

/* Each argument is one of ours. */
static bool args_known(const char *port)
{
	for (const char *p = strchr(port, ','); p; p = strchr(p + 1, ',')) {
		if (strncmp(p, ",if=", 4) && strncmp(p, ",bind=", 6))
			return false;
	}
	return true;
}

int urxe_udp_check(const struct urxe_port_config *cfg, char *err, size_t errlen)
{
	struct urxe_config_ip ip = {.ipv4 = false};
	char text[64] = "";
	const char *what = NULL;

	if (!args_known(cfg->port))
		what = "udp[,if=INTERFACE][,bind=ADDRESS]";
	else if (urxe_devargs_get(cfg->port, "bind", text, sizeof(text)) &&
		 (!read_bind(cfg->port, &ip) || !urxe_config_ip_valid(&ip)))
		what = "bind= of a unicast IPv4 or IPv6 address of this host";
	else if (text[0] && has_others(cfg, &ip))
		what = "bind=, or other addresses by ip, not both";
	else if (urxe_devargs_get(cfg->port, "if", text, sizeof(text)) && !if_nametoindex(text))
		what = "if= of an interface that is there";
	if (what) {
		snprintf(err, errlen, "%s: port: found '%s', accepted: %s", cfg->name, cfg->port,
			 what);
		return EINVAL;
	}
	if (cfg->vlan != URXE_NO_VLAN || cfg->has_mac || cfg->has_gw4 || cfg->has_gw6 ||
	    cfg->queues > 1) {
		snprintf(err, errlen,
			 "%s: %s: found with udp, accepted: none, for that is the kernel's",
			 cfg->name,
			 cfg->vlan != URXE_NO_VLAN ? "vlan"
			 : cfg->has_mac		   ? "mac"
			 : cfg->queues > 1	   ? "queues"
						   : "gw");
		return EINVAL;
	}
	return 0;
}

/* ---- sockets ---- */

struct option {
	int level, name, value;
	bool needed;
};

static const struct option options_v4[] = {
	/* No fragments: the header that the ICRC covers has identification 0 then. */
	{IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO, true},
	{IPPROTO_IP, IP_PKTINFO, 1, true},
	{IPPROTO_IP, IP_RECVTOS, 1, true},
	{IPPROTO_IP, IP_RECVTTL, 1, true},
	{IPPROTO_IP, IP_MULTICAST_LOOP, 0, false}, /* the stack does that */
	{IPPROTO_IP, IP_MULTICAST_ALL, 0, false},
};

static const struct option options_v6[] = {
	{IPPROTO_IPV6, IPV6_V6ONLY, 1, true},
	{IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO, true},
	{IPPROTO_IPV6, IPV6_RECVPKTINFO, 1, true},
	{IPPROTO_IPV6, IPV6_RECVTCLASS, 1, true},
	{IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1, true},
	{IPPROTO_IPV6, IPV6_MULTICAST_LOOP, 0, false},
	/* Adapters and Soft-RoCE make no checksum (RFC 6935): the ICRC covers more. */
	{SOL_UDP, UDP_NO_CHECK6_RX, 1, false},
};

static int set_options(int fd, const struct option *o, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (setsockopt(fd, o[i].level, o[i].name, &o[i].value, sizeof(o[i].value)) &&
		    o[i].needed)
			return errno;
	}
	return 0;
}

static void set_buffer(int fd, int force, int plain)
{
	int size = SOCKET_BUFFER;

	/* CAP_NET_ADMIN may have more than the limit. */
	if (setsockopt(fd, SOL_SOCKET, force, &size, sizeof(size)))
		(void)setsockopt(fd, SOL_SOCKET, plain, &size, sizeof(size));
}

/* The one address of a family that is configured; false: it has several. */
static bool one_address(const struct urxe_port_config *cfg, bool ipv4, const uint8_t **gid)
{
	unsigned n = 0;

	*gid = NULL;
	for (unsigned i = 0; i < cfg->num_ips; i++) {
		if (cfg->ips[i].ipv4 == ipv4) {
			*gid = cfg->ips[i].gid;
			n++;
		}
	}
	return n == 1;
}

static int bind_sock(struct udp_link *u, int fd, const struct urxe_port_config *cfg, bool ipv4)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(URXE_UDP_DPORT)};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(URXE_UDP_DPORT)};
	struct udp_sock *s = &u->sock[ipv4 ? 0 : 1];
	const uint8_t *gid;

	s->one_address = one_address(cfg, ipv4, &gid);
	if (s->one_address) {
		memcpy(s->address, gid, 16);
		memcpy(&v4.sin_addr, gid + 12, 4);
		memcpy(&v6.sin6_addr, gid, 16);
		if (cfg->host_if[0])
			v6.sin6_scope_id = if_nametoindex(cfg->host_if);
	}
	if (bind(fd, ipv4 ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6,
		 ipv4 ? sizeof(v4) : sizeof(v6)))
		return errno;
	return 0;
}

static int open_sock(struct udp_link *u, bool ipv4, const struct urxe_port_config *cfg)
{
	struct udp_sock *s = &u->sock[ipv4 ? 0 : 1];
	int one = 1, none = 0, ret;

	s->fd = socket(ipv4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (s->fd < 0)
		return errno;
	ret = udp_msgs_init(s, ipv4);
	if (!ret)
		ret = ipv4 ? set_options(s->fd, options_v4,
					 sizeof(options_v4) / sizeof(options_v4[0]))
			   : set_options(s->fd, options_v6,
					 sizeof(options_v6) / sizeof(options_v6[0]));
	if (!ret && cfg->host_if[0] &&
	    setsockopt(s->fd, SOL_SOCKET, SO_BINDTODEVICE, cfg->host_if,
		       (socklen_t)strlen(cfg->host_if)))
		ret = errno;
	if (ret)
		return ret;
	set_buffer(s->fd, SO_RCVBUFFORCE, SO_RCVBUF);
	set_buffer(s->fd, SO_SNDBUFFORCE, SO_SNDBUF);
	/* Linux 4.18 and 5.0; without them each packet is a message. */
	(void)setsockopt(s->fd, SOL_UDP, UDP_GRO, &one, sizeof(one));
	s->gso = !setsockopt(s->fd, SOL_UDP, UDP_SEGMENT, &none, sizeof(none));
	return bind_sock(u, s->fd, cfg, ipv4);
}

static bool wants(const struct urxe_port_config *cfg, bool ipv4)
{
	const uint8_t *gid;

	one_address(cfg, ipv4, &gid);
	return cfg->host || gid;
}

static void release(struct udp_link *u)
{
	for (unsigned i = 0; i < 2; i++) {
		if (u->sock[i].fd >= 0)
			close(u->sock[i].fd);
		udp_msgs_fini(&u->sock[i]);
	}
	urxe_buf_fini(&u->pool);
	free(u);
}

static int open_socks(struct udp_link *u, const struct urxe_port_config *cfg)
{
	int ret = 0, opened = 0;

	for (unsigned i = 0; i < 2 && !ret; i++) {
		if (!wants(cfg, !i))
			continue;
		ret = open_sock(u, !i, cfg);
		if (ret == EAFNOSUPPORT && cfg->host)
			ret = 0; /* a kernel without it has no such address */
		else
			opened++;
	}
	return ret ? ret : opened ? 0 : EAFNOSUPPORT;
}

/* Who has the port, and what is to be done. */
static void tell_holder(char *to, size_t len)
{
	struct urxe_udp_holder h;

	if (!urxe_udp_holder(&h))
		snprintf(to, len, ": another program has UDP port 4791");
	else if (h.kernel)
		snprintf(to, len,
			 ": the kernel's Soft-RoCE has UDP port 4791: "
			 "`modprobe -r rdma_rxe` frees it");
	else if (h.pid && !strcmp(h.comm, "urxed") && h.uid == geteuid())
		snprintf(to, len,
			 ": urxed (process %d) has UDP port 4791, and leads those on the "
			 "fabric outside: use that (`urxe run -- COMMAND`)",
			 (int)h.pid);
	else if (h.pid)
		snprintf(to, len,
			 ": process %d (%s, of user %s) has UDP port 4791; processes "
			 "share it through urxed(1)",
			 (int)h.pid, h.comm, h.user);
	else
		snprintf(to, len,
			 ": a process of user %s has UDP port 4791; by urxed(1) users of a "
			 "group share it, in a folder of theirs",
			 h.user);
}

static void advice(int err, char *to, size_t len)
{
	to[0] = '\0';
	if (err == EADDRINUSE)
		tell_holder(to, len);
	else if (err == EADDRNOTAVAIL)
		snprintf(to, len,
			 ": the kernel has no such address: udp has those of the host alone");
}

static int udp_open(void *arg, const struct urxe_port_config *cfg, const uint8_t mac[6],
		    uint32_t l3_mtu, void **link, struct urxe_link_info *info)
{
	struct udp_link *u = calloc(1, sizeof(*u));
	char what[256];
	int ret;

	if (!u)
		return ENOMEM;
	u->sock[0].fd = u->sock[1].fd = -1;
	snprintf(u->name, sizeof(u->name), "%s", cfg->name);
	memcpy(u->mac, mac, 6);
	u->pool.room = l3_mtu + ETH_LEN + IPV6_LEN;
	ret = open_socks(u, cfg);
	if (ret) {
		advice(ret, what, sizeof(what));
		urxe_err("%s: cannot start port '%s': %s%s", cfg->name, cfg->port, strerror(ret),
			 what);
		release(u);
		return ret;
	}
	snprintf(info->driver, sizeof(info->driver), "udp%s", u->sock[0].gso ? "" : " (no GSO)");
	memcpy(info->mac, mac, 6);
	info->max_l3_mtu = l3_mtu;
	info->lanes = 1;
	info->tx_offloads = info->rx_offloads = URXE_OFFLOAD_IPV4_CSUM;
	*link = u;
	return 0;
}

/* ---- the rest ---- */

static unsigned link_alloc(void *link, unsigned lane, struct urxe_frame *f, unsigned n)
{
	struct udp_link *u = link;

	return urxe_buf_get(&u->pool, f, n);
}

static void link_free(void *link, unsigned lane, struct urxe_frame *f, unsigned n)
{
	struct udp_link *u = link;

	for (unsigned i = 0; i < n; i++)
		urxe_buf_put(&u->pool, &f[i]);
}

static unsigned link_rx(void *link, unsigned lane, struct urxe_frame *f, unsigned n)
{
	return udp_rx(link, f, n);
}

static unsigned link_tx(void *link, unsigned lane, struct urxe_frame *f, unsigned n)
{
	return udp_tx(link, f, n);
}

static bool link_up(void *link)
{
	return true;
}

/*
 * Sleeps until @wake_fd or one of our sockets is readable; these, if frames are to end it. A
 * family that has been silent is asked each time again once the kernel has something of it.
 */
static void link_sleep(struct udp_link *u, uint64_t ns, int wake_fd, struct urxe_sleep *how)
{
	struct pollfd fds[3] = {{.fd = wake_fd, .events = POLLIN}};
	struct udp_sock *sock[3];
	nfds_t n = 1;

	for (unsigned i = 0; how->interrupt && i < 2; i++) {
		if (u->sock[i].fd < 0)
			continue;
		sock[n] = &u->sock[i];
		fds[n++] = (struct pollfd){.fd = u->sock[i].fd, .events = POLLIN};
	}
	urxe_sleep_poll(how, fds, n, ns);
	for (nfds_t i = 1; i < n; i++) {
		if (fds[i].revents)
			atomic_store_explicit(&sock[i]->idle, 0, memory_order_relaxed);
	}
	how->interrupt = n > 1;
}

static void link_wait(void *link, uint64_t ns, int wake_fd, struct urxe_sleep *how)
{
	link_sleep(link, ns, wake_fd, how);
}

static void link_nap(void *link, uint64_t ns)
{
	struct urxe_sleep how = {.interrupt = true};

	link_sleep(link, ns, -1, &how);
}

/* Whoever is not here is behind the kernel, which knows more. */
static int link_resolve(void *link, const uint8_t gid[16], uint8_t mac[6])
{
	struct udp_link *u = link;

	if (u->sock[urxe_gid_is_v4(gid) ? 0 : 1].fd < 0)
		return EHOSTUNREACH;
	memcpy(mac, udp_peer_mac, 6);
	return 0;
}

/* What comes to an address reaches its socket, or the address is of no use. */
static int link_addr(void *link, bool add, const uint8_t gid[16])
{
	const struct udp_link *u = link;
	const struct udp_sock *s = &u->sock[urxe_gid_is_v4(gid) ? 0 : 1];
	char buf[URXE_GID_STRLEN];

	if (!add || (s->fd >= 0 && (!s->one_address || !memcmp(s->address, gid, 16))))
		return 0;
	urxe_err("%s: address %s cannot be added: the port began with %s, and has a socket for no "
		 "other; give all addresses at the start",
		 u->name, urxe_gid_print(gid, buf, sizeof(buf)),
		 s->fd < 0 ? "none of its family" : "one of its family");
	return EADDRNOTAVAIL;
}

static int link_group(void *link, const uint8_t gid[16], bool join)
{
	struct udp_link *u = link;
	bool ipv4 = urxe_gid_is_v4(gid);
	struct ip_mreqn m4 = {.imr_ifindex = 0};
	struct ipv6_mreq m6 = {.ipv6mr_interface = 0};
	int fd = u->sock[ipv4 ? 0 : 1].fd, ret;

	if (fd < 0)
		return EAFNOSUPPORT;
	if (u->sock[ipv4 ? 0 : 1].one_address)
		return EOPNOTSUPP;
	memcpy(&m4.imr_multiaddr, gid + 12, 4);
	memcpy(&m6.ipv6mr_multiaddr, gid, 16);
	if (ipv4)
		ret = setsockopt(fd, IPPROTO_IP, join ? IP_ADD_MEMBERSHIP : IP_DROP_MEMBERSHIP, &m4,
				 sizeof(m4));
	else
		ret = setsockopt(fd, IPPROTO_IPV6, join ? IPV6_JOIN_GROUP : IPV6_LEAVE_GROUP, &m6,
				 sizeof(m6));
	return ret && errno != EADDRINUSE ? errno : 0;
}

/* What the sockets had no room for, and what we had none for. */
static uint64_t link_dropped(void *link)
{
	struct udp_link *u = link;
	uint64_t n = atomic_load(&u->dropped);
	uint32_t info[16];
	socklen_t len;

	for (unsigned i = 0; i < 2; i++) {
		len = sizeof(info);
		if (u->sock[i].fd >= 0 &&
		    !getsockopt(u->sock[i].fd, SOL_SOCKET, SO_MEMINFO, info, &len) &&
		    len > 8 * sizeof(info[0]))
			n += info[8]; /* SK_MEMINFO_DROPS */
	}
	return n;
}

static uint64_t link_refused(void *link)
{
	struct udp_link *u = link;

	return atomic_load(&u->refused);
}

static void link_close(void *link)
{
	release(link);
}

const struct urxe_link_ops urxe_link_udp_ops = {
	.name = "udp",
	.prompt = true,
	.routes = true,
	.udp_sport = URXE_UDP_DPORT,
	.burst = UDP_BURST,
	.open = udp_open,
	.close = link_close,
	.alloc = link_alloc,
	.free = link_free,
	.rx = link_rx,
	.tx = link_tx,
	.up = link_up,
	.addr = link_addr,
	.group = link_group,
	.dropped = link_dropped,
	.refused = link_refused,
	.wait = link_wait,
	.nap = link_nap,
	.resolve = link_resolve,
	.way_mtu = udp_way_mtu,
	.now = urxe_clock_now,
};
