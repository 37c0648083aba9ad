/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What two rsockets tell each other: private data of REQ and REP, and messages, each the immediate
 * data of a WRITE. As in rdma-core's docs/rsocket, "Connection Establishment" and "Message Format".
 */
#ifndef URXE_CM_RSOCKET_WIRE_H
#define URXE_CM_RSOCKET_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#define URXE_RS_VERSION	   1
#define URXE_RS_HELLO_LEN  40 /* bytes of private data */
#define URXE_RS_SGE_LEN	   16 /* of a target SGE: address, key, length */
#define URXE_RS_IOMAP_LEN  24 /* of an iomap entry: offset, SGE */
#define URXE_RS_SGL_SIZE   2  /* SGEs that the peer writes */
#define URXE_RS_VALUE_MASK 0x1fffffffu

/** Types of messages: bits 31..29 of the immediate data. */
enum urxe_rs_message {
	URXE_RS_DATA = 0,    /* value: bytes */
	URXE_RS_CREDITS = 4, /* the number, modulo 2^16, of the last DATA that may be sent, and 1 */
	URXE_RS_IOMAP = 6,   /* index of an entry that was written */
	URXE_RS_CONTROL = 7, /* enum urxe_rs_control */
};

enum urxe_rs_control {
	URXE_RS_DISCONNECT,
	URXE_RS_KEEPALIVE,
	URXE_RS_SHUTDOWN, /* nothing more is sent */
};

/** Memory of one end that the other one writes. */
struct urxe_rs_sge {
	uint64_t addr;
	uint32_t key, length;
};

/** What an end says of itself when it connects. */
struct urxe_rs_hello {
	bool big_endian;  /* its SGEs are */
	bool iomap;	  /* it knows of these */
	uint16_t credits; /* DATA that it takes to begin with */
	uint32_t iomap_size;
	struct urxe_rs_sge sgl; /* length: of entries */
	struct urxe_rs_sge buf; /* for the first bytes */
};

/** urxe_rs_hello_put - URXE_RS_HELLO_LEN bytes. */
void urxe_rs_hello_put(uint8_t *p, const struct urxe_rs_hello *h);
/** urxe_rs_hello_get - from private data of @len bytes. EPROTO: it is none. ENOTSUP: of another
 * version. */
int urxe_rs_hello_get(const uint8_t *p, unsigned len, struct urxe_rs_hello *h);
/** urxe_rs_iomap_size - the sizes that eight bits can tell: @n, or what comes next below. */
uint32_t urxe_rs_iomap_size(uint32_t n);
/** urxe_rs_sge_put, urxe_rs_sge_get - as it stands in memory. @big: in big-endian order. */
void urxe_rs_sge_put(uint8_t *p, const struct urxe_rs_sge *sge, bool big);
void urxe_rs_sge_get(const uint8_t *p, struct urxe_rs_sge *sge, bool big);
/** urxe_rs_offset_put, urxe_rs_offset_get - 64 bits, likewise. */
void urxe_rs_offset_put(uint8_t *p, uint64_t v, bool big);
uint64_t urxe_rs_offset_get(const uint8_t *p, bool big);
/** urxe_rs_host_big - is this machine big-endian? */
static inline bool urxe_rs_host_big(void)
{
	return __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
}
/** urxe_rs_message - immediate data, of the host's byte order. */
static inline uint32_t urxe_rs_message(enum urxe_rs_message type, uint32_t value)
{
	return (uint32_t)type << 29 | (value & URXE_RS_VALUE_MASK);
}

#endif
