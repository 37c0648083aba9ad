/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Management datagrams of the communication manager (IBTA 13.4.2 and 12.6; table numbers are
 * those of Vol 1 r1.3) as field tables: each message is a list of (field, byte, bit, width), from
 * which the field ids, the table that urxe_mad_get/put read, and the compile-time check that a
 * message's fields fill its 232 bytes exactly, are all made.
 *
 * Bytes count from the message's start (24 bytes into the MAD, but for HDR), bit 0 is the most
 * significant of its byte. Reserved fields are listed too, so that any MAD can be rebuilt from
 * its fields.
 */
#ifndef URXE_MAD_H
#define URXE_MAD_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "urxe/wire.h"

#define URXE_MAD_LEN	 256
#define URXE_MAD_HDR_LEN 24
#define URXE_MAD_MSG_LEN (URXE_MAD_LEN - URXE_MAD_HDR_LEN)

#define URXE_MAD_BASE_VERSION 1
#define URXE_MAD_CLASS_CM     0x07
#define URXE_MAD_CM_VERSION   2
#define URXE_MAD_METHOD_SEND  0x03

#define URXE_GSI_QKEY 0x80010000u /* of QP1 (IBTA 10.2.5) */

/* How a DREQ's private data begins when its sender is not the consumer, who died, but a gateway */
#define URXE_MAD_DREQ_GONE "urxe: gone"

/* CM attribute ids (table 105). */
enum urxe_mad_attr {
	URXE_MAD_REQ = 0x10,
	URXE_MAD_MRA = 0x11,
	URXE_MAD_REJ = 0x12,
	URXE_MAD_REP = 0x13,
	URXE_MAD_RTU = 0x14,
	URXE_MAD_DREQ = 0x15,
	URXE_MAD_DREP = 0x16,
	URXE_MAD_SIDR_REQ = 0x17,
	URXE_MAD_SIDR_REP = 0x18,
	URXE_MAD_LAP = 0x19,
	URXE_MAD_APR = 0x1a,
};

/* clang-format off */
/* MAD common header (13.4.2); CM leaves 'class specific' zero, ECE uses the attribute modifier. */
#define URXE_MAD_HDR_FIELDS(F)                                                                     \
	F(HDR, BASE_VERSION, 0, 0, 8)                                                              \
	F(HDR, MGMT_CLASS, 1, 0, 8)                                                                \
	F(HDR, CLASS_VERSION, 2, 0, 8)                                                             \
	F(HDR, METHOD, 3, 0, 8)                                                                    \
	F(HDR, STATUS, 4, 0, 16)                                                                   \
	F(HDR, CLASS_SPECIFIC, 6, 0, 16)                                                           \
	F(HDR, TID, 8, 0, 64)                                                                      \
	F(HDR, ATTR_ID, 16, 0, 16)                                                                 \
	F(HDR, RESV, 18, 0, 16)                                                                    \
	F(HDR, ATTR_MOD, 20, 0, 32)

