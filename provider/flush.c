/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * FLUSH to persistence (IBTA A19.4.1): msync() takes as long as a disk does, and a lane is not held
 * that long. A thread of the device's does it. Until it is done the QP executes nothing that came
 * behind the FLUSH, whose order with what follows is thereby the strongest there is: such packets
 * are kept, and executed afterwards. All other QPs go on.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "provider.h"
#include "flush.h"
#include "progress.h"
#include "responder.h"
#include "service.h"
#include "urxe/free.h"
#include "urxe/thread.h"

#define HELD_MAX 256 /* packets; more than that nobody has out without an answer */

struct held {
	struct held *next;
	struct urxe_decoded pkt;
	uint8_t payload[]; /* the frame's is gone by then */
};

struct urxe_flush {
	struct urxe_qp *qp; /* who waits, or NULL: nobody any more; under flusher.lock */
	uint8_t *addr;
	uint64_t length;
	bool done, good;	   /* likewise */
	struct cds_list_head node; /* on flusher.jobs, likewise */
	/* under qp->lock */
	struct held *first, **last;
	unsigned held;
};

static void flush_free(struct urxe_flush *f)
{
	while (f->first) {
		struct held *h = f->first;

		f->first = h->next;
		urxe_free(h);
	}
	urxe_free(f);
}

static bool sync_range(uint8_t *addr, uint64_t length)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)addr & ~(page - 1);

	return !msync((void *)from, (uintptr_t)addr + length - from, MS_SYNC);
}

/* The next job, if there is one. The lock is given away while it is carried out. */
static bool run_one(struct urxe_device *dev) URXE_REQUIRES(dev->flusher.lock)
{
	struct urxe_flusher *fl = &dev->flusher;
	struct urxe_flush *f;
	bool good;

	if (cds_list_empty(&fl->jobs))
		return false;
	f = cds_list_first_entry(&fl->jobs, struct urxe_flush, node);
	cds_list_del(&f->node);
	if (f->qp) {
		urxe_mutex_unlock(&dev->flusher.lock);
		good = sync_range(f->addr, f->length);
		urxe_mutex_lock(&dev->flusher.lock);
		f->good = good;
	}
	f->done = true;
	if (f->qp) {
		urxe_progress_defer(f->qp);
		urxe_service_nudge(dev);
	} else {
		flush_free(f);
	}
	return true;
}

static void *flusher_main(void *arg)
{
	struct urxe_device *dev = arg;
	struct urxe_flusher *fl = &dev->flusher;

	urxe_mutex_lock(&dev->flusher.lock);
	while (!fl->stop) {
		if (!run_one(dev))
			urxe_mutex_wait(&dev->flusher.lock, &fl->work);
	}
	urxe_mutex_unlock(&dev->flusher.lock);
	return NULL;
}

void urxe_flush_init(struct urxe_device *dev)
{
	urxe_mutex_init(&dev->flusher.lock);
	pthread_cond_init(&dev->flusher.work, NULL);
	CDS_INIT_LIST_HEAD(&dev->flusher.jobs);
}

void urxe_flush_fini(struct urxe_device *dev)
{
	struct urxe_flusher *fl = &dev->flusher;

	if (fl->running) {
		urxe_mutex_lock(&fl->lock);
		fl->stop = true;
		pthread_cond_signal(&fl->work);
		urxe_mutex_unlock(&fl->lock);
		pthread_join(fl->thread, NULL);
	}
	/* No QP is left: nobody waits for these. */
	while (!cds_list_empty(&fl->jobs)) {
		struct urxe_flush *f = cds_list_first_entry(&fl->jobs, struct urxe_flush, node);

		cds_list_del(&f->node);
		flush_free(f);
	}
	pthread_cond_destroy(&fl->work);
	urxe_mutex_fini(&fl->lock);
}

bool urxe_flush_run(struct urxe_device *dev)
{
	bool ran;

	urxe_mutex_lock(&dev->flusher.lock);
	ran = run_one(dev);
	urxe_mutex_unlock(&dev->flusher.lock);
	return ran;
}

int urxe_flusher_start(struct urxe_device *dev)
{
	struct urxe_flusher *fl = &dev->flusher;
	int err = 0;

	urxe_mutex_lock(&fl->lock);
	if (!fl->running && dev->threaded) {
		err = urxe_thread_start(&fl->thread, "urxe/flush", flusher_main, dev);
		fl->running = !err;
	}
	urxe_mutex_unlock(&fl->lock);
	return err;
}

int urxe_flush_start(struct urxe_qp *qp, uint8_t *addr, uint64_t length)
{
	struct urxe_flusher *fl = &qp->dev->flusher;
	struct urxe_flush *f = calloc(1, sizeof(*f));

	if (!f)
		return ENOMEM;
	f->qp = qp;
	f->addr = addr;
	f->length = length;
	f->last = &f->first;
	urxe_mutex_lock(&fl->lock);
	cds_list_add_tail(&f->node, &fl->jobs);
	pthread_cond_signal(&fl->work);
	urxe_mutex_unlock(&fl->lock);
	qp->resp.flush = f;
	return 0;
}

void urxe_flush_hold(struct urxe_qp *qp, const struct urxe_decoded *pkt)
{
	struct urxe_flush *f = qp->resp.flush;
	struct held *h = f->held < HELD_MAX ? malloc(sizeof(*h) + pkt->length) : NULL;

	if (!h) {
		urxe_stat_inc(qp->dev, URXE_STAT_RX_NO_MEMORY); /* lost: it comes again */
		return;
	}
	h->next = NULL;
	h->pkt = *pkt;
	h->pkt.payload = memcpy(h->payload, pkt->payload, pkt->length);
	*f->last = h;
	f->last = &h->next;
	f->held++;
}

bool urxe_flush_finish(struct urxe_qp *qp, uint64_t now)
{
	struct urxe_flusher *fl = &qp->dev->flusher;
	struct urxe_flush *f = qp->resp.flush;
	bool done;

	urxe_mutex_lock(&fl->lock);
	done = f->done;
	urxe_mutex_unlock(&fl->lock);
	if (!done)
		return false;
	qp->resp.flush = NULL;
	urxe_responder_flushed(qp, f->good);
	/* Another FLUSH among them makes the rest wait again. */
	for (const struct held *h = f->first; h; h = h->next)
		urxe_responder_receive(qp, &h->pkt, now);
	flush_free(f);
	if (qp->resp.gap)
		urxe_responder_settle(qp, now);
	return true;
}

void urxe_flush_cancel(struct urxe_qp *qp)
{
	struct urxe_flush *f = qp->resp.flush;
	bool done;

	if (!f)
		return;
	qp->resp.flush = NULL;
	urxe_mutex_lock(&qp->dev->flusher.lock);
	f->qp = NULL;
	done = f->done;
	urxe_mutex_unlock(&qp->dev->flusher.lock);
	if (done)
		flush_free(f); /* else whoever carries it out does */
}
