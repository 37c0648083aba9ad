/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The running processes, and how they are asked: each listens at a socket of its own, and may
 * answer anything, late or never.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "json.h"
#include "process.h"
#include "provider/status_path.h"
#include "tool.h"
#include "urxe/owner.h"

#define PATIENCE_S 3		/* until a process is there, and until it begins to answer */
#define ANSWER_S   10		/* until the answer is whole */
#define MAX_BYTES  (128u << 20) /* of an answer: more than 65535 QPs are */

/* ---- an answer ---- */

static void refuse(struct tool_process *p, const char *why)
{
	tool_fail("%s: %s", p->path, why);
	p->failed = true;
}

/* By SIGSTOP or a debugger: it would answer when it is let go on. */
static bool is_stopped(int pid)
{
	char path[32], line[512] = "";
	const char *state;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	if (!f)
		return false;
	state = fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
	fclose(f);
	return state && strlen(state) > 2 && strchr("Tt", state[2]);
}

/*
 * Root does it as the folder's owner, whom all processes in it know: one in a user namespace
 * (urxe run --view) cannot be told from its socket that root has connected.
 */
static int connect_as_owner(const struct tool_process *p, int fd, const struct sockaddr_un *sun)
{
	uid_t self = geteuid();
	struct stat st;
	int ret, err;

	if (self || fstat(p->dir, &st) || seteuid(st.st_uid))
		return connect(fd, (const struct sockaddr *)sun, sizeof(*sun));
	ret = connect(fd, (const struct sockaddr *)sun, sizeof(*sun));
	err = errno;
	if (seteuid(self))
		abort();
	errno = err;
	return ret;
}

/* By the folder's descriptor: its owner may put another one in its place meanwhile. */
static int connect_to(struct tool_process *p)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	struct timeval patience = {.tv_sec = PATIENCE_S};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), err;

	if (fd < 0)
		return -1;
	snprintf(sun.sun_path, sizeof(sun.sun_path), "/proc/self/fd/%d/%d", p->dir, p->pid);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (!connect_as_owner(p, fd, &sun))
		return fd;
	err = errno;
	close(fd);
	errno = err;
	return -1;
}

/* Whoever left a socket there was killed. */
static void clean_up(const struct tool_process *p)
{
	char name[16];
	struct stat st;

	snprintf(name, sizeof(name), "%d", p->pid);
	if (!fstatat(p->dir, name, &st, AT_SYMLINK_NOFOLLOW) && S_ISSOCK(st.st_mode))
		unlinkat(p->dir, name, 0);
}

static int ask(struct tool_process *p, const char *request)
{
	char line[URXE_STATUS_REQUEST];
	int fd, len = snprintf(line, sizeof(line), "%s\n", request);

	/* Nobody waits for it, nor for a crowd of such. */
	if (is_stopped(p->pid)) {
		refuse(p, "is stopped");
		return -1;
	}
	fd = connect_to(p);
	if (fd < 0) {
		if (errno == ECONNREFUSED)
			clean_up(p);
		else if (errno != ENOENT)
			refuse(p, errno == EAGAIN ? "does not answer" : strerror(errno));
		return -1;
	}
	if (len >= (int)sizeof(line) || send(fd, line, (size_t)len, MSG_NOSIGNAL) != len) {
		/* It has just ended. */
		close(fd);
		return -1;
	}
	return fd;
}

static int ms_until(const struct timespec *end)
{
	struct timespec now;
	long ms;

	clock_gettime(CLOCK_MONOTONIC, &now);
	ms = (end->tv_sec - now.tv_sec) * 1000 + (end->tv_nsec - now.tv_nsec) / 1000000;
	return ms < 0 ? 0 : (int)ms;
}

