/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A start of EAL that fails in its midst leaves no folder of ours. In a program of its own, since
 * EAL starts once in a process.
 */
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ethdev_end.h"
#include "netio/eal_want.h"

static char run[300];

static void setup(void)
{
	ends_setup();
	urxe_log_set_level(URXE_LOG_NONE);
	/* What somebody else has there stays. */
	snprintf(run, sizeof(run), "%s/dpdk", dir);
	CU_ASSERT_EQUAL(mkdir(run, 0700), 0);
	snprintf(run, sizeof(run), "%s/dpdk/rte", dir);
	CU_ASSERT_EQUAL(mkdir(run, 0700), 0);
	CU_ASSERT_EQUAL(setenv("RUNTIME_DIRECTORY", dir, 1), 0);
}

static void refused(void)
{
	struct dirent *d;
	struct end e;
	DIR *there;

	urxe_eal_set_args("-d /nonexistent/driver.so");
	CU_ASSERT_NOT_EQUAL(end_open(&e, "net_ring0", 1500), 0);
	snprintf(run, sizeof(run), "%s/dpdk", dir);
	there = opendir(run);
	CU_ASSERT_PTR_NOT_NULL(there);
	while (there && (d = readdir(there))) {
		if (d->d_name[0] != '.')
			CU_ASSERT_STRING_EQUAL(d->d_name, "rte");
	}
	if (there)
		closedir(there);
}

URXE_TEST_MAIN("eal_refused", T(setup), T(refused), T(ends_cleanup))
