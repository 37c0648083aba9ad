/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Connections of rdma_cm: calls become those of the IB CM, and its events those of rdma_cm. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cm/rdma/cma.h"
#include "provider/gsi.h"
#include "urxe/log.h"

#define LET_OUT_NS    10000000 /* some way to a peer is made in a hundredth of that */
#define LET_OUT_TURNS 100

#define RNR_FOR_EVER	  7  /* retries (IBTA 9.7.5.2.8) */
#define RNR_TIMER_LONGEST 0  /* 655.36 ms */
#define RNR_TIMER_SHORT	  16 /* 2.56 ms */

void urxe_cma_path(const struct urxe_cma_id *id, struct urxe_cm_path *path)
{
	*path = (struct urxe_cm_path){
		.sgid = id->sgid,
		.dgid = id->dgid,
		.sgid_index = id->sgid_index,
		.port_num = 1,
		.flow_label = urxe_cma_flow_label(id),
		.traffic_class = id->tos,
		.hop_limit = 64,
		.pkey = 0xffff,
		.mtu = id->path_mtu,
		/* 0 is for the own QP; the peer is told what it is told by everybody, as with the
		   kernel. */
		.ack_timeout = id->ack_timeout_set && id->ack_timeout ? id->ack_timeout
								      : URXE_CM_ACK_TIMEOUT,
	};
	if (!path->mtu)
		path->mtu = urxe_gsi_path_mtu(id->dev->verbs, id->sgid_index, &id->dgid);
}

static uint8_t at_most(unsigned v, unsigned max)
{
	return (uint8_t)(v < max ? v : max);
}

/* Depths that the application asks for must be what the device can do. */
static int check_param(const struct urxe_cma_id *id, const struct rdma_conn_param *p)
{
	const struct ibv_device_attr *attr = &id->dev->attr;

	if (!p)
		return id->id.qp ? 0 : EINVAL;
	if (p->responder_resources != RDMA_MAX_RESP_RES &&
	    p->responder_resources > attr->max_qp_rd_atom)
		return EINVAL;
	if (p->initiator_depth != RDMA_MAX_INIT_DEPTH &&
	    p->initiator_depth > attr->max_qp_init_rd_atom)
		return EINVAL;
	return 0;
}

/* Of the peer, when we have no receive. */
static uint8_t rnr_retries(const struct rdma_conn_param *p)
{
	return p ? at_most(p->rnr_retry_count, RNR_FOR_EVER) : RNR_FOR_EVER;
}

/*
 * How long is the peer to wait after an RNR NAK? Programs cannot tell, and the kernel's CM has it
 * wait for as long as there is, 655 ms: a receiver that was put aside for a time slice costs a
 * sender that much. Who is asked to try for ever may try sooner; who is to give up after some tries
 * gives up as soon, or as late, as with the kernel.
 */
static uint8_t min_rnr_timer(const struct rdma_conn_param *p)
{
	return rnr_retries(p) == RNR_FOR_EVER ? RNR_TIMER_SHORT : RNR_TIMER_LONGEST;
}

static void fill_param(const struct urxe_cma_id *id, const struct rdma_conn_param *p,
		       struct urxe_cm_conn *c)
{
	*c = (struct urxe_cm_conn){
		.qpn = id->id.qp ? id->id.qp->qp_num : p->qp_num,
		.srq = id->id.qp ? !!id->id.qp->srq : !!p->srq,
		.psn = id->psn,
		.responder_resources = id->responder_resources,
		.initiator_depth = id->initiator_depth,
		.flow_control = p ? !!p->flow_control : 0,
		.retry_count = p ? at_most(p->retry_count, 7) : 7,
		.rnr_retry_count = rnr_retries(p),
		.ece.vendor_id = id->passive ? id->remote_ece.vendor_id : id->local_ece.vendor_id,
		.ece.attr_mod = id->local_ece.options,
	};
}

uint8_t urxe_cma_hdr_len(const struct urxe_cma_id *id)
{
	return urxe_cma_addr_ib(&id->id.route.addr.src_addr) ? 0 : URXE_IP_CM_HDR_LEN;
}

