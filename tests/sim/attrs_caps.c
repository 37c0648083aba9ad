/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What a device says that it is, and can do: what it offers is used, what it does not is refused.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "attrs.h"
#include "harness.h"
#include "forge.h"

static const struct pair_params pp = {.seed = 1, .link = {.latency = 5000}};

#define REFUSED(call, err)                   \
	do {                                 \
		errno = 0;                   \
		CU_ASSERT_PTR_NULL(call);    \
		CU_ASSERT_EQUAL(errno, err); \
	} while (0)

/* ---- who it is ---- */

void attr_identity(void)
{
	struct ibv_device_attr_ex dev;
	struct pair p;

	attrs_open(&p, &pp, IBV_QPT_RC, &dev);
	CU_ASSERT_STRING_EQUAL(dev.orig_attr.fw_ver, URXE_VERSION);
	/* Nobody's, so that nobody takes us for his card. */
	CU_ASSERT_EQUAL(dev.orig_attr.vendor_id, URXE_VENDOR_ID);
	CU_ASSERT_EQUAL(dev.orig_attr.vendor_part_id, URXE_VENDOR_PART_ID);
	CU_ASSERT_EQUAL(dev.orig_attr.hw_ver, 1);
	CU_ASSERT_EQUAL(dev.comp_mask, 0); /* no bit of it has a meaning yet */
	pair_close(&p);
}

/* The EUI-64 of its MAC, as the CM says it, too; every device has one of its own. */
void attr_guids(void)
{
	struct ibv_device_attr_ex a, b;
	struct urxe_port_info info;
	uint8_t eui[8];
	struct pair p;

	attrs_open(&p, &pp, IBV_QPT_RC, &a);
	CU_ASSERT_EQUAL(ibv_query_device_ex(p.b.ctx, NULL, &b), 0);
	urxe_port_query(p.a.dev->port, &info);
	memcpy(eui, info.mac, 3);
	eui[0] ^= 2;
	eui[3] = 0xff;
	eui[4] = 0xfe;
	memcpy(eui + 5, info.mac + 3, 3);
	CU_ASSERT(!memcmp(&a.orig_attr.node_guid, eui, 8));
	CU_ASSERT(!memcmp(&a.orig_attr.sys_image_guid, eui, 8));
	CU_ASSERT_EQUAL(a.orig_attr.node_guid, p.a.dev->guid);
	CU_ASSERT_NOT_EQUAL(a.orig_attr.node_guid, b.orig_attr.node_guid);
	CU_ASSERT_NOT_EQUAL(a.orig_attr.sys_image_guid, b.orig_attr.sys_image_guid);
	pair_close(&p);
}

/* A port has the number 1; there is no other, for anything. */
void attr_ports(void)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
	struct ibv_device_attr_ex dev;
	struct ibv_port_attr port;
	struct ibv_qp *qp;
	struct pair p;

	attrs_open(&p, &pp, IBV_QPT_RC, &dev);
	CU_ASSERT_EQUAL(dev.orig_attr.phys_port_cnt, 1);
	CU_ASSERT_EQUAL(dev.phys_port_cnt_ex, 1);
	for (unsigned n = 0; n < 3; n++) {
		bool is = n >= 1 && n <= dev.phys_port_cnt_ex;

		CU_ASSERT_EQUAL(ibv_query_port(p.a.ctx, (uint8_t)n, &port), is ? 0 : EINVAL);
		qp = pair_qp(&p.a, &pp, IBV_QPT_RC);
		attr.port_num = (uint8_t)n;
		CU_ASSERT_EQUAL(ibv_modify_qp(qp, &attr,
					      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
						      IBV_QP_ACCESS_FLAGS),
				is ? 0 : EINVAL);
		ibv_destroy_qp(qp);
	}
	pair_close(&p);
}

/* ---- what it can do ---- */

