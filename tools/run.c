/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * urxe run, urxe shell: resolve the configuration, put the drop-in libraries in front, exec.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "run.h"
#include "tool.h"
#include "view.h"

const char tool_run_usage[] =
	"usage: urxe run [OPTIONS] [--] CMD [ARG]...\n"
	"\n"
	"Runs CMD, which sees urxe devices; without CMD, on a terminal, a shell (urxe shell).\n"
	"\n" TOOL_RUN_OPTIONS;

const char tool_shell_usage[] = "usage: urxe shell [OPTIONS]\n"
				"\n"
				"Runs a shell ($SHELL) in which all programs see urxe devices.\n"
				"\n" TOOL_RUN_OPTIONS;

int tool_prepend(const char *var, const char *what)
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

int tool_run_vars(const struct urxe_config *cfg, struct tool_run_var vars[TOOL_RUN_VARS])
{
	struct tool_places places;

	if (tool_places_find(&places))
		return tool_fail(
			"found no liburxe-rdmav34.so near this command: is urxe installed? See "
			"urxe doctor");
	vars[0] = (struct tool_run_var){"URXE_CONFIG_TEXT", urxe_config_print(cfg), false};
	vars[1] = (struct tool_run_var){"URXE_PROVIDER", strdup(places.provider), false};
	vars[2] = (struct tool_run_var){"LD_LIBRARY_PATH", strdup(places.dropin), true};
	vars[3] = (struct tool_run_var){"URXE_URXED", strdup(places.urxed), false};
	for (unsigned i = 0; i < TOOL_RUN_VARS; i++) {
		if (!vars[i].value)
			return tool_fail("no memory");
	}
	return 0;
}

static int set_environment(const struct urxe_config *cfg)
{
	struct tool_run_var vars[TOOL_RUN_VARS] = {{0}};
	int ret = tool_run_vars(cfg, vars);

	for (unsigned i = 0; i < TOOL_RUN_VARS; i++) {
		if (!ret && vars[i].value &&
		    (vars[i].path ? tool_prepend(vars[i].name, vars[i].value)
				  : setenv(vars[i].name, vars[i].value, 1)))
			ret = tool_fail("cannot set the environment: %s", strerror(errno));
		free(vars[i].value);
	}
	return ret;
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
		return tool_prepend("LD_PRELOAD", URXE_PRELOAD);
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

static int execute(char **argv)
{
	int err;

	if (preload(argv))
		return tool_fail("cannot set the environment: %s", strerror(errno));
	execvp(argv[0], argv);
	err = errno;
	fprintf(stderr, "urxe: %s: %s\n", argv[0], strerror(err));
	return err == ENOENT ? 127 : 126;
}

/* ---- a shell ---- */

#define MARK "(urxe) "

/*
 * What bash reads at its start: the user's own file, then the mark in what that made of the prompt.
 * It lies in memory, and its descriptor ends with it. NULL: it is not to be had.
 */
static const char *bash_rc(char *path, size_t len)
{
	int fd = memfd_create("urxe-shell", 0);

	if (fd < 0)
		return NULL;
	if (dprintf(fd, "[ ! -r ~/.bashrc ] || . ~/.bashrc\nPS1='" MARK "'$PS1\nexec %d<&-\n", fd) <
	    0) {
		close(fd);
		return NULL;
	}
	snprintf(path, len, "/proc/self/fd/%d", fd);
	return path;
}

/* Does not come back but with an error. */
static int shell(void)
{
	const char *sh = getenv("SHELL"), *name, *rc = NULL;
	char *argv[4] = {0}, path[32];

	if (!sh || !sh[0])
		sh = "/bin/sh";
	name = strrchr(sh, '/');
	name = name ? name + 1 : sh;
	if (!strcmp(name, "bash"))
		rc = bash_rc(path, sizeof(path));
	/* Others take it from here, unless their own file sets it. */
	if (setenv("PS1", MARK "$ ", 1))
		return tool_fail("cannot set the environment: %s", strerror(errno));
	argv[0] = (char *)(uintptr_t)sh;
	if (rc) {
		argv[1] = (char *)(uintptr_t) "--rcfile";
		argv[2] = path;
	}
	return execute(argv);
}

int tool_shell(int argc, char **argv)
{
	const struct tool_run_command cmd = {tool_shell_usage, NULL};
	struct urxe_config cfg;
	int ret = tool_run_config(argc, argv, &cmd, &cfg);

	if (!ret && argv[optind])
		ret = tool_fail("shell: found '%s', accepted: options", argv[optind]);
	if (!ret)
		ret = set_environment(&cfg);
	if (!ret)
		ret = tool_view_enter(&cfg);
	return ret ? ret : shell();
}

int tool_run(int argc, char **argv)
{
	const struct tool_run_command cmd = {tool_run_usage, NULL};
	struct urxe_config cfg;
	int ret = tool_run_config(argc, argv, &cmd, &cfg);

	if (ret)
		return ret;
	argv += optind;
	if (!argv[0] && !(isatty(0) && isatty(1)))
		return tool_fail("run: found no CMD, accepted: urxe run [OPTIONS] -- CMD [ARG]...");
	ret = set_environment(&cfg);
	if (!ret)
		ret = tool_view_enter(&cfg);
	if (ret)
		return ret;
	return argv[0] ? execute(argv) : shell();
}
