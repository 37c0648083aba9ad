/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Is the installed libibverbs one whose private provider interface we know? It is tried at
 * start-up, on a context of our own, before a device is made.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "abi_check.h"
#include "rdma_driver.h"
#include "urxe/log.h"

/*
 * Room behind the table and behind the library's private part: a library with more ops than we
 * know reads and writes on, and must find memory that is ours.
 */
#define SPARE_OPS  64
#define PRIV_WORDS 1024

typedef void set_ops_fn(struct verbs_context *, const struct verbs_context_ops *);

struct public_op {
	const char *name;
	size_t op;     /* offset in verbs_context_ops */
	size_t public; /* offset in verbs_context */
};

#define OP(name)                                                 \
	{                                                        \
#name, offsetof(struct verbs_context_ops, name), \
			offsetof(struct verbs_context, name)     \
	}
#define CTX_OP(name)                                                     \
	{                                                                \
#name, offsetof(struct verbs_context_ops, name),         \
			offsetof(struct verbs_context, context.ops.name) \
	}

/* Ops that the library stores where the public header shows them. */
static const struct public_op public_ops[] = {
	OP(advise_mr),	     OP(alloc_dm),	    OP(alloc_null_mr),	 OP(alloc_td),
	CTX_OP(alloc_mw),    CTX_OP(bind_mw),	    OP(close_xrcd),	 OP(create_qp_ex),
	OP(create_srq_ex),   OP(create_wq),	    CTX_OP(dealloc_mw),	 OP(free_dm),
	OP(get_srq_num),     OP(modify_cq),	    OP(open_qp),	 OP(open_xrcd),
	CTX_OP(poll_cq),     CTX_OP(post_recv),	    CTX_OP(post_send),	 OP(post_srq_ops),
	OP(query_device_ex), CTX_OP(post_srq_recv), OP(query_rt_values), OP(read_counters),
	OP(reg_dm_mr),	     CTX_OP(req_notify_cq),
};

static int refuse(char *why, size_t size, const char *what, const char *name)
{
	if (why && size)
		snprintf(why, size,
			 "libibverbs: %s%s: urxe needs the private ABI of rdma-core 36 to 56", what,
			 name);
	return EPROTONOSUPPORT;
}

/* The library keeps a copy of all ops in ->priv: it must be ours, in order, and not longer. */
static bool copy_matches(const uintptr_t *priv, const uintptr_t *marks)
{
	for (size_t i = 0; i + URXE_RDMA_OPS < PRIV_WORDS; i++) {
		if (priv[i] != marks[0])
			continue;
		return !memcmp(&priv[i], marks, URXE_RDMA_OPS * sizeof(*marks)) &&
		       !priv[i + URXE_RDMA_OPS];
	}
	return false;
}

static int check_ops(set_ops_fn *set_ops, char *why, size_t size)
{
	uintptr_t priv[PRIV_WORDS] = {0};
	union {
		uintptr_t marks[URXE_RDMA_OPS + SPARE_OPS];
		struct verbs_context_ops ops;
	} table;
	union {
		struct verbs_context vctx;
		char bytes[4096];
	} ctx;

	for (size_t i = 0; i < URXE_RDMA_OPS + SPARE_OPS; i++)
		table.marks[i] = 0x10000 + 16 * i;
	memset(&ctx, 0, sizeof(ctx));
	ctx.vctx.priv = (void *)priv;
	set_ops(&ctx.vctx, &table.ops);

	for (size_t i = 0; i < sizeof(public_ops) / sizeof(public_ops[0]); i++) {
		uintptr_t found;

		memcpy(&found, ctx.bytes + public_ops[i].public, sizeof(found));
		if (found != table.marks[public_ops[i].op / sizeof(void *)])
			return refuse(why, size, "another table of operations, at ",
				      public_ops[i].name);
	}
	if (!copy_matches(priv, table.marks))
		return refuse(why, size, "another table of operations", "");
	return 0;
}

int urxe_abi_check_lib(void *lib, char *why, size_t size)
{
	set_ops_fn *set_ops;

	set_ops = (set_ops_fn *)dlvsym(lib, "verbs_set_ops", URXE_RDMA_PRIVATE_NODE);
	if (!set_ops)
		return refuse(why, size, "no version node ", URXE_RDMA_PRIVATE_NODE);
	if (!dlvsym(lib, "ibv_query_qp_data_in_order", URXE_RDMA_PUBLIC_NODE))
		return refuse(why, size, "no version node ", URXE_RDMA_PUBLIC_NODE);
	return check_ops(set_ops, why, size);
}

int urxe_abi_check(void)
{
	char why[160];
	int err = urxe_abi_check_lib(RTLD_DEFAULT, why, sizeof(why));

	if (err)
		urxe_err("%s", why);
	return err;
}
