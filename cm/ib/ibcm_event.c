/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The events of the IB CM, as ib_cm events for the thread that calls consumers. */
#include <stdlib.h>
#include <string.h>

#include "cm/ib/ibcm.h"
#include "urxe/log.h"

#define GSI_PKEY 0xffff

void urxe_ibcm_path_rec(const struct urxe_cm_path *p, struct ibv_sa_path_rec *rec)
{
	*rec = (struct ibv_sa_path_rec){
		.dgid = p->dgid,
		.sgid = p->sgid,
		.flow_label = htobe32(p->flow_label),
		.hop_limit = p->hop_limit,
		.traffic_class = p->traffic_class,
		.reversible = 1,
		.numb_path = 1,
		.pkey = htobe16(p->pkey),
		.sl = p->sl,
		.mtu_selector = 2, /* exactly */
		.mtu = p->mtu,
		.rate_selector = 2,
		.packet_life_time_selector = 2,
		/* The ACK time-out is a round trip: twice that. */
		.packet_life_time = (uint8_t)(p->ack_timeout ? p->ack_timeout - 1 : 0),
	};
}

static void read_req(struct urxe_ibcm_event *e, const struct urxe_cm_event *ev)
{
	const struct urxe_cm_conn *c = &ev->req.conn;

	urxe_ibcm_path_rec(ev->req.path, &e->primary);
	if (ev->req.alternate)
		urxe_ibcm_path_rec(ev->req.alternate, &e->alternate);
	e->event.param.req_rcvd = (struct ib_cm_req_event_param){
		.listen_id = e->listener ? &e->listener->id : NULL,
		.bth_pkey = GSI_PKEY,
		.port = ev->req.path->port_num,
		.primary_path = &e->primary,
		.alternate_path = ev->req.alternate ? &e->alternate : NULL,
		.remote_ca_guid = htobe64(urxe_mad_get(ev->mad, URXE_REQ_LOCAL_CA_GUID)),
		.remote_qkey = urxe_mad_get32(ev->mad, URXE_REQ_LOCAL_QKEY),
		.remote_qpn = c->qpn,
		.qp_type = ev->req.qp_type,
		.starting_psn = c->psn,
		.responder_resources = c->initiator_depth,
		.initiator_depth = c->responder_resources,
		/* The peer's "remote" is we. */
		.local_cm_response_timeout =
			urxe_mad_get8(ev->mad, URXE_REQ_REMOTE_CM_RESPONSE_TIMEOUT),
		.remote_cm_response_timeout =
			urxe_mad_get8(ev->mad, URXE_REQ_LOCAL_CM_RESPONSE_TIMEOUT),
		.flow_control = c->flow_control,
		.retry_count = c->retry_count,
		.rnr_retry_count = c->rnr_retry_count,
		.srq = c->srq,
		.ece = {.vendor_id = c->ece.vendor_id, .options = c->ece.attr_mod},
	};
}

static void read_rep(struct urxe_ibcm_event *e, const struct urxe_cm_event *ev)
{
	const struct urxe_cm_conn *c = &ev->rep;
	uint32_t qkey = urxe_mad_get32(ev->mad, URXE_REP_LOCAL_QKEY);

	e->event.param.rep_rcvd = (struct ib_cm_rep_event_param){
		.remote_ca_guid = htobe64(urxe_mad_get(ev->mad, URXE_REP_LOCAL_CA_GUID)),
		/* Between CMs, not for consumers. */
		.remote_qkey = qkey == URXE_CM_PROBES ? 0 : qkey,
		.remote_qpn = c->qpn,
		.starting_psn = c->psn,
		.responder_resources = c->initiator_depth,
		.initiator_depth = c->responder_resources,
		.target_ack_delay = urxe_mad_get8(ev->mad, URXE_REP_TARGET_ACK_DELAY),
		.failover_accepted = c->failover,
		.flow_control = c->flow_control,
		.rnr_retry_count = c->rnr_retry_count,
		.srq = c->srq,
		.ece = {.vendor_id = c->ece.vendor_id, .options = c->ece.attr_mod},
	};
}

static void *copy_info(struct urxe_ibcm_event *e, const void *info, uint8_t len)
{
	if (info && len)
		memcpy(e->info, info, len);
	return e->info;
}

static void read_rej(struct urxe_ibcm_event *e, const struct urxe_cm_event *ev)
{
	e->event.param.rej_rcvd = (struct ib_cm_rej_event_param){
		.reason = (enum ib_cm_rej_reason)ev->rej.reason,
		.ari = copy_info(e, ev->rej.ari, ev->rej.ari_len),
		.ari_length = ev->rej.ari_len,
	};
}

