/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Contexts, and the table of everything that this provider offers: read it as the table of
 * contents of the folder. What is not in it answers EOPNOTSUPP.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "provider.h"
#include "door.h"
#include "flow.h"
#include "mcast.h"
#include "post.h"
#include "rate.h"
#include "wq.h"
#include "xrc.h"
#include "urxe/cancel.h"

static void urxe_free_context(struct ibv_context *ctx);
static int urxe_query_device_ex(struct ibv_context *ctx,
				const struct ibv_query_device_ex_input *input,
				struct ibv_device_attr_ex *attr, size_t attr_size);
static int urxe_query_rt_values(struct ibv_context *ctx, struct ibv_values_ex *values);

static const struct verbs_context_ops urxe_context_ops = {
	/* context.c */
	.free_context = urxe_free_context,
	.query_device_ex = urxe_query_device_ex,
	.query_port = urxe_query_port,
	.query_rt_values = urxe_query_rt_values,
	/* pd.c */
	.alloc_pd = urxe_alloc_pd,
	.dealloc_pd = urxe_dealloc_pd,
	.alloc_td = urxe_alloc_td,
	.dealloc_td = urxe_dealloc_td,
	.alloc_parent_domain = urxe_alloc_parent_domain,
	/* mr.c, dm.c, mw.c */
	.reg_mr = urxe_reg_mr,
	.rereg_mr = urxe_rereg_mr,
	.dereg_mr = urxe_dereg_mr,
	.alloc_null_mr = urxe_alloc_null_mr,
	.advise_mr = urxe_advise_mr,
	.reg_dmabuf_mr = urxe_reg_dmabuf_mr,
	.alloc_dm = urxe_alloc_dm,
	.free_dm = urxe_free_dm,
	.reg_dm_mr = urxe_reg_dm_mr,
	.alloc_mw = urxe_alloc_mw,
	.dealloc_mw = urxe_dealloc_mw,
	.bind_mw = urxe_bind_mw,
	/* ah.c */
	.create_ah = urxe_create_ah,
	.destroy_ah = urxe_destroy_ah,
	/* cq.c */
	.create_cq = urxe_create_cq,
	.create_cq_ex = urxe_create_cq_ex,
	.modify_cq = urxe_modify_cq,
	.destroy_cq = urxe_destroy_cq,
	.resize_cq = urxe_resize_cq,
	.poll_cq = urxe_poll_cq,
	.cq_event = urxe_channel_read,
	.req_notify_cq = urxe_req_notify_cq,
	/* srq.c */
	.create_srq = urxe_create_srq,
	.create_srq_ex = urxe_create_srq_ex,
	.modify_srq = urxe_modify_srq,
	.query_srq = urxe_query_srq,
	.destroy_srq = urxe_destroy_srq,
	.post_srq_recv = urxe_post_srq_recv,
	/* qp.c, qp_modify.c */
	.create_qp = urxe_create_qp,
	.create_qp_ex = urxe_create_qp_ex,
	.destroy_qp = urxe_destroy_qp,
	.modify_qp = urxe_modify_qp,
	.modify_qp_rate_limit = urxe_modify_qp_rate_limit,
	.query_qp = urxe_query_qp,
	/* xrc.c */
	.open_xrcd = urxe_open_xrcd,
	.close_xrcd = urxe_close_xrcd,
	.get_srq_num = urxe_get_srq_num,
	.open_qp = urxe_open_qp,
	/* flow.c */
	.create_flow = urxe_create_flow,
	.destroy_flow = urxe_destroy_flow,
	/* mcast.c */
	.attach_mcast = urxe_attach_mcast,
	.detach_mcast = urxe_detach_mcast,
	/* wq.c */
	.create_wq = urxe_create_wq,
	.modify_wq = urxe_modify_wq,
	.destroy_wq = urxe_destroy_wq,
	.create_rwq_ind_table = urxe_create_rwq_ind_table,
	.destroy_rwq_ind_table = urxe_destroy_rwq_ind_table,
	/* post.c */
	.post_send = urxe_post_send,
	.post_recv = urxe_post_recv,
};

