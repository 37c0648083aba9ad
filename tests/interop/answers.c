/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What each call of rdma_cma.h answers in each state, a line for each: for comparing urxe with the
 * kernel (answers.py). Linked with Debian's librdmacm alone, so that the same binary runs on both;
 * one device is both sides of each connection, in this one process.
 *
 *	answers IPV4 IPV6 QUIET_MS WHAT...
 * Addresses of the device. QUIET_MS: when nothing has come for so long, nothing will. WHAT: of
 * SPACES in answers.h, or SPACE/STATE/CALL for a line alone.
 *
 * A line is "SPACE STATE CALL -> ANSWER", with ANSWER:
 *	RETURNED [ERRNO] id=FLAGS own=EVENTS peer=EVENTS
 * FLAGS: what is set in the id afterwards. EVENTS: what came, on the channel of the id and on that
 * of its peer, in this order. Each line has a scene of its own, made from nothing. There are no
 * times, pointers or numbers of QPs and ports in it, and no TIMEWAIT_EXIT, which comes when it
 * likes. A call that does not come back or crashes has TIMEOUT or CRASH for an answer, and a new
 * process does the rest.
 */
#include "answers.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define LATE   8  /* times as long, for what takes its time */
#define CELL_S 10 /* so long is a call, with its scene, at most; and ten times QUIET_MS */

const char *const space_names[] = {SPACES(NAME)};
const char *const state_names[] = {STATES(NAME)};
struct progress *now;
char wrong[200];
int family, quiet_ms;

static char *const *what;

/* ---- addresses ---- */

static union {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
} places[2][N_PLACES];

static bool is_place(int fam, enum place place, const char *text)
{
	if (fam) {
		places[fam][place].in6.sin6_family = AF_INET6;
		return inet_pton(AF_INET6, text, &places[fam][place].in6.sin6_addr) == 1;
	}
	places[fam][place].in.sin_family = AF_INET;
	return inet_pton(AF_INET, text, &places[fam][place].in.sin_addr) == 1;
}

static bool find_places(const char *own4, const char *own6)
{
	static const char *const texts[2][N_PLACES] = {
		[0] = {[ANY] = "0.0.0.0",
		       [LOOPBACK] = "127.0.0.1",
		       [FOREIGN] = "192.0.2.1",
		       [GROUP] = "239.1.2.3"},
		[1] = {[ANY] = "::",
		       [LOOPBACK] = "::1",
		       [FOREIGN] = "2001:db8::1",
		       [GROUP] = "ff0e::1:2:3"},
	};
	const char *own[2] = {own4, own6};
	bool good = true;

	for (int fam = 0; fam < 2; fam++)
		for (enum place place = 0; place < N_PLACES; place++)
			good &= is_place(fam, place,
					 texts[fam][place] ? texts[fam][place] : own[fam]);
	return good;
}

static struct sockaddr *address(int fam, enum place place, uint16_t port)
{
	static struct sockaddr_in6 copies[4];
	static unsigned n;
	struct sockaddr_in6 *copy = &copies[n++ % 4];

	memcpy(copy, &places[fam][place], sizeof(*copy));
	/* One that nobody has asked for: who is known not to answer is an error at once. */
	if (place == NEIGHBOUR)
		*(fam ? &copy->sin6_addr.s6_addr[15]
		      : (uint8_t *)&((struct sockaddr_in *)(void *)copy)->sin_addr + 3) =
			(uint8_t)(20 + now->neighbours++ % 70);
	copy->sin6_port = htons(port); /* where sin_port is, too */
	return (struct sockaddr *)copy;
}

struct sockaddr *here(enum place place, uint16_t port)
{
	return address(family, place, port);
}

struct sockaddr *there(enum place place, uint16_t port)
{
	return address(!family, place, port);
}

/* ---- lines ---- */

/* All that comes, until nothing has come for a while */
static void drain(struct scene *sc, int ms, char *own, char *peer, size_t len)
{
	struct pollfd p[] = {{.fd = sc->own ? sc->own->fd : -1, .events = POLLIN},
			     {.fd = sc->peer->fd, .events = POLLIN}};
	struct rdma_cm_id *fresh;

	while (poll(p, 2, ms) > 0) {
		for (int i = 0; i < 2; i++) {
			fresh = NULL;
			if (!(p[i].revents & POLLIN))
				continue;
			take(i ? sc->peer : sc->own, i ? peer : own, len, &fresh);
			if (fresh && sc->n_extras < MAX_EXTRAS)
				sc->extras[sc->n_extras++] = fresh;
		}
	}
}

static void flags_of(const struct scene *sc, char *text)
{
	struct rdma_cm_id *id = sc->id;

	if (!sc->destroyed) {
		*text++ = id->verbs ? 'v' : '-';
		*text++ = id->pd ? 'p' : '-';
		*text++ = id->qp ? 'q' : '-';
		*text++ = rdma_get_src_port(id) ? 's' : '-';
		*text++ = rdma_get_dst_port(id) ? 'd' : '-';
	}
	*text = 0;
}

