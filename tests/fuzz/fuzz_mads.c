/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A connection manager on virtual time, its consumer, and three peers that say what they please.
 * The input as it is goes through the parser; then its first byte chooses settings, and the rest is
 * read as records, whose first byte says what happens. In the end everything is destroyed, and in
 * time no id and no timer is left.
 */
#include <errno.h>
#include <stdlib.h>

#include "cm/core/cm.h"
#include "fuzz.h"
#include "urxe/free.h"
#include "urxe/random.h"
#include "urxe/wire.h"

#define SERVICE	    0x0000000001061e61ull
#define PEERS	    3
#define SLOTS	    16
#define MAX_RECORDS 128
#define OWN_QPN	    0x99u
#define OWN_RD_ATOM 16

struct slot {
	struct rig *r;
	struct urxe_cm_id *id; /* NULL: free */
};

struct rig {
	struct urxe_cm *cm;
	struct fuzz_in *in;
	uint64_t now, rand;
	struct slot slots[SLOTS];
	struct urxe_cm_id *listener;
	uint8_t sent[URXE_MAD_LEN]; /* the last one */
	struct urxe_cm_path sent_by;
	unsigned n_sent, n_suspects, depth;
	bool quiet; /* the input has nothing more to say */
};

static void rig_send(void *arg, const struct urxe_cm_path *path, const uint8_t *mad)
{
	struct rig *r = arg;

	FUZZ_CHECK(!urxe_mad_check(mad, URXE_MAD_LEN));
	memcpy(r->sent, mad, URXE_MAD_LEN);
	r->sent_by = *path;
	r->n_sent++;
}

static uint64_t rig_now(void *arg)
{
	return ((struct rig *)arg)->now;
}

static uint64_t rig_random(void *arg)
{
	struct rig *r = arg;

	return urxe_random_step(&r->rand);
}

/* Few ones: some are given out twice. */
static uint32_t rig_comm_id(void *arg)
{
	return 1 + ((uint32_t)rig_random(arg) & 63);
}

static int rig_own_gid(void *arg, const union ibv_gid *gid)
{
	return gid->raw[15] & 0xf ? -1 : gid->raw[15] >> 4;
}

static void rig_suspect(void *arg, const struct urxe_cm_path *path)
{
	((struct rig *)arg)->n_suspects++;
}

static const struct urxe_cm_ops rig_ops = {rig_send,	rig_now,     rig_random, rig_comm_id,
					   rig_own_gid, rig_suspect, urxe_free,	 NULL,
					   NULL,	NULL,	     NULL};

/* ---- the consumer ---- */

static void peer_gid(union ibv_gid *gid, unsigned i)
{
	memset(gid, 0, sizeof(*gid));
	gid->raw[10] = gid->raw[11] = 0xff;
	gid->raw[12] = 10;
	gid->raw[15] = (uint8_t)i;
}

static struct slot *free_slot(struct rig *r)
{
	for (unsigned i = 0; i < SLOTS; i++) {
		if (!r->slots[i].id)
			return &r->slots[i];
	}
	return NULL;
}

/* What a peer says must not become what ibv_modify_qp() cannot take. */
static void check_attr(const struct urxe_cm_id *id)
{
	static const enum ibv_qp_state states[] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS};

	for (unsigned i = 0; i < 3; i++) {
		struct ibv_qp_attr a = {.qp_state = states[i]};
		int mask;

		if (urxe_cm_init_qp_attr(id, &a, &mask))
			continue;
		if (mask & IBV_QP_PATH_MTU)
			FUZZ_CHECK(a.path_mtu >= IBV_MTU_256 && a.path_mtu <= IBV_MTU_4096);
		if (mask & IBV_QP_DEST_QPN)
			FUZZ_CHECK(a.dest_qp_num <= 0xffffff);
		if (mask & IBV_QP_RQ_PSN)
			FUZZ_CHECK(a.rq_psn <= 0xffffff);
		if (mask & IBV_QP_ALT_PATH)
			FUZZ_CHECK(a.alt_timeout < 32 && a.alt_port_num == 1);
		if (mask & IBV_QP_TIMEOUT)
			FUZZ_CHECK(a.timeout < 32);
		if (mask & IBV_QP_RETRY_CNT)
			FUZZ_CHECK(a.retry_cnt < 8);
		if (mask & IBV_QP_RNR_RETRY)
			FUZZ_CHECK(a.rnr_retry < 8);
		if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
			FUZZ_CHECK(a.max_rd_atomic <= OWN_RD_ATOM);
		if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
			FUZZ_CHECK(a.max_dest_rd_atomic <= OWN_RD_ATOM);
	}
}

