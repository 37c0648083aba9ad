/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the kernel says of the application's memory: is it there, may it be written, does a file
 * hold it. Elsewhere an adapter would ask the kernel to pin it.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "provider.h"

#define LARGE	   (4u << 20) /* bytes, from which on it is asked for each page whether it is there */
#define LOOK_PAGES 4096	      /* at a time */

/* Do mappings with all of these properties cover a range without a gap? */
static bool mapped(const void *addr, uint64_t length, bool write, bool shared_file)
{
	uintptr_t at = (uintptr_t)addr, end = at + length, lo, hi;
	FILE *f = fopen("/proc/self/maps", "re");
	unsigned long inode;
	char line[512], perm[5];

	while (f && at < end && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s %*s %*s %lu", &lo, &hi, perm,
			   &inode) != 4 ||
		    at < lo || at >= hi)
			continue;
		if (perm[0] != 'r' || (write && perm[1] != 'w') ||
		    (shared_file && (perm[3] != 's' || !inode)))
			break;
		at = hi;
	}
	if (f)
		fclose(f);
	return at >= end;
}

bool urxe_memory_of_file(const void *addr, uint64_t length)
{
	return mapped(addr, length, true, true);
}

static bool populate(uintptr_t from, uintptr_t to, bool write)
{
	return !madvise((void *)from, to - from, write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
}

/*
 * The pages that are not there. To populate those that are takes 80 ms a GiB, and to ask which they
 * are takes 1. One that is there may be a file's, or one of zeros, that the first write copies:
 * that is allowed, and so need not be done now. False: who looks at all of them knows why.
 */
static bool populate_missing(uintptr_t from, uintptr_t to, uintptr_t page, bool write)
{
	unsigned char there[LOOK_PAGES];
	bool ok = mapped((void *)from, to - from, write, false);

	while (ok && from < to) {
		uintptr_t look = to - from < page * LOOK_PAGES ? to - from : page * LOOK_PAGES;
		size_t n = look / page, i = 0, first;

		ok = !mincore((void *)from, look, there);
		while (ok && i < n) {
			for (first = i; i < n && !(there[i] & 1); i++)
				;
			if (i > first)
				ok = populate(from + first * page, from + i * page, write);
			else
				i++;
		}
		from += look;
	}
	return ok;
}

bool urxe_memory_fault_in(void *addr, uint64_t len, bool write)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)addr & ~(page - 1),
		  to = ((uintptr_t)addr + len + page - 1) & ~(page - 1);
	int err = errno;
	bool ok;

	if (!len)
		return true;
	ok = (len >= LARGE && from < to && populate_missing(from, to, page, write)) ||
	     populate(from, to, write);
	/* No such permission, or the memory of some device, or a kernel before 5.14. */
	if (!ok && errno == EINVAL && from < to)
		ok = mapped(addr, len, write, false);
	errno = err;
	return ok;
}
