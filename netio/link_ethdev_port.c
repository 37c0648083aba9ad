/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A DPDK port's life: plug, unplug, and the watch that brings it back. All on the control thread.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>

#include "netio/ethdev.h"
#include "netio/fd_cloexec.h"
#include "netio/port.h"
#include "netio/stack.h"
#include "netio/trust.h"
#include "urxe/log.h"

#define MS		1000000u
#define WATCH_STEADY_NS (100 * MS)
#define WATCH_SEEK_NS	(20 * MS)
#define DRAIN_MS	3
#define START_GRACE_NS	(1000 * (uint64_t)MS) /* a link that was just started may take that long */
#define PATIENCE_NS	(10 * START_GRACE_NS) /* with a peer that does not answer, or come */

static uint64_t mono_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void ethdev_hold(struct ethdev *e, bool hold)
{
	void (*fn)(struct urxe_guard *) = hold ? urxe_guard_hold : urxe_guard_release;

	for (unsigned i = 0; i < e->lanes; i++)
		fn(&e->lane[i]->guard);
	fn(&e->wait_guard);
}

static void set_carrier(struct ethdev *e, bool up)
{
	uint64_t one = 1;

	if (__atomic_exchange_n(&e->carrier, up, __ATOMIC_RELAXED) == up)
		return;
	urxe_info("%s: link %s", e->cfg.name, up ? "up" : "down");
	if (e->event_fd >= 0 && write(e->event_fd, &one, sizeof(one)) < 0) {
		/* The counter is full: the waiter wakes up anyway. */
	}
}

/* On DPDK's or vhost's thread. */
static int on_lsc(uint16_t port, enum rte_eth_event_type type, void *arg, void *ret)
{
	struct ethdev *e = arg;
	struct rte_eth_link link;

	if (rte_eth_link_get_nowait(port, &link))
		return 0;
	/* vhost forgets that we wanted interrupts: the waiter is to ask again. Pairs with arm(). */
	__atomic_fetch_add(&e->generation, 1, __ATOMIC_RELEASE);
	set_carrier(e, link.link_status == RTE_ETH_LINK_UP);
	return 0;
}

void ethdev_look(void *arg)
{
	struct ethdev *e = arg;
	struct rte_eth_link link;

	if (urxe_ctl_dead || !urxe_guard_enter(&e->lane[0]->guard))
		return;
	if (!rte_eth_link_get_nowait(e->port, &link))
		set_carrier(e, link.link_status == RTE_ETH_LINK_UP);
	urxe_guard_leave(&e->lane[0]->guard);
}

/* On DPDK's thread: the driver has lost its device. The watch does the rest. */
static int on_removal(uint16_t port, enum rte_eth_event_type type, void *arg, void *ret)
{
	struct ethdev *e = arg;

	__atomic_store_n(&e->gone, true, __ATOMIC_RELAXED);
	return 0;
}

/* ---- configure ---- */

static void fill_info(struct ethdev *e, const struct rte_eth_dev_info *di, uint64_t tx_offloads)
{
	struct rte_ether_addr mac;
	struct rte_eth_link link;

	snprintf(e->info.driver, sizeof(e->info.driver), "%s", di->driver_name);
	e->info.tx_offloads =
		tx_offloads & RTE_ETH_TX_OFFLOAD_IPV4_CKSUM ? URXE_OFFLOAD_IPV4_CSUM : 0;
	if (!rte_eth_link_get_nowait(e->port, &link) &&
	    link.link_speed != RTE_ETH_SPEED_NUM_UNKNOWN)
		e->info.speed_mbps = link.link_speed;
	/* A MAC that others filter on (a NIC's, a kernel interface's) goes before an invented one.
	 */
	if (!e->cfg.has_mac && !e->kind->own_mac && !rte_eth_macaddr_get(e->port, &mac))
		memcpy(e->mac, mac.addr_bytes, 6);
	memcpy(e->info.mac, e->mac, 6);
	e->info.card = e->pci;
}

static void set_mac(struct ethdev *e)
{
	struct rte_ether_addr mac;

	if (!e->cfg.has_mac || e->kind->own_mac)
		return;
	memcpy(mac.addr_bytes, e->cfg.mac, 6);
	if (rte_eth_dev_default_mac_addr_set(e->port, &mac))
		urxe_info("%s: the port keeps its own MAC, receiving promiscuously", e->cfg.name);
}

