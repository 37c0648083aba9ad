/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Datagram sockets of rsocket.h, between each other and with a peer that is made of the kernel's
 * UDP and a UD QP, so that each byte is seen. All addresses are the loopback's: the kernel has
 * these, and on the device they are its own ones.
 */
#include "cm_rdma.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include <rdma/rsocket.h>

#define HERE	"127.0.0.1"
#define GRH	40
#define HEADER4 16
#define BUF	4096
#define TRIES	1000
#define PATIENT 20000 /* ms, for what must come */

#define IS(call, ret)                                                             \
	do {                                                                      \
		ssize_t is_ = (call);                                             \
                                                                                  \
		if (is_ != (ssize_t)(ret))                                        \
			printf("\n    %s: %zd, %s", #call, is_, strerror(errno)); \
		CU_ASSERT_EQUAL_FATAL(is_, (ssize_t)(ret));                       \
	} while (0)

static socklen_t addr_len(const struct sockaddr *sa)
{
	return sa->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

static uint16_t port_in(const struct sockaddr_storage *sa)
{
	/* At the same place in both families. */
	return ntohs(((const struct sockaddr_in *)sa)->sin_port);
}

static uint16_t port_of(int fd, bool kernels)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);

	if (kernels)
		WORKS(getsockname(fd, (struct sockaddr *)&sa, &len));
	else
		WORKS(rgetsockname(fd, (struct sockaddr *)&sa, &len));
	return port_in(&sa);
}

/* A socket that is bound to an address and a number that was free. */
static int bound(const char *host, uint16_t *port)
{
	const struct sockaddr *sa = addr(host, 0);
	int fd = rsocket(sa->sa_family, SOCK_DGRAM, 0);

	CU_ASSERT_FATAL(fd >= 0);
	WORKS(rbind(fd, sa, addr_len(sa)));
	*port = port_of(fd, false);
	CU_ASSERT_NOT_EQUAL(*port, 0);
	return fd;
}

static ssize_t send_to(int fd, const void *p, size_t len, const char *host, uint16_t port)
{
	const struct sockaddr *sa = addr(host, port);

	return rsendto(fd, p, len, 0, sa, addr_len(sa));
}

/* A datagram comes by rrecvfrom(). */
static void comes(int fd, const char *text, const char *host, uint16_t port)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	struct sockaddr_storage from;
	socklen_t len = sizeof(from);
	char buf[BUF];

	CU_ASSERT_EQUAL_FATAL(rpoll(&p, 1, PATIENT), 1);
	CU_ASSERT_EQUAL(p.revents, POLLIN);
	IS(rrecvfrom(fd, buf, sizeof(buf), 0, (struct sockaddr *)&from, &len), strlen(text));
	CU_ASSERT(!memcmp(buf, text, strlen(text)));
	CU_ASSERT_EQUAL(len, addr_len((struct sockaddr *)&from));
	if (host)
		CU_ASSERT(!memcmp(&from, addr(host, port), len));
}

static void nothing(int fd)
{
	char c;

	FAILS(rrecv(fd, &c, 1, MSG_DONTWAIT), EAGAIN);
}

/* ---- the peer ---- */

static const uint8_t data4[] = {0x55, 0x55, 0x55, 0x55, 4, 0, 16, 0, 0, 0, 0, 0, 127, 0, 0, 1};
static const uint8_t control4[] = {0x55, 0x55, 0x55, 0x55, 4, 7, 16, 0, 0, 0, 0, 0, 127, 0, 0, 1};
static const uint8_t data6[28] = {0x55, 0x55, 0x55, 0x55, 6, 0, 28, [27] = 1};

static void put_qpn(uint8_t *header, uint32_t qpn)
{
	header[9] = (uint8_t)(qpn >> 16);
	header[10] = (uint8_t)(qpn >> 8);
	header[11] = (uint8_t)qpn;
}

struct peer {
	int fd;
	uint16_t port;
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	uint8_t buf[2 * BUF]; /* what came; what goes */
};

static void peer_receive(struct peer *p)
{
	WORKS(rdma_post_recv(p->id, NULL, p->buf, BUF, p->mr));
}

