/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The link that is a DPDK port: open, close and the data path. Frames are single-segment mbufs.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>

#include "netio/ethdev.h"
#include "netio/link_ethdev.h"
#include "netio/pci.h"
#include "netio/port.h"
#include "urxe/lines.h"
#include "urxe/log.h"

#define BURST 64

/* ---- data path ---- */

/*
 * While a lane is inside DPDK it wears an lcore id of its own, so that mempools serve it from a
 * cache: the application's threads have none, and the lane's lock makes sharing one safe.
 */
static inline unsigned lcore_wear(const struct ethdev_lane *l)
{
	unsigned old = RTE_PER_LCORE(_lcore_id);

	if (l->lcore >= 0)
		RTE_PER_LCORE(_lcore_id) = (unsigned)l->lcore;
	return old;
}

static inline void lcore_restore(unsigned old)
{
	RTE_PER_LCORE(_lcore_id) = old;
}

static unsigned ethdev_alloc(void *link, unsigned lane, struct urxe_frame *f, unsigned n)
{
	struct ethdev *e = link;
	struct rte_mbuf *m[BURST];
	unsigned old;

	if (urxe_ctl_dead)
		return 0;
	if (n > BURST)
		n = BURST;
	old = lcore_wear(e->lane[lane]);
	while (n && rte_pktmbuf_alloc_bulk(e->pool, m, n))
		n /= 2; /* all or nothing: ask for less */
	lcore_restore(old);
	for (unsigned i = 0; i < n; i++) {
		f[i] = (struct urxe_frame){.data = rte_pktmbuf_mtod(m[i], uint8_t *),
					   .room = rte_pktmbuf_tailroom(m[i]),
					   .buf = m[i]};
	}
	return n;
}

static void ethdev_free(void *link, unsigned lane, struct urxe_frame *f, unsigned n)
{
	struct ethdev *e = link;
	struct rte_mbuf *m[BURST];
	unsigned k, old;

	if (urxe_ctl_dead)
		return;
	old = lcore_wear(e->lane[lane]);
	for (; n; n -= k, f += k) {
		for (k = 0; k < n && k < BURST; k++)
			m[k] = f[k].buf;
		rte_pktmbuf_free_bulk(m, k);
	}
	lcore_restore(old);
}

/* Without an lcore id, so to the pool itself, and not to a cache that a lane may be using. */
static void ethdev_let_go(void *link, void *buf)
{
	unsigned old = RTE_PER_LCORE(_lcore_id);

	(void)link;
	if (urxe_ctl_dead)
		return;
	RTE_PER_LCORE(_lcore_id) = LCORE_ID_ANY;
	rte_pktmbuf_free(buf);
	lcore_restore(old);
}

/* One piece. A frame that is too long for it loses its tail: the stack counts it as cut off.
 * @written: the peer's processor wrote it, and will write there again. */
static void frame_from_mbuf(struct urxe_frame *f, struct rte_mbuf *m, bool written)
{
	uint16_t len;

	if (m->nb_segs > 1 && rte_pktmbuf_linearize(m)) {
		rte_pktmbuf_free(m->next);
		m->next = NULL;
		m->nb_segs = 1;
		m->pkt_len = m->data_len;
	}
	/* Some drivers take the length from the peer as it is. */
	len = RTE_MIN(m->data_len, (uint16_t)(m->buf_len - m->data_off));
	if (written)
		urxe_lines_take(rte_pktmbuf_mtod(m, void *), len);
	*f = (struct urxe_frame){
		.data = rte_pktmbuf_mtod(m, uint8_t *), .len = len, .room = len, .buf = m};
	f->flags = (m->ol_flags & RTE_MBUF_F_RX_IP_CKSUM_MASK) == RTE_MBUF_F_RX_IP_CKSUM_BAD
			   ? URXE_FRAME_RX_BAD_CSUM
			   : 0;
}

static unsigned ethdev_rx(void *link, unsigned lane, struct urxe_frame *f, unsigned n)
{
	struct ethdev *e = link;
	struct ethdev_lane *l = e->lane[lane];
	struct rte_mbuf *m[BURST];
	unsigned got = 0, old;

	if (urxe_ctl_dead || !urxe_guard_enter(&l->guard))
		return 0;
	if (e->present && lane < e->info.lanes) {
		old = lcore_wear(l);
		got = rte_eth_rx_burst(e->port, (uint16_t)lane, m,
				       (uint16_t)(n < BURST ? n : BURST));
		for (unsigned i = 0; i < got; i++)
			frame_from_mbuf(&f[i], m[i], e->kind->written);
		lcore_restore(old);
	}
	urxe_guard_leave(&l->guard);
	if (got && !__atomic_load_n(&e->carrier, __ATOMIC_RELAXED) &&
	    !__atomic_load_n(&e->gone, __ATOMIC_RELAXED))
		__atomic_store_n(&e->carrier, true, __ATOMIC_RELAXED);
	return got;
}

