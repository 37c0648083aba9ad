/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Two processes with the same address: rdma_cm of the one, and the IB CM of the other. Listeners of
 * either get the requests of both, a used port is in use, a request for nobody is rejected at once,
 * and when one process dies the other learns of it without a time-out.
 */
#include <errno.h>
#include <fcntl.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <string.h>

#include "cm/device/device.h"
#include "cm_device.h"
#include "harness.h"
#include "netio/identity.h"
#include "pair.h"
#include "progress.h"
#include "provider/gsi.h"
#include "service.h"
#include "sim_fabric.h"

#define MS     1000000ull
#define SLOT_A 31
#define SLOT_B 32

/* The other process: a device and its IB CM, and what its handler was told last. */
static struct {
	struct pair p;
	struct sim_fabric *hub;
	struct urxe_cma_dev dev;
	struct urxe_cm *cm;
	struct urxe_cm_id *id; /* of the last event */
	enum urxe_cm_event_type event;
	unsigned events;
	uint32_t qpn; /* of the REQ, or the REP */
	uint16_t reason;
	void *claim;
	struct urxe_cm_id *listener;
} b;

static struct rdma_event_channel *channel;
static const uint8_t any4[16] = {[10] = 0xff, [11] = 0xff};

/* The CM remembers QPs for a while: each connection has others. */
static uint32_t new_qpn(unsigned slot)
{
	static uint32_t last;

	return slot << 16 | ++last;
}

static void join(struct urxe_sim *sim, struct urxe_sim_end *end, unsigned host)
{
	if (host == 1)
		b.hub = sim_fabric_create(sim);
	sim_fabric_next(b.hub, host == 1 ? SLOT_A : SLOT_B, end);
}

static int handler(struct urxe_cm_id *id, const struct urxe_cm_event *ev, void *context)
{
	b.id = id;
	b.event = ev->type;
	b.events++;
	if (ev->type == URXE_CM_EV_REQ_RECEIVED)
		b.qpn = ev->req.conn.qpn;
	if (ev->type == URXE_CM_EV_REP_RECEIVED)
		b.qpn = ev->rep.qpn;
	if (ev->type == URXE_CM_EV_REJ_RECEIVED)
		b.reason = ev->rej.reason;
	return 0;
}

/* rdma_cm keeps its device for good: so does the test. A new other process each time. */
static void set_up(void)
{
	static const struct pair_params params = {
		.seed = 7,
		.link = {.latency = 1000},
		.ops = &urxe_link_sim_fabric_ops,
		.join = join,
	};
	struct urxe_agent *agent;

	if (!b.p.sim) {
		pair_open(&b.p, &params, IBV_QPT_RC);
		cm_device = &b.p.a.dev->vdev.device;
		b.dev.device = &b.p.b.dev->vdev.device;
		b.dev.verbs = b.p.b.ctx;
		b.dev.index = 1;
		CDS_INIT_LIST_HEAD(&b.dev.starters);
		CU_ASSERT_EQUAL_FATAL(ibv_query_device(b.dev.verbs, &b.dev.attr), 0);
		channel = rdma_create_event_channel();
		CU_ASSERT_FATAL(channel && !fcntl(channel->fd, F_SETFL, O_NONBLOCK));
		urxe_cma_hold();
		CU_ASSERT_EQUAL_FATAL(urxe_agent_get(&b.dev, &agent), 0);
		b.cm = urxe_agent_cm(agent);
		urxe_cma_release();
	}
	b.id = NULL;
	b.events = 0;
	b.event = URXE_CM_EV_NONE;
}

/* Both processes run, as by their service threads. */
static void turns(void)
{
	for (unsigned i = 0; i < 6; i++) {
		urxe_peer_gone_run(b.p.a.dev);
		urxe_gsi_drive(b.p.a.ctx);
		urxe_gsi_drive(b.p.b.ctx);
		urxe_sim_advance(b.p.sim, urxe_sim_now(b.p.sim) + 2000);
	}
}

/* Up to @ms pass, or until an event of rdma_cm's; returns how many passed. */
static unsigned drive(unsigned ms, struct rdma_cm_event **ev)
{
	for (unsigned at = 0; at < ms; at++) {
		turns();
		if (!rdma_get_cm_event(channel, ev))
			return at;
		urxe_sim_advance(b.p.sim, urxe_sim_now(b.p.sim) + MS);
	}
	*ev = NULL;
	return ms;
}