/* Any piece of memory of any kind of page: nothing of ours goes by pages. */
void attr_page_sizes(void)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE), all = 4u << 20;
	struct ibv_device_attr_ex dev;
	struct ibv_wc wc;
	struct pair p;
	uint8_t *mem;

	attrs_open(&p, &pp, IBV_QPT_RC, &dev);
	CU_ASSERT(dev.orig_attr.page_size_cap & page);
	for (unsigned huge = 0; huge < 2; huge++) {
		const size_t at[] = {0, 1, page - 1, all / 2 - 3}, len[] = {all, 1, page + 2, 7};
		uint8_t *own = p.b.buf;
		struct ibv_mr *mr = p.b.mr;

		mem = mmap(NULL, all, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | (huge ? MAP_HUGETLB : 0), -1, 0);
		if (mem == MAP_FAILED && huge)
			break; /* the system has none to give */
		CU_ASSERT_FATAL(mem != MAP_FAILED);
		CU_ASSERT(!huge || dev.orig_attr.page_size_cap & 2u << 20);
		for (unsigned i = 0; i < 4; i++) {
			p.b.mr = ibv_reg_mr(p.b.pd, mem + at[i], len[i],
					    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
						    (huge ? IBV_ACCESS_HUGETLB : 0));
			CU_ASSERT_FATAL(p.b.mr != NULL);
			p.b.buf = mem + at[i];
			memset(p.a.buf, (int)i + 1, 64);
			/* The last byte of it. */
			CU_ASSERT_EQUAL(pair_post(&p.a, IBV_WR_RDMA_WRITE, 1, 0, 1, &p.b,
						  (uint32_t)len[i] - 1, IBV_SEND_SIGNALED),
					0);
			CU_ASSERT(pair_wait(&p, p.a.cq, &wc) && wc.status == IBV_WC_SUCCESS);
			CU_ASSERT_EQUAL(p.b.buf[len[i] - 1], i + 1);
			CU_ASSERT_EQUAL(ibv_dereg_mr(p.b.mr), 0);
		}
		p.b.buf = own;
		p.b.mr = mr;
		munmap(mem, all);
	}
	pair_close(&p);
}

/* What has a test of its own elsewhere (the file's name), and nothing else. */
void attr_flags(void)
{
	const unsigned have = IBV_DEVICE_RC_RNR_NAK_GEN |    /* rc_responder.c */
			      IBV_DEVICE_SYS_IMAGE_GUID |    /* attr_guids */
			      IBV_DEVICE_CURR_QP_STATE_MOD | /* qp_modify.c */
			      IBV_DEVICE_BAD_PKEY_CNTR |
			      IBV_DEVICE_BAD_QKEY_CNTR |     /* attr_port_counters */
			      IBV_DEVICE_PORT_ACTIVE_EVENT | /* port_events.c */
			      IBV_DEVICE_SRQ_RESIZE |	     /* qp_life.c */
			      IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B | /* mw.c */
			      IBV_DEVICE_MEM_MGT_EXTENSIONS |	 /* mw.c, wr.c */
			      IBV_DEVICE_XRC |			 /* xrc.c */
			      IBV_DEVICE_MANAGED_FLOW_STEERING | /* raw_packet.c */
			      IBV_DEVICE_AUTO_PATH_MIG;		 /* apm.c */
	const uint64_t more = 1ull << 40 |			 /* ATOMIC WRITE: wr.c */
			      URXEDV_DEVICE_FLUSH_GLOBAL |	 /* wr.c */
			      URXEDV_DEVICE_FLUSH_PERSISTENT;	 /* mr.c */
	struct ibv_device_attr_ex dev;
	struct pair p;

	attrs_open(&p, &pp, IBV_QPT_RC, &dev);
	CU_ASSERT_EQUAL(dev.orig_attr.device_cap_flags, have);
	CU_ASSERT_EQUAL(dev.device_cap_flags_ex, have | more);
	pair_close(&p);
}

/* Four QPs add to the same word, with packets lost and doubled: nothing is added twice or not. */
void attr_atomic_cap(void)
{
	struct pair_params bad_link = pp;
	struct ibv_device_attr_ex dev;
	struct ibv_qp *qa[4], *qb[4];
	unsigned done = 0;
	struct ibv_wc wc;
	uint64_t sum;
	struct pair p;

	bad_link.link.loss = bad_link.link.dup = 0.05;
	attrs_open(&p, &bad_link, IBV_QPT_RC, &dev);
	CU_ASSERT_EQUAL(dev.orig_attr.atomic_cap, IBV_ATOMIC_HCA);
	qa[0] = p.a.qp;
	for (unsigned i = 1; i < 4; i++) {
		qa[i] = pair_qp(&p.a, &pp, IBV_QPT_RC);
		qb[i] = pair_qp(&p.b, &pp, IBV_QPT_RC);
		pair_connect(&p, &p.a, qa[i], &p.b, qb[i], &pp);
	}
	for (unsigned n = 0; n < 400; n++) {
		p.a.qp = qa[n % 4];
		CU_ASSERT_EQUAL(pair_post(&p.a, IBV_WR_ATOMIC_FETCH_AND_ADD, n, 8 * n, 8, &p.b, 0,
					  IBV_SEND_SIGNALED),
				0);
	}
	p.a.qp = qa[0];
	while (done < 400 && pair_wait(&p, p.a.cq, &wc) && wc.status == IBV_WC_SUCCESS)
		done++;
	CU_ASSERT_EQUAL(done, 400);
	memcpy(&sum, p.b.buf, sizeof(sum));
	CU_ASSERT_EQUAL(sum, 400);
	/* Each saw another value. */
	for (uint64_t i = 0, seen[400] = {0}, v; i < 400; i++) {
		memcpy(&v, p.a.buf + 8 * i, sizeof(v));
		CU_ASSERT(v < 400 && !seen[v]++);
	}
	for (unsigned i = 1; i < 4; i++) {
		ibv_destroy_qp(qa[i]);
		ibv_destroy_qp(qb[i]);
	}
	pair_close(&p);
}

