/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The blocks of a pcapng file (draft-ietf-opsawg-pcapng): section header, one interface, packets.
 * All numbers are in the writer's byte order.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "netio/capture.h"
#include "urxe/cancel.h"
#include "urxe/lock.h"
#include "urxe/log.h"

/* 4.1, 4.2, 4.3 */
#define BLOCK_SECTION	0x0a0d0d0au
#define BLOCK_INTERFACE 1u
#define BLOCK_PACKET	6u
#define BYTE_ORDER_MARK 0x1a2b3c4du
#define LINK_ETHERNET	1

#define OPT_END	       0
#define OPT_SHB_HW     2
#define OPT_SHB_OS     3
#define OPT_SHB_APPL   4
#define OPT_IF_NAME    2
#define OPT_IF_TSRESOL 9
#define OPT_EPB_FLAGS  2
#define TSRESOL_NS     9 /* 10^-9 */
#define FLAGS_IN       1u
#define FLAGS_OUT      2u

struct urxe_capture {
	struct urxe_mutex lock;
	int fd;
	char path[256];
	bool failed;
};

/* A block of the file's head: its type, length, body. */
struct block {
	uint8_t data[768];
	uint32_t len;
};

static void block_add(struct block *b, const void *data, uint32_t len)
{
	uint32_t pad = -len & 3;

	if (b->len + len + pad > sizeof(b->data))
		return;
	if (len)
		memcpy(b->data + b->len, data, len);
	memset(b->data + b->len + len, 0, pad);
	b->len += len + pad;
}

static void block_add32(struct block *b, uint32_t v)
{
	block_add(b, &v, 4);
}

static void block_option(struct block *b, uint16_t code, const void *data, uint16_t len)
{
	uint16_t head[2] = {code, len};

	block_add(b, head, sizeof(head));
	block_add(b, data, len);
}

static void block_begin(struct block *b, uint32_t type)
{
	b->len = 0;
	block_add32(b, type);
	block_add32(b, 0);
}

/* The length stands at both ends. */
static void block_end(struct block *b)
{
	uint32_t len = b->len + 4;

	memcpy(b->data + 4, &len, 4);
	block_add32(b, len);
}

static int write_all(int fd, const struct iovec *iov, int n, size_t len)
{
	/* On the way of a packet: its sender has a lane. */
	int cancel = urxe_cancel_off();
	ssize_t k = writev(fd, iov, n);

	urxe_cancel_back(cancel);
	if (k < 0)
		return errno;
	/* A regular file takes all, unless there is no room for it. */
	return (size_t)k == len ? 0 : ENOSPC;
}

static int write_block(int fd, struct block *b)
{
	struct iovec iov = {.iov_base = b->data, .iov_len = b->len};

	return write_all(fd, &iov, 1, b->len);
}

static int write_head(int fd, const char *name)
{
	static const uint16_t version[2] = {1, 0};
	uint16_t link[2] = {LINK_ETHERNET, 0};
	uint8_t resolution = TSRESOL_NS;
	struct block b;
	struct utsname un;
	char os[160];
	int err;

	uname(&un);
	snprintf(os, sizeof(os), "%.60s %.60s", un.sysname, un.release);
	block_begin(&b, BLOCK_SECTION);
	block_add32(&b, BYTE_ORDER_MARK);
	block_add(&b, version, sizeof(version));
	block_add32(&b, UINT32_MAX); /* length of the section: unknown */
	block_add32(&b, UINT32_MAX);
	block_option(&b, OPT_SHB_HW, un.machine, (uint16_t)strlen(un.machine));
	block_option(&b, OPT_SHB_OS, os, (uint16_t)strlen(os));
	block_option(&b, OPT_SHB_APPL, "urxe", 4);
	block_option(&b, OPT_END, NULL, 0);
	block_end(&b);
	err = write_block(fd, &b);
	if (err)
		return err;
	block_begin(&b, BLOCK_INTERFACE);
	block_add(&b, link, sizeof(link));
	block_add32(&b, 0); /* frames are never cut */
	block_option(&b, OPT_IF_NAME, name, (uint16_t)strlen(name));
	block_option(&b, OPT_IF_TSRESOL, &resolution, 1);
	block_option(&b, OPT_END, NULL, 0);
	block_end(&b);
	return write_block(fd, &b);
}

int urxe_capture_open(struct urxe_capture **out, const char *path, const char *name)
{
	struct urxe_capture *cap = calloc(1, sizeof(*cap));
	int err;

	if (!cap)
		return ENOMEM;
	snprintf(cap->path, sizeof(cap->path), "%s", path);
	urxe_mutex_init(&cap->lock);
	cap->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	err = cap->fd < 0 ? errno : write_head(cap->fd, name);
	if (err) {
		urxe_err("cannot open capture file '%s': %s", path, strerror(err));
		urxe_capture_close(cap);
		return err;
	}
	*out = cap;
	return 0;
}

void urxe_capture_write(struct urxe_capture *cap, const uint8_t *data, uint32_t len, bool tx)
{
	static const uint8_t zeros[4];
	uint32_t pad = -len & 3, total = 28 + len + pad + 8 + 4 + 4;
	uint16_t flags[2] = {OPT_EPB_FLAGS, 4};
	uint32_t head[7] = {BLOCK_PACKET, total, 0, 0, 0, len, len}, tail[4];
	struct iovec iov[4] = {{head, sizeof(head)},
			       {(void *)(uintptr_t)data, len},
			       {(void *)(uintptr_t)zeros, pad},
			       {tail, sizeof(tail)}};
	struct timespec ts;
	uint64_t ns;
	int err;

	memcpy(tail, flags, 4);
	tail[1] = tx ? FLAGS_OUT : FLAGS_IN;
	tail[2] = OPT_END;
	tail[3] = total;
	urxe_mutex_lock(&cap->lock);
	/* Under the lock, so that times go up from frame to frame. */
	clock_gettime(CLOCK_REALTIME, &ts);
	ns = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
	head[3] = (uint32_t)(ns >> 32);
	head[4] = (uint32_t)ns;
	if (!cap->failed) {
		err = write_all(cap->fd, iov, 4, total);
		if (err) {
			cap->failed = true;
			urxe_warn("capture to '%s' ends: %s", cap->path, strerror(err));
		}
	}
	urxe_mutex_unlock(&cap->lock);
}

void urxe_capture_close(struct urxe_capture *cap)
{
	if (!cap)
		return;
	if (cap->fd >= 0)
		close(cap->fd);
	urxe_mutex_fini(&cap->lock);
	free(cap);
}
