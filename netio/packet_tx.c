/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Frames go from our buffers by sendmmsg(), a call a burst: a ring to send from costs more, as its
 * pages must be copied for whoever receives on this machine (veth, tap, bridge). Packets of a flow
 * that are of one length go as a run, which the kernel carries as one to a socket like ours, and
 * makes packets of again where it must. What it fills in then is what is in ours: each packet's
 * lengths, identifications that count up, no other checksum than UDP's, which the ICRC leaves out.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#include "netio/packet.h"
#include "netio/stack.h"
#include "urxe/cancel.h"

#define PATIENCE_NS 300000000ull /* with a frame that there is no room for */
#define RUN_SEGS    64		 /* packets of a run: UDP_MAX_SEGMENTS of kernels before 6.9 */
#define RUN_LEN	    65400	 /* bytes of a run: with its headers below 64 KiB */
#define HEAD_V4	    (ETH_LEN + IPV4_LEN + UDP_LEN)
#define HEAD_V6	    (ETH_LEN + IPV6_LEN + UDP_LEN)

/* One message to the kernel: frames [first, first + num). */
struct out {
	unsigned first, num, iovs;
	uint32_t head; /* bytes before the BTH; 0: no RoCEv2, or with a tag */
	uint32_t seg;  /* bytes behind those, of each frame but the last */
	uint32_t total;
};

/* What the kernel reads before the frames: what it is to do with them, and the headers of a run. */
struct front {
	struct virtio_net_hdr what;
	uint8_t head[HEAD_V6];
};

struct batch {
	const struct urxe_frame *f;
	unsigned num, iovs;
	struct out out[PACKET_BURST];
	struct front front[PACKET_BURST];
	struct mmsghdr mm[PACKET_BURST];
	struct iovec iov[2 * PACKET_BURST];
};

/* ---- runs ---- */

void packet_put_lengths(uint8_t *l3, bool ipv4, uint32_t len)
{
	uint32_t udp_len = UDP_LEN + len;

	urxe_put16(l3 + (ipv4 ? IPV4_LEN : IPV6_LEN) + 4, (uint16_t)udp_len);
	if (!ipv4) {
		urxe_put16(l3 + 4, (uint16_t)udp_len);
		return;
	}
	urxe_put16(l3 + 2, (uint16_t)(IPV4_LEN + udp_len));
	urxe_put16(l3 + 10, 0);
	urxe_put16(l3 + 10, urxe_sum_fold(urxe_sum(0, l3, IPV4_LEN)));
}

static uint32_t head_of(const struct urxe_frame *f)
{
	uint32_t bth = urxe_frame_roce(f);

	return bth == HEAD_V4 || bth == HEAD_V6 ? bth : 0;
}

static bool same(const uint8_t *a, const uint8_t *b, unsigned from, unsigned to)
{
	return !memcmp(a + from, b + from, to - from);
}

/* Do @b's headers follow @a's, @nth packet of whose run it would be? Lengths are another matter. */
static bool follows(const uint8_t *a, const uint8_t *b, uint32_t head, unsigned nth)
{
	if (head == HEAD_V6)
		return same(a, b, 0, ETH_LEN + 4) && same(a, b, ETH_LEN + 6, HEAD_V6 - 4) &&
		       same(a, b, HEAD_V6 - 2, HEAD_V6);
	return same(a, b, 0, ETH_LEN + 2) && same(a, b, ETH_LEN + 6, ETH_LEN + 10) &&
	       same(a, b, ETH_LEN + 12, HEAD_V4 - 4) && same(a, b, HEAD_V4 - 2, HEAD_V4) &&
	       urxe_get16(b + ETH_LEN + 4) == (uint16_t)(urxe_get16(a + ETH_LEN + 4) + nth);
}

static bool joins(const struct batch *b, const struct out *o, const struct urxe_frame *f,
		  uint32_t head)
{
	uint32_t len = f->len - head;

	/* A shorter one is the last. */
	return head && head == o->head && o->num < RUN_SEGS && o->total == o->num * o->seg &&
	       len <= o->seg && o->total + len <= RUN_LEN &&
	       follows(b->f[o->first].data, f->data, head, o->num);
}

/* The headers of a datagram of all that is behind the first frame's, and what is to be done. */
static void put_front(struct front *front, const struct urxe_frame *f, const struct out *o)
{
	uint8_t *l3 = front->head + ETH_LEN;
	uint32_t udp_at = o->head - UDP_LEN;
	bool ipv4 = o->head == HEAD_V4;

	front->what = (struct virtio_net_hdr){.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
					      .gso_type = VIRTIO_NET_HDR_GSO_UDP_L4,
					      .hdr_len = (uint16_t)o->head,
					      .gso_size = (uint16_t)o->seg,
					      .csum_start = (uint16_t)udp_at,
					      .csum_offset = 6};
	memcpy(front->head, f->data, o->head);
	packet_put_lengths(l3, ipv4, o->total);
	/* Not inverted, as the sum goes on from there. */
	urxe_put16(front->head + udp_at + 6, (uint16_t)~urxe_sum_fold(urxe_sum_pseudo(
						     l3, ipv4, PROTO_UDP, UDP_LEN + o->total)));
}

