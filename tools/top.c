/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * urxe top: what running processes send and receive, as a table that stays in its place. Nothing of
 * a terminal is needed but that it can be cleared; what can not, or is none, gets lines.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "json.h"
#include "provider/status_path.h"
#include "status.h"
#include "table.h"
#include "tool.h"

const char tool_top_usage[] =
	"usage: urxe top [-d SEC] [-b] [-n COUNT] [--json]\n"
	"\n"
	"Shows what this user's running programs send and receive in a second, as a live table.\n"
	"\n"
	"  -d, --delay SEC      seconds between two looks, from 0.1; 2\n"
	"  -b, --batch          one table after another, for no terminal\n"
	"  -n, --count COUNT    so many tables; without a terminal 1\n"
	"  --json               a line of JSON for each\n"
	"\n"
	"Keys: q ends it; < and > choose the column that it is sorted by, R the direction;\n"
	"+ and - the seconds; space looks at once.\n";

struct top {
	double delay;
	unsigned long count; /* 0: for ever */
	bool batch, json, reverse, over;
	unsigned column;
};

/* ---- the terminal ---- */

static struct termios cooked;
static bool raw;

static void restore(void)
{
	if (raw)
		tcsetattr(0, TCSANOW, &cooked);
	raw = false;
}

static void ended(int sig)
{
	restore();
	signal(sig, SIG_DFL);
	raise(sig);
}

/* Keys come one by one, and are not shown. */
static bool take_terminal(void)
{
	const char *term = getenv("TERM");
	struct termios t;

	if (!isatty(0) || !isatty(1) || !term || !strcmp(term, "dumb") || tcgetattr(0, &cooked))
		return false;
	t = cooked;
	t.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	if (tcsetattr(0, TCSANOW, &t))
		return false;
	raw = true;
	atexit(restore);
	signal(SIGINT, ended);
	signal(SIGTERM, ended);
	return true;
}

static size_t lines(void)
{
	struct winsize w;

	return ioctl(1, TIOCGWINSZ, &w) || w.ws_row < 5 ? 24 : w.ws_row;
}

/* ---- a table ---- */

static void put_head(const struct top *t, const struct tool_row *rows, size_t n)
{
	struct tool_rates sum = {0};
	time_t now = time(NULL);
	char clock[16];
	struct tm tm;

	for (size_t i = 0; i < n; i++) {
		sum.rx_bytes += rows[i].rates.rx_bytes;
		sum.tx_bytes += rows[i].rates.tx_bytes;
	}
	localtime_r(&now, &tm);
	strftime(clock, sizeof(clock), "%H:%M:%S", &tm);
	printf("urxe top - %s, %zu devices, rx %.1f MB/s, tx %.1f MB/s, every %g s, by %s%s\n",
	       clock, n, sum.rx_bytes / 1e6, sum.tx_bytes / 1e6, t->delay,
	       tool_row_columns[t->column], t->reverse ? " backwards" : "");
}

static int show(const struct top *t, struct json_object *before, struct json_object *now)
{
	struct tool_row *rows;
	size_t n = tool_rows(before, now, &rows), most = t->batch ? n : lines() - 4;
	int ret = 0;

	tool_rows_sort(rows, n, t->column, t->reverse);
	if (t->json) {
		ret = tool_rows_print(rows, n);
	} else {
		/* ECMA-48: to the corner, and clear. */
		if (!t->batch)
			fputs("\033[H\033[2J", stdout);
		put_head(t, rows, n);
		tool_rates_title(stdout);
		for (size_t i = 0; i < n && i < most; i++)
			tool_rates_row(stdout, rows[i].pid, rows[i].command, rows[i].device,
				       &rows[i].rates);
		if (n > most)
			printf("... and %zu more\n", n - most);
		else if (t->batch && t->count != 1)
			putchar('\n');
	}
	free(rows);
	return tool_flush() || ret;
}

/* ---- keys ---- */

static void key(struct top *t, char c)
{
	switch (c) {
	case 'q':
	case 'Q':
		t->over = true;
		break;
	case '<':
		t->column = t->column ? t->column - 1 : 0;
		break;
	case '>':
		t->column += t->column + 1 < TOOL_ROW_COLUMNS;
		break;
	case 'R':
		t->reverse = !t->reverse;
		break;
	case '+':
		t->delay = t->delay < 43200 ? t->delay * 2 : t->delay;
		break;
	case '-':
		t->delay = t->delay >= 0.2 ? t->delay / 2 : t->delay;
		break;
	}
}

static double seconds_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* Until it is time for the next look, or a key asks for one. */
static void pause_for_keys(struct top *t, bool terminal)
{
	double until = seconds_now() + t->delay, left;
	struct pollfd pfd = {.fd = terminal ? 0 : -1, .events = POLLIN};
	char c;

	while (!t->over && (left = until - seconds_now()) > 0) {
		if (poll(&pfd, 1, (int)(left * 1000) + 1) <= 0)
			continue;
		if (read(0, &c, 1) != 1)
			t->over = true;
		else
			key(t, c);
		if (c == ' ')
			return;
		until = until < seconds_now() + t->delay ? until : seconds_now() + t->delay;
	}
}

static int watch(struct top *t)
{
	bool terminal = !t->batch && !t->json && take_terminal(), failed;
	struct json_object *before, *now;
	int ret = 0;

	if (!terminal) {
		/* One table, if nobody says how many. */
		t->count = t->count || t->batch ? t->count : 1;
		t->batch = true;
	}
	before = tool_status_gather(0, URXE_STATUS_STAT, !t->json, &failed);
	if (terminal)
		show(t, before, before);
	for (unsigned long n = 0; !ret && !t->over && (!t->count || n < t->count); n++) {
		pause_for_keys(t, terminal);
		if (t->over)
			break;
		now = tool_status_gather(0, URXE_STATUS_STAT, !t->json, &failed);
		ret = show(t, before, now);
		json_object_put(before);
		before = now;
	}
	json_object_put(before);
	return ret || failed;
}

enum option_value {
	JSON = TOOL_OPTION
};

static const struct option options[] = {
	{"delay", required_argument, NULL, 'd'},
	{"batch", no_argument, NULL, 'b'},
	{"count", required_argument, NULL, 'n'},
	{"json", no_argument, NULL, JSON},
	{NULL, 0, NULL, 0},
};

static int take_option(struct top *t, int c)
{
	if (c == JSON)
		t->json = t->batch = true;
	else if (c == 'b')
		t->batch = true;
	else if (c == 'd')
		return tool_seconds("top: -d", optarg, &t->delay);
	else
		return tool_count("top: -n", optarg, &t->count);
	return 0;
}

int tool_top(int argc, char **argv)
{
	struct top t = {.delay = 2, .column = TOOL_ROW_TX_BYTES};
	int c, err = 0;

	while (!err && (c = tool_option(argc, argv, false, options, tool_top_usage)) != -1)
		err = take_option(&t, c);
	if (err)
		return err;
	if (optind < argc)
		return tool_fail("top: found '%s', accepted: options", argv[optind]);
	return watch(&t);
}
