/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The configuration: INI documents, flags and variables with their order of precedence, the error
 * of each wrong key or value, and what the key port says (netio/config.h, netio/devargs.h).
 */
#include "harness.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "netio/config.h"
#include "netio/devargs.h"
#include "netio/port.h"

static char err[512];
static struct urxe_config cfg;

static int from_text(const char *text)
{
	struct urxe_config_settings s = {0};
	int ret = urxe_config_add_text(&s, text, "test.ini", err, sizeof(err));

	if (!ret)
		ret = urxe_config_resolve(&s, &cfg, err, sizeof(err));
	urxe_config_settings_free(&s);
	return ret;
}

static double rate_of(enum urxe_fault what, enum urxe_fault_side side)
{
	return cfg.devices[0].fault[what][side].rate;
}

static void whole_file(void)
{
	static const uint8_t mac[6] = {2, 0, 0, 0, 0, 0x1f};
	static const struct urxe_cm_settings cm = {100, 7, 9000, 8000, 700, 60, 5000, 90000};

	CU_ASSERT_EQUAL_FATAL(
		from_text("# a comment\n; another\n[urxe]\nlog = debug\neal = --foo 1\n"
			  "\n[urxe0]\n  port = net_vhost0,iface=/tmp/x\r\n"
			  "ip = 10.0.0.1/24, fd00::1/64\nip=10.0.1.1/24\n"
			  "gw = 10.0.0.254 fd00::ff\nmac = 02:00:00:00:00:1F\n"
			  "mtu = 4096\nvlan = 7\npcap = /tmp/a b.pcap\ndrop = 0.01\n"
			  "dup=.5\nreorder = 1\ncorrupt = 0\nseed = 0x10\n"
			  "fault-every = 50\nqueues = 4\n"
			  "spin = 0\ntrust-peer = yes\n"
			  "cm-req-first = 100\ncm-req-retries = 7\ncm-req-total = 9000\n"
			  "cm-rep-total = 8000\ncm-dreq-total = 700\ncm-timewait = 60\n"
			  "cm-mra = 5000\npatience = 90\n"
			  "drop-rx = 0.25\ndup-tx = 0\n"
			  "[second]\nport = loop"),
		0);
	CU_ASSERT_EQUAL(cfg.num_devices, 2);
	CU_ASSERT_EQUAL(cfg.log, URXE_LOG_DEBUG);
	CU_ASSERT_STRING_EQUAL(cfg.eal_args, "--foo 1");
	CU_ASSERT_STRING_EQUAL(cfg.devices[0].name, "urxe0");
	CU_ASSERT_STRING_EQUAL(cfg.devices[0].port, "net_vhost0,iface=/tmp/x");
	CU_ASSERT_EQUAL(cfg.devices[0].num_ips, 3);
	CU_ASSERT_EQUAL(cfg.devices[0].ips[0].gid[10], 0xff);
	CU_ASSERT_EQUAL(cfg.devices[0].ips[0].gid[15], 1);
	CU_ASSERT_TRUE(cfg.devices[0].ips[0].ipv4);
	CU_ASSERT_EQUAL(cfg.devices[0].ips[1].prefix_len, 64);
	CU_ASSERT_FALSE(cfg.devices[0].ips[1].ipv4);
	CU_ASSERT_TRUE(cfg.devices[0].has_gw4 && cfg.devices[0].has_gw6);
	CU_ASSERT_EQUAL(memcmp(cfg.devices[0].mac, mac, 6), 0);
	CU_ASSERT_EQUAL(cfg.devices[0].mtu, 4096);
	CU_ASSERT_EQUAL(cfg.devices[0].vlan, 7);
	CU_ASSERT_STRING_EQUAL(cfg.devices[0].pcap, "/tmp/a b.pcap");
	CU_ASSERT_EQUAL(rate_of(URXE_FAULT_DROP, URXE_FAULT_BOTH), 0.01);
	CU_ASSERT_EQUAL(rate_of(URXE_FAULT_DUP, URXE_FAULT_BOTH), 0.5);
	CU_ASSERT_TRUE(cfg.devices[0].fault[URXE_FAULT_DROP][URXE_FAULT_RX].given);
	CU_ASSERT_EQUAL(rate_of(URXE_FAULT_DROP, URXE_FAULT_RX), 0.25);
	CU_ASSERT_FALSE(cfg.devices[0].fault[URXE_FAULT_DROP][URXE_FAULT_TX].given);
	CU_ASSERT_TRUE(cfg.devices[0].fault[URXE_FAULT_DUP][URXE_FAULT_TX].given);
	CU_ASSERT_EQUAL(rate_of(URXE_FAULT_DUP, URXE_FAULT_TX), 0);
	CU_ASSERT_EQUAL(rate_of(URXE_FAULT_REORDER, URXE_FAULT_BOTH), 1);
	CU_ASSERT_EQUAL(cfg.devices[0].seed, 16);
	CU_ASSERT_EQUAL(cfg.devices[0].fault_every, 50);
	CU_ASSERT_EQUAL(cfg.devices[1].fault_every, 0);
	CU_ASSERT_EQUAL(cfg.devices[0].queues, 4);
	CU_ASSERT_EQUAL(urxe_config_spin(&cfg.devices[0]), 0);
	CU_ASSERT_EQUAL(urxe_config_spin(&cfg.devices[1]), 100000);
	CU_ASSERT_TRUE(cfg.devices[0].trust_peer && !cfg.devices[1].trust_peer);
	CU_ASSERT_EQUAL(memcmp(&cfg.devices[0].cm, &cm, sizeof(cm)), 0);
	CU_ASSERT_STRING_EQUAL(cfg.devices[1].name, "second");
	CU_ASSERT_EQUAL(cfg.devices[1].mtu, 1500);
	CU_ASSERT_EQUAL(cfg.devices[1].vlan, URXE_NO_VLAN);
}

