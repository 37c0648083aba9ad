/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What urxe_lines_take() writes to: pages of a private mapping of a file, each of which is a copy
 * of its own from its first write on, and no longer follows the file.
 */
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "harness.h"
#include "urxe/lines.h"

#define PAGES 4

static const struct range {
	const char *what;
	size_t from, len;
} ranges[] = {
	{"nothing", 100, 0},
	{"a byte", 100, 1},
	{"the last byte of a page", 4095, 1},
	{"a byte on either side", 4095, 2},
	{"less than a line, in two", 4096 - 12, 60},
	{"a line, in two", 4096 - 1, 64},
	{"the last byte alone is in another line", 4096 - 64, 65},
	{"just up to a line's end", 4096 - 65, 65},
	{"many lines", 100, 8192 - 100 + 1},
	{"whole pages", 4096, 2 * 4096},
};

static void fill(int fd, uint8_t *buf, uint8_t first)
{
	for (size_t i = 0; i < PAGES * 4096; i++)
		buf[i] = (uint8_t)(first + i * 7);
	CU_ASSERT_EQUAL_FATAL(pwrite(fd, buf, PAGES * 4096, 0), PAGES * 4096);
}

static void test_range(int fd, const struct range *r)
{
	static uint8_t old[PAGES * 4096], new[PAGES * 4096];
	uint8_t *p = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);

	CU_ASSERT_NOT_EQUAL_FATAL(p, MAP_FAILED);
	fill(fd, old, 1);
	urxe_lines_take(p + r->from, r->len);
	fill(fd, new, 2);
	for (size_t page = 0; page < PAGES; page++) {
		bool taken =
			r->len && r->from / 4096 <= page && (r->from + r->len - 1) / 4096 >= page;

		/* What was there is there still. */
		if (memcmp(p + page * 4096, (taken ? old : new) + page * 4096, 4096)) {
			fprintf(stderr, "%s: page %zu\n", r->what, page);
			CU_FAIL("other pages were written to, or something else was");
		}
	}
	munmap(p, PAGES * 4096);
}

static void test_take(void)
{
	int fd;

	if (sysconf(_SC_PAGESIZE) != 4096) {
		urxe_harness_skip("pages are not 4 KiB here");
		return;
	}
	fd = memfd_create("urxe-lines", MFD_CLOEXEC);
	CU_ASSERT_FATAL(fd >= 0 && !ftruncate(fd, PAGES * 4096));
	for (size_t i = 0; i < sizeof(ranges) / sizeof(*ranges); i++)
		test_range(fd, &ranges[i]);
	close(fd);
}

URXE_TEST_MAIN("lines", T(test_take))
