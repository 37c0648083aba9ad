/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ib_cm (urxe_cm.h) between two processes: connect, write, have another path loaded by LAP and APR,
 * migrate to it, write on, disconnect.
 *	ibcm -s		waits for one connection
 *	ibcm ADDR	asks 10.0.0.ADDR from 10.0.0.OWN; the other path is 10.0.1.*
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "urxe_cm.h"

#define SERVICE 0x1000000000abcdefull
#define LEN	10000

#define REQUIRE(x)                                                                 \
	do {                                                                       \
		if (!(x)) {                                                        \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, \
				strerror(errno));                                  \
			exit(1);                                                   \
		}                                                                  \
	} while (0)

/* What the server says in its REP. */
struct target {
	uint64_t addr;
	uint32_t rkey;
};

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static struct ibv_qp *qp;
static uint8_t buf[2 * LEN];
static struct target target;
static struct ib_cm_id *conn;
static sem_t connected, answered, over;

static void open_all(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_qp_init_attr init = {
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC};

	for (unsigned i = 0; list && list[i] && !ctx; i++) {
		if (!strncmp(ibv_get_device_name(list[i]), "urxe", 4))
			ctx = ibv_open_device(list[i]);
	}
	REQUIRE(ctx && (pd = ibv_alloc_pd(ctx)) && (cq = ibv_create_cq(ctx, 16, NULL, NULL, 0)));
	mr = ibv_reg_mr(pd, buf, sizeof(buf),
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	init.send_cq = init.recv_cq = cq;
	REQUIRE(mr && (qp = ibv_create_qp(pd, &init)));
	sem_init(&connected, 0, 0);
	sem_init(&answered, 0, 0);
	sem_init(&over, 0, 0);
}

static void qp_to(struct ib_cm_id *id, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};
	int mask;

	REQUIRE(!ib_cm_init_qp_attr(id, &attr, &mask));
	if (id->state == IB_CM_REQ_RCVD)
		attr.rq_psn = qp->qp_num;
	REQUIRE(!ibv_modify_qp(qp, &attr, mask));
}

static void all_the_way(struct ib_cm_id *id)
{
	qp_to(id, IBV_QPS_INIT);
	qp_to(id, IBV_QPS_RTR);
	qp_to(id, IBV_QPS_RTS);
}

static int on_event(struct ib_cm_id *id, const struct ib_cm_event *ev)
{
	struct target t = {(uintptr_t)buf, mr->rkey};
	struct ib_cm_rep_param rep = {.qp_num = qp->qp_num,
				      .starting_psn = qp->qp_num,
				      .responder_resources = 4,
				      .initiator_depth = 4,
				      .rnr_retry_count = 7,
				      .private_data = &t,
				      .private_data_len = sizeof(t)};

	switch (ev->event) {
	case IB_CM_REQ_RECEIVED:
		conn = id;
		all_the_way(id);
		REQUIRE(!ib_send_cm_rep(id, &rep));
		break;
	case IB_CM_REP_RECEIVED:
		memcpy(&target, ev->private_data, sizeof(target));
		all_the_way(id);
		REQUIRE(!ib_send_cm_rtu(id, NULL, 0));
		sem_post(&connected);
		break;
	case IB_CM_LAP_RECEIVED:
		qp_to(id, IBV_QPS_RTS);
		REQUIRE(!ib_send_cm_apr(id, IB_CM_APR_SUCCESS, NULL, 0, NULL, 0));
		break;
	case IB_CM_APR_RECEIVED:
		REQUIRE(ev->param.apr_rcvd.ap_status == IB_CM_APR_SUCCESS);
		sem_post(&answered);
		break;
	case IB_CM_DREQ_RECEIVED:
		REQUIRE(!ib_send_cm_drep(id, NULL, 0));
		sem_post(&over);
		break;
	case IB_CM_DREP_RECEIVED:
		sem_post(&over);
		break;
	case IB_CM_RTU_RECEIVED:
	case IB_CM_MRA_RECEIVED:
	case IB_CM_TIMEWAIT_EXIT:
		break;
	default:
		fprintf(stderr, "event %d\n", ev->event);
		exit(1);
	}
	return 0;
}

