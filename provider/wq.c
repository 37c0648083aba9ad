/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Receive work queues without a QP, tables of them, and the raw packet QPs that spread frames over
 * such a table by a hash of their addresses and ports (receive-side scaling).
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "provider.h"
#include "door.h"
#include "sge.h"
#include "trace.h"
#include "wq.h"

#define MAX_LOG_TABLE 11
#define KEY_LEN	      40 /* Toeplitz: enough for two IPv6 addresses and two ports */
#define INPUT_LEN     36
#define FIELDS                                                                        \
	(IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4 | IBV_RX_HASH_SRC_IPV6 |         \
	 IBV_RX_HASH_DST_IPV6 | IBV_RX_HASH_SRC_PORT_TCP | IBV_RX_HASH_DST_PORT_TCP | \
	 IBV_RX_HASH_SRC_PORT_UDP | IBV_RX_HASH_DST_PORT_UDP)

struct urxe_wq {
	struct ibv_wq wq;
	struct urxe_device *dev;
	struct urxe_pd *pd;
	struct urxe_cq *cq;
	struct urxe_rq rq; /* its lock guards state as well */
	uint8_t state;
	uint32_t async_events;
	atomic_int users;	   /* tables */
	struct cds_list_head node; /* on dev->wqs */
};

struct urxe_rwq_table {
	struct ibv_rwq_ind_table table;
	struct urxe_device *dev;
	uint32_t mask;
	atomic_int users; /* QPs */
	struct urxe_wq *wqs[];
};

struct urxe_rss {
	struct urxe_rwq_table *table;
	uint64_t fields;
	uint8_t key[KEY_LEN];
};

static struct urxe_wq *to_urxe_wq(struct ibv_wq *wq)
{
	return urxe_container_of(wq, struct urxe_wq, wq);
}

void urxe_rss_caps(struct ibv_rss_caps *caps)
{
	caps->supported_qpts = 1u << IBV_QPT_RAW_PACKET;
	caps->max_rwq_indirection_tables = URXE_MAX_RWQ_TABLES;
	caps->max_rwq_indirection_table_size = 1u << MAX_LOG_TABLE;
	caps->rx_hash_fields_mask = FIELDS;
	caps->rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ;
}

/* ---- work queues ---- */

/* False: the CQ lost it. */
static bool wq_wc(struct urxe_wq *wq, const struct urxe_rwqe *wqe, enum ibv_wc_status status,
		  uint32_t len)
{
	struct ibv_wc wc = {.wr_id = wqe->wr_id,
			    .status = status,
			    .opcode = IBV_WC_RECV,
			    .byte_len = len,
			    .qp_num = wq->wq.wq_num};

	return urxe_cq_push(wq->cq, &wc, true);
}

static void wq_error(struct urxe_wq *wq) URXE_REQUIRES(wq->rq.lock)
{
	struct urxe_rq *rq = &wq->rq;

	wq->state = IBV_WQS_ERR;
	while (rq->tail != rq->head)
		wq_wc(wq, urxe_rq_at(rq, rq->tail++), IBV_WC_WR_FLUSH_ERR, 0);
}

static int wq_post_recv(struct ibv_wq *ibwq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct urxe_wq *wq = to_urxe_wq(ibwq);
	int err = urxe_device_check(wq->dev);

	urxe_spin_lock(&wq->rq.lock);
	if (!err && wq->state == IBV_WQS_RESET)
		err = EINVAL;
	if (err)
		*bad = wr;
	for (; wr && !err; wr = wr->next) {
		err = urxe_rq_post(&wq->rq, wr);
		if (err)
			*bad = wr;
		else
			urxe_trace_post_recv(0, wr);
	}
	if (wq->state == IBV_WQS_ERR)
		wq_error(wq);
	urxe_spin_unlock(&wq->rq.lock);
	return urxe_ret(err);
}

struct ibv_wq *urxe_create_wq(struct ibv_context *ctx, struct ibv_wq_init_attr *attr)
{
	struct urxe_device *dev = to_urxe_dev(ctx);
	struct urxe_wq *wq = NULL;
	int err = EINVAL;

