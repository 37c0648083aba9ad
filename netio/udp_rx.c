/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the sockets receive becomes frames: the headers, as the kernel tells them, before a copy of
 * the payload. The kernel joins packets of a flow to one message where it can (UDP_GRO); that is
 * cut into packets again. The ICRC is checked along with the copy.
 */
#include "netio/udp.h"

#include <errno.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "netio/link.h"
#include "netio/stack.h"
#include "urxe/cancel.h"

#ifndef UDP_GRO
#define UDP_GRO 104 /* linux/udp.h */
#endif

#define CONTROL 256
#define IDLE	64 /* calls for nothing, after which a socket is asked seldom */
#define SELDOM	16

/** A message that was received, and what is known of it. */
struct udp_msg {
	uint32_t len, seg; /* bytes; of each packet in it, but the last one */
	uint8_t src[16], dst[16];
	uint16_t sport;
	uint8_t tos, ttl;
	bool good;
	_Alignas(16) uint8_t control[CONTROL];
	union {
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} from;
	struct iovec iov;
	uint8_t data[UDP_MOST];
};

/* The messages of a socket, and what the kernel is given for them, which stays as it is. */
struct udp_msgs {
	struct mmsghdr mm[UDP_MSGS];
	struct udp_msg msg[UDP_MSGS];
};

/* For the kernel, which writes over these fields when it has a message. */
static void offer(struct udp_msg *m, struct msghdr *h)
{
	h->msg_namelen = sizeof(m->from);
	h->msg_controllen = sizeof(m->control);
}

int udp_msgs_init(struct udp_sock *s, bool ipv4)
{
	s->ipv4 = ipv4;
	s->ask = 1;
	s->msgs = malloc(sizeof(*s->msgs));
	if (!s->msgs)
		return ENOMEM;
	for (unsigned i = 0; i < UDP_MSGS; i++) {
		struct udp_msg *m = &s->msgs->msg[i];
		struct msghdr *h = &s->msgs->mm[i].msg_hdr;

		m->iov = (struct iovec){.iov_base = m->data, .iov_len = sizeof(m->data)};
		*h = (struct msghdr){.msg_name = &m->from,
				     .msg_iov = &m->iov,
				     .msg_iovlen = 1,
				     .msg_control = m->control};
		offer(m, h);
	}
	return 0;
}

void udp_msgs_fini(struct udp_sock *s)
{
	free(s->msgs);
}

/* ---- what the kernel says of a message ---- */

static void take_control(struct udp_msg *m, const struct cmsghdr *c)
{
	struct in6_pktinfo p6;
	struct in_pktinfo p4;
	int v = 0;

	if (c->cmsg_len >= CMSG_LEN(sizeof(v)))
		memcpy(&v, CMSG_DATA(c), sizeof(v));
	if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
		memcpy(&p4, CMSG_DATA(c), sizeof(p4));
		memcpy(m->dst, &p4.ipi_addr, 4);
		m->good = true;
	} else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
		memcpy(&p6, CMSG_DATA(c), sizeof(p6));
		memcpy(m->dst, &p6.ipi6_addr, 16);
		m->good = true;
	} else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS) {
		m->tos = *CMSG_DATA(c); /* one byte, unlike the others */
	} else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_TCLASS) {
		m->tos = (uint8_t)v;
	} else if ((c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TTL) ||
		   (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_HOPLIMIT)) {
		m->ttl = (uint8_t)v;
	} else if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO && v > 0) {
		m->seg = (uint32_t)v;
	}
}

static void take_msg(struct udp_sock *s, struct udp_msg *m, struct mmsghdr *mm)
{
	struct msghdr *h = &mm->msg_hdr;

	m->len = m->seg = mm->msg_len;
	m->good = false;
	m->tos = 0;
	m->ttl = 64;
	if (h->msg_flags & (MSG_TRUNC | MSG_CTRUNC))
		return;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c; c = CMSG_NXTHDR(h, c))
		take_control(m, c);
	if (s->ipv4) {
		memcpy(m->src, &m->from.v4.sin_addr, 4);
		m->sport = ntohs(m->from.v4.sin_port);
	} else {
		memcpy(m->src, &m->from.v6.sin6_addr, 16);
		m->sport = ntohs(m->from.v6.sin6_port);
	}
}