/* Only UDP can be spread over the lanes: the source port is a flow's entropy. */
static uint64_t rss_types(const struct rte_eth_dev_info *di)
{
	return di->flow_type_rss_offloads &
	       (RTE_ETH_RSS_NONFRAG_IPV4_UDP | RTE_ETH_RSS_NONFRAG_IPV6_UDP);
}

static unsigned pick_lanes(const struct ethdev *e, const struct rte_eth_dev_info *di)
{
	unsigned n = urxe_devargs_queues(&e->cfg);

	if (n > e->lanes)
		n = e->lanes;
	if (n > di->max_rx_queues)
		n = di->max_rx_queues;
	if (n > di->max_tx_queues)
		n = di->max_tx_queues;
	if (n > 1 && !e->kind->same_queues && !rss_types(di))
		n = 1;
	return n ? n : 1;
}

/* As ethdev checks it: by the MTU, and by the frame. */
static uint32_t largest_mtu(const struct rte_eth_dev_info *di, uint32_t mtu)
{
	uint32_t overhead = RTE_ETHER_HDR_LEN + RTE_ETHER_CRC_LEN;

	if (di->max_mtu && di->max_mtu != UINT16_MAX && di->max_rx_pktlen > di->max_mtu)
		overhead = di->max_rx_pktlen - di->max_mtu;
	if (di->max_mtu && mtu > di->max_mtu)
		mtu = di->max_mtu;
	if (di->max_rx_pktlen > overhead && mtu > di->max_rx_pktlen - overhead)
		mtu = di->max_rx_pktlen - overhead;
	return mtu;
}

static int configure(struct ethdev *e, const struct rte_eth_dev_info *di, bool intr,
		     uint64_t *tx_offloads)
{
	struct rte_eth_conf conf = {0};
	unsigned lanes = pick_lanes(e, di);
	uint32_t mtu = e->l3_mtu;
	int ret;

	*tx_offloads = di->tx_offload_capa & RTE_ETH_TX_OFFLOAD_IPV4_CKSUM;
	conf.txmode.offloads = *tx_offloads;
	if (lanes > 1 && rss_types(di)) {
		conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		conf.rx_adv_conf.rss_conf.rss_hf = rss_types(di);
	}
	conf.intr_conf.rxq = intr;
	/* A card has no LSC interrupt: the watch asks. With it DPDK would answer with the state at
	 * the last interrupt, and on uio, with rx interrupts wanted, there is none (e1000). */
	conf.intr_conf.lsc = !e->pci && *di->dev_flags & RTE_ETH_DEV_INTR_LSC;
	conf.intr_conf.rmv = !!(*di->dev_flags & RTE_ETH_DEV_INTR_RMV);
	if (!e->kind->any_mtu) {
		mtu = largest_mtu(di, mtu);
		conf.rxmode.mtu = mtu;
	}
	ret = rte_eth_dev_configure(e->port, (uint16_t)lanes, (uint16_t)lanes, &conf);
	if (ret && (conf.intr_conf.lsc || conf.intr_conf.rmv)) {
		conf.intr_conf.lsc = conf.intr_conf.rmv = 0;
		ret = rte_eth_dev_configure(e->port, (uint16_t)lanes, (uint16_t)lanes, &conf);
	}
	if (ret)
		return -ret;
	e->info.lanes = lanes;
	e->info.max_l3_mtu = mtu;
	return 0;
}

/*
 * A driver that takes sent frames back when fewer descriptors than its threshold are free, by
 * default when the ring is full: all its frames would go through the processor's cache, which
 * they do not fit in. So it is to take them back as soon as a few bursts are out.
 */
#define TX_UNFREED 64

/*
 * The threshold must be below the device's ring, which a card on virtio has of its own, whatever
 * is asked for, and which DPDK does not report: it is found by trial, from what we asked for
 * downwards.
 */
