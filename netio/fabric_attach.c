/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What a member's thread does about others: asks them what the data plane wants to know, several at
 * a time, answers what they ask, and finds out that they are gone. What they say of themselves is
 * compared with the table; a descriptor of theirs that says that they have ended makes us look at
 * their locks, no more.
 */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "netio/fabric_priv.h"

#define ASK_TIME   (2 * FABRIC_SEC) /* then who is asked does not answer */
#define RETRY_MIN  FABRIC_MSEC	    /* it has no socket yet, or a long queue */
#define RETRY_MAX  (32 * FABRIC_MSEC)
#define LOOK_EVERY FABRIC_SEC	      /* at those whose pidfd we have */
#define LOOK_OFTEN (20 * FABRIC_MSEC) /* and at others, by their locks */
#define LOOK_SOON  FABRIC_MSEC	      /* at one whose end we were told of */

static struct urxe_ftable *table(struct urxe_fabric *f)
{
	return f->hub->map->table;
}

/* ---- deaths ---- */

static void put_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void finish(struct urxe_fabric *f, unsigned slot, int err,
		   const struct urxe_fabric_words *ans);

static void gone(struct urxe_fabric *f, unsigned slot)
{
	struct urxe_fpeer *p = &f->peer[slot];
	uint32_t incarnation = p->watched;

	if (p->asking && p->asked == incarnation)
		finish(f, slot, EHOSTUNREACH, NULL);
	urxe_fabric_unpoll(f, &p->pidfd);
	p->watched = 0;
	urxe_mutex_lock(&f->hook_lock);
	if (f->hooks && f->hooks->gone)
		f->hooks->gone(f->hook_arg, slot, incarnation);
	urxe_mutex_unlock(&f->hook_lock);
}

/* From now on its end is told. @pidfd is taken over. */
static void watch(struct urxe_fabric *f, unsigned slot, uint32_t incarnation, int pidfd)
{
	struct urxe_fpeer *p = &f->peer[slot];

	if (p->watched && p->watched != incarnation)
		gone(f, slot);
	p->watched = incarnation;
	if (f->look > urxe_fabric_now() + LOOK_OFTEN)
		f->look = 0; /* there may be no pidfd to come */
	if (pidfd < 0)
		return;
	/* What epoll does not take is no pidfd. */
	if (p->pidfd >= 0 || urxe_fabric_poll(f, pidfd, FPOLL_PID, slot))
		close(pidfd);
	else
		p->pidfd = pidfd;
}

static bool still_there(struct urxe_fabric *f, unsigned slot)
{
	struct urxe_fpeer *p = &f->peer[slot];

	return urxe_ft_live(table(f), slot, p->watched) &&
	       !urxe_fhub_bury(f->hub, table(f), slot, p->watched);
}

void urxe_fpeer_pidfd(struct urxe_fabric *f, unsigned slot)
{
	uint64_t soon = urxe_fabric_now() + LOOK_SOON;
	struct urxe_fpeer *p = &f->peer[slot];

	if (!p->watched || p->pidfd < 0)
		return;
	if (!still_there(f, slot)) {
		gone(f, slot);
		return;
	}
	/*
	 * Somebody else buries it at this moment, who has its lock for that; or it was no pidfd. We
	 * look ourselves from now on.
	 */
	urxe_fabric_unpoll(f, &p->pidfd);
	if (f->look > soon)
		f->look = soon;
}

void urxe_fpeer_leaves(struct urxe_fabric *f, unsigned slot)
{
	if (slot < URXE_FABRIC_SLOTS && f->peer[slot].watched && !still_there(f, slot))
		gone(f, slot);
}

/* The net below pidfds and farewells. */
static void look_around(struct urxe_fabric *f, uint64_t now)
{
	uint64_t next = UINT64_MAX;

	if (f->look > now)
		return;
	for (unsigned s = URXE_FABRIC_FIRST; s <= URXE_FABRIC_LAST; s++) {
		struct urxe_fpeer *p = &f->peer[s];

		if (!p->watched)
			continue;
		if (!still_there(f, s))
			gone(f, s);
		else if (p->pidfd < 0)
			next = now + LOOK_OFTEN;
		else if (next == UINT64_MAX)
			next = now + LOOK_EVERY;
	}
	f->look = next;
}

/* ---- others ask ---- */

static int ask_hook(struct urxe_fabric *f, const struct urxe_fmsg *m, int fd,
		    struct urxe_fabric_words *ans, bool *close_fd)
{
	struct urxe_fabric_words req = {.fd = fd};
	int ret = EAGAIN;
	bool taken = false;

	memcpy(req.w, m->w, sizeof(req.w));
	urxe_mutex_lock(&f->hook_lock);
	if (f->hooks && f->hooks->asked) {
		taken = true;
		ret = f->hooks->asked(f->hook_arg, m->slot, m->incarnation, &req, ans, close_fd);
	}
	urxe_mutex_unlock(&f->hook_lock);
	if (!taken && fd >= 0)
		close(fd);
	return ret;
}

