/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Packets and work requests that broke others, one test each: tests/README.md has the list.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "forge.h"
#include "rcu.h"

static const struct pair_params plain = {.seed = 21, .link = {.latency = 1000}};

/* Everything from nothing to the whole of each opcode's headers, with every pad. */
static void test_short_packet_forged_pad(void)
{
	struct pair p;

	pair_open(&p, &plain, IBV_QPT_RC);
	pair_meet(&p);
	for (unsigned op = 0; op < 256; op++) {
		uint32_t hdr = urxe_opcode_table[op].hdr_len;

		for (int cut = 0; cut <= (int)hdr - URXE_BTH_LEN; cut++)
			for (int pad = 0; pad < 4; pad++) {
				struct raw_pkt k = {.opcode = (uint8_t)op,
						    .psn = 0xffffe0,
						    .pad = pad,
						    .cut = cut};

				/* All of it: the NAK for an unsupported one is not meant here. */
				if (cut || pad)
					raw_send(&p.a, &p.b, &k);
			}
	}
	CU_ASSERT_EQUAL(pair_state(p.b.qp), IBV_QPS_RTS);
	CU_ASSERT(pair_stat(&p.b, URXE_STAT_RX_BAD_LENGTH) > 1000);
	CU_ASSERT_EQUAL(to_urxe_qp(p.b.qp)->resp.epsn, 0xffffe0);
	pair_close(&p);
}

/* A length that is no multiple of four, though pad would make it fit. */
static void test_odd_length(void)
{
	struct raw_pkt k = {.opcode = RC(WRITE_ONLY),
			    .psn = 0xffffe0,
			    .len = 5,
			    .cut = 3,
			    .dmalen = 5,
			    .pad = -3};
	struct pair p;

	pair_open(&p, &plain, IBV_QPT_RC);
	pair_meet(&p);
	k.va = (uintptr_t)p.b.buf;
	k.rkey = p.b.mr->rkey;
	raw_send(&p.a, &p.b, &k);
	CU_ASSERT_EQUAL(pair_stat(&p.b, URXE_STAT_RX_BAD_LENGTH), 1);
	CU_ASSERT_EQUAL(p.b.buf[0], 0);
	pair_close(&p);
}