static void put_hdr(const struct urxe_cma_id *id, uint8_t *out)
{
	struct urxe_ip_cm_hdr h = {
		.ip_version = urxe_cma_addr_v4(&id->id.route.addr.dst_addr) ? 4 : 6,
		.src_port = urxe_cma_addr_port(&id->id.route.addr.src_addr),
	};

	/* What is on the wire: a loopback address stays in the house. */
	memcpy(h.src, id->sgid.raw, 16);
	memcpy(h.dst, id->dgid.raw, 16);
	urxe_ip_cm_hdr_put(out, &h);
}

uint8_t urxe_cma_private_len(const struct rdma_conn_param *p)
{
	return p && p->private_data ? p->private_data_len : 0;
}

int urxe_cma_put_private(const struct urxe_cma_id *id, const struct rdma_conn_param *p,
			 unsigned room, uint8_t *out, uint8_t *out_len)
{
	uint8_t hdr = urxe_cma_hdr_len(id), len = urxe_cma_private_len(p);

	if (hdr + id->connect_len + len > room)
		return EINVAL;
	if (hdr)
		put_hdr(id, out);
	if (id->connect_len)
		memcpy(out + hdr, id->connect, id->connect_len);
	if (len)
		memcpy(out + hdr + id->connect_len, p->private_data, len);
	*out_len = (uint8_t)(hdr + id->connect_len + len);
	return 0;
}

static int send_req(struct urxe_cma_id *id, const struct urxe_cm_req *req)
	URXE_REQUIRES(urxe_cma_lock)
{
	struct urxe_agent *agent;
	int err = urxe_agent_get(id->dev, &agent);

	if (err)
		return err;
	id->cm = urxe_cm_new_id(urxe_agent_cm(agent), urxe_cma_conn_handler, id);
	if (!id->cm)
		return ENOMEM;
	if (id->ack_timeout_set)
		urxe_cm_set_ack_timeout(id->cm, id->ack_timeout);
	err = urxe_cm_send_req(id->cm, req);
	if (err) {
		urxe_cm_destroy(id->cm);
		id->cm = NULL;
	}
	return err;
}

static int start_connect(struct urxe_cma_id *id, const struct rdma_conn_param *p)
	URXE_REQUIRES(urxe_cma_lock)
{
	const struct ibv_device_attr *attr;
	struct urxe_cm_req *req;
	uint8_t len;
	int err;

	if (id->state != URXE_CMA_ROUTE_RESOLVED)
		return EINVAL;
	err = check_param(id, p);
	if (err)
		return err;
	attr = &id->dev->attr;
	id->initiator_depth = p && p->initiator_depth != RDMA_MAX_INIT_DEPTH
				      ? p->initiator_depth
				      : at_most((unsigned)attr->max_qp_init_rd_atom, 0xff);
	id->responder_resources = p && p->responder_resources != RDMA_MAX_RESP_RES
					  ? p->responder_resources
					  : at_most((unsigned)attr->max_qp_rd_atom, 0xff);
	id->min_rnr_timer = min_rnr_timer(p);
	err = urxe_cma_put_private(id, p, sizeof(id->req_data), id->req_data, &len);
	if (err)
		return err;
	req = calloc(1, sizeof(*req));
	if (!req)
		return ENOMEM;
	id->psn = (uint32_t)urxe_gsi_random(id->dev->verbs) & 0xffffff;
	urxe_cma_path(id, &req->path);
	req->service_id = urxe_cma_service_id(id, &id->id.route.addr.dst_addr);
	req->qp_type = id->id.qp_type;
	fill_param(id, p, &req->conn);
	req->conn.private_data = id->req_data;
	req->conn.private_len = len;
	err = send_req(id, req);
	if (err) {
		free(req);
		return err;
	}
	id->last_req = req;
	id->state = URXE_CMA_CONNECT;
	free(id->connect);
	id->connect = NULL;
	id->connect_len = 0;
	return 0;
}

URXE_CMA_API int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *conn_param)
{
	struct urxe_cma_id *p = to_cma_id(id);
	int err = urxe_cma_begin_wait(id);

	if (err)
		return urxe_cma_ret(err);
	err = p->id.qp_type == IBV_QPT_UD ? urxe_cma_sidr_connect(p, conn_param)
					  : start_connect(p, conn_param);
	return urxe_cma_end_wait(id, err);
}

/*
 * As the kernel: what cannot be accepted, or confirmed, is rejected, so that the peer need not
 * wait. An id that is connected, or has nothing under way, stays as it is. Returns @err.
 */
