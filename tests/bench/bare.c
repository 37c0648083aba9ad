/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The bare link: what a netio port does when nothing stands above it. RoCEv2 packets with their
 * ICRC, from cold user memory to cold user memory, but no queue pairs, no transport.
 *
 *	bare -s				serve until killed, or until a client says -e
 *	bare -c PEER lat SIZE ROUNDS	half of a round trip, median: us
 *	bare -c PEER acked SIZE ROUNDS	the same, each packet with one behind it, as a message with
 *					the ACK of the one before: it is over when both have come
 *	bare -c PEER rate SIZE COUNT	packets one way: M/s
 *	bare -c PEER bw SIZE COUNT	the same: Gb/s of payload
 *	bare -c PEER end		end the server
 *
 * Each prints one number. Configured as any urxe program (`urxe run`).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "measure.h"
#include "netio/config.h"
#include "netio/link_ethdev.h"
#include "netio/port.h"
#include "urxe/opcode.h"
#include "urxe/wire.h"

#define COLD	    (64u << 20)
#define BURST	    32
#define WINDOW	    512 /* packets under way: half of a ring */
#define CREDIT	    128 /* acknowledged at a time */
#define HEAD	    URXE_BTH_LEN
#define MIN_PAYLOAD 8u

/* What a packet is, in the BTH's QPN; PSN and 8 bytes of payload carry numbers. */
enum {
	PING = 2,
	PONG,
	DATA,
	ACK,
	BEGIN,
	END,
	ACKED_PING, /* answered when what is behind it has come */
	BEHIND,
};

static struct urxe_port *port;
static struct urxe_lane *lane;
static struct urxe_path *path;
static bool on_fabric;
static uint32_t high; /* bits of the peer's QPNs, where these say which process it is */
static uint8_t *cold;
static size_t cold_at;
static uint64_t received; /* DATA since BEGIN */
static uint32_t pinged;	  /* bytes of the last ACKED_PING */

static void need(int err, const char *what)
{
	if (err) {
		fprintf(stderr, "bare: %s: %s\n", what, strerror(err));
		exit(1);
	}
}

static uint64_t now(void)
{
	return urxe_port_now(port);
}

/* The next piece of memory that no cache has. */
static uint8_t *cold_next(uint32_t len)
{
	uint8_t *p;

	if (cold_at + len > COLD)
		cold_at = 0;
	p = cold + cold_at;
	cold_at += (len + 63) & ~63u;
	return p;
}

static bool send_packet(unsigned kind, uint64_t value, const uint8_t *payload, uint32_t len)
{
	struct urxe_bth bth = {.opcode = URXE_SVC_UC | URXE_OP_SEND_ONLY,
			       .pkey = URXE_DEFAULT_PKEY,
			       .dqpn = high | kind,
			       .psn = (uint32_t)value & URXE_PSN_MASK,
			       .pad = (uint8_t)(-len & 3)};
	uint32_t size = len < MIN_PAYLOAD ? MIN_PAYLOAD : (len + 3) & ~3u;
	struct urxe_tx tx;
	int err = urxe_tx_begin(lane, path, high | kind, &tx, HEAD + size);

	/* One that has ended and began again has another MAC, which is known in a second. */
	if (err == EAGAIN || err == EINPROGRESS || (on_fabric && err == EHOSTUNREACH))
		return false;
	need(err, "send");
	urxe_bth_put(tx.bth, &bth);
	urxe_tx_headers(&tx, HEAD);
	if (payload) {
		urxe_tx_append(&tx, payload, size);
	} else {
		uint8_t word[MIN_PAYLOAD];

		urxe_put64(word, value);
		urxe_tx_append(&tx, word, sizeof(word));
		if (size > sizeof(word))
			urxe_tx_append(&tx, NULL, size - (uint32_t)sizeof(word));
	}
	urxe_tx_commit(lane, &tx);
	return true;
}

static void idle(unsigned *spins)
{
	if (++*spins % 64)
		return;
	urxe_lane_tick(lane, now());
	urxe_lane_unlock(lane);
	sched_yield();
	urxe_lane_lock(lane);
}

static void send_held(unsigned kind, uint64_t value, uint32_t len)
{
	unsigned spins = 0;
	struct urxe_packet p[BURST];

	while (!send_packet(kind, value, NULL, len)) {
		/* The answer of a neighbour is a frame too. */
		urxe_lane_release(lane, p, urxe_lane_rx(lane, p, BURST));
		idle(&spins);
	}
}

static void send_now(unsigned kind, uint64_t value, uint32_t len)
{
	send_held(kind, value, len);
	urxe_lane_flush(lane);
}

static void send_acked(unsigned kind, uint64_t value, uint32_t len)
{
	send_held(kind, value, len);
	send_now(BEHIND, value, MIN_PAYLOAD);
}

