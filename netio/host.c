/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The host's addresses, by two netlink sockets: one answers questions, the other one only says that
 * something has changed. Then all is asked anew: changes are rare, and what was missed (ENOBUFS)
 * does not matter so.
 */
#include "netio/host.h"

#include <errno.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "netio/config.h"
#include "netio/netlink.h"
#include "urxe/gid.h"

#define HOST_MAX 1024 /* addresses that are looked at */
#define DUMPS	 8    /* of a list that changes while it is read; the change is news as well */
#define IF_ROOM	 16   /* interfaces that there is room for at first */

struct urxe_host {
	struct nl_sock *ask, *news;
	pid_t pid;		/* whose sockets these are */
	char only[IF_NAMESIZE]; /* "": all interfaces */
};

/* An address, and what puts it before others or behind. */
struct found {
	struct urxe_host_addr addr;
	bool v4, loopback, link_local, second_choice;
	int ifindex;
	unsigned order; /* as the kernel named it */
};

struct search {
	struct found *list;
	unsigned n;
	int *up; /* interfaces that are */
	unsigned nup, up_room;
	bool no_memory;
	int only;	   /* an interface; 0: all; -1: one that is not there */
	int gateway_if[2]; /* of the default route, by IPv6 and IPv4; 0: none */
};

static int to_errno(int nl)
{
	switch (-nl) {
	case NLE_NOMEM:
		return ENOMEM;
	case NLE_PERM:
	case NLE_NOACCESS:
		return EPERM;
	default:
		return EIO;
	}
}

static void disconnect(struct urxe_host *h)
{
	nl_socket_free(h->ask);
	nl_socket_free(h->news);
	h->ask = h->news = NULL;
}

static int reconnect(struct urxe_host *h)
{
	int err = 0;

	disconnect(h);
	h->pid = getpid();
	h->news = urxe_netlink_connect(NETLINK_ROUTE);
	h->ask = urxe_netlink_connect(NETLINK_ROUTE);
	if (!h->news || !h->ask)
		return errno ? errno : ENOMEM;
	/* An answer is the end of it: no acknowledgement comes behind. */
	nl_socket_disable_auto_ack(h->ask);
	nl_socket_disable_seq_check(h->news);
	err = nl_socket_add_memberships(h->news, RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR,
					RTNLGRP_IPV6_IFADDR, 0);
	if (!err)
		err = nl_socket_set_nonblocking(h->news);
	return err ? to_errno(err) : 0;
}

int urxe_host_open(struct urxe_host **host)
{
	struct urxe_host *h = calloc(1, sizeof(*h));
	int err;

	if (!h)
		return ENOMEM;
	err = reconnect(h);
	if (err) {
		urxe_host_close(h);
		return err;
	}
	*host = h;
	return 0;
}

void urxe_host_close(struct urxe_host *h)
{
	if (!h)
		return;
	disconnect(h);
	free(h);
}

void urxe_host_only(struct urxe_host *h, const char *ifname)
{
	snprintf(h->only, sizeof(h->only), "%s", ifname);
}

bool urxe_host_changed(struct urxe_host *h)
{
	char drop[512];
	bool any = false;
	ssize_t n;

	if (h->pid != getpid() || !h->news)
		return !reconnect(h);
	for (;;) {
		n = recv(nl_socket_get_fd(h->news), drop, sizeof(drop), MSG_DONTWAIT | MSG_TRUNC);
		if (n < 0 && errno != ENOBUFS)
			return any;
		any = true;
	}
}

/* ---- the default route ---- */

static int take_oif(struct nl_msg *msg, void *arg)
{
	struct nlattr *attr = nlmsg_find_attr(nlmsg_hdr(msg), sizeof(struct rtmsg), RTA_OIF);

	if (nlmsg_hdr(msg)->nlmsg_type == RTM_NEWROUTE && attr)
		*(int *)arg = (int)nla_get_u32(attr);
	return NL_OK;
}

/* The interface towards an address that is nobody's (RFC 5737, RFC 3849); 0: there is no way. */
static int default_if(struct urxe_host *h, bool v4)
{
	static const uint8_t to4[4] = {203, 0, 113, 1};
	static const uint8_t to6[16] = {0x20, 0x01, 0x0d, 0xb8, [15] = 1};
	struct rtmsg rt = {
		.rtm_family = v4 ? AF_INET : AF_INET6,
		.rtm_dst_len = v4 ? 32 : 128,
	};
	struct nl_msg *msg = nlmsg_alloc_simple(RTM_GETROUTE, 0);
	int oif = 0, err;

	if (!msg)
		return 0;
	err = nlmsg_append(msg, &rt, sizeof(rt), NLMSG_ALIGNTO);
	if (!err)
		err = nla_put(msg, RTA_DST, v4 ? sizeof(to4) : sizeof(to6), v4 ? to4 : to6);
	nl_socket_modify_cb(h->ask, NL_CB_VALID, NL_CB_CUSTOM, take_oif, &oif);
	if (!err && nl_send_auto(h->ask, msg) >= 0)
		nl_recvmsgs_default(h->ask);
	nlmsg_free(msg);
	return oif;
}

