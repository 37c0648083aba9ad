/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * DPDK links in one process: EAL as a quiet guest, frames through real PMDs, fork.
 */
#include "ethdev_end.h"
#include "harness.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <rte_ethdev.h>
#include <rte_mempool.h>

#include "netio/eal.h"
#include "netio/ethdev.h"

static void exchange(struct end *a, struct end *b)
{
	static const uint32_t len[] = {60, 64, 1514, 4096, 4214};

	CU_ASSERT_TRUE_FATAL(both_up(a, b));
	for (unsigned round = 0; round < 200; round++) {
		uint32_t l = len[round % 5];

		CU_ASSERT_TRUE_FATAL(send_one(a, l, (uint8_t)(round + 1)));
		CU_ASSERT_TRUE_FATAL(get_one(b, l, (uint8_t)(round + 1)));
		CU_ASSERT_TRUE_FATAL(send_one(b, l, (uint8_t)(round + 2)));
		CU_ASSERT_TRUE_FATAL(get_one(a, l, (uint8_t)(round + 2)));
	}
}

/* ---- the tests ---- */

static void guest(void)
{
	struct sigaction before[65], after;
	cpu_set_t cpus, cpus_after, one;
	sigset_t mask, mask_after;
	struct end e;

	sched_getaffinity(0, sizeof(cpus), &cpus);
	CPU_ZERO(&one);
	for (int c = 0; c < CPU_SETSIZE && !CPU_COUNT(&one); c++) {
		if (CPU_ISSET(c, &cpus))
			CPU_SET(c, &one);
	}
	sched_setaffinity(0, sizeof(one), &one);
	sigprocmask(SIG_SETMASK, NULL, &mask);
	for (int s = 1; s < 65; s++)
		sigaction(s, NULL, &before[s]);

	CU_ASSERT_EQUAL_FATAL(end_open(&e, "net_ring0", 1500), 0);
	CU_ASSERT_STRING_EQUAL(e.info.driver, "net_ring");
	CU_ASSERT_EQUAL(memcmp(e.info.mac, own_mac, 6), 0);
	end_close(&e);

	sched_getaffinity(0, sizeof(cpus_after), &cpus_after);
	CU_ASSERT_TRUE(CPU_EQUAL(&one, &cpus_after));
	sigprocmask(SIG_SETMASK, NULL, &mask_after);
	CU_ASSERT_EQUAL(memcmp(&mask, &mask_after, sizeof(mask)), 0);
	for (int s = 1; s < 65; s++) {
		if (sigaction(s, NULL, &after) == 0)
			CU_ASSERT_PTR_EQUAL((void *)before[s].sa_handler, (void *)after.sa_handler);
	}
	sched_setaffinity(0, sizeof(cpus), &cpus);
}

static void clock_is_monotonic(void)
{
	struct timespec ts;
	uint64_t last = now(), t, mono;

	for (unsigned i = 0; i < 1000000; i++) {
		t = now();
		if (t < last)
			CU_FAIL("the clock went back");
		last = t;
	}
	clock_gettime(CLOCK_MONOTONIC, &ts);
	mono = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
	t = now();
	CU_ASSERT_TRUE(t + 10000000 > mono && mono + 10000000 > t);
}

static void count_absent(struct rte_mempool *mp, void *arg, struct rte_mempool_memhdr *hdr,
			 unsigned idx)
{
	uintptr_t first = (uintptr_t)hdr->addr & ~(uintptr_t)4095;
	size_t pages = ((uintptr_t)hdr->addr + hdr->len - first + 4095) / 4096;
	unsigned char there[pages];

	CU_ASSERT_EQUAL(
		mincore((char *)hdr->addr - ((uintptr_t)hdr->addr - first), pages * 4096, there),
		0);
	for (size_t i = 0; i < pages; i++)
		*(unsigned *)arg += !(there[i] & 1);
}

/* The memory of buffers is made at once, not page by page: that of a port, and then some more, with
 * pages that a new pool does not touch. */
