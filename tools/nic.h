/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Private to urxe bind: the network cards of a machine, and how they change drivers. What is done
 * to the machine goes through struct nic_ops, so that a test has a machine of its own.
 */
#ifndef URXE_TOOL_NIC_H
#define URXE_TOOL_NIC_H

#include <stdbool.h>
#include <stddef.h>

#include "netio/pci.h"

struct nic_ops {
	/** write: @text into an existing file of the kernel's; 0 or errno. */
	int (*write)(const char *path, const char *text);
	/** load: a module by its name or alias; 0, or errno of whatever sort. */
	int (*load)(const char *module);
	/** set_up: a kernel interface up or down; 0 or errno. */
	int (*set_up)(const char *interface, bool up);
	/** settle: wait until udev has named what is new. */
	void (*settle)(void);
	/** tell: print a line for the user that is no error. */
	void (*tell)(const char *line);
};

struct nic_host {
	const struct urxe_pci_roots *roots;
	const struct nic_ops *ops;
	const char *pmds; /* folder of DPDK's drivers */
	bool root;	  /* we are */
};

/** nic_machine - the machine that we run on; lines are printed on stdout. */
struct nic_host nic_machine(void);

/* ---- what there is ---- */

/** Can urxe use it? */
enum nic_use {
	NIC_READY,    /* bound, or in need of no binding */
	NIC_BINDABLE, /* after urxe bind */
	NIC_BUSY,     /* a process has it */
	NIC_ROUTE,    /* carries the default route */
	NIC_NO_PMD,   /* DPDK has no driver */
	NIC_NUM_USES
};

/** nic_use_names - in the order of enum nic_use. */
extern const char *const nic_use_names[NIC_NUM_USES];

struct nic {
	struct urxe_pci pci;
	char name[128];	 /* vendor and device in words; "" unknown */
	char pmd[32];	 /* DPDK's driver; "" none */
	bool pmds_known; /* the drivers were there to be asked */
	bool route;
	pid_t holder;
	char holder_name[32];
	enum nic_use use;
	char remark[200]; /* why not, or what to do */
};

/** nic_look - all of that. 0 or ENODEV. */
int nic_look(const struct nic_host *h, const char *addr, struct nic *nic);

/** nic_default_route - the interface of @p that the default route (v4 or v6) goes through, itself
 * or through a bond, bridge or VLAN on it; NULL: none. */
const char *nic_default_route(const struct nic_host *h, const struct urxe_pci *p);

/* ---- what is done ---- */

struct nic_request {
	char *const *addrs; /* NULL at the end */
	const char *driver; /* NULL: what suits the card */
	bool force;
	long hugepages; /* wanted at the least; -1: as the driver needs */
};

/**
 * nic_bind - give cards to a driver that DPDK works with
 *
 * Checks all before it touches any. What is done already is printed and is success; a card whose
 * new driver does not take it goes back to its old one. Returns 0, or a positive errno and a line
 * in
 * @err.
 */
int nic_bind(const struct nic_host *h, const struct nic_request *req, char *err, size_t errlen);

/** nic_unbind - give cards back to the kernel. As nic_bind(). */
int nic_unbind(const struct nic_host *h, const struct nic_request *req, char *err, size_t errlen);

/** nic_list - print all network cards of the machine, as a table or as JSON; exit status. */
int nic_list(const struct nic_host *h, bool json);

#endif