static int setup_tx_queue(struct ethdev *e, uint16_t queue, uint16_t txd, struct rte_eth_txconf txc,
			  bool hoards)
{
	unsigned socket = (unsigned)rte_eth_dev_socket_id(e->port);
	struct rte_eth_txconf own = txc;

	for (unsigned n = txd; hoards && n >= 2 * TX_UNFREED; n /= 2) {
		own.tx_free_thresh = (uint16_t)(n - TX_UNFREED);
		if (!rte_eth_tx_queue_setup(e->port, queue, txd, socket, &own))
			return 0;
	}
	urxe_eal_error(NULL, 0);
	return rte_eth_tx_queue_setup(e->port, queue, txd, socket, &txc);
}

static int setup_queues(struct ethdev *e, const struct rte_eth_dev_info *di, uint64_t tx_offloads)
{
	uint16_t rxd = urxe_devargs_desc(e->devargs), txd = rxd;
	struct rte_eth_txconf txc = di->default_txconf;
	struct rte_eth_rxconf rxc = di->default_rxconf;
	int ret;

	txc.offloads = tx_offloads;
	rxc.offloads = 0;
	ret = rte_eth_dev_adjust_nb_rx_tx_desc(e->port, &rxd, &txd);
	for (unsigned i = 0; !ret && i < e->info.lanes; i++) {
		ret = rte_eth_rx_queue_setup(e->port, (uint16_t)i, rxd,
					     (unsigned)rte_eth_dev_socket_id(e->port), &rxc,
					     e->pool);
		if (!ret)
			ret = setup_tx_queue(e, (uint16_t)i, txd, txc, e->kind->hoards);
	}
	return -ret;
}

/*
 * A link that does not come up is started again, after this time. Two sides that both do so at one
 * pace can go on to miss each other: so who listens stays, for a client can come at any time and
 * leaves nothing behind, and no two attempts of who connects are equally far apart.
 */
static uint64_t grace(const struct ethdev *e)
{
	struct urxe_devargs_socket s;

	if (urxe_devargs_socket(e->devargs, &s) && s.listens)
		return PATIENCE_NS;
	return START_GRACE_NS + urxe_random64() % (START_GRACE_NS / 4);
}

/*
 * A peer that is slow to answer is waited for: memif's server (22.11, 24.11) does not survive a
 * client that hangs up before the greeting, or keeps what it freed.
 */
static bool in_vain(const struct ethdev *e, uint64_t now)
{
	uint64_t time = now - e->since_ns;

	if (time <= e->grace_ns)
		return false;
	return time > PATIENCE_NS || e->kind->revive != URXE_REVIVE_RESTART ||
	       !ethdev_peer_connected(e);
}

static int start(struct ethdev *e)
{
	int ret;

	if (e->kind->gated)
		urxe_gate_lock();
	ret = rte_eth_dev_start(e->port);
	if (e->kind->gated)
		urxe_gate_unlock();
	if (!ret && e->kind->nudge)
		ethdev_nudge_vhost();
	e->since_ns = mono_ns();
	e->grace_ns = grace(e);
	return -ret;
}

/* A step begins: what DPDK complained of before, and survived, is not why this one fails. */
static void enter(const char **step, const char *name)
{
	urxe_eal_error(NULL, 0);
	*step = name;
}

/* @intr: with interrupts of received frames. ENOTCONN: only the peer is missing. */
static int set_up(struct ethdev *e, const struct rte_eth_dev_info *di, bool intr,
		  uint64_t *tx_offloads, const char **step)
{
	int ret;

	enter(step, "configure");
	ret = configure(e, di, intr, tx_offloads);
	if (ret)
		return ret;
	enter(step, "set up the queues of");
	ret = setup_queues(e, di, *tx_offloads);
	if (ret)
		return ret;
	/* Some can, none must. */
	if (e->kind->any_mtu)
		rte_eth_dev_set_mtu(e->port, (uint16_t)e->l3_mtu);
	set_mac(e);
	enter(step, "start");
	ret = start(e);
	return ret && e->kind->revive == URXE_REVIVE_RESTART ? ENOTCONN : ret;
}

