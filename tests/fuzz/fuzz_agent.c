/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A device whose CM is up, with rdma_cm consumers behind it, on both sides of connections: ids that
 * listen, with a short backlog; that resolve, connect, with QPs and without; and a peer that sends
 * what it likes to QP1 (agent_peer.h): any bytes of any length, MADs that begin as they should,
 * answers that fit; strangers; ICMP errors. In the end the consumers destroy their ids: no id of
 * the CM is left after its timers, and the agent still answers, so no receive buffer was lost.
 */
#include <errno.h>
#include <fcntl.h>
#include <rdma/rdma_cma.h>

#include "agent_peer.h"
#include "cm/device/device.h"
#include "cm_device.h"
#include "netio/stack.h"
#include "progress.h"
#include "provider/gsi.h"
#include "provider/status.h"
#include "provider/status_path.h"
#include "service.h"

#define SLOTS	    16
#define LISTENERS   3
#define MAX_RECORDS 64
#define MS	    1000000ull

/* What outlives an input: two devices, and the CM on the first. */
static struct {
	bool open, dead; /* the wire loses all RoCE packets */
	struct pair p;
	struct rdma_event_channel *channel;
	struct ibv_cq *cq; /* of the ids' QPs */
} w;

struct slot {
	struct rdma_cm_id *id; /* NULL: free */
	uint8_t eager;	       /* 1: goes on by itself as events come; 2: with a QP */
	bool up, ended;	       /* its events so far */
};

/* What does not. */
struct run {
	struct fuzz_in *in;
	struct peer peer;
	struct rdma_cm_id *listener[LISTENERS];
	struct slot slots[SLOTS];
	uint8_t how;
	bool quiet, second_net;
	bool deaf; /* who listens takes no events but when it is told to */
};

/* While it waits for a neighbour the agent always has something to do. */
static void turns(void)
{
	for (unsigned n = 0; n < 16; n++) {
		int a = urxe_gsi_drive(w.p.a.ctx), b = urxe_progress_turn(w.p.b.dev);

		if (a <= 0 && b <= 0)
			break;
	}
}

static void drive(uint64_t ns)
{
	uint64_t end = urxe_sim_now(w.p.sim) + ns;

	for (uint64_t now; turns(), (now = urxe_sim_now(w.p.sim)) < end;) {
		uint64_t next = now + ns / 8 + 1, sim = urxe_sim_next(w.p.sim);

		next = sim > now && sim < next ? sim : next;
		urxe_sim_advance(w.p.sim, next < end ? next : end);
	}
}

static bool passes(void *arg, struct urxe_sim_end *from, const uint8_t *data, uint32_t len)
{
	struct urxe_frame f = {.data = (uint8_t *)(uintptr_t)data, .len = len};

	return !w.dead || !urxe_frame_roce(&f);
}

/* As at the end of a process whose port has been pulled out. */
static void close_world(void)
{
	struct urxe_cma_dev *dev = cm_device_own();

	urxe_sim_end_die(w.p.a.end);
	/* As its service thread does, some time later. */
	urxe_device_watch(w.p.a.dev, UINT64_MAX / 2);
	urxe_service_run_gsi(w.p.a.dev, UINT64_MAX / 2, true);
	FUZZ_CHECK(dev->lost);
	urxe_agent_stop(dev);
	urxe_cma_hold();
	urxe_agent_free(dev);
	urxe_cma_release();
}

/* Somebody else has QP1: nobody can listen or resolve, and once he has left, anybody. */
static void without_qp1(void)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = w.p.a.cq, .recv_cq = w.p.a.cq, .cap = {1, 1, 1, 1, 0}};
	struct ibv_qp *qp = urxe_gsi_create_qp(w.p.a.pd, &attr);
	struct sockaddr_in sin = {.sin_family = AF_INET};
	struct rdma_cm_id *id;

	FUZZ_CHECK(qp && !rdma_create_id(w.channel, &id, NULL, RDMA_PS_TCP));
	FUZZ_CHECK(!rdma_bind_addr(id, (struct sockaddr *)&sin));
	FUZZ_CHECK(rdma_listen(id, 1) && errno == EBUSY);
	sin.sin_addr.s_addr = htobe32(0x0a000002);
	sin.sin_port = htobe16(AGENT_PORT);
	FUZZ_CHECK(rdma_resolve_addr(id, NULL, (struct sockaddr *)&sin, 100) && errno == EBUSY);
	FUZZ_CHECK(!rdma_destroy_id(id) && !ibv_destroy_qp(qp));
}

