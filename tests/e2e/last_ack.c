/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Who receives a message and ends at once has acknowledged it: last_ack ROUNDS
 *
 * Two processes a round: one sends a message, the other one receives it, the first or second frame
 * of all that is between them, and ends: by exit() or _exit(), having polled or slept for an event.
 * No object is destroyed. Prints how many rounds failed, of each kind, and ends with 1 if any did.
 */
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES 64u

struct kind {
	const char *name;
	bool events, at_once, known; /* it ends by _exit(); it has written to the sender before */
};

static const struct kind kinds[] = {
	{"polls, _exit()", false, true, false},
	{"sleeps, _exit()", true, true, false},
	{"polls, exit()", false, false, false},
	{"polls, _exit(), has written before", false, true, true},
	{"sleeps, _exit(), has written before", true, true, true},
};

struct end {
	uint32_t qpn;
	union ibv_gid gid;
};

struct side {
	const struct kind *kind;
	bool receives;
	int from, to; /* pipes */
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	struct ibv_comp_channel *channel;
	struct ibv_sge sge;
};

static char memory[BYTES];

static _Noreturn void give_up(const char *what)
{
	perror(what);
	_exit(99);
}

static void need(bool ok, const char *what)
{
	if (!ok)
		give_up(what);
}

static void exchange(const struct side *s, const void *out, void *in, size_t len)
{
	need(write(s->to, out, len) == (ssize_t)len && read(s->from, in, len) == (ssize_t)len,
	     "pipe");
}

static void wait_for_other(const struct side *s)
{
	char c = 0;

	exchange(s, &c, &c, 1);
}

static void open_side(struct side *s, struct end *own)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;
	struct ibv_qp_init_attr init = {.cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_pd *pd;
	struct ibv_mr *mr;

	need(ctx, "ibv_open_device");
	attr.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	pd = ibv_alloc_pd(ctx);
	s->channel = ibv_create_comp_channel(ctx);
	s->cq = init.send_cq = init.recv_cq = ibv_create_cq(ctx, 8, NULL, s->channel, 0);
	mr = pd ? ibv_reg_mr(pd, memory, BYTES, IBV_ACCESS_LOCAL_WRITE) : NULL;
	s->qp = pd && s->cq ? ibv_create_qp(pd, &init) : NULL;
	if (!s->qp || !mr || !s->channel)
		give_up("objects");
	need(!ibv_modify_qp(s->qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
	     "INIT");
	s->sge = (struct ibv_sge){(uintptr_t)memory, BYTES, mr->lkey};
	own->qpn = s->qp->qp_num;
	need(!ibv_query_gid(ctx, 1, 0, &own->gid), "ibv_query_gid");
}

static void connect_side(struct side *s, const struct end *peer)
{
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qpn,
		.max_dest_rd_atomic = 1,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = peer->gid, .hop_limit = 64}},
	};
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .max_rd_atomic = 1};

	need(!ibv_modify_qp(s->qp, &rtr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER),
	     "RTR");
	need(!ibv_modify_qp(s->qp, &rts,
			    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
	     "RTS");
}

/* The next completion's status. */
static int completion(const struct side *s)
{
	struct ibv_wc wc = {.status = IBV_WC_SUCCESS};

	while (!ibv_poll_cq(s->cq, 1, &wc))
		;
	return wc.status;
}

static void send_one(const struct side *s, enum ibv_wr_opcode opcode, int num_sge)
{
	struct ibv_sge sge = s->sge;
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = num_sge,
				 .opcode = opcode,
				 .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;

	need(!ibv_post_send(s->qp, &wr, &bad), "ibv_post_send");
}

static int run(struct side *s)
{
	struct ibv_recv_wr recv = {.sg_list = &s->sge, .num_sge = 1}, *bad;
	struct ibv_cq *cq;
	struct end own, peer;
	void *ctx;

	alarm(60);
	memset(&own, 0, sizeof(own));
	open_side(s, &own);
	if (s->receives)
		need(!ibv_post_recv(s->qp, &recv, &bad), "ibv_post_recv");
	exchange(s, &own, &peer, sizeof(own));
	connect_side(s, &peer);
	wait_for_other(s);
	/* Of no bytes: it needs no key. */
	if (s->receives && s->kind->known) {
		send_one(s, IBV_WR_RDMA_WRITE, 0);
		need(!completion(s), "RDMA WRITE");
	}
	need(!ibv_req_notify_cq(s->cq, 0), "ibv_req_notify_cq");
	wait_for_other(s);
	if (!s->receives)
		send_one(s, IBV_WR_SEND, 1);
	else if (s->kind->events)
		need(!ibv_get_cq_event(s->channel, &cq, &ctx), "ibv_get_cq_event");
	return completion(s);
}

static pid_t start(const struct kind *kind, bool receives, int from, int to)
{
	struct side s = {.kind = kind, .receives = receives, .from = from, .to = to};
	pid_t pid = fork();
	int status;

	need(pid >= 0, "fork");
	if (pid)
		return pid;
	status = run(&s);
	if (receives && !kind->at_once)
		exit(status);
	_exit(status);
}

/* What both ended with: the statuses of their completions, or 99. */
static bool round_of(const struct kind *kind)
{
	int there[2], back[2], status[2];
	pid_t pid[2];

	need(!pipe(there) && !pipe(back), "pipe");
	pid[0] = start(kind, true, there[0], back[1]);
	pid[1] = start(kind, false, back[0], there[1]);
	for (unsigned i = 0; i < 2; i++) {
		close(there[i]);
		close(back[i]);
		need(waitpid(pid[i], &status[i], 0) == pid[i], "waitpid");
	}
	if (status[0] || status[1])
		printf("%s: receiver 0x%x, sender 0x%x\n", kind->name, status[0], status[1]);
	return !status[0] && !status[1];
}

int main(int argc, char **argv)
{
	int rounds = argc == 2 ? atoi(argv[1]) : 0; // NOLINT(cert-err34-c): 0 is refused
	unsigned bad = 0;

	if (rounds <= 0) {
		fprintf(stderr, "last_ack: see the head of last_ack.c\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (unsigned k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		for (int i = 0; i < rounds; i++)
			bad += !round_of(&kinds[k]);
	}
	printf("%u of %u rounds failed\n", bad,
	       (unsigned)rounds * (unsigned)(sizeof(kinds) / sizeof(kinds[0])));
	return bad != 0;
}
