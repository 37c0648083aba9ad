/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* RDMA_PS_UDP: the peer's QPN and Q_Key by service id resolution (IBTA 12.11). */
#include <errno.h>

#include "cm/rdma/cma.h"

int urxe_cma_sidr_connect(struct urxe_cma_id *id, const struct rdma_conn_param *p)
{
	uint8_t data[URXE_SIDR_REQ_PRIVATE_LEN], len;
	struct urxe_agent *agent;
	struct urxe_cm_path path;
	int err;

	if (id->state != URXE_CMA_ROUTE_RESOLVED)
		return EINVAL;
	err = urxe_cma_put_private(id, p, sizeof(data), data, &len);
	if (!err)
		err = urxe_agent_get(id->dev, &agent);
	if (err)
		return err;
	urxe_cma_path(id, &path);
	id->cm = urxe_cm_new_id(urxe_agent_cm(agent), urxe_cma_conn_handler, id);
	if (!id->cm)
		return ENOMEM;
	err = urxe_cm_send_sidr_req(
		id->cm, &path, urxe_cma_service_id(id, &id->id.route.addr.dst_addr), data, len);
	if (err) {
		urxe_cm_destroy(id->cm);
		id->cm = NULL;
		return err;
	}
	id->state = URXE_CMA_CONNECT;
	return 0;
}

int urxe_cma_sidr_request(struct urxe_cma_id *id, struct urxe_cma_event *e,
			  const struct urxe_cm_event *ev)
{
	struct rdma_ud_param *ud = &e->event.param.ud;

	urxe_cma_event_data(e, &ud->private_data, &ud->private_data_len,
			    (const uint8_t *)ev->private_data + urxe_cma_hdr_len(id),
			    (uint8_t)(ev->private_len - urxe_cma_hdr_len(id)));
	return 0;
}

int urxe_cma_sidr_accept(struct urxe_cma_id *id, const struct rdma_conn_param *p)
{
	const struct urxe_cm_sidr_more more = {
		.ece = {id->local_ece.vendor_id, id->local_ece.options},
	};
	uint8_t len = urxe_cma_private_len(p);
	int err;

	if (id->state != URXE_CMA_REQUEST || !id->cm || (!p && !id->id.qp))
		return EINVAL;
	err = urxe_cm_send_sidr_rep_more(id->cm, URXE_CM_SIDR_SUCCESS,
					 id->id.qp ? id->id.qp->qp_num : p->qp_num, RDMA_UDP_QKEY,
					 &more, p ? p->private_data : NULL, len);
	/* As the kernel: what cannot be accepted is refused, and the peer need not wait. */
	if (err)
		urxe_cma_sidr_reject(id, NULL, 0);
	id->state = err ? URXE_CMA_DISCONNECT : URXE_CMA_CONNECT;
	return err;
}

int urxe_cma_sidr_reject(struct urxe_cma_id *id, const void *data, uint8_t len)
{
	return urxe_cm_send_sidr_rep(id->cm, URXE_CM_SIDR_REJECT, 0, 0, data, len);
}
