/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The link without a wire: carries nothing, so a port on it reaches its own addresses
 * alone. Frames to those never come here, except for their memory.
 */
#include "netio/stack.h"

#include <stdlib.h>

#include "netio/buf_pool.h"

struct loop_link {
	struct urxe_buf_pool pool;
};

static int loop_open(void *arg, const struct urxe_port_config *cfg, const uint8_t mac[6],
		     uint32_t l3_mtu, void **link, struct urxe_link_info *info)
{
	struct loop_link *l = calloc(1, sizeof(*l));

	if (!l) {
		urxe_err("%s: no memory", cfg->name);
		return ENOMEM;
	}
	l->pool.room = l3_mtu + ETH_LEN + VLAN_LEN;
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

	urxe_buf_fini(&l->pool);
	free(l);
}

static unsigned loop_alloc(void *link, unsigned lane, struct urxe_frame *f, unsigned n)
{
	struct loop_link *l = link;

	return urxe_buf_get(&l->pool, f, n);
}

static void loop_free(void *link, unsigned lane, struct urxe_frame *f, unsigned n)
{
	struct loop_link *l = link;

	for (unsigned i = 0; i < n; i++)
		urxe_buf_put(&l->pool, &f[i]);
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
	.no_wire = true,
	.forks = true,
	.open = loop_open,
	.close = loop_close,
	.alloc = loop_alloc,
	.free = loop_free,
	.rx = loop_rx,
	.tx = loop_tx,
	.up = loop_up,
};
