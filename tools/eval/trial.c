/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "eval/trial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "base/sparsity.h"
#include "model/choices.h"
#include "quantize/preset.h"

static const char recipe_suffix[] = ".json";

/* Numbers that weights are rounded to; with the first they stay as they are stored. */
static const enum mxfp_format number_formats[] = {MXFP_FORMAT_F32, MXFP_FORMAT_BF16, MXFP_FORMAT_F16, MXFP_FORMAT_TF32,
                                                  MXFP_FORMAT_E4M3, MXFP_FORMAT_E5M2};
enum { N_NUMBERS = sizeof number_formats / sizeof number_formats[0] };

static const char *number_name(size_t i)
{
	return mxfp_format_get_info(number_formats[i])->name;
}

void trial_stored(struct trial *trial, const char *name)
{
	*trial = (struct trial){.activations = OPTION_FORMAT_NONE, .kv_cache = OPTION_FORMAT_NONE, .attention = OPTION_FORMAT_NONE};
	snprintf(trial->name, sizeof trial->name, "%s", name != NULL ? name : number_name(0));
}

/* The settings that mxfp quantize has for a preset in a layout, where options say nothing else. */
static void set_preset(struct trial *trial, const struct preset *preset, const struct trial_options *options)
{
	const struct layout *layout = options->layout != NULL ? options->layout : layouts[0];

	trial->quantizes = true;
	trial->settings = (struct quantize_settings){
		.layout = layout,
		.choice = {.format = preset->weights, .rule = options->rule,
		           .recipe = options->has_nvfp4_recipe ? options->nvfp4_recipe : (int)layout->recipe,
		           .squares = options->squares},
		.fuse = preset->fuse || options->fuse,
		.non_finite = MXFP_NON_FINITE_ERROR,
		.threads = options->threads,
		.select = *options->select,
		.pad_tail = options->pad_tail,
	};
	trial->activation_rule = options->activation_rule;
}

static int set_recipe(struct trial *trial, const char *path, const struct trial_options *options,
                      const char **activations, struct error *error)
{
	const struct preset *usual;
	int code = preset_find(&usual, "", NULL, error);

	if (code == EXIT_OK)
		code = options->recipe_json != NULL ? recipe_take(&trial->recipe, path, json_incref(options->recipe_json), error)
		                                    : recipe_read(&trial->recipe, path, error);
	if (code != EXIT_OK)
		return code;
	set_preset(trial, usual, options);
	trial->settings.recipe = &trial->recipe;
	trial->settings.select.recipe = &trial->recipe.include;
	trial->settings.fuse = trial->recipe.fuse || options->fuse;
	recipe_apply(&trial->recipe.by_default, &trial->settings.choice);
	if (options->has_rule)
		trial->settings.choice.rule = options->rule;
	if (options->has_nvfp4_recipe)
		trial->settings.choice.recipe = options->nvfp4_recipe;
	if (options->has_block)
		trial->settings.choice.squares = options->squares;
	*activations = trial->recipe.activations != NULL ? trial->recipe.activations : usual->activations;
	return EXIT_OK;
}

/* Takes a scale rule, or a recipe if the weights are NVFP4. */
static int set_rule(struct trial *trial, const char *rule, const char *where, struct error *error)
{
	struct quantize_choice *choice = &trial->settings.choice;
	const bool has_recipe = mxfp_format_get_info(choice->format)->tensor_scale;
	const enum option_kind kind = has_recipe ? OPTION_RECIPE : OPTION_RULE;
	int *value = has_recipe ? &choice->recipe : &choice->rule;

	return choice_find(kind, rule, value) ? EXIT_OK : choice_fail(kind, where, rule, error);
}

/* Takes a block format or "none". */
static int set_format(enum mxfp_format *format, const char *name, const char *where, struct error *error)
{
	int found = (int)OPTION_FORMAT_NONE;

	if (strcmp(name, RECIPE_NONE) != 0 && !choice_find(OPTION_BLOCK, name, &found))
		return choice_fail(OPTION_BLOCK, where, name, error);
	*format = (enum mxfp_format)found;
	return EXIT_OK;
}

/* Takes what the options say of attention. */
static int set_attention(struct trial *trial, const struct trial_options *options, struct error *error)
{
	trial->activation_rule = options->activation_rule;
	trial->kv_cache = options->kv_cache;
	return options->attention == NULL ? EXIT_OK
	                                  : set_format(&trial->attention, options->attention, "eval: --attention", error);
}

/* As mxfp quantize refuses them. */
static int check_squares(const struct quantize_choice *choice, const char *where, struct error *error)
{
	if (!quantize_in_squares(choice) || choice->sparsity.m == 0)
		return EXIT_OK;
	return fail(error, EXIT_USAGE, "%s: squares of " LAYOUT_SQUARES " are for dense weights; leave out the sparsity, or give --block 1x32",
	            where);
}