/* All of them or none. 0 or errno. */
static int open_fds(struct urxe_context *ctx)
{
	struct ibv_context *c = &ctx->vctx.context;
	int err;

	c->async_fd = c->cmd_fd = -1;
	/* A pipe, for applications poll() and set O_NONBLOCK on async_fd. */
	err = urxe_pipe_open(&ctx->async, ctx->dev, true);
	if (err)
		return err;
	/*
	 * Programs dup() it to share the context. One that can be named but not used: what
	 * libibverbs tries on it by itself fails as it does on -1, with EBADF.
	 */
	c->cmd_fd = open("/", O_PATH | O_CLOEXEC);
	if (c->cmd_fd < 0) {
		err = errno;
		urxe_pipe_close(&ctx->async, false);
		return err;
	}
	c->async_fd = ctx->async.rfd;
	return 0;
}

static struct verbs_context *urxe_alloc_context(struct ibv_device *ibdev, int cmd_fd, void *priv)
{
	struct urxe_device *dev = urxe_container_of(ibdev, struct urxe_device, vdev.device);
	struct urxe_context *ctx;
	long cpus;
	int err;

	/* What a forked child has of its parent's device leads to its own. */
	err = urxe_device_inherited(dev) && dev->heir ? dev->heir(dev, &dev)
						      : urxe_device_check(dev);
	if (err) {
		errno = err;
		return NULL;
	}
	ctx = urxe_rdma_alloc_context(ibdev, cmd_fd, ctx, vctx);
	if (!ctx)
		return NULL;
	ctx->dev = dev;
	err = open_fds(ctx);
	if (err) {
		verbs_uninit_context(&ctx->vctx);
		free(ctx);
		errno = err;
		return NULL;
	}
	atomic_init(&ctx->refs, 1);
	/* A vector for each processor, as adapters have: programs choose one by it. All are alike.
	 */
	cpus = sysconf(_SC_NPROCESSORS_ONLN);
	ctx->vctx.context.num_comp_vectors = cpus > 0 ? (int)cpus : 1;
	urxe_mutex_init(&ctx->async_lock);
	verbs_set_ops(&ctx->vctx, &urxe_context_ops);
	verbs_set_ops(&ctx->vctx, &urxe_door_ops);
	urxe_mutex_lock(&dev->mutex);
	cds_list_add_tail(&ctx->node, &dev->contexts);
	urxe_mutex_unlock(&dev->mutex);
	return &ctx->vctx;
}

void urxe_context_get(struct ibv_context *ibctx)
{
	atomic_fetch_add_explicit(&to_urxe_ctx(ibctx)->refs, 1, memory_order_relaxed);
}

