/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * flush-icrc of quirks.md: in which form a peer takes a FLUSH is found out. The standard one is
 * sent first; each ACK time-out of a FLUSH that nothing older stands before tries the other one,
 * until the peer has shown which is its own. Time-outs and retries are what they are without this.
 */
#include "provider.h"
#include "quirks.h"

static const char *const form_names[] = {
	[URXE_FLUSH_STANDARD] = "standard",
	[URXE_FLUSH_TWICE] = "headers twice",
};

static void known(struct urxe_qp *qp, enum urxe_flush_form form)
{
	struct urxe_requester *r = &qp->req;

	if (r->flush_known && r->flush_form == form)
		return;
	r->flush_form = (uint8_t)form;
	r->flush_known = true;
	r->flush_tried = false;
	urxe_debug("QP %06x: the peer's FLUSH has the ICRC: %s", qp->qpn, form_names[form]);
}

void urxe_quirk_flush_silent(struct urxe_qp *qp)
{
	struct urxe_requester *r = &qp->req;
	const struct urxe_swqe *wqe;

	if (r->flush_known || qp->sq.done == qp->sq.post)
		return;
	wqe = urxe_sq_at(&qp->sq, qp->sq.done);
	if (!(wqe->flags & URXE_WQE_STARTED) || wqe->opcode != URXEDV_WR_FLUSH)
		return;
	r->flush_form = r->flush_form == URXE_FLUSH_TWICE ? URXE_FLUSH_STANDARD : URXE_FLUSH_TWICE;
	r->flush_tried = true;
	r->flush_from = r->max_psn;
	urxe_debug("QP %06x: no answer to a FLUSH; next with the ICRC: %s", qp->qpn,
		   form_names[r->flush_form]);
}

/* An answer to what went out in both forms does not tell which one it was that arrived. */
void urxe_quirk_flush_answered(struct urxe_qp *qp, uint32_t psn)
{
	const struct urxe_requester *r = &qp->req;

	if (!r->flush_tried || urxe_psn_diff(psn, r->flush_from) >= 0)
		known(qp, (enum urxe_flush_form)r->flush_form);
}

void urxe_quirk_flush_received(struct urxe_qp *qp, const struct urxe_decoded *pkt)
{
	known(qp, pkt->flags & URXE_PKT_TWICE ? URXE_FLUSH_TWICE : URXE_FLUSH_STANDARD);
}
