/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Two devices in one thread, with a wire between them that costs next to nothing: what a message
 * takes of instructions, for ci/lib/instructions.py, which runs it under callgrind.
 *
 * Nothing here depends on time or chance, so that the count is the same each time. Functions step_*
 * are what is counted; what is done before everything runs in steady state goes past them.
 *
 * Works fabric_* have two nodes of a local fabric in place of the wire: its clock and its thread
 * are real, and the count is nearly the same each time.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "provider.h"
#include "netio/link.h"
#include "netio/link_fabric.h"

#define REQUIRE(x)                                                                        \
	do {                                                                              \
		if (!(x)) {                                                               \
			fprintf(stderr, "%s:%d: %s failed: %s\n", __FILE__, __LINE__, #x, \
				strerror(errno));                                         \
			exit(1);                                                          \
		}                                                                         \
	} while (0)

/* ---- the wire: buffers go from hand to hand ---- */

#define BUFS	   4096
#define BUF_LEN	   2048
#define WIRE	   1024
#define CLOCK_TICK 20 /* ns; a reading of the clock takes as long */

struct wire_end {
	struct wire_end *peer;
	struct urxe_frame rx[WIRE];
	unsigned head, count;
};

static uint8_t bufs[BUFS][BUF_LEN] __attribute__((aligned(64)));
static void *free_bufs[BUFS];
static unsigned num_free;
static uint64_t clock_ns = 1000000000, chance = 1;

static int wire_open(void *arg, const struct urxe_port_config *cfg, const uint8_t mac[6],
		     uint32_t l3_mtu, void **link, struct urxe_link_info *info)
{
	memset(info, 0, sizeof(*info));
	strcpy(info->driver, "wire");
	memcpy(info->mac, mac, 6);
	info->max_l3_mtu = l3_mtu;
	info->lanes = 1;
	*link = arg;
	return 0;
}

static void wire_close(void *link)
{
}

static unsigned wire_alloc(void *link, unsigned lane, struct urxe_frame *f, unsigned n)
{
	unsigned i;

	for (i = 0; i < n && num_free; i++) {
		f[i].data = f[i].buf = free_bufs[--num_free];
		f[i].room = BUF_LEN;
		f[i].rest = NULL;
	}
	return i;
}

static void wire_free(void *link, unsigned lane, struct urxe_frame *f, unsigned n)
{
	while (n)
		free_bufs[num_free++] = f[--n].buf;
}

static unsigned wire_rx(void *link, unsigned lane, struct urxe_frame *f, unsigned n)
{
	struct wire_end *e = link;
	unsigned i;

	for (i = 0; i < n && e->count; i++, e->count--) {
		f[i] = e->rx[e->head++ % WIRE];
		f[i].flags = 0;
	}
	return i;
}

static unsigned wire_tx(void *link, unsigned lane, struct urxe_frame *f, unsigned n)
{
	struct wire_end *to = ((struct wire_end *)link)->peer;

	if (n > WIRE - to->count)
		n = WIRE - to->count;
	for (unsigned i = 0; i < n; i++)
		to->rx[(to->head + to->count++) % WIRE] = f[i];
	return n;
}

static bool wire_up(void *link)
{
	return true;
}

static uint64_t wire_now(void *arg)
{
	return clock_ns += CLOCK_TICK;
}

static uint64_t wire_random(void *arg)
{
	return chance = chance * 6364136223846793005u + 1442695040888963407u;
}

static const struct urxe_link_ops wire_ops = {
	.name = "wire",
	.open = wire_open,
	.close = wire_close,
	.alloc = wire_alloc,
	.free = wire_free,
	.rx = wire_rx,
	.tx = wire_tx,
	.up = wire_up,
	.now = wire_now,
	.random = wire_random,
};

/* ---- two nodes ---- */

#define DEPTH	  128
#define SIGNAL	  16 /* of so many sends the last is signaled */
#define MAX_QPS	  1024
#define MSG	  64
#define POLL_MOST 16

struct node {
	struct wire_end wire;
	struct urxe_device *dev;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint8_t *buf;
	struct ibv_qp *qp[MAX_QPS];
	struct ibv_sge sge;
	struct ibv_send_wr send;
	struct ibv_recv_wr recv;
	unsigned posted[MAX_QPS];
	unsigned turn; /* whose QP is next */
	unsigned sent, got;
};

static struct node nodes[2];
static unsigned num_qps;
static bool counting;
static char fabric_dir[] = "/tmp/urxe-hot-XXXXXX";

