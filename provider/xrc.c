/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Extended reliable connections (IBTA A14): domains, the numbers of their SRQs, and target QPs
 * that several users of a domain may open. A domain is shared through the inode of a file, as with
 * a kernel device. Among processes of a fabric a request may name a SRQ of another one (lend.c); a
 * QP itself is where its connection's state is, in the memory of the process that has made it, and
 * nobody else opens it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "netio/identity.h"
#include "provider.h"
#include "xrc.h"
#include "rcu.h"

#define SRQN_TAG_BITS	 (24 - URXE_SRQN_INDEX_BITS)
#define SRQN_INDEX_MAX	 ((1u << URXE_SRQN_INDEX_BITS) - 1)
#define SRQN_SHARED_BITS 16 /* of the index, below the slot (netio/identity.h) */
#define SRQN_SHARED_MAX	 ((1u << SRQN_SHARED_BITS) - 1)

struct urxe_xrcd_domain {
	struct cds_list_head node; /* on dev->xrcds */
	int file;		   /* while it is open no other one gets its inode; -1: of none */
	dev_t st_dev;
	ino_t st_ino;
	unsigned opens;
};

/* One open of a domain. */
struct urxe_xrcd {
	struct verbs_xrcd vxrcd;
	struct urxe_device *dev;
	struct urxe_xrcd_domain *domain;
	atomic_int users; /* SRQs and QPs made with it */
};

static struct urxe_xrcd *to_urxe_xrcd(struct ibv_xrcd *xrcd)
{
	return urxe_container_of(xrcd, struct urxe_xrcd, vxrcd.xrcd);
}

/* ---- domains ---- */

static struct urxe_xrcd_domain *domain_find(struct urxe_device *dev, const struct stat *st)
	URXE_REQUIRES(dev->mutex)
{
	struct urxe_xrcd_domain *d;

	cds_list_for_each_entry (d, &dev->xrcds, node)
		if (d->file >= 0 && d->st_dev == st->st_dev && d->st_ino == st->st_ino)
			return d;
	return NULL;
}

/*
 * By O_PATH: a close(2) of such a descriptor takes no lock of the program's away (fcntl(2)), and
 * nobody waits for the end of a pipe that it holds. Without /proc there is but dup(2).
 */
static int file_hold(int fd)
{
	char path[48];
	int held;

	snprintf(path, sizeof(path), "/proc/thread-self/fd/%d", fd);
	held = open(path, O_PATH | O_CLOEXEC);
	return held < 0 && errno == ENOENT ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : held;
}

/* A program that closes all descriptors may have another file under the number. */
static void file_release(const struct urxe_xrcd_domain *d)
{
	struct stat st;

	if (d->file >= 0 && !fstat(d->file, &st) && st.st_dev == d->st_dev &&
	    st.st_ino == d->st_ino)
		close(d->file);
}

/* Of the file @fd, which is @st; -1: of none. */
static int domain_make(struct urxe_device *dev, int fd, const struct stat *st,
		       struct urxe_xrcd_domain **out) URXE_REQUIRES(dev->mutex)
{
	struct urxe_xrcd_domain *d = calloc(1, sizeof(*d));
	int err;

	if (!d)
		return ENOMEM;
	d->file = fd < 0 ? -1 : file_hold(fd);
	if (fd >= 0 && d->file < 0) {
		err = errno;
		free(d);
		return err;
	}
	d->st_dev = st->st_dev;
	d->st_ino = st->st_ino;
	cds_list_add_tail(&d->node, &dev->xrcds);
	*out = d;
	return 0;
}

static int domain_get(struct urxe_device *dev, const struct ibv_xrcd_init_attr *attr,
		      const struct stat *st, struct urxe_xrcd_domain **out)
	URXE_REQUIRES(dev->mutex)
{
	struct urxe_xrcd_domain *d = attr->fd == -1 ? NULL : domain_find(dev, st);
	int err = 0;

	if (d && attr->oflags & O_EXCL)
		return EINVAL;
	if (!d && attr->fd != -1 && !(attr->oflags & O_CREAT))
		return EAGAIN;
	if (!d)
		err = domain_make(dev, attr->fd, st, &d);
	if (err)
		return err;
	d->opens++;
	*out = d;
	return 0;
}

static void domain_put(struct urxe_xrcd_domain *d)
{
	if (--d->opens)
		return;
	cds_list_del(&d->node);
	file_release(d);
	free(d);
}

uint64_t urxe_xrc_domain_id(const struct urxe_xrcd_domain *d)
{
	/* Multiplied by odd numbers: each bit of both counts. */
	uint64_t id = (d->st_dev * 0x9e3779b97f4a7c15 + d->st_ino) * 0xbf58476d1ce4e5b9;

	return d->file >= 0 ? (id ^ id >> 32) >> 8 | 1 : 0;
}

struct ibv_xrcd *urxe_open_xrcd(struct ibv_context *ctx, struct ibv_xrcd_init_attr *attr)
{
	const uint32_t need = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
	struct urxe_device *dev = to_urxe_dev(ctx);
	struct urxe_xrcd *x = NULL;
	struct stat st = {0};
	int err;

