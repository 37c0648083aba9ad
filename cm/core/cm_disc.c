/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The actions of the state table in cm_state.c: the end of a connection, and timewait. */
#include <errno.h>
#include <stdio.h>

#include "cm/core/cm_priv.h"
#include "urxe/gid.h"
#include "urxe/log.h"

#define ACTION(name) int urxe_cm_act_##name(struct urxe_cm_id *id, struct urxe_cm_step *s)

static void arm_dreq(struct urxe_cm_id *id)
{
	const struct urxe_cm_config *cfg = &id->cm->cfg;

	urxe_cm_arm(id, urxe_cm_try_ns(id->tries, cfg->dreq_first_ms, cfg->dreq_max_ms));
}

static void start_dreq(struct urxe_cm_id *id, const void *data, uint8_t len)
{
	urxe_cm_build_dreq(id, data, len);
	id->tries = 1;
	id->since = id->cm->ops->now(id->cm->arg);
	urxe_cm_send_mad(id->cm, &id->path, id->mad);
	arm_dreq(id);
}

/* The consumer gets one event that ends the connection. */
static void tell_end(struct urxe_cm_id *id, struct urxe_cm_step *s, enum urxe_cm_event_type type)
{
	if (!id->quiet)
		s->ev.type = type;
	id->quiet = true;
}

ACTION(send_dreq)
{
	const struct urxe_cm_reply *r = s->param;

	start_dreq(id, r->private_data, r->private_len);
	return 0;
}

ACTION(drop_connected)
{
	start_dreq(id, NULL, 0);
	return 0;
}

/* ---- is the peer alive? ---- */

#define CROWD 64 /* connections */

static uint64_t now_ns(const struct urxe_cm_id *id)
{
	return id->cm->ops->now(id->cm->arg);
}

/* With many connections the pauses grow: their probes never are much of the traffic. */
static uint64_t probe_pause(const struct urxe_cm *cm)
{
	return cm->cfg.probe_ms * URXE_CM_MS * (1 + cm->counters.states[URXE_CM_ESTABLISHED] / 256);
}

/* Soon, as the peer may be gone already; but not where a crowd comes, which has enough to send. */
static uint64_t first_pause(const struct urxe_cm *cm)
{
	return cm->counters.states[URXE_CM_ESTABLISHED] <= CROWD
		       ? cm->cfg.probe_first_ms * URXE_CM_MS
		       : probe_pause(cm);
}

/* How long a live peer may be silent. */
static uint64_t patience(const struct urxe_cm_id *id, uint64_t pause)
{
	const struct urxe_cm_config *cfg = &id->cm->cfg;
	uint64_t silence = cfg->patience_ms * URXE_CM_MS, missed = pause * cfg->probe_misses;
	uint8_t ack = id->ack_timeout_set ? id->ack_timeout : cfg->qp_ack_timeout;
	/* A QP without a time-out waits as long as the longest. */
	uint64_t qp = (4096ull << (ack ? ack : 31)) * (id->retry_count + 1u);

	if (missed > silence)
		silence = missed;
	return silence > qp ? silence : qp;
}

/* For how long the peer has been silent while we would have heard it. */
static uint64_t silent(const struct urxe_cm_id *id)
{
	uint64_t since = id->heard > id->cm->woke ? id->heard : id->cm->woke;

	return now_ns(id) - since;
}

/* A machine that dies takes all its connections with it: one line a second is enough. */
static void say_lost(const struct urxe_cm_id *id)
{
	struct urxe_cm *cm = id->cm;
	const struct urxe_cm_ops *ops = cm->ops;
	uint64_t now = now_ns(id), quiet = UINT64_MAX;
	char peer[URXE_GID_STRLEN], last[32] = "never";

	if (cm->lost_said && now < cm->lost_said + 1000 * URXE_CM_MS) {
		cm->lost_unsaid++;
		return;
	}
	urxe_gid_print(id->path.dgid.raw, peer, sizeof(peer));
	if (ops->quiet_ns)
		quiet = ops->quiet_ns(cm->arg, &id->path);
	if (quiet != UINT64_MAX)
		snprintf(last, sizeof(last), "%.1f s ago", (double)quiet / 1e9);
	urxe_warn("cm %08x: %s has been silent for %.1f s and is given up (QP 0x%x; %u more since "
		  "the last such line; last packet from there to a QP: %s); patience is a setting",
		  id->local_comm_id, peer, (double)(now - id->heard) / 1e9, id->local_qpn,
		  cm->lost_unsaid, last);
	cm->lost_said = now;
	cm->lost_unsaid = 0;
}

