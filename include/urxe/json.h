/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * JSON (RFC 8259) of what a process says of itself. It is written while one goes along: nothing is
 * kept, and a program needs no library for it.
 */
#ifndef URXE_JSON_H
#define URXE_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define URXE_JSON_DEPTH 16 /* objects and arrays within each other at most */

/** A text under way; zeros but @out. Of one thread. */
struct urxe_json {
	FILE *out;
	unsigned depth;
	bool more; /* a member stands before the next one */
	char close[URXE_JSON_DEPTH];
};

/**
 * urxe_json_object, urxe_json_array - begin an object or an array; urxe_json_end() ends it
 * @key: its name in the object around it; NULL: it is in an array, or it is the whole
 *
 * So for all @key below. A name is written as it is: a word of our own.
 */
void urxe_json_object(struct urxe_json *j, const char *key);
void urxe_json_array(struct urxe_json *j, const char *key);
/** urxe_json_end - the end of what was begun last. */
void urxe_json_end(struct urxe_json *j);

/** urxe_json_string - any bytes; those that are no UTF-8 become U+FFFD. NULL becomes null. */
void urxe_json_string(struct urxe_json *j, const char *key, const char *s);
/** urxe_json_number - a number without a sign. */
void urxe_json_number(struct urxe_json *j, const char *key, uint64_t n);
/** urxe_json_bool - true or false. */
void urxe_json_bool(struct urxe_json *j, const char *key, bool b);

/** urxe_utf8_length - how many bytes at @s are one well-formed sequence (RFC 3629); 0: none. @s
 * ends with a NUL. */
unsigned urxe_utf8_length(const char *s);

#endif
