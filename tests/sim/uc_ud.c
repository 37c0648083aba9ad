/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Unreliable connections and datagrams (IBTA 9.8.2, 9.8.3): what is dropped, and what is not. */
#include <errno.h>
#include <string.h>

#include "harness.h"
#include "netio/stack.h"
#include "forge.h"
#include "log_kept.h"

#define PSN 0xffffe0u

static const struct pair_params plain = {.seed = 31, .link = {.latency = 1000}};

static void put(struct pair *p, uint32_t psn, struct raw_pkt k)
{
	k.psn = psn;
	raw_send(&p->a, &p->b, &k);
}

static struct raw_pkt uc(struct pair *p, uint8_t opcode, uint32_t dmalen, uint32_t len)
{
	return (struct raw_pkt){.opcode = opcode,
				.len = len,
				.va = (uintptr_t)p->b.buf + 0x8000,
				.rkey = p->b.mr->rkey,
				.dmalen = dmalen};
}

static bool got(struct side *s, uint64_t id, enum ibv_wc_status status, uint32_t len)
{
	struct ibv_wc wc;

	return ibv_poll_cq(s->cq, 1, &wc) == 1 && wc.wr_id == id && wc.status == status &&
	       (status || wc.byte_len == len);
}

static bool none(struct side *s)
{
	struct ibv_wc wc;

	return ibv_poll_cq(s->cq, 1, &wc) == 0;
}

/* ---- UC ---- */