	if (attr->comp_mask >= IBV_XRCD_INIT_ATTR_RESERVED)
		err = EOPNOTSUPP;
	else if ((attr->comp_mask & need) != need || attr->oflags & ~(O_CREAT | O_EXCL))
		err = EINVAL;
	else if (attr->fd != -1 && fstat(attr->fd, &st))
		err = EBADF;
	else
		err = urxe_device_check(dev);
	if (!err) {
		x = calloc(1, sizeof(*x));
		err = x ? 0 : ENOMEM;
	}
	if (!err) {
		urxe_mutex_lock(&dev->mutex);
		err = domain_get(dev, attr, &st, &x->domain);
		urxe_mutex_unlock(&dev->mutex);
	}
	if (err) {
		free(x);
		errno = err;
		return NULL;
	}
	x->dev = dev;
	x->vxrcd.xrcd.context = ctx;
	urxe_context_get(ctx);
	return &x->vxrcd.xrcd;
}

int urxe_close_xrcd(struct ibv_xrcd *xrcd)
{
	struct urxe_xrcd *x = to_urxe_xrcd(xrcd);

	if (atomic_load(&x->users))
		return EBUSY;
	urxe_mutex_lock(&x->dev->mutex);
	domain_put(x->domain);
	urxe_mutex_unlock(&x->dev->mutex);
	urxe_context_put(xrcd->context);
	free(x);
	return 0;
}

/* ---- SRQs by number ---- */

static unsigned slot_of(const struct urxe_device *dev)
{
	return atomic_load_explicit(&dev->srqn_slot, memory_order_relaxed);
}

/* Of a process that shares its addresses the number says whose it is. */
static uint32_t number_index(const struct urxe_device *dev, uint32_t num)
{
	return slot_of(dev) ? num & SRQN_SHARED_MAX : num >> SRQN_TAG_BITS;
}

static uint32_t number(const struct urxe_device *dev, uint32_t index)
{
	if (slot_of(dev))
		return slot_of(dev) << SRQN_SHARED_BITS | index;
	/* As with keys: who guesses a number, or uses an old one, finds nothing. */
	return index << SRQN_TAG_BITS |
	       ((uint32_t)urxe_port_random(dev->port) & ((1u << SRQN_TAG_BITS) - 1));
}

int urxe_xrc_publish_srq(struct urxe_srq *srq, struct ibv_xrcd *xrcd)
{
	struct urxe_device *dev = srq->dev;
	struct urxe_xrcd *x = to_urxe_xrcd(xrcd);
	uint32_t i, tries = 0, most;
	unsigned slot;
	int err;

	urxe_mutex_lock(&dev->mutex);
	err = urxe_ident_slot(urxe_port_ident(dev->port), &slot);
	if (err)
		goto out;
	atomic_store_explicit(&dev->srqn_slot, slot, memory_order_relaxed);
	most = slot ? SRQN_SHARED_MAX : SRQN_INDEX_MAX;
	do {
		i = dev->srqn_next = (dev->srqn_next + 1) & most;
	} while (tries++ < most && (!i || urxe_table_get(&dev->srqs, i)));
	/* On the fabric there are fewer numbers than SRQs. */
	if (!i || urxe_table_get(&dev->srqs, i)) {
		err = ENOMEM;
		goto out;
	}
	srq->num = number(dev, i);
	srq->domain = x->domain;
	srq->vsrq.xrcd = &x->vxrcd;
	srq->vsrq.srq_num = srq->num;
	err = urxe_table_set(&dev->srqs, i, srq);
out:
	urxe_mutex_unlock(&dev->mutex);
	if (!err)
		atomic_fetch_add(&x->users, 1);
	return err;
}

void urxe_xrc_unpublish_srq(struct urxe_srq *srq)
{
	struct urxe_device *dev = srq->dev;

	urxe_mutex_lock(&dev->mutex);
	urxe_table_set(&dev->srqs, number_index(dev, srq->num), NULL);
	urxe_mutex_unlock(&dev->mutex);
	urxe_rcu_synchronize();
	atomic_fetch_sub(&to_urxe_xrcd(&srq->vsrq.xrcd->xrcd)->users, 1);
}

struct urxe_srq *urxe_xrc_srq_any(struct urxe_device *dev, uint32_t srqn)
{
	struct urxe_srq *srq = urxe_table_get(&dev->srqs, number_index(dev, srqn));

	return srq && srq->num == srqn ? srq : NULL;
}

struct urxe_srq *urxe_xrc_srq(const struct urxe_qp *qp, uint32_t srqn)
{
	struct urxe_srq *srq = urxe_xrc_srq_any(qp->dev, srqn);

	return srq && srq->domain == qp->domain ? srq : NULL;
}

int urxe_get_srq_num(struct ibv_srq *ibsrq, uint32_t *num)
{
	struct urxe_srq *srq = to_urxe_srq(ibsrq);

	if (srq->vsrq.srq_type != IBV_SRQT_XRC)
		return EINVAL;
	*num = srq->num;
	return 0;
}

