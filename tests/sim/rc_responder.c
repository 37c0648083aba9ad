/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The RC responder against hand-made requests: each rule of IBTA 9.7.4 and 9.7.5, one test. What it
 * refuses is in rc_refusals.c, what it is asked twice in rc_duplicates.c.
 */
#include "responder_rig.h"

#include <string.h>

#include "progress.h"

/* ---- sequence ---- */

static void test_one_nak_a_gap(void)
{
	struct rig r;
	uint32_t psn;

	rig_open(&r);
	psn = r.psn;
	put_at(&r, psn + 2, rdma(&r, RC(WRITE_ONLY), 0, 8, 8));
	put_at(&r, psn + 3, rdma(&r, RC(WRITE_ONLY), 0, 8, 8));
	CU_ASSERT_EQUAL(r.log.n, 0); /* it may be late */
	put_at(&r, psn + 5, rdma(&r, RC(WRITE_ONLY), 0, 8, 8));
	CU_ASSERT(answered(&r, NAK(PSN_SEQ), psn, 0));
	put_at(&r, psn + 1, rdma(&r, RC(WRITE_ONLY), 0, 8, 8));
	CU_ASSERT_EQUAL(r.log.n, 1);
	/* The expected one ends it: the peer has gone back there, and is answered no further. */
	put(&r, rdma(&r, RC(WRITE_ONLY), 0, 8, 8));
	CU_ASSERT(answered(&r, OK_AETH, psn, 1));
	put_at(&r, psn + 1, rdma(&r, RC(WRITE_ONLY), 0, 8, 8));
	CU_ASSERT(answered(&r, OK_AETH, psn + 1, 2));
	CU_ASSERT_EQUAL(r.log.n, 3);
	/* It goes on with what it has never sent: what is kept is all it will get. */
	put_at(&r, psn + 6, rdma(&r, RC(WRITE_ONLY), 0, 8, 8));
	CU_ASSERT(r.log.n == 4 && answered(&r, OK_AETH, psn + 3, 4));
	/* And so there is another gap, after a while; such a peer is told again (sim-keep). */
	pair_settle(&r.p, 1000000);
	CU_ASSERT(answered(&r, NAK(PSN_SEQ), psn + 4, 4));
	CU_ASSERT_EQUAL(raw_log_count(&r.log, &r.p.b, ACK, NAK(PSN_SEQ)), 5);
	rig_close(&r);
}

static void test_gap_in_message(void)
{
	struct rig r;
	uint32_t psn;

	rig_open(&r);
	psn = r.psn;
	put(&r, rdma(&r, RC(WRITE_FIRST), 0, 2100, 1024));
	put_at(&r, psn + 2, req(RC(WRITE_LAST), 52));
	pair_settle(&r.p, 1000000);
	CU_ASSERT(answered(&r, NAK(PSN_SEQ), psn + 1, 0));
	put(&r, req(RC(WRITE_MIDDLE), 1024));
	put(&r, req(RC(WRITE_LAST), 52));
	CU_ASSERT(answered(&r, OK_AETH, psn + 2, 1));
	CU_ASSERT_EQUAL(r.p.b.buf[2099], 0x5a);
	CU_ASSERT_EQUAL(r.p.b.buf[2100], 0);
	rig_close(&r);
}

/* Half of the PSN space is old, half is new. */
static void test_psn_regions(void)
{
	struct rig r;
	uint32_t psn;

	rig_open(&r);
	psn = r.psn;
	put_at(&r, psn + 0x7fffff, rdma(&r, RC(WRITE_ONLY), 0, 8, 8));
	pair_settle(&r.p, 1000000);
	CU_ASSERT(answered(&r, NAK(PSN_SEQ), psn, 0));
	put(&r, rdma(&r, RC(WRITE_ONLY), 8, 8, 8));
	put_at(&r, psn + 1 - 0x7fffff, rdma(&r, RC(WRITE_ONLY), 0, 8, 8));
	CU_ASSERT(answered(&r, OK_AETH, psn + 1 - 0x7fffff, 1));
	CU_ASSERT_EQUAL(r.p.b.buf[0], 0);
	rig_close(&r);
}

static void test_ack_coalescing(void)
{
	struct rig r;
	uint8_t f[256];

	rig_open(&r);
	for (uint32_t i = 0; i < 20; i++) {
		struct raw_pkt k = rdma(&r, RC(WRITE_ONLY), 8 * i, 8, 8);

		k.psn = r.psn++;
		urxe_sim_put(r.p.b.end, f, raw_frame(&r.p.a, &r.p.b, &k, f));
	}
	for (int i = 0; i < 3; i++)
		urxe_progress_turn(r.p.b.dev);
	CU_ASSERT_EQUAL(r.log.n, 1);
	CU_ASSERT(answered(&r, OK_AETH, r.psn - 1, 20));
	rig_close(&r);
}