/* An ACK is sent within the time that the peer's time-out allows for (4.096 us << n). */
void attr_ack_delay(void)
{
	struct raw_pkt k = {.opcode = RC(WRITE_ONLY), .psn = 0xffffe0, .ackreq = true};
	struct ibv_device_attr_ex dev;
	const struct raw_seen *ack;
	struct raw_log log;
	unsigned at = 0;
	uint64_t sent;
	struct pair p;

	attrs_open(&p, &pp, IBV_QPT_RC, &dev);
	CU_ASSERT(dev.orig_attr.local_ca_ack_delay < 32);
	pair_meet(&p);
	k.va = (uintptr_t)p.b.buf;
	k.rkey = p.b.mr->rkey;
	raw_log_start(&log, &p);
	sent = urxe_sim_now(p.sim);
	raw_send(&p.a, &p.b, &k);
	pair_settle(&p, 4096ull << dev.orig_attr.local_ca_ack_delay);
	ack = raw_log_find(&log, &p.b, ACK, &at);
	CU_ASSERT_PTR_NOT_NULL_FATAL(ack);
	CU_ASSERT(ack->when - sent <= 4096ull << dev.orig_attr.local_ca_ack_delay);
	raw_log_stop(&log);
	pair_close(&p);
}

static uint64_t stamp_of_write(struct pair *p, struct ibv_cq_ex *cq)
{
	struct ibv_poll_cq_attr none = {0};
	uint64_t stamp;

	CU_ASSERT_EQUAL(pair_post(&p->a, IBV_WR_RDMA_WRITE, 1, 0, 8, &p->b, 0, IBV_SEND_SIGNALED),
			0);
	while (ibv_start_poll(cq, &none) == ENOENT)
		CU_ASSERT_FATAL(pair_step(p));
	stamp = ibv_wc_read_completion_ts(cq);
	ibv_end_poll(cq);
	return stamp;
}

/* Time stamps are of the clock that can be read, and as fast as is said. */
void attr_clock(void)
{
	struct ibv_cq_init_attr_ex cqa = {.cqe = 16,
					  .wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP};
	struct ibv_values_ex clock = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
	struct ibv_device_attr_ex dev;
	struct ibv_cq *plain;
	struct ibv_cq_ex *cq;
	uint64_t one, two;
	struct pair p;

	attrs_open(&p, &pp, IBV_QPT_RC, &dev);
	CU_ASSERT(dev.completion_timestamp_mask && dev.hca_core_clock);
	ibv_destroy_qp(p.a.qp);
	CU_ASSERT_EQUAL(pair_modify(p.b.qp, IBV_QPS_RESET), 0);
	cq = ibv_create_cq_ex(p.a.ctx, &cqa);
	CU_ASSERT_PTR_NOT_NULL_FATAL(cq);
	plain = p.a.cq;
	p.a.cq = ibv_cq_ex_to_cq(cq);
	p.a.qp = pair_qp(&p.a, &pp, IBV_QPT_RC);
	pair_connect(&p, &p.a, p.a.qp, &p.b, p.b.qp, &pp);
	pair_meet(&p);
	one = stamp_of_write(&p, cq);
	/* A second, by kHz. */
	urxe_sim_advance(p.sim, urxe_sim_now(p.sim) + 1000000000ull);
	two = stamp_of_write(&p, cq);
	CU_ASSERT(two - one >= dev.hca_core_clock * 1000 &&
		  two - one < dev.hca_core_clock * 1000 + dev.hca_core_clock * 10);
	CU_ASSERT(one == (one & dev.completion_timestamp_mask) &&
		  two == (two & dev.completion_timestamp_mask));
	CU_ASSERT_EQUAL(ibv_query_rt_values_ex(p.a.ctx, &clock), 0);
	CU_ASSERT_EQUAL(clock.comp_mask, IBV_VALUES_MASK_RAW_CLOCK);
	/* Ticks, as other devices give them: there are programs that look at these alone. */
	CU_ASSERT_EQUAL(clock.raw_clock.tv_sec, 0);
	CU_ASSERT((uint64_t)clock.raw_clock.tv_nsec >= two &&
		  (uint64_t)clock.raw_clock.tv_nsec < two + dev.hca_core_clock * 10);
	clock.comp_mask = 2;
	CU_ASSERT_EQUAL(ibv_query_rt_values_ex(p.a.ctx, &clock), 0);
	CU_ASSERT_EQUAL(clock.comp_mask, 0);
	ibv_destroy_qp(p.a.qp);
	p.a.qp = NULL;
	CU_ASSERT_EQUAL(ibv_destroy_cq(p.a.cq), 0);
	p.a.cq = plain;
	pair_close(&p);
}

