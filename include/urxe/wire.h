/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * BTH and extension headers on the wire (IBTA 9.2, 9.3): lengths and accessors by byte
 * offset. Values are host order, p points at the header's first byte, alignment is not needed.
 */
#ifndef URXE_WIRE_H
#define URXE_WIRE_H

#include <endian.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define URXE_UDP_DPORT 4791 /* IBTA A17 */

#define URXE_BTH_LEN		12
#define URXE_DETH_LEN		8
#define URXE_XRCETH_LEN		4
#define URXE_RETH_LEN		16
#define URXE_ATOMIC_ETH_LEN	28
#define URXE_AETH_LEN		4
#define URXE_ATOMIC_ACK_ETH_LEN 8
#define URXE_CNP_LEN		16 /* reserved */
#define URXE_IMM_LEN		4
#define URXE_IETH_LEN		4
#define URXE_FETH_LEN		4
#define URXE_ICRC_LEN		4
#define URXE_ATOMIC_LEN		8 /* of what an atomic operation works on */

#define URXE_PSN_MASK	  0xffffffu
#define URXE_QPN_MASK	  0xffffffu
#define URXE_MCAST_QPN	  0xffffffu
#define URXE_DEFAULT_PKEY 0xffff

static inline uint16_t urxe_get16(const uint8_t *p)
{
	uint16_t v;

	memcpy(&v, p, sizeof(v));
	return be16toh(v);
}

static inline uint32_t urxe_get24(const uint8_t *p)
{
	return (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
}

static inline uint32_t urxe_get32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return be32toh(v);
}

static inline uint64_t urxe_get64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return be64toh(v);
}

static inline void urxe_put16(uint8_t *p, uint16_t v)
{
	v = htobe16(v);
	memcpy(p, &v, sizeof(v));
}

static inline void urxe_put24(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 16);
	p[1] = (uint8_t)(v >> 8);
	p[2] = (uint8_t)v;
}

static inline void urxe_put32(uint8_t *p, uint32_t v)
{
	v = htobe32(v);
	memcpy(p, &v, sizeof(v));
}

static inline void urxe_put64(uint8_t *p, uint64_t v)
{
	v = htobe64(v);
	memcpy(p, &v, sizeof(v));
}

/* PSN arithmetic is modulo 2^24 (IBTA 9.7.1): the signed distance from b to a. */
static inline int32_t urxe_psn_diff(uint32_t a, uint32_t b)
{
	return (int32_t)((a - b) << 8) >> 8;
}

static inline uint32_t urxe_psn_add(uint32_t psn, uint32_t n)
{
	return (psn + n) & URXE_PSN_MASK;
}

/* BTH: opcode | SE M Pad(2) TVer(4) | P_Key | FECN BECN resv(6) | DestQP | AckReq resv(7) | PSN */
struct urxe_bth {
	uint8_t opcode;
	bool solicited;
	bool migreq;
	uint8_t pad;
	uint8_t tver;
	uint16_t pkey;
	uint32_t dqpn;
	bool ackreq;
	uint32_t psn;
};

static inline uint8_t urxe_bth_opcode(const uint8_t *p)
{
	return p[0];
}
static inline bool urxe_bth_solicited(const uint8_t *p)
{
	return p[1] & 0x80;
}
static inline bool urxe_bth_migreq(const uint8_t *p)
{
	return p[1] & 0x40;
}
static inline uint8_t urxe_bth_pad(const uint8_t *p)
{
	return p[1] >> 4 & 3;
}
static inline uint8_t urxe_bth_tver(const uint8_t *p)
{
	return p[1] & 0xf;
}
static inline uint16_t urxe_bth_pkey(const uint8_t *p)
{
	return urxe_get16(p + 2);
}
static inline uint32_t urxe_bth_dqpn(const uint8_t *p)
{
	return urxe_get24(p + 5);
}
static inline bool urxe_bth_ackreq(const uint8_t *p)
{
	return p[8] & 0x80;
}
static inline uint32_t urxe_bth_psn(const uint8_t *p)
{
	return urxe_get24(p + 9);
}

static inline void urxe_bth_put(uint8_t *p, const struct urxe_bth *h)
{
	urxe_put32(p, (uint32_t)h->opcode << 24 | (uint32_t)h->solicited << 23 |
			      (uint32_t)h->migreq << 22 | (uint32_t)(h->pad & 3) << 20 |
			      (uint32_t)(h->tver & 15) << 16 | h->pkey);
	urxe_put32(p + 4, h->dqpn & URXE_QPN_MASK);
	urxe_put32(p + 8, (uint32_t)h->ackreq << 31 | (h->psn & URXE_PSN_MASK));
}