static int bring_up(struct ethdev *e, const char **step)
{
	struct rte_eth_dev_info di;
	uint64_t tx_offloads = 0;
	bool intr;
	int ret;

	enter(step, "query");
	ret = -rte_eth_dev_info_get(e->port, &di);
	if (ret)
		return ret;
	if (e->pci)
		e->kind = urxe_devargs_kind(di.driver_name);
	intr = urxe_devargs_rx_intr(e->cfg.port, e->kind);
	__atomic_store_n(&e->rx_intr, intr, __ATOMIC_RELAXED);
	rte_eth_dev_callback_register(e->port, RTE_ETH_EVENT_INTR_LSC, on_lsc, e);
	rte_eth_dev_callback_register(e->port, RTE_ETH_EVENT_INTR_RMV, on_removal, e);
	ret = set_up(e, &di, intr, &tx_offloads, step);
	if (ret && ret != ENOTCONN && intr)
		ret = set_up(e, &di, false, &tx_offloads, step);
	if (ret && ret != ENOTCONN)
		return ret;
	if (rte_eth_promiscuous_enable(e->port))
		rte_eth_allmulticast_enable(e->port);
	e->prepare = tx_offloads != 0;
	fill_info(e, &di, tx_offloads);
	e->stage = ETHDEV_CONFIGURED;
	return ret;
}

/* ---- plug ---- */

/* Whose socket is it? *@fd as of urxe_trust_socket(). */
static int check_peer(const struct ethdev *e, int *fd, char *err, size_t errlen)
{
	struct urxe_devargs_socket s;
	int ret;

	*fd = -1;
	if (e->cfg.trust_peer || !urxe_devargs_socket(e->devargs, &s))
		return 0;
	ret = urxe_trust_socket(&s, fd, err, errlen);
	/* Nothing to check: nothing to connect to, either. */
	return !ret && s.by_fd && *fd < 0 ? ENOTCONN : ret;
}

/* @fd: what check_peer() found, and what the driver is to connect to; -1: what its path means. */
static int probe(struct ethdev *e, int fd, char *err, size_t errlen)
{
	char path[32], devargs[sizeof(e->devargs) + sizeof(path)];
	const char *args = e->devargs;
	int ret;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (fd >= 0 && !access(path, F_OK) &&
	    urxe_devargs_replace(e->devargs, "path", path, devargs, sizeof(devargs)))
		args = devargs;
	ret = rte_dev_probe(args);
	if (!ret && !rte_eth_dev_get_port_by_name(e->name, &e->port))
		return 0;
	ret = ret ? -ret : ENODEV;
	urxe_eal_error(err, errlen);
	if (ethdev_peer_absent(e))
		return ENOTCONN;
	/* EAL says EPERM (-1) and EEXIST where it means "no driver took it". */
	return ret == EPERM || ret == ENOENT ? ENODEV : ret;
}

static int find_port(struct ethdev *e, int fd, char *err, size_t errlen)
{
	urxe_eal_error(err, errlen);
	/* A PCI device was probed when EAL started. */
	if (rte_eth_dev_get_port_by_name(e->name, &e->port))
		return probe(e, fd, err, errlen);
	if (rte_eth_dev_is_valid_port(e->port) && e->kind->driver[0]) {
		snprintf(err, errlen, "another device of this process has that port");
		return EBUSY;
	}
	return 0;
}

/* Nobody else may have our side of the socket. It may be that its folder came late. */
static int claim_socket(struct ethdev *e, char *err, size_t errlen)
{
	struct urxe_devargs_socket s;

	if (e->claim || !urxe_devargs_socket(e->devargs, &s))
		return 0;
	return urxe_claim_socket(&s, &e->claim, err, errlen);
}

/* A DPDK program does not see the port when it goes through those that are nobody's. */
static int own_port(struct ethdev *e, char *err, size_t errlen)
{
	struct rte_eth_dev_owner owner = {.id = RTE_ETH_DEV_NO_OWNER}, its;
	int ret = rte_eth_dev_owner_new(&owner.id);

	snprintf(owner.name, sizeof(owner.name), "urxe %s", e->cfg.name);
	if (!ret)
		ret = rte_eth_dev_owner_set(e->port, &owner);
	if (!ret)
		return 0;
	if (!rte_eth_dev_owner_get(e->port, &its) && its.id != RTE_ETH_DEV_NO_OWNER)
		snprintf(err, errlen, "'%s' has that port in this process", its.name);
	return EBUSY;
}

static void own_socket(struct ethdev *e)
{
	struct urxe_devargs_socket s;

	if (urxe_devargs_socket(e->devargs, &s) && s.listens && !s.abstract)
		snprintf(e->sock, sizeof(e->sock), "%s", s.path);
}