static int give_up(struct urxe_cma_id *id, int err) URXE_REQUIRES(urxe_cma_lock)
{
	if ((id->state != URXE_CMA_CONNECT && id->state != URXE_CMA_REQUEST) ||
	    urxe_cm_send_rej(id->cm, URXE_CM_REJ_CONSUMER, NULL, 0, NULL, 0))
		return err;
	urxe_cma_qp_to_err(id);
	id->state = URXE_CMA_DISCONNECT;
	return err;
}

static void agree(struct urxe_cma_id *id, const struct rdma_conn_param *p)
	URXE_REQUIRES(urxe_cma_lock)
{
	const struct ibv_device_attr *attr = &id->dev->attr;

	/* Never more than the peer can do, never more than the device can. */
	id->initiator_depth = at_most(id->initiator_depth, (unsigned)attr->max_qp_init_rd_atom);
	if (p && p->initiator_depth != RDMA_MAX_INIT_DEPTH)
		id->initiator_depth = at_most(p->initiator_depth, id->initiator_depth);
	id->responder_resources =
		at_most(p && p->responder_resources != RDMA_MAX_RESP_RES ? p->responder_resources
									 : id->responder_resources,
			(unsigned)attr->max_qp_rd_atom);
	id->min_rnr_timer = min_rnr_timer(p);
	if (id->ack_timeout_set)
		urxe_cm_set_ack_timeout(id->cm, id->ack_timeout);
}

static int send_rep(struct urxe_cma_id *id, const struct rdma_conn_param *p)
	URXE_REQUIRES(urxe_cma_lock)
{
	struct urxe_cm_conn conn;

	fill_param(id, p, &conn);
	conn.private_data = p ? p->private_data : NULL;
	conn.private_len = urxe_cma_private_len(p);
	return urxe_cm_send_rep(id->cm, &conn);
}

static int start_accept(struct urxe_cma_id *id, const struct rdma_conn_param *p)
	URXE_REQUIRES(urxe_cma_lock)
{
	int err;

	if (!id->cm)
		return EINVAL;
	err = check_param(id, p);
	if (err)
		return err;
	/* The peer may have given up meanwhile. */
	if (id->state != URXE_CMA_REQUEST || urxe_cm_get_state(id->cm) == URXE_CM_IDLE)
		return id->id.qp ? EINVAL : give_up(id, EINVAL);
	agree(id, p);
	/* A QP that cannot be connected is the application's to mend. */
	err = urxe_cma_qp_to_rts(id);
	if (err)
		return err;
	err = send_rep(id, p);
	if (err)
		return give_up(id, err);
	id->state = URXE_CMA_CONNECT;
	return 0;
}

URXE_CMA_API int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *conn_param)
{
	struct urxe_cma_id *p = to_cma_id(id);
	int err = urxe_cma_begin(id);

	if (err)
		return urxe_cma_ret(err);
	/* To a datagram's request the answer is all: no event follows. */
	if (p->id.qp_type == IBV_QPT_UD)
		return urxe_cma_ret(urxe_cma_end(urxe_cma_sidr_accept(p, conn_param)));
	urxe_cma_looks(p);
	return urxe_cma_end_wait(id, start_accept(p, conn_param));
}

static int start_reject(struct urxe_cma_id *id, uint16_t reason, const void *data, uint8_t len)
	URXE_REQUIRES(urxe_cma_lock)
{
	int err;

	if (!id->cm)
		return EINVAL;
	if (id->id.qp_type == IBV_QPT_UD)
		err = urxe_cma_sidr_reject(id, data, len);
	else
		err = urxe_cm_send_rej(id->cm, reason, NULL, 0, data, len);
	if (!err)
		id->state = URXE_CMA_DISCONNECT;
	return err;
}

/*
 * Who rejects may have nothing else to do, and end by _exit() in the next moment. A kernel would
 * send the REJ nevertheless; ours is gone with the process if it waits for the way to its peer.
 */
static void let_out(struct ibv_context *verbs)
{
	const struct timespec pause = {.tv_nsec = LET_OUT_NS / LET_OUT_TURNS};

	for (unsigned i = 0; i < LET_OUT_TURNS && urxe_gsi_waits(verbs); i++) {
		nanosleep(&pause, NULL);
		urxe_gsi_drive(verbs);
	}
}

