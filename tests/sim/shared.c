/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Two processes with the same addresses: their QPs reach each other and their own, by QPNs that say
 * of whom they are; datagrams to groups reach both; and when one dies the other's work ends at
 * once.
 */
#include <errno.h>
#include <string.h>

#include "harness.h"
#include "netio/identity.h"
#include "netio/stack.h"
#include "pair.h"
#include "progress.h"
#include "sim_fabric.h"

#define QKEY 0x11111111

static const struct pair_params params = {.seed = 5,
					  .link = {.latency = 1000},
					  .ops = &urxe_link_sim_fabric_ops,
					  .join = sim_fabric_join};
static const struct pair_params params6 = {.seed = 5,
					   .link = {.latency = 1000},
					   .ops = &urxe_link_sim_fabric_ops,
					   .join = sim_fabric_join,
					   .v6 = true};

static void end(struct pair *p)
{
	pair_close(p);
	sim_fabric_destroy(sim_fabric_hub());
}

static void exchange(struct pair *p, struct side *from, struct side *to, const char *text)
{
	struct ibv_wc wc;

	memset(to->buf, 0, 64);
	strcpy((char *)from->buf, text);
	CU_ASSERT_EQUAL(pair_recv(to, 1, 0, 64), 0);
	CU_ASSERT_EQUAL(pair_post(from, IBV_WR_SEND, 2, 0, 32, to, 0, IBV_SEND_SIGNALED), 0);
	CU_ASSERT_FATAL(pair_wait(p, to->cq, &wc));
	CU_ASSERT_EQUAL(wc.status, IBV_WC_SUCCESS);
	CU_ASSERT_FATAL(pair_wait(p, from->cq, &wc));
	CU_ASSERT_EQUAL(wc.status, IBV_WC_SUCCESS);
	CU_ASSERT_STRING_EQUAL((char *)to->buf, text);
}

static void connected(const struct pair_params *pp)
{
	struct urxe_gid_entry a, b;
	struct pair p;

	pair_open(&p, pp, IBV_QPT_RC);
	CU_ASSERT_EQUAL(urxe_port_gid(p.a.dev->port, 0, &a), 0);
	CU_ASSERT_EQUAL(urxe_port_gid(p.b.dev->port, 0, &b), 0);
	CU_ASSERT_EQUAL(memcmp(&a, &b, sizeof(a)), 0);
	CU_ASSERT_EQUAL(urxe_ident_qpn_slot(p.a.qp->qp_num), sim_fabric_slot(1));
	CU_ASSERT_EQUAL(urxe_ident_qpn_slot(p.b.qp->qp_num), sim_fabric_slot(2));
	exchange(&p, &p.a, &p.b, "there");
	exchange(&p, &p.b, &p.a, "and back");
	CU_ASSERT_EQUAL(pair_counter(&p.a, "loop_packets"), 0);
	CU_ASSERT_EQUAL(pair_counter(&p.a, "neigh_asked"), 0);
	end(&p);
}

static void rc(void)
{
	connected(&params);
}

static void rc6(void)
{
	connected(&params6);
}

/* A process's own QPs need no link. */
static void own(void)
{
	struct side twin;
	struct ibv_qp *qp;
	struct pair p;

	pair_open(&p, &params, IBV_QPT_RC);
	qp = pair_qp(&p.a, &params, IBV_QPT_RC);
	CU_ASSERT_EQUAL(pair_modify(p.a.qp, IBV_QPS_RESET), 0);
	pair_connect(&p, &p.a, p.a.qp, &p.a, qp, &params);
	twin = p.a;
	twin.qp = qp;
	exchange(&p, &p.a, &twin, "myself");
	CU_ASSERT(pair_counter(&p.a, "loop_packets") >= 2);
	CU_ASSERT_EQUAL(pair_counter(&p.a, "tx_frames"), 0);
	CU_ASSERT_EQUAL(ibv_destroy_qp(qp), 0);
	end(&p);
}

