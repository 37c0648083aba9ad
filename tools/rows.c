/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Rows of `urxe stat` and `urxe top`: rates of each device of each process. */
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "table.h"

static struct json_object *device_of(struct json_object *all, uint64_t pid, const char *device)
{
	struct json_object *p, *d;

	for (size_t i = 0; i < json_object_array_length(all); i++) {
		p = json_object_array_get_idx(all, i);
		for (size_t k = 0; (d = tool_json_at(p, "devices", k)); k++) {
			if (tool_json_number(p, "pid") == pid &&
			    !strcmp(tool_json_text(d, "name"), device))
				return d;
		}
	}
	return NULL;
}

static bool make_row(struct tool_row *row, struct json_object *before, struct json_object *p,
		     struct json_object *d)
{
	uint64_t pid = tool_json_number(p, "pid");

	row->pid = (int)pid;
	row->command = tool_json_text(p, "command");
	row->device = tool_json_text(d, "name");
	before = device_of(before, pid, row->device);
	return before && tool_rates(&row->rates, before, d);
}

size_t tool_rows(struct json_object *before, struct json_object *now, struct tool_row **rows)
{
	struct json_object *p, *d;
	struct tool_row *more;
	size_t n = 0, room = 0;

	*rows = NULL;
	for (size_t i = 0; i < json_object_array_length(now); i++) {
		p = json_object_array_get_idx(now, i);
		for (size_t k = 0; (d = tool_json_at(p, "devices", k)); k++) {
			if (n == room) {
				room = room * 2 + 16;
				more = realloc(*rows, room * sizeof(**rows));
				if (!more)
					return n;
				*rows = more;
			}
			n += make_row(&(*rows)[n], before, p, d);
		}
	}
	return n;
}

int tool_rows_print(const struct tool_row *rows, size_t n)
{
	struct json_object *o = json_object_new_object(), *all = json_object_new_array();
	const char *text;
	int ret;

	for (size_t i = 0; i < n; i++)
		json_object_array_add(all, tool_rates_json(rows[i].pid, rows[i].command,
							   rows[i].device, &rows[i].rates));
	json_object_object_add(o, "rates", all);
	text = json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN);
	ret = !text || puts(text) < 0;
	json_object_put(o);
	return ret;
}

/* ---- order ---- */

const char *const tool_row_columns[TOOL_ROW_COLUMNS] = {
	"pid",	    "command",	"device",      "rx packets", "tx packets",
	"rx bytes", "tx bytes", "retransmits", "NAKs",	     "drops"};

static double value(const struct tool_row *r, unsigned column)
{
	const double v[TOOL_ROW_COLUMNS] = {r->pid,
					    0,
					    0,
					    r->rates.rx_packets,
					    r->rates.tx_packets,
					    r->rates.rx_bytes,
					    r->rates.tx_bytes,
					    r->rates.retransmits,
					    r->rates.naks,
					    r->rates.drops};

	return v[column];
}

static unsigned by; /* qsort() passes nothing along */
static bool backwards;

static int compare(const void *a, const void *b)
{
	const struct tool_row *x = a, *y = b;
	double d = value(y, by) - value(x, by);
	int order = d > 0 ? 1 : d < 0 ? -1 : 0;

	if (by == TOOL_ROW_COMMAND)
		order = strcmp(x->command, y->command);
	if (by == TOOL_ROW_DEVICE)
		order = strcmp(x->device, y->device);
	if (backwards)
		order = -order;
	return order ? order : x->pid - y->pid;
}

void tool_rows_sort(struct tool_row *rows, size_t n, unsigned column, bool reverse)
{
	by = column;
	backwards = reverse;
	if (n)
		qsort(rows, n, sizeof(*rows), compare);
}
