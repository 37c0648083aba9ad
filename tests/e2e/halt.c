/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * halt FILE TEXT MS PID NAME... - the threads of a process whose names begin so stop, as if they
 * had no processor; the others go on. They stop until the FILE has the TEXT, and MS milliseconds
 * more.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

static int wanted(const char *pid, const char *tid, char **names)
{
	char path[64], comm[32] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%.20s/task/%.20s/comm", pid, tid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	if (!fgets(comm, sizeof(comm), f))
		comm[0] = '\0';
	fclose(f);
	while (*names && strncmp(comm, *names, strlen(*names)))
		names++;
	return *names != NULL;
}

static int halt(pid_t tid)
{
	return ptrace(PTRACE_SEIZE, tid, NULL, NULL) || ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) ||
	       waitpid(tid, NULL, __WALL) != tid;
}

static int has(const char *file, const char *text)
{
	FILE *f = fopen(file, "re");
	char line[256];
	int found = 0;

	while (f && !found && fgets(line, sizeof(line), f))
		found = strstr(line, text) != NULL;
	if (f)
		fclose(f);
	return found;
}

static int halt_all(const char *pid, char **names)
{
	struct dirent *entry;
	char path[64];
	int n = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%.20s/task", pid);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.' || !wanted(pid, entry->d_name, names))
			continue;
		if (halt(atoi(entry->d_name))) {
			perror("halt");
			n = 0;
			break;
		}
		n++;
	}
	if (dir)
		closedir(dir);
	return n;
}

int main(int argc, char **argv)
{
	if (argc < 6)
		return 2;
	if (!halt_all(argv[4], argv + 5)) {
		fprintf(stderr, "halt: no such thread\n");
		return 1;
	}
	while (!has(argv[1], argv[2]))
		usleep(1000);
	usleep((useconds_t)atoi(argv[3]) * 1000);
	return 0; /* its tracees go on without it */
}
