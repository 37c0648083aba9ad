/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The link that is an interface of the kernel's: its life, and what it lets in. packet_rx.c and
 * packet_tx.c have what goes through it.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <net/if.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "netio/buf_pool.h"
#include "netio/config.h"
#include "netio/clock.h"
#include "netio/ctl.h"
#include "netio/kernel_if.h"
#include "netio/link_packet.h"
#include "netio/packet.h"
#include "netio/port.h"
#include "urxe/cancel.h"
#include "urxe/gid.h"
#include "urxe/lock.h"
#include "urxe/log.h"

#define WATCH_NS     100000000u
#define UNSURE_NS    10000000u	  /* until the next look, while a ring may be deaf */
#define WARN_NS	     10000000000u /* from a warning to the next of its kind */
#define FEATURES_PER 10		  /* turns of the watch */
#define OWN_LOOK     1		  /* the one after that of the start */
#define MAX_LANES    64
#define MAX_GROUPS   600

struct packet_lane {
	_Alignas(64) struct packet_ring ring;
	struct urxe_buf_pool pool;
	struct packet_run run;
	struct packet_waits waits;
};

struct packet_link {
	char name[32]; /* of the device, for log lines */
	char port[256];
	unsigned ifindex;
	uint8_t mac[6];
	unsigned lanes;
	struct packet_lane *lane;
	atomic_bool carrier;
	atomic_bool gone;
	atomic_bool runs; /* are sent: the device, or the kernel for it, segments */
	bool want_runs;	  /* to be sent */
	bool bypass;	  /* the kernel's queueing discipline, which would */
	int segments_bit; /* of the kernel: whether the device does */
	unsigned turn;	  /* of the watch */
	/* When the log last told that a ring was deaf, that frames are too long; 0: never. */
	_Atomic uint64_t told_deaf, told_long;
	int event_fd; /* the control thread ends a wait */
	struct packet_addrs addrs;
	struct urxe_ctl_watch watch;
	unsigned looks;		  /* of the watch, until frames are to be ours alone */
	struct urxe_mutex lock;	  /* what follows */
	bool foreign_mac;	  /* not the interface's: it must be promiscuous */
	bool everything;	  /* a tap wants all frames */
	_Atomic uint64_t dropped; /* packets of runs; others are the rings' */
	_Atomic uint64_t refused;
	unsigned num_groups;
	uint8_t group[MAX_GROUPS][6];
};

/* ---- data path ---- */

static unsigned packet_alloc(void *link, unsigned lane, struct urxe_frame *f, unsigned n)
{
	struct packet_link *p = link;

	return urxe_ctl_dead ? 0 : urxe_buf_get(&p->lane[lane].pool, f, n);
}

static void packet_free(void *link, unsigned lane, struct urxe_frame *f, unsigned n)
{
	struct packet_link *p = link;
	struct packet_lane *l = &p->lane[lane];

	for (unsigned i = 0; i < n && !urxe_ctl_dead; i++)
		packet_rx_free(&l->ring, &l->pool, &f[i]);
}

static unsigned packet_rx(void *link, unsigned lane, struct urxe_frame *f, unsigned n)
{
	struct packet_link *p = link;
	struct packet_lane *l = &p->lane[lane];
	uint64_t lost = 0;
	unsigned got;

	if (urxe_ctl_dead)
		return 0;
	/* Pairs with packet_ring_look(), which looks at it no more. */
	if (atomic_load_explicit(&l->ring.deaf, memory_order_acquire))
		packet_ring_again(&l->ring);
	got = packet_rx_frames(&l->ring, &l->run, &l->pool, f, n, &lost);
	if (lost)
		atomic_fetch_add(&p->dropped, lost);
	return got;
}

/* The kernel has taken @done of @n frames. Is the next one to be dropped? */
static bool drops_next(struct packet_link *p, struct packet_lane *l, const struct urxe_frame *f,
		       unsigned done, unsigned n)
{
	int err = errno;
	uint64_t now;

	/* Mostly. */
	if (done == n && !l->waits.len && !l->waits.since)
		return false;
	now = urxe_clock_now(NULL);
	if (!packet_tx_gives_up(&l->waits, f, done, n, err, now))
		return false;
	if (urxe_log_due(&p->told_long, now, WARN_NS))
		urxe_warn("%s: port '%s': the kernel takes no frames of %u bytes, which are "
			  "dropped (has the other end a smaller MTU?)",
			  p->name, p->port, f[done].len);
	return true;
}

