/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The calls of urxe_cm.h on a device without a wire, in one process: run by `urxe run --port loop`
 * with 10.0.0.1/24 and 10.0.1.1/24.
 */
#include "fork_leaks.h"
#include "harness.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>

#include "urxe/mad.h"
#include "urxe_cm.h"

#define SERVICE 0x1000000000001234ull
#define NOTES	64

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static uint8_t buf[8192];

/* What callbacks were told, in order. */
struct note {
	struct ib_cm_id *id;
	struct ib_cm_event ev;
	struct ibv_sa_path_rec alternate;
	uint8_t data[256], info[72];
};

static struct note notes[NOTES];
static unsigned head, tail;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static int verdict; /* of the next callback */

static int handler(struct ib_cm_id *id, const struct ib_cm_event *ev)
{
	struct note *n;
	int ret;

	pthread_mutex_lock(&lock);
	n = &notes[head++ % NOTES];
	memset(n, 0, sizeof(*n));
	n->id = id;
	n->ev = *ev;
	if (ev->private_data)
		memcpy(n->data, ev->private_data, ev->private_data_len);
	if (ev->event == IB_CM_LAP_RECEIVED)
		n->alternate = *ev->param.lap_rcvd.alternate_path;
	if (ev->event == IB_CM_REQ_RECEIVED && ev->param.req_rcvd.alternate_path)
		n->alternate = *ev->param.req_rcvd.alternate_path;
	if (ev->event == IB_CM_REJ_RECEIVED)
		memcpy(n->info, ev->param.rej_rcvd.ari, ev->param.rej_rcvd.ari_length);
	if (ev->event == IB_CM_APR_RECEIVED)
		memcpy(n->info, ev->param.apr_rcvd.apr_info, ev->param.apr_rcvd.info_len);
	if (ev->event == IB_CM_SIDR_REP_RECEIVED)
		memcpy(n->info, ev->param.sidr_rep_rcvd.info, ev->param.sidr_rep_rcvd.info_len);
	ret = verdict;
	verdict = 0;
	pthread_cond_signal(&more);
	pthread_mutex_unlock(&lock);
	return ret;
}

static struct note *next_note(void)
{
	struct note *n;

	pthread_mutex_lock(&lock);
	while (head == tail)
		pthread_cond_wait(&more, &lock);
	n = &notes[tail++ % NOTES];
	pthread_mutex_unlock(&lock);
	return n;
}

/* The next event must be this one. On a slow machine MRAs may come in between. */
static struct note *expect(enum ib_cm_event_type type)
{
	struct note *n = next_note();

	while (type != IB_CM_MRA_RECEIVED && n->ev.event == IB_CM_MRA_RECEIVED)
		n = next_note();
	if (n->ev.event != type)
		printf("\ngot event %d, not %d\n", n->ev.event, type);
	CU_ASSERT_EQUAL_FATAL(n->ev.event, type);
	return n;
}

static struct note *expect_for(struct ib_cm_id *id, enum ib_cm_event_type type)
{
	struct note *n = expect(type);

	CU_ASSERT_PTR_EQUAL_FATAL(n->id, id);
	return n;
}

static struct ib_cm_id *new_id(void)
{
	struct ib_cm_id *id = ib_create_cm_id(ctx, handler, NULL);

	CU_ASSERT_PTR_NOT_NULL_FATAL(id);
	CU_ASSERT_EQUAL(id->state, IB_CM_IDLE);
	return id;
}

static struct ib_cm_id *new_listener(void)
{
	struct ib_cm_id *id = new_id();

	CU_ASSERT_EQUAL_FATAL(ib_cm_listen(id, htobe64(SERVICE), 0), 0);
	CU_ASSERT_EQUAL(id->state, IB_CM_LISTEN);
	return id;
}

/* 10.0.net.host, from our address in the same network. */
static struct ibv_sa_path_rec path_to(uint8_t net, uint8_t host)
{
	struct ibv_sa_path_rec p = {.hop_limit = 64, .mtu = IBV_MTU_1024};

	p.sgid.raw[10] = p.sgid.raw[11] = 0xff;
	p.sgid.raw[12] = 10;
	p.sgid.raw[14] = net;
	p.sgid.raw[15] = 1;
	p.dgid = p.sgid;
	p.dgid.raw[15] = host;
	return p;
}

static struct ibv_qp *new_qp(void)
{
	struct ibv_qp_init_attr init = {
		.cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1},
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	CU_ASSERT_PTR_NOT_NULL_FATAL(qp);
	return qp;
}

static void qp_to(struct ib_cm_id *id, struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};
	int mask;

	CU_ASSERT_EQUAL_FATAL(ib_cm_init_qp_attr(id, &attr, &mask), 0);
	/* Before the REP only we know what it will say. */
	if (id->state == IB_CM_REQ_RCVD)
		attr.rq_psn = 0xabcdef;
	/* A machine that is busy with other things is no dead peer. */
	attr.timeout = 20;
	CU_ASSERT_EQUAL_FATAL(ibv_modify_qp(qp, &attr, mask), 0);
}

static void write_one(struct ibv_qp *from, struct ibv_qp *to)
{
	struct ibv_sge sge = {(uintptr_t)buf, 2000, mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {(uintptr_t)buf + 4096, mr->rkey}},
			   *bad;
	struct ibv_wc wc;
	int n;

	memset(buf, (int)(from->qp_num & 0xff), 2000);
	memset(buf + 4096, 0, 2000);
	CU_ASSERT_EQUAL_FATAL(ibv_post_send(from, &wr, &bad), 0);
	while ((n = ibv_poll_cq(cq, 1, &wc)) == 0)
		sched_yield();
	CU_ASSERT_EQUAL_FATAL(n, 1);
	if (wc.status != IBV_WC_SUCCESS)
		printf("\n%s\n", ibv_wc_status_str(wc.status));
	CU_ASSERT_EQUAL_FATAL(wc.status, IBV_WC_SUCCESS);
	CU_ASSERT_FALSE(memcmp(buf, buf + 4096, 2000));
}

/* A connection of two ids of this process. */
struct conn {
	struct ib_cm_id *listener, *active, *passive;
	struct ibv_qp *a, *p;
};

/* Without a QP, a number that none had: one in timewait would be a stale connection's. */
static struct ib_cm_req_param req_param(struct ibv_sa_path_rec *path, struct ibv_qp *qp)
{
	static uint32_t number = 0xff0000;

