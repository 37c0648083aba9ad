/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Raw packet QPs: frames out with their lengths checked, in by flow rules of every kind; the
 * RoCEv2 traffic of the same port does not notice.
 */
#include <errno.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "harness.h"
#include "netio/stack.h"
#include "pair.h"
#include "raw.h"

#define FRAME 128

static const struct pair_params params = {.seed = 11, .link = {.latency = 5000}};

static struct ibv_qp *raw_qp(struct side *s)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_qp *qp = pair_qp(s, &params, IBV_QPT_RAW_PACKET);

	CU_ASSERT_EQUAL(ibv_modify_qp(qp, &a, IBV_QP_STATE), EINVAL); /* the port is needed */
	CU_ASSERT_EQUAL(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PORT), 0);
	a.qp_state = IBV_QPS_RTR;
	CU_ASSERT_EQUAL(ibv_modify_qp(qp, &a, IBV_QP_STATE), 0);
	a.qp_state = IBV_QPS_RTS;
	CU_ASSERT_EQUAL(ibv_modify_qp(qp, &a, IBV_QP_STATE), 0);
	return qp;
}

/* A rule and its specs, one behind the other as the verb wants them. */
struct rule {
	struct ibv_flow_attr attr;
	uint8_t specs[512];
	unsigned at;
};

static struct rule rule(enum ibv_flow_attr_type type, uint16_t priority)
{
	struct rule r;

	memset(&r, 0, sizeof(r));
	r.attr.type = type;
	r.attr.priority = priority;
	r.attr.port = 1;
	r.attr.size = sizeof(r.attr);
	return r;
}

static void add(struct rule *r, const void *spec, size_t size)
{
	memcpy(r->specs + r->at, spec, size);
	r->at += (unsigned)size;
	r->attr.num_of_specs++;
	r->attr.size = (uint16_t)(r->attr.size + size);
}

static void add_dst_mac(struct rule *r, const uint8_t mac[6])
{
	struct ibv_flow_spec_eth s = {.type = IBV_FLOW_SPEC_ETH, .size = sizeof(s)};

	memcpy(s.val.dst_mac, mac, 6);
	memset(s.mask.dst_mac, 0xff, 6);
	add(r, &s, sizeof(s));
}

static void add_udp(struct rule *r, uint16_t port)
{
	struct ibv_flow_spec_tcp_udp s = {.type = IBV_FLOW_SPEC_UDP, .size = sizeof(s)};

	s.val.dst_port = htobe16(port);
	s.mask.dst_port = 0xffff;
	add(r, &s, sizeof(s));
}

static struct ibv_flow *flow(struct ibv_qp *qp, struct rule *r)
{
	return ibv_create_flow(qp, &r->attr);
}

/* Ethernet, IPv4, UDP to a port. */
static void make_frame(uint8_t f[FRAME], const uint8_t dmac[6], uint16_t port)
{
	memset(f, 0x33, FRAME);
	memcpy(f, dmac, 6);
	memcpy(f + 6, "\x02\x11\x11\x11\x11\x11", 6);
	urxe_put16(f + 12, 0x0800);
	memset(f + 14, 0, 28);
	f[14] = 0x45;
	urxe_put16(f + 16, FRAME - 14);
	f[22] = 64;
	f[23] = 17;
	memcpy(f + 26, "\x0a\x00\x00\x07\x0a\x00\x00\x02", 8);
	urxe_put16(f + 24, urxe_sum_fold(urxe_sum(0, f + 14, 20)));
	urxe_put16(f + 34, 999);
	urxe_put16(f + 36, port);
	urxe_put16(f + 38, FRAME - 34);
}

