/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* MADs by hand to the device of the fuzzer "agent": any bytes, and answers that fit. */
#include "agent_peer.h"

#include "netio/stack.h"
#include "provider/gsi.h"
#include "urxe/wire.h"

#define MAX_PAYLOAD 1024
#define MAD_AT	    62 /* in a frame: Ethernet, IPv4, UDP, BTH, DETH */
#define QUICK	    8  /* of the CM's last MADs may be answered */
#define SERVICE(ps) (0x0000000001000000ull | (uint64_t)(ps) << 16 | AGENT_PORT)

/* ---- what the device has said ---- */

static bool is_theirs(const struct peer *r, const struct raw_seen *s)
{
	return s->from == &r->p->a && s->dqpn == 1;
}

/* A MAD of the device's, the @back-th from the end; NULL when there are not so many. */
static const struct raw_seen *last_mad(const struct peer *r, unsigned back)
{
	for (unsigned i = r->log.n; i--;) {
		const struct raw_seen *s = &r->log.v[i];

		if (is_theirs(r, s) && !back--)
			return s;
	}
	return NULL;
}

static const uint8_t *mad_of(const struct raw_seen *s)
{
	return s->frame + MAD_AT;
}

static uint16_t attr_of(const struct raw_seen *s)
{
	return urxe_mad_get16(mad_of(s), URXE_HDR_ATTR_ID);
}

/* Comm id of the CM's last MAD. */
static uint32_t their_comm_id(const struct peer *r)
{
	const struct raw_seen *s = last_mad(r, 0);

	return s ? urxe_mad_get32(mad_of(s), URXE_REP_LOCAL_COMM_ID) : 0;
}

/* The QP that the device has named for a comm id of its own. */
static uint32_t their_qpn(const struct peer *r, uint32_t comm_id)
{
	for (unsigned i = r->log.n; i--;) {
		const struct raw_seen *s = &r->log.v[i];

		if (!is_theirs(r, s) ||
		    urxe_mad_get32(mad_of(s), URXE_REP_LOCAL_COMM_ID) != comm_id)
			continue;
		if (attr_of(s) == URXE_MAD_REQ)
			return urxe_mad_get32(mad_of(s), URXE_REQ_LOCAL_QPN);
		if (attr_of(s) == URXE_MAD_REP)
			return urxe_mad_get32(mad_of(s), URXE_REP_LOCAL_QPN);
	}
	return CONSUMER_QP;
}

/* ---- frames ---- */

static void inject(struct peer *r, const void *data, uint32_t len, uint8_t how, uint32_t src_ip)
{
	struct raw_pkt pkt = {
		.opcode = how & 16 ? UD(SEND_ONLY_IMM) : UD(SEND_ONLY),
		.psn = r->psn++,
		.dqpn = 1,
		.qkey = how & 1 ? 0x11111111 : URXE_GSI_QKEY,
		.sqpn = how & 2 ? 0x77 : 1,
		.src_ip = how & 4 ? 0x0a000009 : src_ip,
		.cut = how & 8 ? 3 : 0,
		.pad = how & 32 ? 1 : 0,
		.ackreq = how & 64,
		.pkey = how & 128 ? 0x1234 : 0,
		.payload = data,
		.len = len,
	};

	raw_send(&r->p->b, &r->p->a, &pkt);
}

void peer_raw(struct peer *r)
{
	uint8_t how = fuzz_u8(r->in);
	size_t len = fuzz_u16(r->in) % (MAX_PAYLOAD + 1);
	const uint8_t *data = fuzz_bytes(r->in, &len);

	inject(r, len ? data : (const uint8_t *)"", (uint32_t)len, how, 0);
}

/* The answer of host @host of net 0 to whoever asks for it. */
static void put_arp(struct peer *r, uint8_t host)
{
	static const uint8_t head[8] = {0, 1, 0x08, 0x00, 6, 4, 0, 2};
	struct urxe_port_info info;
	uint8_t f[60] = {0}, *arp = f + ETH_LEN;

	urxe_port_query(r->p->a.dev->port, &info);
	memcpy(f, info.mac, 6);
	f[6] = 2;
	f[11] = host;
	urxe_put16(f + 12, ETHERTYPE_ARP);
	memcpy(arp, head, sizeof(head));
	memcpy(arp + 8, f + 6, 6);
	urxe_put32(arp + 14, 0x0a000000u + host);
	memcpy(arp + 18, info.mac, 6);
	urxe_put32(arp + 24, 0x0a000001u);
	urxe_sim_put(r->p->a.end, f, sizeof(f));
}

