/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A domain of XRC that several processes of a fabric share, by the inode of a file. A target QP is
 * one process's, and puts the requests of its connection in order; the SRQ that a request names may
 * be another one's, and only that can write to the memory of the SRQ's receives. So the *lender*,
 * who has the QP, gives each such request to the *borrower*, who has the SRQ, in a packet of our
 * own, and goes on when that has told what came of it (stall.h): one request at a time. The peer
 * sees nothing of it: the lender answers.
 *
 * The borrower has a *guest* for each such QP: a QP that nobody finds, with the state of the
 * message that is under way, by which the responder executes requests as it does others. A lent
 * request has a number, higher than those before it. What comes twice is answered twice, and
 * executed once. An answer that is lost is asked for again when the peer asks the lender.
 *
 * Lent are SENDs and WRITEs. The answers of READs and ATOMICs are kept for their duplicates with
 * the connection, and made of the memory of the SRQ's process: those are refused.
 */
#include <stdlib.h>
#include <string.h>

#include "provider.h"
#include "lend.h"
#include "progress.h"
#include "responder.h"
#include "stall.h"
#include "rcu.h"
#include "xrc.h"
#include "netio/identity.h"

/*
 * Behind the BTH. Of a request the BTH has the SRQ's number as destination, SE, and as PSN the QPN
 * of the peer; of an answer the lender's QPN.
 *	0  24 bits: the lender's QPN	3  opcode; answer: AETH syndrome
 *	4  64 bits: number		12 56 bits: domain	19 FLAGS
 *	20 ImmDt or R_Key to invalidate	24 RETH
 */
enum {
	LEND_QPN = 0,
	LEND_OPCODE = 3,
	LEND_NUMBER = 4,
	ANSWER_LEN = 12,
	LEND_DOMAIN = 12,
	LEND_IMM = 20,
	LEND_RETH = 24,
	LEND_LEN = 40, /* what the path MTU leaves for extension headers (netio/mtu.c) */
};

#define FLAG_MTU   0x0f /* log2 of the path MTU */
#define FLAG_WRITE 0x10 /* IBV_ACCESS_REMOTE_WRITE */

#define GUESTS_MAX 1024 /* then the one longest idle goes */

/* ---- the lender ---- */

struct lend {
	struct urxe_stall stall;
	struct urxe_decoded pkt;
	uint64_t number;
	bool unsent;
	uint8_t payload[];
};

static struct lend *to_lend(struct urxe_stall *s)
{
	return urxe_container_of(s, struct lend, stall);
}

/* From one of our addresses to the same, which is the other process's as well. */
static int own_path(struct urxe_device *dev, unsigned sgid_index, struct urxe_path **path)
{
	struct urxe_path_attr a = {.sgid_index = sgid_index, .udp_sport = 0xc000};
	struct urxe_gid_entry own;
	int err = urxe_port_gid(dev->port, sgid_index, &own);

	if (err)
		return err;
	memcpy(a.dgid, own.gid, sizeof(a.dgid));
	return urxe_path_create(dev->port, &a, path);
}

static int begin(struct urxe_lane *lane, struct urxe_path *path, const struct urxe_bth *bth,
		 const uint8_t *head, uint32_t head_len, uint32_t payload, struct urxe_tx *tx)
	URXE_REQUIRES(lane)
{
	int err = urxe_tx_begin(lane, path, bth->dqpn, tx,
				URXE_BTH_LEN + head_len + payload + bth->pad);

	if (err)
		return err;
	urxe_bth_put(tx->bth, bth);
	urxe_tx_headers(tx, URXE_BTH_LEN);
	err = urxe_tx_append(tx, head, head_len);
	if (err)
		urxe_tx_abort(lane, tx);
	return err;
}

