/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Access to memory that belongs to the application, which may have unmapped it, made it read-only
 * or truncated the file behind it: an error then, where memcpy() would be the end of the process.
 *
 * On x86-64 and aarch64 (guarded.S). Elsewhere these are memcpy() and the compiler's atomics.
 */
#ifndef URXE_GUARDED_H
#define URXE_GUARDED_H

#include <stddef.h>
#include <stdint.h>

#if (defined(__x86_64__) && defined(__LP64__)) || (defined(__aarch64__) && defined(__LP64__))
#define URXE_GUARDED 1
#endif

/**
 * urxe_guarded_start - have SIGSEGV and SIGBUS of the functions below caught in this process
 *
 * Call it before any of them touches memory that may go, and again when such memory is added: it
 * costs two system calls when there is nothing to do. Signals that are not ours go to whatever
 * handled them before, with the same siginfo, mask and stack. A handler that was installed over
 * ours since is passed over: ours stands in front of it afterwards. Thread-safe; no lock.
 *
 * A thread that blocks SIGSEGV or SIGBUS is killed by such an access: the kernel knows no other
 * way.
 */
void urxe_guarded_start(void);

/**
 * urxe_guarded_copy - memcpy()
 *
 * 0, or EFAULT: it cannot all be read or written; a part of it may have been.
 */
int urxe_guarded_copy(void *to, const void *from, size_t len);

/** urxe_guarded_fetch_add - add to an aligned word, atomically; 0 and what was there, or EFAULT. */
int urxe_guarded_fetch_add(uint64_t *word, uint64_t add, uint64_t *was);
/** urxe_guarded_compare_swap - @swap for @compare; 0 and what was there, swapped or not, or EFAULT.
 */
int urxe_guarded_compare_swap(uint64_t *word, uint64_t compare, uint64_t swap, uint64_t *was);
/** urxe_guarded_store - an aligned word at once, seq_cst; 0 or EFAULT. */
int urxe_guarded_store(uint64_t *word, uint64_t value);

#endif
