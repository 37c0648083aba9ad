/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What a process says of itself: the devices there are, the words that are understood, and the
 * reply to a request. status_server.c is how it is asked.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "device.h"
#include "live.h"
#include "status.h"
#include "status_path.h"
#include "status_server.h"

/*
 * Guarded by the lock, under which objects of devices are looked at: so it is taken before the lock
 * of any object, and by nobody who holds one. Whose put() is called takes locks of his own, and is
 * called without it.
 */
static struct {
	struct urxe_mutex lock;
	struct cds_list_head devices;
	struct urxe_status_word *words;
} status = {
	.lock = URXE_MUTEX_INIT,
	.devices = CDS_LIST_HEAD_INIT(status.devices),
};

/* ---- who is there ---- */

void urxe_status_fork_prepare(void) URXE_ACQUIRE(status.lock)
{
	urxe_status_server_hold();
	urxe_mutex_lock(&status.lock);
}

void urxe_status_fork_parent(void) URXE_RELEASE(status.lock)
{
	urxe_mutex_unlock(&status.lock);
	urxe_status_server_release(false);
}

void urxe_status_fork_child(void) URXE_RELEASE(status.lock)
{
	struct urxe_device *dev, *next;

	cds_list_for_each_entry_safe (dev, next, &status.devices, status_node)
		cds_list_del_init(&dev->status_node);
	urxe_mutex_unlock(&status.lock);
	urxe_status_server_release(true);
}

static void add_all(bool last) URXE_REQUIRES(status.lock)
{
	struct urxe_device *dev;

	cds_list_for_each_entry (dev, &status.devices, status_node)
		urxe_live_add(dev, last);
}

static void add_live(void)
{
	urxe_mutex_lock(&status.lock);
	add_all(false);
	urxe_mutex_unlock(&status.lock);
}

/* Who is in a view is so from his start. */
static void start_server(void)
{
	urxe_status_server_start(urxe_live_view() ? add_live : NULL);
}

void urxe_status_add_device(struct urxe_device *dev)
{
	if (dev->threaded)
		start_server();
	urxe_mutex_lock(&status.lock);
	if (cds_list_empty(&dev->status_node))
		cds_list_add_tail(&dev->status_node, &status.devices);
	urxe_mutex_unlock(&status.lock);
}

void urxe_status_remove_device(struct urxe_device *dev)
{
	urxe_mutex_lock(&status.lock);
	if (!cds_list_empty(&dev->status_node))
		urxe_live_add(dev, true);
	cds_list_del_init(&dev->status_node);
	urxe_mutex_unlock(&status.lock);
}

/* The lock may be held by a thread that is no more; then the last second is not counted. */
__attribute__((destructor)) static void status_exit(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	ts.tv_sec++;
	if (!urxe_mutex_timedlock(&status.lock, &ts))
		return;
	add_all(true);
	urxe_mutex_unlock(&status.lock);
}

void urxe_status_add_words(struct urxe_status_word *words, unsigned n)
{
	urxe_mutex_lock(&status.lock);
	while (n--) {
		words[n].next = status.words;
		status.words = &words[n];
	}
	urxe_mutex_unlock(&status.lock);
	start_server();
}

/* ---- the reply ---- */

static void put_process(struct urxe_json *j)
{
	char command[32] = "?";
	FILE *f = fopen("/proc/self/comm", "re");

	if (f && fgets(command, sizeof(command), f))
		command[strcspn(command, "\n")] = '\0';
	if (f)
		fclose(f);
	urxe_json_number(j, URXE_STATUS_VERSION_KEY, URXE_STATUS_VERSION);
	urxe_json_string(j, "version", URXE_VERSION);
	urxe_json_number(j, "pid", (uint64_t)getpid());
	urxe_json_string(j, "command", command);
}

static void put_devices(struct urxe_json *j, bool objects)
{
	struct urxe_device *dev;

	urxe_json_array(j, "devices");
	urxe_mutex_lock(&status.lock);
	cds_list_for_each_entry (dev, &status.devices, status_node) {
		urxe_json_object(j, NULL);
		urxe_status_put_device(j, dev, objects);
		urxe_json_end(j);
	}
	urxe_mutex_unlock(&status.lock);
	urxe_json_end(j);
}

/* Words are added in front, and never change. */
static const struct urxe_status_word *first_word(void)
{
	const struct urxe_status_word *w;

	urxe_mutex_lock(&status.lock);
	w = status.words;
	urxe_mutex_unlock(&status.lock);
	return w;
}

static void put_answer(struct urxe_json *j, const char *word, const char *args)
{
	bool all = !strcmp(word, URXE_STATUS_ALL), known = all;

	if (all || !strcmp(word, URXE_STATUS_STAT)) {
		put_devices(j, all);
		known = true;
	}
	for (const struct urxe_status_word *w = first_word(); w; w = w->next) {
		if (all ? w->section : !strcmp(word, w->word)) {
			w->put(j, args);
			known = true;
		}
	}
	if (!known)
		urxe_json_string(j, URXE_STATUS_ERROR, "this process does not know the request");
}

char *urxe_status_reply(const char *request, size_t *len)
{
	char word[URXE_STATUS_REQUEST], *args, *text;
	struct urxe_json j = {0};
	bool failed;

	snprintf(word, sizeof(word), "%s", request);
	word[strcspn(word, "\n")] = '\0';
	args = word + strcspn(word, " ");
	if (*args)
		*args++ = '\0';
	j.out = open_memstream(&text, len);
	if (!j.out)
		return NULL;
	urxe_json_object(&j, NULL);
	put_process(&j);
	put_answer(&j, word, args);
	urxe_json_end(&j);
	fputc('\n', j.out);
	failed = ferror(j.out);
	if (fclose(j.out) || failed) {
		free(text);
		return NULL;
	}
	return text;
}