static void put_request(const struct urxe_qp *qp, const struct lend *l, uint8_t head[LEND_LEN])
{
	const struct urxe_decoded *pkt = &l->pkt;
	uint64_t flags = qp->mtu_shift;

	if (qp->access & IBV_ACCESS_REMOTE_WRITE)
		flags |= FLAG_WRITE;
	memset(head, 0, LEND_LEN);
	urxe_put24(head + LEND_QPN, qp->qpn);
	head[LEND_OPCODE] = pkt->opcode;
	urxe_put64(head + LEND_NUMBER, l->number);
	urxe_put64(head + LEND_DOMAIN, urxe_xrc_domain_id(qp->domain) << 8 | flags);
	if (pkt->what & URXE_OPF_IMM)
		memcpy(head + LEND_IMM, &pkt->imm, sizeof(pkt->imm));
	else if (pkt->what & URXE_OPF_IETH)
		urxe_put32(head + LEND_IMM, pkt->inv_rkey);
	if (pkt->what & URXE_OPF_RETH)
		urxe_reth_put(head + LEND_RETH, pkt->reth.va, pkt->reth.rkey, pkt->reth.length);
}

static int send_request(struct urxe_qp *qp, struct lend *l, struct urxe_lane *lane)
	URXE_REQUIRES(qp->lock, lane)
{
	const struct urxe_bth bth = {
		.opcode = URXE_OPCODE_LEND,
		.solicited = l->pkt.solicited,
		.pad = (4 - (l->pkt.length & 3)) & 3,
		.pkey = URXE_DEFAULT_PKEY,
		.dqpn = l->pkt.srqn,
		.psn = qp->dqpn,
	};
	uint8_t head[LEND_LEN];
	struct urxe_tx tx;
	int err = 0;

	if (!qp->lend_path)
		err = own_path(qp->dev, qp->attr.ah_attr.grh.sgid_index, &qp->lend_path);
	if (err)
		return err;
	put_request(qp, l, head);
	err = begin(lane, qp->lend_path, &bth, head, sizeof(head), l->pkt.length, &tx);
	if (err)
		return err;
	urxe_tx_append(&tx, l->payload, l->pkt.length);
	urxe_tx_append(&tx, NULL, bth.pad);
	urxe_tx_commit(lane, &tx);
	return 0;
}

/* What came of a request; the QP goes on. */
static void over(struct urxe_qp *qp, struct lend *l, uint8_t syndrome, uint64_t now)
	URXE_REQUIRES(qp->lock)
{
	qp->resp.stall = NULL;
	qp->resp.lent = syndrome == URXE_AETH_ACK && !(l->pkt.what & URXE_OPF_LAST);
	urxe_responder_lent(qp, &l->pkt, syndrome);
	urxe_stall_end(qp, &l->stall, now);
	free(l);
}

static bool run_lend(struct urxe_qp *qp, struct urxe_stall *s, struct urxe_lane *lane,
		     struct urxe_sent *sent) URXE_REQUIRES(qp->lock, lane)
{
	struct lend *l = to_lend(s);
	int err;

	if (!l->unsent)
		return false;
	err = send_request(qp, l, lane);
	if (err == EAGAIN || err == EINPROGRESS) {
		sent->more = true;
		return false;
	}
	if (err) {
		over(qp, l, URXE_AETH_NAK | URXE_NAK_INVALID_REQ, urxe_port_now(qp->dev->port));
		return true;
	}
	l->unsent = false;
	sent->packets++;
	return false;
}

/* Its answer may be lost. */
static void lend_again(struct urxe_qp *qp, struct urxe_stall *s)
{
	to_lend(s)->unsent = true;
	urxe_progress_defer(qp);
}

static void lend_cancel(struct urxe_qp *qp, struct urxe_stall *s)
{
	urxe_stall_drop(s);
	free(to_lend(s));
}

static const struct urxe_stall_ops lend_ops = {
	.run = run_lend, .again = lend_again, .cancel = lend_cancel};

static uint64_t next_number(struct urxe_qp *qp) URXE_REQUIRES(qp->lock)
{
	uint64_t now = urxe_port_now(qp->dev->port);

	/* Higher than of any QP that had this QPN before, too. */
	qp->resp.lend_number = now > qp->resp.lend_number ? now : qp->resp.lend_number + 1;
	return qp->resp.lend_number;
}

