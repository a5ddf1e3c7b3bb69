/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "quantize/choice.h"

#include <stdio.h>
#include <string.h>

#include "base/nearest.h"
#include "base/sparsity.h"
#include "model/choices.h"
#include "quantize/quantize.h"

struct layout_choice quantize_layout(const struct layout *layout, const struct quantize_choice *choice)
{
	return (struct layout_choice){
		.layout = layout,
		.form = layout_form(layout, choice->format, choice->sparsity.m != 0),
		.sparsity = choice->sparsity,
		.unscaled = layout_recipe_unscaled((enum mxfp_recipe)choice->recipe),
	};
}

int quantize_block(bool *squares, const char *text, const char *where, struct error *error)
{
	const char *const names[] = {"1x32", LAYOUT_SQUARES};
	const size_t n = sizeof names / sizeof names[0];

	for (size_t i = 0; i < n; i++)
		if (strcmp(text, names[i]) == 0) {
			*squares = i != 0;
			return EXIT_OK;
		}
	return nearest_fail(where, text, "blocks", names, n, error);
}

bool quantize_in_squares(const struct quantize_choice *choice)
{
	return choice->squares && !mxfp_format_get_info(choice->format)->tensor_scale;
}

size_t quantize_band(const struct quantize_choice *choice)
{
	return quantize_in_squares(choice) ? QUANTIZE_SQUARE : 0;
}

bool quantize_same(const struct quantize_choice *a, const struct quantize_choice *b)
{
	bool has_recipe = mxfp_format_get_info(a->format)->tensor_scale;

	return a->format == b->format && a->sparsity.n == b->sparsity.n && a->sparsity.m == b->sparsity.m &&
	       quantize_in_squares(a) == quantize_in_squares(b) &&
	       (has_recipe ? a->recipe == b->recipe : a->rule == b->rule);
}

const char *quantize_how(const struct quantize_choice *choice)
{
	return mxfp_format_get_info(choice->format)->tensor_scale ? choice_name(OPTION_RECIPE, choice->recipe)
	                                                      : choice_name(OPTION_RULE, choice->rule);
}

const char *quantize_text(const struct quantize_choice *choice, char text[QUANTIZE_TEXT])
{
	char pattern[SPARSITY_TEXT] = "";

	if (choice->sparsity.m != 0)
		sparsity_text(choice->sparsity, pattern);
	snprintf(text, QUANTIZE_TEXT, "%s %s%s%s%s", mxfp_format_get_info(choice->format)->name, quantize_how(choice),
	         pattern[0] != '\0' ? " " : "", pattern, quantize_in_squares(choice) ? " " LAYOUT_SQUARES : "");
	return text;
}

bool quantize_is_held(const struct quantize_plan *plan, struct quantize_entry *entry)
{
	const struct layout_choice layout = quantize_layout(plan->settings->layout, &entry->choice);
	unsigned block = mxfp_format_get_info(entry->choice.format)->block_length;
	const enum mxfp_format activations = plan->settings->activations;
	const char *refusal = layout_refuses(&layout, entry->source);

	if (refusal != NULL) {
		entry->reason = refusal;
		return false;
	}
	if (entry->choice.sparsity.m != 0 && entry->cols > PIECE_ELEMENTS) {
		entry->reason = "rows are too long for --sparsity";
		return false;
	}
	/* Matrices of one tensor lie below each other, and a square belongs to one of them. */
	if (quantize_in_squares(&entry->choice) && entry->source->rank > 2 &&
	    entry->source->shape[entry->source->rank - 2] % QUANTIZE_SQUARE != 0) {
		entry->reason = "several matrices whose rows are not a multiple of 32; --block 1x32 takes it";
		return false;
	}
	/* Loaders cut what goes into a layer into blocks too, and fail where they are not whole. */
	if (entry->cols % block == 0 && activations != OPTION_FORMAT_NONE && (layout.form->activations >> activations & 1) != 0 &&
	    entry->cols % mxfp_format_get_info(activations)->block_length != 0) {
		entry->reason = "row length is not a multiple of 32, as its activations need; --activations none takes it";
		return false;
	}
	if (entry->cols % block == 0) {
		entry->padded = entry->cols % layout_unit(&layout) != 0; /* with whole blocks, which every layout may do */
		return true;
	}
	if (entry->choice.sparsity.m != 0) {
		entry->reason = "row length is not a multiple of the block, which --sparsity needs";
		return false;
	}
	entry->padded = plan->settings->pad_tail;
	if (!entry->padded)
		entry->reason = block == 16 ? "row length is not a multiple of 16; --pad-tail takes it"
		                            : "row length is not a multiple of 32; --pad-tail takes it";
	return entry->padded;
}