/* Table 106, REQ */
#define URXE_MAD_REQ_FIELDS(F)                                                                     \
	F(REQ, LOCAL_COMM_ID, 0, 0, 32)                                                            \
	F(REQ, RESV1, 4, 0, 8)                                                                     \
	F(REQ, VENDOR_ID, 5, 0, 24)                                                                \
	F(REQ, SERVICE_ID, 8, 0, 64)                                                               \
	F(REQ, LOCAL_CA_GUID, 16, 0, 64)                                                           \
	F(REQ, RESV2, 24, 0, 32)                                                                   \
	F(REQ, LOCAL_QKEY, 28, 0, 32)                                                              \
	F(REQ, LOCAL_QPN, 32, 0, 24)                                                               \
	F(REQ, RESPONDER_RESOURCES, 35, 0, 8)                                                      \
	F(REQ, LOCAL_EECN, 36, 0, 24)                                                              \
	F(REQ, INITIATOR_DEPTH, 39, 0, 8)                                                          \
	F(REQ, REMOTE_EECN, 40, 0, 24)                                                             \
	F(REQ, REMOTE_CM_RESPONSE_TIMEOUT, 43, 0, 5)                                               \
	F(REQ, TRANSPORT_SERVICE_TYPE, 43, 5, 2)                                                   \
	F(REQ, FLOW_CONTROL, 43, 7, 1)                                                             \
	F(REQ, STARTING_PSN, 44, 0, 24)                                                            \
	F(REQ, LOCAL_CM_RESPONSE_TIMEOUT, 47, 0, 5)                                                \
	F(REQ, RETRY_COUNT, 47, 5, 3)                                                              \
	F(REQ, PKEY, 48, 0, 16)                                                                    \
	F(REQ, PATH_MTU, 50, 0, 4)                                                                 \
	F(REQ, RDC_EXISTS, 50, 4, 1)                                                               \
	F(REQ, RNR_RETRY_COUNT, 50, 5, 3)                                                          \
	F(REQ, MAX_CM_RETRIES, 51, 0, 4)                                                           \
	F(REQ, SRQ, 51, 4, 1)                                                                      \
	F(REQ, EXT_TRANSPORT_TYPE, 51, 5, 3)                                                       \
	F(REQ, PRIMARY_LOCAL_LID, 52, 0, 16)                                                       \
	F(REQ, PRIMARY_REMOTE_LID, 54, 0, 16)                                                      \
	F(REQ, PRIMARY_LOCAL_GID, 56, 0, 128)                                                      \
	F(REQ, PRIMARY_REMOTE_GID, 72, 0, 128)                                                     \
	F(REQ, PRIMARY_FLOW_LABEL, 88, 0, 20)                                                      \
	F(REQ, RESV3, 90, 4, 6)                                                                    \
	F(REQ, PRIMARY_PACKET_RATE, 91, 2, 6)                                                      \
	F(REQ, PRIMARY_TRAFFIC_CLASS, 92, 0, 8)                                                    \
	F(REQ, PRIMARY_HOP_LIMIT, 93, 0, 8)                                                        \
	F(REQ, PRIMARY_SL, 94, 0, 4)                                                               \
	F(REQ, PRIMARY_SUBNET_LOCAL, 94, 4, 1)                                                     \
	F(REQ, RESV4, 94, 5, 3)                                                                    \
	F(REQ, PRIMARY_ACK_TIMEOUT, 95, 0, 5)                                                      \
	F(REQ, RESV5, 95, 5, 3)                                                                    \
	F(REQ, ALTERNATE_LOCAL_LID, 96, 0, 16)                                                     \
	F(REQ, ALTERNATE_REMOTE_LID, 98, 0, 16)                                                    \
	F(REQ, ALTERNATE_LOCAL_GID, 100, 0, 128)                                                   \
	F(REQ, ALTERNATE_REMOTE_GID, 116, 0, 128)                                                  \
	F(REQ, ALTERNATE_FLOW_LABEL, 132, 0, 20)                                                   \
	F(REQ, RESV6, 134, 4, 6)                                                                   \
	F(REQ, ALTERNATE_PACKET_RATE, 135, 2, 6)                                                   \
	F(REQ, ALTERNATE_TRAFFIC_CLASS, 136, 0, 8)                                                 \
	F(REQ, ALTERNATE_HOP_LIMIT, 137, 0, 8)                                                     \
	F(REQ, ALTERNATE_SL, 138, 0, 4)                                                            \
	F(REQ, ALTERNATE_SUBNET_LOCAL, 138, 4, 1)                                                  \
	F(REQ, RESV7, 138, 5, 3)                                                                   \
	F(REQ, ALTERNATE_ACK_TIMEOUT, 139, 0, 5)                                                   \
	F(REQ, SAP_SUPPORTED, 139, 5, 1)                                                           \
	F(REQ, RESV8, 139, 6, 2)                                                                   \
	F(REQ, PRIVATE_DATA, 140, 0, 736)

/* Table 107, MRA */
#define URXE_MAD_MRA_FIELDS(F)                                                                     \
	F(MRA, LOCAL_COMM_ID, 0, 0, 32)                                                            \
	F(MRA, REMOTE_COMM_ID, 4, 0, 32)                                                           \
	F(MRA, MESSAGE_MRAED, 8, 0, 2)                                                             \
	F(MRA, RESV1, 8, 2, 6)                                                                     \
	F(MRA, SERVICE_TIMEOUT, 9, 0, 5)                                                           \
	F(MRA, RESV2, 9, 5, 3)                                                                     \
	F(MRA, PRIVATE_DATA, 10, 0, 1776)

