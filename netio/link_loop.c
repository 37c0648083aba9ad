/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The link without a wire: carries nothing, so a port on it reaches its own addresses
 * alone. Frames to those never come here, except for their memory.
 */
#include "netio/stack.h"

#include <stdlib.h>

struct loop_link {
	uint32_t room;
	unsigned num_free;
	struct loop_buf *free;
};

struct loop_buf {
	struct loop_buf *next;
	uint8_t data[];
};

#define MAX_FREE 512

static int loop_open(void *arg, const struct urxe_port_config *cfg, const uint8_t mac[6],
		     uint32_t l3_mtu, void **link, struct urxe_link_info *info)
{
	struct loop_link *l = calloc(1, sizeof(*l));

	if (!l) {
		urxe_err("%s: no memory", cfg->name);
		return ENOMEM;
	}
	l->room = l3_mtu + ETH_LEN + VLAN_LEN;
	memset(info, 0, sizeof(*info));
	strcpy(info->driver, "loop");
	memcpy(info->mac, mac, 6);
	info->max_l3_mtu = l3_mtu;
	info->lanes = 1;
	*link = l;
	return 0;
}

static void loop_close(void *link)
{
	struct loop_link *l = link;
	struct loop_buf *b;

	while ((b = l->free)) {
		l->free = b->next;
		free(b);
	}
	free(l);
}

static unsigned loop_alloc(void *link, unsigned lane, struct urxe_frame *f, unsigned n)
{
	struct loop_link *l = link;
	unsigned i;

	for (i = 0; i < n; i++) {
		struct loop_buf *b = l->free;

		if (b) {
			l->free = b->next;
			l->num_free--;
		} else {
			b = malloc(sizeof(*b) + l->room);
			if (!b)
				break;
		}
		f[i] = (struct urxe_frame){.data = b->data, .room = l->room, .buf = b};
	}
	return i;
}

static void loop_free(void *link, unsigned lane, struct urxe_frame *f, unsigned n)
{
	struct loop_link *l = link;

	for (unsigned i = 0; i < n; i++) {
		struct loop_buf *b = f[i].buf;

		if (l->num_free >= MAX_FREE) {
			free(b);
			continue;
		}
		b->next = l->free;
		l->free = b;
		l->num_free++;
	}
}

static unsigned loop_rx(void *link, unsigned lane, struct urxe_frame *f, unsigned n)
{
	return 0;
}

static unsigned loop_tx(void *link, unsigned lane, struct urxe_frame *f, unsigned n)
{
	loop_free(link, lane, f, n);
	return n;
}

static bool loop_up(void *link)
{
	return true;
}

const struct urxe_link_ops urxe_link_loop_ops = {
	.name = "loop",
	.open = loop_open,
	.close = loop_close,
	.alloc = loop_alloc,
	.free = loop_free,
	.rx = loop_rx,
	.tx = loop_tx,
	.up = loop_up,
};
