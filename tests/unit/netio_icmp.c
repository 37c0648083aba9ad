/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ICMP errors about packets of ours: each type and code, what they quote and what they may not,
 * MTUs, how often they are logged.
 */
#include "log_kept.h"
#include "netio_net.h"
#include "urxe/log.h"

#define SPORT 0xc123

static struct urxe_sim *sim;
static struct node n;
static struct urxe_path *path4, *path6;
static struct urxe_path_error last;
static unsigned told;
static uint8_t bytes[64]; /* of the last, from the BTH on */

static void on_error(void *arg, const struct urxe_path_error *e)
{
	CU_ASSERT_PTR_EQUAL(arg, &n);
	last = *e;
	CU_ASSERT_TRUE_FATAL(e->len <= 1500);
	memcpy(bytes, e->bth, e->len < sizeof(bytes) ? e->len : sizeof(bytes));
	told++;
}

static void set_up(void)
{
	struct urxe_port_config cfg = node_cfg(1);

	CU_ASSERT_EQUAL_FATAL(urxe_sim_create(&sim, 1, false), 0);
	n.end = urxe_sim_end(sim, NULL);
	CU_ASSERT_EQUAL_FATAL(urxe_port_create(&n.port, &cfg, &urxe_link_sim_ops, n.end), 0);
	urxe_port_on_path_error(n.port, on_error, &n);
	CU_ASSERT_EQUAL_FATAL(urxe_port_start(n.port), 0);
	n.lane = urxe_port_lane(n.port, 0);
	path4 = path_to(n.port, "10.9.0.2", SPORT);
	path6 = path_to(n.port, "fd00::2", SPORT);
	CU_ASSERT_PTR_NOT_NULL_FATAL(path4);
	CU_ASSERT_PTR_NOT_NULL_FATAL(path6);
	told = 0;
	memset(&last, 0, sizeof(last));
}

static void tear_down(void)
{
	urxe_path_destroy(path4);
	urxe_path_destroy(path6);
	urxe_port_destroy(n.port);
	while (urxe_sim_step(sim))
		;
	urxe_sim_destroy(sim);
}

/* An ICMP error, and what it quotes; zeros are what is right. */
struct error {
	uint8_t type, code;
	uint32_t word;	  /* the last four bytes of its header */
	uint32_t ip_len;  /* of the quoted packet; 0: 322 for IPv4, 342 for IPv6 */
	uint32_t quote;	  /* so many bytes of it; 0: all */
	uint32_t trailer; /* bytes behind the quote */
	const char *to;	  /* who gets the error */
	const char *src, *dst;
	uint16_t sport, dport;
	uint8_t proto, first; /* of the quoted header: protocol, first byte */
	bool fragment, udp_len;
	bool bad_sum, group_mac;
};

static void put_addr(uint8_t *p, bool v6, const char *addr, const char *normal)
{
	uint8_t gid[16];

	gid_of(addr ? addr : normal, gid);
	memcpy(p, v6 ? gid : gid + 12, v6 ? 16 : 4);
}

static void put_ip(uint8_t *p, bool v6, uint32_t len, uint8_t proto, const char *src,
		   const char *dst)
{
	const char *own = v6 ? "fd00::1" : "10.9.0.1", *peer = v6 ? "fd00::2" : "10.9.0.2";

	if (v6) {
		p[0] = 0x60;
		urxe_put16(p + 4, (uint16_t)(len - IPV6_LEN));
		p[6] = proto;
		p[7] = 61;
		put_addr(p + 8, true, src, own);
		put_addr(p + 24, true, dst, peer);
		return;
	}
	p[0] = 0x45;
	urxe_put16(p + 2, (uint16_t)len);
	p[6] = 0x40;
	p[8] = 61;
	p[9] = proto;
	put_addr(p + 12, false, src, own);
	put_addr(p + 16, false, dst, peer);
	urxe_put16(p + 10, urxe_sum_fold(urxe_sum(0, p, IPV4_LEN)));
}

/* Payload bytes of the quoted packet count up from its BTH. */
static void put_quote(uint8_t *p, bool v6, const struct error *e, uint32_t ip_len)
{
	uint32_t hdr = v6 ? IPV6_LEN : IPV4_LEN;

	put_ip(p, v6, ip_len, e->proto ? e->proto : PROTO_UDP, e->src, e->dst);
	if (e->first)
		p[0] = e->first;
	if (e->fragment)
		p[7] = 1;
	urxe_put16(p + hdr, e->sport ? e->sport : SPORT);
	urxe_put16(p + hdr + 2, e->dport ? e->dport : URXE_UDP_DPORT);
	urxe_put16(p + hdr + 4, (uint16_t)(ip_len - hdr - e->udp_len));
	for (uint32_t i = hdr + UDP_LEN; i < ip_len; i++)
		p[i] = (uint8_t)(i - hdr - UDP_LEN);
}