	return (struct ib_cm_req_param){
		.primary_path = path,
		.service_id = htobe64(SERVICE),
		.qp_num = qp ? qp->qp_num : number++,
		.qp_type = IBV_QPT_RC,
		.starting_psn = 0x123456,
		.private_data = "question",
		.private_data_len = 8,
		.responder_resources = 3,
		.initiator_depth = 2,
		.retry_count = 7,
		.rnr_retry_count = 7,
	};
}

static void accept_one(struct ib_cm_id *id, struct ibv_qp *qp)
{
	struct ib_cm_rep_param rep = {.qp_num = qp->qp_num,
				      .starting_psn = 0xabcdef,
				      .private_data = "answer",
				      .private_data_len = 6,
				      .responder_resources = 2,
				      .initiator_depth = 3,
				      .rnr_retry_count = 7};

	qp_to(id, qp, IBV_QPS_INIT);
	qp_to(id, qp, IBV_QPS_RTR);
	qp_to(id, qp, IBV_QPS_RTS);
	CU_ASSERT_EQUAL_FATAL(ib_send_cm_rep(id, &rep), 0);
}

static void establish(struct ib_cm_id *id, struct ibv_qp *qp)
{
	struct note *n = expect_for(id, IB_CM_REP_RECEIVED);

	CU_ASSERT_EQUAL(n->ev.param.rep_rcvd.starting_psn, 0xabcdef);
	CU_ASSERT_EQUAL(n->ev.param.rep_rcvd.responder_resources, 3);
	CU_ASSERT_EQUAL(n->ev.param.rep_rcvd.initiator_depth, 2);
	CU_ASSERT_EQUAL(n->ev.private_data_len, IB_CM_REP_PRIVATE_DATA_SIZE);
	CU_ASSERT_FALSE(memcmp(n->data, "answer", 7));
	qp_to(id, qp, IBV_QPS_INIT);
	qp_to(id, qp, IBV_QPS_RTR);
	qp_to(id, qp, IBV_QPS_RTS);
	CU_ASSERT_EQUAL_FATAL(ib_send_cm_rtu(id, "ready", 5), 0);
	CU_ASSERT_EQUAL(id->state, IB_CM_ESTABLISHED);
}

static void connect_two(struct conn *c, struct ibv_sa_path_rec *alternate)
{
	struct ibv_sa_path_rec path = path_to(0, 1);
	struct ib_cm_req_param req;
	struct note *n;

	*c = (struct conn){new_listener(), new_id(), NULL, new_qp(), new_qp()};
	req = req_param(&path, c->a);
	req.alternate_path = alternate;
	CU_ASSERT_EQUAL_FATAL(ib_send_cm_req(c->active, &req), 0);
	n = expect(IB_CM_REQ_RECEIVED);
	c->passive = n->id;
	CU_ASSERT_PTR_EQUAL(n->ev.param.req_rcvd.listen_id, c->listener);
	CU_ASSERT_EQUAL(n->ev.param.req_rcvd.remote_qpn, c->a->qp_num);
	CU_ASSERT_EQUAL(n->ev.param.req_rcvd.starting_psn, 0x123456);
	CU_ASSERT_EQUAL(n->ev.param.req_rcvd.responder_resources, 2);
	CU_ASSERT_EQUAL(n->ev.param.req_rcvd.initiator_depth, 3);
	CU_ASSERT_EQUAL(n->ev.private_data_len, IB_CM_REQ_PRIVATE_DATA_SIZE);
	CU_ASSERT_FALSE(memcmp(n->data, "question", 9));
	CU_ASSERT_EQUAL(n->alternate.dgid.raw[14], alternate ? 1 : 0);
	CU_ASSERT_EQUAL(c->passive->service_id, htobe64(SERVICE));
	accept_one(c->passive, c->p);
	establish(c->active, c->a);
	n = expect_for(c->passive, IB_CM_RTU_RECEIVED);
	CU_ASSERT_FALSE(memcmp(n->data, "ready", 6));
	CU_ASSERT_EQUAL(c->passive->local_id, c->active->remote_id);
}

static void end_two(struct conn *c)
{
	struct note *n;

	CU_ASSERT_EQUAL(ib_send_cm_dreq(c->active, "bye", 3), 0);
	n = expect_for(c->passive, IB_CM_DREQ_RECEIVED);
	CU_ASSERT_FALSE(memcmp(n->data, "bye", 4));
	CU_ASSERT_EQUAL(ib_send_cm_drep(c->passive, "so long", 7), 0);
	CU_ASSERT_EQUAL(c->passive->state, IB_CM_TIMEWAIT);
	n = expect_for(c->active, IB_CM_DREP_RECEIVED);
	CU_ASSERT_FALSE(memcmp(n->data, "so long", 8));
	expect(IB_CM_TIMEWAIT_EXIT);
	expect(IB_CM_TIMEWAIT_EXIT);
}

static void destroy_two(struct conn *c)
{
	ib_destroy_cm_id(c->active);
	ib_destroy_cm_id(c->passive);
	ib_destroy_cm_id(c->listener);
	ibv_destroy_qp(c->a);
	ibv_destroy_qp(c->p);
}

static void disconnect_two(struct conn *c)
{
	end_two(c);
	destroy_two(c);
}

/* An id whose timewait is over is idle, and may connect to somebody else. */
static void connects_again(void)
{
	struct ibv_sa_path_rec path = path_to(0, 1);
	struct ib_cm_req_param req;
	struct conn c;

	connect_two(&c, NULL);
	end_two(&c);
	ib_destroy_cm_id(c.passive);
	ibv_destroy_qp(c.a);
	ibv_destroy_qp(c.p);
	c.a = new_qp();
	c.p = new_qp();
	CU_ASSERT_EQUAL(c.active->state, IB_CM_IDLE);
	req = req_param(&path, c.a);
	CU_ASSERT_EQUAL(ib_send_cm_req(c.active, &req), 0);
	c.passive = expect(IB_CM_REQ_RECEIVED)->id;
	accept_one(c.passive, c.p);
	establish(c.active, c.a);
	expect_for(c.passive, IB_CM_RTU_RECEIVED);
	write_one(c.a, c.p);
	disconnect_two(&c);
}

