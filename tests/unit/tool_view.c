/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The files that the view of `urxe run` has of a device, and the rates in them.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness.h"
#include "tools/view.h"

static char top[] = "/tmp/urxe-view-XXXXXX";

static const char *text(const char *path)
{
	static char buf[256];
	char full[512];
	size_t n;
	FILE *f;

	snprintf(full, sizeof(full), "%s/%s", top, path);
	f = fopen(full, "re");
	if (!f)
		return "-";
	n = fread(buf, 1, sizeof(buf) - 1, f);
	buf[n] = '\0';
	fclose(f);
	return buf;
}

#define DEV  "ib/urxe0/"
#define PORT DEV "ports/1/"

static const struct {
	const char *path, *text;
} files[] = {
	{DEV "node_type", "1: CA\n"},
	{DEV "node_guid", "0011:22ff:fe33:4455\n"},
	{DEV "sys_image_guid", "0011:22ff:fe33:4455\n"},
	{DEV "device/numa_node", "-1\n"},
	{PORT "state", "4: ACTIVE\n"},
	{PORT "phys_state", "5: LinkUp\n"},
	{PORT "rate", "40 Gb/sec (4X QDR)\n"},
	{PORT "link_layer", "Ethernet\n"},
	{PORT "cap_mask", "0x04010000\n"},
	{PORT "pkeys/0", "0xffff\n"},
	{PORT "gids/0", "0000:0000:0000:0000:0000:0000:0000:0000\n"},
	{PORT "gids/1", "0000:0000:0000:0000:0000:ffff:0a00:0001\n"},
	{PORT "gid_attrs/types/0", "-"},
	{PORT "gid_attrs/types/1", "RoCE v2\n"},
	{PORT "gid_attrs/ndevs/0", "-"},
	{PORT "gid_attrs/ndevs/1", "lo\n"},
	{"verbs/uverbs3/ibdev", "urxe0\n"},
	{"verbs/uverbs3/abi_version", "1\n"},
	{"verbs/abi_version", "6\n"},
};

static const struct tool_view_device device = {
	.name = "urxe0",
	.guid = {0x00, 0x11, 0x22, 0xff, 0xfe, 0x33, 0x44, 0x55},
	.mbps = 49999,
	.active = true,
	.gids = {[1] = {.gid = {[10] = 0xff, 0xff, 10, 0, 0, 1}, .prefix_len = 24, .ipv4 = true}},
	.has_gid = {[1] = true},
	.ifnames = {[1] = "lo"},
};

static void make(const char *name, char *path, size_t len)
{
	snprintf(path, len, "%s/%s", top, name);
	mkdir(path, 0755);
}

static void tree(void)
{
	char ib[64], verbs[64], link[128];

	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(top));
	make("ib", ib, sizeof(ib));
	make("verbs", verbs, sizeof(verbs));
	CU_ASSERT_EQUAL(tool_view_tree(ib, verbs, &device, 3), 0);
	for (unsigned i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		if (strcmp(text(files[i].path), files[i].text) != 0)
			printf("\n%s: %s, not %s\n", files[i].path, text(files[i].path),
			       files[i].text);
		CU_ASSERT_STRING_EQUAL(text(files[i].path), files[i].text);
	}
	snprintf(link, sizeof(link), "%s/urxe0/device/net/lo", ib);
	CU_ASSERT_EQUAL(access(link, F_OK), 0);
	/* There is nothing to write into. */
	CU_ASSERT_EQUAL(tool_view_tree("/nonexistent", verbs, &device, 3), -1);
	snprintf(ib, sizeof(ib), "rm -rf %s", top);
	CU_ASSERT_EQUAL(system(ib), 0);
}

/* Those of no speed are the slowest that there is, as of verbs. */
static void rates(void)
{
	CU_ASSERT_STRING_EQUAL(tool_view_rate(0), "2.5 Gb/sec (1X SDR)");
	CU_ASSERT_STRING_EQUAL(tool_view_rate(10000), "10 Gb/sec (1X QDR)");
	CU_ASSERT_STRING_EQUAL(tool_view_rate(99999), "56 Gb/sec (4X FDR)");
	CU_ASSERT_STRING_EQUAL(tool_view_rate(1000000), "400 Gb/sec (4X NDR)");
}

URXE_TEST_MAIN("tool_view", T(tree), T(rates))
