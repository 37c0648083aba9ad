/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * rdma_cm on a simulated device whose port is pulled out: what the process then answers to
 * `urxe status --cm`.
 */
#include <fcntl.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <string.h>

#include "cm/rdma/cma.h"
#include "cm_device.h"
#include "harness.h"
#include "pair.h"
#include "provider/status.h"
#include "provider/status_path.h"

#define LATER 1000000000000ull

static struct pair p;

/* How often @what is in what the process answers to `urxe status --cm`. */
static unsigned count(const char *what)
{
	size_t len;
	char *text = urxe_status_reply(URXE_STATUS_CM "\n", &len);
	unsigned n = 0;

	CU_ASSERT_PTR_NOT_NULL(text);
	for (const char *s = text; s && (s = strstr(s, what)); s += strlen(what))
		n++;
	free(text);
	return n;
}

static struct rdma_cm_id *new_id(struct rdma_event_channel *channel, enum rdma_port_space ps)
{
	struct sockaddr_in sin = {.sin_family = AF_INET};
	struct ibv_ah_attr ah = pair_path(&p.b, &p.a); /* to a's own address */
	struct rdma_cm_id *id;

	memcpy(&sin.sin_addr, ah.grh.dgid.raw + 12, 4);
	CU_ASSERT_EQUAL_FATAL(rdma_create_id(channel, &id, NULL, ps), 0);
	CU_ASSERT_EQUAL_FATAL(rdma_bind_addr(id, (struct sockaddr *)&sin), 0);
	return id;
}

static void status_of_removed_ids(void)
{
	static const struct pair_params params = {.seed = 7, .link = {.latency = 1000}};
	struct rdma_event_channel *channel;
	struct rdma_cm_id *ids[2];

	pair_open(&p, &params, IBV_QPT_RC);
	cm_device = &p.a.dev->vdev.device;
	pair_meet(&p);
	channel = rdma_create_event_channel();
	CU_ASSERT_FATAL(channel && !fcntl(channel->fd, F_SETFL, O_NONBLOCK));
	ids[0] = new_id(channel, RDMA_PS_TCP);
	ids[1] = new_id(channel, RDMA_PS_UDP);
	CU_ASSERT_EQUAL_FATAL(rdma_listen(ids[0], 8), 0);
	CU_ASSERT_EQUAL(count("\"state\":\"LISTEN\""), 1);
	urxe_sim_end_die(p.a.end);
	/* As its service thread does. Events are there before work is flushed. */
	urxe_device_watch(p.a.dev, LATER);
	for (unsigned i = 0; i < 2; i++) {
		struct rdma_cm_event *ev;

		CU_ASSERT_EQUAL_FATAL(rdma_get_cm_event(channel, &ev), 0);
		CU_ASSERT_EQUAL(ev->event, RDMA_CM_EVENT_DEVICE_REMOVAL);
		CU_ASSERT_EQUAL(rdma_ack_cm_event(ev), 0);
	}
	CU_ASSERT_EQUAL(count("\"state\":\"REMOVED\""), 2);
	for (unsigned i = 0; i < 2; i++)
		CU_ASSERT_EQUAL(rdma_destroy_id(ids[i]), 0);
	rdma_destroy_event_channel(channel);
}

static bool same(const char *a, const char *b)
{
	return a && b && !strcmp(a, b);
}

static void every_state_has_a_name(void)
{
	for (unsigned i = 0; i < URXE_CMA_N_STATES; i++) {
		CU_ASSERT_PTR_NOT_NULL(urxe_cma_state_names[i]);
		for (unsigned k = 0; k < i; k++)
			CU_ASSERT_FALSE(same(urxe_cma_state_names[i], urxe_cma_state_names[k]));
	}
	CU_ASSERT_STRING_EQUAL(urxe_cma_state_names[URXE_CMA_IDLE], "IDLE");
	CU_ASSERT_STRING_EQUAL(urxe_cma_state_names[URXE_CMA_REMOVED], "REMOVED");
}

/* Nobody is to ask over a socket. */
__attribute__((constructor)) static void set_up(void)
{
	setenv(URXE_STATUS_ENV, "", 1);
}

URXE_TEST_MAIN("cm_removed", T(status_of_removed_ids), T(every_state_has_a_name))
