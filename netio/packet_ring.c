/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Sockets of packet(7) with a ring for what they receive: the arguments, the ring, the group that
 * shares an interface's frames.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <linux/if_ether.h>

#include "netio/config.h"
#include "netio/devargs.h"
#include "netio/packet.h"
#include "netio/sysmap.h"

/*
 * The kernel fills the ring, and who sends does not see when it is full: what comes while we do not
 * run is lost then. A busy machine takes milliseconds to let us run, and a burst of 1000 datagrams
 * (udaddy -c 100) takes no longer.
 */
#define FRAMES_DEFAULT 2048
#define FRAMES_MAX     65536
#define BLOCK_DEFAULT  65536u
#define BLOCK_MAX      (1u << 22)
/* Where the kernel puts the IP header of a frame in its slot: after the slot's header, the address,
 * and 16 bytes for Ethernet's (packet(7), TPACKET_V2). What tells of a run is before that of
 * Ethernet, and a reserve for it to be aligned as without. */
#define IP_AT	TPACKET_ALIGN(TPACKET2_HDRLEN + 16)
#define RESERVE (TPACKET_ALIGNMENT - sizeof(struct virtio_net_hdr))
/* Of runs that wait to be fetched; a few, if the system allows no more. */
#define RUN_BYTES (8 << 20)
#define LANES_MAX 64u

/* ---- arguments ---- */

static int arg_number(const char *port, const char *key, uint32_t min, uint32_t max, uint32_t *out,
		      char *err, size_t errlen)
{
	char val[32], *end;
	unsigned long v;

	if (!urxe_devargs_get(port, key, val, sizeof(val)))
		return 0;
	errno = 0;
	v = strtoul(val, &end, 10);
	if (errno || end == val || *end || v < min || v > max) {
		snprintf(err, errlen, "%s=%s: a number from %u to %u is accepted", key, val, min,
			 max);
		return EINVAL;
	}
	*out = (uint32_t)v;
	return 0;
}

static int check_keys(const char *port, char *err, size_t errlen)
{
	static const char *const keys[] = {"iface",  "framecnt",     "framesz", "blocksz",
					   "qpairs", "qdisc_bypass", "gso",	"own"};
	const char *p = port;

	while ((p = strchr(p, ','))) {
		size_t len = strcspn(++p, "=,"), k = 0;

		while (k < sizeof(keys) / sizeof(keys[0]) &&
		       (strlen(keys[k]) != len || strncmp(p, keys[k], len)))
			k++;
		if (k < sizeof(keys) / sizeof(keys[0]))
			continue;
		snprintf(err, errlen,
			 "argument '%.*s' is not known (iface, framecnt, framesz, blocksz, qpairs, "
			 "qdisc_bypass, gso, own)",
			 (int)len, p);
		return EINVAL;
	}
	return 0;
}

/* Slots do not cross blocks, and a block is whole pages. */
static int fit_ring(struct packet_args *a, unsigned frames, char *err, size_t errlen)
{
	uint32_t page = (uint32_t)sysconf(_SC_PAGESIZE);
	unsigned per_block;

	a->frame_size = TPACKET_ALIGN(a->frame_size);
	if (a->block_size % page || a->block_size < a->frame_size) {
		snprintf(err, errlen,
			 "blocksz=%u: a multiple of %u that holds a frame of %u bytes is accepted",
			 a->block_size, page, a->frame_size);
		return EINVAL;
	}
	per_block = a->block_size / a->frame_size;
	a->frames = (frames + per_block - 1) / per_block * per_block;
	return 0;
}

/* Before Linux 6.2 a packet socket neither sends runs nor receives them. */
static bool kernel_has_runs(void)
{
	unsigned major, minor;
	struct utsname u;

	return !uname(&u) && sscanf(u.release, "%u.%u", &major, &minor) == 2 &&
	       (major > 6 || (major == 6 && minor >= 2));
}