static void test_no_ack_unasked(void)
{
	struct raw_pkt k;
	struct rig r;

	rig_open(&r);
	k = rdma(&r, RC(WRITE_ONLY), 0, 8, 8);
	k.ackreq = false;
	put(&r, k);
	CU_ASSERT_EQUAL(r.log.n, 0);
	CU_ASSERT_EQUAL(r.p.b.buf[0], 0x5a);
	rig_close(&r);
}

static void test_msn(void)
{
	struct rig r;
	unsigned at = 0;
	const struct raw_seen *s;

	rig_open(&r);
	pair_recv(&r.p.b, 1, 0x1000, 4096);
	put(&r, req(RC(SEND_FIRST), 1024));
	CU_ASSERT(answered(&r, OK_AETH, r.psn - 1, 0));
	put(&r, req(RC(SEND_LAST), 4));
	CU_ASSERT(answered(&r, OK_AETH, r.psn - 1, 1));
	put(&r, rdma(&r, RC(READ_REQUEST), 0, 3000, 0));
	r.psn += 2;
	s = raw_log_find(&r.log, &r.p.b, RC(READ_RESPONSE_FIRST), &at);
	CU_ASSERT(s && s->msn == 2);
	s = raw_log_find(&r.log, &r.p.b, RC(READ_RESPONSE_LAST), &at);
	CU_ASSERT(s && s->msn == 2 && s->psn == ((r.psn - 1) & URXE_PSN_MASK));
	put(&r, rdma(&r, RC(FETCH_ADD), 0, 0, 0));
	s = raw_log_find(&r.log, &r.p.b, RC(ATOMIC_ACKNOWLEDGE), &at);
	CU_ASSERT(s && s->msn == 3);
	put(&r, rdma(&r, RC(WRITE_ONLY), 0, 0, 0));
	CU_ASSERT(answered(&r, OK_AETH, r.psn - 1, 4));
	rig_close(&r);
}

/* ---- remote operational, RNR ---- */

static void test_receive_into_bad_mr(void)
{
	struct ibv_sge sge;
	struct ibv_recv_wr wr = {.wr_id = 9, .sg_list = &sge, .num_sge = 1}, *bad;
	struct ibv_mr *ro;
	struct ibv_wc wc;
	struct rig r;

	for (int kind = 0; kind < 3; kind++) {
		rig_open(&r);
		ro = ibv_reg_mr(r.p.b.pd, r.p.b.buf, 4096, 0);
		sge = (struct ibv_sge){(uintptr_t)r.p.b.buf, 4096,
				       kind == 0   ? r.p.b.mr->lkey + 1
				       : kind == 1 ? ro->lkey
						   : r.p.b.mr->lkey};
		if (kind == 2)
			sge.addr = (uintptr_t)r.p.b.buf + PAIR_BUF - 100;
		CU_ASSERT_EQUAL(ibv_post_recv(r.p.b.qp, &wr, &bad), 0);
		put(&r, req(RC(SEND_ONLY), 200));
		check_fatal(&r, NAK(REMOTE_OP), r.psn - 1, IBV_EVENT_QP_FATAL);
		CU_ASSERT(poll1(&r.p.b, &wc) == 1 && wc.wr_id == 9 &&
			  wc.status == IBV_WC_LOC_PROT_ERR);
		ibv_dereg_mr(ro);
		rig_close(&r);
	}
}

static void test_rnr(void)
{
	struct ibv_wc wc;
	struct rig r;

	rig_open(&r);
	put(&r, req(RC(SEND_FIRST), 1024));
	CU_ASSERT(answered(&r, RNR(12), r.psn - 1, 0));
	/* What comes behind it is dropped without a word. */
	put(&r, req(RC(SEND_LAST), 4));
	CU_ASSERT_EQUAL(r.log.n, 1);
	pair_recv(&r.p.b, 3, 0, 4096);
	r.psn -= 2;
	put(&r, req(RC(SEND_FIRST), 1024));
	put(&r, req(RC(SEND_LAST), 4));
	CU_ASSERT(answered(&r, OK_AETH, r.psn - 1, 1));
	CU_ASSERT(poll1(&r.p.b, &wc) == 1 && wc.byte_len == 1028);
	rig_close(&r);
}

