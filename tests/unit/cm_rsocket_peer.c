/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* rsockets whose peer is one by hand, by rdma_cm and verbs: other programs, and bad ones. */
#include "rsocket_duo.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

#include "cm/rsocket/wire.h"

/* A peer, connected to a socket of ours. */
struct peer {
	struct sockaddr_storage at;
	int listener, fd;
	struct rdma_event_channel *ch;
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	struct urxe_rs_hello theirs; /* the socket's */
	uint8_t mem[4096];
};

static struct urxe_rs_hello good_hello(struct peer *p)
{
	return (struct urxe_rs_hello){
		.iomap = true,
		.credits = 8,
		.iomap_size = 0,
		.sgl = {(uintptr_t)p->mem, p->mr->rkey, 2},
		.buf = {(uintptr_t)p->mem + 1024, p->mr->rkey, 1024},
	};
}

static void peer_resolve(struct peer *p)
{
	struct ibv_recv_wr wr = {0}, *bad;

	p->ch = rdma_create_event_channel();
	p->id = resolved(p->ch, "10.0.0.1", ntohs(((struct sockaddr_in *)&p->at)->sin_port));
	with_qp(p->id);
	p->mr = ibv_reg_mr(p->id->pd, p->mem, sizeof(p->mem),
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	CU_ASSERT_PTR_NOT_NULL_FATAL(p->mr);
	for (unsigned i = 0; i < 4; i++)
		WORKS(ibv_post_recv(p->id->qp, &wr, &bad));
}

static void peer_connect(struct peer *p, const uint8_t *data, unsigned len)
{
	struct rdma_conn_param param = {.private_data = data,
					.private_data_len = (uint8_t)len,
					.rnr_retry_count = 7,
					.retry_count = 7};

	WORKS(rdma_connect(p->id, &param));
}

static void peer_drop(struct peer *p)
{
	ibv_dereg_mr(p->mr);
	drop(p->id);
	rdma_destroy_event_channel(p->ch);
}

static void peer_open(struct peer *p)
{
	uint8_t data[URXE_RS_HELLO_LEN];
	struct urxe_rs_hello h;
	struct rdma_cm_event *ev;

	memset(p, 0, sizeof(*p));
	p->listener = rs_listener("10.0.0.1", &p->at);
	peer_resolve(p);
	h = good_hello(p);
	urxe_rs_hello_put(data, &h);
	peer_connect(p, data, sizeof(data));
	p->fd = raccept(p->listener, NULL, NULL);
	CU_ASSERT_FATAL(p->fd >= 0);
	WORKS(rdma_get_cm_event(p->ch, &ev));
	CU_ASSERT_EQUAL_FATAL(ev->event, RDMA_CM_EVENT_ESTABLISHED);
	WORKS(urxe_rs_hello_get(ev->param.conn.private_data, ev->param.conn.private_data_len,
				&p->theirs));
	rdma_ack_cm_event(ev);
	CU_ASSERT_EQUAL(rs_ready(p->fd, POLLOUT), POLLOUT); /* the RTU is there */
}

static void peer_close(struct peer *p)
{
	/* It does not wait for one that takes nothing any more. */
	const struct linger none = {.l_onoff = 1, .l_linger = 0};

	WORKS(rsetsockopt(p->fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none)));
	WORKS(rclose(p->fd));
	WORKS(rclose(p->listener));
	peer_drop(p);
}

/* A message with @len bytes of mem before it. */
static void say(struct peer *p, uint32_t imm, uint64_t to, uint32_t key, uint32_t len)
{
	struct ibv_sge sge = {(uintptr_t)p->mem + 2048, len, p->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = len ? 1 : 0,
				 .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
				 .imm_data = htobe32(imm),
				 .wr.rdma = {to, key}},
			   *bad;

	WORKS(ibv_post_send(p->id->qp, &wr, &bad));
}

static void data(struct peer *p, uint32_t at, uint32_t len)
{
	say(p, urxe_rs_message(URXE_RS_DATA, len), p->theirs.buf.addr + at, p->theirs.buf.key, len);
}