	if (attr->comp_mask & IBV_WQ_INIT_ATTR_FLAGS && attr->create_flags)
		err = EOPNOTSUPP;
	else if (attr->comp_mask & ~(uint32_t)IBV_WQ_INIT_ATTR_FLAGS)
		err = EOPNOTSUPP;
	else if (attr->wq_type == IBV_WQT_RQ && attr->pd && attr->cq && attr->max_wr &&
		 attr->max_wr <= URXE_MAX_QP_WR && attr->max_sge <= URXE_MAX_SGE)
		err = urxe_device_start(dev);
	if (err)
		goto fail;
	err = ENOMEM;
	if (atomic_fetch_add(&dev->num_wq, 1) < URXE_MAX_WQ)
		wq = calloc(1, sizeof(*wq));
	if (!wq) {
		atomic_fetch_sub(&dev->num_wq, 1);
		goto fail;
	}
	wq->dev = dev;
	wq->pd = to_urxe_pd(attr->pd);
	wq->cq = to_urxe_cq(attr->cq);
	err = urxe_rq_init(&wq->rq, wq->pd, URXEDV_RES_RQ, attr->max_wr,
			   attr->max_sge ? attr->max_sge : 1);
	if (err)
		goto fail;
	/* A number that no QP has: completions tell by it whose they are. */
	urxe_mutex_lock(&dev->mutex);
	err = urxe_ident_qpn_alloc(urxe_port_ident(dev->port), &wq->wq.wq_num);
	if (!err)
		cds_list_add_tail(&wq->node, &dev->wqs);
	urxe_mutex_unlock(&dev->mutex);
	if (err)
		goto fail;
	atomic_fetch_add(&wq->pd->users, 1);
	atomic_fetch_add(&wq->cq->users, 1);
	wq->wq.context = ctx;
	urxe_context_get(ctx);
	wq->wq.pd = attr->pd;
	wq->wq.cq = attr->cq;
	wq->wq.handle = wq->wq.wq_num;
	wq->wq.state = IBV_WQS_RESET;
	wq->wq.wq_type = IBV_WQT_RQ;
	wq->wq.post_recv = wq_post_recv;
	attr->max_sge = wq->rq.max_sge;
	return &wq->wq;

fail:
	if (wq) {
		urxe_rq_fini(&wq->rq);
		atomic_fetch_sub(&dev->num_wq, 1);
	}
	free(wq);
	errno = err;
	return NULL;
}

int urxe_modify_wq(struct ibv_wq *ibwq, struct ibv_wq_attr *attr)
{
	struct urxe_wq *wq = to_urxe_wq(ibwq);
	int err = 0;

	if (urxe_device_check(wq->dev))
		return EIO;
	if (attr->attr_mask & ~(uint32_t)(IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_CURR_STATE))
		return attr->attr_mask & IBV_WQ_ATTR_FLAGS ? EOPNOTSUPP : EINVAL;
	urxe_spin_lock(&wq->rq.lock);
	if (attr->attr_mask & IBV_WQ_ATTR_CURR_STATE && attr->curr_wq_state != wq->state)
		err = EINVAL;
	if (!err && attr->attr_mask & IBV_WQ_ATTR_STATE) {
		switch (attr->wq_state) {
		case IBV_WQS_RESET:
			wq->rq.head = wq->rq.tail = 0;
			wq->state = IBV_WQS_RESET;
			break;
		case IBV_WQS_RDY:
			if (wq->state == IBV_WQS_ERR)
				err = EINVAL;
			else
				wq->state = IBV_WQS_RDY;
			break;
		case IBV_WQS_ERR:
			if (wq->state == IBV_WQS_RESET)
				err = EINVAL;
			else
				wq_error(wq);
			break;
		default:
			err = EINVAL;
		}
	}
	ibwq->state = (enum ibv_wq_state)wq->state;
	urxe_spin_unlock(&wq->rq.lock);
	return err;
}

int urxe_destroy_wq(struct ibv_wq *ibwq)
{
	struct urxe_wq *wq = to_urxe_wq(ibwq);
	uint32_t events;

	if (atomic_load(&wq->users))
		return EBUSY;
	urxe_mutex_lock(&wq->dev->mutex);
	cds_list_del(&wq->node);
	urxe_ident_qpn_free(urxe_port_ident(wq->dev->port), ibwq->wq_num);
	urxe_mutex_unlock(&wq->dev->mutex);
	urxe_cq_clean(wq->cq, ibwq->wq_num, false);
	events = wq->async_events - urxe_event_purge(to_urxe_ctx(ibwq->context), ibwq);
	pthread_mutex_lock(&ibwq->mutex);
	while (ibwq->events_completed != events)
		pthread_cond_wait(&ibwq->cond, &ibwq->mutex);
	pthread_mutex_unlock(&ibwq->mutex);
	pthread_mutex_destroy(&ibwq->mutex);
	pthread_cond_destroy(&ibwq->cond);
	urxe_rq_fini(&wq->rq);
	atomic_fetch_sub(&wq->cq->users, 1);
	atomic_fetch_sub(&wq->pd->users, 1);
	atomic_fetch_sub(&wq->dev->num_wq, 1);
	urxe_context_put(ibwq->context);
	free(wq);
	return 0;
}

