/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The shared table: made, adopted, and what members say of themselves there. It is a memfd that
 * nobody can shrink, or the next touch would be a SIGBUS; it needs no /dev/shm, and is gone with
 * the last member.
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

#define SEALS	   (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define READ_TRIES 16

/* ---- the memory ---- */

void urxe_fmap_name(const struct urxe_fhub *hub, char *name, size_t len)
{
	snprintf(name, len, "urxe-fabric-%lx-%lx", (unsigned long)hub->dev,
		 (unsigned long)hub->ino);
}

static int map_fd(int fd, struct urxe_fmap **out)
{
	struct urxe_fmap *map = malloc(sizeof(*map));

	if (!map)
		return ENOMEM;
	map->fd = fd;
	map->refs = 1;
	map->table = mmap(NULL, sizeof(*map->table), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map->table == MAP_FAILED) {
		int err = errno;

		free(map);
		return err;
	}
	*out = map;
	return 0;
}

static void begin_table(struct urxe_ftable *t)
{
	uint64_t random = urxe_random64();

	t->magic = FT_MAGIC;
	t->version = FT_VERSION;
	t->size = sizeof(*t);
	/* Locally administered, no group; nodes have their slot in the last byte. */
	random = (random & 0xfcffffffff00) | 0x020000000000;
	atomic_init(&t->mac, random);
	atomic_init(&t->clock, 1);
}

int urxe_fmap_create(const struct urxe_fhub *hub, struct urxe_fmap **map)
{
	char name[64];
	int fd, ret;

	urxe_fmap_name(hub, name, sizeof(name));
	fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return errno;
	ret = ftruncate(fd, sizeof(struct urxe_ftable)) ? errno : map_fd(fd, map);
	if (!ret) {
		begin_table((*map)->table);
		if (!fcntl(fd, F_ADD_SEALS, SEALS))
			return 0;
		ret = errno;
		munmap((*map)->table, sizeof(*(*map)->table));
		free(*map);
	}
	close(fd);
	return ret;
}

int urxe_fmap_adopt(int fd, struct urxe_fmap **map)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS), ret = EPROTO;

	/* The seals first: what has them stays as it is. */
	if (seals >= 0 && (seals & SEALS) == SEALS && !(seals & F_SEAL_WRITE) && !fstat(fd, &st) &&
	    S_ISREG(st.st_mode) && st.st_size == (off_t)sizeof(struct urxe_ftable))
		ret = map_fd(fd, map);
	if (ret) {
		close(fd);
		return ret;
	}
	if ((*map)->table->magic == FT_MAGIC && (*map)->table->version == FT_VERSION &&
	    (*map)->table->size == sizeof(struct urxe_ftable))
		return 0;
	munmap((*map)->table, sizeof(*(*map)->table));
	free(*map);
	close(fd);
	return EPROTO;
}

/* ---- slots ---- */

bool urxe_ft_free(struct urxe_ftable *t, unsigned slot, uint64_t life)
{
	struct urxe_ft_life *l = &t->life[slot];

	if (!atomic_compare_exchange_strong(&l->life, &life, 0))
		return false;
	atomic_store_explicit(&l->freed, atomic_fetch_add(&t->clock, 1), memory_order_relaxed);
	atomic_fetch_add(&t->addrs, 1);
	atomic_fetch_add(&t->groups, 1);
	return true;
}

unsigned urxe_ft_host(struct urxe_ftable *t)
{
	struct stat st;
	uint64_t id, old;

	id = stat("/proc/self/ns/net", &st) ? 1 : (uint64_t)st.st_dev << 32 ^ st.st_ino;
	for (unsigned h = 0; h < FT_HOSTS; h++) {
		old = 0;
		if (atomic_compare_exchange_strong(&t->host[h], &old, id) || old == id)
			return FT_HOST + h;
	}
	/* So many have come by: one whose members are gone. */
	for (unsigned h = 0; h < FT_HOSTS; h++) {
		bool used = false;

		old = atomic_load(&t->host[h]);
		for (unsigned s = URXE_FABRIC_FIRST; s <= URXE_FABRIC_LAST && !used; s++)
			used = urxe_ft_incarnation(t, s) && urxe_ft_domain(t, s) == FT_HOST + h;
		if (!used && atomic_compare_exchange_strong(&t->host[h], &old, id))
			return FT_HOST + h;
	}
	return 0;
}

/* ---- what a member says of itself ---- */

static uint64_t start_time(void)
{
	char buf[1024], *p;
	FILE *file = fopen("/proc/self/stat", "re");
	size_t n = file ? fread(buf, 1, sizeof(buf) - 1, file) : 0;

	if (file)
		fclose(file);
	buf[n] = '\0';
	/* Field 22; the second one, in parentheses, may have blanks and parentheses itself. */
	p = strrchr(buf, ')');
	for (unsigned i = 2; p && i < 22; i++)
		p = strchr(p + 1, ' ');
	return p ? strtoull(p, NULL, 10) : 0;
}

/* For terminals. */
static void plain(char *s)
{
	for (; *s; s++) {
		if ((unsigned char)*s < ' ' || *s == 0x7f)
			*s = ' ';
	}
}

static void command(char out[64])
{
	FILE *file = fopen("/proc/self/cmdline", "re");
	size_t n = file ? fread(out, 1, 63, file) : 0;

	if (file)
		fclose(file);
	if (n && !out[n - 1])
		n--; /* the end of the last word */
	for (size_t i = 0; i < n; i++) {
		if (!out[i])
			out[i] = ' ';
	}
	memset(out + n, 0, 64 - n);
}

