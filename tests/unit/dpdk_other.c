/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A library of DPDK ports of another version (netio/dpdk.h). For dpdk_missing.sh. */
extern const unsigned urxe_dpdk_library[64];
const unsigned urxe_dpdk_library[64] = {0};
