/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Events are noted as they come, and looked at one after the other. */
#include "cm_ib_rig.h"

#include <endian.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#define NOTES 64 /* as expect() promises */

struct ibv_context *ctx;
static struct ibv_pd *pd;
struct ibv_cq *cq;
static struct ibv_mr *mr;
static uint8_t buf[8192];

static struct note notes[NOTES];
static unsigned head, tail;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static int verdict; /* of the next callback */

int handler(struct ib_cm_id *id, const struct ib_cm_event *ev)
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

void next_verdict(int ret)
{
	pthread_mutex_lock(&lock);
	verdict = ret;
	pthread_mutex_unlock(&lock);
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

struct note *expect(enum ib_cm_event_type type)
{
	struct note *n = next_note();

	while (type != IB_CM_MRA_RECEIVED && n->ev.event == IB_CM_MRA_RECEIVED)
		n = next_note();
	if (n->ev.event != type)
		printf("\ngot event %d, not %d\n", n->ev.event, type);
	CU_ASSERT_EQUAL_FATAL(n->ev.event, type);
	return n;
}

struct note *expect_for(struct ib_cm_id *id, enum ib_cm_event_type type)
{
	struct note *n = expect(type);

	CU_ASSERT_PTR_EQUAL_FATAL(n->id, id);
	return n;
}

struct ib_cm_id *new_id(void)
{
	struct ib_cm_id *id = ib_create_cm_id(ctx, handler, NULL);

	CU_ASSERT_PTR_NOT_NULL_FATAL(id);
	if (id)
		CU_ASSERT_EQUAL(id->state, IB_CM_IDLE);
	return id;
}

struct ib_cm_id *new_listener(void)
{
	struct ib_cm_id *id = new_id();

	CU_ASSERT_EQUAL_FATAL(ib_cm_listen(id, htobe64(SERVICE), 0), 0);
	CU_ASSERT_EQUAL(id->state, IB_CM_LISTEN);
	return id;
}

struct ibv_sa_path_rec path_to(uint8_t net, uint8_t host)
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

struct ibv_qp *new_qp(void)
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

void qp_to(struct ib_cm_id *id, struct ibv_qp *qp, enum ibv_qp_state state)
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

void write_one(struct ibv_qp *from, struct ibv_qp *to)
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

struct ib_cm_req_param req_param(struct ibv_sa_path_rec *path, struct ibv_qp *qp)
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

void accept_one(struct ib_cm_id *id, struct ibv_qp *qp)
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

void establish(struct ib_cm_id *id, struct ibv_qp *qp)
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

void connect_two(struct conn *c, struct ibv_sa_path_rec *alternate)
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

void end_two(struct conn *c)
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

void destroy_two(struct conn *c)
{
	ib_destroy_cm_id(c->active);
	ib_destroy_cm_id(c->passive);
	ib_destroy_cm_id(c->listener);
	ibv_destroy_qp(c->a);
	ibv_destroy_qp(c->p);
}

void disconnect_two(struct conn *c)
{
	end_two(c);
	destroy_two(c);
}

struct ib_cm_id *ask(struct ib_cm_id **passive)
{
	struct ibv_sa_path_rec path = path_to(0, 1);
	struct ib_cm_req_param req = req_param(&path, NULL);
	struct ib_cm_id *id = new_id();

	CU_ASSERT_EQUAL_FATAL(ib_send_cm_req(id, &req), 0);
	if (passive)
		*passive = expect(IB_CM_REQ_RECEIVED)->id;
	return id;
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

void device(void)
{
	CU_ASSERT_EQUAL_FATAL(open_all(), 0);
}
