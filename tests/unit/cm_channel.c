/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The descriptors of channels that synchronous ids have: readable while an event waits. */
#include <fcntl.h>
#include <poll.h>

#include "cm_rdma.h"
#include "descriptors.h"

#define USER ((enum rdma_cm_event_type)18)
int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status,
			uint64_t arg);

static int readable(const struct rdma_cm_id *id)
{
	struct pollfd pfd = {id->channel->fd, POLLIN, 0};

	return poll(&pfd, 1, 0);
}

/* What a call takes itself is never seen; what it leaves is, whether it worked or not. */
static void calls(void)
{
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;

	WORKS(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP));
	WORKS(rdma_resolve_addr(id, NULL, addr("10.0.0.1", 1), 1000));
	CU_ASSERT_EQUAL(id->event->event, RDMA_CM_EVENT_ADDR_RESOLVED);
	CU_ASSERT_EQUAL(readable(id), 0);
	FAILS(rdma_resolve_addr(id, NULL, addr("10.0.0.1", 1), 1000), EINVAL);
	CU_ASSERT_EQUAL(readable(id), 0);
	WORKS(rdma_write_cm_event(id, USER, 0, 1));
	CU_ASSERT_EQUAL(readable(id), 1);
	FAILS(rdma_resolve_addr(id, NULL, addr("10.0.0.1", 1), 1000), EINVAL);
	CU_ASSERT_EQUAL(readable(id), 1);
	/* The call takes the first that waits, and leaves its own. */
	WORKS(rdma_resolve_route(id, 1000));
	CU_ASSERT_EQUAL(id->event->event, USER);
	CU_ASSERT_EQUAL(readable(id), 1);
	WORKS(rdma_get_cm_event(id->channel, &ev));
	CU_ASSERT_EQUAL(ev->event, RDMA_CM_EVENT_ROUTE_RESOLVED);
	WORKS(rdma_ack_cm_event(ev));
	CU_ASSERT_EQUAL(readable(id), 0);
	/* The application's flag counts from the moment that it is set. */
	WORKS(fcntl(id->channel->fd, F_SETFL, O_NONBLOCK));
	for (unsigned i = 0; i < 3; i++)
		FAILS(rdma_get_cm_event(id->channel, &ev), EAGAIN);
	WORKS(rdma_destroy_id(id));
}

/* A descriptor is the id's own, closed with it, and none are gathered. */
static void one_after_the_other(void)
{
	unsigned before = descriptors();
	struct rdma_cm_event *ev;

	CU_ASSERT(before > 0);
	for (unsigned i = 0; i < 16; i++) {
		struct rdma_cm_id *id;
		int fd;

		WORKS(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP));
		fd = id->channel->fd;
		CU_ASSERT_EQUAL(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
		CU_ASSERT_EQUAL(readable(id), 0);
		/* Waits once, in which time the next descriptor is made. */
		WORKS(fcntl(fd, F_SETFL, O_NONBLOCK));
		FAILS(rdma_get_cm_event(id->channel, &ev), EAGAIN);
		FAILS(rdma_get_cm_event(id->channel, &ev), EAGAIN);
		WORKS(rdma_resolve_addr(id, NULL, addr("10.0.0.1", 1), 1000));
		WORKS(rdma_destroy_id(id));
		FAILS(fcntl(fd, F_GETFD), EBADF);
	}
	CU_ASSERT(descriptors() <= before + 4);
}

URXE_TEST_MAIN("cm_channel", T(calls), T(one_after_the_other))
