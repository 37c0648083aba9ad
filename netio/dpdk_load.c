/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Loads the library of DPDK ports, and DPDK with it, of which there are two.
 *
 * DPDK's shared libraries are for drivers that need them; and for a program whose shared DPDK is
 * up, as then its ports and ours are of one EAL. A program that has another DPDK would find its own
 * broken: EAL starts once for each copy of it in the process, and constructors of a second DPDK
 * call the functions that a program exports (-rdynamic), of the first one, which end the process.
 * For such a program there is a library with DPDK linked in, no symbol of which is seen outside or
 * looked for there (netio/README.md says what else was tried).
 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "netio/dpdk.h"

#define EAL_FILE "librte_eal.so"

/* Where no other DPDK is met. TSan is told by its library's name to leave DPDK alone. */
#ifdef __SANITIZE_THREAD__
#define LINKED_IN "liburxe-dpdk-tsan.so"
#else
#define LINKED_IN URXE_DPDK_STATIC
#endif

/* Where a test has it linked in. */
extern const struct urxe_dpdk urxe_dpdk_library __attribute__((weak, visibility("hidden")));

/* ---- which DPDK the process has ---- */

enum theirs {
	THEIRS_NONE,   /* none that we would meet */
	THEIRS_UP,     /* a shared one, started: for both of us */
	THEIRS_DOWN,   /* a shared one, which the program may start yet */
	THEIRS_EXPORTS /* the program's own copy, whose symbols all libraries see */
};

static int find_eal(struct dl_phdr_info *info, size_t size, void *path)
{
	const char *base = strrchr(info->dlpi_name, '/');

	base = base ? base + 1 : info->dlpi_name;
	if (strncmp(base, EAL_FILE, strlen(EAL_FILE)))
		return 0;
	snprintf(path, PATH_MAX, "%s", info->dlpi_name);
	return 1;
}

/* EAL has the TSC's frequency from its start on, and no call asks for that itself. */
static bool eal_up(const char *path)
{
	void *eal = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
	uint64_t (*hz)(void) = eal ? (uint64_t(*)(void))dlsym(eal, "rte_get_tsc_hz") : NULL;
	bool up = hz && hz();

	if (eal)
		dlclose(eal);
	return up;
}

static enum theirs look(void)
{
	void *init = dlsym(RTLD_DEFAULT, "rte_eal_init");
	char path[PATH_MAX] = "";
	Dl_info info;

	dl_iterate_phdr(find_eal, path);
	if (init && (!dladdr(init, &info) || !strstr(info.dli_fname, EAL_FILE)))
		return THEIRS_EXPORTS;
	if (!path[0])
		return THEIRS_NONE;
	return eal_up(path) ? THEIRS_UP : THEIRS_DOWN;
}

/* ---- where our library is ---- */

static char dir[PATH_MAX]; /* with the slash at the end, or "" */

/* Of what this code is in: beside it, in the build folder, from the command when installed. */
static const char *const places[] = {"", "../netio/", URXE_BIN_TO_LIB "/urxe/"};

/* When it is loaded, before the program changes its directory. */
__attribute__((constructor)) static void find_dir(void)
{
	struct link_map *map;
	const char *path;
	Dl_info info;

	if (!dladdr1(dir, &info, (void **)&map, RTLD_DL_LINKMAP))
		return;
	path = map->l_name[0] ? map->l_name : "/proc/self/exe";
	if (realpath(path, dir))
		*(strrchr(dir, '/') + 1) = '\0';
	else
		dir[0] = '\0';
}

static bool find_library(const char *file, char *path, size_t len)
{
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		if ((size_t)snprintf(path, len, "%s%s%s", dir, places[i], file) < len &&
		    !access(path, F_OK))
			return true;
	}
	return false;
}

/* ---- the load ---- */

/* "librte_net_x.so.23: cannot ...": Debian has it in librte-net-x23. */
static void package_of(const char *why, char *package, size_t len)
{
	const char *lib = strstr(why, "librte_"), *so = lib ? strstr(lib, ".so.") : NULL;
	char *p;

	package[0] = '\0';
	if (!so)
		return;
	snprintf(package, len, " (Debian's package %.*s%.*s)", (int)(so - lib), lib,
		 (int)strspn(so + 4, "0123456789"), so + 4);
	for (p = strstr(package, "librte_"); *p; p++) {
		if (*p == '_')
			*p = '-';
	}
}

/* What the linker says of it, in a line; and as errno, if that is what was lacking. */
static int why_not(char *err, size_t errlen)
{
	int ret = errno == ENOMEM || errno == EMFILE || errno == ENFILE ? errno : ELIBACC;
	const char *why = dlerror();
	char package[80];

	package_of(why ? why : "", package, sizeof(package));
	snprintf(err, errlen, "%s%s", why ? why : "the dynamic linker does not say why", package);
	return ret;
}

static int load(bool plugins, void **lib, char *err, size_t errlen)
{
	enum theirs theirs = look();
	char path[PATH_MAX];
	bool found = false;

	/* EAL loads each shared driver that is installed, some hundred, before it looks at any. */
	if (theirs == THEIRS_DOWN || theirs == THEIRS_EXPORTS)
		found = find_library(URXE_DPDK_STATIC, path, sizeof(path));
	else if (theirs == THEIRS_NONE && !plugins)
		found = find_library(LINKED_IN, path, sizeof(path));
	if (theirs == THEIRS_EXPORTS && !found) {
		snprintf(err, errlen, "the program has one itself, and there is no %s in %s",
			 URXE_DPDK_STATIC, dir);
		return ENOENT;
	}
	if (theirs == THEIRS_DOWN && !found)
		urxe_warn("the program's own rte_eal_init() will fail: there is no %s in %s",
			  URXE_DPDK_STATIC, dir);
	if (!found && !find_library(URXE_DPDK_SHARED, path, sizeof(path))) {
		snprintf(err, errlen, "there is no %s in %s: is urxe installed?", URXE_DPDK_SHARED,
			 dir);
		return ENOENT;
	}
	errno = 0;
	*lib = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	return *lib ? 0 : why_not(err, errlen);
}

int urxe_dpdk_load(bool plugins, const struct urxe_dpdk **out, char *err, size_t errlen)
{
	const struct urxe_dpdk *table = &urxe_dpdk_library;
	void *lib;
	int ret;

	if (!table) {
		ret = load(plugins, &lib, err, errlen);
		if (ret)
			return ret;
		table = dlsym(lib, URXE_DPDK_SYMBOL);
	}
	if (!table || table->version != URXE_DPDK_VERSION || table->sizes != URXE_DPDK_SIZES) {
		snprintf(err, errlen, "%s in %s is of another version of urxe", URXE_DPDK_SHARED,
			 dir);
		return ELIBBAD;
	}
	*out = table;
	return 0;
}
