/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What a user configures, and where it comes from: flags of `urxe run`, URXE_* variables,
 * an INI file, in this order of precedence. One parser serves all three.
 */
#ifndef URXE_NETIO_CONFIG_H
#define URXE_NETIO_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "urxe/cm_settings.h"
#include "urxe/log.h"

#define URXE_CONFIG_MAX_IPS	32
#define URXE_CONFIG_MAX_DEVICES 16

struct urxe_config_ip {
	uint8_t gid[16]; /* IPv4 as ::ffff:a.b.c.d */
	uint8_t prefix_len;
	bool ipv4;
};

/** Faults that a port can inject into RoCEv2 frames (netio/fault.c). */
enum urxe_fault {
	URXE_FAULT_DROP,
	URXE_FAULT_DUP,
	URXE_FAULT_REORDER,
	URXE_FAULT_CORRUPT,
	URXE_NUM_FAULTS
};

/** Which frames a rate is of; the rate of one direction goes before that of both. */
enum urxe_fault_side {
	URXE_FAULT_BOTH,
	URXE_FAULT_TX,
	URXE_FAULT_RX,
	URXE_NUM_FAULT_SIDES
};

struct urxe_fault_rate {
	bool given;
	double rate; /* 0..1 */
};

/** Configuration of one device (one port). */
struct urxe_port_config {
	char name[32];	/* "urxe0" */
	char port[256]; /* vdev devargs ("net_vhost0,iface=..."), PCI address, "fabric", "loop" */
	bool has_mac;
	uint8_t mac[6];
	uint32_t mtu;  /* as given: an RDMA path MTU, or an L3 MTU; default 1500, fabric's 4096 */
	uint16_t vlan; /* 1..4094 or URXE_NO_VLAN (0xffff) */
	struct urxe_config_ip ips[URXE_CONFIG_MAX_IPS];
	unsigned num_ips;
	/* No `ip` on a fabric or udp: the host's own addresses, as they come and go; */
	bool host;
	char host_if[16]; /* those of this interface, or "": of all */
	bool has_gw4, has_gw6;
	uint8_t gw4[16], gw6[16];
	char pcap[256]; /* capture file, "" for none */
	struct urxe_fault_rate fault[URXE_NUM_FAULTS][URXE_NUM_FAULT_SIDES];
	uint64_t seed;	      /* of the fault injection; 0: random */
	uint32_t fault_every; /* ms: faults in every second of such times; 0: at any time */
	unsigned queues;      /* rx/tx queue pairs (lanes) wanted; 0: 1 */
	bool has_spin;
	uint32_t spin;		    /* us that the service thread may look without a pause */
	bool trust_peer;	    /* whoever is at the link's socket (netio/trust.h) */
	struct urxe_cm_settings cm; /* the connection manager's times */
};

/** urxe_config_spin - the key `spin`, or its default, ns. */
static inline uint64_t urxe_config_spin(const struct urxe_port_config *cfg)
{
	return (cfg->has_spin ? cfg->spin : 100) * 1000ull;
}

/** Whether programs see files of the devices in /sys and /dev (`urxe run`). */
enum urxe_view {
	URXE_VIEW_AUTO,	   /* by namespaces where they can be had, else by a library */
	URXE_VIEW_PRELOAD, /* by that library */
	URXE_VIEW_NEVER,
	URXE_VIEW_ALWAYS, /* by namespaces, or not at all */
	URXE_VIEW_NUM
};

/** Their names, as the key "view" has them. */
extern const char *const urxe_config_views[URXE_VIEW_NUM];

struct urxe_config {
	struct urxe_port_config devices[URXE_CONFIG_MAX_DEVICES];
	unsigned num_devices;
	enum urxe_log_level log;
	char eal_args[256]; /* extra EAL arguments, "" for none */
	enum urxe_view view;
};

/**
 * urxe_config_load - the configuration of this process, from its environment
 *
 * URXE_CONFIG_TEXT (set by `urxe run`) alone, else URXE_* variables over the file that
 * URXE_CONFIG names. No configuration at all: 0 devices and success. The caller gives
 * @cfg->eal_args to urxe_eal_set_args().
 * Returns 0, or EINVAL with one line in @err that names key, what was found, what is accepted.
 */
int urxe_config_load(struct urxe_config *cfg, char *err, size_t errlen);

