/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The link of a local fabric: memberships of this process that send to each other, some of which
 * read nothing, sleep, die, or write rubbish.
 */
#include "harness.h"

#include <errno.h>
#include <pthread.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "netio/fabric_link.h"
#include "netio/link_fabric.h"
#include "netio/stack.h"
#include "urxe/mad.h"

#ifdef URXE_BELL_NO_FENCE
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

#define OPS   (&urxe_link_fabric_ops)
#define ENDS  3
#define MTU   4200
#define BURST 16

struct end {
	struct urxe_fabric *f;
	void *link;
	struct urxe_link_info info;
	unsigned slot;
	uint32_t seq[URXE_FABRIC_SLOTS];      /* of frames, by receiver; 0: a group */
	uint32_t expected[URXE_FABRIC_SLOTS]; /* by sender */
	unsigned wrong;
};

static char dir[64];
static struct end e[ENDS];

static void start(struct end *x, bool node)
{
	struct urxe_port_config cfg = {.host = !node, .vlan = URXE_NO_VLAN};
	const uint8_t mac[6] = {2};

	memset(x, 0, sizeof(*x));
	strcpy(cfg.name, "urxe0");
	snprintf(cfg.port, sizeof(cfg.port), "fabric,dir=%s", dir);
	CU_ASSERT_EQUAL_FATAL(OPS->fabric(&cfg, &x->f), 0);
	CU_ASSERT_EQUAL_FATAL(OPS->open(x->f, &cfg, mac, MTU, &x->link, &x->info), 0);
	x->slot = urxe_fabric_slot(x->f);
}

static void stop(struct end *x)
{
	if (!x->link)
		return;
	OPS->close(x->link);
	urxe_fabric_put(x->f);
	x->link = NULL;
}

static void start_all(bool node)
{
	strcpy(dir, "/tmp/urxe-test-XXXXXX");
	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
	for (unsigned i = 0; i < ENDS; i++)
		start(&e[i], node);
}

static void stop_all(void)
{
	char cmd[128];

	for (unsigned i = 0; i < ENDS; i++)
		stop(&e[i]);
	snprintf(cmd, sizeof(cmd), "rm -r %s", dir);
	CU_ASSERT_EQUAL(system(cmd), 0); // NOLINT: of this program's own making
}

static struct fabric_link *inside(struct end *x)
{
	return x->link;
}

/* Rings that @of has for what @by writes. By lock: the fabric's thread counts them too. */
static unsigned rings(struct end *of, struct end *by)
{
	struct fabric_link *l = inside(of);
	unsigned n;

	urxe_spin_lock(&l->lock);
	n = l->peer[by->slot].mail.rings;
	urxe_spin_unlock(&l->lock);
	return n;
}

/* ---- frames: RoCEv2, with a number and a pattern behind the BTH ---- */

#define AT_BTH	(ETH_LEN + IPV4_LEN + UDP_LEN)
#define AT_SEQ	(AT_BTH + URXE_BTH_LEN)
#define LEN_MIN (AT_SEQ + 8 + URXE_ICRC_LEN)

static void fill(struct end *from, const uint8_t dmac[6], uint32_t dqpn, uint8_t *p, uint32_t len)
{
	uint32_t seq = from->seq[dqpn >> 16]++;

	memset(p, 0, AT_SEQ);
	memcpy(p, dmac, 6);
	memcpy(p + 6, from->info.mac, 6);
	urxe_put16(p + 12, ETHERTYPE_IPV4);
	p[ETH_LEN] = 0x45;
	p[ETH_LEN + 9] = PROTO_UDP;
	urxe_put16(p + ETH_LEN + 2, (uint16_t)(len - ETH_LEN));
	urxe_put16(p + ETH_LEN + IPV4_LEN + 2, URXE_UDP_DPORT);
	urxe_put24(p + AT_BTH + 5, dqpn);
	urxe_put32(p + AT_SEQ, from->slot);
	urxe_put32(p + AT_SEQ + 4, seq);
	memset(p + AT_SEQ + 8, (int)(seq & 0xff), len - AT_SEQ - 8);
}

