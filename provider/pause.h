/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Whether the service thread looks again at once, and else how it sleeps (pause.c). A state
 * machine: the time, and what was found, are given to it.
 */
#ifndef URXE_PROVIDER_PAUSE_H
#define URXE_PROVIDER_PAUSE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define URXE_SLEEP_MAX_NS  4000000ull	 /* of a link without interrupts */
#define URXE_SLEEP_INTR_NS 1000000000ull /* of a link with */
#define URXE_SLEEP_TRY_NS  100000000ull	 /* of one that should, until one was seen */

/** How the scheduler is to treat the thread. */
enum urxe_pause_policy {
	URXE_PAUSE_USUAL, /* as any other */
	URXE_PAUSE_SHORT, /* callers stop and watch memory: often, and for short */
	URXE_PAUSE_BATCH, /* frames gather: it puts nobody aside */
};

/** What is known of callers: */
enum urxe_pause_callers {
	URXE_CALLERS_NONE,  /* none polls */
	URXE_CALLERS_POLL,  /* they have, since the last look */
	URXE_CALLERS_DOUBT, /* perhaps they have stopped: the next look tells */
	URXE_CALLERS_ASIDE, /* they poll, but are not let run */
};

/** What ended a pause: */
enum urxe_pause_end {
	URXE_PAUSE_END_OTHER, /* nobody knows */
	URXE_PAUSE_END_FRAME, /* a frame, it seems */
	URXE_PAUSE_END_TIME,  /* the time, and a frame would have */
};

/** What the thread remembers from turn to turn. */
struct urxe_pause {
	/* given */
	uint64_t spin_most; /* the key `spin`, ns */
	bool prompt;	    /* a frame can end a pause, at no cost to its sender */
	bool one_cpu;	    /* our threads have one processor between them, */
	bool emulated;	    /* which a program plays */
	/* does it pay to look without a pause? */
	uint64_t since;	      /* the last frame, or wish to have one */
	uint64_t gap;	      /* from there to the next frame, smoothed */
	uint64_t busy_until;  /* no pause before */
	uint64_t crowded;     /* till then the processor is not ours alone */
	uint64_t crowded_for; /* the time before, when that was seen last */
	/* do callers? */
	uint64_t polls;	       /* of theirs, when last looked */
	uint64_t sleep;	       /* the pause that comes next, where nothing ends it */
	uint64_t driven_most;  /* and how long one is while they do, */
	uint64_t driven_least; /* after they were found to have stopped */
	uint64_t late;	       /* by how much pauses end too late, smoothed */
	uint64_t lapsed;       /* when they were last found to have stopped */
	unsigned lapses;       /* how often that was of late */
	bool may_lapse;	       /* they do that now and then */
	bool passed;	       /* one of these has handed over to us, */
	unsigned vain;	       /* which was in vain so often of late */
	unsigned driven_quiet; /* such pauses in a row after which they were still at it */
	bool driven_paused;    /* the last one was such a pause */
	enum urxe_pause_callers callers;
	uint64_t looked; /* the last look */
	uint64_t polled; /* when they were last seen to */
	uint64_t ran;	 /* for so long one had a processor since */
	uint64_t yields; /* of theirs, when last looked */
	uint64_t away;	 /* and the time that these took */
	uint64_t round;	 /* from one of these to the next, in a crowd; else 0 */
	bool yield;	 /* others are let in before the next look */
	/* does a frame end it? */
	bool no_interrupt; /* it did not, when one should */
	bool wanted;	   /* one should end this one */
	uint64_t slept;	   /* how long the last one was that a frame should end */
	/* and will it? */
	bool proved;	     /* one has */
	unsigned missed;     /* pauses in a row that ran to their ends although a frame was there */
	uint64_t unsure;     /* till then none is relied on */
	uint64_t unsure_for; /* for so long, the next time */
	enum urxe_pause_end end; /* the last pause's */
	/* and a frame at a time? */
	bool gather;	  /* that is over */
	unsigned found;	  /* since then */
	unsigned quick;	  /* pauses in a row that found few */
	unsigned holdoff; /* pauses till gathering is tried again */
	unsigned backoff; /* the next holdoff */
};