/* With frames that are lost, doubled, late: where each goes is seen when it goes. */
static void lossy(void)
{
	struct pair_params pp = params;
	struct pair p;

	pp.link.loss = pp.link.dup = pp.link.reorder = 0.05;
	pair_open(&p, &pp, IBV_QPT_RC);
	for (unsigned i = 0; i < 50; i++)
		exchange(&p, &p.a, &p.b, "again");
	end(&p);
}

/* ---- an address that nobody has ---- */

static void nobody(void)
{
	uint8_t gid[16], mac[6];
	struct urxe_gid_entry own_gid;
	struct pair p;

	pair_open(&p, &params, IBV_QPT_RC);
	CU_ASSERT_EQUAL(urxe_port_gid(p.a.dev->port, 0, &own_gid), 0);
	memcpy(gid, own_gid.gid, 16);
	gid[15] = 99;
	CU_ASSERT_EQUAL(urxe_port_resolve(p.a.dev->port, 0, gid, mac), EHOSTUNREACH);
	CU_ASSERT(!urxe_port_known(p.a.dev->port, 0, gid));
	CU_ASSERT_EQUAL(urxe_port_resolve(p.a.dev->port, 0, own_gid.gid, mac), 0);
	CU_ASSERT_EQUAL(pair_counter(&p.a, "neigh_asked"), 0);
	end(&p);
}

/* ---- groups ---- */

static void groups(void)
{
	union ibv_gid g = {.raw = {[10] = 0xff, [11] = 0xff, 239, 1, 2, 3}};
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = g}};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct ibv_qp *third;
	struct ibv_ah *ah;
	struct ibv_wc wc;
	struct pair p;
	unsigned got = 0;

	pair_open(&p, &params, IBV_QPT_UD);
	third = pair_qp(&p.a, &params, IBV_QPT_UD);
	CU_ASSERT_EQUAL(pair_modify(p.a.qp, IBV_QPS_RESET), 0);
	pair_connect(&p, &p.a, p.a.qp, &p.a, third, &params);
	CU_ASSERT_EQUAL(ibv_attach_mcast(p.b.qp, &g, 0), 0);
	CU_ASSERT_EQUAL(ibv_attach_mcast(third, &g, 0), 0);
	for (unsigned i = 0; i < 2; i++) {
		struct side *s = i ? &p.b : &p.a;
		struct ibv_sge sge = {(uintptr_t)s->buf, 256, s->mr->lkey};
		struct ibv_recv_wr rr = {.wr_id = 5, .sg_list = &sge, .num_sge = 1}, *rbad;

		CU_ASSERT_EQUAL(ibv_post_recv(i ? p.b.qp : third, &rr, &rbad), 0);
	}
	ah = ibv_create_ah(p.a.pd, &attr);
	CU_ASSERT_PTR_NOT_NULL_FATAL(ah);
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = 0xffffff;
	wr.wr.ud.remote_qkey = QKEY;
	CU_ASSERT_EQUAL(ibv_post_send(p.a.qp, &wr, &bad), 0);
	pair_settle(&p, 1000000);
	while (ibv_poll_cq(p.a.cq, 1, &wc) == 1)
		got += wc.opcode == IBV_WC_RECV ? 1 : 16;
	CU_ASSERT_EQUAL(got, 17);
	CU_ASSERT_EQUAL(ibv_poll_cq(p.b.cq, 1, &wc), 1);
	CU_ASSERT_EQUAL(wc.src_qp, p.a.qp->qp_num);
	CU_ASSERT_EQUAL(ibv_poll_cq(p.b.cq, 1, &wc), 0);
	/* No switch is told. */
	CU_ASSERT_EQUAL(pair_counter(&p.a, "group_reports"), 0);
	CU_ASSERT_EQUAL(ibv_detach_mcast(p.b.qp, &g, 0), 0);
	CU_ASSERT_EQUAL(ibv_detach_mcast(third, &g, 0), 0);
	ibv_destroy_ah(ah);
	CU_ASSERT_EQUAL(ibv_destroy_qp(third), 0);
	end(&p);
}

