/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Where settings come from: INI documents (rte_cfgfile, which needs no EAL) and the environment.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rte_cfgfile.h>

#include "netio/config_keys.h"

#define FILE_MAX (1u << 20)
#define BLANKS	 " \t\r"

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
 * Look over the syntax ourselves, so that errors name a line, and hand rte_cfgfile only what it
 * takes: it logs what it does not, knows one comment character, and has fixed line lengths.
 */
static int check_line(char *line, unsigned number, const char *name, char *err, size_t errlen)
{
	char *p = line + strspn(line, BLANKS), *value;
	size_t len = strcspn(p, "\r\n"), key, blanks;

	if (*p == '#' || *p == ';' || !len) {
		*line = '\0';
		return 0;
	}
	while (len && isspace((unsigned char)p[len - 1]))
		len--;
	p[len] = '\0';
	if (*p == '[') {
		if (len < 3 || p[len - 1] != ']' || len - 2 >= CFG_NAME_LEN)
			return urxe_config_fail(err, errlen,
						"%s:%u: found '%.40s', accepted: [SECTION]", name,
						number, p);
		memmove(line, p, len + 1);
		return 0;
	}
	key = strcspn(p, "=");
	if (!p[key] || !key)
		return urxe_config_fail(err, errlen, "%s:%u: found '%.40s', accepted: KEY = VALUE",
					name, number, p);
	value = p + key + 1;
	blanks = strspn(value, BLANKS);
	while (key && strchr(BLANKS, p[key - 1]))
		key--;
	if (key >= CFG_NAME_LEN || strlen(value + blanks) >= CFG_VALUE_LEN)
		return urxe_config_fail(err, errlen,
					"%s:%u: found a line of %zu bytes, accepted: a value of %u "
					"bytes at most",
					name, number, len, CFG_VALUE_LEN - 1);
	/* Without the blanks: they count in what rte_cfgfile takes. */
	memmove(line, p, key);
	line[key] = '=';
	memmove(line + key + 1, value + blanks, strlen(value + blanks) + 1);
	return 0;
}

static int normalise(const char *text, const char *name, int fd, char *err, size_t errlen)
{
	unsigned number = 0;
	bool section = false;
	char line[1024];
	size_t len;
	int ret;

	while (*text) {
		len = strcspn(text, "\n");
		number++;
		if (len >= sizeof(line))
			return urxe_config_fail(err, errlen,
						"%s:%u: found a line of %zu bytes, accepted: a "
						"value of %u bytes at most",
						name, number, len, CFG_VALUE_LEN - 1);
		memcpy(line, text, len);
		line[len] = '\0';
		text += len + (text[len] == '\n');
		ret = check_line(line, number, name, err, errlen);
		if (ret)
			return ret;
		if (!line[0])
			continue;
		section |= line[strspn(line, " \t")] == '[';
		if (!section)
			return urxe_config_fail(
				err, errlen,
				"%s:%u: found '%.40s' before any section, accepted: "
				"[DEVICE] or [urxe] first",
				name, number, line);
		if (dprintf(fd, "%s\n", line) < 0)
			return errno;
	}
	return 0;
}

static int add_section(struct urxe_config_settings *s, struct rte_cfgfile *file, int i,
		       const char *section, const char *name, char *err, size_t errlen)
{
	int n = rte_cfgfile_section_num_entries_by_index(file, (char[CFG_NAME_LEN]){0}, i);
	struct rte_cfgfile_entry *e = n > 0 ? calloc((size_t)n, sizeof(*e)) : NULL;
	char where[300], sec[CFG_NAME_LEN];
	int ret = 0;

	if (n > 0 && !e)
		return ENOMEM;
	if (n > 0)
		n = rte_cfgfile_section_entries_by_index(file, i, sec, e, n);
	for (int j = 0; j < n && !ret; j++) {
		snprintf(where, sizeof(where), "%.200s [%s]", name, section);
		ret = urxe_config_add(s, URXE_CONFIG_FILE, section, e[j].name, e[j].value, where,
				      err, errlen);
	}
	free(e);
	return ret;
}

static int add_sections(struct urxe_config_settings *s, struct rte_cfgfile *file, const char *name,
			char *err, size_t errlen)
{
	int num = rte_cfgfile_num_sections(file, NULL, 0), ret = 0;
	char(*buf)[CFG_NAME_LEN] = calloc((size_t)num + 1, CFG_NAME_LEN);
	char **sec = calloc((size_t)num + 1, sizeof(*sec));

	if (!buf || !sec) {
		free(buf);
		free(sec);
		return ENOMEM;
	}
	for (int i = 0; i < num; i++)
		sec[i] = buf[i];
	num = rte_cfgfile_sections(file, sec, num);
	for (int i = 0; i < num && !ret; i++) {
		for (int j = 0; j < i && !ret; j++) {
			if (!strcmp(sec[i], sec[j]))
				ret = urxe_config_fail(
					err, errlen, "%s: found section [%s] twice, accepted: once",
					name, sec[i]);
		}
		if (!ret)
			ret = add_section(s, file, i, sec[i], name, err, errlen);
		if (!ret && strcmp(sec[i], "urxe") && !s->default_device[0])
			snprintf(s->default_device, sizeof(s->default_device), "%s", sec[i]);
	}
	free(buf);
	free(sec);
	return ret;
}

int urxe_config_add_text(struct urxe_config_settings *s, const char *text, const char *name,
			 char *err, size_t errlen)
{
	struct rte_cfgfile_parameters params = {.comment_character = CFG_DEFAULT_COMMENT_CHARACTER};
	int fd = memfd_create("urxe-config", MFD_CLOEXEC), ret;
	struct rte_cfgfile *file = NULL;
	char path[64];

	if (fd < 0)
		return errno;
	ret = normalise(text, name, fd, err, errlen);
	if (!ret && lseek(fd, 0, SEEK_END) > 0) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		file = rte_cfgfile_load_with_params(path, CFG_FLAG_EMPTY_VALUES, &params);
		if (!file)
			ret = urxe_config_fail(err, errlen, "%s: not an INI document", name);
	}
	if (file) {
		ret = add_sections(s, file, name, err, errlen);
		rte_cfgfile_close(file);
	}
	close(fd);
	return ret;
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
		key[i] = (char)tolower((unsigned char)name[i]);
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
		key[i] = (char)toupper((unsigned char)typo[i]);
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
