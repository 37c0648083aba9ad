/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Formats of rsockets (wire.h). */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "cm/rsocket/wire.h"

#include "urxe/wire.h"

/* Private data, all big-endian. */
enum {
	AT_VERSION = 0,
	AT_FLAGS = 1,
	AT_CREDITS = 2,
	AT_IOMAP = 7, /* after three bytes of 0 */
	AT_SGL = 8,
	AT_BUF = AT_SGL + URXE_RS_SGE_LEN,
};

#define FLAG_NET   0x1
#define FLAG_IOMAP 0x2

/* A byte of up to 128 is a number; of more, its low seven bits count 256s. */
#define SCALE 0x80u

static uint8_t to_scale(uint32_t n)
{
	if (n <= SCALE)
		return (uint8_t)n;
	n >>= 8;
	return (uint8_t)(SCALE | (n < SCALE ? n : SCALE - 1));
}

static uint32_t from_scale(uint8_t b)
{
	return b <= SCALE ? b : (uint32_t)(b & ~SCALE) << 8;
}

uint32_t urxe_rs_iomap_size(uint32_t n)
{
	uint32_t told = from_scale(to_scale(n));

	return told <= n ? told : SCALE;
}

void urxe_rs_offset_put(uint8_t *p, uint64_t v, bool big)
{
	v = big ? htobe64(v) : htole64(v);
	memcpy(p, &v, sizeof(v));
}

uint64_t urxe_rs_offset_get(const uint8_t *p, bool big)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return big ? be64toh(v) : le64toh(v);
}

static void put32(uint8_t *p, uint32_t v, bool big)
{
	v = big ? htobe32(v) : htole32(v);
	memcpy(p, &v, sizeof(v));
}

static uint32_t get32(const uint8_t *p, bool big)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return big ? be32toh(v) : le32toh(v);
}

void urxe_rs_sge_put(uint8_t *p, const struct urxe_rs_sge *sge, bool big)
{
	urxe_rs_offset_put(p, sge->addr, big);
	put32(p + 8, sge->key, big);
	put32(p + 12, sge->length, big);
}

void urxe_rs_sge_get(const uint8_t *p, struct urxe_rs_sge *sge, bool big)
{
	sge->addr = urxe_rs_offset_get(p, big);
	sge->key = get32(p + 8, big);
	sge->length = get32(p + 12, big);
}

void urxe_rs_hello_put(uint8_t *p, const struct urxe_rs_hello *h)
{
	memset(p, 0, URXE_RS_HELLO_LEN);
	p[AT_VERSION] = URXE_RS_VERSION;
	p[AT_FLAGS] = (uint8_t)((h->big_endian ? FLAG_NET : 0) | (h->iomap ? FLAG_IOMAP : 0));
	urxe_put16(p + AT_CREDITS, h->credits);
	p[AT_IOMAP] = to_scale(h->iomap_size);
	urxe_rs_sge_put(p + AT_SGL, &h->sgl, true);
	urxe_rs_sge_put(p + AT_BUF, &h->buf, true);
}

int urxe_rs_hello_get(const uint8_t *p, unsigned len, struct urxe_rs_hello *h)
{
	if (!p || len < URXE_RS_HELLO_LEN)
		return EPROTO;
	if (p[AT_VERSION] != URXE_RS_VERSION)
		return ENOTSUP;
	h->big_endian = p[AT_FLAGS] & FLAG_NET;
	h->iomap = p[AT_FLAGS] & FLAG_IOMAP;
	h->credits = urxe_get16(p + AT_CREDITS);
	h->iomap_size = h->iomap ? from_scale(p[AT_IOMAP]) : 0;
	urxe_rs_sge_get(p + AT_SGL, &h->sgl, true);
	urxe_rs_sge_get(p + AT_BUF, &h->buf, true);
	/* Entries that it does not have would be written somewhere. */
	return h->sgl.length && h->sgl.length <= UINT16_MAX && h->credits ? 0 : EPROTO;
}
