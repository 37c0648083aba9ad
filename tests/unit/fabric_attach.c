/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What members ask each other: the data plane's words and descriptors arrive, the dead are gone,
 * and one that is stopped keeps nobody waiting.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "descriptors.h"
#include "fabric_rig.h"
#include "log_kept.h"
#include "netio/fabric_priv.h"

/* What the hooks of a member have seen; they are called by another thread. */
struct seen {
	struct urxe_fabric *f;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	atomic_uint asked, answered, gone, later;
	atomic_uint slot;
	_Atomic uint32_t incarnation;
	atomic_int err;
	_Atomic uint64_t word;
	atomic_bool same; /* the descriptor shows the memory that the other has */
	bool by_slot[URXE_FABRIC_SLOTS];
};

#define SEEN                                                                        \
	{                                                                           \
		.lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER \
	}

static int memory(uint64_t content)
{
	int fd = memfd_create("test", MFD_CLOEXEC);

	if (fd >= 0 && pwrite(fd, &content, sizeof(content), 0) != sizeof(content))
		_exit(98);
	return fd;
}

static uint64_t content(int fd)
{
	uint64_t v = 0;

	if (fd >= 0 && pread(fd, &v, sizeof(v), 0) != sizeof(v))
		v = 0;
	return v;
}

static int asked(void *arg, unsigned slot, uint32_t incarnation,
		 const struct urxe_fabric_words *req, struct urxe_fabric_words *ans, bool *close_fd)
{
	struct seen *s = arg;

	pthread_mutex_lock(&s->lock);
	s->asked++;
	s->slot = slot;
	s->incarnation = incarnation;
	s->word = req->w[URXE_FABRIC_WORDS - 1];
	if (req->fd >= 0) {
		s->same = content(req->fd) == req->w[0];
		close(req->fd);
	}
	pthread_cond_broadcast(&s->cond);
	pthread_mutex_unlock(&s->lock);
	if (req->w[1])
		return (int)req->w[1];
	ans->w[0] = req->w[0] + 1;
	ans->fd = memory(ans->w[0]);
	*close_fd = true;
	return 0;
}

static void answered(void *arg, unsigned slot, uint32_t incarnation, int err,
		     const struct urxe_fabric_words *ans)
{
	struct seen *s = arg;

	pthread_mutex_lock(&s->lock);
	s->answered++;
	s->slot = slot;
	s->incarnation = incarnation;
	s->by_slot[slot] = true;
	s->err = err;
	s->word = err ? 0 : ans->w[0];
	s->same = !err && content(ans->fd) == ans->w[0];
	if (ans->fd >= 0)
		close(ans->fd);
	pthread_cond_broadcast(&s->cond);
	pthread_mutex_unlock(&s->lock);
}

static void gone(void *arg, unsigned slot, uint32_t incarnation)
{
	struct seen *s = arg;

	pthread_mutex_lock(&s->lock);
	s->gone++;
	s->slot = slot;
	s->incarnation = incarnation;
	pthread_cond_broadcast(&s->cond);
	pthread_mutex_unlock(&s->lock);
}

static uint64_t later(void *arg, uint64_t now)
{
	struct seen *s = arg;
	bool more;

	pthread_mutex_lock(&s->lock);
	more = ++s->later < 3;
	pthread_cond_broadcast(&s->cond);
	pthread_mutex_unlock(&s->lock);
	return more ? now + 1000 : UINT64_MAX;
}

static const struct urxe_fabric_hooks hooks = {
	.asked = asked, .answered = answered, .gone = gone, .later = later};

static void join_with(struct seen *s)
{
	s->f = rig_join(false);
	urxe_fabric_hook(s->f, &hooks, s);
}

/* Until one of its counts is so many. */
static void await(struct seen *s, const atomic_uint *count, unsigned n)
{
	pthread_mutex_lock(&s->lock);
	while (*count < n)
		pthread_cond_wait(&s->cond, &s->lock);
	pthread_mutex_unlock(&s->lock);
}

static int ask(struct seen *s, unsigned slot, uint64_t a, uint64_t b)
{
	struct urxe_fabric_words req = {.w = {a, b}, .fd = -1};

	req.w[URXE_FABRIC_WORDS - 1] = 4711;
	return urxe_fabric_ask(s->f, slot, &req);
}

