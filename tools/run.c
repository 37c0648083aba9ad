/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * urxe run: resolve the configuration, put the drop-in libraries in front, exec.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "netio/config.h"
#include "tool.h"

const char tool_run_usage[] =
	"usage: urxe run [OPTIONS] [--] CMD [ARG]...\n"
	"\n"
	"  --port PORT      DPDK device arguments, a PCI address, or loop\n"
	"  --ip ADDR/LEN    address of the device, IPv4 or IPv6; repeatable\n"
	"  --gw ADDR        gateway, one of each family\n"
	"  --mac MAC        MAC address\n"
	"  --mtu N          RDMA path MTU (256..4096, a power of two), or bytes of IP packet\n"
	"  --vlan ID        VLAN of all frames\n"
	"  --queues N       pairs of queues to use\n"
	"  --trust-peer     take any user's process at the link's socket for the peer\n"
	"  --pcap FILE      capture all frames, pcapng\n"
	"  --drop RATE, --dup RATE, --reorder RATE, --corrupt RATE, --seed N\n"
	"                   inject faults into RoCEv2 frames sent and received, rates from 0\n"
	"                   to 1; of one direction: --drop-rx, --drop-tx, --dup-rx, ...\n"
	"  --cm-req-first MS, --cm-req-retries N, --cm-req-total MS, --cm-rep-total MS,\n"
	"  --cm-dreq-total MS, --cm-timewait MS, --cm-mra MS\n"
	"                   times of the connection manager, see urxe-cm(7)\n"
	"  --patience S     seconds until a silent peer of a connection is given up, or off\n"
	"  --device NAME    the options that follow are for this device (default urxe0)\n"
	"  --config FILE    INI file with the same keys\n"
	"  --log LEVEL      none, err, warn, info, debug\n"
	"  --eal ARGS       more arguments for DPDK's EAL\n"
	"\n"
	"A flag goes before the variable URXE_KEY, which goes before the file ($URXE_CONFIG).\n";

struct run_args {
	struct urxe_config_settings flags;
	const char *config; /* --config, or NULL */
	char device[64];    /* of the current --device group, or "" */
	char err[512];
};

/* As many as there are keys, and these. */
enum option_value {
	CONFIG = TOOL_OPTION,
	DEVICE,
	KEYS
};

#define MAX_OPTIONS 64

static void make_options(struct option *o)
{
	const char *const *names = urxe_config_key_names();

	*o++ = (struct option){"config", required_argument, NULL, CONFIG};
	*o++ = (struct option){"device", required_argument, NULL, DEVICE};
	for (int i = 0; names[i] && i < MAX_OPTIONS - 3; i++) {
		int arg = urxe_config_is_switch(names[i]) ? optional_argument : required_argument;

		*o++ = (struct option){names[i], arg, NULL, KEYS + i};
	}
	*o = (struct option){0};
}

static int take_key(struct run_args *a, const char *key)
{
	char flag[80];
	bool global = false;

	snprintf(flag, sizeof(flag), "--%s", key);
	urxe_config_is_key(key, &global);
	return urxe_config_add(&a->flags, URXE_CONFIG_FLAG, global ? "" : a->device, key,
			       optarg ? optarg : "yes", flag, a->err, sizeof(a->err));
}

/* CMD begins at argv[optind] then. 0, or not and a->err. */
static int parse(struct run_args *a, int argc, char **argv)
{
	struct option options[MAX_OPTIONS];
	int ret = 0, c;

	make_options(options);
	while (!ret && (c = tool_option(argc, argv, true, options, tool_run_usage)) != -1) {
		if (c == CONFIG)
			a->config = optarg;
		else if (c == DEVICE)
			snprintf(a->device, sizeof(a->device), "%s", optarg);
		else
			ret = take_key(a, urxe_config_key_names()[c - KEYS]);
	}
	if (ret == ENOMEM)
		snprintf(a->err, sizeof(a->err), "no memory");
	return ret;
}

