/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Memory of the application's that its peer writes without a copy: riomap() tells the peer of it,
 * by an entry in an array of the peer's, and riowrite() uses what the peer has told of.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cm/rsocket/stream.h"

#include "urxe/free.h"

#define LOCAL (-1)

/* ---- ours, to the peer ---- */

static void drop(struct urxe_rs_mapping *m)
{
	cds_list_del(&m->entry);
	if (m->mr)
		ibv_dereg_mr(m->mr);
	free(m);
}

void urxe_rs_unmap_all(struct urxe_rs_stream *st)
{
	struct urxe_rs_mapping *m, *next;

	cds_list_for_each_entry_safe (m, next, &st->mappings, entry)
		drop(m);
}

/* Its entry in the peer's array; one of zeros when it is no more. */
static void tell(struct urxe_rs *s, const struct urxe_rs_mapping *m) URXE_REQUIRES(s->lock)
{
	struct urxe_rs_stream *st = s->st;
	uint8_t entry[URXE_RS_IOMAP_LEN] = {0};
	const struct iovec iov = {entry, sizeof(entry)};
	struct urxe_rs_cursor c = {&iov, 1, 0};
	struct urxe_rs_write w = {
		.wr_id = urxe_rs_wr_id(URXE_RS_SENT_DATA, 0),
		.addr = st->peer_iomap.addr + (uint64_t)m->index * URXE_RS_IOMAP_LEN,
		.key = st->peer_iomap.key,
		.imm = urxe_rs_message(URXE_RS_IOMAP, (uint32_t)m->index),
		.with_imm = true,
	};

	if (m->mr) {
		const struct urxe_rs_sge sge = {(uintptr_t)m->mr->addr, m->mr->rkey,
						(uint32_t)m->mr->length};

		urxe_rs_offset_put(entry, m->offset, st->swap_big);
		urxe_rs_sge_put(entry + sizeof(uint64_t), &sge, st->swap_big);
	}
	urxe_rs_stage(s, &c, sizeof(entry), &w);
	st->sends--;
	st->seq++;
	urxe_rs_post(s, &w);
}

bool urxe_rs_tell_mappings(struct urxe_rs *s)
{
	struct urxe_rs_stream *st = s->st;
	struct urxe_rs_mapping *m, *next;

	cds_list_for_each_entry_safe (m, next, &st->mappings, entry) {
		if (m->told)
			continue;
		if (s->state != URXE_RS_CONNECTED || !st->sends || st->seq == st->limit ||
		    st->ssize - st->sused < URXE_RS_IOMAP_LEN)
			return false;
		tell(s, m);
		m->told = true;
		if (!m->mr)
			drop(m);
	}
	return true;
}

/* The first entry of the peer's that is not used; LOCAL: none is. */
static int free_index(const struct urxe_rs_stream *st)
{
	const struct urxe_rs_mapping *m;
	uint32_t i = 0;
	bool used = true;

	while (used && i < st->peer_iomap.length) {
		used = false;
		cds_list_for_each_entry (m, &st->mappings, entry)
			used |= m->index == (int)i;
		i += used;
	}
	return i < st->peer_iomap.length ? (int)i : LOCAL;
}

static int map(struct urxe_rs *s, void *buf, size_t len, int prot, off_t *offset)
	URXE_REQUIRES(s->lock)
{
	int access = IBV_ACCESS_LOCAL_WRITE | (prot & PROT_WRITE ? IBV_ACCESS_REMOTE_WRITE : 0);
	struct urxe_rs_mapping *m;

	/* Accepted, it is told of when the peer has heard that. */
	if (s->state != URXE_RS_CONNECTED && s->state != URXE_RS_ACCEPTING)
		return ENOTCONN;
	m = calloc(1, sizeof(*m));
	if (!m)
		return ENOMEM;
	if (*offset == -1)
		*offset = (off_t)(uintptr_t)buf;
	m->offset = (uint64_t)*offset;
	m->index = prot & PROT_WRITE ? free_index(s->st) : LOCAL;
	m->told = m->index == LOCAL;
	if (prot & PROT_WRITE && m->told) {
		free(m);
		return ENOBUFS;
	}
	m->mr = ibv_reg_mr(s->id->pd, buf, len, access);
	if (!m->mr) {
		free(m);
		return errno;
	}
	cds_list_add_tail(&m->entry, &s->st->mappings);
	urxe_rs_tell_mappings(s);
	return 0;
}