int packet_args_parse(const struct urxe_port_config *cfg, uint32_t l3_mtu, struct packet_args *a,
		      char *err, size_t errlen)
{
	uint32_t least = IP_AT + TPACKET_ALIGNMENT + l3_mtu, frames = FRAMES_DEFAULT, bypass = 1;
	uint32_t lanes, runs = 1, own = 1;
	const char *port = cfg->port;
	int ret = check_keys(port, err, errlen);

	memset(a, 0, sizeof(*a));
	lanes = cfg->queues ? cfg->queues : 1;
	a->frame_size = least;
	a->block_size = BLOCK_DEFAULT;
	if (!ret &&
	    (!urxe_devargs_get(port, "iface", a->iface, sizeof(a->iface)) || !a->iface[0])) {
		snprintf(err, errlen, "iface=IF is missing: the kernel's interface");
		ret = EINVAL;
	}
	if (!ret)
		ret = arg_number(port, "framecnt", 16, FRAMES_MAX, &frames, err, errlen);
	if (!ret)
		ret = arg_number(port, "framesz", least, BLOCK_MAX, &a->frame_size, err, errlen);
	if (!ret)
		ret = arg_number(port, "blocksz", 1, BLOCK_MAX, &a->block_size, err, errlen);
	if (!ret)
		ret = arg_number(port, "qpairs", 1, LANES_MAX, &lanes, err, errlen);
	if (!ret)
		ret = arg_number(port, "qdisc_bypass", 0, 1, &bypass, err, errlen);
	if (!ret)
		ret = arg_number(port, "gso", 0, 1, &runs, err, errlen);
	if (!ret)
		ret = arg_number(port, "own", 0, 1, &own, err, errlen);
	if (ret)
		return ret;
	a->lanes = lanes < LANES_MAX ? lanes : LANES_MAX;
	a->qdisc_bypass = bypass;
	a->runs = kernel_has_runs();
	a->send_runs = runs && a->runs;
	a->own = own;
	return fit_ring(a, frames, err, errlen);
}

/* ---- the ring ---- */

static int set(const struct packet_ring *r, int option, const void *val, socklen_t len)
{
	return setsockopt(r->fd, SOL_PACKET, option, val, len) ? errno : 0;
}

static int make_ring(struct packet_ring *r)
{
	struct tpacket_req req = {.tp_block_size = r->block_size,
				  .tp_block_nr = r->frames / r->per_block,
				  .tp_frame_size = r->frame_size,
				  .tp_frame_nr = r->frames};
	int version = TPACKET_V2, reserve = r->runs ? RESERVE : 0, err;
	void *mem = NULL;

	err = set(r, PACKET_VERSION, &version, sizeof(version));
	if (!err)
		err = set(r, PACKET_RESERVE, &reserve, sizeof(reserve));
	if (!err)
		err = set(r, PACKET_RX_RING, &req, sizeof(req));
	if (err)
		return err;
	r->len = (size_t)req.tp_block_size * req.tp_block_nr;
	/* This may be a thread of ours (packet_ring_again()). */
	err = urxe_sys_map(r->fd, r->len, MAP_SHARED, &mem);
	if (err)
		return err;
	r->mem = mem;
	/* A child has no use for it; and what one had the kernel would not take back. */
	urxe_sys_advise(mem, r->len, MADV_DONTFORK);
	return 0;
}

/*
 * A run is longer than a slot: it comes by the socket's queue, too, in the order of the slots, and
 * without a copy (PACKET_COPY_THRESH). The header that tells of it has to be there before the ring.
 */
static void take_runs(struct packet_ring *r)
{
	int one = 1, bytes = RUN_BYTES;

	r->runs = !set(r, PACKET_VNET_HDR, &one, sizeof(one));
	if (!r->runs)
		return;
	set(r, PACKET_COPY_THRESH, &one, sizeof(one));
	/* The limit of the system holds for who may not exceed it. */
	if (setsockopt(r->fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)))
		(void)setsockopt(r->fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
}

int packet_ring_open(struct packet_ring *r, const struct packet_args *a, char *err, size_t errlen)
{
	int one = 1, ret;

	memset(r, 0, sizeof(*r));
	r->frame_size = a->frame_size;
	r->block_size = a->block_size;
	r->frames = a->frames;
	r->per_block = a->block_size / a->frame_size;
	/* Protocol 0 receives nothing before it is bound to an interface. */
	r->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (r->fd < 0) {
		ret = errno;
		snprintf(err, errlen, "%s",
			 ret == EPERM ? "a packet socket needs CAP_NET_RAW" : "no packet socket");
		return ret;
	}
	if (a->qdisc_bypass)
		set(r, PACKET_QDISC_BYPASS, &one, sizeof(one)); /* slower without */
#ifdef PACKET_IGNORE_OUTGOING
	set(r, PACKET_IGNORE_OUTGOING, &one,
	    sizeof(one)); /* the filter does it for older kernels */
#endif
	if (a->runs)
		take_runs(r);
	ret = make_ring(r);
	if (ret)
		snprintf(err, errlen, "no ring of %u frames of %u bytes", r->frames, r->frame_size);
	return ret;
}

