/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Neighbour states on virtual time, with a raw peer that answers, or does not.
 */
#include <unistd.h>

#include "netio_net.h"

static struct urxe_sim *sim;
static struct urxe_sim_end *raw;
static struct node n;
static struct urxe_path *path;
static uint8_t peer[16];
static uint64_t t0;

static const uint8_t mac3[6] = {0x52, 0x54, 0x0a, 0x09, 0x00, 0x03};
static const uint8_t mac4[6] = {0x52, 0x54, 0x0a, 0x09, 0x00, 0x04};

static void set_up(const char *addr)
{
	struct urxe_port_config cfg = node_cfg(1);

	CU_ASSERT_EQUAL_FATAL(urxe_sim_create(&sim, 1, false), 0);
	raw = urxe_sim_end(sim, NULL);
	node_start(&n, sim, NULL, &cfg);
	/* past the announcements */
	node_tick(&n);
	urxe_sim_advance(sim, urxe_sim_now(sim) + 10 * URXE_SEC);
	node_tick(&n);
	drain(sim, raw);
	gid_of(addr, peer);
	path = path_to(n.port, addr, 0xc000);
	CU_ASSERT_PTR_NOT_NULL_FATAL(path);
	t0 = urxe_sim_now(sim);
}

static void tear_down(void)
{
	urxe_path_destroy(path);
	urxe_port_destroy(n.port);
	CU_ASSERT_EQUAL(drain(sim, raw) * 0, 0);
	CU_ASSERT_EQUAL(urxe_sim_buffers(sim), 0);
	urxe_sim_destroy(sim);
}

static int try_send(void)
{
	static const uint8_t bth[12];
	int err;

	urxe_lane_lock(n.lane);
	err = send_bytes(n.lane, path, bth, sizeof(bth));
	urxe_lane_unlock(n.lane);
	return err;
}

static enum urxe_neigh_state state(void)
{
	return urxe_neigh_state(n.port, peer);
}

/* To the time of the next timer that does something; ms since the start. */
static uint64_t next_timer(void)
{
	enum urxe_neigh_state was = state();
	uint64_t asked = counter(n.port, "neigh_asked"), next;

	do {
		next = node_tick(&n);
		CU_ASSERT_NOT_EQUAL_FATAL(next, URXE_NEVER);
		urxe_sim_advance(sim, next);
		node_tick(&n);
	} while (state() == was && counter(n.port, "neigh_asked") == asked);
	return (urxe_sim_now(sim) - t0) / URXE_MSEC;
}

/* To this time, serving the timers on the way. */
static void at(uint64_t ms)
{
	uint64_t end = t0 + ms * URXE_MSEC, next;

	while ((next = node_tick(&n)) <= end)
		urxe_sim_advance(sim, next);
	urxe_sim_advance(sim, end);
	node_tick(&n);
}

/* The peer's ARP packet about @target: to us when @to_us, else to all. */
static void peer_tells(const uint8_t mac[6], bool to_us, bool request, const uint8_t target[16])
{
	uint8_t f[60] = {0};

	memcpy(f, to_us ? mac1 : (const uint8_t *)"\xff\xff\xff\xff\xff\xff", 6);
	memcpy(f + 6, mac, 6);
	unhex("080600010800060400", f + 12);
	f[21] = request ? 1 : 2;
	memcpy(f + 22, mac, 6);
	memcpy(f + 28, peer + 12, 4);
	memcpy(f + 32, mac1, request ? 0 : 6);
	memcpy(f + 38, target + 12, 4);
	urxe_sim_put(n.end, f, 42);
	node_poll(&n);
}

static void peer_says(const uint8_t mac[6], bool to_us, bool request)
{
	peer_tells(mac, to_us, request, urxe_port_own(n.port, 0)->gid);
}

static uint8_t *sent(uint32_t *len)
{
	static uint8_t buf[2048];

	while (urxe_sim_step(sim))
		;
	*len = urxe_sim_recv(raw, buf, sizeof(buf));
	return *len ? buf : NULL;
}