static struct urxe_cm_path path_to(unsigned peer)
{
	struct urxe_cm_path p = {
		.mtu = IBV_MTU_1024, .hop_limit = 64, .pkey = 0xffff, .port_num = 1};

	peer_gid(&p.sgid, 0);
	peer_gid(&p.dgid, 1 + peer);
	return p;
}

static int call(struct rig *r, struct urxe_cm_id *id, uint8_t what)
{
	static const enum ibv_qp_type types[4] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_XRC_SEND,
						  IBV_QPT_RC};
	static const uint8_t bytes[256];
	struct urxe_cm_path path = path_to(what >> 6 & 1), other = path;
	uint8_t len = what & 0x20 ? fuzz_u8(r->in) : 0;
	struct urxe_cm_req req = {.path = path, .service_id = SERVICE, .qp_type = types[len & 3]};

	/* The same peer's other address, and ours. */
	other.dgid.raw[15] ^= 0x10;
	other.sgid.raw[15] ^= 0x10;
	req.alternate = what & 0x10 ? &other : NULL;
	req.conn = (struct urxe_cm_conn){.qpn = OWN_QPN,
					 .psn = 0x123,
					 .responder_resources = 4,
					 .initiator_depth = 4,
					 .retry_count = 7,
					 .rnr_retry_count = 7,
					 .failover = what >> 4 & 1,
					 .private_data = bytes,
					 .private_len = len};
	switch (what & 15) {
	case 0:
		return urxe_cm_send_req(id, &req);
	case 1:
		return urxe_cm_send_rep(id, &req.conn);
	case 2:
		return urxe_cm_send_rtu(id, bytes, len);
	case 3:
		return urxe_cm_send_rej(id, URXE_CM_REJ_CONSUMER, bytes, len, bytes, len);
	case 4:
		return urxe_cm_send_mra(id, len & 31, NULL, 0);
	case 5:
		return urxe_cm_send_dreq(id, bytes, len);
	case 6:
		return urxe_cm_send_drep(id, bytes, len);
	case 7:
		return urxe_cm_notify_established(id);
	case 8:
		return urxe_cm_send_sidr_req(id, &path, SERVICE, bytes, len);
	case 9:
		return urxe_cm_send_sidr_rep(id, URXE_CM_SIDR_SUCCESS, OWN_QPN, 1, bytes, len);
	case 11:
		path.dgid.raw[15] ^= 0x10;
		return urxe_cm_send_lap(id, &path, bytes, len);
	case 12:
		return urxe_cm_send_apr(id, len & 3, bytes, len, bytes, len);
	case 13:
		return urxe_cm_notify_migrated(id);
	case 14:
		req.peer_to_peer = true;
		return urxe_cm_send_req(id, &req);
	case 10:
		return urxe_cm_listen(id, SERVICE + (len & 3), len & 4 ? 0xff : UINT64_MAX);
	default:
		return 0;
	}
}

static int report(const struct rig *r, uint8_t how)
{
	static const int errs[2] = {EHOSTUNREACH, ECONNREFUSED};
	struct urxe_cm_unreachable u = {.err = errs[how & 1],
					.from = r->sent_by.dgid,
					.sgid = r->sent_by.sgid,
					.dgid = r->sent_by.dgid,
					.mad = r->sent,
					.len = how & 2 ? 64 : how};

	if (how & 4) /* a router, not the peer */
		u.from.raw[15] = 0xfe;
	if (how & 8)
		u.dgid.raw[15] ^= 1;
	urxe_cm_unreachable(r->cm, &u);
	return 0;
}

static void look_at(const struct urxe_cm_info *info, void *arg)
{
	FUZZ_CHECK(info->state < URXE_CM_N_STATES && info->last_event < URXE_CM_N_EVENTS);
}

/* What is called less often; @id may be the listener, where it does not matter. */
static int call_more(struct rig *r, struct urxe_cm_id *id, uint8_t what)
{
	static const uint8_t bytes[256];
	struct urxe_cm_sidr_more more = {.info = bytes, .info_len = what & 0x1f ? 80 : 8};
	struct urxe_cm_info info;
	int err = 0;

	switch (what >> 5) {
	case 0:
		urxe_cm_set_ack_timeout(id, what & 31);
		break;
	case 1:
		err = urxe_cm_ignore(id);
		break;
	case 2: /* Its handler is called, which may do it again. */
		if (r->depth < 8) {
			r->depth++;
			err = urxe_cm_tell_again(id);
			r->depth--;
		}
		break;
	case 3:
		urxe_cm_set_wait(id, 1u << (what & 15), what >> 4 & 1);
		break;
	case 4:
		urxe_cm_readdress(r->cm);
		break;
	case 5:
		err = urxe_cm_send_sidr_rep_more(id, URXE_CM_SIDR_SUCCESS, OWN_QPN, 1, &more, bytes,
						 what & 31);
		break;
	case 6:
		if (r->n_sent)
			err = report(r, what & 31);
		break;
	default:
		urxe_cm_get_info(id, &info);
		look_at(&info, NULL);
		urxe_cm_for_each(r->cm, look_at, NULL);
		break;
	}
	return err;
}