static void pool(void)
{
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool populates = !madvise(page, 4096, MADV_POPULATE_WRITE);
	struct rte_mempool *mp;
	unsigned absent = 0;
	struct end e;

	CU_ASSERT_EQUAL_FATAL(end_open(&e, "net_ring9", 1500), 0);
	mp = ethdev_pool_create("there", 500, 12000);
	CU_ASSERT_PTR_NOT_NULL_FATAL(mp);
	CU_ASSERT_EQUAL(rte_mempool_avail_count(mp), 500);
	rte_mempool_mem_iter(mp, count_absent, &absent);
	CU_ASSERT(!populates || !absent);
	rte_mempool_free(mp);
	end_close(&e);
	munmap(page, 4096);
}

static void vhost(void)
{
	struct end a, b;

	CU_ASSERT_EQUAL_FATAL(end_open(&a, "net_vhost0,iface=%s/v", 4096), 0);
	CU_ASSERT_FALSE(a.ops->up(a.link));
	CU_ASSERT_EQUAL_FATAL(end_open(&b, "net_virtio_user0,path=%s/v", 4096), 0);
	CU_ASSERT_EQUAL(a.info.max_l3_mtu, 4200);
	exchange(&a, &b);
	end_close(&b); /* the survivor serves the next one */
	CU_ASSERT_EQUAL_FATAL(end_open(&b, "net_virtio_user1,path=%s/v", 4096), 0);
	exchange(&a, &b);
	end_close(&a);
	CU_ASSERT_EQUAL_FATAL(end_open(&a, "net_vhost1,iface=%s/v", 4096), 0);
	exchange(&a, &b);
	end_close(&b);
	end_close(&a);
}

/* What the user gave stands, as far as there are buffers for it. */
static void ring_lengths(void)
{
	static const char *const lengths[] = {"16", "64", "128", "1024", "4096"};
	struct end a, b;
	char port[64];

	CU_ASSERT_EQUAL_FATAL(end_open(&a, "net_vhost0,iface=%s/v", 4096), 0);
	for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		snprintf(port, sizeof(port), "net_virtio_user0,path=%%s/v,queue_size=%s",
			 lengths[i]);
		CU_ASSERT_EQUAL_FATAL(end_open(&b, port, 4096), 0);
		exchange(&a, &b);
		end_close(&b);
	}
	end_close(&a);
}

static void virtio_user_first(void)
{
	struct urxe_frame f;
	struct end a, b;

	CU_ASSERT_EQUAL_FATAL(end_open(&b, "net_virtio_user0,path=%s/v2", 4096), 0);
	CU_ASSERT_FALSE(b.ops->up(b.link));
	CU_ASSERT_STRING_EQUAL(b.info.driver, "net_virtio_user");
	CU_ASSERT_EQUAL_FATAL(b.ops->alloc(b.link, 0, &f, 1), 1);
	memset(f.data, 9, 64);
	f.len = 64;
	CU_ASSERT_EQUAL(b.ops->tx(b.link, 0, &f, 1), 0); /* nobody there to take it */
	b.ops->free(b.link, 0, &f, 1);
	CU_ASSERT_EQUAL_FATAL(end_open(&a, "net_vhost0,iface=%s/v2", 4096), 0);
	exchange(&a, &b);
	end_close(&a);
	end_close(&b);
}

/* The peer's frames are larger than our buffers: the head arrives, nothing breaks. */
static void too_long(void)
{
	struct urxe_frame f;
	struct end a, b;
	uint64_t end;
	bool got = false;

	CU_ASSERT_EQUAL_FATAL(end_open(&a, "net_vhost6,iface=%s/l", 1500), 0);
	CU_ASSERT_EQUAL_FATAL(end_open(&b, "net_virtio_user6,path=%s/l", 4096), 0);
	CU_ASSERT_TRUE_FATAL(both_up(&a, &b));
	CU_ASSERT_TRUE(send_one(&b, 4200, 6));
	for (end = now() + 5000000000u; !got && now() < end;) {
		got = a.ops->rx(a.link, 0, &f, 1) == 1;
		if (!got)
			continue;
		CU_ASSERT_TRUE(f.len >= 1514 && f.len < 4200);
		CU_ASSERT_EQUAL(f.data[f.len - 1], 6);
		a.ops->free(a.link, 0, &f, 1);
	}
	CU_ASSERT_TRUE(got);
	CU_ASSERT_TRUE(send_one(&b, 1000, 7));
	CU_ASSERT_TRUE(get_one(&a, 1000, 7));
	end_close(&b);
	end_close(&a);
}

