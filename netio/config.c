/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * From settings of three layers to one checked configuration.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "netio/config_keys.h"
#include "netio/devargs.h"
#include "netio/fabric.h"
#include "netio/link_udp.h"
#include "netio/port.h"
#include "urxe/gid.h"

#define DEFAULT_DEVICE "urxe0"

/* ---- resolve ---- */

static bool name_ok(const char *name)
{
	size_t len = strlen(name);

	if (!len || len >= sizeof(((struct urxe_port_config *)0)->name) || !strcmp(name, "urxe") ||
	    !isalpha((unsigned char)name[0]))
		return false;
	for (; *name; name++) {
		if (!isalnum((unsigned char)*name) && !strchr("_-.", *name))
			return false;
	}
	return true;
}

static struct urxe_port_config *device_find(struct urxe_config *cfg, const char *name)
{
	for (unsigned i = 0; i < cfg->num_devices; i++) {
		if (!strcmp(cfg->devices[i].name, name))
			return &cfg->devices[i];
	}
	return NULL;
}

static int device_add(struct urxe_config *cfg, const char *name, const char *where, char *err,
		      size_t errlen)
{
	struct urxe_port_config *dev;

	if (device_find(cfg, name))
		return 0;
	if (!name_ok(name))
		return urxe_config_fail(
			err, errlen,
			"%s: found device name '%s', accepted: a letter, then up to "
			"30 of letters, digits, '_', '-', '.'; not 'urxe'",
			where, name);
	if (cfg->num_devices == URXE_CONFIG_MAX_DEVICES)
		return urxe_config_fail(err, errlen,
					"%s: found a device more, accepted: %u devices", where,
					URXE_CONFIG_MAX_DEVICES);
	dev = &cfg->devices[cfg->num_devices++];
	strcpy(dev->name, name);
	dev->vlan = URXE_NO_VLAN;
	return 0;
}

/* One value, or each of a list. */
static int apply(const struct urxe_config_setting *s, const struct urxe_config_key *k,
		 struct urxe_config *cfg, struct urxe_port_config *dev, char *err, size_t errlen)
{
	char copy[sizeof(s->value)], *save = NULL, *t = copy;
	const char *dot = dev ? dev->name : "urxe";

	strcpy(copy, s->value);
	if (k->repeats)
		t = strtok_r(copy, ", \t", &save);
	do {
		if (!t || !k->parse(cfg, dev, t))
			return urxe_config_fail(err, errlen,
						"%s: %s: found '%s' (%s), accepted: %s", dot,
						k->name, t ? t : "", s->where, k->accepts);
	} while (k->repeats && (t = strtok_r(NULL, ", \t", &save)));
	return 0;
}

static const char *device_of(const struct urxe_config_setting *s, const char *def)
{
	return s->device[0] ? s->device : def;
}

/* All settings of one key of one device (or the global ones) that stand in the highest layer. */
static int apply_key(const struct urxe_config_settings *s, const struct urxe_config_key *k,
		     const char *device, const char *def, struct urxe_config *cfg, char *err,
		     size_t errlen)
{
	struct urxe_port_config *dev = k->global ? NULL : device_find(cfg, device);
	const struct urxe_config_setting *e, *seen = NULL;
	int layer = -1, ret;

	for (unsigned i = 0; i < s->num; i++) {
		e = &s->list[i];
		if (!strcmp(e->key, k->name) && !strcmp(device_of(e, def), device) &&
		    (int)e->layer > layer)
			layer = (int)e->layer;
	}
	for (unsigned i = 0; i < s->num; i++) {
		e = &s->list[i];
		if (strcmp(e->key, k->name) || strcmp(device_of(e, def), device) ||
		    (int)e->layer != layer)
			continue;
		if (seen && !k->repeats)
			return urxe_config_fail(
				err, errlen,
				"%s: %s: found '%s' and '%s' (%s), accepted: one value", device,
				k->name, seen->value, e->value, e->where);
		seen = e;
		ret = apply(e, k, cfg, dev, err, errlen);
		if (ret)
			return ret;
	}
	return 0;
}

static int resolve_devices(const struct urxe_config_settings *s, const char *def,
			   struct urxe_config *cfg, char *err, size_t errlen)
{
	int ret = 0;

