/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The tables of `urxe status` and the rates of `urxe stat`, of answers that are whole, lack things
 * or are nonsense; and what strangers' strings become on a terminal.
 */
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "tools/json.h"
#include "tools/rdma.h"
#include "tools/table.h"

static char *text;
static size_t len;

static FILE *open_text(void)
{
	FILE *out = open_memstream(&text, &len);

	CU_ASSERT_PTR_NOT_NULL_FATAL(out);
	return out;
}

/* What was printed is this. */
static void is(FILE *out, const char *expected)
{
	CU_ASSERT_EQUAL(fclose(out), 0);
	if (strcmp(text, expected) != 0)
		printf("\ngot:\n%s\nnot:\n%s\n", text, expected);
	CU_ASSERT_STRING_EQUAL(text, expected);
	free(text);
}

static struct json_object *parse(const char *s)
{
	struct json_object *o = tool_json_parse(s, strlen(s));

	CU_ASSERT_PTR_NOT_NULL_FATAL(o);
	return o;
}

static const char one_process[] =
	"{\"urxe_status\":2,\"version\":\"0.1.0\",\"pid\":42,\"command\":\"ib_write_bw\","
	"\"devices\":[{"
	"\"name\":\"urxe0\",\"link\":\"net_vhost0,iface=/tmp/u\",\"state\":\"up\",\"time_ns\":5,"
	"\"port\":{\"rx_frames\":1200,\"rx_bytes\":0,\"tx_frames\":3},"
	"\"transport\":{\"rx_packets\":0,\"retransmits\":4},\"drops\":9,"
	"\"addresses\":[\"10.0.0.1/24\",\"fd00::1/64\"],\"pds\":1,\"ahs\":2,\"srqs\":3,\"wqs\":4,"
	"\"mrs\":{\"count\":5,\"bytes\":131072},\"mws\":6,"
	"\"groups\":[{\"mgid\":\"ff0e::1\",\"qpns\":[17,18]}],"
	"\"cqs\":[{\"cqn\":1,\"entries\":511,\"unpolled\":7,\"armed\":\"any\",\"overrun\":false,"
	"\"users\":2},{\"cqn\":2,\"entries\":15,\"unpolled\":16,\"armed\":\"no\",\"overrun\":true,"
	"\"users\":0}],"
	"\"qps\":[{\"qpn\":17,\"type\":\"RC\",\"state\":\"RTS\",\"peer\":\"10.0.0.2\",\"peer_qpn\":"
	"18,"
	"\"receives\":3,\"requester\":{\"psn\":1,\"una\":16777215,\"window\":64,\"posted\":5,"
	"\"srtt_ns\":12345,\"retries\":1,\"retry_cnt\":7,\"rnr_retries\":0,\"rnr_retry\":6,"
	"\"last_nak\":{\"name\":\"RNR\",\"psn\":42,\"age_ns\":1500000000}},"
	"\"responder\":{\"state\":\"IN_WRITE\",\"epsn\":255,"
	"\"last_nak\":{\"name\":\"PSN_SEQUENCE\",\"psn\":7}}},"
	"{\"qpn\":1,\"type\":\"GSI\",\"state\":\"RTS\",\"peer\":null,\"peer_qpn\":0,"
	"\"requester\":{\"last_nak\":null},\"responder\":{\"state\":\"EXPECT_FIRST\"}}]}]}";

static void details(void)
{
	struct json_object *p = parse(one_process);
	FILE *out = open_text();

	tool_table_process(out, p);
	json_object_put(p);
	is(out,
	   "process 42: ib_write_bw, urxe 0.1.0\n"
	   "urxe0: up, net_vhost0,iface=/tmp/u, 10.0.0.1/24, fd00::1/64\n"
	   "  objects    1 PDs, 5 MRs of 131072 bytes, 6 MWs, 2 AHs, 3 SRQs, 4 WQs\n"
	   "  port       rx_frames 1200, tx_frames 3\n"
	   "  transport  retransmits 4\n"
	   "  group      ff0e::1: QPs 000011 000012\n"
	   "\n"
	   "  CQN     ENTRIES UNPOLLED USERS ARMED     OVERRUN\n"
	   "  1           511        7     2 any       no\n"
	   "  2            15       16     0 no        yes\n"
	   "\n"
	   "  QPN    TYPE     STATE RESPONDER    PEER                   PSN    UNA    EPSN   OUT"
	   "/WND  SRTT-US RETRY   RNR SENDS RECVS LAST-NAK\n"
	   "  000011 RC       RTS   IN_WRITE     10.0.0.2/000012        000001 ffffff 0000ff    "
	   "2/64     12.3   1/7   0/6     5     3 received RNR at 00002a 1.5 s ago, sent PSN_SEQ"
	   "UENCE at 000007\n"
	   "  000001 GSI      RTS   EXPECT_FIRST -                      000000 000000 000000    "
	   " 0/0      0.0   0/0   0/0     0     0 -\n");
}

