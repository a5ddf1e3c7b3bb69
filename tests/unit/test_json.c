/* SPDX-License-Identifier: MIT */
/* The numbers that Python's json writes and JSON lacks: where they are read, where not, and that they are written. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "io/facts.h"
#include "io/json.h"
#include "unit/scratch.h"
#include "suite.h"

enum { LIMIT = 1 << 16 };

static struct error error;

/* The text is read, and written as `written`, which is what Python's json.dumps(json.loads(TEXT), indent=2) prints. */
static void check_written(const char *text, const char *written)
{
	json_t *json;
	size_t n;

	ck_assert_msg(json_read_python(descriptor_open, scratch_text("in.json", text), LIMIT, &json, &error) == EXIT_OK,
	              "%s: %s", text, error.text);
	ck_assert_int_eq(facts_write_file(scratch_path("out.json"), json, &error), EXIT_OK);
	char *bytes = scratch_read(scratch_path("out.json"), &n);
	ck_assert_str_eq(bytes, written);
	free(bytes);
	remove(scratch_path("out.json"));
	json_decref(json);
	suite_compared(1);
}

TEST(constants_of_python_are_carried)
{
	check_written("{\"time_step_limit\": [0.0, Infinity], \"a\":-Infinity,\"b\" : NaN }",
	              "{\n  \"time_step_limit\": [\n    0.0,\n    Infinity\n  ],\n  \"a\": -Infinity,\n  \"b\": NaN\n}\n");
	check_written("[\n-Infinity\n]\n", "[\n  -Infinity\n]\n");
	check_written("[NaN,NaN\t,\nInfinity]", "[\n  NaN,\n  NaN,\n  Infinity\n]\n");
	/* Texts of these letters stay texts. */
	check_written("[\"NaN\",\"-Infinity\",\"\\\", NaN, \\\"\",\"\\\\\"]",
	              "[\n  \"NaN\",\n  \"-Infinity\",\n  \"\\\", NaN, \\\"\",\n  \"\\\\\"\n]\n");
	check_written("{\"\\\"\\\\u0000NaN\":\"\\\"\\\\u0000NaN\\\"\"}",
	              "{\n  \"\\\"\\\\u0000NaN\": \"\\\"\\\\u0000NaN\\\"\"\n}\n");
}

/* Refused at that byte with this in the text. */
static void check_refused(const char *text, const char *why)
{
	json_t *json;

	ck_assert_msg(json_read_python(descriptor_open, scratch_text("in.json", text), LIMIT, &json, &error) == EXIT_INPUT,
	              "%s", text);
	ck_assert_msg(strstr(error.text, why) != NULL, "%s: %s", text, error.text);
	ck_assert_ptr_null(json);
	suite_compared(1);
}

TEST(nothing_else_is_read)
{
	json_t *json;

	check_refused("[-NaN]", "JSON, byte 2");
	check_refused("[+Infinity]", "JSON, byte ");
	check_refused("[nan]", "JSON, byte 4");
	check_refused("[NaNs]", "JSON, byte 5");
	check_refused("[1NaN]", "JSON, byte ");
	check_refused("[NaN NaN]", "JSON, byte ");
	check_refused("{NaN:1}", "JSON, byte ");
	check_refused("{\"a\":1, NaN:1}", "JSON, byte ");
	check_refused("{\"a\":1,NaN}", "JSON, byte ");
	check_refused("[NaN", "JSON, byte 4");
	check_refused("[\"NaN", "JSON, byte ");
	check_refused("[\"\\", "JSON, byte ");
	/* Bytes are counted as they stand in the file. */
	check_refused("[NaN, Infinity, x]", "JSON, byte 17: ");
	/* No text of a file can pass for one of the numbers. */
	check_refused("[\"a\\u0000NaN\"]", "JSON, byte 3: a string holds NUL");
	check_refused("{\"\\u0000NaN\":1}", "JSON, byte 2: a string holds NUL");
	ck_assert_int_eq(json_read(descriptor_open, scratch_text("in.json", "[NaN]"), LIMIT, &json, &error), EXIT_INPUT);
	ck_assert_int_eq(json_read(descriptor_open, scratch_text("in.json", "[Infinity]"), LIMIT, &json, &error), EXIT_INPUT);
}
