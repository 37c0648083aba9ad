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

/** rs_listener - a socket that listens at @host, at a port of its own, which is in *@at. */
static inline int rs_listener(const char *host, struct sockaddr_storage *at)
{
	struct sockaddr *a = addr(host, 0);
	socklen_t len = sizeof(*at);
	int fd = rsocket(a->sa_family, SOCK_STREAM, 0);

	CU_ASSERT_FATAL(fd >= 0);
	WORKS(rbind(fd, a, sizeof(*at)));
	WORKS(rlisten(fd, 2));
	WORKS(rgetsockname(fd, (struct sockaddr *)at, &len));
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