static void details_of_connections(void)
{
	struct json_object *p = parse("{\"pid\":7,\"command\":\"x\",\"version\":\"1\","
				      "\"ids\":[{\"state\":\"LISTEN\"}]}");
	FILE *out = open_text();

	tool_table_process(out, p);
	json_object_put(p);
	is(out,
	   "process 7: x, urxe 1\n\n"
	   "PID     COMMAND         KIND    DEVICE   STATE          LOCAL                 PEER  "
	   "                COMM-IDS          QPNS          RETRIES UNACKED LAST-EVENT\n"
	   "7       x               -       -        LISTEN         -                     -     "
	   "                00000000/00000000 000000/000000       0       0 -\n");
}

static void summary(void)
{
	struct json_object *all = json_object_new_array();
	FILE *out = open_text();

	json_object_array_add(all, parse(one_process));
	json_object_array_add(all, parse("{\"pid\":43,\"command\":\"x\",\"devices\":[]}"));
	json_object_array_add(all, parse("{\"pid\":44,\"devices\":[{},{\"name\":\"b\"}]}"));
	tool_table_summary(out, all);
	json_object_put(all);
	is(out,
	   "PID     COMMAND         DEVICE   STATE         QPS   CQS    MRS     MR-BYTES   RX-PA"
	   "CKETS   TX-PACKETS  RETRANSMITS      DROPS\n"
	   "42      ib_write_bw     urxe0    up              2     2      5       131072        "
	   "    0            0            4          9\n"
	   "44      -               -        -               0     0      0            0        "
	   "    0            0            0          0\n"
	   "44      -               b        -               0     0      0            0        "
	   "    0            0            0          0\n");
}

static void connections(void)
{
	struct json_object *all = json_object_new_array();
	FILE *out = open_text();

	json_object_array_add(
		all, parse("{\"pid\":7,\"command\":\"rping\",\"ids\":[{\"kind\":\"rdma_cm\","
			   "\"device\":\"urxe0\",\"state\":\"LISTEN\",\"local\":\"10.0.0.1:7174\","
			   "\"peer\":\"-\",\"local_comm_id\":0,\"remote_comm_id\":3735928559,"
			   "\"qpn\":17,\"remote_qpn\":0,\"retries\":2,\"unacked\":3,\"last_event\":"
			   "\"-\"}]}"));
	tool_table_connections(out, all);
	json_object_put(all);
	is(out,
	   "PID     COMMAND         KIND    DEVICE   STATE          LOCAL                 PEER  "
	   "                COMM-IDS          QPNS          RETRIES UNACKED LAST-EVENT\n"
	   "7       rping           rdma_cm urxe0    LISTEN         10.0.0.1:7174         -     "
	   "                00000000/deadbeef 000011/000000       2       3 -\n");
}

/* ---- urxe link, urxe res ---- */

/* Two processes on one fabric, and one on a link of its own. */
static struct json_object *three(void)
{
	struct json_object *all = json_object_new_array();

