/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * JSON, by json-c, which takes strings as they are: here they become UTF-8. What processes answer
 * may be anything.
 */
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json_visit.h>

#include "json.h"
#include "tool.h"
#include "urxe/json.h"

#define MAX_DEPTH 32 /* of an answer */

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
	int ret = 1;

	if (!o || !text) {
		tool_fail("cannot print: no memory");
	} else {
		fputs(text, stdout);
		putchar('\n');
		ret = tool_flush();
	}
	json_object_put(o);
	return ret;
}

/* ---- answers ---- */

struct json_object *tool_json_parse(const char *text, size_t len)
{
	struct json_tokener *t = len < INT_MAX ? json_tokener_new_ex(MAX_DEPTH) : NULL;
	struct json_object *o;
	bool whole;
	size_t at;

	if (!t)
		return NULL;
	/* Not JSON_TOKENER_STRICT: json-c 0.18 then rejects all that is not ASCII. */
	json_tokener_set_flags(t, JSON_TOKENER_VALIDATE_UTF8);
	o = json_tokener_parse_ex(t, text, (int)len);
	whole = json_tokener_get_error(t) == json_tokener_success;
	for (at = json_tokener_get_parse_end(t); whole && at < len; at++)
		whole = text[at] == ' ' || text[at] == '\n';
	json_tokener_free(t);
	if (whole)
		return o;
	json_object_put(o);
	return NULL;
}

static void tame_string(struct json_object *o)
{
	int len = json_object_get_string_len(o);
	char *copy = malloc((size_t)len + 1);
	bool changed = false;

	if (!copy)
		return;
	memcpy(copy, json_object_get_string(o), (size_t)len + 1);
	for (char *p = copy; p < copy + len; p++) {
		/* C0 and DEL; C1 is two bytes of UTF-8. */
		bool two = p[0] == '\xc2' && (p[1] & 0xe0) == 0x80;

		if (!two && (unsigned char)*p >= 0x20 && *p != 0x7f)
			continue;
		*p = '?';
		if (two)
			*++p = '?';
		changed = true;
	}
	if (changed)
		json_object_set_string_len(o, copy, len);
	free(copy);
}

static int tame_one(struct json_object *o, int flags, struct json_object *parent, const char *key,
		    size_t *index, void *arg)
{
	if (json_object_is_type(o, json_type_string))
		tame_string(o);
	return JSON_C_VISIT_RETURN_CONTINUE;
}

void tool_json_tame(struct json_object *o)
{
	json_c_visit(o, 0, tame_one, NULL);
}

struct json_object *tool_json_get(struct json_object *o, const char *key)
{
	struct json_object *member = NULL;

	if (json_object_is_type(o, json_type_object))
		json_object_object_get_ex(o, key, &member);
	return member;
}

const char *tool_json_text(struct json_object *o, const char *key)
{
	struct json_object *member = tool_json_get(o, key);

	return json_object_is_type(member, json_type_string) ? json_object_get_string(member) : "-";
}

uint64_t tool_json_number(struct json_object *o, const char *key)
{
	struct json_object *member = tool_json_get(o, key);

	return json_object_is_type(member, json_type_int) ? json_object_get_uint64(member) : 0;
}

size_t tool_json_length(struct json_object *o, const char *key)
{
	struct json_object *all = tool_json_get(o, key);

	return json_object_is_type(all, json_type_array) ? json_object_array_length(all) : 0;
}

struct json_object *tool_json_at(struct json_object *o, const char *key, size_t i)
{
	return i < tool_json_length(o, key) ? json_object_array_get_idx(tool_json_get(o, key), i)
					    : NULL;
}
