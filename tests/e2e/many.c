/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Thousands of RC connections between two processes:
 * many [-p PORT] [-n QPS] [-r ROUNDS] [-t SECONDS [-b BATCH]] [HOST]
 *
 * QPNs go over TCP. In each round every QP writes eight words to its place at the peer, sends
 * eight more, and both ends look at what came; at the end every QP reads what the peer has written
 * last. Prints what a QP cost. With SECONDS the client then writes for so long, with each QP in
 * turn, BATCH messages at a time, the last with a completion, and prints million messages a second.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "integrity/verbs.h"

#define DEPTH	 128
#define MSG	 64u  /* bytes */
#define OUT	 1024 /* sends under way, of all QPs */
#define PATIENCE 60   /* seconds without a completion */
#define RATE_OUT 128  /* messages under way while the rate is taken */
#define GLANCE	 256  /* polls between two looks at the clock, or at the peer */
#define ACCESS	 (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

/* Where the messages of QP i are, each n * MSG bytes. */
enum area {
	OUTGOING, /* what it sends */
	INCOMING, /* receives */
	WRITTEN,  /* the peer writes to it */
	FETCHED,  /* it reads from the peer's WRITTEN */
	AREAS
};

struct peer {
	union ibv_gid gid;
	uint64_t base;
	uint32_t rkey, mtu;
};

struct many {
	struct verbs v; /* its TCP connection */
	unsigned n, rounds, batch;
	double seconds;
	bool client;
	struct ibv_qp **qp;
	uint32_t *qpn, *peer_qpn;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint8_t *mem;
	struct peer own, peer;
	unsigned out, sent, got, round;
};

void need(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "many: %s: %s\n", what, strerror(errno));
	exit(1);
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* Bytes of memory that are ours. */
static long resident(void)
{
	long pages = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	need(f && fscanf(f, "%*d %ld", &pages) == 1, "/proc/self/statm");
	fclose(f);
	return pages * sysconf(_SC_PAGESIZE);
}

static uint8_t *at(const struct many *m, enum area a, unsigned i)
{
	return m->mem + ((size_t)a * m->n + i) * MSG;
}

static uint64_t remote(const struct many *m, enum area a, unsigned i)
{
	return m->peer.base + ((uint64_t)a * m->n + i) * MSG;
}

/* Word k of what side @client sends on QP i in a round. */
static uint64_t word(bool client, unsigned i, unsigned round, unsigned k)
{
	uint64_t z = ((uint64_t)client << 63) + ((uint64_t)round << 40) + ((uint64_t)i << 8) + k;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static void fill(const struct many *m, unsigned i)
{
	for (unsigned k = 0; k < MSG / 8; k++) {
		uint64_t w = word(m->client, i, m->round, k);

		memcpy(at(m, OUTGOING, i) + 8 * k, &w, 8);
	}
}

static void check(const struct many *m, enum area a, bool client, unsigned i)
{
	for (unsigned k = 0; k < MSG / 8; k++) {
		uint64_t w = word(client, i, m->round, k);

		errno = EBADMSG;
		need(!memcmp(at(m, a, i) + 8 * k, &w, 8), "data differ");
	}
}

static void barrier(struct many *m)
{
	char mine = 1, its;

	verbs_exchange(&m->v, &mine, &its, 1);
}

/* ---- connections ---- */

static void open_device(struct many *m)
{
	size_t bytes = (size_t)AREAS * m->n * MSG;

	m->own.mtu = verbs_open(&m->v);
	m->v.pd = ibv_alloc_pd(m->v.ctx);
	need(m->v.pd, "ibv_alloc_pd");
	m->cq = ibv_create_cq(m->v.ctx, (int)(4 * m->n + RATE_OUT), NULL, NULL, 0);
	need(m->cq, "ibv_create_cq");
	m->mem = calloc(1, bytes);
	m->qp = calloc(m->n, sizeof(struct ibv_qp *));
	m->qpn = calloc(m->n, sizeof(*m->qpn));
	m->peer_qpn = calloc(m->n, sizeof(*m->peer_qpn));
	need(m->mem && m->qp && m->qpn && m->peer_qpn, "memory");
	m->mr = ibv_reg_mr(m->v.pd, m->mem, bytes, ACCESS);
	need(m->mr, "ibv_reg_mr");
	need(!ibv_query_gid(m->v.ctx, 1, 0, &m->own.gid), "ibv_query_gid");
	m->own.base = (uintptr_t)m->mem;
	m->own.rkey = m->mr->rkey;
}

static void receive(struct many *m, unsigned i)
{
	struct ibv_sge sge = {(uintptr_t)at(m, INCOMING, i), MSG, m->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1}, *bad;

	need(!ibv_post_recv(m->qp[i], &wr, &bad), "ibv_post_recv");
}

static void make_qp(struct many *m, unsigned i)
{
	struct ibv_qp_init_attr init = {.send_cq = m->cq,
					.recv_cq = m->cq,
					.cap = {.max_send_wr = DEPTH,
						.max_recv_wr = DEPTH,
						.max_send_sge = 4,
						.max_recv_sge = 4},
					.qp_type = IBV_QPT_RC};
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ACCESS};

	m->qp[i] = ibv_create_qp(m->v.pd, &init);
	need(m->qp[i], "ibv_create_qp");
	m->qpn[i] = m->qp[i]->qp_num;
	need(!ibv_modify_qp(m->qp[i], &a,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
	     "to INIT");
}

static void connect_qp(struct many *m, unsigned i)
{
	uint32_t mtu = m->own.mtu < m->peer.mtu ? m->own.mtu : m->peer.mtu;
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_256,
		.dest_qp_num = m->peer_qpn[i],
		.rq_psn = m->peer_qpn[i],
		.sq_psn = m->qpn[i],
		.max_dest_rd_atomic = 16,
		.max_rd_atomic = 16,
		.min_rnr_timer = 10,
		.timeout = 18,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = m->peer.gid, .hop_limit = 64}},
	};

	while (128u << a.path_mtu < mtu)
		a.path_mtu++;
	need(!ibv_modify_qp(m->qp[i], &a,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER),
	     "to RTR");
	a.qp_state = IBV_QPS_RTS;
	need(!ibv_modify_qp(m->qp[i], &a,
			    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
	     "to RTS");
}

