/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Everything that ibv_query_device_ex() and ibv_query_port() report is true: one row a field, with
 * the check that tries it. A field without a row, and a row without a check, are failures.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "attrs.h"
#include "harness.h"
#include "raw.h"

struct row {
	const char *field; /* NULL: padding */
	size_t off, size;
	void (*check)(void);
};

#define ROW(type, f, fn)                                                           \
	{                                                                          \
#f, offsetof(struct type, f), sizeof(((struct type *)NULL)->f), fn \
	}
#define PAD(n)                   \
	{                        \
		NULL, 0, n, NULL \
	}
#define DEV(f, fn)  ROW(ibv_device_attr_ex, f, fn)
#define ORIG(f, fn) ROW(ibv_device_attr_ex, orig_attr.f, fn)
#define PORT(f, fn) ROW(ibv_port_attr, f, fn)

/* In the order of the struct. */
static const struct row device_rows[] = {
	ORIG(fw_ver, attr_identity),
	ORIG(node_guid, attr_guids),
	ORIG(sys_image_guid, attr_guids),
	ORIG(max_mr_size, attr_max_mr_size),
	ORIG(page_size_cap, attr_page_sizes),
	ORIG(vendor_id, attr_identity),
	ORIG(vendor_part_id, attr_identity),
	ORIG(hw_ver, attr_identity),
	ORIG(max_qp, attr_max_qp),
	ORIG(max_qp_wr, attr_max_qp_wr_sge),
	ORIG(device_cap_flags, attr_flags),
	ORIG(max_sge, attr_max_qp_wr_sge),
	ORIG(max_sge_rd, attr_max_sge_rd),
	ORIG(max_cq, attr_max_cq),
	ORIG(max_cqe, attr_max_cqe),
	ORIG(max_mr, attr_max_mr_mw),
	ORIG(max_pd, attr_max_pd),
	ORIG(max_qp_rd_atom, attr_max_qp_rd_atom),
	ORIG(max_ee_rd_atom, attr_no_old_kinds),
	ORIG(max_res_rd_atom, attr_max_res_rd_atom),
	ORIG(max_qp_init_rd_atom, attr_max_init_rd_atom),
	ORIG(max_ee_init_rd_atom, attr_no_old_kinds),
	ORIG(atomic_cap, attr_atomic_cap),
	ORIG(max_ee, attr_no_old_kinds),
	ORIG(max_rdd, attr_no_old_kinds),
	ORIG(max_mw, attr_max_mr_mw),
	ORIG(max_raw_ipv6_qp, attr_no_old_kinds),
	ORIG(max_raw_ethy_qp, attr_max_raw_ethy_qp),
	ORIG(max_mcast_grp, attr_max_mcast),
	ORIG(max_mcast_qp_attach, attr_max_mcast),
	ORIG(max_total_mcast_qp_attach, attr_max_mcast),
	ORIG(max_ah, attr_max_ah),
	ORIG(max_fmr, attr_no_old_kinds),
	ORIG(max_map_per_fmr, attr_no_old_kinds),
	ORIG(max_srq, attr_max_srq),
	ORIG(max_srq_wr, attr_max_srq_wr_sge),
	ORIG(max_srq_sge, attr_max_srq_wr_sge),
	ORIG(max_pkeys, attr_port_pkeys),
	ORIG(local_ca_ack_delay, attr_ack_delay),
	ORIG(phys_port_cnt, attr_ports),
	PAD(4),
	DEV(comp_mask, attr_identity),
	PAD(4),
	DEV(odp_caps.general_caps, attr_odp_general),
	DEV(odp_caps.per_transport_caps.rc_odp_caps, attr_odp_rc),
	DEV(odp_caps.per_transport_caps.uc_odp_caps, attr_odp_uc),
	DEV(odp_caps.per_transport_caps.ud_odp_caps, attr_odp_ud),
	PAD(4),
	DEV(completion_timestamp_mask, attr_clock),
	DEV(hca_core_clock, attr_clock),
	DEV(device_cap_flags_ex, attr_flags),
	DEV(tso_caps.max_tso, attr_no_tso),
	DEV(tso_caps.supported_qpts, attr_no_tso),
	DEV(rss_caps.supported_qpts, attr_rss),
	DEV(rss_caps.max_rwq_indirection_tables, attr_max_rwq_tables),
	DEV(rss_caps.max_rwq_indirection_table_size, attr_max_table_size),
	PAD(4),
	DEV(rss_caps.rx_hash_fields_mask, attr_rss),
	DEV(rss_caps.rx_hash_function, attr_rss),
	PAD(7),
	DEV(max_wq_type_rq, attr_max_wq),
	DEV(packet_pacing_caps.qp_rate_limit_min, attr_rate_limits),
	DEV(packet_pacing_caps.qp_rate_limit_max, attr_rate_limits),
	DEV(packet_pacing_caps.supported_qpts, attr_pacing_types),
	DEV(raw_packet_caps, attr_no_raw_offloads),
	DEV(tm_caps.max_rndv_hdr_size, attr_no_tag_matching),
	DEV(tm_caps.max_num_tags, attr_no_tag_matching),
	DEV(tm_caps.flags, attr_no_tag_matching),
	DEV(tm_caps.max_ops, attr_no_tag_matching),
	DEV(tm_caps.max_sge, attr_no_tag_matching),
	DEV(cq_mod_caps.max_cq_count, attr_cq_moderation),
	DEV(cq_mod_caps.max_cq_period, attr_cq_moderation),
	PAD(4),
	DEV(max_dm_size, attr_max_dm_size),
	DEV(pci_atomic_caps.fetch_add, attr_no_pci_atomics),
	DEV(pci_atomic_caps.swap, attr_no_pci_atomics),
	DEV(pci_atomic_caps.compare_swap, attr_no_pci_atomics),
	PAD(2),
	DEV(xrc_odp_caps, attr_odp_xrc),
	DEV(phys_port_cnt_ex, attr_ports),
};

