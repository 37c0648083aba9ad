/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * urxe status --cm: asks the processes of the user (root: of all) that have a CM for their
 * connections. Each answers in lines (cm/device/report.c), which become JSON here, and that a
 * table.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "cm/device/report_path.h"
#include "json.h"
#include "tool.h"

static const char title[] =
	"PID     COMMAND         KIND    DEVICE   STATE          LOCAL                 PEER"
	"                  COMM-IDS          QPNS          RETRIES LAST-EVENT\n";

#define MAX_DEPTH 8
#define MAX_BYTES (64u << 20) /* of one report: more than 100,000 ids */

struct reports {
	bool json;
	struct json_object *all; /* an array */
	bool failed;
};

/* A report on its way to JSON. */
struct reading {
	struct json_object *open[MAX_DEPTH], *root;
	unsigned depth;
	bool table; /* strings go to a terminal */
};

static bool add(struct reading *r, const char *name, struct json_object *o)
{
	struct json_object *in = r->depth ? r->open[r->depth - 1] : NULL;

	if (in)
		return !(json_object_is_type(in, json_type_array)
				 ? json_object_array_add(in, o)
				 : json_object_object_add(in, name, o));
	if (r->root || !json_object_is_type(o, json_type_object)) {
		json_object_put(o);
		return false;
	}
	r->root = o;
	return true;
}

static bool add_number(struct reading *r, const char *name, const char *value)
{
	char *end;
	uint64_t n = strtoull(value, &end, 10);

	return isdigit((unsigned char)value[0]) && !*end && add(r, name, json_object_new_uint64(n));
}

static bool add_string(struct reading *r, const char *name, char *value)
{
	for (char *p = value; r->table && *p; p++) {
		if (iscntrl((unsigned char)*p))
			*p = '?';
	}
	return add(r, name, tool_json_string(value));
}

/* "TYPE NAME[ VALUE]", as cm/report_path.h has it. */
static bool take_line(struct reading *r, char *line)
{
	char *name = line[0] && line[1] == ' ' ? line + 2 : NULL, *value;
	struct json_object *o;

	if (!strcmp(line, "}"))
		return r->depth && r->depth--;
	if (!name)
		return false;
	value = name + strcspn(name, " ");
	if (*value)
		*value++ = '\0';
	if (line[0] == 's')
		return add_string(r, name, value);
	if (line[0] == 'n')
		return add_number(r, name, value);
	if ((line[0] != '{' && line[0] != '[') || r->depth == MAX_DEPTH)
		return false;
	o = line[0] == '{' ? json_object_new_object() : json_object_new_array();
	if (!add(r, name, o))
		return false;
	r->open[r->depth++] = o;
	return true;
}

/* What is wrong with the report in @in; NULL: nothing, or there is none (no root). */
static const char *read_report(struct reading *r, FILE *in)
{
	char *line = NULL;
	size_t size = 0, sum = 0;
	bool head = false, good = true;
	ssize_t n = 0;

	while (good && sum < MAX_BYTES && (n = getline(&line, &size, in)) > 0) {
		sum += (size_t)n;
		line[strcspn(line, "\n")] = '\0';
		if (head)
			good = take_line(r, line);
		else if (strcmp(line, URXE_REPORT_HEAD) != 0)
			break;
		head = true;
	}
	free(line);
	if (!sum)
		return NULL; /* it has just ended */
	if (!head)
		return "is of another version of urxe, accepted: one that answers "
		       "'" URXE_REPORT_HEAD "'";
	return good && n < 0 && r->root && !r->depth ? NULL : "its report breaks off or is none";
}

static void take_process(const char *path, void *arg)
{
	static const char word[] = {URXE_REPORT_ALL, '\n', '\0'};
	struct reports *all = arg;
	struct reading r = {.table = !all->json};
	int fd = tool_process_ask(path, word);
	FILE *in = fd < 0 ? NULL : fdopen(fd, "r");
	const char *wrong;

	if (!in)
		return;
	wrong = read_report(&r, in);
	fclose(in);
	if (wrong) {
		tool_fail("%s: %s", path, wrong);
		json_object_put(r.root);
		all->failed = true;
	} else if (r.root) {
		json_object_array_add(all->all, r.root);
	}
}

/* ---- table ---- */

static const char *text(struct json_object *o, const char *key)
{
	const char *s = json_object_get_string(json_object_object_get(o, key));

	return s ? s : "-";
}

static uint32_t number(struct json_object *o, const char *key)
{
	return (uint32_t)json_object_get_uint64(json_object_object_get(o, key));
}

static void print_process(struct json_object *p)
{
	struct json_object *ids = json_object_object_get(p, "ids"), *id;
	size_t n = json_object_is_type(ids, json_type_array) ? json_object_array_length(ids) : 0;

	for (size_t i = 0; i < n; i++) {
		id = json_object_array_get_idx(ids, i);
		printf("%-7u %-15s %-7s %-8s %-14s %-21s %-21s %08x/%08x %06x/%06x %7u %s\n",
		       number(p, "pid"), text(p, "command"), text(id, "kind"), text(id, "device"),
		       text(id, "state"), text(id, "local"), text(id, "peer"),
		       number(id, "local_comm_id"), number(id, "remote_comm_id"), number(id, "qpn"),
		       number(id, "remote_qpn"), number(id, "retries"), text(id, "last_event"));
	}
}

int tool_status_cm(bool json)
{
	struct reports r = {.json = json, .all = json_object_new_array()};
	struct json_object *top = json_object_new_object();
	int ret;

	json_object_object_add(top, "processes", r.all);
	tool_process_each(take_process, &r);
	if (json) {
		ret = tool_json_print(top);
	} else {
		fputs(title, stdout);
		for (size_t i = 0; i < json_object_array_length(r.all); i++)
			print_process(json_object_array_get_idx(r.all, i));
		ret = fflush(stdout) ? 1 : 0;
		json_object_put(top);
	}
	return ret || r.failed;
}