/* Table 108, REJ */
#define URXE_MAD_REJ_FIELDS(F)                                                                     \
	F(REJ, LOCAL_COMM_ID, 0, 0, 32)                                                            \
	F(REJ, REMOTE_COMM_ID, 4, 0, 32)                                                           \
	F(REJ, MESSAGE_REJECTED, 8, 0, 2)                                                          \
	F(REJ, RESV1, 8, 2, 6)                                                                     \
	F(REJ, REJECTED_INFO_LENGTH, 9, 0, 7)                                                      \
	F(REJ, RESV2, 9, 7, 1)                                                                     \
	F(REJ, REASON, 10, 0, 16)                                                                  \
	F(REJ, ARI, 12, 0, 576)                                                                    \
	F(REJ, PRIVATE_DATA, 84, 0, 1184)

/* Table 110, REP; the vendor id of ECE is split over the reserved bytes */
#define URXE_MAD_REP_FIELDS(F)                                                                     \
	F(REP, LOCAL_COMM_ID, 0, 0, 32)                                                            \
	F(REP, REMOTE_COMM_ID, 4, 0, 32)                                                           \
	F(REP, LOCAL_QKEY, 8, 0, 32)                                                               \
	F(REP, LOCAL_QPN, 12, 0, 24)                                                               \
	F(REP, VENDOR_ID_H, 15, 0, 8)                                                              \
	F(REP, LOCAL_EECN, 16, 0, 24)                                                              \
	F(REP, VENDOR_ID_M, 19, 0, 8)                                                              \
	F(REP, STARTING_PSN, 20, 0, 24)                                                            \
	F(REP, VENDOR_ID_L, 23, 0, 8)                                                              \
	F(REP, RESPONDER_RESOURCES, 24, 0, 8)                                                      \
	F(REP, INITIATOR_DEPTH, 25, 0, 8)                                                          \
	F(REP, TARGET_ACK_DELAY, 26, 0, 5)                                                         \
	F(REP, FAILOVER_ACCEPTED, 26, 5, 2)                                                        \
	F(REP, FLOW_CONTROL, 26, 7, 1)                                                             \
	F(REP, RNR_RETRY_COUNT, 27, 0, 3)                                                          \
	F(REP, SRQ, 27, 3, 1)                                                                      \
	F(REP, RESV1, 27, 4, 4)                                                                    \
	F(REP, LOCAL_CA_GUID, 28, 0, 64)                                                           \
	F(REP, PRIVATE_DATA, 36, 0, 1568)

/* Table 111, RTU */
#define URXE_MAD_RTU_FIELDS(F)                                                                     \
	F(RTU, LOCAL_COMM_ID, 0, 0, 32)                                                            \
	F(RTU, REMOTE_COMM_ID, 4, 0, 32)                                                           \
	F(RTU, PRIVATE_DATA, 8, 0, 1792)

/* Table 112, DREQ */
#define URXE_MAD_DREQ_FIELDS(F)                                                                    \
	F(DREQ, LOCAL_COMM_ID, 0, 0, 32)                                                           \
	F(DREQ, REMOTE_COMM_ID, 4, 0, 32)                                                          \
	F(DREQ, REMOTE_QPN, 8, 0, 24)                                                              \
	F(DREQ, RESV1, 11, 0, 8)                                                                   \
	F(DREQ, PRIVATE_DATA, 12, 0, 1760)

/* Table 113, DREP */
#define URXE_MAD_DREP_FIELDS(F)                                                                    \
	F(DREP, LOCAL_COMM_ID, 0, 0, 32)                                                           \
	F(DREP, REMOTE_COMM_ID, 4, 0, 32)                                                          \
	F(DREP, PRIVATE_DATA, 8, 0, 1792)