	/* In the order of their naming: the file's first, then what flags add. */
	for (unsigned i = 0; i < s->num && !ret; i++) {
		if (strcmp(s->list[i].device, "urxe"))
			ret = device_add(cfg, device_of(&s->list[i], def), s->list[i].where, err,
					 errlen);
	}
	if (!ret && s->forced_device)
		ret = device_add(cfg, def, "URXE_DEVICE or --device", err, errlen);
	return ret;
}

bool urxe_config_fabric(const char *port)
{
	char name[sizeof(((struct urxe_port_config *)0)->port)];

	urxe_devargs_name(port, name, sizeof(name));
	return !strcmp(name, "fabric");
}

/* What depends on the port. */
static void set_defaults(struct urxe_port_config *dev)
{
	bool fabric = urxe_config_fabric(dev->port);

	dev->host = fabric && !dev->num_ips;
	if (urxe_udp_port(dev->port))
		urxe_udp_defaults(dev);
	if (!dev->mtu)
		dev->mtu = fabric ? 4096 : 1500;
}

int urxe_config_resolve(const struct urxe_config_settings *s, struct urxe_config *cfg, char *err,
			size_t errlen)
{
	const char *def = s->default_device[0] ? s->default_device : DEFAULT_DEVICE;
	const char *const *names = urxe_config_key_names();
	const struct urxe_config_key *k;
	int ret;

	memset(cfg, 0, sizeof(*cfg));
	cfg->log = URXE_LOG_WARN;
	ret = resolve_devices(s, def, cfg, err, errlen);
	for (; *names && !ret; names++) {
		k = urxe_config_key_find(*names);
		if (k->global)
			ret = apply_key(s, k, "urxe", def, cfg, err, errlen);
		for (unsigned i = 0; i < cfg->num_devices && !k->global && !ret; i++)
			ret = apply_key(s, k, cfg->devices[i].name, def, cfg, err, errlen);
	}
	for (unsigned i = 0; i < cfg->num_devices; i++)
		set_defaults(&cfg->devices[i]);
	return ret ? ret : urxe_config_check(cfg, err, errlen);
}

/* ---- what concerns several keys ---- */

static bool on_link(const struct urxe_config_ip *ip, const uint8_t gid[16])
{
	unsigned bits = ip->prefix_len + (ip->ipv4 ? 96u : 0u);

	if (memcmp(ip->gid, gid, bits / 8))
		return false;
	return bits % 8 == 0 || ((ip->gid[bits / 8] ^ gid[bits / 8]) >> (8 - bits % 8)) == 0;
}

static int check_gw(const struct urxe_port_config *dev, const uint8_t gw[16], bool ipv4, char *err,
		    size_t errlen)
{
	bool link_local = !ipv4 && gw[0] == 0xfe && (gw[1] & 0xc0) == 0x80, found = link_local;
	char buf[64];

	for (unsigned i = 0; i < dev->num_ips; i++) {
		if (!memcmp(dev->ips[i].gid, gw, 16))
			return urxe_config_fail(
				err, errlen,
				"%s: gw: found its own address %s, accepted: another "
				"host's",
				dev->name, urxe_gid_print(gw, buf, sizeof(buf)));
		found |= dev->ips[i].ipv4 == ipv4 && on_link(&dev->ips[i], gw);
	}
	if (!found)
		return urxe_config_fail(
			err, errlen,
			"%s: gw: found %s, accepted: an address on the prefix of an "
			"ip of this device",
			dev->name, urxe_gid_print(gw, buf, sizeof(buf)));
	return 0;
}

static int check_fabric(const struct urxe_port_config *dev, char *err, size_t errlen)
{
	struct urxe_fabric_spec spec;
	char why[256];

	if (urxe_fabric_spec_parse(dev->port, &spec, why, sizeof(why)))
		return urxe_config_fail(err, errlen,
					"%s: port: found '%s' (%s), accepted: "
					"fabric[,name=NAME][,dir=DIR]",
					dev->name, dev->port, why);
	if (dev->vlan != URXE_NO_VLAN)
		return urxe_config_fail(err, errlen,
					"%s: vlan: found %u with fabric, accepted: none", dev->name,
					dev->vlan);
	if (dev->host && dev->has_mac)
		return urxe_config_fail(err, errlen,
					"%s: mac: found with fabric, accepted: with an ip of its "
					"own, for all others share one",
					dev->name);
	return 0;
}

