/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What Debian's programs do not show of a connection: rejects, private data, who disconnects, who
 * vanishes, errors that a responder reports. Linked with Debian's librdmacm alone, so that the
 * same binary runs on the kernel's Soft-RoCE and, under `urxe run`, on urxe.
 *
 *	peer s ADDR SCENARIO	server: one connection, then exit
 *	peer c ADDR SCENARIO	client
 * Exit status 0 when all went as the scenario (scenarios[] below) says; 77 when the device or its
 * libibverbs has not what it is about.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <endian.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <netdb.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PORT	 "7177"
#define LEN	 6000
#define WAIT_MS	 20000
#define REQ_PRIV 56
#define REP_PRIV 196
#define REJ_PRIV 148

enum op {
	OP_NONE,
	OP_SEND,
	OP_SEND_IMM,
	OP_SEND_ZERO,
	OP_WRITE,
	OP_WRITE_IMM,
	OP_READ,
	OP_FADD,
	OP_FLUSH
};

struct scenario {
	const char *name;
	enum op op;
	size_t len;		   /* of the operation */
	size_t recv;		   /* room of the server's receive; 0: none is posted at first */
	unsigned rkey_xor;	   /* spoils the key */
	size_t beyond;		   /* spoils the address */
	enum ibv_wc_status client; /* of the client's operation */
	enum ibv_wc_status server; /* of the server's receive */
	bool server_disconnects, client_exits, server_exits, both;
	bool killed;		     /* who exits */
	unsigned accept_ms, recv_ms; /* the server waits before it accepts, or posts the receive */
	bool reject;
};

#define SKIPPED	     77
#define RECV_FLUSHED IBV_WC_WR_FLUSH_ERR
static const struct scenario scenarios[] = {
	{.name = "send", .op = OP_SEND, .len = LEN, .recv = LEN},
	{.name = "imm", .op = OP_SEND_IMM, .len = 100, .recv = LEN},
	{.name = "zero", .op = OP_SEND_ZERO, .recv = LEN},
	{.name = "write", .op = OP_WRITE, .len = LEN, .recv = LEN, .server = RECV_FLUSHED},
	{.name = "write-imm", .op = OP_WRITE_IMM, .len = LEN, .recv = LEN},
	{.name = "read", .op = OP_READ, .len = LEN, .recv = LEN, .server = RECV_FLUSHED},
	{.name = "fadd", .op = OP_FADD, .len = 8, .recv = LEN, .server = RECV_FLUSHED},
	/* provider/quirks.md: flush-icrc */
	{.name = "flush", .op = OP_FLUSH, .len = LEN, .recv = LEN, .server = RECV_FLUSHED},
	{.name = "bad-rkey",
	 .op = OP_WRITE,
	 .len = LEN,
	 .recv = LEN,
	 .rkey_xor = 0x5a00,
	 .client = IBV_WC_REM_ACCESS_ERR,
	 .server = RECV_FLUSHED},
	{.name = "bad-read",
	 .op = OP_READ,
	 .len = LEN,
	 .recv = LEN,
	 .beyond = 8,
	 .client = IBV_WC_REM_ACCESS_ERR,
	 .server = RECV_FLUSHED},
	{.name = "long-send",
	 .op = OP_SEND,
	 .len = LEN,
	 .recv = 100,
	 .client = IBV_WC_REM_INV_REQ_ERR,
	 .server = IBV_WC_LOC_LEN_ERR},
	/* The kernel's responder says NAK 3 here, where table 61 says NAK 1. */
	{.name = "long-send-rxe",
	 .op = OP_SEND,
	 .len = LEN,
	 .recv = 100,
	 .client = IBV_WC_REM_OP_ERR,
	 .server = IBV_WC_LOC_QP_OP_ERR},
	{.name = "rnr", .op = OP_SEND, .len = 100, .recv_ms = 300},
	{.name = "slow", .op = OP_SEND, .len = 100, .recv = LEN, .accept_ms = 3000},
	{.name = "server-disconnects",
	 .op = OP_SEND,
	 .len = 100,
	 .recv = LEN,
	 .server_disconnects = true},
	{.name = "both-disconnect", .op = OP_SEND, .len = 100, .recv = LEN, .both = true},
	{.name = "client-exits", .op = OP_SEND, .len = 100, .recv = LEN, .client_exits = true},
	{.name = "server-exits", .op = OP_SEND, .len = 100, .recv = LEN, .server_exits = true},
	{.name = "client-killed",
	 .op = OP_SEND,
	 .len = 100,
	 .recv = LEN,
	 .client_exits = true,
	 .killed = true},
	{.name = "server-killed",
	 .op = OP_SEND,
	 .len = 100,
	 .recv = LEN,
	 .server_exits = true,
	 .killed = true},
	{.name = "reject", .reject = true},
	{.name = "nobody"},
};

