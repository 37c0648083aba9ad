/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Frames become datagrams: what is behind the UDP header is the message, and what the headers say
 * the kernel is told. Packets of a flow that are of one length go as one message, of which the
 * kernel makes packets again (UDP_SEGMENT); where such a message meets a socket of ours, nobody
 * ever does. The n-th of them gets n as identification, and so its ICRC is changed.
 */
#include "netio/udp.h"

#include <errno.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "netio/clock.h"
#include "netio/link.h"
#include "netio/stack.h"
#include "urxe/cancel.h"
#include "urxe/log.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103 /* linux/udp.h */
#endif

#define WARN_INTERVAL (10 * URXE_SEC)
#define ALL_SEGMENTS  65400 /* bytes of a message: with its headers below 64 KiB */
#define CONTROL	      128

const uint8_t udp_peer_mac[6] = {0x02, 'u', 'd', 'p', 0, 1};

/* A message for the kernel: frames [first, first + num). */
struct out {
	unsigned first, num;
	uint32_t seg; /* bytes of each but the last */
	uint32_t total;
	_Alignas(16) uint8_t control[CONTROL];
	union {
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} to;
};

struct batch {
	struct urxe_frame *f;
	struct udp_sock *sock;
	unsigned num;
	bool sent; /* the kernel has taken the first of them */
	struct out out[UDP_BURST];
	struct mmsghdr mm[UDP_BURST];
	struct iovec iov[UDP_BURST];
};

/* ---- frames ---- */

static uint32_t bth_at(bool ipv4)
{
	return ipv4 ? UDP_HEAD_V4 : UDP_HEAD_V6;
}

/* RoCEv2? All else that the stack sends (ARP, ND, group reports, ICMP) the kernel does itself. */
static bool carried(const struct urxe_frame *f, bool *ipv4)
{
	uint32_t bth = urxe_frame_roce(f);

	*ipv4 = bth == UDP_HEAD_V4;
	return bth == UDP_HEAD_V4 || bth == UDP_HEAD_V6;
}

static uint32_t payload(const struct urxe_frame *f, bool ipv4)
{
	return f->len - bth_at(ipv4);
}

/* By all that the kernel is told once a message. */
static bool same_flow(const struct urxe_frame *a, const struct urxe_frame *b, bool ipv4)
{
	const uint8_t *p = a->data + ETH_LEN, *q = b->data + ETH_LEN;

	if (memcmp(a->data + 12, b->data + 12, 2))
		return false;
	if (ipv4)
		return p[1] == q[1] && p[8] == q[8] && !memcmp(p + 12, q + 12, 8);
	return !memcmp(p, q, 4) && p[7] == q[7] && !memcmp(p + 8, q + 8, 32);
}

/* The ICRC of a packet that gets the identification @nth. Twice: as it was. */
static void change_icrc(struct udp_link *u, const struct urxe_frame *f, unsigned nth)
{
	uint32_t len = payload(f, true) - URXE_ICRC_LEN;
	uint8_t *icrc = f->data + f->len - URXE_ICRC_LEN;

	urxe_icrc_put(icrc, urxe_icrc_get(icrc) ^ udp_icrc_of_id(u, len, (uint16_t)nth));
}

static void change_icrcs(struct udp_link *u, const struct batch *b, const struct out *o)
{
	if (!b->sock->ipv4)
		return;
	for (unsigned i = 1; i < o->num; i++)
		change_icrc(u, &b->f[o->first + i], i);
}

/* ---- what the kernel is told ---- */

static size_t add(struct out *o, size_t at, int level, int type, const void *data, size_t len)
{
	struct cmsghdr *c = (struct cmsghdr *)(void *)(o->control + at);

	c->cmsg_level = level;
	c->cmsg_type = type;
	c->cmsg_len = CMSG_LEN(len);
	memcpy(CMSG_DATA(c), data, len);
	return at + CMSG_SPACE(len);
}

