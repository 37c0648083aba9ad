/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The calls of urxe_cm.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cm/ib/ibcm.h"
#include "netio/identity.h"
#include "provider/gsi.h"

#define AGN_PREFIX 0x0200000000000000ull

static const enum ib_cm_state states[URXE_CM_N_STATES] = {
	[URXE_CM_IDLE] = IB_CM_IDLE,
	[URXE_CM_LISTEN] = IB_CM_LISTEN,
	[URXE_CM_REQ_SENT] = IB_CM_REQ_SENT,
	[URXE_CM_REP_WAIT] = IB_CM_MRA_REQ_RCVD,
	[URXE_CM_REQ_RCVD] = IB_CM_REQ_RCVD,
	[URXE_CM_MRA_REQ_SENT] = IB_CM_MRA_REQ_SENT,
	[URXE_CM_REP_SENT] = IB_CM_REP_SENT,
	[URXE_CM_MRA_REP_RCVD] = IB_CM_MRA_REP_RCVD,
	[URXE_CM_REP_RCVD] = IB_CM_REP_RCVD,
	[URXE_CM_MRA_REP_SENT] = IB_CM_MRA_REP_SENT,
	[URXE_CM_ESTABLISHED] = IB_CM_ESTABLISHED,
	[URXE_CM_DREQ_SENT] = IB_CM_DREQ_SENT,
	[URXE_CM_DREQ_RCVD] = IB_CM_DREQ_RCVD,
	[URXE_CM_TIMEWAIT] = IB_CM_TIMEWAIT,
	[URXE_CM_SIDR_REQ_SENT] = IB_CM_SIDR_REQ_SENT,
	[URXE_CM_SIDR_REQ_RCVD] = IB_CM_SIDR_REQ_RCVD,
};

static enum ib_cm_lap_state lap_state(const struct urxe_ibcm_id *id)
{
	switch (urxe_cm_get_lap_state(id->cm)) {
	case URXE_CM_LAP_SENT:
		return IB_CM_LAP_SENT;
	case URXE_CM_LAP_RCVD:
		return IB_CM_LAP_RCVD;
	case URXE_CM_MRA_LAP_SENT:
		return IB_CM_MRA_LAP_SENT;
	case URXE_CM_MRA_LAP_RCVD:
		return IB_CM_MRA_LAP_RCVD;
	default:
		return id->id.lap_state == IB_CM_LAP_UNINIT ? IB_CM_LAP_UNINIT : IB_CM_LAP_IDLE;
	}
}

void urxe_ibcm_publish(struct urxe_ibcm_id *id)
{
	if (!id->cm)
		return;
	id->id.state = states[urxe_cm_get_state(id->cm)];
	id->id.lap_state = lap_state(id);
	id->id.local_id = htobe32(urxe_cm_local_comm_id(id->cm));
	id->id.remote_id = htobe32(urxe_cm_remote_comm_id(id->cm));
}

/* Around each call: lock, and what the consumer sees. */
static int begin(struct ib_cm_id *cm_id) URXE_TRY_ACQUIRE(0, urxe_cma_lock)
{
	int err = cm_id ? urxe_cma_enter() : EINVAL;

	if (err || to_ibcm(cm_id)->life == urxe_cma_life())
		return err;
	urxe_cma_leave();
	return EIO;
}

static int end(struct ib_cm_id *cm_id, int err) URXE_RELEASE(urxe_cma_lock)
{
	struct urxe_ibcm_id *id = to_ibcm(cm_id);

	urxe_ibcm_publish(id);
	urxe_cma_leave();
	return -err;
}

#define CALL(cm_id, expr)                                \
	do {                                             \
		int err_ = begin(cm_id);                 \
		struct urxe_cm_id *cm;                   \
                                                         \
		if (err_)                                \
			return -err_;                    \
		cm = to_ibcm(cm_id)->cm;                 \
		return end(cm_id, cm ? (expr) : EINVAL); \
	} while (0)

static int create(struct urxe_ibcm_id *id) URXE_REQUIRES(urxe_cma_lock)
{
	struct urxe_agent *agent;
	int err = 0;

	id->life = urxe_cma_life();
	id->dev = urxe_cma_device_of(id->id.device, &err);
	/* Of a parent process: the device is there, but not by this context. */
	if (!err && urxe_gsi_lost(id->id.device))
		err = EIO;
	if (!err)
		err = urxe_agent_get(id->dev, &agent);
	if (!err)
		err = urxe_ibcm_start();
	if (err)
		return err;
	id->cm = urxe_cm_new_id(urxe_agent_cm(agent), urxe_ibcm_handler, id);
	if (!id->cm)
		return ENOMEM;
	urxe_ibcm_publish(id);
	return 0;
}