static int place(struct end *from, struct end *to, uint32_t len)
{
	uint32_t dqpn = to->slot << 16 | 77;
	struct urxe_frame f;
	int err = OPS->reserve(from->link, 0, to->info.mac, dqpn, len, &f);

	if (err)
		return err;
	fill(from, to->info.mac, dqpn, f.data, len);
	OPS->commit(from->link, 0, f.buf, len, URXE_FRAME_NO_ICRC);
	return 0;
}

static void flush(struct end *x)
{
	OPS->tx(x->link, 0, NULL, 0);
}

static void check(struct end *x, const struct urxe_frame *f)
{
	const uint8_t *p = f->rest ? f->rest : f->data;
	uint32_t from = urxe_get32(p + AT_SEQ), seq = urxe_get32(p + AT_SEQ + 4);

	if (from >= URXE_FABRIC_SLOTS || seq != x->expected[from]++ || f->len < LEN_MIN ||
	    p[f->len - 1] != (uint8_t)seq || memcmp(f->data, p, AT_SEQ) ||
	    (f->rest != NULL) != (f->len > FABRIC_SHORT && f->flags & URXE_FRAME_NO_ICRC))
		x->wrong++;
}

/* Reads once; how many frames there were. */
static unsigned poll_end(struct end *x)
{
	struct urxe_frame f[BURST];
	unsigned n = OPS->rx(x->link, 0, f, BURST);

	for (unsigned i = 0; i < n; i++)
		check(x, &f[i]);
	OPS->free(x->link, 0, f, n);
	return n;
}

static unsigned drain(struct end *x, unsigned want)
{
	unsigned n = 0;

	while (n < want) {
		unsigned k = poll_end(x);

		n += k;
		if (!k)
			sched_yield();
	}
	return n + poll_end(x);
}

/* The first frame: the fabric's threads make the ring meanwhile. */
static void attach(struct end *from, struct end *to)
{
	int err;

	while ((err = place(from, to, LEN_MIN)) == EINPROGRESS) {
		poll_end(from);
		sched_yield();
	}
	CU_ASSERT_EQUAL_FATAL(err, 0);
	flush(from);
	CU_ASSERT_EQUAL(drain(to, 1), 1);
	/* The way back came with the question. */
	CU_ASSERT(inside(to)->peer[from->slot].on);
}

/* As many as fit. */
static unsigned stuff(struct end *from, struct end *to, uint32_t len)
{
	unsigned n = 0;

	while (!place(from, to, len))
		n++;
	flush(from);
	return n;
}

/* ---- tests ---- */

static void test_frames(void)
{
	static const uint32_t lens[] = {LEN_MIN, 126, FABRIC_SHORT, FABRIC_SHORT + 1, 1000, 4170};

	start_all(true);
	attach(&e[0], &e[1]);
	for (unsigned i = 0; i < 600; i++) {
		int err = place(&e[0], &e[1], lens[i % 6]);

		CU_ASSERT_EQUAL_FATAL(err, 0);
		if (i % 5 == 4) {
			flush(&e[0]);
			CU_ASSERT_EQUAL(drain(&e[1], 5), 5);
		}
	}
	CU_ASSERT_EQUAL(e[1].wrong, 0);
	CU_ASSERT(inside(&e[0])->peer[e[1].slot].tx.size == URXE_RING_FIRST);
	stop_all();
}

