/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Rows of urxe link and urxe res. A row is made as JSON, by the names that iproute2 gives to what
 * netlink says; a line of text is the same names and values.
 */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "rdma.h"

const char *const tool_rdma_kind_names[TOOL_RDMA_KINDS] = {
	[TOOL_RDMA_LINK] = "link",   [TOOL_RDMA_SUM] = "res", [TOOL_RDMA_QP] = "qp",
	[TOOL_RDMA_CM_ID] = "cm_id", [TOOL_RDMA_CQ] = "cq",   [TOOL_RDMA_MR] = "mr",
};

/* A device of a process, while rows are made of it. */
struct from {
	struct json_object *rows, *process, *device;
	uint64_t index;
	const struct ifaddrs *interfaces;
};

static void put_number(struct json_object *row, const char *key, uint64_t n)
{
	json_object_object_add(row, key, json_object_new_uint64(n));
}

/* @port: it is of one, and "link", not "dev". */
static struct json_object *add_row(const struct from *f, bool port)
{
	struct json_object *row = json_object_new_object();

	json_object_array_add(f->rows, row);
	put_number(row, "ifindex", f->index);
	tool_json_add(row, "ifname", tool_json_text(f->device, "name"));
	if (port)
		put_number(row, "port", 1);
	return row;
}

static void put_owner(struct json_object *row, const struct from *f)
{
	put_number(row, "pid", tool_json_number(f->process, "pid"));
	tool_json_add(row, "comm", tool_json_text(f->process, "command"));
}

/* ---- ports ---- */

static bool is_of(const struct ifaddrs *i, const char *address)
{
	const struct sockaddr *sa = i->ifa_addr;
	char text[INET6_ADDRSTRLEN];
	size_t len = strcspn(address, "/");
	const void *at;

	if (!sa || (sa->sa_family != AF_INET && sa->sa_family != AF_INET6))
		return false;
	if (sa->sa_family == AF_INET)
		at = &((const struct sockaddr_in *)(const void *)sa)->sin_addr;
	else
		at = &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr;
	return inet_ntop(sa->sa_family, at, text, sizeof(text)) && strlen(text) == len &&
	       !memcmp(text, address, len);
}

/* The interface of the kernel's that has the device's first address, if one has. */
static void put_netdev(struct json_object *row, const struct from *f)
{
	struct json_object *address = tool_json_at(f->device, "addresses", 0);

	if (!json_object_is_type(address, json_type_string))
		return;
	for (const struct ifaddrs *i = f->interfaces; i; i = i->ifa_next) {
		if (!is_of(i, json_object_get_string(address)))
			continue;
		tool_json_add(row, "netdev", i->ifa_name);
		put_number(row, "netdev_index", if_nametoindex(i->ifa_name));
		return;
	}
}

static void add_link(const struct from *f)
{
	const char *state = tool_json_text(f->device, "state");
	bool up = !strcmp(state, "up");
	struct json_object *row = add_row(f, true);

	tool_json_add(row, "state", up ? "ACTIVE" : "DOWN");
	tool_json_add(row, "physical_state", up ? "LINK_UP" : "DISABLED");
	put_netdev(row, f);
}

/* ---- objects ---- */

static bool is_cm_id(const struct from *f, struct json_object *id)
{
	return !strcmp(tool_json_text(id, "kind"), "rdma_cm") &&
	       !strcmp(tool_json_text(id, "device"), tool_json_text(f->device, "name"));
}

static void add_to(struct json_object *row, const char *key, uint64_t n)
{
	put_number(row, key, tool_json_number(row, key) + n);
}

/* Those of all processes together. */
static void add_sum(const struct from *f)
{
	size_t last = json_object_array_length(f->rows), cm_ids = 0;
	struct json_object *row = NULL, *id;

	for (size_t i = 0; i < last && !row; i++) {
		row = json_object_array_get_idx(f->rows, i);
		if (tool_json_number(row, "ifindex") != f->index)
			row = NULL;
	}
	if (!row)
		row = add_row(f, false);
	for (size_t i = 0; (id = tool_json_at(f->process, "ids", i)); i++)
		cm_ids += is_cm_id(f, id);
	add_to(row, "pd", tool_json_number(f->device, "pds"));
	add_to(row, "cq", tool_json_length(f->device, "cqs"));
	add_to(row, "qp", tool_json_length(f->device, "qps"));
	add_to(row, "cm_id", cm_ids);
	add_to(row, "mr", tool_json_number(tool_json_get(f->device, "mrs"), "count"));
	add_to(row, "srq", tool_json_number(f->device, "srqs"));
}