static void print_and_read_again(void)
{
	struct urxe_config first;
	char *text;

	whole_file();
	first = cfg;
	text = urxe_config_print(&cfg);
	CU_ASSERT_PTR_NOT_NULL_FATAL(text);
	CU_ASSERT_EQUAL(from_text(text), 0);
	CU_ASSERT_EQUAL(memcmp(&first, &cfg, sizeof(cfg)), 0);
	free(text);
	/* Each level. */
	for (int level = URXE_LOG_NONE; level <= URXE_LOG_TRACE; level++) {
		cfg.log = (enum urxe_log_level)level;
		text = urxe_config_print(&cfg);
		CU_ASSERT_PTR_NOT_NULL_FATAL(text);
		CU_ASSERT_EQUAL(from_text(text), 0);
		CU_ASSERT_EQUAL((int)cfg.log, level);
		free(text);
	}
}

/* A fabric has the host's addresses, unless it is given some, and carries the largest path MTU. */
static void fabric(void)
{
	static const char *const other[] = {"fabrics", "fabric0", "loop"};
	char text[64];

	CU_ASSERT_EQUAL_FATAL(from_text("[urxe0]\nport = fabric,name=a-b_3\n"), 0);
	CU_ASSERT(cfg.devices[0].host);
	CU_ASSERT_EQUAL(cfg.devices[0].mtu, 4096);
	CU_ASSERT_EQUAL_FATAL(from_text("[urxe0]\nport = fabric\nip = 10.0.0.1/24\nmtu = 1024\n"
					"mac = 02:00:00:00:00:1f\n"),
			      0);
	CU_ASSERT(!cfg.devices[0].host);
	CU_ASSERT_EQUAL(cfg.devices[0].mtu, 1024);
	for (unsigned i = 0; i < sizeof(other) / sizeof(other[0]); i++) {
		snprintf(text, sizeof(text), "[urxe0]\nport = %s\n", other[i]);
		CU_ASSERT_EQUAL_FATAL(from_text(text), 0);
		CU_ASSERT(!cfg.devices[0].host);
		CU_ASSERT_EQUAL(cfg.devices[0].mtu, 1500);
	}
}

