/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ibv_modify_qp against a second description of IBTA 11.2.5.2: every state, to every state, for
 * each transport, with each attribute missing, and with each attribute that does not belong.
 */
#include <errno.h>
#include <string.h>

#include "harness.h"
#include "log_kept.h"
#include "pair.h"

/* The attributes, in the order of the strings below. */
static const struct {
	char c;
	int bit;
} attrs[] = {
	{'k', IBV_QP_PKEY_INDEX},
	{'p', IBV_QP_PORT},
	{'a', IBV_QP_ACCESS_FLAGS},
	{'q', IBV_QP_QKEY},
	{'v', IBV_QP_AV},
	{'m', IBV_QP_PATH_MTU},
	{'d', IBV_QP_DEST_QPN},
	{'R', IBV_QP_RQ_PSN},
	{'S', IBV_QP_SQ_PSN},
	{'D', IBV_QP_MAX_DEST_RD_ATOMIC},
	{'I', IBV_QP_MAX_QP_RD_ATOMIC},
	{'n', IBV_QP_MIN_RNR_TIMER},
	{'t', IBV_QP_TIMEOUT},
	{'r', IBV_QP_RETRY_CNT},
	{'x', IBV_QP_RNR_RETRY},
	{'e', IBV_QP_EN_SQD_ASYNC_NOTIFY},
	{'c', IBV_QP_CUR_STATE},
	{'L', IBV_QP_ALT_PATH},
	{'M', IBV_QP_PATH_MIG_STATE},
	{'P', IBV_QP_RATE_LIMIT},
	{'C', IBV_QP_CAP},
};
#define ATTRS (sizeof(attrs) / sizeof(attrs[0]))

enum {
	RST,
	INI,
	RTR,
	RTS,
	SQD,
	SQE,
	ERR,
	STATES
};

/* "must have/may have"; NULL: no such transition. */
struct rule {
	int from, to;
	const char *rc, *uc, *ud;
};

static const struct rule rules[] = {
	{RST, INI, "kpa/", "kpa/", "kpq/"},
	{INI, INI, "/kpa", "/kpa", "/kpq"},
	{INI, RTR, "vmdRDn/Lak", "vmdR/Lak", "/kq"},
	{RTR, RTS, "trxSI/caLMnP", "S/caLMP", "S/cqP"},
	{RTS, RTS, "/caLMnP", "/caLMP", "/cqP"},
	{RTS, SQD, "/e", "/e", "/e"},
	{SQD, RTS, "/caLMnP", "/caLMP", "/cqP"},
	{SQD, SQD, "/pvtrxIDLaknM", "/vLakM", "/kq"},
	{SQE, RTS, NULL, "/ca", "/cqP"},
};

static int bits(const char *s, const char *end)
{
	int mask = 0;

	for (; s < end; s++)
		for (unsigned i = 0; i < ATTRS; i++)
			if (attrs[i].c == *s)
				mask |= attrs[i].bit;
	return mask;
}

static bool lookup(enum ibv_qp_type type, int from, int to, int *must, int *may)
{
	/* From anywhere, and with nothing but the state one believes it is in. */
	*must = 0;
	*may = IBV_QP_CUR_STATE;
	if (to == RST || to == ERR)
		return true;
	for (unsigned i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		const struct rule *r = &rules[i];
		const char *s = type == IBV_QPT_RC ? r->rc : type == IBV_QPT_UC ? r->uc : r->ud;

		if (r->from != from || r->to != to || !s)
			continue;
		*must = bits(s, strchr(s, '/'));
		*may = bits(strchr(s, '/') + 1, s + strlen(s));
		return true;
	}
	return false;
}

static struct pair pair;
static struct pair_params params = {.seed = 3, .link = {.latency = 1000}};

