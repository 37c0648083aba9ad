/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The ICRC of a short packet, by carry-less multiplication (V. Gopal et al., "Fast CRC Computation
 * for Generic Polynomials Using PCLMULQDQ Instruction", Intel 2009), over the frame as it lies.
 *
 * That paper folds one block of 16 bytes into the next, each of which waits for the one before. A
 * short packet has few: here each is multiplied by what its own distance from the last one asks
 * for, none waits, and the IP and UDP headers cost next to nothing. What the ICRC masks is masked
 * in registers, so nothing is copied.
 */
#include "netio/stack.h"

#if defined(__x86_64__) && defined(__LP64__)
#include <assert.h>
#include <immintrin.h>

#include "urxe/cpu.h"

#define BLOCK	   16
#define MOST	   (IPV6_LEN + UDP_LEN + URXE_ICRC_SHORT)
#define AFTER_ONES 0xdebb20e3u /* the register behind the 8 bytes of ones in the LRH's place */

/* Of a block: x^(n+32) and x^(n-32) modulo the polynomial, for the last one n bits behind it, bits
 * reversed, and moved by one as reversed products are. The farthest first. */
static const uint64_t by_distance[][2] __attribute__((aligned(16))) = {
	{0x1816ab61c, 0x10aae2566}, {0x0e3543be0, 0x14b57d3f0}, {0x1fdc60a7c, 0x03f41287a},
	{0x1e88ef372, 0x14a7fe880}, {0x1ea89367e, 0x1d7cfc6ac}, {0x0df068dc2, 0x18cb44e58},
	{0x1c7569e54, 0x0ae0b5394}, {0x154442bd4, 0x1c6e41596}, {0x03db1ecdc, 0x174359406},
	{0x0f1da05aa, 0x15a546366}, {0x1751997d0, 0x0ccaa009e},
};
#define DISTANCES (sizeof(by_distance) / sizeof(by_distance[0]))
static_assert(MOST <= (DISTANCES + 1) * BLOCK, "a constant for each distance");

/* x^64, and for Barrett's reduction the quotient x^64 / polynomial and the polynomial itself. */
static const uint64_t to_32 = 0x163cd6124, barrett[2] = {0x1f7011641, 0x1db710641};

/* Ones for what may change on the way: TOS, TTL, checksums; FECN, BECN and reserved of the BTH. */
static const uint8_t masks_v4[MOST + BLOCK] = {
	[1] = 0xff,
	[8] = 0xff,
	[10] = 0xff,
	[11] = 0xff,
	[IPV4_LEN + 6] = 0xff,
	[IPV4_LEN + 7] = 0xff,
	[IPV4_LEN + UDP_LEN + 4] = 0xff,
};
/* Traffic class and flow label, hop limit, checksum; as above. */
static const uint8_t masks_v6[MOST + BLOCK] = {
	[0] = 0x0f,
	[1] = 0xff,
	[2] = 0xff,
	[3] = 0xff,
	[7] = 0xff,
	[IPV6_LEN + 6] = 0xff,
	[IPV6_LEN + 7] = 0xff,
	[IPV6_LEN + UDP_LEN + 4] = 0xff,
};

/* From byte n on: what moves the first n bytes of a register to its end, with zeros before them. */
static const uint8_t to_end[2 * BLOCK] = {
	0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
	0x80, 0x80, 0x80, 0x80, 0x80, 0,    1,	  2,	3,    4,    5,
	6,    7,    8,	  9,	10,   11,   12,	  13,	14,   15,
};

#define FOLDING static inline __attribute__((always_inline, target("avx,pclmul")))

FOLDING __m128i get(const void *p)
{
	return _mm_loadu_si128(p);
}

FOLDING __m128i fold(__m128i block, const void *by)
{
	return _mm_xor_si128(_mm_clmulepi64_si128(block, get(by), 0x00),
			     _mm_clmulepi64_si128(block, get(by), 0x11));
}

/* The register behind a block that has all the others folded into it. */
FOLDING uint32_t reduce(__m128i x)
{
	const __m128i low = _mm_set_epi32(0, 0, 0, -1), b = get(barrett);
	__m128i t;

	t = _mm_clmulepi64_si128(x, get(by_distance[DISTANCES - 1]), 0x10);
	x = _mm_xor_si128(_mm_srli_si128(x, 8), t);
	t = _mm_clmulepi64_si128(_mm_and_si128(x, low), _mm_cvtsi64_si128((long long)to_32), 0x00);
	x = _mm_xor_si128(_mm_srli_si128(x, 4), t);
	t = _mm_clmulepi64_si128(_mm_and_si128(x, low), b, 0x00);
	t = _mm_clmulepi64_si128(_mm_and_si128(t, low), b, 0x10);
	return (uint32_t)_mm_extract_epi32(_mm_xor_si128(x, t), 1);
}

bool urxe_icrc_can_fold(void)
{
	return urxe_cpu_has_avx() && urxe_cpu_has_pclmul();
}

/* The first block is the short one: zeros before the first byte do not count. */
__attribute__((target("avx,pclmul"))) uint32_t urxe_icrc_fold(const uint8_t *l3, bool ipv4,
							      uint32_t bth_len)
{
	const uint8_t *mask = ipv4 ? masks_v4 : masks_v6;
	size_t len = (ipv4 ? IPV4_LEN : IPV6_LEN) + UDP_LEN + bth_len;
	size_t left = (len - 1) / BLOCK * BLOCK, at = len - left, last = len - BLOCK;
	const uint8_t *by = (const uint8_t *)by_distance + sizeof(by_distance) - left;
	__m128i all, x;

	x = _mm_or_si128(get(l3), get(mask));
	x = _mm_xor_si128(x, _mm_cvtsi32_si128((int)AFTER_ONES));
	x = _mm_shuffle_epi8(x, get(to_end + at));
	all = fold(x, by);
	for (by += BLOCK - at; at != last; at += BLOCK) {
		x = _mm_or_si128(get(l3 + at), get(mask + at));
		all = _mm_xor_si128(all, fold(x, by + at));
	}
	x = _mm_or_si128(get(l3 + at), get(mask + at));
	return ~reduce(_mm_xor_si128(all, x));
}

#else

bool urxe_icrc_can_fold(void)
{
	return false;
}

uint32_t urxe_icrc_fold(const uint8_t *l3, bool ipv4, uint32_t bth_len)
{
	return urxe_icrc_plain(l3, ipv4, bth_len);
}

#endif
