/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The state machine: one table of what each input does in each state and of every state that may
 * be next, and the only place where a state changes. An input without a row refuses a call (EINVAL)
 * and drops a MAD (counted).
 */
#include <errno.h>

#include "cm/core/cm_priv.h"
#include "cm/core/trace.h"
#include "urxe/log.h"

#define NAME(name) #name,
const char *const urxe_cm_state_names[URXE_CM_N_STATES] = {URXE_CM_STATES(NAME)};
const char *const urxe_cm_input_names[URXE_CM_N_INPUTS] = {URXE_CM_INPUTS(NAME)};
const char *const urxe_cm_event_names[URXE_CM_N_EVENTS] = {URXE_CM_EVENTS(NAME)};
#undef NAME

/* A row: what an input does, and all states that may be next, of which the action chooses. */
struct row {
	urxe_cm_action action;
	enum urxe_cm_state next; /* URXE_CM_NEXT */
	bool has_other, may_stay;
	enum urxe_cm_state other; /* URXE_CM_OTHER */
};

#define IN(input, act, to, ...) \
	[URXE_CM_IN_##input] = {.action = urxe_cm_act_##act, .next = URXE_CM_##to, __VA_ARGS__}
#define OR(state) .has_other = true, .other = URXE_CM_##state
#define MAY_STAY  .may_stay = true

/* clang-format off */
static const struct row table[URXE_CM_N_STATES][URXE_CM_N_INPUTS] =
	{
	[URXE_CM_IDLE] = {
		IN(LISTEN, listen, LISTEN),
		IN(SEND_REQ, send_req, REQ_SENT),
		IN(SEND_SIDR_REQ, send_sidr_req, SIDR_REQ_SENT),
		IN(DESTROY, nothing, IDLE),
		IN(REQ, req, REQ_RCVD, MAY_STAY),
		IN(SIDR_REQ, sidr_req, SIDR_REQ_RCVD),
	},
	[URXE_CM_LISTEN] = {
		IN(DESTROY, nothing, IDLE),
	},
	/* Active side, figure 132 */
	[URXE_CM_REQ_SENT] = {
		IN(SEND_REJ, rej_own_req, IDLE),
		IN(DESTROY, drop_req, IDLE),
		IN(REQ, peer_req, REQ_RCVD, MAY_STAY),
		IN(MRA_REQ, mra, REP_WAIT),
		IN(REJ, rej_req_sent, IDLE, MAY_STAY),
		IN(REP, rep, REP_RCVD, OR(IDLE)),
		IN(UNREACHABLE, unreachable, IDLE, MAY_STAY),
		IN(TIMEOUT, tmo_req, IDLE, MAY_STAY),
	},
	[URXE_CM_REP_WAIT] = {
		IN(SEND_REJ, rej_own_req, IDLE),
		IN(DESTROY, drop_req, IDLE),
		IN(REQ, nothing, REP_WAIT),
		IN(MRA_REQ, mra, REP_WAIT),
		IN(REJ, rej, IDLE),
		IN(REP, rep, REP_RCVD, OR(IDLE)),
		IN(TIMEOUT, tmo_rep_wait, REQ_SENT),
	},
	[URXE_CM_REP_RCVD] = {
		IN(SEND_RTU, send_rtu, ESTABLISHED),
		IN(SEND_REJ, rej_rep, TIMEWAIT),
		IN(SEND_MRA, send_mra, MRA_REP_SENT),
		IN(DESTROY, drop_rep_rcvd, TIMEWAIT),
		IN(REQ, nothing, REP_RCVD),
		IN(REJ, rej, TIMEWAIT),
		IN(REP, dup_mra, MRA_REP_SENT),
		IN(DREQ, dreq, DREQ_RCVD),
		IN(STALE, stale, TIMEWAIT),
		IN(TIMEOUT, tmo_mra, MRA_REP_SENT),
	},
	[URXE_CM_MRA_REP_SENT] = {
		IN(SEND_RTU, send_rtu, ESTABLISHED),
		IN(SEND_REJ, rej_rep, TIMEWAIT),
		IN(SEND_MRA, send_mra, MRA_REP_SENT),
		IN(DESTROY, drop_rep_rcvd, TIMEWAIT),
		IN(REQ, nothing, MRA_REP_SENT),
		IN(REJ, rej, TIMEWAIT),
		IN(REP, dup_mra, MRA_REP_SENT),
		IN(DREQ, dreq, DREQ_RCVD),
		IN(STALE, stale, TIMEWAIT),
		IN(TIMEOUT, tmo_mra, MRA_REP_SENT),
	},
	/* Passive side, figure 133 */
	[URXE_CM_REQ_RCVD] = {
		IN(SEND_REP, send_rep, REP_SENT),
		IN(SEND_REJ, rej_req, IDLE),
		IN(SEND_MRA, send_mra, MRA_REQ_SENT),
		IN(IGNORE, ignore, IDLE),
		IN(TELL_AGAIN, tell_again, REQ_RCVD),
		IN(DESTROY, drop_rcvd, IDLE),
		IN(REQ, dup_mra, MRA_REQ_SENT),
		IN(REJ, rej, IDLE),
		IN(STALE, stale, IDLE),
		IN(TIMEOUT, tmo_mra, MRA_REQ_SENT),
	},
	[URXE_CM_MRA_REQ_SENT] = {
		IN(SEND_REP, send_rep, REP_SENT),
		IN(SEND_REJ, rej_req, IDLE),
		IN(SEND_MRA, send_mra, MRA_REQ_SENT),
		IN(IGNORE, ignore, IDLE),
		IN(TELL_AGAIN, tell_again, MRA_REQ_SENT),
		IN(DESTROY, drop_rcvd, IDLE),
		IN(REQ, dup_mra, MRA_REQ_SENT),
		IN(REJ, rej, IDLE),
		IN(STALE, stale, IDLE),
		IN(TIMEOUT, tmo_mra, MRA_REQ_SENT),
	},
	[URXE_CM_REP_SENT] = {
		IN(SEND_REJ, drop_rep_sent, DREQ_SENT),
		IN(SEND_DREQ, send_dreq, DREQ_SENT),
		IN(DESTROY, drop_rep_sent, DREQ_SENT),
		IN(ESTABLISH, establish, ESTABLISHED),
		IN(REQ, resend, REP_SENT),
		IN(MRA_REP, mra, MRA_REP_RCVD),
		IN(REJ, rej, TIMEWAIT),
		IN(RTU, rtu, ESTABLISHED),
		IN(DREQ, dreq, DREQ_RCVD),
		IN(STALE, stale, TIMEWAIT),
		IN(TIMEOUT, tmo_rep, DREQ_SENT, MAY_STAY),
	},
	[URXE_CM_MRA_REP_RCVD] = {
		IN(SEND_REJ, drop_rep_sent, DREQ_SENT),
		IN(SEND_DREQ, send_dreq, DREQ_SENT),
		IN(DESTROY, drop_rep_sent, DREQ_SENT),
		IN(ESTABLISH, establish, ESTABLISHED),
		IN(REQ, resend, MRA_REP_RCVD),
		IN(MRA_REP, mra, MRA_REP_RCVD),
		IN(REJ, rej, TIMEWAIT),
		IN(RTU, rtu, ESTABLISHED),
		IN(DREQ, dreq, DREQ_RCVD),
		IN(STALE, stale, TIMEWAIT),
		IN(TIMEOUT, tmo_rtu_wait, REP_SENT),
	},
	/* Both, figures 134 and 135 */
	[URXE_CM_ESTABLISHED] = {
		IN(SEND_DREQ, send_dreq, DREQ_SENT),
		IN(ESTABLISH, is_established, ESTABLISHED),
		IN(DESTROY, drop_connected, DREQ_SENT),
		IN(REQ, nothing, ESTABLISHED),
		IN(REJ, rej_connected, TIMEWAIT),
		IN(REP, dup_rep_rtu, ESTABLISHED),
		IN(RTU, alive, ESTABLISHED),
		IN(DREQ, dreq, DREQ_RCVD),
		IN(STALE, stale_connected, DREQ_SENT),
		IN(TIMEOUT, tmo_alive, DREQ_SENT, MAY_STAY),
	},
	[URXE_CM_DREQ_SENT] = {
		IN(DESTROY, nothing, DREQ_SENT),
		IN(REQ, dup_req_stale, DREQ_SENT),
		IN(REJ, drep, TIMEWAIT),
		IN(REP, nothing, DREQ_SENT),
		IN(RTU, nothing, DREQ_SENT),
		IN(DREQ, dreq_crossed, TIMEWAIT),
		IN(DREP, drep, TIMEWAIT),
		IN(TIMEOUT, tmo_dreq, TIMEWAIT, MAY_STAY),
	},
	[URXE_CM_DREQ_RCVD] = {
		IN(SEND_DREP, send_drep, TIMEWAIT),
		IN(DESTROY, drop_dreq_rcvd, TIMEWAIT),
		IN(REQ, nothing, DREQ_RCVD),
		IN(RTU, nothing, DREQ_RCVD),
		IN(DREQ, nothing, DREQ_RCVD),
		IN(DREP, nothing, DREQ_RCVD),
	},
	[URXE_CM_TIMEWAIT] = {
		IN(DESTROY, nothing, TIMEWAIT),
		IN(REQ, dup_req_stale, TIMEWAIT),
		IN(REJ, nothing, TIMEWAIT),
		IN(REP, late_rep, TIMEWAIT),
		IN(RTU, late_rtu, TIMEWAIT),
		IN(DREQ, dreq_again, TIMEWAIT),
		IN(DREP, nothing, TIMEWAIT),
		IN(TIMEOUT, tmo_timewait, IDLE, MAY_STAY),
	},
	/* Service id resolution, figure 137 */
	[URXE_CM_SIDR_REQ_SENT] = {
		IN(DESTROY, drop_sidr, IDLE),
		IN(SIDR_REP, sidr_rep, IDLE, MAY_STAY),
		IN(UNREACHABLE, unreachable, IDLE, MAY_STAY),
		IN(TIMEOUT, tmo_sidr, IDLE, MAY_STAY),
	},
	[URXE_CM_SIDR_REQ_RCVD] = {
		IN(SEND_SIDR_REP, send_sidr_rep, IDLE),
		IN(IGNORE, ignore, IDLE),
		IN(TELL_AGAIN, tell_sidr_again, SIDR_REQ_RCVD),
		IN(DESTROY, drop_sidr, IDLE),
		IN(SIDR_REQ, dup_sidr, SIDR_REQ_RCVD),
	},
	/* Within ESTABLISHED, 12.8.2 and figures 132, 133: what is not in its own row is here */
	[URXE_CM_LAP_IDLE] = {
		IN(SEND_LAP, send_lap, LAP_SENT),
		IN(PATH_MIG, path_mig, LAP_IDLE),
		IN(LAP, lap, LAP_RCVD, MAY_STAY),
	},
	[URXE_CM_LAP_SENT] = {
		IN(LAP, lap_crossed, LAP_SENT),
		IN(MRA_LAP, mra_lap, MRA_LAP_RCVD),
		IN(APR, apr, LAP_IDLE, MAY_STAY),
		IN(LAP_TIMEOUT, tmo_lap, LAP_IDLE, MAY_STAY),
	},
	[URXE_CM_MRA_LAP_RCVD] = {
		IN(LAP, lap_crossed, MRA_LAP_RCVD),
		IN(MRA_LAP, mra_lap, MRA_LAP_RCVD),
		IN(APR, apr, LAP_IDLE, MAY_STAY),
		IN(LAP_TIMEOUT, tmo_lap_wait, LAP_SENT),
	},
	[URXE_CM_LAP_RCVD] = {
		IN(SEND_APR, send_apr, LAP_IDLE),
		IN(SEND_MRA, send_mra_lap, MRA_LAP_SENT),
		IN(LAP, dup_lap, MRA_LAP_SENT, MAY_STAY),
		IN(LAP_TIMEOUT, tmo_mra_lap, MRA_LAP_SENT),
	},
	[URXE_CM_MRA_LAP_SENT] = {
		IN(SEND_APR, send_apr, LAP_IDLE),
		IN(SEND_MRA, send_mra_lap, MRA_LAP_SENT),
		IN(LAP, dup_lap, MRA_LAP_SENT),
		IN(LAP_TIMEOUT, tmo_mra_lap, MRA_LAP_SENT),
	},
};
/* clang-format on */

bool urxe_cm_allows(enum urxe_cm_state state, enum urxe_cm_input in)
{
	return table[state][in].action;
}

static bool waits_for_rtu(enum urxe_cm_state state)
{
	return state == URXE_CM_REP_SENT || state == URXE_CM_MRA_REP_RCVD;
}

static void count_state(struct urxe_cm_id *id, enum urxe_cm_state from, enum urxe_cm_state to)
{
	urxe_trace_cm_state(id, from, to);
	id->cm->counters.states[from]--;
	id->cm->counters.states[to]++;
	if (waits_for_rtu(from) != waits_for_rtu(to))
		urxe_cm_count_unanswered(id, waits_for_rtu(to) ? 1 : -1);
}

void urxe_cm_begin_lap(struct urxe_cm_id *id)
{
	id->alt->state = URXE_CM_LAP_IDLE;
	id->cm->counters.states[URXE_CM_LAP_IDLE]++;
}

static void set_lap_state(struct urxe_cm_id *id, enum urxe_cm_state state)
{
	struct urxe_cm_alt *alt = id->alt;

	if (!alt || alt->state == state)
		return;
	count_state(id, alt->state, state);
	alt->state = state;
	if (state == URXE_CM_LAP_IDLE)
		urxe_timer_cancel(&id->cm->timers, &alt->timer);
}

static void set_state(struct urxe_cm_id *id, enum urxe_cm_state state)
{
	struct urxe_cm *cm = id->cm;

	if (id->state == state)
		return;
	count_state(id, id->state, state);
	id->state = state;
	if (state != URXE_CM_ESTABLISHED)
		set_lap_state(id, URXE_CM_LAP_IDLE);
	if (state != URXE_CM_REQ_SENT)
		urxe_cm_unindex_waiting(id);
	switch (state) {
	case URXE_CM_IDLE:
		urxe_cm_cancel(id);
		urxe_cm_unindex_peer(id);
		urxe_cm_free_alt(id);
		break;
	case URXE_CM_TIMEWAIT:
		urxe_cm_wait(id);
		break;
	case URXE_CM_ESTABLISHED:
		urxe_cm_watch(id);
		cm->counters.established++;
		break;
	case URXE_CM_DREQ_RCVD:
		urxe_cm_cancel(id);
		break;
	default:
		break;
	}
}

static void tell(struct urxe_cm_id *id, struct urxe_cm_step *s)
{
	if (s->ev.type == URXE_CM_EV_NONE)
		return;
	id->last_event = s->ev.type;
	urxe_trace_cm_event(id, s->ev.type);
	if (!id->handler)
		return;
	s->ev.mad = s->mad;
	if (id->handler(id, &s->ev, id->context))
		urxe_cm_destroy(id);
}

/* What the action chose, if its row shows that: anything else is an error of ours, and ignored. */
static enum urxe_cm_state choose(struct urxe_cm_id *id, enum urxe_cm_state from,
				 enum urxe_cm_input in, const struct row *row, int ret)
{
	bool stays = row->may_stay || row->next == from;

	if (ret == URXE_CM_NEXT)
		return row->next;
	if (ret == URXE_CM_OTHER && row->has_other)
		return row->other;
	/* A call may always be refused. */
	if ((ret == URXE_CM_STAY && stays) || (ret > 0 && (stays || in < URXE_CM_IN_REQ)))
		return from;
	id->cm->counters.bad_steps++;
	urxe_err("cm: %s in %s: the table does not show what it did", urxe_cm_input_names[in],
		 urxe_cm_state_names[from]);
	return from;
}

/* An input for which the state has no row. */
static int refuse(const struct urxe_cm_id *id, enum urxe_cm_input in)
{
	if (in < URXE_CM_IN_REQ)
		return EINVAL;
	if (in < URXE_CM_IN_TIMEOUT) {
		id->cm->counters.drop_state++;
		urxe_debug("cm %08x: %s in %s dropped", id->local_comm_id, urxe_cm_input_names[in],
			   urxe_cm_state_names[id->state]);
	}
	return 0;
}

int urxe_cm_do(struct urxe_cm_id *id, enum urxe_cm_input in, struct urxe_cm_step *s)
{
	struct urxe_cm *cm = id->cm;
	enum urxe_cm_input outer = cm->input;
	enum urxe_cm_state from = id->state;
	bool lap = from == URXE_CM_ESTABLISHED && !table[from][in].action;
	const struct row *row;
	int ret;

	if (lap)
		from = urxe_cm_get_lap_state(id);
	row = &table[from][in];
	if (!row->action)
		return refuse(id, in);
	id->refs++;
	cm->input = in;
	ret = row->action(id, s);
	if (lap)
		set_lap_state(id, choose(id, from, in, row, ret));
	else
		set_state(id, choose(id, from, in, row, ret));
	if (ret <= 0)
		tell(id, s);
	cm->input = outer;
	/* Nobody owns it and nothing is left to do: it goes with the last step on it. */
	if (id->orphan && id->state == URXE_CM_IDLE)
		id->dead = true;
	if (!--id->refs && id->dead)
		urxe_cm_free_id(id);
	return ret > 0 ? ret : 0;
}
