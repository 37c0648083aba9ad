/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The keys, what each accepts, and how it is read.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "netio/config_keys.h"
#include "netio/port.h"
#include "urxe/gid.h"

static bool parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *out)
{
	char *end;

	if (!isdigit((unsigned char)s[0]))
		return false;
	errno = 0;
	*out = strtoull(s, &end, 0);
	return !errno && !*end && *out >= min && *out <= max;
}

/* The application's locale has no say in what "0.01" means. */
static bool parse_rate(const char *s, double *out)
{
	locale_t c;
	char *end;

	if (!isdigit((unsigned char)s[0]) && s[0] != '.')
		return false;
	c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	*out = c ? strtod_l(s, &end, c) : strtod(s, &end);
	if (c)
		freelocale(c);
	return !*end && *out >= 0 && *out <= 1;
}

static bool parse_string(const char *s, char *out, size_t len)
{
	if (!s[0] || strlen(s) >= len)
		return false;
	for (const char *p = s; *p; p++) {
		/* Behind a blank and a semicolon an INI document has comments. */
		if (iscntrl((unsigned char)*p) || *p == ';')
			return false;
	}
	strcpy(out, s);
	return true;
}

/* ---- addresses ---- */

static bool parse_addr(const char *s, uint8_t gid[16], bool *ipv4)
{
	uint8_t a4[4];

	if (inet_pton(AF_INET, s, a4) == 1) {
		urxe_gid_from_v4(gid, a4);
		*ipv4 = true;
		return true;
	}
	*ipv4 = false;
	return inet_pton(AF_INET6, s, gid) == 1 && !urxe_gid_is_v4(gid);
}

bool urxe_config_ip_parse(const char *s, struct urxe_config_ip *ip)
{
	const char *slash = strchr(s, '/');
	char addr[64];
	uint64_t len;

	if (!slash || slash == s || (size_t)(slash - s) >= sizeof(addr))
		return false;
	snprintf(addr, sizeof(addr), "%.*s", (int)(slash - s), s);
	if (!parse_addr(addr, ip->gid, &ip->ipv4) ||
	    !parse_u64(slash + 1, 1, ip->ipv4 ? 32 : 128, &len))
		return false;
	ip->prefix_len = (uint8_t)len;
	return urxe_config_ip_valid(ip);
}

int urxe_config_fail(char *err, size_t errlen, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(err, errlen, fmt, ap);
	va_end(ap);
	/* What it quotes may be anything; it stays one line. */
	for (char *p = err; errlen && *p; p++) {
		if (iscntrl((unsigned char)*p))
			*p = '?';
	}
	return EINVAL;
}

/* ---- one function a key ---- */

static bool key_port(struct urxe_config *cfg, struct urxe_port_config *dev, const char *v)
{
	return parse_string(v, dev->port, sizeof(dev->port)) && isalnum((unsigned char)v[0]) &&
	       !strpbrk(v, " \t;");
}

static bool key_ip(struct urxe_config *cfg, struct urxe_port_config *dev, const char *v)
{
	if (dev->num_ips == URXE_CONFIG_MAX_IPS ||
	    !urxe_config_ip_parse(v, &dev->ips[dev->num_ips]))
		return false;
	dev->num_ips++;
	return true;
}

static bool key_gw(struct urxe_config *cfg, struct urxe_port_config *dev, const char *v)
{
	struct urxe_config_ip ip;
	bool *has;

	if (!parse_addr(v, ip.gid, &ip.ipv4))
		return false;
	ip.prefix_len = ip.ipv4 ? 32 : 128;
	if (!urxe_config_ip_valid(&ip))
		return false;
	has = ip.ipv4 ? &dev->has_gw4 : &dev->has_gw6;
	if (*has)
		return false;
	*has = true;
	memcpy(ip.ipv4 ? dev->gw4 : dev->gw6, ip.gid, 16);
	return true;
}

static bool key_mac(struct urxe_config *cfg, struct urxe_port_config *dev, const char *v)
{
	unsigned b[6], any = 0;
	int n = 0;

	if (strlen(v) != 17 ||
	    sscanf(v, "%2x:%2x:%2x:%2x:%2x:%2x%n", &b[0], &b[1], &b[2], &b[3], &b[4], &b[5], &n) !=
		    6 ||
	    n != 17)
		return false;
	for (unsigned i = 0; i < 6; i++) {
		dev->mac[i] = (uint8_t)b[i];
		any |= b[i];
	}
	dev->has_mac = true;
	return any && !(b[0] & 1);
}

