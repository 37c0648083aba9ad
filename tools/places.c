/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Finds the drop-in libraries from where this executable lies.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool.h"

#define PROVIDER "liburxe-rdmav34.so"

/* Relative to the folder of the executable: the build folder, then the installation. */
static const struct {
	const char *dropin, *provider;
} places[] = {
	{"../dropin", "../provider/" PROVIDER},
	{URXE_BIN_TO_LIB "/urxe", URXE_BIN_TO_LIB "/urxe/" PROVIDER},
};

/* Absolute and without links, so that it survives a chdir. */
static int absolute(const char *base, const char *rel, char *out, size_t len)
{
	char path[8192], real[4096];

	snprintf(path, sizeof(path), "%s/%s", base, rel);
	if (!realpath(path, real))
		return errno;
	snprintf(out, len, "%s", real);
	return 0;
}

int tool_places_find(struct tool_places *p)
{
	char exe[4096];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	if (n <= 0)
		return ENOENT;
	exe[n] = '\0';
	*strrchr(exe, '/') = '\0';
	if (absolute(exe, "urxed", p->urxed, sizeof(p->urxed)))
		p->urxed[0] = '\0';
	for (unsigned i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		if (!absolute(exe, places[i].dropin, p->dropin, sizeof(p->dropin)) &&
		    !absolute(exe, places[i].provider, p->provider, sizeof(p->provider)))
			return 0;
	}
	return ENOENT;
}
