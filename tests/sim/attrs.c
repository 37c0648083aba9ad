/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What ibv_query_device_ex() and ibv_query_port() say besides the numbers of objects (limits.c):
 * speed, counters, capabilities, and limits of single operations. Each is tried.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "raw.h"

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

static void test_speed(void)
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
		pair_close(&p);
	}
}

/* ---- the port ---- */

static void test_port(void)
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

static void test_counters(void)
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
static void test_gid_table(void)
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
static void test_sgid_index(void)
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

/* ---- the device ---- */

static void test_moderation_caps(void)
{
	struct ibv_modify_cq_attr m = {.attr_mask = IBV_CQ_ATTR_MODERATE};
	struct ibv_device_attr_ex a;
	struct pair p;

	pair_open(&p, &params, IBV_QPT_RC);
	CU_ASSERT_EQUAL(ibv_query_device_ex(p.a.ctx, NULL, &a), 0);
	CU_ASSERT(a.cq_mod_caps.max_cq_count && a.cq_mod_caps.max_cq_period);
	m.moderate.cq_count = a.cq_mod_caps.max_cq_count;
	m.moderate.cq_period = a.cq_mod_caps.max_cq_period;
	CU_ASSERT_EQUAL(ibv_modify_cq(p.a.cq, &m), 0);
	pair_close(&p);
}

/* As many members as a group may have. */
static void test_mcast_members(void)
{
	union ibv_gid g = {.raw = {[10] = 0xff, [11] = 0xff, 239, 1, 2, 3}};
	struct ibv_qp_init_attr init = {.cap = {.max_recv_wr = 1}, .qp_type = IBV_QPT_UD};
	struct ibv_device_attr a;
	struct ibv_qp **qp;
	struct pair p;
	int n;

	pair_open(&p, &params, IBV_QPT_UD);
	CU_ASSERT_EQUAL(ibv_query_device(p.a.ctx, &a), 0);
	CU_ASSERT(a.max_total_mcast_qp_attach >= a.max_mcast_qp_attach);
	qp = calloc((size_t)a.max_mcast_qp_attach + 1, sizeof(*qp));
	init.send_cq = init.recv_cq = p.a.cq;
	for (n = 0; n <= a.max_mcast_qp_attach; n++) {
		qp[n] = ibv_create_qp(p.a.pd, &init);
		CU_ASSERT_EQUAL(ibv_attach_mcast(qp[n], &g, 0),
				n < a.max_mcast_qp_attach ? 0 : ENOMEM);
	}
	while (n--) {
		if (n < a.max_mcast_qp_attach)
			CU_ASSERT_EQUAL(ibv_detach_mcast(qp[n], &g, 0), 0);
		ibv_destroy_qp(qp[n]);
	}
	free(qp);
	pair_close(&p);
}

/* The widest table of work queues there may be. */
static void test_widest_table(void)
{
	struct ibv_wq_init_attr wa = {.wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1};
	struct ibv_rwq_ind_table_init_attr ta = {0};
	struct ibv_rwq_ind_table *t;
	struct ibv_device_attr_ex a;
	struct ibv_wq **wqs;
	struct pair p;

	pair_open(&p, &params, IBV_QPT_RC);
	CU_ASSERT_EQUAL(ibv_query_device_ex(p.a.ctx, NULL, &a), 0);
	wa.pd = p.a.pd;
	wa.cq = p.a.cq;
	wqs = calloc(2ul * a.rss_caps.max_rwq_indirection_table_size, sizeof(struct ibv_wq *));
	wqs[0] = ibv_create_wq(p.a.ctx, &wa);
	CU_ASSERT_PTR_NOT_NULL_FATAL(wqs[0]);
	for (uint32_t i = 1; i < 2 * a.rss_caps.max_rwq_indirection_table_size; i++)
		wqs[i] = wqs[0];
	while (1u << ta.log_ind_tbl_size < a.rss_caps.max_rwq_indirection_table_size)
		ta.log_ind_tbl_size++;
	ta.ind_tbl = wqs;
	t = ibv_create_rwq_ind_table(p.a.ctx, &ta);
	CU_ASSERT_PTR_NOT_NULL_FATAL(t);
	CU_ASSERT_EQUAL(ibv_destroy_rwq_ind_table(t), 0);
	ta.log_ind_tbl_size++;
	CU_ASSERT_PTR_NULL(ibv_create_rwq_ind_table(p.a.ctx, &ta));
	ibv_destroy_wq(wqs[0]);
	free(wqs);
	pair_close(&p);
}

/* What has a test of its own elsewhere (the file's name), and what we do not do. */
static void test_flags(void)
{
	const unsigned have = IBV_DEVICE_RC_RNR_NAK_GEN | /* rc_responder.c */
			      IBV_DEVICE_SYS_IMAGE_GUID |
			      IBV_DEVICE_CURR_QP_STATE_MOD | /* qp_modify.c */
			      IBV_DEVICE_BAD_PKEY_CNTR | IBV_DEVICE_BAD_QKEY_CNTR | /* above */
			      IBV_DEVICE_PORT_ACTIVE_EVENT | /* port_events.c */
			      IBV_DEVICE_SRQ_RESIZE |	     /* qp_life.c */
			      IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B | /* mw.c */
			      IBV_DEVICE_MEM_MGT_EXTENSIONS |	 /* mw.c, wr.c */
			      IBV_DEVICE_XRC |			 /* xrc.c */
			      IBV_DEVICE_MANAGED_FLOW_STEERING | /* raw_packet.c */
			      IBV_DEVICE_AUTO_PATH_MIG;		 /* apm.c */
	struct ibv_device_attr_ex a;
	struct pair p;

	pair_open(&p, &params, IBV_QPT_RC);
	CU_ASSERT_EQUAL(ibv_query_device_ex(p.a.ctx, NULL, &a), 0);
	CU_ASSERT_EQUAL(a.orig_attr.device_cap_flags, have);
	CU_ASSERT_EQUAL((unsigned)a.device_cap_flags_ex, have);
	CU_ASSERT(a.orig_attr.sys_image_guid && a.orig_attr.node_guid);
	/* Nothing of what is not offered. */
	CU_ASSERT(!a.orig_attr.max_fmr && !a.orig_attr.max_rdd && !a.orig_attr.max_ee &&
		  !a.orig_attr.max_raw_ipv6_qp && !a.tso_caps.max_tso && !a.tm_caps.max_num_tags &&
		  !a.raw_packet_caps && !a.pci_atomic_caps.fetch_add);
	CU_ASSERT(a.orig_attr.max_pkeys == 1 && a.orig_attr.phys_port_cnt == 1 &&
		  a.phys_port_cnt_ex == 1);
	pair_close(&p);
}

URXE_TEST_MAIN("attrs", T(test_speed), T(test_port), T(test_counters), T(test_gid_table),
	       T(test_sgid_index), T(test_moderation_caps), T(test_mcast_members),
	       T(test_widest_table), T(test_flags))
