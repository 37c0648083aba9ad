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

bool urxe_memory_fault_in(void *addr, uint64_t len, bool write)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)addr & ~(page - 1),
		  to = ((uintptr_t)addr + len + page - 1) & ~(page - 1);
	int err = errno;
	bool ok;

	if (!len)
		return true;
	ok = !madvise((void *)from, to - from, write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
	/* No such permission, or the memory of some device, or a kernel before 5.14. */
	if (!ok && errno == EINVAL && from < to)
		ok = mapped(addr, len, write, false);
	errno = err;
	return ok;
}
