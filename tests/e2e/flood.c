/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * An honest client among forgers: it connects, one connection after the other, while a thread
 * floods the server with CM MADs of its own making, from a raw packet QP: REQs from addresses that
 * nobody has, REQs that lie about themselves, answers that nobody has asked for, noise. Each
 * connection must be established. The server is tests/bench/conn.
 *
 *	flood ADDR MAC N	the server's; N connections
 */
#include <arpa/inet.h>
#include <errno.h>
#include <net/ethernet.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "netio/stack.h"
#include "urxe/mad.h"
#include "urxe/wire.h"

#define SERVICE	   7471
#define RESOLVE_MS 2000
#define ETH	   14
#define L3	   (ETH + 20)
#define BTH	   (L3 + 8)
#define MAD	   (BTH + 12 + 8)
#define FRAME	   (MAD + URXE_MAD_LEN + 4)
#define SLOTS	   64

static struct {
	uint8_t mac[6];
	struct sockaddr_in server;
	uint32_t own; /* our address, network order */
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint8_t frames[SLOTS][FRAME];
	_Atomic uint64_t sent;
	uint64_t rng;
	atomic_bool stop;
} f = {.rng = 1};

static void need(bool ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "flood: %s: %s\n", what, strerror(errno));
		exit(1);
	}
}

static uint64_t rnd(void)
{
	return urxe_random_step(&f.rng);
}

static void put_v4_gid(uint8_t *gid, uint32_t addr)
{
	memset(gid, 0, 10);
	memset(gid + 10, 0xff, 2);
	memcpy(gid + 12, &addr, 4);
}

static void make_req(uint8_t *m, uint32_t from, bool lie)
{
	struct urxe_ip_cm_hdr h = {.ip_version = 4, .src_port = (uint16_t)rnd()};
	uint32_t says = lie ? from ^ htonl(1 + rnd() % 100) : from;

	urxe_mad_init(m, URXE_MAD_REQ, rnd());
	urxe_mad_put(m, URXE_REQ_LOCAL_COMM_ID, rnd() & 0xffffffff);
	urxe_mad_put(m, URXE_REQ_SERVICE_ID, 0x1060000 + SERVICE);
	urxe_mad_put(m, URXE_REQ_LOCAL_CA_GUID, rnd());
	urxe_mad_put(m, URXE_REQ_LOCAL_QPN, 2 + (rnd() & 0xffff));
	urxe_mad_put(m, URXE_REQ_PATH_MTU, 3);
	put_v4_gid(urxe_mad_bytes(m, URXE_REQ_PRIMARY_LOCAL_GID), says);
	put_v4_gid(urxe_mad_bytes(m, URXE_REQ_PRIMARY_REMOTE_GID), f.server.sin_addr.s_addr);
	put_v4_gid(h.src, says);
	put_v4_gid(h.dst, f.server.sin_addr.s_addr);
	urxe_ip_cm_hdr_put(urxe_mad_bytes(m, URXE_REQ_PRIVATE_DATA), &h);
}

/* Some MAD, and whom it is said to be from. */
static uint32_t make_mad(uint8_t *m)
{
	static const uint16_t answers[] = {URXE_MAD_REP,     URXE_MAD_RTU, URXE_MAD_REJ,
					   URXE_MAD_DREP,    URXE_MAD_MRA, URXE_MAD_DREQ,
					   URXE_MAD_SIDR_REP};
	uint32_t nobody = (f.own & htonl(0xffffff00)) | htonl(100 + (uint32_t)rnd() % 100);

	switch (rnd() % 8) {
	case 0:
		for (unsigned i = 0; i < URXE_MAD_LEN; i++)
			m[i] = (uint8_t)rnd();
		return f.own;
	case 1:
		make_req(m, f.own, true);
		return f.own;
	case 2:
	case 3:
		urxe_mad_init(m, (enum urxe_mad_attr)answers[rnd() % 7], rnd());
		urxe_mad_put(m, URXE_REP_LOCAL_COMM_ID, rnd() & 0xffffffff);
		urxe_mad_put(m, URXE_REP_REMOTE_COMM_ID, rnd() & 0xffffffff);
		return rnd() % 2 ? f.own : nobody;
	default:
		make_req(m, nobody, false);
		return nobody;
	}
}

static void put_ip(uint8_t *p, uint32_t from)
{
	uint32_t sum = 0;

	memset(p, 0, 28);
	p[0] = 0x45;
	urxe_put16(p + 2, FRAME - ETH);
	p[6] = 0x40;
	p[8] = 64;
	p[9] = IPPROTO_UDP;
	memcpy(p + 12, &from, 4);
	memcpy(p + 16, &f.server.sin_addr, 4);
	for (unsigned i = 0; i < 20; i += 2)
		sum += urxe_get16(p + i);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	urxe_put16(p + 10, (uint16_t)~sum);
	urxe_put16(p + 20, (uint16_t)(0xc000 | (rnd() & 0x3fff)));
	urxe_put16(p + 22, 4791);
	urxe_put16(p + 24, FRAME - L3);
}

