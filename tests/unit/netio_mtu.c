/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Frame sizes and path MTUs by the `mtu` key. */
#include "harness.h"

#include "netio/config.h"

static void l3_mtu(void)
{
	static const struct {
		uint32_t given, l3, path;
	} c[] = {
		{0, 1500, 1024},    {256, 1500, 256},	{512, 1500, 512},   {1024, 1500, 1024},
		{2048, 2152, 2048}, {4096, 4200, 4096}, {1500, 1500, 1024}, {1128, 1128, 1024},
		{1127, 1127, 512},  {576, 576, 256},	{4199, 4199, 2048}, {9000, 9000, 4096},
		{4200, 4200, 4096}, {8192, 8192, 4096},
	};

	for (unsigned i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		struct urxe_port_config cfg = {.mtu = c[i].given};

		CU_ASSERT_EQUAL(urxe_config_l3_mtu(&cfg), c[i].l3);
		CU_ASSERT_EQUAL(urxe_config_port_path_mtu(&cfg, c[i].l3), c[i].path);
		/* A port that carries more than was asked for does not raise what was named. */
		CU_ASSERT_TRUE(urxe_config_port_path_mtu(&cfg, 9000) >= c[i].path);
	}
	CU_ASSERT_EQUAL(urxe_config_port_path_mtu(&(struct urxe_port_config){.mtu = 512}, 9000),
			512);
	CU_ASSERT_EQUAL(urxe_config_port_path_mtu(&(struct urxe_port_config){.mtu = 4096}, 1500),
			1024);
	CU_ASSERT_EQUAL(urxe_config_path_mtu(359), 0);
	CU_ASSERT_EQUAL(urxe_config_path_mtu(360), 256);
	CU_ASSERT_EQUAL(urxe_config_path_mtu(0), 0);
}

/* Whatever a path carries: with the setting for it no packet is longer, and none smaller would do.
 */
static void setting_for(void)
{
	for (uint32_t bytes = 0; bytes <= 9600; bytes++) {
		struct urxe_port_config cfg = {.mtu = urxe_config_mtu_for(bytes)};
		uint32_t path = urxe_config_path_mtu(urxe_config_l3_mtu(&cfg));

		CU_ASSERT_EQUAL(!cfg.mtu, bytes < 360);
		if (cfg.mtu)
			CU_ASSERT_EQUAL(path, urxe_config_path_mtu(bytes));
		CU_ASSERT_TRUE(!cfg.mtu || (cfg.mtu >= 576 && cfg.mtu <= 9600));
	}
	CU_ASSERT_EQUAL(urxe_config_mtu_for(1400), 1400);
	CU_ASSERT_EQUAL(urxe_config_mtu_for(1024), 616); /* 1024 would be an RDMA path MTU */
}

URXE_TEST_MAIN("netio_mtu", T(l3_mtu), T(setting_for))