/* Two names are others than the kernel's. */
static const char *qp_type(const char *type)
{
	if (!strcmp(type, "XRC_SEND"))
		return "XRC_INI";
	return strcmp(type, "XRC_RECV") ? type : "XRC_TGT";
}

static void add_qps(const struct from *f)
{
	struct json_object *q, *row;

	for (size_t i = 0; (q = tool_json_at(f->device, "qps", i)); i++) {
		const char *type = qp_type(tool_json_text(q, "type"));
		/* The kernel says the peer's of these two. */
		bool connected = !strcmp(type, "RC") || !strcmp(type, "UC");

		row = add_row(f, true);
		put_number(row, "lqpn", tool_json_number(q, "qpn"));
		if (connected)
			put_number(row, "rqpn", tool_json_number(q, "peer_qpn"));
		tool_json_add(row, "type", type);
		tool_json_add(row, "state", tool_json_text(q, "state"));
		if (connected)
			put_number(row, "rq-psn",
				   tool_json_number(tool_json_get(q, "responder"), "epsn"));
		put_number(row, "sq-psn", tool_json_number(tool_json_get(q, "requester"), "psn"));
		put_owner(row, f);
	}
}

/* Ours are the IB CM's where there is a connection; the kernel has the id's own. */
static const char *cm_id_state(const char *state)
{
	static const struct {
		const char *ours, *kernels;
	} names[] = {
		{"IDLE", "IDLE"},
		{"BOUND", "ADDR_BOUND"},
		{"LISTEN", "LISTEN"},
		{"ADDR_QUERY", "ADDR_QUERY"},
		{"ADDR_RESOLVED", "ADDR_RESOLVED"},
		{"ROUTE_RESOLVED", "ROUTE_RESOLVED"},
		{"DISCONNECT", "DISCONNECT"},
		{"DREQ_SENT", "DISCONNECT"},
		{"DREQ_RCVD", "DISCONNECT"},
		{"TIMEWAIT", "DISCONNECT"},
		{"REMOVED", "DEVICE_REMOVAL"},
		{"DESTROY", "DESTROYING"},
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!strcmp(state, names[i].ours))
			return names[i].kernels;
	}
	return "CONNECT";
}

/* In the service id, above the port (IBTA A11.4.3). */
static const char *port_space(const char *service_id)
{
	switch (strtoull(service_id, NULL, 16) >> 16) {
	case 0x0106:
		return "TCP";
	case 0x0111:
		return "UDP";
	case 0x013f:
		return "IB";
	case 0x0002:
		return "IPoIB";
	default:
		return "---"; /* as of one that does not listen nor connect */
	}
}

static void add_cm_ids(const struct from *f)
{
	struct json_object *id, *row;

	for (size_t i = 0; (id = tool_json_at(f->process, "ids", i)); i++) {
		if (!is_cm_id(f, id))
			continue;
		row = add_row(f, true);
		if (tool_json_number(id, "qpn"))
			put_number(row, "lqpn", tool_json_number(id, "qpn"));
		tool_json_add(row, "state", cm_id_state(tool_json_text(id, "state")));
		tool_json_add(row, "ps", port_space(tool_json_text(id, "service_id")));
		put_owner(row, f);
		tool_json_add(row, "src-addr", tool_json_text(id, "local"));
		if (strcmp(tool_json_text(id, "peer"), "-") != 0)
			tool_json_add(row, "dst-addr", tool_json_text(id, "peer"));
	}
}

static void add_cqs(const struct from *f)
{
	struct json_object *cq, *row;

	for (size_t i = 0; (cq = tool_json_at(f->device, "cqs", i)); i++) {
		row = add_row(f, false);
		put_number(row, "cqn", tool_json_number(cq, "cqn"));
		put_number(row, "cqe", tool_json_number(cq, "entries"));
		put_number(row, "users", tool_json_number(cq, "users"));
		put_owner(row, f);
	}
}

