/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * urxe status: the configured devices, as a table or as JSON.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "netio/config.h"
#include "netio/devargs.h"
#include "netio/link_ethdev.h"
#include "netio/port.h"
#include "tool.h"
#include "urxe/gid.h"

const char tool_status_usage[] =
	"usage: urxe status [--json] [--no-start | --start] [--config FILE]\n"
	"       urxe status --cm [--json]\n"
	"\n"
	"Shows the devices that the environment configures ($URXE_CONFIG, URXE_KEY variables).\n"
	"\n"
	"  --cm         show instead the connections of this user's running processes\n"
	"  --json       as JSON\n"
	"  --no-start   start no port: driver, link and offloads stay unknown\n"
	"  --start      start also ports that would take a running program's connection away\n"
	"  --config F   read this INI file\n";

enum start {
	START_NONE,
	START_SAFE,
	START_ALL
};

struct device {
	const struct urxe_port_config *cfg;
	const struct urxe_link_ops *ops;
	void *link_arg;
	struct urxe_port *port;
	struct urxe_port_info info;
	struct urxe_gid_entry gids[URXE_PORT_MAX_GIDS];
	unsigned num_gids;
	const char *state; /* why it is not started, or "started" */
};

/* ---- gather ---- */

/* A second client on a vhost or memif socket pushes the first one out. */
static bool is_client(const struct urxe_port_config *cfg)
{
	return urxe_devargs_kind(cfg->port)->revive != URXE_REVIVE_NONE;
}

static int gather(struct device *d, enum start start)
{
	int ret = urxe_port_create(&d->port, d->cfg, d->ops, d->link_arg);

	if (ret)
		return tool_fail("%s: %s", d->cfg->name, strerror(ret));
	d->state = "not started";
	if (start == START_SAFE && is_client(d->cfg)) {
		d->state = "not started: it connects to a peer, see --start";
	} else if (start != START_NONE) {
		ret = urxe_port_start(d->port);
		d->state = ret ? strerror(ret) : "started";
	}
	urxe_port_query(d->port, &d->info);
	for (unsigned i = 0; i < URXE_PORT_MAX_GIDS; i++) {
		if (!urxe_port_gid(d->port, i, &d->gids[d->num_gids]))
			d->num_gids++;
	}
	return d->info.started || start != START_ALL ? 0 : 1;
}

static const char *addr(const struct urxe_gid_entry *g, char buf[80])
{
	char a[URXE_GID_STRLEN];

	snprintf(buf, 80, "%s/%u", urxe_gid_print(g->gid, a, sizeof(a)), g->prefix_len);
	return buf;
}

static const char *gid(const struct urxe_gid_entry *g, char buf[80])
{
	size_t n = 0;

	for (unsigned i = 0; i < 16; i += 2)
		n += (size_t)snprintf(buf + n, 80 - n, "%s%02x%02x", i ? ":" : "", g->gid[i],
				      g->gid[i + 1]);
	return buf;
}

static const struct {
	uint32_t bit;
	const char *name;
} offloads[] = {
	{URXE_OFFLOAD_IPV4_CSUM, "ipv4-csum"},
	{URXE_OFFLOAD_UDP_CSUM, "udp-csum"},
	{URXE_OFFLOAD_VLAN, "vlan"},
};

#define NUM_OFFLOADS (sizeof(offloads) / sizeof(offloads[0]))

static const char *offload_list(uint32_t bits, char *buf, size_t len)
{
	size_t n = 0;

	for (unsigned i = 0; i < NUM_OFFLOADS; i++) {
		if (bits & offloads[i].bit)
			n += (size_t)snprintf(buf + n, len - n, "%s%s", n ? "," : "",
					      offloads[i].name);
	}
	return n ? buf : "-";
}

static const char *link_state(const struct device *d)
{
	return !d->info.started ? "unknown" : d->info.link_up ? "up" : "down";
}