static void post(enum ibv_wr_opcode op, uint8_t *local)
{
	struct ibv_sge sge = {(uintptr_t)local, LEN, mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = op,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {target.addr, target.rkey}},
			   *bad;
	struct ibv_wc wc;
	int n;

	REQUIRE(!ibv_post_send(qp, &wr, &bad));
	while (!(n = ibv_poll_cq(cq, 1, &wc)))
		;
	REQUIRE(n == 1 && wc.status == IBV_WC_SUCCESS);
}

/* Over there, and back into the other half. */
static void round_trip(uint8_t fill)
{
	memset(buf, fill, LEN);
	memset(buf + LEN, 0, LEN);
	post(IBV_WR_RDMA_WRITE, buf);
	post(IBV_WR_RDMA_READ, buf + LEN);
	REQUIRE(!memcmp(buf, buf + LEN, LEN));
}

static struct ibv_qp_attr attr_of(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	REQUIRE(!ibv_query_qp(qp, &a, IBV_QP_PATH_MIG_STATE | IBV_QP_AV, &init));
	return a;
}

static struct ibv_sa_path_rec path_to(uint8_t net, uint8_t own, uint8_t peer)
{
	struct ibv_sa_path_rec p = {.hop_limit = 64};

	p.sgid.raw[10] = p.sgid.raw[11] = 0xff;
	p.sgid.raw[12] = 10;
	p.sgid.raw[14] = net;
	p.sgid.raw[15] = own;
	p.dgid = p.sgid;
	p.dgid.raw[15] = peer;
	return p;
}

static void client(uint8_t peer)
{
	struct ibv_sa_path_rec path = path_to(0, 3 - peer, peer),
			       other = path_to(1, 3 - peer, peer);
	struct ib_cm_req_param req = {.primary_path = &path,
				      .service_id = htobe64(SERVICE),
				      .qp_num = qp->qp_num,
				      .qp_type = IBV_QPT_RC,
				      .starting_psn = qp->qp_num,
				      .responder_resources = 4,
				      .initiator_depth = 4,
				      .retry_count = 7,
				      .rnr_retry_count = 7};
	struct ibv_qp_attr go = {.path_mig_state = IBV_MIG_MIGRATED};
	struct ib_cm_id *id = ib_create_cm_id(ctx, on_event, NULL);

	REQUIRE(id && !ib_send_cm_req(id, &req));
	sem_wait(&connected);
	round_trip(1);
	REQUIRE(!ib_send_cm_lap(id, &other, NULL, 0));
	sem_wait(&answered);
	qp_to(id, IBV_QPS_RTS);
	for (uint8_t i = 0; attr_of().path_mig_state != IBV_MIG_ARMED; i++)
		round_trip(i);
	REQUIRE(!ibv_modify_qp(qp, &go, IBV_QP_PATH_MIG_STATE));
	REQUIRE(!ib_cm_notify(id, IBV_EVENT_PATH_MIG));
	round_trip(77);
	REQUIRE(attr_of().ah_attr.grh.dgid.raw[14] == 1);
	REQUIRE(!ib_send_cm_dreq(id, NULL, 0));
	sem_wait(&over);
	ib_destroy_cm_id(id);
	printf("client: migrated, disconnected\n");
}

static void *events(void *arg)
{
	struct ibv_async_event ev;

	while (!ibv_get_async_event(ctx, &ev)) {
		if (ev.event_type == IBV_EVENT_PATH_MIG) {
			int ret = ib_cm_notify(conn, IBV_EVENT_PATH_MIG);

			/* The client's DREQ may have been faster. */
			REQUIRE(!ret || ret == -EINVAL);
		}
		ibv_ack_async_event(&ev);
	}
	return arg;
}

static void server(void)
{
	struct ib_cm_id *listener = ib_create_cm_id(ctx, on_event, NULL);
	pthread_t thread;

	REQUIRE(listener && !ib_cm_listen(listener, htobe64(SERVICE), 0));
	REQUIRE(!pthread_create(&thread, NULL, events, NULL));
	printf("server: listens\n");
	fflush(stdout);
	sem_wait(&over);
	REQUIRE(attr_of().ah_attr.grh.dgid.raw[14] == 1);
	pthread_cancel(thread);
	pthread_join(thread, NULL);
	ib_destroy_cm_id(conn);
	ib_destroy_cm_id(listener);
	printf("server: migrated, disconnected\n");
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	open_all();
	if (!strcmp(argv[1], "-s"))
		server();
	else
		client((uint8_t)atoi(argv[1]));
	return 0;
}