struct ib_cm_id *ib_create_cm_id(struct ibv_context *device, ib_cm_handler cm_handler,
				 void *context)
{
	struct urxe_ibcm_id *id = device && cm_handler ? urxe_ibcm_id_new() : NULL;
	int err;

	if (!id) {
		errno = device && cm_handler ? ENOMEM : EINVAL;
		return NULL;
	}
	id->id.cm_handler = cm_handler;
	id->id.context = context;
	id->id.device = device;
	id->id.remote_cm_qpn = 1;
	err = urxe_cma_enter();
	if (!err) {
		err = create(id);
		urxe_cma_leave();
	}
	if (err) {
		urxe_ibcm_id_free(id);
		errno = err;
		return NULL;
	}
	return &id->id;
}

/* With a listening id go the requests that wait for its callback. */
void urxe_ibcm_end(struct urxe_ibcm_id *id)
{
	struct urxe_ibcm_id *child = urxe_ibcm_children(id), *next;

	id->gone = true;
	urxe_cm_destroy(id->cm);
	id->cm = NULL;
	urxe_ident_service_release(urxe_gsi_ident(id->dev->verbs), id->claim);
	id->claim = NULL;
	for (struct urxe_ibcm_id *c = child; c; c = c->next_gone) {
		c->gone = true;
		urxe_cm_destroy(c->cm);
	}
	urxe_ibcm_purge();
	for (; child; child = next) {
		next = child->next_gone;
		urxe_ibcm_id_free(child);
	}
}

void ib_destroy_cm_id(struct ib_cm_id *cm_id)
{
	struct urxe_ibcm_id *id;
	bool mine;

	/* After the CM's end nobody calls back, and it is not known what was in use then. A parent
	 * process's stays, in its child's memory, too. */
	if (begin(cm_id))
		return;
	id = to_ibcm(cm_id);
	urxe_ibcm_end(id);
	mine = urxe_ibcm_wait(id);
	urxe_cma_leave();
	if (mine)
		urxe_ibcm_id_free(id);
}

/* Of another process that has our addresses as well as of this one. */
static int listen_to(struct urxe_ibcm_id *id, uint64_t service_id, uint64_t mask)
	URXE_REQUIRES(urxe_cma_lock)
{
	struct urxe_ident *ident = urxe_gsi_ident(id->dev->verbs);
	void *claim;
	int err = urxe_ident_service_listen(ident, service_id, mask, &claim);

	if (err)
		return err;
	err = urxe_cm_listen(id->cm, service_id, mask);
	if (err)
		urxe_ident_service_release(ident, claim);
	else
		id->claim = claim;
	return err;
}

static int start_listening(struct urxe_ibcm_id *id, uint64_t service_id, uint64_t mask)
	URXE_REQUIRES(urxe_cma_lock)
{
	int err;

	if (service_id != be64toh(IB_CM_ASSIGN_SERVICE_ID)) {
		/* The rest of that range is for us to assign. */
		if ((service_id & be64toh(IB_SERVICE_ID_AGN_MASK)) == AGN_PREFIX)
			return EINVAL;
		err = listen_to(id, service_id, mask ? mask : UINT64_MAX);
	} else {
		mask = UINT64_MAX;
		do {
			service_id = AGN_PREFIX | urxe_gsi_random(id->dev->verbs) >> 8;
			err = listen_to(id, service_id, mask);
		} while (err == EADDRINUSE);
	}
	if (err)
		return err == EADDRINUSE ? EBUSY : err;
	id->id.service_id = htobe64(service_id);
	id->id.service_mask = htobe64(mask ? mask : UINT64_MAX);
	urxe_cma_say_ready();
	return 0;
}

int ib_cm_listen(struct ib_cm_id *cm_id, __be64 service_id, __be64 service_mask)
{
	CALL(cm_id, start_listening(to_ibcm(cm_id), be64toh(service_id), be64toh(service_mask)));
}

/* A path that begins here. */
static int read_path(const struct urxe_ibcm_id *id, const struct ibv_sa_path_rec *rec,
		     struct urxe_cm_path *p) URXE_REQUIRES(urxe_cma_lock)
{
	int own = urxe_agent_own_gid(id->dev, &rec->sgid);