static unsigned packet_tx(void *link, unsigned lane, struct urxe_frame *f, unsigned n)
{
	struct packet_link *p = link;
	struct packet_lane *l = &p->lane[lane];
	bool refused = false;
	uint64_t lost = 0;
	unsigned done = 0, k;
	bool drop;

	if (urxe_ctl_dead)
		return n;
	if (!atomic_load_explicit(&p->carrier, memory_order_relaxed))
		return 0;
	while (done < n) {
		k = packet_tx_frames(&l->ring, atomic_load_explicit(&p->runs, memory_order_relaxed),
				     f + done, n - done, &refused, &lost);
		drop = drops_next(p, l, f + done, k, n - done);
		done += k + drop;
		lost += drop;
		if (!drop)
			break;
	}
	if (lost)
		atomic_fetch_add(&p->refused, lost);
	/* Until its features are asked for again. */
	if (refused && atomic_exchange_explicit(&p->runs, false, memory_order_relaxed))
		urxe_info("%s: port '%s' refuses to segment UDP: packets go one by one", p->name,
			  p->port);
	packet_free(link, lane, f, done);
	return done;
}

static bool packet_up(void *link)
{
	struct packet_link *p = link;

	return !urxe_ctl_dead && atomic_load_explicit(&p->carrier, memory_order_relaxed);
}

static bool packet_dead(void *link)
{
	struct packet_link *p = link;

	return !urxe_ctl_dead && atomic_load_explicit(&p->gone, memory_order_relaxed);
}

/* ---- waiting ---- */

static void clear_error(int fd)
{
	int err;
	socklen_t len = sizeof(err);

	/* The interface went down: the error is pending until it is fetched, so fetch it. */
	(void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len);
}

/* Sleeps until one of @fds is readable. @lanes of these are our sockets, and the last ones. */
static int packet_sleep(struct urxe_sleep *how, struct pollfd *fds, nfds_t n, unsigned lanes,
			uint64_t ns)
{
	int ready = urxe_sleep_poll(how, fds, n, ns);

	for (nfds_t i = n - lanes; ready > 0 && i < n; i++) {
		if (fds[i].revents & POLLERR)
			clear_error(fds[i].fd);
	}
	return ready;
}

static unsigned packet_fds(const struct packet_link *p, struct pollfd *fds)
{
	unsigned n = 0;

	for (; n < p->lanes && !urxe_ctl_dead; n++)
		fds[n] = (struct pollfd){.fd = p->lane[n].ring.fd, .events = POLLIN};
	return n;
}

static void packet_wait(void *link, uint64_t ns, int wake_fd, struct urxe_sleep *how)
{
	struct packet_link *p = link;
	struct pollfd fds[2 + MAX_LANES] = {
		{.fd = wake_fd, .events = POLLIN},
		{.fd = urxe_ctl_dead ? -1 : p->event_fd, .events = POLLIN}};
	/* A caller that drives would fetch what wakes us. */
	unsigned lanes = how->interrupt ? packet_fds(p, fds + 2) : 0;
	uint64_t v;

	how->interrupt = lanes;
	if (packet_sleep(how, fds, 2 + lanes, lanes, ns) > 0 && fds[1].revents)
		(void)!read(p->event_fd, &v, sizeof(v));
}

static void packet_nap(void *link, uint64_t ns)
{
	struct urxe_sleep how = {0};
	struct pollfd fds[MAX_LANES];
	unsigned lanes = packet_fds(link, fds);

	packet_sleep(&how, fds, lanes, lanes, ns);
}

/* ---- what the interface lets in ---- */

static void member(struct packet_link *p, int option, uint16_t type, const uint8_t *mac)
{
	struct packet_mreq m = {.mr_ifindex = (int)p->ifindex, .mr_type = type};

	if (mac) {
		m.mr_alen = 6;
		memcpy(m.mr_address, mac, 6);
	}
	/* One that does not (it is gone) has nothing to let in. */
	(void)setsockopt(p->lane[0].ring.fd, SOL_PACKET, option, &m, sizeof(m));
}

static bool listed(const uint8_t (*macs)[6], unsigned n, const uint8_t mac[6])
{
	if (!macs)
		return false;
	for (unsigned i = 0; i < n; i++) {
		if (!memcmp(macs[i], mac, 6))
			return true;
	}
	return false;
}

