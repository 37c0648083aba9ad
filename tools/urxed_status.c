/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What urxed says of itself to `urxe status`: its outer port as a device, with the counters of the
 * gateway. The socket and its thread are the provider's, as in any process.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "netio/counters.h"
#include "netio/gate.h"
#include "netio/port.h"
#include "provider/status.h"
#include "provider/status_path.h"
#include "provider/status_server.h"
#include "urxe/gid.h"
#include "urxe/lock.h"
#include "urxed.h"

static struct {
	struct urxe_mutex lock;
	struct urxe_gate *gate;
} status = {.lock = URXE_MUTEX_INIT};

static void put_counters(struct urxe_json *j)
{
	uint64_t v[URXE_COUNTERS], g[URXE_GATE_COUNTERS];
	const char *const *names;
	unsigned n = urxe_port_counters(urxe_gate_port(status.gate), &names, v, URXE_COUNTERS);

	urxe_json_number(j, "drops", urxe_port_drops(v));
	urxe_json_object(j, "port");
	for (unsigned i = 0; i < n; i++)
		urxe_json_number(j, names[i], v[i]);
	urxe_json_end(j);
	urxe_gate_counters(status.gate, g);
	urxe_json_object(j, "gateway");
	for (unsigned i = 0; i < URXE_GATE_COUNTERS; i++)
		urxe_json_number(j, urxe_gate_counter_name(i), g[i]);
	urxe_json_end(j);
}

static void put_addresses(struct urxe_json *j)
{
	struct urxe_gid_entry e;
	char buf[URXE_GID_STRLEN];

	urxe_json_array(j, "addresses");
	for (unsigned i = 0; i < URXE_PORT_MAX_GIDS; i++) {
		if (!urxe_port_gid(urxe_gate_port(status.gate), i, &e))
			urxe_json_string(j, NULL, urxe_gid_print(e.gid, buf, sizeof(buf)));
	}
	urxe_json_end(j);
}

static void put_device(struct urxe_json *j, bool all)
{
	struct urxe_port_info info;

	urxe_port_query(urxe_gate_port(status.gate), &info);
	urxe_json_object(j, NULL);
	urxe_json_string(j, "name", info.name);
	urxe_json_string(j, "link", info.link);
	urxe_json_string(j, "state", info.dead ? "dead" : info.link_up ? "up" : "down");
	urxe_json_number(j, "time_ns", urxe_port_now(urxe_gate_port(status.gate)));
	put_counters(j);
	if (all)
		put_addresses(j);
	urxe_json_end(j);
}

static void put_reply(struct urxe_json *j, const char *word)
{
	bool all = !strcmp(word, URXE_STATUS_ALL);

	urxe_json_number(j, URXE_STATUS_VERSION_KEY, URXE_STATUS_VERSION);
	urxe_json_string(j, "version", URXE_VERSION);
	urxe_json_number(j, "pid", (uint64_t)getpid());
	urxe_json_string(j, "command", "urxed");
	if (!all && strcmp(word, URXE_STATUS_STAT)) {
		urxe_json_string(j, URXE_STATUS_ERROR, "this process does not know the request");
		return;
	}
	urxe_json_array(j, "devices");
	urxe_mutex_lock(&status.lock);
	if (status.gate)
		put_device(j, all);
	urxe_mutex_unlock(&status.lock);
	urxe_json_end(j);
}

char *urxe_status_reply(const char *request, size_t *len)
{
	char word[URXE_STATUS_REQUEST], *text;
	struct urxe_json j = {0};
	bool failed;

	snprintf(word, sizeof(word), "%s", request);
	word[strcspn(word, " \n")] = '\0';
	j.out = open_memstream(&text, len);
	if (!j.out)
		return NULL;
	urxe_json_object(&j, NULL);
	put_reply(&j, word);
	urxe_json_end(&j);
	fputc('\n', j.out);
	failed = ferror(j.out);
	if (fclose(j.out) || failed) {
		free(text);
		return NULL;
	}
	return text;
}

void urxed_status_start(struct urxe_gate *gate)
{
	urxe_mutex_lock(&status.lock);
	status.gate = gate;
	urxe_mutex_unlock(&status.lock);
	urxe_status_server_start(NULL);
}

void urxed_status_stop(void)
{
	urxe_mutex_lock(&status.lock);
	status.gate = NULL;
	urxe_mutex_unlock(&status.lock);
}
