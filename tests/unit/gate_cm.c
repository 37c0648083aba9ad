/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The gateway of a fabric ends the connections of members that are gone. */
#include "gate_net.h"

#include "netio/gate_priv.h"

#define AT_MAD (AT_BTH + URXE_BTH_LEN + URXE_DETH_LEN)
#define THEIR  0x7700u
#define QPN    0x99u
#define PACKET (URXE_DETH_LEN + URXE_MAD_LEN)

/* The comm id of member 0's connection. */
static uint32_t own(void)
{
	return m[0].slot << 24 | 5;
}

static void put_mad(uint8_t *p, enum urxe_mad_attr attr, uint32_t local, uint32_t remote)
{
	uint8_t *mad = p + AT_MAD;

	p[AT_BTH] = 0x64; /* UD SEND only */
	urxe_mad_init(mad, attr, 0xabcd);
	urxe_mad_put(mad, URXE_REQ_LOCAL_COMM_ID, local);
	if (attr == URXE_MAD_REQ)
		urxe_mad_put(mad, URXE_REQ_LOCAL_QPN, QPN);
	else
		urxe_mad_put(mad, URXE_REP_REMOTE_COMM_ID, remote);
	if (attr == URXE_MAD_REP)
		urxe_mad_put(mad, URXE_REP_LOCAL_QPN, QPN);
}

static void mad_out(enum urxe_mad_attr attr)
{
	uint8_t p[2048], out[2048];
	uint32_t len = put_ip(p, "10.9.0.1", "10.9.0.2", 1, PACKET), got;

	put_mad(p, attr, own(), THEIR);
	CU_ASSERT_EQUAL(give(&m[0], p, len), 0);
	CU_ASSERT_EQUAL(sent_out(out, &got), 1);
}

static void mad_of(const char *from, enum urxe_mad_attr attr, uint32_t local, uint32_t remote)
{
	uint8_t p[2048];
	uint32_t len = from_outside(p, from, 1, PACKET);

	put_mad(p, attr, local, remote);
	put_icrc(p, len);
	arrive(p, len);
}

static void mad_in(const char *from, enum urxe_mad_attr attr, uint32_t remote)
{
	mad_of(from, attr, THEIR, remote);
}

static void connect_peer(bool active)
{
	if (active) {
		mad_out(URXE_MAD_REQ);
		mad_in("10.9.0.2", URXE_MAD_REP, own());
	} else {
		mad_in("10.9.0.2", URXE_MAD_REQ, 0);
		mad_out(URXE_MAD_REP);
	}
}

/* Member 0 goes, as if it was killed: true: the gateway ends something of its, which is waited for
 * if that is to be. */
static bool kill_member(bool ends)
{
	unsigned looks = ends ? 100000 : 300;
	uint64_t before = count(URXE_GATE_cm_ended);
	struct member again = m[0];

	leave(&m[0]);
	for (unsigned i = 0; i < looks && count(URXE_GATE_cm_ended) == before; i++) {
		urxe_gate_turn(gate);
		usleep(i < 100 ? 0 : 100);
	}
	/* For tear_down(), and the slot of whose connection is spoken of. */
	join(&m[0]);
	m[0].slot = again.slot;
	return count(URXE_GATE_cm_ended) > before;
}

/* What the peer gets in this time: how many MADs; the last one in @p. */
static unsigned told(uint8_t *p, unsigned ms)
{
	unsigned n = 0;
	uint32_t len;

	for (unsigned i = 0; i <= ms / 10; i++) {
		n += sent_out(p, &len);
		urxe_sim_advance(sim, urxe_sim_now(sim) + 10 * URXE_MSEC);
	}
	return n;
}

static void check(const uint8_t *p, enum urxe_mad_attr attr)
{
	const uint8_t *mad = p + AT_MAD;

	CU_ASSERT_EQUAL(urxe_bth_dqpn(p + AT_BTH), 1);
	CU_ASSERT_EQUAL(p[AT_BTH], 0x64);
	CU_ASSERT_EQUAL(urxe_get32(p + AT_BTH + URXE_BTH_LEN), URXE_GSI_QKEY);
	CU_ASSERT_EQUAL(urxe_get32(p + AT_BTH + URXE_BTH_LEN + 4), 1);
	CU_ASSERT_EQUAL(urxe_mad_get8(mad, URXE_HDR_MGMT_CLASS), URXE_MAD_CLASS_CM);
	CU_ASSERT_EQUAL(urxe_mad_get16(mad, URXE_HDR_ATTR_ID), attr);
	CU_ASSERT_EQUAL(urxe_mad_get32(mad, URXE_DREQ_LOCAL_COMM_ID), own());
	CU_ASSERT_EQUAL(urxe_mad_get32(mad, URXE_DREQ_REMOTE_COMM_ID), THEIR);
	if (attr != URXE_MAD_DREQ)
		return;
	CU_ASSERT_EQUAL(urxe_mad_get32(mad, URXE_DREQ_REMOTE_QPN), QPN);
	CU_ASSERT(!memcmp(urxe_mad_cbytes(mad, URXE_DREQ_PRIVATE_DATA), URXE_MAD_DREQ_GONE,
			  sizeof(URXE_MAD_DREQ_GONE)));
}

