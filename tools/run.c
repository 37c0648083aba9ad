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
	"  --pcap FILE      capture all frames, pcapng\n"
	"  --drop RATE, --dup RATE, --reorder RATE, --corrupt RATE, --seed N\n"
	"                   inject faults into what is received, rates from 0 to 1\n"
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

/* "--key value" or "--key=value": returns the value and how many arguments it took. */
static const char *option_value(char **argv, char *key, size_t len, int *taken)
{
	const char *eq = strchr(argv[0], '=');

	if (eq) {
		snprintf(key, len, "%.*s", (int)(eq - argv[0]) - 2, argv[0] + 2);
		*taken = 1;
		return eq + 1;
	}
	snprintf(key, len, "%s", argv[0] + 2);
	*taken = 2;
	return argv[1];
}

static int take_option(struct run_args *a, const char *key, const char *value)
{
	char flag[80];
	bool global = false;

	if (!strcmp(key, "config")) {
		a->config = value;
		return 0;
	}
	if (!strcmp(key, "device")) {
		snprintf(a->device, sizeof(a->device), "%s", value);
		return 0;
	}
	snprintf(flag, sizeof(flag), "--%s", key);
	if (!urxe_config_is_key(key, &global)) {
		snprintf(a->err, sizeof(a->err), "found option '%s', accepted: see urxe help run",
			 flag);
		return EINVAL;
	}
	return urxe_config_add(&a->flags, URXE_CONFIG_FLAG, global ? "" : a->device, key, value,
			       flag, a->err, sizeof(a->err));
}

/* Returns the index of CMD, or -1 with a->err. */
static int parse(struct run_args *a, int argc, char **argv)
{
	const char *value;
	char key[64];
	int i = 1, taken;

	while (i < argc && !strncmp(argv[i], "--", 2)) {
		if (!argv[i][2])
			return i + 1;
		value = option_value(argv + i, key, sizeof(key), &taken);
		if (!value) {
			snprintf(a->err, sizeof(a->err), "--%s: found nothing, accepted: a value",
				 key);
			return -1;
		}
		if (take_option(a, key, value))
			return -1;
		i += taken;
	}
	if (i < argc && argv[i][0] == '-' && argv[i][1]) {
		snprintf(a->err, sizeof(a->err), "found option '%s', accepted: see urxe help run",
			 argv[i]);
		return -1;
	}
	return i;
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
	int cmd = parse(&a, argc, argv), ret;

	if (cmd < 0 || resolve(&a, &cfg))
		return tool_fail("%s", a.err);
	urxe_config_settings_free(&a.flags);
	if (cmd >= argc)
		return tool_fail("run: found no CMD, accepted: urxe run [OPTIONS] -- CMD [ARG]...");
	ret = set_environment(&cfg);
	if (!ret && preload(argv + cmd))
		ret = tool_fail("cannot set the environment: %s", strerror(errno));
	if (ret)
		return ret;
	execvp(argv[cmd], argv + cmd);
	ret = errno;
	fprintf(stderr, "urxe: %s: %s\n", argv[cmd], strerror(ret));
	return ret == ENOENT ? 127 : 126;
}