/* Nobody has such a QPN, such a MAC, or both do not belong together. */
static void test_nobody(void)
{
	struct urxe_frame f;

	start_all(true);
	CU_ASSERT_EQUAL(OPS->reserve(e[0].link, 0, e[1].info.mac, 200 << 16, 100, &f),
			EHOSTUNREACH);
	CU_ASSERT_EQUAL(OPS->reserve(e[0].link, 0, e[1].info.mac, e[2].slot << 16, 100, &f),
			EHOSTUNREACH);
	CU_ASSERT_EQUAL(OPS->reserve(e[0].link, 0, e[0].info.mac, e[0].slot << 16, 100, &f),
			EHOSTUNREACH);
	attach(&e[0], &e[1]);
	CU_ASSERT_EQUAL(OPS->reserve(e[0].link, 0, e[2].info.mac, e[1].slot << 16, 100, &f),
			EHOSTUNREACH);
	CU_ASSERT_EQUAL(OPS->reserve(e[0].link, 0, e[1].info.mac, e[1].slot << 16, 9000, &f),
			EMSGSIZE);
	stop_all();
}

/* By tx(), as MADs go: false: the link does not take it now. */
static bool offer(struct end *from, struct end *to, uint32_t len)
{
	struct urxe_frame f;

	CU_ASSERT_EQUAL_FATAL(OPS->alloc(from->link, 0, &f, 1), 1);
	fill(from, to->info.mac, to->slot << 16 | 77, f.data, len);
	f.len = len;
	f.flags = URXE_FRAME_NO_ICRC;
	if (OPS->tx(from->link, 0, &f, 1))
		return true;
	from->seq[to->slot]--;
	OPS->free(from->link, 0, &f, 1);
	return false;
}

/*
 * A burst that is more than ring and queue hold waits for its reader, and none of it is lost. One
 * that never reads is a switch whose queue is full.
 */
static void test_burst(void)
{
	unsigned sent = 0, got = 0;

	start_all(true);
	attach(&e[0], &e[1]);
	while (sent < 3000) {
		if (offer(&e[0], &e[1], 340))
			sent++;
		else
			got += poll_end(&e[1]);
	}
	CU_ASSERT(got >= 1000);
	while (got < sent && !OPS->dropped(e[0].link)) {
		flush(&e[0]);
		got += poll_end(&e[1]);
	}
	CU_ASSERT_EQUAL(e[1].wrong, 0);
	CU_ASSERT_EQUAL(OPS->dropped(e[0].link), 0);
	while (!OPS->dropped(e[0].link))
		offer(&e[0], &e[1], 340);
	stop_all();
}

/* One that reads nothing holds up nobody but those who send to it; nothing is lost. */
static void test_full(void)
{
	unsigned full, n = 0;

	start_all(true);
	attach(&e[0], &e[1]);
	attach(&e[0], &e[2]);
	full = stuff(&e[0], &e[1], 4000);
	CU_ASSERT(full >= 14 && full <= 16);
	for (unsigned i = 0; i < 200; i++) {
		CU_ASSERT_EQUAL(place(&e[0], &e[1], 4000), EAGAIN);
		CU_ASSERT_EQUAL_FATAL(place(&e[0], &e[2], 4000), 0);
		flush(&e[0]);
		CU_ASSERT_EQUAL(drain(&e[2], 1), 1);
	}
	/* It is not slow, it is stopped: no larger ring is asked for. */
	CU_ASSERT(!inside(&e[0])->peer[e[1].slot].asked);
	for (unsigned k; (k = poll_end(&e[1]));)
		n += k;
	CU_ASSERT_EQUAL(n, full);
	CU_ASSERT_EQUAL(e[1].wrong + e[2].wrong, 0);
	CU_ASSERT_EQUAL(OPS->dropped(e[0].link), 0);
	stop_all();
}

static void test_growth(void)
{
	struct fabric_peer *p;

	start_all(true);
	attach(&e[0], &e[1]);
	p = &inside(&e[0])->peer[e[1].slot];
	for (unsigned i = 0; p->tx.size < URXE_RING_LARGEST; i++) {
		drain(&e[1], stuff(&e[0], &e[1], 4000));
		poll_end(&e[0]);
		sched_yield();
	}
	CU_ASSERT(stuff(&e[0], &e[1], 4000) > 200);
	while (poll_end(&e[1]))
		;
	CU_ASSERT_EQUAL(e[1].expected[e[0].slot], e[0].seq[e[1].slot]);
	CU_ASSERT_EQUAL(e[1].wrong, 0);
	/* What it outgrew is gone. */
	CU_ASSERT_EQUAL(rings(&e[1], &e[0]), 1);
	stop_all();
}

