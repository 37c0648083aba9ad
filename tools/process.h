/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Private to the urxe command: the running processes, and how they are asked
 * (provider/status_path.h).
 */
#ifndef URXE_TOOL_PROCESS_H
#define URXE_TOOL_PROCESS_H

#include <stdbool.h>

#include <json-c/json.h>

/** A process that has a socket, while tool_process_each() tells of it. */
struct tool_process {
	int pid;
	const char *path; /* the socket's, for errors */
	int dir;	  /* the folder that it lies in, which was looked at */
	bool failed;	  /* set by tool_process_ask() */
};

/** tool_process_each - @fn for each process that answers: the user's, root: everybody's. @pid: this
 * one alone; 0: all. */
void tool_process_each(int pid, void (*fn)(struct tool_process *p, void *arg), void *arg);

/**
 * tool_process_ask - say @request to a process; what it answers, an object
 *
 * NULL: it is gone (and the socket that it left, if it was killed), or there is no answer that this
 * version understands: then a line on stderr says so and @p->failed is set. To be freed by
 * json_object_put().
 */
struct json_object *tool_process_ask(struct tool_process *p, const char *request);

/** tool_process_number - a process id from the command line; 0: it is none, as a line on stderr
 * says. */
int tool_process_number(const char *command, const char *text);

#endif