bool urxe_lend(struct urxe_qp *qp, const struct urxe_decoded *pkt)
{
	struct urxe_responder *r = &qp->resp;
	struct lend *l;

	if (!urxe_ident_is_others(urxe_port_ident(qp->dev->port), pkt->srqn) ||
	    !urxe_xrc_domain_id(qp->domain) || !(pkt->what & (URXE_OPF_SEND | URXE_OPF_WRITE)) ||
	    pkt->length > qp->mtu || (r->state != URXE_RESP_EXPECT_FIRST && pkt->srqn != r->srqn))
		return false;
	r->srqn = pkt->srqn;
	l = malloc(sizeof(*l) + pkt->length);
	if (!l) {
		urxe_stat_inc(qp->dev, URXE_STAT_RX_NO_MEMORY);
		return true;
	}
	urxe_decoded_copy(&l->pkt, pkt, l->payload);
	l->number = next_number(qp);
	l->unsent = r->lent = true;
	urxe_stall_begin(qp, &l->stall, &lend_ops);
	urxe_progress_defer(qp);
	return true;
}

void urxe_lend_leave(struct urxe_qp *qp, struct urxe_lane *lane, struct urxe_sent *sent)
{
	const struct urxe_bth bth = {.opcode = URXE_OPCODE_LEND,
				     .pkey = URXE_DEFAULT_PKEY,
				     .dqpn = qp->resp.srqn,
				     .psn = qp->dqpn};
	struct lend l = {.pkt = {.opcode = URXE_OPCODE_LEND}};
	uint8_t head[LEND_LEN];
	struct urxe_tx tx;

	if (!qp->resp.lent || !qp->lend_path)
		return;
	qp->resp.lent = false;
	l.number = next_number(qp);
	put_request(qp, &l, head);
	if (begin(lane, qp->lend_path, &bth, head, sizeof(head), 0, &tx))
		return; /* there is no room: it waits until we die, or lend again */
	urxe_tx_commit(lane, &tx);
	sent->packets++;
}

/* ---- the borrower ---- */

struct guest {
	struct urxe_qp qp;
	struct cds_list_head node; /* on dev->guests, the one used last at the end; the lane's */
	uint64_t number;
	uint8_t syndrome; /* what came of it */
	struct urxe_stall stall;
};

static void guest_free(struct guest *g)
{
	cds_list_del(&g->node);
	g->qp.dev->num_guests--;
	urxe_spin_lock(&g->qp.lock);
	g->qp.destroyed = true;
	g->qp.resp.stall = NULL;
	urxe_spin_unlock(&g->qp.lock);
	urxe_progress_forget(&g->qp);
	urxe_path_destroy(g->qp.path);
	free(g->qp.resp.rwqe);
	/* Somebody may have taken it off the pending list. */
	urxe_rcu_free(&g->qp.rcu, g);
}

/* A message that will not be finished: its receive fails, as when a QP does. */
static void abandon(struct urxe_qp *qp) URXE_REQUIRES(qp->lock)
{
	if (qp->resp.in_recv)
		urxe_responder_finish_recv(qp, IBV_WC_WR_FLUSH_ERR, NULL, 0);
	qp->resp.state = URXE_RESP_EXPECT_FIRST;
}

/* Of each in its turn: cds_list_for_each_entry() would take the list's head for one, which is not
 * where a guest could be. */
static struct guest *guest_at(struct cds_list_head *node)
{
	return urxe_container_of(node, struct guest, node);
}

static struct guest *guest_find(struct urxe_device *dev, uint32_t qpn)
{
	struct cds_list_head *node;

	cds_list_for_each (node, &dev->guests) {
		struct guest *g = guest_at(node);

		if (g->qp.qpn != qpn)
			continue;
		cds_list_del(&g->node);
		cds_list_add_tail(&g->node, &dev->guests);
		return g;
	}
	return NULL;
}

static void make_room(struct urxe_device *dev)
{
	struct cds_list_head *node, *next;

	cds_list_for_each_safe (node, next, &dev->guests) {
		struct guest *g = guest_at(node);

		if (g->qp.resp.in_recv)
			continue;
		guest_free(g);
		return;
	}
}

static struct guest *guest_make(struct urxe_device *dev, uint32_t qpn, unsigned sgid_index)
{
	struct guest *g;
	struct urxe_qp *qp;