static void connection(void)
{
	struct conn c;

	connect_two(&c, NULL);
	write_one(c.a, c.p);
	write_one(c.p, c.a);
	CU_ASSERT_EQUAL(ib_cm_notify(c.passive, IBV_EVENT_COMM_EST), -EISCONN);
	CU_ASSERT_EQUAL(ib_cm_notify(c.passive, IBV_EVENT_PATH_MIG), 0); /* nothing changes */
	CU_ASSERT_EQUAL(c.active->lap_state, IB_CM_LAP_UNINIT);
	disconnect_two(&c);
}

static enum ibv_mig_state mig_state(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	CU_ASSERT_EQUAL(ibv_query_qp(qp, &a, IBV_QP_PATH_MIG_STATE, &init), 0);
	return a.path_mig_state;
}

/* Both QPs have the other path: they find that out, go over it, and MADs with them. */
static void migrate(struct conn *c)
{
	struct ibv_qp_attr a = {.path_mig_state = IBV_MIG_MIGRATED};
	unsigned left = 2;

	while (mig_state(c->a) != IBV_MIG_ARMED || mig_state(c->p) != IBV_MIG_ARMED) {
		write_one(c->a, c->p);
		write_one(c->p, c->a);
	}
	CU_ASSERT_EQUAL(ibv_modify_qp(c->a, &a, IBV_QP_PATH_MIG_STATE), 0);
	write_one(c->a, c->p);
	while (left) {
		struct ibv_async_event ev;

		CU_ASSERT_EQUAL_FATAL(ibv_get_async_event(ctx, &ev), 0);
		if (ev.event_type == IBV_EVENT_PATH_MIG) {
			left--;
			CU_ASSERT_EQUAL(ib_cm_notify(ev.element.qp == c->a ? c->active : c->passive,
						     IBV_EVENT_PATH_MIG),
					0);
		}
		ibv_ack_async_event(&ev);
	}
	CU_ASSERT_EQUAL(mig_state(c->p), IBV_MIG_MIGRATED);
	write_one(c->p, c->a);
}

/* LAP and APR give both QPs another path, which then carries data and MADs. */
static void load_alternate_path(void)
{
	struct ibv_sa_path_rec other = path_to(1, 1), strange = path_to(7, 1);
	struct note *n;
	struct conn c;

	connect_two(&c, NULL);
	CU_ASSERT_EQUAL(ib_send_cm_lap(c.active, &strange, NULL, 0), -EINVAL);
	other.flow_label = htobe32(0x12345);
	CU_ASSERT_EQUAL(ib_send_cm_lap(c.active, &other, "this way?", 9), 0);
	CU_ASSERT_EQUAL(c.active->lap_state, IB_CM_LAP_SENT);
	CU_ASSERT_EQUAL(ib_send_cm_lap(c.active, &other, NULL, 0), -EINVAL);
	n = expect_for(c.passive, IB_CM_LAP_RECEIVED);
	CU_ASSERT_FALSE(memcmp(n->data, "this way?", 10));
	CU_ASSERT_EQUAL(n->alternate.dgid.raw[14], 1);
	CU_ASSERT_EQUAL(n->alternate.sgid.raw[14], 1);
	CU_ASSERT_EQUAL(be32toh(n->alternate.flow_label), 0x12345);
	CU_ASSERT_EQUAL(ib_send_cm_mra(c.passive, 20, NULL, 0), 0);
	CU_ASSERT_EQUAL(c.passive->lap_state, IB_CM_MRA_LAP_SENT);
	expect_for(c.active, IB_CM_MRA_RECEIVED);
	/* First no, then yes. */
	CU_ASSERT_EQUAL(ib_send_cm_apr(c.passive, IB_CM_APR_REJECT, (char[]){"why"}, 3, "no", 2),
			0);
	n = expect_for(c.active, IB_CM_APR_RECEIVED);
	CU_ASSERT_EQUAL(n->ev.param.apr_rcvd.ap_status, IB_CM_APR_REJECT);
	CU_ASSERT_EQUAL(n->ev.param.apr_rcvd.info_len, 3);
	CU_ASSERT_FALSE(memcmp(n->info, "why", 4));
	CU_ASSERT_FALSE(memcmp(n->data, "no", 3));
	CU_ASSERT_EQUAL(ib_cm_notify(c.active, IBV_EVENT_PATH_MIG), 0);
	CU_ASSERT_EQUAL(ib_send_cm_lap(c.active, &other, NULL, 0), 0);
	expect_for(c.passive, IB_CM_LAP_RECEIVED);
	qp_to(c.passive, c.p, IBV_QPS_RTS);
	CU_ASSERT_EQUAL(mig_state(c.p), IBV_MIG_REARM);
	CU_ASSERT_EQUAL(ib_send_cm_apr(c.passive, IB_CM_APR_SUCCESS, NULL, 0, NULL, 0), 0);
	CU_ASSERT_EQUAL(c.passive->lap_state, IB_CM_LAP_IDLE);
	n = expect_for(c.active, IB_CM_APR_RECEIVED);
	CU_ASSERT_EQUAL(n->ev.param.apr_rcvd.ap_status, IB_CM_APR_SUCCESS);
	qp_to(c.active, c.a, IBV_QPS_RTS);
	migrate(&c);
	disconnect_two(&c);
}

static void alternate_path_in_req(void)
{
	struct ibv_sa_path_rec other = path_to(1, 1);
	struct conn c;

	connect_two(&c, &other);
	CU_ASSERT_EQUAL(mig_state(c.a), IBV_MIG_REARM);
	migrate(&c);
	disconnect_two(&c);
}

static struct rdma_cm_id *next_cma(struct rdma_event_channel *ch, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;

	CU_ASSERT_EQUAL_FATAL(rdma_get_cm_event(ch, &ev), 0);
	CU_ASSERT_EQUAL_FATAL(ev->event, type);
	id = ev->id;
	rdma_ack_cm_event(ev);
	return id;
}

