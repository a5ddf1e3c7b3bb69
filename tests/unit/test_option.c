/* SPDX-License-Identifier: MIT */
/* Option values and status codes: pinned numbers and names, typed by hand. */
#include "mxfp/options.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "mxfp/status.h"
#include "suite.h"

/* Values are dense from 0, so the index is the value. NULL ends a list. */
static const char *const names[][19] = {
	[MXFP_OPTION_ROUND] = {"rne", "rna", "rhz", "rtz", "rtp", "rtn", "sr"},
	[MXFP_OPTION_OVERFLOW] = {"sat", "ovf"},
	[MXFP_OPTION_RULE] = {"mse", "floor", "ceil", "even", "even-m1", "rceil", "fit", "trn3", "rne", "log-nearest"},
	[MXFP_OPTION_RECIPE] = {"te", "torchao", "torchao-1", "compressed-tensors", "modelopt", "modelopt-0.45",
	                        "ggml", "4over6", "modelopt-4over6"},
	[MXFP_OPTION_NON_FINITE] = {"propagate", "error", "saturate"},
	[MXFP_OPTION_ACC] = {"exact", "chain", "volta", "turing", "ampere", "ada", "hopper", "hopper-mma", "blackwell", "cdna2", "cdna3", "fmmla",
	                      "vdpbf16ps", "tdpbf16ps", "ace"},
	[MXFP_OPTION_FUNCTION] = {"identity", "relu", "leaky-relu", "exp", "exp2", "log", "tanh", "sigmoid", "silu",
	                          "softplus", "elu", "selu", "gelu", "gelu-tanh", "rsqrt", "reciprocal", "sin", "cos"},
};

enum { N_OPTIONS = sizeof names / sizeof names[0] };

TEST_LOOP(values_have_their_names, N_OPTIONS)
{
	enum mxfp_option option = (enum mxfp_option)_i;
	int n = 0, found;

	for (; names[_i][n] != NULL; n++) {
		ck_assert_str_eq(mxfp_option_name(option, n), names[_i][n]);
		ck_assert_ptr_nonnull(mxfp_option_meaning(option, n));
		found = -5;
		ck_assert_int_eq((int)mxfp_option_from_name(&found, option, names[_i][n]), (int)MXFP_OK);
		ck_assert_int_eq(found, n);
	}
	ck_assert_ptr_null(mxfp_option_name(option, n));
	ck_assert_ptr_null(mxfp_option_meaning(option, n));
	ck_assert_ptr_null(mxfp_option_name(option, -1));
	ck_assert_ptr_null(mxfp_option_name(option, 1000000));
	suite_compared((uint64_t)n);
}

/* libmxfp(3): a constant is spelled as its name, in capitals. */
TEST(constants_are_spelled_as_their_names)
{
#define ROW(id, value, name, meaning) {#id, name},
#define MXFP_ROUND ROW
#define MXFP_OVERFLOW ROW
#define MXFP_RULE ROW
#define MXFP_RECIPE ROW
#define MXFP_NON_FINITE ROW
#define MXFP_ACC ROW
#define MXFP_FUNCTION ROW
#define MXFP_ELEMENT(id, value, name, ...) {#id, name},
#define MXFP_BLOCK MXFP_ELEMENT
	static const struct {
		const char *id, *name;
	} rows[] = {
#include "option.def"
#include "format.def"
	};

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		char spelled[32] = "";

		for (size_t n = 0; rows[i].name[n] != '\0'; n++)
			spelled[n] = strchr("-.", rows[i].name[n]) != NULL ? '_' : (char)toupper((unsigned char)rows[i].name[n]);
		ck_assert_str_eq(rows[i].id, spelled);
	}
	suite_compared(sizeof rows / sizeof rows[0]);
}

TEST(unknown_values_are_refused)
{
	int value = 42;

	ck_assert_int_eq((int)mxfp_option_from_name(&value, MXFP_OPTION_RULE, "floor "), (int)MXFP_ERR_OPTION);
	ck_assert_int_eq((int)mxfp_option_from_name(&value, MXFP_OPTION_RULE, "FLOOR"), (int)MXFP_ERR_OPTION);
	ck_assert_int_eq((int)mxfp_option_from_name(&value, MXFP_OPTION_RULE, ""), (int)MXFP_ERR_OPTION);
	ck_assert_int_eq((int)mxfp_option_from_name(&value, MXFP_OPTION_ROUND, "floor"), (int)MXFP_ERR_OPTION);
	ck_assert_int_eq((int)mxfp_option_from_name(&value, (enum mxfp_option)N_OPTIONS, "rne"), (int)MXFP_ERR_OPTION);
	ck_assert_int_eq(value, 42);
	ck_assert_ptr_null(mxfp_option_name((enum mxfp_option)N_OPTIONS, 0));
	ck_assert_ptr_null(mxfp_option_name((enum mxfp_option)-1, 0));
}

TEST(status_codes_are_pinned_and_have_texts)
{
	static const struct {
		enum mxfp_status status;
		int value;
	} pinned[] = {
		{MXFP_OK, 0},           {MXFP_ERR_NULL, -1},      {MXFP_ERR_VERSION, -2},  {MXFP_ERR_FORMAT, -3},
		{MXFP_ERR_OPTION, -4},  {MXFP_ERR_ISA, -5},       {MXFP_ERR_SHAPE, -6},    {MXFP_ERR_STRIDE, -7},
		{MXFP_ERR_SIZE, -8},    {MXFP_ERR_WORKSPACE, -9}, {MXFP_ERR_OVERLAP, -10}, {MXFP_ERR_NON_FINITE, -11},
		{MXFP_ERR_PACKED, -12}, {MXFP_ERR_MASK, -13},
	};

	for (size_t i = 0; i < sizeof pinned / sizeof pinned[0]; i++) {
		const char *text = mxfp_status_text(pinned[i].status);
		ck_assert_int_eq((int)pinned[i].status, pinned[i].value);
		ck_assert_str_ne(text, "unknown status");
		ck_assert_int_ne(text[strlen(text) - 1], '.');
		for (size_t j = 0; j < i; j++)
			ck_assert_str_ne(text, mxfp_status_text(pinned[j].status));
	}
	ck_assert_str_eq(mxfp_status_text((enum mxfp_status)1), "unknown status");
	ck_assert_str_eq(mxfp_status_text((enum mxfp_status)-14), "unknown status");
}
