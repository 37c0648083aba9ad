/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The writer of JSON: nesting, commas, and strings of any bytes, as json-c reads them. */
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "harness.h"
#include "urxe/json.h"

static char *text;
static size_t len;

static struct urxe_json start(void)
{
	struct urxe_json j = {.out = open_memstream(&text, &len)};

	CU_ASSERT_PTR_NOT_NULL_FATAL(j.out);
	return j;
}

/* What was written is this, and nothing is open. */
static void is(struct urxe_json *j, const char *expected)
{
	CU_ASSERT_EQUAL(j->depth, 0);
	CU_ASSERT_EQUAL(fclose(j->out), 0);
	CU_ASSERT_STRING_EQUAL(text, expected);
	free(text);
}

static void nesting(void)
{
	struct urxe_json j = start();

	urxe_json_object(&j, NULL);
	urxe_json_object(&j, "empty");
	urxe_json_end(&j);
	urxe_json_array(&j, "list");
	urxe_json_number(&j, NULL, 0);
	urxe_json_number(&j, NULL, UINT64_MAX);
	urxe_json_object(&j, NULL);
	urxe_json_bool(&j, "yes", true);
	urxe_json_bool(&j, "no", false);
	urxe_json_end(&j);
	urxe_json_array(&j, NULL);
	urxe_json_end(&j);
	urxe_json_end(&j);
	urxe_json_string(&j, "none", NULL);
	urxe_json_string(&j, "s", "x");
	urxe_json_end(&j);
	is(&j, "{\"empty\":{},\"list\":[0,18446744073709551615,{\"yes\":true,\"no\":false},[]],"
	       "\"none\":null,\"s\":\"x\"}");
}

static void deepest(void)
{
	struct urxe_json j = start();

	for (unsigned i = 0; i < URXE_JSON_DEPTH; i++)
		urxe_json_array(&j, NULL);
	for (unsigned i = 0; i < URXE_JSON_DEPTH; i++)
		urxe_json_end(&j);
	is(&j, "[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]");
}

static void escapes(void)
{
	struct urxe_json j = start();

	urxe_json_string(&j, NULL, "a\"b\\c/\n\t\x01\x1b\x7f");
	is(&j, "\"a\\\"b\\\\c/\\u000a\\u0009\\u0001\\u001b\\u007f\"");
}

#define BAD "\xef\xbf\xbd"

static void utf8(void)
{
	static const struct {
		const char *in, *out;
	} c[] = {
		{"\xc3\xa9", "\xc3\xa9"},
		{"\xe2\x82\xac", "\xe2\x82\xac"},
		{"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80"},
		{"\xff", BAD},
		{"\x80x", BAD "x"},
		{"\xc3", BAD},
		{"\xc3(", BAD "("},
		{"\xc0\xaf", BAD BAD},
		{"\xe0\x80\x80", BAD BAD BAD},
		{"\xed\xa0\x80", BAD BAD BAD},
		{"\xf0\x80\x80\x80", BAD BAD BAD BAD},
		{"\xf4\x90\x80\x80", BAD BAD BAD BAD},
		{"\xf8\x88\x80\x80\x80", BAD BAD BAD BAD BAD},
	};

	for (unsigned i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		struct urxe_json j = start();
		char want[64];

		urxe_json_string(&j, NULL, c[i].in);
		snprintf(want, sizeof(want), "\"%s\"", c[i].out);
		is(&j, want);
	}
}

/* Whatever the bytes are, another reader of JSON finds one string. */
static void all_bytes(void)
{
	for (unsigned a = 1; a < 256; a++) {
		for (unsigned b = 0; b < 256; b += 5) {
			char in[] = {(char)a, (char)b, 'z', '\0'};
			struct urxe_json j = start();
			struct json_tokener *t = json_tokener_new();
			struct json_object *o;

			urxe_json_string(&j, NULL, in);
			fclose(j.out);
			/* Not JSON_TOKENER_STRICT, which rejects UTF-8 in json-c 0.18. */
			json_tokener_set_flags(t, JSON_TOKENER_VALIDATE_UTF8);
			o = json_tokener_parse_ex(t, text, (int)len + 1);
			CU_ASSERT_EQUAL(json_tokener_get_error(t), json_tokener_success);
			CU_ASSERT(json_object_is_type(o, json_type_string));
			for (size_t i = 0; i < len; i++)
				CU_ASSERT((unsigned char)text[i] >= 0x20);
			json_object_put(o);
			json_tokener_free(t);
			free(text);
		}
	}
}

URXE_TEST_MAIN("json", T(nesting), T(deepest), T(escapes), T(utf8), T(all_bytes))