	if (own < 0 || rec->mtu > IBV_MTU_4096 || rec->packet_life_time > 63)
		return EINVAL;
	*p = (struct urxe_cm_path){
		.sgid = rec->sgid,
		.dgid = rec->dgid,
		.sgid_index = (uint8_t)own,
		.port_num = 1,
		.flow_label = be32toh(rec->flow_label) & 0xfffff,
		.traffic_class = rec->traffic_class,
		.hop_limit = rec->hop_limit ? rec->hop_limit : 64,
		.sl = rec->sl & 0xf,
		.pkey = rec->pkey ? be16toh(rec->pkey) : 0xffff,
		.mtu = rec->mtu,
		/* A round trip takes twice as long as a packet lives (12.7.34). */
		.ack_timeout = rec->packet_life_time > 30 ? 31 : rec->packet_life_time + 1u,
	};
	if (!rec->packet_life_time)
		p->ack_timeout = URXE_CM_ACK_TIMEOUT;
	if (!p->mtu)
		p->mtu = urxe_gsi_path_mtu(id->dev->verbs, p->sgid_index, &p->dgid);
	return 0;
}

/* What REQ and REP have in common. */
#define CONN(p)                                                                                   \
	.qpn = (p)->qp_num, .psn = (p)->starting_psn & 0xffffff,                                  \
	.responder_resources = (p)->responder_resources, .initiator_depth = (p)->initiator_depth, \
	.rnr_retry_count = (p)->rnr_retry_count, .flow_control = (p)->flow_control,               \
	.srq = (p)->srq, .ece = {(p)->ece.vendor_id, (p)->ece.options},                           \
	.private_data = (p)->private_data, .private_len = (p)->private_data_len

static int send_req(struct urxe_ibcm_id *id, const struct ib_cm_req_param *p)
	URXE_REQUIRES(urxe_cma_lock)
{
	struct urxe_cm_path alternate;
	struct urxe_cm_req req = {
		.service_id = be64toh(p->service_id),
		.qp_type = p->qp_type,
		.conn = {CONN(p), .retry_count = p->retry_count},
		.alternate = p->alternate_path ? &alternate : NULL,
		.peer_to_peer = p->peer_to_peer,
		.local_timeout = p->local_cm_response_timeout,
		.remote_timeout = p->remote_cm_response_timeout,
	};
	int err = p->primary_path ? read_path(id, p->primary_path, &req.path) : EINVAL;

	if (!err && p->alternate_path)
		err = read_path(id, p->alternate_path, &alternate);
	if (err || p->qp_num > 0xffffff || p->local_cm_response_timeout > 31 ||
	    p->remote_cm_response_timeout > 31 || p->max_cm_retries > 15)
		return EINVAL;
	if (p->remote_cm_response_timeout) {
		/* The answer also travels both ways. */
		req.wait_ms = (uint32_t)(((4096ull << p->remote_cm_response_timeout) +
					  (4096ull << req.path.ack_timeout)) /
					 1000000) +
			      1;
		req.tries = p->max_cm_retries + 1u;
	}
	err = urxe_cm_send_req(id->cm, &req);
	if (!err && p->primary_path->packet_life_time)
		urxe_cm_set_ack_timeout(id->cm, req.path.ack_timeout);
	if (!err)
		id->id.service_id = p->service_id;
	return err;
}

int ib_send_cm_req(struct ib_cm_id *cm_id, struct ib_cm_req_param *param)
{
	CALL(cm_id, param ? send_req(to_ibcm(cm_id), param) : EINVAL);
}

static int send_rep(struct urxe_cm_id *cm, const struct ib_cm_rep_param *p)
{
	struct urxe_cm_conn c = {CONN(p), .failover = p->failover_accepted};

	return p->qp_num > 0xffffff ? EINVAL : urxe_cm_send_rep(cm, &c);
}

int ib_send_cm_rep(struct ib_cm_id *cm_id, struct ib_cm_rep_param *param)
{
	CALL(cm_id, param ? send_rep(cm, param) : EINVAL);
}

int ib_send_cm_rtu(struct ib_cm_id *cm_id, const void *private_data, uint8_t private_data_len)
{
	CALL(cm_id, urxe_cm_send_rtu(cm, private_data, private_data_len));
}

int ib_send_cm_dreq(struct ib_cm_id *cm_id, const void *private_data, uint8_t private_data_len)
{
	CALL(cm_id, urxe_cm_send_dreq(cm, private_data, private_data_len));
}

int ib_send_cm_drep(struct ib_cm_id *cm_id, const void *private_data, uint8_t private_data_len)
{
	CALL(cm_id, urxe_cm_send_drep(cm, private_data, private_data_len));
}

int ib_cm_notify(struct ib_cm_id *cm_id, enum ibv_event_type event)
{
	CALL(cm_id, event == IBV_EVENT_COMM_EST	  ? urxe_cm_notify_established(cm)
		    : event == IBV_EVENT_PATH_MIG ? urxe_cm_notify_migrated(cm)
						  : EINVAL);
}