/* A choice that the layout does not hold. */
static int fail_form(const struct quantize_settings *s, const struct quantize_choice *choice, const char *where, struct error *error)
{
	const char *name = mxfp_format_get_info(choice->format)->name;

	if (layout_form(s->layout, choice->format, false) != NULL)
		return fail(error, EXIT_USAGE, "%s: layout %s holds no sparse weights; leave out the sparsity, or give "
		            "--layout %s", where, s->layout->name, layouts[0]->name);
	return fail(error, EXIT_USAGE, "%s: mxfp quantize has no %s for layout %s; give another format", where, name, s->layout->name);
}

/* Settles what is left when the weights are known. */
static int finish(struct trial *trial, const char *activations, const char *where, struct error *error)
{
	struct quantize_settings *s = &trial->settings;
	int code = set_format(&trial->activations, activations, where, error);

	if (code != EXIT_OK || !trial->quantizes)
		return code;
	const struct layout_form *form = quantize_layout(s->layout, &s->choice).form;
	if (form == NULL)
		return fail_form(s, &s->choice, s->recipe != NULL && s->choice.sparsity.m != 0 ? s->recipe->path : where, error);
	code = check_squares(&s->choice, s->recipe != NULL ? s->recipe->path : where, error);
	if (code != EXIT_OK)
		return code;
	for (size_t i = 0; s->recipe != NULL && i < s->recipe->n_rules; i++) {
		struct quantize_choice choice = s->choice;

		recipe_apply(&s->recipe->rules[i].change, &choice);
		if (quantize_layout(s->layout, &choice).form == NULL) {
			char rule[4096];

			snprintf(rule, sizeof rule, "%s: rules[%zu]", s->recipe->path, i);
			return fail_form(s, &choice, rule, error);
		}
		code = check_squares(&choice, s->recipe->path, error);
		if (code != EXIT_OK)
			return code;
	}
	/* As for the file that mxfp quantize writes, weights whose rows its activations do not divide stay. */
	s->activations = OPTION_FORMAT_NONE;
	if (trial->activations != OPTION_FORMAT_NONE && (form->activations >> trial->activations & 1) != 0)
		s->activations = trial->activations;
	s->activation_rule = trial->activation_rule;
	s->fuse = s->fuse && (s->recipe != NULL || !layout_recipe_unscaled((enum mxfp_recipe)s->choice.recipe));
	trial->uses = recipe_uses(s->recipe, &s->choice);
	trial->uses.pad_tail &= s->layout != &layout_gguf;
	return EXIT_OK;
}

/* Takes --sparsity, which goes before the recipe's default. */
static int set_sparsity(struct trial *trial, const struct trial_options *options, struct error *error)
{
	struct quantize_settings *s = &trial->settings;
	char where[64];

	snprintf(where, sizeof where, "%s: --sparsity", options->command);
	const int code = sparsity_parse(options->sparsity, where, &s->choice.sparsity, error);
	if (code != EXIT_OK || quantize_layout(s->layout, &s->choice).form != NULL)
		return code;
	return fail_form(s, &s->choice, where, error);
}

int trial_of_options(struct trial *trial, const struct trial_options *options, struct error *error)
{
	const char *activations = RECIPE_NONE;
	const struct preset *preset;
	char where[64];

	snprintf(where, sizeof where, "%s: --preset", options->command);
	int code = preset_find(&preset, where, options->preset, error);

	trial_stored(trial, "model");
	if (code == EXIT_OK)
		code = set_attention(trial, options, error);
	if (code != EXIT_OK)
		return code;
	if (options->recipe != NULL) {
		code = set_recipe(trial, options->recipe, options, &activations, error);
	} else if (options->preset != NULL || options->weights != OPTION_FORMAT_NONE) {
		set_preset(trial, preset, options);
		if (options->preset != NULL)
			activations = preset->activations;
	}
	if (code != EXIT_OK)
		return code;
	if (options->preset != NULL && preset->mixed)
		return fail(error, EXIT_USAGE, "%s: --preset %s: is chosen by errors of weights; mxfp advise writes such a "
		            "mixture as a recipe, for --recipe", options->command, options->preset);
	if (options->weights != OPTION_FORMAT_NONE)
		trial->settings.choice.format = options->weights;
	if (options->sparsity != NULL)
		code = set_sparsity(trial, options, error);
	if (code != EXIT_OK)
		return code;
	trial->takes_activations = options->activations != NULL;
	if (options->activations != NULL)
		activations = options->activations;
	if (trial->quantizes)
		snprintf(trial->name, sizeof trial->name, "%s", options->recipe != NULL ? options->recipe :
		         options->weights == OPTION_FORMAT_NONE ? options->preset : mxfp_format_get_info(options->weights)->name);
	snprintf(where, sizeof where, "%s: --activations", options->command);
	return finish(trial, activations, where, error);
}

