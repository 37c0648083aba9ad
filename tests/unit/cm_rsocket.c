/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* rsockets that are connected: bytes, ends, options, mapped memory. */
#include "rsocket_duo.h"

#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "descriptors.h"

/* ---- connections ---- */

static void connections(void)
{
	static const char *const hosts[] = {"10.0.0.1", "fd00::1"};

	for (unsigned i = 0; i < 2; i++) {
		struct sockaddr_storage at, a, b;
		socklen_t len = sizeof(a), blen = sizeof(b);
		struct duo d;
		char c;

		d.listener = rs_listener(hosts[i], &at);
		duo_connect(&d, rsocket(at.ss_family, SOCK_STREAM, 0), &at);
		WORKS(rgetpeername(d.client, (struct sockaddr *)&a, &len));
		CU_ASSERT_EQUAL(len, i ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
		CU_ASSERT_EQUAL(((struct sockaddr_in *)&a)->sin_port,
				((struct sockaddr_in *)&at)->sin_port);
		WORKS(rgetsockname(d.client, (struct sockaddr *)&a, &len));
		WORKS(rgetpeername(d.server, (struct sockaddr *)&b, &blen));
		CU_ASSERT_EQUAL(memcmp(&a, &b, len), 0);
		FAILS(rconnect(d.client, (struct sockaddr *)&at, sizeof(at)), EISCONN);
		FAILS(rconnect(d.listener, (struct sockaddr *)&at, sizeof(at)), EISCONN);
		FAILS(rlisten(d.client, 1), EINVAL);
		CU_ASSERT_EQUAL(rsend(d.client, "a", 1, 0), 1);
		CU_ASSERT_EQUAL(rrecv(d.server, &c, 1, 0), 1);
		CU_ASSERT_EQUAL(rwrite(d.server, "b", 1), 1);
		CU_ASSERT_EQUAL(rread(d.client, &c, 1), 1);
		CU_ASSERT_EQUAL(c, 'b');
		duo_close(&d);
	}
}

static void *accept_one(void *arg)
{
	struct duo *d = arg;

	d->server = raccept(d->listener, NULL, NULL);
	return NULL;
}

/* Calls that wait: rconnect(), raccept(), rrecv(). */
static void waiting(void)
{
	struct sockaddr_storage at;
	struct duo d;
	pthread_t t;

	d.listener = rs_listener("10.0.0.1", &at);
	CU_ASSERT_EQUAL(pthread_create(&t, NULL, accept_one, &d), 0);
	d.client = rsocket(AF_INET, SOCK_STREAM, IPPROTO_TCP);
	WORKS(rconnect(d.client, (struct sockaddr *)&at, sizeof(at)));
	pthread_join(t, NULL);
	CU_ASSERT_FATAL(d.server >= 0);
	duo_close(&d);
}

static void ends(void)
{
	struct duo d;
	char buf[8];

	duo_open(&d, "10.0.0.1");
	CU_ASSERT_EQUAL(rsend(d.client, "last", 4, 0), 4);
	WORKS(rshutdown(d.client, SHUT_WR));
	FAILS(rsend(d.client, "x", 1, 0), EPIPE);
	CU_ASSERT_EQUAL(rrecv(d.server, buf, sizeof(buf), 0), 4);
	CU_ASSERT_EQUAL(rrecv(d.server, buf, sizeof(buf), 0), 0);
	CU_ASSERT_EQUAL(rs_ready(d.server, POLLIN | POLLRDHUP), POLLIN | POLLRDHUP);
	/* The other way is open. */
	CU_ASSERT_EQUAL(rsend(d.server, "more", 4, 0), 4);
	CU_ASSERT_EQUAL(rrecv(d.client, buf, sizeof(buf), 0), 4);
	WORKS(rclose(d.server));
	CU_ASSERT_EQUAL(rrecv(d.client, buf, sizeof(buf), 0), 0);
	CU_ASSERT(rs_ready(d.client, POLLIN) & POLLHUP);
	FAILS(rsend(d.client, "x", 1, 0), EPIPE);
	WORKS(rshutdown(d.client, SHUT_RDWR));
	WORKS(rclose(d.client));
	WORKS(rclose(d.listener));
}

/* An SO_LINGER of 0 s says how to close, and not that the end may not be told. */
static void ends_without_linger(void)
{
	const struct linger none = {.l_onoff = 1, .l_linger = 0};
	static char buf[40000];
	struct duo d;

	duo_open(&d, "10.0.0.1");
	WORKS(rsetsockopt(d.client, SOL_SOCKET, SO_LINGER, &none, sizeof(none)));
	CU_ASSERT_EQUAL(rsend(d.client, buf, sizeof(buf), 0), sizeof(buf));
	WORKS(rshutdown(d.client, SHUT_WR));
	CU_ASSERT_EQUAL(rrecv(d.server, buf, sizeof(buf), MSG_WAITALL), sizeof(buf));
	CU_ASSERT_EQUAL(rrecv(d.server, buf, sizeof(buf), 0), 0);
	duo_close(&d);
}

/* What was sent before the end is there after it. */
static void sent_before_close(void)
{
	struct duo d;
	char buf[8];

	duo_open(&d, "10.0.0.1");
	CU_ASSERT_EQUAL(rsend(d.client, "abcdef", 6, 0), 6);
	WORKS(rclose(d.client));
	/* POLLHUP comes when all is read. */
	CU_ASSERT_EQUAL(rs_ready(d.server, POLLIN), POLLIN);
	CU_ASSERT_EQUAL(rrecv(d.server, buf, 4, 0), 4);
	CU_ASSERT_EQUAL(rs_ready(d.server, POLLIN), POLLIN);
	CU_ASSERT_EQUAL(rrecv(d.server, buf, 4, 0), 2);
	CU_ASSERT_EQUAL(rs_ready(d.server, POLLIN), POLLIN | POLLHUP);
	CU_ASSERT_EQUAL(rrecv(d.server, buf, 4, 0), 0);
	WORKS(rclose(d.server));
	WORKS(rclose(d.listener));
}

/* ---- bytes ---- */

#define BULK (3u << 20)

static uint8_t byte_at(size_t i)
{
	return (uint8_t)(i * 2654435761u >> 13);
}

static void *send_bulk(void *arg)
{
	uint8_t *buf = malloc(BULK);
	size_t at = 0, step = 1;

	for (size_t i = 0; i < BULK; i++)
		buf[i] = byte_at(i);
	while (at < BULK) {
		size_t len = BULK - at < step ? BULK - at : step;

		CU_ASSERT_EQUAL_FATAL(rsend(*(int *)arg, buf + at, len, 0), (ssize_t)len);
		at += len;
		step = step * 3 % 100003;
	}
	free(buf);
	return NULL;
}

static void receive_bulk(int fd)
{
	static uint8_t buf[70000];
	size_t at = 0, step = 7;

	while (at < BULK) {
		ssize_t n = rrecv(fd, buf, step, 0);

		CU_ASSERT_FATAL(n > 0);
		for (ssize_t i = 0; i < n; i++)
			CU_ASSERT_EQUAL_FATAL(buf[i], byte_at(at + (size_t)i));
		at += (size_t)n;
		step = step * 5 % sizeof(buf) + 1;
	}
}

static void set_int(int fd, int level, int name, int v)
{
	WORKS(rsetsockopt(fd, level, name, &v, sizeof(v)));
}

/* Small rings and few credits are used up, and go on. */
static void bulk(void)
{
	static const int rows[][4] = {{0, 0, 0, 0},
				      {4096, 4096, 16, 0},
				      {5000, 1 << 20, 64, 256},
				      {1 << 20, 4096, 16, 16}};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct sockaddr_storage at;
		struct duo d;
		pthread_t t;
		int c = rsocket(AF_INET, SOCK_STREAM, 0);

		d.listener = rs_listener("10.0.0.1", &at);
		for (int k = 0; rows[i][0] && k < 2; k++) {
			int fd = k ? c : d.listener;

			set_int(fd, SOL_SOCKET, SO_SNDBUF, rows[i][0]);
			set_int(fd, SOL_SOCKET, SO_RCVBUF, rows[i][1]);
			set_int(fd, SOL_RDMA, RDMA_SQSIZE, rows[i][2]);
			set_int(fd, SOL_RDMA, RDMA_RQSIZE, rows[i][2]);
			set_int(fd, SOL_RDMA, RDMA_INLINE, rows[i][3]);
		}
		duo_connect(&d, c, &at);
		CU_ASSERT_EQUAL(pthread_create(&t, NULL, send_bulk, &d.client), 0);
		receive_bulk(d.server);
		pthread_join(t, NULL);
		CU_ASSERT_EQUAL(pthread_create(&t, NULL, send_bulk, &d.server), 0);
		receive_bulk(d.client);
		pthread_join(t, NULL);
		duo_close(&d);
	}
}

