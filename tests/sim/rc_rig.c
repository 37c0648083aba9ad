/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A requester, and its peer that the test plays. */
#include <stdio.h>
#include <string.h>

#include "harness.h"
#include "rc_rig.h"

void rc_open(struct rc_rig *r, const struct pair_params *params)
{
	struct pair_params pp = *params;

	memset(r, 0, sizeof(*r));
	pp.seed = 9;
	pp.link.latency = 1000;
	pair_open(&r->p, &pp, IBV_QPT_RC);
	pair_meet(&r->p);
	raw_log_start(&r->log, &r->p);
	r->psn = 0xffffe0;
}

void rc_close(struct rc_rig *r)
{
	raw_log_stop(&r->log);
	pair_close(&r->p);
}

void rc_silence(struct rc_rig *r)
{
	struct urxe_sim_params deaf = {.latency = 1000, .loss = 1};

	urxe_sim_end_params(r->p.b.end, &deaf);
}

void rc_no_peer(struct rc_rig *r)
{
	rc_silence(r);
	pair_modify(r->p.b.qp, IBV_QPS_RESET);
}

void rc_answer(struct rc_rig *r, uint8_t opcode, uint32_t psn, uint8_t syndrome, uint32_t len)
{
	struct raw_pkt k = {.opcode = opcode, .psn = psn, .syndrome = syndrome, .len = len};

	raw_send(&r->p.b, &r->p.a, &k);
}

int rc_post(struct rc_rig *r, enum ibv_wr_opcode op, uint64_t id, uint32_t len)
{
	return pair_post(&r->p.a, op, id, 0x1000 * (uint32_t)id, len, &r->p.b,
			 0x1000 * (uint32_t)id, IBV_SEND_SIGNALED);
}

bool rc_wc_is(struct rc_rig *r, uint64_t id, enum ibv_wc_status status)
{
	struct ibv_wc wc;
	bool got = pair_wait(&r->p, r->p.a.cq, &wc);

	if (got && (wc.wr_id != id || wc.status != status))
		printf("\n    wr %llu: %s, expected %llu: %s\n", (unsigned long long)wc.wr_id,
		       ibv_wc_status_str(wc.status), (unsigned long long)id,
		       ibv_wc_status_str(status));
	return got && wc.wr_id == id && wc.status == status;
}

bool rc_wc_now(struct rc_rig *r, uint64_t id, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	return ibv_poll_cq(r->p.a.cq, 1, &wc) == 1 && wc.wr_id == id && wc.status == status;
}

bool rc_no_wc(struct rc_rig *r)
{
	struct ibv_wc wc;

	return ibv_poll_cq(r->p.a.cq, 1, &wc) == 0;
}

void rc_answer_part(struct rc_rig *r, uint32_t first, uint32_t i)
{
	rc_answer(r,
		  i == 0   ? RC(READ_RESPONSE_FIRST)
		  : i == 7 ? RC(READ_RESPONSE_LAST)
			   : RC(READ_RESPONSE_MIDDLE),
		  r->psn + first + i, OK_AETH, 1024);
}

bool rc_sent(struct rc_rig *r, unsigned from, unsigned n, uint32_t first, uint32_t last)
{
	bool ok = r->log.n - from == n &&
		  (!n || (r->log.v[from].psn == urxe_psn_add(r->psn, first) &&
			  r->log.v[r->log.n - 1].psn == urxe_psn_add(r->psn, last)));

	if (!ok)
		printf("\n    sent %u packets, from %d to %d; expected %u, from %u to %u",
		       r->log.n - from,
		       r->log.n > from ? urxe_psn_diff(r->log.v[from].psn, r->psn) : -1,
		       r->log.n ? urxe_psn_diff(r->log.v[r->log.n - 1].psn, r->psn) : -1, n, first,
		       last);
	return ok;
}