static int packet_mcast(void *link, const uint8_t (*macs)[6], unsigned n)
{
	struct packet_link *p = link;
	const uint8_t(*group)[6] = (const uint8_t(*)[6])p->group;
	unsigned k = 0;

	if (urxe_ctl_dead || (n && !macs))
		return 0;
	if (n > MAX_GROUPS)
		return ENOSPC;
	if (!macs)
		n = 0;
	urxe_mutex_lock(&p->lock);
	for (unsigned i = 0; i < n; i++) {
		if (!listed(group, p->num_groups, macs[i]) && !listed(macs, i, macs[i]))
			member(p, PACKET_ADD_MEMBERSHIP, PACKET_MR_MULTICAST, macs[i]);
	}
	for (unsigned i = 0; i < p->num_groups; i++) {
		if (!listed(macs, n, group[i]))
			member(p, PACKET_DROP_MEMBERSHIP, PACKET_MR_MULTICAST, group[i]);
	}
	for (unsigned i = 0; i < n; i++) {
		if (!listed(macs, i, macs[i]))
			memcpy(p->group[k++], macs[i], 6);
	}
	p->num_groups = k;
	urxe_mutex_unlock(&p->lock);
	return 0;
}

static int set_filter(struct packet_link *p, bool all)
{
	struct sock_filter prog[PACKET_FILTER_MAX];
	struct sock_fprog fprog = {.filter = prog};

	fprog.len = (unsigned short)packet_filter(prog, p->mac, all);
	for (unsigned i = 0; i < p->lanes; i++) {
		if (setsockopt(p->lane[i].ring.fd, SOL_SOCKET, SO_ATTACH_FILTER, &fprog,
			       sizeof(fprog)))
			return errno;
	}
	return 0;
}

static void packet_everything(void *link, bool on)
{
	struct packet_link *p = link;

	if (urxe_ctl_dead)
		return;
	urxe_mutex_lock(&p->lock);
	if (on != p->everything) {
		p->everything = on;
		if (!p->foreign_mac)
			member(p, on ? PACKET_ADD_MEMBERSHIP : PACKET_DROP_MEMBERSHIP,
			       PACKET_MR_PROMISC, NULL);
		set_filter(p, on);
	}
	urxe_mutex_unlock(&p->lock);
}

static uint64_t packet_dropped(void *link)
{
	struct packet_link *p = link;
	uint64_t n = atomic_load(&p->dropped);

	for (unsigned i = 0; i < p->lanes && !urxe_ctl_dead; i++)
		n += packet_ring_dropped(&p->lane[i].ring);
	return n;
}

static uint64_t packet_refused(void *link)
{
	struct packet_link *p = link;

	return atomic_load(&p->refused);
}

/* ---- watch ---- */

static void wake(struct packet_link *p)
{
	uint64_t one = 1;

	if (write(p->event_fd, &one, sizeof(one)) < 0) {
		/* The counter is full: the waiter wakes up anyway. */
	}
}

static void set_carrier(struct packet_link *p, bool up)
{
	if (atomic_exchange(&p->carrier, up) == up)
		return;
	urxe_info("%s: link %s", p->name, up ? "up" : "down");
	wake(p);
}

static void warn_of_deaf(struct packet_link *p)
{
	if (!urxe_log_due(&p->told_deaf, urxe_clock_now(NULL), WARN_NS))
		return;
	urxe_warn("%s: port '%s': the kernel stopped receiving for it after a frame whose "
		  "segmentation it cannot tell a packet socket: the ring is made anew",
		  p->name, p->port);
}

static void watch_rings(struct packet_link *p)
{
	bool unsure = false, deaf = false;

	for (unsigned i = 0; i < p->lanes; i++) {
		enum packet_look look = packet_ring_look(&p->lane[i].ring);

		unsure |= look == PACKET_UNSURE;
		deaf |= look == PACKET_DEAF;
	}
	p->watch.interval_ns = unsure ? UNSURE_NS : WATCH_NS;
	if (deaf) {
		warn_of_deaf(p);
		wake(p);
	}
}

/* Past its queueing discipline, which would segment for it, a device gets runs if it does so. */
static void watch_features(struct packet_link *p)
{
	if (p->want_runs && p->lane[0].ring.runs && !(p->turn++ % FEATURES_PER))
		atomic_store(&p->runs, !p->bypass || urxe_kernel_if_segments_udp(p->ifindex,
										 &p->segments_bit));
}

/*
 * Not at once: its end takes some milliseconds, and programs that are done by then have no use for
 * it. With a MAC that is not the interface's, IP leaves alone what comes for it.
 */