URXE_RS_API off_t riomap(int fd, void *buf, size_t len, int prot, int flags, off_t offset)
{
	struct urxe_rs_call c;
	int err = EINVAL;

	if (!urxe_rs_begin(&c, fd))
		return -1;
	urxe_rs_look(c.s, false);
	if (buf && len && len <= UINT32_MAX && !(prot & ~PROT_WRITE) && offset >= -1)
		err = map(c.s, buf, len, prot, &offset);
	urxe_rs_end(&c);
	return err ? urxe_rs_ret(err) : offset;
}

static int unmap(struct urxe_rs *s, const void *buf, size_t len) URXE_REQUIRES(s->lock)
{
	struct urxe_rs_mapping *m, *next;

	if (!s->st)
		return EINVAL;
	cds_list_for_each_entry_safe (m, next, &s->st->mappings, entry) {
		if (!m->mr || m->mr->addr != buf || m->mr->length != len)
			continue;
		if (m->index == LOCAL) {
			drop(m);
			return 0;
		}
		ibv_dereg_mr(m->mr);
		m->mr = NULL;
		m->told = false;
		urxe_rs_tell_mappings(s);
		return 0;
	}
	return EINVAL;
}

URXE_RS_API int riounmap(int fd, void *buf, size_t len)
{
	struct urxe_rs_call c;
	int err;

	if (!urxe_rs_begin(&c, fd))
		return -1;
	err = unmap(c.s, buf, len);
	urxe_rs_end(&c);
	return urxe_rs_ret(err);
}

/* ---- the peer's, to write to ---- */

/* Where @offset is in its memory, and how many bytes from there on. */
static bool find(const struct urxe_rs_stream *st, uint64_t offset, struct urxe_rs_sge *to)
{
	const uint8_t *p = st->targets + (size_t)URXE_RS_SGL_SIZE * URXE_RS_SGE_LEN;
	bool big = urxe_rs_host_big();

	for (uint32_t i = 0; i < st->iomap_size; i++, p += URXE_RS_IOMAP_LEN) {
		uint64_t from = urxe_rs_offset_get(p, big);

		urxe_rs_sge_get(p + sizeof(from), to, big);
		if (offset < from || offset - from >= to->length)
			continue;
		to->addr += offset - from;
		to->length -= (uint32_t)(offset - from);
		return true;
	}
	return false;
}

static int write_some(struct urxe_rs *s, struct urxe_rs_cursor *c, uint64_t offset, size_t left,
		      uint32_t *done) URXE_REQUIRES(s->lock)
{
	struct urxe_rs_stream *st = s->st;
	struct urxe_rs_write w = {.wr_id = urxe_rs_wr_id(URXE_RS_SENT_DATA, 0)};
	uint32_t len = left < URXE_RS_SEND_MOST ? (uint32_t)left : URXE_RS_SEND_MOST;
	struct urxe_rs_sge to;

	if (!find(st, offset, &to))
		return EINVAL;
	if (len > st->ssize - st->sused)
		len = st->ssize - st->sused;
	if (len > to.length)
		len = to.length;
	w.addr = to.addr;
	w.key = to.key;
	urxe_rs_stage(s, c, len, &w);
	st->sends--;
	urxe_rs_post(s, &w);
	*done = len;
	return 0;
}

static ssize_t write_all(struct urxe_rs *s, const struct urxe_rs_call *c, const void *buf,
			 size_t len, uint64_t offset) URXE_REQUIRES(s->lock)
{
	const struct iovec iov = {(void *)(uintptr_t)buf, len};
	struct urxe_rs_cursor from = {&iov, 1, 0};
	size_t done = 0;
	int err = 0;

	while (done < len && !err) {
		uint32_t part = 0;

		err = urxe_rs_await_room(s, c);
		if (!err)
			err = write_some(s, &from, offset + done, len - done, &part);
		done += part;
	}
	return urxe_rs_done(s, done, err);
}

URXE_RS_API size_t riowrite(int fd, const void *buf, size_t len, off_t offset, int flags)
{
	struct urxe_rs_call c;
	ssize_t ret;

	if (!urxe_rs_begin(&c, fd))
		return (size_t)-1;
	urxe_rs_patience(c.s, &c, flags, c.s->sndtimeo);
	if (flags & ~(MSG_DONTWAIT | MSG_NOSIGNAL) || offset < 0 || len > SSIZE_MAX)
		ret = urxe_rs_ret(EINVAL);
	else
		ret = write_all(c.s, &c, buf, len, (uint64_t)offset);
	urxe_rs_end(&c);
	return (size_t)ret;
}