static void make_frame(uint8_t *p)
{
	struct urxe_bth bth = {.opcode = 0x64, .pkey = 0xffff, .dqpn = 1, .psn = rnd() & 0xffffff};

	memcpy(p, f.mac, 6);
	memset(p + 6, 2, 6);
	p[12] = ETHERTYPE_IP >> 8;
	p[13] = ETHERTYPE_IP & 0xff;
	urxe_bth_put(p + BTH, &bth);
	urxe_deth_put(p + BTH + 12, 0x80010000, 1);
	put_ip(p + ETH, make_mad(p + MAD));
	urxe_icrc_put(p + FRAME - 4, urxe_icrc(p + ETH, true, FRAME - 4 - BTH));
}

static void *flood(void *arg)
{
	struct ibv_wc wc[16];
	uint64_t done = 0;

	while (!atomic_load(&f.stop)) {
		uint8_t *p = f.frames[f.sent % SLOTS];
		struct ibv_sge sge = {(uintptr_t)p, FRAME, f.mr->lkey};
		struct ibv_send_wr wr = {.sg_list = &sge,
					 .num_sge = 1,
					 .opcode = IBV_WR_SEND,
					 .send_flags = IBV_SEND_SIGNALED},
				   *bad;

		while (f.sent - done < SLOTS && !atomic_load(&f.stop)) {
			p = f.frames[f.sent % SLOTS];
			sge.addr = (uintptr_t)p;
			make_frame(p);
			need(!ibv_post_send(f.qp, &wr, &bad), "ibv_post_send");
			f.sent++;
		}
		for (int n; (n = ibv_poll_cq(f.cq, 16, wc)) > 0; done += (unsigned)n) {
			for (int i = 0; i < n; i++)
				need(wc[i].status == IBV_WC_SUCCESS, "a send");
		}
	}
	return arg;
}

static void create_raw_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RAW_PACKET,
		.cap = {.max_send_wr = SLOTS, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};

	f.own = ((struct sockaddr_in *)rdma_get_local_addr(id))->sin_addr.s_addr;
	f.cq = ibv_create_cq(id->verbs, SLOTS, NULL, NULL, 0);
	need(f.cq, "ibv_create_cq");
	f.mr = ibv_reg_mr(id->pd, f.frames, sizeof(f.frames), 0);
	need(f.mr, "ibv_reg_mr");
	init.send_cq = init.recv_cq = f.cq;
	f.qp = ibv_create_qp(id->pd, &init);
	need(f.qp, "ibv_create_qp");
	need(!ibv_modify_qp(f.qp, &attr, IBV_QP_STATE | IBV_QP_PORT), "INIT");
	attr.qp_state = IBV_QPS_RTR;
	need(!ibv_modify_qp(f.qp, &attr, IBV_QP_STATE), "RTR");
	attr.qp_state = IBV_QPS_RTS;
	need(!ibv_modify_qp(f.qp, &attr, IBV_QP_STATE), "RTS");
}

/* One connection; the server ends after the one with data 1. */
static void honest(uint8_t data)
{
	struct rdma_conn_param param = {.private_data = &data, .private_data_len = 1};
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct rdma_cm_id *id;

	need(!rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), "rdma_create_id");
	need(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&f.server, RESOLVE_MS),
	     "rdma_resolve_addr");
	need(!rdma_resolve_route(id, RESOLVE_MS), "rdma_resolve_route");
	need(!rdma_create_qp(id, NULL, &attr), "rdma_create_qp");
	need(!rdma_connect(id, &param), "rdma_connect");
	if (!f.qp)
		create_raw_qp(id);
	if (data) {
		uint32_t open, failed;

		/* struct report of the server's */
		memcpy(&open, (const uint8_t *)id->event->param.conn.private_data + 4, 4);
		memcpy(&failed, (const uint8_t *)id->event->param.conn.private_data + 8, 4);
		printf("server: open %u, failed %u\n", open, failed);
	}
	need(!rdma_disconnect(id), "rdma_disconnect");
	rdma_destroy_qp(id);
	rdma_destroy_id(id);
}

int main(int argc, char **argv)
{
	unsigned n = argc == 4 ? (unsigned)strtoul(argv[3], NULL, 0) : 0, done;
	pthread_t t;

	if (!n || inet_pton(AF_INET, argv[1], &f.server.sin_addr) != 1 ||
	    sscanf(argv[2], "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", &f.mac[0], &f.mac[1], &f.mac[2],
		   &f.mac[3], &f.mac[4], &f.mac[5]) != 6) {
		fprintf(stderr, "usage: flood ADDR MAC N\n");
		return 2;
	}
	f.server.sin_family = AF_INET;
	f.server.sin_port = htons(SERVICE);
	honest(0);
	need(!pthread_create(&t, NULL, flood, NULL), "pthread_create");
	/* Beside as many MADs at least: on a machine in use the other thread may begin late. */
	for (done = 0; done < n || atomic_load(&f.sent) < n; done++)
		honest(0);
	atomic_store(&f.stop, true);
	pthread_join(t, NULL);
	honest(1);
	printf("%u connections beside %llu forged MADs\n", done,
	       (unsigned long long)atomic_load(&f.sent));
	need(!ibv_destroy_qp(f.qp) && !ibv_dereg_mr(f.mr) && !ibv_destroy_cq(f.cq), "the end");
	return 0;
}
