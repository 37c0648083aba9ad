/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A device with rdma_cm, and a crowd of peers whose frames are made by hand. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "cm_crowd.h"
#include "cm_device.h"
#include "forge.h"
#include "netio/stack.h"
#include "provider/gsi.h"

#define L3  ETH_LEN
#define MAD (URXE_BTH_LEN + URXE_DETH_LEN)

static const uint8_t own4[4] = {10, 1, 0, 1};

static struct crowd_peer *find(const struct crowd *c, const uint8_t gid[16])
{
	for (unsigned i = 0; i < c->n_peers; i++) {
		if (!memcmp(c->peers[i].gid, gid, 16))
			return &c->peers[i];
	}
	return NULL;
}

static void gid_mac(const struct crowd *c, const uint8_t gid[16], uint8_t mac[6])
{
	const struct crowd_peer *p = find(c, gid);

	mac[0] = p && p->moved ? 6 : 2;
	mac[1] = gid[11];
	memcpy(mac + 2, gid + 12, 4);
}

void crowd_gid(uint8_t gid[16], bool v4, uint64_t number)
{
	static const uint8_t net4[14] = {[10] = 0xff, [11] = 0xff, [12] = 10, [13] = 1};

	memset(gid, 0, 16);
	gid[0] = 0xfd;
	if (!v4) {
		urxe_put64(gid + 8, number);
		return;
	}
	memcpy(gid, net4, sizeof(net4));
	urxe_put16(gid + 14, (uint16_t)number);
}

void crowd_open(struct crowd *c, uint64_t seed)
{
	static const struct urxe_sim_params link = {.latency = 20000, .queue = 1u << 16};
	struct urxe_port_config cfg = {
		.name = "urxe0", .port = "sim", .mtu = 1024, .vlan = URXE_NO_VLAN};
	struct urxe_port_info info;

	memset(c, 0, sizeof(*c));
	c->rnd = seed;
	crowd_gid(cfg.ips[0].gid, true, 1);
	cfg.ips[0].ipv4 = true;
	cfg.ips[0].prefix_len = 16;
	crowd_gid(cfg.ips[1].gid, false, 1);
	cfg.ips[1].prefix_len = 64;
	cfg.num_ips = 2;
	CU_ASSERT_EQUAL_FATAL(urxe_sim_create(&c->sim, seed, false), 0);
	c->own = urxe_sim_end(c->sim, &link);
	c->end = urxe_sim_end(c->sim, &link);
	CU_ASSERT_FATAL(c->own && c->end);
	CU_ASSERT_EQUAL_FATAL(urxe_device_create(&c->dev, &cfg, &urxe_link_sim_ops, c->own, false),
			      0);
	c->ctx = ibv_open_device(&c->dev->vdev.device);
	CU_ASSERT_PTR_NOT_NULL_FATAL(c->ctx);
	cm_device = &c->dev->vdev.device;
	CU_ASSERT_EQUAL_FATAL(urxe_port_start(c->dev->port), 0);
	urxe_port_query(c->dev->port, &info);
	memcpy(c->mac, info.mac, 6);
}

/* ---- to the device ---- */

static void put(struct crowd *c, const uint8_t *frame, uint32_t len)
{
	c->bytes_in += len;
	CU_ASSERT_EQUAL_FATAL(urxe_sim_put(c->own, frame, len), 0);
}

static void put_arp(struct crowd *c, const uint8_t gid[16], uint8_t op)
{
	static const uint8_t head[7] = {0, 1, 0x08, 0x00, 6, 4, 0};
	uint8_t f[60] = {0}, *arp = f + ETH_LEN;

	memcpy(f, c->mac, 6);
	gid_mac(c, gid, f + 6);
	urxe_put16(f + 12, ETHERTYPE_ARP);
	memcpy(arp, head, sizeof(head));
	arp[7] = op;
	memcpy(arp + 8, f + 6, 6);
	memcpy(arp + 14, gid + 12, 4);
	if (op == 2)
		memcpy(arp + 18, c->mac, 6);
	memcpy(arp + 24, own4, sizeof(own4));
	put(c, f, sizeof(f));
}

