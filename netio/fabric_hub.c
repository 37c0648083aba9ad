/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * This process in a fabric's folder: the file `members`, whose bytes are locked (byte 0: the gate
 * of those who join; byte N: slot N), and which slots are ours. POSIX's locks of all locks end with
 * the process that took them, though its children have the descriptor. But they end, too, when it
 * closes any descriptor of the file, and do not keep its own threads apart: so there is one
 * of these for a folder, which a list finds. The list is in a page that a forked child finds empty:
 * it has joined nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "netio/fabric_priv.h"
#include "netio/stack.h"
#include "urxe/free.h"
#include "urxe/inode.h"

#define FILE_NAME "members"

struct registry {
	struct urxe_mutex lock;
	_Atomic uint64_t generation;
	struct urxe_fhub *list;
};

/* The process's, in a page of its own. All zeros is a list that is empty, and a free lock. */
static struct registry *registry;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void wipe(void)
{
	memset(registry, 0, sizeof(*registry));
}

static void make_registry(void)
{
	size_t size = (size_t)sysconf(_SC_PAGESIZE);
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return;
	registry = p;
	if (madvise(p, size, MADV_WIPEONFORK))
		pthread_atfork(NULL, NULL, wipe); /* before Linux 4.14 */
}

int urxe_fhub_begin(struct urxe_fabric_process *p)
{
	uint64_t old = 0, fresh;

	pthread_once(&once, make_registry);
	if (!registry)
		return ENOMEM;
	fresh = urxe_random64() | 1;
	p->word = &registry->generation;
	p->number =
		atomic_compare_exchange_strong(&registry->generation, &old, fresh) ? fresh : old;
	return 0;
}

/* ---- hubs ---- */

static struct urxe_fhub *find(dev_t dev, ino_t ino) URXE_REQUIRES(registry->lock)
{
	struct urxe_fhub *hub = registry->list;

	while (hub && (hub->dev != dev || hub->ino != ino))
		hub = hub->next;
	return hub;
}

static struct urxe_fhub *make(int dir, const struct stat *st, const char *path, bool group)
	URXE_REQUIRES(registry->lock)
{
	struct urxe_fhub *hub = calloc(1, sizeof(*hub));

	if (!hub)
		return NULL;
	hub->dev = st->st_dev;
	hub->ino = st->st_ino;
	hub->dir = dir;
	hub->group = group;
	hub->members = -1;
	snprintf(hub->path, sizeof(hub->path), "%s", path);
	urxe_mutex_init(&hub->join);
	urxe_mutex_init(&hub->lock);
	hub->next = registry->list;
	registry->list = hub;
	return hub;
}

struct urxe_fhub *urxe_fhub_get(int dir, const char *path, bool group)
{
	struct urxe_fhub *hub = NULL;
	struct stat st;
	bool made = false;

	if (!fstat(dir, &st)) {
		urxe_mutex_lock(&registry->lock);
		hub = find(st.st_dev, st.st_ino);
		if (!hub)
			made = (hub = make(dir, &st, path, group)) != NULL;
		if (hub)
			hub->refs++;
		urxe_mutex_unlock(&registry->lock);
	}
	if (!made)
		close(dir);
	return hub;
}

static void forget(struct urxe_fhub *hub) URXE_REQUIRES(registry->lock)
{
	struct urxe_fhub **p = &registry->list;

	while (*p != hub)
		p = &(*p)->next;
	*p = hub->next;
}

void urxe_fhub_put(struct urxe_fhub *hub, bool child)
{
	unsigned left;

	if (child) { /* which has one thread, and knows of no other hub */
		if (!--hub->refs)
			free(hub);
		return;
	}
	urxe_mutex_lock(&registry->lock);
	left = --hub->refs;
	if (!left)
		forget(hub);
	urxe_mutex_unlock(&registry->lock);
	if (left)
		return;
	urxe_fhub_close(hub);
	close(hub->dir);
	urxe_mutex_fini(&hub->join);
	urxe_mutex_fini(&hub->lock);
	free(hub);
}

struct urxe_fmap *urxe_fmap_ref(struct urxe_fmap *map)
{
	urxe_mutex_lock(&registry->lock);
	map->refs++;
	urxe_mutex_unlock(&registry->lock);
	return map;
}

/* A child does not touch the lock: its registry is an empty page, and it has no other thread. More
 * than clang follows. */
static unsigned drop(struct urxe_fmap *map, bool child) URXE_UNCHECKED
{
	unsigned left;

	if (child)
		return --map->refs;
	urxe_mutex_lock(&registry->lock);
	left = --map->refs;
	urxe_mutex_unlock(&registry->lock);
	return left;
}