/* What docs/rsocket says, both ways. */
static void by_hand(void)
{
	struct urxe_rs_sge sge;
	struct peer p;
	struct ibv_wc wc;
	char buf[8];
	int n;

	peer_open(&p);
	CU_ASSERT_EQUAL(p.theirs.credits, 384);
	CU_ASSERT_EQUAL(p.theirs.sgl.length, 2);
	CU_ASSERT_EQUAL(p.theirs.buf.length, 64 << 10);
	memcpy(p.mem + 2048, "hello", 5);
	data(&p, 0, 5);
	CU_ASSERT_EQUAL(rrecv(p.fd, buf, sizeof(buf), 0), 5);
	CU_ASSERT_EQUAL(memcmp(buf, "hello", 5), 0);
	/* What is not known is passed over. */
	say(&p, urxe_rs_message(URXE_RS_CONTROL, URXE_RS_KEEPALIVE), 0, 0, 0);
	say(&p, urxe_rs_message(URXE_RS_CONTROL, 77), 0, 0, 0);
	say(&p, urxe_rs_message(5, 77), 0, 0, 0);
	CU_ASSERT_EQUAL(rsend(p.fd, "world", 5, 0), 5);
	FAILS(rrecv(p.fd, buf, 1, MSG_DONTWAIT), EAGAIN);
	/* First the second half of its ring, in the second entry of ours; then the bytes. */
	do
		n = ibv_poll_cq(p.id->recv_cq, 1, &wc);
	while (!n);
	CU_ASSERT_EQUAL(be32toh(wc.imm_data) >> 29, URXE_RS_CREDITS);
	CU_ASSERT((be32toh(wc.imm_data) & URXE_RS_VALUE_MASK) >= 384);
	urxe_rs_sge_get(p.mem + URXE_RS_SGE_LEN, &sge, urxe_rs_host_big());
	CU_ASSERT_EQUAL(sge.addr, p.theirs.buf.addr + (64 << 10));
	CU_ASSERT_EQUAL(sge.length, 64 << 10);
	do
		n = ibv_poll_cq(p.id->recv_cq, 1, &wc);
	while (!n);
	CU_ASSERT_EQUAL(be32toh(wc.imm_data), urxe_rs_message(URXE_RS_DATA, 5));
	CU_ASSERT_EQUAL(memcmp(p.mem + 1024, "world", 5), 0);
	say(&p, urxe_rs_message(URXE_RS_CONTROL, URXE_RS_SHUTDOWN), 0, 0, 0);
	CU_ASSERT_EQUAL(rrecv(p.fd, buf, 1, 0), 0);
	CU_ASSERT_EQUAL(rsend(p.fd, "x", 1, 0), 1);
	say(&p, urxe_rs_message(URXE_RS_CONTROL, URXE_RS_DISCONNECT), 0, 0, 0);
	CU_ASSERT(rs_ready(p.fd, POLLIN | POLLHUP) & POLLIN);
	while (!(rs_ready(p.fd, POLLIN) & POLLHUP))
		;
	FAILS(rsend(p.fd, "x", 1, 0), EPIPE);
	peer_close(&p);
}

/* As many bytes as there is room for, and no more; then as it is given: 16 entries of one byte. */
static void little_room(void)
{
	struct pollfd pfd = {.events = POLLOUT};
	static char buf[4096];
	struct urxe_rs_sge sge;
	struct peer p;

	peer_open(&p);
	pfd.fd = p.fd;
	CU_ASSERT_EQUAL(rsend(p.fd, buf, sizeof(buf), MSG_DONTWAIT), 1024);
	CU_ASSERT_EQUAL(rpoll(&pfd, 1, 20), 0);
	for (uint32_t i = 0; i < 5; i++) {
		struct ibv_recv_wr wr = {0}, *bad;

		WORKS(ibv_post_recv(p.id->qp, &wr, &bad));
		sge = (struct urxe_rs_sge){(uintptr_t)p.mem + 1024 + i, p.mr->rkey, 1};
		urxe_rs_sge_put(p.mem + 2048, &sge, urxe_rs_host_big());
		say(&p, urxe_rs_message(URXE_RS_CREDITS, 100),
		    p.theirs.sgl.addr + (1 + i) % 2 * URXE_RS_SGE_LEN, p.theirs.sgl.key,
		    URXE_RS_SGE_LEN);
		CU_ASSERT_EQUAL(rs_ready(p.fd, POLLOUT), POLLOUT);
		buf[0] = (char)('a' + i);
		CU_ASSERT_EQUAL(rsend(p.fd, buf, 2, MSG_DONTWAIT), 1);
		FAILS(rsend(p.fd, buf, 2, MSG_DONTWAIT), EAGAIN);
	}
	CU_ASSERT_EQUAL(rpoll(&pfd, 1, 20), 0);
	CU_ASSERT_EQUAL(memcmp(p.mem + 1024, "abcde", 5), 0);
	peer_close(&p);
}