/*
 * One message where they come one by one: the kernel looks in vain for a second one each time. More
 * as they come without a pause.
 */
static unsigned next_ask(unsigned asked, unsigned got)
{
	if (got < asked)
		return got ? got : 1;
	return 2 * asked < UDP_MSGS ? 2 * asked : UDP_MSGS;
}

static bool fetch(struct udp_sock *s)
{
	struct udp_msgs *all = s->msgs;
	int n, cancel = urxe_cancel_off();

	/* An error that is pending (ICMP) is fetched by that, and of no use: what was sent is lost.
	 */
	n = recvmmsg(s->fd, all->mm, s->ask, MSG_DONTWAIT, NULL);
	urxe_cancel_back(cancel);
	s->num = n > 0 ? (unsigned)n : 0;
	s->at = 0;
	s->off = 0;
	s->nth = 0;
	for (unsigned i = 0; i < s->num; i++) {
		take_msg(s, &all->msg[i], &all->mm[i]);
		offer(&all->msg[i], &all->mm[i].msg_hdr);
	}
	s->ask = next_ask(s->ask, s->num);
	return s->num;
}

/* ---- frames ---- */

static void put_udp(uint8_t *udp, const struct udp_msg *m, uint32_t len)
{
	urxe_put16(udp, m->sport);
	urxe_put16(udp + 2, URXE_UDP_DPORT);
	urxe_put16(udp + 4, (uint16_t)(UDP_LEN + len));
	urxe_put16(udp + 6, 0); /* the kernel has checked it */
}

/* Headers of a packet of @len bytes from the BTH on. Returns the BTH's place. */
static uint8_t *put_head(const struct udp_link *u, const struct udp_sock *s,
			 const struct udp_msg *m, uint8_t *p, uint32_t len)
{
	memcpy(p, u->mac, 6);
	memcpy(p + 6, udp_peer_mac, 6);
	urxe_put16(p + 12, s->ipv4 ? ETHERTYPE_IPV4 : ETHERTYPE_IPV6);
	p += ETH_LEN;
	if (s->ipv4) {
		p[0] = 0x45;
		p[1] = m->tos;
		urxe_put16(p + 2, (uint16_t)(IPV4_LEN + UDP_LEN + len));
		urxe_put32(p + 4, 0x4000); /* identification 0, DF */
		p[8] = m->ttl;
		p[9] = PROTO_UDP;
		urxe_put16(p + 10, 0); /* the kernel has checked it */
		memcpy(p + 12, m->src, 4);
		memcpy(p + 16, m->dst, 4);
		p += IPV4_LEN;
	} else {
		urxe_put32(p, 6u << 28 | (uint32_t)m->tos << 20);
		urxe_put16(p + 4, (uint16_t)(UDP_LEN + len));
		p[6] = PROTO_UDP;
		p[7] = m->ttl;
		memcpy(p + 8, m->src, 16);
		memcpy(p + 24, m->dst, 16);
		p += IPV6_LEN;
	}
	put_udp(p, m, len);
	return p + UDP_LEN;
}

/* The payload, and its ICRC with identification 0. */
static uint32_t copy_sum(const struct udp_sock *s, uint8_t *l3, uint8_t *bth, const uint8_t *from,
			 uint32_t len)
{
	uint32_t sum = len - URXE_ICRC_LEN, crc;

	if (sum <= URXE_ICRC_SHORT) {
		memcpy(bth, from, len);
		return urxe_icrc(l3, s->ipv4, sum);
	}
	memcpy(bth, from, URXE_BTH_LEN);
	crc = urxe_icrc(l3, s->ipv4, URXE_BTH_LEN);
	urxe_icrc_copy(&crc, bth + URXE_BTH_LEN, from + URXE_BTH_LEN, sum - URXE_BTH_LEN);
	memcpy(bth + sum, from + sum, URXE_ICRC_LEN);
	return crc;
}

