/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A membership of the local fabric: how it begins and ends. Who joins passes the gate together with
 * others, and gets the table from a member; who finds nobody there takes the gate alone, and makes
 * a table. A slot is a byte's lock and a robust futex (fabric_thread.c): who holds neither is dead.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "netio/fabric_priv.h"
#include "netio/stack.h"
#include "urxe/log.h"
#include "urxe/sparse.h"

#define PATIENCE (5 * FABRIC_SEC) /* with others that join, and with members that do not answer */
#define FETCH	 (500 * FABRIC_MSEC)

__attribute__((format(printf, 3, 4))) static int fail(struct urxe_fabric *f, int err,
						      const char *fmt, ...)
{
	va_list ap;

	urxe_mutex_lock(&f->lock);
	va_start(ap, fmt);
	vsnprintf(f->error, sizeof(f->error), fmt, ap);
	va_end(ap);
	urxe_mutex_unlock(&f->lock);
	return err;
}

void urxe_fabric_error(struct urxe_fabric *f, char *buf, size_t len)
{
	if (!urxe_fabric_ours(f)) {
		snprintf(buf, len, "the process that joined the fabric forked this one");
		return;
	}
	urxe_mutex_lock(&f->lock);
	snprintf(buf, len, "%s", f->error);
	urxe_mutex_unlock(&f->lock);
}

/* ---- the object ---- */

/* What a membership has before the join, but for its name, addresses and groups. */
static void begin_anew(struct urxe_fabric *f)
{
	urxe_mutex_init(&f->join_lock);
	urxe_mutex_init(&f->lock);
	urxe_mutex_init(&f->hook_lock);
	f->call_at = UINT64_MAX;
	f->epoll = f->wake = f->listener = f->pidfd = -1;
}

int urxe_fabric_create(struct urxe_fabric **out, const struct urxe_fabric_spec *spec, bool node,
		       const uint8_t mac[6])
{
	struct urxe_fabric *f = urxe_alloc_sparse(sizeof(*f));

	if (!f)
		return ENOMEM;
	if (urxe_fhub_begin(&f->process)) {
		free(f);
		return ENOMEM;
	}
	atomic_init(&f->refs, 1);
	f->spec = *spec;
	f->node = node;
	if (mac)
		f->own_mac = urxe_ft_mac_number(mac);
	begin_anew(f);
	*out = f;
	return 0;
}

void urxe_fabric_be_gate(struct urxe_fabric *f)
{
	f->gate = true;
}

const struct urxe_fabric_spec *urxe_fabric_spec_of(const struct urxe_fabric *f)
{
	return &f->spec;
}

struct urxe_fabric *urxe_fabric_ref(struct urxe_fabric *f)
{
	atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);
	return f;
}

bool urxe_fabric_ours(const struct urxe_fabric *f)
{
	return urxe_fabric_in(&f->process);
}

struct urxe_fabric_process urxe_fabric_process(const struct urxe_fabric *f)
{
	return f->process;
}

unsigned urxe_fabric_slot(const struct urxe_fabric *f)
{
	/* Pairs with the release in join(). */
	unsigned slot = atomic_load_explicit(&f->slot, memory_order_acquire);

	return urxe_fabric_ours(f) ? slot : 0;
}

/* ---- the way in ---- */

static void pause_a_little(void)
{
	const struct timespec t = {.tv_nsec = 200000};

	nanosleep(&t, NULL);
}

static const char *why(int err)
{
	switch (err) {
	case EPERM:
	case EACCES:
		return "its members are another user's processes";
	case EPROTO:
		return "its members have another version of urxe";
	case ETIMEDOUT:
		return "none of its members answers (are they stopped?)";
	default:
		return strerror(err);
	}
}

/* Nobody is there: with the gate to ourselves what a crash has left is of no use to anybody. */
static int begin(struct urxe_fhub *hub)
{
	int ret;

	for (unsigned s = URXE_FABRIC_FIRST; s <= URXE_FABRIC_LAST; s++)
		urxe_fhub_unlink(hub, s);
	ret = urxe_fmap_create(hub, &hub->map);
	if (ret)
		urxe_fhub_gate(hub, F_UNLCK);
	return ret;
}

