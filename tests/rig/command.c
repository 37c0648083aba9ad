/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Run the built `urxe`, with a folder of the test's own for sockets. */
#include "command.h"

#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

int urxe_command(const char *args, char *text, size_t size)
{
	char exe[1024], line[1200];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	size_t len;
	int status;
	FILE *p;

	CU_ASSERT_FATAL(n > 0);
	exe[n] = '\0';
	snprintf(line, sizeof(line), "%s/../../tools/urxe %s 2>&1", dirname(exe), args);
	p = popen(line, "r");
	CU_ASSERT_PTR_NOT_NULL_FATAL(p);
	len = fread(text, 1, size - 1, p);
	text[len] = '\0';
	status = pclose(p);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static char dir[64];

const char *status_dir(void)
{
	if (dir[0])
		return dir;
	snprintf(dir, sizeof(dir), "/tmp/urxe-test-XXXXXX");
	if (mkdtemp(dir))
		setenv("URXE_STATUS_DIR", dir, 1);
	/* A sanitizer's library, for programs without: the shell would report its leaks. */
	unsetenv("LD_PRELOAD");
	return dir;
}

void status_path(char *path, size_t len, int pid)
{
	snprintf(path, len, "%s/%d", dir, pid);
}

/* The library's destructor, which takes the socket away, runs after this program's own. */
__attribute__((destructor)) static void clean_up(void)
{
	char path[128];

	if (!dir[0])
		return;
	status_path(path, sizeof(path), getpid());
	unlink(path);
	rmdir(dir);
}
