/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The door of the control verbs: an error that is returned is in errno, too; objects that are not
 * ours, whose handle is another, or that belong to another device, are EINVAL, and unharmed. And
 * what a context says of itself beyond that: vectors, ECE.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"
#include "door.h"
#include "pair.h"

static const struct pair_params params = {.seed = 5, .link = {.latency = 1000}};
static struct pair p;

/* A verb that returns an errno; or NULL. */
#define SAYS(err, call)                       \
	do {                                  \
		errno = 0;                    \
		CU_ASSERT_EQUAL((call), err); \
		CU_ASSERT_EQUAL(errno, err);  \
	} while (0)
#define REFUSES(call)                           \
	do {                                    \
		errno = 0;                      \
		CU_ASSERT_PTR_NULL((call));     \
		CU_ASSERT_EQUAL(errno, EINVAL); \
	} while (0)

/* The verb is refused while the object has another handle, and works on what it has again. */
#define WRONG_HANDLE(handle, check)   \
	do {                          \
		(handle) ^= 1u << 16; \
		check;                \
		(handle) ^= 1u << 16; \
	} while (0)

static void errors_are_in_errno(void)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTS};
	struct ibv_modify_cq_attr ca = {.attr_mask = 1 << 7};
	struct ibv_send_wr wr = {.opcode = IBV_WR_DRIVER1}, *bad;
	struct ibv_recv_wr rwr = {.num_sge = 1000}, *rbad;
	struct ibv_port_attr port;
	union ibv_gid gid = {.raw = {0xfe, 0x80}};

	pair_open(&p, &params, IBV_QPT_RC);
	SAYS(EINVAL, ibv_modify_qp(p.a.qp, &a, IBV_QP_STATE | IBV_QP_QKEY));
	SAYS(EINVAL, ibv_modify_cq(p.a.cq, &ca));
	SAYS(EINVAL, ibv_resize_cq(p.a.cq, 0));
	SAYS(EBUSY, ibv_destroy_cq(p.a.cq));
	SAYS(EBUSY, ibv_dealloc_pd(p.a.pd));
	SAYS(EINVAL, ibv_post_send(p.a.qp, &wr, &bad));
	SAYS(EINVAL, ibv_post_recv(p.a.qp, &rwr, &rbad));
	SAYS(EINVAL, ibv_query_port(p.a.ctx, 2, &port));
	SAYS(EINVAL, ibv_attach_mcast(p.a.qp, &gid, 0));
	SAYS(EINVAL, ibv_detach_mcast(p.a.qp, &gid, 0));
	SAYS(EINVAL, ibv_req_notify_cq(p.a.cq, 0)); /* it has no channel */
	pair_close(&p);
}

static void pd_and_what_is_in_it(void)
{
	struct ibv_ah_attr path = pair_path(&p.a, &p.b);
	struct ibv_mw *mw = ibv_alloc_mw(p.a.pd, IBV_MW_TYPE_1);
	struct ibv_ah *ah = ibv_create_ah(p.a.pd, &path);
	struct ibv_mr *mr = ibv_reg_mr(p.a.pd, p.a.buf, 64, 0);

	CU_ASSERT_FATAL(mw && ah && mr);
	WRONG_HANDLE(p.a.pd->handle, {
		SAYS(EINVAL, ibv_dealloc_pd(p.a.pd));
		REFUSES(ibv_reg_mr(p.a.pd, p.a.buf, 64, 0));
		REFUSES(ibv_alloc_mw(p.a.pd, IBV_MW_TYPE_1));
		REFUSES(ibv_create_ah(p.a.pd, &path));
	});
	WRONG_HANDLE(mr->handle, SAYS(EINVAL, ibv_dereg_mr(mr)));
	WRONG_HANDLE(mw->handle, SAYS(EINVAL, ibv_dealloc_mw(mw)));
	WRONG_HANDLE(ah->handle, SAYS(EINVAL, ibv_destroy_ah(ah)));
	CU_ASSERT_EQUAL(ibv_dereg_mr(mr), 0);
	CU_ASSERT_EQUAL(ibv_dealloc_mw(mw), 0);
	CU_ASSERT_EQUAL(ibv_destroy_ah(ah), 0);
}

static void queues(void)
{
	struct ibv_srq_init_attr sa = {.attr = {.max_wr = 1}};
	struct ibv_qp_init_attr ia = {.send_cq = p.a.cq, .recv_cq = p.a.cq, .qp_type = IBV_QPT_RC};
	struct ibv_srq *srq = ibv_create_srq(p.a.pd, &sa);
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_ERR};
	struct ibv_qp *qp;

	CU_ASSERT_PTR_NOT_NULL_FATAL(srq);
	WRONG_HANDLE(p.a.cq->handle, {
		SAYS(EINVAL, ibv_destroy_cq(p.a.cq));
		SAYS(EINVAL, ibv_resize_cq(p.a.cq, 100));
		REFUSES(ibv_create_qp(p.a.pd, &ia));
	});
	ia.srq = srq;
	WRONG_HANDLE(srq->handle, {
		SAYS(EINVAL, ibv_destroy_srq(srq));
		SAYS(EINVAL, ibv_query_srq(srq, &sa.attr));
		REFUSES(ibv_create_qp(p.a.pd, &ia));
	});
	qp = ibv_create_qp(p.a.pd, &ia);
	CU_ASSERT_PTR_NOT_NULL_FATAL(qp);
	WRONG_HANDLE(qp->handle, {
		SAYS(EINVAL, ibv_modify_qp(qp, &a, IBV_QP_STATE));
		SAYS(EINVAL, ibv_query_qp(qp, &a, IBV_QP_STATE, &ia));
		SAYS(EINVAL, ibv_destroy_qp(qp));
	});
	CU_ASSERT_EQUAL(ibv_destroy_qp(qp), 0);
	CU_ASSERT_EQUAL(ibv_destroy_srq(srq), 0);
}

