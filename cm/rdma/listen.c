/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Listening ids, and requests on their way to one. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cm/rdma/cma.h"
#include "provider/gsi.h"
#include "urxe/gid.h"

/* A REQ or SIDR_REQ on its way to a listener. */
struct request {
	const struct urxe_cm_path *path; /* back to the peer */
	bool has_hdr; /* an RDMA IP CM header that names the packet's addresses */
	struct urxe_ip_cm_hdr hdr;
	uint64_t service_id;
};

/* How well does a listener suit a request? 0: not at all. */
static unsigned suits(const struct urxe_cma_id *id, const struct urxe_cma_dev *dev,
		      const struct request *r) URXE_REQUIRES(urxe_cma_lock)
{
	bool v4 = urxe_cma_addr_v4(&id->id.route.addr.src_addr);
	bool r4 = urxe_gid_is_v4(r->path->sgid.raw);

	if (!r->has_hdr && !urxe_cma_addr_ib(&id->id.route.addr.src_addr))
		return 0;
	if (id->loopback)
		return v4 == r4 && urxe_agent_own_gid(dev, &r->path->dgid) >= 0 ? 2 : 0;
	if (id->has_sgid)
		return memcmp(&id->sgid, &r->path->sgid, sizeof(id->sgid)) ? 0 : 3;
	if (v4)
		return r4;
	return !r4 || !id->afonly;
}

static struct urxe_cma_id *find_listener(const struct urxe_cma_service *svc,
					 const struct request *r) URXE_REQUIRES(urxe_cma_lock)
{
	struct urxe_cma_binding *b;
	struct urxe_cma_id *best = NULL;
	unsigned best_suits = 0;

	cds_list_for_each_entry (b, &svc->bindings, entry) {
		unsigned s = suits(b->id, svc->dev, r);

		if (s > best_suits) {
			best = b->id;
			best_suits = s;
		}
	}
	return best;
}

/* The addresses of a request's id, in the listener's family, be it IPv4 or IPv6 in dual stack. */
static void set_addresses(struct urxe_cma_id *id, const struct urxe_cma_id *listener,
			  const struct request *r)
{
	const struct sockaddr *bound = &listener->id.route.addr.src_addr;
	struct rdma_addr *a = &id->id.route.addr;
	int family = urxe_cma_addr_ib(bound)		 ? AF_IB
		     : urxe_gid_is_v4(r->path->sgid.raw) ? AF_INET
							 : AF_INET6;
	uint32_t scope;

	urxe_cma_gid_addr(&r->path->sgid, family, urxe_cma_addr_port(bound), &a->src_addr);
	urxe_cma_gid_addr(&r->path->dgid, family, r->has_hdr ? r->hdr.src_port : 0, &a->dst_addr);
	if (family == AF_IB) {
		struct sockaddr_ib *sib = (struct sockaddr_ib *)(void *)&a->src_addr;

		sib->sib_sid = htobe64(r->service_id);
		sib->sib_sid_mask = UINT64_MAX;
		/* A peer's AF_IB address names no service: its header, if there is one, is data. */
		urxe_cma_gid_addr(&r->path->dgid, family, 0, &a->dst_addr);
	}
	/* Who is reached by an own address is on its interface. */
	scope = urxe_gsi_scope(id->dev->verbs, &id->sgid);
	urxe_cma_addr_set_scope(&a->src_addr, scope);
	urxe_cma_addr_set_scope(&a->dst_addr, scope);
	a->addr.ibaddr.sgid = id->sgid;
	a->addr.ibaddr.dgid = id->dgid;
}

static struct urxe_cma_id *new_child(struct urxe_cma_service *svc, struct urxe_cma_id *listener,
				     const struct request *r) URXE_REQUIRES(urxe_cma_lock)
{
	struct urxe_cma_id *id = urxe_cma_id_new(listener->channel, listener->id.context,
						 listener->id.ps, listener->id.qp_type);
	const struct urxe_cm_path *path = r->path;

	if (!id)
		return NULL;
	urxe_cma_attach(id, svc->dev);
	id->passive = true;
	id->life = listener->life;
	id->state = URXE_CMA_REQUEST;
	id->sgid = path->sgid;
	id->dgid = path->dgid;
	id->sgid_index = path->sgid_index;
	id->has_sgid = true;
	id->tos = path->traffic_class;
	id->path_mtu = path->mtu;
	id->ack_timeout = listener->ack_timeout;
	id->ack_timeout_set = listener->ack_timeout_set;
	id->psn = (uint32_t)urxe_gsi_random(svc->dev->verbs) & 0xffffff;
	set_addresses(id, listener, r);
	urxe_cma_set_path_rec(id);
	return id;
}

