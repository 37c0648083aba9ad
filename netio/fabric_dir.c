/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A fabric's name and folder, and who may use it. Members share memory, so they are one user; or
 * one group, where somebody made a folder that this group may write to, and names it.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "netio/fabric_priv.h"
#include "urxe/owner.h"

#define PREFIX "fabric"

__attribute__((format(printf, 4, 5))) static int say(int ret, char *err, size_t len,
						     const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(err, len, fmt, ap);
	va_end(ap);
	return ret;
}

/* ---- what is meant ---- */

static bool good_name(const char *s, size_t len)
{
	if (!len || s[0] == '.')
		return false;
	for (size_t i = 0; i < len; i++) {
		if (!isalnum((unsigned char)s[i]) && !strchr("._-", s[i]))
			return false;
	}
	return true;
}

static int parse_one(const char *s, size_t n, struct urxe_fabric_spec *spec, char *err,
		     size_t errlen)
{
	if (n > 5 && !strncmp(s, "name=", 5)) {
		if (n - 5 >= sizeof(spec->name) || !good_name(s + 5, n - 5))
			return say(EINVAL, err, errlen,
				   "a fabric's name has up to %zu letters, digits, '.', '_', '-'",
				   sizeof(spec->name) - 1);
		memcpy(spec->name, s + 5, n - 5);
		spec->name[n - 5] = '\0';
		return 0;
	}
	if (n > 4 && !strncmp(s, "dir=", 4)) {
		if (n - 4 >= sizeof(spec->dir))
			return say(EINVAL, err, errlen, "the folder's name is too long");
		memcpy(spec->dir, s + 4, n - 4);
		spec->dir[n - 4] = '\0';
		return 0;
	}
	return say(EINVAL, err, errlen, "'%.*s' is neither name=NAME nor dir=DIR", (int)n, s);
}

int urxe_fabric_spec_parse(const char *port, struct urxe_fabric_spec *spec, char *err,
			   size_t errlen)
{
	const char *s = port + strlen(PREFIX);

	memset(spec, 0, sizeof(*spec));
	if (strncmp(port, PREFIX, strlen(PREFIX)) || (*s && *s != ','))
		return ENOENT;
	while (*s) {
		size_t n = strcspn(++s, ",");
		int ret = parse_one(s, n, spec, err, errlen);

		if (ret)
			return ret;
		s += n;
	}
	if (spec->dir[0] && spec->name[0])
		return say(EINVAL, err, errlen, "a fabric is named by name= or by dir=, not both");
	return 0;
}

/* The folder that is above the default one: the session's, else the one of status sockets. */
static int base(char *dir, size_t len)
{
	const char *run = getenv("XDG_RUNTIME_DIR");
	struct stat st;
	int n;

	/* After su it may be another user's. */
	if (run && run[0] == '/' && !stat(run, &st) && S_ISDIR(st.st_mode) &&
	    st.st_uid == geteuid() && !(st.st_mode & 022))
		n = snprintf(dir, len, "%s/urxe", run);
	else
		n = urxe_owner_dir(dir, len);
	return n > 0 && (size_t)n < len ? 0 : ENAMETOOLONG;
}

int urxe_fabric_spec_dir(const struct urxe_fabric_spec *spec, char *dir, size_t len)
{
	struct stat ns = {0};
	char above[FABRIC_DIR_LEN];
	int n;

	if (spec->dir[0] == '/') {
		n = snprintf(dir, len, "%s", spec->dir);
	} else if (spec->dir[0]) {
		if (!getcwd(above, sizeof(above)))
			return errno;
		n = snprintf(dir, len, "%s/%s", above, spec->dir);
	} else {
		if (base(above, sizeof(above)))
			return ENAMETOOLONG;
		/* Where /proc is missing all are in one namespace. */
		if (stat("/proc/self/ns/net", &ns))
			ns.st_ino = 0;
		n = snprintf(dir, len, "%s/fabric-%lu-%s", above, (unsigned long)ns.st_ino,
			     spec->name[0] ? spec->name : "default");
	}
	return n > 0 && (size_t)n < len ? 0 : ENAMETOOLONG;
}

/* ---- whether to trust it ---- */

static bool in_group(gid_t gid)
{
	gid_t list[256];
	int n;

	if (gid == getegid())
		return true;
	n = getgroups((int)(sizeof(list) / sizeof(list[0])), list);
	for (int i = 0; i < n; i++) {
		if (list[i] == gid)
			return true;
	}
	return false;
}

static int check(int fd, const struct stat *st, const char *dir, bool named, bool *group, char *err,
		 size_t errlen)
{
	bool shared = named && st->st_mode & S_IWGRP && in_group(st->st_gid);
	char whose[80];

	*group = shared;
	if (!S_ISDIR(st->st_mode))
		return say(ENOTDIR, err, errlen, "%s is no folder", dir);
	if (st->st_mode & S_IWOTH)
		return say(EPERM, err, errlen,
			   "anybody may write to the fabric's folder %s, and whoever does shares "
			   "this process's frames",
			   dir);
	if (!shared && !urxe_owner_is_us(fd, st))
		return say(EPERM, err, errlen,
			   "the fabric's folder %s belongs to %s, and no group that this "
			   "process is in may write to it",
			   dir, urxe_owner_name(st->st_uid, whose, sizeof(whose)));
	if (st->st_mode & S_IWGRP && !shared)
		return say(EPERM, err, errlen,
			   "group %u may write to the fabric's folder %s, and whoever does shares "
			   "this process's frames",
			   (unsigned)st->st_gid, dir);
	return 0;
}

/* The folder above the default one is ours alone, or somebody could put his into it. */
static int make_above(const char *dir, char *err, size_t errlen)
{
	char above[FABRIC_DIR_LEN];
	struct stat st;
	int ret;

	snprintf(above, sizeof(above), "%s", dir);
	*strrchr(above, '/') = '\0';
	ret = urxe_owner_make_dir(above);
	if (ret)
		return say(ret, err, errlen, "cannot make %s: %s", above, strerror(ret));
	if (urxe_owner_has_dir(above, &st))
		return 0;
	if (!st.st_mode)
		return say(errno, err, errlen, "cannot see %s: %s", above, strerror(errno));
	return say(EPERM, err, errlen,
		   "%s must be a folder of this user's that nobody else may write to; have "
		   "XDG_RUNTIME_DIR name such a one, or the port 'fabric,dir=DIR'",
		   above);
}

int urxe_fdir_open(const struct urxe_fabric_spec *spec, bool make, bool *group, char *err,
		   size_t errlen)
{
	char dir[FABRIC_DIR_LEN];
	bool named = spec->dir[0];
	struct stat st;
	int fd, ret;

	ret = urxe_fabric_spec_dir(spec, dir, sizeof(dir));
	if (ret)
		say(ret, err, errlen, "the name of the fabric's folder is too long");
	else if (make && !named)
		ret = make_above(dir, err, errlen);
	if (!ret && make) {
		ret = urxe_owner_make_dir(dir);
		if (ret)
			say(ret, err, errlen, "cannot make the fabric's folder %s: %s", dir,
			    strerror(ret));
	}
	if (ret) {
		errno = ret;
		return -1;
	}
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (named ? 0 : O_NOFOLLOW));
	if (fd < 0) {
		ret = say(errno, err, errlen, "cannot open the fabric's folder %s: %s", dir,
			  strerror(errno));
	} else {
		ret = fstat(fd, &st) ? errno : check(fd, &st, dir, named, group, err, errlen);
		if (ret)
			close(fd);
	}
	errno = ret;
	return ret ? -1 : fd;
}