#define DEV "[urxe0]\nport = loop\n"

/* Each: a document, and what the one line about it must contain. */
static void errors(void)
{
	static const struct {
		const char *text, *says;
	} c[] = {
		{"[urxe0]\nprot = loop\n", "found key 'prot'"},
		{"port = loop\n", "before any section"},
		{"[urxe0\nport = loop\n", "test.ini:1"},
		{"[urxe0]\nport\n", "test.ini:2"},
		{"[urxe0]\nip = 10.0.0.1/24\n", "port: found none"},
		{"[urxe0]\nport = \n", "found ''"},
		{"[urxe0]\nport = loop\nport = loop\n", "accepted: one value"},
		{DEV DEV, "twice"},
		{"[urxe]\nport = loop\n", "in [urxe]"},
		{DEV "log = info\n", "accepted: in [urxe]"},
		{"[urxe]\nlog = loud\n", "found 'loud'"},
		{"[0bad]\nport = loop\n", "device name '0bad'"},
		{"[a b]\nport = loop\n", "device name"},
		{"[abcdefghijklmnopqrstuvwxyz0123456]\nport = loop\n", "device name"},
		{"[urxe0]\nport = fabric,nome=a\n", "port: found 'fabric,nome=a' ("},
		{"[urxe0]\nport = fabric,name=a/b\n", "port: found 'fabric,name=a/b' ("},
		{"[urxe0]\nport = fabric,name=a,dir=/b\n", "not both"},
		{"[urxe0]\nport = fabric\nvlan = 7\n", "vlan: found 7 with fabric"},
		{"[urxe0]\nport = fabric\nmac = 02:00:00:00:00:1f\n", "mac: found with fabric"},
		{DEV "ip = 10.0.0.1\n", "found '10.0.0.1'"},
		{DEV "ip = 10.0.0.1/33\n", "ADDR/LEN"},
		{DEV "ip = 10.0.0.1/0\n", "ADDR/LEN"},
		{DEV "ip = 10.0.0.0/24\n", "10.0.0.0/24"},
		{DEV "ip = 10.0.0.255/24\n", "10.0.0.255/24"},
		{DEV "ip = 0.0.0.0/8\n", "unicast"},
		{DEV "ip = 127.0.0.1/8\n", "unicast"},
		{DEV "ip = 224.0.0.1/8\n", "unicast"},
		{DEV "ip = 255.255.255.255/32\n", "unicast"},
		{DEV "ip = ::/64\n", "unicast"},
		{DEV "ip = ::1/128\n", "unicast"},
		{DEV "ip = ff02::1/64\n", "unicast"},
		{DEV "ip = ::ffff:10.0.0.1/96\n", "unicast"},
		{DEV "ip = 10.0.0.1/24,10.0.0.2/24x\n", "found '10.0.0.2/24x'"},
		{DEV "ip = 10.0.0.1/24 10.0.0.1/16\n", "found 10.0.0.1 twice"},
		{DEV "ip = fd00::1/64\n[b]\nport = loop\nip = fd00::1/64\n", "found fd00::1 twice"},
		{DEV "ip = 10.0.0.1/24\ngw = 10.0.1.1\n", "on the prefix"},
		{DEV "ip = 10.0.0.1/24\ngw = 10.0.0.1\n", "its own address"},
		{DEV "ip = 10.0.0.1/24\ngw = 10.0.0.2 10.0.0.3\n", "one of each family"},
		{DEV "gw = fd00::1\n", "on the prefix"},
		{DEV "mac = 01:00:00:00:00:01\n", "unicast MAC"},
		{DEV "mac = 00:00:00:00:00:00\n", "unicast MAC"},
		{DEV "mac = 2:0:0:0:0:1\n", "unicast MAC"},
		{DEV "mac = 02:00:00:00:00:0g\n", "unicast MAC"},
		{DEV "mtu = 575\n", "found '575'"},
		{DEV "mtu = 9601\n", "found '9601'"},
		{DEV "mtu = -1\n", "found '-1'"},
		{DEV "mtu = 1500x\n", "found '1500x'"},
		{DEV "mtu = 1200\nip = fd00::1/64\n", "at least 1280"},
		{"[t]\nport = net_tap0\nmtu = 4096\n", "fits into 1500"},
		{DEV "vlan = 0\n", "1 to 4094"},
		{DEV "vlan = 4095\n", "1 to 4094"},
		{DEV "drop = 1.1\n", "from 0 to 1"},
		{DEV "drop = nan\n", "from 0 to 1"},
		{DEV "drop = 0,5\n", "from 0 to 1"},
		{DEV "dup = -0.1\n", "from 0 to 1"},
		{DEV "drop-rx = 2\n", "from 0 to 1"},
		{DEV "drop-up = 0.1\n", "found key 'drop-up'"},
		{DEV "corrupt = 1e99\n", "from 0 to 1"},
		{DEV "seed = abc\n", "a number"},
		{DEV "fault-every = 0\n", "1 to 600000"},
		{DEV "seed = 99999999999999999999\n", "a number"},
		{DEV "queues = 0\n", "1 to 64"},
		{DEV "spin = 10001\n", "0 to 10000 (us)"},
		{DEV "trust-peer = 1\n", "yes or no"},
		{DEV "cm-req-first = 9\n", "10 to 60000 (ms)"},
		{DEV "cm-req-retries = 16\n", "1 to 15"},
		{DEV "cm-req-total = 1s\n", "10 to 600000 (ms)"},
		{DEV "cm-rep-total = 600001\n", "10 to 600000 (ms)"},
		{DEV "cm-dreq-total = -1\n", "10 to 600000 (ms)"},
		{DEV "cm-timewait = 0\n", "1 to 600000 (ms)"},
		{DEV "cm-mra = 0\n", "10 to 600000 (ms)"},
		{DEV "patience = never\n", "1 to 86400 (seconds), or off"},
		{DEV "patience = 0\n", "1 to 86400 (seconds), or off"},
		{"[a]\nport = net_vhost0,iface=/a\n[b]\nport = net_vhost0,iface=/b\n",
		 "port of its own"},
		{DEV "pcap = /tmp/x\n[b]\nport = loop\npcap = /tmp/x\n", "file of its own"},
		/* What inih would take, or pass over. */
		{"\n[urxe0] port = loop\n", "test.ini:2: found '[urxe0] port = loop'"},
		{"[urxe0] # no comment\n", "[SECTION]"},
		{"[]\nport = loop\n", "[SECTION]"},
		{"[a ;b]\nport = loop\n", "[SECTION]"},
		{"[a]\n[b]\n[c\n[a]\n[a]\n", "test.ini:3: found '[c'"},
		{DEV "pcap = |\n |x\n", "test.ini:4: found '|x'"},
		{DEV "= 1\n", "test.ini:3: found key ''"},
		{"= 1\n", "before any section"},
		{DEV "\n\nmtu = 1500\nvlan\nmtu = 1\n", "test.ini:6: found 'vlan'"},
		{DEV "mtu = 575\n", "(test.ini:3)"},
		{DEV "mtu = 15;00\n", "found '15;00'"},
		{DEV "mtu\n = 15\n", "test.ini:3"},
		{DEV "mtu = 1500\n 1400\n", "test.ini:4: found '1400'"},
	};

	for (unsigned i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		err[0] = '\0';
		CU_ASSERT_EQUAL(from_text(c[i].text), EINVAL);
		if (!strstr(err, c[i].says))
			printf("\n  number %u: '%s'\n", i, err);
		CU_ASSERT_PTR_NOT_NULL(strstr(err, c[i].says));
		CU_ASSERT_PTR_NOT_NULL(strstr(err, "accepted: "));
		CU_ASSERT_PTR_NULL(strchr(err, '\n'));
	}
}

