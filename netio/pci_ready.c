/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What keeps DPDK from a PCI device, in one line with the command that mends it. EAL
 * reports most of these as "no driver took it", or not at all.
 */
#include "netio/pci.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/vfio.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define CAP_IPC_LOCK 14 /* linux/capability.h */

struct why {
	char *line;
	size_t len;
};

__attribute__((format(printf, 3, 4))) static int fail(const struct why *w, int err, const char *fmt,
						      ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(w->line, w->len, fmt, ap);
	va_end(ap);
	return err;
}

/* ---- may we open it? ---- */

static int openable(const struct urxe_pci_roots *r, const struct urxe_pci *p, const char *node,
		    const struct why *w)
{
	char path[PATH_MAX];

	urxe_pci_path(path, r->dev, "%s", node);
	if (!faccessat(AT_FDCWD, path, R_OK | W_OK, AT_EACCESS))
		return 0;
	if (errno == ENOENT)
		return fail(w, ENODEV,
			    "%s is bound to %s, but there is no %s: in a container, start it with "
			    "'--device %s'",
			    p->addr, p->driver, path, path);
	if (p->kind == URXE_PCI_VFIO && !p->noiommu)
		return fail(w, EACCES, "no permission for %s: run 'chown %u %s' as root", path,
			    (unsigned)geteuid(), path);
	return fail(w, EACCES, "no permission for %s: %s is for root: run as root", path,
		    p->driver);
}

/* ---- VFIO (Documentation/driver-api/vfio.rst) ---- */

static int vfio_attach(int container, int group)
{
	struct vfio_group_status st = {.argsz = sizeof(st)};

	if (ioctl(group, VFIO_GROUP_GET_STATUS, &st))
		return errno;
	if (!(st.flags & VFIO_GROUP_FLAGS_VIABLE))
		return EXDEV;
	/* The container belongs to the group from here on, until both are closed. */
	if (ioctl(group, VFIO_GROUP_SET_CONTAINER, &container))
		return errno;
	return ioctl(container, VFIO_SET_IOMMU, VFIO_TYPE1_IOMMU) ? errno : 0;
}

static int vfio_try(const char *container, const char *group)
{
	int g = open(group, O_RDWR | O_CLOEXEC), c, err;

	if (g < 0)
		return errno;
	c = open(container, O_RDWR | O_CLOEXEC);
	err = c < 0 ? errno : vfio_attach(c, g);
	close(g);
	if (c >= 0)
		close(c);
	return err;
}

const struct urxe_pci_roots urxe_pci_machine = {
	.sys = "/sys",
	.proc = "/proc",
	.dev = "/dev",
	.run = "/run",
	.vfio_try = vfio_try,
};

static int vfio_error(const struct urxe_pci_roots *r, const struct urxe_pci *p, int err,
		      const struct why *w)
{
	char comm[32];
	pid_t pid;

	switch (err) {
	case EPERM:
		return fail(w, err,
			    "VFIO refuses %s, whose interrupts this machine cannot remap: where "
			    "all that run on it are trusted, run 'echo 1 > "
			    "%s/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts'",
			    p->addr, r->sys);
	case EBUSY:
		pid = urxe_pci_holder(r, p, comm, sizeof(comm));
		if (pid == getpid())
			return 0; /* another port of ours in the same group */
		if (pid)
			return fail(w, err, "%s is in use by process %d (%s): end it first",
				    p->addr, (int)pid, comm);
		return fail(w, err, "%s is in use by another process: run 'fuser -v %s/%s' as root",
			    p->addr, r->dev, p->node);
	case EXDEV:
		return fail(w, err,
			    "VFIO refuses %s until no device of IOMMU group %s has a driver of the "
			    "kernel's: run 'ls -l %s/kernel/iommu_groups/%s/devices/*/driver'",
			    p->addr, p->group, r->sys, p->group);
	case EINVAL:
	case ENODEV:
		return fail(w, err,
			    "VFIO has no driver for the IOMMU of %s: run 'modprobe "
			    "vfio_iommu_type1'",
			    p->addr);
	default:
		return fail(w, err, "VFIO refuses %s (%s): run 'dmesg | grep -i vfio'", p->addr,
			    strerror(err));
	}
}

int urxe_pci_vfio_check(const struct urxe_pci_roots *r, const struct urxe_pci *p, char *err,
			size_t errlen)
{
	struct why w = {err, errlen};
	char group[PATH_MAX], container[PATH_MAX];
	int ret;

	if (p->noiommu)
		return 0;
	ret = r->vfio_try(urxe_pci_path(container, r->dev, "vfio/vfio"),
			  urxe_pci_path(group, r->dev, "%s", p->node));
	return ret ? vfio_error(r, p, ret, &w) : 0;
}

