/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Who has a link's socket, or an address on an interface. Of sockets: locks of fcntl() on files
 * beside them. Of all locks these alone end with the process that took them, though its children
 * have the descriptor, and tell its pid, as the asking process sees it. But they end, too, when the
 * process closes any descriptor of the file: so a file is opened once.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "netio/claim.h"
#include "netio/devargs.h"
#include "netio/holder.h"
#include "urxe/inode.h"
#include "urxe/lock.h"

#define ROOM  (sizeof(((struct urxe_devargs_socket *)0)->path) + 64)
#define TRIES 100 /* that others may make and remove the file meanwhile */

struct urxe_claim {
	struct urxe_claim *next;
	char path[ROOM];
	int fd;
	unsigned refs;
	pid_t pid; /* a child that was forked has none of its parent's */
};

/* The claims of this process. */
static struct {
	struct urxe_mutex lock;
	struct urxe_claim *list;
} claims = {.lock = URXE_MUTEX_INIT};

static int taken(pid_t pid, char *err, size_t errlen)
{
	char name[32];

	if (pid <= 0) { /* of another pid namespace, or another user */
		snprintf(err, errlen, "a process has it that cannot be seen from here");
		return EBUSY;
	}
	urxe_holder_name(pid, name, sizeof(name));
	snprintf(err, errlen, "process %d%s%s%s has it", (int)pid, name[0] ? " (" : "", name,
		 name[0] ? ")" : "");
	return EBUSY;
}

/* ---- the file ---- */

static void file_name(const struct urxe_devargs_socket *s, char *path)
{
	if (s->listens)
		snprintf(path, ROOM, "%s.lock", s->path);
	else if (s->id[0])
		snprintf(path, ROOM, "%s.client-%s.lock", s->path, s->id);
	else
		snprintf(path, ROOM, "%s.client.lock", s->path);
}

static struct urxe_claim *find(const char *path) URXE_REQUIRES(claims.lock)
{
	struct urxe_claim *c = claims.list;

	while (c && (c->pid != getpid() || !urxe_inode_at(AT_FDCWD, path, c->fd)))
		c = c->next;
	return c;
}

/* *@holder: whose the lock is, when that is why it fails (EBUSY). EAGAIN: the file is gone. */
static int lock_file(struct urxe_claim *c, pid_t *holder)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	if (fcntl(c->fd, F_SETLK, &lock)) {
		if (errno != EACCES && errno != EAGAIN)
			return errno;
		if (fcntl(c->fd, F_GETLK, &lock) || lock.l_type == F_UNLCK)
			return EAGAIN;
		*holder = lock.l_pid;
		return EBUSY;
	}
	/* Who had it may have removed it just before. */
	if (!urxe_inode_at(AT_FDCWD, c->path, c->fd))
		return EAGAIN;
	fchmod(c->fd, 0600); /* whatever the umask is: others of the user's are to see the lock */
	return 0;
}

static int take_file(struct urxe_claim *c, pid_t *holder)
{
	int ret = EAGAIN;

	for (unsigned i = 0; i < TRIES && ret == EAGAIN; i++) {
		c->fd = open(c->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (c->fd < 0)
			return errno;
		ret = lock_file(c, holder);
		if (ret)
			close(c->fd);
	}
	return ret;
}

/* ---- the socket ---- */

/* Which socket is at a path: what the lock file has in it of the one that its holder has made. The
 * time, since inodes are used again. */
struct mark {
	uint64_t dev, ino;
	int64_t sec, nsec;
};

static bool mark_of(const char *path, struct mark *m)
{
	struct stat st;

	if (lstat(path, &st) || !S_ISSOCK(st.st_mode))
		return false;
	*m = (struct mark){st.st_dev, st.st_ino, st.st_mtim.tv_sec, st.st_mtim.tv_nsec};
	return true;
}

/* Did who had the lock before us make what is there? It is dead, whoever has the descriptor. */
static bool is_last_ones(const struct urxe_claim *c, const struct mark *there)
{
	struct mark made;

	return c && pread(c->fd, &made, sizeof(made), 0) == sizeof(made) &&
	       !memcmp(&made, there, sizeof(made));
}

void urxe_claim_made(struct urxe_claim *c, const char *path)
{
	struct mark made;

	if (c && mark_of(path, &made))
		(void)!pwrite(c->fd, &made, sizeof(made), 0);
}

/*
 * ECONNREFUSED: nobody has a socket there. EPROTOTYPE: somebody has, and takes no notice of us: a
 * listener gets a connection of its own type alone, which no datagram socket makes. (memif's server
 * of DPDK ends its process when a client says nothing.) Else that cannot be said.
 */
static int knock(const char *path)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), ret = 0;

	if (fd < 0 || strlen(path) >= sizeof(un.sun_path)) {
		ret = EINVAL;
	} else {
		strcpy(un.sun_path, path);
		if (connect(fd, (const struct sockaddr *)&un, sizeof(un)))
			ret = errno;
	}
	if (fd >= 0)
		close(fd);
	return ret;
}

/* Who listens at @path by the kernel's list, for a message: that has names, of which one may be
 * another file's by now. 0: it is not known. */
