/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The invariant CRC of RoCEv2 (IBTA A17.3.3): the Ethernet CRC-32 over 8 bytes of ones
 * (in the LRH's place), IP, UDP and everything from the BTH on, with ones for whatever
 * may change on the way.
 *
 * ISA-L sums; it is loaded with the first port whose frames bear an ICRC. A program of the fabric
 * needs none, and a library more takes a tenth of the time that a device takes to open.
 */
#include "netio/emulated.h"
#include "netio/stack.h"

#include <dlfcn.h>
#include <errno.h>
#include <isa-l/crc.h>
#include <pthread.h>

#include "urxe/guarded.h"
#include "urxe/log.h"

#define ONES  8
#define CHUNK 1024 /* copied and summed at a time: 117-134 ns against 292-540 per cold 4 KiB */

#define ISAL "libisal.so.2" /* what the interface of isa-l/crc.h is in */

typedef uint32_t sum_fn(uint32_t seed, const unsigned char *p, uint64_t len);

static sum_fn load_and_sum;
static sum_fn *best; /* on a real processor; found once */
static _Atomic(sum_fn *) sum_now = load_and_sum;
bool urxe_icrc_folds;

static uint32_t sum(uint32_t seed, const unsigned char *p, uint64_t len)
{
	return atomic_load_explicit(&sum_now, memory_order_relaxed)(seed, p, len);
}

static void find_best(void)
{
	void *isal = dlopen(ISAL, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	__typeof__(crc32_gzip_refl) *crc = isal ? dlsym(isal, "crc32_gzip_refl") : NULL;

	best = crc;
	if (crc)
		return;
	urxe_warn("the ICRC is summed by tables, which takes long: %s (Debian's package libisal2)",
		  dlerror());
	urxe_icrc_table_make();
	best = urxe_icrc_table;
}

void urxe_icrc_load(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	if (atomic_load_explicit(&sum_now, memory_order_relaxed) != load_and_sum)
		return;
	pthread_once(&once, find_best);
	atomic_store_explicit(&sum_now, best, memory_order_relaxed);
}

/* Whoever sums without a port: tests, and tools. */
static uint32_t load_and_sum(uint32_t seed, const unsigned char *p, uint64_t len)
{
	urxe_icrc_load();
	return sum(seed, p, len);
}

void urxe_icrc_choose(bool emulated)
{
	if (emulated)
		urxe_icrc_table_make();
	atomic_store_explicit(&sum_now, emulated ? urxe_icrc_table : load_and_sum,
			      memory_order_relaxed);
	urxe_icrc_folds = !emulated && urxe_icrc_can_fold();
}

__attribute__((constructor)) static void look_at_processor(void)
{
	urxe_icrc_choose(urxe_emulated());
}

uint32_t urxe_icrc_plain(const uint8_t *l3, bool ipv4, uint32_t len)
{
	uint8_t b[ONES + IPV6_LEN + UDP_LEN + URXE_ICRC_SHORT];
	uint32_t l3_len = ipv4 ? IPV4_LEN : IPV6_LEN;
	/* A short packet is summed in one go: two sums cost twice as much, however short. */
	uint32_t head = len <= URXE_ICRC_SHORT ? len : URXE_BTH_LEN;
	uint8_t *ip = b + ONES, *udp = ip + l3_len, *bth = udp + UDP_LEN;
	uint32_t crc;

	memset(b, 0xff, ONES);
	if (ipv4) {
		memcpy(ip, l3, IPV4_LEN + UDP_LEN + head);
		ip[1] = 0xff; /* TOS */
		ip[8] = 0xff; /* TTL */
		ip[10] = ip[11] = 0xff;
	} else {
		memcpy(ip, l3, IPV6_LEN + UDP_LEN + head);
		ip[0] |= 0x0f; /* traffic class, flow label */
		ip[1] = ip[2] = ip[3] = 0xff;
		ip[7] = 0xff; /* hop limit */
	}
	udp[6] = udp[7] = 0xff;
	bth[4] = 0xff; /* FECN, BECN, reserved */
	crc = sum(0, b, (uint64_t)(bth - b) + head);
	if (len > head)
		crc = sum(crc, l3 + l3_len + UDP_LEN + head, len - head);
	return crc;
}

uint32_t urxe_icrc_long(const uint8_t *l3, bool ipv4, uint32_t len)
{
	uint32_t l3_len = ipv4 ? IPV4_LEN : IPV6_LEN;

	if (!urxe_icrc_folds)
		return urxe_icrc_plain(l3, ipv4, len);
	return sum(urxe_icrc_fold(l3, ipv4, URXE_BTH_LEN), l3 + l3_len + UDP_LEN + URXE_BTH_LEN,
		   len - URXE_BTH_LEN);
}

uint32_t urxe_icrc_twice(const uint8_t *l3, bool ipv4, uint32_t len)
{
	const uint8_t *bth = l3 + (ipv4 ? IPV4_LEN : IPV6_LEN) + UDP_LEN;

	return urxe_icrc_more(urxe_icrc(l3, ipv4, len), bth, len);
}

uint32_t urxe_icrc_more(uint32_t crc, const void *data, uint32_t len)
{
	return sum(crc, data, len);
}

int urxe_icrc_copy(uint32_t *crc, void *to, const void *from, uint32_t len)
{
	uint8_t *d = to;
	const uint8_t *s = from;

	for (uint32_t n; len; len -= n, d += n, s += n) {
		n = len < CHUNK ? len : CHUNK;
		if (urxe_guarded_copy(d, s, n))
			return EFAULT;
		*crc = sum(*crc, d, n);
	}
	return 0;
}