static void read_mra(struct urxe_ibcm_event *e, const struct urxe_cm_event *ev)
{
	e->event.param.mra_rcvd.service_timeout = urxe_mad_get8(ev->mad, URXE_MRA_SERVICE_TIMEOUT);
}

static void read_lap(struct urxe_ibcm_event *e, const struct urxe_cm_event *ev)
{
	urxe_ibcm_path_rec(ev->lap.path, &e->alternate);
	e->event.param.lap_rcvd.alternate_path = &e->alternate;
}

static void read_apr(struct urxe_ibcm_event *e, const struct urxe_cm_event *ev)
{
	e->event.param.apr_rcvd = (struct ib_cm_apr_event_param){
		.ap_status = (enum ib_cm_apr_status)ev->apr.status,
		.apr_info = copy_info(e, ev->apr.info, ev->apr.info_len),
		.info_len = ev->apr.info_len,
	};
}

static void read_sidr_req(struct urxe_ibcm_event *e, const struct urxe_cm_event *ev)
{
	e->event.param.sidr_req_rcvd = (struct ib_cm_sidr_req_event_param){
		.listen_id = &e->listener->id,
		.service_id = htobe64(ev->sidr_req.service_id),
		.bth_pkey = GSI_PKEY,
		.port = ev->sidr_req.path->port_num,
		.pkey = ev->sidr_req.pkey,
	};
}

static void read_sidr_rep(struct urxe_ibcm_event *e, const struct urxe_cm_event *ev)
{
	e->event.param.sidr_rep_rcvd = (struct ib_cm_sidr_rep_event_param){
		.status = (enum ib_cm_sidr_status)ev->sidr_rep.status,
		.qkey = ev->sidr_rep.qkey,
		.qpn = ev->sidr_rep.qpn,
		.info = copy_info(e, ev->sidr_rep.info, ev->sidr_rep.info_len),
		.info_len = ev->sidr_rep.info_len,
		.ece = {.vendor_id = ev->sidr_rep.ece.vendor_id,
			.options = ev->sidr_rep.ece.attr_mod},
	};
}

static void read_error(struct urxe_ibcm_event *e, const struct urxe_cm_event *ev)
{
	e->event.param.send_status = IBV_WC_RESP_TIMEOUT_ERR;
}

/* What each event of the IB CM is called, and what it brings. */
static const struct {
	enum ib_cm_event_type type;
	void (*read)(struct urxe_ibcm_event *e, const struct urxe_cm_event *ev);
} events[URXE_CM_N_EVENTS] = {
	[URXE_CM_EV_REQ_ERROR] = {IB_CM_REQ_ERROR, read_error},
	[URXE_CM_EV_REQ_RECEIVED] = {IB_CM_REQ_RECEIVED, read_req},
	[URXE_CM_EV_REP_ERROR] = {IB_CM_REP_ERROR, read_error},
	[URXE_CM_EV_REP_RECEIVED] = {IB_CM_REP_RECEIVED, read_rep},
	[URXE_CM_EV_RTU_RECEIVED] = {IB_CM_RTU_RECEIVED, NULL},
	[URXE_CM_EV_USER_ESTABLISHED] = {IB_CM_USER_ESTABLISHED, NULL},
	[URXE_CM_EV_DREQ_ERROR] = {IB_CM_DREQ_ERROR, read_error},
	[URXE_CM_EV_DREQ_RECEIVED] = {IB_CM_DREQ_RECEIVED, NULL},
	[URXE_CM_EV_DREP_RECEIVED] = {IB_CM_DREP_RECEIVED, NULL},
	[URXE_CM_EV_PEER_LOST] = {IB_CM_DREQ_ERROR, read_error},
	[URXE_CM_EV_TIMEWAIT_EXIT] = {IB_CM_TIMEWAIT_EXIT, NULL},
	[URXE_CM_EV_MRA_RECEIVED] = {IB_CM_MRA_RECEIVED, read_mra},
	[URXE_CM_EV_REJ_RECEIVED] = {IB_CM_REJ_RECEIVED, read_rej},
	[URXE_CM_EV_SIDR_REQ_ERROR] = {IB_CM_SIDR_REQ_ERROR, read_error},
	[URXE_CM_EV_SIDR_REQ_RECEIVED] = {IB_CM_SIDR_REQ_RECEIVED, read_sidr_req},
	[URXE_CM_EV_SIDR_REP_RECEIVED] = {IB_CM_SIDR_REP_RECEIVED, read_sidr_rep},
	[URXE_CM_EV_LAP_ERROR] = {IB_CM_LAP_ERROR, read_error},
	[URXE_CM_EV_LAP_RECEIVED] = {IB_CM_LAP_RECEIVED, read_lap},
	[URXE_CM_EV_APR_RECEIVED] = {IB_CM_APR_RECEIVED, read_apr},
};