static void peer_open(struct peer *p, const char *host)
{
	struct sockaddr *sa = addr(host, 0);
	struct ibv_qp_init_attr attr = qp_attr();

	memset(p, 0, sizeof(*p));
	p->fd = socket(sa->sa_family, SOCK_DGRAM, 0);
	CU_ASSERT_FATAL(p->fd >= 0);
	WORKS(bind(p->fd, sa, addr_len(sa)));
	p->port = port_of(p->fd, true);
	attr.qp_type = IBV_QPT_UD;
	WORKS(rdma_create_id(NULL, &p->id, NULL, RDMA_PS_UDP));
	WORKS(rdma_resolve_addr(p->id, NULL, addr(host, 1), 1000));
	WORKS(rdma_resolve_route(p->id, 1000));
	WORKS(rdma_create_qp(p->id, NULL, &attr));
	p->mr = rdma_reg_msgs(p->id, p->buf, sizeof(p->buf));
	CU_ASSERT_PTR_NOT_NULL_FATAL(p->mr);
	peer_receive(p);
}

static void peer_close(struct peer *p)
{
	rdma_destroy_qp(p->id);
	rdma_dereg_mr(p->mr);
	rdma_destroy_id(p->id);
	close(p->fd);
}

/* A message of the kernel's to @port; its header, as far as it is not told otherwise, is right. */
static void peer_udp(struct peer *p, uint16_t port, uint8_t op, const char *text)
{
	uint8_t m[256];
	size_t len = strlen(text);

	memcpy(m, data4, HEADER4);
	m[5] = op;
	put_qpn(m, p->id->qp->qp_num);
	for (size_t i = 0; i < len; i++)
		m[HEADER4 + i] = (uint8_t)text[i];
	IS(sendto(p->fd, m, HEADER4 + len, 0, addr(HERE, port), sizeof(struct sockaddr_in)),
	   HEADER4 + len);
}

/* A message of the QP's. */
static void peer_ud(struct peer *p, uint32_t qpn, const void *m, size_t len)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};
	struct ibv_ah *ah;
	struct ibv_wc wc;
	union ibv_gid gid;

	attr.grh.dgid = p->id->route.path_rec->dgid;
	attr.grh.hop_limit = 64;
	while (!ibv_query_gid(p->id->verbs, 1, attr.grh.sgid_index, &gid) &&
	       memcmp(&gid, &p->id->route.path_rec->sgid, sizeof(gid)))
		attr.grh.sgid_index++;
	ah = ibv_create_ah(p->id->pd, &attr);
	CU_ASSERT_PTR_NOT_NULL_FATAL(ah);
	memcpy(p->buf + BUF, m, len);
	WORKS(rdma_post_ud_send(p->id, NULL, p->buf + BUF, len, p->mr, IBV_SEND_SIGNALED, ah, qpn));
	CU_ASSERT_EQUAL(rdma_get_send_comp(p->id, &wc), 1);
	CU_ASSERT_EQUAL(wc.status, IBV_WC_SUCCESS);
	WORKS(ibv_destroy_ah(ah));
}

/* What came over UDP, which has this header but for the QPN, that is returned. */
static uint32_t peer_got(struct peer *p, const uint8_t *header, size_t n, const char *text)
{
	uint8_t m[BUF];

	IS(recv(p->fd, m, sizeof(m), 0), n + strlen(text));
	CU_ASSERT(!memcmp(m, header, 9));
	CU_ASSERT(!memcmp(m + 12, header + 12, n - 12));
	CU_ASSERT(!memcmp(m + n, text, strlen(text)));
	return (uint32_t)m[9] << 16 | (uint32_t)m[10] << 8 | m[11];
}

/* ---- bytes ---- */

