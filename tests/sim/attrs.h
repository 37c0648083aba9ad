/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Checks of what a device says of itself: attrs.c has the table that names one for each field of
 * ibv_query_device_ex() and ibv_query_port(). Each opens what it needs, tries what is promised, and
 * what would be one more.
 */
#ifndef URXE_TEST_ATTRS_H
#define URXE_TEST_ATTRS_H

#include "pair.h"

/** attrs_open - a pair of @type, with what a's device says. */
void attrs_open(struct pair *p, const struct pair_params *pp, enum ibv_qp_type type,
		struct ibv_device_attr_ex *dev);
/** attrs_raw_permitted - may we make raw packet QPs? If not, that is a reported skip. */
bool attrs_raw_permitted(void);

/* attrs_objects.c: how many there may be */
void attr_max_qp(void);
void attr_max_raw_ethy_qp(void);
void attr_max_cq(void);
void attr_max_pd(void);
void attr_max_mr_mw(void);
void attr_max_ah(void);
void attr_max_srq(void);
void attr_max_wq(void);
void attr_max_rwq_tables(void);
void attr_max_mcast(void);
void attr_max_res_rd_atom(void);

/* attrs_sizes.c: how large one may be */
void attr_max_qp_wr_sge(void);
void attr_max_sge_rd(void);
void attr_max_cqe(void);
void attr_max_srq_wr_sge(void);
void attr_max_init_rd_atom(void);
void attr_max_qp_rd_atom(void);
void attr_max_mr_size(void);
void attr_max_dm_size(void);
void attr_max_table_size(void);
void attr_cq_moderation(void);
void attr_rate_limits(void);

/* attrs_caps.c: what it is and can do */
void attr_identity(void);
void attr_guids(void);
void attr_page_sizes(void);
void attr_flags(void);
void attr_atomic_cap(void);
void attr_ack_delay(void);
void attr_ports(void);
void attr_clock(void);
void attr_rss(void);
void attr_pacing_types(void);
void attr_no_old_kinds(void);
void attr_no_tso(void);
void attr_no_tag_matching(void);
void attr_no_raw_offloads(void);
void attr_no_pci_atomics(void);

/* attrs_odp.c: paging on demand, by transport and operation */
void attr_odp_general(void);
void attr_odp_rc(void);
void attr_odp_uc(void);
void attr_odp_ud(void);
void attr_odp_xrc(void);

/* attrs_port.c */
void attr_port_state(void);
void attr_port_mtu(void);
void attr_port_speed(void);
void attr_port_gids(void);
void attr_port_sgid_index(void);
void attr_port_caps(void);
void attr_port_message(void);
void attr_port_counters(void);
void attr_port_pkeys(void);
void attr_port_no_subnet_manager(void);
void attr_port_lanes(void);
void attr_port_grh(void);

#endif