static pid_t listener(const char *path)
{
	FILE *f = fopen("/proc/net/unix", "re");
	unsigned long inode, found = 0;
	char line[512], at[256];
	unsigned flags;

	while (f && !found && fgets(line, sizeof(line), f)) {
		/* Number, references, protocol, flags, type, state, inode, path. */
		if (sscanf(line, "%*s %*s %*s %x %*s %*s %lu %255[^\n]", &flags, &inode, at) == 3 &&
		    flags && !strcmp(at, path))
			found = inode;
	}
	if (f)
		fclose(f);
	return found ? urxe_holder_find(found) : 0;
}

/*
 * Who has a socket at our path, and no lock? A program that is not urxe; or nobody that serves it,
 * where a process of ours was killed.
 */
static int clear_path(const struct urxe_devargs_socket *s, const struct urxe_claim *c, char *err,
		      size_t errlen)
{
	struct mark there;
	int ret;

	if (!mark_of(s->path, &there))
		return 0;
	ret = is_last_ones(c, &there) ? ECONNREFUSED : knock(s->path);
	if (ret == EPROTOTYPE)
		return taken(listener(s->path), err, errlen);
	if (ret == ECONNREFUSED)
		unlink(s->path);
	return 0;
}

/* ---- claims ---- */

static int claim_new(const struct urxe_devargs_socket *s, const char *path,
		     struct urxe_claim **claim, char *err, size_t errlen) URXE_REQUIRES(claims.lock)
{
	struct urxe_claim *c = calloc(1, sizeof(*c));
	pid_t holder = 0;
	int ret;

	if (!c)
		return ENOMEM;
	snprintf(c->path, sizeof(c->path), "%s", path);
	c->refs = 1;
	c->pid = getpid();
	ret = take_file(c, &holder);
	if (ret == EBUSY) {
		free(c);
		return taken(holder, err, errlen);
	}
	if (ret) {
		free(c);
		return s->listens ? clear_path(s, NULL, err, errlen) : 0;
	}
	c->next = claims.list;
	claims.list = c;
	*claim = c;
	return s->listens ? clear_path(s, c, err, errlen) : 0;
}

int urxe_claim_socket(const struct urxe_devargs_socket *s, struct urxe_claim **claim, char *err,
		      size_t errlen)
{
	char path[ROOM];
	int ret = 0;

	*claim = NULL;
	if (s->abstract)
		return 0;
	file_name(s, path);
	urxe_mutex_lock(&claims.lock);
	*claim = find(path);
	if (!*claim)
		ret = claim_new(s, path, claim, err, errlen);
	else if (s->listens && s->type == SOCK_SEQPACKET)
		(*claim)->refs++;
	else
		ret = taken(getpid(), err, errlen), *claim = NULL;
	urxe_mutex_unlock(&claims.lock);
	if (ret && *claim) {
		urxe_claim_release(*claim);
		*claim = NULL;
	}
	return ret;
}

void urxe_claim_release(struct urxe_claim *c)
{
	struct urxe_claim **pc = &claims.list;

	if (!c)
		return;
	urxe_mutex_lock(&claims.lock);
	if (!--c->refs) {
		while (*pc != c)
			pc = &(*pc)->next;
		*pc = c->next;
		if (c->pid == getpid()) /* else it is the parent's */
			unlink(c->path);
		close(c->fd);
		free(c);
	}
	urxe_mutex_unlock(&claims.lock);
}

/* ---- addresses ---- */

/*
 * EBUSY: a process does (@err). ECONNREFUSED: none, or one that is dead and has left the descriptor
 * to a child. 0: that cannot be said.
 */
static int who_listens(int fd, const struct sockaddr_un *un, socklen_t size, char *err,
		       size_t errlen)
{
	socklen_t len = sizeof(struct ucred);
	struct ucred peer = {0};

	if (connect(fd, (const struct sockaddr *)un, size)) {
		if (errno != EAGAIN)
			return errno == ECONNREFUSED ? ECONNREFUSED : 0;
		snprintf(err, errlen, "a process that is busy has it");
		return EBUSY;
	}
	getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len);
	if (peer.pid > 0 && kill(peer.pid, 0) && errno == ESRCH)
		return ECONNREFUSED;
	return taken(peer.pid, err, errlen);
}

static void put_fd(int *fd)
{
	close(*fd);
	*fd = -1;
}

int urxe_claim_address(unsigned ifindex, const uint8_t gid[16], int *fd, char *err, size_t errlen)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	socklen_t size;
	int n, ret;

	/* The name begins behind a byte of zero. */
	n = snprintf(un.sun_path + 1, sizeof(un.sun_path) - 1, "urxe-%u-", ifindex);
	for (unsigned i = 0; i < 16; i++)
		n += snprintf(un.sun_path + 1 + n, sizeof(un.sun_path) - 1 - (size_t)n, "%02x",
			      gid[i]);
	size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
	*fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (*fd < 0)
		return 0;
	if (!bind(*fd, (struct sockaddr *)&un, size)) {
		if (listen(*fd, SOMAXCONN))
			put_fd(fd);
		return 0;
	}
	ret = errno == EADDRINUSE ? who_listens(*fd, &un, size, err, errlen) : 0;
	put_fd(fd);
	return ret == EBUSY ? EBUSY : 0;
}

void urxe_claim_put(int fd)
{
	/* Refuses from now on, whoever has it open. */
	shutdown(fd, SHUT_RDWR);
	close(fd);
}
