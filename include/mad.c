/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The field tables of urxe/mad.h made into code: fields of a MAD are read and written, a MAD is
 * begun and checked. No state.
 */
#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "urxe/mad.h"
#include "urxe/wire.h"

/* A message's fields fill it: widths add up, the last one ends at its end, wide ones are whole. */
#define ADD_WIDTH(msg, field, by, bi, wi) +(wi)
#define CHECK_FIELD(msg, field, by, bi, wi)                                                   \
	static_assert((bi) < 8 && (wi) > 0 && ((wi) <= 64 || ((bi) == 0 && (wi) % 8 == 0)) && \
			      ((bi) == 0 || (bi) + (wi) <= 56),                               \
		      #msg "." #field);
URXE_MAD_ALL_FIELDS(CHECK_FIELD)
#define CHECK_SIZE(msg, len)                                             \
	static_assert((0 URXE_MAD_##msg##_FIELDS(ADD_WIDTH)) == (len)*8, \
		      #msg " does not fill its MAD")
CHECK_SIZE(HDR, URXE_MAD_HDR_LEN);
CHECK_SIZE(REQ, URXE_MAD_MSG_LEN);
CHECK_SIZE(MRA, URXE_MAD_MSG_LEN);
CHECK_SIZE(REJ, URXE_MAD_MSG_LEN);
CHECK_SIZE(REP, URXE_MAD_MSG_LEN);
CHECK_SIZE(RTU, URXE_MAD_MSG_LEN);
CHECK_SIZE(DREQ, URXE_MAD_MSG_LEN);
CHECK_SIZE(DREP, URXE_MAD_MSG_LEN);
CHECK_SIZE(LAP, URXE_MAD_MSG_LEN);
CHECK_SIZE(APR, URXE_MAD_MSG_LEN);
CHECK_SIZE(SIDR_REQ, URXE_MAD_MSG_LEN);
CHECK_SIZE(SIDR_REP, URXE_MAD_MSG_LEN);

#define MSG(msg, first)                                                               \
	{                                                                             \
		URXE_MAD_##msg, URXE_##msg##_##first, URXE_##msg##_PRIVATE_DATA, #msg \
	}
static const struct urxe_mad_msg msgs[] = {
	MSG(REQ, LOCAL_COMM_ID),  MSG(MRA, LOCAL_COMM_ID),   MSG(REJ, LOCAL_COMM_ID),
	MSG(REP, LOCAL_COMM_ID),  MSG(RTU, LOCAL_COMM_ID),   MSG(DREQ, LOCAL_COMM_ID),
	MSG(DREP, LOCAL_COMM_ID), MSG(SIDR_REQ, REQUEST_ID), MSG(SIDR_REP, REQUEST_ID),
	MSG(LAP, LOCAL_COMM_ID),  MSG(APR, LOCAL_COMM_ID),
};

const struct urxe_mad_msg *urxe_mad_msg_find(uint16_t attr)
{
	/* In the order of their attribute ids. */
	if (attr < URXE_MAD_REQ || attr > URXE_MAD_APR)
		return NULL;
	return &msgs[attr - URXE_MAD_REQ];
}

const char *urxe_mad_msg_name(uint16_t attr)
{
	const struct urxe_mad_msg *m = urxe_mad_msg_find(attr);

	return m ? m->name : "unknown";
}

uint64_t urxe_mad_get_bits(const uint8_t *mad, enum urxe_mad_field_id id)
{
	const struct urxe_mad_field *f = &urxe_mad_fields[id];
	unsigned end = f->bit + f->width;
	uint64_t v = 0;

	assert(f->width <= 64);
	for (unsigned i = 0; i < (end + 7) / 8; i++)
		v = v << 8 | mad[f->byte + i];
	v >>= (8 - end % 8) % 8;
	return f->width == 64 ? v : v & ((1ull << f->width) - 1);
}

void urxe_mad_put_bits(uint8_t *mad, enum urxe_mad_field_id id, uint64_t value)
{
	const struct urxe_mad_field *f = &urxe_mad_fields[id];
	unsigned end = f->bit + f->width;
	unsigned shift = (8 - end % 8) % 8;
	uint64_t mask = f->width == 64 ? UINT64_MAX : (1ull << f->width) - 1;

	assert(f->width <= 64);
	value = (value & mask) << shift;
	mask <<= shift;
	for (unsigned i = (end + 7) / 8; i-- > 0; value >>= 8, mask >>= 8) {
		uint8_t *p = &mad[f->byte + i];

		*p = (uint8_t)((*p & ~mask) | value);
	}
}

void urxe_mad_init(uint8_t *mad, enum urxe_mad_attr attr, uint64_t tid)
{
	memset(mad, 0, URXE_MAD_LEN);
	urxe_mad_put(mad, URXE_HDR_BASE_VERSION, URXE_MAD_BASE_VERSION);
	urxe_mad_put(mad, URXE_HDR_MGMT_CLASS, URXE_MAD_CLASS_CM);
	urxe_mad_put(mad, URXE_HDR_CLASS_VERSION, URXE_MAD_CM_VERSION);
	urxe_mad_put(mad, URXE_HDR_METHOD, URXE_MAD_METHOD_SEND);
	urxe_mad_put(mad, URXE_HDR_TID, tid);
	urxe_mad_put(mad, URXE_HDR_ATTR_ID, attr);
}

int urxe_mad_check(const uint8_t *mad, uint32_t len)
{
	if (len != URXE_MAD_LEN)
		return EMSGSIZE;
	if (urxe_mad_get(mad, URXE_HDR_BASE_VERSION) != URXE_MAD_BASE_VERSION ||
	    urxe_mad_get(mad, URXE_HDR_MGMT_CLASS) != URXE_MAD_CLASS_CM ||
	    urxe_mad_get(mad, URXE_HDR_CLASS_VERSION) != URXE_MAD_CM_VERSION)
		return EPROTONOSUPPORT;
	if (urxe_mad_get(mad, URXE_HDR_METHOD) != URXE_MAD_METHOD_SEND ||
	    !urxe_mad_msg_find(urxe_mad_get16(mad, URXE_HDR_ATTR_ID)))
		return EOPNOTSUPP;
	return 0;
}

static void ip_put(uint8_t *p, const uint8_t *addr, uint8_t version)
{
	memset(p, 0, 16);
	if (version == 4)
		memcpy(p + 12, addr + 12, 4);
	else
		memcpy(p, addr, 16);
}

static void ip_get(const uint8_t *p, uint8_t *addr, uint8_t version)
{
	memset(addr, 0, 16);
	if (version == 4) {
		addr[10] = addr[11] = 0xff;
		memcpy(addr + 12, p + 12, 4);
	} else {
		memcpy(addr, p, 16);
	}
}

void urxe_ip_cm_hdr_put(uint8_t *p, const struct urxe_ip_cm_hdr *h)
{
	p[0] = 0; /* header version 0.0 */
	p[1] = (uint8_t)(h->ip_version << 4);
	urxe_put16(p + 2, h->src_port);
	ip_put(p + 4, h->src, h->ip_version);
	ip_put(p + 20, h->dst, h->ip_version);
}

int urxe_ip_cm_hdr_get(const uint8_t *p, struct urxe_ip_cm_hdr *h)
{
	h->ip_version = p[1] >> 4;
	/* A11.4.3: the major version must be 0. */
	if (p[0] >> 4 != 0 || (h->ip_version != 4 && h->ip_version != 6))
		return EPROTO;
	h->src_port = urxe_get16(p + 2);
	ip_get(p + 4, h->src, h->ip_version);
	ip_get(p + 20, h->dst, h->ip_version);
	return 0;
}
