/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * urxe status: the configured devices, as tables or as JSON; running programs' are in
 * status_process.c.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "netio/config.h"
#include "netio/devargs.h"
#include "netio/eal_want.h"
#include "netio/link.h"
#include "netio/port.h"
#include "json.h"
#include "process.h"
#include "status.h"
#include "tool.h"
#include "urxe/gid.h"

const char tool_status_usage[] =
	"usage: urxe status [--json] [--no-start | --start] [--config FILE]\n"
	"       urxe status [--json] PID\n"
	"       urxe status --cm [--json] [PID]\n"
	"       urxe status --prometheus [PID]\n"
	"\n"
	"Shows the devices that the environment configures ($URXE_CONFIG, URXE_KEY variables), "
	"and\n"
	"this user's running programs with what they have on urxe devices: QPs, CQs, memory,\n"
	"counters, connections, groups. Of several programs (or without PID) first a row each.\n"
	"\n"
	"  --cm         show instead the connections of running programs\n"
	"  --prometheus counters of running programs, in Prometheus' text format\n"
	"  --json       as JSON, all of all programs\n"
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

static const char *const faults[URXE_NUM_FAULTS] = {"drop", "dup", "reorder", "corrupt"};

/* Nothing for a direction without faults. */
static void print_faults(const struct urxe_port_config *cfg, const char *dir, bool tx)
{
	bool any = false;

	for (unsigned i = 0; i < URXE_NUM_FAULTS; i++)
		any |= urxe_config_fault(cfg, tx, (enum urxe_fault)i) > 0;
	if (!any)
		return;
	printf("  faults %s", dir);
	for (unsigned i = 0; i < URXE_NUM_FAULTS; i++)
		printf("%s %s %g", i ? "," : "", faults[i],
		       urxe_config_fault(cfg, tx, (enum urxe_fault)i));
	printf(", seed %llu", (unsigned long long)cfg->seed);
	if (cfg->fault_every)
		printf(", every second %u ms", cfg->fault_every);
	putchar('\n');
}

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
	print_faults(d->cfg, "tx", true);
	print_faults(d->cfg, "rx", false);
}

/* ---- JSON ---- */

static struct json_object *json_offloads(uint32_t bits)
{
	struct json_object *all = json_object_new_array();

	for (unsigned i = 0; i < NUM_OFFLOADS; i++) {
		if (bits & offloads[i].bit)
			json_object_array_add(all, tool_json_string(offloads[i].name));
	}
	return all;
}

static struct json_object *json_faults(const struct urxe_port_config *cfg, bool tx)
{
	struct json_object *o = json_object_new_object();
	char text[32];
	double rate;

	for (unsigned i = 0; i < URXE_NUM_FAULTS; i++) {
		rate = urxe_config_fault(cfg, tx, (enum urxe_fault)i);
		snprintf(text, sizeof(text), "%.9f", rate);
		json_object_object_add(o, faults[i], json_object_new_double_s(rate, text));
	}
	return o;
}

static struct json_object *json_gids(const struct device *d)
{
	struct json_object *all = json_object_new_array(), *o;
	char buf[80];

	for (unsigned i = 0; i < d->num_gids; i++) {
		o = json_object_new_object();
		json_object_object_add(o, "index", json_object_new_uint64(i));
		tool_json_add(o, "gid", gid(&d->gids[i], buf));
		tool_json_add(o, "address", addr(&d->gids[i], buf));
		tool_json_add(o, "type", "RoCE v2");
		json_object_array_add(all, o);
	}
	return all;
}

static void add_number(struct json_object *o, const char *key, uint64_t n)
{
	json_object_object_add(o, key, json_object_new_uint64(n));
}

static struct json_object *json_device(const struct device *d)
{
	struct json_object *o = json_object_new_object(), *f = json_object_new_object();
	const uint8_t *m = d->info.mac;
	char mac[32];