static void test_uc_data(void)
{
	static const uint32_t lens[] = {0, 1, 1023, 1024, 1025, 2048, 5001};
	struct ibv_wc wc;
	struct pair p;

	pair_open(&p, &plain, IBV_QPT_UC);
	for (unsigned i = 0; i < 7; i++) {
		memset(p.a.buf, (int)i + 1, lens[i]);
		pair_recv(&p.b, i, 0x1000, 8192);
		CU_ASSERT_EQUAL(pair_post(&p.a, IBV_WR_SEND_WITH_IMM, i, 0, lens[i], &p.b, 0,
					  IBV_SEND_SIGNALED),
				0);
		CU_ASSERT(pair_wait(&p, p.b.cq, &wc) && wc.byte_len == lens[i] &&
			  wc.wc_flags & IBV_WC_WITH_IMM);
		CU_ASSERT(!memcmp(p.a.buf, p.b.buf + 0x1000, lens[i]));
		CU_ASSERT(ibv_poll_cq(p.a.cq, 1, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
		CU_ASSERT_EQUAL(pair_post(&p.a, IBV_WR_RDMA_WRITE, i, 0, lens[i], &p.b, 0x8000, 0),
				0);
		pair_settle(&p, 1000000);
		CU_ASSERT(!memcmp(p.a.buf, p.b.buf + 0x8000, lens[i]));
	}
	CU_ASSERT_EQUAL(pair_post(&p.a, IBV_WR_RDMA_READ, 1, 0, 8, &p.b, 0, 0), EINVAL);
	CU_ASSERT_EQUAL(pair_post(&p.a, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0, 8, &p.b, 0, 0), EINVAL);
	pair_close(&p);
}

/* A gap drops the message it is in; its receive is used for the next. */
static void test_uc_gap(void)
{
	struct pair p;

	pair_open(&p, &plain, IBV_QPT_UC);
	pair_meet(&p);
	pair_recv(&p.b, 1, 0, 4096);
	put(&p, PSN, uc(&p, UC(SEND_FIRST), 0, 1024));
	put(&p, PSN + 2, uc(&p, UC(SEND_LAST), 0, 4));
	CU_ASSERT(none(&p.b));
	put(&p, PSN + 3, uc(&p, UC(SEND_ONLY), 0, 12));
	CU_ASSERT(got(&p.b, 1, IBV_WC_SUCCESS, 12));
	/* One that begins after a gap is as good as any. */
	pair_recv(&p.b, 2, 0, 4096);
	put(&p, PSN + 100, uc(&p, UC(SEND_FIRST), 0, 1024));
	put(&p, PSN + 101, uc(&p, UC(SEND_LAST), 0, 4));
	CU_ASSERT(got(&p.b, 2, IBV_WC_SUCCESS, 1028));
	/* The same for WRITE; what is in place stays. */
	put(&p, PSN + 102, uc(&p, UC(WRITE_FIRST), 2048, 1024));
	put(&p, PSN + 104, uc(&p, UC(WRITE_LAST), 0, 1024));
	CU_ASSERT(p.b.buf[0x8000] == 0x5a && p.b.buf[0x8000 + 1024] == 0);
	CU_ASSERT_EQUAL(pair_state(p.b.qp), IBV_QPS_RTS);
	pair_close(&p);
}

/* A message that cannot be sent to its end stops the send queue alone, until it is told to go on.
 */
static void test_uc_send_error(void)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS};
	struct ibv_send_wr wr = {.wr_id = 1, .num_sge = 2, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct ibv_sge sge[2];
	struct ibv_wc wc;
	struct pair p;

	pair_open(&p, &plain, IBV_QPT_UC);
	pair_meet(&p);
	pair_recv(&p.a, 9, 0x1000, 100);
	pair_recv(&p.b, 2, 0x1000, 4096);
	sge[0] = (struct ibv_sge){(uintptr_t)p.a.buf, 1024, p.a.mr->lkey};
	sge[1] = (struct ibv_sge){(uintptr_t)p.a.buf, 1024, p.a.mr->lkey ^ 1};
	wr.sg_list = sge;
	wr.opcode = IBV_WR_SEND;
	CU_ASSERT_EQUAL(ibv_post_send(p.a.qp, &wr, &bad), 0);
	CU_ASSERT(got(&p.a, 1, IBV_WC_LOC_PROT_ERR, 0));
	CU_ASSERT_EQUAL(pair_state(p.a.qp), IBV_QPS_SQE);
	CU_ASSERT_EQUAL(pair_post(&p.a, IBV_WR_SEND, 3, 0, 8, &p.b, 0, 0), 0);
	CU_ASSERT(got(&p.a, 3, IBV_WC_WR_FLUSH_ERR, 0));
	raw_send(&p.b, &p.a, &(struct raw_pkt){.opcode = UC(SEND_ONLY), .psn = PSN, .len = 8});
	CU_ASSERT(got(&p.a, 9, IBV_WC_SUCCESS, 8));
	CU_ASSERT_EQUAL(ibv_modify_qp(p.a.qp, &attr, IBV_QP_STATE), 0);
	CU_ASSERT_EQUAL(pair_post(&p.a, IBV_WR_SEND, 4, 0, 1500, &p.b, 0, IBV_SEND_SIGNALED), 0);
	pair_settle(&p, 1000000);
	CU_ASSERT(ibv_poll_cq(p.a.cq, 1, &wc) == 1 && wc.wr_id == 4 && !wc.status);
	CU_ASSERT(got(&p.b, 2, IBV_WC_SUCCESS, 1500));
	pair_close(&p);
}

static void test_uc_drops(void)
{
	uint32_t psn = PSN;
	struct raw_pkt k;
	struct pair p;

	pair_open(&p, &plain, IBV_QPT_UC);
	pair_meet(&p);
	/* no receive */
	put(&p, psn++, uc(&p, UC(SEND_FIRST), 0, 1024));
	pair_recv(&p.b, 1, 0, 4096);
	put(&p, psn++, uc(&p, UC(SEND_LAST), 0, 4));
	/* out of nowhere, of wrong lengths */
	put(&p, psn++, uc(&p, UC(SEND_MIDDLE), 0, 1024));
	put(&p, psn++, uc(&p, UC(SEND_FIRST), 0, 1000));
	put(&p, psn++, uc(&p, UC(SEND_ONLY), 0, 1028));
	put(&p, psn++, uc(&p, UC(SEND_FIRST), 0, 1024));
	put(&p, psn++, uc(&p, UC(SEND_LAST), 0, 0));
	put(&p, psn++, uc(&p, UC(WRITE_ONLY), 8, 4));
	put(&p, psn++, uc(&p, UC(WRITE_FIRST), 1024, 1024));
	put(&p, psn++, uc(&p, UC(WRITE_FIRST), 0x80000001u, 1024));
	/* rights */
	k = uc(&p, UC(WRITE_ONLY), 8, 8);
	k.rkey ^= 1;
	put(&p, psn++, k);
	k = uc(&p, UC(WRITE_FIRST), 0x80000000u, 1024);
	k.va = (uint64_t)-1024;
	put(&p, psn++, k);
	CU_ASSERT(none(&p.b));
	CU_ASSERT_EQUAL(p.b.buf[0x8000], 0);
	CU_ASSERT_EQUAL(pair_state(p.b.qp), IBV_QPS_RTS);
	CU_ASSERT_EQUAL(pair_event(&p.b), -1);
	put(&p, psn++, uc(&p, UC(SEND_ONLY), 0, 5));
	CU_ASSERT(got(&p.b, 1, IBV_WC_SUCCESS, 5));
	pair_close(&p);
}

/* Of a SRQ, too, the receive of a message that was lost is the next one's. */
static void test_uc_srq(void)
{
	struct ibv_srq_init_attr sa = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_qp_init_attr ia = {.cap = {.max_send_wr = 1, .max_send_sge = 1},
				      .qp_type = IBV_QPT_UC};
	struct ibv_recv_wr wr = {.num_sge = 1}, *bad;
	struct ibv_sge sge;
	struct pair p;

	pair_open(&p, &plain, IBV_QPT_UC);
	ia.send_cq = ia.recv_cq = p.b.cq;
	ia.srq = ibv_create_srq(p.b.pd, &sa);
	ibv_destroy_qp(p.b.qp);
	p.b.qp = ibv_create_qp(p.b.pd, &ia);
	CU_ASSERT_FATAL(p.b.qp != NULL);
	pair_modify(p.a.qp, IBV_QPS_RESET);
	pair_connect(&p, &p.a, p.a.qp, &p.b, p.b.qp, &plain);
	pair_meet(&p);
	sge = (struct ibv_sge){(uintptr_t)p.b.buf, 4096, p.b.mr->lkey};
	wr.sg_list = &sge;
	for (wr.wr_id = 1; wr.wr_id <= 2; wr.wr_id++)
		CU_ASSERT_EQUAL(ibv_post_srq_recv(ia.srq, &wr, &bad), 0);
	put(&p, PSN, uc(&p, UC(SEND_FIRST), 0, 1024));
	put(&p, PSN + 2, uc(&p, UC(SEND_ONLY), 0, 5));
	CU_ASSERT(got(&p.b, 1, IBV_WC_SUCCESS, 5));
	put(&p, PSN + 3, uc(&p, UC(SEND_ONLY), 0, 6));
	CU_ASSERT(got(&p.b, 2, IBV_WC_SUCCESS, 6));
	ibv_destroy_qp(p.b.qp);
	p.b.qp = NULL;
	CU_ASSERT_EQUAL(ibv_destroy_srq(ia.srq), 0);
	pair_close(&p);
}

static void test_uc_recv_errors(void)
{
	struct pair p;

	pair_open(&p, &plain, IBV_QPT_UC);
	pair_meet(&p);
	pair_recv(&p.b, 1, 0, 10);
	put(&p, PSN, uc(&p, UC(SEND_ONLY), 0, 12));
	CU_ASSERT(got(&p.b, 1, IBV_WC_LOC_LEN_ERR, 0));
	CU_ASSERT_EQUAL(pair_state(p.b.qp), IBV_QPS_ERR);
	pair_close(&p);
}

/* ---- UD ---- */

static struct ibv_ah *ah_to(struct side *from, struct side *to)
{
	struct ibv_ah_attr attr = pair_path(from, to);
	struct ibv_ah *ah = ibv_create_ah(from->pd, &attr);

	CU_ASSERT_PTR_NOT_NULL_FATAL(ah);
	return ah;
}

static int ud_post(struct side *s, struct ibv_ah *ah, struct side *to, uint64_t id, uint32_t len,
		   uint32_t qkey, uint32_t lkey)
{
	struct ibv_sge sge = {(uintptr_t)s->buf, len, lkey};
	struct ibv_send_wr wr = {.wr_id = id,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND_WITH_IMM,
				 .send_flags = IBV_SEND_SIGNALED,
				 .imm_data = htobe32(7)},
			   *bad;

	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = to->qp->qp_num;
	wr.wr.ud.remote_qkey = qkey;
	return ibv_post_send(s->qp, &wr, &bad);
}

#define QKEY 0x11111111

static void test_ud_data(void)
{
	static const uint32_t lens[] = {0, 1, 2, 3, 4, 1023, 1024};
	struct ibv_wc wc;
	struct ibv_ah *ah;
	struct pair p;

	for (int v6 = 0; v6 < 2; v6++) {
		struct pair_params pp = plain;
		struct urxe_gid_entry ga, gb;

		pp.v6 = v6;
		pair_open(&p, &pp, IBV_QPT_UD);
		urxe_port_gid(p.a.dev->port, 0, &ga);
		urxe_port_gid(p.b.dev->port, 0, &gb);
		ah = ah_to(&p.a, &p.b);
		for (unsigned i = 0; i < 7; i++) {
			uint8_t *grh = p.b.buf + 0x1000;

			memset(p.a.buf, (int)i + 1, 1024);
			memset(grh, 0xee, 2048);
			pair_recv(&p.b, i, 0x1000, 40 + lens[i]);
			CU_ASSERT_EQUAL(ud_post(&p.a, ah, &p.b, i, lens[i], QKEY, p.a.mr->lkey), 0);
			CU_ASSERT(pair_wait(&p, p.b.cq, &wc));
			CU_ASSERT(wc.status == IBV_WC_SUCCESS && wc.byte_len == 40 + lens[i] &&
				  wc.src_qp == p.a.qp->qp_num &&
				  wc.wc_flags == (IBV_WC_GRH | IBV_WC_WITH_IMM) &&
				  wc.imm_data == htobe32(7));
			/* As UCX expects it: 2 in the lower three bits is IPv4. */
			CU_ASSERT_EQUAL(wc.sl, v6 ? 0x9 : 0xa);
			CU_ASSERT(!memcmp(grh + 40, p.a.buf, lens[i]));
			CU_ASSERT_EQUAL(grh[40 + lens[i]], 0xee);
			if (v6) {
				CU_ASSERT_EQUAL(grh[0] >> 4, 6);
				CU_ASSERT(!memcmp(grh + 8, ga.gid, 16));
				CU_ASSERT(!memcmp(grh + 24, gb.gid, 16));
			} else {
				CU_ASSERT_EQUAL(grh[20], 0x45);
				CU_ASSERT(!memcmp(grh + 32, ga.gid + 12, 4));
				CU_ASSERT(!memcmp(grh + 36, gb.gid + 12, 4));
			}
		}
		CU_ASSERT_EQUAL(ibv_destroy_ah(ah), 0);
		pair_close(&p);
	}
}

static void test_ud_drops(void)
{
	struct raw_pkt k = {.opcode = UD(SEND_ONLY), .qkey = QKEY, .sqpn = 0x777, .len = 100};
	struct pair p;

	pair_open(&p, &plain, IBV_QPT_UD);
	pair_meet(&p);
	/* no receive; one too short by a byte, which stays; another key */
	put(&p, 1, k);
	CU_ASSERT_EQUAL(pair_stat(&p.b, URXE_STAT_RX_UD_NO_RECV), 1);
	pair_recv(&p.b, 1, 0x1000, 139);
	put(&p, 2, k);
	CU_ASSERT_EQUAL(pair_stat(&p.b, URXE_STAT_RX_UD_TOO_LONG), 1);
	CU_ASSERT_EQUAL(p.b.buf[0x1000 + 40], 0);
	k.qkey ^= 1;
	put(&p, 3, k);
	CU_ASSERT_EQUAL(pair_stat(&p.b, URXE_STAT_RX_BAD_QKEY), 1);
	CU_ASSERT(none(&p.b));
	CU_ASSERT_EQUAL(pair_state(p.b.qp), IBV_QPS_RTS);
	k.qkey ^= 1;
	k.len = 99;
	put(&p, 9, k);
	CU_ASSERT(got(&p.b, 1, IBV_WC_SUCCESS, 139));
	/* RC's and UC's packets are not for it. */
	pair_recv(&p.b, 2, 0, 4096);
	k.opcode = RC(SEND_ONLY);
	put(&p, 10, k);
	k.opcode = UC(SEND_ONLY);
	put(&p, 10, k);
	CU_ASSERT(none(&p.b));
	CU_ASSERT_EQUAL(pair_stat(&p.b, URXE_STAT_RX_WRONG_TYPE), 2);
	pair_close(&p);
}

/* How often @what is in what is logged while @n datagrams of 100 bytes come. */
static unsigned logged(struct pair *p, uint32_t psn, unsigned n, const char *what)
{
	const struct raw_pkt k = {.opcode = UD(SEND_ONLY), .qkey = QKEY, .sqpn = 0x777, .len = 100};
	struct log_kept log;
	char text[4096];
	unsigned found = 0;

	log_keep(&log);
	while (n--)
		put(p, psn++, k);
	log_kept(&log, text, sizeof(text));
	for (const char *s = text; (s = strstr(s, what)); s++)
		found++;
	return found;
}

/* The receiver would look for its datagrams for long: it is told why they are lost, once a QP. */
static void test_ud_too_long(void)
{
	struct pair p;

	pair_open(&p, &plain, IBV_QPT_UD);
	pair_meet(&p);
	CU_ASSERT_EQUAL(logged(&p, 1, 3, "loses datagrams"), 0); /* there is no receive at all */
	pair_recv(&p.b, 1, 0x1000, 139);
	CU_ASSERT_EQUAL(logged(&p, 4, 3, "loses datagrams"), 1);
	CU_ASSERT_EQUAL(logged(&p, 7, 3, "loses datagrams"), 0);
	CU_ASSERT_EQUAL(pair_stat(&p.b, URXE_STAT_RX_UD_TOO_LONG), 6);
	pair_close(&p);
}

static void test_ud_send_errors(void)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS};
	struct ibv_ah *ah;
	struct ibv_pd *pd;
	struct pair p;

	pair_open(&p, &plain, IBV_QPT_UD);
	pair_meet(&p);
	ah = ah_to(&p.a, &p.b);
	CU_ASSERT_EQUAL(ud_post(&p.a, NULL, &p.b, 1, 8, QKEY, p.a.mr->lkey), EINVAL);
	CU_ASSERT_EQUAL(ud_post(&p.a, ah, &p.b, 1, 4097, QKEY, p.a.mr->lkey), EINVAL);
	pd = p.a.pd;
	p.a.pd = ibv_alloc_pd(p.a.ctx);
	ibv_destroy_ah(ah);
	ah = ah_to(&p.a, &p.b);
	CU_ASSERT_EQUAL(ud_post(&p.a, ah, &p.b, 1, 8, QKEY, p.a.mr->lkey), EINVAL);
	ibv_destroy_ah(ah);
	CU_ASSERT_EQUAL(ibv_dealloc_pd(p.a.pd), 0);
	p.a.pd = pd;
	ah = ah_to(&p.a, &p.b);
	/* A bad lkey: the send queue alone stops, until it is told to go on. */
	pair_recv(&p.a, 9, 0x1000, 100);
	CU_ASSERT_EQUAL(ud_post(&p.a, ah, &p.b, 1, 8, QKEY, p.a.mr->lkey ^ 1), 0);
	CU_ASSERT(got(&p.a, 1, IBV_WC_LOC_PROT_ERR, 0));
	CU_ASSERT_EQUAL(pair_state(p.a.qp), IBV_QPS_SQE);
	CU_ASSERT_EQUAL(ud_post(&p.a, ah, &p.b, 2, 8, QKEY, p.a.mr->lkey), 0);
	CU_ASSERT(got(&p.a, 2, IBV_WC_WR_FLUSH_ERR, 0));
	raw_send(&p.b, &p.a, &(struct raw_pkt){.opcode = UD(SEND_ONLY), .qkey = QKEY, .len = 8});
	CU_ASSERT(got(&p.a, 9, IBV_WC_SUCCESS, 48));
	CU_ASSERT_EQUAL(ibv_modify_qp(p.a.qp, &attr, IBV_QP_STATE), 0);
	pair_recv(&p.b, 3, 0x1000, 100);
	CU_ASSERT_EQUAL(ud_post(&p.a, ah, &p.b, 3, 8, QKEY, p.a.mr->lkey), 0);
	pair_settle(&p, 1000000);
	{
		struct ibv_wc wc;

		CU_ASSERT(ibv_poll_cq(p.a.cq, 1, &wc) == 1 && wc.wr_id == 3 && !wc.status);
	}
	CU_ASSERT(got(&p.b, 3, IBV_WC_SUCCESS, 48));
	/* The high bit asks for the QP's own key (IBTA 10.2.5). */
	pair_recv(&p.b, 4, 0x1000, 100);
	CU_ASSERT_EQUAL(ud_post(&p.a, ah, &p.b, 4, 8, 0x80000000u, p.a.mr->lkey), 0);
	pair_settle(&p, 1000000);
	CU_ASSERT(got(&p.b, 4, IBV_WC_SUCCESS, 48));
	/* An AH may go before what was posted with it does. */
	CU_ASSERT_EQUAL(ibv_destroy_ah(ah), 0);
	pair_close(&p);
}

