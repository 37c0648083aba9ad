/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* UD QPs of a datagram socket, one for each device. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "cm/rsocket/dgram.h"
#include "cm/rsocket/stream.h"

#include "urxe/free.h"
#include "urxe/gid.h"
#include "urxe/log.h"
#include "provider/gsi.h"

#define PAGE	4096u
#define BATCH	16
#define SENT	(1ull << 32) /* of a wr_id; without it, the number of a receive */
#define GRH	(unsigned)sizeof(struct ibv_grh)
#define RECEIVE (64 + URXE_RS_DGRAM_MOST) /* GRH and datagram */

/* ---- making ---- */

static uint8_t *send_at(const struct urxe_rs_ud *ud, uint32_t i)
{
	return ud->buf + (size_t)i * URXE_RS_DGRAM_MOST;
}

void urxe_rs_ud_post_receive(struct urxe_rs_datagram *m)
{
	struct urxe_rs_ud *ud = m->ud;
	struct ibv_sge sge = {(uintptr_t)m->buf, GRH + URXE_RS_DGRAM_MOST, ud->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = (uint64_t)(m - ud->datagrams),
				 .sg_list = &sge,
				 .num_sge = 1},
			   *bad;

	/* It fails with the device, of which an event tells. */
	ibv_post_recv(ud->id->qp, &wr, &bad);
}

static int make_memory(struct urxe_rs_ud *ud)
{
	size_t sends = (size_t)ud->sends * URXE_RS_DGRAM_MOST;
	size_t len = (sends + (size_t)ud->receives * RECEIVE + PAGE - 1) & ~(size_t)(PAGE - 1);

	ud->free = calloc(ud->sends, sizeof(*ud->free));
	ud->datagrams = calloc(ud->receives, sizeof(*ud->datagrams));
	ud->buf = aligned_alloc(PAGE, len);
	if (!ud->free || !ud->datagrams || !ud->buf)
		return ENOMEM;
	for (uint32_t i = 0; i < ud->sends; i++)
		ud->free[ud->n_free++] = ud->sends - 1 - i;
	for (uint32_t i = 0; i < ud->receives; i++)
		ud->datagrams[i] = (struct urxe_rs_datagram){
			.ud = ud, .buf = ud->buf + sends + (size_t)i * RECEIVE};
	ud->mr = ibv_reg_mr(ud->id->pd, ud->buf, len, IBV_ACCESS_LOCAL_WRITE);
	return ud->mr ? 0 : errno;
}

/* What was asked for, as far as the device can do it. */
static int fit(struct urxe_rs *s, struct urxe_rs_ud *ud) URXE_REQUIRES(s->lock)
{
	struct ibv_port_attr port;
	uint32_t most;
	int err = urxe_rs_cq_most(ud->id->verbs, &most);

	if (!err)
		err = ibv_query_port(ud->id->verbs, ud->id->port_num, &port);
	if (err)
		return err;
	ud->sends = s->set.sq_size < most ? s->set.sq_size : most;
	ud->receives = s->set.rq_size < most ? s->set.rq_size : most;
	ud->mtu = 128u << port.active_mtu;
	return 0;
}

static int make_cq(struct urxe_rs *s, struct urxe_rs_ud *ud) URXE_REQUIRES(s->lock)
{
	struct epoll_event e = {.events = EPOLLIN};
	int err = urxe_rs_cq_create(&ud->cq, ud->id->verbs, ud->sends + ud->receives);

	if (!err && epoll_ctl(s->dg->epfd, EPOLL_CTL_ADD, ud->cq.events->fd, &e))
		err = errno;
	return err;
}

static int make_qp(struct urxe_rs_ud *ud)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = ud->cq.cq,
		.recv_cq = ud->cq.cq,
		.qp_type = IBV_QPT_UD,
		.sq_sig_all = 1,
		.cap = {.max_send_wr = ud->sends,
			.max_recv_wr = ud->receives,
			.max_send_sge = 1,
			.max_recv_sge = 1},
	};

	if (rdma_create_qp(ud->id, NULL, &attr))
		return errno;
	for (uint32_t i = 0; i < ud->receives; i++)
		urxe_rs_ud_post_receive(&ud->datagrams[i]);
	return 0;
}

