/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Is a file, or a process, this user's? In a user namespace that does not map all users (the view
 * of `urxe run` has one) all others look like one: the overflow user, 65534. Who is that user
 * himself would take everybody for himself; so what only the owner may do is tried.
 */
#ifndef URXE_OWNER_H
#define URXE_OWNER_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define URXE_OWNER_UNKNOWN 65534 /* as the kernel has it (/proc/sys/kernel/overflowuid) */

/* The user's number, from who has made a user namespace around this process (`urxe run`). */
#define URXE_OWNER_ENV "URXE_OWNER_UID"

#define URXE_OWNER_DIR "/tmp/urxe-" /* and urxe_owner_uid(): where a user's programs meet */

/** urxe_owner_known - does @uid stand for one user? */
static inline bool urxe_owner_known(uid_t uid)
{
	unsigned first, to, n;
	FILE *f;
	bool all;

	if (uid != URXE_OWNER_UNKNOWN)
		return true;
	f = fopen("/proc/self/uid_map", "re");
	if (!f)
		return true;
	all = fscanf(f, "%u %u %u", &first, &to, &n) == 3 && !first && n == 0xffffffffu;
	fclose(f);
	return all;
}

/**
 * urxe_owner_uid - the effective user's number for the name of a folder that users share, as /tmp
 * is: that outside of his user namespace. Within, everybody may be 0, and the folder of one would
 * be in the way of all others. Of nested namespaces the outer ones cannot be seen: who makes one
 * for a program leaves the number in its environment.
 */
static inline uid_t urxe_owner_uid(void)
{
	const char *told = secure_getenv(URXE_OWNER_ENV);
	uid_t uid = geteuid();
	unsigned first, to, n;
	FILE *f;

	if (told && *told && strspn(told, "0123456789") == strlen(told))
		return (uid_t)strtoul(told, NULL, 10);
	f = fopen("/proc/self/uid_map", "re");
	while (f && fscanf(f, "%u %u %u", &first, &to, &n) == 3) {
		if (uid >= first && uid - first < n) {
			uid = to + (uid - first);
			break;
		}
	}
	if (f)
		fclose(f);
	return uid;
}

/**
 * urxe_owner_is_us - does the file belong to the effective user?
 * @fd: of the file, O_PATH will do
 * @st: what fstat() says of it
 */
static inline bool urxe_owner_is_us(int fd, const struct stat *st)
{
	char path[32];

	if (st->st_uid != geteuid())
		return false;
	if (urxe_owner_known(st->st_uid))
		return true;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return !chmod(path, st->st_mode & 07777); /* what it is */
}

/**
 * urxe_owner_has_dir - is @path a folder of the effective user's that nobody else may write to?
 * @st: what it is, with mode 0 where nothing can be seen; errno says why
 */
static inline bool urxe_owner_has_dir(const char *path, struct stat *st)
{
	int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	bool has;

	st->st_mode = 0;
	if (fd < 0)
		return false;
	has = !fstat(fd, st) && S_ISDIR(st->st_mode) && !(st->st_mode & 022) &&
	      urxe_owner_is_us(fd, st);
	close(fd);
	return has;
}

/** urxe_owner_dir - URXE_OWNER_DIR of the effective user, in @buf; what snprintf() returns. */
static inline int urxe_owner_dir(char *buf, size_t len)
{
	return snprintf(buf, len, URXE_OWNER_DIR "%u", (unsigned)urxe_owner_uid());
}

/** urxe_owner_make_dir - a folder of mode 0700, unless there is something of that name; to one of
 * ours it gives the rights of the owner, which a umask may have taken. 0 or errno. */
static inline int urxe_owner_make_dir(const char *path)
{
	struct stat st;

	if (mkdir(path, 0700) && errno != EEXIST)
		return errno;
	if (urxe_owner_has_dir(path, &st) && (st.st_mode & 0700) != 0700 &&
	    chmod(path, (st.st_mode | 0700) & 07777))
		return errno;
	return 0;
}

/** urxe_owner_runs - does a process at the other end of a socket run as the effective user? @pid: 0
 * where it is not known */
static inline bool urxe_owner_runs(uid_t uid, pid_t pid)
{
	return uid == geteuid() && (urxe_owner_known(uid) || (pid > 0 && !kill(pid, 0)));
}

/** urxe_owner_name - "uid 1000" for a message, in @buf, or that it cannot be known here. */
static inline const char *urxe_owner_name(uid_t uid, char *buf, size_t len)
{
	if (urxe_owner_known(uid))
		snprintf(buf, len, "uid %u", (unsigned)uid);
	else
		snprintf(buf, len,
			 "another user (unknown in `urxe run`'s view; --view never tells)");
	return buf;
}

/** urxe_owner_objection - why urxe_owner_has_dir() refuses @path, which it has seen as @st, for a
 * message, in @buf. */
static inline const char *urxe_owner_objection(const char *path, const struct stat *st, char *buf,
					       size_t len)
{
	char whose[80];

	if (!S_ISDIR(st->st_mode))
		snprintf(buf, len, "%s is no folder", path);
	else if (st->st_uid != geteuid() || !(st->st_mode & 022))
		snprintf(buf, len, "%s belongs to %s", path,
			 urxe_owner_name(st->st_uid, whose, sizeof(whose)));
	else
		snprintf(buf, len, "others can write to %s", path);
	return buf;
}

#endif