/* ---- raw packets ---- */

static struct ibv_qp *rss_qp(struct pair *p, struct ibv_rwq_ind_table *table, enum ibv_qp_type type,
			     uint64_t fields, uint8_t function)
{
	uint8_t key[40] = {1};
	struct ibv_qp_init_attr_ex a = {
		.qp_type = type,
		.comp_mask =
			IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_RX_HASH | IBV_QP_INIT_ATTR_IND_TABLE,
		.pd = p->a.pd,
		.rwq_ind_tbl = table,
		.rx_hash_conf = {function, sizeof(key), key, fields},
	};

	return ibv_create_qp_ex(p->a.ctx, &a);
}

/* Each type, function and field there is a bit for. That frames go by them: wq.c, test_spread. */
void attr_rss(void)
{
	struct ibv_wq_init_attr wa = {.wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1};
	struct ibv_rwq_ind_table_init_attr ta = {0};
	struct ibv_rwq_ind_table *table;
	struct ibv_device_attr_ex dev;
	const struct ibv_rss_caps *c = &dev.rss_caps;
	struct ibv_qp *qp;
	struct ibv_wq *wq;
	struct pair p;

	if (!attrs_raw_permitted())
		return;
	attrs_open(&p, &pp, IBV_QPT_RC, &dev);
	wa.pd = p.a.pd;
	wa.cq = p.a.cq;
	wq = ibv_create_wq(p.a.ctx, &wa);
	ta.ind_tbl = &wq;
	table = ibv_create_rwq_ind_table(p.a.ctx, &ta);
	CU_ASSERT_PTR_NOT_NULL_FATAL(table);
	CU_ASSERT(c->supported_qpts && c->rx_hash_function && c->rx_hash_fields_mask);
	for (unsigned type = IBV_QPT_RC; type <= IBV_QPT_XRC_SEND; type++) {
		qp = rss_qp(&p, table, (enum ibv_qp_type)type, 1, IBV_RX_HASH_FUNC_TOEPLITZ);
		CU_ASSERT_EQUAL(qp != NULL, !!(c->supported_qpts & 1u << type));
		if (qp)
			ibv_destroy_qp(qp);
	}
	for (unsigned bit = 0; bit < 64; bit++) {
		qp = rss_qp(&p, table, IBV_QPT_RAW_PACKET, 1ull << bit, IBV_RX_HASH_FUNC_TOEPLITZ);
		CU_ASSERT_EQUAL(qp != NULL, !!(c->rx_hash_fields_mask & 1ull << bit));
		if (qp)
			ibv_destroy_qp(qp);
		else
			CU_ASSERT_EQUAL(errno, EOPNOTSUPP);
	}
	for (unsigned bit = 0; bit < 8; bit++) {
		qp = rss_qp(&p, table, IBV_QPT_RAW_PACKET, 1, (uint8_t)(1u << bit));
		CU_ASSERT_EQUAL(qp != NULL, !!(c->rx_hash_function & 1u << bit));
		if (qp)
			ibv_destroy_qp(qp);
		else
			CU_ASSERT_EQUAL(errno, EOPNOTSUPP);
	}
	ibv_destroy_rwq_ind_table(table);
	ibv_destroy_wq(wq);
	pair_close(&p);
}