/* Who posts, and goes at once: what could not be sent in the call is sent before the QP is gone. */
static void test_ud_goes(void)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
	struct urxe_lane *lane;
	struct ibv_ah *ah;
	struct pair p;

	pair_open(&p, &plain, IBV_QPT_UD);
	pair_meet(&p);
	ah = ah_to(&p.a, &p.b);
	lane = urxe_port_lane(p.a.dev->port, 0);
	pair_recv(&p.b, 1, 0x1000, 100);
	urxe_lane_lock(lane); /* as another thread may have it */
	CU_ASSERT_EQUAL(ud_post(&p.a, ah, &p.b, 1, 8, QKEY, p.a.mr->lkey), 0);
	urxe_lane_unlock(lane);
	CU_ASSERT_EQUAL(ibv_modify_qp(p.a.qp, &attr, IBV_QP_STATE), 0);
	pair_settle(&p, 1000000);
	CU_ASSERT(got(&p.b, 1, IBV_WC_SUCCESS, 48));
	ibv_destroy_ah(ah);
	pair_close(&p);
}

/* Nobody answers at the address: complete all the same, and the next is not held up for long. */
static void test_ud_unreachable(void)
{
	struct ibv_ah_attr attr;
	struct ibv_ah *ah;
	struct ibv_wc wc;
	struct pair p;

	pair_open(&p, &plain, IBV_QPT_UD);
	attr = pair_path(&p.a, &p.b);
	attr.grh.dgid.raw[15] = 99;
	ah = ibv_create_ah(p.a.pd, &attr);
	CU_ASSERT_EQUAL(ud_post(&p.a, ah, &p.b, 1, 8, QKEY, p.a.mr->lkey), 0);
	CU_ASSERT_EQUAL(ibv_destroy_ah(ah), 0);
	CU_ASSERT(pair_wait(&p, p.a.cq, &wc) && wc.status == IBV_WC_SUCCESS);
	CU_ASSERT_EQUAL(pair_stat(&p.a, URXE_STAT_TX_UNREACHABLE), 1);
	/* Destroyed with one waiting: its AH goes with it. */
	attr.grh.dgid.raw[15] = 98;
	ah = ibv_create_ah(p.a.pd, &attr);
	CU_ASSERT_EQUAL(ud_post(&p.a, ah, &p.b, 2, 8, QKEY, p.a.mr->lkey), 0);
	CU_ASSERT_EQUAL(ibv_destroy_ah(ah), 0);
	pair_close(&p);
}

