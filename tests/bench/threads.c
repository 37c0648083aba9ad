/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Threads of one process that send 64 B messages, each on a queue pair and a completion queue of
 * its own. The receiver has one thread, one completion queue and one SRQ for all.
 *
 *	threads -s ADDRESS
 *	threads -c ADDRESS THREADS [SECONDS]	prints million messages a second, of all together
 */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "ends.h"

#define PORT	"18518"
#define SIZE	64
#define DEPTH	128
#define SIGNAL	16
#define RECVS	4096
#define BATCH	32
#define MOST	64 /* threads */
#define WARM_US 100000

static uint8_t memory[MOST * SIZE];
static atomic_bool stop;

struct sender {
	pthread_t thread;
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	_Atomic uint64_t done;
};

/* ---- the receiver ---- */

static struct ibv_srq *srq;
static struct ibv_cq *cq;
static struct ibv_mr *recv_mr;

static void setup(struct rdma_cm_id *id)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = RECVS, .max_sge = 1}};

	if (srq)
		return;
	cq = ibv_create_cq(id->verbs, 2 * RECVS, NULL, NULL, 0);
	srq = ibv_create_srq(id->pd, &attr);
	recv_mr = ibv_reg_mr(id->pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	measure_need(cq && srq && recv_mr, "setup");
}

static void post(unsigned n)
{
	struct ibv_sge sge = {(uintptr_t)memory, SIZE, recv_mr->lkey};
	struct ibv_recv_wr wr[BATCH], *bad;

	for (unsigned i = 0; i < n; i++)
		wr[i] = (struct ibv_recv_wr){
			.next = i + 1 < n ? &wr[i + 1] : NULL, .sg_list = &sge, .num_sge = 1};
	measure_need(!n || !ibv_post_srq_recv(srq, wr, &bad), "ibv_post_srq_recv");
}

static void admit(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {.cap = {.max_send_wr = 1, .max_send_sge = 1},
					.qp_type = IBV_QPT_RC};
	bool first = !srq;

	setup(id);
	for (unsigned i = 0; first && i < RECVS / BATCH; i++)
		post(BATCH);
	attr.send_cq = attr.recv_cq = cq;
	attr.srq = srq;
	measure_need(!rdma_create_qp(id, id->pd, &attr), "rdma_create_qp");
	measure_need(!rdma_accept(id, NULL), "rdma_accept");
}

/* Until it is ended. */
static void server(const char *name)
{
	struct rdma_cm_id *listener = ends_create(name, PORT, RAI_PASSIVE, NULL), *id;
	struct ibv_wc wc[BATCH];
	unsigned n = 0, have = 0;

	measure_need(!rdma_listen(listener, MOST), "rdma_listen");
	/* The first message says how many of them there will be. */
	measure_need(!rdma_get_request(listener, &id), "rdma_get_request");
	n = *(const uint32_t *)id->event->param.conn.private_data;
	for (admit(id); ++have < n; admit(id))
		measure_need(!rdma_get_request(listener, &id), "rdma_get_request");
	for (;;)
		post(ends_poll(cq, BATCH, wc));
}

/* ---- senders ---- */

static void *sender(void *arg)
{
	struct sender *s = arg;
	struct ibv_sge sge = {(uintptr_t)memory, SIZE, s->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
	uint64_t posted = 0, done = 0;
	struct ibv_wc wc;

	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		while (posted - done < DEPTH) {
			wr.send_flags = ++posted % SIGNAL ? 0 : IBV_SEND_SIGNALED;
			measure_need(!ibv_post_send(s->id->qp, &wr, &bad), "ibv_post_send");
		}
		while (ends_poll(s->id->send_cq, 1, &wc))
			done += SIGNAL;
		atomic_store_explicit(&s->done, done, memory_order_relaxed);
	}
	return NULL;
}

static void connect_one(struct sender *s, const char *name, uint32_t threads)
{
	struct ibv_qp_init_attr attr = {.cap = {DEPTH, 1, 1, 1, 0}};
	struct rdma_conn_param param = {.private_data = &threads,
					.private_data_len = sizeof(threads),
					.rnr_retry_count = 7,
					.retry_count = 7};

	s->id = ends_create(name, PORT, 0, &attr);
	s->mr = ibv_reg_mr(s->id->pd, memory, sizeof(memory), 0);
	measure_need(s->mr != NULL, "ibv_reg_mr");
	measure_need(!rdma_connect(s->id, &param), "rdma_connect");
}

static uint64_t total(struct sender *s, unsigned threads)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < threads; i++)
		n += atomic_load_explicit(&s[i].done, memory_order_relaxed);
	return n;
}

static void client(const char *name, unsigned threads, unsigned seconds)
{
	static struct sender s[MOST];
	uint64_t begun, before;

	for (unsigned i = 0; i < threads; i++)
		connect_one(&s[i], name, threads);
	for (unsigned i = 0; i < threads; i++)
		measure_need(!pthread_create(&s[i].thread, NULL, sender, &s[i]), "pthread_create");
	usleep(WARM_US);
	before = total(s, threads);
	begun = measure_now();
	sleep(seconds);
	before = total(s, threads) - before;
	printf("%.4f\n", (double)before * 1e3 / (double)(measure_now() - begun));
	fflush(stdout);
	atomic_store(&stop, true);
	for (unsigned i = 0; i < threads; i++)
		pthread_join(s[i].thread, NULL);
}

int main(int argc, char **argv)
{
	return measure_ends(argc, argv, 1, server, client);
}
