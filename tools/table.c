/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Tables of `urxe status`. */
#include <inttypes.h>
#include <string.h>

#include "json.h"
#include "table.h"

#define WIDTH 100 /* of lines that are filled with counters */

static uint64_t in_group(struct json_object *o, const char *group, const char *key)
{
	return tool_json_number(tool_json_get(o, group), key);
}

/* ---- many processes ---- */

void tool_table_summary(FILE *out, struct json_object *processes)
{
	struct json_object *p, *d;

	fputs("PID     COMMAND         DEVICE   STATE         QPS   CQS    MRS     MR-BYTES   "
	      "RX-PACKETS   TX-PACKETS  RETRANSMITS      DROPS\n",
	      out);
	for (size_t i = 0; i < json_object_array_length(processes); i++) {
		p = json_object_array_get_idx(processes, i);
		for (size_t k = 0; (d = tool_json_at(p, "devices", k)); k++)
			fprintf(out,
				"%-7" PRIu64 " %-15s %-8s %-11s %5zu %5zu %6" PRIu64 " %12" PRIu64
				" %12" PRIu64 " %12" PRIu64 " %12" PRIu64 " %10" PRIu64 "\n",
				tool_json_number(p, "pid"), tool_json_text(p, "command"),
				tool_json_text(d, "name"), tool_json_text(d, "state"),
				tool_json_length(d, "qps"), tool_json_length(d, "cqs"),
				in_group(d, "mrs", "count"), in_group(d, "mrs", "bytes"),
				in_group(d, "port", "rx_packets"),
				in_group(d, "port", "tx_packets"),
				in_group(d, "transport", "retransmits"),
				tool_json_number(d, "drops"));
	}
}

/* ---- connections ---- */

static void put_connection(FILE *out, struct json_object *p, struct json_object *id)
{
	fprintf(out,
		"%-7" PRIu64 " %-15s %-7s %-8s %-14s %-21s %-21s %08" PRIx64 "/%08" PRIx64
		" %06" PRIx64 "/%06" PRIx64 " %7" PRIu64 " %7" PRIu64 " %s\n",
		tool_json_number(p, "pid"), tool_json_text(p, "command"),
		tool_json_text(id, "kind"), tool_json_text(id, "device"),
		tool_json_text(id, "state"), tool_json_text(id, "local"),
		tool_json_text(id, "peer"), tool_json_number(id, "local_comm_id"),
		tool_json_number(id, "remote_comm_id"), tool_json_number(id, "qpn"),
		tool_json_number(id, "remote_qpn"), tool_json_number(id, "retries"),
		tool_json_number(id, "unacked"), tool_json_text(id, "last_event"));
}

static void put_connections(FILE *out, struct json_object *p)
{
	struct json_object *id;

	for (size_t k = 0; (id = tool_json_at(p, "ids", k)); k++)
		put_connection(out, p, id);
}

static void put_connections_title(FILE *out)
{
	fputs("PID     COMMAND         KIND    DEVICE   STATE          LOCAL                 PEER"
	      "                  COMM-IDS          QPNS          RETRIES UNACKED LAST-EVENT\n",
	      out);
}

void tool_table_connections(FILE *out, struct json_object *processes)
{
	put_connections_title(out);
	for (size_t i = 0; i < json_object_array_length(processes); i++)
		put_connections(out, json_object_array_get_idx(processes, i));
}

/* ---- one process ---- */

/* Those that are not 0, in lines of text. */
static void put_counters(FILE *out, const char *title, struct json_object *all)
{
	size_t at = WIDTH;
	char word[128];
	int n;

	if (!json_object_is_type(all, json_type_object))
		return;
	json_object_object_foreach(all, key, value)
	{
		if (!json_object_get_uint64(value))
			continue;
		n = snprintf(word, sizeof(word), "%s %" PRIu64, key, json_object_get_uint64(value));
		if (at + 2 + (size_t)n > WIDTH) {
			fprintf(out, "%s  %-10s %s", at == WIDTH ? "" : "\n", title, word);
			title = "";
			at = 13 + (size_t)n;
		} else {
			fprintf(out, ", %s", word);
			at += 2 + (size_t)n;
		}
	}
	if (at != WIDTH)
		fputc('\n', out);
}

static void put_objects(FILE *out, struct json_object *d)
{
	fprintf(out,
		"  objects    %" PRIu64 " PDs, %" PRIu64 " MRs of %" PRIu64 " bytes, %" PRIu64
		" MWs, %" PRIu64 " AHs, %" PRIu64 " SRQs, %" PRIu64 " WQs\n",
		tool_json_number(d, "pds"), in_group(d, "mrs", "count"),
		in_group(d, "mrs", "bytes"), tool_json_number(d, "mws"), tool_json_number(d, "ahs"),
		tool_json_number(d, "srqs"), tool_json_number(d, "wqs"));
}

static void put_groups(FILE *out, struct json_object *d)
{
	struct json_object *g, *qpn;

	for (size_t i = 0; (g = tool_json_at(d, "groups", i)); i++) {
		fprintf(out, "  group      %s: QPs", tool_json_text(g, "mgid"));
		for (size_t k = 0; (qpn = tool_json_at(g, "qpns", k)); k++)
			fprintf(out, " %06" PRIx64, json_object_get_uint64(qpn));
		fputc('\n', out);
	}
}

