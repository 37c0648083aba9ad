/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Event channels of the application's: who reads them, ids that change them, and the end of both.
 */
#include "cm_rdma.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

/* A channel is readable while it has events, however one looks. */
static void channels(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_event_channel *to = rdma_create_event_channel();
	struct pollfd pfd = {ch->fd, POLLIN, 0};
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id[3];

	/* The first address takes until the device has started. */
	drop(resolved(to, "10.0.0.1", 1));
	WORKS(fcntl(ch->fd, F_SETFL, O_NONBLOCK));
	FAILS(rdma_get_cm_event(ch, &ev), EAGAIN);
	FAILS(rdma_get_cm_event(ch, NULL), EINVAL);
	FAILS(rdma_ack_cm_event(NULL), EINVAL);
	for (unsigned i = 0; i < 3; i++) {
		CU_ASSERT_EQUAL(poll(&pfd, 1, 0), i ? 1 : 0);
		WORKS(rdma_create_id(ch, &id[i], (void *)(uintptr_t)i, RDMA_PS_TCP));
		WORKS(rdma_resolve_addr(id[i], NULL, addr("10.0.0.1", 1), 1000));
	}
	/* One goes with its event, one moves with it. */
	WORKS(rdma_destroy_id(id[1]));
	WORKS(rdma_migrate_id(id[2], to));
	CU_ASSERT_PTR_EQUAL(id[2]->channel, to);
	CU_ASSERT_EQUAL(poll(&pfd, 1, 0), 1);
	WORKS(rdma_get_cm_event(ch, &ev));
	CU_ASSERT_PTR_EQUAL(ev->id, id[0]);
	WORKS(rdma_ack_cm_event(ev));
	CU_ASSERT_EQUAL(poll(&pfd, 1, 0), 0);
	FAILS(rdma_get_cm_event(ch, &ev), EAGAIN);
	CU_ASSERT_EQUAL(expect(to, RDMA_CM_EVENT_ADDR_RESOLVED, NULL), 0);
	WORKS(rdma_destroy_id(id[0]));
	WORKS(rdma_destroy_id(id[2]));
	CU_ASSERT_STRING_EQUAL(rdma_event_str(RDMA_CM_EVENT_TIMEWAIT_EXIT),
			       "RDMA_CM_EVENT_TIMEWAIT_EXIT");
	CU_ASSERT_STRING_EQUAL(rdma_event_str((enum rdma_cm_event_type)99), "UNKNOWN EVENT");
	rdma_destroy_event_channel(ch);
	rdma_destroy_event_channel(to);
}

/* A request that nobody has taken goes with its listener, and so does its id: the old channel may
 * be destroyed, as that of a synchronous listener is. */
static void migrating_listener(void)
{
	for (unsigned i = 0; i < 4; i++) {
		struct rdma_event_channel *from = i & 1 ? rdma_create_event_channel() : NULL;
		struct rdma_event_channel *to = rdma_create_event_channel();
		struct rdma_event_channel *ch = rdma_create_event_channel();
		struct rdma_conn_param param = {0};
		struct rdma_cm_id *l, *c, *s;
		struct pollfd pfd;

		WORKS(rdma_create_id(from, &l, NULL, RDMA_PS_TCP));
		WORKS(rdma_bind_addr(l, addr("10.0.0.1", 0)));
		WORKS(rdma_listen(l, 1));
		c = resolved(ch, "10.0.0.1", ntohs(rdma_get_src_port(l)));
		param.qp_num = nobodys_qpn(c);
		WORKS(rdma_connect(c, &param));
		pfd = (struct pollfd){l->channel->fd, POLLIN, 0};
		CU_ASSERT_EQUAL(poll(&pfd, 1, -1), 1);
		WORKS(rdma_migrate_id(l, to));
		if (from)
			rdma_destroy_event_channel(from);
		/* More than are kept to be recognised. */
		for (unsigned k = 0; from && k < 80; k++)
			rdma_destroy_event_channel(rdma_create_event_channel());
		if (i & 2) {
			CU_ASSERT_EQUAL(expect(to, RDMA_CM_EVENT_CONNECT_REQUEST, &s), 0);
			CU_ASSERT_PTR_EQUAL(s->channel, to);
			WORKS(rdma_destroy_id(s));
		}
		WORKS(rdma_destroy_id(l));
		expect(ch, RDMA_CM_EVENT_REJECTED, NULL);
		drop(c);
		rdma_destroy_event_channel(to);
		rdma_destroy_event_channel(ch);
	}
}

/* Each event is an edge for EPOLLET, taken or not taken those before it. */
static void edges(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct epoll_event e = {.events = EPOLLIN | EPOLLET};
	int ep = epoll_create1(EPOLL_CLOEXEC);
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id[3];

	WORKS(fcntl(ch->fd, F_SETFL, O_NONBLOCK));
	WORKS(epoll_ctl(ep, EPOLL_CTL_ADD, ch->fd, &e));
	for (unsigned i = 0; i < 3; i++) {
		CU_ASSERT_EQUAL(epoll_wait(ep, &e, 1, 0), 0);
		WORKS(rdma_create_id(ch, &id[i], NULL, RDMA_PS_TCP));
		WORKS(rdma_resolve_addr(id[i], NULL, addr("10.0.0.1", 1), 1000));
		CU_ASSERT_EQUAL(epoll_wait(ep, &e, 1, 5000), 1);
	}
	for (unsigned i = 0; i < 3; i++) {
		WORKS(rdma_get_cm_event(ch, &ev));
		CU_ASSERT_PTR_EQUAL(ev->id, id[i]);
		WORKS(rdma_ack_cm_event(ev));
		WORKS(rdma_destroy_id(id[i]));
	}
	FAILS(rdma_get_cm_event(ch, &ev), EAGAIN);
	CU_ASSERT_EQUAL(epoll_wait(ep, &e, 1, 0), 0);
	close(ep);
	rdma_destroy_event_channel(ch);
}