static void test_invalid_opcode_multicast(void)
{
	const union ibv_gid group = {.raw = {[10] = 0xff, [11] = 0xff, 239, 1, 2, 3}};
	struct raw_pkt k = {.opcode = 0xff, .dqpn = URXE_MCAST_QPN, .len = 48 - 12 - 4 - 8};
	struct ibv_wc wc;
	struct pair p;

	pair_open(&p, &plain, IBV_QPT_UD);
	pair_meet(&p);
	raw_send(&p.a, &p.b, &k);
	k.opcode = UD(SEND_ONLY);
	k.qkey = 0x11111111;
	raw_send(&p.a, &p.b, &k);
	for (uint32_t qpn = 0; qpn < 3; qpn++) {
		k.dqpn = qpn ? qpn : 0xfffffe;
		raw_send(&p.a, &p.b, &k);
	}
	CU_ASSERT_EQUAL(pair_stat(&p.b, URXE_STAT_RX_BAD_OPCODE), 1);
	CU_ASSERT_EQUAL(pair_stat(&p.b, URXE_STAT_RX_NO_QP), 4);
	/* To a group with a member that has room for anything. */
	CU_ASSERT_EQUAL(ibv_attach_mcast(p.b.qp, &group, 0), 0);
	pair_recv(&p.b, 1, 0x1000, 4096);
	k.dqpn = URXE_MCAST_QPN;
	k.group = group.raw;
	for (unsigned op = 0; op < 256; op++) {
		k.opcode = (uint8_t)op;
		if (op != UD(SEND_ONLY) && op != UD(SEND_ONLY_IMM))
			raw_send(&p.a, &p.b, &k);
	}
	CU_ASSERT_EQUAL(ibv_poll_cq(p.b.cq, 1, &wc), 0);
	k.opcode = UD(SEND_ONLY);
	raw_send(&p.a, &p.b, &k);
	CU_ASSERT(ibv_poll_cq(p.b.cq, 1, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	CU_ASSERT_EQUAL(ibv_detach_mcast(p.b.qp, &group, 0), 0);
	pair_close(&p);
}

/* Neither asked for nor sent: eight bytes it is. */
static void test_zero_length_atomic_write(void)
{
	struct raw_pkt k = {.opcode = RC(ATOMIC_WRITE), .psn = 0xffffe0, .ackreq = true};
	struct raw_log log;
	struct pair p;

	pair_open(&p, &plain, IBV_QPT_RC);
	pair_meet(&p);
	CU_ASSERT_EQUAL(pair_post(&p.a, IBV_WR_ATOMIC_WRITE, 1, 0, 0, &p.b, 0, 0), EINVAL);
	k.va = (uintptr_t)p.b.buf;
	k.rkey = p.b.mr->rkey;
	raw_log_start(&log, &p);
	raw_send(&p.a, &p.b, &k);
	CU_ASSERT_EQUAL(raw_log_count(&log, &p.b, ACK, NAK(INVALID_REQ)), 1);
	CU_ASSERT_EQUAL(pair_state(p.b.qp), IBV_QPS_ERR);
	raw_log_stop(&log);
	pair_close(&p);
}

/* Every operation on a range that ends behind the last address. */
static void test_iova_wraps(void)
{
	static const uint8_t ops[] = {RC(WRITE_ONLY), RC(WRITE_FIRST), RC(READ_REQUEST),
				      RC(FETCH_ADD), RC(ATOMIC_WRITE)};
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

	for (unsigned i = 0; i < sizeof(ops); i++) {
		struct raw_pkt k = {.opcode = ops[i], .psn = 0xffffe0, .ackreq = true};
		struct raw_log log;
		struct ibv_mr *mr;
		struct pair p;

		pair_open(&p, &plain, IBV_QPT_RC);
		pair_meet(&p);
		/* A region whose addresses end there themselves, and none that goes beyond. */
		CU_ASSERT(!ibv_reg_mr_iova(p.b.pd, p.b.buf, 64, (uint64_t)-32, access));
		mr = ibv_reg_mr_iova(p.b.pd, p.b.buf, 64, (uint64_t)-65, access);
		CU_ASSERT_FATAL(mr != NULL);
		k.rkey = mr->rkey;
		k.va = (uint64_t)-8;
		k.dmalen = ops[i] == RC(ATOMIC_WRITE) ? 8 : 4096;
		k.len = ops[i] == RC(WRITE_ONLY)     ? 1024
			: ops[i] == RC(WRITE_FIRST)  ? 1024
			: ops[i] == RC(ATOMIC_WRITE) ? 8
						     : 0;
		if (ops[i] == RC(WRITE_ONLY))
			k.dmalen = 1024;
		raw_log_start(&log, &p);
		raw_send(&p.a, &p.b, &k);
		CU_ASSERT_EQUAL(raw_log_count(&log, &p.b, ACK, NAK(REMOTE_ACCESS)), 1);
		CU_ASSERT_EQUAL(p.b.buf[0], 0);
		raw_log_stop(&log);
		CU_ASSERT_EQUAL(ibv_dereg_mr(mr), 0);
		pair_close(&p);
	}
}

/* Windows: one cannot be bound so, nor does one that ends where addresses end lead further. */
static void test_iova_wraps_window(void)
{
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;

	for (unsigned wraps = 0; wraps < 2; wraps++) {
		struct raw_pkt k = {.opcode = RC(WRITE_ONLY),
				    .psn = 0xffffe0,
				    .ackreq = true,
				    .va = (uint64_t)-8,
				    .dmalen = 1024,
				    .len = 1024};
		struct ibv_mw_bind bind = {.send_flags = IBV_SEND_SIGNALED};
		struct raw_log log;
		struct ibv_mr *mr;
		struct ibv_mw *mw;
		struct ibv_wc wc;
		struct pair p;

		pair_open(&p, &plain, IBV_QPT_RC);
		pair_meet(&p);
		mr = ibv_reg_mr_iova(p.b.pd, p.b.buf, 64, (uint64_t)-65, access);
		mw = ibv_alloc_mw(p.b.pd, IBV_MW_TYPE_1);
		CU_ASSERT_FATAL(mr && mw);
		bind.bind_info = (struct ibv_mw_bind_info){mr, (uint64_t)-9, wraps ? 4096 : 8,
							   IBV_ACCESS_REMOTE_WRITE};
		CU_ASSERT_EQUAL(ibv_bind_mw(p.b.qp, mw, &bind), 0);
		CU_ASSERT(pair_wait(&p, p.b.cq, &wc));
		CU_ASSERT_EQUAL(wc.status, wraps ? IBV_WC_MW_BIND_ERR : IBV_WC_SUCCESS);
		k.rkey = mw->rkey;
		raw_log_start(&log, &p);
		raw_send(&p.a, &p.b, &k);
		CU_ASSERT_EQUAL(raw_log_count(&log, &p.b, ACK, NAK(REMOTE_ACCESS)), !wraps);
		CU_ASSERT_EQUAL(p.b.buf[0], 0);
		raw_log_stop(&log);
		CU_ASSERT_EQUAL(ibv_dealloc_mw(mw), 0);
		CU_ASSERT_EQUAL(ibv_dereg_mr(mr), 0);
		pair_close(&p);
	}
}

/* A READ that was answered, once more, but now of a range that ends behind the last address. */
static void test_iova_wraps_duplicate_read(void)
{
	struct raw_pkt k = {
		.opcode = RC(READ_REQUEST), .psn = 0xffffe0, .ackreq = true, .dmalen = 64};
	struct raw_log log;
	struct ibv_mr *mr;
	struct pair p;

	pair_open(&p, &plain, IBV_QPT_RC);
	pair_meet(&p);
	mr = ibv_reg_mr_iova(p.b.pd, p.b.buf, 64, (uint64_t)-65, IBV_ACCESS_REMOTE_READ);
	CU_ASSERT_FATAL(mr != NULL);
	k.rkey = mr->rkey;
	k.va = (uint64_t)-65;
	raw_log_start(&log, &p);
	for (unsigned i = 0; i < 3; i++) {
		raw_send(&p.a, &p.b, &k);
		CU_ASSERT_EQUAL(raw_log_count(&log, &p.b, RC(READ_RESPONSE_ONLY), -1),
				i < 2 ? i + 1 : 2);
		/* The true duplicate is answered, the other is not. */
		if (i == 1) {
			k.va = (uint64_t)-8;
			k.dmalen = 1024;
		}
	}
	CU_ASSERT_EQUAL(raw_log_count(&log, &p.b, RC(READ_RESPONSE_FIRST), -1), 0);
	raw_log_stop(&log);
	CU_ASSERT_EQUAL(ibv_dereg_mr(mr), 0);
	pair_close(&p);
}

/* What comes when the QP is in error, or comes again, is not executed, nor answered. */
static void test_executed_after_error(void)
{
	static const uint8_t ops[] = {RC(WRITE_ONLY),	RC(SEND_ONLY), RC(READ_REQUEST),
				      RC(ATOMIC_WRITE), RC(FETCH_ADD), RC(COMPARE_SWAP)};

	for (unsigned i = 0; i < sizeof(ops); i++)
		for (unsigned again = 0; again < 2; again++) {
			struct raw_pkt k = {.opcode = ops[i], .psn = 0xffffe0, .ackreq = true};
			uint8_t before[64];
			struct raw_log log;
			struct ibv_wc wc;
			struct pair p;

			pair_open(&p, &plain, IBV_QPT_RC);
			pair_meet(&p);
			k.va = (uintptr_t)p.b.buf;
			k.rkey = p.b.mr->rkey;
			k.dmalen = k.len = ops[i] == RC(READ_REQUEST) ? 0 : 8;
			if (ops[i] == RC(FETCH_ADD) || ops[i] == RC(COMPARE_SWAP))
				k.len = 0;
			k.swap_add = 5;
			pair_recv(&p.b, 1, 0x100, 64);
			if (again)
				raw_send(&p.a, &p.b, &k);
			CU_ASSERT_EQUAL(pair_modify(p.b.qp, IBV_QPS_ERR), 0);
			while (ibv_poll_cq(p.b.cq, 1, &wc) == 1)
				;
			memcpy(before, p.b.buf, sizeof(before));
			raw_log_start(&log, &p);
			raw_send(&p.a, &p.b, &k);
			pair_settle(&p, 1000000);
			CU_ASSERT_EQUAL(log.n, 0);
			CU_ASSERT(!memcmp(before, p.b.buf, sizeof(before)));
			CU_ASSERT_EQUAL(ibv_poll_cq(p.b.cq, 1, &wc), 0);
			CU_ASSERT_EQUAL(pair_stat(&p.b, URXE_STAT_RX_BAD_STATE), 1);
			raw_log_stop(&log);
			pair_close(&p);
		}
}

static struct ibv_qp *gsi_of(struct side *s)
{
	struct ibv_qp_init_attr init = {.send_cq = s->cq,
					.recv_cq = s->cq,
					.qp_type = IBV_QPT_UD,
					.cap = {.max_recv_wr = 64, .max_recv_sge = 1}};
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 0x80010000};
	struct ibv_qp *qp = urxe_gsi_create_qp(s->pd, &init);

	CU_ASSERT_PTR_NOT_NULL_FATAL(qp);
	CU_ASSERT_EQUAL(
		ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
		0);
	CU_ASSERT_EQUAL(pair_modify(qp, IBV_QPS_RTR), 0);
	return qp;
}

/* Packets to QP1 whose pad is more than what they carry: no MAD of less than nothing comes out. */
static void test_negative_mad_length(void)
{
	struct ibv_qp *gsi;
	struct ibv_wc wc;
	struct pair p;

	pair_open(&p, &plain, IBV_QPT_RC);
	pair_meet(&p);
	gsi = gsi_of(&p.b);
	for (uint32_t len = 0; len < 12; len++)
		for (int pad = -3; pad < 4; pad++) {
			struct raw_pkt k = {.opcode = UD(SEND_ONLY),
					    .dqpn = 1,
					    .qkey = 0x80010000,
					    .sqpn = 1,
					    .len = len,
					    .pad = pad};
			struct ibv_qp *own = p.b.qp;

			p.b.qp = gsi;
			CU_ASSERT_EQUAL(pair_recv(&p.b, 1, 0, 320), 0);
			p.b.qp = own;
			raw_send(&p.a, &p.b, &k);
			/* As long as a packet with that pad may be, or nothing. */
			if (urxe_gsi_poll_cq(p.b.cq, 1, &wc) == 1)
				CU_ASSERT(wc.status == IBV_WC_SUCCESS && wc.byte_len >= 40 &&
					  wc.byte_len <= 40 + len + 3);
			CU_ASSERT_EQUAL(pair_modify(gsi, IBV_QPS_RESET), 0);
			ibv_destroy_qp(gsi);
			gsi = gsi_of(&p.b);
		}
	CU_ASSERT(pair_stat(&p.b, URXE_STAT_RX_BAD_LENGTH) > 0);
	ibv_destroy_qp(gsi);
	pair_close(&p);
}

/* Where the answer of an atomic is to go is looked at when it comes: once, and nothing else. */
static void test_atomic_bad_lkey(void)
{
	for (unsigned i = 0; i < 4; i++) {
		struct ibv_sge sge;
		struct ibv_send_wr wr = {.sg_list = &sge,
					 .num_sge = 1,
					 .opcode = i & 1 ? IBV_WR_ATOMIC_CMP_AND_SWP
							 : IBV_WR_ATOMIC_FETCH_AND_ADD},
				   *bad;
		struct ibv_mr *ro;
		struct ibv_wc wc;
		struct pair p;
		uint64_t word;

		pair_open(&p, &plain, IBV_QPT_RC);
		ro = ibv_reg_mr(p.a.pd, p.a.buf, 4096, 0);
		CU_ASSERT_FATAL(ro != NULL);
		/* An unknown one; one that must not be written. */
		sge = (struct ibv_sge){(uintptr_t)p.a.buf, 8, i & 2 ? ro->lkey : p.a.mr->lkey ^ 1};
		memset(p.a.buf, 0x77, 16);
		wr.wr.atomic.remote_addr = (uintptr_t)p.b.buf;
		wr.wr.atomic.rkey = p.b.mr->rkey;
		wr.wr.atomic.swap = wr.wr.atomic.compare_add = i & 1 ? 0 : 1;
		CU_ASSERT_EQUAL(ibv_post_send(p.a.qp, &wr, &bad), 0);
		CU_ASSERT(pair_wait(&p, p.a.cq, &wc) && wc.status == IBV_WC_LOC_PROT_ERR);
		CU_ASSERT(p.a.buf[0] == 0x77 && p.a.buf[7] == 0x77);
		memcpy(&word, p.b.buf, sizeof(word));
		CU_ASSERT_EQUAL(word, i & 1 ? 0 : 1);
		CU_ASSERT_EQUAL(pair_state(p.a.qp), IBV_QPS_ERR);
		CU_ASSERT_EQUAL(pair_state(p.b.qp), IBV_QPS_RTS);
		CU_ASSERT_EQUAL(ibv_dereg_mr(ro), 0);
		pair_close(&p);
	}
}

/* Another thread changes a work request while it is posted. */
static struct ibv_send_wr flipped;
static struct ibv_recv_wr rflipped;
static atomic_bool stop;

static void *flipper(void *arg)
{
	volatile int *a = &flipped.num_sge, *b = &rflipped.num_sge;

	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		*a = 250;
		*b = 1000;
		*a = 1;
		*b = 1;
	}
	return NULL;
}

