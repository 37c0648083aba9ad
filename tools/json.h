/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Private to the urxe command: what is printed as JSON. Where memory is short a member is null.
 */
#ifndef URXE_TOOL_JSON_H
#define URXE_TOOL_JSON_H

#include <json-c/json.h>

/** tool_json_string - a string; bytes that are no UTF-8 become U+FFFD. */
struct json_object *tool_json_string(const char *s);

/** tool_json_add - put tool_json_string() of @s into the object @o. */
void tool_json_add(struct json_object *o, const char *key, const char *s);

/** tool_json_print - print to stdout and free; the exit status. */
int tool_json_print(struct json_object *o);

#endif