static void accepted(void)
{
	static const char *const c[] = {
		"",
		"\n\n# nothing\n",
		"[urxe]\n",
		DEV "ip = 10.0.0.0/31\n",
		DEV "ip = 10.0.0.5/32\n",
		DEV "ip = fe80::1/64\ngw = fe80::2\n",
		DEV "mtu = 256\nip = fd00::1/64\n",
		DEV "mtu = 576\n",
		DEV "mtu = 9600\n",
		"[a]\nport = loop\n[b]\nport = loop\n",
		"[a]\nport = 03:00.0\n",
		"\xef\xbb\xbf[urxe0] ; the first\nport = loop ; a wire\n\t; more\n \v\n",
		"[a]\r\nport: loop\r\n\tmtu : 1500\r\n",
	};

	for (unsigned i = 0; i < sizeof(c) / sizeof(c[0]); i++)
		CU_ASSERT_EQUAL(from_text(c[i]), 0);
}

/* Longer than inih's buffer: in pieces, which nothing shows in the end. */
static void long_lines(void)
{
	static const char *const fill[] = {"x", "a b", "[=", "x#", "x ", " "};
	static const char *const ends[] = {"", " ; c; d ; e", " ;", "  \r", " ; x ; x # x"};
	char value[256], text[2000];

	for (unsigned len = 100; len < 256; len++) {
		for (unsigned f = 0; f < 30; f++) {
			for (unsigned i = 0; i < len; i++)
				value[i] = fill[f % 6][i % strlen(fill[f % 6])];
			value[0] = value[len - 1] = '/';
			value[len] = '\0';
			snprintf(text, sizeof(text), DEV "pcap = %s%s\nmtu = 576\n", value,
				 ends[f / 6]);
			CU_ASSERT_EQUAL(from_text(text), 0);
			CU_ASSERT_STRING_EQUAL(cfg.devices[0].pcap, value);
			CU_ASSERT_EQUAL(cfg.devices[0].mtu, 576);
		}
	}
	snprintf(text, sizeof(text), DEV "pcap = /%0*d\n", 300, 0);
	CU_ASSERT_EQUAL(from_text(text), EINVAL);
	snprintf(text, sizeof(text), DEV "pcap = /%0*d\n", 1500, 0);
	CU_ASSERT_EQUAL(from_text(text), EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(err, "test.ini:3"));
	memset(text, ' ', 1000);
	memcpy(text, DEV "pcap = ", sizeof(DEV "pcap = ") - 1);
	strcpy(text + 600, "/x     \n");
	CU_ASSERT_EQUAL(from_text(text), 0);
	CU_ASSERT_STRING_EQUAL(cfg.devices[0].pcap, "/x");
	/* No syntax behind long lines: which line it is, is known all the same. */
	snprintf(text, sizeof(text), DEV "pcap = /%0*d\n# %0*d\nvlan\n", 200, 0, 900, 0);
	CU_ASSERT_EQUAL(from_text(text), EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(err, "test.ini:5: found 'vlan'"));
	snprintf(text, sizeof(text), "[%0*d]\n", 300, 0);
	CU_ASSERT_EQUAL(from_text(text), EINVAL);
	snprintf(text, sizeof(text), DEV "%0*d = 1\n", 300, 0);
	CU_ASSERT_EQUAL(from_text(text), EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(err, "test.ini:3"));
}

