/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The one lock of rdma_cm and ib_cm, their devices, and their ends: fork and exit. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cm/device/device.h"
#include "provider/gsi.h"
#include "urxe/cancel.h"
#include "urxe/log.h"
#include "urxedv.h"

#define EXIT_LOCK_MS  200  /* at exit: for whoever has the lock */
#define EXIT_START_MS 3000 /* and for a device that is starting */

struct urxe_mutex urxe_cma_lock = URXE_MUTEX_INIT;

/* What the API forces to be global. Guarded by the lock. */
static struct {
	bool loaded;
	bool dead;     /* the process is exiting */
	unsigned life; /* counted up in a child of a parent with agents */
	bool exiting;
	pthread_t exiter;  /* who runs the destructors */
	unsigned starting; /* devices, in the background */
	void (*children[URXE_CMA_MAX_CHILDREN])(bool begun);
	const struct urxe_device_client *client; /* NULL: none yet */
	unsigned n;
	struct urxe_cma_dev devices[URXE_CMA_MAX_DEVICES];
} lib;

/* signalled when a device has started, or failed to */
static pthread_cond_t started = PTHREAD_COND_INITIALIZER;

/* A thread that is cancelled in a system call under the lock would keep it. */
static _Thread_local int cancel_state;

void urxe_cma_hold(void)
{
	int old = urxe_cancel_off();

	urxe_mutex_lock(&urxe_cma_lock);
	cancel_state = old;
}

/* What was done under the lock may have set timers of the CMs, which are to run by then. */
static void kick(void) URXE_REQUIRES(urxe_cma_lock)
{
	for (unsigned i = 0; i < lib.n; i++) {
		if (lib.devices[i].agent)
			urxe_agent_kick(lib.devices[i].agent);
	}
}

void urxe_cma_release(void)
{
	int old = cancel_state;

	kick();
	urxe_mutex_unlock(&urxe_cma_lock);
	urxe_cancel_back(old);
}

bool urxe_cma_await(pthread_cond_t *cond, const struct timespec *until)
{
	kick();
	if (until)
		return urxe_mutex_timedwait(&urxe_cma_lock, cond, until);
	urxe_mutex_wait(&urxe_cma_lock, cond);
	return false;
}

static struct timespec in_ms(unsigned ms)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	ts.tv_nsec += (long)(ms % 1000) * 1000000;
	ts.tv_sec += ms / 1000 + ts.tv_nsec / 1000000000;
	ts.tv_nsec %= 1000000000;
	return ts;
}

bool urxe_cma_hold_at_exit(void)
{
	const struct timespec until = in_ms(EXIT_LOCK_MS);
	int old = urxe_cancel_off();

	if (!urxe_mutex_timedlock(&urxe_cma_lock, &until)) {
		urxe_cancel_back(old);
		return false;
	}
	cancel_state = old;
	return true;
}

/*
 * A child has the parent's memory, but none of its threads, and the port is the parent's. What
 * was not started in the parent may be started in the child, with the ids that there are; what was
 * is begun anew, and ids and channels of the parent's are refused. What is half started could be
 * neither used nor started again.
 */
static void fork_prepare(void) URXE_ACQUIRE(urxe_cma_lock)
{
	urxe_mutex_lock(&urxe_cma_lock);
	while (lib.starting)
		urxe_mutex_wait(&urxe_cma_lock, &started);
}

static void fork_parent(void) URXE_RELEASE(urxe_cma_lock)
{
	urxe_mutex_unlock(&urxe_cma_lock);
}

static bool device_begun(const struct urxe_cma_dev *dev) URXE_REQUIRES(urxe_cma_lock)
{
	return dev->agent || (dev->verbs && urxe_gsi_lost(dev->verbs));
}

/* What it had stays in memory as it is: the parent's. */
static void device_forget(struct urxe_cma_dev *dev) URXE_REQUIRES(urxe_cma_lock)
{
	if (dev->verbs && urxe_gsi_lost(dev->verbs)) {
		dev->verbs = NULL;
		dev->pd = NULL;
		dev->xrcd = NULL;
	}
	dev->agent = NULL;
	dev->listening = NULL;
	dev->lost = false;
	CDS_INIT_LIST_HEAD(&dev->starters);
}

static void fork_child(void) URXE_RELEASE(urxe_cma_lock)
{
	bool begun = false;

	for (unsigned i = 0; i < lib.n; i++)
		begun |= device_begun(&lib.devices[i]);
	for (unsigned i = 0; begun && i < lib.n; i++)
		device_forget(&lib.devices[i]);
	lib.life += begun;
	pthread_cond_init(&started, NULL);
	for (unsigned i = 0; i < URXE_CMA_MAX_CHILDREN && lib.children[i]; i++)
		lib.children[i](begun);
	urxe_mutex_unlock(&urxe_cma_lock); /* taken by this very thread before the fork */
}

static int load(void)
{
	struct ibv_device **list;
	int n;

	if (lib.loaded)
		return lib.n ? 0 : ENODEV;
	list = urxedv_get_device_list(&n);
	if (!list)
		return ENODEV; /* urxedv has said why */
	for (int i = 0; i < n && lib.n < URXE_CMA_MAX_DEVICES; i++) {
		struct urxe_cma_dev *dev = &lib.devices[lib.n];

		dev->device = list[i];
		dev->index = lib.n++;
		CDS_INIT_LIST_HEAD(&dev->starters);
	}
	urxedv_free_device_list(list);
	urxe_log_set_level((enum urxe_log_level)urxe_gsi_log_level());
	lib.loaded = true;
	pthread_atfork(fork_prepare, fork_parent, fork_child);
	return lib.n ? 0 : ENODEV;
}