/* A listener of rdma_cm's, and what is to be in a REQ or SIDR_REQ that comes to it by @path. */
static struct rdma_cm_id *rdma_listener(struct rdma_event_channel *ch, uint16_t port,
					const struct ibv_sa_path_rec *path, uint8_t *private)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htobe16(port)};
	struct urxe_ip_cm_hdr h = {.ip_version = 4, .src_port = 5555};
	struct rdma_cm_id *id;

	CU_ASSERT_EQUAL_FATAL(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
	CU_ASSERT_EQUAL_FATAL(rdma_bind_addr(id, (struct sockaddr *)&sin), 0);
	CU_ASSERT_EQUAL_FATAL(rdma_listen(id, 1), 0);
	memcpy(h.src, path->sgid.raw, 16);
	memcpy(h.dst, path->dgid.raw, 16);
	urxe_ip_cm_hdr_put(private, &h);
	return id;
}

/* ib_cm and rdma_cm are one CM's: a LAP to an rdma_cm id loads the path into the QP on it. */
static void lap_to_rdma_cm(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct ibv_sa_path_rec path = path_to(0, 1), other = path_to(1, 1);
	struct ibv_qp_init_attr init = {
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};
	struct rdma_conn_param param = {.rnr_retry_count = 7};
	struct ibv_qp *qp = new_qp();
	struct ib_cm_req_param req = req_param(&path, qp);
	struct rdma_cm_id *listener, *passive;
	struct ib_cm_id *id = new_id();
	uint8_t private[URXE_IP_CM_HDR_LEN];
	struct note *n;

	listener = rdma_listener(ch, 7471, &path, private);
	req.private_data = private;
	req.private_data_len = sizeof(private);
	req.service_id = htobe64(urxe_ip_cm_service_id(URXE_IP_CM_PS_TCP, 7471));
	CU_ASSERT_EQUAL(ib_send_cm_req(id, &req), 0);
	passive = next_cma(ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	CU_ASSERT_EQUAL_FATAL(rdma_create_qp(passive, NULL, &init), 0);
	CU_ASSERT_EQUAL_FATAL(rdma_accept(passive, &param), 0);
	expect_for(id, IB_CM_REP_RECEIVED);
	qp_to(id, qp, IBV_QPS_INIT);
	qp_to(id, qp, IBV_QPS_RTR);
	qp_to(id, qp, IBV_QPS_RTS);
	CU_ASSERT_EQUAL(ib_send_cm_rtu(id, NULL, 0), 0);
	next_cma(ch, RDMA_CM_EVENT_ESTABLISHED);
	CU_ASSERT_EQUAL(rdma_notify(passive, IBV_EVENT_PATH_MIG), 0);
	CU_ASSERT_EQUAL(mig_state(passive->qp), IBV_MIG_MIGRATED);
	CU_ASSERT_EQUAL(ib_send_cm_lap(id, &other, NULL, 0), 0);
	n = expect_for(id, IB_CM_APR_RECEIVED);
	CU_ASSERT_EQUAL(n->ev.param.apr_rcvd.ap_status, IB_CM_APR_SUCCESS);
	CU_ASSERT_EQUAL(mig_state(passive->qp), IBV_MIG_REARM);
	CU_ASSERT_EQUAL(rdma_notify(passive, IBV_EVENT_PATH_MIG), 0);
	/* Without a QP there is nothing to load it into. */
	rdma_destroy_qp(passive);
	CU_ASSERT_EQUAL(ib_send_cm_lap(id, &path, NULL, 0), 0);
	n = expect_for(id, IB_CM_APR_RECEIVED);
	CU_ASSERT_EQUAL(n->ev.param.apr_rcvd.ap_status, IB_CM_APR_UNSUPPORTED);
	CU_ASSERT_EQUAL(rdma_disconnect(passive), 0);
	expect_for(id, IB_CM_DREQ_RECEIVED);
	CU_ASSERT_EQUAL(ib_send_cm_drep(id, NULL, 0), 0);
	next_cma(ch, RDMA_CM_EVENT_DISCONNECTED);
	ib_destroy_cm_id(id);
	ibv_destroy_qp(qp);
	rdma_destroy_id(passive);
	rdma_destroy_id(listener);
	rdma_destroy_event_channel(ch);
}

/* Both ask at once: one id hears a REQ, the other a REP. */
static void peer_to_peer(void)
{
	struct ibv_sa_path_rec path = path_to(0, 1);
	struct conn c = {NULL, new_id(), new_id(), new_qp(), new_qp()};
	struct ib_cm_req_param req = req_param(&path, c.a);
	struct note *n;

	req.peer_to_peer = 1;
	CU_ASSERT_EQUAL(ib_send_cm_req(c.active, &req), 0);
	req.qp_num = c.p->qp_num;
	CU_ASSERT_EQUAL(ib_send_cm_req(c.passive, &req), 0);
	n = expect(IB_CM_REQ_RECEIVED);
	CU_ASSERT_PTR_NULL(n->ev.param.req_rcvd.listen_id);
	/* The GUIDs are the same: the larger QPN is active. */
	CU_ASSERT_PTR_EQUAL(n->id, c.a->qp_num < c.p->qp_num ? c.active : c.passive);
	if (n->id == c.active) {
		struct ibv_qp *qp = c.a;

		c.active = c.passive;
		c.passive = n->id;
		c.a = c.p;
		c.p = qp;
	}
	accept_one(c.passive, c.p);
	establish(c.active, c.a);
	expect_for(c.passive, IB_CM_RTU_RECEIVED);
	write_one(c.a, c.p);
	write_one(c.p, c.a);
	c.listener = new_id();
	disconnect_two(&c);
}

static struct ib_cm_id *ask(struct ib_cm_id **passive)
{
	struct ibv_sa_path_rec path = path_to(0, 1);
	struct ib_cm_req_param req = req_param(&path, NULL);
	struct ib_cm_id *id = new_id();

	CU_ASSERT_EQUAL_FATAL(ib_send_cm_req(id, &req), 0);
	if (passive)
		*passive = expect(IB_CM_REQ_RECEIVED)->id;
	return id;
}

static void rejections(void)
{
	struct ibv_sa_path_rec path = path_to(0, 1);
	struct ib_cm_id *listener, *active, *passive;
	struct ib_cm_req_param req;
	struct note *n;

	/* Nobody listens. */
	active = new_id();
	req = req_param(&path, NULL);
	req.service_id = htobe64(SERVICE + 0x1000);
	CU_ASSERT_EQUAL(ib_send_cm_req(active, &req), 0);
	n = expect_for(active, IB_CM_REJ_RECEIVED);
	CU_ASSERT_EQUAL(n->ev.param.rej_rcvd.reason, IB_CM_REJ_INVALID_SERVICE_ID);
	ib_destroy_cm_id(active);
	/* With information. */
	listener = new_listener();
	active = ask(&passive);
	CU_ASSERT_EQUAL(ib_send_cm_rej(passive, IB_CM_REJ_INVALID_MTU, (char[]){3}, 1, "small", 5),
			0);
	n = expect_for(active, IB_CM_REJ_RECEIVED);
	CU_ASSERT_EQUAL(n->ev.param.rej_rcvd.reason, IB_CM_REJ_INVALID_MTU);
	CU_ASSERT_EQUAL(n->ev.param.rej_rcvd.ari_length, 1);
	CU_ASSERT_EQUAL(n->info[0], 3);
	CU_ASSERT_FALSE(memcmp(n->data, "small", 6));
	ib_destroy_cm_id(passive);
	/* The id can ask again; whoever destroys its id rejects. */
	req = req_param(&path, NULL);
	CU_ASSERT_EQUAL(ib_send_cm_req(active, &req), 0);
	passive = expect(IB_CM_REQ_RECEIVED)->id;
	ib_destroy_cm_id(passive);
	n = expect_for(active, IB_CM_REJ_RECEIVED);
	CU_ASSERT_EQUAL(n->ev.param.rej_rcvd.reason, IB_CM_REJ_CONSUMER_DEFINED);
	ib_destroy_cm_id(active);
	/* A callback that says no. */
	pthread_mutex_lock(&lock);
	verdict = 1;
	pthread_mutex_unlock(&lock);
	active = ask(&passive);
	expect_for(active, IB_CM_REJ_RECEIVED);
	ib_destroy_cm_id(active);
	ib_destroy_cm_id(listener);
}

static void slow_and_early(void)
{
	struct ib_cm_id *listener = new_listener(), *active, *passive;
	struct ib_cm_rep_param rep = {.qp_num = 0x815};
	struct note *n;

	active = ask(&passive);
	CU_ASSERT_EQUAL(ib_send_cm_mra(passive, 32, NULL, 0), -EINVAL);
	CU_ASSERT_EQUAL(ib_send_cm_mra(passive, IB_CM_MRA_FLAG_DELAY | 20, NULL, 0), 0);
	CU_ASSERT_EQUAL(ib_send_cm_mra(active, IB_CM_MRA_FLAG_DELAY | 20, NULL, 0), -EINVAL);
	CU_ASSERT_EQUAL(ib_send_cm_mra(passive, 21, "wait", 4), 0);
	CU_ASSERT_EQUAL(passive->state, IB_CM_MRA_REQ_SENT);
	n = expect_for(active, IB_CM_MRA_RECEIVED);
	CU_ASSERT_EQUAL(n->ev.param.mra_rcvd.service_timeout, 21);
	CU_ASSERT_FALSE(memcmp(n->data, "wait", 5));
	CU_ASSERT_EQUAL(active->state, IB_CM_MRA_REQ_RCVD);
	CU_ASSERT_EQUAL(ib_send_cm_rep(passive, &rep), 0);
	expect_for(active, IB_CM_REP_RECEIVED);
	/* Data comes before the RTU. */
	CU_ASSERT_EQUAL(ib_cm_notify(passive, IBV_EVENT_COMM_EST), 0);
	expect_for(passive, IB_CM_USER_ESTABLISHED);
	CU_ASSERT_EQUAL(passive->state, IB_CM_ESTABLISHED);
	ib_destroy_cm_id(passive);
	expect_for(active, IB_CM_DREQ_RECEIVED);
	ib_destroy_cm_id(active);
	ib_destroy_cm_id(listener);
}

static void service_ids(void)
{
	struct ib_cm_id *a = new_id(), *b = new_id(), *id, *passive;
	struct ibv_sa_path_rec path = path_to(0, 1);
	struct ib_cm_req_param req = req_param(&path, NULL);

	CU_ASSERT_EQUAL(ib_cm_listen(a, IB_CM_ASSIGN_SERVICE_ID | htobe64(1), 0), -EINVAL);
	CU_ASSERT_EQUAL(ib_cm_listen(a, IB_CM_ASSIGN_SERVICE_ID, 0), 0);
	CU_ASSERT_EQUAL(a->service_id & IB_SERVICE_ID_AGN_MASK, IB_CM_ASSIGN_SERVICE_ID);
	CU_ASSERT_NOT_EQUAL(a->service_id, IB_CM_ASSIGN_SERVICE_ID);
	CU_ASSERT_EQUAL(ib_cm_listen(a, htobe64(SERVICE), 0), -EINVAL);
	/* All of a range. */
	CU_ASSERT_EQUAL(ib_cm_listen(b, htobe64(SERVICE), htobe64(~0xffull)), 0);
	id = new_id();
	CU_ASSERT_EQUAL(ib_cm_listen(id, htobe64(SERVICE + 1), 0), -EBUSY);
	CU_ASSERT_EQUAL(id->state, IB_CM_IDLE);
	req.service_id = htobe64(SERVICE + 7);
	CU_ASSERT_EQUAL(ib_send_cm_req(id, &req), 0);
	passive = expect(IB_CM_REQ_RECEIVED)->id;
	CU_ASSERT_EQUAL(be64toh(passive->service_id), SERVICE + 7);
	ib_destroy_cm_id(passive);
	expect_for(id, IB_CM_REJ_RECEIVED);
	req.service_id = a->service_id;
	CU_ASSERT_EQUAL(ib_send_cm_req(id, &req), 0);
	passive = expect(IB_CM_REQ_RECEIVED)->id;
	ib_destroy_cm_id(passive);
	expect_for(id, IB_CM_REJ_RECEIVED);
	ib_destroy_cm_id(id);
	ib_destroy_cm_id(a);
	ib_destroy_cm_id(b);
}

static void sidr(void)
{
	struct ib_cm_id *listener = new_listener(), *id = new_id(), *passive;
	struct ibv_sa_path_rec path = path_to(0, 1);
	struct ib_cm_sidr_req_param req = {.path = &path,
					   .service_id = htobe64(SERVICE),
					   .private_data = "where?",
					   .private_data_len = 6};
	struct ib_cm_sidr_rep_param rep = {.qp_num = 0x4711,
					   .qkey = 0x11111111,
					   .info = "info",
					   .info_length = 4,
					   .private_data = "there",
					   .private_data_len = 5,
					   .ece = {.vendor_id = 0x123456, .options = 0x789abcde}};
	struct note *n;

	CU_ASSERT_EQUAL(ib_send_cm_sidr_req(id, &req), 0);
	n = expect(IB_CM_SIDR_REQ_RECEIVED);
	passive = n->id;
	CU_ASSERT_PTR_EQUAL(n->ev.param.sidr_req_rcvd.listen_id, listener);
	CU_ASSERT_EQUAL(n->ev.param.sidr_req_rcvd.service_id, htobe64(SERVICE));
	CU_ASSERT_FALSE(memcmp(n->data, "where?", 7));
	CU_ASSERT_EQUAL(ib_send_cm_sidr_rep(passive, &rep), 0);
	n = expect_for(id, IB_CM_SIDR_REP_RECEIVED);
	CU_ASSERT_EQUAL(n->ev.param.sidr_rep_rcvd.status, IB_SIDR_SUCCESS);
	CU_ASSERT_EQUAL(n->ev.param.sidr_rep_rcvd.qpn, 0x4711);
	CU_ASSERT_EQUAL(n->ev.param.sidr_rep_rcvd.qkey, 0x11111111);
	CU_ASSERT_EQUAL(n->ev.param.sidr_rep_rcvd.ece.vendor_id, 0x123456);
	CU_ASSERT_EQUAL(n->ev.param.sidr_rep_rcvd.ece.options, 0x789abcde);
	CU_ASSERT_EQUAL(n->ev.param.sidr_rep_rcvd.info_len, 4);
	CU_ASSERT_FALSE(memcmp(n->info, "info", 5));
	CU_ASSERT_FALSE(memcmp(n->data, "there", 6));
	ib_destroy_cm_id(passive);
	ib_destroy_cm_id(listener);
	CU_ASSERT_EQUAL(ib_send_cm_sidr_req(id, &req), 0);
	n = expect_for(id, IB_CM_SIDR_REP_RECEIVED);
	CU_ASSERT_EQUAL(n->ev.param.sidr_rep_rcvd.status, IB_SIDR_UNSUPPORTED);
	ib_destroy_cm_id(id);
}

/* A listener for connections is not asked where a datagram's QP is: its user could do nothing with
 * such a request. */
static void sidr_to_rdma_cm(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct ibv_sa_path_rec path = path_to(0, 1);
	uint8_t private[URXE_IP_CM_HDR_LEN];
	struct ib_cm_sidr_req_param req = {
		.path = &path,
		.service_id = htobe64(urxe_ip_cm_service_id(URXE_IP_CM_PS_TCP, 7472)),
		.private_data = private,
		.private_data_len = sizeof(private)};
	struct pollfd pfd = {ch->fd, POLLIN, 0};
	struct ib_cm_id *id = new_id();
	struct rdma_cm_id *listener;

	listener = rdma_listener(ch, 7472, &path, private);
	CU_ASSERT_EQUAL(ib_send_cm_sidr_req(id, &req), 0);
	CU_ASSERT_EQUAL(expect_for(id, IB_CM_SIDR_REP_RECEIVED)->ev.param.sidr_rep_rcvd.status,
			IB_SIDR_REJECT);
	CU_ASSERT_EQUAL(poll(&pfd, 1, 0), 0);
	ib_destroy_cm_id(id);
	rdma_destroy_id(listener);
	rdma_destroy_event_channel(ch);
}

/* Nobody at the other end, and times as asked for. */
static void no_answer(void)
{
	struct ibv_sa_path_rec path = path_to(0, 77);
	struct ib_cm_req_param req = req_param(&path, NULL);
	struct ib_cm_sidr_req_param sidr_req = {.path = &path,
						.service_id = htobe64(SERVICE),
						.timeout_ms = 20,
						.max_cm_retries = 1};
	struct ib_cm_id *id = new_id();
	struct note *n;

	path.packet_life_time = 8;
	req.remote_cm_response_timeout = 12;
	req.max_cm_retries = 1;
	CU_ASSERT_EQUAL(ib_send_cm_req(id, &req), 0);
	n = expect_for(id, IB_CM_REQ_ERROR);
	CU_ASSERT_EQUAL(n->ev.param.send_status, IBV_WC_RESP_TIMEOUT_ERR);
	CU_ASSERT_PTR_NULL(n->ev.private_data);
	CU_ASSERT_EQUAL(ib_send_cm_sidr_req(id, &sidr_req), 0);
	expect_for(id, IB_CM_SIDR_REQ_ERROR);
	ib_destroy_cm_id(id);
}

/* Every call on an id that is fresh, and with what is too long. */
static void bad_calls(void)
{
	static uint8_t data[256];
	struct ibv_sa_path_rec path = path_to(0, 1), strange = path_to(7, 1);
	struct ib_cm_req_param req = req_param(&path, NULL);
	struct ib_cm_rep_param rep = {.qp_num = 5};
	struct ib_cm_sidr_req_param sreq = {.path = &path};
	struct ib_cm_sidr_rep_param srep = {.qp_num = 5};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
	struct ib_cm_id *id = new_id();
	int mask;

	errno = 0;
	CU_ASSERT_PTR_NULL(ib_create_cm_id(NULL, handler, NULL));
	CU_ASSERT_EQUAL(errno, EINVAL);
	errno = 0;
	CU_ASSERT_PTR_NULL(ib_create_cm_id(ctx, NULL, NULL));
	CU_ASSERT_EQUAL(errno, EINVAL);
	{
		/* Somebody else's device. */
		struct ibv_context other = *ctx;

		other.device = NULL;
		errno = 0;
		CU_ASSERT_PTR_NULL(ib_create_cm_id(&other, handler, NULL));
		CU_ASSERT_EQUAL(errno, ENODEV);
	}
	ib_destroy_cm_id(NULL);
	CU_ASSERT_EQUAL(ib_cm_listen(NULL, htobe64(SERVICE), 0), -EINVAL);
	CU_ASSERT_EQUAL(ib_send_cm_req(NULL, &req), -EINVAL);
	CU_ASSERT_EQUAL(ib_send_cm_req(id, NULL), -EINVAL);
	CU_ASSERT_EQUAL(ib_send_cm_rep(id, NULL), -EINVAL);
	CU_ASSERT_EQUAL(ib_send_cm_lap(id, NULL, NULL, 0), -EINVAL);
	CU_ASSERT_EQUAL(ib_send_cm_sidr_req(id, NULL), -EINVAL);
	CU_ASSERT_EQUAL(ib_send_cm_sidr_rep(id, NULL), -EINVAL);
	CU_ASSERT_EQUAL(ib_cm_init_qp_attr(id, NULL, &mask), -EINVAL);
	CU_ASSERT_EQUAL(ib_cm_init_qp_attr(id, &attr, &mask), -EINVAL);
	/* Not in this state. */
	CU_ASSERT_EQUAL(ib_send_cm_rep(id, &rep), -EINVAL);
	CU_ASSERT_EQUAL(ib_send_cm_rtu(id, NULL, 0), -EINVAL);
	CU_ASSERT_EQUAL(ib_send_cm_dreq(id, NULL, 0), -EINVAL);
	CU_ASSERT_EQUAL(ib_send_cm_drep(id, NULL, 0), -EINVAL);
	CU_ASSERT_EQUAL(ib_send_cm_rej(id, IB_CM_REJ_NO_QP, NULL, 0, NULL, 0), -EINVAL);
	CU_ASSERT_EQUAL(ib_send_cm_mra(id, 20, NULL, 0), -EINVAL);
	CU_ASSERT_EQUAL(ib_send_cm_lap(id, &path, NULL, 0), -EINVAL);
	CU_ASSERT_EQUAL(ib_send_cm_apr(id, IB_CM_APR_SUCCESS, NULL, 0, NULL, 0), -EINVAL);
	CU_ASSERT_EQUAL(ib_send_cm_sidr_rep(id, &srep), -EINVAL);
	CU_ASSERT_EQUAL(ib_cm_notify(id, IBV_EVENT_COMM_EST), -EINVAL);
	CU_ASSERT_EQUAL(ib_cm_notify(id, IBV_EVENT_CQ_ERR), -EINVAL);
	/* Too long, out of range, from elsewhere. */
	req.private_data = sreq.private_data = data;
	req.private_data_len = IB_CM_REQ_PRIVATE_DATA_SIZE + 1;
	CU_ASSERT_EQUAL(ib_send_cm_req(id, &req), -EINVAL);
	sreq.private_data_len = IB_CM_SIDR_REQ_PRIVATE_DATA_SIZE + 1;
	CU_ASSERT_EQUAL(ib_send_cm_sidr_req(id, &sreq), -EINVAL);
	req.private_data_len = 0;
	req.retry_count = 8;
	CU_ASSERT_EQUAL(ib_send_cm_req(id, &req), -EINVAL);
	req.retry_count = 7;
	req.qp_type = IBV_QPT_UD;
	CU_ASSERT_EQUAL(ib_send_cm_req(id, &req), -EINVAL);
	req.qp_type = IBV_QPT_RC;
	req.primary_path = &strange;
	CU_ASSERT_EQUAL(ib_send_cm_req(id, &req), -EINVAL);
	req.primary_path = NULL;
	CU_ASSERT_EQUAL(ib_send_cm_req(id, &req), -EINVAL);
	req.primary_path = &path;
	req.alternate_path = &strange;
	CU_ASSERT_EQUAL(ib_send_cm_req(id, &req), -EINVAL);
	CU_ASSERT_EQUAL(id->state, IB_CM_IDLE);
	ib_destroy_cm_id(id);
}

/* ---- callbacks and the end of ids ---- */

static sem_t in_callback, go_on;
static atomic_bool returned;
static struct ib_cm_id *child;

static int slow_handler(struct ib_cm_id *id, const struct ib_cm_event *ev)
{
	child = id;
	sem_post(&in_callback);
	sem_wait(&go_on);
	atomic_store(&returned, true);
	return 0;
}

static void *destroyer(void *id)
{
	ib_destroy_cm_id(id);
	/* Its callback is over by now. */
	return atomic_load(&returned) ? NULL : id;
}

/* ib_destroy_cm_id() waits for the callback; requests behind it are rejected unheard. */
static void destroy_waits(void)
{
	struct ib_cm_id *listener = ib_create_cm_id(ctx, slow_handler, NULL), *id, *second;
	pthread_t thread;
	void *early;

	sem_init(&in_callback, 0, 0);
	sem_init(&go_on, 0, 0);
	CU_ASSERT_EQUAL_FATAL(ib_cm_listen(listener, htobe64(SERVICE), 0), 0);
	id = ask(NULL);
	sem_wait(&in_callback);
	second = ask(NULL);
	CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, destroyer, listener), 0);
	/* Until the listener is on its way out: a call, though refused, says the state of now. */
	while (second->state != IB_CM_IDLE) {
		CU_ASSERT_EQUAL_FATAL(ib_send_cm_rtu(second, NULL, 0), -EINVAL);
		sched_yield();
	}
	sem_post(&go_on);
	CU_ASSERT_EQUAL(pthread_join(thread, &early), 0);
	CU_ASSERT_PTR_NULL(early);
	/* The second one: rejected with its listener, or for want of one. */
	expect_for(second, IB_CM_REJ_RECEIVED);
	/* The first one's id is the consumer's: it was told. */
	ib_destroy_cm_id(child);
	expect_for(id, IB_CM_REJ_RECEIVED);
	ib_destroy_cm_id(id);
	ib_destroy_cm_id(second);
	sem_destroy(&in_callback);
	sem_destroy(&go_on);
}

