/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A PCI device as sysfs shows it (Documentation/ABI/testing/sysfs-bus-pci, sysfs-class-net,
 * sysfs-kernel-iommu_groups of the kernel).
 */
#include "netio/pci.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CLASS_NETWORK 0x02
#define CLASS_BRIDGE  0x06

#define DEVICES "bus/pci/devices"

char *urxe_pci_path(char *buf, const char *root, const char *fmt, ...)
{
	int n = snprintf(buf, PATH_MAX, "%s/", root);
	va_list ap;

	if (n < 0 || n >= PATH_MAX)
		return buf;
	va_start(ap, fmt);
	vsnprintf(buf + n, PATH_MAX - (size_t)n, fmt, ap);
	va_end(ap);
	return buf;
}

bool urxe_pci_read(const char *path, char *buf, size_t len)
{
	FILE *f = fopen(path, "re");
	bool ok;

	buf[0] = '\0';
	if (!f)
		return false;
	ok = fgets(buf, (int)len, f) != NULL;
	fclose(f);
	buf[strcspn(buf, "\n")] = '\0';
	return ok;
}

static unsigned long read_number(const char *path, int base)
{
	char line[64];

	return urxe_pci_read(path, line, sizeof(line)) ? strtoul(line, NULL, base) : 0;
}

/* As much of @s as fits. */
static void take(char *buf, size_t len, const char *s)
{
	size_t n = strnlen(s, len - 1);

	memcpy(buf, s, n);
	buf[n] = '\0';
}

/* The last part of what the link points to; "": there is no link. */
static void link_name(const char *path, char *buf, size_t len)
{
	char target[PATH_MAX], *base;
	ssize_t n = readlink(path, target, sizeof(target) - 1);

	buf[0] = '\0';
	if (n <= 0)
		return;
	target[n] = '\0';
	base = strrchr(target, '/');
	take(buf, len, base ? base + 1 : target);
}

/* ---- drivers ---- */

static const struct {
	const char *name;
	enum urxe_pci_kind kind;
} drivers[] = {
	{"vfio-pci", URXE_PCI_VFIO},
	{"uio_pci_generic", URXE_PCI_UIO},
	{"igb_uio", URXE_PCI_UIO},
	/* Those whose PMD's kernel modules are none of the above (dpdk-pmdinfo.py). */
	{"mlx5_core", URXE_PCI_SHARED},
	{"mlx4_core", URXE_PCI_SHARED},
	{"mana", URXE_PCI_SHARED},
};

static enum urxe_pci_kind kind_of(const char *driver)
{
	if (!driver[0])
		return URXE_PCI_UNBOUND;
	for (unsigned i = 0; i < sizeof(drivers) / sizeof(drivers[0]); i++) {
		if (!strcmp(driver, drivers[i].name))
			return drivers[i].kind;
	}
	return URXE_PCI_KERNEL;
}

/* ---- interfaces ---- */

static bool parse_mac(const char *s, uint8_t mac[6])
{
	static const uint8_t none[6];
	int n = 0;

	return sscanf(s, "%2hhx:%2hhx:%2hhx:%2hhx:%2hhx:%2hhx%n", &mac[0], &mac[1], &mac[2],
		      &mac[3], &mac[4], &mac[5], &n) == 6 &&
	       !s[n] && !(mac[0] & 1) && memcmp(mac, none, 6) != 0;
}

/* @dir: the folder of the interface. */
static void inspect_net(const char *dir, const char *name, struct urxe_pci_net *net)
{
	char path[PATH_MAX], line[64];

	take(net->name, sizeof(net->name), name);
	/* 0: permanent (NET_ADDR_PERM); others were drawn, copied or set. */
	net->own_mac =
		urxe_pci_read(urxe_pci_path(path, dir, "%s/address", name), line, sizeof(line)) &&
		parse_mac(line, net->mac) &&
		!read_number(urxe_pci_path(path, dir, "%s/addr_assign_type", name), 10);
	net->up = read_number(urxe_pci_path(path, dir, "%s/flags", name), 16) & IFF_UP;
	net->carrier = read_number(urxe_pci_path(path, dir, "%s/carrier", name), 10);
}

