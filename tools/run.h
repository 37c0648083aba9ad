/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Private to urxe run, urxe shell and urxe env: how programs come to see devices.
 */
#ifndef URXE_TOOL_RUN_H
#define URXE_TOOL_RUN_H

#include <stdbool.h>

#include "netio/config.h"

/** One of these commands. */
struct tool_run_command {
	const char *usage;
	const char **format; /* --format goes here; NULL: it has no such option */
};

/** The options that they share, as help shows them. */
#define TOOL_RUN_OPTIONS                                                                           \
	"  --port PORT      DPDK device arguments, a PCI address, or loop\n"                       \
	"  --ip ADDR/LEN    address of the device, IPv4 or IPv6; repeatable\n"                     \
	"  --gw ADDR        gateway, one of each family\n"                                         \
	"  --mac MAC        MAC address\n"                                                         \
	"  --mtu N          RDMA path MTU (256..4096, a power of two), or bytes of IP packet\n"    \
	"  --vlan ID        VLAN of all frames\n"                                                  \
	"  --queues N       pairs of queues to use\n"                                              \
	"  --spin US        how long the service thread may look for frames without a pause\n"     \
	"  --trust-peer     take any user's process at the link's socket for the peer\n"           \
	"  --pcap FILE      capture all frames, pcapng\n"                                          \
	"  --drop RATE, --dup RATE, --reorder RATE, --corrupt RATE, --seed N\n"                    \
	"                   inject faults into RoCEv2 frames sent and received, rates from 0\n"    \
	"                   to 1; of one direction: --drop-rx, --drop-tx, --dup-rx, ...\n"         \
	"  --fault-every MS only in every second MS ms, to see what faults cost\n"                 \
	"  --cm-req-first MS, --cm-req-retries N, --cm-req-total MS, --cm-rep-total MS,\n"         \
	"  --cm-dreq-total MS, --cm-timewait MS, --cm-mra MS\n"                                    \
	"                   times of the connection manager, see urxe-cm(7)\n"                     \
	"  --patience S     seconds until a silent peer of a connection is given up, or off\n"     \
	"  --device NAME    the options that follow are for this device (default urxe0)\n"         \
	"  --config FILE    INI file with the same keys\n"                                         \
	"  --log LEVEL      none, err, warn, info, debug\n"                                        \
	"  --view WHEN      files of the devices in /sys and /dev: auto, preload, always, never\n" \
	"  --eal ARGS       more arguments for DPDK's EAL\n"                                       \
	"\n"                                                                                       \
	"A flag goes before the variable URXE_KEY, which goes before the file ($URXE_CONFIG).\n"

/**
 * tool_run_config - the configuration of a command line
 *
 * Options, variables, the file; each port is one that can be. 0 and the rest at argv[optind], or
 * the exit status and a line on stderr.
 */
int tool_run_config(int argc, char **argv, const struct tool_run_command *cmd,
		    struct urxe_config *cfg);

/** A variable that a program needs. */
struct tool_run_var {
	const char *name;
	char *value; /* of malloc() */
	bool path;   /* it goes in front of what the variable has, with a colon between */
};
#define TOOL_RUN_VARS 4

/** tool_run_vars - those of a configuration. 0, or the exit status and a line on stderr. */
int tool_run_vars(const struct urxe_config *cfg, struct tool_run_var vars[TOOL_RUN_VARS]);

#endif
