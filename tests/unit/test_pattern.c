/* SPDX-License-Identifier: MIT */
/* Patterns on names. What regular expressions match was asked of Python 3.11's re.match(). */
#include "config.h"

#include <string.h>

#include "model/pattern.h"
#include "unit/scratch.h"
#include "suite.h"

static const struct {
	const char *pattern, *name;
	bool matches;
} cases[] = {
	{"model.norm.weight", "model.norm.weight", true},
	{"model.norm.weight", "model.norm.weights", false},
	{"*.q_proj.weight", "model.layers.0.self_attn.q_proj.weight", true},
	{"*.q_proj", "model.layers.0.self_attn.q_proj.weight", false},
	{"layers.?.w", "layers.7.w", true},
	{"layers.[0-3].w", "layers.4.w", false},
	{"a\\*b", "a*b", true},
	{"a\\*b", "axb", false},
	{"re:", "anything", true},
	{"re:model", "model.norm.weight", true},
	{"re:norm", "model.norm.weight", false},
	{"re:.*norm", "model.norm.weight", true},
	{"re:.*norm$", "model.norm.weight", false},
	{"re:model\\.layers\\.(?:0|1)\\.", "model.layers.1.mlp.up_proj.weight", true},
	{"re:model\\.layers\\.(?:0|1)\\.", "model.layers.11.mlp.up_proj.weight", false},
	{"re:.*\\.(?P<n>\\d+)\\.(?P=n)\\.", "x.3.3.w", true},
	{"re:.*\\.(?P<n>\\d+)\\.(?P=n)\\.", "x.3.4.w", false},
	{"re:^(?!.*lm_head).*weight$", "lm_head.weight", false},
	{"re:^(?!.*lm_head).*weight$", "a.weight", true},
	{"re:(?i)MODEL", "model.a", true},
	{"re:\\w+\\.w", "\xc3\xa4\xc3\xb6.w", true},
	{"re:..\\.w", "\xc3\xa4\xc3\xb6.w", true},
	{"re:a|b", "b.weight", true},
	{"re:[*?]", "*", true},
};

TEST_LOOP(matches_as_documented, sizeof cases / sizeof cases[0])
{
	struct patterns patterns;
	struct error error;

	ck_assert_int_eq(patterns_compile(&patterns, &cases[_i].pattern, 1, "--include", &error), EXIT_OK);
	ck_assert_msg(patterns_match(&patterns, cases[_i].name) == cases[_i].matches, "%s on %s", cases[_i].pattern,
	              cases[_i].name);
	suite_compared(1);
	patterns_free(&patterns);
}

TEST(any_of_several_matches)
{
	static const char *const texts[] = {"z", "re:c\\d", "b*", "a", "m"};
	static const char *const yes[] = {"a", "m", "z", "bxx", "c1", "c12"}, *const no[] = {"aa", "c", "y", ""};
	struct patterns patterns;
	struct error error;

	ck_assert_int_eq(patterns_compile(&patterns, texts, 5, "--include", &error), EXIT_OK);
	for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++)
		ck_assert_msg(patterns_match(&patterns, yes[i]), "%s", yes[i]);
	for (size_t i = 0; i < sizeof no / sizeof no[0]; i++)
		ck_assert_msg(!patterns_match(&patterns, no[i]), "%s", no[i]);
	suite_compared(10);
	patterns_free(&patterns);
}

static int compile_code(const char *text, struct error *error)
{
	struct patterns patterns;
	int code = patterns_compile(&patterns, &text, 1, "--ignore", error);

	patterns_free(&patterns);
	return code;
}

TEST(what_is_no_expression_is_refused)
{
	struct error error;
	char large[8192] = "re:";

	ck_assert_int_eq(compile_code("re:a(b", &error), EXIT_USAGE);
	ck_assert_msg(strstr(error.text, "--ignore 're:a(b': not a regular expression, at byte 3 after 're:'") == error.text,
	              "%s", error.text);
	ck_assert_int_eq(compile_code("re:\xff", &error), EXIT_USAGE);
	ck_assert_int_eq(compile_code("re:(((a{900}){900}){900}){900}", &error), EXIT_USAGE);
	memset(large + 3, 'a', sizeof large - 4);
	ck_assert_int_eq(compile_code(large, &error), EXIT_USAGE);
	memset(large + 3, '(', sizeof large - 4);
	ck_assert_int_eq(compile_code(large, &error), EXIT_USAGE);
	suite_compared(5);
}

/* The model has the tensors "layer.weight" and forty times "a". */
static int check_code(const char *text, struct error *error)
{
	static const char header[] = "{\"layer.weight\":{\"dtype\":\"F32\",\"shape\":[1,1],\"data_offsets\":[0,4]},"
	                             "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\":"
	                             "{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}";
	struct patterns patterns;
	struct model model;

	ck_assert_int_eq(model_open(&model, scratch_safetensors("m.safetensors", header, 8), error), EXIT_OK);
	int code = patterns_compile(&patterns, &text, 1, "--include", error);
	if (code == EXIT_OK)
		code = patterns_check(&patterns, "--include", &model, error);
	patterns_free(&patterns);
	model_close(&model);
	return code;
}

TEST(every_pattern_must_match_and_soon)
{
	struct error error;

	ck_assert_int_eq(check_code("re:layer", &error), EXIT_OK);
	ck_assert_int_eq(check_code("layer.weight", &error), EXIT_OK);
	ck_assert_int_eq(check_code("re:weight", &error), EXIT_USAGE);
	ck_assert_msg(strstr(error.text, "--include 're:weight' matches no tensor") != NULL, "%s", error.text);
	ck_assert_int_eq(check_code("layer.wieght", &error), EXIT_USAGE);
	ck_assert_msg(strstr(error.text, "did you mean 'layer.weight'?") != NULL, "%s", error.text);
	ck_assert_int_eq(check_code("re:(a+)+$|layer", &error), EXIT_OK);
	ck_assert_int_eq(check_code("re:(a+)+[bc]|layer", &error), EXIT_USAGE);
	ck_assert_msg(strstr(error.text, "tries too long to match 'aaaa") != NULL, "%s", error.text);
	suite_compared(9);
}