/* A QP of the type that is about to send, or NULL. */
static struct ibv_qp *sender(struct pair *p, enum ibv_qp_type type)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_qp_init_attr init = {.send_cq = p->a.cq, .recv_cq = p->a.cq, .qp_type = type};
	struct ibv_qp *qp = ibv_create_qp(p->a.pd, &init);

	if (!qp)
		return NULL;
	if (type != IBV_QPT_RAW_PACKET) {
		pair_modify(p->b.qp, IBV_QPS_RESET);
		pair_connect(p, &p->a, qp, &p->b, p->b.qp, &pp);
		return qp;
	}
	CU_ASSERT_EQUAL(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PORT), 0);
	CU_ASSERT_EQUAL(pair_modify(qp, IBV_QPS_RTR), 0);
	CU_ASSERT_EQUAL(pair_modify(qp, IBV_QPS_RTS), 0);
	return qp;
}

/* Each type of QP is paced that is said to be. At which rate: rate.c. */
void attr_pacing_types(void)
{
	struct ibv_qp_rate_limit_attr rl = {.rate_limit = 1000};
	struct ibv_device_attr_ex dev;
	struct pair p;

	if (!attrs_raw_permitted())
		return;
	attrs_open(&p, &pp, IBV_QPT_RC, &dev);
	CU_ASSERT(dev.packet_pacing_caps.supported_qpts);
	for (unsigned type = IBV_QPT_RC; type <= IBV_QPT_XRC_SEND; type++) {
		bool can = dev.packet_pacing_caps.supported_qpts & 1u << type;
		struct ibv_qp *qp = sender(&p, (enum ibv_qp_type)type);

		CU_ASSERT_EQUAL(qp && !ibv_modify_qp_rate_limit(qp, &rl), can);
		if (qp) {
			CU_ASSERT_EQUAL(to_urxe_qp(qp)->kbps, can ? 1000 : 0);
			ibv_destroy_qp(qp);
		}
	}
	CU_ASSERT_EQUAL(dev.packet_pacing_caps.supported_qpts >> (IBV_QPT_XRC_SEND + 1), 0);
	pair_close(&p);
}

/* ---- what is not there ---- */

/* End-to-end contexts, reliable datagrams, raw IPv6, fast memory regions: no verb asks for them. */
void attr_no_old_kinds(void)
{
	static const int types[] = {0, 1, 5, 6, 7, 11, IBV_QPT_DRIVER};
	struct ibv_device_attr_ex dev;
	const struct ibv_device_attr *a = &dev.orig_attr;
	struct ibv_qp_init_attr init = {0};
	struct pair p;

	attrs_open(&p, &pp, IBV_QPT_RC, &dev);
	CU_ASSERT(!a->max_ee && !a->max_ee_rd_atom && !a->max_ee_init_rd_atom && !a->max_rdd &&
		  !a->max_raw_ipv6_qp && !a->max_fmr && !a->max_map_per_fmr);
	init.send_cq = init.recv_cq = p.a.cq;
	for (unsigned i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		init.qp_type = (enum ibv_qp_type)types[i];
		REFUSED(ibv_create_qp(p.a.pd, &init), EOPNOTSUPP);
	}
	pair_close(&p);
}

void attr_no_tso(void)
{
	struct ibv_qp_init_attr_ex init = {.qp_type = IBV_QPT_UD,
					   .comp_mask = IBV_QP_INIT_ATTR_PD |
							IBV_QP_INIT_ATTR_MAX_TSO_HEADER,
					   .max_tso_header = 64};
	struct ibv_send_wr wr = {.opcode = IBV_WR_TSO}, *bad;
	struct ibv_device_attr_ex dev;
	struct pair p;

	attrs_open(&p, &pp, IBV_QPT_UD, &dev);
	CU_ASSERT(!dev.tso_caps.max_tso && !dev.tso_caps.supported_qpts);
	init.pd = p.a.pd;
	init.send_cq = init.recv_cq = p.a.cq;
	REFUSED(ibv_create_qp_ex(p.a.ctx, &init), EOPNOTSUPP);
	init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	init.send_ops_flags = IBV_QP_EX_WITH_TSO;
	REFUSED(ibv_create_qp_ex(p.a.ctx, &init), EOPNOTSUPP);
	CU_ASSERT_EQUAL(ibv_post_send(p.a.qp, &wr, &bad), EINVAL);
	pair_close(&p);
}