static void open_world(void)
{
	static const struct pair_params params = {
		.seed = 5, .link = {.latency = 1000}, .two_nets = true};

	pair_open(&w.p, &params, IBV_QPT_UD);
	cm_device = &w.p.a.dev->vdev.device;
	pair_meet(&w.p);
	urxe_sim_filter(w.p.sim, passes, NULL);
	w.channel = rdma_create_event_channel();
	FUZZ_CHECK(w.channel && !fcntl(w.channel->fd, F_SETFL, O_NONBLOCK));
	without_qp1();
	w.open = true;
	atexit(close_world);
}

/* ---- the consumers ---- */

static struct rdma_cm_id *listen_on(enum rdma_port_space ps, uint16_t port, uint32_t ip,
				    int backlog)
{
	struct sockaddr_in sin = {
		.sin_family = AF_INET, .sin_port = htobe16(port), .sin_addr = {htobe32(ip)}};
	struct rdma_cm_id *id;

	FUZZ_CHECK(!rdma_create_id(w.channel, &id, NULL, ps));
	FUZZ_CHECK(!rdma_bind_addr(id, (struct sockaddr *)&sin));
	FUZZ_CHECK(!rdma_listen(id, backlog));
	return id;
}

static struct rdma_cm_id *listen_as(unsigned i, uint8_t how)
{
	static const int backlog[4] = {8, 1, 2, 3};

	return listen_on(i == 1 ? RDMA_PS_UDP : RDMA_PS_TCP, (uint16_t)(AGENT_PORT + i / 2),
			 i == 2 ? 0x0a000001 : 0, backlog[how & 3]);
}

static struct slot *free_slot(struct run *r)
{
	for (unsigned i = 0; i < SLOTS; i++)
		if (!r->slots[i].id)
			return &r->slots[i];
	return NULL;
}

static struct slot *slot_of(struct run *r, const struct rdma_cm_id *id)
{
	for (unsigned i = 0; i < SLOTS; i++)
		if (r->slots[i].id == id)
			return &r->slots[i];
	return NULL;
}

static void create_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = id->qp_type,
	};

	if (id->qp || !id->verbs)
		return;
	if (!w.cq)
		w.cq = ibv_create_cq(id->verbs, 64, NULL, NULL, 0);
	FUZZ_CHECK(w.cq);
	attr.send_cq = attr.recv_cq = w.cq;
	rdma_create_qp(id, NULL, &attr);
}

static void destroy(struct slot *s)
{
	if (s->id->qp)
		rdma_destroy_qp(s->id);
	FUZZ_CHECK(!rdma_destroy_id(s->id));
	s->id = NULL;
}

static struct rdma_conn_param some_param(struct run *r, uint8_t how)
{
	static const uint8_t bytes[256];
	struct rdma_conn_param p = {.qp_num = CONSUMER_QP,
				    .rnr_retry_count = 7,
				    .responder_resources = 4,
				    .initiator_depth = 4,
				    .private_data = bytes};

	if (how & 0x10)
		p.responder_resources = p.initiator_depth = RDMA_MAX_RESP_RES;
	if (how & 0x20) {
		p.private_data_len = fuzz_u8(r->in);
		p.responder_resources = fuzz_u8(r->in);
	}
	return p;
}

static void set_options(struct run *r, struct rdma_cm_id *id)
{
	uint8_t value = fuzz_u8(r->in);
	struct ibv_ece ece = {.vendor_id = value, .options = 5};

	rdma_set_option(id, RDMA_OPTION_ID,
			value & 1 ? RDMA_OPTION_ID_ACK_TIMEOUT : RDMA_OPTION_ID_TOS, &value, 1);
	rdma_set_local_ece(id, &ece);
}