void urxe_cm_heard(struct urxe_cm_id *id)
{
	id->heard = now_ns(id);
}

/*
 * RTU and DREP have no answer. A peer that did not get one asks for it again, the kernel's after
 * 4.3 s, by when this process may be gone; so they go twice.
 */
static bool repeat_later(struct urxe_cm_id *id)
{
	const struct urxe_cm_config *cfg = &id->cm->cfg;

	id->repeats = cfg->repeat_ms && cfg->repeat_ms < cfg->timewait_ms && urxe_cm_may_lose(id);
	if (id->repeats)
		urxe_cm_arm(id, cfg->repeat_ms * URXE_CM_MS);
	return id->repeats;
}

void urxe_cm_wait(struct urxe_cm_id *id)
{
	id->repeats = false;
	if (!id->drep_until || !repeat_later(id))
		urxe_cm_arm(id, id->cm->cfg.timewait_ms * URXE_CM_MS);
}

void urxe_cm_watch(struct urxe_cm_id *id)
{
	const struct urxe_cm_config *cfg = &id->cm->cfg;

	urxe_cm_cancel(id);
	urxe_cm_heard(id);
	id->probing = false;
	id->probe_ns = cfg->probe_ms * URXE_CM_MS;
	if (id->active && !id->probed)
		repeat_later(id);
	if (!cfg->probe_ms)
		return;
	/* Many CMs do not probe, and are never heard again; the REP says which does. */
	if (!id->active)
		urxe_cm_arm(id, first_pause(id->cm));
	else if (id->probed)
		urxe_cm_arm(id, id->asked_time ? id->probe_ns / 4 : patience(id, id->probe_ns));
}

/* The peer has asked already, and again soon: it does not hear our answers. */
static bool is_deaf(const struct urxe_cm_id *id, uint64_t pause)
{
	return pause > 2 * id->cm->cfg.probe_first_ms * URXE_CM_MS && pause < id->probe_ns / 2;
}

/*
 * The peer's pauses grow slowly: in one that is much longer a probe was lost. One that is shorter
 * may be before a probe that is repeated for want of our answer, so they shrink slowly here.
 */
static void follow_probes(struct urxe_cm_id *id, uint64_t pause)
{
	uint64_t least = id->cm->cfg.probe_ms * URXE_CM_MS;
	uint64_t low = id->probe_ns * 7 / 8, high = id->probe_ns * 3 / 2;

	pause = pause < low ? low : pause > high ? high : pause;
	id->probe_ns = pause > least ? pause : least;
}

/* A REP again: our RTU got lost, or the peer wants to know. It is alive, and it is one that asks.
 */
ACTION(dup_rep_rtu)
{
	uint64_t pause = now_ns(id) - id->heard;

	id->cm->counters.duplicates++;
	if (!id->active)
		return 0;
	urxe_cm_heard(id);
	id->asked_time = false;
	if (id->probed && id->cm->cfg.probe_ms) {
		if (is_deaf(id, pause))
			urxe_cm_unheard(id);
		follow_probes(id, pause);
		urxe_cm_arm(id, patience(id, id->probe_ns));
	}
	urxe_cm_send_mad(id->cm, &id->path, id->mad);
	return 0;
}

/* A probe was answered: a pause, that grows so slowly that the peer can follow, who knows the last
 * one only. */
ACTION(alive)
{
	uint64_t wanted = probe_pause(id->cm), most = id->probe_ns * 5 / 4;

	urxe_cm_heard(id);
	/* Else its RTU comes again for want of a probe. */
	if (wanted && id->probing) {
		id->probing = false;
		id->probe_ns = wanted < most ? wanted : most;
		urxe_cm_arm(id, id->probe_ns);
	}
	return 0;
}

