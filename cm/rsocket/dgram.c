/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Datagram sockets: their life, and what they wait for (dgram.h). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "cm/rsocket/dgram.h"

#include "urxe/free.h"
#include "urxe/gid.h"

#define WHOLE_EVERY 64 /* looks at completions, to one at all there is */

/* ---- making and ending ---- */

static int make_places(struct urxe_rs_dgram *dg)
{
	dg->udp_buf = calloc(URXE_RS_UDP_SLOTS, URXE_RS_DGRAM_MOST);
	if (!dg->udp_buf)
		return ENOMEM;
	for (unsigned i = 0; i < URXE_RS_UDP_SLOTS; i++) {
		struct urxe_rs_datagram *m = &dg->udp_datagrams[i];

		m->buf = dg->udp_buf + (size_t)i * URXE_RS_DGRAM_MOST;
		cds_list_add_tail(&m->entry, &dg->udp_free);
	}
	return 0;
}

static int make_descriptors(struct urxe_rs *s, int type)
{
	struct epoll_event e = {.events = EPOLLIN};
	int fd;

	s->dg->epfd = epoll_create1(EPOLL_CLOEXEC);
	if (s->dg->epfd < 0 || epoll_ctl(s->dg->epfd, EPOLL_CTL_ADD, s->channel->fd, &e))
		return errno;
	fd = socket(s->domain, SOCK_DGRAM | (type & SOCK_CLOEXEC), 0);
	if (fd < 0)
		return errno;
	s->fd = fd;
	return 0;
}

int urxe_rs_dgram_open(struct urxe_rs *s, int type)
{
	struct urxe_rs_dgram *dg = calloc(1, sizeof(*dg));
	int err;

	if (!dg)
		return ENOMEM;
	CDS_INIT_LIST_HEAD(&dg->uds);
	CDS_INIT_LIST_HEAD(&dg->received);
	CDS_INIT_LIST_HEAD(&dg->udp_free);
	CDS_INIT_LIST_HEAD(&dg->ages);
	for (unsigned i = 0; i < URXE_RS_DEST_BUCKETS; i++)
		CDS_INIT_LIST_HEAD(&dg->buckets[i]);
	dg->epfd = -1;
	s->dg = dg;
	s->can_recv = s->can_send = true;
	err = make_places(dg);
	return err ? err : make_descriptors(s, type);
}

void urxe_rs_dgram_free(struct urxe_rs *s)
{
	struct urxe_rs_dgram *dg = s->dg;
	struct urxe_rs_ud *ud, *next;

	if (!dg)
		return;
	urxe_rs_dest_free_all(s);
	cds_list_for_each_entry_safe (ud, next, &dg->uds, entry)
		urxe_rs_ud_free(s, ud);
	if (dg->epfd >= 0)
		close(dg->epfd);
	if (s->fd != s->channel->fd)
		close(s->fd);
	free(dg->udp_buf);
	free(dg);
	s->dg = NULL;
}

/* ---- whom it talks to ---- */

static int disconnect(struct urxe_rs *s) URXE_REQUIRES(s->lock)
{
	const struct sockaddr none = {.sa_family = AF_UNSPEC};

	if (connect(s->fd, &none, sizeof(none)))
		return errno;
	s->dg->connected = false;
	return 0;
}

int urxe_rs_dgram_connect(struct urxe_rs *s, const struct sockaddr *addr, socklen_t len)
{
	struct sockaddr_storage sa;
	struct urxe_rs_addr to;
	int err;

	if (addr && len >= sizeof(addr->sa_family) && addr->sa_family == AF_UNSPEC)
		return disconnect(s);
	err = urxe_rs_addr_get(&to, addr, len);
	if (err)
		return err;
	urxe_rs_addr_here(&to);
	len = urxe_rs_addr_put(&to, s->domain, &sa);
	if (!len)
		return EAFNOSUPPORT;
	if (!urxe_rs_dest_get(s, &to, false, &err))
		return err;
	if (connect(s->fd, (struct sockaddr *)&sa, len))
		return errno;
	s->dg->connected = true;
	s->dg->peer = to;
	return 0;
}

int urxe_rs_dgram_shutdown(struct urxe_rs *s, int how)
{
	if (!s->dg->connected)
		return ENOTCONN;
	/* Of us alone: the kernel's socket has the peer's answers. */
	if (how != SHUT_WR)
		s->can_recv = false;
	if (how != SHUT_RD)
		s->can_send = false;
	urxe_rs_changed(s);
	return 0;
}

int urxe_rs_dgram_flush(struct urxe_rs *s, const struct urxe_rs_call *c)
{
	int err = 0;

	while (!urxe_rs_ud_all_sent(s) && !err)
		err = urxe_rs_await(s, c);
	return err;
}

/* ---- looking and waiting ---- */

short urxe_rs_dgram_ready(const struct urxe_rs *s)
{
	short ready = 0;

	if (s->err)
		ready |= POLLERR;
	if (s->err || !cds_list_empty(&s->dg->received))
		ready |= POLLIN;
	if (!s->can_recv)
		ready |= POLLIN | POLLRDHUP;
	if (!s->can_send || (!s->dg->udp_full && urxe_rs_ud_can_send(s)))
		ready |= POLLOUT;
	return ready;
}

void urxe_rs_dgram_glance(struct urxe_rs *s)
{
	if (++s->looks < WHOLE_EVERY)
		urxe_rs_ud_completions(s);
	else
		urxe_rs_dgram_look(s, true);
}

void urxe_rs_dgram_look(struct urxe_rs *s, bool whole)
{
	urxe_rs_ud_completions(s);
	/* Who finds datagrams all the time need not ask the kernel each time. */
	if (!whole && !cds_list_empty(&s->dg->received) && ++s->looks < WHOLE_EVERY)
		return;
	s->looks = 0;
	if (whole || s->dg->resolving)
		urxe_rs_dest_events(s);
	urxe_rs_udp_receive(s);
}

void urxe_rs_dgram_watch(struct urxe_rs *s, struct pollfd fds[2])
{
	struct urxe_rs_dgram *dg = s->dg;

	fds[0] = (struct pollfd){
		.fd = cds_list_empty(&dg->udp_free) ? -1 : s->fd,
		.events = (short)(POLLIN | (dg->udp_full ? POLLOUT : 0)),
	};
	fds[1] = (struct pollfd){.fd = dg->epfd, .events = POLLIN};
}

void urxe_rs_dgram_woken(struct urxe_rs *s, const struct pollfd fds[2])
{
	if (fds[1].revents)
		urxe_rs_ud_disarm(s);
	if ((fds[0].revents || fds[1].revents) && !s->gone)
		urxe_rs_dgram_look(s, true);
}