static int check_device(const struct urxe_port_config *dev, char *err, size_t errlen)
{
	const struct urxe_driver_kind *kind = urxe_devargs_kind(dev->port);
	int ret = 0;

	if (!dev->port[0])
		return urxe_config_fail(err, errlen, "%s: port: found none, accepted: %s",
					dev->name, urxe_config_key_find("port")->accepts);
	if (kind->max_l3_mtu && urxe_config_l3_mtu(dev) > kind->max_l3_mtu)
		return urxe_config_fail(
			err, errlen,
			"%s: mtu: found %u with %s, accepted: what fits into %u bytes "
			"of IP packet",
			dev->name, dev->mtu, kind->driver, kind->max_l3_mtu);
	for (unsigned i = 0; i < dev->num_ips; i++) {
		/* RFC 8200: an IPv6 link carries 1280 bytes */
		if (!dev->ips[i].ipv4 && urxe_config_l3_mtu(dev) < 1280)
			return urxe_config_fail(err, errlen,
						"%s: mtu: found %u with an IPv6 address, accepted: "
						"at least 1280",
						dev->name, dev->mtu);
	}
	if (urxe_config_fabric(dev->port))
		ret = check_fabric(dev, err, errlen);
	else if (urxe_udp_port(dev->port))
		ret = urxe_udp_check(dev, err, errlen);
	if (!ret && dev->has_gw4)
		ret = check_gw(dev, dev->gw4, true, err, errlen);
	if (!ret && dev->has_gw6)
		ret = check_gw(dev, dev->gw6, false, err, errlen);
	return ret;
}

static int check_pair(const struct urxe_port_config *a, const struct urxe_port_config *b, char *err,
		      size_t errlen)
{
	char na[64], nb[64], buf[64];

	urxe_devargs_name(a->port, na, sizeof(na));
	urxe_devargs_name(b->port, nb, sizeof(nb));
	if (a != b && !strcmp(na, nb) && strcmp(na, "loop"))
		return urxe_config_fail(
			err, errlen,
			"%s: port: found '%s' which is %s's, accepted: a port of its "
			"own (number them: net_vhost0, net_vhost1)",
			b->name, nb, a->name);
	if (a != b && a->pcap[0] && !strcmp(a->pcap, b->pcap))
		return urxe_config_fail(
			err, errlen,
			"%s: pcap: found '%s' which is %s's, accepted: a file of its "
			"own",
			b->name, b->pcap, a->name);
	for (unsigned i = 0; i < a->num_ips; i++) {
		for (unsigned j = a == b ? i + 1 : 0; j < b->num_ips; j++) {
			if (!memcmp(a->ips[i].gid, b->ips[j].gid, 16))
				return urxe_config_fail(
					err, errlen,
					"%s: ip: found %s twice, accepted: an "
					"address once (first with %s)",
					b->name, urxe_gid_print(b->ips[j].gid, buf, sizeof(buf)),
					a->name);
		}
	}
	return 0;
}

int urxe_config_check(const struct urxe_config *cfg, char *err, size_t errlen)
{
	int ret = 0;

	for (unsigned i = 0; i < cfg->num_devices && !ret; i++) {
		ret = check_device(&cfg->devices[i], err, errlen);
		for (unsigned j = 0; j <= i && !ret; j++)
			ret = check_pair(&cfg->devices[j], &cfg->devices[i], err, errlen);
	}
	return ret;
}

/* ---- print ---- */

static void print_faults(FILE *f, const struct urxe_port_config *d)
{
	static const char *const names[URXE_NUM_FAULTS] = {"drop", "dup", "reorder", "corrupt"};
	static const char *const sides[URXE_NUM_FAULT_SIDES] = {"", "-tx", "-rx"};

	for (unsigned i = 0; i < URXE_NUM_FAULTS; i++) {
		for (unsigned j = 0; j < URXE_NUM_FAULT_SIDES; j++) {
			if (d->fault[i][j].given)
				fprintf(f, "%s%s = %.17g\n", names[i], sides[j],
					d->fault[i][j].rate);
		}
	}
}