/* Takes a preset or a format by its name. */
static int set_named(struct trial *trial, const char *name, const struct trial_options *options, const char **activations,
                     const char *where, struct error *error)
{
	const struct preset *preset;
	const char *names[CHOICES_MAX + 8];
	char presets[] = PRESET_NAMES;
	struct error ignored;
	struct choice choice;
	size_t n = 0;
	int format;

	/* A name that is both is the preset, as --preset has it. */
	if (preset_find(&preset, "", name, &ignored) == EXIT_OK) {
		if (preset->mixed)
			return fail(error, EXIT_USAGE, "%s: '%s' is chosen by errors of weights; mxfp advise writes such a mixture as "
			            "a recipe, and FILE.json is taken here", where, name);
		set_preset(trial, preset, options);
		*activations = preset->activations;
		return EXIT_OK;
	}
	if (choice_find(OPTION_BLOCK, name, &format)) {
		preset_find(&preset, "", NULL, &ignored);
		set_preset(trial, preset, options);
		trial->settings.choice.format = (enum mxfp_format)format;
		return EXIT_OK;
	}
	for (size_t i = 0; i < N_NUMBERS; i++)
		names[n++] = number_name(i);
	for (char *at = strtok(presets, "|"); at != NULL; at = strtok(NULL, "|"))
		names[n++] = at;
	for (int i = 0; choice_at(OPTION_BLOCK, i, &choice) && n < sizeof names / sizeof names[0]; i++)
		names[n++] = choice.name;
	return nearest_fail(where, name, "known", names, n, error);
}

/* Sets the trial that a text of n bytes asks for. */
static int parse(struct trial *trial, const char *text, size_t n, const struct trial_options *options,
                 struct error *error)
{
	const char *activations = options->activations != NULL ? options->activations : RECIPE_NONE;
	char copy[4096], where[64], *suffix, *rule = NULL, *after;
	int code;

	snprintf(where, sizeof where, "%s: --try", options->command);
	trial_stored(trial, NULL);
	if (n == 0 || n >= sizeof copy)
		return fail(error, EXIT_USAGE, "%s: expected NAME[:RULE][/ACTIVATIONS],..., such as w4a8,mxfp4:even/none", where);
	memcpy(copy, text, n);
	copy[n] = '\0';
	snprintf(trial->name, sizeof trial->name, "%.90s", copy);
	code = set_attention(trial, options, error);
	if (code != EXIT_OK)
		return code;
	suffix = strstr(copy, recipe_suffix);
	after = suffix != NULL ? suffix + strlen(recipe_suffix) : copy + strcspn(copy, ":/");
	if (*after == ':') {
		*after++ = '\0';
		rule = after;
		after += strcspn(after, "/");
	}
	char *given = *after == '/' ? after + 1 : NULL;
	const bool ends = *after == '\0' || given != NULL;
	*after = '\0';
	if (!ends || (suffix != NULL && rule != NULL))
		return fail(error, EXIT_USAGE, "%s: '%.*s': a recipe stands alone or before /ACTIVATIONS", where, (int)n, text);
	size_t number = 0;
	while (number < N_NUMBERS && strcmp(copy, number_name(number)) != 0)
		number++;
	const bool is_plain = number < N_NUMBERS;
	if (is_plain)
		trial->numbers = number_formats[number];
	if (is_plain && rule != NULL)
		return fail(error, EXIT_USAGE, "%s: '%.*s': %s has no scale rule; leave it out", where, (int)n, text, copy);
	if (suffix != NULL)
		code = set_recipe(trial, copy, options, &activations, error);
	else if (!is_plain)
		code = set_named(trial, copy, options, &activations, where, error);
	else
		code = EXIT_OK, activations = RECIPE_NONE;
	if (code == EXIT_OK && rule != NULL)
		code = set_rule(trial, rule, where, error);
	trial->takes_activations = given == NULL && options->activations != NULL && activations == options->activations;
	if (code == EXIT_OK)
		code = finish(trial, given != NULL ? given : activations, where, error);
	if (rule != NULL)
		trial->uses.rule = trial->uses.nvfp4_recipe = false;
	return code;
}

int trial_parse(struct trial *trials, size_t *n, size_t most, const char *text, const struct trial_options *options,
                struct error *error)
{
	int code = EXIT_OK;

