/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* How many descriptors the process has open: whether something leaves some. */
#ifndef URXE_TEST_DESCRIPTORS_H
#define URXE_TEST_DESCRIPTORS_H

#include <dirent.h>

#include "harness.h"

/** descriptors - with three of the look itself, each time. */
static inline unsigned descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	CU_ASSERT_PTR_NOT_NULL_FATAL(dir);
	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n;
}

#endif
