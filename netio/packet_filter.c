/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the kernel's own traffic on an interface that it shares with us must not cost: a copy, a
 * slot of the ring, a wake-up. The kernel has taken a VLAN tag out of the frame before it looks.
 */
#include <linux/if_ether.h>

#include "netio/packet.h"

#define IPV4	   14 /* where the IP header is */
#define IPV4_PROTO (IPV4 + 9)
#define IPV4_FRAG  (IPV4 + 6)
#define IPV6_NEXT  (IPV4 + 6)
#define IPV6_DPORT (IPV4 + 40 + 2)
#define ROCE_PORT  4791
#define OFFSET	   0x1fff /* of a fragment */

/* A jump goes to one of these, which is found when the program is complete. */
enum {
	NEXT,
	YES,
	NO,
	GROUP, /* the destination is a group, or us */
	IP4,
	IP6,
	UDP4,
	UDP6,
	LABELS
};

struct builder {
	struct sock_filter *prog;
	unsigned n;
	unsigned at[LABELS];
};

static void load(struct builder *b, unsigned size, uint32_t at)
{
	b->prog[b->n++] = (struct sock_filter)BPF_STMT(BPF_LD | size | BPF_ABS, at);
}

/* @yes, @no: labels, until resolve() */
static void jump(struct builder *b, unsigned how, uint32_t k, uint8_t yes, uint8_t no)
{
	b->prog[b->n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | how | BPF_K, k, yes, no);
}

static void label(struct builder *b, unsigned which)
{
	b->at[which] = b->n;
}

static void verdict(struct builder *b, unsigned which, uint32_t bytes)
{
	label(b, which);
	b->prog[b->n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, bytes);
}

static void resolve(struct builder *b)
{
	for (unsigned i = 0; i < b->n; i++) {
		struct sock_filter *f = &b->prog[i];

		if (BPF_CLASS(f->code) != BPF_JMP)
			continue;
		f->jt = (uint8_t)(f->jt == NEXT ? 0 : b->at[f->jt] - i - 1);
		f->jf = (uint8_t)(f->jf == NEXT ? 0 : b->at[f->jf] - i - 1);
	}
}

static void to_us(struct builder *b, const uint8_t mac[6])
{
	load(b, BPF_B, 0);
	jump(b, BPF_JSET, 1, GROUP, NEXT);
	load(b, BPF_W, 0);
	jump(b, BPF_JEQ,
	     (uint32_t)mac[0] << 24 | (uint32_t)mac[1] << 16 | (uint32_t)mac[2] << 8 | mac[3], NEXT,
	     NO);
	load(b, BPF_H, 4);
	jump(b, BPF_JEQ, (uint32_t)mac[4] << 8 | mac[5], NEXT, NO);
}

static void protocols(struct builder *b)
{
	label(b, GROUP);
	load(b, BPF_H, 12);
	jump(b, BPF_JEQ, ETH_P_IP, IP4, NEXT);
	jump(b, BPF_JEQ, ETH_P_IPV6, IP6, NEXT);
	jump(b, BPF_JEQ, ETH_P_8021Q, YES, NEXT); /* one more tag: the stack counts it */
	jump(b, BPF_JEQ, ETH_P_ARP, YES, NO);

	label(b, IP4);
	load(b, BPF_B, IPV4_PROTO);
	jump(b, BPF_JEQ, 17, UDP4, NEXT);
	jump(b, BPF_JEQ, 1, YES, NEXT);
	jump(b, BPF_JEQ, 2, YES, NO);

	label(b, UDP4);
	load(b, BPF_H, IPV4_FRAG);
	jump(b, BPF_JSET, OFFSET, NO, NEXT);
	b->prog[b->n++] = (struct sock_filter)BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, IPV4);
	b->prog[b->n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_H | BPF_IND, IPV4 + 2);
	jump(b, BPF_JEQ, ROCE_PORT, YES, NO);

	label(b, IP6);
	load(b, BPF_B, IPV6_NEXT);
	jump(b, BPF_JEQ, 17, UDP6, NEXT);
	jump(b, BPF_JEQ, 58, YES, NEXT);
	jump(b, BPF_JEQ, 0, YES, NO); /* hop-by-hop options: MLD */

	label(b, UDP6);
	load(b, BPF_H, IPV6_DPORT);
	jump(b, BPF_JEQ, ROCE_PORT, YES, NO);
}

unsigned packet_filter(struct sock_filter prog[PACKET_FILTER_MAX], const uint8_t mac[6], bool all)
{
	struct builder b = {.prog = prog};

	/* What this machine sends by the interface. */
	load(&b, BPF_B, (uint32_t)(SKF_AD_OFF + SKF_AD_PKTTYPE));
	jump(&b, BPF_JEQ, PACKET_OUTGOING, NO, all ? YES : NEXT);
	if (!all) {
		to_us(&b, mac);
		protocols(&b);
	}
	verdict(&b, YES, UINT32_MAX);
	verdict(&b, NO, 0);
	resolve(&b);
	return b.n;
}
