/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * For a test that forks children which end by exit(): what they have inherited of urxe's objects
 * they leave alone, so that LeakSanitizer has nothing to look for in them. To be included by one
 * file of the program.
 */
#ifndef URXE_TEST_FORK_LEAKS_H
#define URXE_TEST_FORK_LEAKS_H

#include <sys/types.h>
#include <unistd.h>

static pid_t fork_leaks_parent;

__attribute__((constructor)) static void fork_leaks_begin(void)
{
	fork_leaks_parent = getpid();
}

/* LeakSanitizer asks it (lsan_interface.h). */
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);

int __lsan_is_turned_off(void)
{
	return getpid() != fork_leaks_parent;
}

#endif
