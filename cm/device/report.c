/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The report to `urxe status --cm`: each id with its state, peer, comm ids, retries and last event,
 * and what became of MADs. Requests of `urxe ip` go to readdress.c. A thread that sleeps in
 * accept() hands out the state as it is (DPDK's telemetry ends at 16 KiB a reply, and is there only
 * with EAL, which no link_loop has).
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "cm/device/device.h"
#include "cm/device/report_path.h"
#include "urxe/gid.h"
#include "urxe/log.h"
#include "urxe/thread.h"

#define PATIENCE_S 2  /* with who asks */
#define NUM_KINDS  16 /* attribute ids of MADs, from URXE_MAD_REQ */

static struct {
	int fd; /* 0: not there */
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	char command[32];
} report;

/* A reply under way. */
struct urxe_report {
	FILE *out;
	const struct urxe_cma_dev *dev; /* whose IB CM's ids are put */
};

/* ---- one id ---- */

void urxe_report_put(struct urxe_report *r, const struct urxe_report_row *row)
{
	const struct urxe_cm_info *cm = &row->cm;

	fprintf(r->out,
		"{ -\ns kind %s\ns device %s\ns state %s\ns local %s\ns peer %s\n"
		"n local_comm_id %" PRIu32 "\nn remote_comm_id %" PRIu32 "\nn qpn %" PRIu32
		"\nn remote_qpn %" PRIu32 "\ns service_id 0x%016" PRIx64
		"\nn retries %u\ns last_event %s\n}\n",
		row->kind, row->dev ? ibv_get_device_name(row->dev->device) : "-", row->state,
		row->local, row->peer, cm->local_comm_id, cm->remote_comm_id, cm->local_qpn,
		cm->remote_qpn, cm->service_id, cm->retries, row->last_event);
}

/* Those of the IB CM that are not the client's. */
static void put_ib_id(const struct urxe_cm_info *info, void *arg)
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

static void put_counters(struct urxe_report *r, const struct urxe_cma_dev *dev)
{
	const struct urxe_cm_counters *c = urxe_cm_get_counters(urxe_agent_cm(dev->agent));
	struct urxe_agent_drops own;

	urxe_agent_get_drops(dev->agent, &own);
	fprintf(r->out, "{ -\ns device %s\n{ mads\n", ibv_get_device_name(dev->device));
	for (unsigned i = 0; i < NUM_KINDS; i++) {
		if (!kind_seen(c, i))
			continue;
		fprintf(r->out,
			"{ %s\nn sent %" PRIu64 "\nn received %" PRIu64 "\nn retried %" PRIu64
			"\nn dropped %" PRIu64 "\n}\n",
			urxe_mad_msg_name((uint16_t)(URXE_MAD_REQ + i)), c->sent[i], c->received[i],
			c->retried[i], c->dropped[i]);
	}
	fprintf(r->out, "}\n{ drops\n");
	for (unsigned i = 0; i < NUM_DROPS; i++)
		fprintf(r->out, "n %s %" PRIu64 "\n", drops[i].name, drop_count(c, i));
	fprintf(r->out,
		"n not_a_mad %" PRIu64 "\nn stranger %" PRIu64 "\nn not_sent %" PRIu64 "\n}\n",
		own.received, own.strangers, own.sent);
	fprintf(r->out,
		"n established %" PRIu64 "\nn rejected %" PRIu64 "\nn duplicates %" PRIu64
		"\nn unreachable %" PRIu64 "\n}\n",
		c->established, c->rejected, c->duplicates, c->unreachable);
}

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

static void put_ids(struct urxe_report *r)
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

static void put_all(struct urxe_report *r)
{
	struct urxe_cma_dev *dev;

	fprintf(r->out, "{ -\nn pid %d\ns command %s\n[ ids\n", (int)getpid(), report.command);
	put_ids(r);
	fprintf(r->out, "}\n[ cms\n");
	for (unsigned i = 0; (dev = urxe_cma_device_peek(i)); i++) {
		if (dev->agent)
			put_counters(r, dev);
	}
	fprintf(r->out, "}\n}\n");
}