static void connect_all(struct many *m)
{
	double start = now();
	long before, idle;

	/* The first one brings the port up. */
	make_qp(m, 0);
	before = resident();
	for (unsigned i = 1; i < m->n; i++)
		make_qp(m, i);
	verbs_exchange(&m->v, &m->own, &m->peer, sizeof(m->own));
	verbs_exchange(&m->v, m->qpn, m->peer_qpn, m->n * sizeof(*m->qpn));
	for (unsigned i = 0; i < m->n; i++)
		connect_qp(m, i);
	idle = resident() - before;
	for (unsigned i = 0; i < m->n; i++)
		receive(m, i);
	printf("%u QPs of %d + %d work requests connected in %.2f s, %ld bytes each\n", m->n, DEPTH,
	       DEPTH, now() - start, m->n > 1 ? idle / (long)(m->n - 1) : 0);
	barrier(m);
}

/* ---- traffic ---- */

static void post(struct many *m, unsigned i, enum ibv_wr_opcode op, enum area to, unsigned flags)
{
	enum area local = op == IBV_WR_RDMA_READ ? FETCHED : OUTGOING;
	struct ibv_sge sge = {(uintptr_t)at(m, local, i), MSG, m->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = i,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = op,
				 .send_flags = flags,
				 .wr.rdma = {remote(m, to, i), m->peer.rkey}},
			   *bad;

	need(!ibv_post_send(m->qp[i], &wr, &bad), "ibv_post_send");
}

static void completion(struct many *m, const struct ibv_wc *wc)
{
	unsigned i = (unsigned)wc->wr_id;

	if (wc->status) {
		fprintf(stderr, "many: QP %u: %s\n", i, ibv_wc_status_str(wc->status));
		exit(1);
	}
	if (wc->opcode != IBV_WC_RECV) {
		m->out--;
		m->sent++;
		if (wc->opcode == IBV_WC_RDMA_READ)
			check(m, FETCHED, m->client, i);
		return;
	}
	/* What was written before the SEND is there. */
	check(m, INCOMING, !m->client, i);
	check(m, WRITTEN, !m->client, i);
	m->got++;
	receive(m, i);
}

static void poll_some(struct many *m)
{
	static double last;
	struct ibv_wc wc[32];
	int n = ibv_poll_cq(m->cq, 32, wc);

	need(n >= 0, "ibv_poll_cq");
	for (int k = 0; k < n; k++)
		completion(m, &wc[k]);
	if (n || !last)
		last = now();
	errno = ETIMEDOUT;
	need(now() - last < PATIENCE, "no completion");
}

static void one_round(struct many *m)
{
	m->sent = m->got = 0;
	for (unsigned i = 0; i < m->n; i++) {
		fill(m, i);
		post(m, i, IBV_WR_RDMA_WRITE, WRITTEN, 0);
		post(m, i, IBV_WR_SEND, OUTGOING, IBV_SEND_SIGNALED);
		for (m->out++; m->out >= OUT;)
			poll_some(m);
	}
	while (m->sent < m->n || m->got < m->n)
		poll_some(m);
	barrier(m); /* the next round overwrites */
}