/* Reject without asking anyone; the id goes. */
static int refuse(struct urxe_cm_id *cm, const struct urxe_cm_event *ev, uint16_t reason)
{
	if (ev->type == URXE_CM_EV_SIDR_REQ_RECEIVED)
		urxe_cm_send_sidr_rep(cm,
				      reason == URXE_CM_REJ_INVALID_SERVICE_ID
					      ? URXE_CM_SIDR_UNSUPPORTED
					      : URXE_CM_SIDR_REJECT,
				      0, 0, NULL, 0);
	else
		urxe_cm_send_rej(cm, reason, NULL, 0, NULL, 0);
	return 1;
}

/* No answer, so that the peer retransmits. */
static int pass_over(struct urxe_cm_id *cm)
{
	urxe_cm_ignore(cm);
	return 1;
}

/* A REQ or SIDR_REQ for the service: find the listener, and make an id of it. */
int urxe_cma_request_handler(struct urxe_cm_id *cm, const struct urxe_cm_event *ev, void *context)
{
	struct urxe_cma_service *svc = context;
	bool sidr = ev->type == URXE_CM_EV_SIDR_REQ_RECEIVED;
	struct request r = {
		.path = urxe_cm_get_path(cm),
		.service_id = svc->service_id,
	};
	struct urxe_cma_id *listener, *id;
	struct urxe_cma_event *e;
	bool lies;

	if (!sidr && ev->type != URXE_CM_EV_REQ_RECEIVED)
		return 0;
	r.has_hdr = !urxe_ip_cm_hdr_get(ev->private_data, &r.hdr);
	/* A peer whose header has an address of somebody else is not to be believed. */
	lies = r.has_hdr &&
	       (memcmp(r.hdr.src, r.path->dgid.raw, 16) || memcmp(r.hdr.dst, r.path->sgid.raw, 16));
	r.has_hdr &= !lies;
	listener = find_listener(svc, &r);
	if (!listener)
		return refuse(cm, ev,
			      lies	  ? URXE_CM_REJ_INVALID_GID
			      : r.has_hdr ? URXE_CM_REJ_INVALID_SERVICE_ID
					  : URXE_CM_REJ_CONSUMER);
	if (sidr ? listener->id.qp_type != IBV_QPT_UD : ev->req.qp_type != listener->id.qp_type)
		return refuse(cm, ev, URXE_CM_REJ_INVALID_TRANSPORT_TYPE);
	if (!urxe_cma_backlog_fits(listener, cm))
		return urxe_cma_backlog_wait(svc, listener, cm)
			       ? 0
			       : refuse(cm, ev, URXE_CM_REJ_NO_RESOURCES);
	id = new_child(svc, listener, &r);
	e = id ? urxe_cma_event_request(listener, id) : NULL;
	if (!e) {
		if (id)
			urxe_cma_id_free(id);
		return pass_over(cm);
	}
	id->cm = cm;
	urxe_cm_set_handler(cm, urxe_cma_conn_handler, id);
	cds_list_add_tail(&id->all, &urxe_cma_ids);
	if (sidr) {
		urxe_cma_sidr_request(id, e, ev);
	} else {
		urxe_cma_event_conn(e, &ev->req.conn, urxe_cma_hdr_len(id));
		id->initiator_depth = e->event.param.conn.initiator_depth;
		id->responder_resources = e->event.param.conn.responder_resources;
	}
	urxe_cma_backlog_count(listener, id, 1);
	urxe_cma_event_post(e);
	return 0;
}

static struct urxe_cma_listening *listening(struct urxe_cma_dev *dev)
{
	if (!dev->listening) {
		dev->listening = calloc(1, sizeof(*dev->listening));
		if (dev->listening) {
			CDS_INIT_LIST_HEAD(&dev->listening->services);
			CDS_INIT_LIST_HEAD(&dev->listening->waiters);
		}
	}
	return dev->listening;
}