	for (const char *at = text; code == EXIT_OK; at++) {
		const size_t length = strcspn(at, ",");

		if (*n == most)
			return fail(error, EXIT_USAGE, "%s: --try: more than %zu trials; give fewer", options->command, most);
		code = parse(&trials[(*n)++], at, length, options, error);
		at += length;
		if (*at == '\0')
			break;
	}
	return code;
}

static bool is_mx(enum mxfp_format format)
{
	return format != OPTION_FORMAT_NONE && !mxfp_format_get_info(format)->tensor_scale;
}

bool trial_has_activation_rule(const struct trial *trial)
{
	return is_mx(trial->activations) || is_mx(trial->attention) || is_mx(trial->kv_cache);
}

bool trial_is_stored(const struct trial *trial)
{
	return !trial->quantizes && trial->numbers == MXFP_FORMAT_F32 && trial->activations == OPTION_FORMAT_NONE &&
	       trial->kv_cache == OPTION_FORMAT_NONE && trial->attention == OPTION_FORMAT_NONE;
}

bool trial_is_same(const struct trial *a, const struct trial *b)
{
	char own[TRIAL_TEXT], other[TRIAL_TEXT];

	return a->quantizes && b->quantizes && a->recipe.path == NULL && b->recipe.path == NULL &&
	       a->settings.fuse == b->settings.fuse && strcmp(trial_weights(a, own), trial_weights(b, other)) == 0 &&
	       strcmp(trial_activations(a, own), trial_activations(b, other)) == 0;
}

void trial_free(struct trial *trial)
{
	recipe_free(&trial->recipe);
}

int trial_check_sums(const struct trial_options *options, struct error *error)
{
	const uint64_t pass = options->pass_k;
	const bool usual = !options->has_pass_k || pass == 512;

	if (!usual && pass != 256 && pass != 128)
		return fail(error, EXIT_USAGE, "%s: --pass-k %llu: give 512, 256 or 128", options->command, (unsigned long long)pass);
	if (options->has_acc && options->acc == MXFP_ACC_EXACT && usual)
		return fail(error, EXIT_USAGE, "%s: --acc exact: is what sums are compared with; give another, or --pass-k 256 or 128",
		            options->command);
	return EXIT_OK;
}

struct trial trial_as_operands(const struct trial *trial)
{
	struct trial same = *trial;

	same.summed = true;
	return same;
}

struct trial trial_as_summed(const struct trial *trial, const struct trial_options *options)
{
	struct trial summed = trial_as_operands(trial);
	char pass[32] = "";

	summed.acc = (enum mxfp_acc)options->acc;
	if (options->has_pass_k) {
		summed.pass_k = (unsigned)options->pass_k;
		snprintf(pass, sizeof pass, " --pass-k %u", summed.pass_k);
	}
	snprintf(summed.name, sizeof summed.name, "%.50s --acc %s%s", trial->name, choice_name(OPTION_ACC, options->acc), pass);
	return summed;
}

const char *trial_weights(const struct trial *trial, char text[TRIAL_TEXT])
{
	char choice[QUANTIZE_TEXT];

	if (!trial->quantizes)
		snprintf(text, TRIAL_TEXT, "%s",
		         trial->numbers != MXFP_FORMAT_F32 ? mxfp_format_get_info(trial->numbers)->name : "as stored");
	else if (trial->recipe.path != NULL)
		snprintf(text, TRIAL_TEXT, "by the recipe");
	else
		snprintf(text, TRIAL_TEXT, "%s", quantize_text(&trial->settings.choice, choice));
	return text;
}

const char *trial_activations(const struct trial *trial, char text[TRIAL_TEXT])
{
	const bool quantizes = trial->activations != OPTION_FORMAT_NONE;
	const bool has_rule = quantizes && !mxfp_format_get_info(trial->activations)->tensor_scale;
	const bool has_attention = trial->attention != OPTION_FORMAT_NONE;
	const bool has_cache = trial->kv_cache != OPTION_FORMAT_NONE;

	const char *plain = trial->summed && !trial->quantizes && trial->numbers == MXFP_FORMAT_F32 ? "as weights" : "f32";

	if (trial->summed && trial->numbers != MXFP_FORMAT_F32)
		plain = mxfp_format_get_info(trial->numbers)->name;
	snprintf(text, TRIAL_TEXT, "%s%s%s%s%s%s%s", quantizes ? mxfp_format_get_info(trial->activations)->name : plain,
	         has_rule ? " " : "", has_rule ? choice_name(OPTION_RULE, trial->activation_rule) : "",
	         has_attention ? ", attention " : "", has_attention ? mxfp_format_get_info(trial->attention)->name : "",
	         has_cache ? ", kv " : "", has_cache ? mxfp_format_get_info(trial->kv_cache)->name : "");
	return text;
}
