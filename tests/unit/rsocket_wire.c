/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Formats of rsockets, byte by byte (rdma-core's docs/rsocket); files of numbers. */
#include "harness.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cm/rsocket/stream.h"

static const uint8_t bytes[URXE_RS_HELLO_LEN] = {
	1,    2,    0x01, 0x80, 0,    0,    0,	  5, /* version, iomap, credits, iomap size */
	0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x21, 0x22, 0x23, 0x24, 0, 0, 0, 2,
	0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38, 0x41, 0x42, 0x43, 0x44, 0, 1, 0, 0,
};

static void hello(void)
{
	const struct urxe_rs_hello h = {
		.iomap = true,
		.credits = 384,
		.iomap_size = 5,
		.sgl = {0x1112131415161718, 0x21222324, 2},
		.buf = {0x3132333435363738, 0x41424344, 65536},
	};
	struct urxe_rs_hello got;
	uint8_t p[URXE_RS_HELLO_LEN];

	urxe_rs_hello_put(p, &h);
	CU_ASSERT_EQUAL(memcmp(p, bytes, sizeof(p)), 0);
	CU_ASSERT_EQUAL(urxe_rs_hello_get(bytes, sizeof(bytes), &got), 0);
	CU_ASSERT(!got.big_endian && got.iomap);
	CU_ASSERT_EQUAL(got.credits, 384);
	CU_ASSERT_EQUAL(got.iomap_size, 5);
	CU_ASSERT_EQUAL(got.sgl.addr, h.sgl.addr);
	CU_ASSERT_EQUAL(got.sgl.key, h.sgl.key);
	CU_ASSERT_EQUAL(got.sgl.length, 2);
	CU_ASSERT_EQUAL(got.buf.addr, h.buf.addr);
	CU_ASSERT_EQUAL(got.buf.length, 65536);
}

/* One byte is changed. */
static int changed(unsigned at, uint8_t to, struct urxe_rs_hello *h)
{
	uint8_t p[URXE_RS_HELLO_LEN];

	memcpy(p, bytes, sizeof(p));
	p[at] = to;
	return urxe_rs_hello_get(p, sizeof(p), h);
}

static void bad_hello(void)
{
	struct urxe_rs_hello h;

	for (unsigned len = 0; len < URXE_RS_HELLO_LEN; len++)
		CU_ASSERT_EQUAL(urxe_rs_hello_get(bytes, len, &h), EPROTO);
	CU_ASSERT_EQUAL(urxe_rs_hello_get(NULL, URXE_RS_HELLO_LEN, &h), EPROTO);
	CU_ASSERT_EQUAL(changed(0, 2, &h), ENOTSUP);
	CU_ASSERT_EQUAL(changed(0, 0, &h), ENOTSUP);
	CU_ASSERT_EQUAL(changed(23, 0, &h), EPROTO); /* no entries */
	CU_ASSERT_EQUAL(changed(20, 1, &h), EPROTO); /* 2^24 of them */
	CU_ASSERT_EQUAL(changed(1, 3, &h), 0);
	CU_ASSERT(h.big_endian);
	CU_ASSERT_EQUAL(changed(1, 0, &h), 0); /* it knows no iomaps */
	CU_ASSERT_EQUAL(h.iomap_size, 0);
}

static void sges(void)
{
	static const uint8_t little[] = {8,    7,    6,	   5,	 4, 3, 2, 1,
					 0x14, 0x13, 0x12, 0x11, 4, 3, 2, 1};
	static const uint8_t big[] = {1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x12, 0x13, 0x14, 1, 2, 3, 4};
	const struct urxe_rs_sge sge = {0x0102030405060708, 0x11121314, 0x01020304};
	struct urxe_rs_sge got;
	uint8_t p[URXE_RS_SGE_LEN];

	urxe_rs_sge_put(p, &sge, false);
	CU_ASSERT_EQUAL(memcmp(p, little, sizeof(p)), 0);
	urxe_rs_sge_put(p, &sge, true);
	CU_ASSERT_EQUAL(memcmp(p, big, sizeof(p)), 0);
	urxe_rs_sge_get(little, &got, false);
	CU_ASSERT(got.addr == sge.addr && got.key == sge.key && got.length == sge.length);
	urxe_rs_sge_get(big, &got, true);
	CU_ASSERT(got.addr == sge.addr && got.key == sge.key && got.length == sge.length);
	CU_ASSERT_EQUAL(urxe_rs_message(URXE_RS_CONTROL, URXE_RS_SHUTDOWN), 0xe0000002);
	CU_ASSERT_EQUAL(urxe_rs_message(URXE_RS_CREDITS, 0xffff), 0x8000ffff);
}

/* A size that cannot be told is one that can, and never more. */
static void iomap_sizes(void)
{
	static const uint32_t rows[][2] = {
		{0, 0},	    {1, 1},	{128, 128},	{129, 128},	{255, 128},    {256, 256},
		{511, 256}, {512, 512}, {32511, 32256}, {32512, 32512}, {40000, 32512}};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct urxe_rs_hello h = {.iomap = true, .credits = 1, .sgl = {1, 1, 1}}, got;
		uint8_t p[URXE_RS_HELLO_LEN];

		h.iomap_size = urxe_rs_iomap_size(rows[i][0]);
		CU_ASSERT_EQUAL(h.iomap_size, rows[i][1]);
		urxe_rs_hello_put(p, &h);
		CU_ASSERT_EQUAL(urxe_rs_hello_get(p, sizeof(p), &got), 0);
		CU_ASSERT_EQUAL(got.iomap_size, rows[i][1]);
	}
}

static void put_file(const char *dir, const char *name, const char *text)
{
	char path[200];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	fputs(text, f);
	fclose(f);
}

static void config(void)
{
	static const char *const names[] = {"mem_default",    "wmem_default",	"sqsize_default",
					    "rqsize_default", "inline_default", "iomap_size",
					    "polling_time"};
	const struct urxe_rs_settings before = {10000, 20000, 30, 40, 50, 60, 70};
	struct urxe_rs_settings set = before;
	char dir[] = "/tmp/urxe-rsocket-XXXXXX", path[200];

	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
	urxe_rs_config_read(dir, &set);
	CU_ASSERT_EQUAL(memcmp(&set, &before, sizeof(set)), 0);
	put_file(dir, "mem_default", "65536\n");
	put_file(dir, "wmem_default", "1\n"); /* too few */
	put_file(dir, "sqsize_default", "none\n");
	put_file(dir, "rqsize_default", "99999999999999999999\n");
	put_file(dir, "inline_default", "");
	put_file(dir, "iomap_size", "300");
	put_file(dir, "polling_time", "0\n");
	urxe_rs_config_read(dir, &set);
	CU_ASSERT_EQUAL(set.rcvbuf, 65536);
	CU_ASSERT_EQUAL(set.sndbuf, before.sndbuf);
	CU_ASSERT_EQUAL(set.sq_size, before.sq_size);
	CU_ASSERT_EQUAL(set.rq_size, before.rq_size);
	CU_ASSERT_EQUAL(set.inline_size, before.inline_size);
	CU_ASSERT_EQUAL(set.iomap_size, 256);
	CU_ASSERT_EQUAL(set.polling_us, 0);
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		unlink(path);
	}
	rmdir(dir);
}

URXE_TEST_MAIN("rsocket_wire", T(hello), T(bad_hello), T(sges), T(iomap_sizes), T(config))
