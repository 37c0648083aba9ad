/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What changes objects that are there: SRQs, work queues, device memory, CQs. */
#include <errno.h>
#include <string.h>

#include "model.h"

void m_srq_modify(struct m_world *w)
{
	struct m_obj *o = m_pick(w, M_SRQ, -1, -1);
	struct ibv_srq_attr a = {.max_wr = m_rnd(w, M_QUEUE + 1), .srq_limit = m_rnd(w, 12)};
	int mask = (int)m_rnd(w, 5), want = 0;
	uint32_t max;

	if (!o)
		return;
	max = mask & IBV_SRQ_MAX_WR ? a.max_wr : o->rq.max_wr;
	if (mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT))
		want = EINVAL;
	else if (mask & IBV_SRQ_LIMIT && a.srq_limit > max)
		want = EINVAL;
	else if (mask & IBV_SRQ_MAX_WR && (!a.max_wr || a.max_wr < o->rq.n))
		want = EINVAL;
	if (m_check(w, "modify_srq", ibv_modify_srq(o->srq, &a, mask), want))
		o->rq.max_wr = max;
	if (m_check(w, "query_srq", ibv_query_srq(o->srq, &a), 0) &&
	    (a.max_wr != o->rq.max_wr || a.max_sge != o->rq.max_sge))
		m_fail(w, "query_srq: %u WRs of %u SGEs, not %u of %u", a.max_wr, a.max_sge,
		       o->rq.max_wr, o->rq.max_sge);
}

void m_wq_modify(struct m_world *w)
{
	static const bool allowed[3][3] = {/* to RESET, RDY, ERR */
					   [IBV_WQS_RESET] = {true, true, false},
					   [IBV_WQS_RDY] = {true, true, true},
					   [IBV_WQS_ERR] = {true, false, true}};
	struct m_obj *o = m_pick(w, M_WQ, -1, -1);
	struct ibv_wq_attr a = {.attr_mask = IBV_WQ_ATTR_STATE,
				.wq_state = (enum ibv_wq_state)m_rnd(w, 4),
				.curr_wq_state = (enum ibv_wq_state)m_rnd(w, 3)};
	int want;

	if (!o)
		return;
	if (!m_rnd(w, 4))
		a.attr_mask |= IBV_WQ_ATTR_CURR_STATE;
	want = a.wq_state > IBV_WQS_ERR || !allowed[o->wq_state][a.wq_state] ||
			       (a.attr_mask & IBV_WQ_ATTR_CURR_STATE &&
				a.curr_wq_state != o->wq_state)
		       ? EINVAL
		       : 0;
	if (!m_check(w, "modify_wq", ibv_modify_wq(o->wq, &a), want))
		return;
	o->wq_state = a.wq_state;
	for (unsigned i = 0; i < o->rq.n && a.wq_state == IBV_WQS_ERR; i++)
		m_expect(w, o->rcq, o->wq->wq_num, o->rq.v[i].id, IBV_WC_WR_FLUSH_ERR, 0, 0);
	if (a.wq_state != IBV_WQS_RDY)
		o->rq.n = 0;
}

void m_dm_copy(struct m_world *w)
{
	uint32_t off = m_rnd(w, M_DM_SIZE), len = m_rnd(w, 256);
	struct m_obj *dm = m_pick(w, M_DM, -1, -1);
	uint8_t buf[256];
	int want;

	if (!dm)
		return;
	if (m_rnd(w, 4))
		off &= ~3u, len &= ~3u;
	want = (off | len) & 3 || off + len > M_DM_SIZE ? EINVAL : 0;
	memset(buf, (int)m_rnd(w, 256), sizeof(buf));
	if (m_rnd(w, 2)) {
		if (m_check(w, "memcpy_to_dm", ibv_memcpy_to_dm(dm->dm, off, buf, len), want))
			memcpy(dm->mem + off, buf, len);
	} else if (m_check(w, "memcpy_from_dm", ibv_memcpy_from_dm(buf, dm->dm, off, len), want) &&
		   memcmp(buf, dm->mem + off, len)) {
		m_fail(w, "device memory holds something else");
	}
}

void m_cq_misc(struct m_world *w)
{
	struct ibv_modify_cq_attr a = {.attr_mask = IBV_CQ_ATTR_MODERATE,
				       .moderate = {(uint16_t)m_rnd(w, 4), (uint16_t)m_rnd(w, 50)}};
	struct m_obj *cq = m_pick(w, M_CQ, -1, -1);

	if (!cq)
		return;
	switch (m_rnd(w, 5)) {
	case 0:
		m_check(w, "resize_cq", ibv_resize_cq(cq->cq, 300 + (int)m_rnd(w, 2000)), 0);
		break;
	case 1:
		m_check(w, "resize_cq", ibv_resize_cq(cq->cq, m_rnd(w, 2) ? 0 : URXE_MAX_CQE),
			EINVAL);
		break;
	case 2:
		m_check(w, "req_notify_cq", ibv_req_notify_cq(cq->cq, 0), EINVAL);
		break;
	case 3:
		a.attr_mask |= 1u << 5;
		m_check(w, "modify_cq", ibv_modify_cq(cq->cq, &a), EINVAL);
		break;
	default:
		m_check(w, "modify_cq", ibv_modify_cq(cq->cq, &a), 0);
	}
}