void peer_icmp(struct peer *r)
{
	static const uint8_t codes[8] = {0, 1, 3, 13, 4, 5, 10, 15};
	uint8_t how = fuzz_u8(r->in);
	const struct raw_seen *s = last_mad(r, how & 3);
	unsigned flip = how & 0x20 ? fuzz_u16(r->in) % (170 * 8) : 0;

	if (s)
		raw_unreachable(&r->p->a, s, codes[how >> 2 & 7], how & 0x40 ? 2 : 254, flip);
}

/* ---- MADs ---- */

static void put_addresses(const struct peer *r, uint8_t *m, enum urxe_mad_field_id private,
			  uint32_t src_ip)
{
	struct urxe_ip_cm_hdr h = {.ip_version = 4, .src_port = 5555};

	memcpy(h.src, pair_path(&r->p->a, &r->p->b).grh.dgid.raw, 16);
	memcpy(h.dst, pair_path(&r->p->b, &r->p->a).grh.dgid.raw, 16);
	if (src_ip)
		urxe_put32(h.src + 12, src_ip);
	urxe_ip_cm_hdr_put(urxe_mad_bytes(m, private), &h);
	if (private == URXE_REQ_PRIVATE_DATA) {
		memcpy(urxe_mad_bytes(m, URXE_REQ_PRIMARY_LOCAL_GID), h.src, 16);
		memcpy(urxe_mad_bytes(m, URXE_REQ_PRIMARY_REMOTE_GID), h.dst, 16);
	}
}

static void make_req(const struct peer *r, uint8_t *m, uint32_t comm_id, uint32_t src_ip)
{
	urxe_mad_init(m, URXE_MAD_REQ, 77);
	urxe_mad_put(m, URXE_REQ_LOCAL_COMM_ID, comm_id);
	/* Some ask for the listener on the next port. */
	urxe_mad_put(m, URXE_REQ_SERVICE_ID, SERVICE(0x06) + (comm_id >> 2 & 1));
	urxe_mad_put(m, URXE_REQ_LOCAL_QPN, 0x4000 + comm_id);
	urxe_mad_put(m, URXE_REQ_PATH_MTU, IBV_MTU_1024);
	urxe_mad_put(m, URXE_REQ_RETRY_COUNT, 7);
	urxe_mad_put(m, URXE_REQ_RESPONDER_RESOURCES, 4);
	urxe_mad_put(m, URXE_REQ_INITIATOR_DEPTH, 4);
	urxe_mad_put(m, URXE_REQ_LOCAL_CA_GUID, src_ip);
	put_addresses(r, m, URXE_REQ_PRIVATE_DATA, src_ip);
}

/* The path by the other network, as the peer sees it. */
static void put_alternate(const struct peer *r, uint8_t *m)
{
	uint8_t *from = urxe_mad_bytes(m, URXE_LAP_ALTERNATE_LOCAL_GID);
	uint8_t *to = urxe_mad_bytes(m, URXE_LAP_ALTERNATE_REMOTE_GID);

	memcpy(from, pair_path(&r->p->a, &r->p->b).grh.dgid.raw, 16);
	memcpy(to, pair_path(&r->p->b, &r->p->a).grh.dgid.raw, 16);
	from[14] = to[14] = 1;
	urxe_mad_put(m, URXE_LAP_ALTERNATE_HOP_LIMIT, 64);
	urxe_mad_put(m, URXE_LAP_ALTERNATE_ACK_TIMEOUT, 14);
}

