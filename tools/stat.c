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
	unsigned rows;		   /* since the title */
	struct json_object *rates; /* of --json */
};

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

static void show_device(struct round *r, struct json_object *p, struct json_object *d)
{
	const char *command = tool_json_text(p, "command"), *name = tool_json_text(d, "name");
	int pid = (int)tool_json_number(p, "pid");
	struct json_object *before = device_of(r->before, (uint64_t)pid, name);
	struct tool_rates rates;

	if (!before || !tool_rates(&rates, before, d))
		return;
	if (r->args->json) {
		json_object_array_add(r->rates, tool_rates_json(pid, command, name, &rates));
		return;
	}
	if (r->rows++ % TITLE_EVERY == 0)
		tool_rates_title(stdout);
	tool_rates_row(stdout, pid, command, name, &rates);
}

static int print_line(struct json_object *rates)
{
	struct json_object *o = json_object_new_object();
	const char *text;
	int ret;

	json_object_object_add(o, "rates", rates);
	text = json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN);
	ret = !text || puts(text) < 0;
	json_object_put(o);
	return ret;
}

static int show(struct round *r)
{
	struct json_object *p, *d;
	int ret = 0;

	r->rates = r->args->json ? json_object_new_array() : NULL;
	for (size_t i = 0; i < json_object_array_length(r->now); i++) {
		p = json_object_array_get_idx(r->now, i);
		for (size_t k = 0; (d = tool_json_at(p, "devices", k)); k++)
			show_device(r, p, d);
	}
	if (r->args->json)
		ret = print_line(r->rates);
	return fflush(stdout) || ret;
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
	char *end;

	if (c == JSON) {
		a->json = true;
	} else if (c == 'i') {
		a->interval = strtod(optarg, &end);
		if (end == optarg || *end || !(a->interval >= 0.1 && a->interval <= 86400))
			return tool_fail("stat: -i: found '%s', accepted: 0.1 to 86400 seconds",
					 optarg);
	} else {
		a->count = strspn(optarg, "0123456789") == strlen(optarg) && strlen(optarg) < 10
				   ? strtoul(optarg, NULL, 10)
				   : 0;
		if (!a->count)
			return tool_fail("stat: -c: found '%s', accepted: a number from 1", optarg);
	}
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
