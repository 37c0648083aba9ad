/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Where settings come from: INI documents (by inih) and the environment.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ini.h>

#include "netio/config_keys.h"

#define FILE_MAX (1u << 20)
#define BLANKS	 " \t\r\v\f"

/* The names of all keys, for who got one wrong. */
static const char *key_list(char *buf, size_t len)
{
	const char *const *names = urxe_config_key_names();
	size_t n = 0;

	buf[0] = '\0';
	for (; *names && n < len; names++)
		n += (size_t)snprintf(buf + n, len - n, "%s%s", n ? " " : "", *names);
	return buf;
}

int urxe_config_add(struct urxe_config_settings *s, enum urxe_config_layer layer,
		    const char *device, const char *key, const char *value, const char *where,
		    char *err, size_t errlen)
{
	const struct urxe_config_key *k = urxe_config_key_find(key);
	struct urxe_config_setting *n;
	char names[256];
	size_t len;

	/* As a file would have it. */
	value += strspn(value, BLANKS);
	len = strlen(value);
	while (len && strchr(BLANKS, value[len - 1]))
		len--;
	if (!k)
		return urxe_config_fail(err, errlen, "%s: found key '%s', accepted: %s", where, key,
					key_list(names, sizeof(names)));
	if (k->global && device[0] && strcmp(device, "urxe"))
		return urxe_config_fail(err, errlen,
					"%s: found key '%s' in [%s], accepted: in [urxe]", where,
					key, device);
	if (!k->global && !strcmp(device, "urxe"))
		return urxe_config_fail(err, errlen,
					"%s: found key '%s' in [urxe], accepted: in the section "
					"of a device, as [urxe0]",
					where, key);
	if (len >= sizeof(n->value))
		return urxe_config_fail(err, errlen, "%s: %s: found %zu bytes, accepted: %s", where,
					key, len, k->accepts);
	n = realloc(s->list, (s->num + 1) * sizeof(*n));
	if (!n)
		return ENOMEM;
	s->list = n;
	n += s->num++;
	memset(n, 0, sizeof(*n));
	n->layer = layer;
	snprintf(n->device, sizeof(n->device), "%s", k->global ? "urxe" : device);
	snprintf(n->key, sizeof(n->key), "%s", key);
	memcpy(n->value, value, len);
	snprintf(n->where, sizeof(n->where), "%s", where);
	return 0;
}

void urxe_config_settings_free(struct urxe_config_settings *s)
{
	free(s->list);
	memset(s, 0, sizeof(*s));
}

/* ---- INI ---- */

/*
 * A document on its way through inih. The reader is ours: inih names no line with a value, passes
 * over sections without keys, and takes lines of 200 bytes at most. It has variables that change
 * this (Debian's patch), but they are the application's too, and so stay as they are.
 */
struct document {
	struct urxe_config_settings *s;
	const char *name; /* for errors */
	const char *text; /* what is not read yet */
	unsigned line;
	const char *rest; /* of this line; at the end its last piece */
	size_t left;
	enum {
		LINE,
		PIECE, /* more of the line before */
		TITLE  /* a key that stands for a section that has begun */
	} kind;
	unsigned first;	 /* of the settings that are this document's */
	unsigned reads;	 /* what inih calls lines */
	unsigned failed; /* the read with which @ret came */
	int ret;
	int size; /* of inih's buffer */
	char *err;
	size_t errlen;
};

#define READ_MAX 1024

static int quote_len(const struct document *d)
{
	size_t len = strcspn(d->rest, "\r\n");

	return len < 40 ? (int)len : 40;
}

static void next_line(struct document *d)
{
	size_t len = strcspn(d->text, "\n"), blanks = 0;

	/* An indented line is no continuation of the one before. */
	while (blanks < len && isspace((unsigned char)d->text[blanks]))
		blanks++;
	d->rest = d->text + blanks;
	d->left = len - blanks;
	d->text += len + (d->text[len] == '\n');
	d->line++;
}

/* In pieces a comment would not end with the line, nor be known from one. */
static size_t without_comment(const char *line, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (line[i] == ';' && (!i || isspace((unsigned char)line[i - 1])))
			len = i;
	}
	while (len && isspace((unsigned char)line[len - 1]))
		len--;
	return line[0] == '#' ? 0 : len;
}

/*
 * inih's fgets(). A line too long for its buffer comes as one and indented ones, which continue it;
 * where it is cut stand bars, lest inih strips blanks there or takes a piece for a comment.
 */