/* What is of another device, or of nobody that we know. */
static void strangers(void)
{
	struct ibv_qp_init_attr ia = {.send_cq = p.b.cq, .recv_cq = p.a.cq, .qp_type = IBV_QPT_RC};
	struct ibv_qp_init_attr_ex xa = {.send_cq = p.a.cq,
					 .recv_cq = p.a.cq,
					 .qp_type = IBV_QPT_RC,
					 .comp_mask = IBV_QP_INIT_ATTR_PD |
						      IBV_QP_INIT_ATTR_CREATE_FLAGS};
	struct verbs_device other = {.ops = NULL};
	struct ibv_context ctx = {.device = &other.device};
	struct ibv_pd pd = {.context = p.a.ctx};
	struct ibv_cq cq = {.context = p.a.ctx};

	REFUSES(ibv_create_qp(p.a.pd, &ia));
	ia.send_cq = p.a.cq;
	ia.recv_cq = p.b.cq;
	REFUSES(ibv_create_qp(p.a.pd, &ia));
	REFUSES(urxe_door_ops.reg_mr(&pd, p.a.buf, 64, 0, 0));
	SAYS(EINVAL, urxe_door_ops.destroy_cq(&cq));
	pd.context = cq.context = &ctx;
	REFUSES(urxe_door_ops.reg_mr(&pd, p.a.buf, 64, 0, 0));
	SAYS(EINVAL, urxe_door_ops.destroy_cq(&cq));
	SAYS(EINVAL, urxe_door_ops.dealloc_pd(NULL));
	REFUSES(ibv_create_qp_ex(p.a.ctx, &xa)); /* it has no PD */
}

static void strange_channel(void)
{
	struct ibv_comp_channel *channel = urxe_channel_create(p.b.ctx);
	struct ibv_cq_init_attr_ex ca = {.cqe = 1, .channel = channel};

	REFUSES(ibv_create_cq(p.a.ctx, 1, NULL, channel, 0));
	REFUSES(ibv_create_cq_ex(p.a.ctx, &ca));
	CU_ASSERT_EQUAL(urxe_channel_destroy(channel), 0);
}

static void strange_xrc(void)
{
	struct ibv_xrcd_init_attr xa = {.comp_mask =
						IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
					.fd = -1,
					.oflags = O_CREAT};
	struct ibv_xrcd *xrcd = ibv_open_xrcd(p.b.ctx, &xa);
	struct ibv_srq_init_attr_ex sa = {.attr = {.max_wr = 1, .max_sge = 1},
					  .comp_mask = IBV_SRQ_INIT_ATTR_TYPE |
						       IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ |
						       IBV_SRQ_INIT_ATTR_XRCD,
					  .srq_type = IBV_SRQT_XRC,
					  .pd = p.a.pd,
					  .cq = p.a.cq,
					  .xrcd = xrcd};
	struct ibv_qp_init_attr_ex qa = {
		.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = xrcd};
	struct ibv_qp_open_attr oa = {.comp_mask = IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_NUM |
						   IBV_QP_OPEN_ATTR_TYPE,
				      .qp_type = IBV_QPT_XRC_RECV,
				      .xrcd = xrcd};
	struct ibv_qp *qp;

	CU_ASSERT_PTR_NOT_NULL_FATAL(xrcd);
	REFUSES(ibv_create_srq_ex(p.a.ctx, &sa));
	REFUSES(ibv_create_qp_ex(p.a.ctx, &qa));
	qp = ibv_create_qp_ex(p.b.ctx, &qa);
	CU_ASSERT_PTR_NOT_NULL_FATAL(qp);
	oa.qp_num = qp->qp_num;
	REFUSES(ibv_open_qp(p.a.ctx, &oa));
	CU_ASSERT_EQUAL(ibv_destroy_qp(qp), 0);
	CU_ASSERT_EQUAL(ibv_close_xrcd(xrcd), 0);
}

static void objects(void)
{
	pair_open(&p, &params, IBV_QPT_RC);
	pd_and_what_is_in_it();
	queues();
	strangers();
	strange_channel();
	strange_xrc();
	pair_close(&p);
}

static void vectors(void)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	struct ibv_cq *cq;

	pair_open(&p, &params, IBV_QPT_RC);
	CU_ASSERT_EQUAL(p.a.ctx->num_comp_vectors, cpus);
	for (int v = 0; v < cpus; v++) {
		cq = ibv_create_cq(p.a.ctx, 1, NULL, NULL, v);
		CU_ASSERT(cq && !ibv_destroy_cq(cq));
	}
	REFUSES(ibv_create_cq(p.a.ctx, 1, NULL, NULL, (int)cpus));
	REFUSES(ibv_create_cq(p.a.ctx, 1, NULL, NULL, -1));
	pair_close(&p);
}

static void ece(void)
{
	struct ibv_ece e = {.vendor_id = 1, .options = 2, .comp_mask = 3};

	pair_open(&p, &params, IBV_QPT_RC);
	CU_ASSERT_EQUAL(ibv_query_ece(p.a.qp, &e), 0);
	CU_ASSERT(!e.vendor_id && !e.options && !e.comp_mask);
	e.vendor_id = 0x15b3;
	SAYS(EOPNOTSUPP, ibv_set_ece(p.a.qp, &e));
	pair_close(&p);
}

URXE_TEST_MAIN("door", T(errors_are_in_errno), T(objects), T(vectors), T(ece))