static int reject(struct rdma_cm_id *id, uint16_t reason, const void *data, uint8_t len)
{
	int err = urxe_cma_begin(id);
	struct ibv_context *verbs;

	if (err)
		return urxe_cma_ret(err);
	verbs = id->verbs;
	err = urxe_cma_end(start_reject(to_cma_id(id), reason, data, len));
	if (!err)
		let_out(verbs);
	return urxe_cma_ret(err);
}

URXE_CMA_API int rdma_reject(struct rdma_cm_id *id, const void *private_data,
			     uint8_t private_data_len)
{
	return reject(id, URXE_CM_REJ_CONSUMER, private_data, private_data_len);
}

URXE_CMA_API int rdma_reject_ece(struct rdma_cm_id *id, const void *private_data,
				 uint8_t private_data_len)
{
	return reject(id, URXE_CM_REJ_VENDOR_OPTION, private_data, private_data_len);
}

static int start_disconnect(struct urxe_cma_id *id) URXE_REQUIRES(urxe_cma_lock)
{
	enum urxe_cm_state state;
	int err;

	/* A listener on one address has its CM's id, as the kernel's; one on the wildcard has none.
	 */
	if (id->state == URXE_CMA_LISTEN)
		return id->dev ? 0 : EINVAL;
	if (!id->cm)
		return EINVAL;
	state = urxe_cm_get_state(id->cm);
	err = urxe_cma_qp_to_err(id);
	/*
	 * As the kernel: an end that is no connection yet, or no more, has nothing to tell its
	 * peer, and that is no error. What is under way goes on; rdma_destroy_id() or rdma_reject()
	 * ends it.
	 */
	if (!err && (state == URXE_CM_ESTABLISHED || state == URXE_CM_REP_SENT ||
		     state == URXE_CM_MRA_REP_RCVD))
		err = urxe_cm_send_dreq(id->cm, NULL, 0);
	return err;
}

URXE_CMA_API int rdma_disconnect(struct rdma_cm_id *id)
{
	struct urxe_cma_id *p = to_cma_id(id);
	int err = urxe_cma_begin(id);
	bool wait;

	if (err)
		return urxe_cma_ret(err);
	err = start_disconnect(p);
	/* Is DISCONNECTED to come, or waiting to be taken? If not by us, the id is not ours now. Of
	 * a datagram's id none comes. */
	wait = !err && p->sync && p->id.qp_type != IBV_QPT_UD &&
	       (p->state == URXE_CMA_CONNECT || (p->disconnect_told && !p->disconnect_taken));
	urxe_cma_leave();
	while (wait) {
		if (urxe_cma_complete(id) &&
		    (!id->event || id->event->event != RDMA_CM_EVENT_DISCONNECTED))
			return -1;
		wait = id->event->event == RDMA_CM_EVENT_ESTABLISHED;
	}
	return urxe_cma_ret(err);
}

static int establish(struct urxe_cma_id *id) URXE_REQUIRES(urxe_cma_lock)
{
	int err;

	if (!id->cm || id->id.qp)
		return EINVAL;
	err = urxe_cm_send_rtu(id->cm, NULL, 0);
	if (err)
		return give_up(id, err);
	id->established = true;
	return 0;
}

URXE_CMA_API int rdma_establish(struct rdma_cm_id *id)
{
	int err = urxe_cma_begin(id);

	if (!err)
		err = urxe_cma_end(establish(to_cma_id(id)));
	return urxe_cma_ret(err);
}

static int notify(struct urxe_cma_id *id, enum ibv_event_type event) URXE_REQUIRES(urxe_cma_lock)
{
	int err = EINVAL;

	if (!id->cm)
		return EINVAL;
	if (event == IBV_EVENT_COMM_EST)
		err = urxe_cm_notify_established(id->cm);
	else if (event == IBV_EVENT_PATH_MIG)
		err = urxe_cm_notify_migrated(id->cm);
	return err;
}

URXE_CMA_API int rdma_notify(struct rdma_cm_id *id, enum ibv_event_type event)
{
	int err = urxe_cma_begin(id);

	if (!err)
		err = urxe_cma_end(notify(to_cma_id(id), event));
	return urxe_cma_ret(err);
}

/* ---- events of the IB CM ---- */

