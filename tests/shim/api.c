/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A program linked with libibverbs, run with the shim before it on the library path: what the
 * interposed functions return for a device of the (fake) provider, by their man pages.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "fake_provider.h"
#include "harness.h"
#include "rdma_driver.h"

int ibv_query_gid_type(struct ibv_context *ctx, uint8_t port, unsigned int index,
		       enum ibv_gid_type_sysfs *type);

static const uint8_t gids[FAKE_GIDS][16] = FAKE_GID_TABLE;

static struct ibv_device *find(struct ibv_device **list, const char *name)
{
	for (; list && *list; list++) {
		if (!strcmp(ibv_get_device_name(*list), name))
			return *list;
	}
	return NULL;
}

static struct ibv_context *open_fake(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_device *dev = find(list, "fake0");
	struct ibv_context *ctx = dev ? ibv_open_device(dev) : NULL;

	if (list)
		ibv_free_device_list(list);
	CU_ASSERT_PTR_NOT_NULL_FATAL(ctx);
	return ctx;
}

static void list(void)
{
	int num = -1;
	struct ibv_device **l = ibv_get_device_list(&num);
	struct ibv_device *dev;

	CU_ASSERT_PTR_NOT_NULL_FATAL(l);
	CU_ASSERT(num >= 1);
	CU_ASSERT_PTR_NULL(l[num]);
	dev = find(l, "fake0");
	CU_ASSERT_PTR_NOT_NULL_FATAL(dev);
	CU_ASSERT_PTR_EQUAL(dev, l[num - 1]); /* behind the real ones */
	CU_ASSERT_EQUAL(ibv_get_device_guid(dev), FAKE_GUID);
	CU_ASSERT_EQUAL(ibv_get_device_index(dev), FAKE_INDEX);
	ibv_free_device_list(l);
}

static void references(void)
{
	struct ibv_device **l = ibv_get_device_list(NULL);
	struct verbs_device *dev = urxe_rdma_device(find(l, "fake0"));
	struct ibv_context *ctx;

	CU_ASSERT_EQUAL(atomic_load(&dev->refcount), 2);
	ctx = ibv_open_device(&dev->device);
	CU_ASSERT_EQUAL(atomic_load(&dev->refcount), 3);
	ibv_free_device_list(l);
	CU_ASSERT_EQUAL(atomic_load(&dev->refcount), 2);
	CU_ASSERT_EQUAL(ibv_close_device(ctx), 0);
	CU_ASSERT_EQUAL(atomic_load(&dev->refcount), 1);
}

static void list_without_ours(void)
{
	struct ibv_device **l;
	int num;

	/* What the real library says alone, and that the shim changes nothing of it. */
	setenv("FAKE_DEVICES", "0", 1);
	num = -1;
	l = ibv_get_device_list(&num);
	CU_ASSERT(num >= 0);
	CU_ASSERT_PTR_NULL(find(l, "fake0"));
	if (l)
		ibv_free_device_list(l);
	setenv("FAKE_DEVICES", "error", 1);
	num = -1;
	l = ibv_get_device_list(&num);
	CU_ASSERT(num >= 0);
	CU_ASSERT_PTR_NULL(find(l, "fake0"));
	if (l)
		ibv_free_device_list(l);
	setenv("FAKE_DEVICES", "3", 1);
	l = ibv_get_device_list(&num);
	CU_ASSERT_PTR_NOT_NULL(find(l, "fake2"));
	ibv_free_device_list(l);
	unsetenv("FAKE_DEVICES");
}

static void context(void)
{
	struct ibv_context *ctx = open_fake();
	struct ibv_device_attr attr;
	struct ibv_device_attr_ex attr_ex;
	struct ibv_port_attr port;

	CU_ASSERT_EQUAL(ibv_query_device(ctx, &attr), 0);
	CU_ASSERT_EQUAL(attr.max_qp, 7);
	CU_ASSERT_EQUAL(ibv_query_device_ex(ctx, NULL, &attr_ex), 0);
	CU_ASSERT_EQUAL(attr_ex.orig_attr.node_guid, FAKE_GUID);
	CU_ASSERT_EQUAL(ibv_query_port(ctx, 1, &port), 0);
	CU_ASSERT_EQUAL(port.gid_tbl_len, FAKE_GIDS);
	CU_ASSERT_EQUAL(ibv_query_port(ctx, 2, &port), EINVAL);
	/* What the provider leaves out is "not offered". */
	errno = 0;
	CU_ASSERT_PTR_NULL(ibv_alloc_pd(ctx));
	CU_ASSERT_EQUAL(errno, EOPNOTSUPP);
	ibv_close_device(ctx);
}