void urxe_fpeer_asks(struct urxe_fabric *f, int sock, const struct urxe_fmsg *m, int pidfd, int fd)
{
	struct urxe_fmsg reply = {.type = FM_ANSWER,
				  .slot = (uint16_t)f->starting,
				  .incarnation = f->incarnation,
				  .to = m->incarnation};
	struct urxe_fabric_words ans = {.fd = -1};
	bool close_fd = false;

	/* It asks one that was before us, or is not who it says. */
	if (m->slot < URXE_FABRIC_FIRST || m->slot > URXE_FABRIC_LAST || !m->incarnation ||
	    m->to != f->incarnation || !urxe_ft_live(table(f), m->slot, m->incarnation)) {
		put_fd(&pidfd);
		put_fd(&fd);
		return;
	}
	/* One that was there before it has ended: told before anything is made for this one. */
	if (f->peer[m->slot].watched && f->peer[m->slot].watched != m->incarnation)
		gone(f, m->slot);
	reply.err = (uint32_t)ask_hook(f, m, fd, &ans, &close_fd);
	memcpy(reply.w, ans.w, sizeof(reply.w));
	if (urxe_fmsg_send(sock, &reply, f->pidfd, reply.err ? -1 : ans.fd)) {
		/* It asks again. */
	}
	/* It has what it waits for. If it has ended meanwhile, its pidfd says so. */
	watch(f, m->slot, m->incarnation, pidfd);
	if (close_fd)
		put_fd(&ans.fd);
}

/* ---- we ask ---- */

int urxe_fabric_ask(struct urxe_fabric *f, unsigned slot, const struct urxe_fabric_words *req)
{
	uint64_t bit = 1ull << slot % 64;
	unsigned i = slot / 64;
	int ret = 0;

	if (!urxe_fabric_ours(f))
		return ENODEV;
	if (!urxe_fabric_slot(f))
		return ENOTCONN;
	if (!urxe_fabric_incarnation(f, slot))
		return EHOSTUNREACH;
	urxe_mutex_lock(&f->lock);
	if (f->asking[i] & bit) {
		ret = EALREADY;
	} else {
		f->asking[i] |= bit;
		f->fresh[i] |= bit;
		f->req[slot] = *req;
	}
	urxe_mutex_unlock(&f->lock);
	if (!ret)
		urxe_fabric_thread_wake(f);
	return ret;
}

static void ask_along(struct urxe_fabric *f, unsigned slot)
{
	struct urxe_fpeer *p = &f->peer[slot];

	if (p->req.fd >= 0)
		return;
	urxe_mutex_lock(&f->hook_lock);
	if (f->hooks && f->hooks->asking)
		f->hooks->asking(f->hook_arg, slot, p->asked, &p->req);
	urxe_mutex_unlock(&f->hook_lock);
	p->offers = p->req.fd >= 0;
}

static void take_back(struct urxe_fpeer *p)
{
	if (p->offers)
		put_fd(&p->req.fd);
	p->offers = false;
}

static void finish(struct urxe_fabric *f, unsigned slot, int err,
		   const struct urxe_fabric_words *ans)
{
	static const struct urxe_fabric_words none = {.fd = -1};
	struct urxe_fpeer *p = &f->peer[slot];
	bool taken = false;

	p->asking = p->connected = false;
	urxe_mutex_lock(&f->lock);
	f->asking[slot / 64] &= ~(1ull << slot % 64);
	urxe_mutex_unlock(&f->lock);
	urxe_mutex_lock(&f->hook_lock);
	if (f->hooks && f->hooks->answered) {
		taken = true;
		f->hooks->answered(f->hook_arg, slot, p->asked, err, ans ? ans : &none);
	}
	urxe_mutex_unlock(&f->hook_lock);
	if (!taken && ans && ans->fd >= 0)
		close(ans->fd);
	take_back(p);
	/* It has time; whoever asks anew is taken up by this thread. */
	urxe_fabric_unpoll(f, &p->sock);
}

static void try_again(struct urxe_fabric *f, unsigned slot)
{
	struct urxe_fpeer *p = &f->peer[slot];

	p->connected = false;
	urxe_fabric_unpoll(f, &p->sock);
	p->retry = urxe_fabric_now() + p->delay;
	if (p->delay < RETRY_MAX)
		p->delay *= 2;
}

/* A queue that is full, no socket yet, no descriptor left: later. */
static void contact(struct urxe_fabric *f, unsigned slot)
{
	struct urxe_fpeer *p = &f->peer[slot];
	struct urxe_fmsg m = {.type = FM_ASK,
			      .slot = (uint16_t)f->starting,
			      .incarnation = f->incarnation,
			      .to = p->asked};

	memcpy(m.w, p->req.w, sizeof(m.w));
	p->sock = urxe_fmsg_connect(f->hub, slot);
	if (p->sock < 0 && errno == EPERM) {
		finish(f, slot, EPERM, NULL);
		return;
	}
	/* What is offered goes out once: a peer that is asked again may have it already. */
	if (p->sock < 0 || urxe_fmsg_send(p->sock, &m, f->pidfd, p->req.fd)) {
		try_again(f, slot);
		return;
	}
	take_back(p);
	if (urxe_fabric_poll(f, p->sock, FPOLL_ASK, slot))
		try_again(f, slot);
	else
		p->connected = true;
}

