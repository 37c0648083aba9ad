/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * How large a frame a port must carry, and which RDMA path MTU fits into it.
 */
#include "netio/config.h"

#include "urxe/wire.h"

/* IPv6 40, UDP 8, BTH 12, the longest extension headers (DETH + RETH + ImmDt rounded up: 40), ICRC
 * 4 */
#define HEADER_ROOM 104
#define L3_DEFAULT  1500
#define PMTU_MIN    256
#define PMTU_MAX    4096
#define L3_MIN	    576 /* that may be configured */

static bool is_path_mtu(uint32_t mtu)
{
	return mtu >= PMTU_MIN && mtu <= PMTU_MAX && (mtu & (mtu - 1)) == 0;
}

uint32_t urxe_config_l3_mtu(const struct urxe_port_config *cfg)
{
	uint32_t mtu = cfg->mtu ? cfg->mtu : L3_DEFAULT;

	if (!is_path_mtu(mtu))
		return mtu;
	mtu += HEADER_ROOM;
	return mtu > L3_DEFAULT ? mtu : L3_DEFAULT;
}

uint32_t urxe_config_path_mtu(uint32_t l3_mtu)
{
	for (uint32_t mtu = PMTU_MAX; mtu >= PMTU_MIN; mtu /= 2) {
		if (l3_mtu >= mtu + HEADER_ROOM)
			return mtu;
	}
	return 0;
}

uint32_t urxe_config_port_path_mtu(const struct urxe_port_config *cfg, uint32_t l3_mtu)
{
	uint32_t fits = urxe_config_path_mtu(l3_mtu);

	return is_path_mtu(cfg->mtu) && cfg->mtu < fits ? cfg->mtu : fits;
}

uint32_t urxe_config_mtu_for(uint32_t bytes)
{
	uint32_t path_mtu = urxe_config_path_mtu(bytes);

	if (!path_mtu)
		return 0;
	if (bytes >= L3_MIN && !is_path_mtu(bytes))
		return bytes;
	return path_mtu + HEADER_ROOM > L3_MIN ? path_mtu + HEADER_ROOM : L3_MIN;
}
