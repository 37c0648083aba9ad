/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A machine for tests of urxe bind: a tree of sysfs, /proc, /dev and /run in a temporary folder,
 * and a kernel that does what is written to it.
 */
#ifndef URXE_TEST_PCI_MACHINE_H
#define URXE_TEST_PCI_MACHINE_H

#include <stdbool.h>
#include <stddef.h>

#include "nic.h"

struct machine {
	char dir[64];
	char sys[80], proc[80], dev[80], run[80], pmds[80];
	struct urxe_pci_roots roots;
	struct nic_host host;
};

/** What the kernel of the test does otherwise. */
struct machine_faults {
	const char *refuses;   /* a driver that takes no card */
	const char *no_module; /* a module that is not there */
	unsigned long memory;  /* hugepages that there is memory for */
	int vfio;	       /* errno of vfio_try */
};

extern struct machine_faults machine_faults;
extern char machine_told[4096];	  /* lines of tell */
extern char machine_loaded[1024]; /* modules, a space after each */

/** machine_make - one without cards; machine_remove - and its folder. */
void machine_make(struct machine *m);
void machine_remove(struct machine *m);

/** machine_file - a file with a line in it; @path is relative to the folder, and so are its
 * folders, which are made. */
void machine_file(struct machine *m, const char *path, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/** machine_link - a link that points to @target. */
void machine_link(struct machine *m, const char *path, const char *target);
/** machine_has - is there such a file? */
bool machine_has(struct machine *m, const char *path);

/** machine_card - a card @vendor:@device of @class_code, that the driver @native knows and has;
 * NULL: none. @interface: its interface, which is up; NULL: none. @group: its IOMMU group, or NULL.
 */
void machine_card(struct machine *m, const char *addr, const char *class_code, const char *native,
		  const char *interface, const char *group);

/** machine_driver - what the card is bound to; "" for nothing. */
const char *machine_driver(struct machine *m, const char *addr);

#endif