static void both_ways(void)
{
	struct seen a = SEEN, b = SEEN;
	struct urxe_fabric_words req = {.w = {77}};
	unsigned slot;

	rig_begin();
	join_with(&a);
	join_with(&b);
	slot = urxe_fabric_slot(b.f);
	req.fd = memory(77);
	CU_ASSERT_EQUAL(urxe_fabric_ask(a.f, slot, &req), 0);
	await(&a, &a.answered, 1);
	close(req.fd);
	CU_ASSERT_EQUAL(a.err, 0);
	CU_ASSERT_EQUAL(a.slot, slot);
	CU_ASSERT_EQUAL(a.incarnation, urxe_fabric_incarnation(a.f, slot));
	CU_ASSERT_EQUAL(a.word, 78);
	CU_ASSERT_TRUE(a.same);
	CU_ASSERT_TRUE(b.same);
	CU_ASSERT_EQUAL(b.slot, urxe_fabric_slot(a.f));
	/* What the other says no to. */
	CU_ASSERT_EQUAL(ask(&b, urxe_fabric_slot(a.f), 1, ENOSPC), 0);
	await(&b, &b.answered, 1);
	CU_ASSERT_EQUAL(b.err, ENOSPC);
	CU_ASSERT_EQUAL(a.word, 4711);
	/* To itself, too, and to nobody. */
	CU_ASSERT_EQUAL(ask(&a, urxe_fabric_slot(a.f), 1, 0), 0);
	await(&a, &a.answered, 2);
	CU_ASSERT_EQUAL(a.err, 0);
	CU_ASSERT_EQUAL(ask(&a, 77, 1, 0), EHOSTUNREACH);
	CU_ASSERT_EQUAL(ask(&a, 0, 1, 0), EHOSTUNREACH);
	CU_ASSERT_EQUAL(ask(&a, 255, 1, 0), EHOSTUNREACH);
	CU_ASSERT_EQUAL(ask(&a, 256, 1, 0), EHOSTUNREACH);
	urxe_fabric_call_at(a.f, urxe_fabric_now() + 1000);
	await(&a, &a.later, 3);
	/* It leaves: who had to do with it is told. */
	urxe_fabric_put(b.f);
	await(&a, &a.gone, 1);
	CU_ASSERT_EQUAL(a.slot, slot);
	CU_ASSERT_EQUAL(ask(&a, slot, 1, 0), EHOSTUNREACH);
	urxe_fabric_put(a.f);
	CU_ASSERT_EQUAL(a.gone, 1);
	rig_end();
}

/* ---- processes ---- */

/* With hooks: tells its slot; a byte asks that member; 0: the end. Says what came of it. */
static void asker(int in, int out)
{
	struct seen s = SEEN;
	int slot;
	unsigned n = 0;

	join_with(&s);
	rig_say(out, (int)urxe_fabric_slot(s.f));
	while ((slot = rig_hear(in)) > 0) {
		if (ask(&s, (unsigned)slot, 1, 0))
			rig_say(out, 1);
		await(&s, &s.answered, ++n);
		rig_say(out, s.err || !s.same);
	}
	urxe_fabric_put(s.f);
}

static void killed(void)
{
	struct seen a = SEEN;
	struct rig_process p;
	int slot;

	if (!rig_can_fork())
		return;
	rig_begin();
	join_with(&a);
	for (unsigned i = 1; i <= 4; i++) {
		uint32_t incarnation;

		rig_start(&p, asker);
		slot = rig_hear(p.from);
		incarnation = urxe_fabric_incarnation(a.f, (unsigned)slot);
		if (i & 1) { /* we ask */
			CU_ASSERT_EQUAL(ask(&a, (unsigned)slot, 1, 0), 0);
			await(&a, &a.answered, i / 2 + 1);
		} else { /* it asks */
			rig_say(p.to, (int)urxe_fabric_slot(a.f));
			CU_ASSERT_EQUAL(rig_hear(p.from), 0);
		}
		rig_kill(&p);
		await(&a, &a.gone, i);
		CU_ASSERT_EQUAL(a.slot, (unsigned)slot);
		CU_ASSERT_EQUAL(a.incarnation, incarnation);
		CU_ASSERT_EQUAL(urxe_fabric_incarnation(a.f, (unsigned)slot), 0);
	}
	CU_ASSERT_EQUAL(rig_files(), 2);
	urxe_fabric_put(a.f);
	rig_end();
}

