/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Memory of which most is never used. A first touch of a page takes 12 us in some virtual machines,
 * and calloc() touches all that it clears. What is as large as M_MMAP_THRESHOLD (mallopt(3)) it has
 * from the kernel, page by page as they are used.
 */
#ifndef URXE_SPARSE_H
#define URXE_SPARSE_H

#include <stdlib.h>

#define URXE_SPARSE	  (128u << 10) /* bytes, of address space */
#define URXE_SPARSE_LEAST (8u << 10)   /* less is not worth the system calls */

/** urxe_alloc_sparse - zeroed memory for @size bytes; free() ends it. NULL: there is none. */
static inline void *urxe_alloc_sparse(size_t size)
{
	return calloc(1, size < URXE_SPARSE_LEAST || size > URXE_SPARSE ? size : URXE_SPARSE);
}

#endif
