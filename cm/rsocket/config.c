/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What an administrator has set for all rsockets: a folder of files, each with one number. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "cm/rsocket/stream.h"

#define CONFIG_DIR "/etc/rdma/rsocket"

static struct urxe_rs_settings defaults = {
	.sndbuf = 128u << 10,
	.rcvbuf = 128u << 10,
	.sq_size = 384,
	.rq_size = 384,
	.inline_size = 64,
	.iomap_size = 0,
	.polling_us = 10,
};
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* False: it is not there, or no number from @least to @most. */
static bool read_number(const char *dir, const char *name, uint32_t least, uint32_t most,
			uint32_t *v)
{
	char path[4096], text[32];
	unsigned long n;
	char *end;
	FILE *f;
	bool got;

	if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path))
		return false;
	f = fopen(path, "re");
	if (!f)
		return false;
	got = fgets(text, sizeof(text), f);
	fclose(f);
	if (!got)
		return false;
	errno = 0;
	n = strtoul(text, &end, 10);
	if (end == text || errno || n < least || n > most)
		return false;
	*v = (uint32_t)n;
	return true;
}

void urxe_rs_config_read(const char *dir, struct urxe_rs_settings *set)
{
	read_number(dir, "mem_default", URXE_RS_BUF_MIN, URXE_RS_BUF_MAX, &set->rcvbuf);
	read_number(dir, "wmem_default", URXE_RS_BUF_MIN, URXE_RS_BUF_MAX, &set->sndbuf);
	read_number(dir, "sqsize_default", URXE_RS_QUEUE_MIN, URXE_RS_QUEUE_MAX, &set->sq_size);
	read_number(dir, "rqsize_default", URXE_RS_QUEUE_MIN, URXE_RS_QUEUE_MAX, &set->rq_size);
	read_number(dir, "inline_default", 0, URXE_RS_INLINE_MAX, &set->inline_size);
	if (read_number(dir, "iomap_size", 0, URXE_RS_IOMAPS_MAX, &set->iomap_size))
		set->iomap_size = urxe_rs_iomap_size(set->iomap_size);
	read_number(dir, "polling_time", 0, UINT32_MAX, &set->polling_us);
}

static void read_once(void)
{
	urxe_rs_config_read(CONFIG_DIR, &defaults);
}

const struct urxe_rs_settings *urxe_rs_config(void)
{
	pthread_once(&once, read_once);
	return &defaults;
}
