/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * urxe status: what the running processes of the user (root: of all) say of themselves, as JSON or
 * as tables.
 */
#include <stdlib.h>

#include "json.h"
#include "process.h"
#include "provider/status_path.h"
#include "status.h"
#include "table.h"
#include "tool.h"

struct answers {
	const char *request;
	bool tame, failed;
	struct json_object *all;
};

static void take(struct tool_process *p, void *arg)
{
	struct answers *a = arg;
	struct json_object *o = tool_process_ask(p, a->request);

	a->failed |= p->failed;
	if (!o)
		return;
	if (a->tame)
		tool_json_tame(o);
	json_object_array_add(a->all, o);
}

static int by_pid(const void *a, const void *b)
{
	uint64_t x = tool_json_number(*(struct json_object *const *)a, "pid");
	uint64_t y = tool_json_number(*(struct json_object *const *)b, "pid");

	return x < y ? -1 : x > y;
}

struct json_object *tool_status_gather(int pid, const char *request, bool tame, bool *failed)
{
	struct answers a = {request, tame, false, json_object_new_array()};

	tool_process_each(pid, take, &a);
	json_object_array_sort(a.all, by_pid);
	*failed = a.failed;
	return a.all;
}

int tool_status_processes(int pid, bool cm, struct json_object *top, unsigned *count, bool leading)
{
	bool failed;
	struct json_object *all =
		tool_status_gather(pid, cm ? URXE_STATUS_CM : URXE_STATUS_ALL, !top, &failed);
	size_t n = json_object_array_length(all);

	*count = (unsigned)n;
	if (top)
		json_object_object_add(top, "processes", all);
	else if (cm)
		tool_table_connections(stdout, all);
	else if (leading && n)
		putchar('\n');
	if (!top && !cm && n > 1)
		tool_table_summary(stdout, all);
	for (size_t i = 0; !top && !cm && i < n; i++) {
		if (n > 1)
			putchar('\n');
		tool_table_process(stdout, json_object_array_get_idx(all, i));
	}
	if (!top)
		json_object_put(all);
	if (pid && !n && !failed) {
		tool_fail("status: found no process %d of yours that uses urxe", pid);
		failed = true;
	}
	return (!top && tool_flush()) || failed;
}

int tool_status_prometheus(int pid)
{
	bool failed;
	struct json_object *all = tool_status_gather(pid, URXE_STATUS_STAT, false, &failed);

	if (pid && !failed && !json_object_array_length(all)) {
		tool_fail("status: found no process %d of yours that uses urxe", pid);
		failed = true;
	}
	tool_prometheus(stdout, all);
	json_object_put(all);
	return tool_flush() || failed;
}
