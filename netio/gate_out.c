/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * From members to the outside. Of a frame only the addresses, what routers look at, and the packet
 * from the BTH on are kept: headers and ICRC are made anew by a path of the outer port, so that no
 * member can send what a port of its own could not. The payload is copied once, out of the ring.
 *
 * A packet whose neighbour is not known waits in a copy, and holds up those of its flow alone. What
 * the outer link cannot take now stays in its member's ring: nobody could send it.
 */
#include "netio/gate_priv.h"

#include <stdlib.h>

#include "netio/link_fabric.h"
#include "urxe/log.h"
#include "urxe/mad.h"

#define INNER	   (&urxe_link_fabric_ops)
#define SWEEP_NS   (10 * URXE_SEC)
#define UNUSED_NS  (60 * URXE_SEC)
#define RETRY_NS   (50 * URXE_MSEC) /* packets that wait, when no neighbour became known */
#define WARN_NS	   (10 * URXE_SEC)
#define FRAGMENTED 0x3fff

/** A packet of a member's: where it is, and what it is to become. */
struct packet {
	struct gate_key key;
	const uint8_t *bth;  /* in the copy of its headers */
	const uint8_t *body; /* the same with all behind it, which its sender may change */
	uint32_t len;	     /* up to the pad */
};

/* ---- reading ---- */

static bool parse_udp(struct packet *p, const struct urxe_frame *f, const uint8_t *udp,
		      uint32_t len)
{
	if (len < UDP_LEN + URXE_BTH_LEN + URXE_ICRC_LEN || urxe_get16(udp + 4) != len ||
	    urxe_get16(udp + 2) != URXE_UDP_DPORT)
		return false;
	p->key.udp_sport = urxe_get16(udp);
	p->bth = udp + UDP_LEN;
	p->body = (f->rest ? f->rest : f->data) + (p->bth - f->data);
	p->len = len - UDP_LEN - URXE_ICRC_LEN;
	return true;
}

static bool parse_v4(struct packet *p, const struct urxe_frame *f, const uint8_t *l3, uint32_t len)
{
	uint32_t total;

	if (len < IPV4_LEN || l3[0] != 0x45 || l3[9] != PROTO_UDP ||
	    urxe_get16(l3 + 6) & FRAGMENTED)
		return false;
	total = urxe_get16(l3 + 2);
	if (total < IPV4_LEN || total > len)
		return false;
	p->key.traffic_class = l3[1];
	p->key.hop_limit = l3[8];
	urxe_gid_from_v4(p->key.sgid, l3 + 12);
	urxe_gid_from_v4(p->key.dgid, l3 + 16);
	return parse_udp(p, f, l3 + IPV4_LEN, total - IPV4_LEN);
}

static bool parse_v6(struct packet *p, const struct urxe_frame *f, const uint8_t *l3, uint32_t len)
{
	if (len < IPV6_LEN || l3[0] >> 4 != 6 || l3[6] != PROTO_UDP ||
	    urxe_get16(l3 + 4) > len - IPV6_LEN)
		return false;
	p->key.traffic_class = (uint8_t)(urxe_get16(l3) >> 4);
	p->key.flow_label = urxe_get32(l3) & 0xfffff;
	p->key.hop_limit = l3[7];
	memcpy(p->key.sgid, l3 + 8, 16);
	memcpy(p->key.dgid, l3 + 24, 16);
	/* It would be IPv4's. */
	return !urxe_gid_is_v4(p->key.sgid) && !urxe_gid_is_v4(p->key.dgid) &&
	       parse_udp(p, f, l3 + IPV6_LEN, urxe_get16(l3 + 4));
}

/* The copy of its headers has all of those that a RoCEv2 frame may have. */
static bool parse(struct packet *p, const struct urxe_frame *f)
{
	memset(&p->key, 0, sizeof(p->key));
	if (f->len < ETH_LEN)
		return false;
	switch (urxe_get16(f->data + 12)) {
	case ETHERTYPE_IPV4:
		return parse_v4(p, f, f->data + ETH_LEN, f->len - ETH_LEN);
	case ETHERTYPE_IPV6:
		return parse_v6(p, f, f->data + ETH_LEN, f->len - ETH_LEN);
	default:
		return false;
	}
}

/* ---- flows ---- */

static struct gate_path *path_of(struct urxe_hash_node *node)
{
	return (struct gate_path *)((uint8_t *)node - offsetof(struct gate_path, node));
}

static uint64_t hash(const struct gate_key *k)
{
	uint64_t w[sizeof(*k) / 8], h = 0;

	static_assert(sizeof(*k) == 40, "no padding");
	memcpy(w, k, sizeof(w));
	for (unsigned i = 0; i < sizeof(w) / sizeof(w[0]); i++) {
		h = (h ^ w[i]) * 0x9e3779b97f4a7c15ull;
		h ^= h >> 29;
	}
	return h;
}

static void forget(struct urxe_gate *g, struct gate_path *p)
{
	if (g->last == p)
		g->last = NULL;
	urxe_hash_del(&g->paths, &p->node);
	urxe_path_destroy(p->path);
	free(p);
}