/* The layers, lowest first; a surrounding `urxe run` counts as the file. */
static int resolve(struct run_args *a, struct urxe_config *cfg)
{
	const char *text = getenv("URXE_CONFIG_TEXT"), *file = getenv("URXE_CONFIG");
	struct urxe_config_settings s = {0};
	const struct urxe_config_setting *f;
	int ret = 0;

	if (a->config)
		file = a->config;
	else if (text && text[0])
		ret = urxe_config_add_text(&s, text, "URXE_CONFIG_TEXT", a->err, sizeof(a->err));
	if (!ret && file && file[0] && (a->config || !text || !text[0]))
		ret = urxe_config_add_file(&s, file, a->err, sizeof(a->err));
	if (!ret)
		ret = urxe_config_add_env(&s, environ, a->err, sizeof(a->err));
	for (unsigned i = 0; i < a->flags.num && !ret; i++) {
		f = &a->flags.list[i];
		ret = urxe_config_add(&s, URXE_CONFIG_FLAG,
				      strcmp(f->device, "urxe") ? f->device : "", f->key, f->value,
				      f->where, a->err, sizeof(a->err));
	}
	if (!ret)
		ret = urxe_config_resolve(&s, cfg, a->err, sizeof(a->err));
	if (!ret && !cfg->num_devices) {
		snprintf(a->err, sizeof(a->err),
			 "found no device, accepted: --port, $URXE_PORT, or a file (--config)");
		ret = EINVAL;
	}
	if (ret == ENOMEM)
		snprintf(a->err, sizeof(a->err), "no memory");
	urxe_config_settings_free(&s);
	return ret;
}

static int prepend(const char *var, const char *what)
{
	const char *old = getenv(var);
	char *path;
	int ret;

	if (!old || !old[0])
		return setenv(var, what, 1);
	if (asprintf(&path, "%s:%s", what, old) < 0)
		return -1;
	ret = setenv(var, path, 1);
	free(path);
	return ret;
}

static int set_environment(const struct urxe_config *cfg)
{
	struct tool_places places;
	char *text = urxe_config_print(cfg);
	int ret;

	if (!text)
		return tool_fail("no memory");
	if (tool_places_find(&places)) {
		free(text);
		return tool_fail(
			"found no liburxe-rdmav34.so near this command: is urxe installed?");
	}
	ret = setenv("URXE_CONFIG_TEXT", text, 1) || setenv("URXE_PROVIDER", places.provider, 1) ||
	      prepend("LD_LIBRARY_PATH", places.dropin);
	free(text);
	return ret ? tool_fail("cannot set the environment: %s", strerror(errno)) : 0;
}

#ifdef URXE_PRELOAD
/*
 * A sanitizer's library must come first in a program that was built without it. But a shell dies
 * of ThreadSanitizer's (setjmp): so `sh -c SCRIPT` gets it for what it runs, not for itself.
 */
static int preload(char **argv)
{
	const char *name = strrchr(argv[0], '/');
	char *script;

	name = name ? name + 1 : argv[0];
	if (strcmp(name, "sh") && strcmp(name, "bash") && strcmp(name, "dash"))
		return prepend("LD_PRELOAD", URXE_PRELOAD);
	if (argv[1] && !strcmp(argv[1], "-c") && argv[2]) {
		if (asprintf(&script, "export LD_PRELOAD='%s'; %s", URXE_PRELOAD, argv[2]) < 0)
			return -1;
		argv[2] = script;
	}
	return 0;
}
#else
static int preload(char **argv)
{
	return 0;
}
#endif

int tool_run(int argc, char **argv)
{
	struct run_args a = {0};
	struct urxe_config cfg;
	int ret;

	ret = parse(&a, argc, argv) || resolve(&a, &cfg);
	urxe_config_settings_free(&a.flags);
	if (ret)
		return tool_fail("%s", a.err);
	argv += optind;
	if (!argv[0])
		return tool_fail("run: found no CMD, accepted: urxe run [OPTIONS] -- CMD [ARG]...");
	ret = set_environment(&cfg);
	if (!ret && preload(argv))
		ret = tool_fail("cannot set the environment: %s", strerror(errno));
	if (ret)
		return ret;
	execvp(argv[0], argv);
	ret = errno;
	fprintf(stderr, "urxe: %s: %s\n", argv[0], strerror(ret));
	return ret == ENOENT ? 127 : 126;
}