void urxe_wq_flush_all(struct urxe_device *dev, const struct urxe_context *of)
{
	struct urxe_wq *wq;

	urxe_mutex_lock(&dev->mutex);
	cds_list_for_each_entry (wq, &dev->wqs, node) {
		if (of && to_urxe_ctx(wq->wq.context) != of)
			continue;
		urxe_spin_lock(&wq->rq.lock);
		if (wq->state != IBV_WQS_RESET)
			wq_error(wq);
		urxe_spin_unlock(&wq->rq.lock);
	}
	urxe_mutex_unlock(&dev->mutex);
}

/* A frame for the queue; without room it is lost, as for a raw packet QP. */
static void wq_receive(struct urxe_wq *wq, const uint8_t *frame, uint32_t len)
{
	struct urxe_rq *rq = &wq->rq;
	struct urxe_rwqe *wqe;
	uint32_t room = 0;
	bool good;

	urxe_spin_lock(&wq->rq.lock);
	if (wq->state != IBV_WQS_RDY || rq->head == rq->tail) {
		urxe_stat_inc(wq->dev, URXE_STAT_RX_UD_NO_RECV);
		goto out;
	}
	wqe = urxe_rq_at(rq, rq->tail);
	for (uint32_t i = 0; i < wqe->num_sge; i++)
		room += wqe->sge[i].length;
	if (room < len) {
		urxe_stat_inc(wq->dev, URXE_STAT_RX_UD_TOO_LONG);
		goto out;
	}
	rq->tail++;
	good = urxe_sge_scatter(wq->dev, wq->pd->root, wqe->sge, wqe->num_sge, 0, frame, len);
	if (!wq_wc(wq, wqe, good ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR, good ? len : 0) || !good) {
		wq_error(wq);
		urxe_event_wq(to_urxe_ctx(wq->wq.context), &wq->wq, &wq->async_events);
	}
out:
	urxe_spin_unlock(&wq->rq.lock);
}

/* ---- tables ---- */

struct ibv_rwq_ind_table *urxe_create_rwq_ind_table(struct ibv_context *ctx,
						    struct ibv_rwq_ind_table_init_attr *attr)
{
	struct urxe_device *dev = to_urxe_dev(ctx);
	struct urxe_rwq_table *t;
	uint32_t n;
	int err;

	if (attr->comp_mask || attr->log_ind_tbl_size > MAX_LOG_TABLE) {
		errno = EINVAL;
		return NULL;
	}
	n = 1u << attr->log_ind_tbl_size;
	for (uint32_t i = 0; i < n; i++)
		if (!attr->ind_tbl[i] || attr->ind_tbl[i]->context != ctx) {
			errno = EINVAL;
			return NULL;
		}
	err = urxe_device_claim(dev, &dev->num_rwq_table, URXE_MAX_RWQ_TABLES);
	t = err ? NULL : calloc(1, sizeof(*t) + n * sizeof(t->wqs[0]));
	if (!t) {
		atomic_fetch_sub(&dev->num_rwq_table, 1);
		errno = err ? err : ENOMEM;
		return NULL;
	}
	t->dev = dev;
	t->mask = n - 1;
	for (uint32_t i = 0; i < n; i++) {
		t->wqs[i] = to_urxe_wq(attr->ind_tbl[i]);
		atomic_fetch_add(&t->wqs[i]->users, 1);
	}
	t->table.context = ctx;
	urxe_context_get(ctx);
	return &t->table;
}

int urxe_destroy_rwq_ind_table(struct ibv_rwq_ind_table *table)
{
	struct urxe_rwq_table *t = urxe_container_of(table, struct urxe_rwq_table, table);

	if (atomic_load(&t->users))
		return EBUSY;
	for (uint32_t i = 0; i <= t->mask; i++)
		atomic_fetch_sub(&t->wqs[i]->users, 1);
	atomic_fetch_sub(&t->dev->num_rwq_table, 1);
	urxe_context_put(table->context);
	free(t);
	return 0;
}

/* ---- QPs that spread ---- */

struct ibv_qp *urxe_rss_create_qp(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr)
{
	const uint32_t needed =
		IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_RX_HASH | IBV_QP_INIT_ATTR_IND_TABLE;
	const struct ibv_rx_hash_conf *conf = &attr->rx_hash_conf;
	struct urxe_rwq_table *t;
	struct ibv_qp_init_attr plain = {.qp_type = attr->qp_type, .qp_context = attr->qp_context};
	struct urxe_rss *rss;
	struct urxe_qp *qp;