	if (dev->num_guests >= GUESTS_MAX)
		make_room(dev);
	g = dev->num_guests < GUESTS_MAX ? urxe_alloc_lines(sizeof(*g)) : NULL;
	if (!g)
		return NULL;
	qp = &g->qp;
	qp->resp.rwqe = calloc(1, sizeof(struct urxe_rwqe) + URXE_MAX_SGE * sizeof(struct ibv_sge));
	if (!qp->resp.rwqe || own_path(dev, sgid_index, &qp->path)) {
		free(qp->resp.rwqe);
		free(g);
		return NULL;
	}
	qp->resp.shared = true;
	qp->dev = dev;
	qp->real = qp;
	qp->qpn = qpn;
	urxe_qp_set_type(qp, IBV_QPT_XRC_RECV);
	qp->state = IBV_QPS_RTS;
	qp->rq = &qp->own_rq;
	qp->req.deadline = URXE_NEVER;
	CDS_INIT_LIST_HEAD(&qp->mcast);
	CDS_INIT_LIST_HEAD(&qp->windows);
	CDS_INIT_LIST_HEAD(&qp->opens);
	CDS_INIT_LIST_HEAD(&qp->resp.kept);
	CDS_INIT_LIST_HEAD(&qp->resp.spent);
	cds_list_add_tail(&g->node, &dev->guests);
	dev->num_guests++;
	return g;
}

static bool run_answer(struct urxe_qp *qp, struct urxe_stall *s, struct urxe_lane *lane,
		       struct urxe_sent *sent) URXE_REQUIRES(qp->lock, lane)
{
	const struct guest *g = urxe_container_of(s, struct guest, stall);
	const struct urxe_bth bth = {
		.opcode = URXE_OPCODE_LENT, .pkey = URXE_DEFAULT_PKEY, .dqpn = qp->qpn};
	uint8_t head[ANSWER_LEN];
	struct urxe_tx tx;
	int err;

	urxe_put24(head + LEND_QPN, qp->qpn);
	head[LEND_OPCODE] = g->syndrome;
	urxe_put64(head + LEND_NUMBER, g->number);
	err = begin(lane, qp->path, &bth, head, sizeof(head), 0, &tx);
	if (err == EAGAIN || err == EINPROGRESS) {
		sent->more = true;
		return false;
	}
	if (!err) {
		urxe_tx_commit(lane, &tx);
		sent->packets++;
	}
	qp->resp.stall = NULL;
	return true;
}

static void answer_cancel(struct urxe_qp *qp, struct urxe_stall *s)
{
	urxe_stall_drop(s);
}

static const struct urxe_stall_ops answer_ops = {.run = run_answer, .cancel = answer_cancel};

/* A lent request, as it was when the lender received it. */
struct lent {
	struct urxe_decoded pkt;
	uint32_t qpn, dest_qpn;
	uint64_t number, domain;
	uint8_t mtu_shift;
	bool write, end; /* no request: the QP goes */
};

static bool read_request(const struct urxe_decoded *outer, struct lent *in)
{
	uint8_t head[LEND_LEN]; /* a copy: who has sent it may change it */
	struct urxe_decoded *pkt = &in->pkt;
	uint64_t word;

	if (outer->length < LEND_LEN)
		return false;
	memcpy(head, outer->payload, LEND_LEN);
	*pkt = *outer;
	pkt->payload += LEND_LEN;
	pkt->length -= LEND_LEN;
	in->qpn = urxe_get24(head + LEND_QPN);
	in->dest_qpn = outer->psn;
	in->number = urxe_get64(head + LEND_NUMBER);
	word = urxe_get64(head + LEND_DOMAIN);
	in->domain = word >> 8;
	in->mtu_shift = word & FLAG_MTU;
	in->write = word & FLAG_WRITE;
	pkt->opcode = head[LEND_OPCODE];
	pkt->op = &urxe_opcode_table[pkt->opcode];
	pkt->what = pkt->op->flags;
	pkt->srqn = outer->dqpn;
	in->end = pkt->opcode == URXE_OPCODE_LEND;
	if (pkt->what & URXE_OPF_IMM)
		memcpy(&pkt->imm, head + LEND_IMM, sizeof(pkt->imm));
	else if (pkt->what & URXE_OPF_IETH)
		pkt->inv_rkey = urxe_get32(head + LEND_IMM);
	pkt->reth.va = urxe_reth_va(head + LEND_RETH);
	pkt->reth.rkey = urxe_reth_rkey(head + LEND_RETH);
	pkt->reth.length = urxe_reth_len(head + LEND_RETH);
	return in->end ||
	       (in->mtu_shift >= 8 && in->mtu_shift <= 12 && pkt->what & URXE_OPF_XRCETH &&
		pkt->what & (URXE_OPF_SEND | URXE_OPF_WRITE));
}

