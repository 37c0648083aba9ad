/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * urxed: the gateway of a local fabric (netio/gate.h), in the foreground.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "netio/config.h"
#include "netio/eal_want.h"
#include "netio/gate.h"
#include "netio/link.h"
#include "netio/port.h"
#include "tool.h"
#include "urxe/gid.h"
#include "urxed.h"

static const char usage[] =
	"usage: urxed --port PORT [--ip ADDR/LEN]... [--fabric NAME|DIR] [OPTIONS]\n"
	"\n"
	"Carries RDMA packets between the programs of this user on this machine, which `urxe run`\n"
	"has put on the fabric, and the outside. In the foreground, until SIGTERM or SIGINT.\n"
	"\n"
	"  --port PORT      the link to the outside, as of `urxe run`\n"
	"  --ip ADDR/LEN    an address of its own, IPv4 or IPv6; repeatable. Without it, on an\n"
	"                   interface (iface=): the interface's, which are the host's\n"
	"  --idle SEC       end when no program has been on the fabric for so long\n"
	"  --silent         write nothing any more once it is ready\n"
	"  --fabric NAME    the fabric, if not the default one; with a slash: its folder\n"
	"  --gw ADDR        gateway, one of each family\n"
	"  --mac MAC, --mtu N, --vlan ID, --spin US, --trust-peer, --pcap FILE, --eal ARGS,\n"
	"  --drop RATE, --dup RATE, --reorder RATE, --corrupt RATE, --seed N,\n"
	"  --fault-every MS\n"
	"                   as of `urxe run`, for that link\n"
	"  --config FILE    INI file with the same keys\n"
	"  --log LEVEL      none, err, warn, info, debug\n";

enum option_value {
	CONFIG = TOOL_OPTION,
	FABRIC,
	IDLE,
	SILENT,
	KEYS
};

#define MAX_OPTIONS 64
#define SECOND_NS   1e9

static struct urxe_gate *running;

static void on_signal(int sig)
{
	urxe_gate_stop(running);
}

struct args {
	struct urxe_config_settings settings;
	struct urxe_config cfg;
	struct urxe_fabric_spec fabric;
	bool own;     /* the addresses were given */
	double alone; /* seconds; 0: for ever */
	bool silent;
	char err[512];
};

static void make_options(struct option *o)
{
	const char *const *names = urxe_config_key_names();

	*o++ = (struct option){"config", required_argument, NULL, CONFIG};
	*o++ = (struct option){"fabric", required_argument, NULL, FABRIC};
	*o++ = (struct option){"idle", required_argument, NULL, IDLE};
	*o++ = (struct option){"silent", no_argument, NULL, SILENT};
	for (int i = 0; names[i] && i < MAX_OPTIONS - 5; i++) {
		int arg = urxe_config_is_switch(names[i]) ? optional_argument : required_argument;

		*o++ = (struct option){names[i], arg, NULL, KEYS + i};
	}
	*o = (struct option){0};
}

static int take_fabric(struct args *a, const char *what)
{
	char port[sizeof(a->fabric.dir) + 32], why[200];

	snprintf(port, sizeof(port), "fabric,%s=%s", strchr(what, '/') ? "dir" : "name", what);
	if (!urxe_fabric_spec_parse(port, &a->fabric, why, sizeof(why)))
		return 0;
	snprintf(a->err, sizeof(a->err), "--fabric: found '%s' (%s), accepted: a name, or a folder",
		 what, why);
	return EINVAL;
}

static int take_option(struct args *a, int c)
{
	const char *key;
	char flag[80];

	if (c == CONFIG)
		return urxe_config_add_file(&a->settings, optarg, a->err, sizeof(a->err));
	if (c == FABRIC)
		return take_fabric(a, optarg);
	if (c == IDLE) {
		/* It has said what is wrong. */
		if (tool_seconds("--idle", optarg, &a->alone))
			exit(TOOL_EXIT_USAGE);
		return 0;
	}
	if (c == SILENT) {
		a->silent = true;
		return 0;
	}
	key = urxe_config_key_names()[c - KEYS];
	snprintf(flag, sizeof(flag), "--%s", key);
	return urxe_config_add(&a->settings, URXE_CONFIG_FLAG, "", key, optarg ? optarg : "yes",
			       flag, a->err, sizeof(a->err));
}

