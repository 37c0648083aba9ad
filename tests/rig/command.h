/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The built `urxe`, run by a test that it then asks.
 */
#ifndef URXE_TEST_COMMAND_H
#define URXE_TEST_COMMAND_H

#include <stddef.h>

/** urxe_command - run the built `urxe` with @args: its exit status, or -1; what it says, in @text.
 */
int urxe_command(const char *args, char *text, size_t size);

/**
 * status_dir - a folder of this program's own for `urxe status` and `urxe ip`
 *
 * To be called by a constructor: the first call makes it, and $URXE_STATUS_DIR name it. It goes at
 * exit.
 */
const char *status_dir(void);
/** status_path - where in it the socket of a process lies. */
void status_path(char *path, size_t len, int pid);

#endif