static int send_frame(struct side *s, struct ibv_qp *qp, const uint8_t *f, uint32_t len)
{
	struct ibv_sge sge = {(uintptr_t)s->buf, len, s->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 5,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	memcpy(s->buf, f, len);
	return ibv_post_send(qp, &wr, &bad);
}

static void post_recvs(struct side *s, struct ibv_qp *qp, uint64_t id)
{
	for (unsigned i = 0; i < 8; i++) {
		struct ibv_sge sge = {(uintptr_t)s->buf + 0x10000 * (id + 1) + i * 0x800, 0x800,
				      s->mr->lkey};
		struct ibv_recv_wr wr = {.wr_id = id << 8 | i, .sg_list = &sge, .num_sge = 1}, *bad;

		CU_ASSERT_EQUAL(ibv_post_recv(qp, &wr, &bad), 0);
	}
}

/* Who got a copy: a bit a QP; 0x100 for a second one. */
static unsigned receivers(struct pair *p, const uint8_t *frame, uint32_t len)
{
	unsigned got = 0;
	struct ibv_wc wc;

	pair_settle(p, 100000);
	while (ibv_poll_cq(p->b.cq, 1, &wc) == 1) {
		unsigned id = (unsigned)(wc.wr_id >> 8);

		CU_ASSERT_EQUAL(wc.status, IBV_WC_SUCCESS);
		CU_ASSERT_EQUAL(wc.byte_len, len);
		CU_ASSERT_EQUAL(memcmp(p->b.buf + 0x10000 * (id + 1) + (wc.wr_id & 0xff) * 0x800,
				       frame, len),
				0);
		got |= got & 1u << id ? 0x100 : 1u << id;
	}
	while (ibv_poll_cq(p->a.cq, 1, &wc) == 1)
		CU_ASSERT_EQUAL(wc.status, IBV_WC_SUCCESS);
	return got;
}

static unsigned sent(struct pair *p, struct ibv_qp *tx, const uint8_t *dmac, uint16_t port)
{
	uint8_t f[FRAME];

	make_frame(f, dmac, port);
	CU_ASSERT_EQUAL(send_frame(&p->a, tx, f, FRAME), 0);
	return receivers(p, f, FRAME);
}

static void test_rules(void)
{
	static const uint8_t group[6] = {1, 0, 0x5e, 1, 2, 3}, alien[6] = {1, 0, 0x5e, 9, 9, 9};
	struct rule mac = rule(IBV_FLOW_ATTR_NORMAL, 1), udp = rule(IBV_FLOW_ATTR_NORMAL, 2),
		    both = rule(IBV_FLOW_ATTR_NORMAL, 2), all = rule(IBV_FLOW_ATTR_ALL_DEFAULT, 0),
		    mc = rule(IBV_FLOW_ATTR_MC_DEFAULT, 0), sniff = rule(IBV_FLOW_ATTR_SNIFFER, 0);
	struct urxe_port_info b;
	struct ibv_flow *f[6];
	struct ibv_qp *tx, *q[4];
	uint64_t lost;
	struct pair p;

	pair_open(&p, &params, IBV_QPT_RC);
	pair_meet(&p);
	urxe_port_query(p.b.dev->port, &b);
	tx = raw_qp(&p.a);
	for (unsigned i = 0; i < 4; i++) {
		q[i] = raw_qp(&p.b);
		post_recvs(&p.b, q[i], i);
	}
	CU_ASSERT_EQUAL(sent(&p, tx, b.mac, 7000), 0); /* no rule, no frame */
	add_dst_mac(&mac, alien);
	add_udp(&udp, 7000);
	add_dst_mac(&both, b.mac);
	add_udp(&both, 7000);
	f[0] = flow(q[0], &mac);
	f[1] = flow(q[1], &udp);
	CU_ASSERT_FATAL(f[0] && f[1]);
	lost = pair_counter(&p.b, "rx_udp_port");
	CU_ASSERT_EQUAL(sent(&p, tx, b.mac, 7000), 2);
	CU_ASSERT_EQUAL(pair_counter(&p.b, "rx_udp_port"), lost); /* it is not lost */
	CU_ASSERT_EQUAL(sent(&p, tx, b.mac, 7001), 0);
	CU_ASSERT_EQUAL(pair_counter(&p.b, "rx_udp_port"), lost + 1);
	CU_ASSERT_EQUAL(sent(&p, tx, alien, 7000), 1); /* the better priority has it */
	CU_ASSERT_EQUAL(sent(&p, tx, alien, 1), 1);
	/* rules of one priority share; a QP gets one copy however many of its rules match */
	f[2] = flow(q[2], &both);
	f[3] = flow(q[2], &udp);
	CU_ASSERT_FATAL(f[2] && f[3]);
	CU_ASSERT_EQUAL(sent(&p, tx, b.mac, 7000), 6);
	CU_ASSERT_EQUAL(ibv_destroy_flow(f[3]), 0);
	CU_ASSERT_EQUAL(ibv_destroy_flow(f[2]), 0);
	CU_ASSERT_EQUAL(sent(&p, tx, b.mac, 7000), 2);
	/* a rule that does not trap leaves the frame to the next */
	CU_ASSERT_EQUAL(ibv_destroy_flow(f[0]), 0);
	mac.attr.flags = IBV_FLOW_ATTR_FLAGS_DONT_TRAP;
	f[0] = flow(q[0], &mac);
	CU_ASSERT_EQUAL(sent(&p, tx, alien, 7000), 3);
	/* defaults and sniffer */
	f[2] = flow(q[2], &all);
	f[3] = flow(q[3], &mc);
	CU_ASSERT_EQUAL(sent(&p, tx, b.mac, 1), 4);
	CU_ASSERT_EQUAL(sent(&p, tx, group, 1), 8);
	CU_ASSERT_EQUAL(sent(&p, tx, b.mac, 7000), 2);
	f[4] = flow(q[0], &sniff);
	CU_ASSERT_EQUAL(sent(&p, tx, b.mac, 7000), 3);
	CU_ASSERT_EQUAL(sent(&p, tx, group, 1), 9);
	CU_ASSERT_EQUAL(ibv_destroy_qp(q[3]), EBUSY);
	for (unsigned i = 0; i < 5; i++)
		CU_ASSERT_EQUAL(ibv_destroy_flow(f[i]), 0);
	for (unsigned i = 0; i < 4; i++)
		CU_ASSERT_EQUAL(ibv_destroy_qp(q[i]), 0);
	CU_ASSERT_EQUAL(ibv_destroy_qp(tx), 0);
	pair_close(&p);
}

static void test_beside_roce(void)
{
	struct rule all = rule(IBV_FLOW_ATTR_ALL_DEFAULT, 0),
		    sniff = rule(IBV_FLOW_ATTR_SNIFFER, 0);
	struct ibv_flow *f, *g;
	struct ibv_qp *q, *s;
	unsigned seen = 0;
	struct ibv_wc wc;
	struct pair p;

	pair_open(&p, &params, IBV_QPT_RC);
	pair_meet(&p);
	q = raw_qp(&p.b);
	s = raw_qp(&p.b);
	post_recvs(&p.b, q, 0);
	post_recvs(&p.b, s, 1);
	f = flow(q, &all);
	CU_ASSERT_EQUAL(
		pair_post(&p.a, IBV_WR_RDMA_WRITE, 1, 0, 4000, &p.b, 0x80000, IBV_SEND_SIGNALED),
		0);
	CU_ASSERT_FATAL(pair_wait(&p, p.a.cq, &wc));
	CU_ASSERT_EQUAL(wc.status, IBV_WC_SUCCESS);
	CU_ASSERT_EQUAL(ibv_poll_cq(p.b.cq, 1, &wc), 0); /* not for a default rule */
	g = flow(s, &sniff);
	CU_ASSERT_EQUAL(
		pair_post(&p.a, IBV_WR_RDMA_WRITE, 1, 0, 4000, &p.b, 0x80000, IBV_SEND_SIGNALED),
		0);
	CU_ASSERT_FATAL(pair_wait(&p, p.a.cq, &wc));
	CU_ASSERT_EQUAL(wc.status, IBV_WC_SUCCESS);
	while (ibv_poll_cq(p.b.cq, 1, &wc) == 1)
		seen += wc.qp_num == s->qp_num && wc.byte_len > 900;
	CU_ASSERT_EQUAL(seen, 4); /* the sniffer sees all */
	ibv_destroy_flow(f);
	ibv_destroy_flow(g);
	ibv_destroy_qp(q);
	ibv_destroy_qp(s);
	pair_close(&p);
}

static void test_loopback(void)
{
	static const uint8_t group[6] = {1, 0x50, 0x56, 0x19, 0x20, 0xa7};
	struct rule udp = rule(IBV_FLOW_ATTR_NORMAL, 0);
	struct urxe_port_info b;
	struct ibv_flow *f;
	struct ibv_qp *q, *tx;
	uint8_t frame[FRAME];
	struct pair p;

	pair_open(&p, &params, IBV_QPT_RC);
	pair_meet(&p);
	urxe_port_query(p.b.dev->port, &b);
	q = raw_qp(&p.b);
	tx = raw_qp(&p.b);
	post_recvs(&p.b, q, 0);
	add_udp(&udp, 7000);
	f = flow(q, &udp);
	for (unsigned i = 0; i < 2; i++) {
		struct ibv_wc wc[3];

		make_frame(frame, i ? group : b.mac, 7000);
		CU_ASSERT_EQUAL(send_frame(&p.b, tx, frame, FRAME), 0);
		pair_settle(&p, 100000);
		CU_ASSERT_EQUAL(ibv_poll_cq(p.b.cq, 3, wc), 2);
		CU_ASSERT_EQUAL(memcmp(p.b.buf + 0x10000 + 0x800 * i, frame, FRAME), 0);
	}
	ibv_destroy_flow(f);
	ibv_destroy_qp(q);
	ibv_destroy_qp(tx);
	pair_close(&p);
}

static void test_lengths(void)
{
	struct rule all = rule(IBV_FLOW_ATTR_ALL_DEFAULT, 0);
	static const uint8_t alien[6] = {1, 0, 0x5e, 9, 9, 9};
	const struct {
		uint32_t len;
		bool tagged;
		enum ibv_wc_status status;
		uint32_t arrives;
	} t[] = {
		{13, false, IBV_WC_LOC_LEN_ERR, 0},   {14, false, IBV_WC_SUCCESS, 60},
		{60, false, IBV_WC_SUCCESS, 60},      {1514, false, IBV_WC_SUCCESS, 1514},
		{1515, false, IBV_WC_LOC_LEN_ERR, 0}, {1518, true, IBV_WC_SUCCESS, 1518},
		{1519, true, IBV_WC_LOC_LEN_ERR, 0},  {9000, false, IBV_WC_LOC_LEN_ERR, 0},
	};
	static uint8_t frame[16384];

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct ibv_qp_attr a;
		struct ibv_qp_init_attr init;
		struct ibv_flow *f;
		struct ibv_qp *q, *tx;
		struct ibv_wc wc;
		struct pair p;

		pair_open(&p, &params, IBV_QPT_RC);
		pair_meet(&p);
		tx = raw_qp(&p.a);
		q = raw_qp(&p.b);
		post_recvs(&p.b, q, 0);
		f = flow(q, &all);
		memset(frame, 0x77, sizeof(frame));
		memcpy(frame, alien, 6);
		urxe_put16(frame + 12, t[i].tagged ? 0x8100 : 0x88b5);
		CU_ASSERT_EQUAL(send_frame(&p.a, tx, frame, t[i].len), 0);
		CU_ASSERT_FATAL(pair_wait(&p, p.a.cq, &wc));
		CU_ASSERT_EQUAL(wc.status, t[i].status);
		ibv_query_qp(tx, &a, IBV_QP_STATE, &init);
		CU_ASSERT_EQUAL(a.qp_state, wc.status ? IBV_QPS_SQE : IBV_QPS_RTS);
		pair_settle(&p, 100000);
		CU_ASSERT_EQUAL(ibv_poll_cq(p.b.cq, 1, &wc), t[i].arrives != 0);
		if (t[i].arrives) {
			CU_ASSERT_EQUAL(wc.byte_len, t[i].arrives);
		}
		ibv_destroy_flow(f);
		ibv_destroy_qp(q);
		ibv_destroy_qp(tx);
		pair_close(&p);
	}
}