static struct ibv_qp_attr good_attr(int from, int to)
{
	return (struct ibv_qp_attr){
		.qp_state = (enum ibv_qp_state)to,
		.cur_qp_state = (enum ibv_qp_state)from,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
		.qkey = 0x1234,
		.ah_attr = pair_path(&pair.a, &pair.b),
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = 0x123456,
		.max_dest_rd_atomic = 4,
		.max_rd_atomic = 4,
		.min_rnr_timer = 12,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.alt_ah_attr = pair_path(&pair.a, &pair.b),
		.alt_port_num = 1,
		.alt_timeout = 14,
		.path_mig_state = IBV_MIG_MIGRATED,
		.rate_limit = 100000,
	};
}

/* A QP in a state; SQE is set from within, there is no other quick way. */
static struct ibv_qp *qp_in(enum ibv_qp_type type, int state)
{
	static const int way[] = {RST, INI, RTR, RTS, SQD};
	struct ibv_qp *qp = pair_qp(&pair.a, &params, type);
	int must, may, to = state == SQE ? RTS : state;

	if (state == ERR) {
		CU_ASSERT_EQUAL(pair_modify(qp, IBV_QPS_ERR), 0);
		return qp;
	}
	for (int i = 1; i <= to; i++) {
		struct ibv_qp_attr a = good_attr(way[i - 1], way[i]);

		CU_ASSERT_FATAL(lookup(type, way[i - 1], way[i], &must, &may));
		CU_ASSERT_EQUAL_FATAL(ibv_modify_qp(qp, &a, must | IBV_QP_STATE), 0);
	}
	if (state == SQE)
		to_urxe_qp(qp)->state = IBV_QPS_SQE;
	return qp;
}

/* One attempt on a QP of its own; what failed has changed nothing. */
static void attempt(enum ibv_qp_type type, int from, int to, int mask, int expect)
{
	struct ibv_qp *qp = qp_in(type, from);
	struct ibv_qp_attr a = good_attr(from, to), before, after;
	struct ibv_qp_init_attr init;
	int err;

	ibv_query_qp(qp, &before, IBV_QP_STATE, &init);
	err = ibv_modify_qp(qp, &a, mask | IBV_QP_STATE);
	if (err != expect)
		printf("\n    type %d, %d to %d, mask %#x: %d, expected %d\n", type, from, to, mask,
		       err, expect);
	CU_ASSERT_EQUAL(err, expect);
	ibv_query_qp(qp, &after, IBV_QP_STATE, &init);
	if (err)
		CU_ASSERT(!memcmp(&before, &after, sizeof(after)));
	if (!err)
		CU_ASSERT_EQUAL(after.qp_state, (enum ibv_qp_state)to);
	ibv_destroy_qp(qp);
}

static void transition(enum ibv_qp_type type, int from, int to)
{
	int must, may;

	/* A state that the transport does not have. */
	if (from == SQE && type == IBV_QPT_RC)
		return;
	if (!lookup(type, from, to, &must, &may)) {
		attempt(type, from, to, 0, EINVAL);
		for (unsigned i = 0; i < ATTRS; i++)
			attempt(type, from, to, attrs[i].bit, EINVAL);
		attempt(type, from, to, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
			EINVAL);
		return;
	}
	attempt(type, from, to, must, 0);
	attempt(type, from, to, must | may, 0);
	for (unsigned i = 0; i < ATTRS; i++) {
		int b = attrs[i].bit;

		if (must & b)
			attempt(type, from, to, must & ~b, EINVAL);
		else
			attempt(type, from, to, must | b, may & b ? 0 : EINVAL);
	}
}

static void table(enum ibv_qp_type type)
{
	pair_open(&pair, &params, type);
	for (int from = RST; from < STATES; from++)
		for (int to = RST; to < STATES; to++)
			transition(type, from, to);
	pair_close(&pair);
}

static void test_rc(void)
{
	table(IBV_QPT_RC);
}
static void test_uc(void)
{
	table(IBV_QPT_UC);
}
static void test_ud(void)
{
	table(IBV_QPT_UD);
}

/* ---- values ---- */