struct side {
	const struct scenario *sc;
	struct rdma_event_channel *ch;
	struct rdma_cm_id *id, *listener;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	_Alignas(8) uint8_t buf[LEN];
	uint8_t priv[256];
	size_t priv_len;
	int status;
};

/* What the server tells of its memory, in the private data of the REP. */
struct offer {
	uint64_t addr;
	uint32_t rkey;
	char text[20];
};

static void __attribute__((format(printf, 1, 2), noreturn)) fail(const char *fmt, ...)
{
	va_list ap;

	printf("FAIL ");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf(" (errno %d, %s)\n", errno, strerror(errno));
	exit(1);
}

static void pause_ms(unsigned ms)
{
	nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL);
}

/* Takes an event, acks it; what it said is in s->status, s->priv; a new id in s->id. */
static enum rdma_cm_event_type take(struct side *s, int ms)
{
	struct pollfd p = {.fd = s->ch->fd, .events = POLLIN};
	enum rdma_cm_event_type type;
	struct rdma_cm_event *ev;

	if (poll(&p, 1, ms) != 1)
		fail("no event in %d ms", ms);
	if (rdma_get_cm_event(s->ch, &ev))
		fail("rdma_get_cm_event");
	type = ev->event;
	s->status = ev->status;
	s->priv_len = ev->param.conn.private_data_len;
	if (s->priv_len && ev->param.conn.private_data)
		memcpy(s->priv, ev->param.conn.private_data, s->priv_len);
	if (type == RDMA_CM_EVENT_CONNECT_REQUEST)
		s->id = ev->id;
	printf("event %s status %d private %zu rr %u id %u\n", rdma_event_str(type), ev->status,
	       s->priv_len, ev->param.conn.responder_resources, ev->param.conn.initiator_depth);
	rdma_ack_cm_event(ev);
	return type;
}

static void expect(struct side *s, enum rdma_cm_event_type want, int ms)
{
	enum rdma_cm_event_type got = take(s, ms);

	if (got != want)
		fail("got %s, status %d, not %s", rdma_event_str(got), s->status,
		     rdma_event_str(want));
}

static void expect_text(struct side *s, const void *at, const char *text, size_t len)
{
	if (s->priv_len < len)
		fail("private data of %zu bytes, not %zu", s->priv_len, len);
	if (strcmp(at, text))
		fail("private data do not say \"%s\"", text);
}

/*
 * FLUSH came to libibverbs with version 45: its flags, and the member of struct ibv_qp_ex that
 * stands behind wr_atomic_write. urxe has a call for programs of before.
 */
#define FLUSH_ACCESS (1 << 8) /* global */
#define FLUSH_QP     (1 << 11)
#define FLUSH_GLOBAL 1
#define FLUSH_RANGE  0

typedef void flush_fn(struct ibv_qp_ex *x, uint32_t rkey, uint64_t addr, size_t len, uint8_t type,
		      uint8_t level);

static int access_flags(const struct side *s)
{
	return IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
	       IBV_ACCESS_REMOTE_ATOMIC | (s->sc->op == OP_FLUSH ? FLUSH_ACCESS : 0);
}

static void post_flush(struct side *s, const struct offer *o)
{
	struct ibv_qp_ex *x = ibv_qp_to_qp_ex(s->id->qp);
	void *urxe = dlopen("liburxe-rdmav34.so", RTLD_LAZY | RTLD_NOLOAD);
	flush_fn *fn = urxe ? (flush_fn *)dlsym(urxe, "urxedv_wr_flush") : NULL;

	if (!fn)
		fn = ((flush_fn **)&x->wr_atomic_write)[1];
	ibv_wr_start(x);
	x->wr_id = 2;
	x->wr_flags = IBV_SEND_SIGNALED;
	fn(x, o->rkey, o->addr, s->sc->len, FLUSH_GLOBAL, FLUSH_RANGE);
	if (ibv_wr_complete(x))
		fail("FLUSH");
}

