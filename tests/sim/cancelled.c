/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A thread that was cancelled ends where it waits, or asks for it, and not in the middle of a verb:
 * other threads get on with all that it has used.
 */
#include <pthread.h>
#include <stdlib.h>

#include "harness.h"
#include "pair.h"

static const struct pair_params params = {
	.channel = true, .max_inline = 64, .link = {.latency = 1000}};
static struct pair p;
static struct ibv_context *other; /* of a, opened by who is not cancelled yet */
static bool through;

/* All that waits for nobody, with events to send and threads to wake. */
static __attribute__((noinline)) void use_verbs(void)
{
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct ibv_wc wc;

	channel = urxe_channel_create(p.a.ctx);
	CU_ASSERT_PTR_NOT_NULL(channel);
	CU_ASSERT_EQUAL(urxe_channel_destroy(channel), 0);
	CU_ASSERT_EQUAL(ibv_close_device(other), 0);
	qp = pair_qp(&p.a, &params, IBV_QPT_UD);
	CU_ASSERT_PTR_NOT_NULL(qp);
	CU_ASSERT_EQUAL(ibv_destroy_qp(qp), 0);
	cq = ibv_create_cq(p.a.ctx, 10, NULL, p.a.channel, 0);
	CU_ASSERT_PTR_NOT_NULL(cq);
	CU_ASSERT_EQUAL(ibv_destroy_cq(cq), 0);
	mr = ibv_reg_mr(p.a.pd, p.a.buf, 64, IBV_ACCESS_LOCAL_WRITE);
	CU_ASSERT_PTR_NOT_NULL(mr);
	CU_ASSERT_EQUAL(ibv_dereg_mr(mr), 0);
	for (unsigned i = 0; i < 10; i++) {
		CU_ASSERT_EQUAL(ibv_req_notify_cq(p.a.cq, 0), 0);
		CU_ASSERT_EQUAL(ibv_req_notify_cq(p.b.cq, 0), 0);
		CU_ASSERT_EQUAL(pair_recv(&p.b, i, 0, 64), 0);
		CU_ASSERT_EQUAL(pair_post(&p.a, IBV_WR_SEND, i, 0, 8, &p.b, 0, IBV_SEND_SIGNALED),
				0);
		CU_ASSERT(pair_wait(&p, p.a.cq, &wc) && wc.status == IBV_WC_SUCCESS);
		CU_ASSERT(pair_wait(&p, p.b.cq, &wc) && wc.status == IBV_WC_SUCCESS);
	}
	CU_ASSERT_EQUAL(pair_modify(p.a.qp, IBV_QPS_ERR), 0);
	urxe_event_qp(to_urxe_qp(p.a.qp), IBV_EVENT_QP_FATAL);
	through = true;
}

/* It has no variables: those of a frame that is not returned from stay poisoned to
 * AddressSanitizer. */
static void *work(void *arg)
{
	pair_open(&p, &params, IBV_QPT_RC);
	other = ibv_open_device(&p.a.dev->vdev.device);
	pthread_cancel(pthread_self());
	use_verbs();
	pthread_testcancel();
	return NULL;
}

static void test_verbs(void)
{
	pthread_t thread;
	void *ret;

	CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, work, NULL), 0);
	pthread_join(thread, &ret);
	CU_ASSERT_PTR_EQUAL(ret, PTHREAD_CANCELED);
	CU_ASSERT_TRUE_FATAL(through);
	CU_ASSERT_EQUAL(pair_event(&p.a), IBV_EVENT_QP_FATAL);
	CU_ASSERT_EQUAL(to_urxe_cq(p.a.cq)->events_sent, 10);
	ibv_ack_cq_events(p.a.cq, urxe_channel_purge(p.a.channel, p.a.cq));
	ibv_ack_cq_events(p.b.cq, urxe_channel_purge(p.b.channel, p.b.cq));
	pair_close(&p);
}

URXE_TEST_MAIN("cancelled", T(test_verbs))
