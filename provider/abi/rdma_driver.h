/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The interface between libibverbs and its providers, as far as a provider without a kernel
 * device needs it. Distributions export the symbols (version node IBVERBS_PRIVATE_34) but ship no
 * header, so this declares the layout of our own accord.
 *
 * Valid for rdma-core 36 to 56. The node IBVERBS_PRIVATE_34 stands for v34 to v56; the op
 * query_qp_data_in_order came with v36 (node IBVERBS_1.14), and moved what stands behind it.
 * v57 and later carry other private nodes. urxe_abi_check() (abi_check.h) verifies at start-up that
 * the library found has exactly this layout.
 *
 * What a device without sysfs meets inside libibverbs (44), see provider/shim/README.md:
 * - ibv_open_device() calls alloc_context(device, -1, NULL) and leaves async_fd to the provider.
 * - verbs_uninit_context() closes cmd_fd and async_fd unless they are -1, frees ->priv, drops the
 *   reference; the provider frees its own memory after that.
 * - a verbs_device whose refcount falls to 0 is handed to ops->uninit_device: hold a reference of
 *   your own (start at 1) for a device that lives as long as the process.
 */
#ifndef URXE_RDMA_DRIVER_H
#define URXE_RDMA_DRIVER_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_verbs.h> /* IB_UVERBS_CORE_SUPPORT_* */
#include <rdma/ib_user_verbs.h>	      /* ib_uverbs_comp_event_desc, ib_uverbs_async_event_desc */

