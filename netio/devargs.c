/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The `port` key: DPDK devargs, a PCI address or "loop"; what is added to it; and the
 * table of what we know of DPDK's drivers. Strings and files alone, no DPDK.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "netio/config.h"
#include "netio/devargs.h"

/*
 * A ring in shared memory whose sender sees when it is full loses nothing by being short, and its
 * frames go round in the processor's cache. 64 KiB reads: 52 Gb/s against 37 with 1024.
 */
#define SHORT_RING 256

#define MEMIF_SOCKET "/run/memif.sock" /* the driver's default */

#define PCI_ROOM 2048 /* least bytes of a card's buffer */

bool urxe_devargs_pci(const char *port, char *addr, size_t len)
{
	unsigned domain = 0, bus, dev, fn;
	char name[64];
	int n = 0;

	urxe_devargs_name(port, name, sizeof(name));
	if (!strncmp(name, "pci:", 4))
		memmove(name, name + 4, strlen(name + 4) + 1);
	if (sscanf(name, "%4x:%2x:%2x.%1x%n", &domain, &bus, &dev, &fn, &n) != 4 || name[n]) {
		domain = 0;
		n = 0;
		if (sscanf(name, "%2x:%2x.%1x%n", &bus, &dev, &fn, &n) != 3 || name[n])
			return false;
	}
	snprintf(addr, len, "%04x:%02x:%02x.%x", domain, bus, dev, fn);
	return true;
}

void urxe_devargs_name(const char *port, char *name, size_t len)
{
	snprintf(name, len, "%.*s", (int)strcspn(port, ","), port);
}

bool urxe_devargs_get(const char *port, const char *key, char *val, size_t len)
{
	size_t klen = strlen(key), vlen;
	const char *p = port;

	while ((p = strchr(p, ','))) {
		p++;
		if (!strncmp(p, key, klen) && p[klen] == '=') {
			p += klen + 1;
			vlen = strcspn(p, ",");
			snprintf(val, len, "%.*s", (int)vlen, p);
			return true;
		}
	}
	return false;
}

bool urxe_devargs_replace(const char *port, const char *key, const char *val, char *out, size_t len)
{
	size_t klen = strlen(key);
	const char *p = port;
	int n;

	while ((p = strchr(p, ','))) {
		p++;
		if (strncmp(p, key, klen) != 0 || p[klen] != '=')
			continue;
		p += klen + 1;
		n = snprintf(out, len, "%.*s%s%s", (int)(p - port), port, val, p + strcspn(p, ","));
		return n > 0 && (size_t)n < len;
	}
	return false;
}

/* Ethernet, two VLAN tags, FCS; whole cache lines. */
static uint32_t frame_room(uint32_t l3_mtu)
{
	return (l3_mtu + 14 + 8 + 4 + 63) & ~63u;
}

uint32_t urxe_devargs_data_room(const char *devargs, uint32_t l3_mtu)
{
	uint32_t room = frame_room(l3_mtu);
	char addr[32];

	if (urxe_devargs_pci(devargs, addr, sizeof(addr)))
		return room > PCI_ROOM ? (room + 1023) & ~1023u : PCI_ROOM;
	return room;
}

uint16_t urxe_devargs_desc(const char *devargs)
{
	const char *arg = urxe_devargs_kind(devargs)->ring_arg;
	char val[16];
	int n = 0;

	if (arg && urxe_devargs_get(devargs, arg, val, sizeof(val)))
		n = atoi(val);
	return n > 0 && n < URXE_LANE_DESC ? (uint16_t)n : URXE_LANE_DESC;
}

unsigned urxe_devargs_queues(const struct urxe_port_config *cfg)
{
	return cfg->queues ? cfg->queues : 1;
}