static unsigned kind_of(const struct urxe_packet *p)
{
	return urxe_bth_dqpn(p->bth) & 0xffff;
}

static uint64_t value_of(const struct urxe_packet *p)
{
	return p->len >= HEAD + MIN_PAYLOAD ? urxe_get64(p->body + HEAD) : 0;
}

/* A node's MAC on a local fabric ends in the number of its process. */
static void find_peer(unsigned sgid_index, const uint8_t dgid[16])
{
	uint8_t mac[6];
	int err = EHOSTUNREACH;

	urxe_lane_unlock(lane);
	for (unsigned i = 0; err && i < 1000000; i++) {
		err = urxe_port_resolve(port, sgid_index, dgid, mac);
		sched_yield();
	}
	urxe_lane_lock(lane);
	need(err, "peer");
	high = (uint32_t)mac[5] << 16;
}

static void make_path(const uint8_t dgid[16])
{
	struct urxe_path_attr attr = {.udp_sport = 0xc000};
	struct urxe_port_info info;
	int err;

	if (path)
		return;
	memcpy(attr.dgid, dgid, 16);
	err = urxe_port_route(port, dgid, &attr.sgid_index, NULL);
	need(err, "route");
	need(urxe_path_create(port, &attr, &path), "path");
	urxe_port_query(port, &info);
	on_fabric = !strcmp(info.driver, "fabric");
	if (on_fabric)
		find_peer(attr.sgid_index, dgid);
}

/* ---- server ---- */

static void src_gid(const struct urxe_packet *p, uint8_t gid[16])
{
	memset(gid, 0, 16);
	if (p->ipv4) {
		gid[10] = gid[11] = 0xff;
		memcpy(gid + 12, p->l3 + 12, 4);
	} else {
		memcpy(gid, p->l3 + 8, 16);
	}
}

/* Returns false when a client says that it is over. */
static bool serve_one(const struct urxe_packet *p)
{
	uint8_t gid[16];

	if (!path) {
		src_gid(p, gid);
		make_path(gid);
	}
	if (on_fabric)
		high = (uint32_t)p->src_mac[5] << 16;
	switch (kind_of(p)) {
	case PING:
		send_now(PONG, value_of(p), p->len - HEAD);
		break;
	case ACKED_PING:
		pinged = p->len - HEAD;
		break;
	case BEHIND:
		send_acked(PONG, value_of(p), pinged);
		break;
	case BEGIN:
		received = 0;
		send_now(ACK, 0, MIN_PAYLOAD);
		break;
	case DATA:
		memcpy(cold_next(p->len), p->body + HEAD, p->len - HEAD);
		if (++received % CREDIT == 0)
			send_now(ACK, received, MIN_PAYLOAD);
		break;
	case END:
		send_now(ACK, UINT64_MAX, MIN_PAYLOAD);
		return false;
	default:
		break;
	}
	return true;
}

static int serve(void)
{
	struct urxe_packet p[BURST];
	unsigned n, spins = 0;
	bool go = true;

	while (go) {
		n = urxe_lane_rx(lane, p, BURST);
		for (unsigned i = 0; i < n; i++)
			go &= serve_one(&p[i]);
		urxe_lane_release(lane, p, n);
		if (!n)
			idle(&spins);
	}
	return 0;
}

/* ---- client ---- */

/* Waits for a packet of a kind; false after @ns. */
static bool await(unsigned kind, uint64_t *value, uint64_t ns)
{
	uint64_t end = now() + ns;
	struct urxe_packet p[BURST];
	unsigned n, spins = 0;
	bool got = false;

	while (!got) {
		n = urxe_lane_rx(lane, p, BURST);
		for (unsigned i = 0; i < n; i++) {
			if (kind_of(&p[i]) == kind) {
				*value = value_of(&p[i]);
				got = true;
			}
		}
		urxe_lane_release(lane, p, n);
		if (!n) {
			idle(&spins);
			if (spins % 64 == 0 && now() > end)
				break;
		}
	}
	return got;
}

/* Asks until it is answered: the peer may not be there yet. */
static void ask(unsigned kind)
{
	uint64_t v;

	for (unsigned i = 0; i < 100; i++) {
		send_now(kind, 0, MIN_PAYLOAD);
		if (await(ACK, &v, 100000000))
			return;
	}
	need(ETIMEDOUT, "peer");
}

static int lat(uint32_t size, uint64_t rounds, bool acked)
{
	uint64_t *t = calloc(rounds, sizeof(*t)), start, v, lost = 0;

	need(t ? 0 : ENOMEM, "memory");
	for (uint64_t i = 0; i < rounds;) {
		start = now();
		if (acked)
			send_acked(ACKED_PING, i, size);
		else
			send_now(PING, i, size);
		if (await(acked ? BEHIND : PONG, &v, 200000000) && v == i)
			t[i++] = now() - start;
		else if (++lost > 100)
			need(ETIMEDOUT, "ping");
	}
	printf("%.3f\n", (double)measure_median(t, rounds) / 2e3);
	free(t);
	return 0;
}

