/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * rdma_cm on a simulated device whose port is pulled out: what the process then answers to
 * `urxe status --cm`.
 */
#include <fcntl.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "cm/rdma/cma.h"
#include "cm/device/report_path.h"
#include "cm_device.h"
#include "harness.h"
#include "pair.h"
#include "service.h"

#define LATER 1000000000000ull

static struct pair p;
static char dir[] = "/tmp/urxe-test-XXXXXX";

/* What the process answers to @word, in a static buffer. */
static const char *ask(char word)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	static char text[1 << 14];
	size_t len = 0;
	ssize_t n;

	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/%d", dir, (int)getpid());
	CU_ASSERT_EQUAL_FATAL(connect(fd, (struct sockaddr *)&sun, sizeof(sun)), 0);
	CU_ASSERT_EQUAL(send(fd, &word, 1, 0), 1);
	while ((n = recv(fd, text + len, sizeof(text) - 1 - len, 0)) > 0)
		len += (size_t)n;
	text[len] = '\0';
	close(fd);
	return text;
}

static unsigned count(const char *s, const char *what)
{
	unsigned n = 0;

	for (; (s = strstr(s, what)); s += strlen(what))
		n++;
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
	CU_ASSERT_EQUAL(count(ask(URXE_REPORT_ALL), "s state LISTEN\n"), 1);
	urxe_sim_end_die(p.a.end);
	/* As its service thread does. */
	urxe_device_watch(p.a.dev, LATER);
	urxe_service_run_gsi(p.a.dev, LATER, true);
	for (unsigned i = 0; i < 2; i++) {
		struct rdma_cm_event *ev;

		CU_ASSERT_EQUAL_FATAL(rdma_get_cm_event(channel, &ev), 0);
		CU_ASSERT_EQUAL(ev->event, RDMA_CM_EVENT_DEVICE_REMOVAL);
		CU_ASSERT_EQUAL(rdma_ack_cm_event(ev), 0);
	}
	CU_ASSERT_EQUAL(count(ask(URXE_REPORT_ALL), "s state REMOVED\n"), 2);
	for (unsigned i = 0; i < 2; i++)
		CU_ASSERT_EQUAL(rdma_destroy_id(ids[i]), 0);
	rdma_destroy_event_channel(channel);
}

static void every_state_has_a_name(void)
{
	for (unsigned i = 0; i < URXE_CMA_N_STATES; i++) {
		CU_ASSERT_PTR_NOT_NULL_FATAL(urxe_cma_state_names[i]);
		for (unsigned k = 0; k < i; k++)
			CU_ASSERT_STRING_NOT_EQUAL(urxe_cma_state_names[i],
						   urxe_cma_state_names[k]);
	}
	CU_ASSERT_STRING_EQUAL(urxe_cma_state_names[URXE_CMA_IDLE], "IDLE");
	CU_ASSERT_STRING_EQUAL(urxe_cma_state_names[URXE_CMA_REMOVED], "REMOVED");
}

__attribute__((constructor)) static void set_up(void)
{
	if (mkdtemp(dir))
		setenv(URXE_REPORT_ENV, dir, 1);
}

/* The library's destructor, which takes the socket away, runs after this program's own. */
__attribute__((destructor)) static void clean_up(void)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/%d", dir, (int)getpid());
	unlink(path);
	rmdir(dir);
}

URXE_TEST_MAIN("cm_removed", T(status_of_removed_ids), T(every_state_has_a_name))