static void put(bool v6, const struct error *e)
{
	uint32_t hdr = v6 ? IPV6_LEN : IPV4_LEN, ip_len = e->ip_len ? e->ip_len : 302 + hdr;
	uint32_t quote = e->quote ? e->quote : ip_len, len = hdr + 8 + quote + e->trailer;
	uint8_t f[ETH_LEN + 65536] = {0}, packet[65536] = {0}, *ip = f + ETH_LEN, *icmp = ip + hdr;
	uint32_t sum = 0;

	memcpy(f, mac1, 6);
	memcpy(f + 6, mac2, 6);
	urxe_put16(f + 12, v6 ? ETHERTYPE_IPV6 : ETHERTYPE_IPV4);
	/* from a router, to the node */
	put_ip(ip, v6, len, v6 ? PROTO_ICMPV6 : PROTO_ICMP, v6 ? "fd00::fe" : "10.9.0.254",
	       e->to ? e->to
	       : v6  ? "fd00::1"
		     : "10.9.0.1");
	icmp[0] = e->type;
	icmp[1] = e->code;
	urxe_put32(icmp + 4, e->word);
	put_quote(packet, v6, e, ip_len);
	memcpy(icmp + 8, packet, quote);
	memset(icmp + 8 + quote, 0xee, e->trailer);
	if (v6)
		sum = urxe_sum_pseudo(ip, false, PROTO_ICMPV6, len - hdr);
	urxe_put16(icmp + 2, urxe_sum_fold(urxe_sum(sum, icmp, len - hdr)));
	icmp[2] ^= e->bad_sum;
	urxe_sim_put(n.end, f, ETH_LEN + len);
	CU_ASSERT_EQUAL(node_poll(&n), 0);
}

static bool is_gid(const uint8_t gid[16], const char *addr)
{
	uint8_t want[16];

	gid_of(addr, want);
	return !memcmp(gid, want, 16);
}

static void codes(bool v6, uint8_t type, const int *err, unsigned known)
{
	set_up();
	for (unsigned code = 0; code < 256; code++) {
		struct error e = {.type = type, .code = (uint8_t)code};
		int want = code < known ? err[code] : 0;
		unsigned before = told;

		if (!v6 && code == 4)
			continue; /* too big */
		put(v6, &e);
		CU_ASSERT_EQUAL(told - before, want != 0);
		if (told == before)
			continue;
		CU_ASSERT_EQUAL(last.err, want);
		CU_ASSERT_TRUE(is_gid(last.from, v6 ? "fd00::fe" : "10.9.0.254"));
		CU_ASSERT_TRUE(is_gid(last.sgid, v6 ? "fd00::1" : "10.9.0.1"));
		CU_ASSERT_TRUE(is_gid(last.dgid, v6 ? "fd00::2" : "10.9.0.2"));
		CU_ASSERT_EQUAL(last.udp_sport, SPORT);
		/* 12 + 8 + 256 + 22, without the ICRC */
		CU_ASSERT_EQUAL(last.len, 290);
		for (uint8_t i = 0; i < sizeof(bytes); i++)
			CU_ASSERT_EQUAL(bytes[i], i);
	}
	CU_ASSERT_EQUAL(counter(n.port, "icmp_unreachable"), told);
	CU_ASSERT_EQUAL(counter(n.port, "rx_icmp_ignored"), 256 - told - !v6);
	CU_ASSERT_EQUAL(counter(n.port, "rx_icmp_no_quote"), 0);
	tear_down();
}

static void codes_v4(void)
{
	static const int err[] = {
		ENETUNREACH,  EHOSTUNREACH, ECONNREFUSED, ECONNREFUSED, 0,	0,
		ENETUNREACH,  EHOSTUNREACH, ENETUNREACH,  EACCES,	EACCES, ENETUNREACH,
		EHOSTUNREACH, EACCES,	    EHOSTUNREACH, EACCES};

	codes(false, 3, err, 16);
}

static void codes_v6(void)
{
	static const int err[] = {ENETUNREACH,	EACCES, EHOSTUNREACH, EHOSTUNREACH,
				  ECONNREFUSED, EACCES, EACCES};

	codes(true, 1, err, 7);
}

