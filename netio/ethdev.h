/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Private to link_ethdev*.c: a link that is a DPDK port.
 */
#ifndef URXE_NETIO_ETHDEV_H
#define URXE_NETIO_ETHDEV_H

#include <stdbool.h>
#include <stdint.h>

#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include "netio/claim.h"
#include "netio/config.h"
#include "netio/ctl.h"
#include "netio/devargs.h"
#include "netio/eal.h"
#include "netio/link.h"

#define ETHDEV_MAX_LANES 64

/** How far a port has come; ethdev_plug() takes it the rest of the way. Its start is apart from
 * that (present): a driver stops and starts again what is configured. */
enum ethdev_stage {
	ETHDEV_UNPLUGGED,
	ETHDEV_PROBED, /* a driver has taken the device: there is a port */
	ETHDEV_CONFIGURED
};

struct ethdev_lane {
	struct urxe_guard guard;
	int lcore; /* DPDK's id of this lane, for its mempool cache; -1: none */
};

struct ethdev {
	struct urxe_port_config cfg;
	const struct urxe_driver_kind *kind;
	char devargs[512];	  /* cfg.port, completed */
	char name[64];		  /* DPDK's name of the device */
	char sock[256];		  /* socket file that is ours, or "" */
	struct urxe_claim *claim; /* of our side of the socket, or NULL */
	uint32_t l3_mtu;
	uint8_t mac[6];
	bool pci; /* a card: its driver, and so its kind, is known when it was probed */

	/* Written by the control thread with all guards held. */
	bool present; /* the port exists and is started */
	uint16_t port;
	bool prepare; /* tx needs rte_eth_tx_prepare() */

	bool carrier; /* atomic */
	bool gone;    /* atomic: pulled out, and never comes back */
	unsigned lanes;
	struct ethdev_lane *lane[ETHDEV_MAX_LANES];
	struct rte_mempool *pool;
	struct urxe_link_info info;
	struct urxe_link_info opened; /* info as the opener gets it: the watch may change info */

	/* The control thread's. */
	struct urxe_ctl_watch watch;
	enum ethdev_stage stage;
	bool was_up;
	bool refused;	    /* the peer that the last attempt found; it was logged */
	uint64_t peer_mark; /* which incarnation of the peer's socket the last probe failed on */
	unsigned seeks;
	uint64_t since_ns; /* of the last start, or of the first failed attempt */
	uint64_t grace_ns; /* after which it is started again, if its link is not up */

	/* The waiter's (one thread). */
	bool rx_intr; /* a frame may end a wait; by __atomic_*(), as those who wait look */
	struct urxe_guard wait_guard;
	int epfd, event_fd;		      /* event_fd: the control thread ends a wait */
	uint32_t generation, wait_generation; /* of the port: written by the control thread */
	bool armed;
};

/** ethdev_probe - let a driver take the device, unless one has; control thread. 0, or errno as
 * ethdev_plug(). */
int ethdev_probe(struct ethdev *e, char *err, size_t errlen);

/** ethdev_pool_create - a pool of @n buffers with @room bytes for data and headroom (rte_mbuf.h).
 * NULL: no memory. To be freed by rte_mempool_free(). */
struct rte_mempool *ethdev_pool_create(const char *name, unsigned n, uint16_t room);

/** ethdev_plug - probe, configure and start the port; control thread. 0, or errno and a line in
 * @err, and nothing is left of it; ENOTCONN: the peer is not there, later may do. */
int ethdev_plug(struct ethdev *e, char *err, size_t errlen);

/** ethdev_unplug - stop and remove the port, with the data path held. Control thread. */
void ethdev_unplug(struct ethdev *e);

/** ethdev_look - the carrier, now: memif has no interrupt for it. The first lane is held. */
void ethdev_look(void *arg);
/** ethdev_watch - follow the link's state, revive the port. Control thread. */
void ethdev_watch(void *arg);

/** ethdev_hold - keep the data path out (or let it in again). Control thread. */
void ethdev_hold(struct ethdev *e, bool hold);

/** ethdev_nudge_vhost - make DPDK's vhost thread look at its sockets now. Control thread. */
void ethdev_nudge_vhost(void);

/** ethdev_peer_absent - is nobody there for the port to connect to (yet)? */
bool ethdev_peer_absent(const struct ethdev *e);

/** ethdev_peer_mark - a number that differs between the peer's socket file and the one that was
 * there before; 0: none. */
uint64_t ethdev_peer_mark(const struct ethdev *e);

/** ethdev_peer_hang_up - end the connection: the driver sees its peer dead. */
void ethdev_peer_hang_up(const struct ethdev *e);

/** ethdev_peer_connected - has the driver a connection to the peer's socket that the peer has not
 * ended? False of a side that listens, and of an abstract socket. Control thread. */
bool ethdev_peer_connected(const struct ethdev *e);

/** ethdev_wait - as in netio/link.h. */
void ethdev_wait(void *link, uint64_t ns, int wake_fd, struct urxe_sleep *how);

#endif