static char *read_piece(char *buf, int size, void *arg)
{
	struct document *d = arg;
	/* Two bars, a blank, the end; and a full buffer would be the beginning of a line. */
	size_t room = (size_t)(size < READ_MAX ? size : READ_MAX) - 5, n;

	d->size = size;
	d->reads++;
	if (d->ret)
		return NULL;
	if (d->kind == LINE && !d->left && *d->rest == '[') {
		d->kind = TITLE;
		return strcpy(buf, "=");
	}
	d->kind = d->left ? PIECE : LINE;
	if (!d->left) {
		if (!*d->text)
			return NULL;
		next_line(d);
		if (d->left > room)
			d->left = without_comment(d->rest, d->left);
	}
	n = d->left < room ? d->left : room;
	d->left -= n;
	snprintf(buf, room + 5, "%s%.*s%s", d->kind == PIECE ? " |" : "", (int)n, d->rest,
		 d->left ? "|" : "");
	d->rest += d->left ? n : 0;
	return buf;
}

static int take_title(struct document *d, const char *section, const char *where)
{
	const char *end = d->rest + 1 + strlen(section);

	/* inih cuts off long names, and passes over what stands behind one. */
	if (!section[0] || strncmp(d->rest + 1, section, strlen(section)) != 0 || *end != ']' ||
	    !strchr("\n;", end[1 + strspn(end + 1, BLANKS)]))
		return urxe_config_fail(d->err, d->errlen, "%s: found '%.*s', accepted: [SECTION]",
					where, quote_len(d), d->rest);
	for (unsigned i = d->first; i < d->s->num; i++) {
		if (!strcmp(d->s->list[i].device, section))
			return urxe_config_fail(d->err, d->errlen,
						"%s: found section [%s] twice, accepted: once",
						where, section);
	}
	if (strcmp(section, "urxe") != 0 && !d->s->default_device[0])
		snprintf(d->s->default_device, sizeof(d->s->default_device), "%s", section);
	return 0;
}

/* The value goes on, from bar to bar. */
static int take_piece(struct document *d, const char *piece, const char *where)
{
	struct urxe_config_setting *last = &d->s->list[d->s->num - 1];
	size_t len = strlen(last->value);

	/* What began as no KEY = VALUE; no_syntax() will report that. */
	if (!len || last->value[len - 1] != '|' || *piece != '|')
		return 0;
	len--;
	piece += 1;
	if (!len)
		piece += strspn(piece, BLANKS);
	if (len + strlen(piece) >= sizeof(last->value))
		return urxe_config_fail(d->err, d->errlen,
					"%s: %s: found more than %zu bytes, accepted: %s", where,
					last->key, sizeof(last->value) - 1,
					urxe_config_key_find(last->key)->accepts);
	strcpy(last->value + len, piece);
	return 0;
}

/* inih's handler. */
static int take(void *arg, const char *section, const char *key, const char *value)
{
	struct document *d = arg;
	char where[300];

	if (d->ret)
		return 0;
	snprintf(where, sizeof(where), "%.200s:%u", d->name, d->line);
	if (d->kind == TITLE)
		d->ret = take_title(d, section, where);
	else if (!section[0])
		d->ret = urxe_config_fail(d->err, d->errlen,
					  "%s: found '%.40s' before any section, accepted: "
					  "[DEVICE] or [urxe] first",
					  where, key);
	else if (d->kind == LINE)
		d->ret = urxe_config_add(d->s, URXE_CONFIG_FILE, section, key, value, where, d->err,
					 d->errlen);
	else if (d->s->num > d->first)
		d->ret = take_piece(d, value, where);
	d->failed = d->reads;
	return !d->ret;
}

/* inih returns the number of the read that it took for no INI. */
static int no_syntax(const char *text, const struct document *in, unsigned nth)
{
	struct document d = {.text = text, .rest = ""};
	char buf[READ_MAX];

	while (d.reads < nth)
		read_piece(buf, in->size, &d);
	return urxe_config_fail(in->err, in->errlen, "%s:%u: found '%.*s', accepted: %s", in->name,
				d.line, quote_len(&d), d.rest,
				*d.rest == '[' ? "[SECTION]" : "KEY = VALUE");
}

int urxe_config_add_text(struct urxe_config_settings *s, const char *text, const char *name,
			 char *err, size_t errlen)
{
	struct document d = {
		.s = s, .name = name, .rest = "", .first = s->num, .err = err, .errlen = errlen};
	int nth;

	/* The mark that some editors put before UTF-8. */
	if (!strncmp(text, "\xef\xbb\xbf", 3))
		text += 3;
	d.text = text;
	nth = ini_parse_stream(read_piece, &d, take, &d);
	if (nth > 0 && (!d.ret || (unsigned)nth < d.failed))
		return no_syntax(text, &d, (unsigned)nth);
	return d.ret || nth >= 0 ? d.ret : ENOMEM;
}

