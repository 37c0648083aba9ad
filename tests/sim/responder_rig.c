/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A link that delays by 1 us and loses nothing. */
#include "responder_rig.h"

#include <stdio.h>
#include <string.h>

void rig_open_with(struct rig *r, const struct pair_params *pp)
{
	memset(r, 0, sizeof(*r));
	pair_open(&r->p, pp, IBV_QPT_RC);
	pair_meet(&r->p);
	raw_log_start(&r->log, &r->p);
	r->psn = 0xffffe0;
}

void rig_open(struct rig *r)
{
	struct pair_params pp = {.seed = 5, .link = {.latency = 1000}};

	rig_open_with(r, &pp);
}

void rig_close(struct rig *r)
{
	raw_log_stop(&r->log);
	pair_close(&r->p);
}

void put(struct rig *r, struct raw_pkt k)
{
	k.psn = r->psn;
	r->psn = urxe_psn_add(r->psn, 1);
	raw_send(&r->p.a, &r->p.b, &k);
}

void put_at(struct rig *r, uint32_t psn, struct raw_pkt k)
{
	k.psn = psn;
	raw_send(&r->p.a, &r->p.b, &k);
}

struct raw_pkt req(uint8_t opcode, uint32_t len)
{
	return (struct raw_pkt){.opcode = opcode, .len = len, .ackreq = true};
}

struct raw_pkt rdma(struct rig *r, uint8_t opcode, uint32_t off, uint32_t dmalen, uint32_t len)
{
	struct raw_pkt k = req(opcode, len);

	k.va = (uintptr_t)r->p.b.buf + off;
	k.rkey = r->p.b.mr->rkey;
	k.dmalen = dmalen;
	return k;
}

struct raw_pkt good_write(struct rig *r)
{
	return rdma(r, RC(WRITE_ONLY), 0, 8, 8);
}
struct raw_pkt good_read(struct rig *r)
{
	return rdma(r, RC(READ_REQUEST), 0, 8, 0);
}
struct raw_pkt good_atomic(struct rig *r)
{
	return rdma(r, RC(FETCH_ADD), 0, 0, 0);
}

const struct raw_seen *last(struct rig *r)
{
	static const struct raw_seen none;

	return r->log.n ? &r->log.v[r->log.n - 1] : &none;
}

bool answered(struct rig *r, uint8_t syndrome, uint32_t psn, uint32_t msn)
{
	const struct raw_seen *s = last(r);
	bool ok = s->from == &r->p.b && s->opcode == ACK && s->syndrome == syndrome &&
		  s->psn == (psn & URXE_PSN_MASK) && s->msn == msn;

	if (!ok)
		printf("\n    last answer: opcode %02x syndrome %02x psn %06x msn %u; "
		       "expected %02x %06x %u\n",
		       s->opcode, s->syndrome, s->psn, s->msn, syndrome, psn & URXE_PSN_MASK, msn);
	return ok;
}

int poll1(struct side *s, struct ibv_wc *wc)
{
	return ibv_poll_cq(s->cq, 1, wc);
}

void check_fatal(struct rig *r, uint8_t syndrome, uint32_t psn, int event)
{
	unsigned n;

	CU_ASSERT(answered(r, syndrome, psn, last(r)->msn));
	CU_ASSERT_EQUAL(pair_state(r->p.b.qp), IBV_QPS_ERR);
	CU_ASSERT_EQUAL(pair_event(&r->p.b), event);
	n = r->log.n;
	put_at(r, psn, rdma(r, RC(WRITE_ONLY), 0, 4, 4));
	put_at(r, psn, req(RC(SEND_ONLY), 4));
	CU_ASSERT_EQUAL(r->log.n, n);
	CU_ASSERT_EQUAL(r->p.b.buf[0], 0);
}

void expect_fatal(struct raw_pkt (*make)(struct rig *), uint8_t syndrome, int event)
{
	struct rig r;

	rig_open(&r);
	put(&r, make(&r));
	check_fatal(&r, syndrome, r.psn - 1, event);
	for (uint32_t i = 0; i < PAIR_BUF; i++) {
		if (r.p.b.buf[i]) {
			CU_FAIL("bytes were written");
			break;
		}
	}
	rig_close(&r);
}