static void create_qp(struct side *s)
{
	bool flush = s->sc->op == OP_FLUSH;
	struct ibv_qp_init_attr_ex qp = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.send_cq = s->cq,
		.recv_cq = s->cq,
		.pd = s->pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | (flush ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0),
		.send_ops_flags = flush ? FLUSH_QP | IBV_QP_EX_WITH_SEND : 0,
	};

	if (!rdma_create_qp_ex(s->id, &qp))
		return;
	if (flush && (errno == EOPNOTSUPP || errno == EINVAL)) {
		printf("skipped: no FLUSH here\n");
		exit(SKIPPED);
	}
	fail("rdma_create_qp_ex");
}

static void make_qp(struct side *s)
{
	s->pd = ibv_alloc_pd(s->id->verbs);
	s->cq = s->pd ? ibv_create_cq(s->id->verbs, 16, NULL, NULL, 0) : NULL;
	if (!s->cq)
		fail("pd, cq");
	create_qp(s);
	s->mr = ibv_reg_mr(s->pd, s->buf, sizeof(s->buf), access_flags(s));
	if (!s->mr)
		fail("ibv_reg_mr");
}

static void post_recv(struct side *s, size_t len)
{
	struct ibv_sge sge = {(uintptr_t)s->buf, (uint32_t)len, s->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1}, *bad;

	if (ibv_post_recv(s->id->qp, &wr, &bad))
		fail("ibv_post_recv");
}

static void post_op(struct side *s, const struct offer *o)
{
	static const enum ibv_wr_opcode codes[] = {
		[OP_SEND] = IBV_WR_SEND,
		[OP_SEND_IMM] = IBV_WR_SEND_WITH_IMM,
		[OP_SEND_ZERO] = IBV_WR_SEND,
		[OP_WRITE] = IBV_WR_RDMA_WRITE,
		[OP_WRITE_IMM] = IBV_WR_RDMA_WRITE_WITH_IMM,
		[OP_READ] = IBV_WR_RDMA_READ,
		[OP_FADD] = IBV_WR_ATOMIC_FETCH_AND_ADD,
	};
	struct ibv_sge sge = {(uintptr_t)s->buf, (uint32_t)s->sc->len, s->mr->lkey};
	struct ibv_send_wr *bad, wr = {
					 .wr_id = 2,
					 .sg_list = &sge,
					 .num_sge = s->sc->len ? 1 : 0,
					 .opcode = codes[s->sc->op],
					 .send_flags = IBV_SEND_SIGNALED,
					 .imm_data = htonl(0x12345678),
				 };

	if (s->sc->op == OP_FLUSH) {
		post_flush(s, o);
		return;
	}
	if (s->sc->op == OP_FADD) {
		wr.wr.atomic.remote_addr = o->addr;
		wr.wr.atomic.rkey = o->rkey;
		wr.wr.atomic.compare_add = 5;
	} else {
		wr.wr.rdma.remote_addr = o->addr + s->sc->beyond;
		wr.wr.rdma.rkey = o->rkey ^ s->sc->rkey_xor;
	}
	if (ibv_post_send(s->id->qp, &wr, &bad))
		fail("ibv_post_send");
}

static void take_wc(struct side *s, enum ibv_wc_status want, struct ibv_wc *wc)
{
	int n = 0;

	for (int ms = 0; ms < WAIT_MS && !n; ms++) {
		n = ibv_poll_cq(s->cq, 1, wc);
		if (!n)
			pause_ms(1);
	}
	if (n != 1)
		fail("no completion");
	printf("completion %s opcode %d len %u flags %x\n", ibv_wc_status_str(wc->status),
	       wc->opcode, wc->byte_len, wc->wc_flags);
	if (wc->status != want)
		fail("completion says %s, not %s", ibv_wc_status_str(wc->status),
		     ibv_wc_status_str(want));
}

/* rdma_cm has given the QP the access that it knows: the client waits until FLUSH is allowed, too.
 */