static void put_words(_Atomic uint64_t *to, const void *from, unsigned words)
{
	for (unsigned i = 0; i < words; i++) {
		uint64_t w;

		memcpy(&w, (const uint8_t *)from + i * sizeof(w), sizeof(w));
		atomic_store_explicit(&to[i], w, memory_order_release);
	}
}

static void get_words(void *to, const _Atomic uint64_t *from, unsigned words)
{
	for (unsigned i = 0; i < words; i++) {
		uint64_t w = atomic_load_explicit(&from[i], memory_order_acquire);

		memcpy((uint8_t *)to + i * sizeof(w), &w, sizeof(w));
	}
}

static void put(_Atomic uint32_t *to, uint32_t v)
{
	atomic_store_explicit(to, v, memory_order_release);
}

static uint32_t get(const _Atomic uint32_t *from)
{
	return atomic_load_explicit(from, memory_order_acquire);
}

/* A sequence lock: all that is written is released, and all that is read acquired, so that who has
 * read something new sees that seq is odd, or another one. */
static void write_begin(struct urxe_ft_member *m)
{
	put(&m->seq, get(&m->seq) | 1);
}

static void write_end(struct urxe_ft_member *m)
{
	put(&m->seq, (get(&m->seq) | 1) + 1);
}

void urxe_ft_addrs(struct urxe_fabric *f, struct urxe_ftable *t, unsigned slot)
{
	struct urxe_ft_member *m = &t->member[slot];

	write_begin(m);
	for (unsigned i = 0; i < f->gids; i++)
		put_words(m->gid[i], f->gid[i], 2);
	put(&m->gids, f->gids);
	write_end(m);
	atomic_fetch_add(&t->addrs, 1);
}

void urxe_ft_groups(struct urxe_fabric *f, struct urxe_ftable *t, unsigned slot)
{
	struct urxe_ft_member *m = &t->member[slot];
	bool all = f->groups > URXE_FABRIC_GROUPS;
	unsigned n = all ? URXE_FABRIC_GROUPS : f->groups;

	write_begin(m);
	for (unsigned i = 0; i < n; i++)
		put_words(m->group[i], f->group[i].gid, 2);
	put(&m->groups, n);
	put(&m->flags, (f->node ? FT_NODE : 0) | (all || f->gate ? FT_ALL_GROUPS : 0) |
			       (f->gate ? FT_GATE : 0));
	write_end(m);
	atomic_fetch_add(&t->groups, 1);
}

static uint64_t mac_of(const struct urxe_fabric *f, struct urxe_ftable *t, unsigned slot)
{
	uint64_t mac = atomic_load_explicit(&t->mac, memory_order_relaxed) & 0xfeffffffff00;

	if (!f->node)
		return mac ^ (uint64_t)(f->domain - FT_HOST) << 8;
	return f->own_mac ? f->own_mac : mac | slot;
}

void urxe_ft_describe(struct urxe_fabric *f, struct urxe_ftable *t, unsigned slot)
{
	struct urxe_ft_member *m = &t->member[slot];
	char words[64];

	command(words);
	write_begin(m);
	atomic_store_explicit(&m->start_time, start_time(), memory_order_release);
	atomic_store_explicit(&m->mac, mac_of(f, t, slot), memory_order_release);
	put_words(m->command, words, 8);
	write_end(m);
	urxe_ft_addrs(f, t, slot);
	urxe_ft_groups(f, t, slot);
	f->described = slot;
}

static void read_record(const struct urxe_ft_member *m, struct urxe_fabric_member *out)
{
	uint32_t flags = get(&m->flags);

	out->start_time = atomic_load_explicit(&m->start_time, memory_order_relaxed);
	out->node = flags & FT_NODE;
	out->gate = flags & FT_GATE;
	out->all_groups = flags & FT_ALL_GROUPS;
	urxe_ft_mac_bytes(atomic_load_explicit(&m->mac, memory_order_relaxed), out->mac);
	get_words(out->command, m->command, 8);
	out->command[sizeof(out->command) - 1] = '\0';
	plain(out->command);
	out->gids = get(&m->gids);
	if (out->gids > URXE_FABRIC_GIDS)
		out->gids = URXE_FABRIC_GIDS;
	out->groups = get(&m->groups);
	if (out->groups > URXE_FABRIC_GROUPS)
		out->groups = URXE_FABRIC_GROUPS;
	get_words(out->gid, m->gid[0], 2 * out->gids);
	get_words(out->group, m->group[0], 2 * out->groups);
}

/* Nobody is waited for: one that writes all the time, or died doing so, is shown as it is. */
static void read_member(const struct urxe_ft_member *m, struct urxe_fabric_member *out)
{
	for (unsigned i = 0; i < READ_TRIES; i++) {
		uint32_t seq = get(&m->seq);

		read_record(m, out);
		if (!(seq & 1) && get(&m->seq) == seq)
			return;
	}
}

int urxe_fabric_member(struct urxe_fabric *f, unsigned slot, struct urxe_fabric_member *m)
{
	struct urxe_ftable *t = urxe_fabric_table(f);
	uint32_t incarnation = t && slot < URXE_FABRIC_SLOTS ? urxe_ft_incarnation(t, slot) : 0;

	if (!incarnation)
		return ENOENT;
	memset(m, 0, sizeof(*m));
	m->slot = slot;
	m->incarnation = incarnation;
	m->domain = urxe_ft_domain(t, slot);
	read_member(&t->member[slot], m);
	m->pid = urxe_fhub_pid(f->hub, slot);
	return urxe_ft_live(t, slot, incarnation) ? 0 : ENOENT;
}