/* All that it says: bytes, or -1 and errno; *text is to be freed. */
static ssize_t read_all(int fd, char **text)
{
	struct pollfd pfd = {.fd = fd, .events = POLLIN};
	size_t len = 0, size = 0;
	struct timespec end;
	ssize_t n = 1;

	*text = NULL;
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += PATIENCE_S;
	while (n > 0) {
		if (len == size) {
			char *more =
				size < MAX_BYTES ? realloc(*text, size = size * 2 + 65536) : NULL;

			if (!more) {
				errno = size > MAX_BYTES ? EMSGSIZE : ENOMEM;
				return -1;
			}
			*text = more;
		}
		n = poll(&pfd, 1, ms_until(&end));
		if (n == 0)
			errno = ETIMEDOUT;
		if (n <= 0)
			return -1;
		n = recv(fd, *text + len, size - len, 0);
		if (n > 0 && !len)
			end.tv_sec += ANSWER_S - PATIENCE_S;
		len += n > 0 ? (size_t)n : 0;
	}
	/* It has ended before it could answer. */
	return n < 0 && errno == ECONNRESET && !len ? 0 : n < 0 ? -1 : (ssize_t)len;
}

static struct json_object *understand(struct tool_process *p, const char *text, size_t len)
{
	struct json_object *o = tool_json_parse(text, len);

	if (tool_json_number(o, URXE_STATUS_VERSION_KEY) == URXE_STATUS_VERSION)
		return o;
	if (json_object_is_type(o, json_type_object) ||
	    (len > 11 && !memcmp(text, "urxe-report", 11)))
		refuse(p, "is of another version of urxe");
	else
		refuse(p, "its answer breaks off or is none");
	json_object_put(o);
	return NULL;
}

struct json_object *tool_process_ask(struct tool_process *p, const char *request)
{
	struct json_object *o = NULL;
	int fd = ask(p, request);
	char *text;
	ssize_t n;

	if (fd < 0)
		return NULL;
	n = read_all(fd, &text);
	if (n < 0)
		refuse(p, errno == ETIMEDOUT ? "does not answer" : strerror(errno));
	else if (n > 0)
		o = understand(p, text, (size_t)n);
	free(text);
	close(fd);
	return o;
}

/* ---- all of them ---- */

struct search {
	int pid;
	void (*fn)(struct tool_process *p, void *arg);
	void *arg;
};

static void found(const struct search *s, const char *dir, int fd, const char *name)
{
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	struct tool_process p = {.path = path, .dir = fd};

	if (strspn(name, "0123456789") != strlen(name) || strlen(name) > 9)
		return;
	p.pid = atoi(name);
	if (s->pid && s->pid != p.pid)
		return;
	if (snprintf(path, sizeof(path), "%s/%s", dir, name) < (int)sizeof(path))
		s->fn(&p, s->arg);
}

/* A folder that somebody else made or may write to is not asked. Said once: some ask again and
 * again. */
static bool is_users(int fd, const char *dir, const struct stat *st)
{
	static bool told;
	bool users = !geteuid() || urxe_owner_is_us(fd, st);
	char whose[80];

	if (users && !(st->st_mode & 022))
		return true;
	if (told)
		return false;
	told = true;
	if (users)
		tool_fail("%s: others can write to this folder: nobody in it is asked", dir);
	else
		tool_fail("%s: this folder belongs to %s: nobody in it is asked", dir,
			  urxe_owner_name(st->st_uid, whose, sizeof(whose)));
	return false;
}

static void each_in(const struct search *s, const char *dir)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct dirent *e;
	struct stat st;
	DIR *d;

	if (fd < 0)
		return;
	if (fstat(fd, &st) || !is_users(fd, dir, &st) || !(d = fdopendir(fd))) {
		close(fd);
		return;
	}
	while ((e = readdir(d)))
		found(s, dir, fd, e->d_name);
	closedir(d);
}

void tool_process_each(int pid, void (*fn)(struct tool_process *p, void *arg), void *arg)
{
	const struct search s = {pid, fn, arg};
	glob_t all = {0};
	char dir[256];

	if (!geteuid() && !getenv(URXE_STATUS_ENV) && !glob(URXE_OWNER_DIR "*", 0, NULL, &all)) {
		for (size_t i = 0; i < all.gl_pathc; i++)
			each_in(&s, all.gl_pathv[i]);
		globfree(&all);
	} else if (!urxe_status_dir(dir, sizeof(dir))) {
		each_in(&s, dir);
	}
}

int tool_process_number(const char *command, const char *text)
{
	if (*text && strspn(text, "0123456789") == strlen(text) && strlen(text) <= 9 && atoi(text))
		return atoi(text);
	tool_fail("%s: found '%s', accepted: a process id", command, text);
	return 0;
}