/* An id of its own on the device: its port number is none of the application's. */
static int make_id(struct urxe_rs *s, struct urxe_rs_ud *ud, const struct rdma_cm_id *like)
	URXE_REQUIRES(s->lock)
{
	struct sockaddr_storage own;
	struct urxe_rs_addr a;
	int domain = like->route.addr.src_addr.sa_family, err;

	err = urxe_rs_addr_get(&a, &like->route.addr.src_addr, sizeof(own));
	if (err)
		return err;
	a.port = 0;
	urxe_rs_addr_put(&a, domain, &own);
	if (rdma_create_id(s->channel, &ud->id, NULL, RDMA_PS_UDP) ||
	    rdma_bind_addr(ud->id, (struct sockaddr *)&own))
		return errno;
	return ud->id->verbs ? 0 : ENODEV;
}

static int make(struct urxe_rs *s, struct urxe_rs_ud *ud, const struct rdma_cm_id *like)
	URXE_REQUIRES(s->lock)
{
	int err = make_id(s, ud, like);

	if (!err)
		err = fit(s, ud);
	if (!err)
		err = make_memory(ud);
	if (!err)
		err = make_cq(s, ud);
	return err ? err : make_qp(ud);
}

struct urxe_rs_ud *urxe_rs_ud_get(struct urxe_rs *s, const struct rdma_cm_id *id, int *err)
{
	struct urxe_rs_ud *ud;

	cds_list_for_each_entry (ud, &s->dg->uds, entry) {
		if (ud->id->verbs == id->verbs)
			return ud;
	}
	ud = calloc(1, sizeof(*ud));
	*err = ENOMEM;
	if (!ud)
		return NULL;
	cds_list_add(&ud->entry, &s->dg->uds);
	*err = make(s, ud, id);
	if (*err) {
		urxe_rs_ud_free(s, ud);
		return NULL;
	}
	urxe_debug("rsocket %d: UD QP 0x%x", s->fd, ud->id->qp->qp_num);
	return ud;
}

void urxe_rs_ud_free(struct urxe_rs *s, struct urxe_rs_ud *ud)
{
	struct urxe_rs_datagram *m, *next;

	cds_list_for_each_entry_safe (m, next, &s->dg->received, entry) {
		if (m->ud == ud)
			cds_list_del(&m->entry);
	}
	cds_list_del(&ud->entry);
	if (ud->id && ud->id->qp)
		rdma_destroy_qp(ud->id);
	urxe_rs_cq_free(&ud->cq);
	if (ud->mr)
		ibv_dereg_mr(ud->mr);
	if (ud->id)
		rdma_destroy_id(ud->id);
	free(ud->datagrams);
	free(ud->free);
	free(ud->buf);
	free(ud);
}

/* ---- events ---- */

void urxe_rs_ud_arm(struct urxe_rs *s)
{
	struct urxe_rs_ud *ud;

	cds_list_for_each_entry (ud, &s->dg->uds, entry)
		urxe_rs_cq_arm(&ud->cq);
}

void urxe_rs_ud_disarm(struct urxe_rs *s)
{
	struct urxe_rs_ud *ud;
	bool any = false;

	cds_list_for_each_entry (ud, &s->dg->uds, entry)
		any |= urxe_rs_cq_disarm(&ud->cq);
	if (any)
		urxe_rs_changed(s);
}

/* ---- completions ---- */