/* ---- table ---- */

static void print_table(const struct device *d)
{
	const uint8_t *m = d->info.mac;
	char a[80], b[80];

	printf("%s\n", d->cfg->name);
	printf("  port      %s\n", d->cfg->port);
	printf("  pmd       %s\n", d->info.driver[0] ? d->info.driver : "-");
	printf("  state     %s\n", d->state);
	printf("  mac       %02x:%02x:%02x:%02x:%02x:%02x\n", m[0], m[1], m[2], m[3], m[4], m[5]);
	printf("  mtu       %u, path MTU %u\n", d->info.l3_mtu, d->info.path_mtu);
	if (d->info.vlan != URXE_NO_VLAN)
		printf("  vlan      %u\n", d->info.vlan);
	printf("  link      %s", link_state(d));
	if (d->info.started && d->info.speed_mbps)
		printf(", %u Mb/s", d->info.speed_mbps);
	printf("\n  lanes     %u\n", d->info.lanes);
	printf("  offloads  tx %s", offload_list(d->info.tx_offloads, a, sizeof(a)));
	printf(", rx %s\n", offload_list(d->info.rx_offloads, a, sizeof(a)));
	for (unsigned i = 0; i < d->num_gids; i++)
		printf("  gid %-3u   %s  %s  RoCE v2\n", i, gid(&d->gids[i], a),
		       addr(&d->gids[i], b));
	if (d->cfg->pcap[0])
		printf("  pcap      %s\n", d->cfg->pcap);
	if (d->cfg->drop > 0 || d->cfg->dup > 0 || d->cfg->reorder > 0 || d->cfg->corrupt > 0)
		printf("  faults    drop %g, dup %g, reorder %g, corrupt %g, seed %llu\n",
		       d->cfg->drop, d->cfg->dup, d->cfg->reorder, d->cfg->corrupt,
		       (unsigned long long)d->cfg->seed);
}

/* ---- JSON ---- */