	json_object_array_add(
		all,
		parse("{\"pid\":7,\"command\":\"rping\",\"devices\":[{\"name\":\"urxe0\",\"link\":"
		      "\"fabric\",\"state\":\"up\",\"addresses\":[\"127.0.0.1/8\"],\"pds\":2,"
		      "\"srqs\":1,\"mrs\":{\"list\":[{\"mrn\":5,\"length\":4096}],\"count\":1},"
		      "\"cqs\":[{\"cqn\":3,\"entries\":63,\"users\":2}],\"qps\":[{\"qpn\":17,"
		      "\"type\":\"RC\",\"state\":\"RTS\",\"peer_qpn\":18,\"requester\":{\"psn\":9},"
		      "\"responder\":{\"epsn\":8}},{\"qpn\":1,\"type\":\"GSI\",\"state\":\"RTS\","
		      "\"requester\":{\"psn\":4}}]}],\"ids\":[{\"kind\":\"rdma_cm\",\"device\":"
		      "\"urxe0\",\"state\":\"ESTABLISHED\",\"local\":\"10.0.0.1:1\",\"peer\":"
		      "\"10.0.0.2:2\",\"qpn\":17,\"service_id\":\"0x0000000001060002\"},"
		      "{\"kind\":\"rdma_cm\",\"device\":\"-\"},{\"kind\":\"orphan\",\"device\":"
		      "\"urxe0\"}]}"));
	json_object_array_add(
		all,
		parse("{\"pid\":8,\"command\":\"x\",\"devices\":[{\"name\":\"urxe0\",\"link\":"
		      "\"fabric\",\"pds\":1,\"qps\":[{\"qpn\":19,\"type\":\"XRC_RECV\","
		      "\"state\":\"INIT\"}]}],\"ids\":[{\"kind\":\"rdma_cm\",\"device\":"
		      "\"urxe0\",\"state\":\"LISTEN\",\"local\":\"[::]:5\",\"peer\":\"-\"}]}"));
	json_object_array_add(all, parse("{\"pid\":9,\"devices\":[{\"name\":\"urxe0\",\"link\":"
					 "\"loop\",\"state\":\"down\"}]}"));
	return all;
}

static void rdma_is(enum tool_rdma_kind kind, const char *expected)
{
	struct json_object *all = three(), *rows = tool_rdma_rows(all, kind);
	FILE *out = open_text();

	tool_rdma_print(out, rows, kind);
	json_object_put(rows);
	json_object_put(all);
	is(out, expected);
}

/* As iproute2's rdma(8) prints them, by the names of its res-*.c and link.c. */
static void rdma_rows(void)
{
	rdma_is(TOOL_RDMA_LINK, "link urxe0/1 state ACTIVE physical_state LINK_UP netdev lo\n"
				"link urxe0/1 state DOWN physical_state DISABLED\n");
	rdma_is(TOOL_RDMA_SUM, "0: urxe0: pd 3 cq 1 qp 3 cm_id 2 mr 1 srq 1\n"
			       "1: urxe0: pd 0 cq 0 qp 0 cm_id 0 mr 0 srq 0\n");
	rdma_is(TOOL_RDMA_QP,
		"link urxe0/1 lqpn 17 rqpn 18 type RC state RTS rq-psn 8 sq-psn 9 pid "
		"7 comm rping\n"
		"link urxe0/1 lqpn 1 type GSI state RTS sq-psn 4 pid 7 comm rping\n"
		"link urxe0/1 lqpn 19 type XRC_TGT state INIT sq-psn 0 pid 8 comm x\n");
	rdma_is(TOOL_RDMA_CM_ID,
		"link urxe0/1 lqpn 17 state CONNECT ps TCP pid 7 comm rping src-addr 10.0.0.1:1 "
		"dst-addr 10.0.0.2:2\n"
		"link urxe0/1 state LISTEN ps --- pid 8 comm x src-addr [::]:5\n");
	rdma_is(TOOL_RDMA_CQ, "dev urxe0 cqn 3 cqe 63 users 2 pid 7 comm rping\n");
	rdma_is(TOOL_RDMA_MR, "dev urxe0 mrn 5 mrlen 4096 pid 7 comm rping\n");
}

static void rdma_json(void)
{
	struct json_object *all = three(), *rows = tool_rdma_rows(all, TOOL_RDMA_LINK);
	struct json_object *row = json_object_array_get_idx(rows, 0);

	CU_ASSERT_STRING_EQUAL(tool_json_text(row, "ifname"), "urxe0");
	CU_ASSERT_EQUAL(tool_json_number(row, "port"), 1);
	CU_ASSERT_STRING_EQUAL(tool_json_text(row, "netdev"), "lo");
	CU_ASSERT_NOT_EQUAL(tool_json_number(row, "netdev_index"), 0);
	CU_ASSERT_EQUAL(tool_json_number(json_object_array_get_idx(rows, 1), "ifindex"), 1);
	json_object_put(rows);
	json_object_put(all);
}

