/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "harness.h"

#include "netio/config.h"

static void l3_mtu(void)
{
	static const struct {
		uint32_t given, l3, path;
	} c[] = {
		{0, 1500, 1024},    {256, 1500, 1024},	{512, 1500, 1024},  {1024, 1500, 1024},
		{2048, 2152, 2048}, {4096, 4200, 4096}, {1500, 1500, 1024}, {1128, 1128, 1024},
		{1127, 1127, 512},  {576, 576, 256},	{4199, 4199, 2048}, {9000, 9000, 4096},
		{4200, 4200, 4096}, {8192, 8192, 4096},
	};

	for (unsigned i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		struct urxe_port_config cfg = {.mtu = c[i].given};

		CU_ASSERT_EQUAL(urxe_config_l3_mtu(&cfg), c[i].l3);
		CU_ASSERT_EQUAL(urxe_config_path_mtu(c[i].l3), c[i].path);
	}
	CU_ASSERT_EQUAL(urxe_config_path_mtu(359), 0);
	CU_ASSERT_EQUAL(urxe_config_path_mtu(360), 256);
	CU_ASSERT_EQUAL(urxe_config_path_mtu(0), 0);
}

URXE_TEST_MAIN("netio_mtu", T(l3_mtu))
