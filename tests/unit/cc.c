/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Congestion control: what the window makes of each event; and every algorithm of the table on a
 * link that is modelled here, in virtual time.
 */
#include <stdlib.h>
#include <string.h>

#include "caps.h"
#include "cc.h"
#include "harness.h"

/* ---- the window's table ---- */

/* One event a letter, with its number: a acked, s missing, r of a READ's responses, l lost, m
 * marked (packets out), t timeout, T timeout again, u undo. */
static void tell(struct urxe_cc *cc, const char *events)
{
	while (*events) {
		char what = *events++, *end;
		uint32_t n = (uint32_t)strtoul(events, &end, 10);

		events = end + strspn(end, " ");
		if (what == 'a')
			cc->ops->acked(cc, n, 0);
		else if (what == 's' || what == 'r')
			cc->ops->missing(cc, n, what == 's', 0);
		else if (what == 'l')
			cc->ops->lost(cc, 0);
		else if (what == 'm')
			cc->ops->marked(cc, n, 0);
		else if (what == 'u')
			cc->ops->undo(cc);
		else
			cc->ops->timeout(cc, what == 'T', 0);
	}
}

static const struct {
	const char *what, *events;
	uint32_t allowed, ssthresh;
} window[] = {
	{"a connection begins", "", 64, 256},
	{"below the threshold it grows by all that is acknowledged", "a10", 74, 256},
	{"up to the most", "a64 a64 a64", 256, 256},
	{"and no further", "a191 a64 a1000", 256, 256},
	{"a loss halves it", "l", 32, 32},
	{"of an odd window too", "a1 l", 32, 32},
	{"at the threshold it waits for a window's worth", "l a31", 32, 32},
	{"and grows by one", "l a31 a1", 33, 32},
	{"the next takes one more", "l a32 a32", 33, 32},
	{"which comes", "l a32 a33", 34, 32},
	{"a loss forgets what was on its way to that", "l a31 l a15", 16, 16},
	{"the least", "l l l l l l l l", 2, 2},
	{"grows again", "l l l l l l l l a2 a3", 4, 2},
	{"a time-out leaves the least, and half as threshold", "t", 2, 32},
	{"up to which it grows quickly", "t a30", 32, 32},
	{"and then slowly", "t a30 a31", 32, 32},
	{"a silence that goes on halves nothing more", "t a6 T", 2, 32},
	{"another does", "t a6 t", 2, 4},
	{"never below the least", "t t t", 2, 2},
	{"a mere delay: as it was", "t u", 64, 256},
	{"however long", "a36 t T a1 T u", 100, 256},
	{"after a loss as well", "l t u", 32, 32},
	{"an eighth of what is out may be missing, of a small window as well", "l l s8 a60 s8", 17,
	 16},
	{"more is a queue that is full", "l l s8 a60 s9", 8, 8},
	{"unless it is long ago", "l l s16 a128 s16", 17, 16},
	{"of a large window, an eighth of that: half of what is above 128 goes", "a192 s32", 192,
	 192},
	{"and no more", "a192 s33", 128, 128},
	{"each time", "a192 s1 s1", 160, 160},
	{"down to 128", "a192 s1 s1 s1 s1 s1 s1 s1 s1 s1", 128, 128},
	{"and it grows again, slowly", "a192 s1 a191 a1", 193, 192},
	{"128 may lose some", "a64 s1", 128, 256},
	{"and so may any of responses, which nobody keeps", "a192 r32", 256, 256},
	{"a mark halves as a loss does", "m10", 32, 32},
	{"once for all that was out", "m10 m9 a9 m1", 32, 32},
	{"then it is news", "m10 a10 m5", 16, 16},
	{"a loss is news at once", "m10 l", 16, 16},
};

static void test_window(void)
{
	CU_ASSERT_STRING_EQUAL(urxe_cc_window_ops.name, "window");
	CU_ASSERT_EQUAL(urxe_cc_window_ops.ecn, 0); /* the traffic class is the application's */
	for (unsigned i = 0; i < sizeof(window) / sizeof(window[0]); i++) {
		struct urxe_cc cc = {0};
		struct urxe_cc_allowed can;
		bool ok;

		urxe_cc_start(&cc, &urxe_cc_window_ops);
		tell(&cc, window[i].events);
		can = urxe_cc_allowed(&cc);
		ok = can.packets == window[i].allowed && !can.kbps &&
		     cc.window.ssthresh == window[i].ssthresh;
		if (!ok)
			printf("\n    %s (%s): %u, threshold %u", window[i].what, window[i].events,
			       can.packets, cc.window.ssthresh);
		CU_ASSERT(ok);
	}
}

/* ---- a link ---- */

#define FLOWS	2
#define TICK	1000ull /* ns: the link carries a packet in it */
#define WAY	50	/* ticks from its end to the sender's knowledge */
#define ROOM	100	/* packets that wait before the link */
#define SILENCE 1000	/* ticks after which a sender begins again */
#define RUN	200000	/* ticks */