static void call(struct run *r, struct slot *s, uint8_t what)
{
	struct rdma_cm_id *id = s->id;
	struct rdma_conn_param param = some_param(r, what);

	if (what & 0x40)
		create_qp(id);
	switch (what & 15) {
	case 0:
		rdma_accept(id, &param);
		break;
	case 1:
		rdma_reject(id, "no", 2);
		break;
	case 2:
		rdma_disconnect(id);
		break;
	case 3:
		destroy(s);
		break;
	case 4:
		rdma_notify(id, IBV_EVENT_COMM_EST);
		break;
	case 5:
		rdma_notify(id, what & 0x80 ? IBV_EVENT_PATH_MIG : IBV_EVENT_SQ_DRAINED);
		break;
	case 6:
		rdma_resolve_route(id, 1000);
		break;
	case 7:
		rdma_connect(id, &param);
		break;
	case 8:
		rdma_establish(id);
		break;
	case 9:
		set_options(r, id);
		break;
	case 10:
		if (id->qp)
			rdma_destroy_qp(id);
		break;
	case 11:
		rdma_reject_ece(id, NULL, 0);
		break;
	case 12: /* all of it from the QP */
		if (what & 0x80)
			rdma_accept(id, NULL);
		else
			rdma_connect(id, NULL);
		break;
	default:
		break;
	}
}

static void consume(struct run *r)
{
	struct slot *s = &r->slots[fuzz_u8(r->in) % SLOTS];
	uint8_t what = fuzz_u8(r->in);

	if (s->id)
		call(r, s, what);
}

/* An id that is to connect: to the peer, to who is not there, to a listener of ours, to nobody. */
static void new_active(struct run *r)
{
	static const uint32_t to[4] = {0x0a000002, 0x0a0000c8, 0x0a000001, 0x0b000001};
	uint8_t how = fuzz_u8(r->in);
	struct sockaddr_in sin = {.sin_family = AF_INET,
				  .sin_port = htobe16(AGENT_PORT),
				  .sin_addr = {htobe32(to[how & 3])}};
	struct slot *s = free_slot(r);

	if (!s)
		return;
	*s = (struct slot){.eager = how >> 3 & 3};
	FUZZ_CHECK(!rdma_create_id(w.channel, &s->id, NULL, how & 4 ? RDMA_PS_UDP : RDMA_PS_TCP));
	if (how & 0x20)
		set_options(r, s->id);
	rdma_resolve_addr(s->id, NULL, (struct sockaddr *)&sin, how & 0x40 ? 5 : 2000);
}

static void go_on(struct run *r, struct slot *s, enum rdma_cm_event_type type)
{
	uint8_t qp = s->eager & 2 ? 0x40 : 0;

	if (!(s->eager & 1))
		return;
	if (type == RDMA_CM_EVENT_ADDR_RESOLVED)
		call(r, s, 6);
	else if (type == RDMA_CM_EVENT_ROUTE_RESOLVED)
		call(r, s, 7 | qp);
	else if (type == RDMA_CM_EVENT_CONNECT_REQUEST)
		call(r, s, 0 | qp);
	else if (type == RDMA_CM_EVENT_CONNECT_RESPONSE)
		call(r, s, 8);
}

/* A connection comes up once, and ends once. */
static void check_order(struct slot *s, enum rdma_cm_event_type type)
{
	switch (type) {
	case RDMA_CM_EVENT_ESTABLISHED:
		FUZZ_CHECK(!s->up && !s->ended);
		s->up = true;
		break;
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		FUZZ_CHECK(!s->up && !s->ended);
		break;
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED:
	case RDMA_CM_EVENT_DISCONNECTED:
		FUZZ_CHECK(!s->ended);
		s->ended = true;
		break;
	default:
		break;
	}
}

static void take_events(struct run *r)
{
	struct rdma_cm_event *ev;

	while (!rdma_get_cm_event(w.channel, &ev)) {
		enum rdma_cm_event_type type = ev->event;
		struct rdma_cm_id *id = ev->id;
		struct slot *s = slot_of(r, id);

		rdma_ack_cm_event(ev);
		if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
			s = r->quiet ? NULL : free_slot(r);
			if (!s) {
				FUZZ_CHECK(!rdma_destroy_id(id));
				continue;
			}
			*s = (struct slot){.id = id, .eager = r->how >> 2 & 3};
		}
		if (s)
			check_order(s, type);
		if (s && !r->quiet)
			go_on(r, s, type);
	}
}

static void events(struct run *r)
{
	if (!r->deaf)
		take_events(r);
}

