/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A crowd of processes on the local fabric, each connected with each other one, or on those of two
 * hosts, each connected with each on the other host, that exchange messages of all kinds and
 * compare every byte:
 *
 *	crowd [-n WORKERS] [-k KILLS] [-t SECONDS] [-m MESSAGES] [-a ADDRESS [-x COMMAND]]...
 *	      [-r ROUNDS] [-p PORT] [-s SEED] [-d DEPTH] [-b BYTES] [-w SECONDS] [-e] [-q]
 *
 * Meanwhile -k of them are killed, at random moments, and replaced (but for the first one, which
 * must not grow by it); one is stopped for -t. At the end each pair has exchanged -m messages more,
 * and all have left by themselves. -d: messages of a pair under way; -b: bytes of the longest; -w:
 * how long nothing may happen; -e: all workers sleep while nothing comes, not only every other one;
 *-q: a pair is quiet after its -m messages; -a: of each host; -x: what starts a program on the one
 * before it (words with blanks between them); -r: so many times, each after a line on the standard
 * input, all pairs must exchange -m messages more, and no connection may have ended.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crowd.h"
#include "watch.h"
#include "urxe/random.h"

#define SEC	   1000000000ull
#define FILES	   1024	   /* descriptors that a process may have */
#define PAUSE_MOST 40	   /* ms between two kills */
#define DEATHS	   100000u /* whose delays are kept */
#define WORDS	   40	   /* of what starts a program on a host */

struct process {
	pid_t pid;
	uint32_t life;
	uint64_t seen[MAX_WORKERS]; /* messages with each, when last looked at */
};

/* One that somebody is to learn the death of. */
struct death {
	unsigned who, by;
	uint32_t life, by_life;
	uint64_t at;
};

static struct {
	struct board *board;
	struct process p[MAX_WORKERS];
	unsigned n, kills, messages, stop_s, patience_s, rounds;
	char *starter[MAX_HOSTS]; /* NULL: nothing but the program */
	int board_fd;
	char *self;
	bool quiet;
	uint32_t lives;
	uint64_t random;
	struct death *open; /* not heard of yet */
	unsigned opens;
	uint32_t *delay_us;
	unsigned delays;
	struct shape shape;
	uint64_t total[OPS], bytes, disconnected, broken, refused; /* of those that are gone */
} g = {.n = 8,
       .messages = 100,
       .patience_s = 60,
       .shape = {.workers = 8, .slots = MAX_SLOTS, .bytes = 32768, .port = 17600}};

static void stop_all(void)
{
	for (unsigned i = 0; i < g.n; i++) {
		if (g.p[i].pid > 0) {
			kill(g.p[i].pid, SIGKILL);
			waitpid(g.p[i].pid, NULL, 0);
		}
	}
}

__attribute__((noreturn, format(printf, 1, 2))) static void fail(const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "crowd: seed %llu: ", (unsigned long long)g.shape.seed);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\n");
	stop_all();
	exit(1);
}

static void pause_ms(unsigned ms)
{
	const struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};

	nanosleep(&t, NULL);
}

/* ---- workers ---- */

/* The child of vfork(): the program, by what starts it on its host. */
static void become(unsigned host, char *const *argv)
{
	char words[512], *all[WORDS + 8] = {g.self}, *save;
	unsigned n = 0;

	snprintf(words, sizeof(words), "%s", g.starter[host] ? g.starter[host] : "");
	for (char *w = strtok_r(words, " ", &save); w && n < WORDS; w = strtok_r(NULL, " ", &save))
		all[n++] = w;
	for (unsigned k = 0; !k || argv[k - 1]; k++)
		all[n++] = argv[k];
	execvp(all[0], all);
}

static void start(unsigned i)
{
	char index[16], life[16], fd[16];
	char *const argv[] = {g.self, "--worker", fd, index, life, NULL};

	g.p[i].life = ++g.lives;
	snprintf(index, sizeof(index), "%u", i);
	snprintf(life, sizeof(life), "%u", g.p[i].life);
	snprintf(fd, sizeof(fd), "%d", g.board_fd);
	memset(&g.board->worker[i], 0, sizeof(g.board->worker[i]));
	g.board->worker[i].life = g.p[i].life;
	g.p[i].pid = vfork();
	if (!g.p[i].pid) {
		become(i % g.shape.hosts, argv);
		_exit(2);
	}
	if (g.p[i].pid < 0)
		fail("fork: %s", strerror(errno));
}

