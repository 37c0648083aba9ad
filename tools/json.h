/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Private to the urxe command: what is printed as JSON, and what processes answer. Where memory is
 * short a member is null.
 */
#ifndef URXE_TOOL_JSON_H
#define URXE_TOOL_JSON_H

#include <stdint.h>

#include <json-c/json.h>

/** tool_json_string - a string; bytes that are no UTF-8 become U+FFFD. */
struct json_object *tool_json_string(const char *s);

/** tool_json_add - put tool_json_string() of @s into the object @o. */
void tool_json_add(struct json_object *o, const char *key, const char *s);

/** tool_json_print - print to stdout, over several lines, and free; the exit status. */
int tool_json_print(struct json_object *o);

/**
 * tool_json_parse - the one value that @text is, of @len bytes and no NUL behind; NULL: it is none,
 * or not UTF-8, or too deep. To be freed by json_object_put().
 */
struct json_object *tool_json_parse(const char *text, size_t len);

/** tool_json_tame - what a terminal would obey becomes '?' in all strings of @o; names are left. */
void tool_json_tame(struct json_object *o);

/* Members of an answer, whatever it is. */

/** tool_json_get - a member, or NULL; of what is no object, too. */
struct json_object *tool_json_get(struct json_object *o, const char *key);
/** tool_json_text - a string; "-" when there is none. As long as @o. */
const char *tool_json_text(struct json_object *o, const char *key);
/** tool_json_number - a number; 0 when there is none. */
uint64_t tool_json_number(struct json_object *o, const char *key);
/** tool_json_length - how many elements an array has; 0 when there is none. */
size_t tool_json_length(struct json_object *o, const char *key);
/** tool_json_at - its element @i, or NULL. */
struct json_object *tool_json_at(struct json_object *o, const char *key, size_t i);

#endif