static const struct row port_rows[] = {
	PORT(state, attr_port_state),
	PORT(max_mtu, attr_port_mtu),
	PORT(active_mtu, attr_port_mtu),
	PORT(gid_tbl_len, attr_port_gids),
	PORT(port_cap_flags, attr_port_caps),
	PORT(max_msg_sz, attr_port_message),
	PORT(bad_pkey_cntr, attr_port_counters),
	PORT(qkey_viol_cntr, attr_port_counters),
	PORT(pkey_tbl_len, attr_port_pkeys),
	PORT(lid, attr_port_no_subnet_manager),
	PORT(sm_lid, attr_port_no_subnet_manager),
	PORT(lmc, attr_port_no_subnet_manager),
	PORT(max_vl_num, attr_port_lanes),
	PORT(sm_sl, attr_port_no_subnet_manager),
	PORT(subnet_timeout, attr_port_no_subnet_manager),
	PORT(init_type_reply, attr_port_no_subnet_manager),
	PORT(active_width, attr_port_speed),
	PORT(active_speed, attr_port_speed),
	PORT(phys_state, attr_port_state),
	PORT(link_layer, attr_port_caps),
	PORT(flags, attr_port_grh),
	PORT(port_cap_flags2, attr_port_caps),
	PAD(2),
#ifdef URXE_HAVE_ACTIVE_SPEED_EX
	PORT(active_speed_ex, attr_port_speed),
#endif
};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

void attrs_open(struct pair *p, const struct pair_params *pp, enum ibv_qp_type type,
		struct ibv_device_attr_ex *dev)
{
	pair_open(p, pp, type);
	CU_ASSERT_EQUAL_FATAL(ibv_query_device_ex(p->a.ctx, NULL, dev), 0);
}

bool attrs_raw_permitted(void)
{
	if (!urxe_raw_check_permission())
		return true;
	urxe_harness_skip("no CAP_NET_RAW");
	return false;
}

static void tile(const struct row *rows, size_t n, size_t size)
{
	size_t at = 0;

	for (size_t i = 0; i < n; i++) {
		if (rows[i].field && rows[i].off != at)
			printf("\n    %s is at %zu, the rows end at %zu\n", rows[i].field,
			       rows[i].off, at);
		CU_ASSERT(!rows[i].field || (rows[i].off == at && rows[i].check));
		at += rows[i].size;
	}
	CU_ASSERT_EQUAL(at, size);
}

static void every_field_has_a_row(void)
{
	tile(device_rows, COUNT(device_rows), sizeof(struct ibv_device_attr_ex));
	tile(port_rows, COUNT(port_rows), sizeof(struct ibv_port_attr));
}

/* The plain call, and callers whose struct is that of an older library. */
static void shorter_structs(void)
{
	static const struct pair_params pp = {.seed = 3};
	const size_t old = offsetof(struct ibv_device_attr_ex, tm_caps);
	struct ibv_query_device_ex_input input = {.comp_mask = 1};
	struct ibv_device_attr_ex all, some;
	struct ibv_device_attr plain;
	struct pair p;

	attrs_open(&p, &pp, IBV_QPT_RC, &all);
	CU_ASSERT_EQUAL(ibv_query_device(p.a.ctx, &plain), 0);
	CU_ASSERT(!memcmp(&plain, &all.orig_attr, sizeof(plain)));
	memset(&some, 0xa5, sizeof(some));
	CU_ASSERT_EQUAL(verbs_get_ctx(p.a.ctx)->query_device_ex(p.a.ctx, NULL, &some, old), 0);
	CU_ASSERT(!memcmp(&some, &all, old));
	for (size_t i = old; i < sizeof(some); i++)
		CU_ASSERT_EQUAL(((uint8_t *)&some)[i], 0xa5);
	CU_ASSERT_EQUAL(ibv_query_device_ex(p.a.ctx, &input, &some), EINVAL);
	input.comp_mask = 0;
	CU_ASSERT_EQUAL(ibv_query_device_ex(p.a.ctx, &input, &some), 0);
	CU_ASSERT(!memcmp(&some, &all, sizeof(all)));
	pair_close(&p);
}

/* A check of several fields is one test, named after the first. */
static size_t add_checks(struct urxe_test *tests, size_t n, const struct row *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		size_t k = 0;

		while (k < n && tests[k].fn != rows[i].check)
			k++;
		if (k == n && rows[i].check)
			tests[n++] = (struct urxe_test){rows[i].field, rows[i].check};
	}
	return n;
}

int main(int argc, char **argv)
{
	struct urxe_test tests[COUNT(device_rows) + COUNT(port_rows) + 4] = {
		T(every_field_has_a_row),
		T(shorter_structs),
		{"gid_tbl_len, used", attr_port_sgid_index},
	};
	size_t n = add_checks(tests, 3, device_rows, COUNT(device_rows));

	add_checks(tests, n, port_rows, COUNT(port_rows));
	return urxe_harness_main(argc, argv, "attrs", tests);
}
