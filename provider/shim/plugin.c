/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The provider, as the shim finds and loads it: when a device list is first asked for, or a device
 * of ours may be meant.
 */
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plugin.h"
#include "rdma_driver.h"

static struct {
	pthread_once_t once; /* load() */
	const struct urxe_shim_ops *ops;
	/* Where the shim lies; found when it is loaded, before the program changes its directory.
	 */
	char dir[PATH_MAX];
} plugin = {.once = PTHREAD_ONCE_INIT};
static __thread bool loading;

/* Beside the shim or above it when installed, above it in the build folder. */
static const char *const places[] = {"", "../", "../libibverbs/"};

__attribute__((constructor)) static void find_shim_dir(void)
{
	Dl_info info;

	if (!dladdr(plugin.dir, &info) || !realpath(info.dli_fname, plugin.dir)) {
		plugin.dir[0] = '\0';
		return;
	}
	*(strrchr(plugin.dir, '/') + 1) = '\0';
}

static void use(const char *path)
{
	const struct urxe_shim_ops *(*entry)(void);
	const char *why;
	void *lib;

	/* Our librdmacm may have it as a dependency: the same file is loaded once. */
	lib = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (!lib) {
		why = dlerror();
		fprintf(stderr, "urxe: cannot load the provider: %s%s\n", why,
			strstr(why, ", version " URXE_RDMA_PRIVATE_NODE)
				? ": urxe needs the private ABI of rdma-core 36 to 56"
				: "");
		return;
	}
	entry = (const struct urxe_shim_ops *(*)(void))dlsym(lib, URXE_SHIM_OPS_ENTRY);
	if (!entry) {
		fprintf(stderr, "urxe: %s is not a urxe provider: no %s\n", path,
			URXE_SHIM_OPS_ENTRY);
		return;
	}
	plugin.ops = entry();
}

static void load(void)
{
	const char *named = secure_getenv("URXE_PROVIDER");
	char path[PATH_MAX + 64];

	if (named && *named) {
		use(named);
		return;
	}
	for (size_t i = 0; plugin.dir[0] && i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(path, sizeof(path), "%s%s%s", plugin.dir, places[i], URXE_PROVIDER_FILE);
		if (!access(path, F_OK)) {
			use(path);
			return;
		}
	}
	fprintf(stderr, "urxe: no %s in %s or beside it, nor in $URXE_PROVIDER: no urxe devices\n",
		URXE_PROVIDER_FILE, plugin.dir);
}

const struct urxe_shim_ops *plugin_ops(void)
{
	if (loading)
		return NULL;
	loading = true;
	pthread_once(&plugin.once, load);
	loading = false;
	return plugin.ops;
}
