/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * urxe ip: adds an address to a device of a running process, or removes one. The process does it
 * (cm/device/readdress.c); here it is found.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cm/device/report_path.h"
#include "netio/config.h"
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
	const char *device, *pid;
};

/* The devices that run, and those of them that are meant. */
struct targets {
	const struct ip_args *args;
	unsigned seen, meant;
	char list[512]; /* of those meant, or all; for an error */
	char path[128]; /* of the last one that is meant */
	char device[64];
};

static void note(struct targets *t, const char *device, const char *pid, const char *command)
{
	size_t len = strlen(t->list);

	snprintf(t->list + len, sizeof(t->list) - len, "%s%s of %s (%s)", len ? ", " : "", device,
		 pid, command);
}

static void take_line(struct targets *t, const char *path, char *line)
{
	const struct ip_args *a = t->args;
	char *save, *device = strtok_r(line, " ", &save), *pid = strtok_r(NULL, " ", &save);
	char *ips = strtok_r(NULL, " ", &save), *command = strtok_r(NULL, "", &save);
	bool meant;

	if (!device || !pid || !ips)
		return;
	meant = (!a->device || !strcmp(a->device, device)) && (!a->pid || !strcmp(a->pid, pid));
	if (meant && !t->meant++)
		t->list[0] = '\0';
	t->seen++;
	if (meant || !t->meant)
		note(t, device, pid, command ? command : "?");
	if (!meant)
		return;
	snprintf(t->path, sizeof(t->path), "%s", path);
	snprintf(t->device, sizeof(t->device), "%s", device);
}

/* The whole answer of a process, as a string. */
static size_t read_all(int fd, char *buf, size_t size)
{
	size_t len = 0;
	ssize_t n;

	while (len < size - 1 && (n = recv(fd, buf + len, size - 1 - len, 0)) > 0)
		len += (size_t)n;
	buf[len] = '\0';
	close(fd);
	return len;
}

static void look(const char *path, void *arg)
{
	static const char word[] = {URXE_REPORT_IPS, '\n', '\0'};
	char buf[1 << 16], *save, *line;
	int fd = tool_process_ask(path, word);

	if (fd < 0)
		return;
	read_all(fd, buf, sizeof(buf));
	for (line = strtok_r(buf, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		take_line(arg, path, line);
}

static int change(const struct ip_args *a, const struct targets *t)
{
	char line[256], addr[INET6_ADDRSTRLEN], reply[256];
	int fd;

	inet_ntop(AF_INET6, a->ip.gid, addr, sizeof(addr));
	snprintf(line, sizeof(line), "%c %s %s %u\n", a->add ? URXE_REPORT_ADD : URXE_REPORT_DEL,
		 t->device, addr, a->ip.prefix_len);
	fd = tool_process_ask(t->path, line);
	if (fd < 0 || !read_all(fd, reply, sizeof(reply))) {
		tool_fail("ip: the process does not answer");
		return 1;
	}
	reply[strcspn(reply, "\n")] = '\0';
	if (!strcmp(reply, URXE_REPORT_DONE))
		return 0;
	tool_fail("ip: %s: %s", t->device, reply);
	return 1;
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

	while ((c = tool_option(argc, argv, false, options, tool_ip_usage)) != -1)
		*(c == DEVICE ? &a->device : &a->pid) = optarg;
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
	tool_process_each(look, &t);
	if (!t.seen)
		return tool_fail(
			"ip: found no running program of yours with a CM on a urxe device");
	if (!t.meant)
		return tool_fail("ip: found none such running, accepted: %s", t.list);
	if (t.meant > 1)
		return tool_fail("ip: found %u, accepted: one, by --device and --pid, of: %s",
				 t.meant, t.list);
	return change(&a, &t);
}
