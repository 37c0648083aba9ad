/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * mmap(2) and its kin by the system calls alone, for what a thread of ours may do: libraries
 * overwrite the code of munmap(), madvise() and their friends at run time (urxe/free.h).
 */
#ifndef URXE_NETIO_SYSMAP_H
#define URXE_NETIO_SYSMAP_H

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/** urxe_sys_map - @len bytes of @fd (-1: of none), to read and to write. @flags: MAP_*. 0 or errno.
 */
static inline int urxe_sys_map(int fd, size_t len, int flags, void **mem)
{
	/* All of them long: of an int that goes by the stack only half is written. */
	const long args[] = {0, (long)len, PROT_READ | PROT_WRITE, flags, fd, 0};
#ifdef __s390x__
	long p = syscall(SYS_mmap, args); /* by memory */
#else
	long p = syscall(SYS_mmap, args[0], args[1], args[2], args[3], args[4], args[5]);
#endif

	if (p == -1)
		return errno;
	*mem = (void *)p; // NOLINT(performance-no-int-to-ptr): the system call's result
	return 0;
}

/** urxe_sys_unmap - @mem NULL: nothing. */
static inline void urxe_sys_unmap(void *mem, size_t len)
{
	if (mem)
		syscall(SYS_munmap, mem, len);
}

/** urxe_sys_advise - @advice: MADV_*; what the kernel does not know it leaves. */
static inline void urxe_sys_advise(void *mem, size_t len, int advice)
{
	syscall(SYS_madvise, mem, len, (long)advice);
}

#endif