/* @arg: a status, a reason, an MTU, or which message is meant. */
static void make_mad(const struct peer *r, uint8_t *m, enum urxe_mad_attr attr, uint32_t comm_id,
		     uint32_t theirs, uint8_t arg)
{
	urxe_mad_init(m, attr, 77);
	urxe_mad_put(m, URXE_REP_LOCAL_COMM_ID, comm_id);
	urxe_mad_put(m, URXE_REP_REMOTE_COMM_ID, theirs);
	switch (attr) {
	case URXE_MAD_REQ:
		make_req(r, m, comm_id, 0);
		break;
	case URXE_MAD_SIDR_REQ:
		urxe_mad_put(m, URXE_SIDR_REQ_PKEY, 0xffff);
		urxe_mad_put(m, URXE_SIDR_REQ_SERVICE_ID, SERVICE(0x11));
		put_addresses(r, m, URXE_SIDR_REQ_PRIVATE_DATA, 0);
		break;
	case URXE_MAD_SIDR_REP: /* its request id is where the others' own id is */
		urxe_mad_put(m, URXE_SIDR_REP_REQUEST_ID, theirs);
		urxe_mad_put(m, URXE_SIDR_REP_STATUS, arg & 3);
		urxe_mad_put(m, URXE_SIDR_REP_QPN, 0x4711);
		urxe_mad_put(m, URXE_SIDR_REP_SERVICE_ID, SERVICE(0x11));
		break;
	case URXE_MAD_REP:
		urxe_mad_put(m, URXE_REP_LOCAL_QPN, 0x4000 + comm_id);
		urxe_mad_put(m, URXE_REP_RESPONDER_RESOURCES, 4);
		urxe_mad_put(m, URXE_REP_INITIATOR_DEPTH, arg);
		break;
	case URXE_MAD_DREQ:
		urxe_mad_put(m, URXE_DREQ_REMOTE_QPN, their_qpn(r, theirs));
		break;
	case URXE_MAD_LAP:
		urxe_mad_put(m, URXE_LAP_REMOTE_QPN, their_qpn(r, theirs));
		put_alternate(r, m);
		break;
	case URXE_MAD_MRA:
		urxe_mad_put(m, URXE_MRA_MESSAGE_MRAED, arg & 3);
		urxe_mad_put(m, URXE_MRA_SERVICE_TIMEOUT, 20);
		break;
	case URXE_MAD_REJ:
		urxe_mad_put(m, URXE_REJ_MESSAGE_REJECTED, arg & 3);
		urxe_mad_put(m, URXE_REJ_REASON, arg & 4 ? 26 : arg & 8 ? 8 : 28);
		urxe_mad_put(m, URXE_REJ_REJECTED_INFO_LENGTH, arg >> 7);
		urxe_mad_bytes(m, URXE_REJ_ARI)[0] = arg >> 4 & 7;
		break;
	default:
		break;
	}
}

static void rewrite(struct peer *r, uint8_t *m, unsigned n)
{
	for (; n; n--) {
		uint8_t at = fuzz_u8(r->in);

		m[at] = fuzz_u8(r->in);
	}
}

void peer_mad(struct peer *r)
{
	enum urxe_mad_attr attr = URXE_MAD_REQ + fuzz_u8(r->in) % 11;
	uint8_t how = fuzz_u8(r->in), m[URXE_MAD_LEN];

	make_mad(r, m, attr, 0x100 + (how >> 3 & 7), their_comm_id(r), 0);
	rewrite(r, m, how & 7);
	inject(r, m, sizeof(m), how & 0x40 ? 4 : how & 0x80 ? 2 : 0, 0);
}

