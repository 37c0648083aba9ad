/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Options of all commands, by getopt_long().
 */
#include <stdlib.h>
#include <string.h>

#include "tool.h"

#define HELP (TOOL_OPTION - 1)

/* All that there are, for who got one wrong. */
static const char *names(const struct option *options, char *buf, size_t size)
{
	size_t n = 0;

	for (const struct option *o = options; o->name && n < size; o++)
		n += (size_t)snprintf(buf + n, size - n, "--%s, ", o->name);
	if (n < size)
		snprintf(buf + n, size - n, "--help");
	return buf;
}

/* What getopt_long() did not take; a letter may stand behind others in its word. */
static int refuse(char **argv, const struct option *options, bool no_value)
{
	char letter[] = {'-', (char)optopt, '\0'}, all[512];
	const char *word = optopt && optopt < HELP ? letter : argv[optind - 1];

	if (no_value)
		return tool_fail("%s: %s: found nothing, accepted: a value", argv[0], word);
	return tool_fail("%s: found '%s', accepted: %s", argv[0], word,
			 names(options, all, sizeof(all)));
}

int tool_seconds(const char *what, const char *text, double *seconds)
{
	char *end;

	*seconds = strtod(text, &end);
	if (end == text || *end || !(*seconds >= 0.1 && *seconds <= 86400))
		return tool_fail("%s: found '%s', accepted: 0.1 to 86400 seconds", what, text);
	return 0;
}

int tool_count(const char *what, const char *text, unsigned long *count)
{
	*count = strspn(text, "0123456789") == strlen(text) && strlen(text) < 10
			 ? strtoul(text, NULL, 10)
			 : 0;
	return *count ? 0 : tool_fail("%s: found '%s', accepted: a number from 1", what, text);
}

int tool_option(int argc, char **argv, bool first, const struct option *options, const char *usage)
{
	struct option all[64] = {{"help", no_argument, NULL, HELP}};
	char letters[64] = "+:h";
	size_t at = 3;
	int n = 1, c;

	for (; options[n - 1].name && n < 63; n++) {
		all[n] = options[n - 1];
		if (all[n].val >= HELP || at + 3 > sizeof(letters))
			continue;
		letters[at++] = (char)all[n].val;
		if (all[n].has_arg)
			letters[at++] = ':';
	}
	letters[at] = '\0';
	opterr = 0;
	c = getopt_long(argc, argv, first ? letters : letters + 1, all, NULL);
	if (c == 'h' || c == HELP) {
		fputs(usage, stdout);
		exit(tool_flush());
	}
	if (c == '?' || c == ':')
		exit(refuse(argv, options, c == ':'));
	return c;
}
