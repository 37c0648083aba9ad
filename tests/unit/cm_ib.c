/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The calls of urxe_cm.h on a device without a wire, in one process: run by `urxe run --port loop`
 * with 10.0.0.1/24 and 10.0.1.1/24. Callbacks, threads and fork() are in cm_ib_ends.c.
 */
#include "cm_ib_rig.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include <rdma/rdma_cma.h>

#include "urxe/mad.h"

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
	next_verdict(1);
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

URXE_TEST_MAIN("cm_ib", T(device), T(bad_calls), T(connection), T(connects_again),
	       T(load_alternate_path), T(alternate_path_in_req), T(lap_to_rdma_cm), T(peer_to_peer),
	       T(rejections), T(slow_and_early), T(service_ids), T(sidr), T(sidr_to_rdma_cm),
	       T(no_answer))
