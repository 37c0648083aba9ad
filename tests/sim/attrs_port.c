/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What ibv_query_port() says: each is tried.
 */
#include <errno.h>
#include <string.h>

#include "attrs.h"
#include "gid.h"
#include "harness.h"
#include "forge.h"

static const struct pair_params params = {.seed = 3, .link = {.latency = 1000}};

/* ---- speed ---- */

static uint32_t link_mbps;

static int open_at_speed(void *arg, const struct urxe_port_config *cfg, const uint8_t mac[6],
			 uint32_t l3_mtu, void **link, struct urxe_link_info *info)
{
	int err = urxe_link_sim_ops.open(arg, cfg, mac, l3_mtu, link, info);

	info->speed_mbps = link_mbps;
	return err;
}

/* Mb/s of a lane, by the code of active_speed (IBTA 14.2.5.6). */
static uint32_t lane_mbps(uint8_t speed)
{
	switch (speed) {
	case 1:
		return 2500;
	case 2:
		return 5000;
	case 4:
		return 10000;
	case 16:
		return 14000;
	case 32:
		return 25000;
	case 64:
		return 50000;
	case 128:
		return 100000;
	default:
		return 0;
	}
}

void attr_port_speed(void)
{
	static const struct {
		uint32_t link, says;
	} speeds[] = {
		{0, 2500},	  {1000, 2500},	    {2500, 2500},   {5000, 5000},
		{10000, 10000},	  {20000, 20000},   {25000, 25000}, {40000, 40000},
		{50000, 50000},	  {56000, 56000},   {99000, 56000}, {100000, 100000},
		{200000, 200000}, {400000, 400000},
	};
	struct urxe_link_ops ops = urxe_link_sim_ops;
	struct pair_params pp = params;

	ops.open = open_at_speed;
	pp.ops = &ops;
	for (unsigned i = 0; i < sizeof(speeds) / sizeof(speeds[0]); i++) {
		struct ibv_port_attr a;
		struct pair p;

		link_mbps = speeds[i].link;
		pair_open(&p, &pp, IBV_QPT_RC);
		CU_ASSERT_EQUAL(ibv_query_port(p.a.ctx, 1, &a), 0);
		CU_ASSERT(a.active_width == 1 || a.active_width == 2); /* 1x, 4x */
		CU_ASSERT_EQUAL(lane_mbps(a.active_speed) * (a.active_width == 2 ? 4 : 1),
				speeds[i].says);
#ifdef URXE_HAVE_ACTIVE_SPEED_EX
		CU_ASSERT_EQUAL(a.active_speed_ex, 0); /* active_speed has room for all of ours */
#endif
		pair_close(&p);
	}
}

/* ---- the port ---- */

void attr_port_mtu(void)
{
	static const uint32_t mtus[] = {256, 512, 1024, 2048, 4096};

	for (unsigned i = 0; i < 5; i++) {
		struct pair_params pp = params;
		struct ibv_port_attr a;
		struct ibv_wc wc;
		struct pair p;

		pp.mtu = mtus[i];
		pair_open(&p, &pp, IBV_QPT_RC);
		CU_ASSERT_EQUAL(ibv_query_port(p.a.ctx, 1, &a), 0);
		/* A frame of IP's minimum carries more than the small ones. */
		CU_ASSERT(128u << a.active_mtu == mtus[i] ||
			  (mtus[i] < 1024 && 128u << a.active_mtu > mtus[i]));
		CU_ASSERT(a.max_mtu == IBV_MTU_4096 && a.state == IBV_PORT_ACTIVE &&
			  a.phys_state == 5 && a.link_layer == IBV_LINK_LAYER_ETHERNET);
		/* A QP of that path MTU carries packets of it. */
		pair_post(&p.a, IBV_WR_RDMA_WRITE, 1, 0, mtus[i], &p.b, 0, IBV_SEND_SIGNALED);
		CU_ASSERT(pair_wait(&p, p.a.cq, &wc) && !wc.status);
		CU_ASSERT_EQUAL(ibv_query_port(p.a.ctx, 0, &a), EINVAL);
		CU_ASSERT_EQUAL(ibv_query_port(p.a.ctx, 2, &a), EINVAL);
		pair_close(&p);
	}
}