static void own_frames(struct packet_link *p)
{
	char iface[IF_NAMESIZE];
	int err;

	if (p->looks < OWN_LOOK) {
		p->looks++;
		return;
	}
	if (!p->addrs.own || !packet_addrs_news(&p->addrs) ||
	    urxe_kernel_if_name(p->lane[0].ring.fd, p->ifindex, iface))
		return;
	err = packet_addrs_own(&p->addrs, iface, p->mac);
	if (err)
		urxe_debug("%s: port '%s': the kernel's IP takes what we receive, too: %s", p->name,
			   p->port, strerror(err));
}

/* Control thread. */
static void watch(void *arg)
{
	struct packet_link *p = arg;
	bool up;
	int err;

	if (atomic_load(&p->gone))
		return;
	up = urxe_kernel_if_up(p->lane[0].ring.fd, p->ifindex, &err);
	if (err == ENXIO) {
		urxe_warn("%s: port '%s' was removed", p->name, p->port);
		atomic_store(&p->gone, true);
		up = false;
	}
	set_carrier(p, up);
	watch_rings(p);
	watch_features(p);
	own_frames(p);
}

static int watch_job(void *arg)
{
	struct packet_link *p = arg;

	p->watch.poll = watch;
	p->watch.arg = p;
	watch(p); /* and when the next is due */
	urxe_ctl_watch_add(&p->watch);
	return 0;
}

static int unwatch_job(void *arg)
{
	struct packet_link *p = arg;

	urxe_ctl_watch_del(&p->watch);
	return 0;
}

/* ---- open and close ---- */

static void release(struct packet_link *p)
{
	for (unsigned i = 0; i < p->lanes; i++) {
		packet_ring_close(&p->lane[i].ring);
		packet_rx_fini(&p->lane[i].run, &p->lane[i].pool);
		urxe_buf_fini(&p->lane[i].pool);
	}
	free(p->lane);
	packet_addrs_fini(&p->addrs);
	if (p->event_fd >= 0)
		close(p->event_fd);
	urxe_mutex_fini(&p->lock);
	free(p);
}

static int open_lanes(struct packet_link *p, const struct packet_args *args, uint32_t room,
		      char *err, size_t errlen)
{
	size_t size = sizeof(*p->lane) * args->lanes;
	int ret = 0;

	p->lane = aligned_alloc(64, size);
	if (!p->lane)
		return ENOMEM;
	memset(p->lane, 0, size);
	for (; !ret && p->lanes < args->lanes; p->lanes++) {
		p->lane[p->lanes].pool.room = room;
		ret = packet_ring_open(&p->lane[p->lanes].ring, args, err, errlen);
	}
	return ret;
}

static int bind_lanes(struct packet_link *p)
{
	int fanout = -1, ret = 0;

	for (unsigned i = 0; !ret && i < p->lanes; i++) {
		ret = packet_ring_bind(&p->lane[i].ring, p->ifindex, fanout);
		if (!ret && !i && p->lanes > 1) {
			fanout = packet_ring_fanout(&p->lane[0].ring);
			ret = fanout < 0 ? -fanout : 0;
		}
	}
	return ret;
}

static int find_interface(struct packet_link *p, const char *name, struct urxe_kernel_if *info,
			  char *err, size_t errlen)
{
	int ret;

	p->ifindex = if_nametoindex(name);
	ret = p->ifindex ? urxe_kernel_if_query(p->ifindex, info) : ENODEV;
	if (ret)
		snprintf(err, errlen, "interface '%s'", name);
	return ret;
}

static int start(struct packet_link *p, const struct urxe_port_config *cfg, uint32_t l3_mtu,
		 struct urxe_link_info *info, char *err, size_t errlen)
{
	struct urxe_kernel_if kif = {.mtu = 0};
	struct packet_args args;
	int ret;

