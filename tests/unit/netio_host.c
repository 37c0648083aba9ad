/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The host's addresses (netio/host.h), in a network namespace of the test's own: which, in what
 * order, and that changes are noticed; and a port that follows them.
 */
#include "netio_net.h"

#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "netio/host.h"
#include "netio/kernel_if.h"

static bool own_network;
static struct urxe_host *host;

static void put_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd >= 0) {
		(void)!write(fd, text, strlen(text));
		close(fd);
	}
}

/* Any user may have a network of his own where he is root, if the kernel lets him. */
__attribute__((constructor)) static void set_up(void)
{
	char map[64];
	unsigned uid = geteuid(), gid = getegid();

	own_network = !unshare(uid ? CLONE_NEWUSER | CLONE_NEWNET : CLONE_NEWNET);
	if (!own_network || !uid)
		return;
	put_file("/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "0 %u 1", uid);
	put_file("/proc/self/uid_map", map);
	snprintf(map, sizeof(map), "0 %u 1", gid);
	put_file("/proc/self/gid_map", map);
}

/* `ip ARGS` must do it. */
static void ip(const char *args)
{
	char cmd[256];

	snprintf(cmd, sizeof(cmd), "PATH=$PATH:/sbin:/usr/sbin ip %s", args);
	if (system(cmd)) {
		fprintf(stderr, "failed: %s\n", cmd);
		CU_FAIL_FATAL("ip");
	}
}

/* The addresses, as "a/b c/d". */
static const char *addresses(void)
{
	static char text[1024];
	struct urxe_host_addr list[URXE_PORT_MAX_GIDS];
	char buf[URXE_GID_STRLEN];
	unsigned n = 0;
	size_t len = 0;

	text[0] = '\0';
	CU_ASSERT_EQUAL_FATAL(urxe_host_read(host, list, URXE_PORT_MAX_GIDS, &n), 0);
	for (unsigned i = 0; i < n; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s/%u", i ? " " : "",
					urxe_gid_print(list[i].gid, buf, sizeof(buf)),
					list[i].prefix_len);
	return text;
}

static bool begin(void)
{
	if (!own_network) {
		urxe_harness_skip("no network namespace of its own");
		return false;
	}
	CU_ASSERT_EQUAL_FATAL(urxe_host_open(&host), 0);
	return true;
}

static void loopback_alone(void)
{
	if (!begin())
		return;
	CU_ASSERT_STRING_EQUAL(addresses(), "127.0.0.1/8");
	ip("link set lo up");
	CU_ASSERT_STRING_EQUAL(addresses(), "127.0.0.1/8 ::1/128");
	/* A family that has others keeps to these. */
	ip("addr add 10.1.0.1/24 dev lo");
	CU_ASSERT_STRING_EQUAL(addresses(), "10.1.0.1/24 ::1/128");
	ip("addr add 10.1.0.255/24 dev lo"); /* nobody to talk RDMA to */
	CU_ASSERT_STRING_EQUAL(addresses(), "10.1.0.1/24 ::1/128");
	ip("addr flush dev lo scope global");
	urxe_host_close(host);
}

static void order(void)
{
	struct urxe_host_addr list[URXE_PORT_MAX_GIDS];
	unsigned n, scoped = 0;

	if (!begin())
		return;
	ip("link set lo up");
	ip("link add va type veth peer name vb");
	ip("link set va addrgenmode none");
	ip("link set vb addrgenmode none");
	ip("addr add 10.2.0.1/24 dev va");
	ip("addr add 10.2.0.7/24 dev va"); /* secondary */
	ip("addr add 10.3.0.1/16 dev vb");
	CU_ASSERT_STRING_EQUAL(addresses(), "127.0.0.1/8 ::1/128"); /* neither is up */
	ip("link set va up");
	CU_ASSERT_STRING_EQUAL(addresses(), "10.2.0.1/24 10.2.0.7/24 ::1/128");
	ip("link set vb up");
	ip("addr add fe80::a/64 dev va nodad");
	ip("addr add fe80::a/64 dev vb nodad"); /* the same again: once */
	ip("addr add fd00:3::1/64 dev vb nodad");
	ip("addr add fd00:2::1/64 dev va nodad");
	ip("route add default via 10.3.0.9 dev vb");
	/* The kernel numbers vb, whose name comes second, first. */
	CU_ASSERT_STRING_EQUAL(addresses(), "10.3.0.1/16 10.2.0.1/24 10.2.0.7/24 fd00:3::1/64 "
					    "fd00:2::1/64 fe80::a/64");
	ip("-6 route add default dev va");
	CU_ASSERT_STRING_EQUAL(addresses(), "10.3.0.1/16 10.2.0.1/24 10.2.0.7/24 fd00:2::1/64 "
					    "fd00:3::1/64 fe80::a/64");
	CU_ASSERT_EQUAL(urxe_host_read(host, list, URXE_PORT_MAX_GIDS, &n), 0);
	for (unsigned i = 0; i < n; i++) {
		bool link_local = list[i].gid[0] == 0xfe;

		CU_ASSERT_EQUAL(list[i].scope_id, link_local ? if_nametoindex("va") : 0);
		scoped += link_local;
	}
	CU_ASSERT_EQUAL(scoped, 1);
	/* Few places: one is left for a family that has loopback alone. */
	CU_ASSERT_EQUAL(urxe_host_read(host, list, 3, &n), 0);
	CU_ASSERT_EQUAL(n, 3);
	CU_ASSERT(urxe_gid_is_loopback(list[2].gid));
	ip("link del va");
	urxe_host_close(host);
}

/* Of a point-to-point address the prefix is the other end's. */
static void other_end(void)
{
	if (!begin())
		return;
	ip("link add va type veth peer name vb");
	ip("link set va addrgenmode none");
	ip("link set va up");
	ip("addr add 10.5.0.1 peer 10.6.0.2/24 dev va");
	ip("addr add fd00:5::1 peer fd00:6::2/64 dev va nodad");
	CU_ASSERT_STRING_EQUAL(addresses(), "10.5.0.1/32 fd00:5::1/128");
	/* Flags that do not fit into ifa_flags come as an attribute. */
	ip("addr add fd00:7::1/64 dev va nodad noprefixroute preferred_lft 0");
	ip("addr add fd00:7::2/64 dev va nodad noprefixroute");
	CU_ASSERT_STRING_EQUAL(addresses(), "10.5.0.1/32 fd00:7::2/64 fd00:5::1/128 fd00:7::1/64");
	ip("link del va");
	urxe_host_close(host);
}

static void many_interfaces(void)
{
	char text[64];

	if (!begin())
		return;
	for (unsigned i = 0; i < 40; i++) {
		snprintf(text, sizeof(text), "link add d%u type veth peer name e%u", i, i);
		ip(text);
		snprintf(text, sizeof(text), "link set d%u up", i);
		ip(text);
	}
	ip("addr add 10.8.0.1/24 dev d0");
	ip("addr add 10.8.1.1/24 dev d39");
	CU_ASSERT_PTR_NOT_NULL(strstr(addresses(), "10.8.0.1/24 10.8.1.1/24"));
	for (unsigned i = 0; i < 40; i++) {
		snprintf(text, sizeof(text), "link del d%u", i);
		ip(text);
	}
	urxe_host_close(host);
}

static void changes(void)
{
	pid_t pid;
	int status = -1;

	if (!begin())
		return;
	ip("link set lo up");
	urxe_host_changed(host);
	CU_ASSERT(!urxe_host_changed(host));
	ip("addr add 10.1.0.1/24 dev lo");
	CU_ASSERT(urxe_host_changed(host));
	CU_ASSERT(!urxe_host_changed(host));
	/* What a child reads is not its parent's. */
	ip("addr del 10.1.0.1/24 dev lo");
	pid = fork();
	if (!pid)
		_exit(urxe_host_changed(host) && !urxe_host_changed(host) ? 0 : 1);
	CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
	CU_ASSERT_EQUAL(status, 0);
	CU_ASSERT(urxe_host_changed(host));
	urxe_host_close(host);
}

/* ---- a port ---- */

static unsigned n_changes;

static void change(void *port, bool add, const uint8_t gid[16], unsigned prefix_len)
{
	n_changes++;
	CU_ASSERT_EQUAL(add ? urxe_port_addr_add(port, gid, prefix_len)
			    : urxe_port_addr_del(port, gid, prefix_len),
			0);
}

static bool has(struct urxe_port *port, const char *addr)
{
	uint8_t gid[16];

	gid_of(addr, gid);
	return urxe_port_gid_find(port, gid) >= 0;
}

static void port_follows(void)
{
	struct urxe_port_config cfg = {
		.name = "urxe0", .port = "fabric", .mtu = 4096, .vlan = URXE_NO_VLAN, .host = true};
	struct urxe_port *port;
	unsigned index;
	uint8_t gid[16], next[16];

	if (!begin())
		return;
	ip("link set lo up");
	CU_ASSERT_EQUAL_FATAL(urxe_port_create(&port, &cfg, &urxe_link_loop_ops, NULL), 0);
	CU_ASSERT(has(port, "127.0.0.1") && has(port, "::1"));
	gid_of("127.3.2.1", gid);
	CU_ASSERT_EQUAL(urxe_port_route(port, gid, &index, next), 0);
	CU_ASSERT_EQUAL(next[15], 1);
	CU_ASSERT_EQUAL(next[13], 0);
	n_changes = 0;
	urxe_port_follow_host(port, change, port);
	CU_ASSERT_EQUAL(n_changes, 0);
	ip("addr add 10.1.0.1/24 dev lo");
	urxe_port_follow_host(port, change, port);
	/* Who used loopback so far goes on. */
	CU_ASSERT(has(port, "10.1.0.1") && has(port, "127.0.0.1"));
	CU_ASSERT_EQUAL(n_changes, 1);
	ip("addr del 10.1.0.1/24 dev lo");
	urxe_port_follow_host(port, change, port);
	CU_ASSERT(!has(port, "10.1.0.1") && has(port, "127.0.0.1"));
	CU_ASSERT_EQUAL(n_changes, 2);
	urxe_port_destroy(port);
	urxe_host_close(host);
}

/* Who routes makes copies of what is for an address of ours. */
static void router(void)
{
	static const char switch_file[] = "/proc/sys/net/ipv4/conf/lo/forwarding";
	const uint8_t ours[16] = {[10] = 0xff, 0xff, 10, 1, 2, 3};
	const uint8_t kernels[16] = {[10] = 0xff, 0xff, 127, 0, 0, 1};

	if (!own_network)
		return;
	ip("link set lo up");
	put_file(switch_file, "1");
	CU_ASSERT_TRUE(urxe_kernel_if_forwards("lo", ours, true));
	CU_ASSERT_FALSE(urxe_kernel_if_forwards("lo", kernels, true));
	put_file(switch_file, "0");
	CU_ASSERT_FALSE(urxe_kernel_if_forwards("lo", ours, true));
	CU_ASSERT_FALSE(urxe_kernel_if_forwards("nosuch0", ours, true));
	ip("link set lo down");
}

URXE_TEST_MAIN("netio_host", T(router), T(loopback_alone), T(order), T(other_end),
	       T(many_interfaces), T(changes), T(port_follows))
