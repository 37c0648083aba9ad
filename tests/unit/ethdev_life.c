/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Lives and deaths of virtio_user ports, with DPDK's interrupt thread in between.
 */
#define ALLOW_EXPERIMENTAL_API /* interrupt handles, in DPDK 22.11 */

#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <rte_interrupts.h>

#include "ethdev_end.h"

static void setup(void)
{
	ends_setup();
	urxe_log_set_level(URXE_LOG_NONE);
}

static void on_spare(void *arg)
{
	uint64_t n;

	if (read(((int *)arg)[0], &n, sizeof(n)) == sizeof(n))
		__atomic_store_n((int *)arg + 1, 1, __ATOMIC_RELEASE);
}

/* A handler on @fd, which makes DPDK's interrupt thread go through all that it has, is called. */
static bool handler_is_called(int fd)
{
	struct rte_intr_handle *h = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
	uint64_t one = 1, end = now() + 10000000000u;
	int spare[2] = {fd, 0};

	CU_ASSERT_FATAL(h && !rte_intr_fd_set(h, fd) &&
			!rte_intr_type_set(h, RTE_INTR_HANDLE_EXT) &&
			!rte_intr_callback_register(h, on_spare, spare));
	CU_ASSERT_EQUAL(write(fd, &one, sizeof(one)), sizeof(one));
	while (!__atomic_load_n(&spare[1], __ATOMIC_ACQUIRE) && now() < end)
		sched_yield();
	rte_intr_callback_unregister_sync(h, on_spare, spare);
	rte_intr_instance_free(h);
	return spare[1];
}

/*
 * DPDK's interrupt thread has the port's handler in hand at any time: when it is stopped, when its
 * peer dies, when it is closed while its peer dies. What is left behind kills the process when the
 * next handler comes, which is the next port's.
 */
static void many_lives(void)
{
	int spare = eventfd(0, EFD_NONBLOCK);
	struct end a, b;

	CU_ASSERT_EQUAL_FATAL(end_open(&a, "net_vhost7,iface=%s/p", 1500), 0);
	for (unsigned i = 0; i < 24; i++) {
		CU_ASSERT_EQUAL_FATAL(end_open(&b, "net_virtio_user7,path=%s/p", 1500), 0);
		CU_ASSERT_TRUE_FATAL(both_up(&a, &b));
		if (i % 2) {
			CU_ASSERT_TRUE_FATAL(send_one(&b, 1000, (uint8_t)i));
			CU_ASSERT_TRUE_FATAL(get_one(&a, 1000, (uint8_t)i));
		}
		if (i % 8 < 5) {
			end_close(&b);
			CU_ASSERT_TRUE_FATAL(handler_is_called(spare));
			continue;
		}
		end_close(&a); /* its peer dies, */
		if (i % 8 == 5) {
			end_close(&b); /* and it is closed */
			CU_ASSERT_TRUE_FATAL(handler_is_called(spare));
			CU_ASSERT_EQUAL_FATAL(end_open(&a, "net_vhost7,iface=%s/p", 1500), 0);
			continue;
		}
		CU_ASSERT_EQUAL_FATAL(end_open(&a, "net_vhost7,iface=%s/p", 1500), 0);
		if (i % 8 == 6) /* or finds the next one */
			CU_ASSERT_TRUE_FATAL(both_up(&a, &b));
		end_close(&b);
		CU_ASSERT_TRUE_FATAL(handler_is_called(spare));
	}
	end_close(&a);
	close(spare);
}

/*
 * A vhost-user backend. After @left messages of its first client it dies, or, @sullen, refuses
 * what can be refused.
 */
struct mortal {
	int listener;
	unsigned left, clients;
	bool sullen;
	bool outlived; /* the first client went before that */
};

static bool mortal_answer(int fd, bool refuse)
{
	struct {
		uint32_t request, flags, size;
		union {
			uint64_t u64;
			struct {
				uint32_t index, num;
			} vring;
			uint8_t raw[512];
		};
	} __attribute__((packed)) m;
	bool ask;

	if (recv(fd, &m, 12, MSG_WAITALL) != 12 || m.size > sizeof(m.raw) ||
	    (m.size && recv(fd, m.raw, m.size, MSG_WAITALL) != (ssize_t)m.size))
		return false;
	ask = m.flags & 8; /* NEED_REPLY */
	switch (m.request) {
	case 1: /* GET_FEATURES: VERSION_1, PROTOCOL_FEATURES, MRG_RXBUF */
		m.u64 = 1ull << 32 | 1ull << 30 | 1ull << 15;
		break;
	case 15: /* GET_PROTOCOL_FEATURES: REPLY_ACK */
		m.u64 = 1ull << 3;
		break;
	case 11: /* GET_VRING_BASE */
		m.vring.num = 0;
		break;
	default:
		if (!ask)
			return true;
		m.u64 = refuse;
	}
	m.flags = 5; /* version 1, a reply */
	m.size = 8;
	return send(fd, &m, 20, MSG_NOSIGNAL) == 20;
}