/* EAGAIN: try again. Upon 0 the gate is held, which keeps the last member from cleaning up. */
static int enter_once(struct urxe_fhub *hub)
{
	pid_t pid;
	int ret = urxe_fhub_open(hub, true);

	if (!ret)
		ret = urxe_fhub_gate(hub, F_RDLCK);
	if (ret)
		return ret;
	if (!urxe_fhub_same(hub)) { /* the last one has just removed it */
		urxe_fhub_close(hub);
		return EAGAIN;
	}
	if (urxe_fhub_next(hub, URXE_FABRIC_FIRST, &pid)) {
		ret = urxe_fmsg_fetch(hub, FETCH, &hub->map);
		if (ret == ENOENT)
			ret = EAGAIN;
	} else if (!urxe_fhub_gate(hub, F_WRLCK)) {
		if (!urxe_fhub_next(hub, URXE_FABRIC_FIRST, &pid))
			return begin(hub);
		ret = EAGAIN;
	} else {
		ret = EAGAIN;
	}
	if (ret)
		urxe_fhub_gate(hub, F_UNLCK);
	return ret;
}

/* The table, for the first member of this process in this folder. */
static int enter(struct urxe_fabric *f, struct urxe_fhub *hub)
{
	uint64_t until = urxe_fabric_now() + PATIENCE;
	pid_t pid;
	int ret;

	if (hub->map)
		return 0;
	while ((ret = enter_once(hub)) && (ret == EAGAIN || ret == ETIMEDOUT) &&
	       urxe_fabric_now() < until)
		pause_a_little();
	if (!ret)
		return 0;
	pid = hub->members >= 0 ? urxe_fhub_gate_holder(hub) : 0;
	urxe_fhub_close(hub);
	if (ret == EAGAIN)
		return fail(f, ETIMEDOUT,
			    "cannot join the fabric in %s: process %d has been joining for long "
			    "(is it stopped?)",
			    hub->path, (int)pid);
	return fail(f, ret, "cannot join the fabric in %s: %s", hub->path, why(ret));
}

/* ---- a slot ---- */

/* The order in which to try slots: those that are free for the longest first. */
static unsigned next_choice(struct urxe_ftable *t, uint64_t tried[URXE_FABRIC_SLOTS / 64])
{
	uint64_t best = UINT64_MAX;
	unsigned slot = 0;

	for (unsigned s = URXE_FABRIC_FIRST; s <= URXE_FABRIC_LAST; s++) {
		uint64_t age = atomic_load_explicit(&t->life[s].freed, memory_order_relaxed);

		if (tried[s / 64] >> s % 64 & 1)
			continue;
		/* It lives, or has died just now. */
		if (atomic_load_explicit(&t->life[s].life, memory_order_relaxed))
			age = UINT64_MAX - 1;
		if (age < best) {
			best = age;
			slot = s;
		}
	}
	if (slot)
		tried[slot / 64] |= 1ull << slot % 64;
	return slot;
}

static int take_slot(struct urxe_fhub *hub, struct urxe_ftable *t, unsigned *slot)
{
	uint64_t tried[URXE_FABRIC_SLOTS / 64] = {0};
	int ret;

	while ((*slot = next_choice(t, tried))) {
		ret = urxe_fhub_slot_lock(hub, *slot);
		if (ret == EAGAIN)
			continue;
		if (ret)
			return ret;
		/* Who has closed all descriptors has lost his lock, and lives. */
		if (!urxe_ft_owner_alive(atomic_load(&t->life[*slot].owner)))
			return 0;
		urxe_fhub_slot_unlock(hub, *slot);
	}
	return ENOSPC;
}

static int move_in(struct urxe_fabric *f, struct urxe_ftable *t, unsigned slot)
{
	struct urxe_ft_life *l = &t->life[slot];
	struct urxe_fabric_bell *bell = &t->bell[slot];
	uint64_t old = atomic_load(&l->life);
	uint32_t incarnation;

	if (old)
		urxe_ft_free(t, slot, old);
	do
		incarnation = (uint32_t)urxe_random64();
	while (!incarnation || incarnation == (uint32_t)(old >> 32));
	f->incarnation = incarnation;
	f->domain = f->node ? slot : urxe_ft_host(t);
	if (!f->domain)
		return ENOSPC;
	atomic_store(&l->life, (uint64_t)incarnation << 32 | FT_JOINING);
	atomic_store(&l->owner, 0);
	atomic_store_explicit(&l->domain, f->domain, memory_order_relaxed);
	for (unsigned i = 0; i < URXE_FABRIC_SLOTS / 64; i++)
		atomic_store(&bell->from[i], 0);
	atomic_store(&bell->asleep, 0);
	atomic_store(&bell->futex, 0);
	urxe_mutex_lock(&f->lock);
	urxe_ft_describe(f, t, slot);
	urxe_mutex_unlock(&f->lock);
	return 0;
}