/* Takes acknowledgements in; how many packets the peer has. */
static uint64_t take_acks(uint64_t have)
{
	struct urxe_packet p[BURST];
	unsigned n = urxe_lane_rx(lane, p, BURST);

	for (unsigned i = 0; i < n; i++) {
		if (kind_of(&p[i]) == ACK && value_of(&p[i]) > have)
			have = value_of(&p[i]);
	}
	urxe_lane_release(lane, p, n);
	return have;
}

/* Returns packets per nanosecond. */
static double blast(uint32_t size, uint64_t count)
{
	uint64_t sent = 0, have = 0, start, last, before;
	unsigned spins = 0;

	count = (count + CREDIT - 1) / CREDIT * CREDIT;
	ask(BEGIN);
	start = last = now();
	while (have < count) {
		for (unsigned i = 0; i < BURST && sent < count && sent - have < WINDOW; i++) {
			if (!send_packet(DATA, 0, cold_next(size), size))
				break;
			sent++;
		}
		urxe_lane_flush(lane);
		before = have;
		have = take_acks(have);
		if (have != before)
			last = now();
		else
			idle(&spins);
		if (spins % 64 == 0 && now() - last > 2000000000)
			break; /* a link that loses: what arrived counts */
	}
	need(have ? 0 : ETIMEDOUT, "blast");
	return (double)have / (double)(last - start);
}

/* ---- start ---- */

static void parse_peer(const char *s, uint8_t gid[16])
{
	memset(gid, 0, 16);
	gid[10] = gid[11] = 0xff;
	if (inet_pton(AF_INET, s, gid + 12) != 1 && inet_pton(AF_INET6, s, gid) != 1)
		need(EINVAL, s);
}

static void open_port(void)
{
	static struct urxe_config cfg;
	const struct urxe_link_ops *ops;
	char err[512];
	void *arg;

	if (urxe_config_load(&cfg, err, sizeof(err))) {
		fprintf(stderr, "bare: %s\n", err);
		exit(2);
	}
	need(cfg.num_devices ? 0 : ENODEV, "no device configured: use urxe run");
	urxe_log_set_level(cfg.log);
	urxe_link_select(&cfg.devices[0], &ops, &arg);
	need(urxe_port_create(&port, &cfg.devices[0], ops, arg), "port");
	need(urxe_port_start(port), "start");
	lane = urxe_port_lane(port, 0);
	cold = mmap(NULL, COLD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE,
		    -1, 0);
	need(cold == MAP_FAILED ? errno : 0, "memory");
	memset(cold, 0x5a, COLD);
}

static int client(const char *what, uint32_t size, uint64_t count)
{
	if (!strcmp(what, "end")) {
		ask(END);
		return 0;
	}
	ask(BEGIN); /* resolves the neighbour, and waits for the peer */
	if (!strcmp(what, "lat") || !strcmp(what, "acked"))
		return lat(size, count, !strcmp(what, "acked"));
	if (!strcmp(what, "rate"))
		printf("%.3f\n", blast(size, count) * 1e3);
	else
		printf("%.3f\n", blast(size, count) * 8 * size);
	return 0;
}

static int usage(void)
{
	fprintf(stderr,
		"usage: bare -s | bare -c PEER lat|acked|rate|bw SIZE COUNT | bare -c PEER end\n");
	return 2;
}

static bool known(const char *what)
{
	static const char *const all[] = {"lat", "acked", "rate", "bw"};

	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (!strcmp(what, all[i]))
			return true;
	}
	return false;
}

int main(int argc, char **argv)
{
	bool server = argc == 2 && !strcmp(argv[1], "-s");
	uint32_t size = argc == 6 ? (uint32_t)atoi(argv[4]) : MIN_PAYLOAD;
	uint64_t count = argc == 6 ? strtoull(argv[5], NULL, 0) : 1;
	const char *ready = getenv("URXE_READY_FILE");
	uint8_t gid[16];
	FILE *f;
	int ret;

	if (!server && !(argc == 4 && !strcmp(argv[3], "end")) && !(argc == 6 && known(argv[3])))
		return usage();
	if (size < 1 || size > 4096 || !count)
		return usage();
	open_port();
	if (server && ready && (f = fopen(ready, "we")))
		fclose(f);
	urxe_lane_lock(lane);
	if (server) {
		ret = serve();
	} else {
		parse_peer(argv[2], gid);
		make_path(gid);
		ret = client(argv[3], size, count);
	}
	urxe_lane_unlock(lane);
	urxe_path_destroy(path);
	urxe_port_destroy(port);
	return ret;
}