/* One is stopped: it is asked without an answer, and others are not delayed. */
static void stopped(void)
{
	struct seen a = SEEN;
	struct rig_process p[2];
	int slot[2], status;

	if (!rig_can_fork())
		return;
	rig_begin();
	join_with(&a);
	for (unsigned i = 0; i < 2; i++) {
		rig_start(&p[i], asker);
		slot[i] = rig_hear(p[i].from);
	}
	kill(p[0].pid, SIGSTOP);
	waitpid(p[0].pid, &status, WUNTRACED);
	CU_ASSERT_EQUAL(ask(&a, (unsigned)slot[0], 1, 0), 0);
	CU_ASSERT_EQUAL(ask(&a, (unsigned)slot[1], 1, 0), 0);
	await(&a, &a.answered, 1);
	CU_ASSERT_EQUAL(a.slot, (unsigned)slot[1]);
	CU_ASSERT_EQUAL(a.err, 0);
	CU_ASSERT_EQUAL(ask(&a, (unsigned)slot[0], 1, 0), EALREADY);
	rig_say(p[1].to, (int)urxe_fabric_slot(a.f)); /* and it serves */
	CU_ASSERT_EQUAL(rig_hear(p[1].from), 0);
	await(&a, &a.answered, 2);
	CU_ASSERT_EQUAL(a.slot, (unsigned)slot[0]);
	CU_ASSERT_EQUAL(a.err, ETIMEDOUT);
	CU_ASSERT_EQUAL(a.gone, 0);
	kill(p[0].pid, SIGCONT);
	CU_ASSERT_EQUAL(ask(&a, (unsigned)slot[0], 1, 0), 0);
	await(&a, &a.answered, 3);
	CU_ASSERT_EQUAL(a.err, 0);
	/* A stopped one that is asked, and then killed. */
	kill(p[0].pid, SIGSTOP);
	waitpid(p[0].pid, &status, WUNTRACED);
	CU_ASSERT_EQUAL(ask(&a, (unsigned)slot[0], 1, 0), 0);
	rig_kill(&p[0]);
	/* Which of these is first depends on how far the question had come. */
	await(&a, &a.gone, 1);
	await(&a, &a.answered, 4);
	CU_ASSERT_EQUAL(a.err, EHOSTUNREACH);
	rig_reap(&p[1]);
	urxe_fabric_put(a.f);
	rig_end();
}

static unsigned watched_by_epoll(int epoll)
{
	char path[64], line[256];
	unsigned n = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", epoll);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		n += !strncmp(line, "tfd:", 4);
	if (file)
		fclose(file);
	return n;
}

/* A child has all descriptors of the member's: its thread is not kept busy by them. */
static void forked(void)
{
	struct seen a = SEEN;
	struct rig_process p;
	int slot, hold[2];
	pid_t child;

	if (!rig_can_fork())
		return;
	rig_begin();
	join_with(&a);
	rig_start(&p, asker);
	slot = rig_hear(p.from);
	CU_ASSERT_EQUAL(ask(&a, (unsigned)slot, 1, 0), 0);
	await(&a, &a.answered, 1);
	CU_ASSERT_EQUAL(pipe(hold), 0);
	child = fork();
	if (!child) {
		close(hold[1]);
		rig_hear(hold[0]);
		_exit(0);
	}
	rig_kill(&p);
	await(&a, &a.gone, 1);
	/* Its wake-ups, and who connects: what is closed is not left to the child. */
	CU_ASSERT_EQUAL(watched_by_epoll(a.f->epoll), 2);
	close(hold[1]);
	waitpid(child, NULL, 0);
	urxe_fabric_put(a.f);
	rig_end();
}

/* ---- one that means harm ---- */

static int connect_to(unsigned slot)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(un.sun_path, sizeof(un.sun_path), "%s/%u", rig_dir, slot);
	CU_ASSERT_EQUAL(connect(fd, (struct sockaddr *)&un, sizeof(un)), 0);
	return fd;
}

/* Rubbish at the socket: it is closed, or says nothing, and the member goes on. */
static void rubbish_messages(void)
{
	struct seen a = SEEN, b = SEEN;
	uint64_t random = 42;

	rig_begin();
	join_with(&a);
	join_with(&b);
	for (unsigned i = 0; i < 300; i++) {
		struct urxe_fmsg m = {.type = (uint16_t)(i % 7), .slot = (uint16_t)(i * 31)};
		int fd = connect_to(1), other = memory(1);

		if (i % 3 == 0) {
			CU_ASSERT_TRUE(send(fd, &random, i % 8, MSG_NOSIGNAL) >= 0);
		} else {
			m.to = i % 2 ? a.f->incarnation : 0;
			m.incarnation = i % 5 ? 7 : b.f->incarnation;
			if (i % 5 == 0)
				m.slot = 2;
			m.w[1] = i % 11 ? EINVAL : 0;
			/* A file for a pidfd. */
			CU_ASSERT_EQUAL(urxe_fmsg_send(fd, &m, i % 2 ? other : -1, other), 0);
		}
		close(fd);
		close(other);
	}
	CU_ASSERT_EQUAL(ask(&b, 1, 5, 0), 0);
	await(&b, &b.answered, 1);
	CU_ASSERT_EQUAL(b.err, 0);
	CU_ASSERT_EQUAL(a.gone, 0);
	urxe_fabric_put(b.f);
	await(&a, &a.gone, 1);
	urxe_fabric_put(a.f);
	rig_end();
}