static int compare_nets(const void *a, const void *b)
{
	return strcmp(((const struct urxe_pci_net *)a)->name,
		      ((const struct urxe_pci_net *)b)->name);
}

static void inspect_nets(const char *dir, struct urxe_pci *p)
{
	struct dirent *e;
	DIR *d = opendir(dir);

	while (d && (e = readdir(d)) && p->num_nets < URXE_PCI_MAX_NETS) {
		if (e->d_name[0] != '.')
			inspect_net(dir, e->d_name, &p->nets[p->num_nets++]);
	}
	if (d)
		closedir(d);
	qsort(p->nets, p->num_nets, sizeof(p->nets[0]), compare_nets);
}

/* The first entry of a folder whose name starts with @prefix; "": none. */
static void entry_with(const char *dir, const char *prefix, char *buf, size_t len)
{
	struct dirent *e;
	DIR *d = opendir(dir);

	buf[0] = '\0';
	while (d && !buf[0] && (e = readdir(d))) {
		if (!strncmp(e->d_name, prefix, strlen(prefix)) && e->d_name[0] != '.')
			take(buf, len, e->d_name);
	}
	if (d)
		closedir(d);
}

/* ---- a device ---- */

static void inspect_group(const struct urxe_pci_roots *r, const char *dir, struct urxe_pci *p)
{
	char path[PATH_MAX], line[64];

	link_name(urxe_pci_path(path, dir, "iommu_group"), p->group, sizeof(p->group));
	if (!p->group[0])
		return;
	p->noiommu =
		urxe_pci_read(urxe_pci_path(path, dir, "iommu_group/name"), line, sizeof(line)) &&
		!strcmp(line, "vfio-noiommu");
	p->translated =
		urxe_pci_read(urxe_pci_path(path, dir, "iommu_group/type"), line, sizeof(line)) &&
		!strncmp(line, "DMA", 3);
}

static void name_node(struct urxe_pci *p)
{
	if (p->kind == URXE_PCI_VFIO && p->group[0])
		snprintf(p->node, sizeof(p->node), "vfio/%s%s", p->noiommu ? "noiommu-" : "",
			 p->group);
	else if (p->kind == URXE_PCI_UIO && p->uio[0])
		snprintf(p->node, sizeof(p->node), "%s", p->uio);
}

int urxe_pci_inspect(const struct urxe_pci_roots *r, const char *addr, struct urxe_pci *p)
{
	char dir[PATH_MAX], path[PATH_MAX], virtio[32];

	memset(p, 0, sizeof(*p));
	take(p->addr, sizeof(p->addr), addr);
	urxe_pci_path(dir, r->sys, DEVICES "/%s", p->addr);
	if (access(dir, F_OK))
		return ENODEV;
	p->class_code = (uint32_t)read_number(urxe_pci_path(path, dir, "class"), 16);
	p->vendor = (uint16_t)read_number(urxe_pci_path(path, dir, "vendor"), 16);
	p->device = (uint16_t)read_number(urxe_pci_path(path, dir, "device"), 16);
	link_name(urxe_pci_path(path, dir, "driver"), p->driver, sizeof(p->driver));
	p->kind = kind_of(p->driver);
	inspect_nets(urxe_pci_path(path, dir, "net"), p);
	/* virtio has a device of its own between the card and the interface. */
	entry_with(dir, "virtio", virtio, sizeof(virtio));
	if (virtio[0])
		inspect_nets(urxe_pci_path(path, dir, "%s/net", virtio), p);
	entry_with(urxe_pci_path(path, dir, "uio"), "uio", p->uio, sizeof(p->uio));
	inspect_group(r, dir, p);
	name_node(p);
	return 0;
}

bool urxe_pci_is_nic(const struct urxe_pci *p)
{
	return p->class_code >> 16 == CLASS_NETWORK;
}

/* ---- all devices ---- */

static int each_in(const char *dir, int (*fn)(const char *addr, void *arg), void *arg)
{
	struct dirent **list;
	int n = scandir(dir, &list, NULL, alphasort), ret = 0;

	if (n < 0)
		return ENOENT;
	for (int i = 0; i < n; i++) {
		if (!ret && list[i]->d_name[0] != '.')
			ret = fn(list[i]->d_name, arg);
		free(list[i]);
	}
	free(list);
	return ret;
}