/* One question and nothing else: to all, or to @to alone. */
static void asked(const uint8_t *to)
{
	uint32_t len;
	uint8_t *f = sent(&len);

	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	CU_ASSERT_EQUAL(urxe_get16(f + 12), ETHERTYPE_ARP);
	CU_ASSERT_EQUAL(f[21], 1);
	CU_ASSERT_EQUAL(memcmp(f, to ? to : (const uint8_t *)"\xff\xff\xff\xff\xff\xff", 6), 0);
	CU_ASSERT_PTR_NULL(sent(&len));
}

static void silent(void)
{
	uint32_t len;

	CU_ASSERT_PTR_NULL(sent(&len));
}

static void names(void)
{
	for (unsigned i = 0; i < NEIGH_STATES; i++)
		CU_ASSERT_PTR_NOT_NULL(urxe_neigh_state_names[i]);
}

static bool known(const char *addr)
{
	uint8_t gid[16];

	gid_of(addr, gid);
	return urxe_port_known(n.port, 0, gid);
}

static void no_answer(void)
{
	static const uint64_t when[] = {100, 300, 700, 1500};

	set_up("10.9.0.2");
	CU_ASSERT_EQUAL(state(), NEIGH_NONE);
	CU_ASSERT_FALSE(known("10.9.0.2"));
	CU_ASSERT_FALSE(known("10.9.0.77"));
	CU_ASSERT_FALSE(known("192.168.77.1")); /* no way */
	CU_ASSERT_TRUE(known("127.0.0.1"));
	silent();
	CU_ASSERT_EQUAL(try_send(), EINPROGRESS);
	CU_ASSERT_EQUAL(state(), NEIGH_INCOMPLETE);
	asked(NULL);
	CU_ASSERT_EQUAL(try_send(), EINPROGRESS);
	silent(); /* trying again asks no more */
	for (unsigned i = 0; i < 4; i++) {
		CU_ASSERT_EQUAL(next_timer(), when[i]);
		CU_ASSERT_EQUAL(state(), NEIGH_INCOMPLETE);
		asked(NULL);
	}
	CU_ASSERT_EQUAL(next_timer(), 3100);
	CU_ASSERT_EQUAL(state(), NEIGH_FAILED);
	CU_ASSERT_FALSE(known("10.9.0.2"));
	silent();
	CU_ASSERT_EQUAL(try_send(), EHOSTUNREACH);
	at(4000);
	CU_ASSERT_EQUAL(try_send(), EHOSTUNREACH);
	silent();
	at(4100); /* a second after the failure it may be tried again */
	CU_ASSERT_EQUAL(try_send(), EINPROGRESS);
	asked(NULL);
	CU_ASSERT_EQUAL(counter(n.port, "neigh_failed"), 1);
	CU_ASSERT_EQUAL(counter(n.port, "neigh_asked"), 6);
	CU_ASSERT_EQUAL(counter(n.port, "tx_unreachable"), 2);
	tear_down();
}