static void bad_value(int from, int to, int mask, struct ibv_qp_attr a)
{
	struct ibv_qp *qp = qp_in(IBV_QPT_RC, from);
	int must, may;

	if (mask & IBV_QP_STATE)
		to = from;
	else
		a.qp_state = (enum ibv_qp_state)to;
	lookup(IBV_QPT_RC, from, to, &must, &may);
	CU_ASSERT_EQUAL(ibv_modify_qp(qp, &a, must | mask | IBV_QP_STATE), EINVAL);
	CU_ASSERT_EQUAL(pair_state(qp), (enum ibv_qp_state)from);
	ibv_destroy_qp(qp);
}

#define BAD(from, to, mask, field, value)                   \
	do {                                                \
		struct ibv_qp_attr a = good_attr(from, to); \
		a.field = value;                            \
		bad_value(from, to, mask, a);               \
	} while (0)

static void test_values(void)
{
	pair_open(&pair, &params, IBV_QPT_RC);
	BAD(RST, INI, 0, pkey_index, 1);
	BAD(RST, INI, 0, port_num, 0);
	BAD(RST, INI, 0, port_num, 2);
	BAD(INI, RTR, 0, path_mtu, 0);
	BAD(INI, RTR, 0, path_mtu, 6);
	BAD(INI, RTR, 0, path_mtu, IBV_MTU_4096); /* more than the port's */
	BAD(INI, RTR, 0, dest_qp_num, 0x1000000);
	BAD(INI, RTR, 0, max_dest_rd_atomic, 129);
	BAD(INI, RTR, 0, min_rnr_timer, 32);
	BAD(INI, RTR, 0, ah_attr.is_global, 0);
	BAD(INI, RTR, 0, ah_attr.grh.sgid_index, 9);
	BAD(INI, RTR, 0, ah_attr.port_num, 2);
	BAD(RTR, RTS, 0, timeout, 32);
	BAD(RTR, RTS, 0, retry_cnt, 8);
	BAD(RTR, RTS, 0, rnr_retry, 8);
	BAD(RTR, RTS, 0, max_rd_atomic, 129);
	BAD(RTS, RTS, IBV_QP_CUR_STATE, cur_qp_state, IBV_QPS_SQD);
	/* states that do not exist, some of which are one in 8 bits */
	BAD(RTS, RTS, IBV_QP_STATE, qp_state, 7);
	BAD(RTS, RTS, IBV_QP_STATE, qp_state, 256);
	BAD(RTS, RTS, IBV_QP_STATE, qp_state, 256 + IBV_QPS_ERR);
	BAD(RTS, RTS, IBV_QP_STATE, qp_state, -1);
	pair_close(&pair);
}

/* What is logged while @a is given to a QP in INIT, which refuses it. */
static const char *logged(struct ibv_qp_attr a)
{
	static char text[1024];
	struct ibv_qp *qp = qp_in(IBV_QPT_RC, INI);
	struct log_kept log;
	int must, may;

	lookup(IBV_QPT_RC, INI, RTR, &must, &may);
	log_keep(&log);
	CU_ASSERT_NOT_EQUAL(ibv_modify_qp(qp, &a, IBV_QP_STATE | must), 0);
	log_kept(&log, text, sizeof(text));
	ibv_destroy_qp(qp);
	return text;
}

/* The wrong index of a GID is what happens to everyone, and a program says nothing of it. */
static void test_told_gid(void)
{
	static const uint8_t none[16], six[16] = {0xfd, [15] = 2},
				       far[16] = {[10] = 0xff, 0xff, 9, 9, 9, 9};
	static const struct {
		bool no_grh;
		unsigned index;
		const uint8_t *dgid;
		const char *says;
	} t[] = {
		{true, 0, NULL,
		 "no GRH, which RoCE needs: give the index of a GID, 0 for 10.0.0.1 "},
		{false, 9, NULL, "GID index 9 is empty; 10.0.0.1 has index 0\n"},
		{false, 9, none, "GID index 9 is empty; 10.0.0.1 has index 0\n"},
		{false, 0, none, "the peer's GID is ::, so"},
		{false, 0, six,
		 "the peer's GID is fd00::2, and index 0 is of another kind; fd00::1 has 1\n"},
		{false, 1, NULL,
		 "the peer's GID is 10.0.0.2, and index 1 is of another kind; 10.0.0.1 has 0\n"},
		{false, 0, far, "9.9.9.9 is on none of its networks"},
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct pair_params both = {.link = {.latency = 1000}, .v6_too = true};
		struct ibv_qp_attr a;

		pair_open(&pair, &both, IBV_QPT_RC);
		a = good_attr(INI, RTR);
		a.ah_attr.is_global = !t[i].no_grh;
		a.ah_attr.grh.sgid_index = (uint8_t)t[i].index;
		if (t[i].dgid)
			memcpy(a.ah_attr.grh.dgid.raw, t[i].dgid, 16);
		CU_ASSERT_PTR_NOT_NULL(strstr(logged(a), t[i].says));
		CU_ASSERT_STRING_EQUAL(logged(a), ""); /* once a device */
		pair_close(&pair);
	}
}