int packet_ring_bind(struct packet_ring *r, unsigned ifindex, int fanout)
{
	struct sockaddr_ll at = {.sll_family = AF_PACKET,
				 .sll_protocol = htons(ETH_P_ALL),
				 .sll_ifindex = (int)ifindex};
	int arg = fanout | PACKET_FANOUT_HASH << 16;

	if (bind(r->fd, (struct sockaddr *)&at, sizeof(at)))
		return errno;
	return fanout < 0 ? 0 : set(r, PACKET_FANOUT, &arg, sizeof(arg));
}

int packet_ring_fanout(struct packet_ring *r)
{
	int arg = (PACKET_FANOUT_HASH | PACKET_FANOUT_FLAG_UNIQUEID) << 16;
	socklen_t len = sizeof(arg);
	int err = set(r, PACKET_FANOUT, &arg, sizeof(arg));

	if (!err && getsockopt(r->fd, SOL_PACKET, PACKET_FANOUT, &arg, &len))
		err = errno;
	return err ? -err : arg & 0xffff;
}

uint64_t packet_ring_dropped(struct packet_ring *r)
{
	struct tpacket_stats stats = {0};
	socklen_t len = sizeof(stats);

	/* The kernel's begin anew each time. */
	if (r->fd >= 0 && !getsockopt(r->fd, SOL_PACKET, PACKET_STATISTICS, &stats, &len))
		atomic_fetch_add(&r->dropped, stats.tp_drops);
	return atomic_load(&r->dropped);
}

/* ---- a ring that is not filled any more ---- */

static uint32_t status_of(const struct packet_ring *r, unsigned slot)
{
	return __atomic_load_n(&packet_ring_slot(r, slot)->tp_status, __ATOMIC_ACQUIRE);
}

/* Frames were dropped, though the next slot was free, and none was received meanwhile. */
enum packet_look packet_ring_look(struct packet_ring *r)
{
	uint64_t dropped = packet_ring_dropped(r), taken;
	bool more = dropped != r->seen.dropped, same;

	/* Pairs with packet_ring_again(), which may have found no memory for one. */
	if (atomic_load_explicit(&r->deaf, memory_order_acquire))
		return PACKET_UNSURE;
	r->seen.dropped = dropped;
	if (r->mem) {
		taken = atomic_load(&r->taken);
		same = r->seen.free && taken == r->seen.taken;
		r->seen.taken = taken;
		r->seen.free = status_of(r, (unsigned)(taken % r->frames)) == TP_STATUS_KERNEL &&
			       taken == atomic_load(&r->taken);
		if (!r->seen.free || !more)
			return PACKET_HEARS;
		if (!same)
			return PACKET_UNSURE;
	}
	r->seen.free = false;
	atomic_store(&r->deaf, true);
	return PACKET_DEAF;
}

static bool any_lent(const struct packet_ring *r)
{
	for (unsigned i = 0; r->mem && i < r->frames; i++) {
		if (status_of(r, i) == PACKET_SLOT_LENT)
			return true;
	}
	return false;
}

static void unmap_ring(struct packet_ring *r)
{
	urxe_sys_unmap(r->mem, r->len);
	r->mem = NULL;
}

void packet_ring_again(struct packet_ring *r)
{
	struct tpacket_req none = {.tp_frame_nr = 0};

	if (any_lent(r))
		return;
	/* What is mapped cannot be given back to the kernel. */
	unmap_ring(r);
	(void)set(r, PACKET_RX_RING, &none, sizeof(none));
	(void)make_ring(r);
	r->next = 0;
	atomic_store(&r->taken, 0);
	/* Without memory the next look finds it so. */
	atomic_store_explicit(&r->deaf, false, memory_order_release);
}

void packet_ring_close(struct packet_ring *r)
{
	unmap_ring(r);
	if (r->fd >= 0)
		close(r->fd);
	r->fd = -1;
}
