/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * rdma_resolve_addr() on a device that takes its time to start, as EAL does: the call returns,
 * other calls go on, and what became of the start is told. The link opens when the test lets it.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cm_device.h"
#include "harness.h"
#include "pair.h"
#include "provider/status_path.h"

static struct {
	sem_t go;
	int err; /* of the next */
	unsigned opened;
} link_state;

/* Who is not let go is told so: a call that waits fails the test, and does not hang. */
static int slow_open(void *arg, const struct urxe_port_config *cfg, const uint8_t mac[6],
		     uint32_t l3_mtu, void **link, struct urxe_link_info *info)
{
	struct timespec until;
	int ret;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 5;
	do
		ret = sem_timedwait(&link_state.go, &until);
	while (ret && errno == EINTR);
	if (ret)
		return ETIMEDOUT;
	link_state.opened++;
	if (link_state.err)
		return link_state.err;
	return urxe_link_loop_ops.open(arg, cfg, mac, l3_mtu, link, info);
}

static struct rdma_event_channel *channel;

static struct rdma_cm_id *new_id(struct rdma_event_channel *ch)
{
	struct rdma_cm_id *id;

	CU_ASSERT_EQUAL_FATAL(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
	return id;
}

static int resolve(struct rdma_cm_id *id)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htobe16(7471)};

	sin.sin_addr.s_addr = htobe32(0x0a000001);
	return rdma_resolve_addr(id, NULL, (struct sockaddr *)&sin, 1);
}

static bool readable_in(int ms)
{
	struct pollfd pfd = {channel->fd, POLLIN, 0};

	return poll(&pfd, 1, ms) == 1;
}

static bool readable(void)
{
	return readable_in(0);
}

static void expect(struct rdma_cm_id *id, enum rdma_cm_event_type type, int status)
{
	struct rdma_cm_event *ev;

	CU_ASSERT_TRUE_FATAL(readable_in(10000));
	CU_ASSERT_EQUAL_FATAL(rdma_get_cm_event(channel, &ev), 0);
	CU_ASSERT_PTR_EQUAL(ev->id, id);
	CU_ASSERT_EQUAL(ev->event, type);
	CU_ASSERT_EQUAL(ev->status, status);
	CU_ASSERT_EQUAL(rdma_ack_cm_event(ev), 0);
}

static void test_start_fails(void)
{
	struct rdma_cm_id *a = new_id(channel), *b = new_id(channel), *c = new_id(channel);

	link_state.err = ENXIO;
	CU_ASSERT_EQUAL(resolve(a), 0);
	CU_ASSERT_EQUAL(resolve(b), 0);
	CU_ASSERT_EQUAL(resolve(c), 0);
	CU_ASSERT_FALSE(readable());
	/* It waits for nobody, and hears of nothing. */
	CU_ASSERT_EQUAL(rdma_destroy_id(b), 0);
	sem_post(&link_state.go);
	expect(a, RDMA_CM_EVENT_ADDR_ERROR, -ENXIO);
	expect(c, RDMA_CM_EVENT_ADDR_ERROR, -ENXIO);
	CU_ASSERT_FALSE(readable());
	CU_ASSERT_EQUAL(link_state.opened, 1);
	CU_ASSERT_EQUAL(rdma_destroy_id(a), 0);
	/* The next call tries again. */
	link_state.err = EPERM;
	sem_post(&link_state.go);
	CU_ASSERT_EQUAL(resolve(c), 0);
	expect(c, RDMA_CM_EVENT_ADDR_ERROR, -EPERM);
	CU_ASSERT_EQUAL(link_state.opened, 2);
	CU_ASSERT_EQUAL(rdma_destroy_id(c), 0);
}

/* A synchronous id waits, and has the reason in errno. */
static void test_synchronous(void)
{
	struct rdma_cm_id *id = new_id(NULL);

	link_state.err = ENXIO;
	sem_post(&link_state.go);
	errno = 0;
	CU_ASSERT_EQUAL(resolve(id), -1);
	CU_ASSERT_EQUAL(errno, ENXIO);
	CU_ASSERT_EQUAL(rdma_destroy_id(id), 0);
}

/* ---- fork() waits for the start: half a device is good for nobody ---- */

static bool forking, started_before;

/* Registered before the library's, so run after it. */
static void before_fork(void)
{
	started_before = forking && readable();
}

/* Registered after it, so run before it. */
static void first_before_fork(void)
{
	if (forking)
		sem_post(&link_state.go);
}

static void test_fork(void)
{
	struct rdma_cm_id *id = new_id(channel);
	int status;
	pid_t pid;

	link_state.err = ENXIO;
	CU_ASSERT_EQUAL(resolve(id), 0);
	CU_ASSERT_FATAL(!pthread_atfork(first_before_fork, NULL, NULL));
	forking = true;
	pid = fork();
	if (!pid)
		_exit(rdma_create_event_channel() ? 0 : 1); /* nothing is up: it may be used */
	forking = false;
	CU_ASSERT_TRUE(started_before);
	CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
	CU_ASSERT_EQUAL(status, 0);
	expect(id, RDMA_CM_EVENT_ADDR_ERROR, -ENXIO);
	CU_ASSERT_EQUAL(rdma_destroy_id(id), 0);
}

/* rdma_listen() has its answer by errno: it waits, and starts what others wait for, too. */
static void *let_go(void *arg)
{
	sem_post(&link_state.go);
	return arg;
}

static void test_starts(void)
{
	struct rdma_cm_id *a = new_id(channel), *b = new_id(channel);
	pthread_t t;

	link_state.err = 0;
	CU_ASSERT_EQUAL(resolve(a), 0);
	CU_ASSERT_FALSE(readable());
	CU_ASSERT_EQUAL_FATAL(pthread_create(&t, NULL, let_go, NULL), 0);
	CU_ASSERT_EQUAL(rdma_listen(b, 1), 0);
	pthread_join(t, NULL);
	/* More than the time-out has passed: it counts from when the link is up. */
	expect(a, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	CU_ASSERT_EQUAL(rdma_resolve_route(a, 1), 0);
	expect(a, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	CU_ASSERT_EQUAL(rdma_destroy_id(a), 0);
	CU_ASSERT_EQUAL(rdma_destroy_id(b), 0);
	/* From now on nobody waits. */
	a = new_id(channel);
	CU_ASSERT_EQUAL(resolve(a), 0);
	expect(a, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	CU_ASSERT_EQUAL(rdma_destroy_id(a), 0);
}

__attribute__((constructor)) static void set_up(void)
{
	static struct urxe_link_ops ops;
	struct urxe_port_config cfg = {.name = "slow", .port = "loop", .vlan = URXE_NO_VLAN};
	struct urxe_device *dev;

	/* Nobody is to ask over a socket. */
	setenv(URXE_STATUS_ENV, "", 1);
	sem_init(&link_state.go, 0, 0);
	ops = urxe_link_loop_ops;
	ops.open = slow_open;
	cfg.num_ips = 1;
	cfg.ips[0].ipv4 = true;
	cfg.ips[0].prefix_len = 24;
	memcpy(cfg.ips[0].gid + 10, "\xff\xff\x0a\0\0\x01", 6);
	if (urxe_device_create(&dev, &cfg, &ops, NULL, true))
		abort();
	cm_device = &dev->vdev.device;
	pthread_atfork(before_fork, NULL, NULL);
	channel = rdma_create_event_channel();
	if (!channel)
		abort();
}

URXE_TEST_MAIN("cm_start", T(test_start_fails), T(test_synchronous), T(test_fork), T(test_starts))