/* Credits are counted modulo 2^16, and none left is a wait. */
static void no_credits(void)
{
	struct peer p;

	peer_open(&p);
	for (unsigned i = 0; i < 8; i++)
		CU_ASSERT_EQUAL(rsend(p.fd, "x", 1, MSG_DONTWAIT), 1);
	FAILS(rsend(p.fd, "x", 1, MSG_DONTWAIT), EAGAIN);
	say(&p, urxe_rs_message(URXE_RS_CREDITS, 9), 0, 0, 0);
	CU_ASSERT_EQUAL(rs_ready(p.fd, POLLOUT), POLLOUT);
	CU_ASSERT_EQUAL(rsend(p.fd, "x", 1, MSG_DONTWAIT), 1);
	FAILS(rsend(p.fd, "x", 1, MSG_DONTWAIT), EAGAIN);
	peer_close(&p);
}

/* It says that it wrote more than it may. */
static void too_much(void)
{
	struct peer p;
	char c;

	peer_open(&p);
	say(&p, urxe_rs_message(URXE_RS_DATA, 0x1fffffff), 0, 0, 0);
	CU_ASSERT(rs_ready(p.fd, POLLIN) & POLLERR);
	FAILS(rrecv(p.fd, &c, 1, 0), EPROTO);
	CU_ASSERT_EQUAL(rrecv(p.fd, &c, 1, 0), 0);
	FAILS(rsend(p.fd, &c, 1, 0), EPIPE);
	peer_close(&p);
}

/* Bytes that come before an error are given, and the error by the next call. */
static void error_behind_bytes(void)
{
	struct peer p;
	char buf[8];

	peer_open(&p);
	data(&p, 0, 5);
	say(&p, urxe_rs_message(URXE_RS_DATA, 0x1fffffff), 0, 0, 0);
	CU_ASSERT_EQUAL(rrecv(p.fd, buf, sizeof(buf), MSG_WAITALL), 5);
	FAILS(rrecv(p.fd, buf, sizeof(buf), MSG_WAITALL), EPROTO);
	CU_ASSERT_EQUAL(rrecv(p.fd, buf, 1, 0), 0);
	peer_close(&p);
}

/* It tells of bytes that it has not written, or not there: none of the heap's come of that. */
static void claims(void)
{
	struct peer p;
	char buf[8];

	peer_open(&p);
	for (uint32_t i = 0; i < p.theirs.buf.length; i++)
		CU_ASSERT_EQUAL_FATAL(((const char *)(uintptr_t)p.theirs.buf.addr)[i], 0);
	say(&p, urxe_rs_message(URXE_RS_DATA, 8), 0, 0, 0);
	FAILS(rrecv(p.fd, buf, sizeof(buf), 0), EPROTO);
	peer_close(&p);
}

static void *send_much(void *fd)
{
	static const char bytes[2000];

	CU_ASSERT_EQUAL(rsend(*(int *)fd, bytes, sizeof(bytes), 0), 1024);
	FAILS(rsend(*(int *)fd, bytes, sizeof(bytes), 0), EPROTO);
	FAILS(rsend(*(int *)fd, bytes, sizeof(bytes), 0), EPIPE);
	return NULL;
}

/* Likewise of what was sent before it. */
static void error_behind_sent(void)
{
	struct ibv_wc wc = {0};
	struct peer p;
	pthread_t t;

	peer_open(&p);
	CU_ASSERT_EQUAL(pthread_create(&t, NULL, send_much, &p.fd), 0);
	while (ibv_poll_cq(p.id->recv_cq, 1, &wc) < 1 ||
	       be32toh(wc.imm_data) != urxe_rs_message(URXE_RS_DATA, 1024))
		;
	say(&p, urxe_rs_message(URXE_RS_DATA, 0x1fffffff), 0, 0, 0);
	pthread_join(t, NULL);
	peer_close(&p);
}

static atomic_uint signals;
static atomic_bool closed;

static void count(int sig)
{
	atomic_fetch_add(&signals, 1);
}

static void *close_it(void *fd)
{
	WORKS(rclose(*(int *)fd));
	atomic_store(&closed, true);
	return NULL;
}