/* A ring from 0 to 1 that grows as soon as @enough bytes are granted to such, and not before. */
static void grow_at(uint64_t enough)
{
	struct fabric_peer *p;

	inside(&e[1])->grown_most = enough - 1;
	attach(&e[0], &e[1]);
	p = &inside(&e[0])->peer[e[1].slot];
	while (p->refused < 2) {
		drain(&e[1], stuff(&e[0], &e[1], 4000));
		poll_end(&e[0]);
		sched_yield();
	}
	CU_ASSERT_EQUAL(p->tx.size, URXE_RING_FIRST);
	inside(&e[1])->grown_most = enough;
	while (p->tx.size == URXE_RING_FIRST) {
		drain(&e[1], stuff(&e[0], &e[1], 4000));
		poll_end(&e[0]);
		sched_yield();
	}
	CU_ASSERT_EQUAL(p->refused, 0);
	CU_ASSERT_EQUAL(inside(&e[1])->grown, URXE_RING_FIRST * 4);
	CU_ASSERT_EQUAL(e[1].wrong, 0);
}

/* Memory for rings that grow is bounded: what is used up is no error, and comes back. */
static void test_growth_bound(void)
{
	start_all(true);
	grow_at(URXE_RING_FIRST * 4);
	stop_all();
}

/* A ring may be as large as all may be: here there are two. */
static void test_growth_share(void)
{
	start_all(true);
	attach(&e[2], &e[1]);
	grow_at(URXE_RING_FIRST * 8);
	stop_all();
}

/* ---- whose a request of the CM is ---- */

#define SERVICE (0x01060000 | 7174)
#define REQ_LEN (AT_BTH + URXE_BTH_LEN + URXE_DETH_LEN + URXE_MAD_LEN + URXE_ICRC_LEN)

static const uint8_t host4[16] = {[10] = 0xff, 0xff, 10, 0, 0, 1};

/* Where 0 sends it. */
static unsigned way_of_req(uint64_t tid, uint32_t id)
{
	uint8_t data[REQ_LEN];
	struct urxe_frame f = {.data = data, .len = REQ_LEN};
	uint8_t *mad = data + AT_BTH + URXE_BTH_LEN + URXE_DETH_LEN;

	fill(&e[0], e[0].info.mac, 1, data, REQ_LEN);
	memcpy(data + ETH_LEN + 16, host4 + 12, 4);
	urxe_mad_init(mad, URXE_MAD_REQ, tid);
	urxe_mad_put(mad, URXE_REQ_LOCAL_COMM_ID, id);
	urxe_mad_put(mad, URXE_REQ_SERVICE_ID, SERVICE);
	return fabric_steer_own(inside(&e[0]), 1, &f);
}

/* One that is sent again goes to who got it, though it listens no more; another one is refused. */
static void test_request_again(void)
{
	urxe_fabric_claim c;
	uint16_t port = 7174;

	start_all(false);
	for (unsigned i = 0; i < ENDS; i++)
		CU_ASSERT_EQUAL(urxe_fabric_addr_set(e[i].f, &host4, 1, NULL), 0);
	CU_ASSERT_EQUAL(urxe_fabric_port_claim(e[1].f, URXE_IDENT_TCP, host4, URXE_IDENT_PORT_V4, 0,
					       &port, &c),
			0);
	CU_ASSERT_EQUAL(way_of_req(76, 1), URXE_STEER_LOOP);
	CU_ASSERT_EQUAL(urxe_fabric_port_listen(e[1].f, c), 0);
	CU_ASSERT_EQUAL(way_of_req(77, 1), URXE_STEER_LINK);
	urxe_fabric_port_release(e[1].f, c);
	CU_ASSERT_EQUAL(way_of_req(77, 1), URXE_STEER_LINK);
	CU_ASSERT_EQUAL(way_of_req(77, 2), URXE_STEER_LOOP);
	CU_ASSERT_EQUAL(way_of_req(78, 1), URXE_STEER_LOOP);
	stop(&e[1]);
	CU_ASSERT_EQUAL(way_of_req(77, 1), URXE_STEER_LOOP);
	stop_all();
}

