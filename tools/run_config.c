/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The options of urxe run, shell and env, and the configuration that comes of them.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "netio/config.h"
#include "netio/link.h"
#include "run.h"
#include "tool.h"

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
	FORMAT,
	KEYS
};

#define MAX_OPTIONS 64

static void make_options(struct option *o, bool format)
{
	const char *const *names = urxe_config_key_names();

	*o++ = (struct option){"config", required_argument, NULL, CONFIG};
	*o++ = (struct option){"device", required_argument, NULL, DEVICE};
	if (format)
		*o++ = (struct option){"format", required_argument, NULL, FORMAT};
	for (int i = 0; names[i] && i < MAX_OPTIONS - 4; i++) {
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

/* An empty name would be that of the first device, which is not what was asked for. */
static int take_device(struct run_args *a, const char *name)
{
	if (!name[0]) {
		snprintf(a->err, sizeof(a->err), "--device: found '', accepted: a device's name");
		return EINVAL;
	}
	snprintf(a->device, sizeof(a->device), "%s", name);
	return 0;
}

/* CMD begins at argv[optind] then. 0, or not and a->err. */
static int parse(struct run_args *a, int argc, char **argv, const struct tool_run_command *cmd)
{
	struct option options[MAX_OPTIONS];
	int ret = 0, c;

	make_options(options, cmd->format);
	while (!ret && (c = tool_option(argc, argv, true, options, cmd->usage)) != -1) {
		if (c == CONFIG)
			a->config = optarg;
		else if (c == DEVICE)
			ret = take_device(a, optarg);
		else if (c == FORMAT)
			*cmd->format = optarg;
		else
			ret = take_key(a, urxe_config_key_names()[c - KEYS]);
	}
	if (ret == ENOMEM)
		snprintf(a->err, sizeof(a->err), "no memory");
	return ret;
}

/* What a command has that names no port; NULL: it must name one. */
static const char *const default_port = "fabric";

static int add_default_port(struct urxe_config_settings *s, char *err, size_t errlen)
{
	for (unsigned i = 0; i < s->num; i++) {
		if (!strcmp(s->list[i].key, "port"))
			return 0;
	}
	if (!default_port)
		return 0;
	return urxe_config_add(s, URXE_CONFIG_FLAG, "", "port", default_port, "default", err,
			       errlen);
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
		ret = add_default_port(&s, a->err, sizeof(a->err));
	if (!ret)
		ret = urxe_config_resolve(&s, cfg, a->err, sizeof(a->err));
	if (!ret && !cfg->num_devices) {
		snprintf(a->err, sizeof(a->err),
			 "found no device, accepted: --port, $URXE_PORT, or a file (--config)");
		ret = EINVAL;
	}
	for (unsigned i = 0; !ret && i < cfg->num_devices; i++)
		ret = urxe_link_check(&cfg->devices[i], cfg->eal_args, a->err, sizeof(a->err));
	if (ret == ENOMEM)
		snprintf(a->err, sizeof(a->err), "no memory");
	urxe_config_settings_free(&s);
	return ret;
}

int tool_run_config(int argc, char **argv, const struct tool_run_command *cmd,
		    struct urxe_config *cfg)
{
	struct run_args a = {0};
	int ret = parse(&a, argc, argv, cmd) || resolve(&a, cfg);

	urxe_config_settings_free(&a.flags);
	return ret ? tool_fail("%s", a.err) : 0;
}