/* Send till the peer's QP has it: its way there is looked for meanwhile. Returns how often not. */
static unsigned until_direct(int fd, struct peer *p, const char *text, const char *host)
{
	struct ibv_wc wc;
	unsigned tries = 0;
	char m[BUF];

	for (;;) {
		IS(send_to(fd, text, strlen(text), host, p->port), strlen(text));
		if (recv(p->fd, m, sizeof(m), MSG_DONTWAIT) < 0)
			break;
		CU_ASSERT_FATAL(tries++ < TRIES);
		sched_yield();
	}
	CU_ASSERT_EQUAL(rdma_get_recv_comp(p->id, &wc), 1);
	CU_ASSERT_EQUAL(wc.status, IBV_WC_SUCCESS);
	return tries;
}

/* The peer's QP got "by QP" behind this header, with the socket's port number. */
static void by_qp(const struct peer *p, uint8_t *header, size_t len, uint16_t port)
{
	header[2] = (uint8_t)(port >> 8);
	header[3] = (uint8_t)port;
	CU_ASSERT(!memcmp(p->buf + GRH, header, len));
	CU_ASSERT(!memcmp(p->buf + GRH + len, "by QP", 5));
}

static void bytes(void)
{
	uint8_t header[8] = {4, 8, 0, 0, 127, 0, 0, 1};
	struct peer p;
	uint16_t port;
	uint32_t qpn;
	int fd = rsocket(AF_INET, SOCK_DGRAM, IPPROTO_UDP);

	peer_open(&p, HERE);
	IS(send_to(fd, "first", 5, HERE, p.port), 5);
	port = port_of(fd, false);
	qpn = peer_got(&p, data4, sizeof(data4), "first");
	CU_ASSERT(qpn > 1);
	/* No answer yet. */
	IS(send_to(fd, "", 0, HERE, p.port), 0);
	CU_ASSERT_EQUAL(peer_got(&p, data4, sizeof(data4), ""), qpn);
	peer_udp(&p, port, 7, "");
	until_direct(fd, &p, "by QP", HERE);
	by_qp(&p, header, sizeof(header), port);
	WORKS(rclose(fd));
	peer_close(&p);
}

static bool has_v6(void)
{
	int fd = socket(AF_INET6, SOCK_DGRAM, 0);
	bool has = fd >= 0 && !bind(fd, addr("::1", 0), sizeof(struct sockaddr_in6));

	if (fd >= 0)
		close(fd);
	return has;
}

static void bytes6(void)
{
	struct peer p;
	uint8_t m[28] = {0x55, 0x55, 0x55, 0x55, 6, 7, 28};
	uint8_t header[24] = {6, 24, [23] = 1};
	uint16_t port;
	int fd;

	if (!has_v6())
		return;
	fd = bound("::1", &port);
	peer_open(&p, "::1");
	IS(send_to(fd, "first", 5, "::1", p.port), 5);
	CU_ASSERT(peer_got(&p, data6, sizeof(data6), "first") > 1);
	put_qpn(m, p.id->qp->qp_num);
	IS(sendto(p.fd, m, sizeof(m), 0, addr("::1", port), sizeof(struct sockaddr_in6)),
	   sizeof(m));
	until_direct(fd, &p, "by QP", "::1");
	by_qp(&p, header, sizeof(header), port);
	WORKS(rclose(fd));
	peer_close(&p);
}

/* ---- bad input ---- */

