/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A simulated network: any number of ends on one hub, on virtual time that the test moves.
 * Frames take the sending end's latency, and are lost, doubled, delayed or damaged by its
 * rates, all drawn from one seed: the same seed and the same calls give the same run.
 *
 *	urxe_sim_create(&sim, seed, false);
 *	end = urxe_sim_end(sim, &(struct urxe_sim_params){.latency = 5000});
 *	urxe_port_create(&port, &cfg, &urxe_link_sim_ops, end);
 *	... urxe_sim_step(sim) moves time to the next arrival ...
 *
 * An end that no port opens is a raw one: it gets every frame, and the test plays the peer
 * with urxe_sim_send() and urxe_sim_recv(). All calls are thread-safe.
 */
#ifndef URXE_TEST_LINK_SIM_H
#define URXE_TEST_LINK_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "netio/link.h"

struct urxe_sim;
struct urxe_sim_end;

/** What happens to frames on their way from an end to the hub. */
struct urxe_sim_params {
	uint64_t latency;		    /* ns */
	uint64_t bandwidth;		    /* bits/s, 0 without limit */
	double loss, dup, reorder, corrupt; /* 0..1; of every frame, ARP and ND included */
	uint64_t reorder_delay; /* ns more for a frame that is overtaken; 0: three latencies */
	unsigned queue;		/* frames that wait at an end before more are lost; 0: 4096 */
	unsigned lanes;	  /* of a port on this end; frames are spread by UDP source port; 0: 1 */
	bool paired;	  /* instead, what is sent by lane N is received by lane N, as on vhost */
	bool tx_stall;	  /* urxe_link_ops.tx takes nothing */
	bool peer, card;  /* as struct urxe_link_info has them; before the port starts */
	bool late;	  /* no carrier until urxe_sim_end_up() */
	unsigned tx_room; /* frames one urxe_link_ops.tx takes at most; 0 without limit */
};

/** urxe_sim_create - a network; @realtime: its clock is CLOCK_MONOTONIC. 0 or ENOMEM. */
int urxe_sim_create(struct urxe_sim **sim, uint64_t seed, bool realtime);
/** urxe_sim_destroy - free; ports on it are destroyed before. */
void urxe_sim_destroy(struct urxe_sim *sim);

/** urxe_sim_end - a new end, the link_arg of urxe_port_create(); NULL for want of memory. */
struct urxe_sim_end *urxe_sim_end(struct urxe_sim *sim, const struct urxe_sim_params *params);
/** urxe_sim_end_params - change them (lanes: before the port starts). */
void urxe_sim_end_params(struct urxe_sim_end *end, const struct urxe_sim_params *params);
/** urxe_sim_end_up - carrier; without it, frames to and from the end are lost. */
void urxe_sim_end_up(struct urxe_sim_end *end, bool up);

/** urxe_sim_end_die - as a port that is pulled out: no carrier any more, and urxe_link_ops.dead. */
void urxe_sim_end_die(struct urxe_sim_end *end);

/** urxe_sim_now / urxe_sim_next - the time; that of the next arrival, or UINT64_MAX. */
uint64_t urxe_sim_now(struct urxe_sim *sim);
uint64_t urxe_sim_next(struct urxe_sim *sim);
/** urxe_sim_advance - move virtual time to @t (never back), delivering what is due. */
void urxe_sim_advance(struct urxe_sim *sim, uint64_t t);
/** urxe_sim_step - move virtual time to the next arrival; false when there is none. */
bool urxe_sim_step(struct urxe_sim *sim);

/** urxe_sim_send - as if the end sent these bytes, with its latency and faults. 0 or ENOMEM. */
int urxe_sim_send(struct urxe_sim_end *end, const void *data, uint32_t len);
/** urxe_sim_recv - the next frame that arrived at a raw end; its length, 0 when there is none. */
uint32_t urxe_sim_recv(struct urxe_sim_end *end, void *buf, uint32_t size);
/** urxe_sim_put - put a frame into a port's receive queue right now, past latency and faults. */
int urxe_sim_put(struct urxe_sim_end *end, const void *data, uint32_t len);

/** urxe_sim_tap - call @fn for each frame that an end sends, before faults. Under the sim's lock.
 */
void urxe_sim_tap(struct urxe_sim *sim,
		  void (*fn)(void *arg, struct urxe_sim_end *from, const uint8_t *data,
			     uint32_t len, uint64_t now),
		  void *arg);

/** urxe_sim_filter - frames for which @fn says false are lost; NULL: none. Under the sim's lock. */
void urxe_sim_filter(struct urxe_sim *sim,
		     bool (*fn)(void *arg, struct urxe_sim_end *from, const uint8_t *data,
				uint32_t len),
		     void *arg);

/** urxe_sim_route - frames that @fn says true for go from an end to another one; NULL: as their
 * MACs say. Under the sim's lock. */
void urxe_sim_route(struct urxe_sim *sim,
		    bool (*fn)(void *arg, struct urxe_sim_end *from, struct urxe_sim_end *to,
			       const uint8_t *data, uint32_t len),
		    void *arg);

/** urxe_sim_buffers - frames in use: what a test for leaks looks at. */
unsigned urxe_sim_buffers(struct urxe_sim *sim);

extern const struct urxe_link_ops urxe_link_sim_ops;

#endif
