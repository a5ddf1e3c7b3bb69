/* SPDX-License-Identifier: MIT */
/*
 * The reader of `mxfp quantize` recipes.
 *
 * Properties: any bytes are accepted, or refused with EXIT_INPUT and a message; in an accepted recipe, every rule has a
 * pattern and either keeps tensors or sets something, and the rules can be applied to any choice.
 *
 * Input: a recipe. The corpus was written by hand.
 */
#include "config.h"

#include "fuzz.h"
#include "input_file.h"
#include "quantize/recipe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct recipe recipe;
	struct error error = {""};
	struct quantize_choice choice = {.format = MXFP_FORMAT_MXFP4};
	char text[QUANTIZE_TEXT];
	int code = recipe_read(&recipe, input_file(data, size, ".json"), &error);

	fuzz_check(code == EXIT_OK || code == EXIT_INPUT, "a recipe is read or refused");
	fuzz_check((code == EXIT_OK) == (error.text[0] == '\0'), "a refusal has a text");
	for (size_t i = 0; i < recipe.n_rules && code == EXIT_OK; i++) {
		const struct recipe_rule *rule = &recipe.rules[i];
		const struct recipe_change *change = &rule->change;
		bool changes = change->has_format || change->has_rule || change->has_recipe || change->has_sparsity;

		fuzz_check(rule->match.n > 0, "a rule has a pattern");
		fuzz_check(rule->keep != changes, "a rule keeps or changes");
		recipe_apply(change, &choice);
		fuzz_check(quantize_text(&choice, text) == text && strstr(text, "(null)") == NULL, "a choice has names");
	}
	if (code == EXIT_OK)
		recipe_find(&recipe, "model.layers.0.self_attn.q_proj.weight");
	recipe_free(&recipe);
	return 0;
}
