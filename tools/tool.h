/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Private to the urxe command.
 */
#ifndef URXE_TOOL_H
#define URXE_TOOL_H

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/** Exit status for a wrong command line or configuration. */
#define TOOL_EXIT_USAGE 2

/** tool_fail - print "urxe: ..." as one line to stderr; returns TOOL_EXIT_USAGE. */
int tool_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/** tool_flush - 0, or 1 when not all of stdout could be written, which the first call says. */
int tool_flush(void);

/** The values of options in struct option count from here, or are the letters that stand for them.
 */
#define TOOL_OPTION 256

/**
 * tool_option - the next option of a command, by getopt_long(); -1: the rest begins at argv[optind]
 * @argv: with the name of the command at 0, as errors call it; is permuted unless @first
 * @first: the options end at the first argument that is none
 * @options: with values as TOOL_OPTION says; ends with zeros; --help and -h come besides
 * @usage: what --help prints
 *
 * Does not return from --help, nor from an option that is not there (a line on stderr, status
 * TOOL_EXIT_USAGE).
 */
int tool_option(int argc, char **argv, bool first, const struct option *options, const char *usage);

/** tool_seconds, tool_count - values of options: seconds from 0.1 on; a number from 1 on. 0, or
 * TOOL_EXIT_USAGE and a line on stderr that begins with @what. */
int tool_seconds(const char *what, const char *text, double *seconds);
int tool_count(const char *what, const char *text, unsigned long *count);

/** Where the pieces lie, installed or in a build folder. */
struct tool_places {
	char dropin[4096];   /* directory with libibverbs.so.1 and librdmacm.so.1 */
	char provider[4096]; /* liburxe-rdmav34.so */
	char urxed[4096];    /* the gateway; "": it is not there */
};

/** tool_prepend - @what before what a path variable has. 0, or -1 and errno. */
int tool_prepend(const char *var, const char *what);

/** tool_places_find - 0, or ENOENT. */
int tool_places_find(struct tool_places *p);

/* The subcommands: argv[0] is the subcommand's name. They return the exit status. */
int tool_run(int argc, char **argv);
int tool_shell(int argc, char **argv);
int tool_env(int argc, char **argv);
int tool_status(int argc, char **argv);
int tool_stat(int argc, char **argv);
int tool_top(int argc, char **argv);
int tool_ip(int argc, char **argv);
int tool_doctor(int argc, char **argv);
int tool_link(int argc, char **argv);
int tool_res(int argc, char **argv);
int tool_bind(int argc, char **argv);
int tool_unbind(int argc, char **argv);

extern const char tool_bind_usage[];
extern const char tool_doctor_usage[];
extern const char tool_env_usage[];
extern const char tool_ip_usage[];
extern const char tool_link_usage[];
extern const char tool_res_usage[];
extern const char tool_run_usage[];
extern const char tool_shell_usage[];
extern const char tool_stat_usage[];
extern const char tool_status_usage[];
extern const char tool_top_usage[];
extern const char tool_unbind_usage[];

#endif