#ifdef __cplusplus
extern "C" {
#endif

/** The version node whose symbols have the layouts below. */
#define URXE_RDMA_PRIVATE_NODE "IBVERBS_PRIVATE_34"
/** The newest public node that goes with it; the first without is too old for our ops table. */
#define URXE_RDMA_PUBLIC_NODE "IBVERBS_1.14"

#define urxe_rdma_container(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

/* ---- devices ---- */

/** A kernel device as found in sysfs or over netlink: never looked into, always NULL for us. */
struct verbs_sysfs_dev;
struct verbs_match_ent;
struct verbs_device;
struct verbs_context_ops;

/** libibverbs's list node: two pointers. The library links devices of its own list only. */
struct urxe_rdma_list_node {
	struct urxe_rdma_list_node *next, *prev;
};

/** What libibverbs asks of a provider before there is a context. */
struct verbs_device_ops {
	const char *name;
	/* How kernel devices are matched: unused here. */
	uint32_t match_min_abi_version;
	uint32_t match_max_abi_version;
	const struct verbs_match_ent *match_table;
	const struct verbs_device_ops **static_providers;
	bool (*match_device)(struct verbs_sysfs_dev *sysfs_dev);

	/** Makes a context: cmd_fd is -1 and private_data NULL for us. NULL and errno on failure.
	 */
	struct verbs_context *(*alloc_context)(struct ibv_device *device, int cmd_fd,
					       void *private_data);
	struct verbs_context *(*import_context)(struct ibv_device *device, int cmd_fd);
	struct verbs_device *(*alloc_device)(struct verbs_sysfs_dev *sysfs_dev);
	/** The last reference is gone. */
	void (*uninit_device)(struct verbs_device *device);
};

/** A device. What an application holds as struct ibv_device is the head of this. */
struct verbs_device {
	struct ibv_device device;
	const struct verbs_device_ops *ops;
	atomic_int refcount;
	struct urxe_rdma_list_node entry;
	struct verbs_sysfs_dev *sysfs; /* NULL: no kernel device */
	uint64_t core_support; /* IB_UVERBS_CORE_SUPPORT_*; else optional MR flags are cut */
};

/* ---- objects with a private tail ---- */

enum verbs_xrcd_mask {
	VERBS_XRCD_HANDLE = 0x1,
};

struct verbs_xrcd {
	struct ibv_xrcd xrcd;
	uint32_t comp_mask; /* enum verbs_xrcd_mask */
	uint32_t handle;
};

struct verbs_srq {
	struct ibv_srq srq;
	enum ibv_srq_type srq_type;
	struct verbs_xrcd *xrcd;
	struct ibv_cq *cq;
	uint32_t srq_num;
};

enum verbs_qp_mask {
	VERBS_QP_XRCD = 0x1, /* xrcd is set */
	VERBS_QP_EX = 0x2,   /* qp_ex is set up: ibv_qp_to_qp_ex() gives it out */
};

struct verbs_qp {
	union {
		struct ibv_qp qp;
		struct ibv_qp_ex qp_ex;
	};
	uint32_t comp_mask; /* enum verbs_qp_mask */
	struct verbs_xrcd *xrcd;
};

struct verbs_cq {
	union {
		struct ibv_cq cq;
		struct ibv_cq_ex cq_ex;
	};
};

/** ibv_rereg_mr() takes TYPE_MR only, and ibv_dereg_mr() lifts the fork protection of that alone.
 */
enum ibv_mr_type {
	IBV_MR_TYPE_MR,
	IBV_MR_TYPE_NULL_MR,
	IBV_MR_TYPE_IMPORTED_MR,
	IBV_MR_TYPE_DMABUF_MR,
};

/** ibv_dereg_mr() and ibv_rereg_mr() read the tail: a provider fills it at registration. */
struct verbs_mr {
	struct ibv_mr ibv_mr;
	enum ibv_mr_type mr_type;
	int access;
};

struct verbs_dm {
	struct ibv_dm dm;
	uint32_t handle;
};

enum ibv_flow_action_type {
	IBV_FLOW_ACTION_UNSPECIFIED,
	IBV_FLOW_ACTION_ESP,
};

struct verbs_flow_action {
	struct ibv_flow_action action;
	uint32_t handle;
	enum ibv_flow_action_type type;
};

struct verbs_counters {
	struct ibv_counters counters;
	uint32_t handle;
};

/** GID types of ibv_query_gid_type(), an older pair than enum ibv_gid_type. */
enum ibv_gid_type_sysfs {
	IBV_GID_TYPE_SYSFS_IB_ROCE_V1,
	IBV_GID_TYPE_SYSFS_ROCE_V2,
};

/* ---- the ops of a context ---- */

/**
 * Every op a provider may offer, in the library's order (alphabetic); 76 of them. An op left
 * NULL answers EOPNOTSUPP, or NULL and errno EOPNOTSUPP.
 */
struct verbs_context_ops {
	int (*advise_mr)(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
			 struct ibv_sge *sg_list, uint32_t num_sges);
	struct ibv_dm *(*alloc_dm)(struct ibv_context *ctx, struct ibv_alloc_dm_attr *attr);
	struct ibv_mw *(*alloc_mw)(struct ibv_pd *pd, enum ibv_mw_type type);
	struct ibv_mr *(*alloc_null_mr)(struct ibv_pd *pd);
	struct ibv_pd *(*alloc_parent_domain)(struct ibv_context *ctx,
					      struct ibv_parent_domain_init_attr *attr);
	struct ibv_pd *(*alloc_pd)(struct ibv_context *ctx);
	struct ibv_td *(*alloc_td)(struct ibv_context *ctx, struct ibv_td_init_attr *init_attr);
	/** ibv_get_async_event() has read @event; the default does nothing. */
	void (*async_event)(struct ibv_context *ctx, struct ibv_async_event *event);
	int (*attach_counters_point_flow)(struct ibv_counters *counters,
					  struct ibv_counter_attach_attr *attr,
					  struct ibv_flow *flow);
	int (*attach_mcast)(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);
	int (*bind_mw)(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *mw_bind);
	int (*close_xrcd)(struct ibv_xrcd *xrcd);
	/** ibv_get_cq_event() has read an event of @cq; the default does nothing. */
	void (*cq_event)(struct ibv_cq *cq);
	struct ibv_ah *(*create_ah)(struct ibv_pd *pd, struct ibv_ah_attr *attr);
	struct ibv_counters *(*create_counters)(struct ibv_context *ctx,
						struct ibv_counters_init_attr *init_attr);
	/** The library then runs verbs_init_cq() on the result. */
	struct ibv_cq *(*create_cq)(struct ibv_context *ctx, int cqe,
				    struct ibv_comp_channel *channel, int comp_vector);
	struct ibv_cq_ex *(*create_cq_ex)(struct ibv_context *ctx,
					  struct ibv_cq_init_attr_ex *init_attr);
	struct ibv_flow *(*create_flow)(struct ibv_qp *qp, struct ibv_flow_attr *flow_attr);
	struct ibv_flow_action *(*create_flow_action_esp)(struct ibv_context *ctx,
							  struct ibv_flow_action_esp_attr *attr);
	/** The library adds nothing: the provider fills every field of struct ibv_qp. */
	struct ibv_qp *(*create_qp)(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
	struct ibv_qp *(*create_qp_ex)(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr);
	struct ibv_rwq_ind_table *(*create_rwq_ind_table)(
		struct ibv_context *ctx, struct ibv_rwq_ind_table_init_attr *init_attr);
	/** The library fills struct ibv_srq. */
	struct ibv_srq *(*create_srq)(struct ibv_pd *pd, struct ibv_srq_init_attr *init_attr);
	/** The provider fills struct ibv_srq. */
	struct ibv_srq *(*create_srq_ex)(struct ibv_context *ctx,
					 struct ibv_srq_init_attr_ex *init_attr);
	struct ibv_wq *(*create_wq)(struct ibv_context *ctx, struct ibv_wq_init_attr *init_attr);
	int (*dealloc_mw)(struct ibv_mw *mw);
	int (*dealloc_pd)(struct ibv_pd *pd);
	int (*dealloc_td)(struct ibv_td *td);
	int (*dereg_mr)(struct verbs_mr *vmr);
	int (*destroy_ah)(struct ibv_ah *ah);
	int (*destroy_counters)(struct ibv_counters *counters);
	int (*destroy_cq)(struct ibv_cq *cq);
	int (*destroy_flow)(struct ibv_flow *flow);
	int (*destroy_flow_action)(struct ibv_flow_action *action);
	int (*destroy_qp)(struct ibv_qp *qp);
	int (*destroy_rwq_ind_table)(struct ibv_rwq_ind_table *table);
	int (*destroy_srq)(struct ibv_srq *srq);
	int (*destroy_wq)(struct ibv_wq *wq);
	int (*detach_mcast)(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);
	/** ibv_close_device(): verbs_uninit_context(), then free what holds the context. */
	void (*free_context)(struct ibv_context *ctx);
	int (*free_dm)(struct ibv_dm *dm);
	int (*get_srq_num)(struct ibv_srq *srq, uint32_t *srq_num);
	struct ibv_dm *(*import_dm)(struct ibv_context *ctx, uint32_t dm_handle);
	struct ibv_mr *(*import_mr)(struct ibv_pd *pd, uint32_t mr_handle);
	struct ibv_pd *(*import_pd)(struct ibv_context *ctx, uint32_t pd_handle);
	int (*modify_cq)(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr);
	int (*modify_flow_action_esp)(struct ibv_flow_action *action,
				      struct ibv_flow_action_esp_attr *attr);
	/** The library stores attr->qp_state in qp->state afterwards when the mask names it. */
	int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask);
	int (*modify_qp_rate_limit)(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr);
	int (*modify_srq)(struct ibv_srq *srq, struct ibv_srq_attr *srq_attr, int attr_mask);
	int (*modify_wq)(struct ibv_wq *wq, struct ibv_wq_attr *wq_attr);
	struct ibv_qp *(*open_qp)(struct ibv_context *ctx, struct ibv_qp_open_attr *attr);
	struct ibv_xrcd *(*open_xrcd)(struct ibv_context *ctx,
				      struct ibv_xrcd_init_attr *init_attr);
	int (*poll_cq)(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
	int (*post_recv)(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
	int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
	int (*post_srq_ops)(struct ibv_srq *srq, struct ibv_ops_wr *op, struct ibv_ops_wr **bad_op);
	int (*post_srq_recv)(struct ibv_srq *srq, struct ibv_recv_wr *wr,
			     struct ibv_recv_wr **bad_wr);
	/** @attr_size may be that of struct ibv_device_attr alone: never write beyond it. */
	int (*query_device_ex)(struct ibv_context *ctx,
			       const struct ibv_query_device_ex_input *input,
			       struct ibv_device_attr_ex *attr, size_t attr_size);
	int (*query_ece)(struct ibv_qp *qp, struct ibv_ece *ece);
	/** @port_attr is whole and zeroed, whatever the application was compiled with. */
	int (*query_port)(struct ibv_context *ctx, uint8_t port_num,
			  struct ibv_port_attr *port_attr);
	/** The library stores attr->qp_state in qp->state afterwards when the mask names it. */
	int (*query_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
			struct ibv_qp_init_attr *init_attr);
	int (*query_qp_data_in_order)(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags);
	int (*query_rt_values)(struct ibv_context *ctx, struct ibv_values_ex *values);
	int (*query_srq)(struct ibv_srq *srq, struct ibv_srq_attr *srq_attr);
	int (*read_counters)(struct ibv_counters *counters, uint64_t *values, uint32_t ncounters,
			     uint32_t flags);
	struct ibv_mr *(*reg_dm_mr)(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t dm_offset,
				    size_t length, unsigned int access);
	struct ibv_mr *(*reg_dmabuf_mr)(struct ibv_pd *pd, uint64_t offset, size_t length,
					uint64_t iova, int fd, int access);
	struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				 int access);
	int (*req_notify_cq)(struct ibv_cq *cq, int solicited_only);
	int (*rereg_mr)(struct verbs_mr *vmr, int flags, struct ibv_pd *pd, void *addr,
			size_t length, int access);
	int (*resize_cq)(struct ibv_cq *cq, int cqe);
	int (*set_ece)(struct ibv_qp *qp, struct ibv_ece *ece);
	void (*unimport_dm)(struct ibv_dm *dm);
	void (*unimport_mr)(struct ibv_mr *mr);
	void (*unimport_pd)(struct ibv_pd *pd);
};

#define URXE_RDMA_OPS 76

/* ---- what the library exports to providers ---- */

/**
 * _verbs_init_and_alloc_context - calloc @alloc_size bytes and set up the verbs_context in them
 * @context_offset: where it lies in those bytes, as a pointer counted from NULL
 * @driver_id: RDMA_DRIVER_UNKNOWN for us
 *
 * Takes a reference of the device, sets cmd_fd, async_fd = -1, the mutex, ->priv and ops that say
 * EOPNOTSUPP. With cmd_fd -1 it tries one ioctl, which fails with EBADF and changes nothing, but
 * errno. NULL and errno ENOMEM.
 */
void *_verbs_init_and_alloc_context(struct ibv_device *device, int cmd_fd, size_t alloc_size,
				    struct verbs_context *context_offset, uint32_t driver_id);

/** Typed: a new struct *@ptr whose member @member is the verbs_context. */
#define urxe_rdma_alloc_context(device, cmd_fd, ptr, member) \
	((__typeof__(ptr))_verbs_init_and_alloc_context(     \
		(device), (cmd_fd), sizeof(*(ptr)),          \
		(struct verbs_context *)offsetof(__typeof__(*(ptr)), member), 0))

/** verbs_set_ops - take over every op that is not NULL; may be called again. */
void verbs_set_ops(struct verbs_context *ctx, const struct verbs_context_ops *ops);

/** verbs_uninit_context - undo the above: closes both fds unless -1, frees ->priv, drops the
 * device. */
void verbs_uninit_context(struct verbs_context *ctx);

/**
 * verbs_init_cq - set up a CQ's public part, and count it on its channel
 *
 * The library calls it behind create_cq and create_cq_ex; ibv_destroy_cq() takes the count back.
 */
void verbs_init_cq(struct ibv_cq *cq, struct ibv_context *ctx, struct ibv_comp_channel *channel,
		   void *cq_context);

/** verbs_open_device - ibv_open_device() with a word for alloc_context. */
struct ibv_context *verbs_open_device(struct ibv_device *device, void *private_data);

/* ---- from public to private and back ---- */

static inline struct verbs_device *urxe_rdma_device(struct ibv_device *device)
{
	return urxe_rdma_container(device, struct verbs_device, device);
}

static inline struct verbs_context *urxe_rdma_context(struct ibv_context *ctx)
{
	return urxe_rdma_container(ctx, struct verbs_context, context);
}

static inline struct verbs_mr *urxe_rdma_mr(struct ibv_mr *mr)
{
	return urxe_rdma_container(mr, struct verbs_mr, ibv_mr);
}

/* ---- layout ---- */

static_assert(sizeof(struct verbs_context_ops) == URXE_RDMA_OPS * sizeof(void *), "ops");
static_assert(offsetof(struct verbs_device, device) == 0, "an ibv_device is a verbs_device");
static_assert(offsetof(struct verbs_device, ops) == sizeof(struct ibv_device), "device ops");
static_assert(sizeof(struct verbs_device) == sizeof(struct ibv_device) + 4 * sizeof(void *) + 8 +
						     8 * (sizeof(void *) == 8),
	      "device tail");
static_assert(offsetof(struct ibv_qp_ex, qp_base) == 0, "a verbs_qp is an ibv_qp");
static_assert(offsetof(struct verbs_qp, comp_mask) == sizeof(struct ibv_qp_ex), "qp tail");
static_assert(offsetof(struct verbs_cq, cq) == 0, "a verbs_cq is an ibv_cq");
static_assert(offsetof(struct verbs_mr, mr_type) == sizeof(struct ibv_mr), "mr tail");
static_assert(offsetof(struct verbs_srq, srq_type) == sizeof(struct ibv_srq), "srq tail");
static_assert(offsetof(struct verbs_context, context) + sizeof(struct ibv_context) ==
		      sizeof(struct verbs_context),
	      "an ibv_context ends its verbs_context");
static_assert(sizeof(struct ib_uverbs_comp_event_desc) == 8, "completion event");
static_assert(sizeof(struct ib_uverbs_async_event_desc) == 16, "async event");

#ifdef __cplusplus
}
#endif

#endif
