/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The kernel's TCP over its loopback, to stand beside urxe: half of a round trip, blocking and
 * spinning, and the rate of writes. One process per end, cold buffers of 64 MiB.
 *
 *	tcp lat|spin|bw|udp [ROUNDS [SIZE]]	prints one number: us, us, Gb/s; udp: us, of
 *						datagrams, spinning
 *
 * SIZE: a power of two up to 4 MiB; by default 64 bytes to and fro, writes of 64 KiB.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define COLD (64u << 20)
#define MOST (4u << 20)

static size_t size;

static void need(int ok, const char *what)
{
	if (!ok) {
		perror(what);
		exit(1);
	}
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* All of @len, or exit; false at the end of the stream. */
static int get(int fd, uint8_t *buf, size_t len)
{
	ssize_t n;

	for (; len; buf += n, len -= (size_t)n) {
		n = recv(fd, buf, len, 0);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			n = 0;
		else if (n <= 0)
			return 0;
	}
	return 1;
}

static int put(int fd, const uint8_t *buf, size_t len)
{
	ssize_t n;

	for (; len; buf += n, len -= (size_t)n) {
		n = send(fd, buf, len, MSG_NOSIGNAL);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			n = 0;
		else if (n <= 0)
			return 0;
	}
	return 1;
}

/* Two connected TCP sockets over 127.0.0.1. */
static void pair(int fd[2])
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(a);
	int one = 1, l = socket(AF_INET, SOCK_STREAM, 0);

	need(l >= 0 && !bind(l, (struct sockaddr *)&a, len) && !listen(l, 1) &&
		     !getsockname(l, (struct sockaddr *)&a, &len),
	     "listen");
	fd[0] = socket(AF_INET, SOCK_STREAM, 0);
	need(fd[0] >= 0 && !connect(fd[0], (struct sockaddr *)&a, len), "connect");
	fd[1] = accept(l, NULL, NULL);
	need(fd[1] >= 0, "accept");
	close(l);
	for (int i = 0; i < 2; i++)
		setsockopt(fd[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

/* Two UDP sockets, each connected to the other. */
static void udp_pair(int fd[2])
{
	struct sockaddr_in a[2];
	socklen_t len = sizeof(a[0]);

	for (int i = 0; i < 2; i++) {
		a[i] = (struct sockaddr_in){.sin_family = AF_INET,
					    .sin_addr = {htonl(INADDR_LOOPBACK)}};
		fd[i] = socket(AF_INET, SOCK_DGRAM, 0);
		need(fd[i] >= 0 && !bind(fd[i], (struct sockaddr *)&a[i], len) &&
			     !getsockname(fd[i], (struct sockaddr *)&a[i], &len),
		     "bind");
	}
	for (int i = 0; i < 2; i++)
		need(!connect(fd[i], (struct sockaddr *)&a[1 - i], len), "connect");
}

/* The far end: echoes pings, or swallows chunks and confirms the last. */
static void far_end(int fd, int bw, uint64_t rounds, uint8_t *buf)
{
	if (!bw) {
		while (get(fd, buf, size) && put(fd, buf, size))
			;
		return;
	}
	for (uint64_t i = 0; i < rounds; i++) {
		if (!get(fd, buf + (i * size) % COLD, size))
			return;
	}
	put(fd, buf, 1);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	int bw = !strcmp(mode, "bw"), udp = !strcmp(mode, "udp"), fd[2], status = 0;
	int spin = udp || !strcmp(mode, "spin");
	uint64_t rounds = argc > 2 ? strtoull(argv[2], NULL, 0) : bw ? 32768 : 20000;
	uint8_t *buf;
	double t;
	pid_t pid;

	size = argc > 3 ? strtoul(argv[3], NULL, 0) : bw ? 65536 : 64;
	if ((!bw && !spin && strcmp(mode, "lat") != 0) || !size || size > MOST ||
	    size & (size - 1) || (udp && size > 1024)) {
		fprintf(stderr, "usage: tcp lat|spin|bw|udp [ROUNDS [SIZE]]\n");
		return 2;
	}
	if (udp)
		udp_pair(fd);
	else
		pair(fd);
	for (int i = 0; spin && i < 2; i++)
		fcntl(fd[i], F_SETFL, O_NONBLOCK);
	pid = fork();
	need(pid >= 0, "fork");
	buf = mmap(NULL, COLD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE,
		   -1, 0);
	need(buf != MAP_FAILED, "mmap");
	if (!pid) {
		close(fd[0]);
		far_end(fd[1], bw, rounds, buf);
		_exit(0);
	}
	close(fd[1]);
	/* Away from the start of the far end's process. */
	for (uint64_t i = 0; !bw && i < rounds / 10; i++)
		need(put(fd[0], buf, size) && get(fd[0], buf, size), "warm up");
	t = now();
	for (uint64_t i = 0; i < rounds; i++) {
		if (bw)
			need(put(fd[0], buf + (i * size) % COLD, size), "send");
		else
			need(put(fd[0], buf, size) && get(fd[0], buf, size), "ping");
	}
	if (bw)
		need(get(fd[0], buf, 1), "the last byte");
	t = now() - t;
	close(fd[0]);
	/* Of a datagram's socket there is no end to see. */
	if (udp)
		kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	if (udp)
		status = 0;
	if (bw)
		printf("%.3f\n", (double)rounds * (double)size * 8 / t / 1e9);
	else
		printf("%.3f\n", t / (double)rounds * 1e6 / 2);
	return status != 0;
}