static void test_no_state(void)
{
	struct ibv_qp_attr a;
	struct ibv_qp *qp;

	pair_open(&pair, &params, IBV_QPT_RC);
	a = good_attr(RTS, RTS);
	a.qp_access_flags = IBV_ACCESS_REMOTE_READ;
	CU_ASSERT_EQUAL(ibv_modify_qp(pair.a.qp, &a, IBV_QP_ACCESS_FLAGS), 0);
	CU_ASSERT_EQUAL(pair_state(pair.a.qp), IBV_QPS_RTS);
	qp = qp_in(IBV_QPT_RC, RTR);
	CU_ASSERT_EQUAL(ibv_modify_qp(qp, &a, IBV_QP_ACCESS_FLAGS), EINVAL);
	CU_ASSERT_EQUAL(ibv_modify_qp(qp, &a, IBV_QP_RATE_LIMIT), EINVAL);
	ibv_destroy_qp(qp);
	pair_close(&pair);
}

/* What was set is what is told. */
static void test_query(void)
{
	struct ibv_qp_attr a, q;
	struct ibv_qp_init_attr init;
	struct ibv_qp *qp;

	pair_open(&pair, &params, IBV_QPT_RC);
	qp = qp_in(IBV_QPT_RC, RTS);
	a = good_attr(RTS, RTS);
	CU_ASSERT_EQUAL(ibv_query_qp(qp, &q, 0xffff, &init), 0);
	CU_ASSERT(q.qp_state == IBV_QPS_RTS && q.cur_qp_state == IBV_QPS_RTS);
	CU_ASSERT(q.path_mtu == a.path_mtu && q.dest_qp_num == a.dest_qp_num);
	CU_ASSERT(q.timeout == 14 && q.retry_cnt == 7 && q.rnr_retry == 7 && q.min_rnr_timer == 12);
	CU_ASSERT(q.max_rd_atomic == 4 && q.max_dest_rd_atomic == 4 && q.port_num == 1);
	CU_ASSERT_EQUAL(q.qp_access_flags, a.qp_access_flags);
	CU_ASSERT(!memcmp(&q.ah_attr.grh, &a.ah_attr.grh, sizeof(a.ah_attr.grh)));
	CU_ASSERT(q.cap.max_send_wr >= 128 && q.cap.max_recv_sge >= 4);
	CU_ASSERT(init.qp_type == IBV_QPT_RC && init.send_cq == pair.a.cq);
	ibv_destroy_qp(qp);
	pair_close(&pair);
}

static void settle_and_forget_events(void)
{
	pair_settle(&pair, 1000000);
	while (pair_event(&pair.a) >= 0)
		;
}