/* What was sent arrives, though signals are handled while rclose() waits for that. */
static void signals_while_closing(void)
{
	struct ibv_recv_wr wr = {0}, *bad;
	struct sigaction sa = {.sa_handler = count};
	unsigned got = 0, last = 0;
	struct ibv_wc wc;
	struct peer p;
	pthread_t t;

	sigaction(SIGUSR1, &sa, NULL);
	peer_open(&p);
	/* It has four receives: the others wait for one. */
	for (unsigned i = 0; i < 8; i++)
		CU_ASSERT_EQUAL(rsend(p.fd, "x", 1, 0), 1);
	CU_ASSERT_EQUAL(pthread_create(&t, NULL, close_it, &p.fd), 0);
	for (unsigned i = 0; i < 100; i++) {
		pthread_kill(t, SIGUSR1);
		while (atomic_load(&signals) <= i && !atomic_load(&closed))
			sched_yield();
	}
	while (!last) {
		bool over = atomic_load(&closed); /* all has come, then */

		if (ibv_poll_cq(p.id->recv_cq, 1, &wc) < 1) {
			CU_ASSERT_FATAL(!over);
			continue;
		}
		CU_ASSERT_EQUAL_FATAL(wc.status, IBV_WC_SUCCESS);
		got += be32toh(wc.imm_data) == urxe_rs_message(URXE_RS_DATA, 1);
		last = be32toh(wc.imm_data) == urxe_rs_message(URXE_RS_CONTROL, URXE_RS_DISCONNECT);
		WORKS(ibv_post_recv(p.id->qp, &wr, &bad));
	}
	CU_ASSERT_EQUAL(got, 8);
	pthread_join(t, NULL);
	WORKS(rclose(p.listener));
	peer_drop(&p);
}

/* It goes, or gives memory that is none. */
static void gone(void)
{
	const struct urxe_rs_sge wrong = {0, 12345, 1000};
	const char bytes[1024] = "";
	struct peer p;
	char c;

	peer_open(&p);
	WORKS(rdma_disconnect(p.id));
	CU_ASSERT(rs_ready(p.fd, POLLIN) & POLLHUP);
	CU_ASSERT_EQUAL(rrecv(p.fd, &c, 1, 0), 0);
	peer_close(&p);

	peer_open(&p);
	urxe_rs_sge_put(p.mem + 2048, &wrong, urxe_rs_host_big());
	say(&p, urxe_rs_message(URXE_RS_CREDITS, 100), p.theirs.sgl.addr + URXE_RS_SGE_LEN,
	    p.theirs.sgl.key, URXE_RS_SGE_LEN);
	CU_ASSERT_EQUAL(rsend(p.fd, bytes, sizeof(bytes), 0), sizeof(bytes));
	while (rsend(p.fd, "x", 1, 0) == 1)
		;
	CU_ASSERT(errno == EIO || errno == EPIPE || errno == ECONNRESET);
	CU_ASSERT(rs_ready(p.fd, POLLIN) & (POLLERR | POLLHUP));
	peer_close(&p);
}

/* A request that is no rsocket's is refused, and the next one is accepted. */
static void strangers(void)
{
	static const unsigned lens[] = {0, 1, URXE_RS_HELLO_LEN, URXE_RS_HELLO_LEN};
	uint8_t hello[URXE_RS_HELLO_LEN];
	struct urxe_rs_hello h;
	struct peer p;

	memset(&p, 0, sizeof(p));
	p.listener = rs_listener("10.0.0.1", &p.at);
	WORKS(rfcntl(p.listener, F_SETFL, O_NONBLOCK));
	for (unsigned i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		struct rdma_cm_event *ev;

		peer_resolve(&p);
		h = good_hello(&p);
		urxe_rs_hello_put(hello, &h);
		if (i == 2)
			hello[0] = 9; /* of another version */
		if (i == 3)
			memset(hello + 8, 0, URXE_RS_SGE_LEN); /* it has no entries */
		peer_connect(&p, hello, lens[i]);
		CU_ASSERT_EQUAL(rs_ready(p.listener, POLLIN), POLLIN);
		FAILS(raccept(p.listener, NULL, NULL), EAGAIN);
		WORKS(rdma_get_cm_event(p.ch, &ev));
		CU_ASSERT_EQUAL(ev->event, RDMA_CM_EVENT_REJECTED);
		rdma_ack_cm_event(ev);
		peer_drop(&p);
	}
	peer_resolve(&p);
	h = good_hello(&p);
	urxe_rs_hello_put(hello, &h);
	peer_connect(&p, hello, sizeof(hello));
	CU_ASSERT_EQUAL(rs_ready(p.listener, POLLIN), POLLIN);
	p.fd = raccept(p.listener, NULL, NULL);
	CU_ASSERT(p.fd >= 0);
	peer_close(&p);
}

URXE_TEST_MAIN("cm_rsocket_peer", T(by_hand), T(little_room), T(no_credits), T(too_much), T(claims),
	       T(error_behind_bytes), T(error_behind_sent), T(signals_while_closing), T(gone),
	       T(strangers))
