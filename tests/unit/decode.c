/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Packets of every opcode through the provider's door: what is read of them, and what is refused.
 */
#include <string.h>

#include "decode.h"
#include "harness.h"
#include "opcode_spec.h"
#include "urxe/wire.h"

#define L3_MAX	40
#define HDR_MAX 64
#define LIMITED 0x7fff /* the default partition, for a limited member */

/* A packet in memory, as netio hands it over. The bytes differ from each other wherever they may.
 */
struct raw {
	uint8_t bytes[L3_MAX + HDR_MAX + 16];
	uint8_t body[HDR_MAX + 16]; /* what the sender may change: no header is read of it */
	struct urxe_packet pkt;
};

static void raw_make(struct raw *r, uint8_t opcode, bool ipv4, uint32_t hdr, uint32_t payload)
{
	uint32_t pad = (4 - (payload & 3)) & 3;
	uint8_t *bth = r->bytes + L3_MAX;

	for (unsigned i = 0; i < sizeof(r->bytes); i++)
		r->bytes[i] = (uint8_t)(0x81 + 5 * i);
	bth[0] = opcode;
	bth[1] = (uint8_t)(0x80 | pad << 4); /* SE, no M, TVer 0 */
	urxe_put16(bth + 2, URXE_DEFAULT_PKEY);
	memset(&r->pkt, 0, sizeof(r->pkt));
	r->pkt.bth = bth;
	r->pkt.body = r->body;
	memset(r->body, 0, sizeof(r->body));
	r->pkt.len = hdr + payload + pad;
	r->pkt.l3 = bth - (ipv4 ? 20 : 40);
	r->pkt.ipv4 = ipv4;
	r->pkt.flags = URXE_PKT_TWICE;
	r->pkt.sgid_index = 3;
	r->pkt.ecn = opcode & URXE_ECN_MASK;
}

/* Behind the BTH, in the order of the standard; returns where the payload begins. */
static uint32_t check_eths(const struct urxe_decoded *d, const uint8_t *p, const char *s, bool xrc)
{
	uint32_t at = 12;

	if (xrc) {
		CU_ASSERT_EQUAL(d->srqn, urxe_get24(p + at + 1));
		at += 4;
	}
	if (strchr(s, 'd')) {
		CU_ASSERT_EQUAL(d->deth.qkey, urxe_get32(p + at));
		CU_ASSERT_EQUAL(d->deth.sqpn, urxe_get24(p + at + 5));
		at += 8;
	}
	if (strchr(s, 'f')) {
		CU_ASSERT_EQUAL(d->placement, p[at + 3] & 15);
		CU_ASSERT_EQUAL(d->level, p[at + 3] >> 4 & 3);
		at += 4;
	}
	if (strchr(s, 'r')) {
		CU_ASSERT_EQUAL(d->reth.va, urxe_get64(p + at));
		CU_ASSERT_EQUAL(d->reth.rkey, urxe_get32(p + at + 8));
		CU_ASSERT_EQUAL(d->reth.length, urxe_get32(p + at + 12));
		at += 16;
	}
	if (strchr(s, 't')) {
		CU_ASSERT_EQUAL(d->atomic.va, urxe_get64(p + at));
		CU_ASSERT_EQUAL(d->atomic.rkey, urxe_get32(p + at + 8));
		CU_ASSERT_EQUAL(d->atomic.swap_add, urxe_get64(p + at + 12));
		CU_ASSERT_EQUAL(d->atomic.compare, urxe_get64(p + at + 20));
		at += 28;
	}
	if (strchr(s, 'a')) {
		CU_ASSERT_EQUAL(d->aeth.syndrome, p[at]);
		CU_ASSERT_EQUAL(d->aeth.msn, urxe_get24(p + at + 1));
		at += 4;
	}
	if (strchr(s, 'k')) {
		CU_ASSERT_EQUAL(d->aeth.original, urxe_get64(p + at));
		at += 8;
	}
	if (strchr(s, 'i')) {
		CU_ASSERT(!memcmp(&d->imm, p + at, 4));
		at += 4;
	}
	if (strchr(s, 'v')) {
		CU_ASSERT_EQUAL(d->inv_rkey, urxe_get32(p + at));
		at += 4;
	}
	if (strchr(s, 'c'))
		at += 16;
	return at;
}

static void check_addresses(const struct urxe_decoded *d, const struct urxe_packet *was, bool deth)
{
	const uint8_t *l3 = was->l3;
	uint8_t grh[40] = {0}, sgid[16] = {[10] = 0xff, [11] = 0xff};

	if (was->ipv4) {
		memcpy(grh + 20, l3, 20);
		memcpy(sgid + 12, l3 + 12, 4);
	} else {
		memcpy(grh, l3, 40);
		memcpy(sgid, l3 + 8, 16);
	}
	CU_ASSERT(deth ? !memcmp(d->grh, grh, 40) : !memcmp(d->sgid, sgid, 16));
}