/* Right as it is, or with an identification that the peer may have sent? */
static bool good_icrc(struct udp_link *u, const struct udp_sock *s, uint8_t *l3, uint32_t diff,
		      uint32_t sum)
{
	uint16_t id = 0;

	if (!s->ipv4)
		return !diff;
	if (diff && !udp_icrc_solve(u, sum, diff, &id))
		return false;
	if (!udp_icrc_trust(u, l3 + 12, id))
		return false;
	urxe_put16(l3 + 4, id);
	return true;
}

/* One packet; false: there is no buffer, and it is lost. */
static bool make_frame(struct udp_link *u, const struct udp_sock *s, const struct udp_msg *m,
		       const uint8_t *from, uint32_t len, struct urxe_frame *f)
{
	uint8_t *l3, *bth;
	uint32_t crc;

	if (!urxe_buf_get(&u->pool, f, 1) || len + UDP_HEAD_V6 > f->room) {
		if (f->buf)
			urxe_buf_put(&u->pool, f);
		atomic_fetch_add(&u->dropped, 1);
		return false;
	}
	l3 = f->data + ETH_LEN;
	bth = put_head(u, s, m, f->data, len);
	f->len = (uint32_t)(bth - f->data) + len;
	f->flags = 0;
	if (len < URXE_BTH_LEN + URXE_ICRC_LEN) {
		memcpy(bth, from, len); /* the stack drops and counts it */
		return true;
	}
	crc = copy_sum(s, l3, bth, from, len);
	if (good_icrc(u, s, l3, crc ^ urxe_icrc_get(bth + len - URXE_ICRC_LEN),
		      len - URXE_ICRC_LEN))
		f->flags = URXE_FRAME_ICRC_OK;
	return true;
}

/* What is left of the message at hand: its next packet, or false: it is done with. */
static bool next_packet(struct udp_sock *s, const struct udp_msg *m, const uint8_t **from,
			uint32_t *len)
{
	if (!m->good || s->off >= m->len)
		return false;
	*from = m->data + s->off;
	*len = m->len - s->off < m->seg ? m->len - s->off : m->seg;
	s->off += *len;
	return true;
}

/* Whoever waits on the sockets sets it to 0, without the lane. */
static void idle(struct udp_sock *s, unsigned n)
{
	atomic_store_explicit(&s->idle, n, memory_order_relaxed);
}

/* Packets of the messages that were fetched. */
static unsigned take_frames(struct udp_link *u, struct udp_sock *s, struct urxe_frame *f,
			    unsigned n)
{
	const uint8_t *from;
	unsigned got = 0;
	uint32_t len;

	while (got < n && s->at < s->num) {
		const struct udp_msg *m = &s->msgs->msg[s->at];

		if (next_packet(s, m, &from, &len)) {
			f[got] = (struct urxe_frame){.buf = NULL};
			got += make_frame(u, s, m, from, len, &f[got]);
		} else {
			if (!m->good)
				atomic_fetch_add(&u->dropped, 1);
			s->at++;
			s->off = 0;
		}
	}
	return got;
}

static unsigned rx_sock(struct udp_link *u, struct udp_sock *s, struct urxe_frame *f, unsigned n)
{
	unsigned got = 0;

	if (s->fd < 0 || (s->at == s->num && !fetch(s))) {
		idle(s, atomic_load_explicit(&s->idle, memory_order_relaxed) + 1);
		return 0;
	}
	idle(s, 0);
	/* A message may have no packet: whoever gets none takes it that no more have come. */
	for (unsigned i = 0; i < UDP_MSGS && !got; i++) {
		got = take_frames(u, s, f, n);
		if (!got && !fetch(s))
			break;
	}
	return got;
}

unsigned udp_rx(struct udp_link *u, struct urxe_frame *f, unsigned n)
{
	unsigned got = 0;

	u->turn++;
	for (unsigned i = 0; i < 2 && got < n; i++) {
		struct udp_sock *s = &u->sock[i];

		/* A family that nobody uses is not worth a system call each time. */
		if (atomic_load_explicit(&s->idle, memory_order_relaxed) < IDLE ||
		    !(u->turn % SELDOM))
			got += rx_sock(u, s, f + got, n - got);
	}
	return got;
}