int urxe_config_add_file(struct urxe_config_settings *s, const char *path, char *err, size_t errlen)
{
	char *text = NULL;
	size_t len = 0;
	FILE *f = fopen(path, "re");
	int ret;

	if (!f)
		return urxe_config_fail(err, errlen,
					"found configuration file '%s' (%s), accepted: a readable "
					"INI file",
					path, strerror(errno));
	text = calloc(1, FILE_MAX + 1);
	if (text)
		len = fread(text, 1, FILE_MAX, f);
	if (!text)
		ret = ENOMEM;
	else if (ferror(f) || len == FILE_MAX || memchr(text, 0, len))
		ret = urxe_config_fail(err, errlen,
				       "found configuration file '%s' (%s), accepted: a text of at "
				       "most 1 MiB",
				       path,
				       ferror(f)	 ? "unreadable"
				       : len == FILE_MAX ? "too long"
							 : "binary");
	else
		ret = urxe_config_add_text(s, text, path, err, errlen);
	fclose(f);
	free(text);
	return ret;
}

/* ---- variables ---- */

/* Ours, but no keys. Anything else that looks nearly like a key's variable is taken for a typo. */
static const char *const other_variables[] = {"CONFIG",	    "CONFIG_TEXT", "DEVICE", "PROVIDER",
					      "READY_FILE", "READY_FD",	   "BUILD",  "SHARED"};

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
	return a < b ? (a < c ? a : c) : (b < c ? b : c);
}

/* Levenshtein's distance; 99 for what is far too long. */
static unsigned distance(const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b);
	unsigned row[24] = {0}, diag, up;

	if (m >= 24 || n >= 24)
		return 99;
	for (unsigned j = 0; j <= m; j++)
		row[j] = j;
	for (unsigned i = 1; i <= n; i++) {
		diag = row[0];
		row[0] = i;
		for (unsigned j = 1; j <= m; j++) {
			up = row[j];
			row[j] = min3(row[j] + 1, row[j - 1] + 1, diag + (a[i - 1] != b[j - 1]));
			diag = up;
		}
	}
	return row[m];
}

/* Two neighbours changed places. */
static bool swapped(const char *a, const char *b)
{
	size_t i = 0;

	while (a[i] && a[i] == b[i])
		i++;
	return a[i] && a[i + 1] && a[i] == b[i + 1] && a[i + 1] == b[i] &&
	       !strcmp(a + i + 2, b + i + 2);
}

static const char *typo_of(const char *name)
{
	for (const char *const *k = urxe_config_key_names(); *k; k++) {
		/* of a short key one letter may be wrong, of a long one two */
		if (swapped(name, *k) || distance(name, *k) <= (strlen(*k) > 4 ? 2u : 1u))
			return *k;
	}
	return NULL;
}

static bool is_other(const char *name)
{
	for (unsigned i = 0; i < sizeof(other_variables) / sizeof(other_variables[0]); i++) {
		if (!strcmp(name, other_variables[i]))
			return true;
	}
	return false;
}

static int add_variable(struct urxe_config_settings *s, const char *var, char *err, size_t errlen)
{
	const char *eq = strchr(var, '='), *typo;
	char name[64] = "", key[64] = "", where[80];
	size_t len;

	if (!eq || strncmp(var, "URXE_", 5) || (len = (size_t)(eq - var) - 5) >= sizeof(name))
		return 0;
	snprintf(name, sizeof(name), "%.*s", (int)len, var + 5);
	for (size_t i = 0; i <= len; i++)
		key[i] = name[i] == '_' ? '-' : (char)tolower((unsigned char)name[i]);
	snprintf(where, sizeof(where), "URXE_%s", name);
	if (is_other(name))
		return 0;
	for (size_t i = 0; i < len; i++) {
		if (islower((unsigned char)name[i]))
			return 0;
	}
	if (urxe_config_is_key(key, NULL))
		return eq[1] ? urxe_config_add(s, URXE_CONFIG_VARIABLE, "", key, eq + 1, where, err,
					       errlen)
			     : 0;
	typo = typo_of(key);
	if (!typo)
		return 0;
	for (size_t i = 0; i <= strlen(typo); i++)
		key[i] = typo[i] == '-' ? '_' : (char)toupper((unsigned char)typo[i]);
	return urxe_config_fail(err, errlen, "found variable '%s', accepted: URXE_%s", where, key);
}

int urxe_config_add_env(struct urxe_config_settings *s, char *const *env, char *err, size_t errlen)
{
	int ret = 0;

	for (; env && *env && !ret; env++) {
		ret = add_variable(s, *env, err, errlen);
		if (!strncmp(*env, "URXE_DEVICE=", 12) && (*env)[12]) {
			snprintf(s->default_device, sizeof(s->default_device), "%s", *env + 12);
			s->forced_device = true;
		}
	}
	return ret;
}