/* Each type: which are errors, and which of these are told. */
static void types(void)
{
	for (unsigned v6 = 0; v6 < 2; v6++) {
		set_up();
		for (unsigned type = 0; type < 256; type++) {
			struct error e = {.type = (uint8_t)type, .word = 1300, .ip_len = 1400};

			if (v6 ? type == 128 || type == 135 || type == 136 : type == 8)
				continue; /* questions */
			put(v6, &e);
		}
		CU_ASSERT_EQUAL(told, 1);
		CU_ASSERT_EQUAL(counter(n.port, "icmp_unreachable"), 1);
		CU_ASSERT_EQUAL(counter(n.port, "icmp_expired"), 1);
		CU_ASSERT_EQUAL(counter(n.port, "icmp_too_big"), v6);
		CU_ASSERT_EQUAL(counter(n.port, "rx_icmp_ignored"), v6 ? 250 : 253);
		tear_down();
	}
}

/* What is wrong with the quote, one thing a row. */
static void wrong_quotes(void)
{
	static const struct error v4[] = {
		{.src = "10.9.0.7"},   /* not our packet */
		{.dst = "10.9.0.7"},   /* no path there */
		{.sport = SPORT + 1},  /* nor by this port */
		{.dport = 4790},       /* not RoCEv2 */
		{.dport = SPORT},      /* the other way round */
		{.proto = PROTO_ICMP}, /* an answer to an error would go round for ever */
		{.proto = 6},
		{.first = 0x46}, /* options, which we do not send */
		{.first = 0x44},
		{.first = 0x65},
		{.fragment = true},
		{.udp_len = true}, /* its lengths do not agree */
		{.ip_len = 43},	   /* no room for BTH and ICRC */
		{.ip_len = 1501},  /* more than the port sends */
		{.quote = 27},	   /* cut within the UDP header */
		{.quote = 20},
		{.quote = 1},
		{.word = 6 << 16, .quote = 60}, /* 24 bytes are the quote, says the error */
		{.to = "224.0.0.1"},
	};
	static const struct error v6[] = {
		{.src = "fd00::7"},
		{.dst = "fd00::7"},
		{.sport = SPORT + 1},
		{.dport = 4790},
		{.proto = PROTO_ICMPV6},
		{.proto = 44},
		{.first = 0x45},
		{.udp_len = true},
		{.ip_len = 63},
		{.ip_len = 1501},
		{.quote = 47},
		{.quote = 40},
		{.quote = 1},
		{.word = 5u << 24, .quote = 80},
	};

	for (unsigned is6 = 0; is6 < 2; is6++) {
		const struct error *rows = is6 ? v6 : v4;
		unsigned num = is6 ? sizeof(v6) / sizeof(v6[0]) : sizeof(v4) / sizeof(v4[0]);

		set_up();
		for (unsigned i = 0; i < num; i++) {
			struct error e = rows[i];

			e.type = is6 ? 1 : 3;
			e.code = 1;
			put(is6, &e);
			if (counter(n.port, "rx_icmp_no_quote") != i + 1)
				printf("\n    IPv%u row %u\n", is6 ? 6 : 4, i);
			CU_ASSERT_EQUAL_FATAL(counter(n.port, "rx_icmp_no_quote"), i + 1);
		}
		CU_ASSERT_EQUAL(told, 0);
		CU_ASSERT_EQUAL(counter(n.port, "icmp_unreachable"), 0);
		tear_down();
	}
}

static void wrong_message(void)
{
	set_up();
	put(false, &(struct error){.type = 3, .code = 1, .bad_sum = true});
	put(true, &(struct error){.type = 1, .bad_sum = true});
	CU_ASSERT_EQUAL(counter(n.port, "rx_icmp_bad"), 2);
	CU_ASSERT_EQUAL(told, 0);
	tear_down();
}

/* Of every length: the bytes from the BTH on that are there, and none of the ICRC nor behind it. */
static void lengths(void)
{
	for (unsigned v6 = 0; v6 < 2; v6++) {
		uint32_t hdr = v6 ? IPV6_LEN : IPV4_LEN, min = hdr + UDP_LEN, whole = hdr + 302;

		set_up();
		for (uint32_t len = 1; len <= whole; len++) {
			struct error e = {.type = v6 ? 1 : 3, .quote = len};
			unsigned before = told;
			uint32_t end = len < whole - 4 ? len : whole - 4;

			put(v6, &e);
			CU_ASSERT_EQUAL(told - before, len >= min);
			CU_ASSERT_TRUE(told == before || last.len == end - min);
		}
		put(v6, &(struct error){.type = v6 ? 1 : 3, .trailer = 40});
		CU_ASSERT_EQUAL(last.len, whole - 4 - min);
		/* RFC 4884: the first 128 bytes are the packet, extensions follow. */
		put(v6, &(struct error){.type = v6 ? 1 : 3,
					.word = v6 ? 16u << 24 : 32u << 16,
					.quote = 128,
					.trailer = 40});
		CU_ASSERT_EQUAL(last.len, 128 - min);
		tear_down();
	}
}

