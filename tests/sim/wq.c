/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Receive work queues, their states and ends; frames spread over a table of them by their hash.
 */
#include <errno.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "harness.h"
#include "pair.h"
#include "wq.h"

#define QUEUES 4
#define FRAME  64

/* The key and one packet of the verification suite that came with RSS. */
static const uint8_t key[40] = {0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67,
				0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb,
				0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
				0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa};

static void test_hash(void)
{
	static const uint8_t in[] = {66,  9,  149,	 187,	     161,	142,
				     100, 80, 2794 >> 8, 2794 & 255, 1766 >> 8, 1766 & 255};

	CU_ASSERT_EQUAL(urxe_rss_hash(key, in, 8), 0x323e8fc2);
	CU_ASSERT_EQUAL(urxe_rss_hash(key, in, 12), 0x51ccc178);
	CU_ASSERT_EQUAL(urxe_rss_hash(key, in, 0), 0);
}

struct rig {
	struct pair p;
	struct ibv_wq *wq[QUEUES];
	struct ibv_rwq_ind_table *table;
	struct ibv_qp *tx, *rss;
};

static bool may_send_raw(void)
{
	struct __user_cap_header_struct hdr = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {{0}};

	return !syscall(SYS_capget, &hdr, data) && data[0].effective & 1u << CAP_NET_RAW;
}

static struct ibv_wq *make_wq(struct pair *p, uint32_t max_wr)
{
	struct ibv_wq_init_attr a = {.wq_type = IBV_WQT_RQ,
				     .max_wr = max_wr,
				     .max_sge = 1,
				     .pd = p->b.pd,
				     .cq = p->b.cq};

	return ibv_create_wq(p->b.ctx, &a);
}

static int to_state(struct ibv_wq *wq, enum ibv_wq_state state)
{
	struct ibv_wq_attr a = {.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = state};

	return ibv_modify_wq(wq, &a);
}

static int post(struct rig *r, struct ibv_wq *wq, uint64_t id, uint32_t len, uint32_t lkey)
{
	struct ibv_sge sge = {(uintptr_t)r->p.b.buf + id * 128, len, lkey};
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;

	return ibv_post_wq_recv(wq, &wr, &bad);
}

static struct ibv_qp *rss_qp(struct rig *r, uint64_t fields, uint8_t key_len)
{
	struct ibv_qp_init_attr_ex a = {
		.qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask =
			IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_RX_HASH | IBV_QP_INIT_ATTR_IND_TABLE,
		.pd = r->p.b.pd,
		.rwq_ind_tbl = r->table,
		.rx_hash_conf = {IBV_RX_HASH_FUNC_TOEPLITZ, key_len, (uint8_t *)(uintptr_t)key,
				 fields},
	};

	return ibv_create_qp_ex(r->p.b.ctx, &a);
}

static void rig_open(struct rig *r)
{
	struct pair_params pp = {.seed = 9, .link = {.latency = 5000}};
	struct ibv_rwq_ind_table_init_attr ta = {.log_ind_tbl_size = 2, .ind_tbl = r->wq};
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1};

	memset(r, 0, sizeof(*r));
	pair_open(&r->p, &pp, IBV_QPT_RC);
	for (unsigned i = 0; i < QUEUES; i++) {
		r->wq[i] = make_wq(&r->p, 16);
		CU_ASSERT_FATAL(r->wq[i] != NULL);
		CU_ASSERT_EQUAL(to_state(r->wq[i], IBV_WQS_RDY), 0);
	}
	r->table = ibv_create_rwq_ind_table(r->p.b.ctx, &ta);
	CU_ASSERT_FATAL(r->table != NULL);
	r->tx = pair_qp(&r->p.a, &pp, IBV_QPT_RAW_PACKET);
	ibv_modify_qp(r->tx, &a, IBV_QP_STATE | IBV_QP_PORT);
	a.qp_state = IBV_QPS_RTR;
	ibv_modify_qp(r->tx, &a, IBV_QP_STATE);
	a.qp_state = IBV_QPS_RTS;
	CU_ASSERT_EQUAL(ibv_modify_qp(r->tx, &a, IBV_QP_STATE), 0);
}