/*
 * The steps of urxe_config_load(), for `urxe run`, whose flags are one more layer.
 */

/** Where a setting comes from; a higher one goes before a lower one. */
enum urxe_config_layer {
	URXE_CONFIG_FILE,
	URXE_CONFIG_VARIABLE,
	URXE_CONFIG_FLAG
};

/** One key = value, not yet looked at. */
struct urxe_config_setting {
	char device[64]; /* section; "" for the default device, "urxe" for global keys */
	char key[64];
	char value[1024];
	char where[300]; /* for errors: "--mtu", "URXE_MTU", "urxe.ini:12" */
	enum urxe_config_layer layer;
};

struct urxe_config_settings {
	struct urxe_config_setting *list;
	unsigned num;
	bool forced_device;	 /* a device was named that has no key yet */
	char default_device[64]; /* whom flags and variables without a name mean; "" : the first */
};

/** urxe_config_add - append a setting; strings are copied. 0, or EINVAL (@err) or ENOMEM. */
int urxe_config_add(struct urxe_config_settings *s, enum urxe_config_layer layer,
		    const char *device, const char *key, const char *value, const char *where,
		    char *err, size_t errlen);

/** urxe_config_add_text - all of an INI document; @name is what errors call it. 0 or EINVAL. */
int urxe_config_add_text(struct urxe_config_settings *s, const char *text, const char *name,
			 char *err, size_t errlen);

/** urxe_config_add_file - all of an INI file. 0 or EINVAL. */
int urxe_config_add_file(struct urxe_config_settings *s, const char *path, char *err,
			 size_t errlen);

/** urxe_config_add_env - the URXE_* variables of @env (as environ). 0 or EINVAL. */
int urxe_config_add_env(struct urxe_config_settings *s, char *const *env, char *err, size_t errlen);

/** urxe_config_resolve - settings to configuration, checked throughout. 0, EINVAL (@err), ENOMEM.
 */
int urxe_config_resolve(const struct urxe_config_settings *s, struct urxe_config *cfg, char *err,
			size_t errlen);

/** urxe_config_settings_free - free the list. */
void urxe_config_settings_free(struct urxe_config_settings *s);

/** urxe_config_print - the INI document of a configuration, to be freed; NULL: no memory. */
char *urxe_config_print(const struct urxe_config *cfg);

/** urxe_config_is_key - is it a key of the table; @global: does it stand in [urxe]? */
bool urxe_config_is_key(const char *key, bool *global);

/** urxe_config_is_switch - is its value yes or no, and yes when an option has none? */
bool urxe_config_is_switch(const char *key);

/** urxe_config_key_names - the names of all keys, device keys first; ends with NULL. */
const char *const *urxe_config_key_names(void);

/** urxe_config_ip_parse - ADDR/LEN; false: that is not an address that a host can have. */
bool urxe_config_ip_parse(const char *s, struct urxe_config_ip *ip);

/** urxe_config_ip_valid - can a host have this address, on a network with this prefix? */
bool urxe_config_ip_valid(const struct urxe_config_ip *ip);

/** urxe_config_fault - the rate of a fault in one direction (@tx: what is sent), 0..1. */
double urxe_config_fault(const struct urxe_port_config *cfg, bool tx, enum urxe_fault what);

/** urxe_config_fabric - is this `port` the fabric of the machine's own processes? */
bool urxe_config_fabric(const char *port);

/** urxe_config_l3_mtu - bytes of IP packet the port must carry for this configuration. */
uint32_t urxe_config_l3_mtu(const struct urxe_port_config *cfg);

/** urxe_config_path_mtu - the RDMA path MTU (256..4096) for an L3 MTU; 0 when none fits. */
uint32_t urxe_config_path_mtu(uint32_t l3_mtu);

/** urxe_config_port_path_mtu - the same for a port: not more than the path MTU that @cfg names. */
uint32_t urxe_config_port_path_mtu(const struct urxe_port_config *cfg, uint32_t l3_mtu);

/**
 * urxe_config_mtu_for - the setting of `mtu` with which no RoCEv2 packet is longer than @bytes
 * @bytes: of IP packet
 *
 * Returns 0 when no RDMA path MTU is that small.
 */
uint32_t urxe_config_mtu_for(uint32_t bytes);

#endif
