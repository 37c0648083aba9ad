/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A "libibverbs" whose table of operations has OPS entries, of which it copies as many: what
 * urxe_abi_check() must refuse unless OPS is 76.
 */
#include <string.h>

#include "rdma_driver.h"

__attribute__((visibility("default"))) int
ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	return 0;
}

__attribute__((visibility("default"))) void verbs_set_ops(struct verbs_context *ctx,
							  const struct verbs_context_ops *ops)
{
	memcpy((char *)ctx->priv + 24, ops, OPS * sizeof(void *));
#define PUBLIC(to, name) memcpy(&ctx->to, &ops->name, sizeof(void *))
	PUBLIC(advise_mr, advise_mr);
	PUBLIC(alloc_dm, alloc_dm);
	PUBLIC(alloc_null_mr, alloc_null_mr);
	PUBLIC(alloc_td, alloc_td);
	PUBLIC(context.ops.alloc_mw, alloc_mw);
	PUBLIC(context.ops.bind_mw, bind_mw);
	PUBLIC(close_xrcd, close_xrcd);
	PUBLIC(create_qp_ex, create_qp_ex);
	PUBLIC(create_srq_ex, create_srq_ex);
	PUBLIC(create_wq, create_wq);
	PUBLIC(context.ops.dealloc_mw, dealloc_mw);
	PUBLIC(free_dm, free_dm);
	PUBLIC(get_srq_num, get_srq_num);
	PUBLIC(modify_cq, modify_cq);
	PUBLIC(open_qp, open_qp);
	PUBLIC(open_xrcd, open_xrcd);
	PUBLIC(context.ops.poll_cq, poll_cq);
	PUBLIC(context.ops.post_recv, post_recv);
	PUBLIC(context.ops.post_send, post_send);
	PUBLIC(post_srq_ops, post_srq_ops);
	PUBLIC(query_device_ex, query_device_ex);
	PUBLIC(context.ops.post_srq_recv, post_srq_recv);
	PUBLIC(query_rt_values, query_rt_values);
	PUBLIC(read_counters, read_counters);
	PUBLIC(reg_dm_mr, reg_dm_mr);
	PUBLIC(context.ops.req_notify_cq, req_notify_cq);
}