/*
 * All of it at once. Each word is loaded once, and the compiler is kept from looking again: what is
 * checked is what is used, whoever shares the memory.
 */
static inline void urxe_bth_get(const uint8_t *p, struct urxe_bth *h)
{
	uint32_t a = urxe_get32(p), b = urxe_get32(p + 4), c = urxe_get32(p + 8);

	__asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c));
	h->opcode = (uint8_t)(a >> 24);
	h->solicited = a & 0x800000;
	h->migreq = a & 0x400000;
	h->pad = a >> 20 & 3;
	h->tver = a >> 16 & 0xf;
	h->pkey = (uint16_t)a;
	h->dqpn = b & URXE_QPN_MASK;
	h->ackreq = c & 0x80000000u;
	h->psn = c & URXE_PSN_MASK;
}

/* DETH (IBTA 9.3.3) */
static inline uint32_t urxe_deth_qkey(const uint8_t *p)
{
	return urxe_get32(p);
}
static inline uint32_t urxe_deth_sqpn(const uint8_t *p)
{
	return urxe_get24(p + 5);
}
static inline void urxe_deth_put(uint8_t *p, uint32_t qkey, uint32_t sqpn)
{
	urxe_put32(p, qkey);
	urxe_put32(p + 4, sqpn & URXE_QPN_MASK);
}

/* XRCETH (IBTA A14): reserved(8) | number of the SRQ(24) */
static inline uint32_t urxe_xrceth_srqn(const uint8_t *p)
{
	return urxe_get24(p + 1);
}

/* RETH (IBTA 9.3.4) */
static inline uint64_t urxe_reth_va(const uint8_t *p)
{
	return urxe_get64(p);
}
static inline uint32_t urxe_reth_rkey(const uint8_t *p)
{
	return urxe_get32(p + 8);
}
static inline uint32_t urxe_reth_len(const uint8_t *p)
{
	return urxe_get32(p + 12);
}
static inline void urxe_reth_put(uint8_t *p, uint64_t va, uint32_t rkey, uint32_t len)
{
	urxe_put64(p, va);
	urxe_put32(p + 8, rkey);
	urxe_put32(p + 12, len);
}

/* AtomicETH (IBTA 9.3.5) */
static inline uint64_t urxe_atomic_va(const uint8_t *p)
{
	return urxe_get64(p);
}
static inline uint32_t urxe_atomic_rkey(const uint8_t *p)
{
	return urxe_get32(p + 8);
}
static inline uint64_t urxe_atomic_swap_add(const uint8_t *p)
{
	return urxe_get64(p + 12);
}
static inline uint64_t urxe_atomic_compare(const uint8_t *p)
{
	return urxe_get64(p + 20);
}
static inline void urxe_atomic_put(uint8_t *p, uint64_t va, uint32_t rkey, uint64_t swap_add,
				   uint64_t compare)
{
	urxe_put64(p, va);
	urxe_put32(p + 8, rkey);
	urxe_put64(p + 12, swap_add);
	urxe_put64(p + 20, compare);
}

/* FETH (IBTA A19): reserved(26) | selectivity level(2) | placement type(4) */
static inline uint32_t urxe_feth(uint8_t placement, uint8_t level)
{
	return (uint32_t)(level & 3) << 4 | (placement & 0xf);
}
static inline uint8_t urxe_feth_placement(const uint8_t *p)
{
	return p[3] & 0xf;
}
static inline uint8_t urxe_feth_level(const uint8_t *p)
{
	return p[3] >> 4 & 3;
}

/* AETH (IBTA 9.7.5.1, table 44 and 45): syndrome and MSN */
#define URXE_AETH_TYPE_MASK	 0x60
#define URXE_AETH_ACK		 0x00
#define URXE_AETH_RNR		 0x20
#define URXE_AETH_NAK		 0x60
#define URXE_AETH_VAL_MASK	 0x1f
#define URXE_AETH_CREDIT_INVALID 0x1f

enum urxe_nak_code {
	URXE_NAK_PSN_SEQ = 0,
	URXE_NAK_INVALID_REQ = 1,
	URXE_NAK_REMOTE_ACCESS = 2,
	URXE_NAK_REMOTE_OP = 3,
	URXE_NAK_INVALID_RD_REQ = 4,
};

static inline uint8_t urxe_aeth_syndrome(const uint8_t *p)
{
	return p[0];
}
static inline uint32_t urxe_aeth_msn(const uint8_t *p)
{
	return urxe_get24(p + 1);
}
static inline void urxe_aeth_put(uint8_t *p, uint8_t syndrome, uint32_t msn)
{
	p[0] = syndrome;
	urxe_put24(p + 1, msn);
}

#endif
