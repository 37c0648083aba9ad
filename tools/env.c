/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * urxe env: what urxe run gives a program, for those who start it themselves.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run.h"
#include "tool.h"

const char tool_env_usage[] =
	"usage: urxe env [--format sh|systemd] [OPTIONS]\n"
	"\n"
	"Prints the variables with which programs see urxe devices: eval \"$(urxe env)\".\n"
	"\n"
	"  --format sh      code for a shell: the default\n"
	"  --format systemd lines for the [Service] section of a unit\n" TOOL_RUN_OPTIONS;

/* In single quotes all is as it is, but for a single quote. */
static void put_sh(const struct tool_run_var *v)
{
	printf("export %s='", v->name);
	for (const char *p = v->value; *p; p++) {
		if (*p == '\'')
			fputs("'\\''", stdout);
		else
			putchar(*p);
	}
	if (v->path)
		printf("'\"${%s:+:$%s}\"\n", v->name, v->name);
	else
		puts("'");
}

/* systemd.syntax(7), "Quoting": escapes as in C; and a specifier begins with %. */
static void put_systemd(const struct tool_run_var *v)
{
	printf("Environment=\"%s=", v->name);
	for (const char *p = v->value; *p; p++) {
		if (*p == '\n')
			fputs("\\n", stdout);
		else if (*p == '"' || *p == '\\')
			printf("\\%c", *p);
		else if (*p == '%')
			fputs("%%", stdout);
		else
			putchar(*p);
	}
	puts("\"");
}

int tool_env(int argc, char **argv)
{
	const char *format = "sh";
	const struct tool_run_command cmd = {tool_env_usage, &format};
	struct tool_run_var vars[TOOL_RUN_VARS];
	struct urxe_config cfg;
	int ret = tool_run_config(argc, argv, &cmd, &cfg);
	bool sh;

	if (ret)
		return ret;
	sh = !strcmp(format, "sh");
	if (argv[optind])
		return tool_fail("env: found '%s', accepted: options", argv[optind]);
	if (!sh && strcmp(format, "systemd") != 0)
		return tool_fail("env: --format: found '%s', accepted: sh or systemd", format);
	if (cfg.view == URXE_VIEW_ALWAYS)
		return tool_fail("env: --view always: variables give no view of /sys and /dev, "
				 "see urxe run");
	ret = tool_run_vars(&cfg, vars);
	for (unsigned i = 0; !ret && i < TOOL_RUN_VARS; i++) {
		(sh ? put_sh : put_systemd)(&vars[i]);
		free(vars[i].value);
	}
	return ret ? ret : tool_flush();
}
