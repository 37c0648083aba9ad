/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A machine in a temporary folder: its sysfs, its drivers, and a kernel that does what is written
 * there.
 */
#define _XOPEN_SOURCE 700
#include "pci_machine.h"

#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct machine_faults machine_faults;
char machine_told[4096], machine_loaded[1024];

static struct machine *now; /* nic_ops carries no argument */

/* ---- files ---- */

static char *at(char *buf, struct machine *m, const char *path)
{
	return urxe_pci_path(buf, m->dir, "%s", path);
}

static void make_folders(char *path)
{
	for (char *s = path + 1; (s = strchr(s, '/')); s++) {
		*s = '\0';
		mkdir(path, 0755);
		*s = '/';
	}
}

void machine_file(struct machine *m, const char *path, const char *fmt, ...)
{
	char full[PATH_MAX];
	va_list ap;
	FILE *f;

	make_folders(at(full, m, path));
	f = fopen(full, "w");
	if (!f)
		abort();
	va_start(ap, fmt);
	vfprintf(f, fmt, ap);
	va_end(ap);
	fclose(f);
}

void machine_link(struct machine *m, const char *path, const char *target)
{
	char full[PATH_MAX];

	make_folders(at(full, m, path));
	unlink(full);
	if (symlink(target, full))
		abort();
}

