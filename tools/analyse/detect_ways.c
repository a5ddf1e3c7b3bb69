/* SPDX-License-Identifier: MIT */
/* The ways of quantizing that are tried, and the tensor scales that they give. */
#include "config.h"

#include "base/library.h"
#include "analyse/detect.h"

#include <math.h>
#include <string.h>

#include <xxhash.h>

/* Threads take pieces, so each call has one. */
static struct mxfp_quantize_options options_of(const struct detect_way *way)
{
	return (struct mxfp_quantize_options){
		.size = sizeof(struct mxfp_quantize_options),
		.rule = way->rule,
		.recipe = way->recipe,
		.round = way->round,
		.no_negative_zero = way->no_negative_zero,
	};
}

struct mxfp_quantize_options detect_options(const struct detect_way *way, const struct detect_tensor *tensor,
                                            const struct piece *piece, const struct detect_settings *settings)
{
	struct mxfp_quantize_options options = options_of(way);

	options.block_rows = tensor->quantized.squares ? DETECT_SQUARE : 1;
	options.seed = settings->seed;
	options.stream = XXH3_64bits(tensor->name, strlen(tensor->name));
	options.first_index = piece->row * tensor->quantized.cols + piece->col;
	return options;
}

/* Adds a way if the library takes it: a recipe may have its own rounding. */
static void add(struct detect_ways *ways, const struct detect_way *way)
{
	const struct mxfp_quantize_options options = options_of(way);
	struct mxfp_blocks none = {.size = sizeof none, .format = ways->format};

	if (dense_quantize(&none, MXFP_FORMAT_F32, NULL, &options, ONE_THREAD) == MXFP_OK)
		ways->items[ways->n++] = *way;
}

/* The rules, or the recipes, with what else is chosen already. */
static void add_choices(struct detect_ways *ways, struct detect_way way)
{
	bool has_recipe = mxfp_format_get_info(ways->format)->tensor_scale;
	enum mxfp_option option = has_recipe ? MXFP_OPTION_RECIPE : MXFP_OPTION_RULE;

	for (int i = 0; mxfp_option_name(option, i) != NULL && ways->n < DETECT_WAYS_MAX; i++) {
		if (has_recipe)
			way.recipe = (enum mxfp_recipe)i;
		else
			way.rule = (enum mxfp_rule)i;
		add(ways, &way);
	}
}

static void add_roundings(struct detect_ways *ways, struct detect_way way)
{
	for (int i = 0; mxfp_option_name(MXFP_OPTION_ROUND, i) != NULL; i++) {
		way.round = (enum mxfp_round)i;
		add_choices(ways, way);
	}
}

void detect_list_ways(struct detect_ways *ways, enum mxfp_format format)
{
	static const enum mxfp_format via[] = {MXFP_FORMAT_F32, MXFP_FORMAT_BF16, MXFP_FORMAT_F16};

	*ways = (struct detect_ways){.format = format};
	for (size_t v = 0; v < sizeof via / sizeof via[0]; v++)
		for (int zero = 0; zero < 2; zero++)
			add_roundings(ways, (struct detect_way){.via = via[v], .no_negative_zero = zero != 0});
}

/* The tensor scale that a largest magnitude gives. */
static float scale_of(const struct detect_ways *ways, const struct detect_way *way, float amax, bool *divides)
{
	struct mxfp_quantize_options options = options_of(way);
	struct mxfp_blocks none = {.size = sizeof none, .format = ways->format};

	options.tensor_amax = mxfp_some(amax);
	dense_quantize(&none, MXFP_FORMAT_F32, NULL, &options, ONE_THREAD);
	*divides = none.tensor_scale_divides;
	return none.tensor_scale;
}

/* Whether a file with this tensor scale may have been made with that one: one file's multiplies, another's divides. */
static bool same_scale(float made, bool made_divides, const struct mxfp_blocks *file)
{
	if (made_divides == file->tensor_scale_divides)
		return made == file->tensor_scale;
	return made == 1 / file->tensor_scale || 1 / made == file->tensor_scale;
}

float detect_amax(const struct detect_ways *ways, const struct detect_way *way, float amax,
                  const struct mxfp_blocks *file, enum detect_scale *found)
{
	enum { STEPS = 8 }; /* of rounding errors on the way to the scale and back */
	bool divides;
	float own = scale_of(ways, way, amax, &divides);

	*found = DETECT_SCALE_OWN;
	if (same_scale(own, divides, file))
		return amax;
	float target = divides == file->tensor_scale_divides ? file->tensor_scale : 1 / file->tensor_scale;
	float guess = divides ? amax * (own / target) : amax * (target / own);
	*found = DETECT_SCALE_OTHER;
	if (isfinite(guess) && guess > 0) {
		float tried = guess;

		for (int i = 0; i < STEPS; i++)
			tried = nextafterf(tried, 0);
		for (int i = 0; i <= 2 * STEPS && isfinite(tried); i++, tried = nextafterf(tried, INFINITY))
			if (same_scale(scale_of(ways, way, tried, &divides), divides, file))
				return tried;
	}
	*found = DETECT_SCALE_NONE;
	return amax;
}
