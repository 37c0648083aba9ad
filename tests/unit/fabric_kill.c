/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Eight members that do all that members do, and are killed at any moment, one after the other;
 * sometimes all but one, sometimes while one is stopped. What they had comes back, and nobody
 * hangs.
 */
#include <fcntl.h>

#include "fabric_rig.h"

#define WORKERS 8
#ifdef __SANITIZE_ADDRESS__
#define KILLS 60 /* each is followed by a fork(), for which ASan's shadow takes 100 ms */
#else
#define KILLS 250
#endif
#define PORTS 4
#define FIRST 7000

static uint64_t state = 0x9e3779b97f4a7c15;

static uint64_t step(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	return state ^= state << 17;
}

static const uint8_t any[16];

static int asked(void *arg, unsigned slot, uint32_t incarnation,
		 const struct urxe_fabric_words *req, struct urxe_fabric_words *ans, bool *close_fd)
{
	ans->w[0] = req->w[0] + 1;
	return 0;
}

static void answered(void *arg, unsigned slot, uint32_t incarnation, int err,
		     const struct urxe_fabric_words *ans)
{
	if (err && err != EHOSTUNREACH && err != ETIMEDOUT)
		_exit(3);
}

static void gone(void *arg, unsigned slot, uint32_t incarnation)
{
	/* Or its slot would be somebody else's by now. */
	if (urxe_fabric_incarnation(arg, slot) == incarnation)
		_exit(4);
}

static const struct urxe_fabric_hooks hooks = {.asked = asked, .answered = answered, .gone = gone};

static bool work_once(struct urxe_fabric *f)
{
	struct urxe_fabric_words req = {.fd = -1};
	urxe_fabric_claim c[2] = {0};
	uint16_t port = (uint16_t)(FIRST + step() % PORTS), ephemeral = 0;
	uint8_t mgid[16] = {0xff, 0x12, [15] = (uint8_t)step()};
	int ret;

	ret = urxe_fabric_port_claim(f, URXE_IDENT_TCP, any, 0, 0, &port, &c[0]);
	if (ret && ret != EADDRINUSE)
		return false;
	if (urxe_fabric_port_claim(f, URXE_IDENT_UDP, any, 0, step(), &ephemeral, &c[1]))
		return false;
	if (!ret && urxe_fabric_port_listen(f, c[0]))
		return false;
	urxe_fabric_ask(f, 1 + (unsigned)(step() % (2 * WORKERS)), &req);
	urxe_fabric_group_join(f, mgid);
	urxe_fabric_port_release(f, c[0]);
	urxe_fabric_port_release(f, c[1]);
	urxe_fabric_group_leave(f, mgid);
	return true;
}

/* Until a byte comes. Each hundred rounds it leaves, and joins again. */
static void worker(int in, int out)
{
	struct urxe_fabric *f = NULL;
	char byte;

	state += (uint64_t)getpid() << 32;
	urxe_log_set_level(URXE_LOG_ERR);
	fcntl(in, F_SETFL, O_NONBLOCK);
	for (unsigned i = 0; read(in, &byte, 1) < 0; i++) {
		if (!f) {
			f = rig_make(step() & 1);
			urxe_fabric_hook(f, &hooks, f);
			if (urxe_fabric_join(f)) {
				char why[256];

				urxe_fabric_error(f, why, sizeof(why));
				fprintf(stderr, "fabric_kill: %s\n", why);
				_exit(1);
			}
			if (!i)
				rig_say(out, 1);
		}
		if (!work_once(f))
			_exit(2);
		if (i % 100 == 99) {
			urxe_fabric_put(f);
			f = NULL;
		}
	}
	urxe_fabric_put(f);
}

static unsigned count(struct urxe_fabric *f)
{
	struct urxe_fabric_member m;
	unsigned n = 0;

	for (unsigned s = 1; s <= 254; s++) {
		if (!urxe_fabric_member(f, s, &m))
			n += urxe_fabric_alive(f, s, m.incarnation);
	}
	return n;
}

static void kill_all(bool with_witness)
{
	struct rig_process p[WORKERS];
	struct urxe_fabric *f = with_witness ? rig_join(false) : NULL;
	urxe_fabric_claim c;
	bool joined[WORKERS] = {false};
	uint16_t port;
	int status;

	for (unsigned i = 0; i < WORKERS; i++)
		rig_start(&p[i], worker);
	for (unsigned k = 0; k < KILLS; k++) {
		unsigned i = (unsigned)(step() % WORKERS), stopped = (i + 1) % WORKERS;

		/* One that is stopped while it makes the table is waited for, for a while. */
		bool stop = with_witness && k % 50 == 49;

		if (stop)
			kill(p[stopped].pid, SIGSTOP);
		poll(NULL, 0, (int)(step() % 4)); /* at any moment */
		if (step() & 1)			  /* or just when it has joined */
			joined[i] = joined[i] || rig_hear(p[i].from) == 1;
		rig_kill(&p[i]);
		rig_start(&p[i], worker);
		joined[i] = false;
		if (stop) {
			joined[i] = rig_hear(p[i].from) == 1; /* nevertheless */
			CU_ASSERT_TRUE(joined[i]);
			kill(p[stopped].pid, SIGCONT);
		}
	}
	for (unsigned i = 0; i < WORKERS; i += 2)
		rig_kill(&p[i]);
	for (unsigned i = 1; i < WORKERS; i += 2) {
		/* Reaped earlier, it would find nobody to tell that it has joined. */
		if (!joined[i])
			CU_ASSERT_EQUAL(rig_hear(p[i].from), 1);
		status = rig_reap(&p[i]);
		CU_ASSERT_EQUAL(status, 0);
	}
	if (!f)
		f = rig_join(false);
	CU_ASSERT_EQUAL(count(f), 1);
	for (unsigned i = 0; i < PORTS; i++) {
		port = (uint16_t)(FIRST + i);
		CU_ASSERT_EQUAL(urxe_fabric_port_claim(f, URXE_IDENT_TCP, any, 0, 0, &port, &c), 0);
	}
	urxe_fabric_put(f);
}

static void kills(void)
{
	if (!rig_can_fork())
		return;
	rig_begin();
	kill_all(true);
	rig_end();
}

/* Now and then all are dead, and a new table is made. */
static void kills_of_all(void)
{
	if (!rig_can_fork())
		return;
	rig_begin();
	kill_all(false);
	rig_end();
}

URXE_TEST_MAIN("fabric_kill", T(kills), T(kills_of_all))
