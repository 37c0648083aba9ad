/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* MADs that a device's agent sends: address handles, and MADs whose neighbour is not known yet. */
#include <errno.h>
#include <string.h>

#include "cm/device/agent.h"
#include "urxe/wire.h"

#define REAP_AT	 128u
#define DEFER_NS 500000000ull

void urxe_agent_reap(struct urxe_agent *a)
{
	struct ibv_wc wc[URXE_AGENT_BATCH];
	int n;

	while ((n = urxe_gsi_poll_cq(a->send_cq, URXE_AGENT_BATCH, wc)) > 0)
		a->completed += (unsigned)n;
}

static struct ibv_ah *get_ah(struct urxe_agent *a, const struct urxe_cm_path *path)
{
	unsigned h = (path->dgid.raw[15] ^ path->dgid.raw[14] * 7u ^ path->dgid.raw[13] * 31u ^
		      path->traffic_class ^ path->sgid_index * 13u) %
		     URXE_AGENT_AH_SETS;
	struct urxe_agent_ah *way = &a->ahs[h][0];
	struct urxe_cm_path p = *path;
	struct ibv_ah_attr attr;

	for (unsigned i = 0; i < URXE_AGENT_AH_WAYS; i++) {
		struct urxe_agent_ah *e = &a->ahs[h][i];

		if (e->ah && !memcmp(&e->dgid, &path->dgid, sizeof(e->dgid)) &&
		    !memcmp(&e->sgid, &path->sgid, sizeof(e->sgid)) &&
		    e->sgid_index == path->sgid_index && e->traffic_class == path->traffic_class) {
			e->used = ++a->tick;
			return e->ah;
		}
		if (e->used < way->used)
			way = e;
	}
	/* The flow label is the connection's: MADs of all go one way. */
	p.flow_label = 0;
	p.port_num = 1;
	urxe_cm_path_to_ah(&p, &attr);
	if (way->ah)
		ibv_destroy_ah(way->ah);
	way->ah = ibv_create_ah(a->pd, &attr);
	way->sgid = path->sgid;
	way->dgid = path->dgid;
	way->sgid_index = path->sgid_index;
	way->traffic_class = path->traffic_class;
	way->used = way->ah ? ++a->tick : 0;
	return way->ah;
}

static void post(struct urxe_agent *a, const struct urxe_cm_path *path, const uint8_t *mad)
	URXE_REQUIRES(urxe_cma_lock)
{
	struct ibv_sge sge = {(uintptr_t)mad, URXE_MAD_LEN, 0};
	struct ibv_send_wr wr =
				   {
					   .sg_list = &sge,
					   .num_sge = 1,
					   .opcode = IBV_WR_SEND,
					   .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
					   .wr.ud = {.remote_qpn = 1, .remote_qkey = URXE_GSI_QKEY},
				   },
			   *bad;

	if (a->sent - a->completed >= REAP_AT)
		urxe_agent_reap(a);
	wr.wr.ud.ah = get_ah(a, path);
	if (a->sent - a->completed >= URXE_AGENT_SENDS || !wr.wr.ud.ah ||
	    ibv_post_send(a->qp, &wr, &bad))
		a->drop_send++;
	else
		a->sent++;
}

static void defer(struct urxe_agent *a, const struct urxe_cm_path *path, const uint8_t *mad)
{
	struct urxe_agent_deferred *d;

	if (a->n_deferred == URXE_AGENT_DEFERRED) {
		a->drop_send++;
		return;
	}
	d = &a->deferred[a->n_deferred++];
	d->path = *path;
	d->until = urxe_gsi_now(a->dev->verbs) + DEFER_NS;
	memcpy(d->mad, mad, URXE_MAD_LEN);
}

/*
 * A neighbour that is not resolved would hold up all that follow in QP1's queue: its MADs wait
 * aside. What is lost here is sent again by whoever waits for an answer.
 */
void urxe_agent_send(void *arg, const struct urxe_cm_path *path, const uint8_t *mad)
{
	struct urxe_agent *a = arg;
	uint8_t mac[6];

	switch (urxe_gsi_resolve(a->dev->verbs, path->sgid_index, &path->dgid, mac)) {
	case 0:
		post(a, path, mad);
		break;
	case EINPROGRESS:
		defer(a, path, mad);
		break;
	default:
		a->drop_send++;
		break;
	}
}

void urxe_agent_send_deferred(struct urxe_agent *a, uint64_t now)
{
	unsigned left = 0;
	uint8_t mac[6];

	for (unsigned i = 0; i < a->n_deferred; i++) {
		struct urxe_agent_deferred *d = &a->deferred[i];
		int err = urxe_gsi_resolve(a->dev->verbs, d->path.sgid_index, &d->path.dgid, mac);

		if (!err)
			post(a, &d->path, d->mad);
		else if (err == EINPROGRESS && now < d->until)
			a->deferred[left++] = *d;
		else
			a->drop_send++;
	}
	a->n_deferred = left;
}
