/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * urxe bind, urxe unbind: the command lines. What is done is in nic_bind.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "netio/devargs.h"
#include "nic.h"
#include "tool.h"

#define MAX_CARDS 64

const char tool_bind_usage[] =
	"usage: urxe bind [--driver vfio-pci|uio_pci_generic] [--force] [--hugepages N] PCI...\n"
	"       urxe bind --list [--json]\n"
	"\n"
	"Gives network cards to a driver that DPDK works with. Needs root.\n"
	"\n"
	"  --list         show instead the network cards of this machine\n"
	"  --json         as JSON\n"
	"  --driver D     vfio-pci where the card has an IOMMU, else uio_pci_generic\n"
	"  --force        also the card of the default route, and with others in its IOMMU group\n"
	"  --hugepages N  have at least N hugepages (64 for uio_pci_generic and for cards of\n"
	"                 virtio, none for others on vfio-pci)\n";

const char tool_unbind_usage[] = "usage: urxe unbind PCI...\n"
				 "\n"
				 "Gives network cards back to the kernel. Needs root.\n";

struct args {
	struct nic_request req;
	char addr[MAX_CARDS][32];
	char *addrs[MAX_CARDS + 1];
	unsigned num;
	bool list, json;
};

static int take_addr(struct args *a, const char *command, const char *s)
{
	if (a->num == MAX_CARDS)
		return tool_fail("%s: found more than %u addresses, accepted: fewer", command,
				 MAX_CARDS);
	if (!urxe_devargs_pci(s, a->addr[a->num], sizeof(a->addr[0])))
		return tool_fail("%s: found '%s', accepted: a PCI address as 0000:03:00.0 (urxe "
				 "bind --list)",
				 command, s);
	for (unsigned i = 0; i < a->num; i++) {
		if (!strcmp(a->addr[i], a->addr[a->num]))
			return 0;
	}
	a->addrs[a->num] = a->addr[a->num];
	a->num++;
	return 0;
}

static int take_hugepages(struct args *a, const char *s)
{
	char *end;

	a->req.hugepages = strtol(s, &end, 10);
	if (!*s || *end || a->req.hugepages < 0 || a->req.hugepages > 1 << 24)
		return tool_fail("bind: found --hugepages '%s', accepted: a number of pages", s);
	return 0;
}

static int take_driver(struct args *a, const char *s)
{
	if (strcmp(s, "vfio-pci") != 0 && strcmp(s, "uio_pci_generic") != 0)
		return tool_fail("bind: found --driver '%s', accepted: vfio-pci, uio_pci_generic",
				 s);
	a->req.driver = s;
	return 0;
}

enum option_value {
	LIST = TOOL_OPTION,
	JSON,
	DRIVER,
	FORCE,
	HUGEPAGES
};

static const struct option bind_options[] = {
	{"list", no_argument, NULL, LIST},
	{"json", no_argument, NULL, JSON},
	{"driver", required_argument, NULL, DRIVER},
	{"force", no_argument, NULL, FORCE},
	{"hugepages", required_argument, NULL, HUGEPAGES},
	{NULL, 0, NULL, 0},
};

static const struct option no_options[] = {{NULL, 0, NULL, 0}};

static int parse_bind(struct args *a, int argc, char **argv)
{
	int ret = 0, c;

	while (!ret && (c = tool_option(argc, argv, false, bind_options, tool_bind_usage)) != -1) {
		if (c == DRIVER)
			ret = take_driver(a, optarg);
		else if (c == HUGEPAGES)
			ret = take_hugepages(a, optarg);
		else
			*(c == LIST ? &a->list : c == JSON ? &a->json : &a->req.force) = true;
	}
	for (; optind < argc && !ret; optind++)
		ret = take_addr(a, "bind", argv[optind]);
	if (ret)
		return ret;
	if (a->list ? a->num > 0 : !a->num)
		return tool_fail("bind: found %s, accepted: PCI addresses, or --list",
				 a->num ? "both" : "none");
	if (a->json && !a->list)
		return tool_fail("bind: found --json, accepted: with --list");
	return 0;
}

static int done(const char *command, int ret, const char *err)
{
	if (!ret)
		return 0;
	tool_flush(); /* what was done comes before what was not */
	tool_fail("%s: %s", command, err);
	return 1;
}

int tool_bind(int argc, char **argv)
{
	struct args a = {.req = {.hugepages = -1}};
	struct nic_host h = nic_machine();
	char err[512] = "";
	int ret = parse_bind(&a, argc, argv);

	if (ret)
		return ret;
	if (a.list)
		return nic_list(&h, a.json);
	a.req.addrs = a.addrs;
	return done("bind", nic_bind(&h, &a.req, err, sizeof(err)), err);
}

int tool_unbind(int argc, char **argv)
{
	struct args a = {.req = {.hugepages = -1}};
	struct nic_host h = nic_machine();
	char err[512] = "";
	int ret = 0;

	tool_option(argc, argv, false, no_options, tool_unbind_usage);
	for (; optind < argc && !ret; optind++)
		ret = take_addr(&a, "unbind", argv[optind]);
	if (!ret && !a.num)
		ret = tool_fail("unbind: found none, accepted: PCI addresses");
	if (ret)
		return ret;
	a.req.addrs = a.addrs;
	return done("unbind", nic_unbind(&h, &a.req, err, sizeof(err)), err);
}
