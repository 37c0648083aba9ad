/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What a process says of its devices: QPs, CQs, memory and counters are those that verbs and
 * packets have brought about.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "forge.h"
#include "harness.h"
#include "tools/json.h"
#include "names.h"
#include "pair.h"
#include "provider/status.h"
#include "provider/status_path.h"

static struct pair p;
static struct json_object *answer;

/* The answer to @request, until the next one. */
static struct json_object *ask(const char *request)
{
	size_t len;
	char *text = urxe_status_reply(request, &len);

	CU_ASSERT_FATAL(text && text[len - 1] == '\n');
	json_object_put(answer);
	answer = tool_json_parse(text, len);
	free(text);
	CU_ASSERT_PTR_NOT_NULL_FATAL(answer);
	CU_ASSERT_EQUAL(tool_json_number(answer, URXE_STATUS_VERSION_KEY), URXE_STATUS_VERSION);
	CU_ASSERT_EQUAL(tool_json_number(answer, "pid"), (uint64_t)getpid());
	return answer;
}

/* Side a's device. */
static struct json_object *device(const char *request)
{
	ask(request);
	CU_ASSERT_EQUAL(tool_json_length(answer, "devices"), 2);
	return tool_json_at(answer, "devices", 0);
}

static struct json_object *find(struct json_object *d, const char *list, const char *key,
				uint64_t value)
{
	struct json_object *o;

	for (size_t i = 0; (o = tool_json_at(d, list, i)); i++) {
		if (tool_json_number(o, key) == value)
			return o;
	}
	CU_FAIL_FATAL("not in the list");
	return NULL;
}

static struct json_object *qp_of(struct side *s)
{
	size_t i = s == &p.a ? 0 : 1;

	ask(URXE_STATUS_ALL);
	return find(tool_json_at(answer, "devices", i), "qps", "qpn", s->qp->qp_num);
}

static void begin(const struct pair_params *params, enum ibv_qp_type type)
{
	pair_open(&p, params, type);
	pair_meet(&p);
}

static void end(void)
{
	pair_close(&p);
	json_object_put(answer);
	answer = NULL;
}

static void names(void)
{
	for (unsigned i = 0; i < URXE_NUM_QP_STATES; i++)
		CU_ASSERT_PTR_NOT_NULL(urxe_qp_state_names[i]);
	for (unsigned i = 0; i < URXE_NUM_RESP_STATES; i++)
		CU_ASSERT_PTR_NOT_NULL(urxe_resp_state_names[i]);
	CU_ASSERT_STRING_EQUAL(urxe_qp_state_name(IBV_QPS_SQE), "SQE");
	CU_ASSERT_STRING_EQUAL(urxe_qp_state_name(IBV_QPS_UNKNOWN), "?");
	CU_ASSERT_STRING_EQUAL(urxe_resp_state_name(URXE_RESP_FATAL), "FATAL");
	CU_ASSERT_STRING_EQUAL(urxe_resp_state_name(URXE_NUM_RESP_STATES), "?");
	CU_ASSERT_STRING_EQUAL(urxe_qp_type_name(IBV_QPT_XRC_RECV), "XRC_RECV");
	CU_ASSERT_STRING_EQUAL(urxe_qp_type_name(0), "?");
	CU_ASSERT_PTR_NULL(urxe_nak_name(URXE_AETH_ACK | 3));
	CU_ASSERT_STRING_EQUAL(urxe_nak_name(URXE_AETH_RNR | 3), "RNR");
	CU_ASSERT_STRING_EQUAL(urxe_nak_name(URXE_AETH_NAK | URXE_NAK_REMOTE_OP),
			       "REMOTE_OPERATIONAL");
	CU_ASSERT_STRING_EQUAL(urxe_nak_name(URXE_AETH_NAK | 31), "RESERVED");
	/* No counter is without one. */
	for (unsigned i = 0; i < URXE_NUM_STATS; i++)
		CU_ASSERT_STRING_NOT_EQUAL(urxe_stat_name((enum urxe_stat)i), "?");
}