static void sweep(struct urxe_gate *g, uint64_t now, uint64_t unused)
{
	struct urxe_hash_node *node = NULL, *next;

	for (node = urxe_hash_next(&g->paths, NULL); node; node = next) {
		struct gate_path *p = path_of(node);

		next = urxe_hash_next(&g->paths, node);
		if (!p->waiting && now - p->used > unused)
			forget(g, p);
	}
	g->swept = now;
}

static struct gate_path *find(struct urxe_gate *g, const struct gate_key *k)
{
	struct urxe_hash_node *node;

	if (g->last && !memcmp(&g->last->key, k, sizeof(*k)))
		return g->last;
	for (node = urxe_hash_find(&g->paths, hash(k)); node; node = urxe_hash_again(node)) {
		struct gate_path *p = path_of(node);

		if (!memcmp(&p->key, k, sizeof(*k)))
			return p;
	}
	return NULL;
}

/* What keeps a flow from being is its packets' end. */
static struct gate_path *add(struct urxe_gate *g, const struct gate_key *k, uint64_t now)
{
	struct urxe_path_attr a = {.flow_label = k->flow_label,
				   .traffic_class = k->traffic_class,
				   .hop_limit = k->hop_limit,
				   .udp_sport = k->udp_sport};
	int own = urxe_port_gid_find(g->port, k->sgid), err;
	struct gate_path *p;

	if (own < 0) {
		gate_count(g, URXE_GATE_out_source, 1);
		return NULL;
	}
	if (urxe_gid_is_loopback(k->dgid) || urxe_port_gid_find(g->port, k->dgid) >= 0) {
		gate_count(g, URXE_GATE_out_bad, 1);
		return NULL;
	}
	if (g->paths.count >= GATE_PATHS)
		sweep(g, now, URXE_SEC);
	p = g->paths.count < GATE_PATHS ? calloc(1, sizeof(*p)) : NULL;
	if (!p) {
		gate_count(g, URXE_GATE_out_no_room, 1);
		return NULL;
	}
	a.sgid_index = (unsigned)own;
	memcpy(a.dgid, k->dgid, 16);
	err = urxe_path_create(g->port, &a, &p->path);
	if (err) {
		gate_count(g, err == ENETUNREACH ? URXE_GATE_out_unreachable : URXE_GATE_out_bad,
			   1);
		free(p);
		return NULL;
	}
	p->key = *k;
	urxe_hash_add(&g->paths, &p->node, hash(k));
	return p;
}

/* ---- sending ---- */

static void warn_too_long(struct urxe_gate *g, const struct gate_path *p, uint32_t len,
			  uint64_t now)
{
	char buf[URXE_GID_STRLEN];

	if (g->warned && now - g->warned < WARN_NS)
		return;
	g->warned = now;
	urxe_warn(
		"%s: a packet of %u bytes to %s is longer than the link carries: its sender's path "
		"MTU must be %u at most",
		g->name, len, urxe_gid_print(p->key.dgid, buf, sizeof(buf)),
		urxe_config_path_mtu(atomic_load(&g->port->l3_mtu)));
}

/* As the last router on the way would. */
static void tell(struct urxe_gate *g, const struct gate_path *p, int err, const uint8_t *bth,
		 const uint8_t *body, uint32_t len)
{
	struct urxe_path_error e = {.err = err, .udp_sport = p->key.udp_sport};
	uint8_t copy[GATE_MAD_LEN];

	if (urxe_bth_dqpn(bth) != 1 || len != sizeof(copy))
		return;
	memcpy(copy, body, len);
	memcpy(copy, bth, URXE_BTH_LEN);
	e.bth = copy;
	e.len = len;
	memcpy(e.from, p->key.sgid, 16);
	memcpy(e.sgid, p->key.sgid, 16);
	memcpy(e.dgid, p->key.dgid, 16);
	gate_error(g, &e);
}

/* 0: it is gone, or counted as lost; EAGAIN, EINPROGRESS. */
static int send_packet(struct urxe_gate *g, struct gate_path *p, const uint8_t *bth,
		       const uint8_t *body, uint32_t len, uint64_t now) URXE_REQUIRES(g->lane)
{
	struct urxe_tx tx;
	int err = urxe_tx_begin(g->lane, p->path, urxe_bth_dqpn(bth), &tx, len);

	switch (err) {
	case 0:
		break;
	case EAGAIN:
	case EINPROGRESS:
		return err;
	case EMSGSIZE:
		gate_count(g, URXE_GATE_out_too_long, 1);
		warn_too_long(g, p, len, now);
		return 0;
	default:
		gate_count(g, URXE_GATE_out_unreachable, 1);
		tell(g, p, err, bth, body, len);
		return 0;
	}
	memcpy(tx.bth, bth, URXE_BTH_LEN);
	urxe_tx_headers(&tx, URXE_BTH_LEN);
	if (urxe_tx_append(&tx, body + URXE_BTH_LEN, len - URXE_BTH_LEN)) {
		urxe_tx_abort(g->lane, &tx);
		gate_count(g, URXE_GATE_out_bad, 1);
		return 0;
	}
	urxe_tx_commit(g->lane, &tx);
	gate_count(g, URXE_GATE_out_packets, 1);
	gate_count(g, URXE_GATE_out_bytes, len);
	return 0;
}