static void put_cqs(FILE *out, struct json_object *d)
{
	struct json_object *cq;

	if (!tool_json_length(d, "cqs"))
		return;
	fputs("\n  CQN     ENTRIES UNPOLLED USERS ARMED     OVERRUN\n", out);
	for (size_t i = 0; (cq = tool_json_at(d, "cqs", i)); i++)
		fprintf(out, "  %-6" PRIu64 " %8" PRIu64 " %8" PRIu64 " %5" PRIu64 " %-9s %s\n",
			tool_json_number(cq, "cqn"), tool_json_number(cq, "entries"),
			tool_json_number(cq, "unpolled"), tool_json_number(cq, "users"),
			tool_json_text(cq, "armed"),
			json_object_get_boolean(tool_json_get(cq, "overrun")) ? "yes" : "no");
}

/* "received RNR at 00002a 0.5 s ago, sent PSN_SEQUENCE at 000007" */
static void put_nak(FILE *out, struct json_object *q)
{
	struct json_object *got = tool_json_get(tool_json_get(q, "requester"), "last_nak");
	struct json_object *sent = tool_json_get(tool_json_get(q, "responder"), "last_nak");

	if (got)
		fprintf(out, "received %s at %06" PRIx64 " %.1f s ago%s",
			tool_json_text(got, "name"), tool_json_number(got, "psn"),
			(double)tool_json_number(got, "age_ns") / 1e9, sent ? ", " : "");
	if (sent)
		fprintf(out, "sent %s at %06" PRIx64, tool_json_text(sent, "name"),
			tool_json_number(sent, "psn"));
	fputs(got || sent ? "\n" : "-\n", out);
}

static void put_qp(FILE *out, struct json_object *q)
{
	struct json_object *r = tool_json_get(q, "requester");
	char peer[80], window[32], retries[32], rnr[32];
	uint64_t psn = tool_json_number(r, "psn"), una = tool_json_number(r, "una");

	snprintf(peer, sizeof(peer), "%s", "-");
	if (tool_json_get(q, "peer"))
		snprintf(peer, sizeof(peer), "%.60s/%06" PRIx64, tool_json_text(q, "peer"),
			 tool_json_number(q, "peer_qpn"));
	snprintf(window, sizeof(window), "%" PRIu64 "/%" PRIu64, (psn - una) & 0xffffff,
		 tool_json_number(r, "window"));
	snprintf(retries, sizeof(retries), "%" PRIu64 "/%" PRIu64, tool_json_number(r, "retries"),
		 tool_json_number(r, "retry_cnt"));
	snprintf(rnr, sizeof(rnr), "%" PRIu64 "/%" PRIu64, tool_json_number(r, "rnr_retries"),
		 tool_json_number(r, "rnr_retry"));
	fprintf(out,
		"  %06" PRIx64 " %-8s %-5s %-12s %-22s %06" PRIx64 " %06" PRIx64 " %06" PRIx64
		" %7s %8.1f %5s %5s %5" PRIu64 " %5" PRIu64 " ",
		tool_json_number(q, "qpn"), tool_json_text(q, "type"), tool_json_text(q, "state"),
		tool_json_text(tool_json_get(q, "responder"), "state"), peer, psn, una,
		in_group(q, "responder", "epsn"), window,
		(double)tool_json_number(r, "srtt_ns") / 1e3, retries, rnr,
		tool_json_number(r, "posted"), tool_json_number(q, "receives"));
	put_nak(out, q);
}

static void put_qps(FILE *out, struct json_object *d)
{
	struct json_object *q;

	if (!tool_json_length(d, "qps"))
		return;
	fputs("\n  QPN    TYPE     STATE RESPONDER    PEER                   PSN    UNA    EPSN   "
	      "OUT/WND  SRTT-US RETRY   RNR SENDS RECVS LAST-NAK\n",
	      out);
	for (size_t i = 0; (q = tool_json_at(d, "qps", i)); i++)
		put_qp(out, q);
}

static void put_device(FILE *out, struct json_object *d)
{
	struct json_object *a;

	fprintf(out, "%s: %s, %s", tool_json_text(d, "name"), tool_json_text(d, "state"),
		tool_json_text(d, "link"));
	for (size_t i = 0; (a = tool_json_at(d, "addresses", i)); i++)
		fprintf(out, ", %s", json_object_get_string(a));
	fputc('\n', out);
	put_objects(out, d);
	put_counters(out, "port", tool_json_get(d, "port"));
	put_counters(out, "transport", tool_json_get(d, "transport"));
	put_counters(out, "gateway", tool_json_get(d, "gateway"));
	put_groups(out, d);
	put_cqs(out, d);
	put_qps(out, d);
}

void tool_table_process(FILE *out, struct json_object *p)
{
	struct json_object *d;

	fprintf(out, "process %" PRIu64 ": %s, urxe %s\n", tool_json_number(p, "pid"),
		tool_json_text(p, "command"), tool_json_text(p, "version"));
	for (size_t i = 0; (d = tool_json_at(p, "devices", i)); i++)
		put_device(out, d);
	if (!tool_json_length(p, "ids"))
		return;
	fputc('\n', out);
	put_connections_title(out);
	put_connections(out, p);
}