/* Nobody reads: it is full after a while, with nothing lost, and writable when there is room. */
static void full(void)
{
	static char buf[1000];
	struct pollfd p = {.events = POLLOUT};
	size_t sent = 0, got = 0;
	struct duo d;
	ssize_t n;

	duo_open(&d, "10.0.0.1");
	p.fd = d.client;
	while ((n = rsend(d.client, buf, sizeof(buf), MSG_DONTWAIT)) > 0 || rpoll(&p, 1, 50) > 0)
		sent += n > 0 ? (size_t)n : 0;
	CU_ASSERT_EQUAL(n, -1);
	CU_ASSERT(sent >= 64u << 10); /* half of the ring: the peer makes no call */
	while (got < sent)
		got += (size_t)rrecv(d.server, buf, sizeof(buf), 0);
	CU_ASSERT_EQUAL(got, sent);
	FAILS(rrecv(d.server, buf, 1, MSG_DONTWAIT), EAGAIN);
	CU_ASSERT_EQUAL(rs_ready(d.client, POLLOUT), POLLOUT);
	duo_close(&d);
}

static void vectors(void)
{
	char a[3], b[5];
	struct iovec in[] = {{a, 3}, {NULL, 0}, {b, 5}};
	struct iovec out[] = {{"ab", 2}, {NULL, 0}, {"cdefgh", 6}};
	struct msghdr msg = {.msg_iov = out, .msg_iovlen = 3};
	struct iovec huge[] = {{a, SIZE_MAX / 2}, {a, SIZE_MAX / 2}};
	struct duo d;

	duo_open(&d, "10.0.0.1");
	CU_ASSERT_EQUAL(rwritev(d.client, out, 3), 8);
	CU_ASSERT_EQUAL(rrecv(d.server, b, 5, MSG_PEEK | MSG_WAITALL), 5);
	CU_ASSERT_EQUAL(rreadv(d.server, in, 3), 8);
	CU_ASSERT_EQUAL(memcmp(a, "abc", 3), 0);
	CU_ASSERT_EQUAL(memcmp(b, "defgh", 5), 0);
	CU_ASSERT_EQUAL(rsendmsg(d.client, &msg, 0), 8);
	msg.msg_iov = in;
	CU_ASSERT_EQUAL(rrecvmsg(d.server, &msg, MSG_WAITALL), 8);
	FAILS(rwritev(d.client, huge, 2), EINVAL);
	FAILS(rwritev(d.client, out, -1), EINVAL);
	FAILS(rreadv(d.client, in, -1), EINVAL);
	FAILS(rsendmsg(d.client, NULL, 0), EFAULT);
	FAILS(rrecvmsg(d.client, NULL, 0), EFAULT);
	FAILS(rsend(d.client, a, 1, MSG_OOB), EOPNOTSUPP);
	FAILS(rrecv(d.client, a, 1, MSG_OOB), EOPNOTSUPP);
	CU_ASSERT_EQUAL(rsend(d.client, a, 0, 0), 0);
	CU_ASSERT_EQUAL(rrecv(d.server, a, 0, 0), 0);
	CU_ASSERT_EQUAL(rsendto(d.client, "xy", 2, 0, NULL, 0), 2);
	CU_ASSERT_EQUAL(rrecvfrom(d.server, a, 3, 0, NULL, NULL), 2);
	duo_close(&d);
}

