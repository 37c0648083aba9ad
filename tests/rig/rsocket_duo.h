/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Two rsockets that are connected, and the one that listened, in one process. */
#ifndef URXE_TEST_RSOCKET_DUO_H
#define URXE_TEST_RSOCKET_DUO_H

#include "cm_rdma.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>

#include <rdma/rsocket.h>

struct duo {
	int listener, client, server;
};

/** rs_listen - @fd, whatever was set of it, listens at @host, at a port of its own, which is in
 * *@at. */
static inline void rs_listen(int fd, const char *host, int backlog, struct sockaddr_storage *at)
{
	socklen_t len = sizeof(*at);

	CU_ASSERT_FATAL(fd >= 0);
	WORKS(rbind(fd, addr(host, 0), sizeof(*at)));
	WORKS(rlisten(fd, backlog));
	WORKS(rgetsockname(fd, (struct sockaddr *)at, &len));
}

/** rs_listener - a socket that does. */
static inline int rs_listener(const char *host, struct sockaddr_storage *at)
{
	int fd = rsocket(addr(host, 0)->sa_family, SOCK_STREAM, 0);

	rs_listen(fd, host, 2, at);
	return fd;
}

/** rs_ready - which of these events it has within 10 s. */
static inline short rs_ready(int fd, short events)
{
	struct pollfd p = {.fd = fd, .events = events};

	CU_ASSERT_EQUAL(rpoll(&p, 1, 10000), 1);
	return p.revents;
}

/** duo_connect - @client, whatever was set of it, to the listener. */
static inline void duo_connect(struct duo *d, int client, const struct sockaddr_storage *at)
{
	struct pollfd p[2] = {{.fd = d->listener, .events = POLLIN},
			      {.fd = client, .events = POLLOUT}};
	socklen_t len = sizeof(int);
	int err = -1;

	d->client = client;
	WORKS(rfcntl(client, F_SETFL, O_NONBLOCK));
	FAILS(rconnect(client, (const struct sockaddr *)at, sizeof(*at)), EINPROGRESS);
	/* Its own steps are made where it is polled. */
	CU_ASSERT_EQUAL(rpoll(p, 2, 10000), 1);
	CU_ASSERT_EQUAL(p[0].revents & POLLIN, POLLIN);
	d->server = raccept(d->listener, NULL, NULL);
	CU_ASSERT_FATAL(d->server >= 0);
	CU_ASSERT(rs_ready(client, POLLOUT) & POLLOUT);
	WORKS(rgetsockopt(client, SOL_SOCKET, SO_ERROR, &err, &len));
	CU_ASSERT_EQUAL(err, 0);
	WORKS(rfcntl(client, F_SETFL, 0));
}

static inline void duo_open(struct duo *d, const char *host)
{
	struct sockaddr_storage at;

	d->listener = rs_listener(host, &at);
	duo_connect(d, rsocket(at.ss_family, SOCK_STREAM, 0), &at);
}

static inline void duo_close(struct duo *d)
{
	WORKS(rclose(d->client));
	WORKS(rclose(d->server));
	WORKS(rclose(d->listener));
}

#endif
