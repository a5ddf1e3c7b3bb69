/* SPDX-License-Identifier: MIT */
/* What `mxfp advise` prints: tables, or JSON one tensor at a time; and the recipe that it writes. */
#include "config.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/advise.h"
#include "base/printable.h"
#include "base/table.h"
#include "io/facts.h"
#include "io/json.h"
#include "io/shape.h"
#include "model/decoded.h"

enum { CHOICES_TEXT = 512, SQNR_TEXT = 32 };

/* Weights of all layers that are NaN or Inf, which no error counts; *first: the first layer with some, or NULL. */
static uint64_t count_non_finite(const struct advice *advice, size_t *n_layers, const struct advise_layer **first)
{
	uint64_t n = 0;

	*n_layers = 0;
	*first = NULL;
	for (size_t i = 0; i < advice->n_layers; i++) {
		if (advice->layers[i].non_finite > 0 && (*n_layers)++ == 0)
			*first = &advice->layers[i];
		n += advice->layers[i].non_finite;
	}
	return n;
}

/* "19.31", or "exact"; of weights some of which are NaN or Inf, no error at all says nothing: "-". */
static const char *sqnr_text(const struct weight_error *error, uint64_t non_finite, char text[SQNR_TEXT])
{
	const double sqnr = weight_error_sqnr(error);

	if (isfinite(sqnr))
		snprintf(text, SQNR_TEXT, "%.2f", sqnr);
	else
		snprintf(text, SQNR_TEXT, "%s", sqnr > 0 && non_finite == 0 ? "exact" : "-");
	return text;
}

static const char *mix_sqnr_text(const struct advice *advice, const struct advise_mix *mix, char text[SQNR_TEXT])
{
	const struct advise_layer *first;
	size_t n_layers;

	return sqnr_text(&mix->total, count_non_finite(advice, &n_layers, &first), text);
}

static const char *format_name(const struct advice *advice, size_t format)
{
	return mxfp_format_get_info(advice->formats[format])->name;
}

/* The variants of a format from the least error of a layer on. Returns how many. */
static size_t sort_variants(const struct advice *advice, const struct advise_layer *layer, size_t format,
                            size_t sorted[VARIANTS_MAX])
{
	const struct variants *variants = &advice->options->variants;
	size_t n = 0;

	for (size_t v = 0; v < variants->n; v++) {
		size_t at = n;

		if (variants->items[v].format != advice->formats[format])
			continue;
		for (; at > 0 && layer->errors[v].sum < layer->errors[sorted[at - 1]].sum; at--)
			sorted[at] = sorted[at - 1];
		sorted[at] = v;
		n++;
	}
	return n;
}

/* "mse 19.31, even 19.02" */
static void choices_text(const struct advice *advice, const struct advise_layer *layer, size_t format,
                         char text[CHOICES_TEXT])
{
	size_t sorted[VARIANTS_MAX], n = sort_variants(advice, layer, format, sorted), used = 0;
	char sqnr[SQNR_TEXT];

	for (size_t i = 0; i < n && used < CHOICES_TEXT; i++)
		used += (size_t)snprintf(text + used, CHOICES_TEXT - used, "%s%s %s", i == 0 ? "" : ", ",
		                         variant_choice(&advice->options->variants.items[sorted[i]]),
		                         sqnr_text(&layer->errors[sorted[i]], layer->non_finite, sqnr));
}

