/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Two devices on a simulated network, driven by the test alone on virtual time: verbs calls on
 * both, no thread, no EAL. What happens is a function of the seed.
 */
#ifndef URXE_TEST_PAIR_H
#define URXE_TEST_PAIR_H

#include <stdbool.h>
#include <stdint.h>

#include "link_sim.h"
#include "provider.h"

#define PAIR_BUF (1u << 20)

/** One side: a device with a context, a PD, a CQ, a buffer, and QPs that the test makes. */
struct side {
	struct urxe_device *dev;
	struct urxe_sim_end *end;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel; /* when asked for */
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint8_t *buf; /* PAIR_BUF bytes */
	struct ibv_qp *qp;
};

struct pair {
	struct urxe_sim *sim;
	bool threaded;
	struct side a, b;
};

/** What a pair is made of; zeros are sensible. */
struct pair_params {
	uint64_t seed;
	struct urxe_sim_params link;
	uint32_t mtu; /* RDMA path MTU; 0: 1024 */
	bool v6;
	int access;	   /* of the MR and QP; 0: everything */
	uint8_t timeout;   /* local ACK timeout; 0: 14 */
	uint8_t retry_cnt; /* used as given when set_retries */
	uint8_t rnr_retry;
	bool set_retries;
	uint8_t min_rnr_timer;
	uint8_t rd_atomic; /* 0: 16 */
	uint32_t max_wr;   /* 0: 128 */
	uint32_t max_inline;
	uint32_t max_sge; /* 0: 4 */
	bool sig_all;
	bool threaded;			 /* in real time, with service threads: no pair_step() */
	const struct urxe_link_ops *ops; /* NULL: urxe_link_sim_ops */
	bool channel;			 /* CQs with a completion channel */
	bool two_nets;			 /* a second address each, in another network (IPv4) */
	bool v6_too;			 /* another one each, of IPv6 */
	/* Both have the first one's addresses. Called before each is made (sim_fabric_next()). */
	void (*join)(struct urxe_sim *sim, struct urxe_sim_end *end, unsigned host);
};

/** pair_open - both sides up, with a connected QP of @type each (UD: ready to send). */
void pair_open(struct pair *p, const struct pair_params *params, enum ibv_qp_type type);
/** pair_close - everything destroyed; asserts that no frame leaked. */
void pair_close(struct pair *p);

/** pair_qp - one more QP on a side, in RESET. */
struct ibv_qp *pair_qp(struct side *s, const struct pair_params *params, enum ibv_qp_type type);
/** pair_connect - bring two QPs to RTS towards each other. */
void pair_connect(struct pair *p, struct side *a, struct ibv_qp *qa, struct side *b,
		  struct ibv_qp *qb, const struct pair_params *params);

/** pair_step - one turn of both devices and of time; false when nothing is left to happen. */
bool pair_step(struct pair *p);
/** pair_run - steps until @done(arg), or @limit ns of virtual time passed; true if done. */
bool pair_run(struct pair *p, uint64_t limit, bool (*done)(void *), void *arg);
/** pair_settle - steps for @ns of virtual time. */
void pair_settle(struct pair *p, uint64_t ns);
/** pair_wait - steps until the CQ gives a completion (10 s of virtual time); false if it does not.
 */
bool pair_wait(struct pair *p, struct ibv_cq *cq, struct ibv_wc *wc);

/** pair_meet - both ends know each other's L2 address. */
void pair_meet(struct pair *p);
/** pair_path - AH attributes from @from to @to. */
struct ibv_ah_attr pair_path(struct side *from, struct side *to);
/** pair_stat - a counter of a side's provider. */
uint64_t pair_stat(struct side *s, enum urxe_stat stat);

/** pair_counter - one of its port's, by name; UINT64_MAX when there is none such. */
uint64_t pair_counter(struct side *s, const char *name);

/** pair_post - one send work request with one SGE in the side's buffer. Returns ibv_post_send's. */
int pair_post(struct side *s, enum ibv_wr_opcode op, uint64_t wr_id, uint32_t off, uint32_t len,
	      struct side *to, uint32_t remote_off, unsigned flags);
/** pair_event - the next asynchronous event of a side, acknowledged; -1 when there is none. */
int pair_event(struct side *s);
/** pair_ctx_event - the next event of a context, of its port or device; -1 when there is none. */
int pair_ctx_event(struct ibv_context *ctx);
/** pair_no_wc - there is no completion on a side's CQ, nor will there be in @ns. */
bool pair_no_wc(struct pair *p, struct side *s, uint64_t ns);
/** pair_state - state of a QP as queried. */
enum ibv_qp_state pair_state(struct ibv_qp *qp);
/** pair_modify - to a state that needs no other attribute. */
int pair_modify(struct ibv_qp *qp, enum ibv_qp_state state);
/** pair_recv - one receive into the side's buffer. */
int pair_recv(struct side *s, uint64_t wr_id, uint32_t off, uint32_t len);

#endif
