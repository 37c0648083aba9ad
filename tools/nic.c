/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A network card: its name, DPDK's driver for it, who uses it.
 */
#include "nic.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PCI_IDS "/usr/share/misc/pci.ids" /* package pci.ids; what is not there has no name */

const char *const nic_use_names[NIC_NUM_USES] = {
	[NIC_READY] = "ready",	       [NIC_BINDABLE] = "bindable", [NIC_BUSY] = "busy",
	[NIC_ROUTE] = "default route", [NIC_NO_PMD] = "no PMD",
};

/* ---- name ---- */

static bool id_line(const char *line, unsigned id, char *name, size_t len)
{
	char *end;

	if (strtoul(line, &end, 16) != id || end != line + 4 || strncmp(end, "  ", 2) != 0)
		return false;
	snprintf(name, len, "%.*s", (int)strcspn(end + 2, "\n"), end + 2);
	return true;
}

/* Vendors start a line, their devices stand below behind a tab. */
static void name_card(struct nic *nic)
{
	char line[256], vendor[64], device[64];
	bool inside = false, found = false;
	FILE *f = fopen(PCI_IDS, "re");

	while (f && !found && fgets(line, sizeof(line), f)) {
		if (line[0] == '#')
			continue;
		if (line[0] == '\t') {
			found = inside &&
				id_line(line + 1, nic->pci.device, device, sizeof(device));
			continue;
		}
		if (inside)
			break;
		inside = id_line(line, nic->pci.vendor, vendor, sizeof(vendor));
	}
	if (f)
		fclose(f);
	if (inside)
		snprintf(nic->name, sizeof(nic->name), "%s%s%s", vendor, found ? " " : "",
			 found ? device : "");
}

/* ---- DPDK's driver ---- */

/*
 * Each driver's file holds what it takes (DPDK's Programmer's Guide, "PMD info"; dpdk-pmdinfo.py
 * reads the same): PMD_INFO_STRING= {"name": "net_ixgbe", ..., "pci_ids": [[V, D, SV, SD], ...]}
 */
#define MARK "PMD_INFO_STRING= {\"name\": \""

static bool takes(const char *info, const struct urxe_pci *p)
{
	const char *ids = strstr(info, "\"pci_ids\": [");
	unsigned vendor, device;

	if (!ids)
		return false;
	ids = strchr(ids, '[') + 1;
	while ((ids = strchr(ids, '['))) {
		ids++;
		if (sscanf(ids, "%u, %u", &vendor, &device) == 2 && vendor == p->vendor &&
		    (device == p->device || device == 0xffff))
			return true;
	}
	return false;
}

/* @text: a whole file and a zero behind it. */
static bool text_takes(const char *text, size_t len, struct nic *nic)
{
	const char *at = text, *end = text + len;

	while ((at = memmem(at, (size_t)(end - at), MARK, strlen(MARK)))) {
		at += strlen(MARK);
		nic->pmds_known = true;
		if (takes(at, &nic->pci)) {
			snprintf(nic->pmd, sizeof(nic->pmd), "%.*s", (int)strcspn(at, "\""), at);
			return true;
		}
	}
	return false;
}

static bool file_takes(const char *path, struct nic *nic)
{
	FILE *f = fopen(path, "re");
	struct stat st;
	char *text = NULL;
	bool ok = false;

	if (f && !fstat(fileno(f), &st) && st.st_size > 0)
		text = calloc(1, (size_t)st.st_size + 1);
	if (text && fread(text, 1, (size_t)st.st_size, f) == (size_t)st.st_size)
		ok = text_takes(text, (size_t)st.st_size, nic);
	free(text);
	if (f)
		fclose(f);
	return ok;
}

static void find_pmd(const struct nic_host *h, struct nic *nic)
{
	char path[PATH_MAX];
	struct dirent *e;
	DIR *d = opendir(h->pmds);

	while (d && !nic->pmd[0] && (e = readdir(d))) {
		if (!strncmp(e->d_name, "librte_net_", 11) && strstr(e->d_name, ".so"))
			file_takes(urxe_pci_path(path, h->pmds, "%s", e->d_name), nic);
	}
	if (d)
		closedir(d);
}