/* The link comes later than a datagram would wait for its neighbour alone. */
static void test_ud_late_link(void)
{
	struct ibv_ah_attr attr;
	struct ibv_sge sge;
	struct ibv_send_wr wr = {.wr_id = 5,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	struct pair p;

	pair_open(&p, &plain, IBV_QPT_UD);
	attr = pair_path(&p.a, &p.b);
	sge = (struct ibv_sge){(uintptr_t)p.a.buf, 8, p.a.mr->lkey};
	wr.wr.ud.ah = ibv_create_ah(p.a.pd, &attr);
	wr.wr.ud.remote_qpn = p.b.qp->qp_num;
	wr.wr.ud.remote_qkey = 0x11111111;
	pair_recv(&p.b, 1, 0, 4096);
	urxe_sim_end_up(p.a.end, false);
	CU_ASSERT_EQUAL(ibv_post_send(p.a.qp, &wr, &bad), 0);
	pair_settle(&p, URXE_UD_PATIENCE + 500000000);
	CU_ASSERT(none(&p.a));
	urxe_sim_end_up(p.a.end, true);
	pair_settle(&p, 1000000000);
	CU_ASSERT(got(&p.a, 5, IBV_WC_SUCCESS, 0));
	CU_ASSERT(got(&p.b, 1, IBV_WC_SUCCESS, 48));
	ibv_destroy_ah(wr.wr.ud.ah);
	pair_close(&p);
}

URXE_TEST_MAIN("uc_ud", T(test_uc_data), T(test_uc_gap), T(test_uc_send_error), T(test_uc_drops),
	       T(test_uc_srq), T(test_uc_recv_errors), T(test_ud_data), T(test_ud_drops),
	       T(test_ud_too_long), T(test_ud_send_errors), T(test_ud_goes), T(test_ud_unreachable),
	       T(test_ud_late_link))