/* A pair that falls silent gives its memory back, and may talk again. */
static void test_idle(void)
{
	start_all(true);
	attach(&e[0], &e[1]);
	for (unsigned i = 0; i < 12; i++)
		fabric_peer_tidy(inside(&e[0]));
	CU_ASSERT(!inside(&e[0])->peer[e[1].slot].on);
	poll_end(&e[1]);
	CU_ASSERT_EQUAL(rings(&e[1], &e[0]), 0);
	CU_ASSERT_PTR_NULL(inside(&e[1])->peer[e[0].slot].rx);
	attach(&e[0], &e[1]);
	CU_ASSERT_EQUAL(e[1].wrong, 0);
	stop_all();
}

/* Who is answered too late asks again: what was made for him before does not add up. */
static void test_late_answers(void)
{
	struct urxe_fabric_words req = {.w = {URXE_RING_FIRST}, .fd = -1};
	struct fabric_link *l;
	unsigned n;

	start_all(true);
	l = inside(&e[1]);
	for (unsigned i = 0; i < 20; i++) {
		struct urxe_fabric_words ans = {.fd = -1};
		bool close_fd = false;
		uint32_t incarnation = urxe_fabric_incarnation(l->fabric, e[0].slot);

		CU_ASSERT_EQUAL(urxe_fabric_link_hooks.asked(l, e[0].slot, incarnation, &req, &ans,
							     &close_fd),
				0);
		if (close_fd)
			close(ans.fd);
		poll_end(&e[1]);
		CU_ASSERT_EQUAL(rings(&e[1], &e[0]), 1);
	}
	attach(&e[0], &e[1]);
	n = stuff(&e[0], &e[1], 1000);
	CU_ASSERT_EQUAL(drain(&e[1], n), n);
	CU_ASSERT_EQUAL(rings(&e[1], &e[0]), 1);
	CU_ASSERT_EQUAL(e[1].wrong, 0);
	stop_all();
}

/* Who answers the first frame that it has ever received need not wait, nor live on. */
static void test_first_answer(void)
{
	start_all(true);
	attach(&e[0], &e[1]);
	CU_ASSERT(!inside(&e[1])->peer[e[0].slot].asked);
	CU_ASSERT_EQUAL(place(&e[1], &e[0], LEN_MIN), 0);
	flush(&e[1]);
	stop(&e[1]);
	CU_ASSERT_EQUAL(drain(&e[0], 1), 1);
	CU_ASSERT_EQUAL(e[0].wrong, 0);
	stop_all();
}

/* Both begin at once: of the two rings that each makes one is left, and no frame is overtaken. */
static void test_both_ask(void)
{
	for (unsigned round = 0; round < 50; round++) {
		unsigned placed[2] = {0}, got[2] = {0};

		start_all(true);
		while (placed[0] < 40 || placed[1] < 40) {
			for (unsigned i = 0; i < 2; i++) {
				placed[i] += placed[i] < 40 && !place(&e[i], &e[!i], LEN_MIN);
				flush(&e[i]);
				got[!i] += poll_end(&e[!i]);
			}
		}
		for (unsigned i = 0; i < 2; i++) {
			struct fabric_peer *p = &inside(&e[i])->peer[e[!i].slot];

			while (got[i] < 40 || p->asked || rings(&e[i], &e[!i]) > 1) {
				got[i] += poll_end(&e[i]);
				poll_end(&e[!i]);
				sched_yield();
			}
			CU_ASSERT_EQUAL(got[i], 40);
			CU_ASSERT_EQUAL(e[i].wrong, 0);
			CU_ASSERT_PTR_NULL(p->rx->next);
		}
		stop_all();
	}
}

