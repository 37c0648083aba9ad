/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A program that is not linked with libibverbs, but opens it by its SONAME, as UCX and libfabric
 * plug-ins are: it must meet the shim, in a scope of its own.
 */
#include <dlfcn.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "fake_provider.h"
#include "harness.h"

typedef struct ibv_device **get_list_fn(int *);
typedef void free_list_fn(struct ibv_device **);
typedef struct ibv_context *open_fn(struct ibv_device *);
typedef int close_fn(struct ibv_context *);
typedef int query_gid_fn(struct ibv_context *, uint8_t, int, union ibv_gid *);
typedef int pkey_index_fn(struct ibv_context *, uint8_t, __be16);

static void *lib;

static void walk(get_list_fn *get_list)
{
	free_list_fn *free_list = (free_list_fn *)dlsym(lib, "ibv_free_device_list");
	open_fn *open_device = (open_fn *)dlsym(lib, "ibv_open_device");
	close_fn *close_device = (close_fn *)dlsym(lib, "ibv_close_device");
	query_gid_fn *query_gid = (query_gid_fn *)dlsym(lib, "ibv_query_gid");
	pkey_index_fn *pkey_index = (pkey_index_fn *)dlsym(lib, "ibv_get_pkey_index");
	struct ibv_device **list;
	struct ibv_context *ctx;
	union ibv_gid gid;
	int num = 0;

	CU_ASSERT_PTR_NOT_NULL_FATAL(get_list);
	list = get_list(&num);
	CU_ASSERT_PTR_NOT_NULL_FATAL(list);
	CU_ASSERT_FATAL(num >= 1);
	CU_ASSERT_STRING_EQUAL(list[num - 1]->name, "fake0");
	ctx = open_device(list[num - 1]);
	CU_ASSERT_PTR_NOT_NULL_FATAL(ctx);
	CU_ASSERT_EQUAL(query_gid(ctx, 1, 0, &gid), 0);
	CU_ASSERT_EQUAL(gid.raw[12], 10);
	CU_ASSERT_EQUAL(pkey_index(ctx, 1, 0xffff), 0);
	CU_ASSERT_EQUAL(close_device(ctx), 0);
	free_list(list);
}

static void by_dlsym(void)
{
	lib = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
	CU_ASSERT_PTR_NOT_NULL_FATAL(lib);
	walk((get_list_fn *)dlsym(lib, "ibv_get_device_list"));
	dlclose(lib);
}

static void by_dlvsym(void)
{
	lib = dlopen("libibverbs.so.1", RTLD_LAZY);
	CU_ASSERT_PTR_NOT_NULL_FATAL(lib);
	walk((get_list_fn *)dlvsym(lib, "ibv_get_device_list", "IBVERBS_1.1"));
	/* The compatibility versions are the real library's. */
	CU_ASSERT_PTR_NOT_NULL(dlvsym(lib, "ibv_get_device_list", "IBVERBS_1.0"));
	CU_ASSERT_PTR_NOT_EQUAL(dlvsym(lib, "ibv_get_device_list", "IBVERBS_1.0"),
				dlvsym(lib, "ibv_get_device_list", "IBVERBS_1.1"));
	CU_ASSERT_PTR_NOT_NULL(dlvsym(lib, "verbs_set_ops", "IBVERBS_PRIVATE_34"));
	CU_ASSERT_PTR_NULL(dlvsym(lib, "ibv_get_device_list", "IBVERBS_1.9"));
	dlclose(lib);
}

URXE_TEST_MAIN("shim-dynamic", T(by_dlsym), T(by_dlvsym))
