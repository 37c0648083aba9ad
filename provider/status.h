/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What a process says of itself to `urxe status`, `urxe stat` and `urxe ip`. Exported by
 * liburxe-rdmav34.so for our librdmacm.so.1, which adds words of its own.
 *
 * A thread of its own waits at a socket (status_path.h) for who asks; it reads what there is under
 * RCU and the objects' own locks, each for as long as it takes to copy one object. Nothing is
 * counted or kept for it on the data path.
 */
#ifndef URXE_PROVIDER_STATUS_H
#define URXE_PROVIDER_STATUS_H

#include <stdbool.h>
#include <stddef.h>

#include "urxe/json.h"

#pragma GCC visibility push(default)

/** A request that somebody else answers. It stays as it is, for good. */
struct urxe_status_word {
	const char *word;
	bool section; /* it answers "status", too, with the same members */
	/**
	 * put: write members of the reply, an object
	 * @args: what stands behind the word; "" nothing
	 *
	 * On the status thread, without a lock of the provider.
	 */
	void (*put)(struct urxe_json *j, const char *args);
	struct urxe_status_word *next; /* private */
};

/**
 * urxe_status_add_words - have words answered, also in a process that has started no device
 * @words: @n of them, which are not there yet
 *
 * Thread-safe; locks that put() takes may be held. What fails is logged, and nobody is answered.
 */
void urxe_status_add_words(struct urxe_status_word *words, unsigned n);

#pragma GCC visibility pop

struct urxe_device;

/**
 * urxe_status_add_device, urxe_status_remove_device - tell of a device from now on, or no more
 *
 * Adding starts the thread when the device has threads. What fails is logged. Thread-safe, cheap
 * when it is done already; no lock of a QP or CQ may be held.
 */
void urxe_status_add_device(struct urxe_device *dev);
void urxe_status_remove_device(struct urxe_device *dev);

/**
 * urxe_status_fork_prepare, _parent, _child - around fork(): no object is being looked at
 *
 * Prepare comes before any lock that an object's look-up takes, urcu's too. A child has no server
 * and no devices; it may start its own.
 */
void urxe_status_fork_prepare(void);
void urxe_status_fork_parent(void);
void urxe_status_fork_child(void);

/**
 * urxe_status_reply - the reply to a request: a word, perhaps a blank and more, and a newline
 *
 * NULL: no memory. To be freed. Thread-safe; takes the locks of objects, one at a time.
 */
char *urxe_status_reply(const char *request, size_t *len);

/* ---- status_device.c, status_qp.c: members of an object under way; of a device in the list ----
 */

/** urxe_status_put_device - a device; with @objects QPs, CQs and the number of all others, else its
 * counters alone. Takes object locks, no mutex of the device but the one of its list of CQs. */
void urxe_status_put_device(struct urxe_json *j, struct urxe_device *dev, bool objects);
/** urxe_status_put_qps - an array of its QPs. Within no RCU read-side section. */
void urxe_status_put_qps(struct urxe_json *j, struct urxe_device *dev);

#endif
