/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * halt PID NAME... - the threads of a process whose names begin so stop, as if they had no
 * processor; the others go on. Says "halted", and lets them go on when its standard input ends.
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

int main(int argc, char **argv)
{
	struct dirent *entry;
	char path[64];
	int n = 0;
	DIR *dir;

	if (argc < 3)
		return 2;
	snprintf(path, sizeof(path), "/proc/%.20s/task", argv[1]);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.' || !wanted(argv[1], entry->d_name, argv + 2))
			continue;
		if (halt(atoi(entry->d_name))) {
			perror("halt");
			return 1;
		}
		n++;
	}
	if (!n) {
		fprintf(stderr, "halt: no such thread\n");
		return 1;
	}
	closedir(dir);
	puts("halted");
	fflush(stdout);
	while (getchar() != EOF)
		;
	return 0; /* its tracees go on without it */
}
