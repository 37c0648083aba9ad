/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * CUnit for a test program: chosen tests by name, skipped ones with their reason, the exit status.
 */
#include "harness.h"

#include <CUnit/Basic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool skipped;

void urxe_harness_skip(const char *why)
{
	printf("skipped: %s\n", why);
	skipped = true;
}

const char *urxe_harness_shared(const char *name)
{
	static char path[1024];
	const char *dir = getenv("URXE_SHARED");
	const char *root = getenv("URXE_SOURCE_ROOT");

	if (dir)
		snprintf(path, sizeof(path), "%s/%s", dir, name);
	else
		snprintf(path, sizeof(path), "%s/../shared/%s", root ? root : ".", name);
	return path;
}

static bool wanted(int argc, char **argv, const char *name)
{
	if (argc < 2)
		return true;
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], name))
			return true;
	}
	return false;
}

int urxe_harness_main(int argc, char **argv, const char *suite, const struct urxe_test *tests)
{
	unsigned failed, run = 0;
	CU_pSuite s;

	/* What a crash leaves unprinted is what one looks for. */
	setvbuf(stdout, NULL, _IONBF, 0);
	if (CU_initialize_registry() != CUE_SUCCESS)
		return 1;
	s = CU_add_suite(suite, NULL, NULL);
	for (; s && tests->name; tests++) {
		if (!wanted(argc, argv, tests->name))
			continue;
		if (!CU_add_test(s, tests->name, tests->fn))
			break;
		run++;
	}
	if (!s || tests->name || !run) {
		printf("%s: no test to run, or out of memory\n", suite);
		return 1;
	}
	CU_basic_set_mode(CU_BRM_VERBOSE);
	CU_basic_run_tests();
	failed = CU_get_number_of_failures() + CU_get_number_of_suites_failed();
	CU_cleanup_registry();
	if (failed)
		return 1;
	return skipped ? 77 : 0;
}
