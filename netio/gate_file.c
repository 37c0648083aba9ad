/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The file by which a fabric's gateway is known: lines of text, and a lock of the open file
 * (F_OFD_SETLK) that says that it lives: it has no children.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "netio/fabric_priv.h"
#include "netio/gate_priv.h"
#include "urxe/inode.h"

#define NAME  "gateway"
#define TRIES 100
#define ROOM  4096 /* bytes of it */

__attribute__((format(printf, 4, 5))) static int say(int err, char *to, size_t len, const char *fmt,
						     ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(to, len, fmt, ap);
	va_end(ap);
	return err;
}

/* Process ids are of a namespace. */
static unsigned long pid_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) ? 0 : (unsigned long)st.st_ino;
}

/* EAGAIN: who had it has just removed it. */
static int take(int dir, bool group, int *fd)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	int ret = EAGAIN;

	*fd = openat(dir, NAME, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (*fd < 0)
		return errno;
	if (!fcntl(*fd, F_OFD_SETLK, &lock)) {
		/* The user, or members of the group, are to read it, whatever the umask is. */
		if (urxe_inode_at(dir, NAME, *fd) && !fchmod(*fd, group ? 0640 : 0600))
			return 0;
	} else {
		ret = errno == EAGAIN || errno == EACCES ? EBUSY : errno;
	}
	close(*fd);
	return ret;
}

int urxe_gate_claim(const struct urxe_fabric_spec *spec, int *fd, char *err, size_t errlen)
{
	struct urxe_gate_info info = {0};
	char path[FABRIC_DIR_LEN];
	bool group;
	int dir = urxe_fdir_open(spec, true, &group, err, errlen), ret = EAGAIN;

	if (dir < 0)
		return errno;
	for (unsigned i = 0; i < TRIES && ret == EAGAIN; i++)
		ret = take(dir, group, fd);
	close(dir);
	urxe_fabric_spec_dir(spec, path, sizeof(path));
	if (ret == EBUSY && !urxe_gate_look(spec, &info) && info.pid)
		return say(ret, err, errlen,
			   "process %d is the gateway of the fabric in %s, with the port %s",
			   info.pid, path, info.port);
	if (ret == EBUSY)
		return say(ret, err, errlen, "another process is the gateway of the fabric in %s",
			   path);
	return ret ? say(ret, err, errlen, "cannot lock %s/" NAME ": %s", path, strerror(ret)) : 0;
}

int urxe_gate_publish(int fd, const struct urxe_gate_info *info)
{
	char text[ROOM], addr[URXE_GID_STRLEN];
	int n = snprintf(text, sizeof(text), "pid %d %lu\nmtu %u\nport %s\n", (int)getpid(),
			 pid_namespace(), info->l3_mtu, info->port);

	for (unsigned i = 0; i < info->num_ips && n < (int)sizeof(text); i++)
		n += snprintf(text + n, sizeof(text) - (size_t)n, "ip %s/%u\n",
			      urxe_gid_print(info->ips[i].gid, addr, sizeof(addr)),
			      info->ips[i].prefix_len);
	if (n >= (int)sizeof(text))
		return E2BIG;
	if (ftruncate(fd, 0) || pwrite(fd, text, (size_t)n, 0) != n)
		return errno ? errno : EIO;
	return 0;
}

void urxe_gate_unclaim(const struct urxe_fabric_spec *spec, int fd)
{
	char err[400];
	bool group;
	int dir = urxe_fdir_open(spec, false, &group, err, sizeof(err));

	if (dir >= 0) {
		if (urxe_inode_at(dir, NAME, fd))
			unlinkat(dir, NAME, 0);
		close(dir);
	}
	close(fd);
}

/* ---- looking ---- */

static void take_line(struct urxe_gate_info *info, const char *line)
{
	unsigned long n, ns;
	int pid;

	if (sscanf(line, "pid %9d %lu", &pid, &ns) == 2) {
		info->pid = ns == pid_namespace() && pid > 0 ? pid : 0;
	} else if (!strncmp(line, "mtu ", 4)) {
		n = strtoul(line + 4, NULL, 10);
		info->l3_mtu = n < 65536 ? (uint32_t)n : 0;
	} else if (!strncmp(line, "port ", 5)) {
		snprintf(info->port, sizeof(info->port), "%s", line + 5);
	} else if (!strncmp(line, "ip ", 3) && info->num_ips < URXE_CONFIG_MAX_IPS &&
		   urxe_config_ip_parse(line + 3, &info->ips[info->num_ips])) {
		info->num_ips++;
	}
}

static int read_file(int fd, struct urxe_gate_info *info)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	char text[ROOM + 1], *rest = text, *line;
	ssize_t n;

	/* A lock for reading would be in the way of who comes to be it. */
	if (fcntl(fd, F_OFD_GETLK, &lock))
		return errno;
	if (lock.l_type == F_UNLCK)
		return ENOENT; /* what one that was killed has left */
	n = pread(fd, text, ROOM, 0);
	if (n < 0)
		return errno;
	text[n] = '\0';
	memset(info, 0, sizeof(*info));
	while ((line = strsep(&rest, "\n")))
		take_line(info, line);
	/* It is about to say it. */
	return urxe_config_path_mtu(info->l3_mtu) ? 0 : ENOENT;
}

int urxe_gate_look(const struct urxe_fabric_spec *spec, struct urxe_gate_info *info)
{
	char err[400];
	bool group;
	int dir = urxe_fdir_open(spec, false, &group, err, sizeof(err)), fd, ret;

	if (dir < 0)
		return errno;
	fd = openat(dir, NAME, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	ret = fd < 0 ? errno : read_file(fd, info);
	if (fd >= 0)
		close(fd);
	close(dir);
	return ret;
}
