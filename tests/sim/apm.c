/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Automatic path migration between two networks: the handshake to ARMED, migration because
 * software says so, because the path fails, because the peer has gone; and back again.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "harness.h"
#include "forge.h"
#include "retry.h"

static const struct pair_params params = {
	.seed = 9, .link = {.latency = 5000}, .two_nets = true, .timeout = 8};

/* A network that is dead: frames to its addresses are lost. -1: none. */
static int dead_net;

static bool alive(void *arg, struct urxe_sim_end *from, const uint8_t *data, uint32_t len)
{
	return !(len >= 34 && data[12] == 0x08 && data[13] == 0x00 && data[32] == dead_net);
}

/* Nor are those to any address when dead_net is 2. */
static bool nothing_alive(void *arg, struct urxe_sim_end *from, const uint8_t *data, uint32_t len)
{
	return dead_net != 2;
}

static struct ibv_ah_attr on_net(struct side *from, struct side *to, unsigned net)
{
	struct ibv_ah_attr ah = pair_path(from, to);

	ah.grh.sgid_index = (uint8_t)net;
	ah.grh.dgid.raw[14] = (uint8_t)net;
	return ah;
}

static int load(struct side *s, struct side *to, unsigned net, int more, enum ibv_mig_state state)
{
	/* The paths' time-outs: 8 of the first, 9 of the second. */
	struct ibv_qp_attr a = {
		.alt_port_num = 1, .alt_timeout = (uint8_t)(8 + net), .path_mig_state = state};

	a.alt_ah_attr = on_net(s, to, net);
	return ibv_modify_qp(s->qp, &a, IBV_QP_ALT_PATH | more);
}

static struct ibv_qp_attr state_of(struct side *s)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	CU_ASSERT_EQUAL(ibv_query_qp(s->qp, &a, IBV_QP_PATH_MIG_STATE, &init), 0);
	return a;
}

static enum ibv_wc_status write_some(struct pair *p, struct side *from, struct side *to)
{
	struct ibv_wc wc;

	CU_ASSERT_EQUAL(pair_post(from, IBV_WR_RDMA_WRITE, 1, 0, 3000, to, 0, IBV_SEND_SIGNALED),
			0);
	CU_ASSERT_FATAL(pair_wait(p, from->cq, &wc));
	return wc.status;
}

static unsigned events(struct side *s, enum ibv_event_type type)
{
	struct pollfd pfd = {.fd = s->ctx->async_fd, .events = POLLIN};
	struct ibv_async_event ev;
	unsigned n = 0;

	while (poll(&pfd, 1, 0) == 1) {
		CU_ASSERT_EQUAL(ibv_get_async_event(s->ctx, &ev), 0);
		n += ev.event_type == type;
		ibv_ack_async_event(&ev);
	}
	return n;
}

static void armed(struct pair *p, enum ibv_qp_type type, unsigned net)
{
	dead_net = -1;
	if (!p->sim) {
		pair_open(p, &params, type);
		pair_meet(p);
		urxe_sim_filter(p->sim, alive, NULL);
	}
	CU_ASSERT_EQUAL(load(&p->a, &p->b, net, IBV_QP_PATH_MIG_STATE, IBV_MIG_REARM), 0);
	CU_ASSERT_EQUAL(state_of(&p->a).path_mig_state, IBV_MIG_REARM);
	/* The peer is still MIGRATED, and says so: no handshake. */
	CU_ASSERT_EQUAL(write_some(p, &p->a, &p->b), IBV_WC_SUCCESS);
	CU_ASSERT_EQUAL(state_of(&p->a).path_mig_state, IBV_MIG_REARM);
	CU_ASSERT_EQUAL(load(&p->b, &p->a, net, IBV_QP_PATH_MIG_STATE, IBV_MIG_REARM), 0);
	CU_ASSERT_EQUAL(write_some(p, &p->a, &p->b), IBV_WC_SUCCESS);
	CU_ASSERT_EQUAL(state_of(&p->a).path_mig_state, IBV_MIG_ARMED);
	CU_ASSERT_EQUAL(state_of(&p->b).path_mig_state, IBV_MIG_ARMED);
	CU_ASSERT_EQUAL(events(&p->a, IBV_EVENT_PATH_MIG), 0);
}

static void expect_migrated(struct side *s, unsigned net)
{
	struct ibv_qp_attr a = state_of(s);

	CU_ASSERT_EQUAL(a.path_mig_state, IBV_MIG_MIGRATED);
	CU_ASSERT_EQUAL(a.ah_attr.grh.sgid_index, net);
	CU_ASSERT_EQUAL(a.ah_attr.grh.dgid.raw[14], net);
	CU_ASSERT_EQUAL(a.alt_ah_attr.grh.dgid.raw[14], !net);
	CU_ASSERT_EQUAL(a.timeout, 8 + net);
	CU_ASSERT_EQUAL(a.alt_timeout, 8 + !net);
	/* What is known of the way to the peer is that of this one. */
	CU_ASSERT_PTR_EQUAL(to_urxe_qp(s->qp)->peer, urxe_peer_of(s->dev, a.ah_attr.grh.dgid.raw));
	CU_ASSERT_EQUAL(events(s, IBV_EVENT_PATH_MIG), 1);
}