/* WRITE with immediate: RNR at its last packet; it goes on from there, and nothing twice. */
static void test_rnr_write_imm(void)
{
	struct ibv_wc wc;
	struct rig r;

	rig_open(&r);
	put(&r, rdma(&r, RC(WRITE_FIRST), 0x100, 1030, 1024));
	put(&r, req(RC(WRITE_LAST_IMM), 6));
	CU_ASSERT(answered(&r, RNR(12), r.psn - 1, 0));
	CU_ASSERT_EQUAL(r.p.b.buf[0x100 + 1024], 0);
	pair_recv(&r.p.b, 4, 0, 0);
	r.psn--;
	put(&r, req(RC(WRITE_LAST_IMM), 6));
	CU_ASSERT(answered(&r, OK_AETH, r.psn - 1, 1));
	CU_ASSERT(poll1(&r.p.b, &wc) == 1 && wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM &&
		  wc.byte_len == 1030 && wc.wc_flags & IBV_WC_WITH_IMM &&
		  wc.imm_data == htobe32(0x01020304));
	CU_ASSERT_EQUAL(r.p.b.buf[0x100 + 1029], 0x5a);
	rig_close(&r);
}

/* ---- a region that goes while it is read ---- */

static void test_dereg_under_read(void)
{
	struct pair_params pp = {.seed = 5, .link = {.latency = 1000, .tx_room = 1}};
	struct ibv_mr *mr;
	struct raw_pkt k;
	struct rig r;

	rig_open_with(&r, &pp);
	mr = ibv_reg_mr(r.p.b.pd, r.p.b.buf, PAIR_BUF, IBV_ACCESS_REMOTE_READ);
	k = rdma(&r, RC(READ_REQUEST), 0, 900 * 1024, 0);
	k.rkey = mr->rkey;
	put(&r, k);
	CU_ASSERT(r.log.n < 300);
	ibv_dereg_mr(mr);
	for (int i = 0; i < 2000; i++)
		urxe_progress_turn(r.p.b.dev);
	CU_ASSERT_EQUAL(last(&r)->opcode, ACK);
	CU_ASSERT_EQUAL(last(&r)->syndrome, NAK(REMOTE_ACCESS));
	CU_ASSERT_EQUAL(raw_log_count(&r.log, &r.p.b, RC(READ_RESPONSE_LAST), -1), 0);
	CU_ASSERT_EQUAL(pair_state(r.p.b.qp), IBV_QPS_ERR);
	CU_ASSERT_EQUAL(pair_event(&r.p.b), IBV_EVENT_QP_ACCESS_ERR);
	rig_close(&r);
}

/* ---- who is heard ---- */

static void test_not_for_us(void)
{
	struct raw_pkt k;
	const struct urxe_peer *peer;
	uint64_t heard;
	struct rig r;

	rig_open(&r);
	peer = to_urxe_qp(r.p.b.qp)->peer;
	heard = atomic_load(&peer->heard);
	k = good_write(&r);
	k.dqpn = r.p.b.qp->qp_num ^ 0x800000;
	put_at(&r, r.psn, k);
	k = good_write(&r);
	k.src_ip = 0x0a000009;
	put_at(&r, r.psn, k);
	k = good_write(&r);
	k.pkey = 0x1234;
	put_at(&r, r.psn, k);
	k = good_write(&r);
	k.tver = 1;
	put_at(&r, r.psn, k);
	k = good_write(&r);
	k.opcode = UC(WRITE_ONLY);
	put_at(&r, r.psn, k);
	CU_ASSERT_EQUAL(r.log.n, 0);
	CU_ASSERT_EQUAL(r.p.b.buf[0], 0);
	CU_ASSERT_EQUAL(pair_stat(&r.p.b, URXE_STAT_RX_NO_QP), 1);
	CU_ASSERT_EQUAL(pair_stat(&r.p.b, URXE_STAT_RX_WRONG_PEER), 1);
	CU_ASSERT_EQUAL(pair_stat(&r.p.b, URXE_STAT_RX_BAD_PKEY), 1);
	CU_ASSERT_EQUAL(pair_stat(&r.p.b, URXE_STAT_RX_BAD_TVER), 1);
	CU_ASSERT_EQUAL(pair_stat(&r.p.b, URXE_STAT_RX_WRONG_TYPE), 1);
	CU_ASSERT_EQUAL(atomic_load(&peer->heard), heard); /* no sign of its life */
	/* A limited member of the partition is one of it. */
	k = good_write(&r);
	k.pkey = 0x7fff;
	put(&r, k);
	CU_ASSERT(answered(&r, OK_AETH, r.psn - 1, 1));
	CU_ASSERT(atomic_load(&peer->heard) > heard);
	rig_close(&r);
}

URXE_TEST_MAIN("rc_responder", T(test_one_nak_a_gap), T(test_gap_in_message), T(test_psn_regions),
	       T(test_ack_coalescing), T(test_no_ack_unasked), T(test_msn),
	       T(test_receive_into_bad_mr), T(test_rnr), T(test_rnr_write_imm),
	       T(test_dereg_under_read), T(test_not_for_us))