/* Table 115, LAP */
#define URXE_MAD_LAP_FIELDS(F)                                                                     \
	F(LAP, LOCAL_COMM_ID, 0, 0, 32)                                                            \
	F(LAP, REMOTE_COMM_ID, 4, 0, 32)                                                           \
	F(LAP, RESV1, 8, 0, 32)                                                                    \
	F(LAP, REMOTE_QPN, 12, 0, 24)                                                              \
	F(LAP, REMOTE_CM_RESPONSE_TIMEOUT, 15, 0, 5)                                               \
	F(LAP, RESV2, 15, 5, 3)                                                                    \
	F(LAP, RESV3, 16, 0, 32)                                                                   \
	F(LAP, ALTERNATE_LOCAL_LID, 20, 0, 16)                                                     \
	F(LAP, ALTERNATE_REMOTE_LID, 22, 0, 16)                                                    \
	F(LAP, ALTERNATE_LOCAL_GID, 24, 0, 128)                                                    \
	F(LAP, ALTERNATE_REMOTE_GID, 40, 0, 128)                                                   \
	F(LAP, ALTERNATE_FLOW_LABEL, 56, 0, 20)                                                    \
	F(LAP, RESV4, 58, 4, 4)                                                                    \
	F(LAP, ALTERNATE_TRAFFIC_CLASS, 59, 0, 8)                                                  \
	F(LAP, ALTERNATE_HOP_LIMIT, 60, 0, 8)                                                      \
	F(LAP, RESV5, 61, 0, 2)                                                                    \
	F(LAP, ALTERNATE_PACKET_RATE, 61, 2, 6)                                                    \
	F(LAP, ALTERNATE_SL, 62, 0, 4)                                                             \
	F(LAP, ALTERNATE_SUBNET_LOCAL, 62, 4, 1)                                                   \
	F(LAP, RESV6, 62, 5, 3)                                                                    \
	F(LAP, ALTERNATE_ACK_TIMEOUT, 63, 0, 5)                                                    \
	F(LAP, RESV7, 63, 5, 3)                                                                    \
	F(LAP, PRIVATE_DATA, 64, 0, 1344)

/* Table 116, APR */
#define URXE_MAD_APR_FIELDS(F)                                                                     \
	F(APR, LOCAL_COMM_ID, 0, 0, 32)                                                            \
	F(APR, REMOTE_COMM_ID, 4, 0, 32)                                                           \
	F(APR, INFO_LENGTH, 8, 0, 8)                                                               \
	F(APR, AR_STATUS, 9, 0, 8)                                                                 \
	F(APR, RESV1, 10, 0, 16)                                                                   \
	F(APR, INFO, 12, 0, 576)                                                                   \
	F(APR, PRIVATE_DATA, 84, 0, 1184)

/* Table 119, SIDR_REQ */
#define URXE_MAD_SIDR_REQ_FIELDS(F)                                                                \
	F(SIDR_REQ, REQUEST_ID, 0, 0, 32)                                                          \
	F(SIDR_REQ, PKEY, 4, 0, 16)                                                                \
	F(SIDR_REQ, RESV1, 6, 0, 16)                                                               \
	F(SIDR_REQ, SERVICE_ID, 8, 0, 64)                                                          \
	F(SIDR_REQ, PRIVATE_DATA, 16, 0, 1728)

/* Table 120, SIDR_REP */
#define URXE_MAD_SIDR_REP_FIELDS(F)                                                                \
	F(SIDR_REP, REQUEST_ID, 0, 0, 32)                                                          \
	F(SIDR_REP, STATUS, 4, 0, 8)                                                               \
	F(SIDR_REP, INFO_LENGTH, 5, 0, 8)                                                          \
	F(SIDR_REP, VENDOR_ID_H, 6, 0, 16)                                                         \
	F(SIDR_REP, QPN, 8, 0, 24)                                                                 \
	F(SIDR_REP, VENDOR_ID_L, 11, 0, 8)                                                         \
	F(SIDR_REP, SERVICE_ID, 12, 0, 64)                                                         \
	F(SIDR_REP, QKEY, 20, 0, 32)                                                               \
	F(SIDR_REP, INFO, 24, 0, 576)                                                              \
	F(SIDR_REP, PRIVATE_DATA, 96, 0, 1088)

#define URXE_MAD_ALL_FIELDS(F)                                                                     \
	URXE_MAD_HDR_FIELDS(F)                                                                     \
	URXE_MAD_REQ_FIELDS(F)                                                                     \
	URXE_MAD_MRA_FIELDS(F)                                                                     \
	URXE_MAD_REJ_FIELDS(F)                                                                     \
	URXE_MAD_REP_FIELDS(F)                                                                     \
	URXE_MAD_RTU_FIELDS(F)                                                                     \
	URXE_MAD_DREQ_FIELDS(F)                                                                    \
	URXE_MAD_DREP_FIELDS(F)                                                                    \
	URXE_MAD_LAP_FIELDS(F)                                                                     \
	URXE_MAD_APR_FIELDS(F)                                                                     \
	URXE_MAD_SIDR_REQ_FIELDS(F)                                                                \
	URXE_MAD_SIDR_REP_FIELDS(F)
/* clang-format on */