static int print_layers(const struct advice *advice, const size_t *chosen, struct error *error)
{
	struct table table = {.n_columns = chosen != NULL ? 6 : 5, .n_left = 4};
	char shape[SHAPE_TEXT], text[CHOICES_TEXT];

	table_cell(&table, "tensor");
	table_cell(&table, "is");
	table_cell(&table, "format");
	table_cell(&table, "SQNR dB, best first");
	table_cell(&table, "bits");
	if (chosen != NULL)
		table_cell(&table, "chosen");
	for (size_t i = 0; i < advice->n_layers; i++)
		for (size_t f = 0; f < advice->n_formats; f++) {
			const struct advise_layer *layer = &advice->layers[i];
			size_t best = advise_best(advice, layer, advice->formats[f]);

			choices_text(advice, layer, f, text);
			table_name(&table, f == 0 ? layer->tensor->name : "");
			table_cell(&table, "%s %s", f == 0 ? dtype_info(layer->tensor->dtype)->name : "",
			           f == 0 ? shape_text(layer->tensor, shape) : "");
			table_cell(&table, "%s", format_name(advice, f));
			table_cell(&table, "%s", text);
			table_cell(&table, "%.3f", weight_error_bits(&layer->errors[best]));
			if (chosen != NULL)
				table_cell(&table, "%s", chosen[i] == f ? "*" : "");
		}
	return table_print(&table, stdout, error);
}

static void add_mix(struct table *table, const struct advice *advice, const struct advise_mix *mix, double bits)
{
	char sqnr[SQNR_TEXT];

	table_cell(table, "%s%.4g", mix->exact ? "" : "~", bits);
	table_cell(table, "%.3f", weight_error_bits(&mix->total));
	if (advice->costs != NULL)
		table_number(table, advise_mix_cost(mix), 6, "");
	table_cell(table, "%s", mix_sqnr_text(advice, mix, sqnr));
	for (size_t f = 0; f < advice->n_formats; f++)
		table_cell(table, "%.1f %%", 100 * advise_share(advice, mix, f));
}

struct front {
	struct table table;
	bool exact; /* every mixture */
};

static int add_point(const struct advice *advice, const struct advise_mix *mix, double bits, void *context,
                     struct error *error)
{
	struct front *front = context;

	(void)error;
	add_mix(&front->table, advice, mix, bits);
	front->exact &= mix->exact;
	return EXIT_OK;
}

int advise_print_front(const struct advice *advice, struct error *error)
{
	const bool by_cost = advice->costs != NULL;
	struct front front = {{.n_columns = 3 + by_cost + advice->n_formats}, true};

	table_cell(&front.table, "bits at most");
	table_cell(&front.table, "bits");
	if (by_cost)
		table_cell(&front.table, "summed KLD");
	table_cell(&front.table, "SQNR dB");
	for (size_t f = 0; f < advice->n_formats; f++)
		table_cell(&front.table, "%s", format_name(advice, f));
	int code = advise_front(advice, add_point, &front, error);
	if (code != EXIT_OK) {
		table_free(&front.table);
		return code;
	}
	code = table_print(&front.table, stdout, error);
	printf("Each mixture%s has the least %s of all that fit its bits; what loaders fuse (q, k, v; gate, up; experts) has\n"
	       "one format.\n", front.exact ? "" : " but those marked ~", by_cost ? "sum" : "error");
	puts("SQNR of the whole: -10 log10 of the mean over all weights of their layer's relative squared error.");
	return code;
}

void advise_print_left_out(const struct advice *advice)
{
	char formats[LAYOUT_FORMATS_TEXT];

	if (advice->not_loaded != 0)
		printf("left out: %s does not load %s with activations %s; --for any takes all\n", advice->program,
		       layout_formats_text(advice->not_loaded, NULL, formats), advice->program_activations);
	if (advice->model->n_decoded > 0)
		printf("%zu tensor%s quantized before (%s): decoded, and errors are those of rounding once more\n", advice->model->n_decoded,
		       advice->model->n_decoded == 1 ? "" : "s", decoded_from(advice->model));
	if (advice->n_left_out > 0)
		printf("left out: %zu layers whose rows are not whole blocks\n", advice->n_left_out);
	if (advice->n_refused > 0)
		printf("left out: %zu layers that loaders of layout %s do not take quantized\n", advice->n_refused,
		       advice->layout->name);
}