static int errno_of(struct ibv_qp *qp, struct rule *r)
{
	errno = 0;
	CU_ASSERT(flow(qp, r) == NULL);
	return errno;
}

static void test_refused(void)
{
	struct ibv_flow_spec_ipv4 v4 = {.type = IBV_FLOW_SPEC_IPV4, .size = sizeof(v4)};
	struct ibv_flow_spec_ipv6 v6 = {.type = IBV_FLOW_SPEC_IPV6, .size = sizeof(v6)};
	struct ibv_flow_spec_action_drop drop = {.type = IBV_FLOW_SPEC_ACTION_DROP,
						 .size = sizeof(drop)};
	struct rule r;
	struct ibv_qp *q;
	struct pair p;

	pair_open(&p, &params, IBV_QPT_RC);
	q = raw_qp(&p.a);
	r = rule(IBV_FLOW_ATTR_NORMAL, 0);
	CU_ASSERT_EQUAL(errno_of(p.a.qp, &r), EINVAL); /* RC */
	r.attr.port = 2;
	CU_ASSERT_EQUAL(errno_of(q, &r), EINVAL);
	r = rule(IBV_FLOW_ATTR_NORMAL, 0);
	v4.size = 4;
	add(&r, &v4, sizeof(v4));
	CU_ASSERT_EQUAL(errno_of(q, &r), EINVAL);
	r = rule(IBV_FLOW_ATTR_NORMAL, 0);
	v4.size = sizeof(v4);
	add(&r, &v4, sizeof(v4));
	add(&r, &v6, sizeof(v6));
	CU_ASSERT_EQUAL(errno_of(q, &r), EINVAL);
	r = rule(IBV_FLOW_ATTR_NORMAL, 0);
	add(&r, &drop, sizeof(drop));
	CU_ASSERT_EQUAL(errno_of(q, &r), EOPNOTSUPP);
	r = rule(IBV_FLOW_ATTR_SNIFFER, 0);
	add(&r, &v4, sizeof(v4));
	CU_ASSERT_EQUAL(errno_of(q, &r), EINVAL);
	ibv_destroy_qp(q);
	pair_close(&p);
}