static void relisten(struct run *r)
{
	uint8_t how = fuzz_u8(r->in);
	unsigned i = (how >> 2) % LISTENERS;

	if (r->listener[i]) {
		FUZZ_CHECK(!rdma_destroy_id(r->listener[i]));
		r->listener[i] = NULL;
	} else {
		r->listener[i] = listen_as(i, how);
	}
}

static void ask_status(void)
{
	size_t len;
	char *text = urxe_status_reply(URXE_STATUS_CM "\n", &len);

	FUZZ_CHECK(text && len);
	free(text);
}

/* The wire, its carrier, or an address of the device's own; or somebody asks how things stand. */
static void change_net(struct run *r)
{
	uint8_t how = fuzz_u8(r->in);

	switch (how & 3) {
	case 1:
	case 3:
		w.dead = how & 2;
		return;
	case 2:
		if (how & 4)
			ask_status();
		else
			urxe_sim_end_up(w.p.a.end, how & 8);
		return;
	default:
		break;
	}
	urxe_cma_hold();
	FUZZ_CHECK(!urxe_cma_ip_change(r->second_net, "a ::ffff:10.0.1.1 24"));
	urxe_cma_release();
	r->second_net = !r->second_net;
}

static void record(struct run *r, uint8_t what)
{
	switch (what & 15) {
	case 0:
		peer_raw(&r->peer);
		break;
	case 1:
	case 2:
		peer_mad(&r->peer);
		break;
	case 4:
		drive(1000 * (uint64_t)fuzz_u8(r->in));
		break;
	case 5: /* 1 us to 33 s */
		drive(1000ull << fuzz_u8(r->in) % 26);
		break;
	case 6:
	case 7:
		consume(r);
		break;
	case 8:
	case 9:
		new_active(r);
		break;
	case 10:
		peer_strangers(&r->peer);
		break;
	case 11:
		peer_icmp(&r->peer);
		break;
	case 12:
		relisten(r);
		break;
	case 13:
		change_net(r);
		break;
	case 14:
		take_events(r);
		turns();
		break;
	default:
		peer_reply(&r->peer);
		break;
	}
	events(r);
}

/* ---- the end ---- */

/* The peer asks again: it may be taken for a stranger, of whom there were too many. */
static void still_answers(struct run *r)
{
	for (unsigned i = 0; i < 20 && !peer_rejected(&r->peer, 0xfeed); i++) {
		peer_ask_nobody(&r->peer, 0xfeed);
		drive(100 * MS);
	}
	FUZZ_CHECK(peer_rejected(&r->peer, 0xfeed));
}

static void finish(struct run *r)
{
	struct urxe_cm *cm;

	r->quiet = true;
	r->deaf = w.dead = false;
	urxe_sim_end_up(w.p.a.end, true);
	drive(0);
	events(r);
	for (unsigned i = 0; i < SLOTS; i++)
		if (r->slots[i].id)
			destroy(&r->slots[i]);
	for (unsigned i = 0; i < LISTENERS; i++)
		FUZZ_CHECK(!r->listener[i] || !rdma_destroy_id(r->listener[i]));
	urxe_cma_hold();
	if (r->second_net)
		FUZZ_CHECK(!urxe_cma_ip_change(true, "a ::ffff:10.0.1.1 24"));
	urxe_cma_release();
	cm = urxe_agent_cm(cm_device_own()->agent);
	for (unsigned i = 0; i < 200 && !urxe_cm_is_idle(cm); i++)
		drive(200 * MS);
	FUZZ_CHECK(urxe_cm_is_idle(cm));
	still_answers(r);
}

/* One byte: the listeners' backlog, and how their requests are taken. Then records. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_in in = {data, size};
	struct run r = {.in = &in, .peer = {.in = &in, .p = &w.p}};

	if (!w.open)
		open_world();
	r.how = fuzz_u8(&in);
	r.deaf = r.how & 0x10;
	raw_log_start(&r.peer.log, &w.p);
	for (unsigned i = 0; i < LISTENERS; i++)
		r.listener[i] = listen_as(i, r.how);
	for (unsigned n = 0; n < MAX_RECORDS && in.n; n++)
		record(&r, fuzz_u8(&in));
	finish(&r);
	raw_log_stop(&r.peer.log);
	return 0;
}