	snprintf(mac, sizeof(mac), "%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4],
		 m[5]);
	tool_json_add(o, "name", d->cfg->name);
	tool_json_add(o, "port", d->cfg->port);
	tool_json_add(o, "pmd", d->info.driver);
	tool_json_add(o, "state", d->state);
	json_object_object_add(o, "started", json_object_new_boolean(d->info.started));
	tool_json_add(o, "mac", mac);
	add_number(o, "mtu", d->info.l3_mtu);
	add_number(o, "path_mtu", d->info.path_mtu);
	if (d->info.vlan == URXE_NO_VLAN)
		json_object_object_add(o, "vlan", NULL);
	else
		add_number(o, "vlan", d->info.vlan);
	tool_json_add(o, "link", link_state(d));
	add_number(o, "speed_mbps", d->info.speed_mbps);
	add_number(o, "lanes", d->info.lanes);
	json_object_object_add(o, "tx_offloads", json_offloads(d->info.tx_offloads));
	json_object_object_add(o, "rx_offloads", json_offloads(d->info.rx_offloads));
	tool_json_add(o, "pcap", d->cfg->pcap);
	json_object_object_add(o, "faults", f);
	json_object_object_add(f, "tx", json_faults(d->cfg, true));
	json_object_object_add(f, "rx", json_faults(d->cfg, false));
	add_number(f, "seed", d->cfg->seed);
	add_number(f, "every_ms", d->cfg->fault_every);
	json_object_object_add(o, "gids", json_gids(d));
	return o;
}

static void put_json(struct json_object *top, const struct device *devs, unsigned n)
{
	struct json_object *all = json_object_new_array();

	json_object_object_add(top, "devices", all);
	for (unsigned i = 0; i < n; i++) {
		if (devs[i].port)
			json_object_array_add(all, json_device(&devs[i]));
	}
}

/* ---- command ---- */

/* @top: where they are put; NULL: print them. */
static int show(const struct urxe_config *cfg, enum start start, struct json_object *top)
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
	if (top)
		put_json(top, devs, n);
	for (unsigned i = 0; i < n && !top; i++) {
		if (devs[i].port)
			print_table(&devs[i]);
	}
	for (unsigned i = 0; i < n; i++) {
		if (devs[i].port)
			urxe_port_destroy(devs[i].port);
	}
	free(devs);
	return ret;
}

enum option_value {
	CM = TOOL_OPTION,
	JSON,
	PROMETHEUS,
	NO_START,
	START,
	CONFIG
};

static const struct option options[] = {
	{"cm", no_argument, NULL, CM},
	{"json", no_argument, NULL, JSON},
	{"prometheus", no_argument, NULL, PROMETHEUS},
	{"no-start", no_argument, NULL, NO_START},
	{"start", no_argument, NULL, START},
	{"config", required_argument, NULL, CONFIG},
	{NULL, 0, NULL, 0},
};

struct status_args {
	bool cm, json, prometheus;
	enum start start;
	int pid; /* 0: all */
};

static int parse(struct status_args *a, int argc, char **argv)
{
	int c;

	while ((c = tool_option(argc, argv, false, options, tool_status_usage)) != -1) {
		if (c == CM)
			a->cm = true;
		else if (c == JSON)
			a->json = true;
		else if (c == PROMETHEUS)
			a->prometheus = true;
		else if (c == CONFIG && !unsetenv("URXE_CONFIG_TEXT"))
			setenv("URXE_CONFIG", optarg, 1);
		else
			a->start = c == START ? START_ALL : START_NONE;
	}
	if (a->prometheus && (a->json || a->cm))
		return tool_fail("status: found --prometheus with --json or --cm, accepted: one "
				 "of them");
	if (optind + 1 < argc)
		return tool_fail("status: found '%s', accepted: one process id", argv[optind + 1]);
	if (optind < argc && !(a->pid = tool_process_number("status", argv[optind])))
		return TOOL_EXIT_USAGE;
	return 0;
}

static int show_configured(const struct status_args *a, struct json_object *top, unsigned *devices)
{
	struct urxe_config cfg;
	char err[512];

	if (urxe_config_load(&cfg, err, sizeof(err)))
		return tool_fail("%s", err);
	urxe_log_set_level(cfg.log);
	urxe_eal_set_args(cfg.eal_args);
	*devices = cfg.num_devices;
	return show(&cfg, a->start, top);
}

int tool_status(int argc, char **argv)
{
	struct status_args a = {.start = START_SAFE};
	struct json_object *top = NULL;
	int ret = parse(&a, argc, argv);
	unsigned devices = 0, processes = 0;

	if (ret)
		return ret;
	if (a.prometheus)
		return tool_status_prometheus(a.pid);
	if (a.json)
		top = json_object_new_object();
	if (!a.cm && !a.pid)
		ret = show_configured(&a, top, &devices);
	if (ret != TOOL_EXIT_USAGE)
		ret |= tool_status_processes(a.pid, a.cm, top, &processes, devices);
	if (!ret && !top && !a.cm && !devices && !processes)
		puts("no devices: nothing is configured, and no program of yours uses urxe");
	if (top && ret != TOOL_EXIT_USAGE)
		return tool_json_print(top) || ret;
	json_object_put(top);
	return ret;
}