/* A QP that was draining, and has been reset, is in no drain, and tells of none. */
static void test_reset_in_drain(void)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};
	struct ibv_qp_init_attr init;
	struct ibv_wc wc;

	pair_open(&pair, &params, IBV_QPT_RC);
	pair_meet(&pair);
	pair_post(&pair.a, IBV_WR_RDMA_WRITE, 1, 0, 9000, &pair.b, 0, IBV_SEND_SIGNALED);
	CU_ASSERT_EQUAL(ibv_modify_qp(pair.a.qp, &a, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	CU_ASSERT_EQUAL(ibv_query_qp(pair.a.qp, &a, IBV_QP_STATE, &init), 0);
	CU_ASSERT(a.sq_draining);
	pair_modify(pair.a.qp, IBV_QPS_RESET);
	CU_ASSERT_EQUAL(ibv_query_qp(pair.a.qp, &a, IBV_QP_STATE, &init), 0);
	CU_ASSERT(!a.sq_draining);
	pair_modify(pair.b.qp, IBV_QPS_RESET);
	settle_and_forget_events();
	pair_connect(&pair, &pair.a, pair.a.qp, &pair.b, pair.b.qp, &params);
	CU_ASSERT_EQUAL(ibv_query_qp(pair.a.qp, &a, IBV_QP_STATE, &init), 0);
	CU_ASSERT(!a.sq_draining);
	pair_post(&pair.a, IBV_WR_RDMA_WRITE, 2, 0, 8, &pair.b, 0, IBV_SEND_SIGNALED);
	CU_ASSERT(pair_wait(&pair, pair.a.cq, &wc) && wc.wr_id == 2);
	CU_ASSERT_EQUAL(pair_event(&pair.a), -1);
	pair_close(&pair);
}

/* Who goes on before the queue is drained is not told that it is. */
static void test_drain_broken_off(void)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};
	struct ibv_wc wc;

	pair_open(&pair, &params, IBV_QPT_RC);
	pair_meet(&pair);
	pair_post(&pair.a, IBV_WR_RDMA_WRITE, 1, 0, 9000, &pair.b, 0, IBV_SEND_SIGNALED);
	CU_ASSERT_EQUAL(ibv_modify_qp(pair.a.qp, &a, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	CU_ASSERT_EQUAL(pair_modify(pair.a.qp, IBV_QPS_RTS), 0);
	CU_ASSERT(pair_wait(&pair, pair.a.cq, &wc) && wc.status == IBV_WC_SUCCESS);
	CU_ASSERT_EQUAL(pair_event(&pair.a), -1);
	pair_close(&pair);
}

/* Each life of a QP on a SRQ has its last WQE. */
static void test_last_wqe_again(void)
{
	struct ibv_srq_init_attr sa = {.attr = {.max_wr = 8, .max_sge = 1}};
	struct ibv_qp_init_attr ia = {.cap = {.max_send_wr = 1, .max_send_sge = 1},
				      .qp_type = IBV_QPT_RC};
	struct ibv_qp *qp;

	pair_open(&pair, &params, IBV_QPT_RC);
	ia.send_cq = ia.recv_cq = pair.a.cq;
	ia.srq = ibv_create_srq(pair.a.pd, &sa);
	qp = ibv_create_qp(pair.a.pd, &ia);
	CU_ASSERT_FATAL(qp != NULL);
	for (unsigned i = 0; i < 2; i++) {
		pair_modify(pair.b.qp, IBV_QPS_RESET);
		pair_connect(&pair, &pair.a, qp, &pair.b, pair.b.qp, &params);
		CU_ASSERT_EQUAL(pair_modify(qp, IBV_QPS_ERR), 0);
		CU_ASSERT_EQUAL(pair_event(&pair.a), IBV_EVENT_QP_LAST_WQE_REACHED);
		CU_ASSERT_EQUAL(pair_event(&pair.a), -1);
		CU_ASSERT_EQUAL(pair_modify(qp, IBV_QPS_RESET), 0);
	}
	CU_ASSERT_EQUAL(ibv_destroy_qp(qp), 0);
	CU_ASSERT_EQUAL(ibv_destroy_srq(ia.srq), 0);
	pair_close(&pair);
}

URXE_TEST_MAIN("qp_modify", T(test_rc), T(test_uc), T(test_ud), T(test_values), T(test_told_gid),
	       T(test_no_state), T(test_query), T(test_reset_in_drain), T(test_drain_broken_off),
	       T(test_last_wqe_again))