void attr_port_counters(void)
{
	struct raw_pkt k = {.opcode = RC(SEND_ONLY), .pkey = 0x1234};
	struct ibv_port_attr before, after;
	struct pair p;

	pair_open(&p, &params, IBV_QPT_UD);
	CU_ASSERT_EQUAL(ibv_query_port(p.b.ctx, 1, &before), 0);
	for (unsigned i = 0; i < 3; i++)
		raw_send(&p.a, &p.b, &k);
	k = (struct raw_pkt){.opcode = UD(SEND_ONLY), .qkey = 0xbad};
	for (unsigned i = 0; i < 2; i++)
		raw_send(&p.a, &p.b, &k);
	CU_ASSERT_EQUAL(ibv_query_port(p.b.ctx, 1, &after), 0);
	CU_ASSERT_EQUAL(after.bad_pkey_cntr - before.bad_pkey_cntr, 3);
	CU_ASSERT_EQUAL(after.qkey_viol_cntr - before.qkey_viol_cntr, 2);
	pair_close(&p);
}

/* As many addresses as the GID table has room for, each usable, and no more. */
void attr_port_gids(void)
{
	struct urxe_port_config cfg = {.name = "g", .port = "loop", .mtu = 1024, .vlan = 7};
	struct ibv_ah_attr ah = {.is_global = 1, .port_num = 1};
	struct ibv_context *ctx;
	struct ibv_port_attr a;
	struct urxe_device *dev;
	struct ibv_pd *pd;

	for (unsigned i = 0; i < URXE_CONFIG_MAX_IPS; i++) {
		bool v4 = i & 1;

		cfg.ips[i].ipv4 = v4;
		cfg.ips[i].prefix_len = v4 ? 24 : 64;
		memset(cfg.ips[i].gid, 0, 16);
		cfg.ips[i].gid[0] = v4 ? 0 : 0xfd;
		if (v4)
			memcpy(cfg.ips[i].gid + 10, (uint8_t[]){0xff, 0xff, 10, 0, (uint8_t)i}, 5);
		cfg.ips[i].gid[15] = 1;
		cfg.ips[i].gid[7] = v4 ? 0 : (uint8_t)i;
	}
	cfg.num_ips = URXE_CONFIG_MAX_IPS;
	CU_ASSERT_EQUAL_FATAL(urxe_device_create(&dev, &cfg, &urxe_link_loop_ops, NULL, false), 0);
	ctx = ibv_open_device(&dev->vdev.device);
	CU_ASSERT_EQUAL(ibv_query_port(ctx, 1, &a), 0);
	CU_ASSERT_EQUAL(a.gid_tbl_len, URXE_CONFIG_MAX_IPS);
	pd = ibv_alloc_pd(ctx);
	for (int i = 0; i < a.gid_tbl_len; i++) {
		struct urxe_gid_entry e;
		struct ibv_ah *h;

		CU_ASSERT_EQUAL(urxe_port_gid(dev->port, (unsigned)i, &e), 0);
		CU_ASSERT(e.vlan == 7 && e.ipv4 == (i < a.gid_tbl_len / 2)); /* IPv4 first */
		memcpy(ah.grh.dgid.raw, e.gid, 16);
		ah.grh.sgid_index = (uint8_t)i;
		h = ibv_create_ah(pd, &ah);
		CU_ASSERT_PTR_NOT_NULL_FATAL(h);
		ibv_destroy_ah(h);
	}
	ah.grh.sgid_index = (uint8_t)a.gid_tbl_len;
	CU_ASSERT_PTR_NULL(ibv_create_ah(pd, &ah));
	CU_ASSERT_EQUAL(errno, EINVAL);
	ibv_dealloc_pd(pd);
	ibv_close_device(ctx);
	urxe_device_destroy(dev);
}

/* The last packet of a's shows its own address @index, and b's. */
static bool sent_from(const struct pair *p, const struct raw_log *log, unsigned index)
{
	const struct raw_seen *last = NULL;
	struct urxe_gid_entry a, b;

	urxe_port_gid(p->a.dev->port, index, &a);
	urxe_port_gid(p->b.dev->port, index, &b);
	for (unsigned i = 0; i < log->n; i++)
		if (log->v[i].from == &p->a)
			last = &log->v[i];
	return last && !memcmp(last->frame + 26, a.gid + 12, 4) &&
	       !memcmp(last->frame + 30, b.gid + 12, 4);
}