/* A section names its device, whatever is in it. */
static void empty_section(void)
{
	char *env[] = {"URXE_PORT=loop", NULL};
	struct urxe_config_settings s = {0};

	CU_ASSERT_EQUAL(urxe_config_add_text(&s, "[urxe]\n[mine]", "f", err, sizeof(err)), 0);
	CU_ASSERT_EQUAL(urxe_config_add_env(&s, env, err, sizeof(err)), 0);
	CU_ASSERT_EQUAL(urxe_config_resolve(&s, &cfg, err, sizeof(err)), 0);
	CU_ASSERT_EQUAL(cfg.num_devices, 1);
	CU_ASSERT_STRING_EQUAL(cfg.devices[0].name, "mine");
	urxe_config_settings_free(&s);
}

/* What a flag says must get through the document that `urxe run` makes of it. */
static int by_flag(const char *key, const char *value)
{
	struct urxe_config_settings s = {0};
	int ret = urxe_config_add(&s, URXE_CONFIG_FLAG, "", "port", "loop", "--port", err,
				  sizeof(err));

	if (!ret)
		ret = urxe_config_add(&s, URXE_CONFIG_FLAG, "", key, value, "--x", err,
				      sizeof(err));
	if (!ret)
		ret = urxe_config_resolve(&s, &cfg, err, sizeof(err));
	urxe_config_settings_free(&s);
	return ret;
}

