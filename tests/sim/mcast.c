/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Multicast of UD QPs: members get one copy each, loopback included; limits and errors of
 * attach and detach; packets that only look like multicast reach nobody.
 */
#include <errno.h>
#include <string.h>

#include "harness.h"
#include "netio/stack.h"
#include "pair.h"

#define QKEY 0x11111111

static const struct pair_params params = {.seed = 3, .link = {.latency = 5000}};
static const struct pair_params params6 = {.seed = 3, .link = {.latency = 5000}, .v6 = true};

static union ibv_gid group(bool v6, unsigned i)
{
	union ibv_gid g = {.raw = {[10] = 0xff, [11] = 0xff, 239, 1}};

	if (v6)
		g = (union ibv_gid){.raw = {0xff, 0x0e}};
	g.raw[14] = (uint8_t)(i >> 8);
	g.raw[15] = (uint8_t)i;
	return g;
}

static struct ibv_ah *group_ah(struct side *s, const union ibv_gid *g)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};

	attr.grh.dgid = *g;
	attr.grh.hop_limit = 4;
	return ibv_create_ah(s->pd, &attr);
}

static int send_to(struct side *s, struct ibv_qp *qp, struct ibv_ah *ah, uint32_t qpn, uint32_t len)
{
	struct ibv_sge sge = {(uintptr_t)s->buf, len, s->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 77,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = qpn;
	wr.wr.ud.remote_qkey = QKEY;
	return ibv_post_send(qp, &wr, &bad);
}

static void post_recv(struct side *s, struct ibv_qp *qp, uint64_t id, uint32_t off)
{
	struct ibv_sge sge = {(uintptr_t)s->buf + off, 4096, s->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;

	CU_ASSERT_EQUAL(ibv_post_recv(qp, &wr, &bad), 0);
}

static void copies(const struct pair_params *pp)
{
	union ibv_gid g = group(pp->v6, 1), other = group(pp->v6, 2);
	struct ibv_qp *qps[4];
	struct ibv_ah *ah;
	unsigned got = 0;
	struct ibv_wc wc;
	struct pair p;

	pair_open(&p, pp, IBV_QPT_UD);
	for (unsigned i = 0; i < 4; i++)
		qps[i] = pair_qp(&p.b, pp, IBV_QPT_UD);
	pair_connect(&p, &p.b, qps[0], &p.b, qps[1], pp);
	pair_connect(&p, &p.b, qps[2], &p.b, qps[3], pp);
	for (unsigned i = 0; i < 3; i++) {
		CU_ASSERT_EQUAL(ibv_attach_mcast(qps[i], i < 2 ? &g : &other, 0), 0);
		post_recv(&p.b, qps[i], i, 0x10000 * (i + 1));
		post_recv(&p.b, qps[i], i, 0x10000 * (i + 1));
	}
	CU_ASSERT_EQUAL(ibv_attach_mcast(p.a.qp, &g, 0), 0);
	post_recv(&p.a, p.a.qp, 9, 0x10000);
	pair_settle(&p, 1000000000);
	ah = group_ah(&p.a, &g);
	CU_ASSERT_FATAL(ah != NULL);
	memset(p.a.buf, 0x5a, 100);
	CU_ASSERT_EQUAL(send_to(&p.a, p.a.qp, ah, 0xffffff, 100), 0);
	pair_settle(&p, 1000000);
	while (ibv_poll_cq(p.b.cq, 1, &wc) == 1) {
		const uint8_t *buf = p.b.buf + 0x10000 * (wc.wr_id + 1);

		CU_ASSERT_EQUAL(wc.status, IBV_WC_SUCCESS);
		CU_ASSERT_EQUAL(wc.byte_len, 140);
		CU_ASSERT_EQUAL(wc.src_qp, p.a.qp->qp_num);
		CU_ASSERT(wc.wc_flags & IBV_WC_GRH);
		CU_ASSERT_EQUAL(buf[40], 0x5a);
		CU_ASSERT_EQUAL(buf[139], 0x5a);
		CU_ASSERT_EQUAL(memcmp(buf + (pp->v6 ? 24 : 36), g.raw + (pp->v6 ? 0 : 12),
				       pp->v6 ? 16 : 4),
				0);
		got |= got & 1u << wc.wr_id ? 0x100 : 1u << wc.wr_id;
	}
	CU_ASSERT_EQUAL(got, 3); /* both members once, the other group's not */
	/* The sender is a member as well: its own copy, and the completion of the send. */
	got = 0;
	while (ibv_poll_cq(p.a.cq, 1, &wc) == 1)
		got += wc.wr_id == 77				   ? 1
		       : wc.opcode == IBV_WC_RECV && wc.wr_id == 9 ? 0x10
								   : 0x100;
	CU_ASSERT_EQUAL(got, 0x11);

	/* Who has left gets nothing more. */
	CU_ASSERT_EQUAL(ibv_detach_mcast(qps[0], &g, 0), 0);
	CU_ASSERT_EQUAL(send_to(&p.a, p.a.qp, ah, 0xffffff, 100), 0);
	pair_settle(&p, 1000000);
	CU_ASSERT_EQUAL(ibv_poll_cq(p.b.cq, 1, &wc), 1);
	CU_ASSERT_EQUAL(wc.wr_id, 1);
	CU_ASSERT_EQUAL(ibv_poll_cq(p.b.cq, 1, &wc), 0);

	CU_ASSERT_EQUAL(ibv_destroy_qp(qps[1]), EBUSY);
	CU_ASSERT_EQUAL(ibv_detach_mcast(qps[1], &g, 0), 0);
	CU_ASSERT_EQUAL(ibv_detach_mcast(qps[2], &other, 0), 0);
	CU_ASSERT_EQUAL(ibv_detach_mcast(p.a.qp, &g, 0), 0);
	for (unsigned i = 0; i < 4; i++)
		CU_ASSERT_EQUAL(ibv_destroy_qp(qps[i]), 0);
	ibv_destroy_ah(ah);
	pair_close(&p);
}

static void test_copies(void)
{
	copies(&params);
	copies(&params6);
}

static void test_rules(void)
{
	union ibv_gid g = group(false, 1), uni = {.raw = {[10] = 0xff, [11] = 0xff, 10, 0, 0, 9}};
	struct ibv_device_attr attr;
	struct ibv_qp *rc;
	unsigned n = 0;
	struct pair p;

	pair_open(&p, &params, IBV_QPT_UD);
	rc = pair_qp(&p.a, &params, IBV_QPT_RC);
	CU_ASSERT_EQUAL(ibv_attach_mcast(rc, &g, 0), EINVAL);
	CU_ASSERT_EQUAL(ibv_attach_mcast(p.a.qp, &uni, 0), EINVAL);
	CU_ASSERT_EQUAL(ibv_detach_mcast(p.a.qp, &g, 0), EINVAL);
	CU_ASSERT_EQUAL(ibv_attach_mcast(p.a.qp, &g, 0), 0);
	CU_ASSERT_EQUAL(ibv_attach_mcast(p.a.qp, &g, 0), 0); /* again is fine, and ends once */
	CU_ASSERT_EQUAL(ibv_detach_mcast(p.a.qp, &g, 0), 0);
	CU_ASSERT_EQUAL(ibv_detach_mcast(p.a.qp, &g, 0), EINVAL);

	/* The advertised number of groups, twice over. */
	CU_ASSERT_EQUAL(ibv_query_device(p.a.ctx, &attr), 0);
	CU_ASSERT(attr.max_mcast_grp >= 256);
	for (int round = 0; round < 2; round++) {
		for (n = 0; n < 65535; n++) {
			g = group(false, (unsigned)round * 1000 + n);
			if (ibv_attach_mcast(p.a.qp, &g, 0))
				break;
		}
		CU_ASSERT_EQUAL(n, (unsigned)attr.max_mcast_grp);
		while (n--) {
			g = group(false, (unsigned)round * 1000 + n);
			CU_ASSERT_EQUAL(ibv_detach_mcast(p.a.qp, &g, 0), 0);
		}
	}
	ibv_destroy_qp(rc);
	pair_close(&p);
}

/* ---- frames that only look like multicast ---- */

struct tap {
	uint8_t frame[2048];
	uint32_t len;
};

static void keep(void *arg, struct urxe_sim_end *from, const uint8_t *data, uint32_t len,
		 uint64_t now)
{
	struct tap *t = arg;

	if (len > 60 && data[12] == 0x08 && data[13] == 0x00 && data[23] == 17) {
		memcpy(t->frame, data, len);
		t->len = len;
	}
}

static void inject(struct pair *p, const struct tap *t, uint32_t roce_len)
{
	uint8_t f[2048];

	memcpy(f, t->frame, sizeof(f));
	urxe_put16(f + 16, (uint16_t)(28 + roce_len + 4));
	urxe_put16(f + 38, (uint16_t)(8 + roce_len + 4));
	urxe_put16(f + 24, 0);
	urxe_put16(f + 24, urxe_sum_fold(urxe_sum(0, f + 14, 20)));
	urxe_icrc_put(f + 42 + roce_len, urxe_icrc(f + 14, true, roce_len));
	CU_ASSERT_EQUAL(urxe_sim_put(p->b.end, f, 42 + roce_len + 4), 0);
	pair_settle(p, 1000000);
}

static void test_garbage(void)
{
	union ibv_gid g = group(false, 1);
	struct urxe_port_info info;
	struct tap t = {.len = 0}, u;
	struct ibv_ah *ah;
	struct ibv_wc wc;
	struct pair p;

	pair_open(&p, &params, IBV_QPT_UD);
	CU_ASSERT_EQUAL(ibv_attach_mcast(p.b.qp, &g, 0), 0);
	post_recv(&p.b, p.b.qp, 1, 0);
	pair_settle(&p, 1000000000);
	ah = group_ah(&p.a, &g);
	urxe_sim_tap(p.sim, keep, &t);
	CU_ASSERT_EQUAL(send_to(&p.a, p.a.qp, ah, 0xffffff, 64), 0);
	CU_ASSERT(pair_wait(&p, p.b.cq, &wc));
	urxe_sim_tap(p.sim, NULL, NULL);
	CU_ASSERT_FATAL(t.len == 14 + 20 + 8 + 12 + 8 + 64 + 4);
	post_recv(&p.b, p.b.qp, 2, 0);
	urxe_port_query(p.b.dev->port, &info);

	/* 48 bytes of UDP with opcode 0xff to the multicast QPN */
	u = t;
	memset(u.frame + 42, 0xff, 36);
	inject(&p, &u, 36);
	CU_ASSERT(pair_stat(&p.b, URXE_STAT_RX_BAD_OPCODE) == 1);
	/* every other opcode that is not UD SEND */
	for (unsigned op = 0; op < 256; op++) {
		if (op == 0x64 || op == 0x65)
			continue;
		u = t;
		u.frame[42] = (uint8_t)op;
		inject(&p, &u, 12 + 8 + 64);
	}
	/* the multicast QPN to our own address */
	u = t;
	memcpy(u.frame, info.mac, 6);
	memcpy(u.frame + 30, "\x0a\x00\x00\x02", 4);
	inject(&p, &u, 12 + 8 + 64);
	/* the QP's number to the group's address */
	u = t;
	urxe_put24(u.frame + 42 + 5, p.b.qp->qp_num);
	inject(&p, &u, 12 + 8 + 64);
	/* a Q_Key that is not ours */
	u = t;
	u.frame[42 + 12] ^= 1;
	inject(&p, &u, 12 + 8 + 64);
	CU_ASSERT_EQUAL(ibv_poll_cq(p.b.cq, 1, &wc), 0);
	/* and the frame itself is still good */
	inject(&p, &t, 12 + 8 + 64);
	CU_ASSERT_EQUAL(ibv_poll_cq(p.b.cq, 1, &wc), 1);
	CU_ASSERT_EQUAL(wc.wr_id, 2);

	CU_ASSERT_EQUAL(ibv_detach_mcast(p.b.qp, &g, 0), 0);
	ibv_destroy_ah(ah);
	pair_close(&p);
}

static struct ibv_qp *make_qp(struct side *s, enum ibv_qp_type type, uint32_t flags)
{
	struct ibv_qp_init_attr_ex a = {
		.cap = {8, 8, 1, 1, 0},
		.qp_type = type,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS,
		.pd = s->pd,
		.send_cq = s->cq,
		.recv_cq = s->cq,
		.create_flags = flags,
	};

	return ibv_create_qp_ex(s->ctx, &a);
}

/* Which of the receives on a side's CQ have completed: a bit each. */
static unsigned received(struct side *s)
{
	unsigned got = 0;
	struct ibv_wc wc;

	while (ibv_poll_cq(s->cq, 1, &wc) == 1)
		got |= wc.opcode == IBV_WC_RECV ? 1u << wc.wr_id : 0;
	return got;
}

/* A QP that wants no copy of what it sends gets all else: it is the QP, not the port (mlx4, mlx5).
 */
static void test_no_self(void)
{
	const uint32_t block = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
	union ibv_gid g = group(false, 1);
	struct tap t = {.len = 0};
	struct ibv_ah *ah, *ah_a;
	struct ibv_qp *deaf, *spare;
	struct pair p;

	pair_open(&p, &params, IBV_QPT_UD);
	CU_ASSERT(!make_qp(&p.b, IBV_QPT_RC, block) && errno == EINVAL);
	CU_ASSERT(!make_qp(&p.b, IBV_QPT_UD, block | IBV_QP_CREATE_SCATTER_FCS) &&
		  errno == EOPNOTSUPP);
	deaf = make_qp(&p.b, IBV_QPT_UD, block);
	CU_ASSERT_FATAL(deaf != NULL);
	spare = pair_qp(&p.b, &params, IBV_QPT_UD);
	pair_connect(&p, &p.b, deaf, &p.b, spare, &params);
	CU_ASSERT_EQUAL(ibv_attach_mcast(deaf, &g, 0), 0);
	CU_ASSERT_EQUAL(ibv_attach_mcast(p.b.qp, &g, 0), 0);
	CU_ASSERT_EQUAL(ibv_attach_mcast(p.a.qp, &g, 0), 0);
	for (unsigned i = 0; i < 4; i++) {
		post_recv(&p.b, deaf, 1, 0x10000);
		post_recv(&p.b, p.b.qp, 2, 0x20000);
		post_recv(&p.a, p.a.qp, 3, 0x10000);
	}
	pair_settle(&p, 1000000000);
	ah = group_ah(&p.b, &g);
	ah_a = group_ah(&p.a, &g);

	CU_ASSERT_EQUAL(send_to(&p.b, deaf, ah, 0xffffff, 64), 0);
	pair_settle(&p, 1000000);
	CU_ASSERT_EQUAL(received(&p.b), 1u << 2);
	CU_ASSERT_EQUAL(received(&p.a), 1u << 3);
	/* of its neighbour on the same port, which hears itself */
	CU_ASSERT_EQUAL(send_to(&p.b, p.b.qp, ah, 0xffffff, 64), 0);
	pair_settle(&p, 1000000);
	CU_ASSERT_EQUAL(received(&p.b), 1u << 1 | 1u << 2);
	/* of another node, whose QP happens to have the same number */
	urxe_sim_tap(p.sim, keep, &t);
	CU_ASSERT_EQUAL(send_to(&p.a, p.a.qp, ah_a, 0xffffff, 64), 0);
	pair_settle(&p, 1000000);
	urxe_sim_tap(p.sim, NULL, NULL);
	CU_ASSERT_EQUAL(received(&p.b), 1u << 1 | 1u << 2);
	urxe_put24(t.frame + 42 + 12 + 5, deaf->qp_num);
	inject(&p, &t, 12 + 8 + 64);
	CU_ASSERT_EQUAL(received(&p.b), 1u << 1 | 1u << 2);

	CU_ASSERT_EQUAL(ibv_detach_mcast(deaf, &g, 0), 0);
	CU_ASSERT_EQUAL(ibv_detach_mcast(p.b.qp, &g, 0), 0);
	CU_ASSERT_EQUAL(ibv_detach_mcast(p.a.qp, &g, 0), 0);
	CU_ASSERT_EQUAL(ibv_destroy_qp(deaf), 0);
	CU_ASSERT_EQUAL(ibv_destroy_qp(spare), 0);
	ibv_destroy_ah(ah);
	ibv_destroy_ah(ah_a);
	pair_close(&p);
}

/* Nobody tells a datagram to a group that the link is still coming up: it has to wait by itself. */
static void test_late_link(void)
{
	union ibv_gid g = group(false, 1);
	struct ibv_ah *ah;
	struct ibv_wc wc;
	struct pair p;

	pair_open(&p, &params, IBV_QPT_UD);
	CU_ASSERT_EQUAL(ibv_attach_mcast(p.b.qp, &g, 0), 0);
	for (unsigned i = 0; i < 100; i++)
		post_recv(&p.b, p.b.qp, i, 0);
	pair_settle(&p, 1000000000);
	urxe_sim_end_up(p.a.end, false);
	ah = group_ah(&p.a, &g);
	for (unsigned i = 0; i < 100; i++)
		CU_ASSERT_EQUAL(send_to(&p.a, p.a.qp, ah, 0xffffff, 64), 0);
	pair_settle(&p, 1500000000);
	/* A completion would say that it is out. */
	CU_ASSERT_EQUAL(ibv_poll_cq(p.a.cq, 1, &wc), 0);
	urxe_sim_end_up(p.a.end, true);
	pair_settle(&p, 1000000);
	for (unsigned i = 0; i < 100; i++) {
		CU_ASSERT_EQUAL(ibv_poll_cq(p.a.cq, 1, &wc), 1);
		CU_ASSERT_EQUAL(wc.status, IBV_WC_SUCCESS);
		CU_ASSERT_EQUAL(ibv_poll_cq(p.b.cq, 1, &wc), 1);
		CU_ASSERT_EQUAL(wc.wr_id, i);
	}
	CU_ASSERT_EQUAL(pair_counter(&p.a, "tx_link_down"), 0);

	/* Without a link it goes on nevertheless. */
	urxe_sim_end_up(p.a.end, false);
	CU_ASSERT_EQUAL(send_to(&p.a, p.a.qp, ah, 0xffffff, 64), 0);
	CU_ASSERT(pair_wait(&p, p.a.cq, &wc));
	CU_ASSERT_EQUAL(wc.status, IBV_WC_SUCCESS);
	CU_ASSERT_EQUAL(ibv_detach_mcast(p.b.qp, &g, 0), 0);
	ibv_destroy_ah(ah);
	pair_close(&p);
}

URXE_TEST_MAIN("mcast", T(test_copies), T(test_rules), T(test_garbage), T(test_no_self),
	       T(test_late_link))
