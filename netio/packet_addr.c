/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The own addresses of a port on an interface of the kernel's, as they come and go: no other
 * process has them, and the kernel's IP is kept from what comes for them (packet_own.c).
 */
#include <errno.h>
#include <string.h>

#include "netio/claim.h"
#include "netio/kernel_if.h"
#include "netio/packet.h"
#include "urxe/gid.h"

int packet_addrs_add(struct packet_addrs *a, unsigned ifindex, const uint8_t gid[16], char *err,
		     size_t errlen)
{
	struct packet_addr *at;
	int ret = ENOSPC;

	urxe_mutex_lock(&a->lock);
	if (a->num < URXE_CONFIG_MAX_IPS) {
		at = &a->addr[a->num];
		ret = urxe_claim_address(ifindex, gid, &at->claim, err, errlen);
	}
	if (!ret) {
		memcpy(at->gid, gid, 16);
		a->num++;
		a->news = true;
	}
	urxe_mutex_unlock(&a->lock);
	return ret;
}

static void put(struct packet_addr *at)
{
	if (at->claim >= 0)
		urxe_claim_put(at->claim);
}

void packet_addrs_del(struct packet_addrs *a, const uint8_t gid[16])
{
	urxe_mutex_lock(&a->lock);
	for (unsigned i = 0; i < a->num; i++) {
		if (memcmp(a->addr[i].gid, gid, 16))
			continue;
		put(&a->addr[i]);
		a->addr[i] = a->addr[--a->num];
		a->news = true;
		break;
	}
	urxe_mutex_unlock(&a->lock);
}

bool packet_addrs_news(struct packet_addrs *a)
{
	bool news;

	urxe_mutex_lock(&a->lock);
	news = a->news;
	urxe_mutex_unlock(&a->lock);
	return news;
}

/* Those that the kernel has not got itself. */
static unsigned ours_alone(struct packet_addrs *a, uint8_t (*gids)[16])
{
	unsigned num, n = 0;

	urxe_mutex_lock(&a->lock);
	a->news = false;
	num = a->num;
	for (unsigned i = 0; i < num; i++)
		memcpy(gids[i], a->addr[i].gid, 16);
	urxe_mutex_unlock(&a->lock);
	for (unsigned i = 0; i < num; i++) {
		if (!urxe_kernel_if_owns(gids[i], urxe_gid_is_v4(gids[i])))
			memmove(gids[n++], gids[i], 16);
	}
	return n;
}

int packet_addrs_own(struct packet_addrs *a, const char *iface, const uint8_t mac[6])
{
	uint8_t gids[URXE_CONFIG_MAX_IPS][16];
	unsigned n = ours_alone(a, gids);
	int ret = 0;

	/* Without a rule there is no table: to make one and to end it takes the kernel a while. */
	if (n || a->rules)
		ret = packet_own_frames(a->own, iface, mac, (const uint8_t(*)[16])gids, n);
	if (!ret) {
		a->rules = n;
		return 0;
	}
	packet_own_close(a->own);
	a->own = NULL;
	return ret;
}

void packet_addrs_fini(struct packet_addrs *a)
{
	packet_own_close(a->own);
	while (a->num)
		put(&a->addr[--a->num]);
	urxe_mutex_fini(&a->lock);
}
