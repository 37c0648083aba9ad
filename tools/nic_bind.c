/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A card changes its driver: all checks first, then module, hugepages, interface down,
 * driver_override, unbind, drivers_probe (Documentation/ABI/testing/sysfs-bus-pci of the kernel).
 */
#include "nic.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VFIO	  "vfio-pci"
#define UIO	  "uio_pci_generic"
#define HUGEPAGES 64 /* of 2 MiB each: the frames of some devices */

struct work {
	const struct nic_host *h;
	const struct nic_request *req;
	char *err;
	size_t errlen;
};

__attribute__((format(printf, 3, 4))) static int fail(const struct work *w, int err,
						      const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(w->err, w->errlen, fmt, ap);
	va_end(ap);
	return err;
}

__attribute__((format(printf, 2, 3))) static void tell(const struct work *w, const char *fmt, ...)
{
	char line[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	w->h->ops->tell(line);
}

/* ---- checks, which change nothing ---- */

static int look(const struct work *w, const char *addr, struct urxe_pci *p)
{
	char comm[32];
	pid_t pid;

	if (urxe_pci_inspect(w->h->roots, addr, p))
		return fail(w, ENODEV,
			    "there is no PCI device %s: run 'urxe bind --list' for those that are "
			    "there",
			    addr);
	if (!urxe_pci_is_nic(p))
		return fail(w, EINVAL,
			    "%s is no network card (class 0x%06x): run 'urxe bind --list' for "
			    "those that are there",
			    addr, (unsigned)p->class_code);
	if (!w->h->root)
		return fail(w, EPERM, "only root may change the driver of %s: run it as root",
			    addr);
	/* The kernel would wait in the unbind until that process ends. */
	pid = urxe_pci_holder(w->h->roots, p, comm, sizeof(comm));
	if (pid)
		return fail(w, EBUSY, "%s is in use by process %d (%s): end it first", addr,
			    (int)pid, comm);
	return 0;
}

/* Of what the kernel uses it for. */
static int check_traffic(const struct work *w, const struct urxe_pci *p)
{
	const char *interface = nic_default_route(w->h, p);

	if (w->req->force)
		return 0;
	if (interface)
		return fail(w, EBUSY,
			    "%s is %s, which carries the default route: 'urxe bind --force %s' "
			    "takes it all the same",
			    p->addr, interface, p->addr);
	if (p->kind == URXE_PCI_KERNEL && !p->num_nets)
		return fail(w, EBUSY,
			    "the interface of %s (%s) is not to be seen here, it may be in another "
			    "network namespace: 'urxe bind --force %s' takes it all the same",
			    p->addr, p->driver, p->addr);
	return 0;
}

static int check_vfio(const struct work *w, const struct urxe_pci *p)
{
	char rest[160], path[PATH_MAX], line[8];

	if (!p->group[0]) {
		if (urxe_pci_read(urxe_pci_path(path, w->h->roots->sys,
						"module/vfio/parameters/"
						"enable_unsafe_noiommu_mode"),
				  line, sizeof(line)) &&
		    line[0] == 'Y')
			return 0;
		return fail(w, ENOTSUP,
			    "%s has no IOMMU, which vfio-pci needs: switch it on (firmware; "
			    "intel_iommu=on on the kernel's command line), or run 'urxe bind "
			    "--driver uio_pci_generic %s'",
			    p->addr, p->addr);
	}
	urxe_pci_group_rest(w->h->roots, p, w->req->addrs, rest, sizeof(rest));
	if (rest[0] && !w->req->force)
		return fail(w, EBUSY,
			    "%s shares IOMMU group %s with %s, and VFIO takes whole groups: name "
			    "them all in one 'urxe bind'",
			    p->addr, p->group, rest);
	if (rest[0])
		tell(w, "%s: VFIO will refuse it until %s of IOMMU group %s lose their drivers",
		     p->addr, rest, p->group);
	return 0;
}

static int check_uio(const struct work *w, const struct urxe_pci *p)
{
	if (p->translated && !w->req->force)
		return fail(w, ENOTSUP,
			    "%s would reach no memory on " UIO ", as the IOMMU is on: run 'urxe "
			    "bind --driver " VFIO " %s'",
			    p->addr, p->addr);
	return 0;
}

/* Which driver is it to have? *@driver NULL: it has it. */
static int plan(const struct work *w, const char *addr, struct urxe_pci *p, const char **driver)
{
	const char *wanted = w->req->driver;
	int ret = urxe_pci_inspect(w->h->roots, addr, p);

	*driver = NULL;
	if (!ret && (p->kind == URXE_PCI_SHARED ||
		     (wanted ? !strcmp(p->driver, wanted)
			     : p->kind == URXE_PCI_VFIO || p->kind == URXE_PCI_UIO)))
		return 0;
	ret = look(w, addr, p);
	if (!ret)
		ret = check_traffic(w, p);
	if (ret)
		return ret;
	if (!wanted)
		wanted = p->group[0] && !p->noiommu ? VFIO : UIO;
	*driver = wanted;
	return strcmp(wanted, VFIO) != 0 ? check_uio(w, p) : check_vfio(w, p);
}

/* ---- the machine is made ready ---- */

static int load_driver(const struct work *w, const char *driver)
{
	char path[PATH_MAX];

	urxe_pci_path(path, w->h->roots->sys, "bus/pci/drivers/%s", driver);
	if (access(path, F_OK))
		w->h->ops->load(driver);
	if (access(path, F_OK))
		return fail(w, ENOENT,
			    "this kernel does not load %s: run 'modprobe %s' for the reason, or "
			    "take the other one by --driver",
			    driver, driver);
	/* Only a hint of VFIO's names it, which not every modprobe follows. */
	if (!strcmp(driver, VFIO))
		w->h->ops->load("vfio_iommu_type1");
	return 0;
}

/* Does a port on this card, with that driver, want them? @driver NULL: the one that it has. */
static bool wants_hugepages(const struct urxe_pci *p, const char *driver)
{
	if (!driver && p->kind != URXE_PCI_VFIO && p->kind != URXE_PCI_UIO)
		return false;
	/* Without an IOMMU a card has physical addresses, which are known of hugepages alone. */
	return !strcmp(driver ? driver : p->driver, UIO) || urxe_pci_is_virtio(p) || !p->group[0] ||
	       p->noiommu;
}

static int reserve_hugepages(const struct work *w, bool needed)
{
	unsigned long have = urxe_pci_hugepages(w->h->roots), got;
	long want = w->req->hugepages >= 0 ? w->req->hugepages : needed && !have ? HUGEPAGES : 0;
	char path[PATH_MAX], text[32];
	int ret;

	if (want <= 0 || have >= (unsigned long)want)
		return 0;
	urxe_pci_path(path, w->h->roots->proc, "sys/vm/nr_hugepages");
	snprintf(text, sizeof(text), "%ld", want);
	ret = w->h->ops->write(path, text);
	got = urxe_pci_hugepages(w->h->roots);
	if (got >= (unsigned long)want) {
		tell(w, "reserved %lu hugepages", got);
		return 0;
	}
	snprintf(text, sizeof(text), "%lu", have);
	if (!ret)
		w->h->ops->write(path, text); /* as it was; what is missing is the error */
	return fail(w, ret ? ret : ENOMEM,
		    "the kernel reserves %lu of %ld hugepages: ask for fewer by --hugepages, or "
		    "for all at boot by hugepages=%ld on its command line",
		    got, want, want);
}

/* ---- a card moves ---- */

static int write_device(const struct work *w, const char *addr, const char *file, const char *text)
{
	char path[PATH_MAX];

	return w->h->ops->write(
		urxe_pci_path(path, w->h->roots->sys, "bus/pci/devices/%s/%s", addr, file), text);
}

/* @driver NULL: whichever of the kernel's knows the card. Afterwards @p is as it is then. */
static int move(const struct work *w, struct urxe_pci *p, const char *driver)
{
	char path[PATH_MAX], addr[sizeof(p->addr)];
	int ret;

	memcpy(addr, p->addr, sizeof(addr));
	ret = write_device(w, addr, "driver_override", driver ? driver : "\n");
	if (!ret && p->driver[0])
		ret = write_device(w, addr, "driver/unbind", addr);
	if (!ret)
		ret = w->h->ops->write(
			urxe_pci_path(path, w->h->roots->sys, "bus/pci/drivers_probe"), addr);
	if (urxe_pci_inspect(w->h->roots, addr, p))
		return ENODEV;
	if (driver ? !strcmp(p->driver, driver) : p->kind == URXE_PCI_KERNEL)
		return 0;
	return ret ? ret : ENODEV;
}

static void interface_up(const struct work *w, const struct urxe_pci *p,
			 const struct urxe_pci_note *n, const char *how)
{
	struct urxe_pci now = *p;
	int ret;

	w->h->ops->settle();
	urxe_pci_inspect(w->h->roots, p->addr, &now);
	if (!now.num_nets) {
		tell(w, "%s: %s %s, without an interface", p->addr, how, now.driver);
		return;
	}
	if (!n->up && !now.nets[0].up) {
		tell(w, "%s: %s %s as %s, which is down: run 'ip link set %s up'", p->addr, how,
		     now.driver, now.nets[0].name, now.nets[0].name);
		return;
	}
	ret = now.nets[0].up ? 0 : w->h->ops->set_up(now.nets[0].name, true);
	tell(w, "%s: %s %s as %s, %s%s", p->addr, how, now.driver, now.nets[0].name,
	     ret ? "which does not come up: " : "up; its addresses are for you to set",
	     ret ? strerror(ret) : "");
}

static void note_card(const struct urxe_pci *p, struct urxe_pci_note *n)
{
	memset(n, 0, sizeof(*n));
	memcpy(n->driver, p->driver, sizeof(n->driver));
	if (!p->num_nets)
		return;
	memcpy(n->interface, p->nets[0].name, sizeof(n->interface));
	memcpy(n->mac, p->nets[0].mac, 6);
	n->has_mac = p->nets[0].own_mac;
	n->up = p->nets[0].up;
}

/* The new driver has not taken it. */
static int roll_back(const struct work *w, struct urxe_pci *p, const char *driver,
		     const struct urxe_pci *was, const struct urxe_pci_note *n, int err)
{
	bool ours = was->kind == URXE_PCI_VFIO || was->kind == URXE_PCI_UIO;
	int ret;

	if (!was->driver[0]) {
		write_device(w, p->addr, "driver_override", "\n");
		return fail(w, err, "%s does not take %s (%s): run 'dmesg | tail'", driver, p->addr,
			    strerror(err));
	}
	ret = move(w, p, ours ? was->driver : NULL);
	if (!ret && !ours) {
		urxe_pci_note_remove(w->h->roots, p->addr);
		interface_up(w, p, n, "given back to");
	}
	return fail(w, err, "%s does not take %s (%s), %s %s: run 'dmesg | tail'", driver, p->addr,
		    strerror(err), ret ? "and it is lost to" : "which is given back to",
		    was->driver);
}

static int bind_one(const struct work *w, struct urxe_pci *p, const char *driver)
{
	struct urxe_pci was = *p;
	struct urxe_pci_note n;
	int ret = 0;

	note_card(p, &n);
	for (unsigned i = 0; i < p->num_nets; i++) {
		ret = w->h->ops->set_up(p->nets[i].name, false);
		if (ret)
			return fail(w, ret, "%s: cannot take %s down: %s", p->addr, p->nets[i].name,
				    strerror(ret));
	}
	/* From one of ours to the other: what was noted holds. */
	if (p->kind == URXE_PCI_KERNEL)
		ret = urxe_pci_note_write(w->h->roots, p->addr, &n);
	if (ret)
		tell(w, "%s: what urxe unbind needs to know is not remembered: %s", p->addr,
		     strerror(ret));
	ret = move(w, p, driver);
	if (ret)
		return roll_back(w, p, driver, &was, &n, ret);
	tell(w, "%s: bound to %s%s%s", p->addr, driver, was.driver[0] ? ", was " : "", was.driver);
	return 0;
}

/* ---- bind ---- */

static unsigned count(char *const *addrs)
{
	unsigned n = 0;

	while (addrs[n])
		n++;
	return n;
}

static int plan_all(const struct work *w, unsigned n, struct urxe_pci *cards, const char **drivers)
{
	int ret = 0;

	for (unsigned i = 0; i < n && !ret; i++)
		ret = plan(w, w->req->addrs[i], &cards[i], &drivers[i]);
	return ret;
}

static int bind_all(const struct work *w, unsigned n, struct urxe_pci *cards, const char **drivers)
{
	bool needs_hugepages = false;
	char comm[32];
	int ret = 0;

	for (unsigned i = 0; i < n && !ret; i++) {
		needs_hugepages |= wants_hugepages(&cards[i], drivers[i]);
		if (drivers[i])
			ret = load_driver(w, drivers[i]);
	}
	if (!ret)
		ret = reserve_hugepages(w, needs_hugepages);
	for (unsigned i = 0; i < n && !ret; i++) {
		if (drivers[i])
			ret = bind_one(w, &cards[i], drivers[i]);
		else
			tell(w, "%s: is bound to %s already%s", cards[i].addr, cards[i].driver,
			     cards[i].kind == URXE_PCI_SHARED ? ", beside which DPDK works" : "");
	}
	/* It is bound, and stays so: what is missing is not the card's. */
	for (unsigned i = 0; i < n && !ret; i++) {
		if (cards[i].kind == URXE_PCI_VFIO &&
		    !urxe_pci_holder(w->h->roots, &cards[i], comm, sizeof(comm)))
			ret = urxe_pci_vfio_check(w->h->roots, &cards[i], w->err, w->errlen);
	}
	return ret;
}

int nic_bind(const struct nic_host *h, const struct nic_request *req, char *err, size_t errlen)
{
	struct work w = {h, req, err, errlen};
	unsigned n = count(req->addrs);
	struct urxe_pci *cards = calloc(n, sizeof(*cards));
	const char **drivers = calloc(n, sizeof(*drivers));
	int ret = ENOMEM;

	if (cards && drivers)
		ret = plan_all(&w, n, cards, drivers);
	else
		fail(&w, ENOMEM, "no memory");
	if (!ret)
		ret = bind_all(&w, n, cards, drivers);
	free(cards);
	free(drivers);
	return ret;
}

/* ---- unbind ---- */

static int unbind_one(const struct work *w, const char *addr)
{
	struct urxe_pci_note n;
	char path[PATH_MAX], alias[256];
	struct urxe_pci p;
	int ret = urxe_pci_inspect(w->h->roots, addr, &p);

	if (!ret && (p.kind == URXE_PCI_KERNEL || p.kind == URXE_PCI_SHARED)) {
		tell(w, "%s: is bound to %s already", addr, p.driver);
		return 0;
	}
	ret = look(w, addr, &p);
	if (ret)
		return ret;
	/* The driver may have been unloaded, or never have been loaded. */
	if (urxe_pci_note_read(w->h->roots, addr, &n) && n.driver[0])
		w->h->ops->load(n.driver);
	else if (urxe_pci_read(
			 urxe_pci_path(path, w->h->roots->sys, "bus/pci/devices/%s/modalias", addr),
			 alias, sizeof(alias)))
		w->h->ops->load(alias);
	ret = move(w, &p, NULL);
	if (ret)
		return fail(w, ret,
			    "no driver of the kernel's takes %s (%s): load its module, and run "
			    "'echo %s > %s/bus/pci/drivers_probe'",
			    addr, strerror(ret), addr, w->h->roots->sys);
	urxe_pci_note_remove(w->h->roots, addr);
	interface_up(w, &p, &n, "given back to");
	return 0;
}

int nic_unbind(const struct nic_host *h, const struct nic_request *req, char *err, size_t errlen)
{
	struct work w = {h, req, err, errlen};
	int ret = 0;

	for (char *const *a = req->addrs; *a && !ret; a++)
		ret = unbind_one(&w, *a);
	return ret;
}