/* Its syndrome. */
static uint8_t execute(struct urxe_qp *qp, const struct lent *in) URXE_REQUIRES(qp->lock)
{
	struct urxe_srq *srq = urxe_xrc_srq_any(qp->dev, in->pkt.srqn);
	uint8_t state = qp->resp.state;

	if (in->pkt.what & URXE_OPF_FIRST) {
		abandon(qp);
		qp->domain = srq ? srq->domain : NULL;
		state = URXE_RESP_EXPECT_FIRST;
	}
	if (!srq || srq->domain != qp->domain || urxe_xrc_domain_id(srq->domain) != in->domain) {
		abandon(qp);
		return URXE_AETH_NAK | URXE_NAK_INVALID_REQ;
	}
	qp->dqpn = in->dest_qpn;
	qp->access = in->write ? IBV_ACCESS_REMOTE_WRITE : 0;
	qp->mtu_shift = in->mtu_shift;
	qp->mtu = 1u << in->mtu_shift;
	qp->resp.nak_due = false;
	urxe_responder_execute(qp, &in->pkt);
	qp->resp.ack_due = URXE_ACK_NONE;
	if (!qp->resp.nak_due)
		return URXE_AETH_ACK;
	/* The lender's QP waits for the peer, or fails. */
	qp->resp.nak_due = false;
	qp->resp.state = qp->resp.state == URXE_RESP_FATAL ? URXE_RESP_EXPECT_FIRST : state;
	return qp->resp.nak_syndrome;
}

static void serve_guest(struct guest *g, struct urxe_lane *lane) URXE_REQUIRES(g->qp.lock, lane)
{
	struct urxe_sent sent = {0};

	urxe_stall_begin(&g->qp, &g->stall, &answer_ops);
	urxe_stall_run(&g->qp, lane, &sent);
	urxe_stat_add(g->qp.dev, URXE_STAT_TX_PACKETS, sent.packets);
	if (sent.more)
		urxe_progress_defer(&g->qp);
}

/* Processes with our addresses alone: others have no domains of this host. */
static bool from_here(const struct urxe_device *dev, const struct urxe_decoded *pkt)
{
	struct urxe_gid_entry own;

	return urxe_port_shared(dev->port) && pkt->sgid_index >= 0 &&
	       !urxe_port_gid(dev->port, (unsigned)pkt->sgid_index, &own) &&
	       !memcmp(own.gid, pkt->sgid, sizeof(pkt->sgid));
}

static enum urxe_stat receive_request(struct urxe_device *dev, struct urxe_lane *lane,
				      const struct urxe_decoded *outer) URXE_REQUIRES(lane)
{
	enum urxe_stat bad = URXE_STAT_NONE;
	struct guest *g;
	struct lent in;

	if (!read_request(outer, &in))
		return URXE_STAT_RX_BAD_LENGTH;
	g = guest_find(dev, in.qpn);
	if (!g && !in.end)
		g = guest_make(dev, in.qpn, (unsigned)outer->sgid_index);
	if (!g)
		return URXE_STAT_RX_NO_QP;
	urxe_spin_lock(&g->qp.lock);
	if (in.number < g->number) {
		bad = URXE_STAT_RX_DUPLICATE;
	} else if (in.end) {
		g->number = in.number;
		abandon(&g->qp);
	} else {
		if (in.number > g->number)
			g->syndrome = execute(&g->qp, &in);
		g->number = in.number;
		serve_guest(g, lane);
	}
	urxe_spin_unlock(&g->qp.lock);
	return bad;
}