/* Nobody ends but by us. */
static void look_after(void)
{
	int status;
	pid_t pid = waitpid(-1, &status, WNOHANG);

	if (pid <= 0)
		return;
	for (unsigned i = 0; i < g.n; i++) {
		if (g.p[i].pid != pid)
			continue;
		g.p[i].pid = 0;
		fail("worker %u (life %u) ended: %s %d: %s", i, g.p[i].life,
		     WIFSIGNALED(status) ? "signal" : "status",
		     WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
		     g.board->worker[i].reason);
	}
}

static bool connected(unsigned i, unsigned j)
{
	return atomic_load(&g.board->worker[i].view[j].life) == g.p[j].life;
}

/* @except: is stopped. */
static unsigned missing(unsigned except, unsigned *a, unsigned *b)
{
	unsigned n = 0;

	for (unsigned i = 0; i < g.n; i++) {
		for (unsigned j = 0; j < g.n; j++) {
			if (!pair(&g.shape, i, j) || i == except || j == except || connected(i, j))
				continue;
			n++;
			*a = i;
			*b = j;
		}
	}
	return n;
}

static uint64_t messages_of(unsigned i, unsigned j)
{
	return atomic_load(&g.board->worker[i].view[j].messages);
}

static void remember(void)
{
	for (unsigned i = 0; i < g.n; i++) {
		for (unsigned j = 0; j < g.n; j++)
			g.p[i].seen[j] = messages_of(i, j);
	}
}

static unsigned silent(unsigned except, uint64_t want, unsigned *a, unsigned *b)
{
	unsigned n = 0;

	for (unsigned i = 0; i < g.n; i++) {
		for (unsigned j = 0; j < g.n; j++) {
			if (!pair(&g.shape, i, j) || i == except || j == except ||
			    messages_of(i, j) - g.p[i].seen[j] >= want)
				continue;
			n++;
			*a = i;
			*b = j;
		}
	}
	return n;
}

/* ---- deaths ---- */

static void heard_of(const struct death *d)
{
	uint64_t at = atomic_load(&g.board->worker[d->by].view[d->who].ended_at);

	if (g.delays < DEATHS)
		g.delay_us[g.delays++] = at > d->at ? (uint32_t)((at - d->at) / 1000) : 0;
}

/* Who has heard of which death by now; who was killed himself need not. */
static void look_for_ends(void)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < g.opens; i++) {
		struct death *d = &g.open[i];

		if (g.p[d->by].life != d->by_life)
			continue;
		if (atomic_load(&g.board->worker[d->by].view[d->who].ended) >= d->life)
			heard_of(d);
		else
			g.open[kept++] = *d;
	}
	g.opens = kept;
}

static void sum_up(unsigned i)
{
	struct worker *w = &g.board->worker[i];

	for (unsigned k = 0; k < OPS; k++)
		g.total[k] += w->messages[k];
	g.bytes += w->bytes;
	g.disconnected += w->disconnected;
	g.broken += w->broken;
	g.refused += w->refused;
}

static void kill_one(void)
{
	unsigned v = 1 + urxe_random_below(&g.random, g.n - 1);
	uint32_t life = g.p[v].life;
	uint64_t at = now_ns();

	kill(g.p[v].pid, SIGKILL);
	waitpid(g.p[v].pid, NULL, 0);
	for (unsigned i = 0; i < g.n; i++) {
		if (i == v || atomic_load(&g.board->worker[i].view[v].life) != life)
			continue;
		g.open[g.opens++] = (struct death){v, i, life, g.p[i].life, at};
	}
	sum_up(v);
	start(v);
}