unsigned urxe_devargs_pool_mb(const struct urxe_port_config *cfg, uint32_t l3_mtu)
{
	uint64_t buf = urxe_devargs_data_room(cfg->port, l3_mtu) +
		       1024; /* headroom, mbuf, mempool header */

	return (unsigned)(buf * URXE_LANE_BUFS * urxe_devargs_queues(cfg) >> 20) + 16;
}

/* ---- completion ---- */

struct urxe_devargs_out {
	const char *port;
	char *out;
	size_t len, used;
};

__attribute__((format(printf, 3, 4))) static void
args_default(struct urxe_devargs_out *a, const char *key, const char *fmt, ...)
{
	char given[256];
	va_list ap;
	int n;

	if (urxe_devargs_get(a->port, key, given, sizeof(given)) || a->used >= a->len)
		return;
	n = snprintf(a->out + a->used, a->len - a->used, ",%s=", key);
	a->used += (size_t)n;
	if (a->used >= a->len)
		return;
	va_start(ap, fmt);
	n = vsnprintf(a->out + a->used, a->len - a->used, fmt, ap);
	va_end(ap);
	a->used += (size_t)n;
}

static int complete_vhost(struct urxe_devargs_out *a, const struct urxe_port_config *cfg,
			  uint32_t l3_mtu, char *err, size_t errlen)
{
	args_default(a, "queues", "%u", urxe_devargs_queues(cfg));
	return 0;
}

static int complete_virtio_user(struct urxe_devargs_out *a, const struct urxe_port_config *cfg,
				uint32_t l3_mtu, char *err, size_t errlen)
{
	char val[16];

	if (urxe_devargs_get(a->port, "server", val, sizeof(val)) && atoi(val)) {
		/* It would wait in accept() inside the driver's probe, for ever. */
		snprintf(err, errlen,
			 "net_virtio_user with server=1 is not offered: let "
			 "net_vhost be the server");
		return EOPNOTSUPP;
	}
	args_default(a, "queue_size", "%u", SHORT_RING);
	if (urxe_devargs_queues(cfg) > 1) {
		args_default(a, "queues", "%u", urxe_devargs_queues(cfg));
		args_default(a, "cq", "1");
	}
	return 0;
}

static int complete_memif(struct urxe_devargs_out *a, const struct urxe_port_config *cfg,
			  uint32_t l3_mtu, char *err, size_t errlen)
{
	args_default(a, "bsize", "%u", frame_room(l3_mtu));
	args_default(a, "rsize", "10"); /* log2 */
	/* The driver's default is a socket without owner: any user could be the peer. */
	args_default(a, "socket-abstract", "no");
	return 0;
}

int urxe_devargs_complete(const struct urxe_port_config *cfg, uint32_t l3_mtu, char *out,
			  size_t len, char *err, size_t errlen)
{
	const struct urxe_driver_kind *k = urxe_devargs_kind(cfg->port);
	struct urxe_devargs_out a = {.port = cfg->port, .out = out, .len = len};
	int ret = 0;

	a.used = (size_t)snprintf(out, len, "%s", cfg->port);
	if (k->complete)
		ret = k->complete(&a, cfg, l3_mtu, err, errlen);
	if (!ret && a.used >= len) {
		snprintf(err, errlen, "its arguments are longer than %zu bytes", len - 1);
		ret = E2BIG;
	}
	return ret;
}

/* ---- sockets ---- */

static bool is_set(const char *port, const char *key)
{
	char val[16];

	return urxe_devargs_get(port, key, val, sizeof(val)) && atoi(val);
}

static bool socket_vhost(const char *port, struct urxe_devargs_socket *s)
{
	s->type = SOCK_STREAM;
	s->listens = !is_set(port, "client");
	return urxe_devargs_get(port, "iface", s->path, sizeof(s->path));
}

static bool socket_virtio_user(const char *port, struct urxe_devargs_socket *s)
{
	s->type = SOCK_STREAM;
	s->by_fd = true;
	return urxe_devargs_get(port, "path", s->path, sizeof(s->path));
}