static void *mortal_main(void *arg)
{
	struct mortal *m = arg;
	int fd;

	while ((fd = accept(m->listener, NULL, NULL)) >= 0) {
		while ((m->left || m->sullen) && mortal_answer(fd, !m->left))
			m->left -= !!m->left;
		if (!m->clients)
			m->outlived = m->left;
		m->left = 0;
		m->sullen = false;
		close(fd);
		__atomic_fetch_add(&m->clients, 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

static void mortal_path(char *path, size_t len)
{
	snprintf(path, len, "%s/d", dir);
}

static void mortal_start(struct mortal *m, pthread_t *thread)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};

	mortal_path(un.sun_path, sizeof(un.sun_path));
	m->listener = socket(AF_UNIX, SOCK_STREAM, 0);
	CU_ASSERT_FATAL(!bind(m->listener, (struct sockaddr *)&un, sizeof(un)) &&
			!listen(m->listener, 8) && !pthread_create(thread, NULL, mortal_main, m));
}

static void mortal_stop(struct mortal *m, pthread_t thread)
{
	char path[108];

	shutdown(m->listener, SHUT_RDWR);
	pthread_join(thread, NULL);
	close(m->listener);
	mortal_path(path, sizeof(path));
	unlink(path);
}

/* At every step of the making of a port. */
static void peer_fails(bool sullen)
{
	int spare = eventfd(0, EFD_NONBLOCK);
	struct mortal m = {0};
	pthread_t thread = 0;
	struct end b;
	int ret;

	for (unsigned n = 0; !m.outlived && n < 200; n++) {
		m.left = n;
		m.clients = 0;
		m.sullen = sullen;
		mortal_start(&m, &thread);
		ret = end_open(&b, "net_virtio_user8,path=%s/d", 1500);
		CU_ASSERT(sullen || !ret); /* dead: as if it had not been there yet */
		if (!ret)
			end_close(&b);
		CU_ASSERT_TRUE_FATAL(handler_is_called(spare));
		mortal_stop(&m, thread);
	}
	CU_ASSERT_TRUE(m.outlived);
	close(spare);
}

static void peer_dies_at_start(void)
{
	peer_fails(false);
}

static void peer_refuses_at_start(void)
{
	peer_fails(true);
}

/* Configured, and then it cannot be started: the driver takes no ring as short as this. */
static void never_started(void)
{
	int spare = eventfd(0, EFD_NONBLOCK);
	struct end a, b;

	CU_ASSERT_EQUAL_FATAL(end_open(&a, "net_vhost7,iface=%s/p", 1500), 0);
	CU_ASSERT_NOT_EQUAL_FATAL(end_open(&b, "net_virtio_user7,path=%s/p,queue_size=8", 1500), 0);
	CU_ASSERT_TRUE_FATAL(handler_is_called(spare));
	CU_ASSERT_EQUAL_FATAL(end_open(&b, "net_virtio_user7,path=%s/p", 1500), 0);
	CU_ASSERT_TRUE_FATAL(both_up(&a, &b));
	end_close(&b);
	end_close(&a);
	close(spare);
}

/* The same when the peer comes later: it is tried again from the start, not from where it failed.
 */
static void never_started_later(void)
{
	uint64_t end = now() + 20000000000u;
	struct mortal m = {.left = 1000};
	pthread_t thread = 0;
	struct end b;

	CU_ASSERT_EQUAL_FATAL(end_open(&b, "net_virtio_user8,path=%s/d,queue_size=8", 1500), 0);
	mortal_start(&m, &thread);
	while (__atomic_load_n(&m.clients, __ATOMIC_ACQUIRE) < 2 && now() < end)
		sched_yield();
	CU_ASSERT(__atomic_load_n(&m.clients, __ATOMIC_ACQUIRE) >= 2);
	end_close(&b);
	mortal_stop(&m, thread);
}

URXE_TEST_MAIN("ethdev_life", T(setup), T(many_lives), T(peer_dies_at_start),
	       T(peer_refuses_at_start), T(never_started), T(never_started_later), T(ends_cleanup))
