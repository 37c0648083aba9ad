/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The IB communication manager (IBTA ch. 12) for programs: ib_cm as the Linux kernel's consumers
 * know it, with an ibv_context where those have an ib_device and an ibv_sa_path_rec for a path.
 * Link with `pkg-config urxe-cm`: the calls are in urxe's librdmacm.so.1, under the version node
 * URXE_CM_1.0, so that rdma_cm and ib_cm share one CM, its QP1 and its comm ids on each device.
 * The device must be one of urxe's (urxe run, or urxedv.h).
 *
 * Returns: 0 or a negative errno, as this interface has it everywhere; ib_create_cm_id() NULL and
 * errno. Besides what a call names: -EINVAL in a state that does not allow it, for private data or
 * information longer than its field, and for NULL where something is needed; nothing has changed
 * then. -EIO in a forked child for an id or a context of its parent's, if the CM had started: it
 * opens the device again. -ENODEV while the process ends.
 *
 * Callbacks run one after another on a thread of the library's, with no lock held: they may call
 * everything here, and verbs, and may block, which holds up the callbacks of other ids. All calls
 * are thread-safe; the caller of ib_destroy_cm_id() must be the last to use the id.
 *
 * Numbers are in host order, but for those of type __be16, __be32, __be64.
 */
#ifndef URXE_CM_H
#define URXE_CM_H

#include <endian.h>
#include <stdint.h>

#include <infiniband/sa.h>
#include <infiniband/verbs.h>