static void connected(void)
{
	static const struct pair_params params = {.seed = 1, .link = {.latency = 1000}};
	struct json_object *q, *r;
	struct ibv_wc wc;

	begin(&params, IBV_QPT_RC);
	CU_ASSERT_EQUAL(pair_post(&p.a, IBV_WR_RDMA_WRITE, 1, 0, 3000, &p.b, 0, IBV_SEND_SIGNALED),
			0);
	/* Under way. */
	q = qp_of(&p.a);
	r = tool_json_get(q, "requester");
	CU_ASSERT_EQUAL(tool_json_number(r, "posted"), 1);
	CU_ASSERT_EQUAL(tool_json_number(r, "psn") - tool_json_number(r, "una"), 3);
	CU_ASSERT_EQUAL(tool_json_number(r, "srtt_ns"), 0);
	CU_ASSERT_TRUE(pair_wait(&p, p.a.cq, &wc));
	q = qp_of(&p.a);
	r = tool_json_get(q, "requester");
	CU_ASSERT_STRING_EQUAL(tool_json_text(q, "type"), "RC");
	CU_ASSERT_STRING_EQUAL(tool_json_text(q, "state"), "RTS");
	CU_ASSERT_STRING_EQUAL(tool_json_text(q, "peer"), "10.0.0.2");
	CU_ASSERT_EQUAL(tool_json_number(q, "peer_qpn"), p.b.qp->qp_num);
	CU_ASSERT_EQUAL(tool_json_number(q, "path_mtu"), 1024);
	CU_ASSERT_EQUAL(tool_json_number(r, "posted"), 0);
	CU_ASSERT_EQUAL(tool_json_number(r, "psn"), tool_json_number(r, "una"));
	CU_ASSERT(tool_json_number(r, "srtt_ns") >= 2000);
	CU_ASSERT(tool_json_number(r, "window") >= 64);
	CU_ASSERT_STRING_EQUAL(tool_json_text(r, "congestion_control"), "window");
	CU_ASSERT_EQUAL(tool_json_number(r, "retries"), 0);
	CU_ASSERT_PTR_NULL(tool_json_get(r, "last_nak"));
	r = tool_json_get(qp_of(&p.b), "responder");
	CU_ASSERT_STRING_EQUAL(tool_json_text(r, "state"), "EXPECT_FIRST");
	CU_ASSERT_EQUAL(tool_json_number(r, "msn"), 1);
	end();
}

/* The receiver has no room: RNR on both sides, with the retries that it takes. */
static void not_ready(void)
{
	static const struct pair_params params = {.seed = 2,
						  .rnr_retry = 5,
						  .set_retries = true,
						  .retry_cnt = 7,
						  .min_rnr_timer = 12};
	struct json_object *q, *nak;
	uint32_t psn;

	begin(&params, IBV_QPT_RC);
	psn = (uint32_t)tool_json_number(tool_json_get(qp_of(&p.a), "requester"), "psn");
	CU_ASSERT_EQUAL(pair_post(&p.a, IBV_WR_SEND, 1, 0, 8, &p.b, 0, 0), 0);
	pair_settle(&p, 100000);
	q = tool_json_get(qp_of(&p.a), "requester");
	CU_ASSERT_EQUAL(tool_json_number(q, "rnr_retries"), 1);
	CU_ASSERT_EQUAL(tool_json_number(q, "rnr_retry"), 5);
	CU_ASSERT(json_object_get_boolean(tool_json_get(q, "rnr_wait")));
	nak = tool_json_get(q, "last_nak");
	CU_ASSERT_STRING_EQUAL(tool_json_text(nak, "name"), "RNR");
	CU_ASSERT_EQUAL(tool_json_number(nak, "psn"), psn);
	CU_ASSERT(tool_json_number(nak, "age_ns") < 1000000);
	q = tool_json_get(qp_of(&p.b), "responder");
	CU_ASSERT_STRING_EQUAL(tool_json_text(q, "state"), "WAIT_RETRY");
	nak = tool_json_get(q, "last_nak");
	CU_ASSERT_STRING_EQUAL(tool_json_text(nak, "name"), "RNR");
	CU_ASSERT_EQUAL(pair_stat(&p.a, URXE_STAT_RX_RNR_NAK), 1);
	CU_ASSERT_EQUAL(pair_stat(&p.a, URXE_STAT_RX_NAK), 0);
	/* A new life knows nothing of it. */
	CU_ASSERT_EQUAL(pair_modify(p.b.qp, IBV_QPS_RESET), 0);
	q = qp_of(&p.b);
	CU_ASSERT_PTR_NULL(tool_json_get(tool_json_get(q, "responder"), "last_nak"));
	CU_ASSERT_PTR_NULL(tool_json_get(tool_json_get(q, "requester"), "congestion_control"));
	CU_ASSERT_PTR_NULL(tool_json_get(q, "peer"));
	end();
}