/* A descriptor that is no ring is not taken; the one who offered it has room for another. */
static void test_bad_offer(void)
{
	struct urxe_fabric_words req = {.w = {URXE_RING_FIRST, 0, URXE_RING_FIRST, 4000}};
	struct urxe_fabric_words ans = {.fd = -1};
	struct fabric_link *l;
	bool close_fd = false;

	start_all(true);
	l = inside(&e[1]);
	req.fd = dup(STDIN_FILENO);
	CU_ASSERT_EQUAL(urxe_fabric_link_hooks.asked(l, e[0].slot,
						     urxe_fabric_incarnation(l->fabric, e[0].slot),
						     &req, &ans, &close_fd),
			0);
	CU_ASSERT_EQUAL(ans.w[2], 0);
	CU_ASSERT_TRUE(close_fd);
	close(ans.fd);
	CU_ASSERT_EQUAL(fcntl(req.fd, F_GETFD), -1);
	attach(&e[0], &e[1]);
	attach(&e[1], &e[0]);
	CU_ASSERT_EQUAL(e[0].wrong + e[1].wrong, 0);
	stop_all();
}

/* What was published is read after its sender has gone; then nobody can be reached there. */
static void test_gone(void)
{
	unsigned n;

	start_all(true);
	attach(&e[0], &e[1]);
	attach(&e[1], &e[0]);
	n = stuff(&e[0], &e[1], 1000);
	stop(&e[0]);
	CU_ASSERT_EQUAL(drain(&e[1], n), n);
	/* Until it is told, its ring may be full. */
	while (place(&e[1], &e[0], 100) != EHOSTUNREACH) {
		poll_end(&e[1]);
		sched_yield();
	}
	while (rings(&e[1], &e[0])) {
		poll_end(&e[1]);
		sched_yield();
	}
	CU_ASSERT_EQUAL(e[1].wrong, 0);
	attach(&e[2], &e[1]);
	stop_all();
}

/* Frames of the stack's own: before the ring is there, and while it is full, they wait. */
static void test_own_frames(void)
{
	struct urxe_frame f[8];
	unsigned full = 0;

	start_all(true);
	CU_ASSERT_EQUAL_FATAL(OPS->alloc(e[0].link, 0, f, 8), 8);
	for (unsigned i = 0; i < 8; i++) {
		if (i == 4) {
			CU_ASSERT_FALSE(OPS->waits(e[0].link));
			CU_ASSERT_EQUAL(OPS->tx(e[0].link, 0, f, 4), 4);
			CU_ASSERT(OPS->waits(e[0].link));
			CU_ASSERT_EQUAL(drain(&e[1], 0), 0);
			while (!inside(&e[0])->peer[e[1].slot].on || poll_end(&e[1]) < 4) {
				poll_end(&e[0]);
				sched_yield();
			}
			full = stuff(&e[0], &e[1], 4000);
		}
		f[i].len = 1000;
		fill(&e[0], e[1].info.mac, e[1].slot << 16 | 5, f[i].data, 1000);
	}
	CU_ASSERT_EQUAL(OPS->tx(e[0].link, 0, f + 4, 4), 4);
	/* For room, of which nobody knows when there will be any. */
	CU_ASSERT_FALSE(OPS->waits(e[0].link));
	CU_ASSERT_EQUAL(place(&e[0], &e[1], 100), EAGAIN);
	CU_ASSERT_EQUAL(drain(&e[1], full), full);
	flush(&e[0]);
	CU_ASSERT_EQUAL(drain(&e[1], 4), 4);
	CU_ASSERT_EQUAL(place(&e[0], &e[1], 100), 0);
	CU_ASSERT_EQUAL(e[1].wrong, 0);
	CU_ASSERT_EQUAL(OPS->dropped(e[0].link), 0);
	stop_all();
}

