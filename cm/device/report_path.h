/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Where `urxe status --cm` and `urxe ip` reach running processes: a folder of the user's, with a
 * socket named by its process id for each process that has a CM. A client connects, sends one of
 * the words below and a newline, and reads until the end.
 */
#ifndef URXE_CM_DEVICE_REPORT_PATH_H
#define URXE_CM_DEVICE_REPORT_PATH_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>

#define URXE_REPORT_DIR "/tmp/urxe-"	  /* and the user's number */
#define URXE_REPORT_ENV "URXE_STATUS_DIR" /* names another folder; empty: no socket */
#define URXE_REPORT_ALL 'r'		  /* the report */
#define URXE_REPORT_IPS 'l' /* a line for each device: name, process id, addresses, command */
/* And a device, an address as IPv6, a prefix length; the answer is a line: DONE, or what is wrong.
 */
#define URXE_REPORT_ADD	 'a'
#define URXE_REPORT_DEL	 'd'
#define URXE_REPORT_DONE "done"

/*
 * The report begins with this line, which changes with what the lines mean. The others are an
 * object and what is in it: "s NAME STRING", "n NAME NUMBER", and "{ NAME" for an object or
 * "[ NAME" for an array, whose end is "}". What stands in an array has the name "-", and so has the
 * object around all. A string goes to the end of its line, and may hold any other byte.
 */
#define URXE_REPORT_HEAD "urxe-report 1"

/** urxe_report_dir - the folder of user @uid: 0, or -1 when there is to be none, or too long a
 * name. */
static inline int urxe_report_dir(uid_t uid, char *buf, size_t len)
{
	const char *env = getenv(URXE_REPORT_ENV);
	int n;

	if (env)
		n = snprintf(buf, len, "%s", env);
	else
		n = snprintf(buf, len, URXE_REPORT_DIR "%u", (unsigned)uid);
	return n > 0 && (size_t)n < len ? 0 : -1;
}

#endif
