/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The process ends while others of its threads are in rdma_get_cm_event(): what these look at stays
 * until all are gone. Many processes, each of which ends at another moment.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <rdma/rdma_cma.h>

#define PROCESSES 20
#define THREADS	  4

#define TRY(x)                                                             \
	do {                                                               \
		if (!(x)) {                                                \
			printf("%s: %s, errno %d\n", __func__, #x, errno); \
			exit(1);                                           \
		}                                                          \
	} while (0)

static struct rdma_event_channel *ch;

/* Each call takes turns of the device, and comes back. */
static void *ask(void *arg)
{
	struct rdma_cm_event *ev;
	unsigned *left = arg;

	for (unsigned n = 0;; n++) {
		TRY(rdma_get_cm_event(ch, &ev) == -1 && errno == EAGAIN);
		if (n == 10)
			__atomic_fetch_sub(left, 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

static int child(unsigned turns)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr.s_addr = inet_addr("10.0.0.1")};
	struct rdma_cm_id *id;
	unsigned left = THREADS;
	pthread_t t;

	ch = rdma_create_event_channel();
	TRY(ch && !rdma_create_id(ch, &id, NULL, RDMA_PS_TCP));
	TRY(!rdma_bind_addr(id, (struct sockaddr *)&sin) && !rdma_listen(id, 1));
	TRY(!fcntl(ch->fd, F_SETFL, O_NONBLOCK));
	for (unsigned i = 0; i < THREADS; i++)
		TRY(!pthread_create(&t, NULL, ask, &left));
	while (__atomic_load_n(&left, __ATOMIC_ACQUIRE))
		sched_yield();
	for (volatile unsigned i = 0; i < turns; i++)
		;
	exit(0); /* no return: the threads use this function's variables */
}

int main(int argc, char **argv)
{
	extern char **environ;
	unsigned failed = 0;
	int status;
	pid_t pid;

	if (argc > 1)
		return child((unsigned)atoi(argv[1]));
	for (unsigned i = 0; i < PROCESSES; i++) {
		char turns[16], *args[] = {argv[0], turns, NULL};

		snprintf(turns, sizeof(turns), "%u", i * 997);
		TRY(!posix_spawn(&pid, argv[0], NULL, NULL, args, environ));
		TRY(waitpid(pid, &status, 0) == pid);
		if (status)
			printf("process %u: status %#x\n", i, status);
		failed += !!status;
	}
	return failed ? 1 : 0;
}