static void rdma_filters(void)
{
	struct json_object *row = parse("{\"lqpn\":17,\"type\":\"RC\"}");

	CU_ASSERT_TRUE(tool_rdma_keep(row, "lqpn", "17"));
	CU_ASSERT_TRUE(tool_rdma_keep(row, "lqpn", "1-3,15-20"));
	CU_ASSERT_FALSE(tool_rdma_keep(row, "lqpn", "1-16,18"));
	CU_ASSERT_FALSE(tool_rdma_keep(row, "lqpn", "17x-"));
	CU_ASSERT_FALSE(tool_rdma_keep(row, "lqpn", "RC"));
	CU_ASSERT_TRUE(tool_rdma_keep(row, "type", "RC"));
	CU_ASSERT_FALSE(tool_rdma_keep(row, "type", "UD"));
	CU_ASSERT_FALSE(tool_rdma_keep(row, "rqpn", "0"));
	json_object_put(row);
}

/* Whatever stands where something else is expected: nothing, and no crash. */
static void nonsense(void)
{
	static const char *const bad[] = {
		"{}",
		"[]",
		"\"x\"",
		"{\"devices\":7}",
		"{\"devices\":[7,null,[],{\"port\":[],\"transport\":7,\"cqs\":{},\"qps\":[1,{}]}]}",
		"{\"devices\":[{\"addresses\":[null,7,{}],\"port\":{\"x\":\"y\",\"z\":{}}}]}",
		"{\"devices\":[{\"qps\":[{\"responder\":{\"last_nak\":7},\"peer\":{}}]}]}",
		"{\"devices\":[{\"qps\":[{\"requester\":7}],\"cqs\":[{\"overrun\":7}]}]}",
		"{\"devices\":[{\"groups\":[7,{\"qpns\":[{},null]},{\"mgid\":[]}]}]}",
		"{\"pid\":-1,\"ids\":[[],{\"qpn\":1e99}]}",
	};

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct json_object *all = json_object_new_array(), *o = parse(bad[i]);
		FILE *out = open_text();

		tool_json_tame(o);
		tool_table_process(out, o);
		json_object_array_add(all, o);
		tool_table_summary(out, all);
		tool_table_connections(out, all);
		for (unsigned kind = 0; kind < TOOL_RDMA_KINDS; kind++) {
			struct json_object *rows = tool_rdma_rows(all, kind);

			tool_rdma_print(out, rows, kind);
			json_object_put(rows);
		}
		json_object_put(all);
		CU_ASSERT_EQUAL(fclose(out), 0);
		free(text);
	}
}

static void tame(void)
{
	struct json_object *o = parse("{\"a\":\"x\\u001b[2J\\u007f\\u0000y\","
				      "\"b\":[\"\xc2\x9bz\",{\"c\":\"\xc3\xa9\xe2\x82\xac\"}]}");

	tool_json_tame(o);
	CU_ASSERT_STRING_EQUAL(tool_json_text(o, "a"), "x?[2J??y");
	CU_ASSERT_STRING_EQUAL(json_object_get_string(tool_json_at(o, "b", 0)), "??z");
	CU_ASSERT_STRING_EQUAL(tool_json_text(tool_json_at(o, "b", 1), "c"),
			       "\xc3\xa9\xe2\x82\xac");
	json_object_put(o);
}

/* What stands behind the text is not looked at, whatever it is. */
static void parse_end(void)
{
	static const char reply[] = "{\"a\":[1]} \n\n}";
	const size_t whole = strlen(reply) - 1;

	for (size_t n = 0; n <= strlen(reply); n++) {
		char *copy = malloc(n + 1); /* a sanitizer watches its end */
		struct json_object *o;

		CU_ASSERT_PTR_NOT_NULL_FATAL(copy);
		memcpy(copy, reply, n);
		copy[n] = '\n';
		o = tool_json_parse(copy, n);
		CU_ASSERT_EQUAL(o != NULL, n >= 9 && n <= whole);
		json_object_put(o);
		free(copy);
	}
}

/* ---- rates ---- */

static struct json_object *device(uint64_t time, uint64_t packets, uint64_t drops)
{
	char s[512];

