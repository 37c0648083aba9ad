/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A PCI device as the kernel shows it in sysfs, and what is to be done before DPDK can have it.
 * No DPDK. The command `urxe bind` and the link that is a DPDK port both ask here.
 *
 * All calls are thread-safe, read files, and keep nothing; strings of the kernel are cut to fit.
 */
#ifndef URXE_NETIO_PCI_H
#define URXE_NETIO_PCI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define URXE_PCI_MAX_NETS 4

/** Where the kernel's files are: a test has a tree of its own. */
struct urxe_pci_roots {
	const char *sys;  /* "/sys" */
	const char *proc; /* "/proc" */
	const char *dev;  /* "/dev" */
	const char *run;  /* "/run": what `urxe bind` remembers */
	/** vfio_try: would VFIO let us have this group? Opens the two files and closes them. 0, or
	 * errno: EPERM means that interrupts cannot be remapped, EBUSY that somebody has it, EXDEV
	 * that a driver of the kernel's has part of the group. */
	int (*vfio_try)(const char *container, const char *group);
};

/** urxe_pci_machine - the machine that we run on. */
extern const struct urxe_pci_roots urxe_pci_machine;

/** A kernel interface of a device. */
struct urxe_pci_net {
	char name[32];
	uint8_t mac[6];
	bool own_mac; /* @mac is the card's own, neither drawn nor set by somebody */
	bool up;      /* administratively */
	bool carrier;
};

/** What a driver means for us. */
enum urxe_pci_kind {
	URXE_PCI_UNBOUND,
	URXE_PCI_KERNEL, /* a driver of the kernel's, in the way */
	URXE_PCI_SHARED, /* a driver of the kernel's beside which DPDK's works (mlx5) */
	URXE_PCI_VFIO,
	URXE_PCI_UIO,
};

struct urxe_pci {
	char addr[32]; /* "0000:03:00.0" */
	uint32_t class_code;
	uint16_t vendor, device;
	char driver[32]; /* "" for none */
	enum urxe_pci_kind kind;
	struct urxe_pci_net nets[URXE_PCI_MAX_NETS];
	unsigned num_nets;
	char group[24];	 /* number of the IOMMU group, "" for none */
	bool noiommu;	 /* the group is VFIO's make-believe one: no IOMMU stands behind it */
	bool translated; /* the IOMMU translates what the kernel's drivers of the group do */
	char uio[24];	 /* "uio0", "" for none */
	char node[40];	 /* what a program opens below /dev: "vfio/12", "uio0"; "" for none */
};

/** urxe_pci_path - @root and the rest of a path in @buf of PATH_MAX bytes; returns @buf. */
char *urxe_pci_path(char *buf, const char *root, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/** urxe_pci_read - first line of a file, without the newline; false: it cannot be read. */
bool urxe_pci_read(const char *path, char *buf, size_t len);

/** urxe_pci_inspect - look at the device at @addr ("0000:03:00.0"). 0; ENODEV: there is none. */
int urxe_pci_inspect(const struct urxe_pci_roots *r, const char *addr, struct urxe_pci *p);

/** urxe_pci_is_nic - is its class one of network controllers (0x02)? */
bool urxe_pci_is_nic(const struct urxe_pci *p);

/** urxe_pci_each - @fn for each PCI device of the machine, in the order of addresses, until it
 * returns nonzero, which is returned. ENOENT: no PCI here. */
int urxe_pci_each(const struct urxe_pci_roots *r, int (*fn)(const char *addr, void *arg),
		  void *arg);

/**
 * urxe_pci_group_rest - the other devices of its IOMMU group that keep VFIO from it
 * @spare: addresses that do not count, NULL at the end; may be NULL
 * @list: "0000:03:00.1 (e1000e), ...", or ""
 *
 * VFIO takes a group whose devices are all unbound, bound to vfio-pci or pci-stub, or bridges.
 */
void urxe_pci_group_rest(const struct urxe_pci_roots *r, const struct urxe_pci *p,
			 char *const *spare, char *list, size_t len);

/** urxe_pci_holder - the process that has the device open, by VFIO or UIO, with the first bytes of
 * its name; 0: nobody that we may see. */
pid_t urxe_pci_holder(const struct urxe_pci_roots *r, const struct urxe_pci *p, char *comm,
		      size_t len);

/**
 * urxe_pci_is_virtio - a card of virtio (Virtio 1.2, 4.1.2): the other end reads our memory itself
 *
 * Behind an IOMMU that end asks for the addresses of our buffers, a page at a time. DPDK's vhost
 * (22.11 and later) takes the first page's for all of a buffer, and so reads, and writes, whatever
 * lies behind that page where the next one lies elsewhere. In hugepages no buffer has two.
 */
bool urxe_pci_is_virtio(const struct urxe_pci *p);

/** urxe_pci_hugepages - pages of the default size that the kernel has set aside. */
unsigned long urxe_pci_hugepages(const struct urxe_pci_roots *r);

/**
 * urxe_pci_mac - the card's own MAC, as far as one can tell before it is started
 *
 * It is that of its kernel interface, or of the one that `urxe bind` took away. False: unknown.
 */
bool urxe_pci_mac(const struct urxe_pci_roots *r, const char *addr, uint8_t mac[6]);

/**
 * urxe_pci_ready - can DPDK have this device now?
 * @memory_mb: MiB that DPDK will map for it, at the least
 *
 * Returns 0, or a positive errno and one line in @err that says what is in the way and names the
 * command that mends it. Opens the device for a moment (vfio_try).
 */
int urxe_pci_ready(const struct urxe_pci_roots *r, const char *addr, unsigned memory_mb, char *err,
		   size_t errlen);

/** urxe_pci_vfio_check - vfio_try for @p, which is bound to vfio-pci. As urxe_pci_ready(). */
int urxe_pci_vfio_check(const struct urxe_pci_roots *r, const struct urxe_pci *p, char *err,
			size_t errlen);

/* ---- what `urxe bind` remembers of a device until `urxe unbind` ---- */

struct urxe_pci_note {
	char driver[32];    /* of the kernel's, "" for none */
	char interface[32]; /* that it had, "" for none */
	bool up;	    /* the interface was up */
	bool has_mac;
	uint8_t mac[6];
};

/** urxe_pci_note_read - false: there is none, or it is not root's. */
bool urxe_pci_note_read(const struct urxe_pci_roots *r, const char *addr, struct urxe_pci_note *n);
/** urxe_pci_note_write - 0 or errno. */
int urxe_pci_note_write(const struct urxe_pci_roots *r, const char *addr,
			const struct urxe_pci_note *n);
/** urxe_pci_note_remove - nothing is remembered any more. */
void urxe_pci_note_remove(const struct urxe_pci_roots *r, const char *addr);

#endif