static void memif(void)
{
	struct end a, b;

	CU_ASSERT_EQUAL_FATAL(end_open(&b, "net_memif0,role=client,socket=%s/m", 4096), 0);
	CU_ASSERT_FALSE(b.ops->up(b.link));
	CU_ASSERT_EQUAL_FATAL(
		end_open(&a, "net_memif1,role=server,socket=%s/n,socket-abstract=no", 4096), 0);
	end_close(&a);
	end_close(&b);
}

static void bad_ports(void)
{
	static const struct {
		const char *port;
		int err;
	} c[] = {
		{"net_nonesuch0", 0},
		{"net_vhost0,ifac=/x", 0},
		{"net_vhost0,iface=/nonexistent/dir/sock", 0},
		{"net_virtio_user0,path=%s/x,server=1", EOPNOTSUPP},
	};
	struct end e;

	for (unsigned i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		int ret = end_open(&e, c[i].port, 1500);

		CU_ASSERT_NOT_EQUAL(ret, 0);
		if (c[i].err)
			CU_ASSERT_EQUAL(ret, c[i].err);
	}
	/* and after all that the process still can */
	CU_ASSERT_EQUAL_FATAL(end_open(&e, "net_ring1", 1500), 0);
	end_close(&e);
}

/* ---- who may be at the other end ---- */

static const char *const sockets[] = {
	"net_vhost8,iface=%s/strange/s", "net_virtio_user8,path=%s/strange/s",
	"net_vhost8,iface=%s/strange/s,client=1", "net_memif8,role=server,socket=%s/strange/s",
	"net_memif8,role=client,socket=%s/strange/s"};
#define NUM_SOCKETS (sizeof(sockets) / sizeof(sockets[0]))

/* Who listens at that socket, and hangs up on each who calls. */
struct listener {
	int fd;
	unsigned calls; /* atomic */
	pthread_t thread;
};

static void *listener_main(void *arg)
{
	struct listener *l = arg;
	int fd;

	while ((fd = accept(l->fd, NULL, NULL)) >= 0) {
		__atomic_fetch_add(&l->calls, 1, __ATOMIC_RELEASE);
		close(fd);
	}
	return NULL;
}

static void strange_path(char *path, size_t len)
{
	snprintf(path, len, "%s/strange/s", dir);
}

static void strange_folder(mode_t mode, uid_t uid)
{
	char folder[64];

	snprintf(folder, sizeof(folder), "%s/strange", dir);
	mkdir(folder, 0700);
	CU_ASSERT_FATAL(!chown(folder, uid, (gid_t)-1) && !chmod(folder, mode));
}

/* The socket of user @uid. */
static void listener_start(struct listener *l, uid_t uid)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	char path[64];

	memset(l, 0, sizeof(*l));
	strange_path(un.sun_path, sizeof(un.sun_path));
	l->fd = socket(AF_UNIX, SOCK_STREAM, 0);
	/* It is there before it has its owner: under another name. */
	strcat(un.sun_path, "0");
	CU_ASSERT_FATAL(!bind(l->fd, (struct sockaddr *)&un, sizeof(un)) &&
			!chown(un.sun_path, uid, (gid_t)-1) && !listen(l->fd, 8));
	strange_path(path, sizeof(path));
	CU_ASSERT_FATAL(!rename(un.sun_path, path));
	CU_ASSERT_FATAL(!pthread_create(&l->thread, NULL, listener_main, l));
}

static void listener_stop(struct listener *l)
{
	char path[64];

	shutdown(l->fd, SHUT_RDWR);
	pthread_join(l->thread, NULL);
	close(l->fd);
	strange_path(path, sizeof(path));
	unlink(path);
}

static bool is_called(struct listener *l, unsigned ms)
{
	uint64_t end = now() + ms * 1000000ull;

	while (!__atomic_load_n(&l->calls, __ATOMIC_ACQUIRE) && now() < end)
		usleep(1000);
	return __atomic_load_n(&l->calls, __ATOMIC_ACQUIRE);
}

/* Which of sockets[] are refused, a bit each. */
static unsigned refused(void)
{
	unsigned set = 0;
	struct end e;

	for (unsigned i = 0; i < NUM_SOCKETS; i++) {
		int ret = end_open(&e, sockets[i], 1500);

		if (!ret)
			end_close(&e);
		if (ret == EPERM)
			set |= 1u << i;
	}
	return set;
}

