/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * urxe stat: what running processes send, receive, lose and send again, in a second, as it goes.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "json.h"
#include "process.h"
#include "provider/status_path.h"
#include "status.h"
#include "table.h"
#include "tool.h"

#define TITLE_EVERY 20 /* rows */

const char tool_stat_usage[] = "usage: urxe stat [-i SEC] [-c COUNT] [--json] [PID]\n"
			       "\n"
			       "Shows what this user's running programs (or this one) send and "
			       "receive in a second, until\n"
			       "it is interrupted: a row for each device of each.\n"
			       "\n"
			       "  -i, --interval SEC   seconds between two looks, from 0.1; 1\n"
			       "  -c, --count COUNT    look so often\n"
			       "  --json               a line of JSON for each look\n";

struct stat_args {
	double interval;
	unsigned long count; /* 0: for ever */
	bool json;
	int pid; /* 0: all */
};

/* A round: what is there now, and what was there before. */
struct round {
	const struct stat_args *args;
	struct json_object *before, *now;
	unsigned rows; /* since the title */
};

static int show(struct round *r)
{
	struct tool_row *rows;
	size_t n = tool_rows(r->before, r->now, &rows);
	int ret = 0;

	for (size_t i = 0; i < n && !r->args->json; i++) {
		if (++r->rows % TITLE_EVERY == 0)
			tool_rates_title(stdout);
		tool_rates_row(stdout, rows[i].pid, rows[i].command, rows[i].device,
			       &rows[i].rates);
	}
	if (r->args->json)
		ret = tool_rows_print(rows, n);
	free(rows);
	return tool_flush() || ret;
}

static void later(struct timespec *ts, double seconds)
{
	long ns = (long)((seconds - (double)(time_t)seconds) * 1e9);

	ts->tv_sec += (time_t)seconds + (ts->tv_nsec + ns) / 1000000000;
	ts->tv_nsec = (ts->tv_nsec + ns) % 1000000000;
}

static int watch(const struct stat_args *a)
{
	struct round r = {.args = a};
	struct timespec when;
	bool failed = false, any = false;
	int ret = 0;

	clock_gettime(CLOCK_MONOTONIC, &when);
	r.before = tool_status_gather(a->pid, URXE_STATUS_STAT, !a->json, &failed);
	any = json_object_array_length(r.before) > 0;
	if (!any && !a->pid)
		fputs("urxe: stat: no program of yours uses urxe yet\n", stderr);
	/* At once: the first row is an interval away, and programs may end before. */
	if (!a->json && (any || !a->pid)) {
		tool_rates_title(stdout);
		ret = tool_flush();
	}
	for (unsigned long n = 0; !ret && (a->count == 0 || n < a->count); n++) {
		if (a->pid && !json_object_array_length(r.before))
			break;
		later(&when, a->interval);
		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL) == EINTR)
			;
		r.now = tool_status_gather(a->pid, URXE_STATUS_STAT, !a->json, &failed);
		ret = show(&r);
		json_object_put(r.before);
		r.before = r.now;
	}
	json_object_put(r.before);
	if (a->pid && !any && !failed)
		tool_fail("stat: found no process %d of yours that uses urxe", a->pid);
	return ret || failed || (a->pid && !any);
}

enum option_value {
	JSON = TOOL_OPTION
};

static const struct option options[] = {
	{"interval", required_argument, NULL, 'i'},
	{"count", required_argument, NULL, 'c'},
	{"json", no_argument, NULL, JSON},
	{NULL, 0, NULL, 0},
};

static int take_option(struct stat_args *a, int c)
{
	if (c == JSON)
		a->json = true;
	else if (c == 'i')
		return tool_seconds("stat: -i", optarg, &a->interval);
	else
		return tool_count("stat: -c", optarg, &a->count);
	return 0;
}

int tool_stat(int argc, char **argv)
{
	struct stat_args a = {.interval = 1};
	int c, err = 0;

	while (!err && (c = tool_option(argc, argv, false, options, tool_stat_usage)) != -1)
		err = take_option(&a, c);
	if (err)
		return err;
	if (optind + 1 < argc)
		return tool_fail("stat: found '%s', accepted: one process id", argv[optind + 1]);
	if (optind < argc && !(a.pid = tool_process_number("stat", argv[optind])))
		return TOOL_EXIT_USAGE;
	return watch(&a);
}