/* True: the datagram is kept. */
static bool received(struct urxe_rs *s, struct urxe_rs_datagram *m, const struct ibv_wc *wc)
	URXE_REQUIRES(s->lock)
{
	struct urxe_rs_dest *d;
	union ibv_gid gid;
	unsigned header = 0;

	if (wc->byte_len > GRH)
		header = urxe_rs_ud_header_get(m->buf + GRH, wc->byte_len - GRH, &m->from);
	if (!header) {
		urxe_rs_dgram_drop(s, "UD");
		return false;
	}
	/* The header has no interface: it is that of our address, which GRH tells. */
	if (m->from.ip[0] == 0xfe && (m->from.ip[1] & 0xc0) == 0x80) {
		memcpy(gid.raw, m->buf + offsetof(struct ibv_grh, dgid), sizeof(gid.raw));
		m->from.scope = urxe_gsi_scope(m->ud->id->verbs, &gid);
	}
	d = urxe_rs_dest_find(s, &m->from);
	if (d && d->qpn == wc->src_qp)
		urxe_rs_dest_heard(s, d, wc->src_qp);
	m->data = m->buf + GRH + header;
	m->len = wc->byte_len - GRH - header;
	return urxe_rs_dgram_deliver(s, m);
}

static void completed(struct urxe_rs *s, struct urxe_rs_ud *ud, const struct ibv_wc *wc)
	URXE_REQUIRES(s->lock)
{
	struct urxe_rs_datagram *m;

	if (wc->wr_id & SENT) {
		if (!ud->n_free)
			urxe_rs_changed(s);
		ud->free[ud->n_free++] = (uint32_t)wc->wr_id;
		if (ud->n_free == ud->sends)
			urxe_rs_changed(s);
		return;
	}
	m = &ud->datagrams[wc->wr_id];
	if (wc->status == IBV_WC_WR_FLUSH_ERR)
		return;
	if (wc->status != IBV_WC_SUCCESS || !received(s, m, wc))
		urxe_rs_ud_post_receive(m);
}

void urxe_rs_ud_completions(struct urxe_rs *s)
{
	struct urxe_rs_ud *ud;
	struct ibv_wc wc[BATCH];

	cds_list_for_each_entry (ud, &s->dg->uds, entry) {
		int n, all = 0;

		do {
			n = ibv_poll_cq(ud->cq.cq, BATCH, wc);
			for (int i = 0; i < n; i++)
				completed(s, ud, &wc[i]);
			all += n;
		} while (n == BATCH && all < URXE_RS_LOOK_MOST);
		if (n == BATCH)
			urxe_rs_changed(s); /* there may be more */
	}
}

bool urxe_rs_ud_can_send(const struct urxe_rs *s)
{
	const struct urxe_rs_ud *ud;

	cds_list_for_each_entry (ud, &s->dg->uds, entry) {
		if (!ud->n_free)
			return false;
	}
	return true;
}

bool urxe_rs_ud_all_sent(const struct urxe_rs *s)
{
	const struct urxe_rs_ud *ud;

	cds_list_for_each_entry (ud, &s->dg->uds, entry) {
		if (ud->n_free != ud->sends)
			return false;
	}
	return true;
}

/* ---- sending ---- */

int urxe_rs_ud_send(struct urxe_rs *s, const struct urxe_rs_dest *d, const struct iovec *iov,
		    size_t n, size_t len)
{
	struct urxe_rs_ud *ud = d->ud;
	uint32_t at = ud->free[ud->n_free - 1];
	uint8_t *p = send_at(ud, at);
	unsigned header = urxe_rs_ud_header_len(s->domain);
	struct urxe_rs_cursor c = {iov, n, 0};
	struct ibv_sge sge = {(uintptr_t)p, (uint32_t)(header + len), ud->mr->lkey};
	struct ibv_send_wr wr =
				   {
					   .wr_id = SENT | at,
					   .sg_list = &sge,
					   .num_sge = 1,
					   .opcode = IBV_WR_SEND,
					   .wr.ud = {.ah = d->ah,
						     .remote_qpn = d->qpn,
						     .remote_qkey = RDMA_UDP_QKEY},
				   },
			   *bad;
	int err;

	urxe_rs_ud_header_put(p, s->domain, &d->from);
	urxe_rs_cursor_copy(&c, p + header, len, false);
	err = ibv_post_send(ud->id->qp, &wr, &bad);
	if (!err)
		ud->n_free--;
	return err;
}
