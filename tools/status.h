/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Private to urxe status and urxe stat: what running processes answer.
 */
#ifndef URXE_TOOL_STATUS_H
#define URXE_TOOL_STATUS_H

#include <stdbool.h>

#include <json-c/json.h>

/**
 * tool_status_gather - the answers of all processes to @request, an array in the order of process
 * ids
 * @pid: this process alone; 0: all
 * @tame: they go to a terminal
 * @failed: out: some gave none, as lines on stderr say
 */
struct json_object *tool_status_gather(int pid, const char *request, bool tame, bool *failed);

/**
 * tool_status_processes - show running processes
 * @cm: their connections, else their devices and what is on them
 * @top: where they are put, as "processes"; NULL: print tables
 * @count: out: how many there are
 * @leading: something was printed before: with an empty line between
 *
 * Exit status: 1 when a process gave no answer, or there is no process @pid.
 */
int tool_status_processes(int pid, bool cm, struct json_object *top, unsigned *count, bool leading);

/** tool_status_prometheus - print the counters of running processes; @pid and the exit status as
 * above. */
int tool_status_prometheus(int pid);

#endif