static void answered(void)
{
	uint32_t len;
	uint8_t *f;

	set_up("10.9.0.2");
	CU_ASSERT_EQUAL(try_send(), EINPROGRESS);
	asked(NULL);
	CU_ASSERT_FALSE(known("10.9.0.2"));
	peer_says(mac2, true, false);
	CU_ASSERT_EQUAL(state(), NEIGH_REACHABLE);
	CU_ASSERT_TRUE(known("10.9.0.2"));
	CU_ASSERT_EQUAL(try_send(), 0);
	f = sent(&len);
	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	CU_ASSERT_EQUAL(memcmp(f, mac2, 6), 0);
	CU_ASSERT_EQUAL(memcmp(f + 6, mac1, 6), 0);
	/* In use after 30 s: asked again, the peer alone, without interruption. */
	CU_ASSERT_EQUAL(next_timer(), 30000);
	CU_ASSERT_EQUAL(state(), NEIGH_PROBE);
	asked(mac2);
	CU_ASSERT_EQUAL(try_send(), 0);
	sent(&len);
	peer_says(mac2, true, false);
	CU_ASSERT_EQUAL(state(), NEIGH_REACHABLE);
	/* Not in use since: it goes stale without a word. */
	CU_ASSERT_EQUAL(next_timer(), 60000);
	CU_ASSERT_EQUAL(state(), NEIGH_STALE);
	silent();
	at(1000000);
	CU_ASSERT_EQUAL(state(), NEIGH_STALE); /* a path refers to it */
	/* Used again: sent at once, asked a second later. */
	CU_ASSERT_EQUAL(try_send(), 0);
	CU_ASSERT_EQUAL(state(), NEIGH_DELAY);
	CU_ASSERT_PTR_NOT_NULL(sent(&len));
	CU_ASSERT_EQUAL(next_timer(), 1001000);
	CU_ASSERT_EQUAL(state(), NEIGH_PROBE);
	asked(mac2);
	for (unsigned i = 0; i < 2; i++) {
		CU_ASSERT_EQUAL(next_timer(), 1002000 + i * 1000);
		asked(mac2);
		CU_ASSERT_EQUAL(try_send(), 0);
		CU_ASSERT_PTR_NOT_NULL(sent(&len));
	}
	CU_ASSERT_EQUAL(next_timer(), 1004000);
	CU_ASSERT_EQUAL(state(), NEIGH_FAILED);
	CU_ASSERT_EQUAL(try_send(), EHOSTUNREACH);
	/* It comes back by itself, under another MAC. */
	peer_says(mac3, false, false);
	CU_ASSERT_EQUAL(state(), NEIGH_STALE);
	CU_ASSERT_EQUAL(try_send(), 0);
	f = sent(&len);
	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	CU_ASSERT_EQUAL(memcmp(f, mac3, 6), 0);
	tear_down();
}

/* A frame that we send now goes to this MAC. */
static void goes_to(const uint8_t mac[6])
{
	uint32_t len;
	uint8_t *f;

	CU_ASSERT_EQUAL(try_send(), 0);
	f = sent(&len);
	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	CU_ASSERT_EQUAL(memcmp(f, mac, 6), 0);
}

static void known_as_mac2(void)
{
	set_up("10.9.0.2");
	try_send();
	peer_says(mac2, true, false);
	drain(sim, raw);
	t0 = urxe_sim_now(sim);
}

/* Another MAC: who has the known one is asked, and is silent. */
static void moved(void)
{
	known_as_mac2();
	at(2000);
	peer_says(mac3, true, false);
	CU_ASSERT_EQUAL(state(), NEIGH_PROBE);
	asked(mac2);
	goes_to(mac2); /* meanwhile */
	CU_ASSERT_EQUAL(next_timer(), 2050);
	asked(mac2);
	CU_ASSERT_EQUAL(next_timer(), 2100);
	CU_ASSERT_EQUAL(state(), NEIGH_STALE);
	silent();
	goes_to(mac3);
	CU_ASSERT_EQUAL(next_timer(), 3100); /* used: to be confirmed */
	asked(mac3);
	peer_says(mac3, true, false);
	CU_ASSERT_EQUAL(state(), NEIGH_REACHABLE);
	tear_down();
}

/* The same, and it answers: the other one lied, and is not heard for a while. */
static void impostor(void)
{
	known_as_mac2();
	at(1000);
	peer_says(mac3, false, true); /* a question to us, from that address */
	CU_ASSERT_EQUAL(state(), NEIGH_PROBE);
	CU_ASSERT_EQUAL(drain(sim, raw), 2); /* an answer, a question */
	peer_says(mac3, true, false);
	peer_says(mac4, true, false);
	silent();
	peer_says(mac2, true, false);
	CU_ASSERT_EQUAL(state(), NEIGH_REACHABLE);
	goes_to(mac2);
	at(1900);
	peer_says(mac3, true, false);
	CU_ASSERT_EQUAL(state(), NEIGH_REACHABLE);
	silent();
	CU_ASSERT_EQUAL(counter(n.port, "neigh_disputed"), 3);
	at(2100);
	peer_says(mac3, true, false);
	asked(mac2);
	tear_down();
}