/* ---- options ---- */

static int get_int(int fd, int level, int name)
{
	socklen_t len = sizeof(int);
	int v = -1;

	WORKS(rgetsockopt(fd, level, name, &v, &len));
	return v;
}

static void options(void)
{
	static const int rows[][4] = {
		/* level, name, set, is */
		{SOL_SOCKET, SO_REUSEADDR, 7, 1},     {SOL_SOCKET, SO_KEEPALIVE, 1, 1},
		{SOL_SOCKET, SO_OOBINLINE, 1, 1},     {SOL_SOCKET, SO_RCVBUF, 65536, 65536},
		{SOL_SOCKET, SO_SNDBUF, 1, 4096},     {SOL_SOCKET, SO_SNDBUF, -1, 4096},
		{IPPROTO_TCP, TCP_NODELAY, 1, 1},     {IPPROTO_TCP, TCP_KEEPIDLE, 30, 30},
		{IPPROTO_IPV6, IPV6_V6ONLY, 1, 1},    {SOL_RDMA, RDMA_SQSIZE, 100, 100},
		{SOL_RDMA, RDMA_RQSIZE, 1, 16},	      {SOL_RDMA, RDMA_INLINE, 0, 0},
		{SOL_RDMA, RDMA_IOMAPSIZE, 200, 128},
	};
	int fd = rsocket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), v = 1;
	struct timeval tv = {1, 500000};
	struct linger linger = {1, 2};
	struct tcp_info info;
	socklen_t len = sizeof(tv);
	struct duo d;

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		set_int(fd, rows[i][0], rows[i][1], rows[i][2]);
		CU_ASSERT_EQUAL(get_int(fd, rows[i][0], rows[i][1]), rows[i][3]);
	}
	CU_ASSERT_EQUAL(get_int(fd, SOL_SOCKET, SO_TYPE), SOCK_STREAM);
	CU_ASSERT_EQUAL(get_int(fd, SOL_SOCKET, SO_DOMAIN), AF_INET6);
	CU_ASSERT_EQUAL(rfcntl(fd, F_GETFL), O_RDWR | O_NONBLOCK);
	CU_ASSERT_EQUAL(rfcntl(fd, F_GETFD), FD_CLOEXEC);
	FAILS(rfcntl(fd, F_DUPFD, 0L), EINVAL);
	WORKS(rsetsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
	memset(&tv, 0, sizeof(tv));
	WORKS(rgetsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, &len));
	CU_ASSERT(tv.tv_sec == 1 && tv.tv_usec == 500000);
	tv.tv_usec = 1000000;
	FAILS(rsetsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)), EDOM);
	WORKS(rsetsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)));
	FAILS(rsetsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, 4), EINVAL);
	FAILS(rsetsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &v, 1), EINVAL);
	FAILS(rsetsockopt(fd, SOL_SOCKET, SO_REUSEADDR, NULL, 4), EFAULT);
	FAILS(rsetsockopt(fd, SOL_SOCKET, 9999, &v, sizeof(v)), ENOPROTOOPT);
	FAILS(rsetsockopt(fd, SOL_SOCKET, SO_ERROR, &v, sizeof(v)), ENOPROTOOPT);
	FAILS(rgetsockopt(fd, 9999, 1, &v, &len), ENOPROTOOPT);
	FAILS(rgetsockopt(fd, SOL_SOCKET, SO_ERROR, NULL, &len), EFAULT);
	WORKS(rclose(fd));

	duo_open(&d, "10.0.0.1");
	CU_ASSERT_EQUAL(get_int(d.listener, SOL_SOCKET, SO_ACCEPTCONN), 1);
	CU_ASSERT_EQUAL(get_int(d.client, SOL_SOCKET, SO_ACCEPTCONN), 0);
	CU_ASSERT(get_int(d.client, IPPROTO_TCP, TCP_MAXSEG) >= 1024);
	len = sizeof(info);
	WORKS(rgetsockopt(d.client, IPPROTO_TCP, TCP_INFO, &info, &len));
	CU_ASSERT_EQUAL(info.tcpi_state, TCP_ESTABLISHED);
	CU_ASSERT_EQUAL(info.tcpi_retransmits, 0);
	CU_ASSERT(info.tcpi_snd_mss >= 1024);
	FAILS(rsetsockopt(d.client, IPPROTO_TCP, TCP_INFO, &info, len), ENOPROTOOPT);
	set_int(d.client, SOL_SOCKET, SO_SNDBUF, 8192); /* taken, and of no use any more */
	CU_ASSERT_EQUAL(get_int(d.client, SOL_SOCKET, SO_SNDBUF), 128 << 10);
	FAILS(rsetsockopt(d.client, SOL_RDMA, RDMA_SQSIZE, &v, sizeof(v)), EINVAL);
	duo_close(&d);
}