/* The folder keeps others out, unless somebody has opened it; they might change our addresses. */
static bool may_ask(int fd)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) &&
	       (!peer.uid || peer.uid == geteuid());
}

static void reply(struct urxe_report *r, const char *line)
{
	switch (line[0]) {
	case URXE_REPORT_IPS:
		urxe_cma_ip_list(r->out, report.command);
		break;
	case URXE_REPORT_ADD:
	case URXE_REPORT_DEL:
		urxe_cma_ip_change(r->out, line);
		break;
	default: /* a word of another version gets no more than this */
		fprintf(r->out, "%s\n", URXE_REPORT_HEAD);
		if (line[0] == URXE_REPORT_ALL)
			put_all(r);
	}
}

static void answer(int fd)
{
	struct timeval patience = {.tv_sec = PATIENCE_S};
	struct urxe_report r = {0};
	char *text, line[256];
	size_t len, sent = 0;
	ssize_t n;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	n = recv(fd, line, sizeof(line) - 1, 0);
	if (n <= 0 || !may_ask(fd) || !(r.out = open_memstream(&text, &len)))
		return;
	line[n] = '\0';
	if (!urxe_cma_enter()) {
		reply(&r, line);
		urxe_cma_leave();
	}
	if (fclose(r.out))
		return;
	while (sent < len && (n = send(fd, text + sent, len - sent, MSG_NOSIGNAL)) > 0)
		sent += (size_t)n;
	free(text);
}

static void *report_main(void *arg)
{
	int fd, listener = (int)(intptr_t)arg;

	while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0 || errno == EINTR ||
	       errno == ECONNABORTED) {
		if (fd >= 0) {
			answer(fd);
			close(fd);
		}
	}
	return NULL;
}

/* ---- start and end ---- */

static void read_command(void)
{
	FILE *f = fopen("/proc/self/comm", "re");

	snprintf(report.command, sizeof(report.command), "?");
	if (f && fgets(report.command, sizeof(report.command), f))
		report.command[strcspn(report.command, "\n")] = '\0';
	if (f)
		fclose(f);
}

/* The folder is ours alone: what lies in it decides whom `urxe status` believes. */
static int make_dir(char *dir, size_t len)
{
	struct stat st;

	if (urxe_report_dir(geteuid(), dir, len))
		return ENOENT;
	if (mkdir(dir, 0700) && errno != EEXIST)
		return errno;
	if (lstat(dir, &st))
		return errno;
	return S_ISDIR(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 022) ? 0 : EPERM;
}

static int listen_at(void)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	char dir[sizeof(sun.sun_path) - 16];
	int err = make_dir(dir, sizeof(dir)), fd;

	if (err) {
		errno = err;
		return -1;
	}
	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/%d", dir, (int)getpid());
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	unlink(sun.sun_path); /* of a process that had our number, and was killed */
	if (bind(fd, (struct sockaddr *)&sun, sizeof(sun)) || listen(fd, 8)) {
		err = errno;
		close(fd);
		errno = err;
		return -1;
	}
	memcpy(report.path, sun.sun_path, sizeof(report.path));
	return fd;
}

void urxe_report_start(void)
{
	pthread_t t;
	int fd, err;

	if (report.fd)
		return;
	report.fd = -1;
	read_command();
	fd = listen_at();
	if (fd < 0) {
		if (errno != ENOENT)
			urxe_info("rdma_cm: no report to `urxe status --cm`: %s", strerror(errno));
		return;
	}
	err = urxe_thread_start(&t, report_main, (void *)(intptr_t)fd);
	report.fd = fd;
	if (err)
		urxe_report_stop(false);
	else
		pthread_detach(t);
}

void urxe_report_stop(bool child)
{
	if (report.fd <= 0)
		return;
	if (!child)
		unlink(report.path);
	/* In the process that has the thread, it goes with that. */
	if (child)
		close(report.fd);
	report.fd = 0;
}
