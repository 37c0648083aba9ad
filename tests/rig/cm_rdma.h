/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the tests of rdma_cma.h's calls share. They run on a device without a wire, in one process:
 * `urxe run --port loop` with 10.0.0.1/24 and fd00::1/64.
 */
#ifndef URXE_TEST_CM_RDMA_H
#define URXE_TEST_CM_RDMA_H

#include "command.h"
#include "harness.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#define FAILS(call, err)                     \
	do {                                 \
		errno = 0;                   \
		CU_ASSERT_EQUAL((call), -1); \
		CU_ASSERT_EQUAL(errno, err); \
	} while (0)
#define WORKS(call)                                                     \
	do {                                                            \
		int works_ = (call);                                    \
                                                                        \
		if (works_)                                             \
			printf("\n    %s: %s", #call, strerror(errno)); \
		CU_ASSERT_EQUAL_FATAL(works_, 0);                       \
	} while (0)

/** addr - an IPv4 or IPv6 address in a static buffer; port in host order. */
struct sockaddr *addr(const char *host, uint16_t port);
/** expect - the next event of the channel must be this one; acked. Returns its status. */
int expect(struct rdma_event_channel *ch, enum rdma_cm_event_type type, struct rdma_cm_id **id);
struct ibv_qp_init_attr qp_attr(void);
/** listener_in - an id of a port space that listens, on a number of its own. */
struct rdma_cm_id *listener_in(enum rdma_port_space space, struct rdma_event_channel *ch,
			       const char *host, int backlog);
/** listener - of RDMA_PS_TCP */
struct rdma_cm_id *listener(struct rdma_event_channel *ch, const char *host, int backlog);
/** resolved_in - an id of a port space whose route is resolved. */
struct rdma_cm_id *resolved_in(enum rdma_port_space space, struct rdma_event_channel *ch,
			       const char *host, uint16_t port);
/** resolved - of RDMA_PS_TCP */
struct rdma_cm_id *resolved(struct rdma_event_channel *ch, const char *host, uint16_t port);
void with_qp(struct rdma_cm_id *id);
/** nobodys_qpn - of a QP that has gone: another one has it when 65,000 more were made. One that is
 * made up may be a QP's, whose connection is in timewait: a REQ with that is a stale one's. */
uint32_t nobodys_qpn(struct rdma_cm_id *id);
/** drop - destroy the id, and its QP if it has one. */
void drop(struct rdma_cm_id *id);

/* Both ends of a connection: server's channel, client's channel. */
struct pair {
	struct rdma_event_channel *sch, *cch;
	struct rdma_cm_id *listen, *server, *client;
};

void pair_open(struct pair *p, const char *host);
void pair_close(struct pair *p);

#endif