/* The next event, within @ms, is this one; acked. */
static struct rdma_cm_id *expect(unsigned ms, enum rdma_cm_event_type type, int status)
{
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;

	drive(ms, &ev);
	CU_ASSERT_PTR_NOT_NULL_FATAL(ev);
	CU_ASSERT_EQUAL(ev->event, type);
	CU_ASSERT_EQUAL(ev->status, status);
	if (ev->event != type)
		fprintf(stderr, "found %s, %d\n", rdma_event_str(ev->event), ev->status);
	id = ev->id;
	rdma_ack_cm_event(ev);
	return id;
}

static void settle(void)
{
	struct rdma_cm_event *ev;

	drive(5, &ev);
	CU_ASSERT_PTR_NULL(ev);
}

/* ---- the other process ---- */

static void b_listen(enum urxe_ident_space space, uint16_t port, uint8_t ps)
{
	struct urxe_ident *ident = urxe_gsi_ident(b.p.b.ctx);

	CU_ASSERT_EQUAL_FATAL(
		urxe_ident_port_claim(ident, space, any4, URXE_IDENT_PORT_V4, &port, &b.claim), 0);
	CU_ASSERT_EQUAL(urxe_ident_port_listen(ident, b.claim), 0);
	urxe_cma_hold();
	b.listener = urxe_cm_new_id(b.cm, handler, NULL);
	CU_ASSERT_EQUAL(urxe_cm_listen(b.listener, urxe_ip_cm_service_id(ps, port), UINT64_MAX), 0);
	urxe_cma_release();
}

static void b_unlisten(void)
{
	urxe_ident_port_release(urxe_gsi_ident(b.p.b.ctx), b.claim);
	urxe_cma_hold();
	urxe_cm_destroy(b.listener);
	urxe_cma_release();
}

static void b_rep(void)
{
	const struct urxe_cm_conn rep = {.qpn = new_qpn(SLOT_B), .psn = 7};

	urxe_cma_hold();
	CU_ASSERT_EQUAL(urxe_cm_send_rep(b.id, &rep), 0);
	urxe_agent_kick(b.dev.agent);
	urxe_cma_release();
}

/* Sent, and not yet received. */
static void b_reject(const char *why)
{
	urxe_cma_hold();
	CU_ASSERT_EQUAL(
		urxe_cm_send_rej(b.id, URXE_CM_REJ_CONSUMER, NULL, 0, why, (uint8_t)strlen(why)),
		0);
	urxe_agent_kick(b.dev.agent);
	urxe_cma_release();
	urxe_gsi_drive(b.p.b.ctx);
	urxe_sim_advance(b.p.sim, urxe_sim_now(b.p.sim) + 2000);
}

static void b_connect(uint16_t port)
{
	struct urxe_cm_req req = {
		.service_id = urxe_ip_cm_service_id(0x06, port),
		.qp_type = IBV_QPT_RC,
		.conn = {.qpn = new_qpn(SLOT_B), .retry_count = 7},
	};
	struct urxe_ip_cm_hdr hdr = {.ip_version = 4, .src_port = 4000};
	uint8_t data[64] = {0};

	urxe_cma_hold();
	CU_ASSERT_EQUAL(urxe_gsi_gid(b.p.b.ctx, 0, &req.path.sgid), 0);
	req.path.dgid = req.path.sgid;
	req.path.mtu = IBV_MTU_1024;
	req.path.pkey = 0xffff;
	req.path.hop_limit = 64;
	memcpy(hdr.src, req.path.sgid.raw, 16);
	memcpy(hdr.dst, req.path.sgid.raw, 16);
	urxe_ip_cm_hdr_put(data, &hdr);
	req.conn.private_data = data;
	req.conn.private_len = sizeof(data);
	b.id = urxe_cm_new_id(b.cm, handler, NULL);
	CU_ASSERT_EQUAL(urxe_cm_send_req(b.id, &req), 0);
	urxe_agent_kick(b.dev.agent);
	urxe_cma_release();
}

static void b_end(void)
{
	urxe_cma_hold();
	urxe_cm_destroy(b.id);
	urxe_cma_release();
	turns();
}

/* ---- rdma_cm's process ---- */