/* A call that waits does so no longer than was said. */
static void timeouts(void)
{
	struct timeval tv = {0, 20000};
	struct duo d;
	char c;

	duo_open(&d, "10.0.0.1");
	WORKS(rsetsockopt(d.client, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
	FAILS(rrecv(d.client, &c, 1, 0), EAGAIN);
	WORKS(rsetsockopt(d.listener, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
	FAILS(raccept(d.listener, NULL, NULL), EAGAIN);
	duo_close(&d);
}

/* ---- mapped memory ---- */

static void mapped(void)
{
	static char mem[2][8192] __attribute__((aligned(4096)));
	struct sockaddr_storage at;
	struct duo d;
	char c;

	d.listener = rs_listener("10.0.0.1", &at);
	d.client = rsocket(AF_INET, SOCK_STREAM, 0);
	set_int(d.client, SOL_RDMA, RDMA_IOMAPSIZE, 2);
	FAILS(riomap(d.client, mem[0], 4096, PROT_WRITE, 0, 0), ENOTCONN);
	duo_connect(&d, d.client, &at);
	memset(mem[0], 'a', sizeof(mem[0]));
	memset(mem[1], 'b', sizeof(mem[1]));
	FAILS(riomap(d.client, mem[0], 4096, PROT_WRITE, 0, 0), ENOBUFS); /* the server has none */
	CU_ASSERT_EQUAL(riomap(d.server, mem[0], 8192, PROT_WRITE, 0, 0x100000), 0x100000);
	CU_ASSERT_EQUAL(riomap(d.server, mem[1], 8192, PROT_WRITE, 0, -1),
			(off_t)(uintptr_t)mem[1]);
	FAILS(riomap(d.server, mem[1], 8192, PROT_WRITE, 0, 0), ENOBUFS);
	FAILS(riomap(d.server, NULL, 8192, PROT_WRITE, 0, 0), EINVAL);
	FAILS(riomap(d.server, mem[0], 8192, PROT_READ, 0, 0), EINVAL);
	CU_ASSERT_EQUAL(rsend(d.server, "m", 1, 0), 1);
	CU_ASSERT_EQUAL(rrecv(d.client, &c, 1, 0), 1);
	CU_ASSERT_EQUAL(riowrite(d.client, "hello", 5, 0x100ffe, 0), 5);
	CU_ASSERT_EQUAL(riowrite(d.client, "world", 5, (off_t)(uintptr_t)mem[1] + 8187, 0), 5);
	FAILS((ssize_t)riowrite(d.client, "x", 1, 0x102000, 0), EINVAL);
	FAILS((ssize_t)riowrite(d.client, "x", 1, -1, 0), EINVAL);
	CU_ASSERT_EQUAL(rsend(d.client, "n", 1, 0), 1);
	CU_ASSERT_EQUAL(rrecv(d.server, &c, 1, 0), 1);
	CU_ASSERT_EQUAL(memcmp(mem[0] + 0xffe, "helloa", 6), 0);
	CU_ASSERT_EQUAL(memcmp(mem[1] + 8186, "bworld", 6), 0);
	WORKS(riounmap(d.server, mem[0], 8192));
	FAILS(riounmap(d.server, mem[0], 8192), EINVAL);
	CU_ASSERT_EQUAL(rsend(d.server, "m", 1, 0), 1);
	CU_ASSERT_EQUAL(rrecv(d.client, &c, 1, 0), 1);
	FAILS((ssize_t)riowrite(d.client, "x", 1, 0x100000, 0), EINVAL);
	/* Its place is free again; memory for ourselves needs none. */
	CU_ASSERT_EQUAL(riomap(d.server, mem[0], 8192, PROT_WRITE, 0, 0), 0);
	CU_ASSERT_EQUAL(riomap(d.server, mem[0], 100, PROT_NONE, 0, 0), 0);
	WORKS(riounmap(d.server, mem[0], 100));
	duo_close(&d);
}

/* ---- errors ---- */

static void refused(void)
{
	struct sockaddr_storage at;
	int fd = rsocket(AF_INET, SOCK_STREAM, 0), l = rs_listener("10.0.0.1", &at), other;
	socklen_t len = sizeof(at);
	char c;

	WORKS(rclose(l));
	FAILS(rconnect(fd, (struct sockaddr *)&at, len), ECONNREFUSED);
	FAILS(rconnect(fd, (struct sockaddr *)&at, len), ECONNABORTED);
	CU_ASSERT(rs_ready(fd, POLLOUT) & POLLERR);
	FAILS(rgetpeername(fd, (struct sockaddr *)&at, &len), ENOTCONN);
	WORKS(rclose(fd));
	FAILS(rclose(fd), EBADF);
	FAILS(rsend(fd, "x", 1, 0), EBADF);
	FAILS(rrecv(fd, &c, 1, 0), EBADF);
	FAILS(rlisten(fd, 1), EBADF);
	FAILS(raccept(fd, NULL, NULL), EBADF);
	FAILS(rsocket(AF_UNIX, SOCK_STREAM, 0), EAFNOSUPPORT);
	FAILS(rsocket(AF_INET, SOCK_RAW, 0), ESOCKTNOSUPPORT);
	FAILS(rsocket(AF_INET, SOCK_STREAM, IPPROTO_UDP), EPROTONOSUPPORT);
	l = rs_listener("10.0.0.1", &at);
	fd = rsocket(AF_INET, SOCK_STREAM, 0);
	other = rsocket(AF_INET6, SOCK_STREAM, 0);
	FAILS(rbind(fd, (struct sockaddr *)&at, sizeof(at)), EADDRINUSE);
	FAILS(rbind(other, (struct sockaddr *)&at, sizeof(at)), EAFNOSUPPORT);
	FAILS(rbind(fd, (struct sockaddr *)&at, 4), EINVAL);
	FAILS(rbind(fd, NULL, 4), EFAULT);
	FAILS(rconnect(fd, NULL, 4), EFAULT);
	FAILS(rsend(fd, "x", 1, 0), ENOTCONN);
	FAILS(rrecv(fd, &c, 1, 0), ENOTCONN);
	FAILS(rshutdown(fd, SHUT_WR), ENOTCONN);
	FAILS(rshutdown(fd, 9), EINVAL);
	WORKS(rclose(fd));
	WORKS(rclose(other));
	WORKS(rclose(l));
}

static void *closer(void *arg)
{
	struct pollfd p = {.fd = -1};

	/* Until the other thread sleeps, most likely; it must end in any case. */
	rpoll(&p, 0, 20);
	WORKS(rclose(*(int *)arg));
	return NULL;
}

/* A thread that waits for a socket that is closed waits no longer. */
static void closed_under_a_reader(void)
{
	struct duo d;
	pthread_t t;
	char c;

	duo_open(&d, "10.0.0.1");
	CU_ASSERT_EQUAL(pthread_create(&t, NULL, closer, &d.client), 0);
	CU_ASSERT(rrecv(d.client, &c, 1, 0) <= 0); /* the end, or EBADF */
	pthread_join(t, NULL);
	CU_ASSERT_EQUAL(pthread_create(&t, NULL, closer, &d.listener), 0);
	FAILS(raccept(d.listener, NULL, NULL), EBADF);
	pthread_join(t, NULL);
	WORKS(rclose(d.server));
}

static void *acceptor(void *fd)
{
	FAILS(raccept(*(int *)fd, NULL, NULL), EINVAL);
	return NULL;
}

static void refused_now(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLOUT};

	CU_ASSERT_EQUAL(rpoll(&p, 1, 10000), 1);
	CU_ASSERT_EQUAL(get_int(fd, SOL_SOCKET, SO_ERROR), ECONNREFUSED);
	WORKS(rclose(fd));
}

/* As with TCP, rshutdown() of a listener ends what waits for it; who asks then is refused. */
static void shut_under_an_acceptor(void)
{
	struct sockaddr_storage at;
	int l = rs_listener("10.0.0.1", &at), fd = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	int before = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	struct duo d = {.listener = l};
	pthread_t t;

	FAILS(rconnect(before, (struct sockaddr *)&at, sizeof(at)), EINPROGRESS);
	CU_ASSERT(rs_ready(l, POLLIN) & POLLIN);
	WORKS(rshutdown(l, SHUT_RDWR));
	refused_now(before);
	WORKS(rlisten(l, 2));
	CU_ASSERT_EQUAL(pthread_create(&t, NULL, acceptor, &l), 0);
	poll(NULL, 0, 20); /* until it sleeps, most likely; it must end in any case */
	WORKS(rshutdown(l, SHUT_WR));
	WORKS(rshutdown(l, SHUT_RD));
	pthread_join(t, NULL);
	CU_ASSERT(rs_ready(l, POLLIN) & POLLHUP);
	FAILS(rconnect(fd, (struct sockaddr *)&at, sizeof(at)), EINPROGRESS);
	refused_now(fd);
	WORKS(rlisten(l, 2));
	duo_connect(&d, rsocket(AF_INET, SOCK_STREAM, 0), &at);
	duo_close(&d);
}

static void *connector(void *fd)
{
	FAILS(rconnect(*(int *)fd, addr("10.0.0.77", 7), sizeof(struct sockaddr_in)), ECONNRESET);
	return NULL;
}

/* What it has now. */
static short look(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	rpoll(&p, 1, 0);
	return p.revents;
}

/* rshutdown() gives up what is under way, as TCP's; who has accepted it is told. */
static void shut_while_connecting(void)
{
	struct sockaddr_storage at;
	int fd = rsocket(AF_INET, SOCK_STREAM, 0), l = rs_listener("10.0.0.1", &at), server;
	pthread_t t;
	char c;

	CU_ASSERT_EQUAL(pthread_create(&t, NULL, connector, &fd), 0);
	while (look(fd) & POLLHUP)
		sched_yield(); /* it has not begun */
	WORKS(rshutdown(fd, SHUT_WR));
	pthread_join(t, NULL);
	WORKS(rclose(fd));
	fd = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	FAILS(rconnect(fd, (struct sockaddr *)&at, sizeof(at)), EINPROGRESS);
	while (!look(l))
		look(fd);
	WORKS(rshutdown(fd, SHUT_RDWR));
	CU_ASSERT_EQUAL(get_int(fd, SOL_SOCKET, SO_ERROR), ECONNRESET);
	server = raccept(l, NULL, NULL);
	CU_ASSERT_FATAL(server >= 0);
	while (!look(server))
		look(fd);
	CU_ASSERT(rrecv(server, &c, 1, 0) <= 0);
	WORKS(rclose(server));
	WORKS(rclose(fd));
	WORKS(rclose(l));
}

#define MANY 4000

static void *send_and_close(void *fd)
{
	for (unsigned i = 0; i < MANY; i++)
		CU_ASSERT_EQUAL(rsend(*(int *)fd, "x", 1, 0), 1);
	WORKS(rclose(*(int *)fd));
	return NULL;
}

/* What has come before the end is there, though it is more than one look takes in. */
static void much_before_the_end(void)
{
	struct duo d = {.listener = rsocket(AF_INET, SOCK_STREAM, 0)};
	int client = rsocket(AF_INET, SOCK_STREAM, 0), size = 2 * MANY;
	struct sockaddr_storage at;
	static char buf[MANY];
	pthread_t t;

	WORKS(rsetsockopt(d.listener, SOL_RDMA, RDMA_RQSIZE, &size, sizeof(size)));
	WORKS(rsetsockopt(client, SOL_RDMA, RDMA_SQSIZE, &size, sizeof(size)));
	rs_listen(d.listener, "10.0.0.1", 2, &at);
	duo_connect(&d, client, &at);
	CU_ASSERT_EQUAL(pthread_create(&t, NULL, send_and_close, &d.client), 0);
	pthread_join(t, NULL);
	CU_ASSERT_EQUAL(rrecv(d.server, buf, MANY, MSG_WAITALL), MANY);
	WORKS(rclose(d.server));
	WORKS(rclose(d.listener));
}

/* A child that closes what it has inherited, and ends, leaves its parent's connection alone. */
static void forked(void)
{
	struct duo d;
	int status = -1;
	pid_t child;
	char c;

	duo_open(&d, "10.0.0.1");
	fflush(NULL);
	child = fork();
	if (!child) {
		rclose(d.client);
		rclose(d.server);
		rclose(d.listener);
		_exit(0);
	}
	CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
	CU_ASSERT_EQUAL(status, 0);
	CU_ASSERT_EQUAL(rsend(d.client, "x", 1, 0), 1);
	CU_ASSERT_EQUAL(rrecv(d.server, &c, 1, 0), 1);
	duo_close(&d);
}

struct busy {
	int fd;
	atomic_bool enough;
};

static void *look_all_the_time(void *arg)
{
	struct busy *b = arg;
	struct pollfd p = {.fd = b->fd, .events = POLLIN};

	while (!atomic_load(&b->enough))
		rpoll(&p, 1, 0);
	return NULL;
}

/* A child is not held up by locks of its parent's threads, which it has not. */
static void forked_in_a_call(void)
{
	struct busy b = {0};
	struct duo d;
	pthread_t t;
	char c;

	duo_open(&d, "10.0.0.1");
	b.fd = d.client;
	CU_ASSERT_EQUAL(pthread_create(&t, NULL, look_all_the_time, &b), 0);
	fflush(NULL);
	for (unsigned i = 0; i < 20; i++) {
		int status = -1;
		pid_t child = fork();

		if (!child) {
			alarm(10);
			rclose(d.client);
			rclose(d.server);
			rclose(d.listener);
			_exit(0);
		}
		CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
		CU_ASSERT_EQUAL_FATAL(status, 0);
	}
	atomic_store(&b.enough, true);
	pthread_join(t, NULL);
	CU_ASSERT_EQUAL(rsend(d.client, "x", 1, 0), 1);
	CU_ASSERT_EQUAL(rrecv(d.server, &c, 1, 0), 1);
	duo_close(&d);
}

/* More requests than the backlog: those that are accepted make room for the others. */
static void backlog(void)
{
	struct pollfd p[7] = {0};
	struct sockaddr_storage at;
	unsigned accepted = 0;
	int got[6];

	p[6] = (struct pollfd){.fd = rs_listener("10.0.0.1", &at), .events = POLLIN};
	WORKS(rfcntl(p[6].fd, F_SETFL, O_NONBLOCK));
	for (unsigned i = 0; i < 6; i++) {
		p[i] = (struct pollfd){.fd = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0),
				       .events = POLLOUT};
		FAILS(rconnect(p[i].fd, (struct sockaddr *)&at, sizeof(at)), EINPROGRESS);
	}
	while (accepted < 6) {
		CU_ASSERT_FATAL(rpoll(p, 7, 20000) > 0);
		got[accepted] = raccept(p[6].fd, NULL, NULL);
		for (unsigned i = 0; i < 6; i++) {
			CU_ASSERT_EQUAL(p[i].revents & POLLERR, 0);
			p[i].events = p[i].revents & POLLOUT ? 0 : p[i].events;
		}
		accepted += got[accepted] >= 0;
	}
	for (unsigned i = 0; i < 6; i++) {
		WORKS(rclose(p[i].fd));
		WORKS(rclose(got[i]));
	}
	WORKS(rclose(p[6].fd));
}

static void nothing_stays(void)
{
	unsigned before = 0;

	for (unsigned i = 0; i < 4; i++) {
		struct sockaddr_storage at;
		struct duo d;
		int waits;

		duo_open(&d, "10.0.0.1");
		duo_close(&d);
		/* One that nobody has accepted goes with its listener. */
		d.listener = rs_listener("10.0.0.1", &at);
		waits = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		FAILS(rconnect(waits, (struct sockaddr *)&at, sizeof(at)), EINPROGRESS);
		CU_ASSERT_EQUAL(rpoll((struct pollfd[]){{.fd = d.listener, .events = POLLIN},
							{.fd = waits, .events = POLLOUT}},
				      2, 10000),
				1);
		WORKS(rclose(d.listener));
		CU_ASSERT(rs_ready(waits, POLLOUT) & POLLERR);
		WORKS(rclose(waits));
		if (!i)
			before = descriptors();
	}
	CU_ASSERT_EQUAL(descriptors(), before);
}

URXE_TEST_MAIN("cm_rsocket", T(connections), T(waiting), T(ends), T(ends_without_linger),
	       T(sent_before_close), T(bulk), T(full), T(vectors), T(options), T(timeouts),
	       T(mapped), T(refused), T(closed_under_a_reader), T(shut_under_an_acceptor),
	       T(shut_while_connecting), T(much_before_the_end), T(forked), T(forked_in_a_call),
	       T(backlog), T(nothing_stays))
