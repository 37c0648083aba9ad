/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The files of a device below /sys/class, with the words of the kernel's
 * (Documentation/ABI/stable/sysfs-class-infiniband).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "provider/live.h"
#include "view.h"

/* A folder while it is filled; the first error stays. */
struct folder {
	int fd, err;
};

static struct folder enter(const struct folder *above, const char *name)
{
	struct folder f = {-1, above->err};

	if (!f.err && mkdirat(above->fd, name, 0755) && errno != EEXIST)
		f.err = errno;
	if (!f.err && (f.fd = openat(above->fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
		f.err = errno;
	return f;
}

static void leave(struct folder *above, struct folder *f)
{
	if (f->fd >= 0)
		close(f->fd);
	above->err = f->err;
}

/* Not 0444: its owner could not write it again. */
__attribute__((format(printf, 3, 4))) static void put(struct folder *f, const char *name,
						      const char *fmt, ...)
{
	va_list ap;
	int fd;

	if (f->err)
		return;
	fd = openat(f->fd, name, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
	if (fd < 0) {
		f->err = errno;
		return;
	}
	va_start(ap, fmt);
	if (vdprintf(fd, fmt, ap) < 0 || write(fd, "\n", 1) != 1)
		f->err = errno;
	va_end(ap);
	close(fd);
}

static void put_link(struct folder *f, const char *name, const char *target)
{
	if (!f->err && symlinkat(target, f->fd, name))
		f->err = errno;
}

const char *tool_view_rate(uint32_t mbps)
{
	static const struct {
		uint32_t mbps;
		const char *text;
	} rates[] = {
		{400000, "400 Gb/sec (4X NDR)"}, {200000, "200 Gb/sec (4X HDR)"},
		{100000, "100 Gb/sec (4X EDR)"}, {56000, "56 Gb/sec (4X FDR)"},
		{50000, "50 Gb/sec (1X HDR)"},	 {40000, "40 Gb/sec (4X QDR)"},
		{25000, "25 Gb/sec (1X EDR)"},	 {20000, "20 Gb/sec (4X DDR)"},
		{10000, "10 Gb/sec (1X QDR)"},	 {5000, "5 Gb/sec (1X DDR)"},
		{0, "2.5 Gb/sec (1X SDR)"},
	};
	unsigned i = 0;

	while (mbps < rates[i].mbps)
		i++;
	return rates[i].text;
}

static const char *hex(const uint8_t *b, unsigned len, char buf[40])
{
	size_t n = 0;

	for (unsigned i = 0; i < len; i += 2)
		n += (size_t)snprintf(buf + n, 40 - n, "%s%02x%02x", i ? ":" : "", b[i], b[i + 1]);
	return buf;
}

/* ---- a port ---- */

/* An empty slot is zeros in gids/, and cannot be read in the other two. */
static void put_gids(struct folder *port, const struct tool_view_device *d)
{
	static const uint8_t zero[16];
	struct folder gids = enter(port, "gids"), attrs, types, ndevs;
	char name[16], buf[40];

	for (unsigned i = 0; i < URXE_PORT_MAX_GIDS; i++) {
		snprintf(name, sizeof(name), "%u", i);
		put(&gids, name, "%s", hex(d->has_gid[i] ? d->gids[i].gid : zero, 16, buf));
	}
	leave(port, &gids);
	attrs = enter(port, "gid_attrs");
	types = enter(&attrs, "types");
	for (unsigned i = 0; i < URXE_PORT_MAX_GIDS; i++) {
		snprintf(name, sizeof(name), "%u", i);
		if (d->has_gid[i])
			put(&types, name, "RoCE v2");
	}
	leave(&attrs, &types);
	ndevs = enter(&attrs, "ndevs");
	for (unsigned i = 0; i < URXE_PORT_MAX_GIDS; i++) {
		snprintf(name, sizeof(name), "%u", i);
		if (d->has_gid[i] && d->ifnames[i][0])
			put(&ndevs, name, "%s", d->ifnames[i]);
	}
	leave(&attrs, &ndevs);
	leave(port, &attrs);
}

/* Of a wire that there is not; names of the kernel's. */
static const char *const no_errors[] = {
	"VL15_dropped",
	"excessive_buffer_overrun_errors",
	"link_downed",
	"link_error_recovery",
	"local_link_integrity_errors",
	"port_rcv_constraint_errors",
	"port_rcv_remote_physical_errors",
	"port_rcv_switch_relay_errors",
	"port_xmit_constraint_errors",
	"symbol_error",
};

/* All are one file at first: who counts replaces it by another (provider/live.c). */
static void put_counters(struct folder *dev)
{
	static const char *const live[] = {
#define FILE_OF(e, folder, name) folder "/" name,
		URXE_LIVE_LIST(FILE_OF)
#undef FILE_OF
	};
	struct folder counters = enter(dev, URXE_LIVE_COUNTERS);

	put(&counters, no_errors[0], "0");
	for (unsigned i = 1; i < sizeof(no_errors) / sizeof(no_errors[0]); i++) {
		if (!counters.err &&
		    linkat(counters.fd, no_errors[0], counters.fd, no_errors[i], 0))
			counters.err = errno;
	}
	leave(dev, &counters);
	if (!dev->err && mkdirat(dev->fd, URXE_LIVE_HW, 0755))
		dev->err = errno;
	for (unsigned i = 0; i < sizeof(live) / sizeof(live[0]); i++) {
		if (!dev->err &&
		    linkat(dev->fd, URXE_LIVE_COUNTERS "/VL15_dropped", dev->fd, live[i], 0))
			dev->err = errno;
	}
	put(dev, URXE_LIVE_LOCK, "who adds to the counters locks this");
}

static void put_port(struct folder *dev, const struct tool_view_device *d)
{
	struct folder ports = enter(dev, "ports"), port = enter(&ports, "1"), pkeys;

	put(&port, "state", "%s", d->active ? "4: ACTIVE" : "1: DOWN");
	put(&port, "phys_state", "%s", d->active ? "5: LinkUp" : "3: Disabled");
	put(&port, "rate", "%s", tool_view_rate(d->mbps));
	put(&port, "link_layer", "Ethernet");
	put(&port, "lid", "0x0");
	put(&port, "sm_lid", "0x0");
	put(&port, "lid_mask_count", "0");
	put(&port, "sm_sl", "0");
	/* IBV_PORT_CM_SUP and IBV_PORT_IP_BASED_GIDS, as ibv_query_port() */
	put(&port, "cap_mask", "0x%08x", 1u << 16 | 1u << 26);
	put_gids(&port, d);
	pkeys = enter(&port, "pkeys");
	put(&pkeys, "0", "0xffff");
	leave(&port, &pkeys);
	leave(&ports, &port);
	leave(dev, &ports);
}

/* ---- a device ---- */

/* As that of a virtual device, for a NUMA node or a PCI bus is none's. */
static void put_parent(struct folder *dev, const struct tool_view_device *d)
{
	struct folder parent = enter(dev, "device"), net;
	unsigned cpus = (unsigned)sysconf(_SC_NPROCESSORS_CONF);
	char mask[1024], link[64];
	size_t n = 0;

	/* Words of 32 bits, the highest first. */
	for (unsigned word = (cpus + 31) / 32; word-- > 0 && n < sizeof(mask);) {
		unsigned bits = cpus - word * 32 < 32 ? cpus - word * 32 : 32;

		n += (size_t)snprintf(mask + n, sizeof(mask) - n, "%08x%s",
				      bits == 32 ? ~0u : (1u << bits) - 1, word ? "," : "");
	}
	put(&parent, "numa_node", "-1");
	put(&parent, "local_cpus", "%s", mask);
	put(&parent, "local_cpulist", cpus > 1 ? "0-%u" : "%u", cpus - 1);
	net = enter(&parent, "net");
	for (unsigned i = 0; i < URXE_PORT_MAX_GIDS; i++) {
		snprintf(link, sizeof(link), "/sys/class/net/%s", d->ifnames[i]);
		if (!net.err && d->ifnames[i][0] &&
		    faccessat(net.fd, d->ifnames[i], F_OK, AT_SYMLINK_NOFOLLOW))
			put_link(&net, d->ifnames[i], link);
	}
	leave(&parent, &net);
	leave(dev, &parent);
}

static void put_device(struct folder *ib, const struct tool_view_device *d)
{
	struct folder dev = enter(ib, d->name);
	char buf[40];

	put(&dev, "node_type", "1: CA");
	put(&dev, "node_guid", "%s", hex(d->guid, 8, buf));
	put(&dev, "sys_image_guid", "%s", hex(d->guid, 8, buf));
	put(&dev, "fw_ver", "%s", URXE_VERSION);
	put(&dev, "hw_rev", "1");
	put(&dev, "hca_type", "urxe");
	put(&dev, "board_id", "urxe");
	put(&dev, "node_desc", "urxe");
	put_port(&dev, d);
	put_counters(&dev);
	put_parent(&dev, d);
	leave(ib, &dev);
}

static void put_verbs(struct folder *verbs, const struct tool_view_device *d, unsigned number)
{
	char name[32], target[128];
	struct folder dev;

	snprintf(name, sizeof(name), "uverbs%u", number);
	dev = enter(verbs, name);
	put(&dev, "ibdev", "%s", d->name);
	put(&dev, "abi_version", "1");
	/* Of /dev/null, which the file in /dev/infiniband is. */
	put(&dev, "dev", "1:3");
	snprintf(target, sizeof(target), "../../infiniband/%s/device", d->name);
	put_link(&dev, "device", target);
	leave(verbs, &dev);
	if (!verbs->err && faccessat(verbs->fd, "abi_version", F_OK, 0))
		put(verbs, "abi_version", "6");
}

static struct folder open_folder(const char *path)
{
	struct folder f = {open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), 0};

	f.err = f.fd < 0 ? errno : 0;
	return f;
}

int tool_view_tree(const char *ib, const char *verbs, const struct tool_view_device *d,
		   unsigned number)
{
	struct folder i = open_folder(ib), v = open_folder(verbs);
	int err;

	put_device(&i, d);
	put_verbs(&v, d, number);
	err = i.err ? i.err : v.err;
	if (i.fd >= 0)
		close(i.fd);
	if (v.fd >= 0)
		close(v.fd);
	errno = err;
	return err ? -1 : 0;
}
