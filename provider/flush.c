/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * FLUSH to persistence (IBTA A19.4.1): msync() takes as long as a disk does, and a lane is not held
 * that long. A thread of the device's does it. Until it is done the QP executes nothing that came
 * behind the FLUSH (stall.h), whose order with what follows is thereby the strongest there is.
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
#include "stall.h"
#include "urxe/free.h"
#include "urxe/thread.h"

struct urxe_flush {
	struct urxe_stall stall; /* under qp->lock */
	struct urxe_qp *qp;	 /* who waits, or NULL: nobody any more; under flusher.lock */
	uint8_t *addr;
	uint64_t length;
	bool done, good;	   /* likewise */
	struct cds_list_head node; /* on flusher.jobs, likewise */
};

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
		urxe_free(f);
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
		free(f);
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

static bool finish(struct urxe_qp *qp, struct urxe_stall *s, struct urxe_lane *lane,
		   struct urxe_sent *sent) URXE_REQUIRES(qp->lock)
{
	struct urxe_flusher *fl = &qp->dev->flusher;
	struct urxe_flush *f = urxe_container_of(s, struct urxe_flush, stall);
	bool done;

	urxe_mutex_lock(&fl->lock);
	done = f->done;
	urxe_mutex_unlock(&fl->lock);
	if (!done)
		return false;
	qp->resp.stall = NULL;
	urxe_responder_flushed(qp, f->good);
	urxe_stall_end(qp, s, urxe_port_now(qp->dev->port));
	urxe_free(f);
	return true;
}

static void cancel(struct urxe_qp *qp, struct urxe_stall *s)
{
	struct urxe_flush *f = urxe_container_of(s, struct urxe_flush, stall);
	bool done;

	urxe_stall_drop(s);
	urxe_mutex_lock(&qp->dev->flusher.lock);
	f->qp = NULL;
	done = f->done;
	urxe_mutex_unlock(&qp->dev->flusher.lock);
	if (done)
		urxe_free(f); /* else whoever carries it out does */
}

static const struct urxe_stall_ops flush_ops = {.run = finish, .cancel = cancel};

int urxe_flush_start(struct urxe_qp *qp, uint8_t *addr, uint64_t length)
{
	struct urxe_flusher *fl = &qp->dev->flusher;
	struct urxe_flush *f = calloc(1, sizeof(*f));

	if (!f)
		return ENOMEM;
	f->qp = qp;
	f->addr = addr;
	f->length = length;
	urxe_mutex_lock(&fl->lock);
	cds_list_add_tail(&f->node, &fl->jobs);
	pthread_cond_signal(&fl->work);
	urxe_mutex_unlock(&fl->lock);
	urxe_stall_begin(qp, &f->stall, &flush_ops);
	return 0;
}