static void refused(void)
{
	static const struct pair_params params = {.seed = 3, .access = IBV_ACCESS_LOCAL_WRITE};
	struct json_object *q;
	struct ibv_wc wc;

	begin(&params, IBV_QPT_RC);
	CU_ASSERT_EQUAL(pair_post(&p.a, IBV_WR_RDMA_WRITE, 1, 0, 8, &p.b, 0, 0), 0);
	CU_ASSERT_TRUE(pair_wait(&p, p.a.cq, &wc));
	q = qp_of(&p.a);
	CU_ASSERT_STRING_EQUAL(tool_json_text(q, "state"), "ERR");
	CU_ASSERT_PTR_NOT_NULL(tool_json_get(tool_json_get(q, "requester"), "last_nak"));
	CU_ASSERT_EQUAL(pair_stat(&p.a, URXE_STAT_RX_NAK), 1);
	end();
}

/* Datagrams have no peer; QP1 comes first. */
static void unconnected(void)
{
	static const struct pair_params params = {.seed = 4};
	struct ibv_qp_init_attr attr = {.cap = {.max_send_wr = 1, .max_recv_wr = 1}};
	struct json_object *q;
	struct ibv_qp *gsi;

	begin(&params, IBV_QPT_UD);
	q = qp_of(&p.a);
	CU_ASSERT_STRING_EQUAL(tool_json_text(q, "type"), "UD");
	CU_ASSERT_PTR_NULL(tool_json_get(q, "peer"));
	CU_ASSERT_EQUAL(pair_recv(&p.a, 1, 0, 64), 0);
	CU_ASSERT_EQUAL(tool_json_number(qp_of(&p.a), "receives"), 1);
	attr.send_cq = attr.recv_cq = p.a.cq;
	gsi = urxe_gsi_create_qp(p.a.pd, &attr);
	q = tool_json_at(device(URXE_STATUS_ALL), "qps", 0);
	CU_ASSERT_STRING_EQUAL(tool_json_text(q, "type"), "GSI");
	CU_ASSERT_EQUAL(tool_json_number(q, "qpn"), 1);
	CU_ASSERT_EQUAL(ibv_destroy_qp(gsi), 0);
	end();
}

/* More than are looked at in one go: each once. */
static void many(void)
{
	static const struct pair_params params = {.seed = 5};
	struct ibv_qp *qps[100];
	struct json_object *d;

	begin(&params, IBV_QPT_RC);
	for (unsigned i = 0; i < 100; i++)
		qps[i] = pair_qp(&p.a, &params, i % 2 ? IBV_QPT_RC : IBV_QPT_UC);
	d = device(URXE_STATUS_ALL);
	CU_ASSERT_EQUAL(tool_json_length(d, "qps"), 101);
	for (unsigned i = 0; i < 100; i++)
		find(d, "qps", "qpn", qps[i]->qp_num);
	for (unsigned i = 0; i < 100; i++)
		CU_ASSERT_EQUAL(ibv_destroy_qp(qps[i]), 0);
	CU_ASSERT_EQUAL(tool_json_length(device(URXE_STATUS_ALL), "qps"), 1);
	end();
}