static void no_path_no_error(void)
{
	struct urxe_path *twin;

	set_up();
	twin = path_to(n.port, "10.9.0.2", SPORT);
	put(false, &(struct error){.type = 3, .code = 1});
	CU_ASSERT_EQUAL(told, 1);
	urxe_path_destroy(path4);
	put(false, &(struct error){.type = 3, .code = 1});
	CU_ASSERT_EQUAL(told, 2);
	urxe_path_destroy(twin);
	put(false, &(struct error){.type = 3, .code = 1});
	CU_ASSERT_EQUAL(told, 2);
	CU_ASSERT_EQUAL(counter(n.port, "rx_icmp_no_quote"), 1);
	path4 = NULL;
	tear_down();
}

static void mtus(void)
{
	static const struct {
		bool v6;
		uint32_t mtu, ip_len;
		bool good;
	} c[] = {
		{false, 0, 1500, false},	 {false, 67, 1500, false},
		{false, 68, 1500, true},	 {false, 1400, 1500, true},
		{false, 1499, 1500, true},	 {false, 1500, 1500, false},
		{false, 65535, 1500, false},	 {false, 321, 322, true},
		{false, 322, 322, false},	 {true, 0, 1500, false},
		{true, 1279, 1500, false},	 {true, 1280, 1500, true},
		{true, 1499, 1500, true},	 {true, 1500, 1500, false},
		{true, UINT32_MAX, 1500, false}, {true, 0x10500, 1500, false},
	};

	for (unsigned i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		struct error e = {.type = c[i].v6 ? 2 : 3,
				  .code = c[i].v6 ? 0 : 4,
				  .word = c[i].mtu,
				  .ip_len = c[i].ip_len,
				  .quote = c[i].ip_len > 548 ? 548 : 0};

		set_up();
		put(c[i].v6, &e);
		CU_ASSERT_EQUAL(counter(n.port, "icmp_too_big"), c[i].good);
		CU_ASSERT_EQUAL(counter(n.port, "rx_icmp_bad_mtu"), !c[i].good);
		CU_ASSERT_EQUAL(told, 0);
		tear_down();
	}
}

/* One line in ten seconds about a destination; it says what to do. */
static void logged(void)
{
	struct error e = {.type = 3, .code = 4, .word = 1400, .ip_len = 1490, .quote = 548};
	char text[2048];
	struct log_kept log;

	set_up();
	log_keep(&log);
	for (unsigned i = 0; i < 100; i++) {
		put(false, &e);
		urxe_sim_advance(sim, urxe_sim_now(sim) + 90 * URXE_MSEC);
	}
	CU_ASSERT_EQUAL(log_kept(&log, text, sizeof(text)), 1);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "urxe1: 10.9.0.254 drops packets of 1490 bytes to "
					    "10.9.0.2, its next link carries 1400: start both "
					    "ends with --mtu 1400"));
	log_keep(&log);
	urxe_sim_advance(sim, urxe_sim_now(sim) + 2 * URXE_SEC);
	put(false, &e);
	e.type = 2;
	e.code = 0;
	put(true, &e); /* another destination */
	CU_ASSERT_EQUAL(log_kept(&log, text, sizeof(text)), 2);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "fd00::fe drops packets of 1490 bytes to fd00::2"));
	CU_ASSERT_EQUAL(counter(n.port, "icmp_too_big"), 102);

	log_keep(&log);
	urxe_log_set_level(URXE_LOG_INFO);
	for (unsigned i = 0; i < 10; i++)
		put(false, &(struct error){.type = 3, .code = 3});
	urxe_log_set_level(URXE_LOG_WARN);
	CU_ASSERT_EQUAL(log_kept(&log, text, sizeof(text)), 1);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "10.9.0.254 reports of 10.9.0.2: nobody has UDP port"));
	tear_down();
}

URXE_TEST_MAIN("netio_icmp", T(codes_v4), T(codes_v6), T(types), T(wrong_quotes), T(wrong_message),
	       T(lengths), T(no_path_no_error), T(mtus), T(logged))