static size_t tell_v4(struct out *o, const uint8_t *l3)
{
	struct in_pktinfo info = {.ipi_ifindex = 0};
	int tos = l3[1], ttl = l3[8];
	size_t at;

	o->to.v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(URXE_UDP_DPORT)};
	memcpy(&o->to.v4.sin_addr, l3 + 16, 4);
	memcpy(&info.ipi_spec_dst, l3 + 12, 4);
	at = add(o, 0, IPPROTO_IP, IP_PKTINFO, &info, sizeof(info));
	at = add(o, at, IPPROTO_IP, IP_TOS, &tos, sizeof(tos));
	return add(o, at, IPPROTO_IP, IP_TTL, &ttl, sizeof(ttl));
}

static size_t tell_v6(struct out *o, const uint8_t *l3)
{
	struct in6_pktinfo info = {.ipi6_ifindex = 0};
	int tos = (int)(urxe_get32(l3) >> 20 & 0xff), hops = l3[7];
	size_t at;

	o->to.v6 =
		(struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(URXE_UDP_DPORT)};
	memcpy(&o->to.v6.sin6_addr, l3 + 24, 16);
	memcpy(&info.ipi6_addr, l3 + 8, 16);
	if (udp_link_local(l3 + 24))
		o->to.v6.sin6_scope_id = info.ipi6_ifindex = udp_interface_of(l3 + 8);
	at = add(o, 0, IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof(info));
	at = add(o, at, IPPROTO_IPV6, IPV6_TCLASS, &tos, sizeof(tos));
	return add(o, at, IPPROTO_IPV6, IPV6_HOPLIMIT, &hops, sizeof(hops));
}

static void tell(struct batch *b, unsigned i)
{
	struct out *o = &b->out[i];
	const uint8_t *l3 = b->f[o->first].data + ETH_LEN;
	struct msghdr *h = &b->mm[i].msg_hdr;
	uint16_t seg = (uint16_t)o->seg;
	size_t at;

	memset(o->control, 0, sizeof(o->control));
	at = b->sock->ipv4 ? tell_v4(o, l3) : tell_v6(o, l3);
	if (o->num > 1)
		at = add(o, at, SOL_UDP, UDP_SEGMENT, &seg, sizeof(seg));
	*h = (struct msghdr){.msg_name = &o->to,
			     .msg_namelen = b->sock->ipv4 ? sizeof(o->to.v4) : sizeof(o->to.v6),
			     .msg_iov = &b->iov[o->first],
			     .msg_iovlen = o->num,
			     .msg_control = o->control,
			     .msg_controllen = at};
}

/* ---- messages ---- */

static bool joins(const struct batch *b, const struct out *o, const struct urxe_frame *f, bool ipv4)
{
	uint32_t len = payload(f, ipv4);

	/* A shorter one is the last. */
	return o->num < UDP_SEGS && o->total == o->num * o->seg && len <= o->seg &&
	       o->total + len <= ALL_SEGMENTS && same_flow(&b->f[o->first], f, ipv4);
}

/* As many of @n frames as one call takes: those of a family. What is not carried ends it. @split:
 * none of them joins another. */
static unsigned gather(struct udp_link *u, struct batch *b, struct urxe_frame *f, unsigned n,
		       bool split)
{
	bool ipv4, first_ipv4 = false;
	unsigned i;

	b->f = f;
	b->num = 0;
	for (i = 0; i < n && i < UDP_BURST; i++) {
		struct out *o = b->num ? &b->out[b->num - 1] : NULL;

		if (!carried(&f[i], &ipv4) || (i && ipv4 != first_ipv4))
			break;
		first_ipv4 = ipv4;
		b->iov[i] = (struct iovec){.iov_base = f[i].data + bth_at(ipv4),
					   .iov_len = payload(&f[i], ipv4)};
		if (!o || split || !u->sock[ipv4 ? 0 : 1].gso || !joins(b, o, &f[i], ipv4)) {
			o = &b->out[b->num++];
			o->first = i;
			o->num = 0;
			o->seg = payload(&f[i], ipv4);
			o->total = 0;
		}
		o->num++;
		o->total += payload(&f[i], ipv4);
	}
	b->sock = &u->sock[first_ipv4 ? 0 : 1];
	return i;
}