static void memory(void)
{
	static const struct pair_params params = {.seed = 6};
	static char buf[4096];
	struct json_object *d;
	struct ibv_mr *mr, *null;
	struct ibv_mw *mw;

	begin(&params, IBV_QPT_RC);
	mr = ibv_reg_mr(p.a.pd, buf, sizeof(buf), 0);
	null = ibv_alloc_null_mr(p.a.pd);
	mw = ibv_alloc_mw(p.a.pd, IBV_MW_TYPE_2);
	d = device(URXE_STATUS_ALL);
	CU_ASSERT_EQUAL(tool_json_number(tool_json_get(d, "mrs"), "count"), 3);
	CU_ASSERT_EQUAL(tool_json_number(tool_json_get(d, "mrs"), "bytes"), PAIR_BUF + sizeof(buf));
	CU_ASSERT_EQUAL(tool_json_number(d, "mws"), 1);
	CU_ASSERT_EQUAL(tool_json_number(d, "pds"), 1);
	CU_ASSERT_EQUAL(ibv_dealloc_mw(mw), 0);
	CU_ASSERT_EQUAL(ibv_dereg_mr(mr), 0);
	CU_ASSERT_EQUAL(ibv_dereg_mr(null), 0);
	d = device(URXE_STATUS_ALL);
	CU_ASSERT_EQUAL(tool_json_number(tool_json_get(d, "mrs"), "count"), 1);
	CU_ASSERT_EQUAL(tool_json_number(tool_json_get(d, "mrs"), "bytes"), PAIR_BUF);
	CU_ASSERT_EQUAL(tool_json_number(d, "mws"), 0);
	end();
}

static void cqs(void)
{
	static const struct pair_params params = {.seed = 7, .channel = true};
	struct json_object *d, *q, *cq;
	struct ibv_cq *other;

	begin(&params, IBV_QPT_RC);
	other = ibv_create_cq(p.a.ctx, 100, NULL, NULL, 0);
	d = device(URXE_STATUS_ALL);
	CU_ASSERT_EQUAL(tool_json_length(d, "cqs"), 2);
	q = find(d, "qps", "qpn", p.a.qp->qp_num);
	cq = find(d, "cqs", "cqn", tool_json_number(q, "send_cqn"));
	CU_ASSERT_EQUAL(tool_json_number(cq, "unpolled"), 0);
	CU_ASSERT_STRING_EQUAL(tool_json_text(cq, "armed"), "no");
	CU_ASSERT_EQUAL(tool_json_number(cq, "users"), 2);
	CU_ASSERT_EQUAL(tool_json_number(tool_json_at(d, "cqs", 1), "entries"),
			(uint64_t)other->cqe);
	CU_ASSERT_EQUAL(ibv_destroy_cq(other), 0);
	CU_ASSERT_EQUAL(ibv_req_notify_cq(p.a.cq, 1), 0);
	CU_ASSERT_EQUAL(pair_post(&p.a, IBV_WR_RDMA_WRITE, 1, 0, 8, &p.b, 0, IBV_SEND_SIGNALED), 0);
	pair_settle(&p, 1000000);
	d = device(URXE_STATUS_ALL);
	CU_ASSERT_EQUAL(tool_json_length(d, "cqs"), 1);
	cq = tool_json_at(d, "cqs", 0);
	CU_ASSERT_EQUAL(tool_json_number(cq, "unpolled"), 1);
	CU_ASSERT_STRING_EQUAL(tool_json_text(cq, "armed"), "solicited");
	end();
}

/* What is dropped is counted once, for whichever reason. */
static void counters(void)
{
	static const struct pair_params params = {.seed = 8};
	struct json_object *d, *port;
	struct ibv_wc wc;

	begin(&params, IBV_QPT_RC);
	d = device(URXE_STATUS_STAT);
	CU_ASSERT_PTR_NULL(tool_json_get(d, "qps"));
	CU_ASSERT_EQUAL(tool_json_number(d, "drops"), 0);
	CU_ASSERT_EQUAL(pair_post(&p.a, IBV_WR_RDMA_WRITE, 1, 0, 8, &p.b, 0, IBV_SEND_SIGNALED), 0);
	CU_ASSERT_TRUE(pair_wait(&p, p.a.cq, &wc));
	d = device(URXE_STATUS_STAT);
	port = tool_json_get(d, "port");
	CU_ASSERT_EQUAL(tool_json_number(port, "tx_packets"), pair_counter(&p.a, "tx_packets"));
	CU_ASSERT(tool_json_number(port, "tx_packets") >= 1);
	CU_ASSERT_EQUAL(tool_json_number(tool_json_get(d, "transport"), "rx_packets"),
			pair_stat(&p.a, URXE_STAT_RX_PACKETS));
	CU_ASSERT_EQUAL(tool_json_number(d, "time_ns"), urxe_port_now(p.a.dev->port));
	urxe_stat_inc(p.a.dev, URXE_STAT_RX_NO_QP);
	urxe_stat_inc(p.a.dev, URXE_STAT_RX_DUPLICATE);
	CU_ASSERT_EQUAL(tool_json_number(device(URXE_STATUS_STAT), "drops"), 1);
	end();
}

