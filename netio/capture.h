/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * pcapng capture of a DPDK port, both directions, by rte_pcapng. Needs EAL.
 */
#ifndef URXE_NETIO_CAPTURE_H
#define URXE_NETIO_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>

struct urxe_capture;

/**
 * urxe_capture_open - make the file, and memory for frames of up to @max_frame bytes
 *
 * Control thread, EAL up. Nothing is written before urxe_capture_start(). 0 or errno.
 */
int urxe_capture_open(struct urxe_capture **cap, const char *path, uint32_t max_frame);

/** urxe_capture_start - write the file's head; DPDK port @port must exist. Once, later calls do
 * nothing. Control thread. 0 or errno. */
int urxe_capture_start(struct urxe_capture *cap, uint16_t port);

/** urxe_capture_write - append a frame; it is in the file when this returns. Thread-safe. */
void urxe_capture_write(struct urxe_capture *cap, const uint8_t *data, uint32_t len, bool tx);

/** urxe_capture_close - close the file; NULL is fine. */
void urxe_capture_close(struct urxe_capture *cap);

#endif