static void gid(void)
{
	struct ibv_context *ctx = open_fake();
	enum ibv_gid_type_sysfs type;
	union ibv_gid g;

	CU_ASSERT_EQUAL(ibv_query_gid(ctx, 1, 0, &g), 0);
	CU_ASSERT_EQUAL(memcmp(g.raw, gids[0], 16), 0);
	CU_ASSERT_EQUAL(ibv_query_gid(ctx, 1, 2, &g), 0);
	CU_ASSERT_EQUAL(memcmp(g.raw, gids[2], 16), 0);
	/* An empty slot is a zero GID, no error. */
	CU_ASSERT_EQUAL(ibv_query_gid(ctx, 1, 1, &g), 0);
	CU_ASSERT_EQUAL(memcmp(g.raw, gids[1], 16), 0);
	for (int i = 0; i < 3; i++) {
		static const struct {
			uint8_t port;
			int index;
		} bad[] = {{1, FAKE_GIDS}, {1, -1}, {2, 0}};

		errno = 0;
		CU_ASSERT_EQUAL(ibv_query_gid(ctx, bad[i].port, bad[i].index, &g), -1);
		CU_ASSERT_EQUAL(errno, EINVAL);
	}
	CU_ASSERT_EQUAL(ibv_query_gid_type(ctx, 1, 0, &type), 0);
	CU_ASSERT_EQUAL(type, IBV_GID_TYPE_SYSFS_ROCE_V2);
	CU_ASSERT_EQUAL(ibv_query_gid_type(ctx, 1, 1, &type), 0);
	CU_ASSERT_EQUAL(type, IBV_GID_TYPE_SYSFS_IB_ROCE_V1);
	CU_ASSERT_EQUAL(ibv_query_gid_type(ctx, 2, 0, &type), -1);
	ibv_close_device(ctx);
}

static void gid_ex(void)
{
	struct ibv_context *ctx = open_fake();
	struct ibv_gid_entry entry;
	struct {
		struct ibv_gid_entry entry;
		uint8_t more[8];
	} longer;

	CU_ASSERT_EQUAL(ibv_query_gid_ex(ctx, 1, 2, &entry, 0), 0);
	CU_ASSERT_EQUAL(memcmp(entry.gid.raw, gids[2], 16), 0);
	CU_ASSERT_EQUAL(entry.gid_index, 2);
	CU_ASSERT_EQUAL(entry.port_num, 1);
	CU_ASSERT_EQUAL(entry.gid_type, IBV_GID_TYPE_ROCE_V2);
	CU_ASSERT_EQUAL(ibv_query_gid_ex(ctx, 1, 1, &entry, 0), ENODATA);
	CU_ASSERT_EQUAL(ibv_query_gid_ex(ctx, 1, FAKE_GIDS, &entry, 0), EINVAL);
	CU_ASSERT_EQUAL(ibv_query_gid_ex(ctx, 2, 0, &entry, 0), EINVAL);
	CU_ASSERT_EQUAL(ibv_query_gid_ex(ctx, 1, 0, &entry, 1), EINVAL);
	/* Programs built with a longer or a shorter entry. */
	memset(&longer, 0xee, sizeof(longer));
	CU_ASSERT_EQUAL(_ibv_query_gid_ex(ctx, 1, 0, &longer.entry, 0, sizeof(longer)), 0);
	CU_ASSERT_EQUAL(longer.more[0] | longer.more[7], 0);
	memset(&longer, 0xee, sizeof(longer));
	CU_ASSERT_EQUAL(_ibv_query_gid_ex(ctx, 1, 0, &longer.entry, 0, 16), 0);
	CU_ASSERT_EQUAL(memcmp(longer.entry.gid.raw, gids[0], 16), 0);
	CU_ASSERT_EQUAL(longer.entry.gid_index, 0xeeeeeeee);
	ibv_close_device(ctx);
}

static void gid_table(void)
{
	struct ibv_context *ctx = open_fake();
	struct ibv_gid_entry e[FAKE_GIDS];
	struct {
		struct ibv_gid_entry entry;
		uint64_t more;
	} longer[2];

	CU_ASSERT_EQUAL(ibv_query_gid_table(ctx, e, FAKE_GIDS, 0), 2);
	CU_ASSERT_EQUAL(e[0].gid_index, 0);
	CU_ASSERT_EQUAL(e[1].gid_index, 2);
	CU_ASSERT_EQUAL(ibv_query_gid_table(ctx, e, 2, 0), 2);
	CU_ASSERT_EQUAL(ibv_query_gid_table(ctx, e, 1, 0), -EINVAL);
	CU_ASSERT_EQUAL(ibv_query_gid_table(ctx, e, 0, 0), -EINVAL);
	CU_ASSERT_EQUAL(ibv_query_gid_table(ctx, e, 2, 1), -EINVAL);
	memset(longer, 0xee, sizeof(longer));
	CU_ASSERT_EQUAL(_ibv_query_gid_table(ctx, &longer[0].entry, 2, 0, sizeof(longer[0])), 2);
	CU_ASSERT_EQUAL(longer[1].entry.gid_index, 2);
	CU_ASSERT_EQUAL(longer[0].more | longer[1].more, 0);
	ibv_close_device(ctx);
}