/* ---- waiting for neighbours ---- */

static void put_aside(struct urxe_gate *g, struct gate_path *p, const struct packet *pkt)
{
	struct gate_wait *w = NULL;

	if (g->num_waiting < GATE_WAITING && p->waiting < GATE_QUEUE)
		w = malloc(sizeof(*w) + pkt->len);
	if (!w) {
		gate_count(g, URXE_GATE_out_no_room, 1);
		return;
	}
	w->next = NULL;
	w->path = p;
	w->len = pkt->len;
	memcpy(w->data, pkt->body, pkt->len);
	memcpy(w->data, pkt->bth, URXE_BTH_LEN);
	*g->waiting_end = w;
	g->waiting_end = &w->next;
	g->num_waiting++;
	p->waiting++;
}

static void take_out(struct urxe_gate *g, struct gate_wait **at)
{
	struct gate_wait *w = *at;

	*at = w->next;
	if (!w->next)
		g->waiting_end = at;
	w->path->waiting--;
	g->num_waiting--;
	free(w);
}

/* In order; those of a flow whose first one cannot go are not asked for again. */
static void retry(struct urxe_gate *g, uint64_t now) URXE_REQUIRES(g->lane)
{
	struct gate_wait **at = &g->waiting, *w;
	const struct gate_path *stuck = NULL;
	unsigned news = urxe_port_neigh_news(g->port);
	int err;

	if (!g->num_waiting || (news == g->news && now - g->tried < RETRY_NS))
		return;
	g->news = news;
	g->tried = now;
	while ((w = *at)) {
		err = w->path == stuck ? EINPROGRESS
				       : send_packet(g, w->path, w->data, w->data, w->len, now);
		if (err == EAGAIN) {
			g->news = news - 1; /* as soon as there is room */
			return;
		}
		if (!err) {
			take_out(g, at);
			continue;
		}
		stuck = w->path;
		at = &w->next;
	}
}

/* ---- all of it ---- */

/* False: not yet. */
static bool send_by_flow(struct urxe_gate *g, const struct packet *pkt, uint64_t now)
	URXE_REQUIRES(g->lane)
{
	struct gate_path *p = find(g, &pkt->key);
	int err;

	if (!p)
		p = add(g, &pkt->key, now);
	if (!p)
		return true;
	g->last = p;
	p->used = now;
	/* The order is that of sending. */
	err = p->waiting ? EINPROGRESS : send_packet(g, p, pkt->bth, pkt->body, pkt->len, now);
	if (err == EINPROGRESS)
		put_aside(g, p, pkt);
	return err != EAGAIN;
}

static bool carry(struct urxe_gate *g, const struct urxe_frame *f, uint64_t now)
	URXE_REQUIRES(g->lane)
{
	struct packet pkt;

	if (!parse(&pkt, f)) {
		gate_count(g, URXE_GATE_out_bad, 1);
		return true;
	}
	if (!send_by_flow(g, &pkt, now))
		return false;
	if (urxe_bth_dqpn(pkt.bth) == 1)
		gate_cm_out(g, &pkt.key, pkt.body, pkt.len, now);
	return true;
}

void gate_send(struct urxe_gate *g, const struct gate_key *key, const uint8_t *data, uint32_t len,
	       uint64_t now)
{
	const struct packet pkt = {.key = *key, .bth = data, .body = data, .len = len};

	if (!send_by_flow(g, &pkt, now))
		gate_count(g, URXE_GATE_out_no_room, 1);
}

bool gate_out(struct urxe_gate *g, uint64_t now)
{
	unsigned begin;

	retry(g, now);
	if (now - g->swept >= SWEEP_NS)
		sweep(g, now, UNUSED_NS);
	if (g->stalled_at == g->stalled_end) {
		g->stalled_at = 0;
		g->stalled_end = INNER->rx(g->link, 0, g->stalled, GATE_BURST);
	}
	begin = g->stalled_at;
	while (g->stalled_at < g->stalled_end && carry(g, &g->stalled[g->stalled_at], now))
		g->stalled_at++;
	if (g->stalled_at == begin)
		return false;
	INNER->free(g->link, 0, g->stalled + begin, g->stalled_at - begin);
	return true;
}

void gate_out_fini(struct urxe_gate *g)
{
	struct urxe_hash_node *node;

	if (g->link)
		INNER->free(g->link, 0, g->stalled + g->stalled_at, g->stalled_end - g->stalled_at);
	while (g->waiting)
		take_out(g, &g->waiting);
	while ((node = urxe_hash_next(&g->paths, NULL)))
		forget(g, path_of(node));
	urxe_hash_fini(&g->paths);
}
