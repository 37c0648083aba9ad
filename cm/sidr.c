/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* RDMA_PS_UDP: the peer's QPN and Q_Key by service id resolution (IBTA 12.11). */
#include <errno.h>
#include <string.h>

#include "cm/cma.h"

#define SIDR_USER_LEN (URXE_SIDR_REQ_PRIVATE_LEN - URXE_IP_CM_HDR_LEN)

int urxe_cma_sidr_connect(struct urxe_cma_id *id, const struct rdma_conn_param *p)
{
	struct urxe_ip_cm_hdr h = {
		.ip_version = urxe_cma_addr_v4(&id->id.route.addr.dst_addr) ? 4 : 6,
		.src_port = urxe_cma_addr_port(&id->id.route.addr.src_addr),
	};
	uint8_t data[URXE_SIDR_REQ_PRIVATE_LEN], len = p ? p->private_data_len : 0;
	struct urxe_agent *agent;
	struct urxe_cm_path path;
	int err;

	if (id->state != URXE_CMA_ROUTE_RESOLVED || id->connect_len + len > SIDR_USER_LEN ||
	    (len && !p->private_data))
		return EINVAL;
	err = urxe_agent_get(id->dev, &agent);
	if (err)
		return err;
	memcpy(h.src, id->sgid.raw, 16);
	memcpy(h.dst, id->dgid.raw, 16);
	urxe_ip_cm_hdr_put(data, &h);
	if (id->connect_len)
		memcpy(data + URXE_IP_CM_HDR_LEN, id->connect, id->connect_len);
	if (len)
		memcpy(data + URXE_IP_CM_HDR_LEN + id->connect_len, p->private_data, len);
	urxe_cma_path(id, &path);
	id->cm = urxe_cm_new_id(urxe_agent_cm(agent), urxe_cma_conn_handler, id);
	if (!id->cm)
		return ENOMEM;
	err = urxe_cm_send_sidr_req(id->cm, &path,
				    urxe_cma_service_id(id, &id->id.route.addr.dst_addr), data,
				    (uint8_t)(URXE_IP_CM_HDR_LEN + id->connect_len + len));
	if (err) {
		urxe_cm_destroy(id->cm);
		id->cm = NULL;
		return err;
	}
	id->state = URXE_CMA_CONNECT;
	urxe_agent_kick(agent);
	return 0;
}

int urxe_cma_sidr_request(struct urxe_cma_id *id, struct urxe_cma_event *e,
			  const struct urxe_cm_event *ev)
{
	struct rdma_ud_param *ud = &e->event.param.ud;

	urxe_cma_event_data(e, &ud->private_data, &ud->private_data_len,
			    (const uint8_t *)ev->private_data + URXE_IP_CM_HDR_LEN,
			    (uint8_t)(ev->private_len - URXE_IP_CM_HDR_LEN));
	return 0;
}

int urxe_cma_sidr_accept(struct urxe_cma_id *id, const struct rdma_conn_param *p)
{
	uint8_t len = p ? p->private_data_len : 0;
	int err;

	if (id->state != URXE_CMA_REQUEST || !id->cm || (!p && !id->id.qp) ||
	    len > URXE_SIDR_REP_PRIVATE_LEN || (len && !p->private_data))
		return EINVAL;
	err = urxe_cm_send_sidr_rep(id->cm, URXE_CM_SIDR_SUCCESS,
				    id->id.qp ? id->id.qp->qp_num : p->qp_num, RDMA_UDP_QKEY,
				    p ? p->private_data : NULL, len);
	if (!err)
		id->state = URXE_CMA_CONNECT;
	return err;
}

int urxe_cma_sidr_reject(struct urxe_cma_id *id, const void *data, uint8_t len)
{
	return urxe_cm_send_sidr_rep(id->cm, URXE_CM_SIDR_REJECT, 0, 0, data, len);
}
