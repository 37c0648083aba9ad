/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Rates of `urxe stat`: what a device counted between two looks, by the clock that it tells. */
#include "json.h"
#include "table.h"

/* False: it went back. */
static bool rate(double *r, struct json_object *before, struct json_object *after,
		 const char *group, const char *key, double seconds)
{
	uint64_t was, is;

	if (group) {
		before = tool_json_get(before, group);
		after = tool_json_get(after, group);
	}
	was = tool_json_number(before, key);
	is = tool_json_number(after, key);
	*r += (double)(is - was) / seconds;
	return is >= was;
}

bool tool_rates(struct tool_rates *r, struct json_object *before, struct json_object *after)
{
	const struct {
		double *to;
		const char *group, *key;
	} parts[] = {
		{&r->rx_packets, "port", "rx_packets"},
		{&r->tx_packets, "port", "tx_packets"},
		{&r->rx_bytes, "port", "rx_bytes"},
		{&r->tx_bytes, "port", "tx_bytes"},
		{&r->retransmits, "transport", "retransmits"},
		{&r->naks, "transport", "rx_nak"},
		{&r->naks, "transport", "rx_rnr_nak"},
		{&r->naks, "transport", "tx_nak_seq"},
		{&r->naks, "transport", "tx_nak_other"},
		{&r->naks, "transport", "tx_rnr_nak"},
		{&r->drops, NULL, "drops"},
	};
	uint64_t from = tool_json_number(before, "time_ns"),
		 to = tool_json_number(after, "time_ns");
	bool good = to > from;

	*r = (struct tool_rates){0};
	for (unsigned i = 0; good && i < sizeof(parts) / sizeof(parts[0]); i++)
		good = rate(parts[i].to, before, after, parts[i].group, parts[i].key,
			    (double)(to - from) / 1e9);
	return good;
}

void tool_rates_title(FILE *out)
{
	fputs("PID     COMMAND         DEVICE      RX-PKT/S    TX-PKT/S   RX-MB/S   TX-MB/S  "
	      "RETRANS/S    NAKS/S   DROPS/S\n",
	      out);
}

void tool_rates_row(FILE *out, int pid, const char *command, const char *device,
		    const struct tool_rates *r)
{
	fprintf(out, "%-7d %-15s %-8s %11.0f %11.0f %9.1f %9.1f %10.1f %9.1f %9.1f\n", pid, command,
		device, r->rx_packets, r->tx_packets, r->rx_bytes / 1e6, r->tx_bytes / 1e6,
		r->retransmits, r->naks, r->drops);
}

static void add(struct json_object *o, const char *key, double v)
{
	char text[32];

	snprintf(text, sizeof(text), "%.3f", v);
	json_object_object_add(o, key, json_object_new_double_s(v, text));
}

struct json_object *tool_rates_json(int pid, const char *command, const char *device,
				    const struct tool_rates *r)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "pid", json_object_new_int(pid));
	tool_json_add(o, "command", command);
	tool_json_add(o, "device", device);
	add(o, "rx_packets", r->rx_packets);
	add(o, "tx_packets", r->tx_packets);
	add(o, "rx_bytes", r->rx_bytes);
	add(o, "tx_bytes", r->tx_bytes);
	add(o, "retransmits", r->retransmits);
	add(o, "naks", r->naks);
	add(o, "drops", r->drops);
	return o;
}