#define ALL_SOCKETS ((1u << NUM_SOCKETS) - 1)
#define NOBODY	    65534

/* The folder: ours; writable by all; sticky, which will do where nobody can take the socket away.
 */
static void strange_folders(void)
{
	struct end e;

	strange_folder(0755, (uid_t)-1);
	CU_ASSERT_EQUAL(refused(), 0);
	strange_folder(0777, (uid_t)-1);
	CU_ASSERT_EQUAL(refused(), ALL_SOCKETS);
	strange_folder(0770, (uid_t)-1);
	CU_ASSERT_EQUAL(refused(), ALL_SOCKETS);
	strange_folder(01777, (uid_t)-1);
	CU_ASSERT_EQUAL(refused(), 1u << 2 | 1u << 4);
	CU_ASSERT_EQUAL(
		end_open(&e, "net_memif8,role=server,socket=%s/m,socket-abstract=yes", 1500),
		EPERM);
	if (geteuid())
		return;
	strange_folder(0755, NOBODY);
	CU_ASSERT_EQUAL(refused(), ALL_SOCKETS);
	end_trusts = true;
	CU_ASSERT_EQUAL(refused(), 0);
	end_trusts = false;
}

/* The socket: nobody's, in a sticky folder; there from the start, or coming later. */
static void strange_listeners(void)
{
	struct listener l;
	struct end e;

	if (geteuid()) {
		printf("skip strange_listeners: needs root, to give a socket to another user\n");
		return;
	}
	strange_folder(01777, 0);
	listener_start(&l, NOBODY);
	CU_ASSERT_EQUAL(refused(), ALL_SOCKETS);
	CU_ASSERT(!is_called(&l, 0));
	end_trusts = true;
	CU_ASSERT_EQUAL_FATAL(end_open(&e, sockets[1], 1500), 0);
	end_trusts = false;
	CU_ASSERT(is_called(&l, 0));
	end_close(&e);
	listener_stop(&l);

	CU_ASSERT_EQUAL_FATAL(end_open(&e, sockets[1], 1500), 0);
	listener_start(&l, NOBODY);
	CU_ASSERT(!is_called(&l, 500));
	listener_stop(&l);
	listener_start(&l, 0); /* the peer that it waits for */
	CU_ASSERT(is_called(&l, 10000));
	end_close(&e);
	listener_stop(&l);
}

static void buffers_run_out(void)
{
	struct urxe_frame f[64], *all = calloc(5000, sizeof(*all));
	unsigned n = 0, k;
	struct end e;

	CU_ASSERT_EQUAL_FATAL(end_open(&e, "net_ring2", 1500), 0);
	while ((k = e.ops->alloc(e.link, 0, f, 64))) {
		memcpy(all + n, f, k * sizeof(*f));
		n += k;
	}
	CU_ASSERT_TRUE(n > 2000 && n < 5000);
	e.ops->free(e.link, 0, all, n);
	CU_ASSERT_EQUAL(e.ops->alloc(e.link, 0, f, 64), 64);
	e.ops->free(e.link, 0, f, 64);
	end_close(&e);
	free(all);
}

/* As a driver tells it whose peer has written a wrong length: its frames come back to this port. */
static void longer_than_its_buffer(void)
{
	struct urxe_frame f, back;
	struct end e;
	uint32_t room;

	CU_ASSERT_EQUAL_FATAL(end_open(&e, "net_ring3", 1500), 0);
	CU_ASSERT_EQUAL_FATAL(e.ops->alloc(e.link, 0, &f, 1), 1);
	room = f.room;
	f.len = 60000;
	CU_ASSERT_EQUAL_FATAL(e.ops->tx(e.link, 0, &f, 1), 1);
	CU_ASSERT_EQUAL_FATAL(e.ops->rx(e.link, 0, &back, 1), 1);
	CU_ASSERT_EQUAL(back.len, room);
	e.ops->free(e.link, 0, &back, 1);
	end_close(&e);
}