/* ---- target QPs: what the application holds is an open, the QP lives while there is one ---- */

static struct ibv_qp *open_make(struct urxe_qp *qp, struct urxe_xrcd *x, struct ibv_context *ctx,
				void *qp_context)
{
	struct urxe_qp_open *o = calloc(1, sizeof(*o));
	struct ibv_qp *ibqp;

	if (!o)
		return NULL;
	ibqp = &o->vqp.qp;
	o->real = qp;
	o->ctx = to_urxe_ctx(ctx);
	o->vqp.comp_mask = VERBS_QP_XRCD;
	o->vqp.xrcd = &x->vxrcd;
	ibqp->context = ctx;
	urxe_context_get(ctx);
	ibqp->qp_context = qp_context;
	ibqp->handle = ibqp->qp_num = qp->qpn;
	ibqp->qp_type = IBV_QPT_XRC_RECV;
	ibqp->state = qp->state;
	pthread_mutex_init(&ibqp->mutex, NULL);
	pthread_cond_init(&ibqp->cond, NULL);
	atomic_fetch_add(&x->users, 1);
	urxe_spin_lock(&qp->lock);
	cds_list_add_tail(&o->node, &qp->opens);
	urxe_spin_unlock(&qp->lock);
	return ibqp;
}

struct ibv_qp *urxe_xrc_create_recv_qp(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp_init_attr plain = {.qp_type = IBV_QPT_XRC_RECV,
					 .qp_context = attr->qp_context};
	struct ibv_qp *ibqp;
	struct urxe_xrcd *x;
	struct urxe_qp *qp;

	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_XRCD) || !attr->xrcd) {
		errno = EINVAL;
		return NULL;
	}
	/* Neither PD nor queues nor CQs: all come with the SRQ that a request names. */
	x = to_urxe_xrcd(attr->xrcd);
	qp = urxe_qp_create_common(ctx, NULL, &plain, 0);
	if (!qp)
		return NULL;
	qp->domain = x->domain;
	urxe_mutex_lock(&x->dev->mutex);
	ibqp = open_make(qp, x, ctx, attr->qp_context);
	urxe_mutex_unlock(&x->dev->mutex);
	if (!ibqp) {
		urxe_qp_destroy_common(qp);
		errno = ENOMEM;
		return NULL;
	}
	memset(&attr->cap, 0, sizeof(attr->cap));
	return ibqp;
}

struct ibv_qp *urxe_open_qp(struct ibv_context *ctx, struct ibv_qp_open_attr *attr)
{
	const uint32_t need = IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_TYPE;
	struct urxe_device *dev = to_urxe_dev(ctx);
	struct ibv_qp *ibqp = NULL;
	struct urxe_xrcd *x;
	struct urxe_qp *qp;

	if (attr->comp_mask >= IBV_QP_OPEN_ATTR_RESERVED) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if ((attr->comp_mask & need) != need || attr->qp_type != IBV_QPT_XRC_RECV || !attr->xrcd) {
		errno = EINVAL;
		return NULL;
	}
	x = to_urxe_xrcd(attr->xrcd);
	/* It is answered for, with the PSNs of its connection, by the process that has made it. */
	errno = urxe_ident_is_others(urxe_port_ident(dev->port), attr->qp_num) ? EOPNOTSUPP
									       : EINVAL;
	/* The mutex keeps the last open from going meanwhile. */
	urxe_mutex_lock(&dev->mutex);
	qp = urxe_table_get(&dev->qps, attr->qp_num & dev->qpn_mask);
	if (qp && qp->qpn == attr->qp_num && qp->type == IBV_QPT_XRC_RECV &&
	    qp->domain == x->domain && !cds_list_empty(&qp->opens))
		ibqp = open_make(qp, x, ctx,
				 attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT ? attr->qp_context
									    : NULL);
	urxe_mutex_unlock(&dev->mutex);
	return ibqp;
}

int urxe_xrc_close_qp(struct ibv_qp *ibqp)
{
	struct urxe_qp_open *o = urxe_container_of(ibqp, struct urxe_qp_open, vqp.qp);
	struct urxe_xrcd *x = to_urxe_xrcd(&o->vqp.xrcd->xrcd);
	struct urxe_qp *qp = o->real;
	bool last;

	urxe_mutex_lock(&qp->dev->mutex);
	urxe_spin_lock(&qp->lock);
	cds_list_del(&o->node);
	last = cds_list_empty(&qp->opens);
	urxe_spin_unlock(&qp->lock);
	urxe_mutex_unlock(&qp->dev->mutex);
	urxe_qp_await_events(ibqp, o->ctx, o->async_events);
	if (last)
		urxe_qp_destroy_common(qp);
	atomic_fetch_sub(&x->users, 1); /* packets have looked at the domain of the QP till then */
	urxe_context_put(ibqp->context);
	free(o);
	return 0;
}