/*
 * AddressSanitizer does not see that a cancelled thread leaves its frames, and objects when
 * liburcu's destructor, which a thread that drove has, uses their stack.
 */
static void leave_frames(void *arg)
{
#ifdef __SANITIZE_ADDRESS__
	ASAN_UNPOISON_MEMORY_REGION((char *)__builtin_frame_address(0) - 8192, 8192);
#endif
}

static void *read_for_ever(void *arg)
{
	struct rdma_cm_event *ev;

	pthread_cleanup_push(leave_frames, NULL);
	rdma_get_cm_event(arg, &ev);
	pthread_cleanup_pop(0);
	printf("rdma_get_cm_event() returned: %s\n", strerror(errno));
	exit(1);
}

/* A thread in rdma_get_cm_event(), or on its way there, stays: it does not hear of the end. */
static void reader_of_a_dead_channel(void)
{
	for (unsigned i = 0; i < 100; i++) {
		struct rdma_event_channel *ch = rdma_create_event_channel();
		pthread_t t;

		WORKS(pthread_create(&t, NULL, read_for_ever, ch));
		if (i % 2)
			sched_yield();
		rdma_destroy_event_channel(ch);
		if (i % 3)
			sched_yield();
		WORKS(pthread_cancel(t));
		WORKS(pthread_join(t, NULL));
	}
}

/* However many read a channel: the last to go closes it, and not before. */
static void readers_of_a_dead_channel(void)
{
	for (unsigned i = 0; i < 20; i++) {
		struct rdma_event_channel *ch = rdma_create_event_channel();
		int fd = ch->fd;
		pthread_t t[4];

		for (unsigned k = 0; k < 4; k++)
			WORKS(pthread_create(&t[k], NULL, read_for_ever, ch));
		/* Most are asleep in read() by then, or drive. */
		for (unsigned k = 0; k < i * 2; k++)
			sched_yield();
		if (i % 2) {
			WORKS(pthread_cancel(t[0]));
			WORKS(pthread_join(t[0], NULL));
		}
		rdma_destroy_event_channel(ch);
		for (unsigned k = i % 2; k < 4; k++) {
			WORKS(pthread_cancel(t[k]));
			WORKS(pthread_join(t[k], NULL));
		}
		FAILS(fcntl(fd, F_GETFD), EBADF);
	}
}

/* Two threads wait at one channel: each event goes to one of them, none is missed. */
static void *take_one(void *arg)
{
	struct rdma_cm_event *ev;

	WORKS(rdma_get_cm_event(arg, &ev));
	CU_ASSERT_EQUAL(ev->event, RDMA_CM_EVENT_ADDR_RESOLVED);
	WORKS(rdma_ack_cm_event(ev));
	return NULL;
}

static void two_readers(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct pollfd pfd = {ch->fd, POLLIN, 0};

	for (unsigned i = 0; i < 50; i++) {
		struct rdma_cm_id *id[2];
		pthread_t t[2];

		for (unsigned k = 0; k < 2; k++)
			WORKS(pthread_create(&t[k], NULL, take_one, ch));
		for (unsigned k = 0; k < i; k++)
			sched_yield();
		for (unsigned k = 0; k < 2; k++) {
			WORKS(rdma_create_id(ch, &id[k], NULL, RDMA_PS_TCP));
			WORKS(rdma_resolve_addr(id[k], NULL, addr("10.0.0.1", 1), 1000));
		}
		for (unsigned k = 0; k < 2; k++)
			WORKS(pthread_join(t[k], NULL));
		CU_ASSERT_EQUAL(poll(&pfd, 1, 0), 0);
		for (unsigned k = 0; k < 2; k++)
			WORKS(rdma_destroy_id(id[k]));
	}
	rdma_destroy_event_channel(ch);
}

static void *ack_later(void *arg)
{
	struct rdma_cm_event *ev = arg;

	rdma_ack_cm_event(ev);
	return NULL;
}

/* rdma_destroy_id() waits until what it reported is acked. */
static void destroy_waits(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;
	pthread_t t;

	WORKS(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP));
	WORKS(rdma_resolve_addr(id, NULL, addr("10.0.0.1", 1), 1000));
	WORKS(rdma_get_cm_event(ch, &ev));
	WORKS(pthread_create(&t, NULL, ack_later, ev));
	WORKS(rdma_destroy_id(id));
	WORKS(pthread_join(t, NULL));
	rdma_destroy_event_channel(ch);
}

URXE_TEST_MAIN("cm_events", T(channels), T(migrating_listener), T(edges), T(destroy_waits),
	       T(reader_of_a_dead_channel), T(readers_of_a_dead_channel), T(two_readers))