/* A solicitation of ours (135), or the advertisement that answers one (136). */
static void put_nd(struct crowd *c, const uint8_t gid[16], uint8_t type)
{
	uint8_t f[ETH_LEN + IPV6_LEN + 32] = {0}, *ip = f + ETH_LEN, *nd = ip + IPV6_LEN;

	memcpy(f, c->mac, 6);
	gid_mac(c, gid, f + 6);
	urxe_put16(f + 12, ETHERTYPE_IPV6);
	ip[0] = 0x60;
	urxe_put16(ip + 4, 32);
	ip[6] = PROTO_ICMPV6;
	ip[7] = 255;
	memcpy(ip + 8, gid, 16);
	crowd_gid(ip + 24, false, 1);
	nd[0] = type;
	nd[4] = type == 136 ? 0x60 : 0;
	memcpy(nd + 8, type == 136 ? gid : ip + 24, 16);
	nd[24] = type == 136 ? 2 : 1;
	nd[25] = 1;
	memcpy(nd + 26, f + 6, 6);
	urxe_put16(nd + 2,
		   urxe_sum_fold(urxe_sum(urxe_sum_pseudo(ip, false, PROTO_ICMPV6, 32), nd, 32)));
	put(c, f, sizeof(f));
}

void crowd_meet(struct crowd *c, struct crowd_peer *p)
{
	if (urxe_gid_is_v4(p->gid))
		put_arp(c, p->gid, 1);
	else
		put_nd(c, p->gid, 135);
}

static void put_mad(struct crowd *c, const uint8_t gid[16], const uint8_t *mad)
{
	const struct urxe_bth bth = {.opcode = UD(SEND_ONLY), .pkey = URXE_DEFAULT_PKEY, .dqpn = 1};
	bool v4 = urxe_gid_is_v4(gid);
	uint8_t f[ETH_LEN + IPV6_LEN + UDP_LEN + MAD + URXE_MAD_LEN + URXE_ICRC_LEN] = {0},
								      *ip = f + L3;
	uint8_t *udp = ip + (v4 ? IPV4_LEN : IPV6_LEN), *b = udp + UDP_LEN;
	uint32_t len = (uint32_t)(b - f) + MAD + URXE_MAD_LEN + URXE_ICRC_LEN;

	memcpy(f, c->mac, 6);
	gid_mac(c, gid, f + 6);
	urxe_put16(f + 12, v4 ? ETHERTYPE_IPV4 : ETHERTYPE_IPV6);
	ip[0] = v4 ? 0x45 : 0x60;
	ip[v4 ? 8 : 7] = 64;
	ip[v4 ? 9 : 6] = PROTO_UDP;
	if (v4) {
		memcpy(ip + 12, gid + 12, 4);
		memcpy(ip + 16, own4, sizeof(own4));
	} else {
		memcpy(ip + 8, gid, 16);
		crowd_gid(ip + 24, false, 1);
	}
	urxe_put16(udp, 0xc123);
	urxe_put16(udp + 2, URXE_UDP_DPORT);
	urxe_bth_put(b, &bth);
	urxe_deth_put(b + URXE_BTH_LEN, URXE_GSI_QKEY, 1);
	memcpy(b + MAD, mad, URXE_MAD_LEN);
	raw_reseal(f, len);
	put(c, f, len);
}

void crowd_req(struct crowd *c, const uint8_t gid[16], uint32_t comm, uint32_t qpn)
{
	struct urxe_ip_cm_hdr h = {.ip_version = urxe_gid_is_v4(gid) ? 4 : 6, .src_port = 4000};
	uint8_t m[URXE_MAD_LEN];

	memcpy(h.src, gid, 16);
	crowd_gid(h.dst, h.ip_version == 4, 1);
	urxe_mad_init(m, URXE_MAD_REQ, comm);
	urxe_mad_put(m, URXE_REQ_LOCAL_COMM_ID, comm);
	urxe_mad_put(m, URXE_REQ_SERVICE_ID, 0x1060000 + CROWD_PORT);
	urxe_mad_put(m, URXE_REQ_LOCAL_CA_GUID, 0x1234);
	urxe_mad_put(m, URXE_REQ_LOCAL_QPN, qpn);
	urxe_mad_put(m, URXE_REQ_PATH_MTU, IBV_MTU_1024);
	memcpy(urxe_mad_bytes(m, URXE_REQ_PRIMARY_LOCAL_GID), gid, 16);
	memcpy(urxe_mad_bytes(m, URXE_REQ_PRIMARY_REMOTE_GID), h.dst, 16);
	urxe_ip_cm_hdr_put(urxe_mad_bytes(m, URXE_REQ_PRIVATE_DATA), &h);
	put_mad(c, gid, m);
}

void crowd_answer(struct crowd *c, const struct crowd_peer *p, enum urxe_mad_attr attr)
{
	uint8_t m[URXE_MAD_LEN];

	urxe_mad_init(m, attr, p->comm);
	urxe_mad_put(m, URXE_RTU_LOCAL_COMM_ID, p->comm);
	urxe_mad_put(m, URXE_RTU_REMOTE_COMM_ID, p->their);
	put_mad(c, p->gid, m);
}

/* ---- from the device ---- */

