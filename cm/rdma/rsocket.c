/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What librdmacm exports and urxe does not offer yet: rsockets. The symbols must be there:
 * programs that never call them import them. All descriptors being the kernel's, rpoll(),
 * rselect() and repoll_...() do what poll(), select() and epoll do.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <rdma/rsocket.h>

#include "cm/rdma/cma.h"

#define NOT_OFFERED(type, name, ...)        \
	URXE_CMA_API type name(__VA_ARGS__) \
	{                                   \
		errno = ENOSYS;             \
		return (type)-1;            \
	}

NOT_OFFERED(int, rsocket, int domain, int type, int protocol)
NOT_OFFERED(int, rbind, int fd, const struct sockaddr *addr, socklen_t len)
NOT_OFFERED(int, rlisten, int fd, int backlog)
NOT_OFFERED(int, raccept, int fd, struct sockaddr *addr, socklen_t *len)
NOT_OFFERED(int, rconnect, int fd, const struct sockaddr *addr, socklen_t len)
NOT_OFFERED(int, rshutdown, int fd, int how)
NOT_OFFERED(ssize_t, rrecv, int fd, void *buf, size_t len, int flags)
NOT_OFFERED(ssize_t, rrecvfrom, int fd, void *buf, size_t len, int flags, struct sockaddr *addr,
	    socklen_t *addrlen)
NOT_OFFERED(ssize_t, rrecvmsg, int fd, struct msghdr *msg, int flags)
NOT_OFFERED(ssize_t, rsend, int fd, const void *buf, size_t len, int flags)
NOT_OFFERED(ssize_t, rsendto, int fd, const void *buf, size_t len, int flags,
	    const struct sockaddr *addr, socklen_t addrlen)
NOT_OFFERED(ssize_t, rsendmsg, int fd, const struct msghdr *msg, int flags)
NOT_OFFERED(ssize_t, rread, int fd, void *buf, size_t len)
NOT_OFFERED(ssize_t, rreadv, int fd, const struct iovec *iov, int n)
NOT_OFFERED(ssize_t, rwrite, int fd, const void *buf, size_t len)
NOT_OFFERED(ssize_t, rwritev, int fd, const struct iovec *iov, int n)
NOT_OFFERED(int, rgetpeername, int fd, struct sockaddr *addr, socklen_t *len)
NOT_OFFERED(int, rgetsockname, int fd, struct sockaddr *addr, socklen_t *len)
NOT_OFFERED(int, rsetsockopt, int fd, int level, int name, const void *val, socklen_t len)
NOT_OFFERED(int, rgetsockopt, int fd, int level, int name, void *val, socklen_t *len)
NOT_OFFERED(int, rfcntl, int fd, int cmd, ...)
NOT_OFFERED(off_t, riomap, int fd, void *buf, size_t len, int prot, int flags, off_t offset)
NOT_OFFERED(int, riounmap, int fd, void *buf, size_t len)
NOT_OFFERED(size_t, riowrite, int fd, const void *buf, size_t len, off_t offset, int flags)

URXE_CMA_API int rpoll(struct pollfd *fds, nfds_t nfds, int timeout)
{
	return poll(fds, nfds, timeout);
}

URXE_CMA_API int rselect(int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds,
			 struct timeval *timeout)
{
	return select(nfds, readfds, writefds, exceptfds, timeout);
}

URXE_CMA_API int repoll_create(int flags)
{
	return epoll_create1(flags);
}

URXE_CMA_API int repoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	return epoll_ctl(epfd, op, fd, event);
}

URXE_CMA_API int repoll_wait(int epfd, struct epoll_event *events, int maxevents, int timeout)
{
	return epoll_wait(epfd, events, maxevents, timeout);
}

/* It closes what repoll_create() made, too, and that is all there is. */
URXE_CMA_API int rclose(int fd)
{
	char link[32], what[32] = "";

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	if (readlink(link, what, sizeof(what) - 1) > 0 && !strcmp(what, "anon_inode:[eventpoll]"))
		return close(fd);
	errno = ENOSYS;
	return -1;
}