static int by_size(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static void tell_delays(void)
{
	if (!g.delays)
		return;
	qsort(g.delay_us, g.delays, sizeof(*g.delay_us), by_size);
	printf("%u times a connection's end was told: median %.1f ms, 99 of 100 %.1f, last %.1f\n",
	       g.delays, g.delay_us[g.delays / 2] / 1e3, g.delay_us[g.delays * 99ull / 100] / 1e3,
	       g.delay_us[g.delays - 1] / 1e3);
}

/* ---- phases ---- */

static void still(uint64_t begun, const char *what, unsigned n, unsigned a, unsigned b)
{
	if (now_ns() - begun > g.patience_s * SEC)
		fail("%s: %u pairs, one of them %u (life %u) and %u (life %u)", what, n, a,
		     g.p[a].life, b, g.p[b].life);
}

static void wait_for_mesh(unsigned except)
{
	uint64_t begun = now_ns();
	unsigned n, a = 0, b = 0;

	while ((n = missing(except, &a, &b))) {
		look_after();
		look_for_ends();
		still(begun, "not connected", n, a, b);
		pause_ms(1);
	}
}

static void wait_for_messages(unsigned except, uint64_t want)
{
	uint64_t begun = now_ns();
	unsigned n, a = 0, b = 0;

	if (!g.shape.most)
		remember();
	while ((n = silent(except, want, &a, &b))) {
		look_after();
		still(begun, "silent", n, a, b);
		pause_ms(5);
	}
}

static void wait_for_ends(void)
{
	uint64_t begun = now_ns();

	while (g.opens) {
		look_after();
		look_for_ends();
		if (g.opens)
			still(begun, "not told of a death", g.opens, g.open[0].by, g.open[0].who);
		pause_ms(1);
	}
}

static void kills(void)
{
	uint64_t begun = now_ns();
	struct usage before, after;

	if (!g.kills)
		return;
	if (!watch_usage(g.p[0].pid, &before))
		fail("/proc/PID/smaps: %s", strerror(errno));
	for (unsigned k = 0; k < g.kills; k++) {
		look_after();
		look_for_ends();
		/* At any moment of theirs; now and then when all is well. */
		if (urxe_random_below(&g.random, 4))
			pause_ms(urxe_random_below(&g.random, PAUSE_MOST));
		else
			wait_for_mesh(g.n);
		kill_one();
	}
	wait_for_mesh(g.n);
	wait_for_ends();
	wait_for_messages(g.n, g.messages);
	printf("%u kills in %.1f s\n", g.kills, (double)(now_ns() - begun) / 1e9);
	tell_delays();
	watch_usage(g.p[0].pid, &after);
	printf("who was spared had %u descriptors, now %u; %u rings, now %u; %.1f MiB, now %.1f\n",
	       before.fds, after.fds, before.rings, after.rings, (double)before.anon / (1 << 20),
	       (double)after.anon / (1 << 20));
	if (after.fds > before.fds + 2)
		fail("descriptors are left over");
}

static uint64_t rate(unsigned except, unsigned seconds)
{
	uint64_t sum = 0, begun;

	remember();
	begun = now_ns();
	for (unsigned ms = 0; ms < 1000 * seconds; ms += 50) {
		look_after();
		pause_ms(50);
	}
	for (unsigned i = 0; i < g.n; i++) {
		for (unsigned j = 0; j < g.n; j++) {
			if (i != j && i != except && j != except)
				sum += messages_of(i, j) - g.p[i].seen[j];
		}
	}
	return sum * SEC / (now_ns() - begun);
}

static uint64_t ends(void)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < g.n; i++)
		n += atomic_load(&g.board->worker[i].disconnected);
	return n;
}

/* Nobody waits for one that is stopped, and he goes on where he was. */
static void stop_one(void)
{
	unsigned v = 1 + urxe_random_below(&g.random, g.n - 1);
	uint64_t before, during, after, were;

	if (!g.stop_s)
		return;
	before = rate(v, g.stop_s < 5 ? g.stop_s : 5);
	were = ends();
	kill(g.p[v].pid, SIGSTOP);
	during = rate(v, g.stop_s);
	wait_for_messages(v, g.messages);
	kill(g.p[v].pid, SIGCONT);
	after = rate(v, g.stop_s < 5 ? g.stop_s : 5);
	wait_for_messages(g.n, g.messages);
	printf("one stopped for %u s: the others' messages a second were %llu, then %llu (%.2f), "
	       "then %llu\n",
	       g.stop_s, (unsigned long long)before, (unsigned long long)during,
	       (double)during / (double)before, (unsigned long long)after);
	if (ends() != were)
		fail("connections ended while one was stopped");
}

