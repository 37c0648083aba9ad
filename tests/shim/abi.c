/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The start-up check of libibverbs's private ABI: the installed library passes, others do not.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi_check.h"
#include "harness.h"
#include "rdma_driver.h"

static void installed(void)
{
	char why[160] = "";

	/* Without a use the linker would leave the library out. */
	CU_ASSERT_PTR_NOT_NULL(ibv_wc_status_str(IBV_WC_SUCCESS));
	CU_ASSERT_EQUAL(urxe_abi_check_lib(RTLD_DEFAULT, why, sizeof(why)), 0);
	CU_ASSERT_STRING_EQUAL(why, "");
	CU_ASSERT_EQUAL(urxe_abi_check(), 0);
}

static void another_library(void)
{
	char why[160] = "", little[8] = "";
	void *libc = dlopen("libc.so.6", RTLD_LAZY);

	CU_ASSERT_PTR_NOT_NULL_FATAL(libc);
	CU_ASSERT_EQUAL(urxe_abi_check_lib(libc, why, sizeof(why)), EPROTONOSUPPORT);
	CU_ASSERT_PTR_NOT_NULL(strstr(why, "IBVERBS_PRIVATE_34"));
	CU_ASSERT_PTR_NOT_NULL(strstr(why, "36 to 56"));
	CU_ASSERT_EQUAL(urxe_abi_check_lib(libc, little, sizeof(little)), EPROTONOSUPPORT);
	CU_ASSERT_EQUAL(strlen(little), sizeof(little) - 1);
	CU_ASSERT_EQUAL(urxe_abi_check_lib(libc, NULL, 0), EPROTONOSUPPORT);
	dlclose(libc);
}

/* Libraries with the right version nodes, and other tables behind them (abi_lib.c). */
static void other_tables(void)
{
	static const struct {
		const char *lib;
		int ret;
	} libs[] = {
		{"abi_lib_75.so", EPROTONOSUPPORT},
		{"abi_lib_76.so", 0},
		{"abi_lib_77.so", EPROTONOSUPPORT},
	};

	for (size_t i = 0; i < 3; i++) {
		char why[160] = "", path[4096];
		void *lib;

		snprintf(path, sizeof(path), "%s/%s", getenv("URXE_TEST_ABI_LIBS"), libs[i].lib);
		lib = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
		CU_ASSERT_PTR_NOT_NULL_FATAL(lib);
		CU_ASSERT_EQUAL(urxe_abi_check_lib(lib, why, sizeof(why)), libs[i].ret);
		CU_ASSERT_EQUAL(!!strstr(why, "another table"), !!libs[i].ret);
		dlclose(lib);
	}
}

URXE_TEST_MAIN("abi", T(installed), T(another_library), T(other_tables))