static struct urxe_cma_service *get_service(struct urxe_cma_dev *dev, uint64_t service_id, int *err)
	URXE_REQUIRES(urxe_cma_lock)
{
	struct urxe_cma_service *svc;
	struct urxe_agent *agent;

	if (!listening(dev)) {
		*err = ENOMEM;
		return NULL;
	}
	cds_list_for_each_entry (svc, &dev->listening->services, entry) {
		if (svc->service_id == service_id)
			return svc;
	}
	*err = urxe_agent_get(dev, &agent);
	if (*err)
		return NULL;
	svc = calloc(1, sizeof(*svc));
	if (!svc) {
		*err = ENOMEM;
		return NULL;
	}
	svc->dev = dev;
	svc->service_id = service_id;
	CDS_INIT_LIST_HEAD(&svc->bindings);
	svc->cm = urxe_cm_new_id(urxe_agent_cm(agent), urxe_cma_request_handler, svc);
	*err = svc->cm ? urxe_cm_listen(svc->cm, service_id, UINT64_MAX) : ENOMEM;
	if (*err) {
		if (svc->cm)
			urxe_cm_destroy(svc->cm);
		free(svc);
		return NULL;
	}
	cds_list_add_tail(&svc->entry, &dev->listening->services);
	return svc;
}

static void put_service(struct urxe_cma_service *svc)
{
	if (!cds_list_empty(&svc->bindings))
		return;
	urxe_cm_destroy(svc->cm);
	cds_list_del(&svc->entry);
	free(svc);
}

static int listen_on(struct urxe_cma_id *id, struct urxe_cma_dev *dev) URXE_REQUIRES(urxe_cma_lock)
{
	uint64_t service_id = urxe_cma_service_id(id, &id->id.route.addr.src_addr);
	struct urxe_cma_service *svc;
	struct urxe_cma_binding *b;
	int err;

	svc = get_service(dev, service_id, &err);
	if (!svc)
		return err;
	b = calloc(1, sizeof(*b));
	/* It comes last: who has it listens, for others too. */
	err = b ? urxe_ident_port_listen(urxe_gsi_ident(dev->verbs), id->claims[dev->index])
		: ENOMEM;
	if (err) {
		free(b);
		put_service(svc);
		return err;
	}
	b->service = svc;
	b->id = id;
	b->next = id->bindings;
	id->bindings = b;
	if (!id->loopback)
		urxe_ident_serve(urxe_gsi_ident(dev->verbs));
	cds_list_add_tail(&b->entry, &svc->bindings);
	return 0;
}

void urxe_cma_unlisten(struct urxe_cma_id *id)
{
	struct urxe_cma_binding *b;

	urxe_cma_backlog_end(id);
	while ((b = id->bindings)) {
		id->bindings = b->next;
		cds_list_del(&b->entry);
		put_service(b->service);
		free(b);
	}
}

static int start_listening(struct urxe_cma_id *id, int backlog) URXE_REQUIRES(urxe_cma_lock)
{
	int err = 0;

	if (id->state == URXE_CMA_IDLE) {
		struct sockaddr_in any = {.sin_family = AF_INET};

		err = urxe_cma_bind(id, (struct sockaddr *)&any);
	}
	if (err || id->state != URXE_CMA_BOUND)
		return err ? err : EINVAL;
	err = urxe_cma_backlog_init(id);
	id->backlog =
		backlog > 0 && backlog < URXE_CMA_MAX_BACKLOG ? backlog : URXE_CMA_MAX_BACKLOG;
	for (unsigned i = 0; !err && i < urxe_cma_num_devices(); i++) {
		struct urxe_cma_dev *dev = urxe_cma_device(i, &err);

		if (dev && !dev->lost && (!id->dev || id->dev == dev))
			err = listen_on(id, dev);
	}
	if (err)
		urxe_cma_unlisten(id);
	else
		id->state = URXE_CMA_LISTEN;
	return err;
}

URXE_CMA_API int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	int err = urxe_cma_begin(id);

	if (!err)
		err = urxe_cma_end(start_listening(to_cma_id(id), backlog));
	if (!err)
		urxe_cma_say_ready();
	return urxe_cma_ret(err);
}