/* Whoever reads our output does something to all of us before each. */
static void rounds(void)
{
	char line[16];

	for (unsigned i = 1; i <= g.rounds; i++) {
		printf("round %u\n", i);
		if (!fgets(line, sizeof(line), stdin))
			fail("round %u: nobody says when it begins", i);
		wait_for_messages(g.n, g.messages);
		if (ends())
			fail("round %u: %llu ends of connections", i, (unsigned long long)ends());
	}
}

#define GROWN_MOST (4u << 20) /* bytes a process, of rings that have grown */
#define OWN_FDS	   24	      /* of a worker and its device; and one a member */

/* What netio/README.md says of members' memory and descriptors. */
static void check_bounds(const struct usage *all, unsigned fds)
{
	if (all->grown / 2 > (uint64_t)g.n * GROWN_MOST)
		fail("rings that have grown take %llu bytes", (unsigned long long)all->grown / 2);
	if (all->ring_pss > all->grown / 2 + (uint64_t)all->rings / 2 * WATCH_RING)
		fail("rings take %llu bytes", (unsigned long long)all->ring_pss);
	if (fds > OWN_FDS + g.n - 1)
		fail("a process has %u descriptors", fds);
}

/* A page that one maps between two looks would count as more than one: nobody runs meanwhile. */
static void hold_all(void)
{
	int status;

	for (unsigned i = 0; i < g.n; i++)
		kill(g.p[i].pid, SIGSTOP);
	for (unsigned i = 0; i < g.n; i++) {
		if (waitpid(g.p[i].pid, &status, WUNTRACED) != g.p[i].pid || !WIFSTOPPED(status))
			fail("worker %u ended rather than stopped", i);
	}
}

static void tell_memory(void)
{
	struct usage u, all = {0};
	unsigned most = 0;

	hold_all();
	for (unsigned i = 0; i < g.n; i++) {
		if (!watch_usage(g.p[i].pid, &u))
			continue;
		all.pss += u.pss;
		all.anon += u.anon;
		all.ring_pss += u.ring_pss;
		all.rings += u.rings;
		all.grown += u.grown;
		most = u.fds > most ? u.fds : most;
	}
	for (unsigned i = 0; i < g.n; i++)
		kill(g.p[i].pid, SIGCONT);
	printf("a process: %.1f MiB, %.1f of them its own; up to %u descriptors\n",
	       (double)all.pss / g.n / (1 << 20), (double)all.anon / g.n / (1 << 20), most);
	printf("rings: %u of %u pairs, %.1f MiB in all, %.1f KiB a pair\n", all.rings / 2,
	       g.n * (g.n - 1), (double)all.ring_pss / (1 << 20),
	       (double)all.ring_pss / (g.n * (g.n - 1)) / 1024);
	check_bounds(&all, most);
}

static void finish(void)
{
	int status;

	atomic_store(&g.board->stop, 1);
	for (unsigned i = 0; i < g.n; i++) {
		pid_t pid = g.p[i].pid;

		sum_up(i);
		waitpid(pid, &status, 0);
		g.p[i].pid = 0;
		if (status)
			fail("worker %u ended with status 0x%x: %s", i, status,
			     g.board->worker[i].reason);
	}
	printf("messages, all good: %llu SEND, %llu WRITE, %llu WRITE with immediate, %llu READ; "
	       "%.1f MiB\n",
	       (unsigned long long)g.total[OP_SEND], (unsigned long long)g.total[OP_WRITE],
	       (unsigned long long)g.total[OP_IMM], (unsigned long long)g.total[OP_READ],
	       (double)g.bytes / (1 << 20));
	printf("connections: %llu ended by an event, %llu of them told by a completion first; "
	       "%llu were refused\n",
	       (unsigned long long)g.disconnected, (unsigned long long)g.broken,
	       (unsigned long long)g.refused);
}

