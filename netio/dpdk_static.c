/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * For liburxe-dpdk-static.so, whose DPDK has its drivers linked in, and calls these for dlopen(),
 * nanosleep() and access().
 *
 * EAL looks whether a shared EAL is in the process, which here is the program's, and then loads all
 * the shared drivers: they would be the program's, too. So none of DPDK's shared libraries is there
 * or can be had.
 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void *__real_dlopen(const char *path, int flags);
void *__wrap_dlopen(const char *path, int flags);

void *__wrap_dlopen(const char *path, int flags)
{
	return path && strstr(path, "librte_") ? NULL : __real_dlopen(path, flags);
}

/*
 * Where the processor does not tell the frequency of its TSC, as most virtual ones, EAL sleeps for
 * 100 ms while it starts, and takes the next whole 10 MHz of what it then measures. 2 ms of which
 * each end is 0.1 us wrong give the same.
 */
#define EAL_MEASURES 100000000
#define WE_MEASURE   2000000

int __real_nanosleep(const struct timespec *time, struct timespec *left);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left);

int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
	const struct timespec less = {.tv_nsec = WE_MEASURE};
	bool measures = !time->tv_sec && time->tv_nsec == EAL_MEASURES;

	return __real_nanosleep(measures ? &less : time, left);
}

/*
 * EAL asks of each of 1,024 CPUs whether it is there, and of 128 of them each of 32 NUMA nodes
 * whether it has them: 5,120 system calls, a third of its start. What cannot be there is not asked
 * for, and nodes that are not there have no CPUs. Its start is one thread's.
 */
#define CPU	  "/sys/devices/system/cpu/cpu"
#define POSSIBLE  "/sys/devices/system/cpu/possible"
#define NODE	  "/sys/devices/system/node/node"
#define MAX_NODES 64

int __real_access(const char *path, int mode);
int __wrap_access(const char *path, int mode);

static bool is_node_missing(unsigned node)
{
	static signed char there[MAX_NODES]; /* 0: not known */
	char path[sizeof(NODE) + 10];

	if (!there[node]) {
		snprintf(path, sizeof(path), NODE "%u", node);
		there[node] = __real_access(path, F_OK) ? -1 : 1;
	}
	return there[node] < 0;
}

/* The highest CPU that there can be: the last number of a list ("0-3,8-11"). */
static unsigned last_cpu(void)
{
	unsigned last = UINT_MAX, n;
	FILE *f = fopen(POSSIBLE, "re");

	if (!f)
		return last;
	while (fscanf(f, "%u%*[-,]", &n) == 1)
		last = n;
	fclose(f);
	return last;
}

static bool is_cpu_missing(unsigned cpu)
{
	static bool known;
	static unsigned last;

	if (!known)
		last = last_cpu();
	known = true;
	return cpu > last;
}

int __wrap_access(const char *path, int mode)
{
	unsigned node = MAX_NODES, cpu = 0;

	if ((sscanf(path, NODE "%u/", &node) == 1 && node < MAX_NODES && is_node_missing(node)) ||
	    (sscanf(path, CPU "%u/", &cpu) == 1 && is_cpu_missing(cpu))) {
		errno = ENOENT;
		return -1;
	}
	return __real_access(path, mode);
}
