/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The gateway of a fabric, between members of this process and a raw end of a simulated network.
 * 10.9.0.1 is the gateway's address, 10.9.0.2 answers ARP outside.
 */
#ifndef URXE_TEST_GATE_NET_H
#define URXE_TEST_GATE_NET_H

#include "netio_net.h"

#include <sched.h>
#include <unistd.h>

#include "netio/fabric_link.h"
#include "netio/gate.h"
#include "netio/link_fabric.h"
#include "urxe/mad.h"

#define OPS	(&urxe_link_fabric_ops)
#define MEMBERS 2
#define AT_BTH	(ETH_LEN + IPV4_LEN + UDP_LEN)
#define FAR_QPN 0x123456 /* no member's */

struct member {
	struct urxe_fabric *f;
	void *link;
	struct urxe_link_info info;
	unsigned slot;
};

static char dir[64];
static struct urxe_fabric_spec spec;
static struct urxe_sim *sim;
static struct urxe_sim_end *raw, *end;
static struct urxe_gate *gate;
static struct member m[MEMBERS];

/* ---- setting up ---- */

static inline int open_gate(struct urxe_gate **g, char *err, size_t errlen)
{
	struct urxe_port_config cfg = node_cfg(1);

	return urxe_gate_open(g, &spec, &cfg, &urxe_link_sim_ops, end, true, err, errlen);
}

static inline void begin_gate(void)
{
	char err[300];

	CU_ASSERT_EQUAL_FATAL(open_gate(&gate, err, sizeof(err)), 0);
}

static inline void join(struct member *x)
{
	struct urxe_port_config cfg = {.host = true, .vlan = URXE_NO_VLAN, .name = "urxe0"};
	uint8_t gids[2][16];

	snprintf(cfg.port, sizeof(cfg.port), "fabric,dir=%s", dir);
	CU_ASSERT_EQUAL_FATAL(OPS->fabric(&cfg, &x->f), 0);
	CU_ASSERT_EQUAL_FATAL(OPS->open(x->f, &cfg, NULL, 4200, &x->link, &x->info), 0);
	x->slot = urxe_fabric_slot(x->f);
	gid_of("10.9.0.1", gids[0]);
	gid_of("fd00::1", gids[1]);
	urxe_fabric_addr_set(x->f, (const uint8_t(*)[16])gids, 2, NULL);
}

static inline void leave(struct member *x)
{
	OPS->close(x->link);
	urxe_fabric_put(x->f);
}

static inline void set_up(void)
{
	strcpy(dir, "/tmp/urxe-test-XXXXXX");
	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
	memset(&spec, 0, sizeof(spec));
	strcpy(spec.dir, dir);
	CU_ASSERT_EQUAL_FATAL(urxe_sim_create(&sim, 1, false), 0);
	raw = urxe_sim_end(sim, NULL);
	end = urxe_sim_end(sim, NULL);
	begin_gate();
	for (unsigned i = 0; i < MEMBERS; i++)
		join(&m[i]);
}

static inline void tear_down(void)
{
	char cmd[128];

	for (unsigned i = 0; i < MEMBERS; i++)
		leave(&m[i]);
	urxe_gate_close(gate);
	gate = NULL;
	drain(sim, raw);
	CU_ASSERT_EQUAL(urxe_sim_buffers(sim), 0);
	urxe_sim_destroy(sim);
	snprintf(cmd, sizeof(cmd), "rm -r %s", dir);
	CU_ASSERT_EQUAL(system(cmd), 0); // NOLINT: of this program's own making
}

static inline uint64_t count(enum urxe_gate_counter c)
{
	uint64_t v[URXE_GATE_COUNTERS];

	urxe_gate_counters(gate, v);
	return v[c];
}

/* ---- frames ---- */

static inline void put_icrc(uint8_t *p, uint32_t len)
{
	urxe_icrc_put(p + len - URXE_ICRC_LEN,
		      urxe_icrc(p + ETH_LEN, true, len - AT_BTH - URXE_ICRC_LEN));
}

