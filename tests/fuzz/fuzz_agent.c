/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Datagrams to QP1 of a device whose CM is up, with an rdma_cm consumer behind it: any bytes, of
 * any length, with any Q_Key, source QP and address; and MADs that begin as they should. In the
 * end the consumer destroys its ids: no id of the CM is left after its timers, and the agent still
 * answers, so no receive buffer was lost.
 */
#include <fcntl.h>
#include <rdma/rdma_cma.h>

#include "cm/device/device.h"
#include "cm_device.h"
#include "fuzz.h"
#include "provider/gsi.h"
#include "forge.h"
#include "urxe/mad.h"
#include "urxe/wire.h"
#include "progress.h"

#define PORT	    7777
#define SLOTS	    16
#define MAX_RECORDS 64
#define MAX_PAYLOAD 1024
#define MAD_AT	    62 /* in a frame: Ethernet, IPv4, UDP, BTH, DETH */
#define MS	    1000000ull
#define SERVICE(ps) (0x0000000001000000ull | (uint64_t)(ps) << 16 | PORT)

/* What outlives an input: two devices, and the CM on the first. */
static struct {
	bool open;
	struct pair p;
	struct rdma_event_channel *channel;
} w;

/* What does not. */
struct run {
	struct fuzz_in *in;
	struct raw_log log;
	struct rdma_cm_id *listener[2], *ids[SLOTS];
	uint32_t psn;
	bool quiet;
};

/* While it waits for a neighbour the agent always has something to do. */
static void turns(void)
{
	for (unsigned n = 0; n < 64; n++) {
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

static void open_world(void)
{
	static const struct pair_params params = {.seed = 5, .link = {.latency = 1000}};

	pair_open(&w.p, &params, IBV_QPT_UD);
	cm_device = &w.p.a.dev->vdev.device;
	pair_meet(&w.p);
	w.channel = rdma_create_event_channel();
	FUZZ_CHECK(w.channel && !fcntl(w.channel->fd, F_SETFL, O_NONBLOCK));
	w.open = true;
}

/* ---- the consumer ---- */

static struct rdma_cm_id *listen_on(enum rdma_port_space ps)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htobe16(PORT)};
	struct rdma_cm_id *id;

	FUZZ_CHECK(!rdma_create_id(w.channel, &id, NULL, ps));
	FUZZ_CHECK(!rdma_bind_addr(id, (struct sockaddr *)&sin));
	FUZZ_CHECK(!rdma_listen(id, 8));
	return id;
}

static void events(struct run *r)
{
	struct rdma_cm_event *ev;

	while (!rdma_get_cm_event(w.channel, &ev)) {
		struct rdma_cm_id *id = ev->id;
		bool request = ev->event == RDMA_CM_EVENT_CONNECT_REQUEST;
		unsigned slot = 0;

		rdma_ack_cm_event(ev);
		if (!request)
			continue;
		while (slot < SLOTS && r->ids[slot])
			slot++;
		if (slot == SLOTS || r->quiet)
			FUZZ_CHECK(!rdma_destroy_id(id));
		else
			r->ids[slot] = id;
	}
}

static void consume(struct run *r)
{
	struct rdma_conn_param param = {.qp_num = 0x99, .rnr_retry_count = 7};
	unsigned slot = fuzz_u8(r->in) % SLOTS;
	uint8_t what = fuzz_u8(r->in);
	struct rdma_cm_id *id = r->ids[slot];

	if (!id)
		return;
	switch (what & 3) {
	case 0:
		rdma_accept(id, &param);
		break;
	case 1:
		rdma_reject(id, "no", 2);
		break;
	case 2:
		rdma_disconnect(id);
		break;
	default:
		r->ids[slot] = NULL;
		FUZZ_CHECK(!rdma_destroy_id(id));
		break;
	}
}

/* ---- the peer ---- */

static void inject(struct run *r, const void *data, uint32_t len, uint8_t how)
{
	struct raw_pkt pkt = {
		.opcode = how & 16 ? UD(SEND_ONLY_IMM) : UD(SEND_ONLY),
		.psn = r->psn++,
		.dqpn = 1,
		.qkey = how & 1 ? 0x11111111 : URXE_GSI_QKEY,
		.sqpn = how & 2 ? 0x77 : 1,
		.src_ip = how & 4 ? 0x0a000009 : 0,
		.cut = how & 8 ? 3 : 0,
		.pad = how & 32 ? 1 : 0,
		.ackreq = how & 64,
		.pkey = how & 128 ? 0x1234 : 0,
		.payload = data,
		.len = len,
	};

	raw_send(&w.p.b, &w.p.a, &pkt);
}

/* Comm id of the CM's last MAD. */
static uint32_t their_comm_id(const struct run *r)
{
	for (unsigned i = r->log.n; i--;) {
		const uint8_t *mad = r->log.v[i].frame + MAD_AT;

		if (r->log.v[i].from == &w.p.a && r->log.v[i].dqpn == 1)
			return urxe_mad_get32(mad, URXE_REP_LOCAL_COMM_ID);
	}
	return 0;
}

static void put_addresses(uint8_t *m, enum urxe_mad_field_id private)
{
	struct urxe_ip_cm_hdr h = {.ip_version = 4, .src_port = 5555};

	memcpy(h.src, pair_path(&w.p.a, &w.p.b).grh.dgid.raw, 16);
	memcpy(h.dst, pair_path(&w.p.b, &w.p.a).grh.dgid.raw, 16);
	urxe_ip_cm_hdr_put(urxe_mad_bytes(m, private), &h);
	if (private == URXE_REQ_PRIVATE_DATA) {
		memcpy(urxe_mad_bytes(m, URXE_REQ_PRIMARY_LOCAL_GID), h.src, 16);
		memcpy(urxe_mad_bytes(m, URXE_REQ_PRIMARY_REMOTE_GID), h.dst, 16);
	}
}