static void flags_survive_printing(void)
{
	static struct urxe_config first;
	char longest[256], *text;

	memset(longest, 'x', 255);
	longest[255] = '\0';
	for (int i = 0; i < 2; i++) {
		CU_ASSERT_EQUAL(by_flag("pcap", i ? longest : " /a b \t"), 0);
		CU_ASSERT_STRING_EQUAL(cfg.devices[0].pcap, i ? longest : "/a b");
		first = cfg;
		text = urxe_config_print(&cfg);
		CU_ASSERT_PTR_NOT_NULL_FATAL(text);
		CU_ASSERT_EQUAL(from_text(text), 0);
		CU_ASSERT_EQUAL(memcmp(&first, &cfg, sizeof(cfg)), 0);
		free(text);
	}
	CU_ASSERT_EQUAL(by_flag("pcap", "a;b"), EINVAL);
	CU_ASSERT_EQUAL(by_flag("pcap", "a\n[b]\nport = loop"), EINVAL);
	CU_ASSERT_PTR_NULL(strchr(err, '\n'));
}

static void layers(void)
{
	char *env[] = {"URXE_MTU=2048", "URXE_IP=10.0.0.2/24", "URXE_DROP=", "URXELESS=1",
		       "OTHER=2",	"URXE_DUP_RX=.25",     NULL};
	struct urxe_config_settings s = {0};

	CU_ASSERT_EQUAL(urxe_config_add_text(&s,
					     "[one]\nport = loop\nmtu = 1024\nip = 10.0.0.1/24\n"
					     "vlan = 5\n[two]\nport = loop\nmtu = 512\n",
					     "f", err, sizeof(err)),
			0);
	CU_ASSERT_EQUAL(urxe_config_add_env(&s, env, err, sizeof(err)), 0);
	CU_ASSERT_EQUAL(urxe_config_add(&s, URXE_CONFIG_FLAG, "two", "mtu", "4096", "--mtu", err,
					sizeof(err)),
			0);
	CU_ASSERT_EQUAL(urxe_config_resolve(&s, &cfg, err, sizeof(err)), 0);
	CU_ASSERT_EQUAL(cfg.num_devices, 2);
	CU_ASSERT_EQUAL(cfg.devices[0].mtu, 2048); /* a variable goes before the file */
	CU_ASSERT_EQUAL(cfg.devices[0].num_ips, 1);
	CU_ASSERT_EQUAL(cfg.devices[0].ips[0].gid[15], 2);
	CU_ASSERT_EQUAL(cfg.devices[0].vlan, 5);
	CU_ASSERT_EQUAL(rate_of(URXE_FAULT_DUP, URXE_FAULT_RX), .25);
	CU_ASSERT_EQUAL(cfg.devices[1].mtu, 4096); /* a flag before either */
	urxe_config_settings_free(&s);
}