/* A connection that is not let in yet, and why not stands in @log, or comes to stand there. */
static int knock(const struct rlimit *few, FILE *log)
{
	struct rlimit was;
	struct stat st;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un un = {.sun_family = AF_UNIX};

	snprintf(un.sun_path, sizeof(un.sun_path), "%s/1", rig_dir);
	getrlimit(RLIMIT_NOFILE, &was);
	CU_ASSERT_EQUAL(setrlimit(RLIMIT_NOFILE, few), 0);
	CU_ASSERT_EQUAL(connect(fd, (struct sockaddr *)&un, sizeof(un)), 0);
	while (!fstat(fileno(log), &st) && !st.st_size)
		usleep(1000);
	usleep(200000); /* it is tried again, and not said */
	CU_ASSERT_EQUAL(setrlimit(RLIMIT_NOFILE, &was), 0);
	return fd;
}

/* Who cannot let others in for want of a descriptor says so, once, and does when it can. */
static void no_descriptors(void)
{
	struct seen a = SEEN, b = SEEN;
	struct rlimit few;
	char text[4096], *line;
	struct log_kept log;
	int fds[2];

	getrlimit(RLIMIT_NOFILE, &few);
	few.rlim_cur = 1;
	rig_begin();
	join_with(&a);
	log_keep(&log);
	fds[0] = knock(&few, log.file);
	fds[1] = knock(&few, log.file);
	join_with(&b);
	CU_ASSERT_EQUAL(ask(&b, 1, 5, 0), 0);
	await(&b, &b.answered, 1);
	CU_ASSERT_EQUAL(b.err, 0);
	log_kept(&log, text, sizeof(text));
	line = strstr(text, "ulimit -n");
	CU_ASSERT_PTR_NOT_NULL(line);
	CU_ASSERT_TRUE(line && !strstr(line + 1, "ulimit -n"));
	close(fds[0]);
	close(fds[1]);
	urxe_fabric_put(b.f);
	urxe_fabric_put(a.f);
	rig_end();
}

/* A message of no bytes may have descriptors, too. */
static void empty_messages(void)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))];
	struct seen a = SEEN, b = SEEN;
	int fds[2] = {memory(1), memory(2)};
	unsigned before;

	rig_begin();
	join_with(&a);
	join_with(&b);
	before = descriptors();
	for (unsigned i = 0; i < 50; i++) {
		struct iovec iov = {.iov_base = fds, .iov_len = 0};
		struct msghdr h = {.msg_iov = &iov,
				   .msg_iovlen = 1,
				   .msg_control = control,
				   .msg_controllen = sizeof(control)};
		struct cmsghdr *c = CMSG_FIRSTHDR(&h);
		int fd = connect_to(1);

		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(fds));
		memcpy(CMSG_DATA(c), fds, sizeof(fds));
		CU_ASSERT_EQUAL(sendmsg(fd, &h, MSG_NOSIGNAL), 0);
		close(fd);
	}
	/* All that came before it is done with. */
	CU_ASSERT_EQUAL(ask(&b, 1, 5, 0), 0);
	await(&b, &b.answered, 1);
	/* What this took, and no more. */
	CU_ASSERT(descriptors() < before + 10);
	close(fds[0]);
	close(fds[1]);
	urxe_fabric_put(b.f);
	urxe_fabric_put(a.f);
	rig_end();
}

