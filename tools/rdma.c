/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * urxe link, urxe res: the command lines of iproute2's `rdma link` and `rdma resource`, as far as
 * they show something. rdma(8) asks the kernel, which knows nothing of urxe.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "provider/status_path.h"
#include "rdma.h"
#include "status.h"
#include "tool.h"

const char tool_link_usage[] =
	"usage: urxe link [-j] [show [DEV[/1]]]\n"
	"\n"
	"Shows the devices of running programs with their ports, as `rdma link` does a kernel's.\n"
	"\n"
	"  -j, --json   as JSON\n";

const char tool_res_usage[] =
	"usage: urxe res [-j] [show [DEV]]\n"
	"       urxe res [-j] show qp|cm_id|cq|mr [link|dev DEV[/1]] [NAME VALUE]...\n"
	"\n"
	"Shows how many objects running programs have on each device, or a line for each, as\n"
	"`rdma resource` does of a kernel's device. NAME VALUE: those alone whose lines have it.\n"
	"\n"
	"  -j, --json   as JSON\n";

struct asked {
	enum tool_rdma_kind kind;
	bool json;
	const char *device; /* NULL: all */
	char **filters;	    /* name, value, ...; ends with NULL */
};

/* @word is DEV or DEV/1. */
static bool is_device(struct json_object *row, const char *word)
{
	const char *name = tool_json_text(row, "ifname");
	size_t len = strlen(name);

	return !strncmp(word, name, len) && (!word[len] || !strcmp(word + len, "/1"));
}

static bool keep(struct json_object *row, const struct asked *a)
{
	bool ret = !a->device || is_device(row, a->device);

	for (char **f = a->filters; *f && ret; f += 2)
		ret = tool_rdma_keep(row, f[0], f[1]);
	return ret;
}

static int show(const struct asked *a)
{
	struct json_object *all, *rows, *kept = json_object_new_array();
	bool failed;
	size_t n;

	all = tool_status_gather(0, URXE_STATUS_ALL, !a->json, &failed);
	rows = tool_rdma_rows(all, a->kind);
	n = json_object_array_length(rows);
	for (size_t i = 0; i < n; i++) {
		struct json_object *row = json_object_array_get_idx(rows, i);

		if (keep(row, a))
			json_object_array_add(kept, json_object_get(row));
	}
	json_object_put(rows);
	json_object_put(all);
	if (a->device && a->kind <= TOOL_RDMA_SUM && !json_object_array_length(kept)) {
		json_object_put(kept);
		tool_fail("found no device %s of a running program of yours", a->device);
		return 1;
	}
	if (a->json)
		return tool_json_print(kept) || failed;
	tool_rdma_print(stdout, kept, a->kind);
	json_object_put(kept);
	return tool_flush() || failed;
}

static bool is(const char *word, const char *a, const char *b)
{
	return word && (!strcmp(word, a) || !strcmp(word, b));
}

/* qp ...: what is to be shown, where, with which values. */
static int parse_kind(struct asked *a, char **argv)
{
	unsigned kind = TOOL_RDMA_SUM + 1;

	while (kind < TOOL_RDMA_KINDS && strcmp(*argv, tool_rdma_kind_names[kind]) != 0)
		kind++;
	if (!strcmp(*argv, "pd"))
		return tool_fail("res: programs say how many PDs they have, and not which: urxe "
				 "res, urxe status");
	if (kind == TOOL_RDMA_KINDS) {
		a->device = *argv++;
		return *argv ? tool_fail("res: found '%s', accepted: one DEV", *argv) : 0;
	}
	a->kind = kind;
	argv++;
	if (is(*argv, "link", "dev")) {
		a->device = *++argv;
		if (!a->device)
			return tool_fail("res: %s: found nothing, accepted: DEV or DEV/1",
					 argv[-1]);
		argv++;
	}
	a->filters = argv;
	for (; *argv; argv += 2) {
		if (!argv[1])
			return tool_fail("res: %s: found nothing, accepted: a value", *argv);
	}
	return 0;
}

static int parse(struct asked *a, int argc, char **argv, const char *usage)
{
	static const struct option options[] = {{"json", no_argument, NULL, 'j'},
						{NULL, 0, NULL, 0}};

	while (tool_option(argc, argv, false, options, usage) != -1)
		a->json = true;
	argc -= optind;
	argv += optind;
	a->filters = argv + argc;
	if (is(*argv, "show", "list"))
		argv++;
	else if (*argv)
		return tool_fail("%s: found '%s', accepted: show", tool_rdma_kind_names[a->kind],
				 *argv);
	if (!*argv)
		return 0;
	if (a->kind == TOOL_RDMA_SUM)
		return parse_kind(a, argv);
	a->device = *argv++;
	return *argv ? tool_fail("link: found '%s', accepted: one DEV", *argv) : 0;
}

int tool_link(int argc, char **argv)
{
	struct asked a = {.kind = TOOL_RDMA_LINK};
	int ret = parse(&a, argc, argv, tool_link_usage);

	return ret ? ret : show(&a);
}

int tool_res(int argc, char **argv)
{
	struct asked a = {.kind = TOOL_RDMA_SUM};
	int ret = parse(&a, argc, argv, tool_res_usage);

	return ret ? ret : show(&a);
}