static void bad_udp(void)
{
	static const uint8_t rows[][17] = {
		{0x54, 0x55, 0x55, 0x55, 4, 0, 16, 0, 0, 0, 0, 9, 127, 0, 0, 1, '1'}, /* tag */
		{0x55, 0x55, 0x55, 0x55, 5, 0, 16, 0, 0, 0, 0, 9, 127, 0, 0, 1, '2'}, /* version */
		{0x55, 0x55, 0x55, 0x55, 6, 0, 16, 0, 0, 0, 0, 9, 127, 0, 0, 1, '3'},
		{0x55, 0x55, 0x55, 0x55, 4, 1, 16, 0, 0, 0, 0, 9, 127, 0, 0, 1, '4'}, /* op */
		{0x55, 0x55, 0x55, 0x55, 4, 0, 15, 0, 0, 0, 0, 9, 127, 0, 0, 1, '5'}, /* length */
		{0x55, 0x55, 0x55, 0x55, 4, 0, 0, 0, 0, 0, 0, 9, 127, 0, 0, 1, '6'},
		{0x55, 0x55, 0x55, 0x55, 6, 0, 28, 0, 0, 0, 0, 9, 127, 0, 0, 1,
		 '7'}, /* too short */
		{0x55, 0x55, 0x55, 0x55, 4, 7, 16, 0, 0, 0, 0, 9, 127, 0, 0, 1,
		 '8'}, /* of nobody */
	};
	static const uint8_t big[2049] = {0x55, 0x55, 0x55, 0x55, 4, 0, 16, [12] = 127, [15] = 1};
	struct peer p;
	uint16_t port;
	int fd = bound(HERE, &port);
	const struct sockaddr *to;

	peer_open(&p, HERE);
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		to = addr(HERE, port);
		IS(sendto(p.fd, rows[i], sizeof(rows[i]), 0, to, addr_len(to)), sizeof(rows[i]));
	}
	for (unsigned len = 0; len < 16; len++)
		IS(sendto(p.fd, data4, len, 0, to, addr_len(to)), len);
	IS(sendto(p.fd, big, sizeof(big), 0, to, addr_len(to)), sizeof(big));
	peer_udp(&p, port, 0, "good");
	comes(fd, "good", HERE, p.port);
	nothing(fd);
	/* That one alone was answered. */
	CU_ASSERT(peer_got(&p, control4, sizeof(control4), "") > 1);
	FAILS(recv(p.fd, (uint8_t[1]){0}, 1, MSG_DONTWAIT), EAGAIN);
	WORKS(rclose(fd));
	peer_close(&p);
}

static void bad_ud(void)
{
	uint8_t good[] = {4, 8, 0x12, 0x34, 127, 0, 0, 7, 'g', 'o', 'o', 'd'};
	static const uint8_t rows[][9] = {
		{5, 8, 1, 1, 127, 0, 0, 1, '1'}, {4, 9, 1, 1, 127, 0, 0, 1, '2'},
		{4, 0, 1, 1, 127, 0, 0, 1, '3'}, {6, 24, 1, 1, 127, 0, 0, 1, '4'}, /* too short */
		{6, 8, 1, 1, 127, 0, 0, 1, '5'},
	};
	uint8_t six[25] = {6, 24, 1, 1, [8] = 0xfd, [24] = '6'}; /* no address of this family */
	struct peer p;
	uint16_t port;
	uint32_t qpn;
	int fd = bound(HERE, &port);

	peer_open(&p, HERE);
	peer_udp(&p, port, 0, "hello");
	comes(fd, "hello", HERE, p.port);
	qpn = peer_got(&p, control4, sizeof(control4), "");
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		peer_ud(&p, qpn, rows[i], sizeof(rows[i]));
	for (unsigned len = 0; len < 8; len++)
		peer_ud(&p, qpn, good, len);
	peer_ud(&p, qpn, six, sizeof(six));
	peer_ud(&p, qpn, good, sizeof(good));
	comes(fd, "good", "127.0.0.7", 0x1234);
	nothing(fd);
	WORKS(rclose(fd));
	peer_close(&p);
}

/* QPNs that are none's, and another one that follows: the last one counts. */
static void other_qpn(void)
{
	static const uint8_t zero[16] = {0x55, 0x55, 0x55, 0x55, 4,   7, 16, 0,
					 0,    0,    0,	   1,	 127, 0, 0,  1};
	struct peer p;
	uint16_t port;
	int fd = bound(HERE, &port);
	const struct sockaddr *to;

	peer_open(&p, HERE);
	IS(send_to(fd, "1", 1, HERE, p.port), 1);
	CU_ASSERT(peer_got(&p, data4, sizeof(data4), "1") > 1);
	to = addr(HERE, port);
	IS(sendto(p.fd, zero, sizeof(zero), 0, to, addr_len(to)), sizeof(zero));
	for (unsigned i = 0; i < 3; i++) {
		IS(send_to(fd, "2", 1, HERE, p.port), 1);
		CU_ASSERT(peer_got(&p, data4, sizeof(data4), "2") > 1);
	}
	peer_udp(&p, port, 0, "now");
	until_direct(fd, &p, "3", HERE);
	comes(fd, "now", HERE, p.port);
	WORKS(rclose(fd));
	peer_close(&p);
}

