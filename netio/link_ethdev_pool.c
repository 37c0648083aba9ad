/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The buffers of a DPDK port. Where there are no huge pages their memory is made by one system
 * call: to write to each of some 5,000 pages for the first time takes most of a port's start, and
 * several times as long under a hypervisor.
 */
#include "netio/ethdev.h"

#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_memzone.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define CACHE 256
/* Last in, first out: what was used last is in the processor's cache. */
#define OPS "stack"

static void free_zone(struct rte_mempool_memhdr *hdr, void *zone)
{
	rte_memzone_free(zone);
}

/* A kernel before Linux 5.14 does not know it: then the pages are made one by one. */
static void make_pages(const struct rte_memzone *mz)
{
	size_t before = (uintptr_t)mz->addr & ((size_t)sysconf(_SC_PAGESIZE) - 1);

	(void)madvise((char *)mz->addr - before, mz->len + before, MADV_POPULATE_WRITE);
}

/* All of it is in one piece, which is at the same address for everybody. */
static bool fill(struct rte_mempool *mp, const char *name, unsigned n)
{
	const struct rte_memzone *mz;
	size_t least, align;
	int ret;
	ssize_t len = rte_mempool_op_calc_mem_size_default(mp, n, 0, &least, &align);

	if (len < 0)
		return false;
	mz = rte_memzone_reserve_aligned(name, (size_t)len, SOCKET_ID_ANY, 0, (unsigned)align);
	if (!mz)
		return false;
	make_pages(mz);
	ret = rte_mempool_populate_iova(mp, mz->addr, mz->iova, mz->len, free_zone,
					(void *)(uintptr_t)mz);
	if (ret <= 0)
		rte_memzone_free(mz);
	return ret == (int)n;
}

/* NULL: there is no such piece. */
static struct rte_mempool *in_one_piece(const char *name, unsigned n, uint16_t room)
{
	struct rte_pktmbuf_pool_private priv = {.mbuf_data_room_size = room};
	struct rte_mempool *mp = rte_mempool_create_empty(name, n, sizeof(struct rte_mbuf) + room,
							  CACHE, sizeof(priv), SOCKET_ID_ANY, 0);
	char zone[RTE_MEMZONE_NAMESIZE];

	if (!mp)
		return NULL;
	snprintf(zone, sizeof(zone), "%s_mem", name);
	if (!rte_mempool_set_ops_byname(mp, OPS, NULL)) {
		rte_pktmbuf_pool_init(mp, &priv);
		if (fill(mp, zone, n)) {
			rte_mempool_obj_iter(mp, rte_pktmbuf_init, NULL);
			return mp;
		}
	}
	rte_mempool_free(mp);
	return NULL;
}

struct rte_mempool *ethdev_pool_create(const char *name, unsigned n, uint16_t room)
{
	struct rte_mempool *mp = rte_eal_has_hugepages() ? NULL : in_one_piece(name, n, room);

	if (!mp)
		mp = rte_pktmbuf_pool_create_by_ops(name, n, CACHE, 0, room, SOCKET_ID_ANY, OPS);
	return mp;
}