void urxe_cma_event_conn(struct urxe_cma_event *e, const struct urxe_cm_conn *c, uint8_t skip)
{
	struct urxe_cma_id *id = to_cma_id(e->event.id);
	struct rdma_conn_param *p = &e->event.param.conn;

	id->remote_ece.vendor_id = c->ece.vendor_id;
	id->remote_ece.options = c->ece.attr_mod;
	p->responder_resources = c->initiator_depth;
	p->initiator_depth = c->responder_resources;
	p->flow_control = c->flow_control;
	p->retry_count = c->retry_count;
	p->rnr_retry_count = c->rnr_retry_count;
	p->srq = c->srq;
	p->qp_num = c->qpn;
	urxe_cma_event_data(e, &p->private_data, &p->private_data_len,
			    (const uint8_t *)c->private_data + skip,
			    (uint8_t)(c->private_len - skip));
}

/* The REP: with a QP on the id everything is done here, and the peer answered at once. */
static void on_rep(struct urxe_cma_id *id, const struct urxe_cm_event *ev)
	URXE_REQUIRES(urxe_cma_lock)
{
	enum rdma_cm_event_type type = RDMA_CM_EVENT_CONNECT_RESPONSE;
	struct urxe_cma_event *e;
	int err = 0;

	if (id->id.qp) {
		type = RDMA_CM_EVENT_ESTABLISHED;
		err = urxe_cma_qp_to_rts(id);
		if (!err)
			err = urxe_cm_send_rtu(id->cm, NULL, 0);
		if (err) {
			urxe_warn("rdma_cm: QP 0x%x cannot be connected: %s", id->id.qp->qp_num,
				  strerror(err));
			type = RDMA_CM_EVENT_CONNECT_ERROR;
			urxe_cma_qp_to_err(id);
			urxe_cm_send_rej(id->cm, URXE_CM_REJ_CONSUMER, NULL, 0, NULL, 0);
		}
		id->established = !err;
	}
	e = urxe_cma_event_new(id, type, -err);
	if (!e)
		return;
	urxe_cma_event_conn(e, &ev->rep, 0);
	urxe_cma_event_post(e);
}

/* REJ 26 names the MTU that would do: ask again with it. */
static bool retry_with_mtu(struct urxe_cma_id *id, const struct urxe_cm_event *ev)
	URXE_REQUIRES(urxe_cma_lock)
{
	struct urxe_cm_id *old = id->cm;

	if (ev->rej.reason != URXE_CM_REJ_INVALID_MTU || ev->rej.ari_len < 1 || !id->last_req ||
	    ev->rej.ari[0] < IBV_MTU_256 || ev->rej.ari[0] >= id->last_req->path.mtu)
		return false;
	id->last_req->path.mtu = id->path_mtu = ev->rej.ari[0];
	if (id->id.route.path_rec)
		id->id.route.path_rec->mtu = ev->rej.ari[0];
	if (send_req(id, id->last_req)) {
		id->cm = old;
		return false;
	}
	urxe_cm_destroy(old);
	return true;
}

/*
 * The peer's process was killed: what waits for it on the QP would wait for ever. Who ends a
 * connection in peace may have more to come, and it is the application that moves the QP.
 */
static bool is_obituary(const struct urxe_cm_event *ev)
{
	static const char gone[] = URXE_MAD_DREQ_GONE;

	return ev->private_len >= sizeof(gone) && !memcmp(ev->private_data, gone, sizeof(gone));
}

static void on_disconnect(struct urxe_cma_id *id, int status) URXE_REQUIRES(urxe_cma_lock)
{
	id->state = URXE_CMA_DISCONNECT;
	id->disconnect_told = true;
	urxe_cma_tell(id, RDMA_CM_EVENT_DISCONNECTED, status);
}

static void on_rej(struct urxe_cma_id *id, const struct urxe_cm_event *ev)
	URXE_REQUIRES(urxe_cma_lock)
{
	struct urxe_cma_event *e;
	bool untold;

	if (id->established) {
		/* The other side gave up while we thought that we are connected. */
		on_disconnect(id, 0);
		return;
	}
	if (!id->passive && retry_with_mtu(id, ev))
		return;
	urxe_cma_qp_to_err(id);
	/* As the kernel: a server that has not accepted yet finds out when it does. */
	untold = id->state == URXE_CMA_REQUEST;
	id->state = URXE_CMA_DISCONNECT;
	if (untold)
		return;
	e = urxe_cma_event_new(id, RDMA_CM_EVENT_REJECTED, ev->rej.reason);
	if (!e)
		return;
	urxe_cma_event_data(e, &e->event.param.conn.private_data,
			    &e->event.param.conn.private_data_len, ev->private_data,
			    ev->private_len);
	urxe_cma_event_post(e);
}