/* After the carrier was away there may be another machine: believed at once. */
static void other_machine(void)
{
	known_as_mac2();
	urxe_sim_end_up(n.end, false);
	urxe_port_carrier(n.port);
	node_tick(&n);
	urxe_sim_end_up(n.end, true);
	node_tick(&n);
	drain(sim, raw);
	peer_says(mac3, true, false);
	CU_ASSERT_EQUAL(state(), NEIGH_STALE);
	goes_to(mac3);
	peer_says(mac2, true, false);
	goes_to(mac3);
	tear_down();
}

static void learned(void)
{
	set_up("10.9.0.2");
	urxe_path_destroy(path);
	path = NULL;
	at(100000); /* the unused entry is gone by now */
	CU_ASSERT_EQUAL(n.port->neigh.count, 0);
	peer_says(mac2, true, false); /* an answer to nothing is no news */
	CU_ASSERT_EQUAL(n.port->neigh.count, 0);
	peer_says(mac2, false, true); /* a question to us is */
	CU_ASSERT_EQUAL(state(), NEIGH_STALE);
	path = path_to(n.port, "10.9.0.2", 0xc000);
	drain(sim, raw);
	CU_ASSERT_EQUAL(try_send(), 0);
	urxe_path_destroy(path);
	path = NULL;
	at(300000);
	at(400000);
	CU_ASSERT_EQUAL(n.port->neigh.count, 0);
	gid_of("192.168.7.7", peer); /* on no prefix of ours */
	peer_says(mac2, false, true);
	CU_ASSERT_EQUAL(n.port->neigh.count, 0);
	tear_down();
}

/* The lane of somebody who is put aside with it, and goes on while the caller sleeps. */
static struct urxe_lane *lent;

int usleep(useconds_t us) URXE_UNCHECKED
{
	if (lent)
		urxe_lane_unlock(lent);
	lent = NULL;
	return 0;
}

/* The other end of a link to a process: known since it announced itself, and asked for a sign. */
static void called(void)
{
	set_up("10.9.0.2");
	urxe_path_destroy(path);
	path = NULL;
	at(100000);
	peer_tells(mac2, false, true, peer);
	CU_ASSERT_EQUAL(n.port->neigh.count, 0); /* of a network no entry for each */
	CU_ASSERT_FALSE(urxe_port_call(n.port)); /* no link to a process */
	n.port->peer = true;
	CU_ASSERT_FALSE(urxe_port_call(n.port)); /* nobody is known */
	CU_ASSERT_FALSE(urxe_port_unanswered(n.port));
	peer_tells(mac2, false, true, peer); /* an announcement */
	CU_ASSERT_EQUAL(state(), NEIGH_STALE);
	urxe_lane_lock(n.lane);
	CU_ASSERT_FALSE(urxe_port_call(n.port)); /* who has the lane does not come back */
	lent = n.lane;
	CU_ASSERT_TRUE(urxe_port_call(n.port)); /* it does */
	CU_ASSERT_PTR_NULL(lent);
	asked(mac2);
	CU_ASSERT_TRUE(urxe_port_unanswered(n.port));
	peer_says(mac2, false, true);
	CU_ASSERT_TRUE(urxe_port_unanswered(n.port)); /* a question is no answer */
	drain(sim, raw);
	peer_says(mac2, true, false);
	CU_ASSERT_FALSE(urxe_port_unanswered(n.port));
	CU_ASSERT_TRUE(urxe_port_call(n.port));
	asked(mac2);
	urxe_sim_end_up(n.end, false);
	CU_ASSERT_FALSE(urxe_port_unanswered(n.port)); /* it has gone */
	tear_down();
}