	if ((attr->comp_mask & ~(uint32_t)IBV_QP_INIT_ATTR_CREATE_FLAGS) != needed ||
	    (attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS && attr->create_flags) ||
	    conf->rx_hash_function != IBV_RX_HASH_FUNC_TOEPLITZ ||
	    conf->rx_hash_fields_mask & ~(uint64_t)FIELDS) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (attr->qp_type != IBV_QPT_RAW_PACKET || !attr->rwq_ind_tbl ||
	    conf->rx_hash_key_len != KEY_LEN || !conf->rx_hash_key) {
		errno = EINVAL;
		return NULL;
	}
	rss = calloc(1, sizeof(*rss));
	if (!rss) {
		errno = ENOMEM;
		return NULL;
	}
	t = urxe_container_of(attr->rwq_ind_tbl, struct urxe_rwq_table, table);
	rss->table = t;
	rss->fields = conf->rx_hash_fields_mask;
	memcpy(rss->key, conf->rx_hash_key, KEY_LEN);
	/* It has no queues; a CQ it needs in name only. */
	plain.send_cq = plain.recv_cq = &t->wqs[0]->cq->vcq.cq;
	qp = urxe_qp_create_common(ctx, attr->pd, &plain, 0);
	if (!qp) {
		free(rss);
		return NULL;
	}
	atomic_fetch_add(&t->users, 1);
	urxe_spin_lock(&qp->lock);
	qp->rss = rss;
	urxe_spin_unlock(&qp->lock);
	qp->vqp.qp.send_cq = qp->vqp.qp.recv_cq = NULL;
	return &qp->vqp.qp;
}

void urxe_rss_free(struct urxe_rss *rss)
{
	if (rss)
		atomic_fetch_sub(&rss->table->users, 1);
	free(rss);
}

/* For each bit of the input that is set, the 32 bits of the key that begin there. */
static uint32_t toeplitz(const uint8_t *key, const uint8_t *in, unsigned len)
{
	uint32_t hash = 0, window = urxe_get32(key);

	for (unsigned i = 0; i < len; i++) {
		for (unsigned bit = 0; bit < 8; bit++) {
			if (in[i] & 0x80 >> bit)
				hash ^= window;
			window = window << 1 | (key[(i + 4) % KEY_LEN] >> (7 - bit) & 1);
		}
	}
	return hash;
}

static unsigned take(uint8_t *in, unsigned at, const uint8_t *src, unsigned len, bool wanted)
{
	if (wanted)
		memcpy(in + at, src, len);
	return wanted ? at + len : at;
}

/* What is hashed of a frame, in the order of Microsoft's RSS: addresses, then ports. */
static unsigned hash_input(uint64_t f, const uint8_t *frame, uint32_t len, uint8_t in[INPUT_LEN])
{
	const uint8_t *l3 = frame + 14, *end = frame + len, *l4;
	uint16_t type = len >= 14 ? urxe_get16(frame + 12) : 0;
	unsigned n = 0;
	uint8_t proto;

	if (type == 0x8100 && len >= 18) {
		type = urxe_get16(frame + 16);
		l3 += 4;
	}
	if (type == 0x0800 && end - l3 >= 20) {
		n = take(in, n, l3 + 12, 4, f & IBV_RX_HASH_SRC_IPV4);
		n = take(in, n, l3 + 16, 4, f & IBV_RX_HASH_DST_IPV4);
		proto = urxe_get16(l3 + 6) & 0x3fff ? 0 : l3[9]; /* a fragment: no ports */
		l4 = l3 + (l3[0] & 15) * 4;
	} else if (type == 0x86dd && end - l3 >= 40) {
		n = take(in, n, l3 + 8, 16, f & IBV_RX_HASH_SRC_IPV6);
		n = take(in, n, l3 + 24, 16, f & IBV_RX_HASH_DST_IPV6);
		proto = l3[6];
		l4 = l3 + 40;
	} else {
		return 0;
	}
	if (l4 > end || end - l4 < 4)
		return n;
	n = take(in, n, l4, 2,
		 (proto == IPPROTO_TCP && f & IBV_RX_HASH_SRC_PORT_TCP) ||
			 (proto == IPPROTO_UDP && f & IBV_RX_HASH_SRC_PORT_UDP));
	return take(in, n, l4 + 2, 2,
		    (proto == IPPROTO_TCP && f & IBV_RX_HASH_DST_PORT_TCP) ||
			    (proto == IPPROTO_UDP && f & IBV_RX_HASH_DST_PORT_UDP));
}

void urxe_rss_receive(const struct urxe_rss *rss, const uint8_t *frame, uint32_t len)
{
	uint8_t in[INPUT_LEN];
	unsigned n = hash_input(rss->fields, frame, len, in);

	wq_receive(rss->table->wqs[toeplitz(rss->key, in, n) & rss->table->mask], frame, len);
}

uint32_t urxe_rss_hash(const uint8_t *key, const uint8_t *in, unsigned len)
{
	return toeplitz(key, in, len);
}
