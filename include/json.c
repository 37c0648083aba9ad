/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A writer of JSON. */
#include <assert.h>
#include <inttypes.h>

#include "urxe/json.h"

unsigned urxe_utf8_length(const char *s)
{
	const unsigned char *p = (const unsigned char *)s;
	unsigned n = p[0] < 0x80   ? 1
		     : p[0] < 0xc2 ? 0
		     : p[0] < 0xe0 ? 2
		     : p[0] < 0xf0 ? 3
		     : p[0] < 0xf5 ? 4
				   : 0;

	for (unsigned i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	}
	/* Longer than need be, a half of a pair of UTF-16, or beyond U+10FFFF. */
	if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
	    (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
		return 0;
	return n;
}

static void put_string(FILE *out, const char *s)
{
	unsigned n;

	fputc('"', out);
	for (; *s; s += n ? n : 1) {
		n = urxe_utf8_length(s);
		if (!n)
			fputs("\xef\xbf\xbd", out);
		else if (*s == '"' || *s == '\\')
			fprintf(out, "\\%c", *s);
		else if ((unsigned char)*s < 0x20 || *s == 0x7f)
			fprintf(out, "\\u%04x", (unsigned)*s);
		else
			fwrite(s, 1, n, out);
	}
	fputc('"', out);
}

/* What goes before each value. */
static void member(struct urxe_json *j, const char *key)
{
	if (j->more)
		fputc(',', j->out);
	j->more = true;
	if (key)
		fprintf(j->out, "\"%s\":", key);
}

static void begin(struct urxe_json *j, const char *key, char open, char close)
{
	member(j, key);
	assert(j->depth < URXE_JSON_DEPTH);
	j->close[j->depth++] = close;
	j->more = false;
	fputc(open, j->out);
}

void urxe_json_object(struct urxe_json *j, const char *key)
{
	begin(j, key, '{', '}');
}

void urxe_json_array(struct urxe_json *j, const char *key)
{
	begin(j, key, '[', ']');
}

void urxe_json_end(struct urxe_json *j)
{
	assert(j->depth);
	fputc(j->close[--j->depth], j->out);
	j->more = true;
}

void urxe_json_string(struct urxe_json *j, const char *key, const char *s)
{
	member(j, key);
	if (s)
		put_string(j->out, s);
	else
		fputs("null", j->out);
}

void urxe_json_number(struct urxe_json *j, const char *key, uint64_t n)
{
	member(j, key);
	fprintf(j->out, "%" PRIu64, n);
}

void urxe_json_bool(struct urxe_json *j, const char *key, bool b)
{
	member(j, key);
	fputs(b ? "true" : "false", j->out);
}