static void test_software(void)
{
	struct ibv_qp_attr a = {.path_mig_state = IBV_MIG_MIGRATED};
	struct pair p = {0};

	armed(&p, IBV_QPT_RC, 1);
	CU_ASSERT_EQUAL(ibv_modify_qp(p.a.qp, &a, IBV_QP_PATH_MIG_STATE), 0);
	expect_migrated(&p.a, 1);
	CU_ASSERT_EQUAL(state_of(&p.b).path_mig_state, IBV_MIG_ARMED);
	CU_ASSERT_EQUAL(write_some(&p, &p.a, &p.b), IBV_WC_SUCCESS);
	expect_migrated(&p.b, 1);
	CU_ASSERT_EQUAL(write_some(&p, &p.b, &p.a), IBV_WC_SUCCESS);
	/* and back */
	armed(&p, IBV_QPT_RC, 0);
	CU_ASSERT_EQUAL(ibv_modify_qp(p.b.qp, &a, IBV_QP_PATH_MIG_STATE), 0);
	CU_ASSERT_EQUAL(write_some(&p, &p.b, &p.a), IBV_WC_SUCCESS);
	expect_migrated(&p.a, 0);
	expect_migrated(&p.b, 0);
	pair_close(&p);
}

static void test_failure(void)
{
	struct pair p = {0};

	armed(&p, IBV_QPT_RC, 1);
	dead_net = 0;
	CU_ASSERT_EQUAL(write_some(&p, &p.a, &p.b), IBV_WC_SUCCESS);
	expect_migrated(&p.a, 1);
	expect_migrated(&p.b, 1);
	CU_ASSERT_EQUAL(memcmp(p.a.buf, p.b.buf, 3000), 0);
	CU_ASSERT_EQUAL(write_some(&p, &p.b, &p.a), IBV_WC_SUCCESS);
	/* Nothing is armed any more: the next failure is one. */
	dead_net = 1;
	CU_ASSERT_EQUAL(write_some(&p, &p.a, &p.b), IBV_WC_RETRY_EXC_ERR);
	dead_net = -1;
	pair_close(&p);
}

/* A pair that is armed, on which net @net is dead from now on; 2: both are. */
static void without_net(struct pair *p, const struct pair_params *pp, int net)
{
	pair_open(p, pp, IBV_QPT_RC);
	pair_meet(p);
	urxe_sim_filter(p->sim, net == 2 ? nothing_alive : alive, NULL);
	armed(p, IBV_QPT_RC, 1);
	dead_net = net;
}

/* Without retries: a path is tried once each, and there are no more after them. */
static void test_no_retries(void)
{
	struct pair_params pp = params;
	struct pair p;

	pp.set_retries = true;
	pp.rnr_retry = 7;
	without_net(&p, &pp, 0);
	CU_ASSERT_EQUAL(write_some(&p, &p.a, &p.b), IBV_WC_SUCCESS);
	expect_migrated(&p.a, 1);
	CU_ASSERT_EQUAL(pair_stat(&p.a, URXE_STAT_TIMEOUTS), 1);
	dead_net = 1;
	CU_ASSERT_EQUAL(write_some(&p, &p.a, &p.b), IBV_WC_RETRY_EXC_ERR);
	CU_ASSERT_EQUAL(pair_stat(&p.a, URXE_STAT_TIMEOUTS), 2);
	dead_net = -1;
	pair_close(&p);

	/* Both at once: the counter does not go below zero. */
	without_net(&p, &pp, 2);
	CU_ASSERT_EQUAL(write_some(&p, &p.a, &p.b), IBV_WC_RETRY_EXC_ERR);
	CU_ASSERT_EQUAL(pair_stat(&p.a, URXE_STAT_TIMEOUTS), 2);
	dead_net = -1;
	pair_close(&p);
}

/* The path that is tried next has as many retries as the first. */
static void test_retries_begin_anew(void)
{
	struct pair_params pp = params;
	struct pair p;

	pp.set_retries = true;
	pp.retry_cnt = 1;
	without_net(&p, &pp, 2);
	CU_ASSERT_EQUAL(write_some(&p, &p.a, &p.b), IBV_WC_RETRY_EXC_ERR);
	CU_ASSERT_EQUAL(pair_stat(&p.a, URXE_STAT_TIMEOUTS), 4);
	CU_ASSERT_EQUAL(events(&p.a, IBV_EVENT_PATH_MIG), 1);
	dead_net = -1;
	pair_close(&p);
}