/* ---- what the kernel does not take ---- */

static void report(struct udp_link *u, const struct batch *b, const struct out *o, int err)
{
	uint64_t now = urxe_clock_now(NULL), last = atomic_load(&u->warned);
	const uint8_t *l3 = b->f[o->first].data + ETH_LEN;
	char buf[URXE_GID_STRLEN];
	uint8_t gid[16];

	if (last && now - last < WARN_INTERVAL)
		return;
	atomic_store(&u->warned, now);
	if (b->sock->ipv4)
		urxe_gid_from_v4(gid, l3 + 16);
	else
		memcpy(gid, l3 + 24, 16);
	urxe_gid_print(gid, buf, sizeof(buf));
	if (err == EMSGSIZE)
		urxe_warn("%s: the path to %s carries less than an IP packet of %zu bytes: lower "
			  "--mtu on both sides",
			  u->name, buf, (size_t)(b->f[o->first].len - ETH_LEN));
	else
		urxe_warn("%s: not sent to %s: %s", u->name, buf, strerror(err));
}

/* An error of the first message that was not sent. True: it is done with, it can never be sent;
 * false: later, or @split: at once, one by one. */
static bool refused(struct udp_link *u, struct batch *b, const struct out *o, int err,
		    unsigned *split)
{
	switch (err) {
	case EAGAIN:
	case ENOBUFS:
	case ENOMEM:
	case EINTR:
		return false;
	case EIO:
	case EINVAL:
	case EOPNOTSUPP:
		/* A device that cannot sum what it sends takes no segments; or it is this flow
		 * alone: its source has gone, its path takes less. */
		if (o->num > 1) {
			*split = o->num;
			return false;
		}
		break;
	default:
		break;
	}
	atomic_fetch_add(&u->refused, o->num);
	report(u, b, o, err);
	return true;
}

/* Sends what was gathered; returns how many frames are done with. */
static unsigned send_batch(struct udp_link *u, struct batch *b, unsigned *split)
{
	unsigned done = 0;
	int k, cancel;

	*split = 0;
	b->sent = false;
	for (unsigned i = 0; i < b->num; i++) {
		tell(b, i);
		change_icrcs(u, b, &b->out[i]);
	}
	while (done < b->num) {
		cancel = urxe_cancel_off();
		k = sendmmsg(b->sock->fd, b->mm + done, b->num - done, MSG_DONTWAIT);
		urxe_cancel_back(cancel);
		if (k > 0) {
			b->sent |= !done;
			done += (unsigned)k;
			continue;
		}
		if (!refused(u, b, &b->out[done], errno, split))
			break;
		done++;
	}
	for (unsigned i = done; i < b->num; i++)
		change_icrcs(u, b, &b->out[i]);
	return done < b->num ? b->out[done].first
			     : b->out[b->num - 1].first + b->out[b->num - 1].num;
}

unsigned udp_tx(struct udp_link *u, struct urxe_frame *f, unsigned n)
{
	struct batch b;
	unsigned done = 0, split = 0, was, k;

	while (done < n) {
		was = split;
		k = gather(u, &b, f + done, was ? was : n - done, was);
		if (!k) {
			done++; /* not for us */
			continue;
		}
		if (b.sock->fd >= 0)
			k = send_batch(u, &b, &split);
		if (was && b.sock->fd >= 0 && b.sent && b.sock->gso) {
			urxe_info("%s: UDP without segmentation", u->name);
			b.sock->gso = false;
		}
		done += k;
		if (b.sock->fd >= 0 && !split &&
		    (!k || k < b.out[b.num - 1].first + b.out[b.num - 1].num))
			break;
	}
	for (unsigned i = 0; i < done; i++)
		urxe_buf_put(&u->pool, &f[i]);
	return done;
}