static bool key_mtu(struct urxe_config *cfg, struct urxe_port_config *dev, const char *v)
{
	uint64_t n;

	if (!parse_u64(v, 256, 9600, &n) || (n < 576 && n != 256 && n != 512))
		return false;
	dev->mtu = (uint32_t)n;
	return true;
}

/* A number. */
#define NUMBER_KEY(name, field, min, max)                                             \
	static bool key_##name(struct urxe_config *cfg, struct urxe_port_config *dev, \
			       const char *v)                                         \
	{                                                                             \
		uint64_t n;                                                           \
                                                                                      \
		if (!parse_u64(v, min, max, &n))                                      \
			return false;                                                 \
		dev->field = (__typeof__(dev->field))n;                               \
		return true;                                                          \
	}

NUMBER_KEY(vlan, vlan, 1, 4094)

static bool key_pcap(struct urxe_config *cfg, struct urxe_port_config *dev, const char *v)
{
	return parse_string(v, dev->pcap, sizeof(dev->pcap));
}

static bool parse_fault(const char *v, struct urxe_fault_rate *out)
{
	out->given = true;
	return parse_rate(v, &out->rate);
}

/* "drop" is for both directions, "drop-rx" and "drop-tx" are for one. */
#define FAULT_KEY(name, what, dir)                                                    \
	static bool key_##name(struct urxe_config *cfg, struct urxe_port_config *dev, \
			       const char *v)                                         \
	{                                                                             \
		return parse_fault(v, &dev->fault[what][dir]);                        \
	}