/* ---- main ---- */

static struct board *map_board(int fd)
{
	struct board *b = mmap(NULL, sizeof(*b), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return b == MAP_FAILED ? NULL : b;
}

static int worker(char **argv)
{
	struct board *b = map_board(atoi(argv[2]));

	close(atoi(argv[2]));
	return b ? mesh_run(b, (unsigned)atoi(argv[3]), (uint32_t)atoi(argv[4])) : 4;
}

static void set_up(void)
{
	const struct rlimit files = {FILES, FILES};

	g.board_fd = memfd_create("crowd", 0);
	g.open = calloc((size_t)(g.kills + 1) * g.n, sizeof(*g.open));
	g.delay_us = calloc(DEATHS, sizeof(*g.delay_us));
	if (g.board_fd < 0 || ftruncate(g.board_fd, sizeof(struct board)) ||
	    !(g.board = map_board(g.board_fd)) || setrlimit(RLIMIT_NOFILE, &files) || !g.open ||
	    !g.delay_us) {
		perror("crowd");
		exit(1);
	}
	if (!g.shape.hosts)
		g.shape.address[g.shape.hosts++] = htonl(INADDR_LOOPBACK);
	if (g.quiet)
		g.shape.most = (g.messages + g.shape.slots - 1) / g.shape.slots;
	g.board->shape = g.shape;
	g.random = g.shape.seed;
}

static bool option(int opt)
{
	unsigned n = optarg ? (unsigned)strtoul(optarg, NULL, 0) : 0;

	switch (opt) {
	case 'n':
		g.shape.workers = g.n = n;
		return n > 1 && n <= MAX_WORKERS;
	case 'k':
		g.kills = n;
		return true;
	case 't':
		g.stop_s = n;
		return true;
	case 'm':
		g.messages = n;
		return true;
	case 'w':
		g.patience_s = n;
		return true;
	case 'a':
		return g.shape.hosts < MAX_HOSTS &&
		       inet_pton(AF_INET, optarg, &g.shape.address[g.shape.hosts++]) == 1;
	case 'x':
		g.starter[g.shape.hosts ? g.shape.hosts - 1 : 0] = optarg;
		return true;
	case 'r':
		g.rounds = n;
		return true;
	case 'p':
		g.shape.port = n;
		return n && n + MAX_WORKERS < 65536;
	case 's':
		g.shape.seed = strtoull(optarg, NULL, 0);
		return true;
	case 'd':
		g.shape.slots = n;
		return n && n <= MAX_SLOTS;
	case 'b':
		g.shape.bytes = n;
		return n >= 1024 && n <= 1u << 20 && !(n % 64);
	case 'e':
		g.shape.events = true;
		return true;
	case 'q':
		g.quiet = true;
		return true;
	default:
		return false;
	}
}

int main(int argc, char **argv)
{
	uint64_t begun = now_ns();
	int opt;

	if (argc == 5 && !strcmp(argv[1], "--worker"))
		return worker(argv);
	g.shape.seed = begun;
	while ((opt = getopt(argc, argv, "n:k:t:m:w:a:x:r:p:s:d:b:eq")) != -1) {
		if (!option(opt)) {
			fprintf(stderr, "crowd: see the head of crowd.c\n");
			return 2;
		}
	}
	g.self = argv[0];
	setvbuf(stdout, NULL, _IOLBF, 0);
	set_up();
	for (unsigned i = 0; i < g.n; i++)
		start(i);
	wait_for_mesh(g.n);
	printf("seed %llu: %u processes, all connected with all in %.1f s\n",
	       (unsigned long long)g.shape.seed, g.n, (double)(now_ns() - begun) / 1e9);
	wait_for_messages(g.n, g.messages);
	kills();
	stop_one();
	rounds();
	/* Gateways have rings of their own with them. */
	if (g.shape.hosts == 1)
		tell_memory();
	finish();
	return 0;
}
