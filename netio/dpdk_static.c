/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * For liburxe-dpdk-static.so, whose DPDK has its drivers linked in, and calls this for dlopen().
 *
 * EAL looks whether a shared EAL is in the process, which here is the program's, and then loads all
 * the shared drivers: they would be the program's, too. So none of DPDK's shared libraries is there
 * or can be had.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

void *__real_dlopen(const char *path, int flags);
void *__wrap_dlopen(const char *path, int flags);

void *__wrap_dlopen(const char *path, int flags)
{
	return path && strstr(path, "librte_") ? NULL : __real_dlopen(path, flags);
}