static void put_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void close_all(struct urxe_fabric *f)
{
	put_fd(&f->epoll);
	put_fd(&f->wake);
	put_fd(&f->listener);
	put_fd(&f->pidfd);
}

static int open_all(struct urxe_fabric *f, unsigned slot)
{
	f->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	/* Without it (before Linux 5.3) deaths are found by looking. */
	f->pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	if (f->wake >= 0)
		f->listener = urxe_fmsg_listen(f->hub, slot);
	return f->wake < 0 || f->listener < 0 ? errno : 0;
}

/* The slot is ours: under hub->join. */
static int settle(struct urxe_fabric *f, struct urxe_ftable *t, unsigned slot)
{
	uint64_t life;
	int ret;

	ret = move_in(f, t, slot);
	if (!ret)
		ret = open_all(f, slot);
	if (!ret)
		ret = urxe_fabric_thread_start(f, slot);
	life = (uint64_t)f->incarnation << 32;
	if (ret) {
		urxe_mutex_lock(&f->lock);
		f->described = 0;
		urxe_mutex_unlock(&f->lock);
		close_all(f);
		urxe_ft_free(t, slot, life | FT_JOINING);
		urxe_fhub_unlink(f->hub, slot);
		return ret;
	}
	/* Pairs with the acquire of who looks for us: our record is written. */
	atomic_store_explicit(&t->life[slot].life, life | FT_LIVE, memory_order_release);
	atomic_fetch_add(&t->addrs, 1);
	atomic_fetch_add(&t->groups, 1);
	return 0;
}

static int claim(struct urxe_fabric *f)
{
	struct urxe_fhub *hub = f->hub;
	struct urxe_ftable *t;
	unsigned slot = 0;
	int ret = enter(f, hub);

	if (ret)
		return ret;
	t = hub->map->table;
	ret = take_slot(hub, t, &slot);
	/* Should we be stopped from here on, others find the slot, and the table by it. */
	if (hub->members >= 0)
		urxe_fhub_gate(hub, F_UNLCK);
	if (!ret) {
		ret = settle(f, t, slot);
		if (ret)
			urxe_fhub_slot_unlock(hub, slot);
	}
	if (!ret) {
		hub->count++;
		f->map = urxe_fmap_ref(hub->map);
		atomic_store_explicit(&f->table, t, memory_order_release);
		atomic_store_explicit(&f->slot, slot, memory_order_release);
	} else if (ret == ENOSPC) {
		fail(f, ret, "all %u places of the fabric in %s are taken", URXE_FABRIC_LAST,
		     hub->path);
	} else {
		fail(f, ret, "cannot join the fabric in %s: %s", hub->path, strerror(ret));
	}
	return ret;
}

/* The last member of this process has left, or the first could not join. */
static void leave_folder(struct urxe_fhub *hub)
{
	urxe_fmap_put(hub->map, false);
	hub->map = NULL;
	urxe_fhub_last(hub);
	urxe_fhub_close(hub);
}

/* An object that looked on before has its hub already. */
static int find_hub(struct urxe_fabric *f, bool make)
{
	char path[FABRIC_DIR_LEN], err[400] = "";
	bool group;
	int fd, ret;

	if (f->hub)
		return 0;
	fd = urxe_fdir_open(&f->spec, make, &group, err, sizeof(err));
	if (fd < 0) {
		ret = errno;
		return fail(f, ret, "%s", err);
	}
	urxe_fabric_spec_dir(&f->spec, path, sizeof(path));
	f->hub = urxe_fhub_get(fd, path, group);
	return f->hub ? 0 : fail(f, ENOMEM, "no memory");
}