static void port_drops(void)
{
	uint64_t values[128] = {0};
	const char *const *names;
	unsigned n, dropped = 0;

	begin(&(struct pair_params){.seed = 9}, IBV_QPT_RC);
	n = urxe_port_counters(p.a.dev->port, &names, values, 128);
	for (unsigned i = 0; i < n; i++) {
		memset(values, 0, sizeof(values));
		values[i] = 1;
		/* Received ones but for traffic, faults, and what was not for us to drop. */
		if (!strncmp(names[i], "rx_", 3))
			CU_ASSERT_EQUAL(urxe_port_drops(values),
					!strstr(names[i], "ignored") &&
						strcmp(names[i], "rx_frames") != 0 &&
						strcmp(names[i], "rx_bytes") != 0 &&
						strcmp(names[i], "rx_packets") != 0);
		dropped += (unsigned)urxe_port_drops(values);
	}
	CU_ASSERT(dropped > 30);
	end();
}

static void dead_and_gone(void)
{
	begin(&(struct pair_params){.seed = 10}, IBV_QPT_RC);
	CU_ASSERT_STRING_EQUAL(tool_json_text(device(URXE_STATUS_STAT), "state"), "up");
	urxe_sim_end_die(p.a.end);
	urxe_device_watch(p.a.dev, 1000000000000ull);
	CU_ASSERT_STRING_EQUAL(tool_json_text(device(URXE_STATUS_ALL), "state"), "dead");
	end();
	CU_ASSERT_EQUAL(tool_json_length(ask(URXE_STATUS_ALL), "devices"), 0);
}

/* ---- words ---- */

static void put_one(struct urxe_json *j, const char *args)
{
	urxe_json_string(j, "one", args);
}

static void put_two(struct urxe_json *j, const char *args)
{
	urxe_json_string(j, "two", args);
}

static void words(void)
{
	static struct urxe_status_word w[] = {
		{.word = "test-one", .section = true, .put = put_one},
		{.word = "test-two", .put = put_two},
	};
	char longest[2 * URXE_STATUS_REQUEST];

	CU_ASSERT_PTR_NOT_NULL(tool_json_get(ask("test-one\n"), URXE_STATUS_ERROR));
	urxe_status_add_words(w, 2);
	CU_ASSERT_STRING_EQUAL(tool_json_text(ask("test-one\n"), "one"), "");
	CU_ASSERT_STRING_EQUAL(tool_json_text(ask("test-two a  b\n"), "two"), "a  b");
	CU_ASSERT_PTR_NULL(tool_json_get(answer, "one"));
	CU_ASSERT_PTR_NULL(tool_json_get(answer, URXE_STATUS_ERROR));
	ask(URXE_STATUS_ALL);
	CU_ASSERT_STRING_EQUAL(tool_json_text(answer, "one"), "");
	CU_ASSERT_PTR_NULL(tool_json_get(answer, "two"));
	CU_ASSERT_PTR_NOT_NULL(tool_json_get(ask(""), URXE_STATUS_ERROR));
	CU_ASSERT_PTR_NOT_NULL(tool_json_get(ask("test"), URXE_STATUS_ERROR));
	CU_ASSERT_PTR_NOT_NULL(tool_json_get(ask("test-onetwo"), URXE_STATUS_ERROR));
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	CU_ASSERT_PTR_NOT_NULL(tool_json_get(ask(longest), URXE_STATUS_ERROR));
	json_object_put(answer);
	answer = NULL;
}

/* Nobody is to ask over a socket. */
__attribute__((constructor)) static void set_up(void)
{
	setenv(URXE_STATUS_ENV, "", 1);
}

URXE_TEST_MAIN("status", T(names), T(connected), T(not_ready), T(refused), T(unconnected), T(many),
	       T(memory), T(cqs), T(counters), T(port_drops), T(dead_and_gone), T(words))