static inline void mbuf_from_frame(struct rte_mbuf *m, const struct urxe_frame *f)
{
	m->data_off = (uint16_t)(f->data - (uint8_t *)m->buf_addr);
	m->data_len = (uint16_t)f->len;
	m->pkt_len = f->len;
	m->ol_flags = 0;
	if (f->flags & URXE_FRAME_TX_IPV4_CSUM) {
		m->ol_flags = RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM;
		m->l2_len = f->data[12] == 0x81 && f->data[13] == 0 ? 18 : 14;
		m->l3_len = 20;
	}
}

static unsigned tx_burst(struct ethdev *e, unsigned lane, struct urxe_frame *f, unsigned n)
{
	struct rte_mbuf *m[BURST];

	if (n > BURST)
		n = BURST;
	for (unsigned i = 0; i < n; i++) {
		m[i] = f[i].buf;
		mbuf_from_frame(m[i], &f[i]);
	}
	if (e->prepare)
		n = rte_eth_tx_prepare(e->port, (uint16_t)lane, m, (uint16_t)n);
	return rte_eth_tx_burst(e->port, (uint16_t)lane, m, (uint16_t)n);
}

static unsigned ethdev_tx(void *link, unsigned lane, struct urxe_frame *f, unsigned n)
{
	struct ethdev *e = link;
	struct ethdev_lane *l = e->lane[lane];
	unsigned k = 0, got, old;

	if (urxe_ctl_dead)
		return n;
	old = lcore_wear(l);
	if (urxe_guard_enter(&l->guard)) {
		while (e->present && lane < e->info.lanes && k < n) {
			got = tx_burst(e, lane, f + k, n - k);
			k += got;
			if (!got)
				break;
		}
		urxe_guard_leave(&l->guard);
	}
	lcore_restore(old);
	return k;
}

static bool ethdev_up(void *link)
{
	struct ethdev *e = link;

	return !urxe_ctl_dead && __atomic_load_n(&e->carrier, __ATOMIC_RELAXED);
}

static bool ethdev_dead(void *link)
{
	struct ethdev *e = link;

	return !urxe_ctl_dead && __atomic_load_n(&e->gone, __ATOMIC_RELAXED);
}

/* ---- open and close ---- */

static void ethdev_release(struct ethdev *e)
{
	for (unsigned i = 0; i < e->lanes; i++) {
		if (e->kind->gated)
			urxe_gate_del(&e->lane[i]->guard);
		urxe_eal_lcore_put(e->lane[i]->lcore);
		free(e->lane[i]);
	}
	if (e->kind->gated)
		urxe_gate_del(&e->wait_guard);
	urxe_claim_release(e->claim);
	rte_mempool_free(e->pool);
	if (e->epfd >= 0)
		close(e->epfd);
	if (e->event_fd >= 0)
		close(e->event_fd);
}

static int make_lanes(struct ethdev *e)
{
	unsigned n = urxe_devargs_queues(&e->cfg);
	struct ethdev_lane *l;
	int ret;

	if (n > ETHDEV_MAX_LANES)
		n = ETHDEV_MAX_LANES;
	if (e->kind->gated) {
		ret = urxe_gate_add(&e->wait_guard);
		if (ret)
			return ret;
	}
	for (; e->lanes < n; e->lanes++) {
		l = aligned_alloc(64, sizeof(*l));
		if (!l)
			return ENOMEM;
		memset(l, 0, sizeof(*l));
		if (e->kind->gated) {
			ret = urxe_gate_add(&l->guard);
			if (ret) {
				free(l);
				return ret;
			}
		}
		l->lcore = urxe_eal_lcore();
		e->lane[e->lanes] = l;
	}
	return 0;
}

/* As large as our frames, and as the driver wants it, where it can be asked already. */
static uint32_t data_room(const struct ethdev *e)
{
	uint32_t room = urxe_devargs_data_room(e->devargs, e->l3_mtu);
	struct rte_eth_dev_info di;

	if (e->stage != ETHDEV_UNPLUGGED && !rte_eth_dev_info_get(e->port, &di) &&
	    di.min_rx_bufsize > room && di.min_rx_bufsize <= UINT16_MAX - RTE_PKTMBUF_HEADROOM)
		room = di.min_rx_bufsize;
	return room;
}

static int make_resources(struct ethdev *e, char *err, size_t errlen)
{
	static unsigned serial;
	char name[RTE_MEMPOOL_NAMESIZE];
	uint32_t room = data_room(e);
	int ret;

	ret = make_lanes(e);
	if (ret)
		return ret;
	snprintf(name, sizeof(name), "urxe_pool%u", serial++);
	e->pool = ethdev_pool_create(name, URXE_LANE_BUFS * e->lanes - 1,
				     (uint16_t)(room + RTE_PKTMBUF_HEADROOM));
	if (!e->pool) {
		snprintf(err, errlen, "no memory for %u frames of %u bytes",
			 URXE_LANE_BUFS * e->lanes, room);
		return ENOMEM;
	}
	e->epfd = epoll_create1(EPOLL_CLOEXEC);
	e->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (e->epfd < 0 || e->event_fd < 0)
		return errno;
	return 0;
}