void attr_no_tag_matching(void)
{
	struct ibv_srq_init_attr_ex sa = {.attr = {.max_wr = 1, .max_sge = 1},
					  .comp_mask = IBV_SRQ_INIT_ATTR_TYPE |
						       IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ |
						       IBV_SRQ_INIT_ATTR_TM,
					  .srq_type = IBV_SRQT_TM,
					  .tm_cap = {.max_num_tags = 1, .max_ops = 1}};
	struct ibv_cq_init_attr_ex ca = {.cqe = 1, .wc_flags = IBV_WC_EX_WITH_TM_INFO};
	struct ibv_srq_init_attr plain = {.attr = {.max_wr = 1, .max_sge = 1}};
	struct ibv_ops_wr op = {.opcode = IBV_WR_TAG_SYNC}, *bad;
	struct ibv_device_attr_ex dev;
	const struct ibv_tm_caps *c = &dev.tm_caps;
	struct ibv_srq *srq;
	struct pair p;

	attrs_open(&p, &pp, IBV_QPT_RC, &dev);
	CU_ASSERT(!c->max_rndv_hdr_size && !c->max_num_tags && !c->flags && !c->max_ops &&
		  !c->max_sge);
	sa.pd = p.a.pd;
	sa.cq = p.a.cq;
	REFUSED(ibv_create_srq_ex(p.a.ctx, &sa), EOPNOTSUPP);
	REFUSED(ibv_create_cq_ex(p.a.ctx, &ca), EOPNOTSUPP);
	srq = ibv_create_srq(p.a.pd, &plain);
	CU_ASSERT_EQUAL(ibv_post_srq_ops(srq, &op, &bad), EOPNOTSUPP);
	ibv_destroy_srq(srq);
	pair_close(&p);
}

/* Checksums, FCS, VLAN tags stripped, drops delayed: asked for, they are refused, not forgotten. */
void attr_no_raw_offloads(void)
{
	struct ibv_wq_init_attr wa = {.wq_type = IBV_WQT_RQ,
				      .max_wr = 1,
				      .max_sge = 1,
				      .comp_mask = IBV_WQ_INIT_ATTR_FLAGS};
	struct ibv_wq_attr change = {.attr_mask = IBV_WQ_ATTR_FLAGS,
				     .flags = IBV_WQ_FLAGS_CVLAN_STRIPPING,
				     .flags_mask = IBV_WQ_FLAGS_CVLAN_STRIPPING};
	struct ibv_qp_init_attr_ex qa = {.qp_type = IBV_QPT_UD,
					 .comp_mask = IBV_QP_INIT_ATTR_PD |
						      IBV_QP_INIT_ATTR_CREATE_FLAGS};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_IP_CSUM}, *bad;
	struct ibv_device_attr_ex dev;
	struct ibv_wq *wq;
	struct pair p;

	attrs_open(&p, &pp, IBV_QPT_RC, &dev);
	CU_ASSERT_EQUAL(dev.raw_packet_caps, 0);
	wa.pd = qa.pd = p.a.pd;
	wa.cq = qa.send_cq = qa.recv_cq = p.a.cq;
	for (unsigned flag = 1; flag <= IBV_WQ_FLAGS_RESERVED; flag *= 2) {
		wa.create_flags = flag;
		REFUSED(ibv_create_wq(p.a.ctx, &wa), EOPNOTSUPP);
	}
	for (unsigned flag = IBV_QP_CREATE_SCATTER_FCS; flag <= IBV_QP_CREATE_PCI_WRITE_END_PADDING;
	     flag *= 2) {
		qa.create_flags = flag;
		REFUSED(ibv_create_qp_ex(p.a.ctx, &qa), EOPNOTSUPP);
	}
	wa.create_flags = 0;
	wq = ibv_create_wq(p.a.ctx, &wa);
	CU_ASSERT_PTR_NOT_NULL_FATAL(wq);
	CU_ASSERT_EQUAL(ibv_modify_wq(wq, &change), EOPNOTSUPP);
	ibv_destroy_wq(wq);
	CU_ASSERT_EQUAL(ibv_post_send(p.a.qp, &wr, &bad), EINVAL);
	pair_close(&p);
}

/* No device of ours does atomics to the memory of others on a bus. */
void attr_no_pci_atomics(void)
{
	struct ibv_device_attr_ex dev;
	struct pair p;

	attrs_open(&p, &pp, IBV_QPT_RC, &dev);
	CU_ASSERT(!dev.pci_atomic_caps.fetch_add && !dev.pci_atomic_caps.swap &&
		  !dev.pci_atomic_caps.compare_swap);
	pair_close(&p);
}