/* ---- death ---- */

static unsigned drain(struct side *s, enum ibv_wc_status *first)
{
	struct ibv_wc wc;
	unsigned n = 0;

	while (ibv_poll_cq(s->cq, 1, &wc) == 1) {
		if (!n++)
			*first = wc.status;
	}
	return n;
}

static void death(void)
{
	enum ibv_wc_status status = IBV_WC_SUCCESS;
	struct pair p;

	pair_open(&p, &params, IBV_QPT_RC);
	exchange(&p, &p.a, &p.b, "hello");
	/* Not acknowledged yet; and a receive, which nothing will come for. */
	CU_ASSERT_EQUAL(pair_recv(&p.a, 3, 0, 64), 0);
	CU_ASSERT_EQUAL(pair_post(&p.a, IBV_WR_SEND, 4, 0, 32, &p.b, 0, IBV_SEND_SIGNALED), 0);
	CU_ASSERT_EQUAL(pair_post(&p.a, IBV_WR_SEND, 5, 0, 32, &p.b, 0, IBV_SEND_SIGNALED), 0);
	urxe_peer_gone_run(p.a.dev); /* nobody died */
	CU_ASSERT_EQUAL(drain(&p.a, &status), 0);
	sim_fabric_kill(sim_fabric_hub(), sim_fabric_slot(2));
	urxe_peer_gone_run(p.a.dev);
	CU_ASSERT_EQUAL(drain(&p.a, &status), 3);
	CU_ASSERT_EQUAL(status, IBV_WC_RETRY_EXC_ERR);
	CU_ASSERT_EQUAL(pair_state(p.a.qp), IBV_QPS_ERR);
	end(&p);
}

/* What the dead had acknowledged is done. */
static void last_words(void)
{
	enum ibv_wc_status status = IBV_WC_GENERAL_ERR;
	struct pair p;

	pair_open(&p, &params, IBV_QPT_RC);
	CU_ASSERT_EQUAL(pair_recv(&p.b, 1, 0, 64), 0);
	CU_ASSERT_EQUAL(pair_post(&p.a, IBV_WR_SEND, 4, 0, 32, &p.b, 0, IBV_SEND_SIGNALED), 0);
	for (unsigned i = 0; i < 8; i++) {
		urxe_sim_advance(p.sim, urxe_sim_now(p.sim) + 1000000);
		urxe_progress_turn(p.b.dev);
	}
	urxe_sim_advance(p.sim, urxe_sim_now(p.sim) + 10000);
	sim_fabric_kill(sim_fabric_hub(), sim_fabric_slot(2));
	urxe_peer_gone_run(p.a.dev);
	CU_ASSERT_EQUAL(drain(&p.a, &status), 1);
	CU_ASSERT_EQUAL(status, IBV_WC_SUCCESS);
	/* With nothing outstanding the QP stays, until something is. */
	CU_ASSERT_EQUAL(pair_state(p.a.qp), IBV_QPS_RTS);
	CU_ASSERT_EQUAL(pair_post(&p.a, IBV_WR_SEND, 5, 0, 32, &p.b, 0, IBV_SEND_SIGNALED), 0);
	CU_ASSERT_EQUAL(drain(&p.a, &status), 1);
	CU_ASSERT_EQUAL(status, IBV_WC_RETRY_EXC_ERR);
	end(&p);
}