static void read_all(struct many *m)
{
	m->sent = 0;
	m->round = m->rounds - 1;
	for (unsigned i = 0; i < m->n; i++) {
		post(m, i, IBV_WR_RDMA_READ, WRITTEN, IBV_SEND_SIGNALED);
		for (m->out++; m->out >= OUT;)
			poll_some(m);
	}
	while (m->sent < m->n)
		poll_some(m);
	barrier(m);
}

/* ---- the rate ---- */

static void post_batch(struct many *m, unsigned i)
{
	struct ibv_sge sge = {(uintptr_t)at(m, OUTGOING, i), MSG, m->mr->lkey};
	struct ibv_send_wr wr[RATE_OUT], *bad;

	for (unsigned k = 0; k < m->batch; k++) {
		bool last = k + 1 == m->batch;

		wr[k] = (struct ibv_send_wr){.next = last ? NULL : &wr[k + 1],
					     .sg_list = &sge,
					     .num_sge = 1,
					     .opcode = IBV_WR_RDMA_WRITE,
					     .send_flags = last ? IBV_SEND_SIGNALED : 0,
					     .wr.rdma = {remote(m, WRITTEN, i), m->peer.rkey}};
	}
	need(!ibv_post_send(m->qp[i], wr, &bad), "ibv_post_send");
}

static unsigned reap(struct many *m)
{
	struct ibv_wc wc[32];
	int n = ibv_poll_cq(m->cq, 32, wc);

	for (int k = 0; k < n; k++)
		need(!wc[k].status, "a write");
	return (unsigned)n * m->batch;
}

/* Ten warm rounds come first. */
static void write_for(struct many *m)
{
	uint64_t posted = 0, done = 0, first = 0, warm = 10ull * m->n * m->batch;
	double start = 0, end = 0;

	for (unsigned polls = 0; !end || done < posted; polls++) {
		while (!end && posted - done + m->batch <= RATE_OUT) {
			post_batch(m, (unsigned)(posted / m->batch % m->n));
			posted += m->batch;
		}
		done += reap(m);
		if (polls % GLANCE || done < warm || end)
			continue;
		if (!start) {
			start = now();
			first = done;
		} else if (now() - start > m->seconds) {
			end = now();
			printf("%.4f M/s\n", (double)(done - first) / (end - start) / 1e6);
		}
	}
}

/* The server polls all the time. */
static void rate(struct many *m)
{
	char c;

	if (m->client)
		write_for(m);
	for (unsigned k = 0; !m->client; k++) {
		reap(m);
		if (k % GLANCE == 0 && recv(m->v.fd, &c, 1, MSG_PEEK | MSG_DONTWAIT) >= 0)
			break;
	}
	barrier(m);
}

static void close_all(struct many *m)
{
	double start = now();

	for (unsigned i = 0; i < m->n; i++)
		need(!(errno = ibv_destroy_qp(m->qp[i])), "ibv_destroy_qp");
	need(!(errno = ibv_destroy_cq(m->cq)), "ibv_destroy_cq");
	need(!(errno = ibv_dereg_mr(m->mr)), "ibv_dereg_mr");
	need(!(errno = ibv_dealloc_pd(m->v.pd)), "ibv_dealloc_pd");
	need(!ibv_close_device(m->v.ctx), "ibv_close_device");
	printf("all destroyed in %.2f s\n", now() - start);
	free(m->qp);
	free(m->qpn);
	free(m->peer_qpn);
	free(m->mem);
}

int main(int argc, char **argv)
{
	struct many m = {.n = 10000, .rounds = 5, .batch = 1};
	const char *port = "18600";
	double start;
	int opt;

	while ((opt = getopt(argc, argv, "p:n:r:t:b:")) != -1) {
		if (opt == 'p')
			port = optarg;
		else if (opt == 'n')
			m.n = (unsigned)atoi(optarg);
		else if (opt == 'r')
			m.rounds = (unsigned)atoi(optarg);
		else if (opt == 't')
			m.seconds = atof(optarg);
		else if (opt == 'b')
			m.batch = (unsigned)atoi(optarg);
		else
			return 2;
	}
	if (!m.n || !m.rounds || !m.batch || m.batch > RATE_OUT)
		return 2;
	m.client = optind < argc;
	setvbuf(stdout, NULL, _IOLBF, 0);
	open_device(&m);
	m.v.fd = verbs_tcp(m.client ? argv[optind] : NULL, port);
	connect_all(&m);
	start = now();
	for (m.round = 0; m.round < m.rounds; m.round++)
		one_round(&m);
	read_all(&m);
	printf("%u messages a side, all good, in %.2f s; %ld MB resident\n",
	       (2 * m.rounds + 1) * m.n, now() - start, resident() >> 20);
	if (m.seconds > 0)
		rate(&m);
	close_all(&m);
	close(m.v.fd);
	return 0;
}