/* On either side; a DREQ of the member's own that nobody has answered is sent on, too. */
static void test_killed(void)
{
	for (unsigned i = 0; i < 4; i++) {
		uint64_t nobody;
		uint8_t p[2048];

		set_up();
		connect_peer(i & 1);
		if (i & 2)
			mad_out(URXE_MAD_DREQ);
		CU_ASSERT(kill_member(true));
		CU_ASSERT_EQUAL(told(p, 50), 1);
		check(p, URXE_MAD_DREQ);
		CU_ASSERT_EQUAL(told(p, 60), 1);
		/* Its answer is for us; another peer's is not. */
		nobody = count(URXE_GATE_in_nobody);
		mad_in("10.9.0.3", URXE_MAD_DREP, own());
		CU_ASSERT_EQUAL(told(p, 200), 1);
		mad_in("10.9.0.2", URXE_MAD_DREP, own());
		CU_ASSERT_EQUAL(count(URXE_GATE_in_nobody), nobody);
		CU_ASSERT_EQUAL(told(p, 5000), 0);
		tear_down();
	}
}

/* One that had the slot before is gone: who has it now lives, and so do its connections. */
static void test_slot_again(void)
{
	uint8_t p[2048];

	for (unsigned active = 0; active < 2; active++) {
		set_up();
		connect_peer(active);
		gate_cm_gone(gate, m[0].slot);
		CU_ASSERT_EQUAL(told(p, 1000), 0);
		CU_ASSERT_EQUAL(count(URXE_GATE_cm_ended), 0);
		CU_ASSERT(kill_member(true));
		CU_ASSERT_EQUAL(told(p, 50), 1);
		check(p, URXE_MAD_DREQ);
		tear_down();
	}
}

/* Nobody answers. */
static void test_silent(void)
{
	uint8_t p[2048];

	set_up();
	connect_peer(true);
	CU_ASSERT(kill_member(true));
	CU_ASSERT_EQUAL(told(p, 10000), 5);
	CU_ASSERT_EQUAL(count(URXE_GATE_cm_ended), 1);
	tear_down();
}

/* The peer ends it meanwhile: it gets the answer that nobody else can give. */
static void test_crossed(void)
{
	uint8_t p[2048];

	set_up();
	connect_peer(false);
	CU_ASSERT(kill_member(true));
	CU_ASSERT_EQUAL(told(p, 50), 1);
	mad_in("10.9.0.2", URXE_MAD_DREQ, own());
	CU_ASSERT_EQUAL(told(p, 5000), 1);
	check(p, URXE_MAD_DREP);
	CU_ASSERT_EQUAL(urxe_mad_get(p + AT_MAD, URXE_HDR_TID), 0xabcd);
	tear_down();
}

/* What was no connection, or is none any more. */
static void test_none(void)
{
	uint8_t p[2048];

	for (unsigned i = 0; i < 8; i++) {
		set_up();
		switch (i) {
		case 0: /* nobody has asked for that */
			mad_out(URXE_MAD_RTU);
			mad_in("10.9.0.2", URXE_MAD_REP, own());
			break;
		case 1:
			mad_out(URXE_MAD_REP);
			break;
		case 2: /* from another address */
			mad_out(URXE_MAD_REQ);
			mad_in("10.9.0.3", URXE_MAD_REP, own());
			break;
		case 3:
			mad_in("10.9.0.3", URXE_MAD_REQ, 0);
			mad_out(URXE_MAD_REP);
			break;
		case 4:
			connect_peer(true);
			mad_in("10.9.0.2", URXE_MAD_DREQ, own());
			break;
		case 5:
			connect_peer(true);
			mad_out(URXE_MAD_DREQ);
			mad_in("10.9.0.2", URXE_MAD_DREP, own());
			break;
		case 6:
			mad_out(URXE_MAD_REQ);
			mad_in("10.9.0.2", URXE_MAD_REJ, own());
			break;
		default:
			connect_peer(false);
			mad_out(URXE_MAD_REJ);
			break;
		}
		CU_ASSERT_FALSE(kill_member(false));
		CU_ASSERT_EQUAL(told(p, 1000), 0);
		tear_down();
	}
}

/* Any MADs in any order, from members that come and go and from outside: no more than ids there are
 * is remembered, and all is forgotten in time. */
static void test_random(void)
{
	static const enum urxe_mad_attr attrs[] = {URXE_MAD_REQ, URXE_MAD_REP,	URXE_MAD_RTU,
						   URXE_MAD_REJ, URXE_MAD_DREQ, URXE_MAD_DREP};
	uint8_t p[2048];
	uint32_t len;

	set_up();
	srandom(1);
	for (unsigned i = 0; i < 4000; i++) {
		enum urxe_mad_attr attr = attrs[random() % 6];
		uint32_t id = m[random() % 2].slot << 24 | random() % 8;
		uint32_t peer = random() % 8;
		const char *from = random() % 8 ? "10.9.0.2" : "10.9.0.3";

		if (random() % 2) {
			mad_of(from, attr, peer, id);
		} else {
			len = put_ip(p, "10.9.0.1", "10.9.0.2", 1, PACKET);
			put_mad(p, attr, id, peer);
			CU_ASSERT_EQUAL(give(&m[random() % 2], p, len), 0);
			told(p, 0);
		}
		for (unsigned k = 0; k < MEMBERS; k++) {
			while (take(&m[k], NULL, NULL, NULL))
				;
		}
		if (i % 500 == 499)
			kill_member(false);
		urxe_sim_advance(sim, urxe_sim_now(sim) + URXE_MSEC);
	}
	CU_ASSERT(count(URXE_GATE_cm_ended) > 0);
	CU_ASSERT_EQUAL(count(URXE_GATE_cm_unknown), 0);
	told(p, 10000);
	CU_ASSERT_EQUAL(told(p, 1000), 0);
	tear_down();
}

URXE_TEST_MAIN("gate_cm", T(test_killed), T(test_slot_again), T(test_silent), T(test_crossed),
	       T(test_none), T(test_random))
