/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Raw packet QPs: whole Ethernet frames out, and in by flow rules (flow.c). The stack goes on
 * beside them: what is for it reaches it as well.
 */
#include <errno.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "provider.h"
#include "rate.h"
#include "raw.h"
#include "requester.h"
#include "responder.h"
#include "sge.h"
#include "wq.h"

int urxe_raw_check_permission(void)
{
	struct __user_cap_header_struct hdr = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {{0}};

	/* As with a kernel device: who may open packet sockets may do this. */
	if (syscall(SYS_capget, &hdr, data))
		return EPERM;
	return data[0].effective & 1u << CAP_NET_RAW ? 0 : EPERM;
}

/* 0; EAGAIN: later; EFAULT: bad lkey, or no memory; EMSGSIZE. */
static int raw_send(struct urxe_qp *qp, struct urxe_lane *lane, const struct urxe_swqe *wqe)
	URXE_REQUIRES(lane)
{
	bool in_line = wqe->flags & URXE_WQE_INLINE;
	struct urxe_tx tx;
	int err;

	if (wqe->length && !in_line &&
	    !urxe_sge_check(qp->dev, qp->pd, wqe->sge, wqe->num_sge, 0, wqe->length, 0))
		return EFAULT;
	err = urxe_raw_begin(lane, &tx, wqe->length);
	if (err)
		return err;
	if (in_line)
		urxe_tx_append(&tx, wqe->data, wqe->length);
	else if (!urxe_sge_gather(qp->dev, qp->pd, wqe->sge, wqe->num_sge, 0, wqe->length, &tx)) {
		urxe_tx_abort(lane, &tx);
		return EFAULT;
	}
	return urxe_raw_commit(lane, &tx);
}

struct urxe_sent urxe_raw_run(struct urxe_qp *qp, struct urxe_lane *lane, uint64_t now)
{
	struct urxe_sq *sq = &qp->sq;
	struct urxe_sent sent = {0};

	while (qp->state == IBV_QPS_RTS && sq->cur != sq->post) {
		const struct urxe_swqe *wqe = urxe_sq_at(sq, sq->cur);
		int err;

		if (urxe_pace_wait(qp, 0, now))
			break;
		err = raw_send(qp, lane, wqe);
		if (err == EAGAIN) {
			sent.more = true;
			break;
		}
		urxe_pace_sent(qp, 0, now, wqe->length);
		if (!err)
			sent.packets++;
		urxe_requester_complete(qp, !err	    ? IBV_WC_SUCCESS
					    : err == EFAULT ? IBV_WC_LOC_PROT_ERR
							    : IBV_WC_LOC_LEN_ERR);
		if (err)
			urxe_qp_sq_error(qp);
	}
	return sent;
}

void urxe_raw_receive(struct urxe_qp *qp, const uint8_t *frame, uint32_t len)
{
	struct urxe_responder *r = &qp->resp;
	struct ibv_wc wc;
	int err;

	if (qp->rss && !qp->destroyed) {
		urxe_rss_receive(qp->rss, frame, len);
		return;
	}
	if (qp->destroyed || qp->state < IBV_QPS_RTR || qp->state == IBV_QPS_ERR)
		return;
	/* As datagrams: without room the frame is lost, the QP lives on. */
	err = urxe_responder_take_rwqe(qp, len);
	if (err) {
		urxe_stat_inc(qp->dev,
			      err == ENOENT ? URXE_STAT_RX_UD_NO_RECV : URXE_STAT_RX_UD_TOO_LONG);
		return;
	}
	if (!urxe_sge_scatter(qp->dev, r->recv_pd, r->rwqe->sge, r->rwqe->num_sge, 0, frame, len)) {
		urxe_responder_finish_recv(qp, IBV_WC_LOC_PROT_ERR, NULL, 0);
		urxe_qp_fatal(qp, IBV_EVENT_QP_FATAL);
		return;
	}
	urxe_qp_wc(qp, &wc, urxe_responder_end_recv(qp), IBV_WC_SUCCESS, IBV_WC_RECV);
	wc.byte_len = len;
	urxe_responder_push(qp, &wc, true);
}