static enum urxe_stat receive_answer(struct urxe_device *dev, struct urxe_lane *lane,
				     const struct urxe_decoded *pkt, uint64_t now)
	URXE_REQUIRES(lane)
{
	struct urxe_qp *qp = urxe_table_get(&dev->qps, pkt->dqpn & dev->qpn_mask);
	struct urxe_sent sent = {0};
	uint8_t head[ANSWER_LEN];
	struct urxe_stall *s;

	if (pkt->length < ANSWER_LEN)
		return URXE_STAT_RX_BAD_LENGTH;
	if (!qp || qp->qpn != pkt->dqpn)
		return URXE_STAT_RX_NO_QP;
	memcpy(head, pkt->payload, ANSWER_LEN);
	urxe_spin_lock(&qp->lock);
	s = qp->resp.stall;
	if (!qp->destroyed && s && s->ops == &lend_ops &&
	    to_lend(s)->number == urxe_get64(head + LEND_NUMBER)) {
		over(qp, to_lend(s), head[LEND_OPCODE], now);
		sent = urxe_responder_run(qp, lane);
		urxe_stat_add(dev, URXE_STAT_TX_PACKETS, sent.packets);
	}
	urxe_spin_unlock(&qp->lock);
	if (sent.more)
		urxe_progress_defer(qp);
	return URXE_STAT_NONE;
}

enum urxe_stat urxe_lend_receive(struct urxe_device *dev, struct urxe_lane *lane,
				 const struct urxe_decoded *pkt, uint64_t now)
{
	if (!from_here(dev, pkt))
		return URXE_STAT_RX_BAD_OPCODE;
	return pkt->opcode == URXE_OPCODE_LEND ? receive_request(dev, lane, pkt)
					       : receive_answer(dev, lane, pkt, now);
}

/* ---- deaths, and the end ---- */

static bool is_of(uint32_t number, const uint64_t slots[4])
{
	unsigned slot = urxe_ident_qpn_slot(number);

	return slots[slot / 64] >> slot % 64 & 1;
}

/* Nobody will answer for it. */
static void refuse(struct urxe_qp *qp, uint64_t now) URXE_REQUIRES(qp->lock)
{
	over(qp, to_lend(qp->resp.stall), URXE_AETH_NAK | URXE_NAK_INVALID_REQ, now);
	urxe_progress_defer(qp);
}

static bool waits_for(const struct urxe_qp *qp, const uint64_t slots[4]) URXE_REQUIRES(qp->lock)
{
	struct urxe_stall *s = qp->resp.stall;

	return !qp->destroyed && s && s->ops == &lend_ops && is_of(to_lend(s)->pkt.srqn, slots);
}

void urxe_lend_gone(struct urxe_device *dev, const uint64_t slots[4])
{
	struct urxe_lane *lane = urxe_port_lane(dev->port, 0);
	uint64_t now = urxe_port_now(dev->port);
	struct cds_list_head *node, *next;
	struct urxe_qp *qp;

	if (!urxe_port_shared(dev->port))
		return;
	urxe_lane_lock(lane);
	urxe_rcu_read_lock();
	cds_list_for_each_safe (node, next, &dev->guests) {
		struct guest *g = guest_at(node);

		if (!is_of(g->qp.qpn, slots))
			continue;
		urxe_spin_lock(&g->qp.lock);
		abandon(&g->qp);
		urxe_spin_unlock(&g->qp.lock);
		guest_free(g);
	}
	for (unsigned i = 0; (qp = urxe_table_next(&dev->qps, &i)); i++) {
		if (qp->type != IBV_QPT_XRC_RECV)
			continue;
		urxe_spin_lock(&qp->lock);
		if (waits_for(qp, slots))
			refuse(qp, now);
		urxe_spin_unlock(&qp->lock);
	}
	urxe_rcu_read_unlock();
	urxe_lane_unlock(lane);
}

void urxe_lend_init(struct urxe_device *dev)
{
	CDS_INIT_LIST_HEAD(&dev->guests);
}

void urxe_lend_fini(struct urxe_device *dev)
{
	struct cds_list_head *node, *next;

	cds_list_for_each_safe (node, next, &dev->guests)
		guest_free(guest_at(node));
}