static void variables(void)
{
	char *typo[] = {"URXE_PROT=loop", NULL};
	char *named[] = {"URXE_DEVICE=mine", "URXE_PORT=loop", "URXE_READY_FILE=/x", NULL};
	char *none[] = {"PATH=/bin", "URXE_BUILD=/x", "URXE_LOG=info", NULL};
	struct urxe_config_settings s = {0};

	CU_ASSERT_EQUAL(urxe_config_add_env(&s, typo, err, sizeof(err)), EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(err, "URXE_PORT"));
	urxe_config_settings_free(&s);
	CU_ASSERT_EQUAL(urxe_config_add_env(&s, named, err, sizeof(err)), 0);
	CU_ASSERT_EQUAL(urxe_config_resolve(&s, &cfg, err, sizeof(err)), 0);
	CU_ASSERT_EQUAL(cfg.num_devices, 1);
	CU_ASSERT_STRING_EQUAL(cfg.devices[0].name, "mine");
	urxe_config_settings_free(&s);
	CU_ASSERT_EQUAL(urxe_config_add_env(&s, none, err, sizeof(err)), 0);
	CU_ASSERT_EQUAL(urxe_config_resolve(&s, &cfg, err, sizeof(err)), 0);
	CU_ASSERT_EQUAL(cfg.num_devices, 0);
	CU_ASSERT_EQUAL(cfg.log, URXE_LOG_INFO);
	urxe_config_settings_free(&s);
}

static void load(void)
{
	setenv("URXE_PORT", "loop", 1);
	setenv("URXE_IP", "10.0.0.9/24", 1);
	CU_ASSERT_EQUAL(urxe_config_load(&cfg, err, sizeof(err)), 0);
	CU_ASSERT_EQUAL(cfg.num_devices, 1);
	setenv("URXE_CONFIG_TEXT", "[x]\nport = loop\n", 1); /* goes before all else */
	CU_ASSERT_EQUAL(urxe_config_load(&cfg, err, sizeof(err)), 0);
	CU_ASSERT_STRING_EQUAL(cfg.devices[0].name, "x");
	CU_ASSERT_EQUAL(cfg.devices[0].num_ips, 0);
	unsetenv("URXE_CONFIG_TEXT");
	setenv("URXE_CONFIG", "/nowhere/at.all", 1);
	CU_ASSERT_EQUAL(urxe_config_load(&cfg, err, sizeof(err)), EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(err, "/nowhere/at.all"));
	unsetenv("URXE_CONFIG");
	unsetenv("URXE_PORT");
	unsetenv("URXE_IP");
	CU_ASSERT_EQUAL(urxe_config_load(&cfg, err, sizeof(err)), 0);
	CU_ASSERT_EQUAL(cfg.num_devices, 0);
}

static void sockets(void)
{
	static const struct {
		const char *port, *path;
		bool listens, abstract;
	} c[] = {
		{"net_vhost0,iface=/a/b", "/a/b", true, false},
		{"net_vhost0,iface=/a,client=1", "/a", false, false},
		{"eth_vhost0,client=0,iface=u", "u", true, false},
		{"net_virtio_user0,queues=1,path=/a", "/a", false, false},
		{"net_memif0,role=server,socket=/a", "/a", true, false},
		{"net_memif0,role=master,socket=/a,socket-abstract=yes", "/a", true, true},
		{"net_memif0,socket-abstract=no", "/run/memif.sock", false, false},
		{"net_vhost0", NULL, false, false},
		{"net_ring0,path=/a", NULL, false, false},
		{"0000:03:00.0", NULL, false, false},
	};
	struct urxe_devargs_socket s;
	char out[64];

	for (unsigned i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		CU_ASSERT_EQUAL(urxe_devargs_socket(c[i].port, &s), c[i].path != NULL);
		if (!c[i].path)
			continue;
		CU_ASSERT_STRING_EQUAL(s.path, c[i].path);
		CU_ASSERT(s.listens == c[i].listens && s.abstract == c[i].abstract);
	}
	CU_ASSERT(urxe_devargs_replace("a,xpath=1,path=/long,q=1", "path", "/s", out, sizeof(out)));
	CU_ASSERT_STRING_EQUAL(out, "a,xpath=1,path=/s,q=1");
	CU_ASSERT_FALSE(urxe_devargs_replace("a,xpath=1", "path", "/s", out, sizeof(out)));
	CU_ASSERT_FALSE(urxe_devargs_replace("a,path=1", "path", "/s", out, 8));
}

