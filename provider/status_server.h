/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The socket at which a process is asked for its status, and the thread behind it. Private to
 * status.c.
 */
#ifndef URXE_PROVIDER_STATUS_SERVER_H
#define URXE_PROVIDER_STATUS_SERVER_H

#include <stdbool.h>

/**
 * urxe_status_server_start - be there for who asks, once a process
 * @live: called each second on the thread, without a lock; NULL: nothing is
 *
 * Failure is only logged, and not tried again. Thread-safe.
 */
void urxe_status_server_start(void (*live)(void));
/** urxe_status_server_hold - before fork(): nobody is let in, and no reply begun or ended. */
void urxe_status_server_hold(void);
/** urxe_status_server_release - after it; @child: there is no server here, one may be started. */
void urxe_status_server_release(bool child);

#endif