static void on_sidr_rep(struct urxe_cma_id *id, const struct urxe_cm_event *ev)
	URXE_REQUIRES(urxe_cma_lock)
{
	struct urxe_cma_event *e;
	struct rdma_ud_param *ud;
	struct urxe_cm_path path;
	bool good = ev->sidr_rep.status == URXE_CM_SIDR_SUCCESS;

	e = urxe_cma_event_new(id, good ? RDMA_CM_EVENT_ESTABLISHED : RDMA_CM_EVENT_UNREACHABLE,
			       ev->sidr_rep.status);
	if (!e)
		return;
	ud = &e->event.param.ud;
	if (good) {
		urxe_cma_path(id, &path);
		urxe_cm_path_to_ah(&path, &ud->ah_attr);
		ud->qp_num = ev->sidr_rep.qpn;
		ud->qkey = ev->sidr_rep.qkey;
		id->remote_ece.vendor_id = ev->sidr_rep.ece.vendor_id;
		id->remote_ece.options = ev->sidr_rep.ece.attr_mod;
	}
	/* A refusal has its reasons there. */
	urxe_cma_event_data(e, &ud->private_data, &ud->private_data_len, ev->private_data,
			    ev->private_len);
	urxe_cma_event_post(e);
}

int urxe_cma_conn_handler(struct urxe_cm_id *cm, const struct urxe_cm_event *ev, void *context)
{
	struct urxe_cma_id *id = context;

	switch (ev->type) {
	case URXE_CM_EV_REQ_ERROR:
	case URXE_CM_EV_REP_ERROR:
	case URXE_CM_EV_SIDR_REQ_ERROR:
		urxe_cma_qp_to_err(id);
		id->state = URXE_CMA_DISCONNECT;
		urxe_cma_tell(id, RDMA_CM_EVENT_UNREACHABLE, -(ev->error ? ev->error : ETIMEDOUT));
		break;
	case URXE_CM_EV_REP_RECEIVED:
		on_rep(id, ev);
		break;
	case URXE_CM_EV_RTU_RECEIVED:
	case URXE_CM_EV_USER_ESTABLISHED:
		id->established = true;
		urxe_cma_tell(id, RDMA_CM_EVENT_ESTABLISHED, 0);
		break;
	case URXE_CM_EV_REJ_RECEIVED:
		on_rej(id, ev);
		break;
	case URXE_CM_EV_DREQ_RECEIVED:
		if (is_obituary(ev))
			urxe_cma_qp_to_err(id);
		/* The peer need not wait for our application (a crossed one is answered already).
		 */
		if (urxe_cm_get_state(cm) == URXE_CM_DREQ_RCVD)
			urxe_cm_send_drep(cm, NULL, 0);
		on_disconnect(id, 0);
		break;
	case URXE_CM_EV_DREP_RECEIVED:
		on_disconnect(id, 0);
		break;
	case URXE_CM_EV_DREQ_ERROR:
		on_disconnect(id, -ETIMEDOUT);
		break;
	case URXE_CM_EV_PEER_LOST:
		/* What waits for the peer on the QP would wait for ever. */
		urxe_cma_qp_to_err(id);
		on_disconnect(id, -ETIMEDOUT);
		break;
	case URXE_CM_EV_TIMEWAIT_EXIT:
		urxe_cma_tell(id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
		break;
	case URXE_CM_EV_SIDR_REP_RECEIVED:
		on_sidr_rep(id, ev);
		break;
	case URXE_CM_EV_LAP_RECEIVED:
		/* rdma_cm has no event for it; a QP on the id can have the path. */
		urxe_cm_send_apr(cm,
				 urxe_cma_qp_load_alternate(id) ? URXE_CM_APR_UNSUPPORTED
								: URXE_CM_APR_SUCCESS,
				 NULL, 0, NULL, 0);
		break;
	default:
		break;
	}
	/* Be it that it does not wait for its RTU any more. */
	if (id->passive)
		urxe_cma_backlog_admit_all(id->dev);
	return 0;
}
