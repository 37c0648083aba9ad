/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The report to `urxe status --cm`: each id with its state, peer, comm ids, retries and last event,
 * and what became of MADs. Requests of `urxe ip` go to readdress.c. The provider's status thread
 * calls the functions of the table at the end (provider/status.h).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cm/device/device.h"
#include "provider/status.h"
#include "provider/status_path.h"
#include "urxe/gid.h"
#include "urxe/log.h"

#define NUM_KINDS 16 /* attribute ids of MADs, from URXE_MAD_REQ */

/* A reply under way. */
struct urxe_report {
	struct urxe_json *json;
	const struct urxe_cma_dev *dev; /* whose IB CM's ids are put */
};

/* ---- one id ---- */

void urxe_report_put(struct urxe_report *r, const struct urxe_report_row *row)
{
	const struct urxe_cm_info *cm = &row->cm;
	struct urxe_json *j = r->json;
	char service[24];

	snprintf(service, sizeof(service), "0x%016" PRIx64, cm->service_id);
	urxe_json_object(j, NULL);
	urxe_json_string(j, "kind", row->kind);
	urxe_json_string(j, "device", row->dev ? ibv_get_device_name(row->dev->device) : "-");
	urxe_json_string(j, "state", row->state);
	urxe_json_string(j, "local", row->local);
	urxe_json_string(j, "peer", row->peer);
	urxe_json_number(j, "local_comm_id", cm->local_comm_id);
	urxe_json_number(j, "remote_comm_id", cm->remote_comm_id);
	urxe_json_number(j, "qpn", cm->local_qpn);
	urxe_json_number(j, "remote_qpn", cm->remote_qpn);
	urxe_json_string(j, "service_id", service);
	urxe_json_number(j, "retries", cm->retries);
	urxe_json_number(j, "unacked", row->unacked);
	urxe_json_string(j, "last_event", row->last_event);
	urxe_json_end(j);
}

/* Those of the IB CM that are not the client's. */
static void put_ib_id(const struct urxe_cm_info *info, void *arg) URXE_REQUIRES(urxe_cma_lock)
{
	const struct urxe_device_client *client = urxe_cma_get_client();
	struct urxe_report *r = arg;
	struct urxe_report_row row = {
		.dev = r->dev,
		.kind = info->handler ? "ib_cm" : "orphan",
		.state = urxe_cm_state_names[info->state],
		.last_event = urxe_cm_event_names[info->last_event],
		.cm = *info,
	};

	if (client && client->owns(info->handler))
		return;
	urxe_gid_print(info->path->sgid.raw, row.local, URXE_REPORT_ADDR_LEN);
	urxe_gid_print(info->path->dgid.raw, row.peer, URXE_REPORT_ADDR_LEN);
	urxe_report_put(r, &row);
}

/* ---- counters ---- */

static const struct {
	const char *name;
	size_t at;
} drops[] = {
#define DROP(name)                                                    \
	{                                                             \
#name, offsetof(struct urxe_cm_counters, drop_##name) \
	}
	DROP(malformed), DROP(wrong_source), DROP(unknown_id),
	DROP(state),	 DROP(no_memory),    DROP(backlog),
#undef DROP
};

#define NUM_DROPS (sizeof(drops) / sizeof(drops[0]))

static uint64_t drop_count(const struct urxe_cm_counters *c, unsigned i)
{
	return *(const uint64_t *)((const char *)c + drops[i].at);
}

static bool kind_seen(const struct urxe_cm_counters *c, unsigned i)
{
	return c->sent[i] || c->received[i] || c->retried[i] || c->dropped[i];
}

static void put_mads(struct urxe_json *j, const struct urxe_cm_counters *c)
{
	urxe_json_object(j, "mads");
	for (unsigned i = 0; i < NUM_KINDS; i++) {
		if (!kind_seen(c, i))
			continue;
		urxe_json_object(j, urxe_mad_msg_name((uint16_t)(URXE_MAD_REQ + i)));
		urxe_json_number(j, "sent", c->sent[i]);
		urxe_json_number(j, "received", c->received[i]);
		urxe_json_number(j, "retried", c->retried[i]);
		urxe_json_number(j, "dropped", c->dropped[i]);
		urxe_json_end(j);
	}
	urxe_json_end(j);
}

static void put_counters(struct urxe_json *j, const struct urxe_cma_dev *dev)
	URXE_REQUIRES(urxe_cma_lock)
{
	const struct urxe_cm_counters *c = urxe_cm_get_counters(urxe_agent_cm(dev->agent));
	struct urxe_agent_drops own;

	urxe_agent_get_drops(dev->agent, &own);
	urxe_json_object(j, NULL);
	urxe_json_string(j, "device", ibv_get_device_name(dev->device));
	put_mads(j, c);
	urxe_json_object(j, "drops");
	for (unsigned i = 0; i < NUM_DROPS; i++)
		urxe_json_number(j, drops[i].name, drop_count(c, i));
	urxe_json_number(j, "not_a_mad", own.received);
	urxe_json_number(j, "stranger", own.strangers);
	urxe_json_number(j, "not_sent", own.sent);
	urxe_json_end(j);
	urxe_json_number(j, "established", c->established);
	urxe_json_number(j, "rejected", c->rejected);
	urxe_json_number(j, "duplicates", c->duplicates);
	urxe_json_number(j, "unreachable", c->unreachable);
	urxe_json_end(j);
}