static int suicide(struct ib_cm_id *id, const struct ib_cm_event *ev)
{
	int ret = handler(id, ev);

	ib_destroy_cm_id(id);
	return ret;
}

/* From its own callback: done when that returns, whatever it returns. */
static void destroy_in_callback(void)
{
	struct ib_cm_id *listener = ib_create_cm_id(ctx, suicide, NULL), *id;

	CU_ASSERT_EQUAL_FATAL(ib_cm_listen(listener, htobe64(SERVICE), 0), 0);
	for (int i = 0; i < 2; i++) {
		pthread_mutex_lock(&lock);
		verdict = i;
		pthread_mutex_unlock(&lock);
		id = ask(NULL);
		expect(IB_CM_REQ_RECEIVED);
		expect_for(id, IB_CM_REJ_RECEIVED);
		ib_destroy_cm_id(id);
	}
	ib_destroy_cm_id(listener);
}

/* A device and a CM of the child's own. */
static bool child_works(void)
{
	struct ib_cm_id *own;
	bool ok;

#ifdef __SANITIZE_THREAD__
	return true; /* it takes a child's threads for the parent's, whose stacks they have */
#endif
	ctx = ibv_open_device(ctx->device);
	own = ctx ? ib_create_cm_id(ctx, handler, NULL) : NULL;
	ok = own && !ib_cm_listen(own, htobe64(0x4711), 0);
	if (ok)
		ib_destroy_cm_id(own);
	return ok;
}

