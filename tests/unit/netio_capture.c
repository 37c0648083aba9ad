/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Captures: every block of the file, and a port whose file cannot be made. */
#include "netio_net.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "netio/capture.h"
#include "urxe/log.h"

static char path[] = "/tmp/urxe-capture-XXXXXX";

static uint32_t word(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, 4);
	return v;
}

static uint16_t half(const uint8_t *p)
{
	uint16_t v;

	memcpy(&v, p, 2);
	return v;
}

static void file(void)
{
	static uint8_t file[65536], frame[300];
	struct urxe_capture *cap;
	size_t len, at = 0;
	unsigned n = 0;
	uint64_t last = 0, when;
	int fd = mkstemp(path);

	close(fd);
	CU_ASSERT_EQUAL_FATAL(urxe_capture_open(&cap, path, "urxe7"), 0);
	for (unsigned i = 0; i < sizeof(frame); i++)
		frame[i] = (uint8_t)i;
	for (uint32_t i = 0; i < 100; i++)
		urxe_capture_write(cap, frame, 60 + i, i & 1);
	/* They are in the file before it is closed. */
	fd = open(path, O_RDONLY | O_CLOEXEC);
	len = (size_t)read(fd, file, sizeof(file));
	close(fd);
	for (uint32_t type, total; at < len; at += total, n++) {
		const uint8_t *b = file + at;

		type = word(b);
		total = word(b + 4);
		CU_ASSERT_FATAL(total >= 12 && !(total & 3) && at + total <= len);
		CU_ASSERT_EQUAL(word(b + total - 4), total);
		if (n == 0)
			CU_ASSERT(type == 0x0a0d0d0a && word(b + 8) == 0x1a2b3c4d);
		if (n == 1)
			CU_ASSERT(type == 1 && half(b + 8) == 1 && !memcmp(b + 20, "urxe7", 5));
		if (n < 2)
			continue;
		CU_ASSERT(type == 6 && word(b + 20) == 60 + n - 2 && word(b + 24) == 60 + n - 2);
		CU_ASSERT(!memcmp(b + 28, frame, 60 + n - 2));
		CU_ASSERT_EQUAL(word(b + total - 12), n & 1 ? 2 : 1);
		when = (uint64_t)word(b + 12) << 32 | word(b + 16);
		CU_ASSERT(when >= last && when > 1600000000000000000u);
		last = when;
	}
	CU_ASSERT(at == len && n == 102);
	urxe_capture_close(cap);
	urxe_capture_close(NULL);
}

/* Looped frames are captured as well: no link is needed. */
static void port(void)
{
	struct urxe_port_config cfg = node_cfg(1);
	struct urxe_port *p;

	urxe_log_set_level(URXE_LOG_NONE);
	strcpy(cfg.pcap, "/nonexistent/folder/file");
	CU_ASSERT_EQUAL_FATAL(urxe_port_create(&p, &cfg, &urxe_link_loop_ops, NULL), 0);
	CU_ASSERT_EQUAL(urxe_port_start(p), ENOENT);
	urxe_port_destroy(p);
	strcpy(cfg.pcap, path);
	CU_ASSERT_EQUAL_FATAL(urxe_port_create(&p, &cfg, &urxe_link_loop_ops, NULL), 0);
	CU_ASSERT_EQUAL(urxe_port_start(p), 0);
	urxe_port_destroy(p);
	unlink(path);
	/* The disk is full. */
	strcpy(cfg.pcap, "/dev/full");
	CU_ASSERT_EQUAL_FATAL(urxe_port_create(&p, &cfg, &urxe_link_loop_ops, NULL), 0);
	CU_ASSERT_EQUAL(urxe_port_start(p), ENOSPC);
	urxe_port_destroy(p);
}

/* In the middle of a verb, with a lane's lock: no thread ends here. */
static bool written;
static struct urxe_capture *cut;

static void *writes(void *arg)
{
	static const uint8_t frame[60];

	pthread_cancel(pthread_self());
	urxe_capture_write(cut, frame, sizeof(frame), true);
	written = true;
	pthread_testcancel();
	return NULL;
}

static void cancelled(void)
{
	char name[] = "/tmp/urxe-capture-XXXXXX";
	pthread_t thread;
	void *ret;

	close(mkstemp(name));
	CU_ASSERT_EQUAL_FATAL(urxe_capture_open(&cut, name, "urxe7"), 0);
	CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, writes, NULL), 0);
	pthread_join(thread, &ret);
	CU_ASSERT_PTR_EQUAL(ret, PTHREAD_CANCELED);
	CU_ASSERT_TRUE_FATAL(written);
	urxe_capture_close(cut);
	unlink(name);
}

URXE_TEST_MAIN("netio_capture", T(file), T(port), T(cancelled))
