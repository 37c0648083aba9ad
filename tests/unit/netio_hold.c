/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Packets that are held beyond their burst.
 */
#include "netio_net.h"

static struct urxe_sim *sim;

/* One by one, or many at a time by who has a lane. */
static void let_go(struct node *n, void *const *frames, unsigned num, bool by_lane)
{
	for (unsigned i = 0, k; i < num; i += k) {
		k = by_lane && num - i > URXE_BURST ? URXE_BURST : by_lane ? num - i : 1;
		if (!by_lane) {
			urxe_port_let_go(n->port, frames[i]);
			continue;
		}
		urxe_lane_lock(n->lane);
		urxe_lane_let_go(n->lane, &frames[i], k);
		urxe_lane_unlock(n->lane);
	}
	CU_ASSERT_EQUAL(atomic_load(&n->port->held), 0);
}

/* A packet that is held is there when its burst has been released; no more are than may be. */
static void held(void)
{
	struct urxe_port_config cfg = node_cfg(1);
	void *frames[1000];
	uint8_t bth[64] = {0};
	const uint8_t *body[1000];
	struct urxe_packet p;
	struct urxe_path *path;
	struct node n;
	unsigned num = 0;

	CU_ASSERT_EQUAL_FATAL(urxe_sim_create(&sim, 1, false), 0);
	node_start(&n, sim, NULL, &cfg);
	path = path_to(n.port, "10.9.0.1", 0xc000);
	for (unsigned round = 0; round < 3; round++) {
		for (num = 0; num < 1000; num++) {
			urxe_put32(bth + 8, num);
			urxe_lane_lock(n.lane);
			CU_ASSERT_EQUAL(send_bytes(n.lane, path, bth, sizeof(bth)), 0);
			CU_ASSERT_EQUAL_FATAL(urxe_lane_rx(n.lane, &p, 1), 1);
			body[num] = p.body;
			frames[num] = urxe_packet_hold(n.port, &p);
			urxe_lane_release(n.lane, &p, 1);
			urxe_lane_unlock(n.lane);
			if (!frames[num])
				break;
		}
		CU_ASSERT_EQUAL(num, n.port->may_hold);
		CU_ASSERT(num > 0 && num < 1000);
		for (unsigned i = 0; i < num; i++)
			CU_ASSERT_EQUAL(urxe_get32(body[i] + 8), i);
		let_go(&n, frames, num, round % 2);
	}
	urxe_path_destroy(path);
	urxe_port_destroy(n.port);
	urxe_sim_destroy(sim);
}

URXE_TEST_MAIN("netio_hold", T(held))