/* ---- between two of ours ---- */

static void unconnected(void)
{
	uint16_t pa, pb;
	int a = bound(HERE, &pa), b = bound("127.0.0.2", &pb);
	char text[16];

	/* Over UDP at first, then by the QPs; they may not be mixed up. */
	for (unsigned i = 0; i < 200; i++) {
		snprintf(text, sizeof(text), "ping %u", i);
		IS(send_to(a, text, strlen(text), "127.0.0.2", pb), strlen(text));
		comes(b, text, HERE, pa);
		IS(send_to(b, text, strlen(text), HERE, pa), strlen(text));
		comes(a, text, "127.0.0.2", pb);
	}
	nothing(a);
	nothing(b);
	WORKS(rclose(a));
	WORKS(rclose(b));
}

static void connected(void)
{
	uint16_t pa, pb, pc;
	int a = bound(HERE, &pa), b = bound(HERE, &pb), c = bound(HERE, &pc);
	struct sockaddr_storage sa;
	struct sockaddr none = {.sa_family = AF_UNSPEC};
	socklen_t len = sizeof(sa);

	FAILS(rsend(a, "x", 1, 0), EDESTADDRREQ);
	FAILS(rgetpeername(a, (struct sockaddr *)&sa, &len), ENOTCONN);
	FAILS(rshutdown(a, SHUT_WR), ENOTCONN);
	/* 0.0.0.0 means here. */
	WORKS(rconnect(a, addr("0.0.0.0", pb), sizeof(struct sockaddr_in)));
	WORKS(rgetpeername(a, (struct sockaddr *)&sa, &len));
	CU_ASSERT(!memcmp(&sa, addr(HERE, pb), len));
	for (unsigned i = 0; i < 50; i++) {
		IS(rsend(a, "to b", 4, 0), 4);
		comes(b, "to b", HERE, pa);
		IS(send_to(b, "to a", 4, HERE, pa), 4);
		/* Of others it hears nothing. */
		IS(send_to(c, "stranger", 8, HERE, pa), 8);
		comes(a, "to a", HERE, pb);
	}
	nothing(a);
	/* An address that is told counts for one datagram. */
	IS(send_to(a, "to c", 4, HERE, pc), 4);
	comes(c, "to c", HERE, pa);
	WORKS(rconnect(a, &none, sizeof(none)));
	FAILS(rsend(a, "x", 1, 0), EDESTADDRREQ);
	IS(send_to(c, "heard", 5, HERE, pa), 5);
	comes(a, "heard", HERE, pc);
	WORKS(rclose(a));
	WORKS(rclose(b));
	WORKS(rclose(c));
}

static void shut(void)
{
	uint16_t pa, pb;
	int a = bound(HERE, &pa), b = bound(HERE, &pb);
	struct pollfd p = {.fd = a, .events = POLLIN | POLLOUT | POLLRDHUP};
	char c;

	WORKS(rconnect(a, addr(HERE, pb), sizeof(struct sockaddr_in)));
	WORKS(rshutdown(a, SHUT_WR));
	FAILS(rsend(a, "x", 1, 0), EPIPE);
	IS(send_to(b, "still", 5, HERE, pa), 5);
	comes(a, "still", HERE, pb);
	WORKS(rshutdown(a, SHUT_RD));
	IS(rrecv(a, &c, 1, 0), 0);
	CU_ASSERT_EQUAL(rpoll(&p, 1, PATIENT), 1);
	CU_ASSERT_EQUAL(p.revents, POLLIN | POLLOUT | POLLRDHUP);
	WORKS(rclose(a));
	WORKS(rclose(b));
}