static void allow_flush(struct side *s)
{
	struct ibv_qp_attr attr = {.qp_access_flags = (unsigned)access_flags(s)};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct ibv_wc wc;

	if (ibv_modify_qp(s->id->qp, &attr, IBV_QP_ACCESS_FLAGS))
		fail("ibv_modify_qp");
	if (ibv_post_send(s->id->qp, &wr, &bad))
		fail("ibv_post_send");
	take_wc(s, IBV_WC_SUCCESS, &wc);
}

static void fill(uint8_t *buf, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		buf[i] = (uint8_t)(i * 7 + i / 251 + seed);
}

static void check(const uint8_t *buf, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		if (buf[i] != (uint8_t)(i * 7 + i / 251 + seed))
			fail("byte %zu is %#x", i, buf[i]);
}

/* The server's part of the operation: its receive, and what lies in its memory. */
static void server_op(struct side *s)
{
	const struct scenario *sc = s->sc;
	struct ibv_wc wc;

	if (sc->recv_ms) {
		pause_ms(sc->recv_ms);
		post_recv(s, LEN);
	}
	if (sc->server == RECV_FLUSHED)
		return;
	take_wc(s, sc->server, &wc);
	if (wc.status != IBV_WC_SUCCESS)
		return;
	if (wc.byte_len != sc->len)
		fail("%u bytes received, not %zu", wc.byte_len, sc->len);
	if ((sc->op == OP_SEND_IMM || sc->op == OP_WRITE_IMM) &&
	    (!(wc.wc_flags & IBV_WC_WITH_IMM) || wc.imm_data != htonl(0x12345678)))
		fail("immediate data");
	check(s->buf, sc->len, 1);
}

static void server_after(struct side *s)
{
	struct ibv_wc wc;
	uint64_t word;

	if (s->sc->server == RECV_FLUSHED)
		take_wc(s, RECV_FLUSHED, &wc);
	if (s->sc->op == OP_WRITE && !s->sc->client)
		check(s->buf, LEN, 1);
	memcpy(&word, s->buf, 8);
	if (s->sc->op == OP_FADD && word != 12)
		fail("the atomic left %llu", (unsigned long long)word);
}

static struct addrinfo *resolve(const char *addr)
{
	struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM}, *ai;

	if (getaddrinfo(addr, PORT, &hints, &ai))
		fail("getaddrinfo");
	return ai;
}

static void accept_it(struct side *s)
{
	struct rdma_conn_param param = {
		.responder_resources = 2, .initiator_depth = 2, .rnr_retry_count = 7};
	uint8_t priv[REP_PRIV] = {0};
	struct offer o = {.text = "welcome"};

	make_qp(s);
	fill(s->buf, LEN, 2);
	if (s->sc->op == OP_FADD)
		memcpy(s->buf, &(uint64_t){7}, 8);
	if (s->sc->recv)
		post_recv(s, s->sc->recv);
	o.addr = htobe64((uintptr_t)s->buf);
	o.rkey = htobe32(s->mr->rkey);
	memcpy(priv, &o, sizeof(o));
	param.private_data = priv;
	param.private_data_len = sizeof(priv);
	if (s->sc->accept_ms)
		pause_ms(s->sc->accept_ms);
	if (rdma_accept(s->id, &param))
		fail("rdma_accept");
	expect(s, RDMA_CM_EVENT_ESTABLISHED, WAIT_MS);
	if (s->sc->op == OP_FLUSH)
		allow_flush(s);
}

static void leave(struct side *s)
{
	rdma_destroy_qp(s->id);
	ibv_dereg_mr(s->mr);
	ibv_destroy_cq(s->cq);
	ibv_dealloc_pd(s->pd);
}

/* Without a word to the peer; killed, not even of what the process is made of. */
static void end(const struct side *s)
{
	if (s->sc->killed)
		raise(SIGKILL);
	exit(0);
}

