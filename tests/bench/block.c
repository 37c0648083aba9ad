/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Who sleeps until a completion event comes: 8 bytes to and fro over librdmacm, one pair of ends.
 *
 *	block -s ADDRESS
 *	block -c ADDRESS ROUNDS [EVERY]		prints half a round trip (median, us), and of a
 *					processor what the client's process took (%)
 *
 * EVERY: a round begins so many us after the one before; without it as soon as that has ended.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <rdma/rdma_verbs.h>

#include "ends.h"

#define PORT  "18517"
#define DEPTH 16

static struct rdma_cm_id *id;
static struct ibv_mr *mr;
static uint64_t buf[2 * DEPTH];

static void check(int bad, const char *what)
{
	measure_need(!bad, what);
}

static void receive(void)
{
	check(rdma_post_recv(id, NULL, buf, 8, mr), "rdma_post_recv");
}

static void setup(void)
{
	mr = rdma_reg_msgs(id, buf, sizeof(buf));
	check(!mr, "rdma_reg_msgs");
	for (unsigned i = 0; i < DEPTH / 2; i++)
		receive();
}

/* rdma_get_recv_comp() sleeps for the event. False: the connection has ended. */
static int got(void)
{
	struct ibv_wc wc;

	if (rdma_get_recv_comp(id, &wc) != 1 || wc.status)
		return 0;
	receive();
	return 1;
}

static void send_one(void)
{
	struct ibv_wc wc;

	check(rdma_post_send(id, NULL, buf + DEPTH, 8, mr, IBV_SEND_INLINE), "rdma_post_send");
	while (ends_poll(id->send_cq, 1, &wc))
		continue;
}

static struct ibv_qp_init_attr attr = {
	.cap = {DEPTH, DEPTH, 1, 1, 16},
	.sq_sig_all = 1,
};

static void server(const char *name)
{
	struct rdma_cm_id *listener = ends_create(name, PORT, RAI_PASSIVE, &attr);

	check(rdma_listen(listener, 1), "rdma_listen");
	check(rdma_get_request(listener, &id), "rdma_get_request");
	setup();
	check(rdma_accept(id, NULL), "rdma_accept");
	while (got())
		send_one();
}

static double cpu(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)u.ru_utime.tv_sec + (double)u.ru_stime.tv_sec +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void sleep_until(uint64_t when)
{
	struct timespec at = {(time_t)(when / 1000000000u), (long)(when % 1000000000u)};

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

static void client(const char *name, unsigned rounds, unsigned every)
{
	uint64_t *half = calloc(rounds, sizeof(*half)), begun, at;
	double used;

	check(!half, "calloc");
	id = ends_create(name, PORT, 0, &attr);
	setup();
	check(rdma_connect(id, NULL), "rdma_connect");
	begun = measure_now();
	used = cpu();
	for (unsigned i = 0; i < rounds; i++) {
		if (every)
			sleep_until(begun + (uint64_t)i * every * 1000);
		at = measure_now();
		send_one();
		check(!got(), "no answer");
		half[i] = (measure_now() - at) / 2;
	}
	used = cpu() - used;
	begun = measure_now() - begun;
	printf("%.2f %.2f\n", (double)measure_median(half, rounds) / 1e3,
	       used * 1e11 / (double)begun);
	free(half);
	rdma_disconnect(id);
}

int main(int argc, char **argv)
{
	return measure_ends(argc, argv, 0, server, client);
}
