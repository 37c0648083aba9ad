/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Frames that are ours alone. What a packet socket receives goes up the kernel's own protocols,
 * too: IP looks for a route to an address that is not its own, finds none, and throws the packet
 * away, with what it has noted of it. That takes time for each frame, and RCU wakes its thread for
 * what is freed.
 *
 * So where we may (CAP_NET_ADMIN), a table of nf_tables at the interface's ingress, which lies
 * behind packet sockets, drops RoCEv2 to our addresses. It belongs to its netlink socket (Linux
 * 5.12) and goes with that, however the process ends.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <linux/if_ether.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <netinet/in.h>
#include <netlink/attr.h>
#include <netlink/msg.h>

#include "netio/config.h"
#include "netio/netlink.h"
#include "netio/packet.h"
#include "netio/stack.h"

#define CHAIN	   "ingress"
#define BATCH_MOST (32 * 1024) /* of URXE_CONFIG_MAX_IPS rules, half a KiB each */
#define RULE_MOST  2048

/* A batch that is written: all of it holds, or nothing. */
struct batch {
	char table[32];
	struct nl_sock *sock;
	size_t len;
	uint32_t seq;
	bool full;
	uint8_t buf[BATCH_MOST];
};

/* ---- messages ---- */

/* An nfnetlink message, of @type; NULL: no memory. */
static struct nl_msg *message(struct batch *b, int type, int flags, uint8_t family, uint16_t res)
{
	struct nfgenmsg head = {
		.nfgen_family = family, .version = NFNETLINK_V0, .res_id = htons(res)};
	struct nl_msg *m = nlmsg_alloc_size(RULE_MOST);

	if (m && nlmsg_put(m, 0, b->seq++, type, sizeof(head), NLM_F_REQUEST | flags))
		memcpy(nlmsg_data(nlmsg_hdr(m)), &head, sizeof(head));
	return m;
}

static struct nl_msg *create(struct batch *b, int type, int flags)
{
	return message(b, NFNL_SUBSYS_NFTABLES << 8 | type, NLM_F_CREATE | flags, NFPROTO_NETDEV,
		       0);
}

static void add(struct batch *b, struct nl_msg *m)
{
	uint32_t len = m ? nlmsg_hdr(m)->nlmsg_len : 0, room = NLMSG_ALIGN(len);

	if (!m || b->len + room > sizeof(b->buf)) {
		b->full = true;
	} else {
		memcpy(b->buf + b->len, nlmsg_hdr(m), len);
		b->len += room;
	}
	nlmsg_free(m);
}

static void add_edge(struct batch *b, int type)
{
	add(b, message(b, type, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES));
}

static void put_be32(struct nl_msg *m, int attr, uint32_t v)
{
	nla_put_u32(m, attr, htonl(v));
}

static void add_table(struct batch *b)
{
	struct nl_msg *m = create(b, NFT_MSG_NEWTABLE, NLM_F_ACK);

	if (m) {
		nla_put_string(m, NFTA_TABLE_NAME, b->table);
		put_be32(m, NFTA_TABLE_FLAGS, NFT_TABLE_F_OWNER);
	}
	add(b, m);
}

static void delete_table(struct batch *b)
{
	struct nl_msg *m = message(b, NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_DELTABLE, NLM_F_ACK,
				   NFPROTO_NETDEV, 0);

	if (m)
		nla_put_string(m, NFTA_TABLE_NAME, b->table);
	add(b, m);
}

static void add_chain(struct batch *b, const char *iface)
{
	struct nl_msg *m = create(b, NFT_MSG_NEWCHAIN, 0);
	struct nlattr *hook;

	if (m) {
		nla_put_string(m, NFTA_CHAIN_TABLE, b->table);
		nla_put_string(m, NFTA_CHAIN_NAME, CHAIN);
		nla_put_string(m, NFTA_CHAIN_TYPE, "filter");
		put_be32(m, NFTA_CHAIN_POLICY, NF_ACCEPT);
		hook = nla_nest_start(m, NFTA_CHAIN_HOOK);
		if (hook) {
			put_be32(m, NFTA_HOOK_HOOKNUM, NF_NETDEV_INGRESS);
			put_be32(m, NFTA_HOOK_PRIORITY, 0);
			nla_put_string(m, NFTA_HOOK_DEV, iface);
			nla_nest_end(m, hook);
		}
	}
	add(b, m);
}

/* ---- expressions of a rule ---- */

/* What it is, up to its data; end_expr() ends it. */
static struct nlattr *begin_expr(struct nl_msg *m, const char *name, struct nlattr **elem)
{
	*elem = nla_nest_start(m, NFTA_LIST_ELEM);
	nla_put_string(m, NFTA_EXPR_NAME, name);
	return nla_nest_start(m, NFTA_EXPR_DATA);
}

static void end_expr(struct nl_msg *m, struct nlattr *data, struct nlattr *elem)
{
	if (data)
		nla_nest_end(m, data);
	if (elem)
		nla_nest_end(m, elem);
}

/* The register is @value, or the rule ends here. */
static void put_compare(struct nl_msg *m, const void *value, int len)
{
	struct nlattr *elem, *data = begin_expr(m, "cmp", &elem), *to;

	put_be32(m, NFTA_CMP_SREG, NFT_REG_1);
	put_be32(m, NFTA_CMP_OP, NFT_CMP_EQ);
	to = nla_nest_start(m, NFTA_CMP_DATA);
	nla_put(m, NFTA_DATA_VALUE, len, value);
	if (to)
		nla_nest_end(m, to);
	end_expr(m, data, elem);
}