/* ---- lists ---- */

/* All that the kernel has of a kind, to @take. 0 or errno. */
static int dump(struct urxe_host *h, int type, void *request, size_t len, nl_recvmsg_msg_cb_t take,
		struct search *s)
{
	int err = nl_socket_modify_cb(h->ask, NL_CB_VALID, NL_CB_CUSTOM, take, s);

	if (!err)
		err = nl_send_simple(h->ask, type, NLM_F_DUMP, request, len);
	if (err >= 0)
		err = nl_recvmsgs_default(h->ask);
	return err;
}

/* ---- interfaces ---- */

static int take_link(struct nl_msg *msg, void *arg)
{
	struct nlmsghdr *n = nlmsg_hdr(msg);
	const struct ifinfomsg *link = nlmsg_data(n);
	struct search *s = arg;
	int *more;

	if (n->nlmsg_type != RTM_NEWLINK || !nlmsg_valid_hdr(n, sizeof(*link)) ||
	    !(link->ifi_flags & IFF_UP))
		return NL_OK;
	if (s->nup == s->up_room) {
		unsigned room = s->up_room ? 2 * s->up_room : IF_ROOM;

		more = reallocarray(s->up, room, sizeof(*s->up));
		if (!more) {
			s->no_memory = true;
			return NL_OK; /* the rest of the answer is to be read all the same */
		}
		s->up = more;
		s->up_room = room;
	}
	s->up[s->nup++] = link->ifi_index;
	return NL_OK;
}

static bool is_up(const struct search *s, int ifindex)
{
	for (unsigned i = 0; i < s->nup; i++) {
		if (s->up[i] == ifindex)
			return true;
	}
	return false;
}

/* Without statistics, which are most of what there is to say of an interface. */
static int dump_links(struct urxe_host *h, struct search *s)
{
	struct {
		struct ifinfomsg link;
		struct nlattr head;
		uint32_t mask;
	} request = {.head = {sizeof(request.head) + sizeof(request.mask), IFLA_EXT_MASK},
		     .mask = RTEXT_FILTER_SKIP_STATS};

	s->nup = 0;
	return dump(h, RTM_GETLINK, &request, sizeof(request), take_link, s);
}

/* ---- addresses ---- */

/* The rest of the port takes addresses that a configuration might name, and loopback. */
static bool usable(const struct found *f)
{
	struct urxe_config_ip ip = {.prefix_len = f->addr.prefix_len, .ipv4 = f->v4};

	memcpy(ip.gid, f->addr.gid, sizeof(ip.gid));
	return f->loopback || urxe_config_ip_valid(&ip);
}

/* Our own address of a message, and how long its prefix is; NULL: it names none. */
static const uint8_t *own_addr(struct nlattr *attrs[], const struct ifaddrmsg *a, uint8_t *prefix)
{
	const struct nlattr *addr = attrs[IFA_ADDRESS], *local = attrs[IFA_LOCAL];
	int len = a->ifa_family == AF_INET ? 4 : 16;

	*prefix = a->ifa_prefixlen;
	if ((addr && nla_len(addr) != len) || (local && nla_len(local) != len))
		return NULL;
	/* The prefix is that of IFA_ADDRESS, which is the other end's where the two differ. */
	if (addr && local && memcmp(nla_data(addr), nla_data(local), (size_t)len))
		*prefix = (uint8_t)(8 * len);
	if (!local)
		local = addr;
	return local ? nla_data(local) : NULL;
}