static void print_non_finite(const struct advice *advice)
{
	const struct advise_layer *first;
	size_t n_layers;
	const uint64_t n = count_non_finite(advice, &n_layers, &first);

	if (first == NULL)
		return;
	printf("NaN or Inf: %" PRIu64 " weights in %zu layers, the first '", n, n_layers);
	print_printable(stdout, first->tensor->name);
	puts("'; the errors above do not count them, and\n"
	     "mxfp quantize refuses them: repair the model, --ignore the layers, or give it --non-finite");
}

int advise_text(const struct advice *advice, const struct advise_mix *mix, struct error *error)
{
	char sqnr[SQNR_TEXT];
	size_t *chosen = NULL;

	if (mix != NULL && (chosen = advise_of_layers(advice, mix)) == NULL)
		return fail_memory(error);
	int code = print_layers(advice, chosen, error);
	free(chosen);
	if (code == EXIT_OK)
		code = advise_print_front(advice, error);
	if (code != EXIT_OK)
		return code;
	advise_print_left_out(advice);
	print_non_finite(advice);
	if (mix != NULL)
		printf("chosen: %.3f bits a weight, %s%s%s\n", weight_error_bits(&mix->total),
		       mix_sqnr_text(advice, mix, sqnr), isfinite(weight_error_sqnr(&mix->total)) ? " dB" : "",
		       mix->exact ? "" : ", the best that was found in bounded memory");
	printf("Errors of weights say nothing about what the model loses: %s.\n",
	       advice->layout == layouts[0] ? "--eval TEXT chooses by that" : "mxfp report --eval TEXT measures it");
	if (advice->command != NULL)
		printf("\n    %s\n", advice->command);
	return EXIT_OK;
}

json_t *advise_not_loaded_facts(const struct advice *advice)
{
	json_t *formats = json_array();

	for (int f = 0; mxfp_format_get_info((enum mxfp_format)f) != NULL; f++)
		if ((advice->not_loaded >> f & 1) != 0)
			formats = facts_append(formats, facts_text(mxfp_format_get_info((enum mxfp_format)f)->name));
	return formats;
}

static json_t *format_facts(const struct advice *advice, const struct advise_layer *layer, size_t format)
{
	size_t sorted[VARIANTS_MAX], n = sort_variants(advice, layer, format, sorted);
	const struct variants *variants = &advice->options->variants;
	json_t *choices = json_array();

	for (size_t i = 0; i < n; i++) {
		const struct weight_error *error = &layer->errors[sorted[i]];
		const struct variant *variant = &variants->items[sorted[i]];

		json_array_append_new(choices, json_pack("{s:s, s:o, s:o}", variant_has_recipe(variant) ? "recipe" : "rule",
		                                         variant_choice(variant), "sqnr_db", facts_number(weight_error_sqnr(error)),
		                                         "relative_squared_error", facts_number(weight_error_mean(error))));
	}
	return json_pack("{s:s, s:f, s:o}", "weights", format_name(advice, format), "bits_per_weight",
	                 weight_error_bits(&layer->errors[sorted[0]]), "choices", choices);
}

static json_t *layer_facts(const struct advice *advice, size_t i, const size_t *chosen)
{
	const struct advise_layer *layer = &advice->layers[i];
	json_t *formats = json_array();

	for (size_t f = 0; f < advice->n_formats; f++)
		json_array_append_new(formats, format_facts(advice, layer, f));
	return json_pack("{s:s, s:s, s:o, s:I, s:o, s:s*}", "name", layer->tensor->name, "dtype",
	                 dtype_info(layer->tensor->dtype)->name, "shape", shape_facts(layer->tensor), "non_finite",
	                 (json_int_t)layer->non_finite, "formats", formats, "chosen", chosen != NULL ? format_name(advice, chosen[i]) : NULL);
}