void urxe_fmap_put(struct urxe_fmap *map, bool child)
{
	if (!map || drop(map, child))
		return;
	munmap(map->table, sizeof(*map->table));
	if (!child)
		close(map->fd);
	free(map);
}

/* ---- the file ---- */

/* The user's other processes must be able to lock, whatever our umask is; in a folder for a group
 * all of it. */
static void share(const struct urxe_fhub *hub, int fd)
{
	struct stat dir, st;

	if (fstat(hub->dir, &dir) || fstat(fd, &st) || st.st_uid != geteuid())
		return;
	if (hub->group && st.st_gid != dir.st_gid && fchown(fd, (uid_t)-1, dir.st_gid))
		return;
	fchmod(fd, hub->group ? 0660 : 0600);
}

int urxe_fhub_open(struct urxe_fhub *hub, bool make_it)
{
	int fd;

	if (hub->members >= 0)
		return 0;
	fd = openat(hub->dir, FILE_NAME, O_RDWR | O_CLOEXEC | O_NOFOLLOW | (make_it ? O_CREAT : 0),
		    0600);
	if (fd < 0)
		return errno;
	share(hub, fd);
	urxe_mutex_lock(&hub->lock);
	hub->members = fd;
	urxe_mutex_unlock(&hub->lock);
	return 0;
}

bool urxe_fhub_same(struct urxe_fhub *hub)
{
	return urxe_inode_at(hub->dir, FILE_NAME, hub->members);
}

void urxe_fhub_close(struct urxe_fhub *hub)
{
	urxe_mutex_lock(&hub->lock);
	if (hub->members >= 0)
		close(hub->members);
	hub->members = -1;
	urxe_mutex_unlock(&hub->lock);
}

static int lock_byte(int fd, unsigned byte, int type)
{
	struct flock l = {.l_type = (short)type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};

	if (!fcntl(fd, F_SETLK, &l))
		return 0;
	return errno == EACCES ? EAGAIN : errno;
}

int urxe_fhub_gate(struct urxe_fhub *hub, int type)
{
	return lock_byte(hub->members, 0, type);
}

pid_t urxe_fhub_gate_holder(struct urxe_fhub *hub)
{
	struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};

	return fcntl(hub->members, F_GETLK, &l) || l.l_type == F_UNLCK || l.l_pid < 0 ? 0 : l.l_pid;
}

static bool held(const struct urxe_fhub *hub, unsigned slot) URXE_REQUIRES(hub->lock)
{
	return hub->held[slot / 64] >> slot % 64 & 1;
}

static int take(struct urxe_fhub *hub, unsigned slot) URXE_REQUIRES(hub->lock)
{
	int ret;

	if (hub->ending)
		return ESHUTDOWN;
	if (held(hub, slot))
		return EAGAIN;
	if (hub->members < 0)
		return EBADF;
	ret = lock_byte(hub->members, slot, F_WRLCK);
	if (!ret)
		hub->held[slot / 64] |= 1ull << slot % 64;
	return ret;
}

static void give(struct urxe_fhub *hub, unsigned slot) URXE_REQUIRES(hub->lock)
{
	hub->held[slot / 64] &= ~(1ull << slot % 64);
	lock_byte(hub->members, slot, F_UNLCK);
}

int urxe_fhub_slot_lock(struct urxe_fhub *hub, unsigned slot)
{
	int ret;

	urxe_mutex_lock(&hub->lock);
	ret = take(hub, slot);
	urxe_mutex_unlock(&hub->lock);
	return ret;
}

void urxe_fhub_slot_unlock(struct urxe_fhub *hub, unsigned slot)
{
	urxe_mutex_lock(&hub->lock);
	give(hub, slot);
	urxe_mutex_unlock(&hub->lock);
}

unsigned urxe_fhub_next(struct urxe_fhub *hub, unsigned slot, pid_t *pid)
{
	struct flock l = {.l_type = F_WRLCK,
			  .l_whence = SEEK_SET,
			  .l_start = slot,
			  .l_len = URXE_FABRIC_LAST + 1 - (off_t)slot};

	if (slot > URXE_FABRIC_LAST || fcntl(hub->members, F_GETLK, &l) || l.l_type == F_UNLCK)
		return 0;
	*pid = l.l_pid > 0 ? l.l_pid : 0;
	/* A lock may begin before what was asked for: bytes side by side are one. */
	return l.l_start > (off_t)slot ? (unsigned)l.l_start : slot;
}