/* A child cannot use what is its parent's, and says so. */
static void after_fork(void)
{
	struct ibv_sa_path_rec path = path_to(0, 1);
	struct ib_cm_req_param req = req_param(&path, NULL);
	struct ib_cm_id *id = new_id();
	int status;
	pid_t pid = fork();

	CU_ASSERT_FATAL(pid >= 0);
	if (!pid) {
		bool ok = !ib_create_cm_id(ctx, handler, NULL) && errno == EIO &&
			  ib_send_cm_req(id, &req) == -EIO;

		ib_destroy_cm_id(id);
		ok = ok && child_works();
		_exit(!ok);
	}
	CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
	CU_ASSERT_EQUAL(status, 0);
	ib_destroy_cm_id(id);
}

/* Is it the status of a thread of this name, which leaves all signals but faults to others? */
static bool is_deaf(FILE *status, const char *name)
{
	uint64_t blocked = 0,
		 all = UINT64_MAX & ~(1ull << (SIGKILL - 1)) & ~(1ull << (SIGSTOP - 1)),
		 faults = 1ull << (SIGSEGV - 1) | 1ull << (SIGBUS - 1);
	bool named = false;
	char line[256];

	while (fgets(line, sizeof(line), status)) {
		if (!strncmp(line, "Name:\t", 6))
			named = !strcmp(strtok(line + 6, "\n"), name);
		sscanf(line, "SigBlk: %" SCNx64, &blocked);
	}
	/* glibc keeps two below SIGRTMIN for itself. */
	return named && (blocked | faults | 3ull << 31) == all;
}