/* Specs lie where they come to lie: UndefinedBehaviorSanitizer looks on. */
static void test_unaligned_specs(void)
{
	static const uint8_t mac[6] = {2, 0x42, 0x42, 0x42, 0x42, 0x42};
	struct ibv_flow *f;
	struct ibv_qp *q;
	struct pair p;
	uint64_t room[sizeof(struct rule) / 8 + 2];

	pair_open(&p, &params, IBV_QPT_RC);
	q = raw_qp(&p.a);
	for (unsigned i = 0; i < 8; i += 4) {
		struct rule *r = (struct rule *)(void *)((uint8_t *)room + i);

		*r = rule(IBV_FLOW_ATTR_NORMAL, 0);
		add_dst_mac(r, mac);
		add_udp(r, 4791);
		f = flow(q, r);
		CU_ASSERT_FATAL(f != NULL);
		CU_ASSERT_EQUAL(ibv_destroy_flow(f), 0);
		/* One that claims to be shorter than its own header. */
		r->specs[sizeof(enum ibv_flow_spec_type)] = 2;
		CU_ASSERT_EQUAL(errno_of(q, r), EINVAL);
	}
	ibv_destroy_qp(q);
	pair_close(&p);
}

/* Without CAP_NET_RAW there is neither QP nor rule. */
static void test_permission(void)
{
	struct __user_cap_header_struct hdr = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct had[2], none[2];
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RAW_PACKET};
	struct rule r = rule(IBV_FLOW_ATTR_NORMAL, 0);
	struct ibv_qp *q;
	struct pair p;

	pair_open(&p, &params, IBV_QPT_RC);
	q = raw_qp(&p.a);
	attr.send_cq = attr.recv_cq = p.a.cq;
	CU_ASSERT_EQUAL_FATAL(syscall(SYS_capget, &hdr, had), 0);
	memcpy(none, had, sizeof(none));
	none[0].effective &= ~(1u << CAP_NET_RAW);
	CU_ASSERT_EQUAL_FATAL(syscall(SYS_capset, &hdr, none), 0);
	errno = 0;
	CU_ASSERT(ibv_create_qp(p.a.pd, &attr) == NULL);
	CU_ASSERT_EQUAL(errno, EPERM);
	CU_ASSERT_EQUAL(errno_of(q, &r), EPERM);
	CU_ASSERT_EQUAL(syscall(SYS_capset, &hdr, had), 0);
	ibv_destroy_qp(q);
	pair_close(&p);
}

/* The rest of this program needs the right. */
static bool permitted(void)
{
	if (!urxe_raw_check_permission())
		return true;
	urxe_harness_skip("no CAP_NET_RAW");
	return false;
}

#define NEEDS_RIGHT(fn)           \
	static void fn##_if(void) \
	{                         \
		if (permitted())  \
			fn();     \
	}

NEEDS_RIGHT(test_rules)
NEEDS_RIGHT(test_beside_roce)
NEEDS_RIGHT(test_loopback)
NEEDS_RIGHT(test_lengths)
NEEDS_RIGHT(test_refused)
NEEDS_RIGHT(test_unaligned_specs)
NEEDS_RIGHT(test_permission)

URXE_TEST_MAIN("raw_packet", T(test_rules_if), T(test_beside_roce_if), T(test_loopback_if),
	       T(test_lengths_if), T(test_refused_if), T(test_unaligned_specs_if),
	       T(test_permission_if))