static void *sleeper(void *arg)
{
	struct end *x = arg;
	struct urxe_sleep how = {.interrupt = true};

	while (!poll_end(x))
		OPS->wait(x->link, URXE_NEVER, -1, &how);
	return NULL;
}

/* A sleeper is woken by a frame; one that is awake costs no system call. */
static void test_sleep(void)
{
	struct urxe_fabric_bell *bell;
	pthread_t t;
	struct urxe_sleep how = {.interrupt = true};
	uint32_t futex;

	start_all(true);
	attach(&e[0], &e[1]);
	bell = inside(&e[1])->bell;
	futex = atomic_load(&bell->futex);
	for (unsigned i = 0; i < 10; i++) {
		CU_ASSERT_EQUAL(place(&e[0], &e[1], 100), 0);
		flush(&e[0]);
	}
	CU_ASSERT_EQUAL(atomic_load(&bell->futex), futex);
	/* There are news: it does not sleep. */
	OPS->wait(e[1].link, URXE_NEVER, -1, &how);
	CU_ASSERT_EQUAL(drain(&e[1], 10), 10);
	for (unsigned i = 0; i < 20; i++) {
		CU_ASSERT_EQUAL_FATAL(pthread_create(&t, NULL, sleeper, &e[1]), 0);
		while (i % 2 && !atomic_load(&bell->asleep))
			sched_yield();
		CU_ASSERT_EQUAL(place(&e[0], &e[1], 100), 0);
		flush(&e[0]);
		pthread_join(t, NULL);
	}
	/* By its own process, also before. */
	OPS->wake(e[1].link);
	how.interrupt = false;
	OPS->wait(e[1].link, URXE_NEVER, -1, &how);
	CU_ASSERT_EQUAL(e[1].wrong, 0);
	stop_all();
}

/* A process with this address is killed, and another one has it: that one is found. */
static void test_resolve(void)
{
	uint8_t gid[16] = {[10] = 0xff, 0xff, 10, 9, 0, 2}, mac[6];
	int ready[2], status = -1;
	char c;
	pid_t pid;

	start_all(true);
	CU_ASSERT_EQUAL(OPS->resolve(e[0].link, gid, mac), EHOSTUNREACH);
	CU_ASSERT_EQUAL_FATAL(pipe(ready), 0);
	pid = fork();
	if (!pid) {
		struct end child;

		start(&child, true);
		urxe_fabric_addr_set(child.f, (const uint8_t(*)[16]) & gid, 1, NULL);
		(void)!write(ready[1], "x", 1);
		pause();
		_exit(0);
	}
	close(ready[1]);
	if (read(ready[0], &c, 1) != 1) {
		/* ThreadSanitizer lets no child have threads. */
		waitpid(pid, &status, 0);
		CU_ASSERT(SANITIZED);
		close(ready[0]);
		stop_all();
		return;
	}
	CU_ASSERT_EQUAL(OPS->resolve(e[0].link, gid, mac), 0);
	CU_ASSERT(memcmp(mac, e[2].info.mac, 6) != 0);
	kill(pid, SIGKILL);
	CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
	stop(&e[2]);
	start(&e[2], true);
	CU_ASSERT(e[2].slot > ENDS + 1); /* looked at after the dead one */
	urxe_fabric_addr_set(e[2].f, (const uint8_t(*)[16]) & gid, 1, NULL);
	CU_ASSERT_EQUAL(OPS->resolve(e[0].link, gid, mac), 0);
	CU_ASSERT(!memcmp(mac, e[2].info.mac, 6));
	close(ready[0]);
	stop_all();
}