static void make_mad(const struct run *r, uint8_t *m, enum urxe_mad_attr attr, uint32_t comm_id)
{
	urxe_mad_init(m, attr, 77);
	urxe_mad_put(m, URXE_REP_LOCAL_COMM_ID, comm_id);
	if (attr == URXE_MAD_REQ) {
		urxe_mad_put(m, URXE_REQ_SERVICE_ID, SERVICE(0x06));
		urxe_mad_put(m, URXE_REQ_LOCAL_QPN, 0x4000 + comm_id);
		urxe_mad_put(m, URXE_REQ_PATH_MTU, IBV_MTU_1024);
		urxe_mad_put(m, URXE_REQ_RETRY_COUNT, 7);
		put_addresses(m, URXE_REQ_PRIVATE_DATA);
	} else if (attr == URXE_MAD_SIDR_REQ) {
		urxe_mad_put(m, URXE_SIDR_REQ_SERVICE_ID, SERVICE(0x11));
		put_addresses(m, URXE_SIDR_REQ_PRIVATE_DATA);
	} else {
		urxe_mad_put(m, URXE_REP_REMOTE_COMM_ID, their_comm_id(r));
		if (attr == URXE_MAD_DREQ)
			urxe_mad_put(m, URXE_DREQ_REMOTE_QPN, 0x99);
	}
}

static void say(struct run *r)
{
	enum urxe_mad_attr attr = URXE_MAD_REQ + fuzz_u8(r->in) % 11;
	uint8_t how = fuzz_u8(r->in), m[URXE_MAD_LEN];

	make_mad(r, m, attr, 0x100 + (how >> 3 & 7));
	for (unsigned n = how & 7; n; n--) {
		uint8_t at = fuzz_u8(r->in);

		m[at] = fuzz_u8(r->in);
	}
	inject(r, m, sizeof(m), how & 0x40 ? 4 : how & 0x80 ? 2 : 0);
}

static void say_raw(struct run *r)
{
	uint8_t how = fuzz_u8(r->in);
	size_t len = fuzz_u16(r->in) % (MAX_PAYLOAD + 1);
	const uint8_t *data = fuzz_bytes(r->in, &len);

	inject(r, len ? data : (const uint8_t *)"", (uint32_t)len, how);
}

static void record(struct run *r, uint8_t what)
{
	switch (what % 5) {
	case 0:
		say_raw(r);
		break;
	case 1:
		say(r);
		break;
	case 2:
		drive(1000 * (uint64_t)fuzz_u8(r->in));
		break;
	case 3: /* 1 us to 2 s */
		drive(1000ull << fuzz_u8(r->in) % 21);
		break;
	default:
		consume(r);
		break;
	}
	events(r);
}

/* ---- the end ---- */

static bool rejected(const struct run *r, uint32_t comm_id)
{
	for (unsigned i = r->log.n; i--;) {
		const uint8_t *mad = r->log.v[i].frame + MAD_AT;

		if (r->log.v[i].from == &w.p.a &&
		    urxe_mad_get(mad, URXE_HDR_ATTR_ID) == URXE_MAD_REJ &&
		    urxe_mad_get(mad, URXE_REJ_REMOTE_COMM_ID) == comm_id)
			return true;
	}
	return false;
}

/* A REQ for nobody is rejected. */
static void still_answers(struct run *r)
{
	uint8_t m[URXE_MAD_LEN];

	make_mad(r, m, URXE_MAD_REQ, 0xfeed);
	urxe_mad_put(m, URXE_REQ_SERVICE_ID, SERVICE(0x06) + 1);
	inject(r, m, sizeof(m), 0);
	for (unsigned i = 0; i < 20 && !rejected(r, 0xfeed); i++)
		drive(100 * MS);
	FUZZ_CHECK(rejected(r, 0xfeed));
}

static void finish(struct run *r)
{
	struct urxe_cma_dev *dev;
	int err;

	r->quiet = true;
	drive(0);
	events(r);
	for (unsigned i = 0; i < SLOTS; i++)
		FUZZ_CHECK(!r->ids[i] || !rdma_destroy_id(r->ids[i]));
	for (unsigned i = 0; i < 2; i++)
		FUZZ_CHECK(!rdma_destroy_id(r->listener[i]));
	urxe_cma_hold();
	dev = urxe_cma_device(0, &err);
	urxe_cma_release();
	for (unsigned i = 0; i < 100 && !urxe_cm_is_idle(urxe_agent_cm(dev->agent)); i++)
		drive(200 * MS);
	FUZZ_CHECK(urxe_cm_is_idle(urxe_agent_cm(dev->agent)));
	still_answers(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_in in = {data, size};
	struct run r = {.in = &in};

	if (!w.open)
		open_world();
	raw_log_start(&r.log, &w.p);
	r.listener[0] = listen_on(RDMA_PS_TCP);
	r.listener[1] = listen_on(RDMA_PS_UDP);
	for (unsigned n = 0; n < MAX_RECORDS && in.n; n++)
		record(&r, fuzz_u8(&in));
	finish(&r);
	raw_log_stop(&r.log);
	return 0;
}