json_t *advise_mix_facts(const struct advice *advice, const struct advise_mix *mix)
{
	json_t *shares = json_object();

	for (size_t f = 0; f < advice->n_formats; f++)
		json_object_set_new(shares, format_name(advice, f), json_real(advise_share(advice, mix, f)));
	json_t *facts = json_pack("{s:f, s:I, s:o, s:o, s:b, s:o}", "bits_per_weight", weight_error_bits(&mix->total), "bytes",
	                          (json_int_t)mix->total.bytes, "sqnr_db", facts_number(weight_error_sqnr(&mix->total)),
	                          "relative_squared_error", facts_number(weight_error_mean(&mix->total)), "exact",
	                          (int)mix->exact, "shares", shares);
	if (advice->costs == NULL)
		return facts;
	return facts_set(facts, "kl_divergence_summed", facts_number(advise_mix_cost(mix)));
}

static int append_point(const struct advice *advice, const struct advise_mix *mix, double bits, void *context,
                        struct error *error)
{
	json_t *point = facts_set(advise_mix_facts(advice, mix), "bits_at_most", json_real(bits));

	return json_array_append_new(context, point) == 0 ? EXIT_OK : fail_memory(error);
}

json_t *advise_front_facts(const struct advice *advice, struct error *error)
{
	json_t *front = json_array();

	if (front == NULL)
		fail_memory(error);
	else if (advise_front(advice, append_point, front, error) == EXIT_OK)
		return front;
	json_decref(front);
	return NULL;
}

int advise_json(const struct advice *advice, const struct advise_mix *mix, struct error *error)
{
	json_t *front = advise_front_facts(advice, error);
	size_t *chosen = NULL;
	int code = front != NULL ? EXIT_OK : EXIT_MEMORY;

	if (code == EXIT_OK && mix != NULL && (chosen = advise_of_layers(advice, mix)) == NULL)
		code = fail_memory(error);
	fputs("{\n\"tensors\": [", stdout);
	for (size_t i = 0; i < advice->n_layers && code == EXIT_OK; i++) {
		fputs(i == 0 ? "\n" : ",\n", stdout);
		code = facts_print_part(stdout, layer_facts(advice, i, chosen), 0, error);
	}
	free(chosen);
	if (code != EXIT_OK) {
		json_decref(front);
		return code;
	}
	fputs("\n],\n\"front\": ", stdout);
	code = facts_print_part(stdout, front, JSON_INDENT(2), error);
	if (code == EXIT_OK && mix != NULL) {
		fputs(",\n\"chosen\": ", stdout);
		code = facts_print_part(stdout, advise_mix_facts(advice, mix), JSON_INDENT(2), error);
	}
	if (code == EXIT_OK)
		fputs(",\n\"decoded_from\": ", stdout);
	if (code == EXIT_OK)
		code = facts_print_part(stdout, advice->model->n_decoded > 0 ? facts_text(decoded_from(advice->model)) : json_null(), 0, error);
	if (code == EXIT_OK)
		fputs(",\n\"formats_not_loaded\": ", stdout);
	if (code == EXIT_OK)
		code = facts_print_part(stdout, advise_not_loaded_facts(advice), 0, error);
	if (code == EXIT_OK)
		fputs(",\n\"command\": ", stdout);
	if (code == EXIT_OK)
		code = facts_print_part(stdout, advice->command != NULL ? facts_text(advice->command) : json_null(), 0, error);
	printf(",\n\"tensors_left_out\": %zu,\n\"tensors_refused\": %zu\n}\n", advice->n_left_out, advice->n_refused);
	return code;
}

/* The recipe of a mixture: what most weights become is the default, and rules name the layers of other variants. Here, a
   name as a glob that matches nothing else. */
static json_t *glob_of(const char *name)
{
	char *glob = malloc(2 * strlen(name) + 3), *to = glob;

	if (glob == NULL)
		return NULL;
	if (strncmp(name, "re:", 3) == 0)
		*to++ = '\\';
	for (; *name != '\0'; *to++ = *name++)
		if (strchr("*?[\\", *name) != NULL)
			*to++ = '\\';
	*to = '\0';
	json_t *text = json_string(glob);
	free(glob);
	return text;
}