struct packet {
	uint8_t flow;
	bool ce;
	uint32_t psn;
};

/* What comes back. */
struct answer {
	bool any, nak, ce;
	uint8_t flow;
	uint32_t psn; /* the receiver expects */
};

struct flow {
	struct urxe_cc cc;
	uint32_t next, una, expected;
	bool gap; /* reported, and nothing in order since */
	uint64_t heard;
	unsigned timeouts;
};

struct link {
	struct flow flow[FLOWS];
	unsigned flows, mark_at; /* packets that wait from which a packet is marked; 0: never */
	struct packet queue[ROOM];
	unsigned head, waiting, dropped;
	struct answer back[WAY];
	uint64_t tick;
};

static void hear(struct link *l, const struct answer *a)
{
	struct flow *f = &l->flow[a->flow];
	uint64_t now = l->tick * TICK;

	if (!a->any)
		return;
	if (a->psn > f->una) {
		f->cc.ops->acked(&f->cc, a->psn - f->una, now);
		f->una = a->psn;
		if (f->next < f->una)
			f->next = f->una;
		f->heard = l->tick;
	}
	if (a->ce)
		f->cc.ops->marked(&f->cc, f->next - f->una, now);
	if (a->nak) {
		f->cc.ops->lost(&f->cc, now);
		f->next = a->psn;
	}
}

static struct answer arrive(struct link *l, const struct packet *p)
{
	struct flow *f = &l->flow[p->flow];
	bool nak = p->psn > f->expected && !f->gap;

	if (p->psn == f->expected) {
		f->expected++;
		f->gap = false;
	} else if (nak) {
		f->gap = true;
	}
	return (struct answer){true, nak, p->ce, p->flow, f->expected};
}

static void send_one(struct link *l, unsigned flow)
{
	struct flow *f = &l->flow[flow];
	struct packet p = {(uint8_t)flow, l->mark_at && l->waiting >= l->mark_at, f->next};

	if (f->next - f->una >= urxe_cc_allowed(&f->cc).packets)
		return;
	f->next++;
	if (l->waiting == ROOM) {
		l->dropped++;
		return;
	}
	l->queue[(l->head + l->waiting++) % ROOM] = p;
}

static void run_link(struct link *l)
{
	for (unsigned i = 0; i < l->flows; i++)
		urxe_cc_start(&l->flow[i].cc, l->flow[i].cc.ops);
	for (l->tick = 0; l->tick < RUN; l->tick++) {
		struct answer *slot = &l->back[l->tick % WAY];

		hear(l, slot);
		slot->any = false;
		if (l->waiting) {
			*slot = arrive(l, &l->queue[l->head]);
			l->head = (l->head + 1) % ROOM;
			l->waiting--;
		}
		for (unsigned i = 0; i < l->flows; i++) {
			struct flow *f = &l->flow[i];

			if (l->tick - f->heard > SILENCE) {
				f->cc.ops->timeout(&f->cc, false, l->tick * TICK);
				f->next = f->una;
				f->heard = l->tick;
				f->timeouts++;
			}
			/* Faster than the link, and not always the same first. */
			send_one(l, (unsigned)((i + l->tick) % l->flows));
			send_one(l, (unsigned)((i + l->tick) % l->flows));
		}
	}
}

/* The link is used, little is sent in vain, and flows get on beside each other. */
static void check_link(const struct urxe_cc_ops *ops, unsigned flows, unsigned mark_at)
{
	struct link l = {.flows = flows, .mark_at = mark_at};
	uint32_t all = 0, least = UINT32_MAX;
	unsigned timeouts = 0;
	bool ok;

	for (unsigned i = 0; i < flows; i++)
		l.flow[i].cc.ops = ops;
	run_link(&l);
	for (unsigned i = 0; i < flows; i++) {
		all += l.flow[i].una;
		if (l.flow[i].una < least)
			least = l.flow[i].una;
		timeouts += l.flow[i].timeouts;
	}
	ok = all > RUN / 100 * 90 && least > all / flows / 2;
	/* Marked in time it loses next to nothing. Else what was lost may get lost again, unsaid.
	 */
	if (mark_at)
		ok = ok && l.dropped < RUN / 1000 && !timeouts;
	else
		ok = ok && l.dropped < RUN / 100 && timeouts < 5;
	if (!ok)
		printf("\n    %s, %u flows, marks from %u: %u of %u carried, the least %u; %u "
		       "dropped, "
		       "%u time-outs",
		       ops->name, flows, mark_at, all, RUN, least, l.dropped, timeouts);
	CU_ASSERT(ok);
}

static void test_link(void)
{
	for (unsigned i = 0; i < URXE_NUM_CC; i++) {
		for (unsigned flows = 1; flows <= FLOWS; flows++) {
			check_link(urxe_cc_table[i], flows, 0);
			check_link(urxe_cc_table[i], flows, ROOM / 2);
		}
	}
}

URXE_TEST_MAIN("cc", T(test_window), T(test_link))