/* A datagram is taken whole, or looked at. @direct: by UD. */
static void take_parts(int a, int b, uint16_t port)
{
	char x[4] = "", y[8] = "";
	struct iovec iov[2] = {{x, 2}, {y, 3}};
	struct sockaddr_storage from;
	struct msghdr msg = {
		.msg_name = &from, .msg_namelen = sizeof(from), .msg_iov = iov, .msg_iovlen = 2};

	IS(send_to(a, "0123456789", 10, HERE, port), 10);
	IS(rrecv(b, x, 3, MSG_PEEK), 3);
	IS(rrecv(b, x, 3, MSG_PEEK | MSG_TRUNC), 10);
	IS(rrecvmsg(b, &msg, 0), 5);
	CU_ASSERT_EQUAL(msg.msg_flags, MSG_TRUNC);
	CU_ASSERT_EQUAL(msg.msg_namelen, sizeof(struct sockaddr_in));
	CU_ASSERT(!memcmp(x, "01", 2) && !memcmp(y, "234", 3));
	nothing(b);
	IS(send_to(a, "abc", 3, HERE, port), 3);
	msg.msg_name = NULL;
	IS(rrecvmsg(b, &msg, 0), 3);
	CU_ASSERT_EQUAL(msg.msg_flags, 0);
	IS(send_to(a, "", 0, HERE, port), 0);
	IS(rrecv(b, x, 4, 0), 0);
	/* Several parts are one. */
	msg.msg_name = addr(HERE, port);
	msg.msg_namelen = sizeof(struct sockaddr_in);
	iov[0].iov_base = "ab";
	iov[1].iov_base = "cde";
	IS(rsendmsg(a, &msg, 0), 5);
	comes(b, "abcde", NULL, 0);
}

static void parts(void)
{
	uint16_t pa, pb;
	int a = bound(HERE, &pa), b = bound(HERE, &pb);

	for (unsigned i = 0; i < 20; i++)
		take_parts(a, b, pb);
	WORKS(rclose(a));
	WORKS(rclose(b));
}

/* ---- waiting ---- */

static void *send_later(void *fd)
{
	uint16_t port = port_of(*(int *)fd, false);
	int own = rsocket(AF_INET, SOCK_DGRAM, 0);

	for (unsigned i = 0; i < 20; i++) {
		struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};
		char c;

		in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		IS(rsendto(own, "late", 4, 0, (struct sockaddr *)&in, sizeof(in)), 4);
		IS(rrecv(own, &c, 1, 0), 1);
	}
	WORKS(rclose(own));
	return NULL;
}

/* Who sleeps is woken, by UDP and by UD. */
static void sleepers(void)
{
	struct sockaddr_storage from;
	socklen_t len;
	uint16_t port;
	int fd = bound(HERE, &port);
	pthread_t t;
	char buf[8];

	WORKS(pthread_create(&t, NULL, send_later, &fd));
	for (unsigned i = 0; i < 20; i++) {
		struct pollfd p = {.fd = fd, .events = POLLIN};

		if (i & 1)
			CU_ASSERT_EQUAL(rpoll(&p, 1, -1), 1);
		len = sizeof(from);
		IS(rrecvfrom(fd, buf, sizeof(buf), 0, (struct sockaddr *)&from, &len), 4);
		IS(rsendto(fd, "!", 1, 0, (struct sockaddr *)&from, len), 1);
	}
	WORKS(pthread_join(t, NULL));
	WORKS(rclose(fd));
}

