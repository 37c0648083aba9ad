/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Received frames are used where the kernel put them, in the ring that we share with it. A run, of
 * which the ring has the beginning alone, is fetched from the socket's queue, right into the
 * buffers of as many frames as it has packets, with the headers that each would have had.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#include "netio/packet.h"
#include "netio/stack.h"
#include "urxe/cancel.h"

#define HEAD_MOST (ETH_LEN + VLAN_LEN + IPV6_LEN + UDP_LEN)

/* ---- a frame in its slot ---- */

/* The kernel has taken the tag out; there is room before the frame to put it back. */
static void restore_tag(struct urxe_frame *f, const struct tpacket2_hdr *h)
{
	uint16_t tpid = h->tp_status & TP_STATUS_VLAN_TPID_VALID ? h->tp_vlan_tpid : 0x8100;

	memmove(f->data - 4, f->data, 12);
	f->data -= 4;
	f->len += 4;
	f->data[12] = (uint8_t)(tpid >> 8);
	f->data[13] = (uint8_t)tpid;
	f->data[14] = (uint8_t)(h->tp_vlan_tci >> 8);
	f->data[15] = (uint8_t)h->tp_vlan_tci;
}

/* A frame that is too long loses its tail: the stack counts it as cut off. */
static void take_slot(struct tpacket2_hdr *h, struct urxe_frame *f)
{
	uint32_t bth;

	*f = (struct urxe_frame){.data = (uint8_t *)h + h->tp_mac, .len = h->tp_snaplen, .buf = h};
	if (h->tp_status & TP_STATUS_VLAN_VALID)
		restore_tag(f, h);
	/* From a socket of this machine: the sum was left to a device that it never met. */
	if (h->tp_status & TP_STATUS_CSUMNOTREADY) {
		bth = urxe_frame_roce(f);
		if (bth)
			urxe_put16(f->data + bth - 2, 0);
	}
	f->room = f->len;
}

/* ---- runs ---- */

/* What a run's slot says of it. */
struct run_head {
	uint8_t head[HEAD_MOST]; /* with its tag, if it has one */
	uint32_t head_len, bth;	 /* bytes before the BTH: so, and as it is received */
	uint32_t total, seg;	 /* bytes behind, of all and of each packet but the last */
	bool ipv4, queued;
	bool cut;	     /* the queue had no room for the rest */
	const uint8_t *data; /* of what fits in the slot */
};

static unsigned packets_of(const struct run_head *s)
{
	return (s->total + s->seg - 1) / s->seg;
}

static const struct virtio_net_hdr *what_of(const struct tpacket2_hdr *h)
{
	return (const void *)((const uint8_t *)h + h->tp_mac - sizeof(struct virtio_net_hdr));
}

/* Is the frame @f of slot @h the beginning of a run, @what it is, that we can cut up? */
static bool read_head(const struct tpacket2_hdr *h, const struct urxe_frame *f,
		      const struct virtio_net_hdr *what, struct run_head *s)
{
	s->queued = h->tp_status & TP_STATUS_COPY;
	s->head_len = urxe_frame_roce(f);
	s->cut = !s->queued && h->tp_len > h->tp_snaplen;
	if (!s->head_len || what->gso_type != VIRTIO_NET_HDR_GSO_UDP_L4 || !what->gso_size)
		return false;
	memcpy(s->head, f->data, s->head_len);
	s->bth = s->head_len - (f->len - h->tp_snaplen);
	s->total = h->tp_len - s->bth;
	s->seg = what->gso_size;
	s->data = (const uint8_t *)h + h->tp_mac;
	s->ipv4 = s->head_len == ETH_LEN + IPV4_LEN + UDP_LEN ||
		  s->head_len == ETH_LEN + VLAN_LEN + IPV4_LEN + UDP_LEN;
	return packets_of(s) <= PACKET_RUN_MOST;
}

/* The headers of the run's @nth packet, of @len bytes from the BTH on. */
static void put_head(const struct run_head *s, unsigned nth, uint32_t len, uint8_t *to)
{
	uint8_t *udp = to + s->head_len - UDP_LEN, *l3 = udp - (s->ipv4 ? IPV4_LEN : IPV6_LEN);

	memcpy(to, s->head, s->head_len);
	urxe_put16(udp + 6, 0);
	if (s->ipv4)
		urxe_put16(l3 + 4, (uint16_t)(urxe_get16(l3 + 4) + nth));
	packet_put_lengths(l3, s->ipv4, len);
}

/* Whatever is next in the socket's queue. @num: of @iov, or 0: it is thrown away. */
static ssize_t fetch(int fd, struct iovec *iov, unsigned num)
{
	struct virtio_net_hdr none;
	struct iovec some = {.iov_base = &none, .iov_len = sizeof(none)};
	struct msghdr m = {.msg_iov = num ? iov : &some, .msg_iovlen = num ? num : 1};
	int cancel = urxe_cancel_off();
	ssize_t len;

	len = recvmsg(fd, &m, MSG_DONTWAIT | MSG_TRUNC);
	/* The interface went down: that was fetched first. */
	if (len < 0 && errno == ENETDOWN)
		len = recvmsg(fd, &m, MSG_DONTWAIT | MSG_TRUNC);
	urxe_cancel_back(cancel);
	return len;
}