/** What a turn, and a look at the callers, came to. */
struct urxe_pause_look {
	uint64_t now;
	int n;		/* what the turn found; -1: callers have all lanes */
	uint64_t polls; /* turns that callers took */
	bool at_it;	/* one did when we came, and perhaps was put aside for us */
	uint64_t ran; /* if p->callers is not NONE: how long a caller has run since the last look */
	uint64_t yields; /* of callers that are back */
	uint64_t away;	 /* for so long these were, together */
	bool yielding;	 /* one is not back yet, and will poll then */
	bool nudged;	 /* somebody sleeps now, or has left something to do */
	bool written;	 /* a peer has changed memory since the last look */
	bool waits;	 /* somebody sleeps until the CM has an answer */
	bool partway;	 /* the rest of a message is to come */
	bool driven;	 /* out: callers drove since the last look */
};

/** Callers that poll in vain, beside an emulated processor's cards. */
struct urxe_pause_caller {
	_Atomic uint64_t since; /* nothing has come since; 0: it has; 1: a thread writes the rest */
	_Atomic uint64_t most;	/* it polls for so long, ns */
	uint64_t packets;	/* that had come and gone then */
	unsigned eighths;	/* of those from wait to wait, smoothed */
};

/**
 * urxe_pause_in_vain - does it sleep now, until a frame comes? Any thread.
 * @packets: all that have come and gone so far
 */
bool urxe_pause_in_vain(struct urxe_pause_caller *c, uint64_t now, uint64_t packets);
/** urxe_pause_not_in_vain - something has come. */
static inline void urxe_pause_not_in_vain(struct urxe_pause_caller *c)
{
	uint64_t since = atomic_load_explicit(&c->since, memory_order_relaxed);

	if (since > 1)
		atomic_compare_exchange_strong(&c->since, &since, 0);
}

/**
 * urxe_pause_yield_after - after how many empty polls in a row a caller lets others in
 * @away: how long its last such time took, ns; 0: there was none
 * @one_cpu: nothing can have come while it polled
 */
unsigned urxe_pause_yield_after(uint64_t away, bool one_cpu);

/**
 * urxe_pause_init - of a thread that is about to start
 * @one_cpu: our threads have one processor between them
 * @emulated: a program plays our processors, and perhaps what sends to us
 */
void urxe_pause_init(struct urxe_pause *p, uint64_t spin_most, bool prompt, bool one_cpu,
		     bool emulated);
/** urxe_pause_next - how long to sleep now; 0: not at all, but p->yield. p->wanted: shall a frame
 * end it? */
uint64_t urxe_pause_next(struct urxe_pause *p, struct urxe_pause_look *l);
/** urxe_pause_patience - for how much longer than usual callers may leave something, ns: they will
 * be back, and are in a crowd, or looks after them are dear. */
uint64_t urxe_pause_patience(const struct urxe_pause *p);
/** urxe_pause_alert - is the pause that follows ended by a frame, as is known of this link? */
bool urxe_pause_alert(const struct urxe_pause *p);
/** urxe_pause_policy - as what the scheduler is to take the thread now. */
enum urxe_pause_policy urxe_pause_policy(const struct urxe_pause *p);
/** urxe_pause_ended - a pause of @ns, or less, took @slept. @interrupt: a frame would have ended
 * it. */
void urxe_pause_ended(struct urxe_pause *p, uint64_t ns, uint64_t slept, bool interrupt);
/** urxe_pause_gave_way - instead of a pause others were let in, from @now to @back. */
void urxe_pause_gave_way(struct urxe_pause *p, uint64_t now, uint64_t back);

#endif