ACTION(tmo_alive)
{
	bool asks = !id->active || id->asked_time; /* by REP; by RTU, which may have got lost */
	uint64_t most = patience(id, id->probe_ns), since = silent(id);

	if (id->repeats) {
		id->repeats = false;
		urxe_cm_send_mad(id->cm, &id->path, id->mad);
		return URXE_CM_STAY;
	}
	if (since < most && !asks) {
		urxe_cm_arm(id, most - since);
		return URXE_CM_STAY;
	}
	if (since < most) {
		if (now_ns(id) - id->heard > id->probe_ns)
			urxe_cm_unheard(id);
		id->probing = !id->active;
		urxe_cm_send_mad(id->cm, &id->path, id->mad);
		urxe_cm_arm(id, id->probe_ns / 4);
		return URXE_CM_STAY;
	}
	say_lost(id);
	start_dreq(id, NULL, 0);
	tell_end(id, s, URXE_CM_EV_PEER_LOST);
	return 0;
}

/* The peer is on with another connection: ours is over, though it may still answer. */
ACTION(stale_connected)
{
	start_dreq(id, NULL, 0);
	return 0;
}

/*
 * The consumer gets its event soon. But a peer that receives none of the DREQs stays connected, and
 * may have nothing to send by which it would notice: so they go on for a while.
 */
ACTION(tmo_dreq)
{
	if (urxe_cm_in_line(id))
		return URXE_CM_STAY;
	if (id->tries == id->cm->cfg.dreq_tries)
		tell_end(id, s, URXE_CM_EV_DREQ_ERROR);
	if (id->tries < id->cm->cfg.dreq_sends) {
		id->tries++;
		urxe_cm_count_retry(id, URXE_MAD_DREQ);
		urxe_cm_send_mad(id->cm, &id->path, id->mad);
		arm_dreq(id);
		return URXE_CM_STAY;
	}
	return 0;
}

/* DREP; or REJ, from a peer that knows no such connection. */
ACTION(drep)
{
	urxe_cm_answered(id);
	if (urxe_mad_get(s->mad, URXE_HDR_ATTR_ID) == URXE_MAD_DREP) {
		s->ev.private_data = urxe_mad_cbytes(s->mad, URXE_DREP_PRIVATE_DATA);
		s->ev.private_len = URXE_DREP_PRIVATE_LEN;
	}
	tell_end(id, s, URXE_CM_EV_DREP_RECEIVED);
	return 0;
}

static void read_dreq(struct urxe_cm_id *id, struct urxe_cm_step *s)
{
	id->dreq_tid = urxe_mad_get(s->mad, URXE_HDR_TID);
	s->ev.private_data = urxe_mad_cbytes(s->mad, URXE_DREQ_PRIVATE_DATA);
	s->ev.private_len = URXE_DREQ_PRIVATE_LEN;
	tell_end(id, s, URXE_CM_EV_DREQ_RECEIVED);
}

ACTION(dreq)
{
	read_dreq(id, s);
	return 0;
}

/* Both sides disconnect at once: each answers the other's DREQ. */
ACTION(dreq_crossed)
{
	read_dreq(id, s);
	urxe_cm_issue_drep(id, NULL, 0);
	return 0;
}

ACTION(send_drep)
{
	const struct urxe_cm_reply *r = s->param;

	urxe_cm_issue_drep(id, r->private_data, r->private_len);
	return 0;
}

ACTION(drop_dreq_rcvd)
{
	urxe_cm_issue_drep(id, NULL, 0);
	return 0;
}

ACTION(dreq_again)
{
	id->cm->counters.duplicates++;
	id->dreq_tid = urxe_mad_get(s->mad, URXE_HDR_TID);
	urxe_cm_issue_drep(id, NULL, 0);
	return 0;
}

/* An RTU for a REP that was taken back. */
ACTION(late_rtu)
{
	struct urxe_cm_reply r = {.reason = URXE_CM_REJ_CONSUMER};

	if (id->rejected)
		urxe_cm_issue_rej(id, URXE_CM_ANSWER_OTHER, &r);
	return 0;
}

ACTION(tmo_timewait)
{
	const struct urxe_cm_config *cfg = &id->cm->cfg;

	if (id->repeats) {
		id->repeats = false;
		urxe_cm_issue_drep(id, NULL, 0);
		urxe_cm_arm(id, (cfg->timewait_ms - cfg->repeat_ms) * URXE_CM_MS);
		return URXE_CM_STAY;
	}
	s->ev.type = URXE_CM_EV_TIMEWAIT_EXIT;
	return 0;
}