/* The payloads of @num frames, in their buffers behind the headers. */
static bool fill(int fd, const struct run_head *s, struct urxe_frame *f, unsigned num)
{
	struct iovec iov[1 + PACKET_RUN_MOST];
	uint8_t front[sizeof(struct virtio_net_hdr) + HEAD_MOST];
	uint32_t left = s->total, at = s->bth;

	iov[0] = (struct iovec){.iov_base = front, .iov_len = sizeof(struct virtio_net_hdr) + at};
	for (unsigned i = 0; i < num; i++) {
		uint32_t len = left < s->seg ? left : s->seg;

		put_head(s, i, len, f[i].data);
		f[i].len = s->head_len + len;
		iov[1 + i] = (struct iovec){.iov_base = f[i].data + s->head_len, .iov_len = len};
		if (!s->queued)
			memcpy(iov[1 + i].iov_base, s->data + at, len);
		at += len;
		left -= len;
	}
	return !s->queued ||
	       fetch(fd, iov, 1 + num) == (ssize_t)(sizeof(struct virtio_net_hdr) + at);
}

static void put_all(struct urxe_buf_pool *pool, const struct urxe_frame *f, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		urxe_buf_put(pool, &f[i]);
}

/* All packets of a run; false: they are lost. It is out of the socket's queue in either case. */
static bool take_run(int fd, const struct run_head *s, struct packet_run *run,
		     struct urxe_buf_pool *pool)
{
	unsigned want = packets_of(s), num = 0;

	run->num = run->at = 0;
	if (!s->cut && s->head_len + s->seg <= pool->room)
		num = urxe_buf_get(pool, run->frame, want);
	if (num == want) {
		if (fill(fd, s, run->frame, num)) {
			run->num = num;
			return true;
		}
	} else if (s->queued) {
		fetch(fd, NULL, 0);
	}
	put_all(pool, run->frame, num);
	return false;
}

/* ---- all of them ---- */

static unsigned hand_out(struct packet_run *run, struct urxe_frame *f, unsigned n)
{
	unsigned k = run->num - run->at;

	if (k > n)
		k = n;
	memcpy(f, run->frame + run->at, k * sizeof(*f));
	run->at += k;
	return k;
}

/* A slot that was lent to nobody. */
static void give_back(struct tpacket2_hdr *h)
{
	__atomic_store_n(&h->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
}

/*
 * The frame or the run in a slot, of which there may be room for a part alone: the rest is handed
 * out next time. Returns how many.
 */
static unsigned take(struct packet_ring *r, struct tpacket2_hdr *h, struct packet_run *run,
		     struct urxe_buf_pool *pool, struct urxe_frame *f, unsigned n, uint64_t *lost)
{
	struct virtio_net_hdr what = {.gso_type = VIRTIO_NET_HDR_GSO_NONE};
	struct run_head s;

	/* It is gone when a tag is put back. */
	if (r->runs)
		memcpy(&what, what_of(h), sizeof(what));
	take_slot(h, f);
	if (what.gso_type != VIRTIO_NET_HDR_GSO_NONE && read_head(h, f, &what, &s)) {
		if (!take_run(r->fd, &s, run, pool))
			*lost += packets_of(&s);
		give_back(h);
		return hand_out(run, f, n);
	}
	/* Cut off: all of it is in the queue, too, and must come out of there. */
	if (h->tp_status & TP_STATUS_COPY)
		fetch(r->fd, NULL, 0);
	__atomic_store_n(&h->tp_status, PACKET_SLOT_LENT, __ATOMIC_RELAXED);
	return 1;
}

unsigned packet_rx_frames(struct packet_ring *r, struct packet_run *run, struct urxe_buf_pool *pool,
			  struct urxe_frame *f, unsigned n, uint64_t *lost)
{
	uint64_t taken = atomic_load_explicit(&r->taken, memory_order_relaxed);
	unsigned got = hand_out(run, f, n);
	struct tpacket2_hdr *h;

	while (got < n && r->mem) {
		h = packet_ring_slot(r, r->next);
		/* Pairs with the kernel, which writes the status last. */
		if (!(__atomic_load_n(&h->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER))
			break;
		/* Before the slot is given back: packet_ring_look(). */
		atomic_store_explicit(&r->taken, ++taken, memory_order_relaxed);
		got += take(r, h, run, pool, f + got, n - got, lost);
		if (++r->next == r->frames)
			r->next = 0;
	}
	return got;
}

void packet_rx_fini(struct packet_run *run, struct urxe_buf_pool *pool)
{
	put_all(pool, run->frame + run->at, run->num - run->at);
	run->num = run->at = 0;
}

void packet_rx_free(struct packet_ring *r, struct urxe_buf_pool *pool, const struct urxe_frame *f)
{
	const uint8_t *buf = f->buf;

	/* Pairs with the kernel: the slot is its own again when we have read it. */
	if (buf >= r->mem && buf < r->mem + r->len)
		give_back(f->buf);
	else
		urxe_buf_put(pool, f);
}