static void server(struct side *s, const char *addr)
{
	char no[REJ_PRIV] = "no thanks";

	if (rdma_create_id(s->ch, &s->listener, NULL, RDMA_PS_TCP) ||
	    rdma_bind_addr(s->listener, resolve(addr)->ai_addr) || rdma_listen(s->listener, 4))
		fail("listen");
	printf("listening\n");
	expect(s, RDMA_CM_EVENT_CONNECT_REQUEST, 60000);
	expect_text(s, s->priv, "hello", REQ_PRIV);
	if (s->sc->reject) {
		if (rdma_reject(s->id, no, sizeof(no)))
			fail("rdma_reject");
	} else {
		accept_it(s);
		server_op(s);
		if (s->sc->server_exits)
			end(s);
		if ((s->sc->server_disconnects || s->sc->both) && rdma_disconnect(s->id))
			fail("rdma_disconnect");
		expect(s, RDMA_CM_EVENT_DISCONNECTED, WAIT_MS);
		if (!s->sc->server_disconnects && !s->sc->both)
			rdma_disconnect(s->id);
		server_after(s);
		leave(s);
	}
	rdma_destroy_id(s->id);
	rdma_destroy_id(s->listener);
}

static void client_check(struct side *s)
{
	uint64_t word;

	memcpy(&word, s->buf, 8);
	if (s->sc->op == OP_READ)
		check(s->buf, LEN, 2);
	if (s->sc->op == OP_FADD && word != 7)
		fail("the atomic returned %llu", (unsigned long long)word);
}

static void client_connected(struct side *s)
{
	struct ibv_wc wc;
	struct offer o;

	memcpy(&o, s->priv, sizeof(o));
	expect_text(s, ((struct offer *)s->priv)->text, "welcome", REP_PRIV);
	o.addr = be64toh(o.addr);
	o.rkey = be32toh(o.rkey);
	if (s->sc->op == OP_FLUSH)
		take_wc(s, IBV_WC_SUCCESS, &wc);
	fill(s->buf, LEN, 1);
	post_op(s, &o);
	take_wc(s, s->sc->client, &wc);
	if (wc.status == IBV_WC_SUCCESS)
		client_check(s);
	if (s->sc->client_exits)
		end(s);
	if (!s->sc->server_disconnects && !s->sc->server_exits && rdma_disconnect(s->id))
		fail("rdma_disconnect");
	expect(s, RDMA_CM_EVENT_DISCONNECTED, WAIT_MS);
	if (s->sc->server_disconnects || s->sc->server_exits)
		rdma_disconnect(s->id);
}

static void client(struct side *s, const char *addr)
{
	struct rdma_conn_param param = {.responder_resources = 2,
					.initiator_depth = 2,
					.retry_count = 7,
					.rnr_retry_count = 7};
	char hello[REQ_PRIV] = "hello";

	if (rdma_create_id(s->ch, &s->id, NULL, RDMA_PS_TCP) ||
	    rdma_resolve_addr(s->id, NULL, resolve(addr)->ai_addr, 3000))
		fail("rdma_resolve_addr");
	expect(s, RDMA_CM_EVENT_ADDR_RESOLVED, 5000);
	if (rdma_resolve_route(s->id, 3000))
		fail("rdma_resolve_route");
	expect(s, RDMA_CM_EVENT_ROUTE_RESOLVED, 5000);
	make_qp(s);
	if (s->sc->op == OP_FLUSH)
		post_recv(s, 0);
	param.private_data = hello;
	param.private_data_len = sizeof(hello);
	if (rdma_connect(s->id, &param))
		fail("rdma_connect");
	if (s->sc->reject || !s->sc->op) {
		expect(s, RDMA_CM_EVENT_REJECTED, WAIT_MS);
		if (s->status != (s->sc->reject ? 28 : 8))
			fail("reject reason %d", s->status);
		if (s->sc->reject)
			expect_text(s, s->priv, "no thanks", REJ_PRIV);
	} else {
		expect(s, RDMA_CM_EVENT_ESTABLISHED, WAIT_MS);
		client_connected(s);
	}
	leave(s);
	rdma_destroy_id(s->id);
}

int main(int argc, char **argv)
{
	static struct side s;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (size_t i = 0; argc == 4 && i < sizeof(scenarios) / sizeof(scenarios[0]); i++)
		if (!strcmp(argv[3], scenarios[i].name))
			s.sc = &scenarios[i];
	if (!s.sc) {
		fprintf(stderr, "usage: peer s|c ADDR SCENARIO\n");
		return 2;
	}
	s.ch = rdma_create_event_channel();
	if (!s.ch)
		fail("rdma_create_event_channel");
	if (argv[1][0] == 's')
		server(&s, argv[2]);
	else
		client(&s, argv[2]);
	rdma_destroy_event_channel(s.ch);
	printf("done\n");
	return 0;
}