static void print_cm(FILE *f, const struct urxe_cm_settings *s)
{
	const struct {
		const char *key;
		uint32_t value;
	} v[] = {{"cm-req-first", s->req_first},
		 {"cm-req-retries", s->req_retries},
		 {"cm-req-total", s->req_total},
		 {"cm-rep-total", s->rep_total},
		 {"cm-dreq-total", s->dreq_total},
		 {"cm-timewait", s->timewait},
		 {"cm-mra", s->mra}};

	for (unsigned i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		if (v[i].value)
			fprintf(f, "%s = %u\n", v[i].key, v[i].value);
	}
	if (s->patience == URXE_CM_PATIENCE_OFF)
		fputs("patience = off\n", f);
	else if (s->patience)
		fprintf(f, "patience = %u\n", s->patience / 1000);
}

static void print_device(FILE *f, const struct urxe_port_config *d)
{
	char buf[64];

	fprintf(f, "[%s]\nport = %s\n", d->name, d->port);
	for (unsigned i = 0; i < d->num_ips; i++)
		fprintf(f, "ip = %s/%u\n", urxe_gid_print(d->ips[i].gid, buf, sizeof(buf)),
			d->ips[i].prefix_len);
	if (d->has_gw4)
		fprintf(f, "gw = %s\n", urxe_gid_print(d->gw4, buf, sizeof(buf)));
	if (d->has_gw6)
		fprintf(f, "gw = %s\n", urxe_gid_print(d->gw6, buf, sizeof(buf)));
	if (d->has_mac)
		fprintf(f, "mac = %02x:%02x:%02x:%02x:%02x:%02x\n", d->mac[0], d->mac[1], d->mac[2],
			d->mac[3], d->mac[4], d->mac[5]);
	fprintf(f, "mtu = %u\n", d->mtu);
	if (d->vlan != URXE_NO_VLAN)
		fprintf(f, "vlan = %u\n", d->vlan);
	if (d->pcap[0])
		fprintf(f, "pcap = %s\n", d->pcap);
	print_faults(f, d);
	if (d->seed)
		fprintf(f, "seed = %llu\n", (unsigned long long)d->seed);
	if (d->fault_every)
		fprintf(f, "fault-every = %u\n", d->fault_every);
	if (d->queues)
		fprintf(f, "queues = %u\n", d->queues);
	if (d->has_spin)
		fprintf(f, "spin = %u\n", d->spin);
	if (d->trust_peer)
		fprintf(f, "trust-peer = yes\n");
	print_cm(f, &d->cm);
}

char *urxe_config_print(const struct urxe_config *cfg)
{
	static const char *const levels[] = {"none", "err", "warn", "info", "debug", "trace"};
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		return NULL;
	fprintf(f, "[urxe]\nlog = %s\n", levels[cfg->log]);
	if (cfg->eal_args[0])
		fprintf(f, "eal = %s\n", cfg->eal_args);
	if (cfg->view != URXE_VIEW_AUTO)
		fprintf(f, "view = %s\n", urxe_config_views[cfg->view]);
	for (unsigned i = 0; i < cfg->num_devices; i++)
		print_device(f, &cfg->devices[i]);
	if (fclose(f)) {
		free(text);
		return NULL;
	}
	return text;
}

/* ---- load ---- */

int urxe_config_load(struct urxe_config *cfg, char *err, size_t errlen)
{
	const char *text = secure_getenv("URXE_CONFIG_TEXT"), *file = secure_getenv("URXE_CONFIG");
	struct urxe_config_settings s = {0};
	int ret = 0;

	if (text && text[0]) {
		ret = urxe_config_add_text(&s, text, "URXE_CONFIG_TEXT", err, errlen);
	} else {
		if (file && file[0])
			ret = urxe_config_add_file(&s, file, err, errlen);
		if (!ret)
			ret = urxe_config_add_env(&s, environ, err, errlen);
	}
	if (!ret)
		ret = urxe_config_resolve(&s, cfg, err, errlen);
	if (ret == ENOMEM)
		ret = urxe_config_fail(err, errlen, "no memory to read the configuration");
	urxe_config_settings_free(&s);
	return ret;
}