static void begin(struct urxe_fabric *f, unsigned slot)
{
	struct urxe_fpeer *p = &f->peer[slot];

	p->asking = true;
	p->asked = urxe_ft_incarnation(table(f), slot);
	p->delay = RETRY_MIN;
	p->deadline = urxe_fabric_now() + ASK_TIME;
	if (!p->asked) {
		finish(f, slot, EHOSTUNREACH, NULL);
		return;
	}
	watch(f, slot, p->asked, -1);
	ask_along(f, slot);
	contact(f, slot);
}

void urxe_fpeer_take_asks(struct urxe_fabric *f)
{
	uint64_t fresh[URXE_FABRIC_SLOTS / 64];

	urxe_mutex_lock(&f->lock);
	memcpy(fresh, f->fresh, sizeof(fresh));
	for (unsigned s = 0; s < URXE_FABRIC_SLOTS; s++) {
		if (fresh[s / 64] >> s % 64 & 1)
			f->peer[s].req = f->req[s];
	}
	memset(f->fresh, 0, sizeof(f->fresh));
	urxe_mutex_unlock(&f->lock);
	for (unsigned s = 0; s < URXE_FABRIC_SLOTS; s++) {
		if (fresh[s / 64] >> s % 64 & 1)
			begin(f, s);
	}
}

void urxe_fpeer_answer(struct urxe_fabric *f, unsigned slot)
{
	struct urxe_fpeer *p = &f->peer[slot];
	struct urxe_fabric_words ans;
	struct urxe_fmsg m;
	int pidfd, ret;

	if (!p->connected)
		return;
	ret = urxe_fmsg_recv(p->sock, &m, &pidfd, &ans.fd);
	if (ret == EAGAIN)
		return;
	if (ret) { /* it had no time for us, or is no more */
		try_again(f, slot);
		return;
	}
	if (m.type != FM_ANSWER || m.slot != slot || m.incarnation != p->asked ||
	    m.to != f->incarnation || m.err > 4095 || m.err == EAGAIN) {
		put_fd(&pidfd);
		put_fd(&ans.fd);
		try_again(f, slot);
		return;
	}
	memcpy(ans.w, m.w, sizeof(ans.w));
	if (m.err)
		put_fd(&ans.fd);
	/* Senders wait. It is watched since we ask, by its locks. */
	finish(f, slot, (int)m.err, &ans);
	watch(f, slot, p->asked, pidfd);
}

static uint64_t ask_timer(struct urxe_fabric *f, unsigned slot, uint64_t now)
{
	struct urxe_fpeer *p = &f->peer[slot];

	if (!urxe_ft_live(table(f), slot, p->asked)) {
		finish(f, slot, EHOSTUNREACH, NULL);
		return UINT64_MAX;
	}
	if (p->deadline <= now) {
		finish(f, slot, ETIMEDOUT, NULL);
		return UINT64_MAX;
	}
	if (!p->connected && p->retry <= now)
		contact(f, slot);
	if (!p->asking)
		return UINT64_MAX;
	return p->connected || p->deadline < p->retry ? p->deadline : p->retry;
}

uint64_t urxe_fpeer_timers(struct urxe_fabric *f, uint64_t now)
{
	uint64_t next;

	look_around(f, now);
	next = f->look;
	for (unsigned s = URXE_FABRIC_FIRST; s <= URXE_FABRIC_LAST; s++) {
		uint64_t when = f->peer[s].asking ? ask_timer(f, s, now) : UINT64_MAX;

		if (when < next)
			next = when;
	}
	return next;
}

/* ---- the end ---- */

static void say_bye(struct urxe_fabric *f, unsigned slot)
{
	struct urxe_fmsg m = {.type = FM_BYE,
			      .slot = (uint16_t)f->starting,
			      .incarnation = f->incarnation,
			      .to = f->peer[slot].watched};
	int fd = urxe_fmsg_connect(f->hub, slot);

	if (fd < 0)
		return; /* it looks around itself */
	if (urxe_fmsg_send(fd, &m, -1, -1)) {
		/* Likewise. */
	}
	close(fd);
}

void urxe_fpeer_end(struct urxe_fabric *f)
{
	for (unsigned s = URXE_FABRIC_FIRST; s <= URXE_FABRIC_LAST; s++) {
		struct urxe_fpeer *p = &f->peer[s];

		urxe_fabric_unpoll(f, &p->sock);
		urxe_fabric_unpoll(f, &p->pidfd);
		take_back(p);
		if (p->watched && urxe_ft_live(table(f), s, p->watched))
			say_bye(f, s);
	}
}
