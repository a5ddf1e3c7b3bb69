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

/* What Python 3.11 prints: integers of any size, and real numbers past binary64, which it reads as Inf; here they stay what
   they are in the file. */
TEST(numbers_past_64_bits_are_carried)
{
	check_written("{\"model_max_length\": 1000000000000000019884624838656}",
	              "{\n  \"model_max_length\": 1000000000000000019884624838656\n}\n");
	check_written("[9223372036854775807,9223372036854775808,-9223372036854775808,-9223372036854775809 ]",
	              "[\n  9223372036854775807,\n  9223372036854775808,\n  -9223372036854775808,\n  -9223372036854775809\n]\n");
	check_written("[1e400, -1E+400,\n1e309]", "[\n  1e400,\n  -1E+400,\n  1e309\n]\n");
	check_written("[1e-400, -0, 1.5, 12]", "[\n  0.0,\n  0,\n  1.5,\n  12\n]\n");
	check_written("[\"18446744073709551616\", \"1e400\"]", "[\n  \"18446744073709551616\",\n  \"1e400\"\n]\n");
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
	check_refused("[1e400, 18446744073709551616, x]", "JSON, byte 31: ");
	check_refused("{\n \"a\": 1,\r\n\n \"b\": NaN,\n \"c\": x}", "JSON, line 5, byte ");
	check_refused("[018446744073709551616]", "JSON, byte 2: ");
	check_refused("[18446744073709551616.]", "JSON, byte ");
	check_refused("[1e999x]", "JSON, byte ");
	check_refused("[1e]", "JSON, byte ");
	check_refused("[--1e400]", "JSON, byte ");
	check_refused("[\"\xEF\xBB\xBF\", x]", "JSON, byte 9: invalid");
	check_refused("\xEF\xBB\xBF[]", "begins with a byte order mark");
	check_refused("[\"\\ud800\"]", "JSON, byte ");
	check_refused("[\"\\udc00\"]", "JSON, byte ");
	check_refused("{\"a\": 1,\n\"a\": 2}", "JSON, line 2, byte 12: duplicate object key");
	check_refused("[\"\xE9\"]", "JSON, byte ");
	check_refused("[\"\x01\"]", "JSON, byte ");
	/* Python reads integers of at most 4,300 digits. */
	static char digits[4304] = "[";
	memset(digits + 1, '7', 4301);
	digits[4302] = ']';
	check_refused(digits, "JSON, byte ");
	digits[4301] = ']';
	digits[4302] = '\0';
	ck_assert_int_eq(json_read_python(descriptor_open, scratch_text("in.json", digits), LIMIT, &json, &error), EXIT_OK);
	json_decref(json);
	/* No text of a file can pass for one of the numbers. */
	check_refused("[\"a\\u0000NaN\"]", "JSON, byte 3: a string holds NUL");
	check_refused("{\"\\u0000NaN\":1}", "JSON, byte 2: a string holds NUL");
	ck_assert_int_eq(json_read(descriptor_open, scratch_text("in.json", "[NaN]"), LIMIT, &json, &error), EXIT_INPUT);
	ck_assert_int_eq(json_read(descriptor_open, scratch_text("in.json", "[Infinity]"), LIMIT, &json, &error), EXIT_INPUT);
}