static void node_open(struct node *n, unsigned host, bool fabric)
{
	struct urxe_port_config cfg = {.mtu = 1024, .vlan = URXE_NO_VLAN, .num_ips = 1};

	snprintf(cfg.name, sizeof(cfg.name), "node%u", host);
	if (fabric)
		snprintf(cfg.port, sizeof(cfg.port), "fabric,dir=%s", fabric_dir);
	else
		strcpy(cfg.port, "wire");
	cfg.ips[0].ipv4 = true;
	cfg.ips[0].prefix_len = 24;
	cfg.ips[0].gid[10] = cfg.ips[0].gid[11] = 0xff;
	cfg.ips[0].gid[12] = 10;
	cfg.ips[0].gid[15] = (uint8_t)host;
	REQUIRE(!urxe_device_create(&n->dev, &cfg, fabric ? &urxe_link_fabric_ops : &wire_ops,
				    fabric ? NULL : &n->wire, false));
	n->ctx = ibv_open_device(&n->dev->vdev.device);
	REQUIRE(n->ctx);
	n->pd = ibv_alloc_pd(n->ctx);
	REQUIRE(n->pd);
	n->cq = ibv_create_cq(n->ctx, 2 * DEPTH * 64, NULL, NULL, 0);
	REQUIRE(n->cq);
	n->buf = aligned_alloc(4096, 65536);
	REQUIRE(n->buf);
	memset(n->buf, 0x5a, 65536);
	n->mr = ibv_reg_mr(n->pd, n->buf, 65536, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	REQUIRE(n->mr);
	n->sge = (struct ibv_sge){(uintptr_t)n->buf, MSG, n->mr->lkey};
	n->recv = (struct ibv_recv_wr){.sg_list = &n->sge, .num_sge = 1};
}

static void make_qps(struct node *n)
{
	struct ibv_qp_init_attr attr = {.send_cq = n->cq,
					.recv_cq = n->cq,
					.cap = {.max_send_wr = DEPTH,
						.max_recv_wr = 2 * DEPTH,
						.max_send_sge = 1,
						.max_recv_sge = 1},
					.qp_type = IBV_QPT_RC};

	for (unsigned i = 0; i < num_qps; i++) {
		n->qp[i] = ibv_create_qp(n->pd, &attr);
		REQUIRE(n->qp[i]);
	}
}

static void connect_qp(struct ibv_qp *qp, uint32_t peer, unsigned host)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT,
				.port_num = 1,
				.qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
				.path_mtu = IBV_MTU_1024,
				.dest_qp_num = peer,
				.max_dest_rd_atomic = 1,
				.max_rd_atomic = 1,
				.min_rnr_timer = 12,
				.timeout = 14,
				.retry_cnt = 7,
				.rnr_retry = 7,
				.ah_attr = {.is_global = 1, .port_num = 1, .grh.hop_limit = 64}};
	uint8_t *gid = a.ah_attr.grh.dgid.raw;

	gid[10] = gid[11] = 0xff;
	gid[12] = 10;
	gid[15] = (uint8_t)host;
	REQUIRE(!ibv_modify_qp(
		qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	a.qp_state = IBV_QPS_RTR;
	REQUIRE(!ibv_modify_qp(qp, &a,
			       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				       IBV_QP_MIN_RNR_TIMER));
	a.qp_state = IBV_QPS_RTS;
	REQUIRE(!ibv_modify_qp(qp, &a,
			       IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				       IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC));
}

/* ---- steps ---- */

#define STEP   static __attribute__((noinline, noclone))
#define INSIDE static inline __attribute__((always_inline))

INSIDE void send_one(struct node *n, struct ibv_qp *qp)
{
	struct ibv_send_wr *bad;

	REQUIRE(!ibv_post_send(qp, &n->send, &bad));
}

STEP void step_post_send(struct node *n, struct ibv_qp *qp)
{
	send_one(n, qp);
}

INSIDE void recv_one(struct node *n, struct ibv_qp *qp)
{
	struct ibv_recv_wr *bad;

	REQUIRE(!ibv_post_recv(qp, &n->recv, &bad));
}

STEP void step_post_recv(struct node *n, struct ibv_qp *qp)
{
	recv_one(n, qp);
}

/* The compiler would make one function of the two. */
STEP int step_poll_sender(struct node *n, struct ibv_wc *wc)
{
	__asm__ volatile("# sender");
	return ibv_poll_cq(n->cq, POLL_MOST, wc);
}

STEP int step_poll_receiver(struct node *n, struct ibv_wc *wc)
{
	__asm__ volatile("# receiver");
	return ibv_poll_cq(n->cq, POLL_MOST, wc);
}

/* ---- what they are counted at ---- */

static void post_send(struct node *n)
{
	unsigned i = n->turn++ % num_qps;
	bool signaled = ++n->posted[i] % SIGNAL == 0;

	n->send.send_flags = signaled ? IBV_SEND_SIGNALED : 0;
	n->send.wr_id = i;
	n->sent++;
	if (counting)
		step_post_send(n, n->qp[i]);
	else
		send_one(n, n->qp[i]);
}

static void post_recv(struct node *n, unsigned i)
{
	n->recv.wr_id = i;
	if (counting)
		step_post_recv(n, n->qp[i]);
	else
		recv_one(n, n->qp[i]);
}

/* Until nothing comes any more; each receive is posted anew. Returns how many messages came, and
 * sends were completed by a signal. */
static unsigned poll_node(struct node *n)
{
	struct ibv_wc wc[POLL_MOST];
	unsigned msgs = 0;
	int k;

	do {
		if (!counting)
			k = ibv_poll_cq(n->cq, POLL_MOST, wc);
		else if (n == nodes)
			k = step_poll_sender(n, wc);
		else
			k = step_poll_receiver(n, wc);
		for (int i = 0; i < k; i++) {
			REQUIRE(wc[i].status == IBV_WC_SUCCESS);
			if (wc[i].opcode & IBV_WC_RECV) {
				post_recv(n, (unsigned)wc[i].wr_id);
				msgs++;
			} else {
				n->got += SIGNAL;
			}
		}
	} while (k > 0 || n->wire.count);
	return msgs;
}

/* As perftest's bandwidth tests: as many under way as there may be, one post a message. */
static unsigned stream(unsigned count)
{
	struct node *a = nodes, *b = nodes + 1;
	unsigned most = num_qps > 1 ? num_qps * SIGNAL : DEPTH, first = a->sent;

	while (a->sent - first < count) {
		for (unsigned i = 0; a->sent - a->got < most && i < DEPTH; i++)
			post_send(a);
		poll_node(b);
		poll_node(a);
	}
	return a->sent - first;
}

/* One message at a time, to and fro. */
static unsigned ping(unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		struct node *from = nodes + i % 2, *to = nodes + (i + 1) % 2;

		post_send(from);
		while (!poll_node(to))
			poll_node(from); /* it asks for an address first */
	}
	return count;
}