/* The kernel counts what VFIO maps as locked memory, except for CAP_IPC_LOCK. */
static int may_lock(const struct urxe_pci_roots *r, const struct urxe_pci *p, unsigned mb,
		    const struct why *w)
{
	char path[PATH_MAX], line[256];
	unsigned long long caps = 0, limit = ~0ull;
	FILE *f = fopen(urxe_pci_path(path, r->proc, "self/status"), "re");

	while (f && fgets(line, sizeof(line), f) && sscanf(line, "CapEff: %llx", &caps) != 1)
		;
	if (f)
		fclose(f);
	if (caps >> CAP_IPC_LOCK & 1)
		return 0;
	f = fopen(urxe_pci_path(path, r->proc, "self/limits"), "re");
	/* "unlimited" is no number and leaves the limit as it is */
	while (f && fgets(line, sizeof(line), f) &&
	       sscanf(line, "Max locked memory %llu", &limit) != 1)
		;
	if (f)
		fclose(f);
	if (limit >> 20 >= mb)
		return 0;
	return fail(w, ENOMEM,
		    "%s needs more than %u MiB of locked memory, the limit is %llu: run 'ulimit -l "
		    "unlimited' (as root), or raise memlock in /etc/security/limits.conf",
		    p->addr, mb, limit >> 20);
}

/* ---- what needs physical addresses ---- */

/* The addresses of our memory come from /proc/self/pagemap, which shows them to root alone, and
 * stay true for hugepages alone (DPDK: --iova-mode=pa). */
static int physical_ready(const struct urxe_pci_roots *r, const struct urxe_pci *p,
			  const struct why *w)
{
	if (geteuid())
		return fail(w, EPERM,
			    "%s on %s is for root: run as root, or with an IOMMU 'urxe bind "
			    "--driver vfio-pci %s'",
			    p->addr, p->driver, p->addr);
	if (!urxe_pci_hugepages(r))
		return fail(w, ENOMEM,
			    "%s on %s needs hugepages: run 'echo 64 > %s/sys/vm/nr_hugepages'%s",
			    p->addr, p->driver, r->proc,
			    p->group[0] && !p->noiommu ? ", or bind it to vfio-pci" : "");
	return 0;
}

static int uio_ready(const struct urxe_pci_roots *r, const struct urxe_pci *p, const struct why *w)
{
	int ret = physical_ready(r, p, w);

	if (ret)
		return ret;
	if (p->translated)
		return fail(w, EIO,
			    "%s cannot reach memory on %s, as the IOMMU is on: run 'urxe bind "
			    "--driver vfio-pci %s'",
			    p->addr, p->driver, p->addr);
	return openable(r, p, p->node[0] ? p->node : "uio0", w);
}

/* Without hugepages such a card starts and works, until its other end overwrites pages that are not
 * the port's: see urxe_pci_is_virtio(). So it is refused. */
static int virtio_ready(const struct urxe_pci_roots *r, const struct urxe_pci *p,
			const struct why *w)
{
	if (!urxe_pci_is_virtio(p) || urxe_pci_hugepages(r))
		return 0;
	return fail(w, ENOMEM,
		    "%s is a card of virtio behind an IOMMU, and needs hugepages (see "
		    "urxe-ports(7)): run 'echo 64 > %s/sys/vm/nr_hugepages'",
		    p->addr, r->proc);
}

static int vfio_ready(const struct urxe_pci_roots *r, const struct urxe_pci *p, unsigned mb,
		      const struct why *w)
{
	char rest[160];
	int ret = p->noiommu ? physical_ready(r, p, w) : virtio_ready(r, p, w);

	if (ret)
		return ret;
	urxe_pci_group_rest(r, p, NULL, rest, sizeof(rest));
	if (rest[0])
		return fail(w, EBUSY,
			    "%s shares IOMMU group %s with %s, and VFIO takes whole groups: run "
			    "'urxe bind' for each of them",
			    p->addr, p->group, rest);
	ret = openable(r, p, "vfio/vfio", w);
	if (!ret)
		ret = openable(r, p, p->node, w);
	if (!ret && !p->noiommu)
		ret = may_lock(r, p, mb, w);
	return ret ? ret : urxe_pci_vfio_check(r, p, w->line, w->len);
}

int urxe_pci_ready(const struct urxe_pci_roots *r, const char *addr, unsigned memory_mb, char *err,
		   size_t errlen)
{
	struct why w = {err, errlen};
	struct urxe_pci p;

	if (urxe_pci_inspect(r, addr, &p))
		return fail(&w, ENODEV,
			    "there is no PCI device %s: run 'urxe bind --list' for those that are "
			    "there",
			    addr);
	switch (p.kind) {
	case URXE_PCI_VFIO:
		return vfio_ready(r, &p, memory_mb, &w);
	case URXE_PCI_UIO:
		return uio_ready(r, &p, &w);
	case URXE_PCI_SHARED:
		return 0;
	default:
		break;
	}
	if (!urxe_pci_is_nic(&p))
		return fail(&w, ENODEV,
			    "%s is no network card: run 'urxe bind --list' for those that are "
			    "there",
			    addr);
	if (p.kind == URXE_PCI_UNBOUND)
		return fail(&w, ENODEV, "%s is bound to no driver: run 'urxe bind %s'", addr, addr);
	return fail(&w, EBUSY, "%s is bound to the kernel driver %s: run 'urxe bind %s'", addr,
		    p.driver, addr);
}
