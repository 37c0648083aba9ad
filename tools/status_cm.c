/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * urxe status --cm: asks the processes of the user (root: of all) that have a CM for their
 * connections. Each tells its own (cm/report.c); here they are put together.
 */
#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "cm/report_path.h"
#include "tool.h"

#define PATIENCE_S 3

static const char title[] =
	"PID     COMMAND         KIND    DEVICE   STATE          LOCAL                 PEER"
	"                  COMM-IDS          QPNS          RETRIES LAST-EVENT\n";

static int ask(const struct sockaddr_un *sun, char word)
{
	struct timeval patience = {.tv_sec = PATIENCE_S};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), err;
	char line[2] = {word, '\n'};

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (connect(fd, (const struct sockaddr *)sun, sizeof(*sun)) ||
	    send(fd, line, sizeof(line), MSG_NOSIGNAL) != sizeof(line)) {
		err = errno;
		close(fd);
		errno = err;
		return -1;
	}
	return fd;
}

/* 1: one more process was printed. */
static int show_process(const struct sockaddr_un *sun, bool json, bool first)
{
	int fd = ask(sun, json ? URXE_REPORT_JSON : URXE_REPORT_TABLE);
	bool any = false;
	char buf[4096];
	ssize_t n;

	if (fd < 0) {
		/* Nobody is there any more: it was killed. */
		if (errno == ECONNREFUSED)
			unlink(sun->sun_path);
		else if (errno != ENOENT)
			fprintf(stderr, "urxe: %s: %s\n", sun->sun_path, strerror(errno));
		return 0;
	}
	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0) {
		if (!any && json)
			fputs(first ? "\n  " : ",\n  ", stdout);
		any = true;
		fwrite(buf, 1, (size_t)n, stdout);
	}
	if (n < 0)
		fprintf(stderr, "urxe: %s: %s\n", sun->sun_path, strerror(errno));
	close(fd);
	return any;
}

/* A folder that somebody else made or may write to is not asked. */
static int show_folder(const char *dir, bool json, bool first)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	struct dirent *e;
	struct stat st;
	int n = 0;
	DIR *d;

	if (lstat(dir, &st) || !S_ISDIR(st.st_mode) || st.st_mode & 022 ||
	    (geteuid() && st.st_uid != geteuid()))
		return 0;
	d = opendir(dir);
	while (d && (e = readdir(d))) {
		if (strspn(e->d_name, "0123456789") != strlen(e->d_name))
			continue;
		if (snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/%s", dir, e->d_name) <
		    (int)sizeof(sun.sun_path))
			n += show_process(&sun, json, first && !n);
	}
	if (d)
		closedir(d);
	return n;
}

int tool_status_cm(bool json)
{
	char dir[256];
	glob_t all = {0};
	int n = 0;

	if (json)
		printf("{\n  \"processes\": [");
	else
		fputs(title, stdout);
	if (!geteuid() && !getenv(URXE_REPORT_ENV) && !glob(URXE_REPORT_DIR "*", 0, NULL, &all)) {
		for (size_t i = 0; i < all.gl_pathc; i++)
			n += show_folder(all.gl_pathv[i], json, !n);
		globfree(&all);
	} else if (!urxe_report_dir(geteuid(), dir, sizeof(dir))) {
		n = show_folder(dir, json, true);
	}
	if (json)
		printf("%s]\n}\n", n ? "\n  " : "");
	return fflush(stdout) ? 1 : 0;
}