#define FAULT_KEYS(name, what)                    \
	FAULT_KEY(name, what, URXE_FAULT_BOTH)    \
	FAULT_KEY(name##_rx, what, URXE_FAULT_RX) \
	FAULT_KEY(name##_tx, what, URXE_FAULT_TX)

FAULT_KEYS(drop, URXE_FAULT_DROP)
FAULT_KEYS(dup, URXE_FAULT_DUP)
FAULT_KEYS(reorder, URXE_FAULT_REORDER)
FAULT_KEYS(corrupt, URXE_FAULT_CORRUPT)

static bool key_seed(struct urxe_config *cfg, struct urxe_port_config *dev, const char *v)
{
	return parse_u64(v, 0, UINT64_MAX, &dev->seed);
}

NUMBER_KEY(fault_every, fault_every, 1, 600000)
NUMBER_KEY(queues, queues, 1, URXE_MAX_LANES)

static bool key_spin(struct urxe_config *cfg, struct urxe_port_config *dev, const char *v)
{
	uint64_t n;

	if (!parse_u64(v, 0, 10000, &n))
		return false;
	dev->has_spin = true;
	dev->spin = (uint32_t)n;
	return true;
}

static bool key_trust_peer(struct urxe_config *cfg, struct urxe_port_config *dev, const char *v)
{
	dev->trust_peer = !strcmp(v, "yes");
	return dev->trust_peer || !strcmp(v, "no");
}

/* Of the connection manager. */
#define CM_KEY(name, min, max) NUMBER_KEY(cm_##name, cm.name, min, max)

CM_KEY(req_first, 10, 60000)
CM_KEY(req_retries, 1, 15)
CM_KEY(req_total, 10, 600000)
CM_KEY(rep_total, 10, 600000)
CM_KEY(dreq_total, 10, 600000)
CM_KEY(timewait, 1, 600000)
CM_KEY(mra, 10, 600000)

static bool key_patience(struct urxe_config *cfg, struct urxe_port_config *dev, const char *v)
{
	uint64_t n;

	if (!strcmp(v, "off")) {
		dev->cm.patience = URXE_CM_PATIENCE_OFF;
		return true;
	}
	if (!parse_u64(v, 1, 86400, &n))
		return false;
	dev->cm.patience = (uint32_t)n * 1000;
	return true;
}

static bool key_log(struct urxe_config *cfg, struct urxe_port_config *dev, const char *v)
{
	return !urxe_log_level_parse(v, &cfg->log);
}

const char *const urxe_config_views[URXE_VIEW_NUM] = {
	[URXE_VIEW_AUTO] = "auto",
	[URXE_VIEW_PRELOAD] = "preload",
	[URXE_VIEW_NEVER] = "never",
	[URXE_VIEW_ALWAYS] = "always",
};

static bool key_view(struct urxe_config *cfg, struct urxe_port_config *dev, const char *v)
{
	for (unsigned i = 0; i < URXE_VIEW_NUM; i++) {
		if (!strcmp(v, urxe_config_views[i])) {
			cfg->view = (enum urxe_view)i;
			return true;
		}
	}
	return false;
}

static bool key_eal(struct urxe_config *cfg, struct urxe_port_config *dev, const char *v)
{
	return parse_string(v, cfg->eal_args, sizeof(cfg->eal_args));
}

static const char yes_or_no[] = "yes or no";

#define RATE "a rate from 0 to 1"
#define MS   "10 to 600000 (ms)"

static const struct urxe_config_key keys[] = {
	{"port", false, false, key_port,
	 "DPDK device arguments (net_vhost0,iface=PATH ...), a PCI address (0000:03:00.0), "
	 "fabric[,name=NAME][,dir=DIR], udp[,if=IF][,bind=ADDR], or loop"},
	{"ip", false, true, key_ip, "a unicast host address ADDR/LEN, IPv4 or IPv6; 32 at most"},
	{"gw", false, true, key_gw, "a unicast address, one of each family at most"},
	{"mac", false, false, key_mac, "a unicast MAC xx:xx:xx:xx:xx:xx"},
	{"mtu", false, false, key_mtu,
	 "256, 512, 1024, 2048 or 4096 (RDMA path MTU), or 576 to 9600 (bytes of IP packet)"},
	{"vlan", false, false, key_vlan, "1 to 4094"},
	{"pcap", false, false, key_pcap, "a file name, of 255 bytes at most and without ';'"},
	{"drop", false, false, key_drop, RATE},
	{"drop-rx", false, false, key_drop_rx, RATE},
	{"drop-tx", false, false, key_drop_tx, RATE},
	{"dup", false, false, key_dup, RATE},
	{"dup-rx", false, false, key_dup_rx, RATE},
	{"dup-tx", false, false, key_dup_tx, RATE},
	{"reorder", false, false, key_reorder, RATE},
	{"reorder-rx", false, false, key_reorder_rx, RATE},
	{"reorder-tx", false, false, key_reorder_tx, RATE},
	{"corrupt", false, false, key_corrupt, RATE},
	{"corrupt-rx", false, false, key_corrupt_rx, RATE},
	{"corrupt-tx", false, false, key_corrupt_tx, RATE},
	{"seed", false, false, key_seed, "a number"},
	{"fault-every", false, false, key_fault_every, "1 to 600000 (ms)"},
	{"queues", false, false, key_queues, "1 to 64"},
	{"spin", false, false, key_spin, "0 to 10000 (us)"},
	{"trust-peer", false, false, key_trust_peer, yes_or_no},
	{"cm-req-first", false, false, key_cm_req_first, "10 to 60000 (ms)"},
	{"cm-req-retries", false, false, key_cm_req_retries, "1 to 15"},
	{"cm-req-total", false, false, key_cm_req_total, MS},
	{"cm-rep-total", false, false, key_cm_rep_total, MS},
	{"cm-dreq-total", false, false, key_cm_dreq_total, MS},
	{"cm-timewait", false, false, key_cm_timewait, "1 to 600000 (ms)"},
	{"cm-mra", false, false, key_cm_mra, MS},
	{"patience", false, false, key_patience, "1 to 86400 (seconds), or off"},
	{"log", true, false, key_log, "none, err, warn, info, debug or trace"},
	{"view", true, false, key_view, "auto, preload, always or never"},
	{"eal", true, false, key_eal, "DPDK EAL arguments, of 255 bytes at most and without ';'"},
};

#define NUM_KEYS (sizeof(keys) / sizeof(keys[0]))

const struct urxe_config_key *urxe_config_key_find(const char *name)
{
	for (unsigned i = 0; i < NUM_KEYS; i++) {
		if (!strcmp(keys[i].name, name))
			return &keys[i];
	}
	return NULL;
}

bool urxe_config_is_key(const char *name, bool *global)
{
	const struct urxe_config_key *k = urxe_config_key_find(name);

	if (k && global)
		*global = k->global;
	return k != NULL;
}

bool urxe_config_is_switch(const char *name)
{
	const struct urxe_config_key *k = urxe_config_key_find(name);

	return k && k->accepts == yes_or_no;
}

const char *const *urxe_config_key_names(void)
{
	static const char *names[NUM_KEYS + 1];

	for (unsigned i = 0; i < NUM_KEYS; i++)
		names[i] = keys[i].name;
	return names;
}