static bool socket_memif(const char *port, struct urxe_devargs_socket *s)
{
	char val[16];

	s->type = SOCK_SEQPACKET;
	s->listens = urxe_devargs_get(port, "role", val, sizeof(val)) &&
		     (!strcmp(val, "server") || !strcmp(val, "master"));
	s->abstract = urxe_devargs_get(port, "socket-abstract", val, sizeof(val)) &&
		      strcmp(val, "no") != 0;
	if (!s->listens)
		snprintf(s->id, sizeof(s->id), "%lu",
			 urxe_devargs_get(port, "id", val, sizeof(val)) ? strtoul(val, NULL, 0)
									: 0);
	if (!urxe_devargs_get(port, "socket", s->path, sizeof(s->path)))
		strcpy(s->path, MEMIF_SOCKET);
	return true;
}

bool urxe_devargs_socket(const char *port, struct urxe_devargs_socket *s)
{
	const struct urxe_driver_kind *k = urxe_devargs_kind(port);

	memset(s, 0, sizeof(*s));
	return k->socket && k->socket(port, s);
}

/* ---- drivers ---- */

static const struct urxe_driver_kind kinds[] = {
	{.prefix = "net_vhost",
	 .alias = "eth_vhost",
	 .driver = "net_vhost",
	 .linked = true,
	 .own_mac = true,
	 .peer = true,
	 .any_mtu = true,
	 .rx_intr = true,
	 .same_queues = true,
	 .nudge = true,
	 .complete = complete_vhost,
	 .socket = socket_vhost},
	{.prefix = "net_virtio_user",
	 .alias = "virtio_user",
	 .driver = "net_virtio_user",
	 .linked = true,
	 .own_mac = true,
	 .peer = true,
	 .any_mtu = true,
	 .revive = URXE_REVIVE_REPLUG,
	 .gated = true,
	 .rx_intr = true,
	 .ring_arg = "queue_size",
	 .same_queues = true,
	 .hoards = true,
	 .written = true,
	 .complete = complete_virtio_user,
	 .socket = socket_virtio_user},
	/* A card's, whose port is a PCI address. */
	{.prefix = "net_virtio", .driver = "net_virtio", .rx_intr = true, .hoards = true},
	{.prefix = "net_memif",
	 .driver = "net_memif",
	 .linked = true,
	 .own_mac = true,
	 .peer = true,
	 .any_mtu = true,
	 .revive = URXE_REVIVE_RESTART,
	 .gated = true,
	 .same_queues = true,
	 .complete = complete_memif,
	 .socket = socket_memif},
	/* The port and the kernel's interface share a MAC: we are the other end, so take another.
	 */
	{.prefix = "net_tap",
	 .driver = "net_tap",
	 .linked = true,
	 .own_mac = true,
	 .rx_intr = true,
	 .max_l3_mtu = 1500},
	{.prefix = "net_pcap", .driver = "net_pcap", .own_mac = true, .any_mtu = true},
	{.prefix = "net_ring",
	 .driver = "net_ring",
	 .linked = true,
	 .own_mac = true,
	 .any_mtu = true},
	{.prefix = "net_null",
	 .driver = "net_null",
	 .linked = true,
	 .own_mac = true,
	 .any_mtu = true},
	{.prefix = "", .driver = "", .rx_intr = true},
};

static bool starts_with(const char *s, const char *prefix)
{
	return !strncmp(s, prefix, strlen(prefix));
}

const struct urxe_driver_kind *urxe_devargs_kind(const char *port)
{
	const struct urxe_driver_kind *k = kinds;

	while (!starts_with(port, k->prefix) && !(k->alias && starts_with(port, k->alias)))
		k++;
	return k;
}

bool urxe_devargs_rx_intr(const char *port, const struct urxe_driver_kind *kind)
{
	char val[16];

	return kind->rx_intr && !(urxe_devargs_get(port, "iommu-support", val, sizeof(val)) &&
				  strcmp(val, "0") != 0);
}
