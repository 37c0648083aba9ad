/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The ICRC, against frames of the kernel's Soft-RoCE: every bit of them, and sums in pieces. */
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "netio_net.h"
#include "netio/emulated.h"

static unsigned missed; /* ISA-L is not there */

/* In place of libc's. */
void *dlopen(const char *file, int flags)
{
	void *(*theirs)(const char *, int) =
		(void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");

	if (file && !strncmp(file, "libisal.", 8) && missed)
		missed++, file = "libno-isal.so";
	return theirs(file, flags);
}

static const char *const golden[] = {FRAME_V4_SEND, FRAME_V4_ACK, FRAME_V6_SEND, FRAME_V4_CSWAP};

struct view {
	uint8_t f[256];
	bool ipv4;
	uint8_t *l3;
	uint32_t len; /* BTH to pad */
	uint8_t *bth, *icrc;
};

static void load(struct view *v, const char *hex)
{
	uint32_t n = unhex(hex, v->f);

	v->ipv4 = v->f[12] == 0x08;
	v->l3 = v->f + ETH_LEN;
	v->bth = v->l3 + (v->ipv4 ? IPV4_LEN : IPV6_LEN) + UDP_LEN;
	v->icrc = v->f + n - URXE_ICRC_LEN;
	v->len = (uint32_t)(v->icrc - v->bth);
}

static bool good(const struct view *v)
{
	return urxe_icrc(v->l3, v->ipv4, v->len) == urxe_icrc_get(v->icrc);
}

static void kernel_frames(void)
{
	struct view v;

	for (unsigned i = 0; i < sizeof(golden) / sizeof(golden[0]); i++) {
		load(&v, golden[i]);
		CU_ASSERT_TRUE(good(&v));
	}
}

/* In a child, for it is looked for once. */
static void without_isal(void)
{
	int status = -1;
	pid_t pid = fork();

	if (!pid) {
		missed = 1;
		kernel_frames();
		urxe_icrc_load();
		_exit(CU_get_number_of_failures() || missed != (urxe_emulated() ? 1 : 2));
	}
	CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
	CU_ASSERT_EQUAL(status, 0);
}

/* The kernel's Soft-RoCE counts a FLUSH's headers twice: good in that form, and in no other. */
static void twice_summed(void)
{
	struct view v;

	load(&v, FRAME_V4_FLUSH);
	CU_ASSERT_TRUE(!good(&v));
	CU_ASSERT_EQUAL(urxe_icrc_twice(v.l3, v.ipv4, v.len), urxe_icrc_get(v.icrc));
	for (unsigned i = 0; i < sizeof(golden) / sizeof(golden[0]); i++) {
		load(&v, golden[i]);
		CU_ASSERT_NOT_EQUAL(urxe_icrc_twice(v.l3, v.ipv4, v.len), urxe_icrc_get(v.icrc));
	}
}

/* All ways to sum a packet come to the same, of each length, at each alignment. */
static void folded(void)
{
	uint8_t f[256 + 16];
	uint64_t prng = 12;

	for (unsigned i = 0; i < 2 * 16; i++) {
		const uint8_t *l3 = f + i / 2;

		for (uint32_t len = URXE_BTH_LEN; len <= URXE_ICRC_SHORT + 8; len++) {
			for (unsigned k = 0; k < sizeof(f); k++)
				f[k] = (uint8_t)urxe_random_step(&prng);
			CU_ASSERT_EQUAL(urxe_icrc(l3, i & 1, len), urxe_icrc_plain(l3, i & 1, len));
		}
	}
}

/* Every bit counts, but for those that IBTA A17 masks. */
static bool masked(const struct view *v, uint32_t off)
{
	const uint8_t *p = v->f + off;

	if (p == v->bth - 2 || p == v->bth - 1 || p == v->bth + 4)
		return true;
	off -= ETH_LEN;
	if (v->ipv4)
		return off == 1 || off == 8 || off == 10 || off == 11;
	return off == 1 || off == 2 || off == 3 || off == 7;
}

static void each_bit(void)
{
	struct view v;

	for (unsigned i = 0; i < sizeof(golden) / sizeof(golden[0]); i++) {
		load(&v, golden[i]);
		for (uint32_t off = ETH_LEN; v.f + off < v.icrc + URXE_ICRC_LEN; off++) {
			for (unsigned bit = 0; bit < 8; bit++) {
				bool low_class = !v.ipv4 && off == ETH_LEN && bit < 4;

				v.f[off] ^= 1u << bit;
				CU_ASSERT_EQUAL(good(&v), masked(&v, off) || low_class);
				v.f[off] ^= 1u << bit;
			}
		}
	}
}

/* However a packet is cut into pieces, the sum is the same. */
static void pieces(void)
{
	static uint8_t pkt[IPV4_LEN + UDP_LEN + 4200], copy[4200];
	const uint8_t *bth = pkt + IPV4_LEN + UDP_LEN;

	for (unsigned i = 0; i < sizeof(pkt); i++)
		pkt[i] = (uint8_t)(i * 7 + (i >> 8));
	for (uint32_t len = 12; len <= 4172; len += len < 256 ? 4 : 160) {
		uint32_t whole = urxe_icrc(pkt, true, len);

		for (uint32_t head = 12; head <= 72 && head <= len; head += 4) {
			uint32_t crc = urxe_icrc(pkt, true, head);

			CU_ASSERT_EQUAL(urxe_icrc_more(crc, bth + head, len - head), whole);
			CU_ASSERT_EQUAL(urxe_icrc_copy(&crc, copy, bth + head, len - head), 0);
			CU_ASSERT_EQUAL(crc, whole);
			CU_ASSERT_EQUAL(memcmp(copy, bth + head, len - head), 0);
		}
	}
}

/* The CRC by its definition, a bit at a time. */
static uint32_t by_bits(uint32_t seed, const uint8_t *p, uint32_t len)
{
	uint32_t crc = ~seed;

	while (len--) {
		crc ^= *p++;
		for (unsigned bit = 0; bit < 8; bit++)
			crc = crc & 1 ? crc >> 1 ^ 0xedb88320u : crc >> 1;
	}
	return ~crc;
}

/* Of each length up to some rounds of the loop, at each alignment, behind any seed. */
static void by_tables(void)
{
	uint8_t b[96];
	uint64_t prng = 3;

	urxe_icrc_table_make();
	for (unsigned i = 0; i < sizeof(b); i++)
		b[i] = (uint8_t)urxe_random_step(&prng);
	for (uint32_t at = 0; at < 16; at++) {
		for (uint32_t len = 0; at + len <= sizeof(b); len++) {
			uint32_t seed = (uint32_t)urxe_random_step(&prng);

			CU_ASSERT_EQUAL(urxe_icrc_table(seed, b + at, len),
					by_bits(seed, b + at, len));
		}
	}
}

/* All of it as an emulated processor has it. */
static void emulated(void)
{
	bool folds = urxe_icrc_folds;

	urxe_icrc_choose(true);
	CU_ASSERT_TRUE(!urxe_icrc_folds);
	kernel_frames();
	twice_summed();
	pieces();
	urxe_icrc_choose(urxe_emulated());
	CU_ASSERT_EQUAL(urxe_icrc_folds, folds);
}

static void who_emulates(void)
{
	CU_ASSERT_TRUE(urxe_emulated_by("TCGTCGTCGTCG"));
	CU_ASSERT_TRUE(!urxe_emulated_by("KVMKVMKVM\0\0"));
	CU_ASSERT_TRUE(!urxe_emulated_by("Microsoft Hv"));
}

URXE_TEST_MAIN("netio_icrc", T(without_isal), T(kernel_frames), T(twice_summed), T(each_bit),
	       T(pieces), T(folded), T(by_tables), T(emulated), T(who_emulates))
