/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Where a process answers `urxe status`, `urxe stat` and `urxe ip`, and what they say: a folder of
 * the user's, with a socket named by its process id for each process. Who connects says one of the
 * words below, perhaps with more behind a blank, and a newline, and reads an object of JSON until
 * the end.
 */
#ifndef URXE_PROVIDER_STATUS_PATH_H
#define URXE_PROVIDER_STATUS_PATH_H

#include <stdio.h>
#include <stdlib.h>

#include "urxe/owner.h"

/* Names another folder than urxe_owner_dir(); empty: nothing is told. */
#define URXE_STATUS_ENV "URXE_STATUS_DIR"

#define URXE_STATUS_REQUEST 256 /* bytes of a request at most, with its newline */

/* Each reply has these: which version of all this it is, and who speaks. */
#define URXE_STATUS_VERSION_KEY "urxe_status"
#define URXE_STATUS_VERSION	2

#define URXE_STATUS_ALL	 "status" /* devices with counters and objects, and all sections */
#define URXE_STATUS_STAT "stat"	  /* devices with counters */
/* Of processes that have a CM: */
#define URXE_STATUS_CM	   "cm"	    /* connections, and what became of MADs */
#define URXE_STATUS_IP	   "ip"	    /* devices with their addresses */
#define URXE_STATUS_IP_ADD "ip-add" /* DEVICE, address as IPv6, prefix length: add it */
#define URXE_STATUS_IP_DEL "ip-del" /* likewise: remove it */
/* What is wrong, in words; a reply without it is good. */
#define URXE_STATUS_ERROR "error"

/** urxe_status_dir - the folder of the effective user: 0, or -1 when there is to be none, or too
 * long a name. */
static inline int urxe_status_dir(char *buf, size_t len)
{
	const char *env = getenv(URXE_STATUS_ENV);
	int n;

	if (env)
		n = snprintf(buf, len, "%s", env);
	else
		n = urxe_owner_dir(buf, len);
	return n > 0 && (size_t)n < len ? 0 : -1;
}

#endif