static void put_in_stock(struct urxe_ibcm_id *id, struct urxe_ibcm_event *e)
{
	cds_list_add(&e->entry, &id->stock);
	id->stocked++;
}

static struct urxe_ibcm_event *take_from_stock(struct urxe_ibcm_id *id)
{
	struct urxe_ibcm_event *e;

	if (!id->stocked)
		return NULL;
	e = cds_list_first_entry(&id->stock, struct urxe_ibcm_event, entry);
	cds_list_del(&e->entry);
	id->stocked--;
	memset(e, 0, sizeof(*e));
	return e;
}

struct urxe_ibcm_id *urxe_ibcm_id_new(void)
{
	struct urxe_ibcm_id *id = calloc(1, sizeof(*id));

	if (!id)
		return NULL;
	CDS_INIT_LIST_HEAD(&id->stock);
	while (id->stocked < URXE_IBCM_STOCK) {
		struct urxe_ibcm_event *e = calloc(1, sizeof(*e));

		if (!e) {
			urxe_ibcm_id_free(id);
			return NULL;
		}
		put_in_stock(id, e);
	}
	return id;
}

void urxe_ibcm_id_free(struct urxe_ibcm_id *id)
{
	struct urxe_ibcm_event *e;

	while (id && (e = take_from_stock(id)))
		free(e);
	free(id);
}

void urxe_ibcm_event_free(struct urxe_ibcm_event *e)
{
	if (e->id->stocked < URXE_IBCM_STOCK)
		put_in_stock(e->id, e);
	else
		free(e);
}

static struct urxe_ibcm_event *new_event(struct urxe_ibcm_id *id, struct urxe_ibcm_id *listener,
					 const struct urxe_cm_event *ev)
{
	struct urxe_ibcm_event *e = calloc(1, sizeof(*e));

	if (!e)
		e = take_from_stock(id);
	if (!e)
		return NULL;
	e->id = id;
	e->listener = listener;
	e->event.event = events[ev->type].type;
	if (events[ev->type].read)
		events[ev->type].read(e, ev);
	if (ev->private_data) {
		memcpy(e->private_data, ev->private_data, ev->private_len);
		e->event.private_data = e->private_data;
		e->event.private_data_len = ev->private_len;
	}
	return e;
}

/* A request: it gets an id, which the consumer first sees in its callback. */
static int request(struct urxe_ibcm_id *listener, struct urxe_cm_id *cm,
		   const struct urxe_cm_event *ev) URXE_REQUIRES(urxe_cma_lock)
{
	struct urxe_ibcm_event *e = NULL;
	struct urxe_ibcm_id *id = NULL;

	if (listener->pending < URXE_IBCM_MAX_PENDING)
		id = urxe_ibcm_id_new();
	if (id) {
		id->id = listener->id;
		id->id.service_mask = UINT64_MAX;
		id->dev = listener->dev;
		id->life = listener->life;
		id->cm = cm;
		e = new_event(id, listener, ev);
	}
	if (!e) {
		urxe_ibcm_id_free(id);
		if (ev->type == URXE_CM_EV_REQ_RECEIVED)
			urxe_cm_send_rej(cm, URXE_CM_REJ_NO_RESOURCES, NULL, 0, NULL, 0);
		return 1;
	}
	id->id.service_id = htobe64(ev->type == URXE_CM_EV_REQ_RECEIVED ? ev->req.service_id
									: ev->sidr_req.service_id);
	urxe_cm_set_handler(cm, urxe_ibcm_handler, id);
	urxe_ibcm_post(e);
	return 0;
}

int urxe_ibcm_handler(struct urxe_cm_id *cm, const struct urxe_cm_event *ev, void *context)
{
	struct urxe_ibcm_id *id = context;
	struct urxe_ibcm_event *e;

	if ((ev->type == URXE_CM_EV_REQ_RECEIVED && ev->req.listen_id) ||
	    ev->type == URXE_CM_EV_SIDR_REQ_RECEIVED)
		return request(id, cm, ev);
	e = new_event(id, NULL, ev);
	if (e)
		urxe_ibcm_post(e);
	else
		urxe_err("ib_cm: out of memory, %s is lost", urxe_cm_event_names[ev->type]);
	return 0;
}