/* What sgid_index says is where packets come from: of a QP, moved in SQD, and of an AH. */
void attr_port_sgid_index(void)
{
	struct pair_params pp = params;
	struct ibv_qp_attr attr = {0};
	struct urxe_gid_entry to;
	struct raw_log log;
	struct ibv_wc wc;
	struct pair p;

	pp.two_nets = true;
	for (unsigned ud = 0; ud < 2; ud++) {
		pair_open(&p, &pp, ud ? IBV_QPT_UD : IBV_QPT_RC);
		for (unsigned index = 0; index < 2; index++) {
			struct ibv_send_wr wr = {.opcode = IBV_WR_SEND,
						 .send_flags = IBV_SEND_SIGNALED},
					   *bad;

			attr.ah_attr = pair_path(&p.a, &p.b);
			attr.ah_attr.grh.sgid_index = (uint8_t)index;
			CU_ASSERT_EQUAL(urxe_port_gid(p.b.dev->port, index, &to), 0);
			memcpy(attr.ah_attr.grh.dgid.raw, to.gid, 16);
			raw_log_start(&log, &p);
			pair_recv(&p.b, index, 0, 100);
			if (ud) {
				wr.wr.ud.ah = ibv_create_ah(p.a.pd, &attr.ah_attr);
				wr.wr.ud.remote_qpn = p.b.qp->qp_num;
				wr.wr.ud.remote_qkey = 0x11111111;
			} else {
				/* b takes a's new address for its peer's, too. */
				CU_ASSERT_EQUAL(pair_modify(p.a.qp, IBV_QPS_SQD), 0);
				CU_ASSERT_EQUAL(ibv_modify_qp(p.a.qp, &attr, IBV_QP_AV), 0);
				CU_ASSERT_EQUAL(pair_modify(p.a.qp, IBV_QPS_RTS), 0);
				urxe_port_gid(p.a.dev->port, index, &to);
				memcpy(attr.ah_attr.grh.dgid.raw, to.gid, 16);
				CU_ASSERT_EQUAL(pair_modify(p.b.qp, IBV_QPS_SQD), 0);
				CU_ASSERT_EQUAL(ibv_modify_qp(p.b.qp, &attr, IBV_QP_AV), 0);
				CU_ASSERT_EQUAL(pair_modify(p.b.qp, IBV_QPS_RTS), 0);
			}
			CU_ASSERT_EQUAL(ibv_post_send(p.a.qp, &wr, &bad), 0);
			CU_ASSERT(pair_wait(&p, p.a.cq, &wc) && !wc.status);
			CU_ASSERT(pair_wait(&p, p.b.cq, &wc) && !wc.status);
			CU_ASSERT(sent_from(&p, &log, index));
			raw_log_stop(&log);
			if (ud)
				ibv_destroy_ah(wr.wr.ud.ah);
		}
		pair_close(&p);
	}
}

/* ---- state, capabilities ---- */

void attr_port_state(void)
{
	struct ibv_port_attr a;
	struct pair p;

	pair_open(&p, &params, IBV_QPT_RC);
	for (unsigned up = 0; up < 2; up++) {
		urxe_sim_end_up(p.a.end, up);
		CU_ASSERT_EQUAL(ibv_query_port(p.a.ctx, 1, &a), 0);
		CU_ASSERT_EQUAL(a.state, up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN);
		CU_ASSERT_EQUAL(a.phys_state, up ? 5 : 3); /* LinkUp, Disabled */
	}
	pair_close(&p);
}

/* There is a QP1 for a connection manager, and GIDs are IP addresses. */
void attr_port_caps(void)
{
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_UD, .cap = {.max_send_wr = 1}};
	const uint8_t ip[16] = {[10] = 0xff, 0xff, 10, 0, 0, 1};
	struct ibv_gid_entry gid;
	struct ibv_port_attr a;
	struct ibv_qp *gsi;
	struct pair p;

	pair_open(&p, &params, IBV_QPT_RC);
	CU_ASSERT_EQUAL(ibv_query_port(p.a.ctx, 1, &a), 0);
	CU_ASSERT_EQUAL(a.port_cap_flags, IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS);
	CU_ASSERT_EQUAL(a.port_cap_flags2, 0);
	CU_ASSERT_EQUAL(a.link_layer, IBV_LINK_LAYER_ETHERNET);
	init.send_cq = init.recv_cq = p.a.cq;
	gsi = urxe_gsi_create_qp(p.a.pd, &init);
	CU_ASSERT(gsi && gsi->qp_num == 1 && !ibv_destroy_qp(gsi));
	CU_ASSERT_EQUAL(urxe_query_gid(p.a.ctx, 1, 0, &gid), 0);
	CU_ASSERT_EQUAL(gid.gid_type, IBV_GID_TYPE_ROCE_V2);
	CU_ASSERT(!memcmp(gid.gid.raw, ip, sizeof(ip)));
	pair_close(&p);
}

