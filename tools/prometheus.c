/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * `urxe status --prometheus`: what running processes count, in Prometheus' text format, with the
 * names of node_exporter's infiniband collector.
 */
#include <inttypes.h>
#include <string.h>

#include "json.h"
#include "table.h"

/* A number of a device: a member of it, or of an object in it. */
static const struct metric {
	const char *name, *type, *help, *object, *member;
} metrics[] = {
	{"state_id", "gauge", "State of the InfiniBand port (4: active, 1: down)", NULL, NULL},
	{"port_data_received_bytes_total", "counter", "Bytes received, of whole frames", "port",
	 "rx_bytes"},
	{"port_data_transmitted_bytes_total", "counter", "Bytes sent, of whole frames", "port",
	 "tx_bytes"},
	{"port_packets_received_total", "counter", "RoCEv2 packets received", "port", "rx_packets"},
	{"port_packets_transmitted_total", "counter", "RoCEv2 packets sent", "port", "tx_packets"},
	{"port_discards_received_total", "counter",
	 "Packets that were received or to be sent, and "
	 "dropped",
	 NULL, "drops"},
};

static uint64_t value(const struct metric *m, struct json_object *dev)
{
	if (!m->member)
		return strcmp(tool_json_text(dev, "state"), "up") ? 1 : 4;
	return tool_json_number(m->object ? tool_json_get(dev, m->object) : dev, m->member);
}

/* The three characters that a label's value cannot have as they are. */
static void put_label(FILE *out, const char *s)
{
	for (; *s; s++) {
		if (*s == '\n')
			fputs("\\n", out);
		else if (*s == '"' || *s == '\\')
			fprintf(out, "\\%c", *s);
		else
			fputc(*s, out);
	}
}

static void put_process(FILE *out, const struct metric *m, struct json_object *process)
{
	size_t n = tool_json_length(process, "devices");

	for (size_t i = 0; i < n; i++) {
		struct json_object *dev = tool_json_at(process, "devices", i);

		fprintf(out, "node_infiniband_%s{device=\"", m->name);
		put_label(out, tool_json_text(dev, "name"));
		fprintf(out, "\",port=\"1\",pid=\"%" PRIu64 "\"} %" PRIu64 "\n",
			tool_json_number(process, "pid"), value(m, dev));
	}
}

void tool_prometheus(FILE *out, struct json_object *processes)
{
	size_t n = json_object_array_length(processes);

	for (size_t i = 0; i < sizeof(metrics) / sizeof(metrics[0]); i++) {
		const struct metric *m = &metrics[i];

		fprintf(out, "# HELP node_infiniband_%s %s\n# TYPE node_infiniband_%s %s\n",
			m->name, m->help, m->name, m->type);
		for (size_t p = 0; p < n; p++)
			put_process(out, m, json_object_array_get_idx(processes, p));
	}
}