static int on_request(struct urxe_cm_id *id, const struct urxe_cm_event *ev, void *context);

/* What the consumer does in its handler comes from the input as well. */
static int on_event(struct urxe_cm_id *id, const struct urxe_cm_event *ev, void *context)
{
	struct slot *s = context;
	struct rig *r = s->r;
	volatile uint8_t sum = 0;
	uint8_t what;

	/* It listens itself, and the request's id has its handler. */
	if (s->id && s->id != id && urxe_cm_get_state(s->id) == URXE_CM_LISTEN)
		return on_request(id, ev, r);
	what = r->quiet ? 0xff : fuzz_u8(r->in);
	FUZZ_CHECK(s->id == id && ev->type < URXE_CM_N_EVENTS);
	for (unsigned i = 0; ev->private_data && i < ev->private_len; i++)
		sum = (uint8_t)(sum + ((const uint8_t *)ev->private_data)[i]);
	if (ev->type == URXE_CM_EV_REJ_RECEIVED)
		for (unsigned i = 0; i < ev->rej.ari_len; i++)
			sum = (uint8_t)(sum + ev->rej.ari[i]);
	check_attr(id);
	if (r->quiet)
		return 0;
	if ((what & 0xf0) == 0xf0) {
		s->id = NULL;
		return 1;
	}
	if ((what & 0xf0) == 0xe0) {
		s->id = NULL;
		urxe_cm_destroy(id);
		return 0;
	}
	if (what == 0xdf) {
		urxe_cm_ignore(id);
		s->id = NULL;
		return 1;
	}
	if (what == 0xde)
		call_more(r, id, fuzz_u8(r->in));
	else if (what)
		call(r, id, what);
	return 0;
}

static int on_request(struct urxe_cm_id *id, const struct urxe_cm_event *ev, void *context)
{
	struct rig *r = context;
	struct slot *s = free_slot(r);

	FUZZ_CHECK(ev->type == URXE_CM_EV_REQ_RECEIVED || ev->type == URXE_CM_EV_SIDR_REQ_RECEIVED);
	if (!s || r->quiet)
		return 1;
	s->id = id;
	urxe_cm_set_handler(id, on_event, s);
	return on_event(id, ev, s);
}

/* ---- the peers ---- */

static void rewrite(struct rig *r, uint8_t *m, unsigned n)
{
	for (; n; n--) {
		uint8_t at = fuzz_u8(r->in);

		m[at] = fuzz_u8(r->in);
	}
}

static void put_alternate(uint8_t *m, unsigned peer, enum urxe_mad_field_id local,
			  enum urxe_mad_field_id remote)
{
	union ibv_gid gid;

	peer_gid(&gid, 0x11 + peer);
	memcpy(urxe_mad_bytes(m, local), gid.raw, 16);
	peer_gid(&gid, 0x10);
	memcpy(urxe_mad_bytes(m, remote), gid.raw, 16);
}

static void hear(struct rig *r, unsigned peer, const uint8_t *m, uint32_t len)
{
	struct urxe_cm_source src = {.qpn = peer == PEERS ? 0x77 : 1, .port_num = 1};

	peer_gid(&src.sgid, 1 + peer);
	peer_gid(&src.dgid, 0);
	urxe_cm_recv(r->cm, &src, m, len);
}

