/* SPDX-License-Identifier: MIT */
/* Recipes as mxfp-recipe(5) has them, and what is said of those that are none. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "mxfp/options.h"
#include "quantize/recipe.h"
#include "unit/scratch.h"
#include "suite.h"

static const char *write_recipe(const char *text)
{
	const char *path = scratch_path("r.json");
	FILE *file = fopen(path, "w");

	ck_assert(file != NULL && fputs(text, file) >= 0);
	ck_assert_int_eq(fclose(file), 0);
	return path;
}

static void check_choice(const struct recipe *recipe, const char *tensor, const char *expected)
{
	struct quantize_choice choice = {
		.format = MXFP_FORMAT_MXFP4, .rule = MXFP_RULE_EVEN, .recipe = MXFP_RECIPE_COMPRESSED_TENSORS};
	const struct recipe_rule *rule = recipe_find(recipe, tensor);
	char text[QUANTIZE_TEXT] = "keep";

	recipe_apply(&recipe->by_default, &choice);
	if (rule != NULL)
		recipe_apply(&rule->change, &choice);
	if (rule == NULL || !rule->keep)
		quantize_text(&choice, text);
	ck_assert_msg(strcmp(text, expected) == 0, "%s: %s, not %s", tensor, text, expected);
	suite_compared(1);
}

TEST(the_first_rule_that_matches_counts)
{
	static const char text[] =
		"{\"version\": 1, \"activations\": \"none\", \"include\": [\"embed.weight\"],"
		" \"default\": {\"rule\": \"floor\", \"sparsity\": \"4:16\"},"
		" \"rules\": [{\"match\": \"*.o_proj.weight\", \"keep\": true, \"rule\": null}]}";
	static const char rules[] =
		"{\"version\": 1, \"default\": {\"rule\": \"floor\", \"sparsity\": \"4:16\"}, \"activations\": \"none\","
		" \"include\": \"embed.weight\", \"rules\": ["
		" {\"match\": \"*.o_proj.weight\", \"keep\": true},"
		" {\"match\": [\"re:layers\\\\.[01]\\\\.\", \"x.weight\"], \"format\": \"mxfp8-e4m3\"},"
		" {\"match\": \"*.v_proj.weight\", \"format\": \"nvfp4\", \"nvfp4_recipe\": \"ggml\","
		"  \"sparsity\": \"none\"},"
		" {\"match\": \"*\", \"rule\": \"mse\", \"keep\": false}]}";
	struct recipe recipe;
	struct error error = {""};

	ck_assert_int_eq(recipe_read(&recipe, write_recipe(text), &error), EXIT_INPUT);
	ck_assert_msg(strstr(error.text, "rules[0].rule: is not a string") != NULL, "%s", error.text);
	recipe_free(&recipe);
	ck_assert_msg(recipe_read(&recipe, write_recipe(rules), &error) == EXIT_OK, "%s", error.text);
	ck_assert_str_eq(recipe.activations, "none");
	ck_assert(patterns_match(&recipe.include, "embed.weight"));
	check_choice(&recipe, "layers.0.o_proj.weight", "keep");
	check_choice(&recipe, "layers.0.v_proj.weight", "mxfp8-e4m3 floor 4:16");
	check_choice(&recipe, "layers.10.v_proj.weight", "nvfp4 ggml");
	check_choice(&recipe, "x.weight", "mxfp8-e4m3 floor 4:16");
	check_choice(&recipe, "xx.weight", "mxfp4 mse 4:16");
	recipe_free(&recipe);
}

TEST(what_is_not_said_stays)
{
	struct recipe recipe;
	struct error error = {""};

	ck_assert_int_eq(recipe_read(&recipe, write_recipe("{\"version\": 1}"), &error), EXIT_OK);
	ck_assert(recipe.activations == NULL);
	check_choice(&recipe, "any", "mxfp4 even");
	recipe_free(&recipe);
}

static const struct {
	const char *text, *says;
} refused[] = {
	{"", "r.json: JSON"},
	{"[]", "r.json: is not an object"},
	{"{}", "r.json: version: is not 1"},
	{"{\"version\": 2}", "r.json: version: is not 1"},
	{"{\"version\": 1, \"version\": 1}", "duplicate"},
	{"{\"version\": 1, \"rulse\": []}", "r.json: unknown key 'rulse': did you mean 'rules'?"},
	{"{\"version\": 1, \"layers\": []}", "keys are version, default, activations, fuse, include, rules"},
	{"{\"version\": 1, \"rules\": {}}", "r.json: rules: is not a list"},
	{"{\"version\": 1, \"default\": 3}", "r.json: default: is not an object"},
	{"{\"version\": 1, \"default\": {\"keep\": true}}", "r.json: default: unknown key 'keep'"},
	{"{\"version\": 1, \"default\": {\"format\": \"mxpf4\"}}", "r.json: default.format: unknown value 'mxpf4': did"},
	{"{\"version\": 1, \"default\": {\"format\": \"bf16\"}}", "r.json: default.format: 'bf16' is not a block format"},
	{"{\"version\": 1, \"default\": {\"rule\": 3}}", "r.json: default.rule: is not a string"},
	{"{\"version\": 1, \"default\": {\"sparsity\": \"3:7\"}}", "r.json: default.sparsity: unknown value '3:7'"},
	{"{\"version\": 1, \"activations\": null}", "r.json: activations: is not a string"},
	{"{\"version\": 1, \"rules\": [3]}", "r.json: rules[0]: is not an object"},
	{"{\"version\": 1, \"fuse\": 1}", "r.json: fuse: is neither"},
	{"{\"version\": 1, \"rules\": [{\"keep\": true}]}", "r.json: rules[0].match: is missing"},
	{"{\"version\": 1, \"rules\": [{\"match\": []}]}", "r.json: rules[0].match: is empty"},
	{"{\"version\": 1, \"rules\": [{\"match\": [\"a\", 1]}]}", "r.json: rules[0].match: is neither a string nor a list"},
	{"{\"version\": 1, \"rules\": [{\"match\": \"a\"}]}", "r.json: rules[0]: says nothing"},
	{"{\"version\": 1, \"rules\": [{\"match\": \"a\", \"keep\": 1}]}", "r.json: rules[0].keep: is neither"},
	{"{\"version\": 1, \"rules\": [{\"match\": \"a\", \"keep\": true, \"rule\": \"mse\"}]}", "what is kept has no"},
	{"{\"version\": 1, \"rules\": [{\"match\": \"re:(\", \"keep\": true}]}", "rules[0].match 're:(': not a regular"},
	{"{\"version\": 1, \"rules\": [{\"match\": \"a\", \"rule\": \"rciel\"}]}", "unknown value 'rciel': did"},
	{"{\"version\": 1, \"default\": {\"format\": \"nvfp4\", \"rule\": \"mse\"}}", "default.rule: nvfp4 has recipes"},
	{"{\"version\": 1, \"default\": {\"format\": \"mxfp4\", \"nvfp4_recipe\": \"te\"}}", "mxfp4 has rules"},
};

TEST_LOOP(what_is_no_recipe_is_refused, sizeof refused / sizeof refused[0])
{
	struct recipe recipe;
	struct error error = {""};

	ck_assert_int_eq(recipe_read(&recipe, write_recipe(refused[_i].text), &error), EXIT_INPUT);
	ck_assert_msg(strstr(error.text, refused[_i].says) != NULL, "'%s' is not in '%s'", refused[_i].says, error.text);
	recipe_free(&recipe);
	suite_compared(1);
}