int ib_send_cm_rej(struct ib_cm_id *cm_id, enum ib_cm_rej_reason reason, void *ari,
		   uint8_t ari_length, const void *private_data, uint8_t private_data_len)
{
	CALL(cm_id, urxe_cm_send_rej(cm, (uint16_t)reason, ari, ari_length, private_data,
				     private_data_len));
}

/* The CM itself sends an MRA when the message comes again. */
static int may_delay_mra(const struct urxe_cm_id *cm)
{
	switch (urxe_cm_get_state(cm)) {
	case URXE_CM_REQ_RCVD:
	case URXE_CM_REP_RCVD:
		return 0;
	case URXE_CM_ESTABLISHED:
		return urxe_cm_get_lap_state(cm) == URXE_CM_LAP_RCVD ? 0 : EINVAL;
	default:
		return EINVAL;
	}
}

int ib_send_cm_mra(struct ib_cm_id *cm_id, uint8_t service_timeout, const void *private_data,
		   uint8_t private_data_len)
{
	uint8_t timeout = service_timeout & (uint8_t)~IB_CM_MRA_FLAG_DELAY;

	CALL(cm_id, service_timeout & IB_CM_MRA_FLAG_DELAY
			    ? may_delay_mra(cm)
			    : urxe_cm_send_mra(cm, timeout, private_data, private_data_len));
}

int ib_cm_init_qp_attr(struct ib_cm_id *cm_id, struct ibv_qp_attr *qp_attr, int *qp_attr_mask)
{
	CALL(cm_id,
	     qp_attr && qp_attr_mask ? urxe_cm_init_qp_attr(cm, qp_attr, qp_attr_mask) : EINVAL);
}

static int send_lap(struct urxe_ibcm_id *id, const struct ibv_sa_path_rec *rec, const void *data,
		    uint8_t len) URXE_REQUIRES(urxe_cma_lock)
{
	struct urxe_cm_path path;
	int err = read_path(id, rec, &path);

	return err ? err : urxe_cm_send_lap(id->cm, &path, data, len);
}

int ib_send_cm_lap(struct ib_cm_id *cm_id, struct ibv_sa_path_rec *alternate_path,
		   const void *private_data, uint8_t private_data_len)
{
	CALL(cm_id, alternate_path ? send_lap(to_ibcm(cm_id), alternate_path, private_data,
					      private_data_len)
				   : EINVAL);
}

int ib_send_cm_apr(struct ib_cm_id *cm_id, enum ib_cm_apr_status status, void *info,
		   uint8_t info_length, const void *private_data, uint8_t private_data_len)
{
	CALL(cm_id, urxe_cm_send_apr(cm, (uint8_t)status, info, info_length, private_data,
				     private_data_len));
}

static int send_sidr_req(struct urxe_ibcm_id *id, const struct ib_cm_sidr_req_param *p)
	URXE_REQUIRES(urxe_cma_lock)
{
	struct urxe_cm_path path;
	int err = p->path ? read_path(id, p->path, &path) : EINVAL;

	if (err || p->timeout_ms > UINT32_MAX || p->max_cm_retries > 15)
		return EINVAL;
	if (urxe_cm_get_state(id->cm) == URXE_CM_IDLE)
		urxe_cm_set_wait(id->cm, (uint32_t)p->timeout_ms,
				 p->timeout_ms ? p->max_cm_retries + 1u : 0);
	err = urxe_cm_send_sidr_req(id->cm, &path, be64toh(p->service_id), p->private_data,
				    p->private_data_len);
	if (!err)
		id->id.service_id = p->service_id;
	return err;
}

int ib_send_cm_sidr_req(struct ib_cm_id *cm_id, struct ib_cm_sidr_req_param *param)
{
	CALL(cm_id, param ? send_sidr_req(to_ibcm(cm_id), param) : EINVAL);
}

static int send_sidr_rep(struct urxe_cm_id *cm, const struct ib_cm_sidr_rep_param *p)
{
	const struct urxe_cm_sidr_more more = {
		.info = p->info,
		.info_len = p->info_length,
		.ece = {p->ece.vendor_id, p->ece.options},
	};

	return urxe_cm_send_sidr_rep_more(cm, (enum urxe_cm_sidr_status)p->status, p->qp_num,
					  p->qkey, &more, p->private_data, p->private_data_len);
}

int ib_send_cm_sidr_rep(struct ib_cm_id *cm_id, struct ib_cm_sidr_rep_param *param)
{
	CALL(cm_id, param ? send_sidr_rep(cm, param) : EINVAL);
}
