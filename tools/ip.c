/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * urxe ip: adds an address to a device of a running process, or removes one. The process does it
 * (cm/device/readdress.c); here it is found.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "netio/config.h"
#include "process.h"
#include "provider/status_path.h"
#include "tool.h"

const char tool_ip_usage[] =
	"usage: urxe ip add|del ADDR/LEN [--device NAME] [--pid PID]\n"
	"\n"
	"Adds an address to a device of a running program, or removes one. The program must have\n"
	"used rdma_cm or ib_cm, as for urxe status --cm.\n"
	"\n"
	"  --device NAME   the device, when several run\n"
	"  --pid PID       the process, when several run\n";

struct ip_args {
	bool add;
	struct urxe_config_ip ip;
	const char *device;
	int pid; /* 0: any */
};

/* The devices that run, and those of them that are meant. */
struct targets {
	const struct ip_args *args;
	unsigned seen, meant;
	char list[512]; /* of those meant, or all; for an error */
	int pid;	/* of the last one that is meant */
	char device[64];
};

static void note(struct targets *t, const char *device, int pid, const char *command)
{
	size_t len = strlen(t->list);

	snprintf(t->list + len, sizeof(t->list) - len, "%s%s of %d (%s)", len ? ", " : "", device,
		 pid, command);
}

static void take_device(struct targets *t, int pid, const char *device, const char *command)
{
	const struct ip_args *a = t->args;
	bool meant = (!a->device || !strcmp(a->device, device)) && (!a->pid || a->pid == pid);

	if (meant && !t->meant++)
		t->list[0] = '\0';
	t->seen++;
	if (meant || !t->meant)
		note(t, device, pid, command);
	if (!meant)
		return;
	t->pid = pid;
	snprintf(t->device, sizeof(t->device), "%s", device);
}

/* A process without a CM does not know the word. */
static void look(struct tool_process *p, void *arg)
{
	struct json_object *o = tool_process_ask(p, URXE_STATUS_IP), *device;

	tool_json_tame(o);
	for (size_t i = 0; (device = tool_json_at(o, "devices", i)); i++)
		take_device(arg, p->pid, tool_json_text(device, "name"),
			    tool_json_text(o, "command"));
	json_object_put(o);
}

/* A change that is asked for, and how it went. */
struct order {
	char request[URXE_STATUS_REQUEST];
	const char *device;
	int status;
};

static void change(struct tool_process *p, void *arg)
{
	struct order *order = arg;
	struct json_object *o = tool_process_ask(p, order->request);

	if (!o)
		return;
	tool_json_tame(o);
	order->status = tool_json_get(o, URXE_STATUS_ERROR) ? 1 : 0;
	if (order->status)
		tool_fail("ip: %s: %s", order->device, tool_json_text(o, URXE_STATUS_ERROR));
	json_object_put(o);
}

static int change_one(const struct ip_args *a, const struct targets *t)
{
	struct order order = {.device = t->device, .status = -1};
	char addr[INET6_ADDRSTRLEN];

	inet_ntop(AF_INET6, a->ip.gid, addr, sizeof(addr));
	snprintf(order.request, sizeof(order.request), "%s %s %s %u",
		 a->add ? URXE_STATUS_IP_ADD : URXE_STATUS_IP_DEL, t->device, addr,
		 a->ip.prefix_len);
	tool_process_each(t->pid, change, &order);
	if (order.status < 0) {
		tool_fail("ip: the process does not answer");
		return 1;
	}
	return order.status;
}

enum option_value {
	DEVICE = TOOL_OPTION,
	PID
};

static const struct option options[] = {
	{"device", required_argument, NULL, DEVICE},
	{"pid", required_argument, NULL, PID},
	{NULL, 0, NULL, 0},
};

static int parse(struct ip_args *a, int argc, char **argv)
{
	int c;

	while ((c = tool_option(argc, argv, false, options, tool_ip_usage)) != -1) {
		if (c == DEVICE)
			a->device = optarg;
		else if (!(a->pid = tool_process_number("ip: --pid", optarg)))
			return TOOL_EXIT_USAGE;
	}
	if (a->device && !a->device[0])
		return tool_fail("ip: --device: found '', accepted: a device's name");
	argv += optind;
	argc -= optind;
	if (argc < 2 || (strcmp(argv[0], "add") != 0 && strcmp(argv[0], "del") != 0))
		return tool_fail("ip: found '%s', accepted: add ADDR/LEN, del ADDR/LEN",
				 argc < 1 ? "" : argv[0]);
	if (argc > 2)
		return tool_fail("ip: found '%s', accepted: one ADDR/LEN", argv[2]);
	a->add = !strcmp(argv[0], "add");
	if (!urxe_config_ip_parse(argv[1], &a->ip))
		return tool_fail("ip: found '%s', accepted: ADDR/LEN of a host, IPv4 or IPv6",
				 argv[1]);
	return 0;
}

int tool_ip(int argc, char **argv)
{
	struct ip_args a = {0};
	struct targets t = {.args = &a};
	int err = parse(&a, argc, argv);

	if (err)
		return err;
	tool_process_each(0, look, &t);
	if (!t.seen)
		return tool_fail(
			"ip: found no running program of yours with a CM on a urxe device");
	if (!t.meant)
		return tool_fail("ip: found none such running, accepted: %s", t.list);
	if (t.meant > 1)
		return tool_fail("ip: found %u, accepted: one, by --device and --pid, of: %s",
				 t.meant, t.list);
	return change_one(&a, &t);
}
