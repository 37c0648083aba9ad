/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * pcapng capture of a port, both directions, whatever its link is.
 */
#ifndef URXE_NETIO_CAPTURE_H
#define URXE_NETIO_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>

struct urxe_capture;

/**
 * urxe_capture_open - make the file @path and write its head; @name: of the device
 *
 * 0, or errno and a log line.
 */
int urxe_capture_open(struct urxe_capture **cap, const char *path, const char *name);

/** urxe_capture_write - append a frame; it is in the file when this returns. Thread-safe. */
void urxe_capture_write(struct urxe_capture *cap, const uint8_t *data, uint32_t len, bool tx);

/** urxe_capture_close - close the file; NULL is fine. */
void urxe_capture_close(struct urxe_capture *cap);

#endif