static void devargs(void)
{
	struct urxe_port_config p = {.port = "net_memif0,role=client"};
	char out[512], small[32];

	CU_ASSERT_EQUAL(urxe_devargs_complete(&p, 4200, out, sizeof(out), err, sizeof(err)), 0);
	CU_ASSERT_STRING_EQUAL(out,
			       "net_memif0,role=client,bsize=4288,rsize=10,socket-abstract=no");
	strcpy(p.port, "net_memif0,role=client,bsize=9000,socket-abstract=yes");
	CU_ASSERT_EQUAL(urxe_devargs_complete(&p, 1500, out, sizeof(out), err, sizeof(err)), 0);
	CU_ASSERT_STRING_EQUAL(out,
			       "net_memif0,role=client,bsize=9000,socket-abstract=yes,rsize=10");
	strcpy(p.port, "net_virtio_user0,path=/x,server=1");
	CU_ASSERT_EQUAL(urxe_devargs_complete(&p, 1500, out, sizeof(out), err, sizeof(err)),
			EOPNOTSUPP);
	strcpy(p.port, "net_virtio_user0,path=/x,server=0");
	CU_ASSERT_EQUAL(urxe_devargs_complete(&p, 1500, out, sizeof(out), err, sizeof(err)), 0);
	CU_ASSERT_EQUAL(urxe_devargs_complete(&p, 1500, small, sizeof(small), err, sizeof(err)),
			E2BIG);
	/* A card has buffers of whole KiB, other ports what a frame needs. */
	CU_ASSERT_EQUAL(urxe_devargs_data_room("0000:03:00.0", 1500), 2048);
	CU_ASSERT_EQUAL(urxe_devargs_data_room("03:00.0,arg=1", 4200), 5120);
	CU_ASSERT_EQUAL(urxe_devargs_data_room("net_vhost0,iface=x", 1500), 1536);
	CU_ASSERT_TRUE(urxe_devargs_pci("3:0.1", out, sizeof(out)));
	CU_ASSERT_STRING_EQUAL(out, "0000:03:00.1");
	CU_ASSERT_TRUE(urxe_devargs_pci("0001:af:1f.7,arg=1", out, sizeof(out)));
	CU_ASSERT_STRING_EQUAL(out, "0001:af:1f.7");
	CU_ASSERT_FALSE(urxe_devargs_pci("net_vhost0,iface=0000:03:00.0", out, sizeof(out)));
	CU_ASSERT_STRING_EQUAL(urxe_devargs_kind("net_memif3,x")->driver, "net_memif");
	CU_ASSERT_STRING_EQUAL(urxe_devargs_kind("0000:00:03.0")->driver, "");
	/* By the driver's name: what a PCI address turns out to be. */
	CU_ASSERT(urxe_devargs_kind("net_virtio")->hoards);
	CU_ASSERT(!urxe_devargs_kind("net_virtio")->revive);
	CU_ASSERT(urxe_devargs_kind("net_virtio_user")->hoards);
	CU_ASSERT(urxe_devargs_rx_intr("net_vhost0,iface=x,iommu-support=0",
				       urxe_devargs_kind("net_vhost0")));
	CU_ASSERT(!urxe_devargs_rx_intr("net_vhost0,iface=x,iommu-support=1",
					urxe_devargs_kind("net_vhost0")));
	CU_ASSERT(!urxe_devargs_rx_intr("net_memif0", urxe_devargs_kind("net_memif0")));
	CU_ASSERT(!urxe_devargs_kind("net_ixgbe")->hoards);
	CU_ASSERT_EQUAL(urxe_devargs_desc("net_virtio_user0,path=/p,queue_size=64"), 64);
	CU_ASSERT_EQUAL(urxe_devargs_desc("net_virtio_user0,path=/p,queue_size=32768"), 1024);
	CU_ASSERT_EQUAL(urxe_devargs_desc("net_memif0,queue_size=64"), 1024);
}

URXE_TEST_MAIN("config", T(whole_file), T(print_and_read_again), T(fabric), T(errors), T(accepted),
	       T(long_lines), T(empty_section), T(flags_survive_printing), T(layers), T(variables),
	       T(load), T(sockets), T(devargs))