	snprintf(s, sizeof(s),
		 "{\"time_ns\":%llu,\"port\":{\"rx_packets\":%llu,\"tx_packets\":100,\"rx_bytes\":"
		 "%llu,\"tx_bytes\":7},\"transport\":{\"retransmits\":%llu,\"rx_nak\":%llu,"
		 "\"rx_rnr_nak\":0,\"tx_nak_seq\":%llu},\"drops\":%llu}",
		 (unsigned long long)time, (unsigned long long)packets,
		 (unsigned long long)packets * 1000, (unsigned long long)packets / 10,
		 (unsigned long long)packets / 100, (unsigned long long)packets / 100,
		 (unsigned long long)drops);
	return parse(s);
}

static void rates(void)
{
	struct json_object *a = device(1000000000, 1000, 5), *b = device(3000000000, 5000, 6), *o;
	struct tool_rates r;
	FILE *out;

	CU_ASSERT_TRUE(tool_rates(&r, a, b));
	CU_ASSERT_DOUBLE_EQUAL(r.rx_packets, 2000, 1e-6);
	CU_ASSERT_DOUBLE_EQUAL(r.tx_packets, 0, 1e-6);
	CU_ASSERT_DOUBLE_EQUAL(r.rx_bytes, 2000000, 1e-6);
	CU_ASSERT_DOUBLE_EQUAL(r.retransmits, 200, 1e-6);
	CU_ASSERT_DOUBLE_EQUAL(r.naks, 40, 1e-6);
	CU_ASSERT_DOUBLE_EQUAL(r.drops, 0.5, 1e-6);
	out = open_text();
	tool_rates_title(out);
	tool_rates_row(out, 42, "ib_write_bw", "urxe0", &r);
	is(out,
	   "PID     COMMAND         DEVICE      RX-PKT/S    TX-PKT/S   RX-MB/S   TX-MB/S  RETRAN"
	   "S/S    NAKS/S   DROPS/S\n"
	   "42      ib_write_bw     urxe0           2000           0       2.0       0.0      20"
	   "0.0      40.0       0.5\n");
	o = tool_rates_json(42, "ib_write_bw", "urxe0", &r);
	CU_ASSERT_STRING_EQUAL(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN),
			       "{\"pid\":42,\"command\":\"ib_write_bw\",\"device\":\"urxe0\",\"rx_"
			       "packets\":2000.000,"
			       "\"tx_packets\":0.000,\"rx_bytes\":2000000.000,\"tx_bytes\":0.000,"
			       "\"retransmits\":200.000,\"naks\":40.000,\"drops\":0.500}");
	json_object_put(o);
	/* A new process under the same number; the same moment. */
	CU_ASSERT_FALSE(tool_rates(&r, b, a));
	CU_ASSERT_FALSE(tool_rates(&r, a, a));
	json_object_put(b);
	b = device(3000000000, 999, 6);
	CU_ASSERT_FALSE(tool_rates(&r, a, b));
	json_object_put(a);
	json_object_put(b);
}

/* Each metric once, with its type, and a line for each device; a name that is hostile is quoted. */
static void prometheus(void)
{
	struct json_object *all = parse(
		"[{\"pid\":42,\"devices\":[{\"name\":\"a\\\"b\\n\",\"state\":\"up\",\"drops\":9,"
		"\"port\":{\"rx_bytes\":1,\"tx_bytes\":2,\"rx_packets\":3,\"tx_packets\":4}}]},{}"
		"]");
	FILE *out = open_text();

	tool_prometheus(out, all);
	json_object_put(all);
	fflush(out);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "# TYPE node_infiniband_state_id gauge\n"
					    "node_infiniband_state_id{device=\"a\\\"b\\n\","
					    "port=\"1\",pid=\"42\"} 4\n# HELP "));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "received_bytes_total{device=\"a\\\"b\\n\",port=\"1\","
					    "pid=\"42\"} 1\n"));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "packets_transmitted_total{device=\"a\\\"b\\n\",port="
					    "\"1\",pid=\"42\"} 4\n"));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "discards_received_total{device=\"a\\\"b\\n\",port="
					    "\"1\",pid=\"42\"} 9\n"));
	fclose(out);
	free(text);
}

URXE_TEST_MAIN("tool_tables", T(details), T(details_of_connections), T(summary), T(connections),
	       T(rdma_rows), T(rdma_json), T(rdma_filters), T(nonsense), T(tame), T(parse_end),
	       T(rates), T(prometheus))