/* What may follow a MAD of the CM's; the first is what it waits for. */
static enum urxe_mad_attr follows(uint16_t attr, unsigned n)
{
	static const uint8_t next[11][4] = {
		[URXE_MAD_REQ - 0x10] = {URXE_MAD_REP, URXE_MAD_REJ, URXE_MAD_MRA, URXE_MAD_REQ},
		[URXE_MAD_MRA - 0x10] = {URXE_MAD_REJ, URXE_MAD_REP, URXE_MAD_REQ, URXE_MAD_LAP},
		[URXE_MAD_REJ - 0x10] = {URXE_MAD_REQ, URXE_MAD_RTU, URXE_MAD_REJ, URXE_MAD_DREQ},
		[URXE_MAD_REP - 0x10] = {URXE_MAD_RTU, URXE_MAD_MRA, URXE_MAD_REJ, URXE_MAD_DREQ},
		[URXE_MAD_RTU - 0x10] = {URXE_MAD_DREQ, URXE_MAD_LAP, URXE_MAD_REP, URXE_MAD_REJ},
		[URXE_MAD_DREQ - 0x10] = {URXE_MAD_DREP, URXE_MAD_DREQ, URXE_MAD_REJ, URXE_MAD_RTU},
		[URXE_MAD_DREP - 0x10] = {URXE_MAD_DREQ, URXE_MAD_REQ, URXE_MAD_RTU, URXE_MAD_DREP},
		[URXE_MAD_SIDR_REQ - 0x10] = {URXE_MAD_SIDR_REP, URXE_MAD_SIDR_REQ, URXE_MAD_REJ,
					      URXE_MAD_SIDR_REP},
		[URXE_MAD_SIDR_REP - 0x10] = {URXE_MAD_SIDR_REQ, URXE_MAD_SIDR_REP, URXE_MAD_REQ,
					      URXE_MAD_REQ},
		[URXE_MAD_LAP - 0x10] = {URXE_MAD_APR, URXE_MAD_MRA, URXE_MAD_LAP, URXE_MAD_DREQ},
		[URXE_MAD_APR - 0x10] = {URXE_MAD_LAP, URXE_MAD_DREQ, URXE_MAD_APR, URXE_MAD_RTU},
	};

	return (enum urxe_mad_attr)next[(attr - 0x10u) % 11][n];
}

/* Ours, as the device knows it; of its own REQ and SIDR_REQ, one that is new. */
static uint32_t our_comm_id(const struct raw_seen *s)
{
	if (attr_of(s) == URXE_MAD_REQ || attr_of(s) == URXE_MAD_SIDR_REQ)
		return 0x200 + (urxe_mad_get32(mad_of(s), URXE_REQ_LOCAL_COMM_ID) & 0xff);
	return urxe_mad_get32(mad_of(s), URXE_REP_REMOTE_COMM_ID);
}

void peer_reply(struct peer *r)
{
	uint8_t how = fuzz_u8(r->in), arg = how & 0x20 ? fuzz_u8(r->in) : 0, m[URXE_MAD_LEN];
	const struct raw_seen *s = last_mad(r, how >> 2 & (QUICK - 1));

	if (!s)
		return;
	make_mad(r, m, follows(attr_of(s), how & 3), our_comm_id(s),
		 urxe_mad_get32(mad_of(s), URXE_REP_LOCAL_COMM_ID), arg);
	urxe_mad_put(m, URXE_HDR_TID, urxe_mad_get(mad_of(s), URXE_HDR_TID));
	rewrite(r, m, how >> 6);
	inject(r, m, sizeof(m), 0, urxe_get32(s->frame + ETH_LEN + 16));
}

void peer_strangers(struct peer *r)
{
	uint8_t first = fuzz_u8(r->in), n = fuzz_u8(r->in), m[URXE_MAD_LEN];

	if (!(n & 0x7f)) {
		put_arp(r, first);
		return;
	}
	for (unsigned i = 0; i < (n & 0x7f); i++) {
		uint32_t ip = 0x0a000000u + (uint8_t)(first + (n & 0x80 ? i : 0));

		make_req(r, m, 0x300 + i, ip);
		inject(r, m, sizeof(m), 0, ip);
	}
}

/* ---- does it still answer? ---- */

void peer_ask_nobody(struct peer *r, uint32_t comm_id)
{
	uint8_t m[URXE_MAD_LEN];

	make_req(r, m, comm_id, 0);
	urxe_mad_put(m, URXE_REQ_SERVICE_ID, SERVICE(0x06) + 0x80);
	inject(r, m, sizeof(m), 0, 0);
}

bool peer_rejected(const struct peer *r, uint32_t comm_id)
{
	for (unsigned i = r->log.n; i--;) {
		const struct raw_seen *s = &r->log.v[i];

		if (is_theirs(r, s) && attr_of(s) == URXE_MAD_REJ &&
		    urxe_mad_get(mad_of(s), URXE_REJ_REMOTE_COMM_ID) == comm_id)
			return true;
	}
	return false;
}