/* As long as it says, and not a byte longer. That it arrives whole: rc_data.c test_huge. */
void attr_port_message(void)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .num_sge = 2}, *bad;
	struct ibv_port_attr a;
	struct ibv_sge sge[2];
	struct ibv_mr *null;
	struct pair p;

	pair_open(&p, &params, IBV_QPT_RC);
	CU_ASSERT_EQUAL(ibv_query_port(p.a.ctx, 1, &a), 0);
	CU_ASSERT_EQUAL(a.max_msg_sz, 1u << 31);
	null = ibv_alloc_null_mr(p.a.pd);
	sge[0] = (struct ibv_sge){0, a.max_msg_sz, null->lkey};
	sge[1] = (struct ibv_sge){0, 1, null->lkey};
	wr.sg_list = sge;
	wr.wr.rdma.remote_addr = (uintptr_t)p.b.buf;
	wr.wr.rdma.rkey = p.b.mr->rkey;
	CU_ASSERT_EQUAL(ibv_post_send(p.a.qp, &wr, &bad), EINVAL);
	sge[0].length--;
	CU_ASSERT_EQUAL(ibv_post_send(p.a.qp, &wr, &bad), 0);
	ibv_destroy_qp(p.a.qp);
	p.a.qp = NULL;
	ibv_dereg_mr(null);
	pair_close(&p);
}

/* One partition, that of full members; no QP can be in another. */
void attr_port_pkeys(void)
{
	const int init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_device_attr dev;
	struct ibv_port_attr a;
	struct ibv_qp *qp;
	struct pair p;
	__be16 pkey;

	pair_open(&p, &params, IBV_QPT_RC);
	CU_ASSERT_EQUAL(ibv_query_device(p.a.ctx, &dev), 0);
	CU_ASSERT_EQUAL(ibv_query_port(p.a.ctx, 1, &a), 0);
	CU_ASSERT_EQUAL(a.pkey_tbl_len, dev.max_pkeys);
	qp = pair_qp(&p.a, &params, IBV_QPT_RC);
	for (int i = 0; i < a.pkey_tbl_len; i++) {
		CU_ASSERT(!urxe_query_pkey(p.a.ctx, 1, i, &pkey) && pkey == htobe16(0xffff));
		attr.pkey_index = (uint16_t)i;
		CU_ASSERT_EQUAL(ibv_modify_qp(qp, &attr, init), 0);
		CU_ASSERT_EQUAL(pair_modify(qp, IBV_QPS_RESET), 0);
	}
	CU_ASSERT_EQUAL(urxe_query_pkey(p.a.ctx, 1, a.pkey_tbl_len, &pkey), EINVAL);
	attr.pkey_index = a.pkey_tbl_len;
	CU_ASSERT_EQUAL(ibv_modify_qp(qp, &attr, init), EINVAL);
	ibv_destroy_qp(qp);
	pair_close(&p);
}

/* LIDs and all that a subnet manager would have told: there is none on Ethernet. */
void attr_port_no_subnet_manager(void)
{
	struct ibv_port_attr a;
	struct pair p;

	pair_open(&p, &params, IBV_QPT_RC);
	memset(&a, 0xff, sizeof(a));
	CU_ASSERT_EQUAL(ibv_query_port(p.a.ctx, 1, &a), 0);
	CU_ASSERT(!a.lid && !a.sm_lid && !a.lmc && !a.sm_sl && !a.subnet_timeout &&
		  !a.init_type_reply);
	pair_close(&p);
}

/* One lane for all service levels, each of which can be named. */
void attr_port_lanes(void)
{
	struct ibv_ah_attr attr;
	struct ibv_port_attr a;
	struct ibv_ah *ah;
	struct pair p;

	pair_open(&p, &params, IBV_QPT_RC);
	CU_ASSERT_EQUAL(ibv_query_port(p.a.ctx, 1, &a), 0);
	CU_ASSERT_EQUAL(a.max_vl_num, 1); /* VL0 (IBTA 14.2.5.6) */
	attr = pair_path(&p.a, &p.b);
	for (attr.sl = 0; attr.sl < 8; attr.sl++) {
		ah = ibv_create_ah(p.a.pd, &attr);
		CU_ASSERT(ah && !ibv_destroy_ah(ah));
	}
	pair_close(&p);
}

/* An address without GRH is none. */
void attr_port_grh(void)
{
	struct ibv_qp_attr attr = {0};
	struct ibv_port_attr a;
	struct pair p;

	pair_open(&p, &params, IBV_QPT_RC);
	CU_ASSERT_EQUAL(ibv_query_port(p.a.ctx, 1, &a), 0);
	CU_ASSERT_EQUAL(a.flags, IBV_QPF_GRH_REQUIRED);
	attr.ah_attr = pair_path(&p.a, &p.b);
	attr.ah_attr.is_global = 0;
	attr.ah_attr.dlid = 1;
	errno = 0;
	CU_ASSERT_PTR_NULL(ibv_create_ah(p.a.pd, &attr.ah_attr));
	CU_ASSERT_EQUAL(errno, EINVAL);
	CU_ASSERT_EQUAL(pair_modify(p.a.qp, IBV_QPS_SQD), 0);
	CU_ASSERT_EQUAL(ibv_modify_qp(p.a.qp, &attr, IBV_QP_AV), EINVAL);
	pair_close(&p);
}