/* It is not listened to any more; others are. */
static void test_rubbish(void)
{
	struct fabric_peer *p;
	uint32_t word = 0x00ffffff;

	start_all(true);
	attach(&e[0], &e[1]);
	attach(&e[2], &e[1]);
	p = &inside(&e[0])->peer[e[1].slot];
	memcpy(p->tx.mem + URXE_RING_CONTROL + p->tx.pos, &word, 4);
	for (unsigned w = 0; w < FABRIC_WORDS; w++)
		atomic_store(&inside(&e[1])->bell->from[w], UINT64_MAX);
	CU_ASSERT_EQUAL(poll_end(&e[1]), 0);
	CU_ASSERT_EQUAL(rings(&e[1], &e[0]), 0);
	CU_ASSERT_EQUAL(place(&e[2], &e[1], 3000), 0);
	flush(&e[2]);
	CU_ASSERT_EQUAL(drain(&e[1], 1), 1);
	CU_ASSERT_EQUAL(e[1].wrong, 0);
	stop_all();
}

/* A group's frames go to each that has joined. */
static void test_group(void)
{
	uint8_t mgid[16] = {[10] = 0xff, 0xff, 239, 1, 2, 3}, mac[6] = {1, 0, 0x5e, 1, 2, 3};
	struct urxe_frame f;

	start_all(true);
	CU_ASSERT_EQUAL(urxe_fabric_group_join(e[1].f, mgid), 0);
	for (unsigned i = 0; i < 3; i++) {
		if (i == 1)
			CU_ASSERT_EQUAL(urxe_fabric_group_join(e[2].f, mgid), 0);
		CU_ASSERT_EQUAL_FATAL(OPS->alloc(e[0].link, 0, &f, 1), 1);
		fill(&e[0], mac, 0xffffff, f.data, 500);
		memcpy(f.data + ETH_LEN + 16, mgid + 12, 4);
		f.len = 500;
		OPS->tx(e[0].link, 0, &f, 1);
	}
	e[2].expected[e[0].slot] = 1;
	for (unsigned n = 0; n < 5;) {
		poll_end(&e[0]);
		n += poll_end(&e[1]) + poll_end(&e[2]);
		sched_yield();
	}
	CU_ASSERT_EQUAL(e[1].wrong + e[2].wrong, 0);
	CU_ASSERT_EQUAL(e[2].expected[e[0].slot], 3);
	stop_all();
}

/* In a forked child the link is the parent's: it does nothing, and its end harms nobody. */
static void test_fork(void)
{
	int status = -1;
	pid_t pid;

	start_all(true);
	attach(&e[0], &e[1]);
	pid = fork();
	if (!pid) {
		struct urxe_frame f;
		int bad = OPS->reserve(e[0].link, 0, e[1].info.mac, e[1].slot << 16, 100, &f) !=
			  EHOSTUNREACH;

		bad |= OPS->alloc(e[0].link, 0, &f, 1) || OPS->rx(e[1].link, 0, &f, 1) ||
		       OPS->up(e[0].link);
		OPS->tx(e[0].link, 0, NULL, 0);
		OPS->close(e[0].link);
		urxe_fabric_put(e[0].f);
		_exit(bad);
	}
	CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
	CU_ASSERT_EQUAL(status, 0);
	CU_ASSERT_EQUAL(place(&e[0], &e[1], 3000), 0);
	flush(&e[0]);
	CU_ASSERT_EQUAL(drain(&e[1], 1), 1);
	CU_ASSERT_EQUAL(e[1].wrong, 0);
	stop_all();
}

URXE_TEST_MAIN("fabric_link", T(test_frames), T(test_nobody), T(test_burst), T(test_full),
	       T(test_growth), T(test_growth_bound), T(test_growth_share), T(test_request_again),
	       T(test_idle), T(test_late_answers), T(test_first_answer), T(test_both_ask),
	       T(test_bad_offer), T(test_gone), T(test_own_frames), T(test_sleep), T(test_rubbish),
	       T(test_group), T(test_resolve), T(test_fork))