/* How many bytes of @p are one well-formed UTF-8 sequence; 0: none. */
static unsigned utf8_len(const unsigned char *p)
{
	unsigned n = p[0] < 0x80   ? 1
		     : p[0] < 0xc2 ? 0
		     : p[0] < 0xe0 ? 2
		     : p[0] < 0xf0 ? 3
		     : p[0] < 0xf5 ? 4
				   : 0;

	for (unsigned i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	}
	if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
	    (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
		return 0;
	return n;
}

static void json_string(const char *s)
{
	const unsigned char *p = (const unsigned char *)s;
	unsigned n;

	putchar('"');
	while (*p) {
		n = utf8_len(p);
		if (*p == '"' || *p == '\\')
			printf("\\%c", *p);
		else if (*p < 0x20 || *p == 0x7f)
			printf("\\u%04x", *p);
		else if (!n)
			printf("\\ufffd");
		else
			printf("%.*s", (int)n, (const char *)p);
		p += n ? n : 1;
	}
	putchar('"');
}

static void json_offloads(const char *key, uint32_t bits)
{
	const char *sep = "";

	printf("      \"%s\": [", key);
	for (unsigned i = 0; i < NUM_OFFLOADS; i++) {
		if (bits & offloads[i].bit) {
			printf("%s\"%s\"", sep, offloads[i].name);
			sep = ", ";
		}
	}
	printf("],\n");
}

static void json_member(const char *key, const char *value)
{
	printf("      \"%s\": ", key);
	json_string(value);
	printf(",\n");
}

static void print_json(const struct device *d, bool last)
{
	const uint8_t *m = d->info.mac;
	char a[80], b[80];

	printf("    {\n");
	json_member("name", d->cfg->name);
	json_member("port", d->cfg->port);
	json_member("pmd", d->info.driver);
	json_member("state", d->state);
	printf("      \"started\": %s,\n", d->info.started ? "true" : "false");
	printf("      \"mac\": \"%02x:%02x:%02x:%02x:%02x:%02x\",\n", m[0], m[1], m[2], m[3], m[4],
	       m[5]);
	printf("      \"mtu\": %u,\n      \"path_mtu\": %u,\n", d->info.l3_mtu, d->info.path_mtu);
	if (d->info.vlan == URXE_NO_VLAN)
		printf("      \"vlan\": null,\n");
	else
		printf("      \"vlan\": %u,\n", d->info.vlan);
	json_member("link", link_state(d));
	printf("      \"speed_mbps\": %u,\n      \"lanes\": %u,\n", d->info.speed_mbps,
	       d->info.lanes);
	json_offloads("tx_offloads", d->info.tx_offloads);
	json_offloads("rx_offloads", d->info.rx_offloads);
	json_member("pcap", d->cfg->pcap);
	printf("      \"faults\": {\"drop\": %.9f, \"dup\": %.9f, \"reorder\": %.9f, "
	       "\"corrupt\": %.9f, \"seed\": %llu},\n",
	       d->cfg->drop, d->cfg->dup, d->cfg->reorder, d->cfg->corrupt,
	       (unsigned long long)d->cfg->seed);
	printf("      \"gids\": [");
	for (unsigned i = 0; i < d->num_gids; i++)
		printf("%s\n        {\"index\": %u, \"gid\": \"%s\", \"address\": \"%s\", "
		       "\"type\": \"RoCE v2\"}",
		       i ? "," : "", i, gid(&d->gids[i], a), addr(&d->gids[i], b));
	printf("%s]\n    }%s\n", d->num_gids ? "\n      " : "", last ? "" : ",");
}

/* ---- command ---- */

static int show(const struct urxe_config *cfg, enum start start, bool json)
{
	struct device *devs = calloc(cfg->num_devices + 1u, sizeof(*devs));
	unsigned n = cfg->num_devices;
	int ret = 0;

	if (!devs)
		return tool_fail("no memory");
	for (unsigned i = 0; i < n; i++) { /* before the first start: EAL wants to know all */
		devs[i].cfg = &cfg->devices[i];
		urxe_link_select(devs[i].cfg, &devs[i].ops, &devs[i].link_arg);
	}
	for (unsigned i = 0; i < n; i++)
		ret |= gather(&devs[i], start);
	if (json)
		printf("{\n  \"devices\": [\n");
	else if (!n)
		printf("no devices: nothing is configured\n");
	for (unsigned i = 0; i < n; i++) {
		if (!devs[i].port)
			continue;
		if (json)
			print_json(&devs[i], i == n - 1);
		else
			print_table(&devs[i]);
	}
	if (json)
		printf("  ]\n}\n");
	for (unsigned i = 0; i < n; i++) {
		if (devs[i].port)
			urxe_port_destroy(devs[i].port);
	}
	free(devs);
	return ret;
}

int tool_status(int argc, char **argv)
{
	enum start start = START_SAFE;
	struct urxe_config cfg;
	bool json = false, cm = false;
	char err[512];

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--json"))
			json = true;
		else if (!strcmp(argv[i], "--cm"))
			cm = true;
		else if (!strcmp(argv[i], "--no-start"))
			start = START_NONE;
		else if (!strcmp(argv[i], "--start"))
			start = START_ALL;
		else if (!strcmp(argv[i], "--config") && i + 1 < argc &&
			 !unsetenv("URXE_CONFIG_TEXT"))
			setenv("URXE_CONFIG", argv[++i], 1);
		else
			return tool_fail(
				"status: found '%s', accepted: --cm, --json, --no-start, --start, "
				"--config FILE",
				argv[i]);
	}
	if (cm)
		return tool_status_cm(json);
	if (urxe_config_load(&cfg, err, sizeof(err)))
		return tool_fail("%s", err);
	urxe_log_set_level(cfg.log);
	return show(&cfg, start, json);
}