bool machine_has(struct machine *m, const char *path)
{
	char full[PATH_MAX];
	struct stat st;

	return !lstat(at(full, m, path), &st);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

/* ---- the kernel ---- */

static void attach(const char *addr, const char *driver)
{
	char path[PATH_MAX], full[PATH_MAX], to[PATH_MAX];

	if (!driver[0] || (machine_faults.refuses && !strcmp(driver, machine_faults.refuses)) ||
	    !machine_has(now, urxe_pci_path(path, "sys/bus/pci/drivers", "%s", driver)))
		return;
	machine_link(now, urxe_pci_path(full, "sys/bus/pci/devices", "%s/driver", addr),
		     urxe_pci_path(to, "../../../bus/pci/drivers", "%s", driver));
	if (!strcmp(driver, "uio_pci_generic"))
		machine_file(now, urxe_pci_path(path, "sys/bus/pci/devices", "%s/uio/uio0/x", addr),
			     "x");
	urxe_pci_path(path, now->sys, "bus/pci/devices/%s/hidden", addr);
	urxe_pci_path(full, now->sys, "bus/pci/devices/%s/net", addr);
	if (strcmp(driver, "vfio-pci") != 0 && strcmp(driver, "uio_pci_generic") != 0)
		rename(path, full);
}

static void probe(const char *addr)
{
	char path[PATH_MAX], driver[64];

	urxe_pci_read(urxe_pci_path(path, now->sys, "bus/pci/devices/%s/driver_override", addr),
		      driver, sizeof(driver));
	if (!driver[0])
		urxe_pci_read(urxe_pci_path(path, now->sys, "bus/pci/devices/%s/native", addr),
			      driver, sizeof(driver));
	attach(addr, driver);
}

static int detach(const char *addr)
{
	char path[PATH_MAX], hidden[PATH_MAX];

	if (unlink(urxe_pci_path(path, now->sys, "bus/pci/devices/%s/driver", addr)))
		return errno;
	urxe_pci_path(path, now->sys, "bus/pci/devices/%s/net", addr);
	urxe_pci_path(hidden, now->sys, "bus/pci/devices/%s/hidden", addr);
	rename(path, hidden);
	nftw(urxe_pci_path(path, now->sys, "bus/pci/devices/%s/uio", addr), remove_one, 8,
	     FTW_DEPTH | FTW_PHYS);
	return 0;
}

static bool ends(const char *s, const char *end)
{
	size_t n = strlen(s), k = strlen(end);

	return n >= k && !strcmp(s + n - k, end);
}

static int kernel_write(const char *path, const char *text)
{
	unsigned long pages = strtoul(text, NULL, 10);

	if (ends(path, "/driver/unbind"))
		return detach(text);
	if (access(path, F_OK))
		return ENOENT;
	if (ends(path, "/nr_hugepages"))
		machine_file(now, "proc/sys/vm/nr_hugepages", "%lu\n",
			     pages < machine_faults.memory ? pages : machine_faults.memory);
	else
		machine_file(now, path + strlen(now->dir) + 1, "%s", text);
	if (ends(path, "/drivers_probe"))
		probe(text);
	return 0;
}

static int kernel_load(const char *module)
{
	char path[PATH_MAX];
	size_t n = strlen(machine_loaded);

	snprintf(machine_loaded + n, sizeof(machine_loaded) - n, "%s ", module);
	if (machine_faults.no_module && !strcmp(module, machine_faults.no_module))
		return EIO;
	machine_file(now, urxe_pci_path(path, "sys/bus/pci/drivers", "%s/module", module), "x");
	return 0;
}

static int flip(const char *addr, void *arg)
{
	const char **wanted = arg;
	char path[PATH_MAX];

	urxe_pci_path(path, "sys/bus/pci/devices", "%s/net/%s/flags", addr, wanted[0]);
	if (!machine_has(now, path))
		return 0;
	machine_file(now, path, "%s\n", wanted[1]);
	return 1;
}

static int kernel_set_up(const char *interface, bool up)
{
	const char *wanted[] = {interface, up ? "0x1003" : "0x1002"};

	return urxe_pci_each(&now->roots, flip, wanted) ? 0 : ENODEV;
}

static void kernel_settle(void)
{
}

static void note_line(const char *line)
{
	size_t n = strlen(machine_told);

	snprintf(machine_told + n, sizeof(machine_told) - n, "%s\n", line);
}

static int kernel_vfio_try(const char *container, const char *group)
{
	return machine_faults.vfio;
}

static const struct nic_ops ops = {.write = kernel_write,
				   .load = kernel_load,
				   .set_up = kernel_set_up,
				   .settle = kernel_settle,
				   .tell = note_line};

/* ---- the machine ---- */

void machine_make(struct machine *m)
{
	memset(m, 0, sizeof(*m));
	snprintf(m->dir, sizeof(m->dir), "/tmp/urxe-pci-XXXXXX");
	if (!mkdtemp(m->dir) || chmod(m->dir, 0755))
		abort();
	snprintf(m->sys, sizeof(m->sys), "%s/sys", m->dir);
	snprintf(m->proc, sizeof(m->proc), "%s/proc", m->dir);
	snprintf(m->dev, sizeof(m->dev), "%s/dev", m->dir);
	snprintf(m->run, sizeof(m->run), "%s/run", m->dir);
	snprintf(m->pmds, sizeof(m->pmds), "%s/pmds", m->dir);
	m->roots = (struct urxe_pci_roots){m->sys, m->proc, m->dev, m->run, kernel_vfio_try};
	m->host = (struct nic_host){&m->roots, &ops, m->pmds, true};
	machine_file(m, "run/x", "x");
	machine_file(m, "proc/sys/vm/nr_hugepages", "0\n");
	machine_file(m, "sys/bus/pci/drivers_probe", "x");
	machine_file(m, "dev/vfio/vfio", "x");
	memset(&machine_faults, 0, sizeof(machine_faults));
	machine_faults.memory = 1000;
	machine_told[0] = machine_loaded[0] = '\0';
	now = m;
}

void machine_remove(struct machine *m)
{
	nftw(m->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void add_group(struct machine *m, const char *addr, const char *group)
{
	char path[PATH_MAX], to[PATH_MAX];

	machine_link(m, urxe_pci_path(path, "sys/bus/pci/devices", "%s/iommu_group", addr),
		     urxe_pci_path(to, "../../../../kernel/iommu_groups", "%s", group));
	machine_file(m, urxe_pci_path(path, "sys/kernel/iommu_groups", "%s/type", group),
		     "DMA-FQ\n");
	machine_file(m,
		     urxe_pci_path(path, "sys/kernel/iommu_groups", "%s/devices/%s", group, addr),
		     "x");
	machine_file(m, urxe_pci_path(path, "dev/vfio", "%s", group), "x");
}

void machine_card(struct machine *m, const char *addr, const char *class_code, const char *native,
		  const char *interface, const char *group)
{
	char path[PATH_MAX], dir[PATH_MAX];

	urxe_pci_path(dir, "sys/bus/pci/devices", "%s", addr);
	machine_file(m, urxe_pci_path(path, dir, "class"), "%s\n", class_code);
	machine_file(m, urxe_pci_path(path, dir, "vendor"), "0x8086\n");
	machine_file(m, urxe_pci_path(path, dir, "device"), "0x10d3\n");
	machine_file(m, urxe_pci_path(path, dir, "driver_override"), "\n");
	machine_file(m, urxe_pci_path(path, dir, "native"), "%s\n", native ? native : "");
	machine_file(m, urxe_pci_path(path, dir, "modalias"), "pci:v8086d10d3\n");
	if (interface) {
		machine_file(m, urxe_pci_path(path, dir, "net/%s/address", interface),
			     "00:1b:21:00:00:0%c\n", addr[11]);
		machine_file(m, urxe_pci_path(path, dir, "net/%s/addr_assign_type", interface),
			     "0\n");
		machine_file(m, urxe_pci_path(path, dir, "net/%s/flags", interface), "0x1003\n");
		machine_file(m, urxe_pci_path(path, dir, "net/%s/carrier", interface), "1\n");
		machine_file(m, urxe_pci_path(path, "sys/class/net", "%s/x", interface), "x");
	}
	if (group)
		add_group(m, addr, group);
	if (native) {
		machine_file(m, urxe_pci_path(path, "sys/bus/pci/drivers", "%s/x", native), "x");
		attach(addr, native);
	}
}

const char *machine_driver(struct machine *m, const char *addr)
{
	static struct urxe_pci p;

	urxe_pci_inspect(&m->roots, addr, &p);
	return p.driver;
}