static json_t *change_of(const struct variant *variant)
{
	return json_pack("{s:s, s:s}", "format", mxfp_format_get_info(variant->format)->name,
	                 variant_has_recipe(variant) ? "nvfp4_recipe" : "rule", variant_choice(variant));
}

/* Whether a variant has tensor scales, of which weights that loaders fuse must share one. */
static bool has_tensor_scale(const struct variant *variant)
{
	return variant_has_recipe(variant) && !layout_recipe_unscaled(variant->recipe);
}

static json_t *patterns_of(const struct string_list *list)
{
	json_t *patterns = json_array();

	for (size_t i = 0; i < list->n; i++)
		json_array_append_new(patterns, json_string(list->items[i]));
	return patterns;
}

/* The variant of each layer, and the one that most weights have. */
static size_t *variants_of(const struct advice *advice, const struct advise_mix *mix, size_t *most)
{
	size_t *chosen = advise_of_layers(advice, mix);
	uint64_t elements[VARIANTS_MAX] = {0};

	*most = 0;
	for (size_t i = 0; i < advice->n_layers && chosen != NULL; i++) {
		const struct advise_layer *layer = &advice->layers[i];

		chosen[i] = advise_best(advice, layer, advice->formats[chosen[i]]);
		elements[chosen[i]] += layer->errors[chosen[i]].elements;
	}
	for (size_t v = 0; v < advice->options->variants.n; v++)
		if (elements[v] > elements[*most])
			*most = v;
	return chosen;
}

/* The layers that were not measured, and so are not to be quantized. */
static json_t *left_out_rule(const struct advice *advice)
{
	json_t *names = json_array();

	for (size_t i = 0; i < advice->n_left_out; i++)
		json_array_append_new(names, glob_of(advice->left_out[i]));
	return json_pack("{s:o, s:b}", "match", names, "keep", 1);
}

json_t *advise_recipe(const struct advice *advice, const struct advise_mix *mix)
{
	const struct variants *variants = &advice->options->variants;
	size_t most;
	size_t *chosen = variants_of(advice, mix, &most);
	bool fuse = false;

	if (chosen == NULL)
		return NULL;
	json_prepare();
	json_t *rules = json_array();
	if (advice->select->ignore.n > 0)
		json_array_append_new(rules, json_pack("{s:o, s:b}", "match", patterns_of(&advice->select->ignore), "keep", 1));
	if (advice->n_left_out > 0)
		json_array_append_new(rules, left_out_rule(advice));
	for (size_t v = 0; v < variants->n; v++) {
		json_t *names = json_array();

		for (size_t i = 0; i < advice->n_layers; i++)
			if (chosen[i] == v && v != most)
				json_array_append_new(names, glob_of(advice->layers[i].tensor->name));
		for (size_t i = 0; i < advice->n_layers; i++)
			fuse |= chosen[i] == v && has_tensor_scale(&variants->items[v]);
		json_t *rule = json_pack("{s:O}", "match", names);
		json_object_update_new(rule, change_of(&variants->items[v]));
		if (json_array_size(names) > 0)
			json_array_append(rules, rule);
		json_decref(rule);
		json_decref(names);
	}
	free(chosen);
	json_t *recipe = json_pack("{s:i, s:o}", "version", 1, "default", change_of(&variants->items[most]));
	if (advice->activations != NULL)
		json_object_set_new(recipe, "activations", json_string(advice->activations));
	if (fuse)
		json_object_set_new(recipe, "fuse", json_true());
	if (advice->select->include.n > 0)
		json_object_set_new(recipe, "include", patterns_of(&advice->select->include));
	json_object_set_new(recipe, "rules", rules);
	if (!json_out_of_memory())
		return recipe;
	json_decref(recipe);
	return NULL;
}