static void test_num_sge_changes(void)
{
	struct ibv_sge *sge = calloc(1024, sizeof(*sge));
	struct ibv_recv_wr *rbad;
	struct ibv_send_wr *bad;
	struct ibv_wc wc[16];
	pthread_t thread;
	struct pair p;

	pair_open(&p, &plain, IBV_QPT_RC);
	for (int i = 0; i < 1024; i++)
		sge[i] = (struct ibv_sge){(uintptr_t)p.a.buf, 1, p.a.mr->lkey};
	flipped = (struct ibv_send_wr){.sg_list = sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE};
	flipped.wr.rdma.remote_addr = (uintptr_t)p.b.buf;
	flipped.wr.rdma.rkey = p.b.mr->rkey;
	rflipped = (struct ibv_recv_wr){.sg_list = sge, .num_sge = 1};
	atomic_store(&stop, false);
#ifndef URXE_TSAN /* the race is the application's */
	pthread_create(&thread, NULL, flipper, NULL);
	for (unsigned i = 0; i < 20000; i++) {
		ibv_post_send(p.a.qp, &flipped, &bad);
		ibv_post_recv(p.a.qp, &rflipped, &rbad);
		if (i % 64 == 0) {
			pair_step(&p);
			ibv_poll_cq(p.a.cq, 16, wc);
			if (i % 1024 == 0)
				to_urxe_qp(p.a.qp)->own_rq.tail = to_urxe_qp(p.a.qp)->own_rq.head;
		}
	}
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
#else
	(void)thread, (void)flipper, (void)bad, (void)rbad, (void)wc;
#endif
	/* What was taken is never more than what was checked. */
	struct urxe_qp *qp = to_urxe_qp(p.a.qp);
	for (uint32_t i = qp->own_rq.tail; i != qp->own_rq.head; i++)
		CU_ASSERT(urxe_rq_at(&qp->own_rq, i)->num_sge <= qp->own_rq.max_sge);
	CU_ASSERT_EQUAL(pair_state(p.a.qp), IBV_QPS_RTS);
	pair_settle(&p, 100000000);
	pair_close(&p);
	free(sge);
}

URXE_TEST_MAIN("bad_packets", T(test_short_packet_forged_pad), T(test_odd_length),
	       T(test_invalid_opcode_multicast), T(test_zero_length_atomic_write),
	       T(test_iova_wraps), T(test_iova_wraps_window), T(test_iova_wraps_duplicate_read),
	       T(test_executed_after_error), T(test_negative_mad_length), T(test_atomic_bad_lkey),
	       T(test_num_sge_changes))