void urxe_context_put(struct ibv_context *ibctx)
{
	struct urxe_context *ctx = to_urxe_ctx(ibctx);

	/* Who frees it sees all that the others did. */
	if (atomic_fetch_sub_explicit(&ctx->refs, 1, memory_order_acq_rel) > 1)
		return;
	urxe_pipe_close(&ctx->async, true);
	urxe_mutex_fini(&ctx->async_lock);
	verbs_uninit_context(&ctx->vctx);
	free(ctx);
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/*
 * ibv_close_device() has no way to refuse. With a kernel's device it takes all objects of the
 * context out of the adapter, whatever the program still has of them: so their QPs end here, and no
 * peer reaches the program's memory any more. The objects are destroyed as ever, later.
 */
static void close_context(struct ibv_context *ibctx)
{
	struct urxe_context *ctx = to_urxe_ctx(ibctx);
	struct urxe_device *dev = ctx->dev;

	if (urxe_device_inherited(dev)) {
		urxe_pipe_close(&ctx->async, true);
		close_fd(&ibctx->async_fd);
		close_fd(&ibctx->cmd_fd);
		return;
	}
	urxe_mutex_lock(&dev->mutex);
	cds_list_del(&ctx->node);
	urxe_mutex_unlock(&dev->mutex);
	if (atomic_load(&ctx->refs) > 1) {
		urxe_info("%s: closed with objects that are not destroyed; their QPs end",
			  dev->cfg.name);
		atomic_store(&ctx->closed, true);
		/* Of a dead device they have ended. */
		if (!urxe_device_check(dev)) {
			urxe_qp_end_all(ctx);
			urxe_wq_flush_all(dev, ctx);
		}
		/* What was raised and not read is counted by our own end of the pipe. */
		close_fd(&ibctx->async_fd);
		close_fd(&ibctx->cmd_fd);
	}
	urxe_context_put(ibctx);
}

static void urxe_free_context(struct ibv_context *ibctx)
{
	int cancel = urxe_cancel_off();

	close_context(ibctx);
	urxe_cancel_back(cancel);
}

static void urxe_uninit_device(struct verbs_device *vdev)
{
	/* The registry holds the last reference: devices live as long as the process. */
}

const struct verbs_device_ops urxe_device_ops = {
	.name = "urxe",
	.alloc_context = urxe_alloc_context,
	.uninit_device = urxe_uninit_device,
};

static void device_limits(const struct urxe_device *dev, struct ibv_device_attr *a)
{
	memset(a, 0, sizeof(*a));
	strcpy(a->fw_ver, URXE_VERSION);
	a->node_guid = dev->guid;
	a->sys_image_guid = dev->guid;
	a->max_mr_size = UINT64_MAX;
	a->page_size_cap = 0xfffff000;
	a->vendor_id = URXE_VENDOR_ID;
	a->vendor_part_id = URXE_VENDOR_PART_ID;
	a->hw_ver = 1;
	a->max_qp = URXE_MAX_QP;
	a->max_qp_wr = URXE_MAX_QP_WR;
	a->device_cap_flags =
		IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SYS_IMAGE_GUID |
		IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_BAD_PKEY_CNTR | IBV_DEVICE_BAD_QKEY_CNTR |
		IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_MEM_WINDOW |
		IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_XRC |
		IBV_DEVICE_MANAGED_FLOW_STEERING | IBV_DEVICE_AUTO_PATH_MIG;
	a->max_sge = URXE_MAX_SGE;
	a->max_sge_rd = URXE_MAX_SGE;
	a->max_cq = URXE_MAX_CQ;
	a->max_cqe = URXE_MAX_CQE - 1;
	a->max_mr = URXE_MAX_MR;
	a->max_mw = URXE_MAX_MW;
	a->max_pd = URXE_MAX_PD;
	a->max_qp_rd_atom = URXE_MAX_RD_ATOMIC;
	a->max_qp_init_rd_atom = URXE_MAX_RD_ATOMIC;
	a->max_res_rd_atom = URXE_MAX_QP * URXE_MAX_RD_ATOMIC;
	a->atomic_cap = IBV_ATOMIC_HCA;
	a->max_raw_ethy_qp = URXE_MAX_QP;
	a->max_ah = URXE_MAX_AH;
	a->max_srq = URXE_MAX_SRQ;
	a->max_srq_wr = URXE_MAX_SRQ_WR;
	a->max_srq_sge = URXE_MAX_SGE;
	a->max_mcast_grp = URXE_MAX_MCAST;
	a->max_mcast_qp_attach = URXE_MAX_MCAST_QPS;
	a->max_total_mcast_qp_attach = URXE_MAX_MCAST * URXE_MAX_MCAST_QPS;
	a->max_pkeys = 1;
	a->local_ca_ack_delay = 15;
	a->phys_port_cnt = 1;
}

#define DEVICE_ATOMIC_WRITE (1ull << 40) /* younger than libibverbs' header */
#define ODP_UD		    (IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV)
#define ODP_UC		    (ODP_UD | IBV_ODP_SUPPORT_WRITE)
#define ODP_RC		    (ODP_UC | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC)

static int urxe_query_device_ex(struct ibv_context *ctx,
				const struct ibv_query_device_ex_input *input,
				struct ibv_device_attr_ex *attr, size_t attr_size)
{
	struct ibv_device_attr_ex all;

	if (input && input->comp_mask)
		return urxe_ret(EINVAL);
	memset(&all, 0, sizeof(all));
	device_limits(to_urxe_dev(ctx), &all.orig_attr);
	all.completion_timestamp_mask = UINT64_MAX;
	all.hca_core_clock = 1000000; /* kHz: time stamps are nanoseconds */
	all.device_cap_flags_ex = all.orig_attr.device_cap_flags | DEVICE_ATOMIC_WRITE |
				  URXEDV_DEVICE_FLUSH_GLOBAL | URXEDV_DEVICE_FLUSH_PERSISTENT;
	all.packet_pacing_caps.qp_rate_limit_min = URXE_RATE_MIN;
	all.packet_pacing_caps.qp_rate_limit_max = UINT32_MAX;
	all.packet_pacing_caps.supported_qpts = 1u << IBV_QPT_RC | 1u << IBV_QPT_UC |
						1u << IBV_QPT_UD | 1u << IBV_QPT_XRC_SEND |
						1u << IBV_QPT_RAW_PACKET;
	/* Whatever a processor's page tables give, we can use: nothing is ever pinned. */
	all.odp_caps.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
	all.odp_caps.per_transport_caps.rc_odp_caps = ODP_RC;
	all.odp_caps.per_transport_caps.uc_odp_caps = ODP_UC;
	all.odp_caps.per_transport_caps.ud_odp_caps = ODP_UD;
	all.xrc_odp_caps = ODP_RC & ~(uint32_t)IBV_ODP_SUPPORT_RECV; /* XRC has SRQs alone */
	all.max_dm_size = URXE_MAX_DM;
	urxe_rss_caps(&all.rss_caps);
	all.max_wq_type_rq = URXE_MAX_WQ;
	all.cq_mod_caps.max_cq_count = UINT16_MAX;
	all.cq_mod_caps.max_cq_period = UINT16_MAX;
	all.phys_port_cnt_ex = 1;
	memcpy(attr, &all, attr_size < sizeof(all) ? attr_size : sizeof(all));
	return 0;
}

static enum ibv_mtu mtu_enum(uint32_t bytes)
{
	return bytes >= 4096   ? IBV_MTU_4096
	       : bytes >= 2048 ? IBV_MTU_2048
	       : bytes >= 1024 ? IBV_MTU_1024
	       : bytes >= 512  ? IBV_MTU_512
			       : IBV_MTU_256;
}

/* Width and speed whose product fits the link best, from below (IBTA 14.2.5.6). */
static void port_speed(uint32_t mbps, struct ibv_port_attr *attr)
{
	static const struct {
		uint32_t mbps;
		uint8_t width, speed;
	} rates[] = {
		{400000, 2, 128}, {200000, 2, 64}, {100000, 2, 32}, {56000, 2, 16},
		{50000, 1, 64},	  {40000, 2, 4},   {25000, 1, 32},  {20000, 2, 2},
		{10000, 1, 4},	  {5000, 1, 2},	   {0, 1, 1},
	};
	unsigned i = 0;

	while (mbps < rates[i].mbps)
		i++;
	attr->active_width = rates[i].width;
	attr->active_speed = rates[i].speed;
}

int urxe_query_port(struct ibv_context *ctx, uint8_t port_num, struct ibv_port_attr *attr)
{
	struct urxe_device *dev = to_urxe_dev(ctx);
	struct urxe_port_info info;
	bool active;

	if (port_num != 1)
		return urxe_ret(EINVAL);
	urxe_port_query(dev->port, &info);
	/* What newer headers have behind this field (active_speed_ex) is 0, by the library's word:
	 * a library that is older than the headers gives no room for it. */
	memset(attr, 0, offsetof(struct ibv_port_attr, port_cap_flags2));
	attr->port_cap_flags2 = 0;
	active = urxe_device_active(dev, &info);
	attr->state = active ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
	attr->max_mtu = IBV_MTU_4096;
	/* Who asks has no destination yet. What stays on the machine may be larger (gsi.h). */
	attr->active_mtu = mtu_enum(info.far_mtu ? info.far_mtu : info.path_mtu);
	attr->gid_tbl_len = URXE_PORT_MAX_GIDS;
	attr->port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS;
	attr->max_msg_sz = URXE_MAX_MSG_SZ;
	attr->bad_pkey_cntr = (uint32_t)atomic_load(&dev->stats[URXE_STAT_RX_BAD_PKEY]);
	attr->qkey_viol_cntr = (uint32_t)atomic_load(&dev->stats[URXE_STAT_RX_BAD_QKEY]);
	attr->pkey_tbl_len = 1;
	attr->max_vl_num = 1;
	attr->phys_state = active ? 5 : 3; /* LinkUp, Disabled */
	attr->link_layer = IBV_LINK_LAYER_ETHERNET;
	attr->flags = IBV_QPF_GRH_REQUIRED;
	port_speed(info.speed_mbps, attr);
	return 0;
}

static int urxe_query_rt_values(struct ibv_context *ctx, struct ibv_values_ex *values)
{
	uint64_t now = urxe_port_now(to_urxe_dev(ctx)->port);

	if (values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK) {
		/* Ticks of hca_core_clock, all in tv_nsec: programs look at nothing else. */
		values->raw_clock.tv_sec = 0;
		values->raw_clock.tv_nsec = (long)now;
	}
	values->comp_mask &= IBV_VALUES_MASK_RAW_CLOCK;
	return 0;
}