	ret = packet_args_parse(cfg, l3_mtu, &args, err, errlen);
	if (!ret)
		ret = find_interface(p, args.iface, &kif, err, errlen);
	if (!ret)
		ret = open_lanes(p, &args, l3_mtu + 14 + 4, err, errlen);
	if (ret)
		return ret;
	p->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (p->event_fd < 0)
		return errno;
	p->want_runs = args.send_runs;
	p->bypass = args.qdisc_bypass;
	p->foreign_mac = cfg->has_mac && memcmp(cfg->mac, kif.mac, 6);
	/* Here, since the control thread may live in another network. */
	if (!p->foreign_mac && args.own)
		p->addrs.own = packet_own_socket();
	memcpy(p->mac, cfg->has_mac ? cfg->mac : kif.mac, 6);
	ret = set_filter(p, false);
	if (!ret)
		ret = bind_lanes(p);
	if (ret)
		return ret;
	if (p->foreign_mac)
		member(p, PACKET_ADD_MEMBERSHIP, PACKET_MR_PROMISC, NULL);
	snprintf(info->driver, sizeof(info->driver), "af_packet");
	memcpy(info->mac, p->mac, 6);
	info->max_l3_mtu = kif.mtu && kif.mtu < l3_mtu ? kif.mtu : l3_mtu;
	info->lanes = p->lanes;
	info->speed_mbps = kif.speed_mbps;
	return urxe_ctl_call(watch_job, p);
}

static int packet_open(void *arg, const struct urxe_port_config *cfg, const uint8_t mac[6],
		       uint32_t l3_mtu, void **link, struct urxe_link_info *info)
{
	struct packet_link *p;
	char err[200] = "";
	int ret;

	if (urxe_ctl_dead) {
		urxe_err("%s: the link belongs to the parent process: a child needs to exec",
			 cfg->name);
		return ENODEV;
	}
	p = calloc(1, sizeof(*p));
	if (!p) {
		urxe_err("%s: no memory", cfg->name);
		return ENOMEM;
	}
	snprintf(p->name, sizeof(p->name), "%s", cfg->name);
	snprintf(p->port, sizeof(p->port), "%s", cfg->port);
	urxe_mutex_init(&p->lock);
	urxe_mutex_init(&p->addrs.lock);
	p->event_fd = p->segments_bit = -1;
	ret = start(p, cfg, l3_mtu, info, err, sizeof(err));
	if (ret) {
		urxe_err("%s: cannot start port '%s': %s%s%s", cfg->name, cfg->port, err,
			 err[0] ? ": " : "", strerror(ret));
		release(p);
		return ret;
	}
	*link = p;
	return 0;
}

static void packet_close(void *link)
{
	/* In a forked child all of it is the parent's. */
	if (urxe_ctl_dead)
		return;
	urxe_ctl_call(unwatch_job, link);
	release(link);
}

/* ---- own addresses ---- */

/* Who routes sends a frame for our address on, perhaps to us again, until its TTL ends. */
static void warn_of_router(const struct packet_link *p, const uint8_t gid[16], const char *addr)
{
	bool ipv4 = urxe_gid_is_v4(gid);
	char iface[IF_NAMESIZE];

	if (!p->foreign_mac && !urxe_kernel_if_name(p->lane[0].ring.fd, p->ifindex, iface) &&
	    urxe_kernel_if_forwards(iface, gid, ipv4))
		urxe_warn("%s: the kernel forwards what comes to %s for %s, which makes copies of "
			  "it: sysctl -w net.ipv%c.conf.%s.forwarding=0",
			  p->name, iface, addr, ipv4 ? '4' : '6', iface);
}

static int packet_addr(void *link, bool add, const uint8_t gid[16])
{
	struct packet_link *p = link;
	char addr[URXE_GID_STRLEN], why[128] = "";
	int ret = 0;

	if (urxe_ctl_dead)
		return 0;
	urxe_gid_print(gid, addr, sizeof(addr));
	if (!add)
		packet_addrs_del(&p->addrs, gid);
	else
		ret = packet_addrs_add(&p->addrs, p->ifindex, gid, why, sizeof(why));
	if (ret)
		urxe_err("%s: port '%s': %s: %s%s%s", p->name, p->port, addr, why,
			 why[0] ? ": " : "", strerror(ret));
	else if (add)
		warn_of_router(p, gid, addr);
	return ret;
}

const struct urxe_link_ops urxe_link_packet_ops = {
	.name = "af_packet",
	.prompt = true,
	.burst = PACKET_BURST,
	.open = packet_open,
	.close = packet_close,
	.alloc = packet_alloc,
	.free = packet_free,
	.rx = packet_rx,
	.tx = packet_tx,
	.up = packet_up,
	.dead = packet_dead,
	.addr = packet_addr,
	.mcast = packet_mcast,
	.everything = packet_everything,
	.dropped = packet_dropped,
	.refused = packet_refused,
	.wait = packet_wait,
	.nap = packet_nap,
	.now = urxe_clock_now,
};
