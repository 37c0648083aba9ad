/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * JSON, by json-c, which takes strings as they are: here they become UTF-8.
 */
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "tool.h"
#include "urxe/json.h"

struct json_object *tool_json_string(const char *s)
{
	char *text = calloc(3, strlen(s) + 1), *out = text;
	struct json_object *o;
	unsigned n;

	for (; text && *s; s += n ? n : 1) {
		n = urxe_utf8_length(s);
		memcpy(out, n ? s : "\xef\xbf\xbd", n ? n : 3);
		out += n ? n : 3;
	}
	o = text ? json_object_new_string(text) : NULL;
	free(text);
	return o;
}

void tool_json_add(struct json_object *o, const char *key, const char *s)
{
	json_object_object_add(o, key, tool_json_string(s));
}

int tool_json_print(struct json_object *o)
{
	const char *text = json_object_to_json_string_ext(
		o,
		JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_NOSLASHESCAPE);
	int ret = !o || !text || puts(text) < 0 || fflush(stdout);

	if (ret)
		tool_fail("cannot print: no memory, or nobody reads");
	json_object_put(o);
	return ret;
}