#ifdef __cplusplus
extern "C" {
#endif

/** IBTA 12.9.7, 12.11; MRA_REQ_RCVD is what figure 132 calls REP Wait. */
enum ib_cm_state {
	IB_CM_IDLE,
	IB_CM_LISTEN,
	IB_CM_REQ_SENT,
	IB_CM_REQ_RCVD,
	IB_CM_MRA_REQ_SENT,
	IB_CM_MRA_REQ_RCVD,
	IB_CM_REP_SENT,
	IB_CM_REP_RCVD,
	IB_CM_MRA_REP_SENT,
	IB_CM_MRA_REP_RCVD,
	IB_CM_ESTABLISHED,
	IB_CM_DREQ_SENT,
	IB_CM_DREQ_RCVD,
	IB_CM_TIMEWAIT,
	IB_CM_SIDR_REQ_SENT,
	IB_CM_SIDR_REQ_RCVD,
};

/** Within IB_CM_ESTABLISHED, 12.8.2; UNINIT until the first LAP. */
enum ib_cm_lap_state {
	IB_CM_LAP_UNINIT,
	IB_CM_LAP_IDLE,
	IB_CM_LAP_SENT,
	IB_CM_LAP_RCVD,
	IB_CM_MRA_LAP_SENT,
	IB_CM_MRA_LAP_RCVD,
};

/**
 * The events of a callback. The *_ERROR ones: all tries of that message went unanswered.
 * DREQ_ERROR comes also when an established connection's peer has fallen silent (see urxe-cm(7)).
 */
enum ib_cm_event_type {
	IB_CM_REQ_ERROR,
	IB_CM_REQ_RECEIVED,
	IB_CM_REP_ERROR,
	IB_CM_REP_RECEIVED,
	IB_CM_RTU_RECEIVED,
	IB_CM_USER_ESTABLISHED,
	IB_CM_DREQ_ERROR,
	IB_CM_DREQ_RECEIVED,
	IB_CM_DREP_RECEIVED,
	IB_CM_TIMEWAIT_EXIT,
	IB_CM_MRA_RECEIVED,
	IB_CM_REJ_RECEIVED,
	IB_CM_LAP_ERROR,
	IB_CM_LAP_RECEIVED,
	IB_CM_APR_RECEIVED,
	IB_CM_SIDR_REQ_ERROR,
	IB_CM_SIDR_REQ_RECEIVED,
	IB_CM_SIDR_REP_RECEIVED,
};

/** Bytes that a message has for its consumer. */
enum ib_cm_data_size {
	IB_CM_REQ_PRIVATE_DATA_SIZE = 92,
	IB_CM_MRA_PRIVATE_DATA_SIZE = 222,
	IB_CM_REJ_PRIVATE_DATA_SIZE = 148,
	IB_CM_REP_PRIVATE_DATA_SIZE = 196,
	IB_CM_RTU_PRIVATE_DATA_SIZE = 224,
	IB_CM_DREQ_PRIVATE_DATA_SIZE = 220,
	IB_CM_DREP_PRIVATE_DATA_SIZE = 224,
	IB_CM_REJ_ARI_LENGTH = 72,
	IB_CM_LAP_PRIVATE_DATA_SIZE = 168,
	IB_CM_APR_PRIVATE_DATA_SIZE = 148,
	IB_CM_APR_INFO_LENGTH = 72,
	IB_CM_SIDR_REQ_PRIVATE_DATA_SIZE = 216,
	IB_CM_SIDR_REP_PRIVATE_DATA_SIZE = 136,
	IB_CM_SIDR_REP_INFO_LENGTH = 72,
};

/** Table 109. */
enum ib_cm_rej_reason {
	IB_CM_REJ_NO_QP = 1,
	IB_CM_REJ_NO_EEC = 2,
	IB_CM_REJ_NO_RESOURCES = 3,
	IB_CM_REJ_TIMEOUT = 4,
	IB_CM_REJ_UNSUPPORTED = 5,
	IB_CM_REJ_INVALID_COMM_ID = 6,
	IB_CM_REJ_INVALID_COMM_INSTANCE = 7,
	IB_CM_REJ_INVALID_SERVICE_ID = 8,
	IB_CM_REJ_INVALID_TRANSPORT_TYPE = 9,
	IB_CM_REJ_STALE_CONN = 10,
	IB_CM_REJ_RDC_NOT_EXIST = 11,
	IB_CM_REJ_INVALID_GID = 12,
	IB_CM_REJ_INVALID_LID = 13,
	IB_CM_REJ_INVALID_SL = 14,
	IB_CM_REJ_INVALID_TRAFFIC_CLASS = 15,
	IB_CM_REJ_INVALID_HOP_LIMIT = 16,
	IB_CM_REJ_INVALID_PACKET_RATE = 17,
	IB_CM_REJ_INVALID_ALT_GID = 18,
	IB_CM_REJ_INVALID_ALT_LID = 19,
	IB_CM_REJ_INVALID_ALT_SL = 20,
	IB_CM_REJ_INVALID_ALT_TRAFFIC_CLASS = 21,
	IB_CM_REJ_INVALID_ALT_HOP_LIMIT = 22,
	IB_CM_REJ_INVALID_ALT_PACKET_RATE = 23,
	IB_CM_REJ_PORT_CM_REDIRECT = 24,
	IB_CM_REJ_PORT_REDIRECT = 25,
	IB_CM_REJ_INVALID_MTU = 26,
	IB_CM_REJ_INSUFFICIENT_RESP_RESOURCES = 27,
	IB_CM_REJ_CONSUMER_DEFINED = 28,
	IB_CM_REJ_INVALID_RNR_RETRY = 29,
	IB_CM_REJ_DUPLICATE_LOCAL_COMM_ID = 30,
	IB_CM_REJ_INVALID_CLASS_VERSION = 31,
	IB_CM_REJ_INVALID_FLOW_LABEL = 32,
	IB_CM_REJ_INVALID_ALT_FLOW_LABEL = 33,
	IB_CM_REJ_VENDOR_OPTION_NOT_SUPPORTED = 35,
};

/** Table 117. */
enum ib_cm_apr_status {
	IB_CM_APR_SUCCESS,
	IB_CM_APR_INVALID_COMM_ID,
	IB_CM_APR_UNSUPPORTED,
	IB_CM_APR_REJECT,
	IB_CM_APR_REDIRECT,
	IB_CM_APR_IS_CURRENT,
	IB_CM_APR_INVALID_QPN_EECN,
	IB_CM_APR_INVALID_LID,
	IB_CM_APR_INVALID_GID,
	IB_CM_APR_INVALID_FLOW_LABEL,
	IB_CM_APR_INVALID_TCLASS,
	IB_CM_APR_INVALID_HOP_LIMIT,
	IB_CM_APR_INVALID_PACKET_RATE,
	IB_CM_APR_INVALID_SL,
};

/** Table 121. */
enum ib_cm_sidr_status {
	IB_SIDR_SUCCESS,
	IB_SIDR_UNSUPPORTED,
	IB_SIDR_REJECT,
	IB_SIDR_NO_QP,
	IB_SIDR_REDIRECT,
	IB_SIDR_UNSUPPORTED_VERSION,
};

struct ib_cm_id;

/** Paths are ours to the peer; resources and depth are what we can use, whatever the peer called
 * it. */
struct ib_cm_req_event_param {
	struct ib_cm_id *listen_id; /* NULL: the REQ of a peer that we asked as well */
	uint16_t bth_pkey;
	uint8_t port;
	struct ibv_sa_path_rec *primary_path;
	struct ibv_sa_path_rec *alternate_path; /* NULL: none */
	__be64 remote_ca_guid;
	uint32_t remote_qkey;
	uint32_t remote_qpn;
	enum ibv_qp_type qp_type;
	uint32_t starting_psn;
	uint8_t responder_resources;
	uint8_t initiator_depth;
	uint8_t local_cm_response_timeout;
	uint8_t flow_control;
	uint8_t remote_cm_response_timeout;
	uint8_t retry_count;
	uint8_t rnr_retry_count;
	uint8_t srq;
	struct ibv_ece ece;
};

struct ib_cm_rep_event_param {
	__be64 remote_ca_guid;
	uint32_t remote_qkey;
	uint32_t remote_qpn;
	uint32_t starting_psn;
	uint8_t responder_resources;
	uint8_t initiator_depth;
	uint8_t target_ack_delay;
	uint8_t failover_accepted;
	uint8_t flow_control;
	uint8_t rnr_retry_count;
	uint8_t srq;
	struct ibv_ece ece;
};

struct ib_cm_rej_event_param {
	enum ib_cm_rej_reason reason;
	void *ari;
	uint8_t ari_length;
};

struct ib_cm_mra_event_param {
	uint8_t service_timeout; /* 4.096 us * 2^n */
};

struct ib_cm_lap_event_param {
	struct ibv_sa_path_rec *alternate_path;
};

struct ib_cm_apr_event_param {
	enum ib_cm_apr_status ap_status;
	void *apr_info;
	uint8_t info_len;
};

struct ib_cm_sidr_req_event_param {
	struct ib_cm_id *listen_id;
	__be64 service_id;
	uint16_t bth_pkey;
	uint8_t port;
	uint16_t pkey;
};

struct ib_cm_sidr_rep_event_param {
	enum ib_cm_sidr_status status;
	uint32_t qkey;
	uint32_t qpn;
	void *info;
	uint8_t info_len;
	struct ibv_ece ece; /* the kernel's has none */
};

/** Gone when the callback returns, with all it points to. */
struct ib_cm_event {
	enum ib_cm_event_type event;
	union {
		struct ib_cm_req_event_param req_rcvd;
		struct ib_cm_rep_event_param rep_rcvd;
		struct ib_cm_rej_event_param rej_rcvd;
		struct ib_cm_mra_event_param mra_rcvd;
		struct ib_cm_lap_event_param lap_rcvd;
		struct ib_cm_apr_event_param apr_rcvd;
		struct ib_cm_sidr_req_event_param sidr_req_rcvd;
		struct ib_cm_sidr_rep_event_param sidr_rep_rcvd;
		enum ibv_wc_status send_status; /* of the *_ERROR events */
	} param;
	void *private_data;	  /* NULL when no message came */
	uint8_t private_data_len; /* the whole field: what the peer filled is not on the wire */
};

/**
 * ib_cm_handler - a consumer's callback
 *
 * REQ_RECEIVED and SIDR_REQ_RECEIVED for a listening id come with a new id, which has the
 * listener's handler and context, and is the consumer's to destroy. A return other than 0 destroys
 * the id (a REQ is rejected, a connection is ended); so does ib_destroy_cm_id() in the id's own
 * callback, when that returns.
 */
typedef int (*ib_cm_handler)(struct ib_cm_id *cm_id, const struct ib_cm_event *event);

/** Made by ib_create_cm_id(). The consumer may change handler and context; the rest is to look at,
 *  and as it was at the last call or callback.
 */
struct ib_cm_id {
	ib_cm_handler cm_handler;
	void *context;
	struct ibv_context *device;
	__be64 service_id;
	__be64 service_mask;
	enum ib_cm_state state;
	enum ib_cm_lap_state lap_state;
	__be32 local_id;
	__be32 remote_id;
	uint32_t remote_cm_qpn; /* 1 */
};

#define IB_SERVICE_ID_AGN_MASK	htobe64(0xff00000000000000ull)
#define IB_CM_ASSIGN_SERVICE_ID htobe64(0x0200000000000000ull)
#define IB_CMA_SERVICE_ID	htobe64(0x0000000001000000ull)
#define IB_CMA_SERVICE_ID_MASK	htobe64(0xffffffffff000000ull)

struct ib_cm_req_param {
	struct ibv_sa_path_rec *primary_path;
	struct ibv_sa_path_rec *alternate_path; /* NULL: none */
	__be64 service_id;
	uint32_t qp_num;
	enum ibv_qp_type qp_type; /* RC or UC */
	uint32_t starting_psn;	  /* where we begin to receive */
	const void *private_data;
	uint8_t private_data_len;
	/* The peer sends us a REQ for the same service: one of both wins (12.10.4). */
	uint8_t peer_to_peer;
	uint8_t responder_resources;
	uint8_t initiator_depth;
	/* 4.096 us * 2^n; 0: 20, and our own back-off (urxe-cm(7)), a few seconds in all. */
	uint8_t remote_cm_response_timeout;
	uint8_t flow_control;
	uint8_t local_cm_response_timeout;
	uint8_t retry_count;
	uint8_t rnr_retry_count;
	uint8_t max_cm_retries; /* used with remote_cm_response_timeout */
	uint8_t srq;
	struct ibv_ece ece;
};

struct ib_cm_rep_param {
	uint32_t qp_num;
	uint32_t starting_psn;
	const void *private_data;
	uint8_t private_data_len;
	uint8_t responder_resources;
	uint8_t initiator_depth;
	uint8_t failover_accepted; /* 0: yes, 1: not supported, 2: no */
	uint8_t flow_control;
	uint8_t rnr_retry_count;
	uint8_t srq;
	struct ibv_ece ece;
};

struct ib_cm_sidr_req_param {
	struct ibv_sa_path_rec *path;
	__be64 service_id;
	unsigned long timeout_ms; /* for each try; 0: our own */
	const void *private_data;
	uint8_t private_data_len;
	uint8_t max_cm_retries; /* used with timeout_ms */
};

struct ib_cm_sidr_rep_param {
	uint32_t qp_num;
	uint32_t qkey;
	enum ib_cm_sidr_status status;
	const void *info;
	uint8_t info_length;
	const void *private_data;
	uint8_t private_data_len;
	struct ibv_ece ece;
};

#pragma GCC visibility push(default)

/**
 * ib_create_cm_id - a communication identifier: to connect, to listen, to resolve a service id
 * @device: an open urxe device; it must stay open as long as the id lives
 *
 * NULL and errno: EINVAL, ENODEV (no urxe device), ENOMEM, or why the CM cannot be started.
 */
struct ib_cm_id *ib_create_cm_id(struct ibv_context *device, ib_cm_handler cm_handler,
				 void *context);

/**
 * ib_destroy_cm_id - destroy it; no callback of it runs any more when this returns
 *
 * Waits for one that runs. The peer gets a REJ if it is not connected yet, else a DREQ. Requests
 * that wait for the callback of a listening id are rejected.
 */
void ib_destroy_cm_id(struct ib_cm_id *cm_id);

/**
 * ib_cm_listen - have REQs and SIDR_REQs for a service come to this id
 * @service_id: IB_CM_ASSIGN_SERVICE_ID has one assigned, found in cm_id->service_id
 * @service_mask: which bits of it count; 0: all
 *
 * -EBUSY: another id listens there.
 */
int ib_cm_listen(struct ib_cm_id *cm_id, __be64 service_id, __be64 service_mask);

/** ib_send_cm_req - ask for a connection. -EINVAL also for paths that do not begin here. -ENOMEM.
 */
int ib_send_cm_req(struct ib_cm_id *cm_id, struct ib_cm_req_param *param);
/** ib_send_cm_rep - accept; have the QP in RTR by then. */
int ib_send_cm_rep(struct ib_cm_id *cm_id, struct ib_cm_rep_param *param);
/** ib_send_cm_rtu - confirm; have the QP in RTS by then. */
int ib_send_cm_rtu(struct ib_cm_id *cm_id, const void *private_data, uint8_t private_data_len);
/** ib_send_cm_dreq - disconnect; have the QP in error by then, or not use it any more. */
int ib_send_cm_dreq(struct ib_cm_id *cm_id, const void *private_data, uint8_t private_data_len);
/** ib_send_cm_drep - answer to IB_CM_DREQ_RECEIVED. */
int ib_send_cm_drep(struct ib_cm_id *cm_id, const void *private_data, uint8_t private_data_len);

/**
 * ib_cm_notify - pass an event of the QP's to the CM
 * @event: IBV_EVENT_COMM_EST: data came before RTU (-EISCONN when connected already);
 * IBV_EVENT_PATH_MIG: the QP uses its alternate path, MADs go that way now
 */
int ib_cm_notify(struct ib_cm_id *cm_id, enum ibv_event_type event);

/** ib_send_cm_rej - reject; @reason and additional information by table 109. */
int ib_send_cm_rej(struct ib_cm_id *cm_id, enum ib_cm_rej_reason reason, void *ari,
		   uint8_t ari_length, const void *private_data, uint8_t private_data_len);

/* In service_timeout: no MRA now, only when the message comes again (which it does by itself). */
#define IB_CM_MRA_FLAG_DELAY 0x80

/** ib_send_cm_mra - ask the peer for 4.096 us * 2^service_timeout to answer REQ, REP or LAP. */
int ib_send_cm_mra(struct ib_cm_id *cm_id, uint8_t service_timeout, const void *private_data,
		   uint8_t private_data_len);

/**
 * ib_cm_init_qp_attr - attributes that bring a QP to qp_attr->qp_state: INIT, RTR, RTS
 *
 * The accepting side brings its QP to RTR before its REP has fixed these: it sets rq_psn itself,
 * and the depths if they are to be other than the REQ's. With an alternate path in the REQ, the
 * attributes for RTR have it; after a LAP, those for RTS have it alone, for a QP in RTS. Load it
 * before you answer the LAP, and when the APR's status is success.
 */
int ib_cm_init_qp_attr(struct ib_cm_id *cm_id, struct ibv_qp_attr *qp_attr, int *qp_attr_mask);

/** ib_send_cm_lap - propose another alternate path; APR_RECEIVED or LAP_ERROR follow. -ENOMEM. */
int ib_send_cm_lap(struct ib_cm_id *cm_id, struct ibv_sa_path_rec *alternate_path,
		   const void *private_data, uint8_t private_data_len);
/** ib_send_cm_apr - answer a LAP. */
int ib_send_cm_apr(struct ib_cm_id *cm_id, enum ib_cm_apr_status status, void *info,
		   uint8_t info_length, const void *private_data, uint8_t private_data_len);

/** ib_send_cm_sidr_req - ask for the QP of a service. */
int ib_send_cm_sidr_req(struct ib_cm_id *cm_id, struct ib_cm_sidr_req_param *param);
/** ib_send_cm_sidr_rep - answer; the id is in IDLE then. */
int ib_send_cm_sidr_rep(struct ib_cm_id *cm_id, struct ib_cm_sidr_rep_param *param);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
