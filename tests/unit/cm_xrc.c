/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Transports in REQs and REPs, and what an XRC connection has where (IBTA A14). */
#include "cm_rig.h"

#include <stdbool.h>

static void req_of(struct rig *r, unsigned service, unsigned extended)
{
	uint8_t m[URXE_MAD_LEN];

	r->id = NULL;
	peer_mad(r, URXE_CM_IN_REQ, m);
	urxe_mad_put(m, URXE_REQ_TRANSPORT_SERVICE_TYPE, service);
	urxe_mad_put(m, URXE_REQ_EXT_TRANSPORT_TYPE, extended);
	urxe_cm_recv(r->cm, &r->src, m, sizeof(m));
}

/* All that the two fields can say: three of them are transports. */
static void transports(void)
{
	for (unsigned service = 0; service < 4; service++) {
		for (unsigned extended = 0; extended < 8; extended++) {
			bool known = (service < 2 && !extended) || (service == 3 && extended == 1);
			struct rig r;

			rig_open(&r, OWN_GUID);
			req_of(&r, service, extended);
			CU_ASSERT_EQUAL(!!r.id, known);
			if (!known) {
				CU_ASSERT_EQUAL(sent_attr(&r), URXE_MAD_REJ);
				CU_ASSERT_EQUAL(urxe_mad_get(r.sent, URXE_REJ_REASON), 9);
			}
			rig_close(&r);
		}
	}
}

static int mask_of(struct rig *r, enum ibv_qp_state state, struct ibv_qp_attr *attr)
{
	int mask = 0;

	memset(attr, 0, sizeof(*attr));
	attr->qp_state = state;
	CU_ASSERT_EQUAL(urxe_cm_init_qp_attr(r->id, attr, &mask), 0);
	return mask;
}

/* The target's QPN stands where EE contexts did, and it has SRQs whatever the consumer says. */
static void target(void)
{
	struct ibv_qp_attr attr;
	struct rig r;
	int mask;

	rig_open(&r, OWN_GUID);
	req_of(&r, 3, 1);
	CU_ASSERT_EQUAL(do_call(&r, URXE_CM_IN_SEND_REP), 0);
	CU_ASSERT_EQUAL(sent_attr(&r), URXE_MAD_REP);
	CU_ASSERT_EQUAL(urxe_mad_get(r.sent, URXE_REP_LOCAL_EECN), OWN_QPN);
	CU_ASSERT_EQUAL(urxe_mad_get(r.sent, URXE_REP_LOCAL_QPN), 0);
	CU_ASSERT_EQUAL(urxe_mad_get(r.sent, URXE_REP_SRQ), 1);
	mask = mask_of(&r, IBV_QPS_RTR, &attr);
	CU_ASSERT_EQUAL(attr.dest_qp_num, PEER_QPN);
	CU_ASSERT(mask & IBV_QP_MAX_DEST_RD_ATOMIC && mask & IBV_QP_MIN_RNR_TIMER);
	mask = mask_of(&r, IBV_QPS_RTS, &attr);
	CU_ASSERT(mask & IBV_QP_TIMEOUT && !(mask & IBV_QP_RETRY_CNT));
	rig_close(&r);
}

/* The initiator says so in its REQ, and finds the target's QPN there. */
static void initiator(void)
{
	uint8_t m[URXE_MAD_LEN];
	struct ibv_qp_attr attr;
	struct rig r;
	struct urxe_cm_req req = {.service_id = SERVICE, .qp_type = IBV_QPT_XRC_SEND};
	int mask;

	rig_open(&r, OWN_GUID);
	r.id = urxe_cm_new_id(r.cm, rig_handler, &r);
	req.path = rig_path(&r);
	req.conn.qpn = OWN_QPN;
	req.qp_type = IBV_QPT_XRC_RECV;
	CU_ASSERT_EQUAL(urxe_cm_send_req(r.id, &req), EINVAL);
	req.qp_type = IBV_QPT_XRC_SEND;
	CU_ASSERT_EQUAL(urxe_cm_send_req(r.id, &req), 0);
	CU_ASSERT_EQUAL(urxe_mad_get(r.sent, URXE_REQ_TRANSPORT_SERVICE_TYPE), 3);
	CU_ASSERT_EQUAL(urxe_mad_get(r.sent, URXE_REQ_EXT_TRANSPORT_TYPE), 1);
	peer_mad(&r, URXE_CM_IN_REP, m);
	urxe_mad_put(m, URXE_REP_LOCAL_QPN, 0);
	urxe_mad_put(m, URXE_REP_LOCAL_EECN, PEER_QPN);
	urxe_cm_recv(r.cm, &r.src, m, sizeof(m));
	CU_ASSERT_EQUAL(r.event, URXE_CM_EV_REP_RECEIVED);
	mask = mask_of(&r, IBV_QPS_RTR, &attr);
	CU_ASSERT_EQUAL(attr.dest_qp_num, PEER_QPN);
	CU_ASSERT_FALSE(mask & IBV_QP_MAX_DEST_RD_ATOMIC);
	mask = mask_of(&r, IBV_QPS_RTS, &attr);
	CU_ASSERT(mask & IBV_QP_RETRY_CNT && mask & IBV_QP_TIMEOUT);
	rig_close(&r);
}

URXE_TEST_MAIN("cm_xrc", T(transports), T(target), T(initiator))