static int open_job(void *arg)
{
	struct ethdev *e = arg;
	char err[400] = "";
	int ret;

	ret = urxe_eal_start(err, sizeof(err));
	if (ret) {
		urxe_err("%s: cannot start DPDK: %s: %s", e->cfg.name, err, strerror(ret));
		return ret;
	}
	ret = ethdev_probe(e, err, sizeof(err));
	if (!ret || ret == ENOTCONN)
		ret = make_resources(e, err, sizeof(err));
	if (!ret)
		ret = ethdev_plug(e, err, sizeof(err));
	if (ret && ret != ENOTCONN) {
		ethdev_unplug(e);
		urxe_err("%s: cannot start port '%s': %s%s%s", e->cfg.name, e->cfg.port, err,
			 err[0] ? ": " : "", strerror(ret));
		ethdev_release(e);
		return ret;
	}
	if (ret)
		urxe_info("%s: the peer of '%s' is not there yet", e->cfg.name, e->cfg.port);
	e->watch.poll = ethdev_watch;
	e->watch.arg = e;
	ethdev_watch(e);
	if (!e->watch.interval_ns)
		e->watch.interval_ns = 20000000;
	e->opened = e->info;
	urxe_ctl_watch_add(&e->watch);
	return 0;
}

/* EAL has a worse message, or none, when something is wrong with a card. */
static int pci_ready(const struct ethdev *e)
{
	char addr[32], why[400];
	int ret;

	if (!urxe_devargs_pci(e->cfg.port, addr, sizeof(addr)))
		return 0;
	ret = urxe_pci_ready(&urxe_pci_machine, addr, urxe_devargs_pool_mb(&e->cfg, e->l3_mtu), why,
			     sizeof(why));
	if (ret)
		urxe_err("%s: cannot use port '%s': %s", e->cfg.name, e->cfg.port, why);
	return ret;
}

static int ethdev_open(void *arg, const struct urxe_port_config *cfg, const uint8_t mac[6],
		       uint32_t l3_mtu, void **link, struct urxe_link_info *info)
{
	struct ethdev *e;
	char err[200];
	int ret;

	if (urxe_ctl_dead) {
		urxe_err("%s: DPDK runs in the parent process: a child needs to exec", cfg->name);
		return ENODEV;
	}
	e = aligned_alloc(64, (sizeof(*e) + 63) & ~63ul);
	if (!e) {
		urxe_err("%s: no memory", cfg->name);
		return ENOMEM;
	}
	memset(e, 0, sizeof(*e));
	e->cfg = *cfg;
	e->l3_mtu = l3_mtu;
	e->epfd = e->event_fd = -1;
	e->kind = urxe_devargs_kind(cfg->port);
	if (mac)
		memcpy(e->mac, mac, 6);
	ret = urxe_devargs_complete(cfg, l3_mtu, e->devargs, sizeof(e->devargs), err, sizeof(err));
	if (ret) {
		urxe_err("%s: cannot use port '%s': %s", cfg->name, cfg->port, err);
		free(e);
		return ret;
	}
	ret = pci_ready(e);
	if (ret) {
		free(e);
		return ret;
	}
	e->pci = urxe_devargs_pci(cfg->port, e->name, sizeof(e->name));
	if (!e->pci)
		urxe_devargs_name(cfg->port, e->name, sizeof(e->name));
	/* What is known of a port whose peer is still to come. */
	snprintf(e->info.driver, sizeof(e->info.driver), "%s", e->kind->driver);
	memcpy(e->info.mac, e->mac, 6);
	e->info.max_l3_mtu = l3_mtu;
	e->info.lanes = e->kind->same_queues ? urxe_devargs_queues(cfg) : 1;
	e->info.peer = e->kind->peer;
	e->info.may_hold = URXE_LANE_BUFS / 8; /* the rings do not need them */

	ret = urxe_ctl_call(open_job, e);
	if (ret) {
		free(e);
		return ret;
	}
	*info = e->opened;
	*link = e;
	return 0;
}

static int close_job(void *arg)
{
	struct ethdev *e = arg;

	urxe_ctl_watch_del(&e->watch);
	ethdev_unplug(e);
	ethdev_release(e);
	free(e);
	return 0;
}

static void ethdev_close(void *link)
{
	/* In a forked child all of it is the parent's. */
	if (!urxe_ctl_dead)
		urxe_ctl_call(close_job, link);
}

const struct urxe_link_ops urxe_link_ethdev_ops = {
	.name = "dpdk",
	.open = ethdev_open,
	.close = ethdev_close,
	.alloc = ethdev_alloc,
	.free = ethdev_free,
	.rx = ethdev_rx,
	.let_go = ethdev_let_go,
	.tx = ethdev_tx,
	.up = ethdev_up,
	.look = ethdev_look,
	.dead = ethdev_dead,
	.wait = ethdev_wait,
};
