/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What tests of urxe_cm.h have in common (cm_ib_rig.c): a device without a wire, with 10.0.0.1/24
 * and 10.0.1.1/24; connections within this process; and what callbacks were told. What does not
 * come as it should ends the test.
 */
#ifndef TESTS_UNIT_CM_IB_RIG_H
#define TESTS_UNIT_CM_IB_RIG_H

#include "harness.h"

#include <infiniband/verbs.h>
#include <stdint.h>

#include "urxe_cm.h"

#define SERVICE 0x1000000000001234ull

/* What callbacks were told, in order. */
struct note {
	struct ib_cm_id *id;
	struct ib_cm_event ev;
	struct ibv_sa_path_rec alternate;
	uint8_t data[256], info[72];
};

/* A connection of two ids of this process. */
struct conn {
	struct ib_cm_id *listener, *active, *passive;
	struct ibv_qp *a, *p;
};

extern struct ibv_context *ctx;
extern struct ibv_cq *cq;

/** device - the first test: opens it. */
void device(void);

/** handler - notes the event. */
int handler(struct ib_cm_id *id, const struct ib_cm_event *ev);
/** next_verdict - what the next call of handler() returns; those after it return 0. */
void next_verdict(int ret);
/** expect - the next event must be this one. On a slow machine MRAs may come in between. It is good
 * until 64 more have come. */
struct note *expect(enum ib_cm_event_type type);
/** expect_for - the same, and its id this one */
struct note *expect_for(struct ib_cm_id *id, enum ib_cm_event_type type);

/** new_id - with handler() */
struct ib_cm_id *new_id(void);
/** new_listener - at SERVICE */
struct ib_cm_id *new_listener(void);
/** path_to - 10.0.net.host, from our address in the same network */
struct ibv_sa_path_rec path_to(uint8_t net, uint8_t host);
/** new_qp - an RC QP on cq */
struct ibv_qp *new_qp(void);
/** qp_to - by the attributes of ib_cm_init_qp_attr() */
void qp_to(struct ib_cm_id *id, struct ibv_qp *qp, enum ibv_qp_state state);
/** write_one - 2,000 bytes, and waits until they are there */
void write_one(struct ibv_qp *from, struct ibv_qp *to);

/** req_param - to SERVICE. Without a QP, a number that none had: one in timewait would be a stale
 * connection's. */
struct ib_cm_req_param req_param(struct ibv_sa_path_rec *path, struct ibv_qp *qp);
/** ask - a REQ to a listener of SERVICE, from the id that it returns; @passive, unless NULL: the id
 * that the listener's handler() was told of */
struct ib_cm_id *ask(struct ib_cm_id **passive);
/** accept_one - REP, by a QP that is ready to receive and to send */
void accept_one(struct ib_cm_id *id, struct ibv_qp *qp);
/** establish - upon the REP: the QP, and RTU */
void establish(struct ib_cm_id *id, struct ibv_qp *qp);

/** connect_two - a connection; @alternate: a path of the REQ, or NULL */
void connect_two(struct conn *c, struct ibv_sa_path_rec *alternate);
/** end_two - DREQ, DREP, and both timewaits */
void end_two(struct conn *c);
void destroy_two(struct conn *c);
/** disconnect_two - end_two(), destroy_two() */
void disconnect_two(struct conn *c);

#endif
