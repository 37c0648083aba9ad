/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Every RoCEv2 frame that kernel rxe sent in the captures has a good ICRC, to us as well.
 */
#include "netio_net.h"

#include <glob.h>

static unsigned frames, bad;

static void check_frame(uint8_t *p, uint32_t len)
{
	struct urxe_frame f = {.data = p, .len = len};
	uint32_t bth = urxe_frame_roce(&f), end;
	bool ipv4 = p[12] == 0x08;

	if (!bth)
		return;
	end = ETH_LEN +
	      (ipv4 ? urxe_get16(p + ETH_LEN + 2) : IPV6_LEN + urxe_get16(p + ETH_LEN + 4));
	frames++;
	if (end > len || urxe_icrc(p + ETH_LEN, ipv4, end - bth - URXE_ICRC_LEN) !=
				 urxe_icrc_get(p + end - URXE_ICRC_LEN))
		bad++;
}

/* Classic pcap, little-endian: a 24-byte header, then 16 bytes before each frame. */
static void check_file(const char *name)
{
	static uint8_t buf[65536];
	uint32_t rec[4];
	FILE *in = fopen(name, "rb");

	CU_ASSERT_PTR_NOT_NULL_FATAL(in);
	CU_ASSERT_EQUAL(fread(buf, 24, 1, in), 1);
	while (fread(rec, sizeof(rec), 1, in) == 1) {
		uint32_t len = le32toh(rec[2]);

		if (len > sizeof(buf) || fread(buf, len, 1, in) != 1) {
			CU_FAIL("truncated capture");
			break;
		}
		check_frame(buf, len);
	}
	fclose(in);
}

static void all_captures(void)
{
	glob_t g;

	if (glob(urxe_harness_shared("captures/*.pcap"), 0, NULL, &g)) {
		urxe_harness_skip("no captures beside the source tree; set URXE_SHARED");
		return;
	}
	for (size_t i = 0; i < g.gl_pathc; i++)
		check_file(g.gl_pathv[i]);
	globfree(&g);
	printf(" %u frames, %u bad", frames, bad);
	CU_ASSERT_TRUE(frames > 1000);
	CU_ASSERT_EQUAL(bad, 0);
}

URXE_TEST_MAIN("netio_icrc_captures", T(all_captures))
