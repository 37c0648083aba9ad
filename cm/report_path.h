/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Where a process tells of its connections, and `urxe status --cm` and `urxe ip` ask: a folder of
 * the user's, with a socket named by its process id for each process that has a CM. Who connects
 * says one of the words below and a newline, and reads until the end.
 */
#ifndef URXE_CM_REPORT_PATH_H
#define URXE_CM_REPORT_PATH_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>

#define URXE_REPORT_DIR	  "/tmp/urxe-"	    /* and the user's number */
#define URXE_REPORT_ENV	  "URXE_STATUS_DIR" /* names another folder; empty: nothing is told */
#define URXE_REPORT_TABLE 't'		    /* rows of a table */
#define URXE_REPORT_JSON  'j'		    /* one JSON object */
#define URXE_REPORT_IPS	  'l' /* a line for each device: name, process id, addresses, command */
/* And a device, an address as IPv6, a prefix length; the answer is a line: DONE, or what is wrong.
 */
#define URXE_REPORT_ADD	 'a'
#define URXE_REPORT_DEL	 'd'
#define URXE_REPORT_DONE "done"

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