static void rig_close(struct rig *r)
{
	CU_ASSERT_EQUAL(ibv_destroy_qp(r->tx), 0);
	CU_ASSERT_EQUAL(ibv_destroy_rwq_ind_table(r->table), 0);
	for (unsigned i = 0; i < QUEUES; i++)
		CU_ASSERT_EQUAL(ibv_destroy_wq(r->wq[i]), 0);
	pair_close(&r->p);
}

static void send_udp(struct rig *r, uint8_t last, uint16_t sport)
{
	struct urxe_port_info info;
	uint8_t *f = r->p.a.buf;
	struct ibv_sge sge = {(uintptr_t)f, FRAME, r->p.a.mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	struct ibv_wc wc;

	urxe_port_query(r->p.b.dev->port, &info);
	memset(f, 0, FRAME);
	memcpy(f, info.mac, 6);
	f[6] = 2;
	urxe_put16(f + 12, 0x0800);
	f[14] = 0x45;
	urxe_put16(f + 16, FRAME - 14);
	f[22] = 64;
	f[23] = 17;
	memcpy(f + 26, "\x0a\x00\x00\x07\x0a\x00\x00\x02", 8);
	f[29] = last;
	urxe_put16(f + 34, sport);
	urxe_put16(f + 36, 7777);
	urxe_put16(f + 38, FRAME - 34);
	CU_ASSERT_EQUAL(ibv_post_send(r->tx, &wr, &bad), 0);
	CU_ASSERT(pair_wait(&r->p, r->p.a.cq, &wc) && wc.status == IBV_WC_SUCCESS);
	pair_settle(&r->p, 100000);
}

static struct ibv_flow *rule(struct rig *r)
{
	struct {
		struct ibv_flow_attr attr;
		struct ibv_flow_spec_tcp_udp udp;
	} f = {
		.attr = {.type = IBV_FLOW_ATTR_NORMAL,
			 .size = sizeof(f),
			 .num_of_specs = 1,
			 .port = 1},
		.udp = {.type = IBV_FLOW_SPEC_UDP,
			.size = sizeof(f.udp),
			.val = {.dst_port = htobe16(7777)},
			.mask = {.dst_port = 0xffff}},
	};

	return ibv_create_flow(r->rss, &f.attr);
}

static void test_spread(void)
{
	unsigned got[QUEUES] = {0}, used = 0;
	struct ibv_flow *flow;
	struct ibv_wc wc;
	struct rig r;

	rig_open(&r);
	r.rss = rss_qp(&r, IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_SRC_PORT_UDP, 40);
	CU_ASSERT_FATAL(r.rss != NULL);
	flow = rule(&r);
	CU_ASSERT_FATAL(flow != NULL);
	for (unsigned i = 0; i < QUEUES * 16; i++)
		CU_ASSERT_EQUAL(post(&r, r.wq[i / 16], i, 128, r.p.b.mr->lkey), 0);
	for (unsigned i = 0; i < 16; i++) {
		uint8_t in[6] = {10, 0, 0, (uint8_t)i, 5, 0};
		uint32_t want = urxe_rss_hash(key, in, 6) % QUEUES;

		send_udp(&r, (uint8_t)i, 0x500);
		CU_ASSERT_FATAL(ibv_poll_cq(r.p.b.cq, 1, &wc) == 1);
		CU_ASSERT(wc.status == IBV_WC_SUCCESS && wc.byte_len == FRAME);
		CU_ASSERT_EQUAL(wc.qp_num, r.wq[want]->wq_num);
		CU_ASSERT_EQUAL(wc.wr_id, want * 16 + got[want]);
		CU_ASSERT_EQUAL(r.p.b.buf[wc.wr_id * 128 + 29], i);
		used += !got[want]++;
	}
	CU_ASSERT(used > 1);
	/* What is in use stays. */
	CU_ASSERT_EQUAL(ibv_destroy_rwq_ind_table(r.table), EBUSY);
	CU_ASSERT_EQUAL(ibv_destroy_wq(r.wq[0]), EBUSY);
	CU_ASSERT_EQUAL(ibv_destroy_flow(flow), 0);
	CU_ASSERT_EQUAL(ibv_destroy_qp(r.rss), 0);
	rig_close(&r);
}

/* Too short or no buffer: lost. A bad one: the queue is dead, tells so, and gives back the rest. */
static void test_bad_buffers(void)
{
	struct ibv_flow *flow;
	struct ibv_wc wc;
	struct rig r;

	rig_open(&r);
	r.rss = rss_qp(&r, 0, 40); /* of nothing: all to the first */
	flow = rule(&r);
	CU_ASSERT_FATAL(r.rss && flow);
	send_udp(&r, 1, 1);
	CU_ASSERT_EQUAL(post(&r, r.wq[0], 1, FRAME - 1, r.p.b.mr->lkey), 0);
	send_udp(&r, 1, 1);
	CU_ASSERT_EQUAL(ibv_poll_cq(r.p.b.cq, 1, &wc), 0);
	CU_ASSERT_EQUAL(to_state(r.wq[0], IBV_WQS_RESET), 0);
	CU_ASSERT_EQUAL(post(&r, r.wq[0], 1, 128, r.p.b.mr->lkey), EINVAL);
	send_udp(&r, 1, 1);
	CU_ASSERT_EQUAL(to_state(r.wq[0], IBV_WQS_RDY), 0);
	CU_ASSERT_EQUAL(post(&r, r.wq[0], 2, 128, 0), 0);
	CU_ASSERT_EQUAL(post(&r, r.wq[0], 3, 128, r.p.b.mr->lkey), 0);
	send_udp(&r, 1, 1);
	CU_ASSERT(ibv_poll_cq(r.p.b.cq, 1, &wc) == 1 && wc.wr_id == 2 &&
		  wc.status == IBV_WC_LOC_PROT_ERR);
	CU_ASSERT(ibv_poll_cq(r.p.b.cq, 1, &wc) == 1 && wc.wr_id == 3 &&
		  wc.status == IBV_WC_WR_FLUSH_ERR);
	CU_ASSERT_EQUAL(pair_event(&r.p.b), IBV_EVENT_WQ_FATAL);
	CU_ASSERT_EQUAL(post(&r, r.wq[0], 4, 128, r.p.b.mr->lkey), 0);
	CU_ASSERT(ibv_poll_cq(r.p.b.cq, 1, &wc) == 1 && wc.wr_id == 4 &&
		  wc.status == IBV_WC_WR_FLUSH_ERR);
	CU_ASSERT_EQUAL(to_state(r.wq[0], IBV_WQS_RDY), EINVAL);
	CU_ASSERT_EQUAL(to_state(r.wq[0], IBV_WQS_RESET), 0);
	ibv_destroy_flow(flow);
	ibv_destroy_qp(r.rss);
	rig_close(&r);
}

static void test_refused(void)
{
	struct ibv_rwq_ind_table_init_attr ta = {.log_ind_tbl_size = 12};
	struct ibv_wq_attr wa = {.attr_mask = IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_CURR_STATE,
				 .wq_state = IBV_WQS_ERR,
				 .curr_wq_state = IBV_WQS_RESET};
	struct rig r;

	rig_open(&r);
	errno = 0;
	CU_ASSERT_PTR_NULL(make_wq(&r.p, 0));
	CU_ASSERT_EQUAL(errno, EINVAL);
	CU_ASSERT_PTR_NULL(make_wq(&r.p, URXE_MAX_QP_WR + 1));
	CU_ASSERT_EQUAL(ibv_modify_wq(r.wq[0], &wa), EINVAL);
	wa.attr_mask = IBV_WQ_ATTR_FLAGS;
	CU_ASSERT_EQUAL(ibv_modify_wq(r.wq[0], &wa), EOPNOTSUPP);
	ta.ind_tbl = r.wq;
	CU_ASSERT_PTR_NULL(ibv_create_rwq_ind_table(r.p.b.ctx, &ta));
	CU_ASSERT_EQUAL(errno, EINVAL);
	CU_ASSERT_PTR_NULL(rss_qp(&r, 0, 39));
	CU_ASSERT_EQUAL(errno, EINVAL);
	CU_ASSERT_PTR_NULL(rss_qp(&r, IBV_RX_HASH_IPSEC_SPI, 40));
	CU_ASSERT_EQUAL(errno, EOPNOTSUPP);
	rig_close(&r);
}

int main(int argc, char **argv)
{
	static const struct urxe_test tests[] = {
		T(test_hash), T(test_spread), T(test_bad_buffers), T(test_refused), {NULL, NULL}};

	if (!may_send_raw())
		return 77;
	return urxe_harness_main(argc, argv, "wq", tests);
}