static void wait_and_wake(void)
{
	uint64_t start = now(), one = 1;
	int wake = eventfd(0, EFD_NONBLOCK);
	struct end a, b;
	struct urxe_sleep how = {0};

	CU_ASSERT_EQUAL_FATAL(end_open(&a, "net_vhost4,iface=%s/w", 1500), 0);
	CU_ASSERT_EQUAL_FATAL(end_open(&b, "net_virtio_user4,path=%s/w", 1500), 0);
	CU_ASSERT_TRUE_FATAL(both_up(&a, &b));
	for (unsigned i = 0; i < 2; i++) {
		struct end *rx = i ? &a : &b, *tx = i ? &b : &a;

		/* Beside callers that poll it is not armed. */
		for (unsigned n = 0; n < 3; n++) {
			how = (struct urxe_sleep){.driven = true};
			rx->ops->wait(rx->link, 2000000, wake, &how);
			CU_ASSERT_FALSE(how.interrupt);
		}
		how.driven = false;
		/* Until it sleeps armed; then a frame ends a wait that nothing else would. */
		do
			rx->ops->wait(rx->link, 2000000, wake, &how);
		while (!how.interrupt);
		CU_ASSERT_TRUE(send_one(tx, 64, 5));
		start = now();
		do
			rx->ops->wait(rx->link, 20000000000u, wake, &how);
		while (!get_one(rx, 64, 5));
		CU_ASSERT_TRUE(now() - start < 10000000000u);
	}
	CU_ASSERT_EQUAL(write(wake, &one, 8), 8);
	start = now();
	a.ops->wait(a.link, 20000000000u, wake, &how);
	CU_ASSERT_TRUE(now() - start < 10000000000u);
	end_close(&b);
	end_close(&a);
	close(wake);
}

static void forked_child(void)
{
	struct urxe_frame f;
	struct end a, b;
	int status = -1;
	pid_t pid;

	CU_ASSERT_EQUAL_FATAL(end_open(&a, "net_vhost5,iface=%s/f", 4096), 0);
	CU_ASSERT_EQUAL_FATAL(end_open(&b, "net_virtio_user5,path=%s/f", 4096), 0);
	exchange(&a, &b);
	pid = fork();
	if (!pid) {
		int bad = 0;

		bad |= a.ops->alloc(a.link, 0, &f, 1) != 0;
		bad |= (a.ops->rx(a.link, 0, &f, 1) != 0) << 1;
		bad |= (a.ops->up(a.link)) << 2;
		urxe_log_set_level(URXE_LOG_NONE);
		bad |= (end_open(&b, "net_ring9", 1500) != ENODEV) << 3;
		a.ops->close(a.link);
		_exit(bad);
	}
	waitpid(pid, &status, 0);
	CU_ASSERT_EQUAL(status, 0);
	exchange(&a, &b); /* the parent is none the worse */
	end_close(&b);
	end_close(&a);
}

/* ---- ports that go ---- */

/* Not in the headers that are installed: what drivers call. */
struct rte_eth_dev;
struct rte_eth_dev *rte_eth_dev_get_by_name(const char *name);
int rte_eth_dev_callback_process(struct rte_eth_dev *dev, enum rte_eth_event_type event, void *ret);

/* As a driver does whose device was pulled out. */
static void removed(void)
{
	struct rte_eth_dev *dev;
	struct end e;

	CU_ASSERT_EQUAL_FATAL(end_open(&e, "net_null0", 1024), 0);
	CU_ASSERT(await(&e, e.ops->up, true) && !e.ops->dead(e.link));
	dev = rte_eth_dev_get_by_name("net_null0");
	CU_ASSERT_PTR_NOT_NULL_FATAL(dev);
	rte_eth_dev_callback_process(dev, RTE_ETH_EVENT_INTR_RMV, NULL);
	CU_ASSERT(await(&e, e.ops->dead, true) && await(&e, e.ops->up, false));
	check_gone(&e);
	end_close(&e);
}

static void setup(void)
{
	ends_setup();
	urxe_log_set_level(URXE_LOG_NONE);
}

URXE_TEST_MAIN("ethdev", T(setup), T(clock_is_monotonic), T(guest), T(pool), T(vhost),
	       T(ring_lengths), T(virtio_user_first), T(too_long), T(memif), T(bad_ports),
	       T(longer_than_its_buffer), T(strange_folders), T(strange_listeners),
	       T(buffers_run_out), T(wait_and_wake), T(removed), T(forked_child), T(ends_cleanup))
