/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * urxe: the command.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tool.h"

static const struct {
	const char *name, *usage;
	int (*main)(int argc, char **argv);
} commands[] = {
	{"run", tool_run_usage, tool_run},    {"shell", tool_shell_usage, tool_shell},
	{"env", tool_env_usage, tool_env},    {"status", tool_status_usage, tool_status},
	{"stat", tool_stat_usage, tool_stat}, {"top", tool_top_usage, tool_top},
	{"ip", tool_ip_usage, tool_ip},	      {"doctor", tool_doctor_usage, tool_doctor},
	{"link", tool_link_usage, tool_link}, {"res", tool_res_usage, tool_res},
	{"bind", tool_bind_usage, tool_bind}, {"unbind", tool_unbind_usage, tool_unbind},
};

#define NAMES "run, shell, env, status, stat, top, ip, doctor, link, res, bind, unbind"

#define NUM_COMMANDS (sizeof(commands) / sizeof(commands[0]))

static const char usage[] =
	"usage: urxe run [OPTIONS] [--] CMD [ARG]...   run CMD with urxe devices\n"
	"       urxe shell [OPTIONS]                   a shell whose programs see them\n"
	"       urxe env [OPTIONS]                     the variables for that: eval \"$(urxe "
	"env)\"\n"
	"       urxe status [--json] [PID]             show devices, and the programs that use "
	"them\n"
	"       urxe stat [-i SEC] [-c COUNT] [PID]    show what they send and receive, as it "
	"goes\n"
	"       urxe top                               the same as a live table\n"
	"       urxe ip add|del ADDR/LEN [OPTIONS]     change addresses of a running CMD's device\n"
	"       urxe link, urxe res                    devices and objects, as rdma(8) prints "
	"them\n"
	"       urxe doctor [PROGRAM]                  whether this machine can, and what is "
	"missing\n"
	"       urxe bind [OPTIONS] PCI... | --list    give network cards to DPDK; what there is\n"
	"       urxe unbind PCI...                     give them back to the kernel\n"
	"       urxe help [COMMAND]\n"
	"       urxe --version\n"
	"\n"
	"urxe is RoCEv2 in userspace: RDMA devices for programs that use libibverbs and "
	"librdmacm,\n"
	"over a DPDK port. See urxe(1), urxe-run(1), urxe-status(1), urxe-stat(1), urxe-top(1),\n"
	"urxe-ip(1), urxe-doctor(1), urxe-bind(1), urxed(1).\n";

static int help(const char *topic)
{
	if (!topic) {
		fputs(usage, stdout);
		return 0;
	}
	for (unsigned i = 0; i < NUM_COMMANDS; i++) {
		if (!strcmp(topic, commands[i].name)) {
			fputs(commands[i].usage, stdout);
			return 0;
		}
	}
	return tool_fail("help: found '%s', accepted: " NAMES, topic);
}

static bool is(const char *s, const char *a, const char *b)
{
	return !strcmp(s, a) || !strcmp(s, b);
}

static int dispatch(int argc, char **argv)
{
	if (argc < 2) {
		fputs(usage, stderr);
		return TOOL_EXIT_USAGE;
	}
	if (is(argv[1], "--help", "-h"))
		return help(NULL);
	if (is(argv[1], "--version", "-V")) {
		puts("urxe " URXE_VERSION);
		return 0;
	}
	if (!strcmp(argv[1], "help"))
		return help(argv[2]);
	for (unsigned i = 0; i < NUM_COMMANDS; i++) {
		if (!strcmp(argv[1], commands[i].name))
			return commands[i].main(argc - 1, argv + 1);
	}
	return tool_fail("found command '%s', accepted: " NAMES ", help", argv[1]);
}

int main(int argc, char **argv)
{
	int ret = dispatch(argc, argv), lost = tool_flush();

	return ret ? ret : lost;
}