static int check(struct args *a)
{
	struct urxe_port_config *dev = &a->cfg.devices[0];

	if (a->cfg.num_devices > 1) {
		snprintf(a->err, sizeof(a->err),
			 "%s, %s: found %u devices, accepted: one, as a fabric has one link to the "
			 "outside; another urxed leads out of another fabric (--fabric)",
			 dev->name, dev[1].name, a->cfg.num_devices);
		return EINVAL;
	}
	if (a->cfg.num_devices != 1 || urxe_config_fabric(dev->port) ||
	    !strcmp(dev->port, "loop")) {
		snprintf(a->err, sizeof(a->err),
			 "--port: found %s, accepted: one port that leads to the outside",
			 a->cfg.num_devices ? dev->port : "none");
		return EINVAL;
	}
	a->own = dev->num_ips;
	if (!a->own && !dev->host && urxed_host_addresses(dev)) {
		snprintf(a->err, sizeof(a->err),
			 "--ip: found none, accepted: an address, or a port on an interface that "
			 "has some");
		return EINVAL;
	}
	return urxe_link_check(dev, a->cfg.eal_args, a->err, sizeof(a->err));
}

static int parse(struct args *a, int argc, char **argv)
{
	static char name[] = "options";
	struct option options[MAX_OPTIONS];
	int ret = 0, c;

	make_options(options);
	/* As errors call it. */
	argv[0] = name;
	while (!ret && (c = tool_option(argc, argv, false, options, usage)) != -1)
		ret = take_option(a, c);
	if (!ret && optind < argc) {
		snprintf(a->err, sizeof(a->err), "found '%s', accepted: options", argv[optind]);
		ret = EINVAL;
	}
	if (!ret)
		ret = urxe_config_resolve(&a->settings, &a->cfg, a->err, sizeof(a->err));
	if (!ret)
		ret = check(a);
	urxe_config_settings_free(&a->settings);
	return ret ? tool_fail("%s", ret == ENOMEM ? "no memory" : a->err) : 0;
}

static void say_ready(const struct args *a)
{
	struct urxe_gid_entry e;
	struct urxe_port_info info;
	char dir[4096] = "?", buf[URXE_GID_STRLEN];

	urxe_port_query(urxe_gate_port(running), &info);
	urxe_fabric_spec_dir(&a->fabric, dir, sizeof(dir));
	fprintf(stderr, "urxed: %s is the way out of the fabric in %s; path MTU %u; addresses%s:",
		info.link, dir, info.path_mtu, a->own ? " of its own" : "");
	for (unsigned i = 0; i < URXE_PORT_MAX_GIDS; i++) {
		if (!urxe_port_gid(urxe_gate_port(running), i, &e))
			fprintf(stderr, " %s", urxe_gid_print(e.gid, buf, sizeof(buf)));
	}
	fputc('\n', stderr);
}

/* Who started us reads until then. */
static void fall_silent(void)
{
	int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

	fflush(stderr);
	if (fd >= 0)
		dup2(fd, STDERR_FILENO);
	if (fd > STDERR_FILENO)
		close(fd);
}

static int serve(struct args *a)
{
	const struct sigaction act = {.sa_handler = on_signal};
	int err;

	/* Not before: it ends a process that has nothing to put back yet. */
	sigaction(SIGTERM, &act, NULL);
	sigaction(SIGINT, &act, NULL);
	signal(SIGPIPE, SIG_IGN);
	urxed_status_start(running);
	say_ready(a);
	if (a->silent)
		fall_silent();
	err = urxe_gate_run(running, a->alone > 0 ? (uint64_t)(a->alone * SECOND_NS) : URXE_NEVER);
	/* It is on its way: a second one would find what is gone. */
	signal(SIGTERM, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	urxed_status_stop();
	urxe_gate_close(running);
	if (err)
		tool_fail("the port %s is gone", a->cfg.devices[0].port);
	return err ? 1 : 0;
}

int main(int argc, char **argv)
{
	struct args a = {.own = false};
	const struct urxe_link_ops *ops;
	struct urxe_gate_info there;
	void *link_arg;
	int ret;

	ret = parse(&a, argc, argv);
	if (ret)
		return ret;
	urxe_log_set_level(a.cfg.log);
	urxe_eal_set_args(a.cfg.eal_args);
	/* Who has the fabric has the UDP port as well: this says more. */
	if (!urxe_gate_look(&a.fabric, &there) && there.pid) {
		tool_fail("process %d is the gateway of this fabric, with the port %s", there.pid,
			  there.port);
		return 1;
	}
	/* A link of the kernel's sockets sees to it itself. */
	if (!a.own && !a.cfg.devices[0].host && urxed_host_hold(a.err, sizeof(a.err))) {
		tool_fail("%s", a.err);
		return 1;
	}
	urxe_link_select(&a.cfg.devices[0], &ops, &link_arg);
	if (urxe_gate_open(&running, &a.fabric, &a.cfg.devices[0], ops, link_arg, a.own, a.err,
			   sizeof(a.err))) {
		if (a.err[0])
			tool_fail("%s", a.err);
		return 1;
	}
	return serve(&a);
}