int urxe_cma_enter(void)
{
	int err;

	urxe_cma_hold();
	/*
	 * While one thread ends the process, others are still in their loops: an error now would
	 * have them complain, or exit with another status. They stay until they are gone.
	 */
	while (lib.exiting && !pthread_equal(lib.exiter, pthread_self())) {
		urxe_cma_release();
		pause();
		urxe_cma_hold();
	}
	err = lib.dead ? ENODEV : load();
	if (err)
		urxe_cma_release();
	return err;
}

unsigned urxe_cma_life(void)
{
	return lib.life;
}

void urxe_cma_on_child(void (*fn)(bool begun))
{
	unsigned i = 0;

	while (i < URXE_CMA_MAX_CHILDREN && lib.children[i] && lib.children[i] != fn)
		i++;
	if (i < URXE_CMA_MAX_CHILDREN)
		lib.children[i] = fn;
}

void urxe_cma_leave(void)
{
	urxe_cma_release();
}

void urxe_cma_set_client(const struct urxe_device_client *client)
{
	lib.client = client;
}

const struct urxe_device_client *urxe_cma_get_client(void)
{
	return lib.client;
}

unsigned urxe_cma_num_devices(void)
{
	return lib.n;
}

static int open_device(struct urxe_cma_dev *dev) URXE_REQUIRES(urxe_cma_lock)
{
	int err;

	if (dev->verbs)
		return 0;
	dev->verbs = ibv_open_device(dev->device);
	if (!dev->verbs)
		return errno ? errno : ENODEV;
	err = ibv_query_device(dev->verbs, &dev->attr);
	if (!err) {
		urxe_cma_read_gids(dev);
		dev->pd = ibv_alloc_pd(dev->verbs);
		if (dev->pd)
			return 0;
		err = errno;
	}
	ibv_close_device(dev->verbs);
	dev->verbs = NULL;
	return err;
}

struct urxe_cma_dev *urxe_cma_device_peek(unsigned i)
{
	return i < lib.n ? &lib.devices[i] : NULL;
}

struct urxe_cma_dev *urxe_cma_device(unsigned i, int *err)
{
	if (i >= lib.n) {
		*err = ENODEV;
		return NULL;
	}
	*err = open_device(&lib.devices[i]);
	return *err ? NULL : &lib.devices[i];
}

struct ibv_xrcd *urxe_cma_xrcd(struct urxe_cma_dev *dev, int *err)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};

	urxe_cma_hold();
	*err = 0;
	if (!dev->xrcd) {
		dev->xrcd = ibv_open_xrcd(dev->verbs, &attr);
		*err = dev->xrcd ? 0 : errno;
	}
	urxe_cma_release();
	return dev->xrcd;
}

void urxe_cma_drive_begin(struct urxe_cma_drive *d)
{
	d->n = 0;
	for (unsigned i = 0; i < lib.n; i++) {
		if (!lib.devices[i].agent)
			continue;
		d->verbs[d->n] = lib.devices[i].verbs;
		urxe_gsi_drive_begin(d->verbs[d->n++]);
	}
}

bool urxe_cma_drive_turn(const struct urxe_cma_drive *d)
{
	bool busy = false;

	for (unsigned i = 0; i < d->n; i++) {
		if (urxe_gsi_drive(d->verbs[i]) > 0)
			busy = true;
	}
	return busy;
}

void urxe_cma_drive_end(const struct urxe_cma_drive *d, bool sleeps)
{
	for (unsigned i = 0; i < d->n; i++)
		urxe_gsi_drive_end(d->verbs[i], sleeps);
}

struct urxe_cma_dev *urxe_cma_device_of(const struct ibv_context *ctx, int *err)
{
	for (unsigned i = 0; i < lib.n; i++) {
		if (lib.devices[i].device == ctx->device)
			return urxe_cma_device(i, err);
	}
	*err = ENODEV;
	return NULL;
}

void urxe_cma_start_begin(void)
{
	lib.starting++;
}

int urxe_cma_start_end(void)
{
	lib.starting--;
	pthread_cond_broadcast(&started);
	return lib.dead ? ECANCELED : 0;
}

void urxe_cma_say_ready(void)
{
	const char *path = getenv("URXE_READY_FILE");
	int fd;

	if (!path || !*path)
		return;
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0)
		urxe_warn("URXE_READY_FILE %s: %s", path, strerror(errno));
	else
		close(fd);
}

/* What starts uses libraries that are about to end. It takes its time, but not for ever. */
static void wait_for_starts(void) URXE_REQUIRES(urxe_cma_lock)
{
	const struct timespec until = in_ms(EXIT_START_MS);

	while (lib.starting && !urxe_mutex_timedwait(&urxe_cma_lock, &started, &until))
		;
}

/*
 * The process ends: peers get a DREQ or REJ, and need no time-out. The lock may be held by a
 * thread that is no more; then there is nothing to be done.
 */
__attribute__((destructor)) static void lib_exit(void)
{
	bool was_dead;

	if (!urxe_cma_hold_at_exit())
		return;
	was_dead = lib.dead;
	if (!was_dead) {
		lib.dead = true;
		lib.exiter = pthread_self();
		lib.exiting = true;
		wait_for_starts();
	}
	urxe_cma_release();
	for (unsigned i = 0; !was_dead && i < lib.n; i++)
		urxe_agent_stop(&lib.devices[i]);
}