/* libibverbs's own callers of the interposed functions must reach the shim: through its PLT. */
static void inner_calls(void)
{
	struct ibv_context *ctx = open_fake();
	struct ibv_ah_attr attr;
	struct ibv_wc wc = {.wc_flags = IBV_WC_GRH};
	struct ibv_grh grh = {.next_hdr = 17, .hop_limit = 64};

	CU_ASSERT_EQUAL(ibv_get_pkey_index(ctx, 1, 0xffff), 0);
	CU_ASSERT_EQUAL(ibv_get_pkey_index(ctx, 1, 0x7fff), -1);
	grh.version_tclass_flow = htobe32(6u << 28);
	memcpy(grh.dgid.raw, gids[2], 16);
	memcpy(grh.sgid.raw, gids[2], 16);
	grh.sgid.raw[15] = 2;
	CU_ASSERT_EQUAL(ibv_init_ah_from_wc(ctx, 1, &wc, &grh, &attr), 0);
	CU_ASSERT_EQUAL(attr.grh.sgid_index, 2);
	CU_ASSERT_EQUAL(attr.grh.dgid.raw[15], 2);
	grh.dgid.raw[15] = 9; /* nobody's: the search ends at the table's end */
	CU_ASSERT_NOT_EQUAL(ibv_init_ah_from_wc(ctx, 1, &wc, &grh, &attr), 0);
	ibv_close_device(ctx);
}

static void pkey(void)
{
	struct ibv_context *ctx = open_fake();
	__be16 p = 0;

	CU_ASSERT_EQUAL(ibv_query_pkey(ctx, 1, 0, &p), 0);
	CU_ASSERT_EQUAL(p, 0xffff);
	errno = 0;
	CU_ASSERT_EQUAL(ibv_query_pkey(ctx, 1, 1, &p), -1);
	CU_ASSERT_EQUAL(errno, EINVAL);
	CU_ASSERT_EQUAL(ibv_query_pkey(ctx, 2, 0, &p), -1);
	ibv_close_device(ctx);
}

static void channel(void)
{
	struct ibv_context *ctx = open_fake();
	struct ibv_comp_channel *ch = ibv_create_comp_channel(ctx);

	CU_ASSERT_PTR_NOT_NULL_FATAL(ch);
	CU_ASSERT_PTR_EQUAL(ch->context, ctx);
	CU_ASSERT(ch->fd >= 0);
	ch->refcnt = 1;
	CU_ASSERT_EQUAL(ibv_destroy_comp_channel(ch), EBUSY);
	ch->refcnt = 0;
	CU_ASSERT_EQUAL(ibv_destroy_comp_channel(ch), 0);
	ibv_close_device(ctx);
}

static void resolve(void)
{
	struct ibv_context *ctx = open_fake();
	struct ibv_ah_attr attr = {.port_num = 1};
	uint8_t mac[6];
	uint16_t vid = 0;

	CU_ASSERT_EQUAL(ibv_resolve_eth_l2_from_gid(ctx, &attr, mac, &vid), 0);
	CU_ASSERT_EQUAL(memcmp(mac, FAKE_MAC, 6), 0);
	CU_ASSERT_EQUAL(vid, 0xffff);
	CU_ASSERT_EQUAL(ibv_resolve_eth_l2_from_gid(ctx, &attr, mac, NULL), 0);
	attr.port_num = 2;
	CU_ASSERT_EQUAL(ibv_resolve_eth_l2_from_gid(ctx, &attr, mac, &vid), -EINVAL);
	ibv_close_device(ctx);
}

/* The real ibv_import_device() walks the list and looks into sysfs: a char device brings it there.
 */
static void import(void)
{
	int fd = open("/dev/null", O_RDWR);

	errno = 0;
	CU_ASSERT_PTR_NULL(ibv_import_device(fd));
	CU_ASSERT_EQUAL(errno, ENODEV);
	CU_ASSERT_PTR_NULL(ibv_import_device(-1));
	CU_ASSERT_EQUAL(errno, EINVAL);
	close(fd);
}

URXE_TEST_MAIN("shim-api", T(list), T(references), T(list_without_ours), T(context), T(gid),
	       T(gid_ex), T(gid_table), T(inner_calls), T(pkey), T(channel), T(resolve), T(import))