static struct sockaddr_in address(const char *host, uint16_t port)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htobe16(port)};
	union ibv_gid gid;

	CU_ASSERT_EQUAL(urxe_gsi_gid(b.p.a.ctx, 0, &gid), 0);
	if (!host)
		memcpy(&sin.sin_addr, gid.raw + 12, 4);
	else
		sin.sin_addr.s_addr = htobe32(host[0] == '1' ? INADDR_LOOPBACK : INADDR_ANY);
	return sin;
}

static struct rdma_cm_id *resolved(const char *host, uint16_t port, enum rdma_port_space ps)
{
	struct sockaddr_in sin = address(host, port);
	struct rdma_cm_id *id;

	CU_ASSERT_EQUAL_FATAL(rdma_create_id(channel, &id, NULL, ps), 0);
	CU_ASSERT_EQUAL_FATAL(rdma_resolve_addr(id, NULL, (struct sockaddr *)&sin, 1000), 0);
	expect(10, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	CU_ASSERT_EQUAL_FATAL(rdma_resolve_route(id, 1000), 0);
	expect(10, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	return id;
}

static void a_connect(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = {.qp_num = new_qpn(SLOT_A), .retry_count = 7};

	CU_ASSERT_EQUAL_FATAL(rdma_connect(id, &param), 0);
}

static struct rdma_cm_id *a_listen(const char *host, uint16_t port)
{
	struct sockaddr_in sin = address(host, port);
	struct rdma_cm_id *id;

	CU_ASSERT_EQUAL_FATAL(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	CU_ASSERT_EQUAL_FATAL(rdma_bind_addr(id, (struct sockaddr *)&sin), 0);
	CU_ASSERT_EQUAL_FATAL(rdma_listen(id, 8), 0);
	return id;
}

/* ---- tests ---- */

static void to_the_other(void)
{
	static const char *const hosts[] = {NULL, "127.0.0.1"};
	struct rdma_cm_id *id;

	for (unsigned i = 0; i < 2; i++) {
		set_up();
		b_listen(URXE_IDENT_TCP, 7000, 0x06);
		id = resolved(hosts[i], 7000, RDMA_PS_TCP);
		a_connect(id);
		settle();
		CU_ASSERT_EQUAL_FATAL(b.event, URXE_CM_EV_REQ_RECEIVED);
		CU_ASSERT_EQUAL(urxe_ident_qpn_slot(b.qpn), SLOT_A);
		b_rep();
		expect(10, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
		CU_ASSERT_EQUAL(rdma_establish(id), 0);
		settle();
		CU_ASSERT_EQUAL(b.event, URXE_CM_EV_RTU_RECEIVED);
		CU_ASSERT_EQUAL(rdma_disconnect(id), 0);
		settle();
		CU_ASSERT_EQUAL(b.event, URXE_CM_EV_DREQ_RECEIVED);
		b_end();
		expect(10, RDMA_CM_EVENT_DISCONNECTED, 0);
		CU_ASSERT_EQUAL(rdma_destroy_id(id), 0);
		b_unlisten();
	}
}

static void from_the_other(void)
{
	static const char *const hosts[] = {NULL, "0.0.0.0", "127.0.0.1"};
	struct rdma_conn_param param = {0};
	struct rdma_cm_id *listener, *id;

	for (unsigned i = 0; i < 3; i++) {
		set_up();
		listener = a_listen(hosts[i], 7001);
		b_connect(7001);
		id = expect(10, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
		param.qp_num = new_qpn(SLOT_A);
		CU_ASSERT_EQUAL(rdma_accept(id, &param), 0);
		settle();
		CU_ASSERT_EQUAL(b.event, URXE_CM_EV_REP_RECEIVED);
		CU_ASSERT_EQUAL(b.qpn, param.qp_num);
		urxe_cma_hold();
		CU_ASSERT_EQUAL(urxe_cm_send_rtu(b.id, NULL, 0), 0);
		urxe_cma_release();
		expect(10, RDMA_CM_EVENT_ESTABLISHED, 0);
		urxe_cma_hold();
		CU_ASSERT_EQUAL(urxe_cm_send_dreq(b.id, NULL, 0), 0);
		urxe_cma_release();
		expect(10, RDMA_CM_EVENT_DISCONNECTED, 0);
		CU_ASSERT_EQUAL(rdma_destroy_id(id), 0);
		CU_ASSERT_EQUAL(rdma_destroy_id(listener), 0);
		b_end();
	}
}

/* Its own listener gets its own request, whoever else is there. */
static void to_itself(void)
{
	struct rdma_cm_id *listener, *id, *child;

	set_up();
	b_listen(URXE_IDENT_TCP, 7002, 0x06);
	listener = a_listen("0.0.0.0", 7003);
	id = resolved(NULL, 7003, RDMA_PS_TCP);
	a_connect(id);
	child = expect(10, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	CU_ASSERT_EQUAL(b.events, 0);
	CU_ASSERT_EQUAL(rdma_reject(child, NULL, 0), 0);
	expect(10, RDMA_CM_EVENT_REJECTED, URXE_CM_REJ_CONSUMER);
	CU_ASSERT_EQUAL(rdma_destroy_id(child), 0);
	CU_ASSERT_EQUAL(rdma_destroy_id(id), 0);
	CU_ASSERT_EQUAL(rdma_destroy_id(listener), 0);
	b_unlisten();
}

static void for_nobody(void)
{
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;

	set_up();
	id = resolved(NULL, 7004, RDMA_PS_TCP);
	a_connect(id);
	/* It is asked once more after 50 ms: a listener may be about to come. */
	CU_ASSERT(drive(1000, &ev) < 60);
	CU_ASSERT_PTR_NOT_NULL_FATAL(ev);
	CU_ASSERT_EQUAL(ev->event, RDMA_CM_EVENT_REJECTED);
	CU_ASSERT_EQUAL(ev->status, URXE_CM_REJ_INVALID_SERVICE_ID);
	rdma_ack_cm_event(ev);
	CU_ASSERT_EQUAL(rdma_destroy_id(id), 0);
	/* The other process's request likewise. */
	b_connect(7004);
	for (unsigned i = 0; i < 12; i++)
		settle();
	CU_ASSERT_EQUAL(b.event, URXE_CM_EV_REJ_RECEIVED);
	CU_ASSERT_EQUAL(b.reason, URXE_CM_REJ_INVALID_SERVICE_ID);
	b_end();
}

/* A listener that comes a moment after the request, in the other process. */
static void late_listener(void)
{
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;

	set_up();
	id = resolved(NULL, 7005, RDMA_PS_TCP);
	a_connect(id);
	settle();
	b_listen(URXE_IDENT_TCP, 7005, 0x06);
	drive(60, &ev);
	CU_ASSERT_PTR_NULL(ev);
	CU_ASSERT_EQUAL(b.event, URXE_CM_EV_REQ_RECEIVED);
	CU_ASSERT_EQUAL(rdma_destroy_id(id), 0);
	settle();
	CU_ASSERT_EQUAL(b.event, URXE_CM_EV_REJ_RECEIVED);
	b_end();
	b_unlisten();
}

static void ports(void)
{
	struct sockaddr_in any = address("0.0.0.0", 7006), own = address(NULL, 7006);
	struct rdma_cm_id *id, *second;

	set_up();
	b_listen(URXE_IDENT_TCP, 7006, 0x06);
	CU_ASSERT_EQUAL_FATAL(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	CU_ASSERT_EQUAL(rdma_bind_addr(id, (struct sockaddr *)&own), -1);
	CU_ASSERT_EQUAL(errno, EADDRINUSE);
	CU_ASSERT_EQUAL(rdma_bind_addr(id, (struct sockaddr *)&any), -1);
	CU_ASSERT_EQUAL(errno, EADDRINUSE);
	/* Other spaces have their own numbers. */
	CU_ASSERT_EQUAL_FATAL(rdma_create_id(channel, &second, NULL, RDMA_PS_UDP), 0);
	CU_ASSERT_EQUAL(rdma_bind_addr(second, (struct sockaddr *)&any), 0);
	b_unlisten();
	CU_ASSERT_EQUAL(rdma_bind_addr(id, (struct sockaddr *)&own), 0);
	CU_ASSERT_EQUAL(rdma_destroy_id(id), 0);
	CU_ASSERT_EQUAL(rdma_destroy_id(second), 0);
}

static void datagrams(void)
{
	struct rdma_conn_param param = {.qp_num = 0x55};
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;

	set_up();
	b_listen(URXE_IDENT_UDP, 7007, 0x11);
	id = resolved(NULL, 7007, RDMA_PS_UDP);
	CU_ASSERT_EQUAL_FATAL(rdma_connect(id, &param), 0);
	settle();
	CU_ASSERT_EQUAL_FATAL(b.event, URXE_CM_EV_SIDR_REQ_RECEIVED);
	urxe_cma_hold();
	CU_ASSERT_EQUAL(
		urxe_cm_send_sidr_rep(b.id, URXE_CM_SIDR_SUCCESS, b.p.b.qp->qp_num, 1234, NULL, 0),
		0);
	urxe_cma_release();
	drive(10, &ev);
	CU_ASSERT_PTR_NOT_NULL_FATAL(ev);
	CU_ASSERT_EQUAL(ev->event, RDMA_CM_EVENT_ESTABLISHED);
	CU_ASSERT_EQUAL(ev->param.ud.qp_num, b.p.b.qp->qp_num);
	rdma_ack_cm_event(ev);
	CU_ASSERT_EQUAL(rdma_destroy_id(id), 0);
	b_unlisten();
}

/* a's id, with a QP, connected to b's. */
static struct rdma_cm_id *connected_with_qp(uint16_t port)
{
	struct ibv_qp_init_attr ia = {
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC};
	struct rdma_cm_id *id = resolved(NULL, port, RDMA_PS_TCP);

	ia.send_cq = ia.recv_cq = ibv_create_cq(id->verbs, 4, NULL, NULL, 0);
	CU_ASSERT_EQUAL_FATAL(rdma_create_qp(id, ibv_alloc_pd(id->verbs), &ia), 0);
	a_connect(id);
	settle();
	CU_ASSERT_EQUAL_FATAL(b.event, URXE_CM_EV_REQ_RECEIVED);
	b_rep();
	expect(10, RDMA_CM_EVENT_ESTABLISHED, 0);
	settle();
	return id;
}

static void drop_with_qp(struct rdma_cm_id *id)
{
	struct ibv_cq *cq = id->qp->send_cq;
	struct ibv_pd *pd = id->qp->pd;

	rdma_destroy_qp(id);
	CU_ASSERT_EQUAL(ibv_destroy_cq(cq), 0);
	CU_ASSERT_EQUAL(ibv_dealloc_pd(pd), 0);
	CU_ASSERT_EQUAL(rdma_destroy_id(id), 0);
}

/* A DREQ that tells of a death ends what waits on the QP; any other leaves it to the program. */
static void obituary(void)
{
	static const char gone[] = URXE_MAD_DREQ_GONE;
	struct rdma_cm_id *id;

	for (unsigned dead = 0; dead < 2; dead++) {
		set_up();
		b_listen(URXE_IDENT_TCP, 7010, 0x06);
		id = connected_with_qp(7010);
		CU_ASSERT_EQUAL(pair_state(id->qp), IBV_QPS_RTS);
		urxe_cma_hold();
		CU_ASSERT_EQUAL(urxe_cm_send_dreq(b.id, gone, dead ? sizeof(gone) : 0), 0);
		urxe_agent_kick(b.dev.agent);
		urxe_cma_release();
		expect(10, RDMA_CM_EVENT_DISCONNECTED, 0);
		CU_ASSERT_EQUAL(pair_state(id->qp), dead ? IBV_QPS_ERR : IBV_QPS_RTS);
		drop_with_qp(id);
		b_end();
		b_unlisten();
	}
}

/* Nobody answers our DREQ: the event that ends the connection says so. */
static void unanswered_end(void)
{
	struct rdma_cm_id *id;

	set_up();
	b_listen(URXE_IDENT_TCP, 7011, 0x06);
	id = connected_with_qp(7011);
	CU_ASSERT_EQUAL(rdma_disconnect(id), 0);
	settle();
	CU_ASSERT_EQUAL(b.event, URXE_CM_EV_DREQ_RECEIVED);
	expect(10000, RDMA_CM_EVENT_DISCONNECTED, -ETIMEDOUT);
	drop_with_qp(id);
	b_end();
	b_unlisten();
}

/* A smaller MTU is taken; who names one that was no smaller would be asked for ever. */
static void other_mtu(void)
{
	struct rdma_cm_id *id;
	uint8_t mtu;

	set_up();
	b_listen(URXE_IDENT_TCP, 7012, 0x06);
	id = resolved(NULL, 7012, RDMA_PS_TCP);
	a_connect(id);
	settle();
	mtu = urxe_cm_get_path(b.id)->mtu;
	CU_ASSERT_FATAL(mtu > IBV_MTU_256);
	for (mtu--;; b.events = 0) {
		urxe_cma_hold();
		CU_ASSERT_EQUAL(urxe_cm_send_rej(b.id, URXE_CM_REJ_INVALID_MTU, &mtu, 1, NULL, 0),
				0);
		urxe_cm_destroy(b.id);
		urxe_agent_kick(b.dev.agent);
		urxe_cma_release();
		if (!b.events)
			break;
		settle();
		CU_ASSERT_EQUAL_FATAL(urxe_cm_get_path(b.id)->mtu, mtu);
	}
	expect(10, RDMA_CM_EVENT_REJECTED, URXE_CM_REJ_INVALID_MTU);
	CU_ASSERT_EQUAL(b.events, 0);
	CU_ASSERT_EQUAL(rdma_destroy_id(id), 0);
	b_unlisten();
}

/*
 * The other process dies with a connection, a request of its own that waits for an answer, one
 * that waits for its answer, and one that it has just rejected. Last, as it stays dead.
 */
static void death(void)
{
	struct rdma_cm_event *ev;
	struct rdma_cm_id *connected, *waits, *refused, *listener, *child;
	struct rdma_conn_param param = {.qp_num = new_qpn(SLOT_A)};
	bool seen[3] = {false};
	unsigned ms = 0;

	set_up();
	b_listen(URXE_IDENT_TCP, 7008, 0x06);
	connected = resolved(NULL, 7008, RDMA_PS_TCP);
	a_connect(connected);
	settle();
	b_rep();
	expect(10, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	CU_ASSERT_EQUAL(rdma_establish(connected), 0);
	settle();
	waits = resolved(NULL, 7008, RDMA_PS_TCP);
	a_connect(waits);
	settle();
	CU_ASSERT_EQUAL(b.event, URXE_CM_EV_REQ_RECEIVED);
	listener = a_listen(NULL, 7009);
	b_connect(7009);
	child = expect(10, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	refused = resolved(NULL, 7008, RDMA_PS_TCP);
	a_connect(refused);
	settle();
	CU_ASSERT_EQUAL(b.event, URXE_CM_EV_REQ_RECEIVED);
	urxe_cma_hold();
	CU_ASSERT_EQUAL(urxe_cm_send_mra(b.id, 20, NULL, 0), 0);
	urxe_cma_release();
	settle();
	b_reject("never");
	sim_fabric_kill(b.hub, SLOT_B);
	/* Whoever looks first: its last words come before its death. */
	urxe_service_run_gsi(b.p.a.dev, urxe_sim_now(b.p.sim), true);
	for (unsigned i = 0; i < 3; i++) {
		ms += drive(1000, &ev);
		CU_ASSERT_PTR_NOT_NULL_FATAL(ev);
		if (ev->id == connected)
			seen[0] = ev->event == RDMA_CM_EVENT_DISCONNECTED;
		else if (ev->id == waits)
			seen[1] = ev->event == RDMA_CM_EVENT_REJECTED;
		else if (ev->id == refused)
			seen[2] = ev->event == RDMA_CM_EVENT_REJECTED &&
				  ev->status == URXE_CM_REJ_CONSUMER &&
				  !memcmp(ev->param.conn.private_data, "never", 5);
		rdma_ack_cm_event(ev);
	}
	CU_ASSERT(seen[0] && seen[1] && seen[2]);
	CU_ASSERT(ms < 60);
	/* Who asked is not there to be accepted. */
	CU_ASSERT_EQUAL(rdma_accept(child, &param), -1);
	/* Its port is free. */
	CU_ASSERT_EQUAL(rdma_destroy_id(listener), 0);
	listener = a_listen("0.0.0.0", 7008);
	CU_ASSERT_EQUAL(rdma_destroy_id(connected), 0);
	CU_ASSERT_EQUAL(rdma_destroy_id(waits), 0);
	CU_ASSERT_EQUAL(rdma_destroy_id(refused), 0);
	CU_ASSERT_EQUAL(rdma_destroy_id(child), 0);
	CU_ASSERT_EQUAL(rdma_destroy_id(listener), 0);
}

URXE_TEST_MAIN("cm_shared", T(to_the_other), T(from_the_other), T(to_itself), T(for_nobody),
	       T(late_listener), T(ports), T(datagrams), T(obituary), T(unanswered_end),
	       T(other_mtu), T(death))