static void peer_says(struct rig *r, uint8_t attr, uint8_t how)
{
	struct urxe_cm_id *id = r->slots[fuzz_u8(r->in) % SLOTS].id;
	unsigned peer = how & 3;
	uint32_t own = id ? urxe_cm_local_comm_id(id) : 0;
	uint32_t theirs = id && urxe_cm_remote_comm_id(id) ? urxe_cm_remote_comm_id(id) : 0x100;
	uint8_t m[URXE_MAD_LEN];
	union ibv_gid gid;

	urxe_mad_init(m, attr, 77);
	if (attr == URXE_MAD_REQ) {
		urxe_mad_put(m, URXE_REQ_LOCAL_COMM_ID, 0x100u + (how >> 2 & 7));
		urxe_mad_put(m, URXE_REQ_SERVICE_ID, SERVICE);
		urxe_mad_put(m, URXE_REQ_LOCAL_CA_GUID, peer);
		urxe_mad_put(m, URXE_REQ_LOCAL_QPN, 0x4711u + (how >> 2 & 7));
		urxe_mad_put(m, URXE_REQ_PATH_MTU, IBV_MTU_1024);
		urxe_mad_put(m, URXE_REQ_PRIMARY_ACK_TIMEOUT, 19);
		peer_gid(&gid, 1 + peer);
		memcpy(urxe_mad_bytes(m, URXE_REQ_PRIMARY_LOCAL_GID), gid.raw, 16);
		peer_gid(&gid, 0);
		memcpy(urxe_mad_bytes(m, URXE_REQ_PRIMARY_REMOTE_GID), gid.raw, 16);
		if (how & 0x10)
			put_alternate(m, peer, URXE_REQ_ALTERNATE_LOCAL_GID,
				      URXE_REQ_ALTERNATE_REMOTE_GID);
	} else if (attr == URXE_MAD_SIDR_REQ) {
		urxe_mad_put(m, URXE_SIDR_REQ_REQUEST_ID, 0x100u + (how >> 2 & 7));
		urxe_mad_put(m, URXE_SIDR_REQ_SERVICE_ID, SERVICE);
	} else if (attr == URXE_MAD_SIDR_REP) {
		urxe_mad_put(m, URXE_SIDR_REP_REQUEST_ID, own);
		urxe_mad_put(m, URXE_SIDR_REP_SERVICE_ID, SERVICE);
	} else {
		urxe_mad_put(m, URXE_REP_LOCAL_COMM_ID, theirs);
		urxe_mad_put(m, URXE_REP_REMOTE_COMM_ID, own);
		if (attr == URXE_MAD_REP) {
			urxe_mad_put(m, URXE_REP_LOCAL_QPN, 0x4711u + (how >> 2 & 7));
			urxe_mad_put(m, URXE_REP_LOCAL_CA_GUID, peer);
		} else if (attr == URXE_MAD_DREQ) {
			urxe_mad_put(m, URXE_DREQ_REMOTE_QPN, OWN_QPN);
		} else if (attr == URXE_MAD_LAP) {
			urxe_mad_put(m, URXE_LAP_REMOTE_QPN, OWN_QPN);
			put_alternate(m, peer, URXE_LAP_ALTERNATE_LOCAL_GID,
				      URXE_LAP_ALTERNATE_REMOTE_GID);
		} else if (attr == URXE_MAD_APR) {
			urxe_mad_put(m, URXE_HDR_TID, urxe_mad_get(r->sent, URXE_HDR_TID));
			urxe_mad_put(m, URXE_APR_AR_STATUS, how >> 2 & 3);
		} else if (attr == URXE_MAD_MRA) {
			urxe_mad_put(m, URXE_MRA_MESSAGE_MRAED, how >> 2 & 3);
			urxe_mad_put(m, URXE_MRA_SERVICE_TIMEOUT, 20);
		}
	}
	rewrite(r, m, how >> 5);
	hear(r, peer, m, URXE_MAD_LEN);
}

static void parse(const uint8_t *data, size_t size)
{
	uint8_t m[URXE_MAD_LEN] = {0}, back[URXE_MAD_LEN];
	const struct urxe_mad_msg *msg;
	struct urxe_ip_cm_hdr h;

	(void)urxe_mad_check(data, (uint32_t)size);
	memcpy(m, data, size < sizeof(m) ? size : sizeof(m));
	if (size >= URXE_IP_CM_HDR_LEN && !urxe_ip_cm_hdr_get(data, &h)) {
		struct urxe_ip_cm_hdr again;

		urxe_ip_cm_hdr_put(back, &h);
		FUZZ_CHECK(!urxe_ip_cm_hdr_get(back, &again));
		FUZZ_CHECK(again.ip_version == h.ip_version && again.src_port == h.src_port);
		FUZZ_CHECK(!memcmp(again.src, h.src, 16) && !memcmp(again.dst, h.dst, 16));
	}
	msg = urxe_mad_msg_find(urxe_mad_get16(m, URXE_HDR_ATTR_ID));
	if (!msg)
		return;
	/* A MAD is what its fields say. */
	memset(back, 0xff, sizeof(back));
	memcpy(back, m, URXE_MAD_HDR_LEN);
	for (unsigned i = msg->first; i <= msg->last; i++) {
		const struct urxe_mad_field *f = &urxe_mad_fields[i];

		if (f->width <= 64)
			urxe_mad_put(back, i, urxe_mad_get(m, i));
		else
			memcpy(back + f->byte, m + f->byte, f->width / 8);
	}
	FUZZ_CHECK(!memcmp(back, m, sizeof(m)));
}

