/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The opcode table against IBTA 9.2.1 table 38 and the order of headers in 9.2. */
#include <string.h>

#include "harness.h"
#include "opcode_spec.h"
#include "urxe/opcode.h"
#include "urxe/wire.h"

static void test_every_opcode(void)
{
	static const struct {
		char c;
		uint8_t len;
	} eth[] = {{'d', 8}, {'f', 4}, {'r', 16}, {'t', 28},
		   {'a', 4}, {'k', 8}, {'i', 4},  {'v', 4}};

	for (unsigned opcode = 0; opcode < 256; opcode++) {
		const struct urxe_opcode_info *o = &urxe_opcode_table[opcode];
		const uint8_t offs[] = {o->deth_off, o->feth_off,	o->reth_off, o->atomic_off,
					o->aeth_off, o->atomic_ack_off, o->imm_off,  o->ieth_off};
		bool xrc;
		const char *s = opcode_spec(opcode, &xrc);
		unsigned at = 12;

		CU_ASSERT_EQUAL(!!(o->flags & URXE_OPF_VALID), s != NULL);
		CU_ASSERT_EQUAL(!strcmp(urxe_opcode_name((uint8_t)opcode), "invalid"), !s);
		if (!s) {
			CU_ASSERT(!o->flags && !o->hdr_len);
			continue;
		}
		CU_ASSERT_EQUAL(o->xrceth_off, xrc ? 12 : 0);
		at += xrc ? 4 : 0;
		for (unsigned i = 0; i < 8; i++) {
			CU_ASSERT_EQUAL(offs[i], strchr(s, eth[i].c) ? at : 0);
			at += strchr(s, eth[i].c) ? eth[i].len : 0;
		}
		at += strchr(s, 'c') ? 16 : 0;
		CU_ASSERT_EQUAL(o->hdr_len, at);
		CU_ASSERT_EQUAL(!!(o->flags & URXE_OPF_CNP), opcode == 0x81);
		CU_ASSERT_EQUAL(!!(o->flags & URXE_OPF_LEND), !!strchr(s, 'O'));
		CU_ASSERT_EQUAL(!!(o->flags & URXE_OPF_PAYLOAD), !!strchr(s, 'p'));
		CU_ASSERT_EQUAL(!!(o->flags & URXE_OPF_FIRST), !!strchr(s, 'F'));
		CU_ASSERT_EQUAL(!!(o->flags & URXE_OPF_LAST), !!strchr(s, 'L'));
		CU_ASSERT_EQUAL(!!(o->flags & URXE_OPF_RECV_WQE), !!strchr(s, 'W'));
		CU_ASSERT_EQUAL(!!(o->flags & URXE_OPF_RESPONSE),
				(opcode >> 5 == 0 || opcode >> 5 == 5) && (opcode & 31) >= 0x0d &&
					(opcode & 31) <= 0x12);
	}
}

static void test_psn(void)
{
	CU_ASSERT_EQUAL(urxe_psn_add(0xffffff, 1), 0);
	CU_ASSERT_EQUAL(urxe_psn_add(5, 0xffffff), 4);
	CU_ASSERT_EQUAL(urxe_psn_diff(0, 0xffffff), 1);
	CU_ASSERT_EQUAL(urxe_psn_diff(0xffffff, 0), -1);
	CU_ASSERT_EQUAL(urxe_psn_diff(0x7fffff, 0), 0x7fffff);
	CU_ASSERT_EQUAL(urxe_psn_diff(0x800000, 0), -0x800000);
	CU_ASSERT_EQUAL(urxe_psn_diff(7, 7), 0);
}

static void test_bth(void)
{
	static const uint8_t want[12] = {0x0a, 0xf0, 0xab, 0xcd, 0x00, 0x12,
					 0x34, 0x56, 0x80, 0xfe, 0xdc, 0xba};
	const struct urxe_bth h = {.opcode = 0x0a,
				   .solicited = true,
				   .migreq = true,
				   .pad = 3,
				   .pkey = 0xabcd,
				   .dqpn = 0x123456,
				   .ackreq = true,
				   .psn = 0xfedcba};
	struct urxe_bth g;
	uint8_t b[12];

	urxe_bth_put(b, &h);
	CU_ASSERT(!memcmp(b, want, 12));
	CU_ASSERT(urxe_bth_opcode(b) == 0x0a && urxe_bth_solicited(b) && urxe_bth_migreq(b));
	CU_ASSERT(urxe_bth_pad(b) == 3 && urxe_bth_tver(b) == 0 && urxe_bth_pkey(b) == 0xabcd);
	CU_ASSERT(urxe_bth_dqpn(b) == 0x123456 && urxe_bth_ackreq(b));
	CU_ASSERT_EQUAL(urxe_bth_psn(b), 0xfedcba);
	urxe_bth_get(b, &g);
	CU_ASSERT(g.opcode == 0x0a && g.solicited && g.migreq && g.pad == 3 && !g.tver);
	CU_ASSERT(g.pkey == 0xabcd && g.dqpn == 0x123456 && g.ackreq && g.psn == 0xfedcba);
	/* reserved bits are not ours */
	memset(b, 0xff, 12);
	urxe_bth_get(b, &g);
	CU_ASSERT(g.tver == 15 && g.dqpn == 0xffffff);
	memset(b, 0, 12);
	b[4] = b[1] = 0xf;
	b[8] = 0x7f;
	urxe_bth_get(b, &g);
	CU_ASSERT(g.tver == 15 && !g.solicited && !g.migreq && !g.pad && !g.dqpn && !g.ackreq);
	memset(b, 0xff, 12);
	CU_ASSERT(urxe_bth_tver(b) == 15 && urxe_bth_dqpn(b) == 0xffffff);
}

URXE_TEST_MAIN("opcode", T(test_every_opcode), T(test_psn), T(test_bth))