static unsigned nothing(unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		poll_node(nodes);
	return count;
}

static const struct work {
	const char *name;
	enum ibv_wr_opcode opcode;
	unsigned qps;
	unsigned (*fn)(unsigned count);
	bool fabric;
} works[] = {
	{"send", IBV_WR_SEND, 1, stream, false},
	{"write", IBV_WR_RDMA_WRITE, 1, stream, false},
	{"many", IBV_WR_SEND, MAX_QPS, stream, false},
	{"ping", IBV_WR_SEND, 1, ping, false},
	{"write_many", IBV_WR_RDMA_WRITE, MAX_QPS, stream, false},
	{"empty", IBV_WR_SEND, 1, nothing, false},
	{"fabric_send", IBV_WR_SEND, 1, stream, true},
	{"fabric_write", IBV_WR_RDMA_WRITE, 1, stream, true},
	{"fabric_ping", IBV_WR_SEND, 1, ping, true},
	{"fabric_empty", IBV_WR_SEND, 1, nothing, true},
};

static void set_up(const struct work *w)
{
	for (unsigned i = 0; i < BUFS; i++)
		free_bufs[num_free++] = bufs[i];
	num_qps = w->qps;
	for (unsigned i = 0; i < 2; i++) {
		nodes[i].wire.peer = &nodes[1 - i].wire;
		node_open(&nodes[i], i + 1, w->fabric);
		make_qps(&nodes[i]);
	}
	for (unsigned i = 0; i < 2; i++) {
		struct node *n = nodes + i, *to = nodes + 1 - i;

		n->send =
			(struct ibv_send_wr){.sg_list = &n->sge,
					     .num_sge = 1,
					     .opcode = w->opcode,
					     .wr.rdma = {(uintptr_t)to->buf + 4096, to->mr->rkey}};
		for (unsigned q = 0; q < num_qps; q++) {
			connect_qp(n->qp[q], to->qp[q]->qp_num, 2 - i);
			for (unsigned r = 0; r < (num_qps > 1 ? 2 * SIGNAL : 2 * DEPTH); r++)
				post_recv(n, q);
		}
	}
}

/* Its members go with the process, which has its devices to the end. */
static int remove_fabric(void)
{
	char cmd[sizeof(fabric_dir) + 16];

	snprintf(cmd, sizeof(cmd), "rm -r %s", fabric_dir);
	return system(cmd) ? 1 : 0; // NOLINT: of this program's own making
}

/* Counts are of one compiler. */
static int print_compiler(void)
{
#if defined(__clang__)
	printf("clang %d\n", __clang_major__);
#else
	printf("gcc %d\n", __GNUC__);
#endif
	return 0;
}

int main(int argc, char **argv)
{
	unsigned count = argc == 3 ? (unsigned)atoi(argv[2]) : 0;
	const struct work *w = works;

	if (argc == 2 && !strcmp(argv[1], "compiler"))
		return print_compiler();
	while (w < works + sizeof(works) / sizeof(works[0]) && argc == 3 &&
	       strcmp(w->name, argv[1]))
		w++;
	if (argc != 3 || !count || w == works + sizeof(works) / sizeof(works[0])) {
		fprintf(stderr,
			"usage: hot compiler | hot [fabric_]send|[fabric_]write|many|write_many|"
			"[fabric_]ping|[fabric_]empty COUNT\n");
		return 2;
	}
	REQUIRE(!w->fabric || mkdtemp(fabric_dir));
	set_up(w);
	/* ARP, rings that grow, windows that open. */
	w->fn(num_qps > 1 ? 2 * num_qps * SIGNAL : 64 * DEPTH);
	counting = true;
	printf("%u\n", w->fn(count));
	return w->fabric ? remove_fabric() : 0;
}
