/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Who is on duty: the one thread of a device that sleeps on its port, and does what nobody else
 * does. That is the service thread (service.c), or in its place a caller that waits for a
 * completion event anyway (await.c). What it does is in duty.c.
 */
#ifndef URXE_PROVIDER_DUTY_H
#define URXE_PROVIDER_DUTY_H

#include "device.h"

/** urxe_duty_begin - what @m remembers, at the beginning. */
void urxe_duty_begin(struct urxe_device *dev, struct urxe_duty_mind *m);
/** urxe_duty_resume - a caller has the duty again: its own polls meanwhile are no other's. */
void urxe_duty_resume(struct urxe_device *dev, struct urxe_duty_mind *m);
/** urxe_duty_round - a turn, the GSI's poll, a look at the carrier; the rest is for who is on duty.
 * Returns how long to sleep then, ns; 0: not at all. No lock held. */
uint64_t urxe_duty_round(struct urxe_device *dev, struct urxe_duty_mind *m);
/**
 * urxe_duty_pause - sleep until a frame may have come, somebody has something to do, or @ns passed;
 * with @ns 0 others are let in where that is due
 * @ended: *@ended is not @was: do not sleep; whoever changes it ends the sleep. Or NULL.
 */
void urxe_duty_pause(struct urxe_device *dev, struct urxe_duty_mind *m, uint64_t ns,
		     struct urxe_sleep *how, const atomic_uint *ended, unsigned was);

/* ---- who has it ---- */

void urxe_duty_init(struct urxe_device *dev);
void urxe_duty_fini(struct urxe_device *dev);
/** urxe_duty_hand_over - by the service thread: is somebody else to have it? Then it waits until it
 * is its own again, or it is to stop. */
void urxe_duty_hand_over(struct urxe_device *dev);
/** urxe_duty_stop - the service thread is to end. */
void urxe_duty_stop(struct urxe_device *dev);
/**
 * urxe_duty_take - the caller, who waits for an event of @ch, has it now
 * False: it has not, for others wait as well, or watch memory (pause.c), or no service thread runs.
 * Either way urxe_duty_leave() follows.
 */
bool urxe_duty_take(struct urxe_device *dev, struct urxe_channel *ch);
/** urxe_duty_leave - the caller waits no more. @on_duty: so far; @comes_back: soon, it seems. */
void urxe_duty_leave(struct urxe_device *dev, bool on_duty, bool comes_back);
/** urxe_duty_give_up - the caller waits on, and the service thread has the duty: it fits itself to
 * those who watch memory, which nobody may do to a thread of the application's. */
void urxe_duty_give_up(struct urxe_device *dev);
/** urxe_duty_sleeps - does who waits for an event of @ch sleep, on duty? After the event. */
bool urxe_duty_sleeps(const struct urxe_device *dev, const struct urxe_channel *ch);
/** urxe_duty_evict - @ch goes: who waits there is to leave, and has left. */
void urxe_duty_evict(struct urxe_device *dev, struct urxe_channel *ch);

#endif