/** Field ids: URXE_HDR_TID, URXE_REQ_LOCAL_QPN, ... */
enum urxe_mad_field_id {
#define URXE_MAD_ENUM(msg, field, byte, bit, width) URXE_##msg##_##field,
	URXE_MAD_ALL_FIELDS(URXE_MAD_ENUM)
#undef URXE_MAD_ENUM
	URXE_MAD_N_FIELDS,
};

/* Private data lengths, bytes. */
#define URXE_REQ_PRIVATE_LEN	  92
#define URXE_MRA_PRIVATE_LEN	  222
#define URXE_REJ_PRIVATE_LEN	  148
#define URXE_REJ_ARI_LEN	  72
#define URXE_REP_PRIVATE_LEN	  196
#define URXE_RTU_PRIVATE_LEN	  224
#define URXE_DREQ_PRIVATE_LEN	  220
#define URXE_DREP_PRIVATE_LEN	  224
#define URXE_LAP_PRIVATE_LEN	  168
#define URXE_APR_PRIVATE_LEN	  148
#define URXE_INFO_LEN		  72 /* additional information of APR and SIDR_REP */
#define URXE_SIDR_REQ_PRIVATE_LEN 216
#define URXE_SIDR_REP_PRIVATE_LEN 136

struct urxe_mad_field {
	uint16_t byte;	  /* from the MAD's start */
	uint8_t bit;	  /* 0: most significant of its byte */
	uint16_t width;	  /* bits */
	const char *name; /* "REQ.LOCAL_QPN" */
};

#define URXE_MAD_START_HDR 0
/* Of all messages */
#define URXE_MAD_START_REQ	URXE_MAD_HDR_LEN
#define URXE_MAD_START_MRA	URXE_MAD_HDR_LEN
#define URXE_MAD_START_REJ	URXE_MAD_HDR_LEN
#define URXE_MAD_START_REP	URXE_MAD_HDR_LEN
#define URXE_MAD_START_RTU	URXE_MAD_HDR_LEN
#define URXE_MAD_START_DREQ	URXE_MAD_HDR_LEN
#define URXE_MAD_START_DREP	URXE_MAD_HDR_LEN
#define URXE_MAD_START_LAP	URXE_MAD_HDR_LEN
#define URXE_MAD_START_APR	URXE_MAD_HDR_LEN
#define URXE_MAD_START_SIDR_REQ URXE_MAD_HDR_LEN
#define URXE_MAD_START_SIDR_REP URXE_MAD_HDR_LEN

/** urxe_mad_fields - all fields by id. Here, so that of a field which is named nothing is looked
 * up. */