static void bad_macs(void)
{
	static const uint8_t group[6] = {1, 2, 3, 4, 5, 6}, zero[6];

	set_up("10.9.0.2");
	try_send();
	peer_says(group, true, false);
	peer_says(zero, true, false);
	peer_says(mac1, true, false); /* ours */
	CU_ASSERT_EQUAL(state(), NEIGH_INCOMPLETE);
	tear_down();
}

static void full_table(void)
{
	set_up("10.9.0.2");
	memcpy(peer, urxe_port_own(n.port, 0)->gid, 16);
	atomic_load(&n.port->gids[0])->entry.prefix_len = 8;
	for (unsigned i = 0; i < NEIGH_MAX + 100; i++) {
		peer[13] = 200;
		peer[14] = (uint8_t)(i >> 8);
		peer[15] = (uint8_t)i;
		peer_says(mac2, false, true);
		drain(sim, raw);
	}
	CU_ASSERT_EQUAL(n.port->neigh.count, NEIGH_MAX);
	CU_ASSERT_EQUAL(counter(n.port, "neigh_full"), 0);
	/* The last is in, and the path's entry was spared. */
	CU_ASSERT_EQUAL(urxe_neigh_state(n.port, peer), NEIGH_STALE);
	gid_of("10.9.0.2", peer);
	CU_ASSERT_EQUAL(memcmp(path->neigh->gid, peer, 16), 0);
	tear_down();
}

static void resolve(void)
{
	uint8_t mac[6], group[16];

	set_up("10.9.0.2");
	CU_ASSERT_EQUAL(urxe_port_resolve(n.port, 0, peer, mac), EINPROGRESS);
	peer_says(mac2, true, false);
	CU_ASSERT_EQUAL(urxe_port_resolve(n.port, 0, peer, mac), 0);
	CU_ASSERT_EQUAL(memcmp(mac, mac2, 6), 0);
	CU_ASSERT_EQUAL(urxe_port_resolve(n.port, 0, urxe_port_own(n.port, 0)->gid, mac), 0);
	CU_ASSERT_EQUAL(memcmp(mac, mac1, 6), 0);
	gid_of("239.129.2.3", group);
	CU_ASSERT_EQUAL(urxe_port_resolve(n.port, 0, group, mac), 0);
	CU_ASSERT_EQUAL(memcmp(mac, "\x01\x00\x5e\x01\x02\x03", 6), 0);
	gid_of("ff0e::1234:5678", group);
	CU_ASSERT_EQUAL(urxe_port_resolve(n.port, 1, group, mac), 0);
	CU_ASSERT_EQUAL(memcmp(mac, "\x33\x33\x12\x34\x56\x78", 6), 0);
	gid_of("10.10.0.2", group);
	CU_ASSERT_EQUAL(urxe_port_resolve(n.port, 0, group, mac), ENETUNREACH);
	tear_down();
}

/* What was asked of a link that is down nobody heard: asked anew when it comes, without a pause. */
static void link_comes(void)
{
	uint64_t questions;

	set_up("10.9.0.2");
	urxe_sim_end_up(n.end, false);
	urxe_port_carrier(n.port);
	node_tick(&n);
	CU_ASSERT_EQUAL(try_send(), EINPROGRESS);
	silent();
	questions = counter(n.port, "neigh_asked");
	node_tick(&n);
	CU_ASSERT_EQUAL(counter(n.port, "neigh_asked"), questions);
	urxe_sim_end_up(n.end, true);
	node_tick(&n);
	CU_ASSERT_EQUAL(counter(n.port, "neigh_asked"), questions + 1);
	CU_ASSERT_TRUE(drain(sim, raw) > 1); /* and who we are */
	tear_down();
}