/* errno means something where the result is -1. */
static void print_result(int ret, int e)
{
	const char *name = strerrorname_np(e);

	printf("%s%d", now->key, ret);
	if (ret == -1 && name)
		printf(" %s", name);
	else if (ret == -1)
		printf(" %d", e);
}

static void answer(struct scene *sc, const struct call *call)
{
	char own[300] = "", peer[300] = "", flags[8];
	int ret, e, ms = 0;

	errno = 0;
	ret = call->call(sc);
	e = errno;
	/* A call that failed may have ended a connection. */
	if (call->when != NOW && (!ret || sc->state > LISTEN_ANY))
		ms = ret ? quiet_ms / 2 : call->when == LATE ? LATE * quiet_ms : quiet_ms;
	drain(sc, ms, own, peer, sizeof(own));
	flags_of(sc, flags);
	print_result(ret, e);
	printf(" id=%s own=%s peer=%s\n", flags, own, peer);
}

static struct rdma_event_channel *channel(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();

	if (!ch || fcntl(ch->fd, F_SETFL, O_NONBLOCK)) {
		fprintf(stderr, "answers: no event channel\n");
		exit(1);
	}
	return ch;
}

static void cell(enum space space, enum state state, const struct call *call)
{
	struct scene sc = {.space = space, .state = state};

	wrong[0] = 0;
	sc.lch = channel();
	sc.cch = channel();
	sc.third = channel();
	go_to(&sc);
	if (wrong[0])
		printf("%sNO SCENE: %s\n", now->key, wrong);
	else
		answer(&sc, call);
	fflush(stdout);
	now->answered = true;
	clean(&sc);
	rdma_destroy_event_channel(sc.third);
	rdma_destroy_event_channel(sc.cch);
	rdma_destroy_event_channel(sc.lch);
}

static void free_cell(const struct free_call *call)
{
	char text[500] = "";
	int ret;

	errno = 0;
	ret = call->call(text, sizeof(text));
	print_result(ret, errno);
	printf(" %s\n", text);
	fflush(stdout);
	now->answered = true;
}

static bool named(char *const *names, const char *name)
{
	while (*names && strcmp(*names, name))
		names++;
	return *names;
}

/* Those that are named and not done yet are. Each counts as done as soon as it is begun. */
static bool begin(unsigned *number, enum space space, const char *state, const char *call)
{
	char line[100];

	snprintf(line, sizeof(line), "%s/%s/%s", space_names[space], state, call);
	if ((!named(what, space_names[space]) && !named(what, line)) || (*number)++ < now->number)
		return false;
	now->number = *number;
	snprintf(now->key, sizeof(now->key), "%s %s %s -> ", space_names[space], state, call);
	now->answered = false;
	alarm(CELL_S + (unsigned)quiet_ms / 100);
	return true;
}

static void all_of(enum space space, unsigned *number)
{
	family = space == TCP6 || space == UDP6;
	for (enum state state = 0; state < N_STATES; state++)
		for (size_t i = 0; i < n_calls; i++)
			if (possible(space, state) && makes_sense(space, state, &calls[i]) &&
			    begin(number, space, state_names[state], calls[i].name)) {
				cell(space, state, &calls[i]);
				alarm(0);
			}
}

static void all(void)
{
	unsigned number = 0;

	for (enum space space = 0; space < FREE; space++)
		all_of(space, &number);
	family = 0;
	for (size_t i = 0; i < n_free_calls; i++)
		if (begin(&number, FREE, "-", free_calls[i].name)) {
			free_cell(&free_calls[i]);
			alarm(0);
		}
}

int main(int argc, char **argv)
{
	int status = -1;
	pid_t pid;

	now = mmap(NULL, sizeof(*now), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	quiet_ms = argc < 5 ? 0 : atoi(argv[3]);
	if (quiet_ms <= 0 || !find_places(argv[1], argv[2]) || now == MAP_FAILED) {
		fprintf(stderr, "usage: answers IPV4 IPV6 QUIET_MS WHAT...\n");
		return 2;
	}
	what = argv + 4;
	now->qpn = 0x1000 + ((uint32_t)getpid() % 256 << 15);
	do {
		pid = fork();
		if (!pid) {
			all();
			exit(0);
		}
		if (pid < 0 || waitpid(pid, &status, 0) != pid)
			return 1;
		if (WIFSIGNALED(status))
			printf("%s%s%s\n", now->key, now->answered ? "then " : "",
			       WTERMSIG(status) == SIGALRM ? "TIMEOUT" : "CRASH");
		fflush(stdout);
	} while (WIFSIGNALED(status));
	return WEXITSTATUS(status);
}