/* ---- the run ---- */

static void record(struct rig *r, uint8_t what)
{
	struct slot *s;
	const uint8_t *raw;
	size_t len;

	if (!(what & 0x80)) {
		peer_says(r, (uint8_t)(URXE_MAD_REQ + (what & 15) % 11), fuzz_u8(r->in));
		return;
	}
	s = &r->slots[fuzz_u8(r->in) % SLOTS];
	switch (what & 7) {
	case 0:
		if (!s->id)
			s->id = urxe_cm_new_id(r->cm, on_event, s);
		FUZZ_CHECK(s->id);
		break;
	case 1: /* 1 us to 17 s */
		r->now += 1000ull << (what >> 3 & 15) << (fuzz_u8(r->in) % 10);
		urxe_cm_run(r->cm);
		break;
	case 2:
		if (s->id)
			urxe_cm_destroy(s->id);
		s->id = NULL;
		break;
	case 3: /* at will, of any length */
		len = fuzz_u16(r->in) % 300;
		raw = fuzz_bytes(r->in, &len);
		hear(r, what >> 3 & 3, raw, (uint32_t)len);
		break;
	case 4: /* what we said, said to us */
		if (r->n_sent) {
			uint8_t m[URXE_MAD_LEN];

			memcpy(m, r->sent, sizeof(m));
			rewrite(r, m, what >> 5 & 3);
			hear(r, what >> 3 & 3, m, sizeof(m));
		}
		break;
	case 5:
		if (urxe_cm_deadline(r->cm) != UINT64_MAX && urxe_cm_deadline(r->cm) > r->now)
			r->now = urxe_cm_deadline(r->cm);
		urxe_cm_run(r->cm);
		break;
	case 6:
		call_more(r, s->id ? s->id : r->listener, fuzz_u8(r->in));
		break;
	default:
		if (s->id) {
			/* Who calls knows whether the id is there no more. */
			call(r, s->id, fuzz_u8(r->in));
			if (s->id)
				check_attr(s->id);
		}
		break;
	}
}

static void finish(struct rig *r)
{
	unsigned turns = 0;

	r->quiet = true;
	if (r->n_sent & 1) {
		urxe_cm_goodbye(r->cm);
	} else {
		for (unsigned i = 0; i < SLOTS; i++) {
			if (r->slots[i].id)
				urxe_cm_destroy(r->slots[i].id);
		}
		urxe_cm_destroy(r->listener);
	}
	while (urxe_cm_deadline(r->cm) != UINT64_MAX) {
		FUZZ_CHECK(++turns < 100000);
		if (urxe_cm_deadline(r->cm) > r->now)
			r->now = urxe_cm_deadline(r->cm);
		urxe_cm_run(r->cm);
	}
	FUZZ_CHECK(urxe_cm_is_idle(r->cm) && !urxe_cm_get_counters(r->cm)->bad_steps);
	for (unsigned i = 0; i < URXE_CM_N_STATES; i++)
		FUZZ_CHECK(!urxe_cm_get_counters(r->cm)->states[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_in in = {data, size};
	struct rig r = {.in = &in, .now = 1000, .rand = 42};
	struct urxe_cm_config cfg;
	uint8_t how;

	parse(data, size);
	how = fuzz_u8(&in);
	urxe_cm_config_default(&cfg);
	cfg.ca_guid = 0x5054;
	cfg.max_rd_atom = OWN_RD_ATOM;
	if (how & 1)
		cfg.listen_grace_ms = 0;
	if (how & 2)
		cfg.probe_ms = 0;
	if (how & 4)
		cfg.max_mtu = IBV_MTU_512;
	if (how & 8)
		cfg.mra_after_ms = 50;
	r.cm = urxe_cm_create(&rig_ops, &r, &cfg);
	FUZZ_CHECK(r.cm);
	for (unsigned i = 0; i < SLOTS; i++)
		r.slots[i].r = &r;
	r.listener = urxe_cm_new_id(r.cm, on_request, &r);
	FUZZ_CHECK(r.listener && !urxe_cm_listen(r.listener, SERVICE, UINT64_MAX));
	for (unsigned n = 0; n < MAX_RECORDS && in.n; n++)
		record(&r, fuzz_u8(&in));
	finish(&r);
	urxe_cm_destroy_all(r.cm);
	return 0;
}