/* Off-link destinations go to the gateway's MAC. */
static void gateway(void)
{
	struct urxe_port_config cfg = node_cfg(1);
	uint32_t len;
	uint8_t *f;

	cfg.has_gw4 = true;
	gid_of("10.9.0.2", cfg.gw4);
	CU_ASSERT_EQUAL_FATAL(urxe_sim_create(&sim, 1, false), 0);
	raw = urxe_sim_end(sim, NULL);
	node_start(&n, sim, NULL, &cfg);
	node_tick(&n);
	drain(sim, raw);
	gid_of("10.9.0.2", peer);
	path = path_to(n.port, "8.8.8.8", 0xc000);
	CU_ASSERT_PTR_NOT_NULL_FATAL(path);
	CU_ASSERT_EQUAL(try_send(), EINPROGRESS);
	f = sent(&len);
	CU_ASSERT_EQUAL(memcmp(f + 38, peer + 12, 4), 0);
	peer_says(mac2, true, false);
	CU_ASSERT_EQUAL(try_send(), 0);
	f = sent(&len);
	CU_ASSERT_EQUAL(memcmp(f, mac2, 6), 0);
	CU_ASSERT_EQUAL(memcmp(f + 30, "\x08\x08\x08\x08", 4), 0);
	tear_down();
}

/* A stranger's address is asked for once; if that is in vain nothing is kept of it. */
static void brief(void)
{
	uint32_t count;

	set_up("10.9.0.2");
	count = n.port->neigh.count;
	gid_of("10.9.0.3", peer);
	urxe_port_ask(n.port, 0, peer);
	CU_ASSERT_EQUAL(state(), NEIGH_INCOMPLETE);
	asked(NULL);
	CU_ASSERT_EQUAL(n.port->neigh.count, count + 1);
	at(100);
	CU_ASSERT_EQUAL(state(), NEIGH_NONE);
	CU_ASSERT_EQUAL(n.port->neigh.count, count);
	silent();
	CU_ASSERT_EQUAL(counter(n.port, "neigh_failed"), 1);
	tear_down();
	/* Who wants to send there meanwhile has all its tries. */
	set_up("10.9.0.2");
	urxe_port_ask(n.port, 0, peer);
	asked(NULL);
	CU_ASSERT_EQUAL(try_send(), EINPROGRESS);
	CU_ASSERT_EQUAL(next_timer(), 100);
	CU_ASSERT_EQUAL(state(), NEIGH_INCOMPLETE);
	asked(NULL);
	tear_down();
}

static void suspect(void)
{
	urxe_lane_lock(n.lane);
	urxe_path_suspect(n.lane, path);
	urxe_lane_unlock(n.lane);
}

/* A neighbour that is suspected is asked for, by all, every 10 ms at the most; it is used on. */
static void suspected(void)
{
	set_up("10.9.0.2");
	CU_ASSERT_EQUAL(try_send(), EINPROGRESS);
	asked(NULL);
	suspect(); /* one that is not known is asked for already */
	silent();
	peer_says(mac2, true, false);
	for (unsigned i = 0; i < 3; i++) {
		suspect();
		asked(NULL);
		suspect();
		silent();
		at(10 * i + 9);
		suspect();
		silent();
		at(10 * i + 10);
	}
	CU_ASSERT_EQUAL(state(), NEIGH_REACHABLE);
	tear_down();
}

/* A timer that a sender starts ends the sleep of whoever serves timers. */
static void wakes_sleeper(void)
{
	set_up("10.9.0.2");
	atomic_store(&n.port->woken, false);
	try_send();
	CU_ASSERT_TRUE(atomic_load(&n.port->woken));
	tear_down();
}

URXE_TEST_MAIN("netio_neigh", T(names), T(no_answer), T(answered), T(moved), T(impostor),
	       T(other_machine), T(learned), T(called), T(bad_macs), T(full_table), T(resolve),
	       T(gateway), T(link_comes), T(brief), T(suspected), T(wakes_sleeper))