/* A packet that says "migrated" from the peer's other address, but to our first one. */
static void test_crossed_path(void)
{
	struct raw_pkt k = {.opcode = RC(WRITE_ONLY)};
	struct pair p = {0};
	uint8_t f[256];
	uint32_t len;

	armed(&p, IBV_QPT_RC, 1);
	k.psn = to_urxe_qp(p.b.qp)->resp.epsn;
	memcpy(&k.src_ip, to_urxe_qp(p.b.qp)->alt_dgid + 12, 4);
	k.src_ip = be32toh(k.src_ip);
	len = raw_frame(&p.a, &p.b, &k, f);
	raw_bth(f)[1] |= 0x40;
	raw_reseal(f, len);
	urxe_sim_put(p.b.end, f, len);
	pair_settle(&p, 1000000);
	CU_ASSERT_EQUAL(pair_stat(&p.b, URXE_STAT_RX_WRONG_PEER), 1);
	CU_ASSERT_EQUAL(state_of(&p.b).path_mig_state, IBV_MIG_ARMED);
	CU_ASSERT_EQUAL(events(&p.b, IBV_EVENT_PATH_MIG), 0);
	pair_close(&p);
}

/* The peer says it has migrated, but is where it was. */
static void test_refused(void)
{
	struct pair p = {0};

	armed(&p, IBV_QPT_RC, 1);
	to_urxe_qp(p.a.qp)->mig_state = IBV_MIG_MIGRATED;
	CU_ASSERT_EQUAL(write_some(&p, &p.a, &p.b), IBV_WC_SUCCESS);
	CU_ASSERT_EQUAL(write_some(&p, &p.a, &p.b), IBV_WC_SUCCESS);
	CU_ASSERT_EQUAL(state_of(&p.b).path_mig_state, IBV_MIG_ARMED);
	CU_ASSERT_EQUAL(events(&p.b, IBV_EVENT_PATH_MIG_ERR), 1);
	/* Armed anew it is told anew. */
	to_urxe_qp(p.b.qp)->mig_state = IBV_MIG_MIGRATED;
	armed(&p, IBV_QPT_RC, 1);
	to_urxe_qp(p.a.qp)->mig_state = IBV_MIG_MIGRATED;
	CU_ASSERT_EQUAL(write_some(&p, &p.a, &p.b), IBV_WC_SUCCESS);
	CU_ASSERT_EQUAL(events(&p.b, IBV_EVENT_PATH_MIG_ERR), 1);
	pair_close(&p);
}

static void test_attributes(void)
{
	struct ibv_qp_attr a = {.path_mig_state = IBV_MIG_REARM};
	struct pair p;

	dead_net = -1;
	pair_open(&p, &params, IBV_QPT_RC);
	CU_ASSERT_EQUAL(ibv_modify_qp(p.a.qp, &a, IBV_QP_PATH_MIG_STATE), EINVAL); /* no path */
	a.path_mig_state = IBV_MIG_ARMED;
	CU_ASSERT_EQUAL(ibv_modify_qp(p.a.qp, &a, IBV_QP_PATH_MIG_STATE), EINVAL);
	CU_ASSERT_EQUAL(load(&p.a, &p.b, 1, 0, 0), 0);
	CU_ASSERT_EQUAL(state_of(&p.a).alt_ah_attr.grh.sgid_index, 1);
	CU_ASSERT_EQUAL(state_of(&p.a).alt_timeout, 9);
	CU_ASSERT_EQUAL(ibv_modify_qp(p.a.qp, &a, IBV_QP_PATH_MIG_STATE), EINVAL);
	a = (struct ibv_qp_attr){.alt_port_num = 2};
	a.alt_ah_attr = on_net(&p.a, &p.b, 1);
	CU_ASSERT_EQUAL(ibv_modify_qp(p.a.qp, &a, IBV_QP_ALT_PATH), EINVAL);
	a.alt_port_num = 1;
	a.alt_timeout = 32;
	CU_ASSERT_EQUAL(ibv_modify_qp(p.a.qp, &a, IBV_QP_ALT_PATH), EINVAL);
	a.alt_timeout = 31;
	CU_ASSERT_EQUAL(ibv_modify_qp(p.a.qp, &a, IBV_QP_ALT_PATH), 0);
	a.alt_ah_attr.is_global = 0;
	CU_ASSERT_EQUAL(ibv_modify_qp(p.a.qp, &a, IBV_QP_ALT_PATH), EINVAL);
	a.qp_state = IBV_QPS_RESET;
	CU_ASSERT_EQUAL(ibv_modify_qp(p.a.qp, &a, IBV_QP_STATE), 0);
	CU_ASSERT_EQUAL(state_of(&p.a).path_mig_state, IBV_MIG_MIGRATED);
	pair_close(&p);
}

URXE_TEST_MAIN("apm", T(test_software), T(test_failure), T(test_no_retries),
	       T(test_retries_begin_anew), T(test_crossed_path), T(test_refused),
	       T(test_attributes))