/* With the lock, or at exit, when nobody else is there. */
void urxe_report_log(const struct urxe_cma_dev *dev)
{
	const struct urxe_cm_counters *c = urxe_cm_get_counters(urxe_agent_cm(dev->agent));
	struct urxe_agent_drops own;
	size_t len;
	char *line;
	FILE *out;

	if (!urxe_log_enabled(URXE_LOG_INFO) || !(out = open_memstream(&line, &len)))
		return;
	urxe_agent_get_drops(dev->agent, &own);
	for (unsigned i = 0; i < NUM_KINDS; i++) {
		if (!kind_seen(c, i))
			continue;
		fprintf(out, " %s %" PRIu64 "/%" PRIu64,
			urxe_mad_msg_name((uint16_t)(URXE_MAD_REQ + i)), c->sent[i],
			c->received[i]);
		if (c->retried[i])
			fprintf(out, " retried %" PRIu64, c->retried[i]);
		if (c->dropped[i])
			fprintf(out, " dropped %" PRIu64, c->dropped[i]);
		fputc(',', out);
	}
	for (unsigned i = 0; i < NUM_DROPS; i++) {
		if (drop_count(c, i))
			fprintf(out, " drop_%s %" PRIu64, drops[i].name, drop_count(c, i));
	}
	fprintf(out, " established %" PRIu64 " rejected %" PRIu64, c->established, c->rejected);
	if (c->unreachable)
		fprintf(out, " unreachable %" PRIu64, c->unreachable);
	if (own.received || own.strangers || own.sent)
		fprintf(out, " not_a_mad %" PRIu64 " stranger %" PRIu64 " not_sent %" PRIu64,
			own.received, own.strangers, own.sent);
	if (!fclose(out)) {
		urxe_info("%s: cm: sent/received:%s", ibv_get_device_name(dev->device), line);
		free(line);
	}
}

/* ---- the whole ---- */

static void put_ids(struct urxe_report *r) URXE_REQUIRES(urxe_cma_lock)
{
	const struct urxe_device_client *client = urxe_cma_get_client();
	struct urxe_cma_dev *dev;

	if (client)
		client->report(r);
	for (unsigned i = 0; (dev = urxe_cma_device_peek(i)); i++) {
		r->dev = dev;
		if (dev->agent)
			urxe_cm_for_each(urxe_agent_cm(dev->agent), put_ib_id, r);
	}
}

/* ---- the words ---- */

static void put_cm(struct urxe_json *j, const char *args)
{
	struct urxe_report r = {.json = j};
	struct urxe_cma_dev *dev;

	if (urxe_cma_enter())
		return;
	urxe_json_array(j, "ids");
	put_ids(&r);
	urxe_json_end(j);
	urxe_json_array(j, "cms");
	for (unsigned i = 0; (dev = urxe_cma_device_peek(i)); i++) {
		if (dev->agent)
			put_counters(j, dev);
	}
	urxe_json_end(j);
	urxe_cma_leave();
}

static void put_ip(struct urxe_json *j, const char *args)
{
	if (urxe_cma_enter())
		return;
	urxe_cma_ip_list(j);
	urxe_cma_leave();
}

static void change_ip(struct urxe_json *j, bool add, const char *args)
{
	const char *wrong = "the process ends, or may not use its devices";

	if (!urxe_cma_enter()) {
		wrong = urxe_cma_ip_change(add, args);
		urxe_cma_leave();
	}
	if (wrong)
		urxe_json_string(j, URXE_STATUS_ERROR, wrong);
}

static void add_ip(struct urxe_json *j, const char *args)
{
	change_ip(j, true, args);
}

static void del_ip(struct urxe_json *j, const char *args)
{
	change_ip(j, false, args);
}

static struct {
	bool added; /* guarded by urxe_cma_lock; the words are the provider's then */
	struct urxe_status_word words[4];
} report = {
	.words = {{.word = URXE_STATUS_CM, .section = true, .put = put_cm},
		  {.word = URXE_STATUS_IP, .put = put_ip},
		  {.word = URXE_STATUS_IP_ADD, .put = add_ip},
		  {.word = URXE_STATUS_IP_DEL, .put = del_ip}},
};

void urxe_report_start(void)
{
	if (!report.added)
		urxe_status_add_words(report.words, sizeof(report.words) / sizeof(report.words[0]));
	report.added = true;
}