/* @was: an unharmed copy of the packet. @now: the memory that was decoded. */
static void check(const struct urxe_decoded *d, const struct urxe_packet *was,
		  const struct urxe_packet *now, uint32_t payload)
{
	const uint8_t *p = was->bth;
	bool xrc;
	const char *s = opcode_spec(p[0], &xrc);
	uint32_t at;

	CU_ASSERT_EQUAL(d->opcode, p[0]);
	CU_ASSERT(d->op == &urxe_opcode_table[p[0]] && d->what == d->op->flags);
	CU_ASSERT(d->solicited && !d->migreq && d->ackreq == !!(p[8] & 0x80));
	CU_ASSERT_EQUAL(d->dqpn, urxe_get24(p + 5));
	CU_ASSERT_EQUAL(d->psn, urxe_get24(p + 9));
	CU_ASSERT(d->flags == URXE_PKT_TWICE && d->ipv4 == was->ipv4 && d->sgid_index == 3);
	CU_ASSERT_EQUAL(d->ecn, was->ecn);
	at = check_eths(d, p, s, xrc);
	CU_ASSERT_PTR_EQUAL(d->payload, now->body + at);
	CU_ASSERT_EQUAL(d->length, payload);
	check_addresses(d, was, strchr(s, 'd'));
}

static uint32_t header_length(const char *s, bool xrc)
{
	static const struct {
		char c;
		uint8_t len;
	} eth[] = {{'d', 8}, {'f', 4}, {'r', 16}, {'t', 28}, {'a', 4},
		   {'k', 8}, {'i', 4}, {'v', 4},  {'c', 16}};
	uint32_t n = xrc ? 16 : 12;

	for (unsigned i = 0; i < sizeof(eth) / sizeof(eth[0]); i++)
		n += strchr(s, eth[i].c) ? eth[i].len : 0;
	return n;
}

/* Whatever a peer writes over the headers later makes no difference. */
static void test_every_opcode(void)
{
	for (unsigned i = 0; i < 512; i++) {
		uint8_t opcode = (uint8_t)(i >> 1);
		bool xrc, ipv4 = i & 1;
		const char *s = opcode_spec(opcode, &xrc);
		uint32_t most = s && strchr(s, 'p') ? 5 : 0;
		struct urxe_decoded d;
		struct raw was, r;

		if (!s) {
			raw_make(&r, opcode, ipv4, HDR_MAX, 0);
			CU_ASSERT_EQUAL(urxe_decode(&r.pkt, &d), URXE_STAT_RX_BAD_OPCODE);
			continue;
		}
		for (uint32_t payload = 0; payload <= most; payload++) {
			raw_make(&was, opcode, ipv4, header_length(s, xrc), payload);
			raw_make(&r, opcode, ipv4, header_length(s, xrc), payload);
			CU_ASSERT_EQUAL_FATAL(urxe_decode(&r.pkt, &d), URXE_STAT_NONE);
			check(&d, &was.pkt, &r.pkt, payload);
			memset(r.bytes, 0, sizeof(r.bytes));
			check(&d, &was.pkt, &r.pkt, payload);
		}
	}
}

static void test_bits(void)
{
	struct urxe_decoded d;
	struct raw r;

	raw_make(&r, URXE_SVC_RC | URXE_OP_SEND_ONLY, true, 12, 4);
	r.bytes[L3_MAX + 1] = 0x40;
	r.bytes[L3_MAX + 8] = 0x7f;
	CU_ASSERT_EQUAL(urxe_decode(&r.pkt, &d), URXE_STAT_NONE);
	CU_ASSERT(!d.solicited && d.migreq && !d.ackreq);
	r.bytes[L3_MAX + 8] = 0x80;
	CU_ASSERT_EQUAL(urxe_decode(&r.pkt, &d), URXE_STAT_NONE);
	CU_ASSERT(d.ackreq);
}

static void test_lengths(void)
{
	for (unsigned opcode = 0; opcode < 256; opcode++) {
		bool xrc;
		const char *s = opcode_spec(opcode, &xrc);
		struct urxe_decoded d;
		struct raw r;
		uint32_t hdr;

		if (!s)
			continue;
		hdr = header_length(s, xrc);
		raw_make(&r, (uint8_t)opcode, true, hdr, 0);
		for (uint32_t len = 12; len < hdr; len++) {
			r.pkt.len = len;
			CU_ASSERT_EQUAL(urxe_decode(&r.pkt, &d), URXE_STAT_RX_BAD_LENGTH);
		}
		r.pkt.len = hdr + 1;
		CU_ASSERT_EQUAL(urxe_decode(&r.pkt, &d), URXE_STAT_RX_BAD_LENGTH);
		r.pkt.len = hdr + 4;
		CU_ASSERT_EQUAL(urxe_decode(&r.pkt, &d),
				strchr(s, 'p') ? URXE_STAT_NONE : URXE_STAT_RX_BAD_LENGTH);
		/* More pad than there are bytes. */
		r.pkt.len = hdr;
		r.bytes[L3_MAX + 1] |= 0x30;
		CU_ASSERT_EQUAL(urxe_decode(&r.pkt, &d), URXE_STAT_RX_BAD_LENGTH);
	}
}

static void test_refused(void)
{
	struct urxe_decoded d;
	struct raw r;

	raw_make(&r, URXE_SVC_RC | URXE_OP_SEND_ONLY, true, 12, 4);
	urxe_put16(r.bytes + L3_MAX + 2, LIMITED);
	CU_ASSERT_EQUAL(urxe_decode(&r.pkt, &d), URXE_STAT_NONE);
	urxe_put16(r.bytes + L3_MAX + 2, 0x8001);
	CU_ASSERT_EQUAL(urxe_decode(&r.pkt, &d), URXE_STAT_RX_BAD_PKEY);
	r.bytes[L3_MAX + 1] |= 1;
	CU_ASSERT_EQUAL(urxe_decode(&r.pkt, &d), URXE_STAT_RX_BAD_TVER);
}

URXE_TEST_MAIN("decode", T(test_every_opcode), T(test_bits), T(test_lengths), T(test_refused))
