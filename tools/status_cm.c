/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * urxe status --cm: asks the processes of the user (root: of all) that have a CM for their
 * connections. Each tells its own (cm/report.c); here they are put together.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cm/report_path.h"
#include "tool.h"

static const char title[] =
	"PID     COMMAND         KIND    DEVICE   STATE          LOCAL                 PEER"
	"                  COMM-IDS          QPNS          RETRIES LAST-EVENT\n";

struct report {
	bool json;
	unsigned processes;
};

static void show_process(const char *path, void *arg)
{
	struct report *r = arg;
	char word[] = {r->json ? URXE_REPORT_JSON : URXE_REPORT_TABLE, '\n', '\0'}, buf[4096];
	int fd = tool_process_ask(path, word);
	bool any = false;
	ssize_t n;

	if (fd < 0)
		return;
	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0) {
		if (!any && r->json)
			fputs(r->processes ? ",\n  " : "\n  ", stdout);
		any = true;
		fwrite(buf, 1, (size_t)n, stdout);
	}
	if (n < 0)
		fprintf(stderr, "urxe: %s: %s\n", path, strerror(errno));
	close(fd);
	r->processes += any;
}

int tool_status_cm(bool json)
{
	struct report r = {.json = json};

	if (json)
		printf("{\n  \"processes\": [");
	else
		fputs(title, stdout);
	tool_process_each(show_process, &r);
	if (json)
		printf("%s]\n}\n", r.processes ? "\n  " : "");
	return fflush(stdout) ? 1 : 0;
}