static void no_wait(void)
{
	struct timeval tv = {.tv_usec = 1000};
	uint16_t port;
	int fd = bound(HERE, &port);
	struct pollfd p = {.fd = fd, .events = POLLIN | POLLOUT};
	char c;

	CU_ASSERT_EQUAL(rpoll(&p, 1, 0), 1);
	CU_ASSERT_EQUAL(p.revents, POLLOUT);
	p.events = POLLIN;
	CU_ASSERT_EQUAL(rpoll(&p, 1, 1), 0);
	nothing(fd);
	WORKS(rsetsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
	FAILS(rrecv(fd, &c, 1, 0), EAGAIN);
	tv.tv_usec = 0;
	WORKS(rsetsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
	WORKS(rfcntl(fd, F_SETFL, O_NONBLOCK));
	FAILS(rrecv(fd, &c, 1, 0), EAGAIN);
	/* To itself. */
	IS(send_to(fd, "me", 2, HERE, port), 2);
	comes(fd, "me", HERE, port);
	WORKS(rclose(fd));
}

static void *receive_closed(void *fd)
{
	char c;

	FAILS(rrecv(*(int *)fd, &c, 1, 0), EBADF);
	return NULL;
}

static void closed(void)
{
	uint16_t pa, pb;
	int a = bound(HERE, &pa), b = bound(HERE, &pb);
	pthread_t t;

	IS(send_to(a, "0", 1, HERE, pb), 1);
	comes(b, "0", HERE, pa);
	IS(send_to(b, "0", 1, HERE, pa), 1);
	comes(a, "0", HERE, pb);
	/* What was sent arrives all the same; what came goes. */
	for (unsigned i = 0; i < 100; i++)
		IS(send_to(a, "last", 4, HERE, pb), 4);
	IS(send_to(b, "unread", 6, HERE, pa), 6);
	WORKS(rclose(a));
	for (unsigned i = 0; i < 100; i++)
		comes(b, "last", HERE, pa);
	nothing(b);
	WORKS(pthread_create(&t, NULL, receive_closed, &b));
	WORKS(rclose(b));
	WORKS(pthread_join(t, NULL));
}

/* More than the receiver has places for, and none of it read: what is lost is lost, no more. */
static void flood(void)
{
	uint32_t n = 16;
	uint16_t pa, pb;
	int a = bound(HERE, &pa), b = bound(HERE, &pb);
	unsigned got = 0;
	char buf[8] = "";

	WORKS(rsetsockopt(b, SOL_RDMA, RDMA_RQSIZE, &n, sizeof(n)));
	WORKS(rsetsockopt(a, SOL_RDMA, RDMA_SQSIZE, &n, sizeof(n)));
	for (unsigned i = 0; i < 1000; i++) {
		IS(send_to(a, "x", 1, HERE, pb), 1);
		if (i == 2)
			nothing(a); /* takes in the answer that is to come */
		if (i < 2)
			comes(b, "x", HERE, pa);
	}
	while (rrecv(b, buf, sizeof(buf), MSG_DONTWAIT) == 1)
		got++;
	CU_ASSERT(got > 0 && got < 1000);
	/* Some were still under way, and may fill the places again. */
	while (buf[0] != 'a') {
		struct pollfd p = {.fd = b, .events = POLLIN};

		IS(send_to(a, "after", 5, HERE, pb), 5);
		while (buf[0] != 'a' && rpoll(&p, 1, 10) == 1)
			CU_ASSERT(rrecv(b, buf, sizeof(buf), 0) > 0);
	}
	WORKS(rclose(a));
	WORKS(rclose(b));
}

/* ---- addresses ---- */

/* One socket, two own addresses, of both families. */
static void two_addresses(void)
{
	uint16_t port, p4, p6;
	int fd, v4, v6;

	if (!has_v6())
		return;
	fd = bound("::", &port);
	v4 = bound(HERE, &p4);
	v6 = bound("::1", &p6);
	for (unsigned i = 0; i < 20; i++) {
		IS(send_to(v6, "six", 3, "::1", port), 3);
		comes(fd, "six", "::1", p6);
		IS(send_to(fd, "to six", 6, "::1", p6), 6);
		comes(v6, "to six", "::1", port);
		IS(send_to(v4, "four", 4, HERE, port), 4);
		comes(fd, "four", "::ffff:127.0.0.1", p4);
		IS(send_to(fd, "to four", 7, "::ffff:127.0.0.1", p4), 7);
		comes(v4, "to four", HERE, port);
	}
	FAILS(send_to(v4, "x", 1, "::1", port), EAFNOSUPPORT);
	WORKS(rclose(fd));
	WORKS(rclose(v4));
	WORKS(rclose(v6));
}

/* More destinations than there is room for. */
static void many(void)
{
	uint16_t pa, pb;
	int a = bound(HERE, &pa), b = bound(HERE, &pb);
	char host[32];

	for (unsigned i = 0; i < 1100; i++) {
		snprintf(host, sizeof(host), "127.0.%u.%u", i / 250 + 1, i % 250 + 1);
		IS(send_to(a, "x", 1, host, 9), 1);
	}
	IS(send_to(a, "found", 5, HERE, pb), 5);
	comes(b, "found", HERE, pa);
	WORKS(rclose(a));
	WORKS(rclose(b));
}

static void refusals(void)
{
	static char big[4096];
	uint16_t port;
	int fd = bound(HERE, &port), v, len = sizeof(v);
	struct msghdr msg = {.msg_control = big, .msg_controllen = 1};

	FAILS(rsocket(AF_INET, SOCK_DGRAM, IPPROTO_TCP), EPROTONOSUPPORT);
	FAILS(rsocket(AF_UNIX, SOCK_DGRAM, 0), EAFNOSUPPORT);
	FAILS(rlisten(fd, 1), EOPNOTSUPP);
	FAILS(raccept(fd, NULL, NULL), EOPNOTSUPP);
	FAILS(send_to(fd, big, sizeof(big), HERE, port), EMSGSIZE);
	FAILS(send_to(fd, "x", 1, "239.1.2.3", port), EOPNOTSUPP);
	FAILS(send_to(fd, "x", 1, HERE, 0), EINVAL);
	FAILS(send_to(fd, "x", 1, "::1", port), EAFNOSUPPORT);
	FAILS(rsendto(fd, "x", 1, 0, addr(HERE, port), 4), EINVAL);
	FAILS(rsendto(fd, "x", 1, MSG_OOB, addr(HERE, port), 16), EOPNOTSUPP);
	FAILS(rsendmsg(fd, &msg, 0), EOPNOTSUPP);
	FAILS(rconnect(fd, NULL, 0), EFAULT);
	FAILS(rbind(fd, addr(HERE, 0), sizeof(struct sockaddr_in)), EINVAL);
	CU_ASSERT_EQUAL(riomap(fd, big, 1, PROT_WRITE, 0, -1), -1);
	CU_ASSERT_EQUAL((ssize_t)riowrite(fd, big, 1, 0, 0), -1);
	v = 1;
	FAILS(rsetsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &v, sizeof(v)), ENOPROTOOPT);
	FAILS(rsetsockopt(fd, SOL_RDMA, RDMA_ROUTE, &v, sizeof(v)), ENOPROTOOPT);
	WORKS(rsetsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &v, sizeof(v)));
	WORKS(rgetsockopt(fd, SOL_SOCKET, SO_TYPE, &v, (socklen_t *)&len));
	CU_ASSERT_EQUAL(v, SOCK_DGRAM);
	WORKS(rgetsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &v, (socklen_t *)&len));
	CU_ASSERT_EQUAL(v, IPPROTO_UDP);
	WORKS(rclose(fd));
	FAILS(rclose(fd), EBADF);
}

/* Nobody there: a connected socket is told, as the kernel's. */
static void refused(void)
{
	uint16_t port;
	int fd = bound(HERE, &port), gone = bound(HERE, &port);
	struct pollfd p = {.fd = fd, .events = POLLIN};
	char c;

	WORKS(rclose(gone));
	WORKS(rconnect(fd, addr(HERE, port), sizeof(struct sockaddr_in)));
	IS(rsend(fd, "x", 1, 0), 1);
	CU_ASSERT_EQUAL(rpoll(&p, 1, PATIENT), 1);
	CU_ASSERT(p.revents & POLLERR);
	FAILS(rrecv(fd, &c, 1, 0), ECONNREFUSED);
	nothing(fd);
	WORKS(rclose(fd));
}

URXE_TEST_MAIN("cm_rsocket_dgram", T(bytes), T(bytes6), T(bad_udp), T(bad_ud), T(other_qpn),
	       T(unconnected), T(connected), T(shut), T(parts), T(sleepers), T(no_wait), T(closed),
	       T(flood), T(two_addresses), T(many), T(refusals), T(refused))
