/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The installed libibverbs's own versions of the functions that the shim interposes. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "real.h"

static struct {
	pthread_once_t once; /* look_up() */
	struct real_verbs table;
} real = {.once = PTHREAD_ONCE_INIT};

static const struct {
	const char *name;
	void **fn;
} symbols[] = {
	{"ibv_get_device_list", (void **)&real.table.get_device_list},
	{"ibv_free_device_list", (void **)&real.table.free_device_list},
	{"ibv_get_device_guid", (void **)&real.table.get_device_guid},
	{"ibv_get_device_index", (void **)&real.table.get_device_index},
	{"ibv_import_device", (void **)&real.table.import_device},
	{"ibv_create_comp_channel", (void **)&real.table.create_comp_channel},
	{"ibv_destroy_comp_channel", (void **)&real.table.destroy_comp_channel},
	{"ibv_get_cq_event", (void **)&real.table.get_cq_event},
	{"ibv_query_gid", (void **)&real.table.query_gid},
	{"_ibv_query_gid_ex", (void **)&real.table.query_gid_ex},
	{"_ibv_query_gid_table", (void **)&real.table.query_gid_table},
	{"ibv_query_gid_type", (void **)&real.table.query_gid_type},
	{"ibv_query_pkey", (void **)&real.table.query_pkey},
	{"ibv_resolve_eth_l2_from_gid", (void **)&real.table.resolve_eth_l2_from_gid},
};

/*
 * The real library is loaded already, as the shim's own dependency: by its absolute path, so
 * that the SONAME they share does not stand in its way. dlsym() on its handle finds its default
 * versions, and never ours.
 */
static void look_up(void)
{
	void *lib = dlopen(URXE_REAL_LIBIBVERBS, RTLD_LAZY | RTLD_NOLOAD);

	if (!lib) {
		fprintf(stderr, "urxe: %s is not loaded behind the libibverbs shim\n",
			URXE_REAL_LIBIBVERBS);
		abort();
	}
	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		*symbols[i].fn = dlsym(lib, symbols[i].name);
		if (!*symbols[i].fn) {
			fprintf(stderr, "urxe: %s has no %s: not the library urxe was built for\n",
				URXE_REAL_LIBIBVERBS, symbols[i].name);
			abort();
		}
	}
}

const struct real_verbs *real_verbs(void)
{
	pthread_once(&real.once, look_up);
	return &real.table;
}