int ethdev_probe(struct ethdev *e, char *err, size_t errlen)
{
	int ret, busy, fd;

	if (!e->since_ns)
		e->since_ns = mono_ns();
	if (e->stage != ETHDEV_UNPLUGGED)
		return 0;
	ret = check_peer(e, &fd, err, errlen);
	busy = !ret || ret == ENOTCONN ? claim_socket(e, err, errlen) : 0;
	if (busy || ret) {
		if (fd >= 0)
			close(fd);
		return busy ? busy : ret;
	}
	ret = find_port(e, fd, err, errlen);
	if (fd >= 0)
		close(fd);
	if (ret)
		return ret;
	ret = own_port(e, err, errlen);
	if (ret)
		return ret;
	own_socket(e);
	e->stage = ETHDEV_PROBED;
	return 0;
}

/* Configured before: only the start was missing, and its peer may be another one now. */
static int start_again(struct ethdev *e, char *err, size_t errlen)
{
	int fd, ret = check_peer(e, &fd, err, errlen);

	if (fd >= 0)
		close(fd);
	return ret ? ret : start(e) ? ENOTCONN : 0;
}

static int plug(struct ethdev *e, char *err, size_t errlen)
{
	const char *step = "find";
	int ret;

	ret = ethdev_probe(e, err, errlen);
	if (ret)
		return ret;
	if (e->stage == ETHDEV_CONFIGURED) {
		ret = start_again(e, err, errlen);
		if (ret)
			return ret;
	} else {
		ret = bring_up(e, &step);
	}
	if (ret == ENOTCONN)
		return ret;
	if (ret) {
		char why[160];

		urxe_eal_error(why, sizeof(why));
		snprintf(err, errlen, "cannot %s the port%s%s", step, why[0] ? ": " : "", why);
		ethdev_unplug(e);
		return ret;
	}
	urxe_claim_made(e->claim, e->sock);
	ethdev_hold(e, true);
	e->present = true;
	/* Pairs with arm(). */
	__atomic_fetch_add(&e->generation, 1, __ATOMIC_RELEASE);
	ethdev_hold(e, false);
	e->was_up = false;
	return 0;
}

int ethdev_plug(struct ethdev *e, char *err, size_t errlen)
{
	struct urxe_fds fds;
	int ret;

	urxe_fds_note(&fds);
	ret = plug(e, err, errlen);
	urxe_fds_cloexec(&fds);
	return ret;
}

static void stop(struct ethdev *e)
{
	ethdev_hold(e, true);
	e->present = false;
	/* Pairs with arm(). */
	__atomic_fetch_add(&e->generation, 1, __ATOMIC_RELEASE);
	if (e->kind->gated)
		urxe_gate_lock();
	rte_eth_dev_stop(e->port);
	if (e->kind->gated)
		urxe_gate_unlock();
	ethdev_hold(e, false);
	set_carrier(e, false);
}

/* EAGAIN: it runs at this moment, on vhost's thread. */
static void callback_remove(struct ethdev *e, enum rte_eth_event_type type, rte_eth_dev_cb_fn fn)
{
	while (rte_eth_dev_callback_unregister(e->port, type, fn, e) == -EAGAIN)
		sched_yield();
}

static void callbacks_remove(struct ethdev *e)
{
	callback_remove(e, RTE_ETH_EVENT_INTR_LSC, on_lsc);
	callback_remove(e, RTE_ETH_EVENT_INTR_RMV, on_removal);
}

/*
 * memif's server accepts a client also while it is stopped, and does not end that connection when
 * it is closed: its handler would use a port that is gone. A stop ends it, but only of a port that
 * is started. With the gate's lock held.
 */
static void end_late_connection(struct ethdev *e)
{
	struct urxe_devargs_socket s;

	if (e->kind->revive != URXE_REVIVE_RESTART || !urxe_devargs_socket(e->devargs, &s) ||
	    !s.listens)
		return;
	if (!rte_eth_dev_start(e->port))
		rte_eth_dev_stop(e->port);
}