static unsigned deaf_threads(const char *name)
{
	char path[sizeof("/proc/self/task//status") + NAME_MAX];
	DIR *dir = opendir("/proc/self/task");
	unsigned n = 0;

	CU_ASSERT_PTR_NOT_NULL_FATAL(dir);
	for (struct dirent *d; (d = readdir(dir));) {
		FILE *f;

		snprintf(path, sizeof(path), "/proc/self/task/%s/status", d->d_name);
		f = fopen(path, "re");
		if (!f)
			continue;
		n += is_deaf(f, name);
		fclose(f);
	}
	closedir(dir);
	return n;
}

/* Those of ours that a program finds in itself say whose they are, and take none of its signals. */
static void names_of_threads(void)
{
	CU_ASSERT_EQUAL(deaf_threads("urxe/urxe0"), 1);
	CU_ASSERT_EQUAL(deaf_threads("urxe/ib_cm"), 1);
	CU_ASSERT_EQUAL(deaf_threads("urxe/status"), 1);
	CU_ASSERT_EQUAL(deaf_threads("urxe/rcu"), 1);
}

static atomic_int forked;
static sem_t has_forked;

/* Returns twice. */
static int forking_handler(struct ib_cm_id *id, const struct ib_cm_event *ev)
{
	pid_t pid = fork();

	if (pid) {
		atomic_store(&forked, pid);
		sem_post(&has_forked);
	}
	return 0;
}