/* ---- default route ---- */

/* Tables of the kernel: v4 has a heading and the destination second (fib_trie.c), v6 the
 * destination first and its length next (net/ipv6/route.c). */
static bool route_line(const char *line, bool v6, char *name)
{
	char dst[40], mask[40];
	unsigned len;

	if (v6)
		return sscanf(line, "%39s %x %*s %*s %*s %*s %*s %*s %*s %31s", dst, &len, name) ==
			       3 &&
		       !len && strspn(dst, "0") == strlen(dst);
	return sscanf(line, "%31s %39s %*s %*s %*s %*s %*s %39s", name, dst, mask) == 3 &&
	       !strcmp(dst, "00000000") && !strcmp(mask, "00000000");
}

static bool routed(const struct nic_host *h, const char *interface)
{
	static const char *const tables[] = {"net/route", "net/ipv6_route"};
	char path[PATH_MAX], line[512], name[32];
	bool found = false;

	for (unsigned v6 = 0; v6 < 2 && !found; v6++) {
		FILE *f = fopen(urxe_pci_path(path, h->roots->proc, "%s", tables[v6]), "re");

		while (f && !found && fgets(line, sizeof(line), f))
			found = route_line(line, v6, name) && !strcmp(name, interface);
		if (f)
			fclose(f);
	}
	return found;
}

/* Or what is built on it: a link "upper_bond0" for each. Four floors are enough. */
static bool carries_route(const struct nic_host *h, const char *interface, unsigned floors)
{
	char path[PATH_MAX];
	struct dirent *e;
	bool found = routed(h, interface);
	DIR *d;

	if (found || !floors)
		return found;
	d = opendir(urxe_pci_path(path, h->roots->sys, "class/net/%s", interface));
	while (d && !found && (e = readdir(d))) {
		if (!strncmp(e->d_name, "upper_", 6))
			found = carries_route(h, e->d_name + 6, floors - 1);
	}
	if (d)
		closedir(d);
	return found;
}

const char *nic_default_route(const struct nic_host *h, const struct urxe_pci *p)
{
	for (unsigned i = 0; i < p->num_nets; i++) {
		if (carries_route(h, p->nets[i].name, 4))
			return p->nets[i].name;
	}
	return NULL;
}

/* ---- verdict ---- */

static void judge_bound(struct nic *nic)
{
	if (nic->holder) {
		nic->use = NIC_BUSY;
		snprintf(nic->remark, sizeof(nic->remark), "in use by process %d (%s)",
			 (int)nic->holder, nic->holder_name);
		return;
	}
	nic->use = NIC_READY;
	if (nic->pci.kind == URXE_PCI_SHARED)
		snprintf(nic->remark, sizeof(nic->remark), "needs no binding");
}

static void judge(struct nic *nic)
{
	const struct urxe_pci *p = &nic->pci;

	if (nic->pmds_known && !nic->pmd[0]) {
		nic->use = NIC_NO_PMD;
		snprintf(nic->remark, sizeof(nic->remark), "DPDK has no driver for it");
	} else if (p->kind != URXE_PCI_KERNEL && p->kind != URXE_PCI_UNBOUND) {
		judge_bound(nic);
	} else if (nic->route) {
		nic->use = NIC_ROUTE;
		snprintf(nic->remark, sizeof(nic->remark),
			 "urxe bind --force takes the machine's default route away");
	} else {
		nic->use = NIC_BINDABLE;
		snprintf(nic->remark, sizeof(nic->remark), "urxe bind %s", p->addr);
	}
}

int nic_look(const struct nic_host *h, const char *addr, struct nic *nic)
{
	int ret;

	memset(nic, 0, sizeof(*nic));
	ret = urxe_pci_inspect(h->roots, addr, &nic->pci);
	if (ret)
		return ret;
	name_card(nic);
	find_pmd(h, nic);
	nic->route = nic_default_route(h, &nic->pci) != NULL;
	nic->holder =
		urxe_pci_holder(h->roots, &nic->pci, nic->holder_name, sizeof(nic->holder_name));
	judge(nic);
	return 0;
}
