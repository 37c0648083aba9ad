/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * free() that threads of ours can use. It may end in munmap(), madvise() or brk(), and libraries in
 * the process (libfabric, UCX) overwrite the code of these at run time to see each call. A thread
 * that is inside of one at that moment comes back into the middle of what was written over it. The
 * application's threads are the application's business: what ours free waits for one of them.
 */
#ifndef URXE_FREE_H
#define URXE_FREE_H

/**
 * urxe_free - as free(); on a thread of ours @block waits until one of the application's comes by
 * @block: of malloc(), of a pointer's size at least; or NULL
 */
void urxe_free(void *block);

/** urxe_free_rest - free what waits; nothing on a thread of ours. Any lock may be held. */
void urxe_free_rest(void);

#endif