/* ---- messages ---- */

static void add_iov(struct batch *b, struct out *o, const void *data, size_t len)
{
	b->iov[b->iovs++] = (struct iovec){.iov_base = (void *)(uintptr_t)data, .iov_len = len};
	o->iovs++;
}

/* One message, of @f[i] alone or more, by how many it can have. */
static unsigned add_out(struct batch *b, const struct packet_ring *r, bool runs,
			const struct urxe_frame *f, unsigned i, unsigned n)
{
	struct out *o = &b->out[b->num];
	struct front *front = &b->front[b->num];
	unsigned first_iov = b->iovs;

	*o = (struct out){.first = i, .num = 1, .head = runs ? head_of(&f[i]) : 0};
	o->total = o->seg = f[i].len - o->head;
	while (i + o->num < n && joins(b, o, &f[i + o->num], head_of(&f[i + o->num]))) {
		o->total += f[i + o->num].len - o->head;
		o->num++;
	}
	if (o->num == 1) {
		front->what = (struct virtio_net_hdr){.gso_type = VIRTIO_NET_HDR_GSO_NONE};
		if (r->runs)
			add_iov(b, o, &front->what, sizeof(front->what));
		add_iov(b, o, f[i].data, f[i].len);
	} else {
		put_front(front, &f[i], o);
		add_iov(b, o, front, offsetof(struct front, head) + o->head);
		for (unsigned k = i; k < i + o->num; k++)
			add_iov(b, o, f[k].data + o->head, f[k].len - o->head);
	}
	b->mm[b->num++] =
		(struct mmsghdr){.msg_hdr = {.msg_iov = &b->iov[first_iov], .msg_iovlen = o->iovs}};
	return o->num;
}

static void gather(struct batch *b, const struct packet_ring *r, bool runs,
		   const struct urxe_frame *f, unsigned n)
{
	b->f = f;
	b->num = b->iovs = 0;
	for (unsigned i = 0; i < n;)
		i += add_out(b, r, runs, f, i, n);
}

/* How many messages the kernel has taken, or -1 and errno. */
static int hand_over(int fd, struct batch *b)
{
	int cancel = urxe_cancel_off(), k;

	if (b->num == 1)
		k = sendmsg(fd, &b->mm[0].msg_hdr, MSG_DONTWAIT) < 0 ? -1 : 1;
	else
		k = sendmmsg(fd, b->mm, b->num, MSG_DONTWAIT);
	urxe_cancel_back(cancel);
	return k;
}

/* Will the kernel take later what it refuses with @err now? */
static bool for_now(int err)
{
	switch (err) {
	case EAGAIN:
	case ENOBUFS:
	case ENOMEM:
	case ENETDOWN:
	case ENXIO:
	case EINTR:
		return true; /* or when there is a carrier */
	default:
		return false; /* as one too long for an interface whose MTU has changed */
	}
}

/* Frames that are done with, of at most PACKET_BURST. */
static unsigned send_burst(const struct packet_ring *r, bool runs, const struct urxe_frame *f,
			   unsigned n, bool *refused, uint64_t *lost)
{
	struct batch b;
	int k;

	gather(&b, r, runs, f, n);
	k = hand_over(r->fd, &b);
	if (k > 0)
		return b.out[k - 1].first + b.out[k - 1].num;
	/* A device that segments none, or does no longer, drops it: ENOBUFS. */
	if (b.out[0].num > 1 && (errno == ENOBUFS || !for_now(errno))) {
		*refused = true;
		return send_burst(r, false, f, b.out[0].num, refused, lost);
	}
	if (for_now(errno))
		return 0;
	++*lost;
	return 1;
}

/*
 * That there is no room the kernel says of a frame, too, that is longer than the other end of a
 * veth pair takes, each time: all that is to be sent would wait behind it. An interface that is
 * down says something else, and a queue that is full has room again soon.
 */
bool packet_tx_gives_up(struct packet_waits *w, const struct urxe_frame *f, unsigned done,
			unsigned n, int err, uint64_t now)
{
	for (unsigned i = 0; i < done; i++) {
		if (w->len && f[i].len >= w->len)
			w->len = 0;
	}
	if (done || err != ENOBUFS)
		w->since = 0;
	if (done == n || err != ENOBUFS)
		return false;
	if (!w->len || f[done].len < w->len) {
		if (!w->since)
			w->since = now;
		if (now - w->since < PATIENCE_NS)
			return false;
		w->len = f[done].len;
	}
	w->since = 0;
	return true;
}

unsigned packet_tx_frames(const struct packet_ring *r, bool runs, const struct urxe_frame *f,
			  unsigned n, bool *refused, uint64_t *lost)
{
	unsigned done = 0, k;

	do {
		k = n - done < PACKET_BURST ? n - done : PACKET_BURST;
		k = send_burst(r, runs && !*refused, f + done, k, refused, lost);
		done += k;
	} while (k && done < n);
	return done;
}