static int take_addr(struct nl_msg *msg, void *arg)
{
	struct nlmsghdr *n = nlmsg_hdr(msg);
	const struct ifaddrmsg *a = nlmsg_data(n);
	struct nlattr *attrs[IFA_MAX + 1];
	struct search *s = arg;
	struct found *f = &s->list[s->n];
	const uint8_t *own;
	uint32_t flags;
	uint8_t prefix;

	if (n->nlmsg_type != RTM_NEWADDR || s->n == HOST_MAX ||
	    nlmsg_parse(n, sizeof(*a), attrs, IFA_MAX, NULL) ||
	    (a->ifa_family != AF_INET && a->ifa_family != AF_INET6))
		return NL_OK;
	own = own_addr(attrs, a, &prefix);
	flags = attrs[IFA_FLAGS] ? nla_get_u32(attrs[IFA_FLAGS]) : a->ifa_flags;
	if (!own || (a->ifa_family == AF_INET6 && flags & (IFA_F_TENTATIVE | IFA_F_DADFAILED)))
		return NL_OK;
	memset(f, 0, sizeof(*f));
	f->v4 = a->ifa_family == AF_INET;
	f->ifindex = (int)a->ifa_index;
	f->order = s->n;
	if (f->v4)
		urxe_gid_from_v4(f->addr.gid, own);
	else
		memcpy(f->addr.gid, own, sizeof(f->addr.gid));
	f->addr.prefix_len = prefix;
	f->loopback = urxe_gid_is_loopback(f->addr.gid);
	f->link_local = !f->v4 && f->addr.gid[0] == 0xfe && (f->addr.gid[1] & 0xc0) == 0x80;
	f->addr.scope_id = f->link_local ? (uint32_t)f->ifindex : 0;
	/* In IPv6 "secondary" is "temporary": another one is there for longer. */
	f->second_choice = flags & (IFA_F_SECONDARY | IFA_F_DEPRECATED);
	if ((!s->only || s->only == f->ifindex) && is_up(s, f->ifindex) && usable(f))
		s->n++;
	return NL_OK;
}

static int dump_addrs(struct urxe_host *h, struct search *s)
{
	struct ifaddrmsg request = {.ifa_family = AF_UNSPEC};

	s->n = 0;
	return dump(h, RTM_GETADDR, &request, sizeof(request), take_addr, s);
}

static int rank(const struct search *s, const struct found *f)
{
	return (f->v4 ? 0 : 16) + (f->loopback ? 8 : 0) + (f->link_local ? 4 : 0) +
	       (f->ifindex == s->gateway_if[f->v4] ? 0 : 2) + (f->second_choice ? 1 : 0);
}

static bool before(const struct search *s, const struct found *a, const struct found *b)
{
	int ra = rank(s, a), rb = rank(s, b);

	if (ra != rb)
		return ra < rb;
	return a->ifindex != b->ifindex ? a->ifindex < b->ifindex : a->order < b->order;
}

static void sort(struct search *s)
{
	for (unsigned i = 1; i < s->n; i++) {
		struct found f = s->list[i];
		unsigned j = i;

		for (; j && before(s, &f, &s->list[j - 1]); j--)
			s->list[j] = s->list[j - 1];
		s->list[j] = f;
	}
}

static bool listed(const struct urxe_host_addr *list, unsigned n, const uint8_t gid[16])
{
	for (unsigned i = 0; i < n; i++) {
		if (!memcmp(list[i].gid, gid, 16))
			return true;
	}
	return false;
}

/* Sorted, so that a family's loopback addresses come when it is known whether it has others. */
static unsigned choose(const struct search *s, struct urxe_host_addr *list, unsigned max)
{
	static const struct found lo = {.v4 = true,
					.loopback = true,
					.addr = {{[10] = 0xff, [11] = 0xff, 127, 0, 0, 1}, 8, 0}};
	unsigned n = 0, of[2] = {0, 0};

	for (unsigned i = 0; i < s->n; i++) {
		const struct found *f = &s->list[i];

		/* One place is kept for a family that has loopback alone. */
		if ((f->loopback ? of[f->v4] : n + 1 >= max) || n == max ||
		    listed(list, n, f->addr.gid))
			continue;
		list[n++] = f->addr;
		of[f->v4]++;
	}
	/* A network namespace whose lo is down: a device has an address all the same. */
	if (!n && max)
		list[n++] = lo.addr;
	return n;
}

static int search(struct urxe_host *h, struct search *s)
{
	int links = -NLE_DUMP_INTR, addrs = 0;

	if (h->only[0])
		s->only = (int)if_nametoindex(h->only) ?: -1;
	s->gateway_if[true] = default_if(h, true);
	s->gateway_if[false] = default_if(h, false);
	for (int i = 0; i < DUMPS && (links == -NLE_DUMP_INTR || addrs == -NLE_DUMP_INTR); i++) {
		links = dump_links(h, s);
		addrs = dump_addrs(h, s);
	}
	if (s->no_memory)
		return ENOMEM;
	if (links && links != -NLE_DUMP_INTR)
		return to_errno(links);
	return addrs && addrs != -NLE_DUMP_INTR ? to_errno(addrs) : 0;
}

int urxe_host_read(struct urxe_host *h, struct urxe_host_addr *list, unsigned max, unsigned *n)
{
	/* Not zeroed: most of it is never used, and each page that is touched takes time. */
	struct search s = {.list = malloc((HOST_MAX + 1) * sizeof(*s.list))};
	int err = ENOMEM;

	if (s.list) {
		err = h->pid != getpid() || !h->ask ? reconnect(h) : 0;
		if (!err)
			err = search(h, &s);
	}
	if (!err) {
		sort(&s);
		*n = choose(&s, list, max);
	}
	free(s.list);
	free(s.up);
	return err;
}