static inline uint32_t put_ip(uint8_t *p, const char *from, const char *to, uint32_t dqpn,
			      uint32_t payload)
{
	uint32_t len = AT_BTH + URXE_BTH_LEN + payload + URXE_ICRC_LEN;
	uint8_t gid[16];

	memset(p, 0, len);
	urxe_put16(p + 12, ETHERTYPE_IPV4);
	p[ETH_LEN] = 0x45;
	p[ETH_LEN + 1] = 0x6a; /* DSCP 26, ECT(0) */
	urxe_put16(p + ETH_LEN + 2, (uint16_t)(len - ETH_LEN));
	p[ETH_LEN + 6] = 0x40;
	p[ETH_LEN + 8] = 64;
	p[ETH_LEN + 9] = PROTO_UDP;
	gid_of(from, gid);
	memcpy(p + ETH_LEN + 12, gid + 12, 4);
	gid_of(to, gid);
	memcpy(p + ETH_LEN + 16, gid + 12, 4);
	urxe_put16(p + ETH_LEN + 10, urxe_sum_fold(urxe_sum(0, p + ETH_LEN, IPV4_LEN)));
	urxe_put16(p + AT_BTH - UDP_LEN, 0xc123);
	urxe_put16(p + AT_BTH - UDP_LEN + 2, URXE_UDP_DPORT);
	urxe_put16(p + AT_BTH - UDP_LEN + 4, (uint16_t)(len - ETH_LEN - IPV4_LEN));
	p[AT_BTH] = 4; /* RC SEND only */
	urxe_put24(p + AT_BTH + 5, dqpn);
	for (uint32_t i = 0; i < payload; i++)
		p[AT_BTH + URXE_BTH_LEN + i] = (uint8_t)i;
	return len;
}

/* From the outside: to the gateway's MAC, complete. */
static inline uint32_t from_outside(uint8_t *p, const char *from, uint32_t dqpn, uint32_t payload)
{
	uint32_t len = put_ip(p, from, "10.9.0.1", dqpn, payload);

	memcpy(p, mac1, 6);
	memcpy(p + 6, mac2, 6);
	put_icrc(p, len);
	return len;
}

static inline void arrive(const uint8_t *p, uint32_t len)
{
	CU_ASSERT_EQUAL_FATAL(urxe_sim_put(end, p, len), 0);
	urxe_gate_turn(gate);
}

/* Turns, and all that the raw end gets: the last RoCEv2 frame stays in @p. */
static inline unsigned sent_out(uint8_t *p, uint32_t *len)
{
	uint8_t buf[2048], arp[42];
	unsigned n = 0;
	uint32_t got;

	for (unsigned turn = 0; turn < 20; turn++) {
		urxe_gate_turn(gate);
		while (urxe_sim_step(sim))
			;
		while ((got = urxe_sim_recv(raw, buf, sizeof(buf)))) {
			struct urxe_frame f = {.data = buf, .len = got};

			if (urxe_frame_roce(&f)) {
				memcpy(p, buf, got);
				*len = got;
				n++;
			} else if (urxe_get16(buf + 12) == ETHERTYPE_ARP && buf[21] == 1 &&
				   buf[41] == 2) {
				/* 10.9.0.2 says where it is. */
				memcpy(arp, mac1, 6);
				memcpy(arp + 6, mac2, 6);
				unhex("080600010800060400025254", arp + 12);
				memcpy(arp + 22, mac2, 6);
				memcpy(arp + 28, buf + 38, 4);
				memcpy(arp + 32, mac1, 6);
				memcpy(arp + 38, buf + 28, 4);
				urxe_sim_put(end, arp, 42);
			}
		}
	}
	return n;
}

/* A member's frame, to the gateway. */
static inline int give(struct member *x, const uint8_t *p, uint32_t len)
{
	uint8_t gid[16], mac[6];
	struct urxe_frame f;
	int err;

	gid_of("10.9.0.2", gid);
	err = OPS->resolve(x->link, gid, mac);
	if (err)
		return err;
	CU_ASSERT(OPS->far(x->link, mac));
	while ((err = OPS->reserve(x->link, 0, mac, FAR_QPN, len, &f)) == EINPROGRESS) {
		urxe_gate_turn(gate);
		OPS->rx(x->link, 0, &f, 1);
		sched_yield();
	}
	if (err)
		return err;
	memcpy(f.data, p, len);
	memcpy(f.data, mac, 6);
	f.len = len;
	f.flags = URXE_FRAME_NO_ICRC;
	OPS->commit(x->link, 0, f.buf, f.len, f.flags);
	OPS->tx(x->link, 0, NULL, 0);
	return 0;
}

/* What a member has received: how many frames; the last one's bytes in @p. */
static inline unsigned take(struct member *x, uint8_t *p, uint32_t *len, uint32_t *flags)
{
	struct urxe_frame f[16];
	unsigned n = OPS->rx(x->link, 0, f, 16);

	if (n && p) {
		*len = f[n - 1].len;
		*flags = f[n - 1].flags;
		memcpy(p, f[n - 1].rest ? f[n - 1].rest : f[n - 1].data, f[n - 1].len);
	}
	OPS->free(x->link, 0, f, n);
	return n;
}

/* The first frame waits until the ring is there. */
static inline unsigned received(struct member *x, uint8_t *p, uint32_t *len, uint32_t *flags)
{
	unsigned n = 0;

	/* A thread of the fabric's has to make the ring first, and may wait for a processor. */
	for (unsigned i = 0; i < 20000 && !n; i++) {
		urxe_gate_turn(gate);
		n = take(x, p, len, flags);
		if (!n && i < 1000)
			sched_yield();
		else if (!n)
			usleep(1000);
	}
	return n;
}

#endif