static void hear_mad(struct crowd *c, const uint8_t gid[16], const uint8_t *f, const uint8_t *m)
{
	uint32_t comm = urxe_mad_get32(m, URXE_REP_REMOTE_COMM_ID);
	struct crowd_peer *p = find(c, gid);
	uint8_t mac[6];

	gid_mac(c, gid, mac);
	if (memcmp(f, mac, 6))
		return;
	if (p)
		p->reqs += urxe_mad_get16(m, URXE_HDR_ATTR_ID) == URXE_MAD_REQ;
	for (unsigned i = 0; i < c->n_peers; i++) {
		p = &c->peers[i];
		if (memcmp(p->gid, gid, 16) || p->comm != comm)
			continue;
		p->their = urxe_mad_get32(m, URXE_REP_LOCAL_COMM_ID);
		switch (urxe_mad_get16(m, URXE_HDR_ATTR_ID)) {
		case URXE_MAD_REP:
			p->reps++;
			break;
		case URXE_MAD_DREQ:
			p->dreqs++;
			break;
		case URXE_MAD_MRA:
			p->mras++;
			break;
		case URXE_MAD_REJ:
			p->rejs++;
			p->reason = urxe_mad_get16(m, URXE_REJ_REASON);
			break;
		default:
			break;
		}
	}
}

static void hear(struct crowd *c, const uint8_t *f, uint32_t len)
{
	const uint8_t *ip = f + L3;
	const struct crowd_peer *p;
	uint8_t gid[16];

	c->bytes_out += len;
	c->frames_out++;
	if (urxe_get16(f + 12) == ETHERTYPE_ARP) {
		if (ip[7] != 1 || !memcmp(ip + 14, ip + 24, 4) || !memcmp(ip + 14, "\0\0\0\0", 4))
			return; /* an answer, or an announcement */
		c->questions++;
		urxe_gid_from_v4(gid, ip + 24);
		p = find(c, gid);
		if (p && p->lives)
			put_arp(c, gid, 2);
	} else if (urxe_get16(f + 12) == ETHERTYPE_IPV4 && ip[9] == PROTO_UDP &&
		   !memcmp(ip + 12, own4, sizeof(own4))) {
		urxe_gid_from_v4(gid, ip + 16);
		hear_mad(c, gid, f, ip + IPV4_LEN + UDP_LEN + MAD);
	} else if (urxe_get16(f + 12) == ETHERTYPE_IPV6 && ip[6] == PROTO_UDP) {
		hear_mad(c, ip + 24, f, ip + IPV6_LEN + UDP_LEN + MAD);
	} else if (urxe_get16(f + 12) == ETHERTYPE_IPV6 && ip[6] == PROTO_ICMPV6 &&
		   ip[IPV6_LEN] == 135 && ip[8] == 0xfd) {
		c->questions++;
		p = find(c, ip + IPV6_LEN + 8);
		if (p && p->lives)
			put_nd(c, p->gid, 136);
	}
}

void crowd_turn(struct crowd *c)
{
	uint8_t f[2048];
	uint32_t len;

	/* A pending send is something to do, for as long as its neighbour is not known. */
	for (unsigned i = 0; i < 8; i++)
		urxe_gsi_drive(c->ctx);
	while ((len = urxe_sim_recv(c->end, f, sizeof(f))))
		hear(c, f, len);
}

void crowd_run(struct crowd *c, uint64_t ns, uint64_t step)
{
	for (uint64_t end = urxe_sim_now(c->sim) + ns; urxe_sim_now(c->sim) < end;) {
		crowd_turn(c);
		urxe_sim_advance(c->sim, urxe_sim_now(c->sim) + step);
	}
	crowd_turn(c);
}

/* ---- the device's application ---- */

struct rdma_cm_id *crowd_listen(struct rdma_event_channel **ch, int backlog)
{
	struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htobe16(CROWD_PORT)};
	struct rdma_cm_id *id;

	*ch = rdma_create_event_channel();
	CU_ASSERT_FATAL(*ch && !fcntl((*ch)->fd, F_SETFL, O_NONBLOCK));
	CU_ASSERT_EQUAL_FATAL(rdma_create_id(*ch, &id, NULL, RDMA_PS_TCP), 0);
	CU_ASSERT_EQUAL_FATAL(rdma_bind_addr(id, (struct sockaddr *)&any), 0);
	CU_ASSERT_EQUAL_FATAL(rdma_listen(id, backlog), 0);
	return id;
}

bool crowd_event(struct rdma_event_channel *ch, struct rdma_cm_id **id,
		 enum rdma_cm_event_type *type)
{
	struct rdma_cm_event *ev;

	if (rdma_get_cm_event(ch, &ev))
		return false;
	*id = ev->id;
	*type = ev->event;
	rdma_ack_cm_event(ev);
	return true;
}