static void add_mrs(const struct from *f)
{
	struct json_object *all = tool_json_get(f->device, "mrs"), *mr, *row;

	for (size_t i = 0; (mr = tool_json_at(all, "list", i)); i++) {
		row = add_row(f, false);
		put_number(row, "mrn", tool_json_number(mr, "mrn"));
		put_number(row, "mrlen", tool_json_number(mr, "length"));
		put_owner(row, f);
	}
}

/* ---- all ---- */

/* @known: a device of each index. */
static uint64_t index_of(struct json_object *known, struct json_object *device)
{
	size_t n = json_object_array_length(known);

	for (size_t i = 0; i < n; i++) {
		struct json_object *k = json_object_array_get_idx(known, i);

		if (!strcmp(tool_json_text(k, "name"), tool_json_text(device, "name")) &&
		    !strcmp(tool_json_text(k, "link"), tool_json_text(device, "link")))
			return i;
	}
	json_object_array_add(known, json_object_get(device));
	return n;
}

static void add_rows(const struct from *f, enum tool_rdma_kind kind, bool first)
{
	static void (*const add[TOOL_RDMA_KINDS])(const struct from *f) = {
		[TOOL_RDMA_LINK] = add_link,	[TOOL_RDMA_SUM] = add_sum, [TOOL_RDMA_QP] = add_qps,
		[TOOL_RDMA_CM_ID] = add_cm_ids, [TOOL_RDMA_CQ] = add_cqs,  [TOOL_RDMA_MR] = add_mrs,
	};

	if (kind != TOOL_RDMA_LINK || first)
		add[kind](f);
}

struct json_object *tool_rdma_rows(struct json_object *processes, enum tool_rdma_kind kind)
{
	struct json_object *known = json_object_new_array();
	struct from f = {.rows = json_object_new_array()};
	struct ifaddrs *interfaces = NULL;

	if (!getifaddrs(&interfaces))
		f.interfaces = interfaces;
	for (size_t i = 0; i < json_object_array_length(processes); i++) {
		f.process = json_object_array_get_idx(processes, i);
		for (size_t k = 0; (f.device = tool_json_at(f.process, "devices", k)); k++) {
			size_t before = json_object_array_length(known);

			f.index = index_of(known, f.device);
			add_rows(&f, kind, f.index == before);
		}
	}
	if (f.interfaces)
		freeifaddrs(interfaces);
	json_object_put(known);
	return f.rows;
}

/* "1-3,7" */
static bool is_among(uint64_t n, const char *list)
{
	while (*list) {
		char *end;
		uint64_t from = strtoull(list, &end, 10), to = from;

		if (*end == '-')
			to = strtoull(end + 1, &end, 10);
		if (end == list || (*end && *end != ','))
			return false;
		if (n >= from && n <= to)
			return true;
		list = *end == ',' ? end + 1 : "";
	}
	return false;
}

bool tool_rdma_keep(struct json_object *row, const char *key, const char *value)
{
	struct json_object *member = tool_json_get(row, key);

	if (json_object_is_type(member, json_type_int))
		return is_among(json_object_get_uint64(member), value);
	return member && !strcmp(json_object_get_string(member), value);
}

static void print_row(FILE *out, struct json_object *row, enum tool_rdma_kind kind)
{
	static const char *const before[] = {"ifindex", "ifname", "port", "netdev_index"};
	const char *name = tool_json_text(row, "ifname");

	if (kind == TOOL_RDMA_SUM)
		fprintf(out, "%" PRIu64 ": %s:", tool_json_number(row, "ifindex"), name);
	else if (tool_json_get(row, "port"))
		fprintf(out, "link %s/%" PRIu64, name, tool_json_number(row, "port"));
	else
		fprintf(out, "dev %s", name);
	json_object_object_foreach(row, key, value)
	{
		bool other = true;

		for (size_t i = 0; i < sizeof(before) / sizeof(before[0]); i++)
			other &= strcmp(key, before[i]) != 0;
		if (other)
			fprintf(out, " %s %s", key, json_object_get_string(value));
	}
	fputc('\n', out);
}

void tool_rdma_print(FILE *out, struct json_object *rows, enum tool_rdma_kind kind)
{
	for (size_t i = 0; i < json_object_array_length(rows); i++)
		print_row(out, json_object_array_get_idx(rows, i), kind);
}