/* From RESET to RTS, once more, with a time-out of hours. */
static int reconnect(struct pair *p, const struct ibv_qp_attr *was)
{
	struct ibv_qp_attr a = *was;
	int ret;

	a.qp_state = IBV_QPS_RESET;
	ret = ibv_modify_qp(p->a.qp, &a, IBV_QP_STATE);
	a.qp_state = IBV_QPS_INIT;
	if (!ret)
		ret = ibv_modify_qp(p->a.qp, &a,
				    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					    IBV_QP_ACCESS_FLAGS);
	a.qp_state = IBV_QPS_RTR;
	if (!ret)
		ret = ibv_modify_qp(p->a.qp, &a,
				    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					    IBV_QP_MIN_RNR_TIMER);
	a.qp_state = IBV_QPS_RTS;
	a.timeout = 31;
	if (!ret)
		ret = ibv_modify_qp(p->a.qp, &a,
				    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					    IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					    IBV_QP_MAX_QP_RD_ATOMIC);
	return ret;
}

/* A death that was told before the QP could send: it does not wait for an answer either. */
static void death_before(void)
{
	enum ibv_wc_status status = IBV_WC_SUCCESS;
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	struct pair p;

	pair_open(&p, &params, IBV_QPT_RC);
	CU_ASSERT_EQUAL(ibv_query_qp(p.a.qp, &attr, ~0, &init), 0);
	sim_fabric_kill(sim_fabric_hub(), sim_fabric_slot(2));
	urxe_peer_gone_run(p.a.dev);
	CU_ASSERT_EQUAL(reconnect(&p, &attr), 0);
	CU_ASSERT_EQUAL(pair_post(&p.a, IBV_WR_SEND, 4, 0, 32, &p.b, 0, IBV_SEND_SIGNALED), 0);
	urxe_peer_gone_run(p.a.dev);
	CU_ASSERT_EQUAL(drain(&p.a, &status), 1);
	CU_ASSERT_EQUAL(status, IBV_WC_RETRY_EXC_ERR);
	end(&p);
}

/* Somebody else's death is none of ours. */
static void death_of_others(void)
{
	enum ibv_wc_status status;
	struct urxe_sim_end *e;
	struct pair p;

	pair_open(&p, &params, IBV_QPT_RC);
	CU_ASSERT_EQUAL(pair_post(&p.a, IBV_WR_SEND, 4, 0, 32, &p.b, 0, IBV_SEND_SIGNALED), 0);
	e = urxe_sim_end(p.sim, &params.link);
	sim_fabric_next(sim_fabric_hub(), 99, e);
	sim_fabric_kill(sim_fabric_hub(), 99);
	urxe_peer_gone_run(p.a.dev);
	CU_ASSERT_EQUAL(drain(&p.a, &status), 0);
	CU_ASSERT_EQUAL(pair_state(p.a.qp), IBV_QPS_RTS);
	end(&p);
}

/* Of a target QP the other process answers for; one that nobody has is no QP. */
static void xrc_qp_of_another(void)
{
	struct ibv_xrcd_init_attr xa = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1};
	struct ibv_qp_open_attr oa = {.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
						   IBV_QP_OPEN_ATTR_TYPE,
				      .qp_type = IBV_QPT_XRC_RECV};
	struct pair p;

	pair_open(&p, &params, IBV_QPT_RC);
	oa.xrcd = ibv_open_xrcd(p.a.ctx, &xa);
	CU_ASSERT_PTR_NOT_NULL_FATAL(oa.xrcd);
	oa.qp_num = p.b.qp->qp_num;
	CU_ASSERT(!ibv_open_qp(p.a.ctx, &oa) && errno == EOPNOTSUPP);
	oa.qp_num = p.a.qp->qp_num ^ 1;
	CU_ASSERT(!ibv_open_qp(p.a.ctx, &oa) && errno == EINVAL);
	oa.qp_num = sim_fabric_slot(3) << 16 | 5;
	CU_ASSERT(!ibv_open_qp(p.a.ctx, &oa) && errno == EINVAL);
	CU_ASSERT_EQUAL(ibv_close_xrcd(oa.xrcd), 0);
	end(&p);
}

URXE_TEST_MAIN("shared", T(rc), T(rc6), T(own), T(lossy), T(nobody), T(groups), T(death),
	       T(last_words), T(death_before), T(death_of_others), T(xrc_qp_of_another))