pid_t urxe_fhub_pid(struct urxe_fhub *hub, unsigned slot)
{
	pid_t pid = 0;
	bool ours;

	urxe_mutex_lock(&hub->lock);
	ours = held(hub, slot);
	if (!ours && hub->members >= 0 && urxe_fhub_next(hub, slot, &pid) != slot)
		pid = 0;
	urxe_mutex_unlock(&hub->lock);
	return ours ? getpid() : pid;
}

void urxe_fhub_unlink(struct urxe_fhub *hub, unsigned slot)
{
	char name[16];

	snprintf(name, sizeof(name), "%u", slot);
	unlinkat(hub->dir, name, 0);
}

bool urxe_fhub_bury(struct urxe_fhub *hub, struct urxe_ftable *t, unsigned slot,
		    uint32_t incarnation)
{
	uint64_t life = atomic_load_explicit(&t->life[slot].life, memory_order_acquire);
	bool dead = false;

	if ((uint32_t)(life >> 32) != incarnation || (uint32_t)life == FT_FREE)
		return true;
	if (urxe_ft_owner_alive(atomic_load(&t->life[slot].owner)) || atomic_load(&hub->ending))
		return false;
	urxe_mutex_lock(&hub->lock);
	if (!take(hub, slot)) {
		/* Nobody else can join at this slot now. */
		dead = !urxe_ft_owner_alive(atomic_load(&t->life[slot].owner));
		if (dead && urxe_ft_free(t, slot, life))
			urxe_fhub_unlink(hub, slot);
		give(hub, slot);
	}
	urxe_mutex_unlock(&hub->lock);
	return dead;
}

#define LAST_TRIES 4000 /* where a hundred end at once, each has a lock for a millisecond */

static const struct timespec last_pause = {.tv_nsec = 100000};

static bool nobody(struct urxe_fhub *hub)
{
	pid_t pid;

	return urxe_fhub_same(hub) && !urxe_fhub_next(hub, URXE_FABRIC_FIRST, &pid);
}

/*
 * Who joins has the gate with others, and who makes a table, or cleans up, alone. Somebody who ends
 * as well may have given up while we had it, as the last one: so we look again after that.
 */
void urxe_fhub_last(struct urxe_fhub *hub)
{
	unsigned rounds = 8; /* and no more, where the file cannot be removed */

	do {
		int ret = EAGAIN;

		for (unsigned i = 0; i < LAST_TRIES && ret == EAGAIN; i++) {
			ret = urxe_fhub_gate(hub, F_WRLCK);
			if (ret == EAGAIN)
				nanosleep(&last_pause, NULL);
		}
		if (ret)
			return;
		if (nobody(hub)) {
			for (unsigned s = URXE_FABRIC_FIRST; s <= URXE_FABRIC_LAST; s++)
				urxe_fhub_unlink(hub, s);
			unlinkat(hub->dir, FILE_NAME, 0);
		}
		urxe_fhub_gate(hub, F_UNLCK);
	} while (--rounds && nobody(hub));
}

/* At the end: whoever has the lock may never give it back. A thread of ours that works does, soon.
 */
static bool lock_soon(struct urxe_mutex *lock) URXE_UNCHECKED
{
	unsigned tries = 0;

	while (!urxe_mutex_trylock(lock)) {
		if (++tries > LAST_TRIES)
			return false;
		nanosleep(&last_pause, NULL);
	}
	return true;
}

/*
 * The slots of this process: their sockets go, and their locks, or of several processes that end at
 * once each would take another one for the last. Nor does a thread of ours take one from now on, if
 * only to bury somebody: that would look like a member to the last one, when we have looked
 * already. The futexes still say that we live. False: the lock cannot be had.
 */
static bool let_slots_go(struct urxe_fhub *hub) URXE_UNCHECKED
{
	/* First: a thread of ours that buries all who end with us would have the lock each time. */
	atomic_store(&hub->ending, true);
	if (!lock_soon(&hub->lock))
		return false;
	for (unsigned s = URXE_FABRIC_FIRST; s <= URXE_FABRIC_LAST; s++) {
		if (!held(hub, s))
			continue;
		urxe_fhub_unlink(hub, s);
		give(hub, s);
	}
	urxe_mutex_unlock(&hub->lock);
	return true;
}

/*
 * A program that ends without closing its devices: the kernel sees to the locks and the memory, but
 * not to the files. Threads of ours may be running still. What is not removed here is by the next
 * one that joins.
 */
__attribute__((destructor)) void urxe_fhub_exit(void) URXE_UNCHECKED
{
	if (!registry || !lock_soon(&registry->lock))
		return;
	for (struct urxe_fhub *hub = registry->list; hub; hub = hub->next) {
		if (hub->members >= 0 && let_slots_go(hub))
			urxe_fhub_last(hub);
	}
	urxe_mutex_unlock(&registry->lock);
}
