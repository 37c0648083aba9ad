/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What faults of the link cost. They happen in every second time of so many milliseconds (the key
 * `fault-every` of `urxe run`): what is done in these stands beside what is done in those between
 * them, of the same processes and seconds, so that what else the machine does meets both alike.
 *
 *	loss -s ADDRESS
 *	loss -c ADDRESS write|read|send MS SECONDS	prints Gb/s without faults, and with
 */
#include <unistd.h>

#include "ends.h"

#define PORT  "18519"
#define SIZE  65536
#define DEPTH 64
#define READS 16 /* under way: no more are agreed upon */
#define RECVS 512
#define BATCH 32

static const struct op {
	const char *name;
	enum ibv_wr_opcode opcode;
	unsigned depth;
} ops[] = {
	{"write", IBV_WR_RDMA_WRITE, DEPTH},
	{"read", IBV_WR_RDMA_READ, READS},
	{"send", IBV_WR_SEND, DEPTH},
};

/* What the server tells of its memory. */
struct region {
	uint64_t addr;
	uint32_t rkey;
};

static uint8_t memory[SIZE];

static struct ibv_mr *reg(struct rdma_cm_id *id)
{
	struct ibv_mr *mr = ibv_reg_mr(id->pd, memory, sizeof(memory),
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					       IBV_ACCESS_REMOTE_READ);

	measure_need(mr != NULL, "ibv_reg_mr");
	return mr;
}

/* ---- the server ---- */

static void post_recvs(struct rdma_cm_id *id, const struct ibv_mr *mr, unsigned n)
{
	struct ibv_sge sge = {(uintptr_t)memory, SIZE, mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	while (n--)
		measure_need(!ibv_post_recv(id->qp, &wr, &bad), "ibv_post_recv");
}

/* Until it is ended. Whom reads and writes go to has nothing to do. */
static void server(const char *name)
{
	struct ibv_qp_init_attr attr = {.cap = {1, RECVS, 1, 1, 0}};
	struct rdma_cm_id *id, *listener = ends_create(name, PORT, RAI_PASSIVE, &attr);
	struct rdma_conn_param param = {.responder_resources = READS, .rnr_retry_count = 7};
	struct ibv_wc wc[BATCH];
	struct region region;
	struct ibv_mr *mr;
	bool sends;

	measure_need(!rdma_listen(listener, 1), "rdma_listen");
	measure_need(!rdma_get_request(listener, &id), "rdma_get_request");
	sends = *(const uint8_t *)id->event->param.conn.private_data;
	mr = reg(id);
	post_recvs(id, mr, RECVS);
	region = (struct region){(uintptr_t)memory, mr->rkey};
	param.private_data = &region;
	param.private_data_len = sizeof(region);
	measure_need(!rdma_accept(id, &param), "rdma_accept");
	for (;;) {
		if (sends)
			post_recvs(id, mr, ends_poll(id->recv_cq, BATCH, wc));
		else
			pause();
	}
}

/* ---- the client ---- */

static struct rdma_cm_id *connect_to(const char *name, bool sends, struct region *peer)
{
	struct ibv_qp_init_attr attr = {.cap = {DEPTH, 1, 1, 1, 0}, .sq_sig_all = 1};
	struct rdma_cm_id *id = ends_create(name, PORT, 0, &attr);
	uint8_t data = sends;
	struct rdma_conn_param param = {.private_data = &data,
					.private_data_len = sizeof(data),
					.initiator_depth = READS,
					.rnr_retry_count = 7,
					.retry_count = 7};

	measure_need(!rdma_connect(id, &param), "rdma_connect");
	memcpy(peer, id->event->param.conn.private_data, sizeof(*peer));
	return id;
}

/*
 * Of the times without faults (0) and with them (1): messages, and ns. What was done since the last
 * completion counts where that was: a stall belongs to the fault that it began with.
 */
static void run(struct rdma_cm_id *id, const struct op *op, const struct region *peer,
		uint64_t every, uint64_t until, uint64_t done[2], uint64_t spent[2])
{
	struct ibv_sge sge = {(uintptr_t)memory, SIZE, reg(id)->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = op->opcode}, *bad;
	uint64_t last = measure_now(), now = last;
	struct ibv_wc wc[BATCH];
	unsigned out = 0, got;

	wr.wr.rdma.remote_addr = peer->addr;
	wr.wr.rdma.rkey = peer->rkey;
	while (now < until) {
		for (; out < op->depth; out++)
			measure_need(!ibv_post_send(id->qp, &wr, &bad), "ibv_post_send");
		got = ends_poll(id->send_cq, BATCH, wc);
		if (!got)
			continue;
		now = measure_now();
		out -= got;
		done[last / every % 2] += got;
		spent[last / every % 2] += now - last;
		last = now;
	}
}

static void client(const char *name, const struct op *op, unsigned ms, unsigned seconds)
{
	uint64_t every = ms * 1000000ull, done[2] = {0}, spent[2] = {0};
	struct region peer;
	struct rdma_cm_id *id = connect_to(name, op->opcode == IBV_WR_SEND, &peer);

	run(id, op, &peer, every, measure_now() + seconds * 1000000000ull, done, spent);
	errno = ETIME;
	measure_need(spent[0] && spent[1], "not one time of each");
	for (unsigned i = 0; i < 2; i++)
		printf("%.3f\n", (double)done[i] * SIZE * 8 / (double)spent[i]);
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "-s"))
		server(argv[2]);
	if (argc != 6 || strcmp(argv[1], "-c") || atoi(argv[4]) < 1 || atoi(argv[5]) < 1)
		return 2;
	for (unsigned i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		if (strcmp(argv[3], ops[i].name))
			continue;
		client(argv[2], &ops[i], (unsigned)atoi(argv[4]), (unsigned)atoi(argv[5]));
		return 0;
	}
	return 2;
}