static const struct urxe_mad_field urxe_mad_fields[URXE_MAD_N_FIELDS] = {
#define URXE_MAD_FIELD(msg, field, by, bi, wi) \
	[URXE_##msg##_##field] = {URXE_MAD_START_##msg + (by), bi, wi, #msg "." #field},
	URXE_MAD_ALL_FIELDS(URXE_MAD_FIELD)
#undef URXE_MAD_FIELD
};

/** A message: its attribute id and the range of its field ids. */
struct urxe_mad_msg {
	uint16_t attr;
	uint16_t first; /* enum urxe_mad_field_id */
	uint16_t last;	/* inclusive: the private data */
	const char *name;
};

/** urxe_mad_msg_find - the message of an attribute id; NULL if CM knows none such. */
const struct urxe_mad_msg *urxe_mad_msg_find(uint16_t attr);

/** urxe_mad_msg_name - for logs; "unknown" for what is none. */
const char *urxe_mad_msg_name(uint16_t attr);

/** urxe_mad_get_bits, urxe_mad_put_bits - any field of up to 64 bits, byte by byte; for what is
 * below. */
uint64_t urxe_mad_get_bits(const uint8_t *mad, enum urxe_mad_field_id id);
void urxe_mad_put_bits(uint8_t *mad, enum urxe_mad_field_id id, uint64_t value);

/** Most fields are whole integers, and most callers name theirs: what is left is one instruction
 * or two. 0: it is none. */
#define URXE_MAD_WHOLE(field) ((field).bit ? 0u : (field).width)

/** urxe_mad_get - a field of up to 64 bits of the 256 byte MAD at @mad, host order. */
static inline uint64_t urxe_mad_get(const uint8_t *mad, enum urxe_mad_field_id id)
{
	const uint8_t *p = mad + urxe_mad_fields[id].byte;

	switch (URXE_MAD_WHOLE(urxe_mad_fields[id])) {
	case 8:
		return *p;
	case 16:
		return urxe_get16(p);
	case 24:
		return urxe_get24(p);
	case 32:
		return urxe_get32(p);
	case 64:
		return urxe_get64(p);
	default:
		return urxe_mad_get_bits(mad, id);
	}
}

/** urxe_mad_get8, ...16, ...32 - likewise, of a field that has no more bits than that. */
static inline uint8_t urxe_mad_get8(const uint8_t *mad, enum urxe_mad_field_id id)
{
	assert(urxe_mad_fields[id].width <= 8);
	return (uint8_t)urxe_mad_get(mad, id);
}

static inline uint16_t urxe_mad_get16(const uint8_t *mad, enum urxe_mad_field_id id)
{
	assert(urxe_mad_fields[id].width <= 16);
	return (uint16_t)urxe_mad_get(mad, id);
}

static inline uint32_t urxe_mad_get32(const uint8_t *mad, enum urxe_mad_field_id id)
{
	assert(urxe_mad_fields[id].width <= 32);
	return (uint32_t)urxe_mad_get(mad, id);
}

/** urxe_mad_put - set a field of up to 64 bits; bits of @value beyond its width are cut off. */
static inline void urxe_mad_put(uint8_t *mad, enum urxe_mad_field_id id, uint64_t value)
{
	uint8_t *p = mad + urxe_mad_fields[id].byte;

	switch (URXE_MAD_WHOLE(urxe_mad_fields[id])) {
	case 8:
		*p = (uint8_t)value;
		break;
	case 16:
		urxe_put16(p, (uint16_t)value);
		break;
	case 24:
		urxe_put24(p, (uint32_t)value);
		break;
	case 32:
		urxe_put32(p, (uint32_t)value);
		break;
	case 64:
		urxe_put64(p, value);
		break;
	default:
		urxe_mad_put_bits(mad, id, value);
	}
}

/** urxe_mad_bytes - a field of whole bytes, of any width (GIDs, ARI, private data). */
static inline uint8_t *urxe_mad_bytes(uint8_t *mad, enum urxe_mad_field_id id)
{
	return mad + urxe_mad_fields[id].byte;
}

static inline const uint8_t *urxe_mad_cbytes(const uint8_t *mad, enum urxe_mad_field_id id)
{
	return mad + urxe_mad_fields[id].byte;
}

/** urxe_mad_init - an empty CM MAD of 256 bytes: common header filled in, the rest zero. */
void urxe_mad_init(uint8_t *mad, enum urxe_mad_attr attr, uint64_t tid);

/**
 * urxe_mad_check - is this a CM MAD that we understand?
 *
 * Returns 0, EPROTONOSUPPORT for another base version, class or class version, EOPNOTSUPP for
 * another method or attribute, EMSGSIZE when not as long as a MAD.
 */
int urxe_mad_check(const uint8_t *mad, uint32_t len);

/*
 * RDMA IP CM service (IBTA A11): service ids 0x0000000001 PS PORT, and a header in front of the
 * consumer's private data of REQ (92 bytes) and SIDR_REQ (216 bytes).
 */
#define URXE_IP_CM_HDR_LEN	  36
#define URXE_IP_CM_SERVICE_PREFIX 0x0000000001000000ull
#define URXE_IP_CM_PS_TCP	  0x06
#define URXE_IP_CM_PS_UDP	  0x11

static inline uint64_t urxe_ip_cm_service_id(uint8_t ps, uint16_t port)
{
	return URXE_IP_CM_SERVICE_PREFIX | (uint64_t)ps << 16 | port;
}

struct urxe_ip_cm_hdr {
	uint8_t ip_version; /* 4 or 6 */
	uint16_t src_port;  /* host order */
	uint8_t src[16];    /* IPv4: ::ffff:a.b.c.d, as in a GID */
	uint8_t dst[16];
};

/** urxe_ip_cm_hdr_put - write the 36 bytes. IPv4 addresses go into the last 4 of 16 bytes. */
void urxe_ip_cm_hdr_put(uint8_t *p, const struct urxe_ip_cm_hdr *h);

/** urxe_ip_cm_hdr_get - read the 36 bytes: 0, or EPROTO for another version of header or IP. */
int urxe_ip_cm_hdr_get(const uint8_t *p, struct urxe_ip_cm_hdr *h);

#endif
