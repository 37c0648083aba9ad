/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What the fake provider's device answers. */
#ifndef URXE_TEST_FAKE_PROVIDER_H
#define URXE_TEST_FAKE_PROVIDER_H

#include <endian.h>

#define FAKE_GUID  htobe64(0x0200aafffebb0001)
#define FAKE_INDEX 1234
#define FAKE_MAC   "\x02\xaa\xbb\xcc\xdd\xee"
#define FAKE_GIDS  4

/* IPv4 10.0.0.1, a hole, IPv6 fd00::1, a hole. */
#define FAKE_GID_TABLE                                                   \
	{                                                                \
		{[10] = 0xff, 0xff, 10, 0, 0, 1}, {0}, {0xfd, [15] = 1}, \
		{                                                        \
			0                                                \
		}                                                        \
	}

#endif
