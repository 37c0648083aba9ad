/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_pcapng.h>

#include "netio/capture.h"
#include "urxe/log.h"

#define CAPTURE_BUFS 63 /* frames are written one by one */

struct urxe_capture {
	pthread_mutex_t lock;
	int fd;
	uint16_t port;
	uint32_t max_frame;
	rte_pcapng_t *file; /* NULL before the start */
	struct rte_mempool *pool;
	char path[256];
	bool failed;
};

int urxe_capture_open(struct urxe_capture **out, const char *path, uint32_t max_frame)
{
	static unsigned serial;
	struct urxe_capture *cap = calloc(1, sizeof(*cap));
	char name[RTE_MEMPOOL_NAMESIZE];
	int ret;

	if (!cap)
		return ENOMEM;
	snprintf(cap->path, sizeof(cap->path), "%s", path);
	pthread_mutex_init(&cap->lock, NULL);
	cap->max_frame = max_frame;
	cap->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (cap->fd < 0) {
		ret = errno;
		urxe_err("cannot open capture file '%s': %s", path, strerror(ret));
		free(cap);
		return ret;
	}
	snprintf(name, sizeof(name), "urxe_cap%u", serial++);
	cap->pool = rte_pktmbuf_pool_create(
		name, CAPTURE_BUFS, 0, 0, (uint16_t)rte_pcapng_mbuf_size(max_frame), SOCKET_ID_ANY);
	if (!cap->pool) {
		close(cap->fd);
		free(cap);
		return ENOMEM;
	}
	*out = cap;
	return 0;
}

/*
 * rte_pcapng sets its clock at the first packet, and is off by 2^64 ticks for good when that
 * packet's time lies before that moment (22.11): so let the first one come from the future, and
 * drop it.
 */
static void prime_clock(struct urxe_capture *cap)
{
	uint8_t byte = 0;
	struct rte_mbuf view = {.buf_addr = &byte, .data_len = 1, .pkt_len = 1, .nb_segs = 1};

	rte_mbuf_refcnt_set(&view, 1);
	rte_pktmbuf_free(rte_pcapng_copy(cap->port, 0, &view, cap->pool, 1,
					 rte_get_tsc_cycles() + rte_get_tsc_hz() / 10,
					 RTE_PCAPNG_DIRECTION_OUT));
}

int urxe_capture_start(struct urxe_capture *cap, uint16_t port)
{
	struct utsname un;
	char os[160];
	int ret = 0;

	uname(&un);
	snprintf(os, sizeof(os), "%.60s %.60s", un.sysname, un.release);
	pthread_mutex_lock(&cap->lock);
	cap->port = port;
	if (!cap->file && !cap->failed) {
		cap->file = rte_pcapng_fdopen(cap->fd, os, un.machine, "urxe", NULL);
		if (!cap->file) {
			ret = rte_errno ? rte_errno : EIO;
			cap->failed = true;
		} else {
			prime_clock(cap);
		}
	}
	pthread_mutex_unlock(&cap->lock);
	return ret;
}

void urxe_capture_write(struct urxe_capture *cap, const uint8_t *data, uint32_t len, bool tx)
{
	/* A view on the frame is all that rte_pcapng_copy() reads. */
	struct rte_mbuf view = {.buf_addr = (void *)(uintptr_t)data,
				.data_len = (uint16_t)len,
				.pkt_len = len,
				.nb_segs = 1};
	struct rte_mbuf *copy = NULL;
	ssize_t n = -1;

	rte_mbuf_refcnt_set(&view, 1);
	pthread_mutex_lock(&cap->lock); /* rte_pcapng keeps its clock in a static */
	if (cap->file && !cap->failed) {
		view.port = cap->port; /* known when the port is there, which may be late */
		copy = rte_pcapng_copy(cap->port, 0, &view, cap->pool, cap->max_frame,
				       rte_get_tsc_cycles(),
				       tx ? RTE_PCAPNG_DIRECTION_OUT : RTE_PCAPNG_DIRECTION_IN);
		if (copy) {
			n = rte_pcapng_write_packets(cap->file, &copy, 1);
			rte_pktmbuf_free(copy);
		}
		if (n < 0) {
			cap->failed = true;
			urxe_warn("capture to '%s' ends: %s", cap->path,
				  strerror(copy ? rte_errno : ENOMEM));
		}
	}
	pthread_mutex_unlock(&cap->lock);
}

void urxe_capture_close(struct urxe_capture *cap)
{
	if (!cap)
		return;
	if (cap->file)
		rte_pcapng_close(cap->file); /* closes fd */
	else
		close(cap->fd);
	rte_mempool_free(cap->pool);
	pthread_mutex_destroy(&cap->lock);
	free(cap);
}