int urxe_pci_each(const struct urxe_pci_roots *r, int (*fn)(const char *addr, void *arg), void *arg)
{
	char path[PATH_MAX];

	return each_in(urxe_pci_path(path, r->sys, DEVICES), fn, arg);
}

struct rest {
	const struct urxe_pci_roots *r;
	const struct urxe_pci *p;
	char *const *spare;
	char *list;
	size_t len;
};

static int note_member(const char *addr, void *arg)
{
	struct rest *w = arg;
	struct urxe_pci m;
	size_t used = strlen(w->list);

	for (char *const *s = w->spare; s && *s; s++) {
		if (!strcmp(*s, addr))
			return 0;
	}
	if (!strcmp(addr, w->p->addr) || urxe_pci_inspect(w->r, addr, &m) ||
	    m.class_code >> 16 == CLASS_BRIDGE || m.kind == URXE_PCI_UNBOUND ||
	    m.kind == URXE_PCI_VFIO || !strcmp(m.driver, "pci-stub"))
		return 0;
	snprintf(w->list + used, w->len - used, "%s%s (%s)", used ? ", " : "", addr, m.driver);
	return 0;
}

void urxe_pci_group_rest(const struct urxe_pci_roots *r, const struct urxe_pci *p,
			 char *const *spare, char *list, size_t len)
{
	struct rest w = {r, p, spare, list, len};
	char path[PATH_MAX];

	list[0] = '\0';
	if (p->group[0])
		each_in(urxe_pci_path(path, r->sys, DEVICES "/%s/iommu_group/devices", p->addr),
			note_member, &w);
}

/* ---- who has it ---- */

static bool process_has(const char *dir, const char *wanted)
{
	char path[PATH_MAX], target[PATH_MAX];
	struct dirent *e;
	bool found = false;
	ssize_t n;
	DIR *d = opendir(dir);

	while (d && !found && (e = readdir(d))) {
		n = readlink(urxe_pci_path(path, dir, "%s", e->d_name), target, sizeof(target) - 1);
		if (n > 0) {
			target[n] = '\0';
			found = !strcmp(target, wanted);
		}
	}
	if (d)
		closedir(d);
	return found;
}

pid_t urxe_pci_holder(const struct urxe_pci_roots *r, const struct urxe_pci *p, char *comm,
		      size_t len)
{
	char path[PATH_MAX], wanted[PATH_MAX];
	pid_t pid = 0;
	struct dirent *e;
	DIR *d;

	comm[0] = '\0';
	if (!p->node[0])
		return 0;
	urxe_pci_path(wanted, r->dev, "%s", p->node);
	d = opendir(r->proc);
	while (d && !pid && (e = readdir(d))) {
		if (strspn(e->d_name, "0123456789") != strlen(e->d_name) ||
		    !process_has(urxe_pci_path(path, r->proc, "%s/fd", e->d_name), wanted))
			continue;
		pid = atoi(e->d_name);
		urxe_pci_read(urxe_pci_path(path, r->proc, "%s/comm", e->d_name), comm, len);
	}
	if (d)
		closedir(d);
	return pid;
}

#define VENDOR_VIRTIO 0x1af4

bool urxe_pci_is_virtio(const struct urxe_pci *p)
{
	return p->vendor == VENDOR_VIRTIO;
}

unsigned long urxe_pci_hugepages(const struct urxe_pci_roots *r)
{
	char path[PATH_MAX];

	return read_number(urxe_pci_path(path, r->proc, "sys/vm/nr_hugepages"), 10);
}

bool urxe_pci_mac(const struct urxe_pci_roots *r, const char *addr, uint8_t mac[6])
{
	struct urxe_pci_note n;
	struct urxe_pci p;

	if (urxe_pci_inspect(r, addr, &p))
		return false;
	if (p.num_nets) {
		memcpy(mac, p.nets[0].mac, 6);
		return p.nets[0].own_mac;
	}
	if (!urxe_pci_note_read(r, addr, &n) || !n.has_mac)
		return false;
	memcpy(mac, n.mac, 6);
	return true;
}