/* In the child the CM is no more: the thread that called back has nothing to go on with, and ends.
 */
static void fork_in_callback(void)
{
	struct ibv_sa_path_rec path = path_to(0, 1);
	struct ib_cm_req_param req = req_param(&path, NULL);
	struct ib_cm_id *id = ib_create_cm_id(ctx, forking_handler, NULL);
	struct pollfd gone = {.events = POLLIN};
	int status = -1;

	CU_ASSERT_PTR_NOT_NULL_FATAL(id);
	sem_init(&has_forked, 0, 0);
	fflush(NULL);
	/* Nobody listens there: REJ is the event. */
	req.service_id = htobe64(SERVICE + 0x1000);
	CU_ASSERT_EQUAL_FATAL(ib_send_cm_req(id, &req), 0);
	sem_wait(&has_forked);
	CU_ASSERT_FATAL(atomic_load(&forked) > 0);
	gone.fd = pidfd_open(atomic_load(&forked), 0);
	CU_ASSERT_FATAL(gone.fd >= 0);
	CU_ASSERT_EQUAL(poll(&gone, 1, 20000), 1);
	if (!gone.revents)
		kill(atomic_load(&forked), SIGKILL);
	CU_ASSERT_EQUAL(waitpid(atomic_load(&forked), &status, 0), atomic_load(&forked));
	CU_ASSERT_EQUAL(status, 0);
	close(gone.fd);
	ib_destroy_cm_id(id);
	sem_destroy(&has_forked);
}

static int open_all(void)
{
	int n;
	struct ibv_device **list = ibv_get_device_list(&n);

	for (int i = 0; i < n && !ctx; i++) {
		if (!strncmp(ibv_get_device_name(list[i]), "urxe", 4))
			ctx = ibv_open_device(list[i]);
	}
	ibv_free_device_list(list);
	pd = ctx ? ibv_alloc_pd(ctx) : NULL;
	cq = pd ? ibv_create_cq(ctx, 64, NULL, NULL, 0) : NULL;
	mr = cq ? ibv_reg_mr(pd, buf, sizeof(buf), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
		: NULL;
	return mr ? 0 : -1;
}

static void device(void)
{
	CU_ASSERT_EQUAL_FATAL(open_all(), 0);
}

URXE_TEST_MAIN("cm_ib", T(device), T(bad_calls), T(connection), T(connects_again),
	       T(load_alternate_path), T(alternate_path_in_req), T(lap_to_rdma_cm), T(peer_to_peer),
	       T(rejections), T(slow_and_early), T(service_ids), T(sidr), T(sidr_to_rdma_cm),
	       T(no_answer), T(destroy_waits), T(destroy_in_callback), T(names_of_threads),
	       T(after_fork), T(fork_in_callback))
