/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Private to urxed.
 */
#ifndef URXE_TOOL_URXED_H
#define URXE_TOOL_URXED_H

#include <stddef.h>

struct urxe_gate;
struct urxe_port_config;

/* ---- urxed_host.c ---- */

/**
 * urxed_host_addresses - the interface that a port names: its addresses, its MTU, the gateway
 *
 * For a port that has none configured. 0; ENOENT: it names no interface, or one without addresses.
 */
int urxed_host_addresses(struct urxe_port_config *cfg);
/**
 * urxed_host_hold - keep the kernel from saying that nobody has the UDP port of RoCEv2
 *
 * For links that take frames to the host's addresses past the kernel. 0, or errno and a line in
 * @err. Until the end of the process.
 */
int urxed_host_hold(char *err, size_t errlen);

/* ---- urxed_status.c ---- */

/** urxed_status_start - answer `urxe status` from now on. */
void urxed_status_start(struct urxe_gate *gate);
/** urxed_status_stop - no more: @gate is about to go. */
void urxed_status_stop(void);

#endif