/* All that can be asked of a table, whatever is in it. */
static void use(struct seen *a, struct seen *b, uint64_t random)
{
	struct urxe_fabric_member m;
	struct urxe_fabric_where where;
	uint8_t gid[16], mac[6];
	uint64_t who[4];
	urxe_fabric_claim c = 0;
	uint16_t port = (uint16_t)(random & 1 ? random >> 8 : 0);

	memcpy(gid, &random, 8);
	memcpy(gid + 8, &random, 8);
	memcpy(mac, gid, 6);
	for (unsigned s = 0; s < 300; s++) {
		if (!urxe_fabric_member(a->f, s, &m)) {
			CU_ASSERT_TRUE_FATAL(m.gids <= URXE_FABRIC_GIDS &&
					     m.groups <= URXE_FABRIC_GROUPS &&
					     memchr(m.command, 0, sizeof(m.command)));
		}
		urxe_fabric_domain(a->f, s);
		urxe_fabric_alive(a->f, s, urxe_fabric_incarnation(a->f, s));
	}
	urxe_fabric_lookup(a->f, gid, &where);
	urxe_fabric_mac_slot(a->f, mac);
	urxe_fabric_group_members(a->f, gid, who);
	urxe_fabric_addr_set(a->f, (const uint8_t(*)[16])gid, 1, NULL);
	if (!urxe_fabric_port_claim(a->f, (enum urxe_ident_space)(random & 3), gid, random >> 60,
				    random, &port, &c)) {
		urxe_fabric_port_listen(a->f, c);
		urxe_fabric_port_reuse(a->f, c, random & 2);
		urxe_fabric_port_release(a->f, c);
	}
	urxe_fabric_port_release(a->f, random);
	urxe_fabric_service_release(a->f, random);
	if (!urxe_fabric_service_listen(a->f, random, ~0ull << (random & 63), &c))
		urxe_fabric_service_release(a->f, c);
	urxe_fabric_listener(a->f, gid, 0x01060000 | (random & 0xffff));
	urxe_fabric_listener(a->f, gid, random);
	ask(a, 1 + random % 254, 1, 0);
	ask(b, 1, 1, 0);
}

static uint64_t step(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	return *x ^= *x << 17;
}

static atomic_bool scribble;

/* Into what is used most, and everywhere. */
static void *scribbler(void *arg)
{
	struct urxe_ftable *t = arg;
	uint64_t x = 88172645463325252ull, words = sizeof(*t) / 8;

	while (atomic_load(&scribble)) {
		uint64_t at = step(&x), value = step(&x);
		uint64_t *start = at & 1   ? (uint64_t *)t
				  : at & 2 ? (uint64_t *)t->life
					   : (uint64_t *)t->member;
		uint64_t span = at & 1 ? words : at & 2 ? sizeof(t->life) / 8 : 4096;

		if (value & 4)
			value &= 0xff00000003; /* more like what should be there */
		atomic_store_explicit((_Atomic uint64_t *)&start[(at >> 8) % span], value,
				      memory_order_relaxed);
	}
	return NULL;
}

/* Words of all kinds, all the time: nobody crashes, or hangs. */
static void rubbish_table(void)
{
	struct seen a = SEEN, b = SEEN, c = SEEN;
	struct urxe_fabric *late;
	pthread_t thread;
	uint64_t x = 4101842887655102017ull;

	if (!rig_can_fork()) /* and TSan takes minutes for this one */
		return;
	rig_begin();
	join_with(&a);
	join_with(&b);
	join_with(&c);
	urxe_log_set_level(URXE_LOG_NONE);
	atomic_store(&scribble, true);
	pthread_create(&thread, NULL, scribbler, a.f->map->table);
	for (unsigned i = 0; i < 500; i++) {
		use(&a, &b, step(&x));
		if (i % 100 == 0) {
			late = rig_make(i & 1);
			urxe_fabric_join(late);
			urxe_fabric_put(late);
		}
	}
	atomic_store(&scribble, false);
	pthread_join(thread, NULL);
	urxe_log_set_level(URXE_LOG_WARN);
	urxe_fabric_put(b.f);
	urxe_fabric_put(c.f);
	urxe_fabric_put(a.f);
	rig_end();
}

/* What is no table is not taken for one. */
static void rubbish_memfd(void)
{
	struct urxe_fmap *map;
	int fd;

	CU_ASSERT_EQUAL(urxe_fmap_adopt(memory(1), &map), EPROTO);
	fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	CU_ASSERT_EQUAL(ftruncate(fd, sizeof(struct urxe_ftable)), 0);
	CU_ASSERT_EQUAL(urxe_fmap_adopt(dup(fd), &map), EPROTO); /* could be cut short */
	CU_ASSERT_EQUAL(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
	CU_ASSERT_EQUAL(urxe_fmap_adopt(fd, &map), EPROTO); /* has nothing in it */
	CU_ASSERT_EQUAL(urxe_fmap_adopt(open("/dev/null", O_RDWR), &map), EPROTO);
}

URXE_TEST_MAIN("fabric_attach", T(both_ways), T(killed), T(stopped), T(forked), T(rubbish_messages),
	       T(empty_messages), T(no_descriptors), T(rubbish_table), T(rubbish_memfd))