static void put_field(struct nl_msg *m, uint32_t base, uint32_t offset, const void *value, int len)
{
	struct nlattr *elem, *data = begin_expr(m, "payload", &elem);

	put_be32(m, NFTA_PAYLOAD_DREG, NFT_REG_1);
	put_be32(m, NFTA_PAYLOAD_BASE, base);
	put_be32(m, NFTA_PAYLOAD_OFFSET, offset);
	put_be32(m, NFTA_PAYLOAD_LEN, (uint32_t)len);
	end_expr(m, data, elem);
	put_compare(m, value, len);
}

static void put_ethertype(struct nl_msg *m, uint16_t type)
{
	struct nlattr *elem, *data = begin_expr(m, "meta", &elem);
	uint16_t be = htons(type);

	put_be32(m, NFTA_META_DREG, NFT_REG_1);
	put_be32(m, NFTA_META_KEY, NFT_META_PROTOCOL);
	end_expr(m, data, elem);
	put_compare(m, &be, sizeof(be));
}

static void put_drop(struct nl_msg *m)
{
	struct nlattr *elem, *data = begin_expr(m, "immediate", &elem), *to, *verdict;

	put_be32(m, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
	to = nla_nest_start(m, NFTA_IMMEDIATE_DATA);
	verdict = nla_nest_start(m, NFTA_DATA_VERDICT);
	put_be32(m, NFTA_VERDICT_CODE, NF_DROP);
	if (verdict)
		nla_nest_end(m, verdict);
	if (to)
		nla_nest_end(m, to);
	end_expr(m, data, elem);
}

/* What is not for the address ends at the second comparison. */
static void put_expressions(struct nl_msg *m, const uint8_t gid[16], bool ipv4,
			    const uint8_t mac[6])
{
	const uint8_t udp = IPPROTO_UDP;
	const uint16_t port = htons(URXE_UDP_DPORT);

	put_ethertype(m, ipv4 ? ETH_P_IP : ETH_P_IPV6);
	if (ipv4)
		put_field(m, NFT_PAYLOAD_NETWORK_HEADER, 16, gid + 12, 4);
	else
		put_field(m, NFT_PAYLOAD_NETWORK_HEADER, 24, gid, 16);
	put_field(m, NFT_PAYLOAD_NETWORK_HEADER, ipv4 ? 9 : 6, &udp, sizeof(udp));
	put_field(m, NFT_PAYLOAD_TRANSPORT_HEADER, 2, &port, sizeof(port));
	put_field(m, NFT_PAYLOAD_LL_HEADER, 0, mac, 6);
	put_drop(m);
}

static void add_rule(struct batch *b, const uint8_t gid[16], bool ipv4, const uint8_t mac[6])
{
	struct nl_msg *m = create(b, NFT_MSG_NEWRULE, NLM_F_APPEND | NLM_F_ACK);
	struct nlattr *list;

	if (m) {
		nla_put_string(m, NFTA_RULE_TABLE, b->table);
		nla_put_string(m, NFTA_RULE_CHAIN, CHAIN);
		list = nla_nest_start(m, NFTA_RULE_EXPRESSIONS);
		put_expressions(m, gid, ipv4, mac);
		if (list)
			nla_nest_end(m, list);
	}
	add(b, m);
}

/* ---- the table ---- */

/* 0 for an acknowledgement, or the error that the kernel has with a message. */
static int error_of(const struct nlmsghdr *h, ssize_t len)
{
	const struct nlmsgerr *e = nlmsg_data(h);

	if (len < (ssize_t)NLMSG_LENGTH(sizeof(*e)) || h->nlmsg_type != NLMSG_ERROR)
		return EPROTO;
	return -e->error;
}

/* Of the whole batch. It was answered when it was sent, each answer by itself. */
static int answer(struct nl_sock *s)
{
	_Alignas(struct nlmsghdr) uint8_t buf[4096];
	int fd = nl_socket_get_fd(s), ret = 0;
	ssize_t len = recv(fd, buf, sizeof(buf), MSG_DONTWAIT);

	if (len < 0)
		return errno;
	for (; !ret && len >= 0; len = recv(fd, buf, sizeof(buf), MSG_DONTWAIT))
		ret = error_of((const struct nlmsghdr *)buf, len);
	return ret;
}

static int send_batch(struct batch *b)
{
	if (b->full)
		return ENOMEM;
	return nl_sendto(b->sock, b->buf, b->len) < 0 ? errno : answer(b->sock);
}

/* The old one goes in the same batch: so it must be there, if only for that. */
static void replace_table(struct batch *b, const char *iface, const uint8_t mac[6],
			  const uint8_t (*gids)[16], unsigned n)
{
	snprintf(b->table, sizeof(b->table), "urxe-%u", nl_socket_get_local_port(b->sock));
	add_edge(b, NFNL_MSG_BATCH_BEGIN);
	add_table(b);
	delete_table(b);
	if (n) {
		add_table(b);
		add_chain(b, iface);
	}
	for (unsigned i = 0; i < n; i++)
		add_rule(b, gids[i], urxe_gid_is_v4(gids[i]), mac);
	add_edge(b, NFNL_MSG_BATCH_END);
}

struct nl_sock *packet_own_socket(void)
{
	return urxe_netlink_connect(NETLINK_NETFILTER);
}

int packet_own_frames(struct nl_sock *sock, const char *iface, const uint8_t mac[6],
		      const uint8_t (*gids)[16], unsigned n)
{
	struct batch *b = calloc(1, sizeof(*b));
	int ret;

	if (!b)
		return ENOMEM;
	b->sock = sock;
	replace_table(b, iface, mac, gids, n);
	ret = send_batch(b);
	free(b);
	return ret;
}

void packet_own_close(struct nl_sock *sock)
{
	nl_socket_free(sock);
}