void ethdev_unplug(struct ethdev *e)
{
	struct rte_eth_dev_info di;

	if (e->stage == ETHDEV_UNPLUGGED)
		return;
	if (e->present) {
		/* A peer reads our rings, and loses them when we go. */
		if (e->kind->own_mac && __atomic_load_n(&e->carrier, __ATOMIC_RELAXED))
			poll(NULL, 0, DRAIN_MS);
		stop(e);
	} else {
		ethdev_peer_hang_up(e);
	}
	/* virtio_user's handler sets an alarm when it finds its peer dead, and none may outlive the
	 * port. The stop took the handler away. A port that was not started has it still, and no
	 * call takes it away but that alarm: so its peer is dead now. It has run, and set one, by
	 * the end of the first barrier, and the alarm has by the end of the second. */
	urxe_eal_alarm_barrier();
	urxe_eal_alarm_barrier();
	if (e->kind->gated)
		urxe_gate_lock();
	callbacks_remove(e);
	if (rte_eth_dev_info_get(e->port, &di))
		di.device = NULL;
	end_late_connection(e);
	rte_eth_dev_close(e->port);
	if (di.device)
		rte_dev_remove(di.device);
	if (e->kind->gated)
		urxe_gate_unlock();
	if (e->sock[0])
		unlink(e->sock);
	e->stage = ETHDEV_UNPLUGGED;
}

/* ---- watch ---- */

static void seek(struct ethdev *e, uint64_t now)
{
	uint64_t mark = ethdev_peer_mark(e);
	int ret = ENOTCONN;
	char err[400];
	bool tried;

	/* A failed probe is dear and noisy: only now and then on a socket that is missing or dead.
	 */
	if (mark != e->peer_mark)
		e->seeks = 0;
	e->peer_mark = mark;
	e->seeks++;
	tried = e->kind->revive != URXE_REVIVE_REPLUG || (mark && e->seeks < 4) ||
		e->seeks % 50 == 0;
	if (tried)
		ret = ethdev_plug(e, err, sizeof(err));
	if (!ret) {
		e->watch.interval_ns = WATCH_SEEK_NS;
		return;
	}
	if ((ret == EPERM || ret == EBUSY) && !e->refused)
		urxe_err("%s: no connection to the peer of '%s': %s", e->cfg.name, e->cfg.port,
			 err);
	else if (ret != ENOTCONN)
		urxe_debug("%s: %s: %s", e->cfg.name, err, strerror(ret));
	if (tried)
		e->refused = ret == EPERM || ret == EBUSY;
	/* Eager at first, then patient. */
	e->watch.interval_ns =
		now - e->since_ns > 10 * START_GRACE_NS ? WATCH_STEADY_NS : WATCH_SEEK_NS;
}

/* The port stays, for nobody knows what its driver still holds, but nobody uses it any more. */
static void retire(struct ethdev *e)
{
	urxe_warn("%s: port '%s' was removed", e->cfg.name, e->cfg.port);
	__atomic_store_n(&e->gone, true, __ATOMIC_RELAXED);
	stop(e);
	e->watch.interval_ns = WATCH_STEADY_NS;
}

void ethdev_watch(void *arg)
{
	struct ethdev *e = arg;
	uint64_t now = mono_ns();
	struct rte_eth_link link;
	bool up;

	if (__atomic_load_n(&e->gone, __ATOMIC_RELAXED)) {
		if (e->present)
			retire(e);
		return;
	}
	if (!e->present) {
		seek(e, now);
		return;
	}
	if (rte_eth_link_get_nowait(e->port, &link))
		return;
	up = link.link_status == RTE_ETH_LINK_UP;
	set_carrier(e, up);
	if (up) {
		e->was_up = true;
		e->watch.interval_ns = WATCH_STEADY_NS;
	} else if (e->kind->revive != URXE_REVIVE_NONE && e->was_up) {
		/* What the peer sent last may still be in the rings: one more round to fetch it. */
		e->was_up = false;
		e->since_ns = now - PATIENCE_NS;
		e->watch.interval_ns = WATCH_SEEK_NS;
	} else if (e->kind->revive != URXE_REVIVE_NONE && in_vain(e, now)) {
		stop(e);
		if (e->kind->revive == URXE_REVIVE_REPLUG)
			ethdev_unplug(e);
		e->since_ns = now;
		e->watch.interval_ns = WATCH_SEEK_NS;
	}
}