static int join(struct urxe_fabric *f)
{
	int ret = find_hub(f, true);

	if (ret)
		return ret;
	if (f->map) { /* it has looked on so far: at a table that may have gone */
		atomic_store(&f->table, NULL);
		urxe_fmap_put(f->map, false);
		f->map = NULL;
	}
	urxe_mutex_lock(&f->hub->join);
	ret = claim(f);
	if (!f->hub->count && f->hub->map)
		leave_folder(f->hub);
	urxe_mutex_unlock(&f->hub->join);
	return ret;
}

int urxe_fabric_join(struct urxe_fabric *f)
{
	int ret = 0;

	if (!urxe_fabric_ours(f))
		return ENODEV;
	if (atomic_load_explicit(&f->slot, memory_order_acquire))
		return 0;
	urxe_mutex_lock(&f->join_lock);
	if (!atomic_load(&f->slot)) {
		ret = join(f);
		if (ret)
			urxe_err("%s", f->error);
		else
			fail(f, 0, "%s", "");
	}
	urxe_mutex_unlock(&f->join_lock);
	return ret;
}

/* Members of this process have the table; else it is asked for. */
static int look_on(struct urxe_fabric *f)
{
	struct urxe_fhub *hub = f->hub;
	int ret = 0;

	if (hub->map) {
		f->map = urxe_fmap_ref(hub->map);
		return 0;
	}
	ret = urxe_fhub_open(hub, false);
	if (!ret)
		ret = urxe_fmsg_fetch(hub, FETCH, &f->map);
	if (ret)
		urxe_fhub_close(hub);
	return ret;
}

int urxe_fabric_observe(struct urxe_fabric *f)
{
	int ret;

	if (!urxe_fabric_ours(f))
		return ENODEV;
	urxe_mutex_lock(&f->join_lock);
	ret = f->map ? 0 : find_hub(f, false);
	if (!ret && !f->map) {
		urxe_mutex_lock(&f->hub->join);
		ret = look_on(f);
		urxe_mutex_unlock(&f->hub->join);
		if (ret)
			fail(f, ret, "cannot look at the fabric in %s: %s", f->hub->path, why(ret));
		else
			atomic_store_explicit(&f->table, f->map->table, memory_order_release);
	}
	urxe_mutex_unlock(&f->join_lock);
	return ret;
}

/* ---- the way out ---- */

static void leave(struct urxe_fabric *f)
{
	unsigned slot = atomic_load(&f->slot);

	urxe_fabric_thread_stop(f);
	urxe_mutex_lock(&f->hub->join);
	urxe_fhub_unlink(f->hub, slot);
	urxe_fhub_slot_unlock(f->hub, slot);
	if (!--f->hub->count)
		leave_folder(f->hub);
	urxe_mutex_unlock(&f->hub->join);
	close_all(f);
}

static void forget_folder(struct urxe_fabric *f, bool child)
{
	urxe_fmap_put(f->map, child);
	if (f->hub) {
		if (child && f->hub->map && atomic_load(&f->slot) && !--f->hub->count)
			urxe_fmap_put(f->hub->map, true);
		urxe_fhub_put(f->hub, child);
	}
}

void urxe_fabric_inherit(struct urxe_fabric *f)
{
	if (urxe_fabric_ours(f))
		return;
	/* Descriptors stay open: their numbers may be other files' by now. */
	forget_folder(f, true);
	f->hub = NULL;
	f->map = NULL;
	atomic_store(&f->table, NULL);
	atomic_store(&f->slot, 0);
	f->described = 0;
	memset(f->asking, 0, sizeof(f->asking));
	memset(f->fresh, 0, sizeof(f->fresh));
	memset(f->peer, 0, sizeof(f->peer));
	f->listen_again = f->look = 0;
	atomic_store(&f->serves, false);
	begin_anew(f);
	urxe_fhub_begin(&f->process); /* its page is there */
}

void urxe_fabric_put(struct urxe_fabric *f)
{
	bool child;

	if (!f || atomic_fetch_sub_explicit(&f->refs, 1, memory_order_acq_rel) != 1)
		return;
	child = !urxe_fabric_ours(f);
	if (!child && atomic_load(&f->slot))
		leave(f);
	forget_folder(f, child);
	free(f->group);
	free(f);
}
