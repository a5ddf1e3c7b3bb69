/* SPDX-License-Identifier: MIT */
/* mxfp engine: estimates how long products take on a tensor engine, whole or split. */
#include "config.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "cli/commands.h"
#include "engine/engine.h"
#include "engine/layer.h"
#include "io/directory.h"
#include "io/facts.h"
#include "io/json.h"
#include "io/output.h"
#include "model/choices.h"

enum { CHIPS_MAX = 16, SKEW_MAX = 64 };

static const char operand_formats[] = "mxfp8-e4m3|mxfp8-e5m2|mxfp4|e4m3|e5m2|bf16|f16|tf32|f32";
static const char cache_formats[] = "bf16|f16|mxfp8-e4m3|mxfp8-e5m2";

/* The command line. */
struct settings {
	struct string_list shapes;
	const char *expert_shape, *model, *skew, *activations, *weights, *sparsity, *chip, *svg, *layer, *cache;
	enum mxfp_format result;
	uint64_t experts, tokens, topk, seed, cut, cores, clock, bandwidth, sequences, context, chips;
	unsigned threads;
	bool run, force, json;
};

static const struct settings defaults = {
	.expert_shape = "1024,1024",
	.skew = "1",
	.cache = "bf16",
	.context = 2048,
	.chips = 1,
	.activations = "mxfp8-e4m3",
	.weights = "mxfp4",
	.chip = "trainium3",
	.tokens = 512,
	.topk = 2,
};

static enum parsed parse(int argc, char **argv, struct settings *s, struct error *error)
{
	static const struct usage usage = {
		"engine --shape M,N,K | --experts E | --model M | --layer L [options]",
		"Estimates the time of products C[M,N] = A[M,K] W[N,K]^T on the tensor engines of\n"
		"a chip, with each array whole and split into two or four sub-arrays: cycles,\n"
		"utilization, and what limits them. The model is based on published figures; the\n"
		"man page states its assumptions. No product is computed without --run.\n"
		"With --layer, the time line of one decoder layer of a model on all engines of a\n"
		"chip: which is busy when, what limits the layer, what would help.",
		"  mxfp engine --shape 512,128,128 --cores 1\n"
		"  mxfp engine --experts 64 --batch 1024 --topk 8 --skew 0.5 --svg experts.svg\n"
		"  mxfp engine --layer llama-70b --batch 64 --context 2048 --svg layer.svg",
	};
	const struct option_spec options[] = {
		{"shape", 0, OPTION_LIST, "M,N,K", "add one product; may be repeated", &s->shapes},
		{"experts", 0, OPTION_UNSIGNED, "E", "add one product for each expert of a mixture", &s->experts},
		{"expert-shape", 0, OPTION_STRING, "N,K", "shape of each expert's weights", &s->expert_shape},
		{"model", 0, OPTION_STRING, "MODEL", "add one product for each linear layer and expert of a model", &s->model},
		{"layer", 0, OPTION_STRING, "llama-70b|llama-8b|gpt-oss-120b|gpt-oss-20b|FILE",
		 "the time line of a decoder layer of that model, or of a config.json or a directory with one", &s->layer},
		{"sequences", 0, OPTION_UNSIGNED, "N", "with --layer: sequences that the tokens belong to, 0: as many as tokens, "
		 "which is decoding", &s->sequences},
		{"context", 'c', OPTION_UNSIGNED, "N", "with --layer: keys that the last token of a sequence sees", &s->context},
		{"cache", 0, OPTION_STRING, cache_formats, "with --layer: format of the KV cache", &s->cache},
		{"chips", 0, OPTION_UNSIGNED, "N", "with --layer: chips that share the layer", &s->chips},
		{"batch", 'b', OPTION_UNSIGNED, "N", "tokens that run at once: rows of A of a layer, or routed to experts", &s->tokens},
		{"topk", 0, OPTION_UNSIGNED, "K", "experts per token", &s->topk},
		{"skew", 0, OPTION_STRING, "S", "expert e has the weight (e + 1)^-S, 0: all equal", &s->skew},
		{"seed", 0, OPTION_UNSIGNED, "N", "seed of the routing and of the operands of --run", &s->seed},
		{"activations", 'a', OPTION_STRING, operand_formats, "format of A", &s->activations},
		{"weights", 'w', OPTION_STRING, operand_formats, "format of W", &s->weights},
		{"sparsity", 0, OPTION_STRING, "N:M", "sparsity of W (default dense)", &s->sparsity},
		{"result", 0, OPTION_ELEMENT, "f32|bf16", "format of C", &s->result},
		{"cut", 0, OPTION_UNSIGNED, "N", "split products into parts of at most N columns, 0: do not", &s->cut},
		{"chip", 0, OPTION_STRING, "CHIP", "trainium3, trainium2, trainium1, inferentia2, or trainium4 (bounds only)",
		 &s->chip},
		{"cores", 0, OPTION_UNSIGNED, "N", "cores in use, with their share of the memory bandwidth, 0: all", &s->cores},
		{"clock", 0, OPTION_UNSIGNED, "MHZ", "clock, 0: the published one", &s->clock},
		{"bandwidth", 0, OPTION_UNSIGNED, "GB/S", "memory bandwidth of the chip, 0: the published one",
		 &s->bandwidth},
		{"run", 0, OPTION_FLAG, NULL, "compute the products on this machine", &s->run},
		{"threads", 0, OPTION_THREADS, "N",
		 "use at most this many threads for --run, 0: one per processor; does not affect the results", &s->threads},
		{"json", 0, OPTION_FLAG, NULL, "print JSON", &s->json},
		{"svg", 0, OPTION_STRING, "FILE.svg", "draw a timeline of the sub-arrays", &s->svg},
		{"force", 'f', OPTION_FLAG, NULL, "replace FILE.svg if it exists", &s->force},
		{.kind = OPTION_END},
	};

	return options_parse(argc, argv, options, &usage, 0, 0, NULL, error);
}

/* Parses exactly `n` decimal numbers, each above 0 and below 2^31, with `between` them. */
static int parse_numbers(const char *option, const char *text, size_t n, char between, uint64_t *numbers,
                         struct error *error)
{
	const char *at = text;

	for (size_t i = 0; i < n; i++) {
		char *end = NULL;

		errno = 0;
		numbers[i] = isdigit((unsigned char)*at) ? strtoull(at, &end, 10) : 0;
		if (numbers[i] == 0 || numbers[i] > INT32_MAX || errno != 0 || *end != (i + 1 < n ? between : '\0'))
			return fail(error, EXIT_USAGE, "engine: --%s: '%s' is not %zu numbers of at most %d with '%c' "
			            "between", option, text, n, INT32_MAX, between);
		at = end + 1;
	}
	return EXIT_OK;
}

static int parse_format(const char *where, const char *name, enum mxfp_format *format, struct error *error)
{
	char text[CHOICE_WORDS_TEXT];
	const char *names[CHOICES_MAX];

	if (mxfp_format_from_name(format, name) == MXFP_OK)
		return EXIT_OK;
	return nearest_fail(where, name, "known", names, choice_words(operand_formats, text, names), error);
}

static int find_chip(struct mxfp_engine_chip *chip, const char *name, struct error *error)
{
	const char *names[CHIPS_MAX];
	size_t n = 0;

	for (; n < CHIPS_MAX && mxfp_engine_get_chip((int)n) != NULL; n++) {
		*chip = *mxfp_engine_get_chip((int)n);
		chip->size = sizeof *chip;
		names[n] = mxfp_engine_get_chip((int)n)->name;
		if (strcmp(names[n], name) == 0)
			return EXIT_OK;
	}
	return nearest_fail("engine: --chip", name, "known", names, n, error);
}

/* Sets the chip, with the clock, bandwidth and cores that the options give. */
static int set_chip(struct engine_report *r, const struct settings *s, struct error *error)
{
	int code = find_chip(&r->chip, s->chip, error);

	if (code != EXIT_OK)
		return code;
	if (s->cores > r->chip.cores)
		return fail(error, EXIT_USAGE, "engine: --cores: %s has %u", r->chip.name, (unsigned)r->chip.cores);
	if (s->clock > UINT32_MAX || s->bandwidth > UINT32_MAX / 1000)
		return fail(error, EXIT_USAGE, "engine: --clock or --bandwidth is out of range");
	if (s->clock != 0)
		r->chip.clock_mhz = (uint32_t)s->clock;
	if (s->bandwidth != 0)
		r->chip.memory_mb_s = (uint32_t)s->bandwidth * 1000;
	r->cores = s->cores != 0 ? (unsigned)s->cores : r->chip.cores;
	return EXIT_OK;
}

static int set_formats(struct engine_report *r, const struct settings *s, struct error *error)
{
	uint64_t pattern[2] = {0, 0};
	int code = parse_format("engine: --activations", s->activations, &r->a, error);

	if (code == EXIT_OK)
		code = parse_format("engine: --weights", s->weights, &r->w, error);
	if (code == EXIT_OK && s->sparsity != NULL)
		code = parse_numbers("sparsity", s->sparsity, 2, ':', pattern, error);
	r->sparsity = (struct mxfp_sparsity){(unsigned)pattern[0], (unsigned)pattern[1]};
	r->c = s->result;
	if (code == EXIT_OK && s->run && s->sparsity != NULL)
		code = fail(error, EXIT_USAGE, "engine: --run computes dense products; leave --sparsity out");
	const bool plain = r->a == MXFP_FORMAT_E4M3 || r->a == MXFP_FORMAT_E5M2 || r->w == MXFP_FORMAT_E4M3 || r->w == MXFP_FORMAT_E5M2;
	if (code == EXIT_OK && s->run && plain)
		code = fail(error, EXIT_USAGE, "engine: --run: products of e4m3 and e5m2 without block scales are not computed here; give "
		            "mxfp8-e4m3 or mxfp8-e5m2, or leave --run out");
	if (code == EXIT_OK && s->svg != NULL && r->chip.rows == 0)
		code = fail(error, EXIT_USAGE, "engine: --svg: %s has no published geometry to draw", r->chip.name);
	return code;
}

static int set_routing(struct routing *routing, const struct settings *s, struct error *error)
{
	char *end;

	*routing = (struct routing){.tokens = s->tokens, .topk = s->topk, .seed = s->seed};
	routing->skew = strtod(s->skew, &end);
	if (end == s->skew || *end != '\0' || !(routing->skew >= 0 && routing->skew <= SKEW_MAX))
		return fail(error, EXIT_USAGE, "engine: --skew: '%s' is not a number from 0 to %d", s->skew, (int)SKEW_MAX);
	if (s->tokens > TOKENS_MAX)
		return fail(error, EXIT_USAGE, "engine: --batch: at most %d", (int)TOKENS_MAX);
	return EXIT_OK;
}

static int add_model(struct workload *workload, const struct settings *s, const struct routing *routing,
                     struct error *error)
{
	struct model model = {0};
	int code = model_open(&model, s->model, error);

	if (code == EXIT_OK)
		code = workload_add_model(workload, &model, routing, error);
	model_close(&model);
	return code;
}

static int make_workload(struct workload *workload, const struct settings *s, struct error *error)
{
	struct routing routing;
	struct workload_item item;
	uint64_t sizes[3];
	int code = set_routing(&routing, s, error);

	if (code == EXIT_OK && s->shapes.n == 0 && s->experts == 0 && s->model == NULL)
		code = fail(error, EXIT_USAGE, "engine: nothing to place; give --shape, --experts, --model or --layer");
	for (size_t i = 0; i < s->shapes.n && code == EXIT_OK; i++) {
		code = parse_numbers("shape", s->shapes.items[i], 3, ',', sizes, error);
		item = (struct workload_item){.m = (size_t)sizes[0], .n = (size_t)sizes[1], .k = (size_t)sizes[2]};
		if (code == EXIT_OK)
			code = workload_add(workload, s->shapes.items[i], &item, error);
	}
	if (code == EXIT_OK && s->experts != 0) {
		code = parse_numbers("expert-shape", s->expert_shape, 2, ',', sizes, error);
		item = (struct workload_item){.n = (size_t)sizes[0], .k = (size_t)sizes[1]};
		if (code == EXIT_OK)
			code = workload_add_experts(workload, "expert", s->experts, &item, &routing, error);
	}
	return code == EXIT_OK && s->model != NULL ? add_model(workload, s, &routing, error) : code;
}

/* Writes a picture of the report of products, or of a layer if that is not NULL. */
static int write_svg(struct output *output, const struct engine_report *r, const struct layer_report *layer,
                     struct error *error)
{
	char *text = NULL;
	size_t n = 0;
	FILE *file = open_memstream(&text, &n);

	if (file == NULL)
		return fail_memory(error);
	int code = EXIT_OK;
	if (layer != NULL)
		code = layer_svg(layer, file, error);
	else
		engine_svg(r, file);
	const bool complete = !ferror(file);
	if ((fclose(file) != 0 || !complete) && code == EXIT_OK)
		code = fail_memory(error);
	if (code == EXIT_OK)
		code = output_write_file(output_build(output), text, n, error);
	free(text);
	return code == EXIT_OK ? output_commit(output, error) : code;
}

static int show(const struct engine_report *r, const struct settings *s, struct output *output, struct error *error)
{
	int code = s->svg != NULL ? write_svg(output, r, NULL, error) : EXIT_OK;

	if (code != EXIT_OK)
		return code;
	if (!s->json)
		return engine_text(r, stdout, error);
	json_prepare();
	return facts_print(stdout, engine_json(r), error);
}

/* Sets what a layer's time line is made of. */
static int set_layer(struct layer_setup *setup, const struct settings *s, const struct engine_report *r,
                     struct error *error)
{
	char text[CHOICE_WORDS_TEXT];
	const char *names[CHOICES_MAX];
	const size_t n = choice_words(cache_formats, text, names);
	struct routing routing;
	size_t i = 0;
	int code = set_routing(&routing, s, error);

	if (code == EXIT_OK && (s->chips == 0 || s->chips > CHIPS_LINKED_MAX))
		code = fail(error, EXIT_USAGE, "engine: --chips: %llu is not from 1 to %d", (unsigned long long)s->chips,
		            (int)CHIPS_LINKED_MAX);
	while (i < n && strcmp(names[i], s->cache) != 0)
		i++;
	if (code == EXIT_OK && i == n)
		code = nearest_fail("engine: --cache", s->cache, "known", names, n, error);
	*setup = (struct layer_setup){
		.chip = r->chip, .cores = r->cores, .chips = (unsigned)s->chips, .tokens = s->tokens, .context = s->context,
		.sequences = s->sequences != 0 ? s->sequences : s->tokens, .a = r->a, .w = r->w, .routing = routing};
	if (code == EXIT_OK)
		code = parse_format("engine: --cache", s->cache, &setup->cache, error);
	return code == EXIT_OK ? decoder_find(&setup->decoder, s->layer, error) : code;
}

static int show_layer(const struct layer_report *layer, const struct settings *s, struct output *output,
                      struct error *error)
{
	int code = s->svg != NULL ? write_svg(output, NULL, layer, error) : EXIT_OK;

	if (code != EXIT_OK)
		return code;
	if (!s->json)
		return layer_text(layer, stdout, error);
	json_prepare();
	return facts_print(stdout, layer_json(layer), error);
}

/* Refuses a picture in place of what --layer reads: a file, or config.json of a directory. */
static int check_apart(const struct settings *s, struct error *error)
{
	const size_t n = strlen(s->layer) + sizeof "/" CONFIG_FILE;
	char *path = malloc(n);
	int code = output_check_apart(s->svg, s->layer, error);

	if (path == NULL)
		return fail_memory(error);
	snprintf(path, n, "%s/" CONFIG_FILE, s->layer);
	if (code == EXIT_OK)
		code = output_check_apart(s->svg, path, error);
	free(path);
	return code;
}

static int run_layer(const struct settings *s, struct error *error)
{
	static const char products_only[] = "products, and --layer shows a layer";
	struct engine_report products = {.chip = {.size = 0}};
	struct layer_report *layer = calloc(1, sizeof *layer);
	struct output output = {0};
	int code = layer == NULL ? fail_memory(error) : set_chip(&products, s, error);

	if (code == EXIT_OK)
		code = set_formats(&products, s, error);
	if (code == EXIT_OK)
		code = set_layer(&layer->setup, s, &products, error);
	const bool routes = code == EXIT_OK && layer->setup.decoder.experts != 0;
	const struct option_use uses[] = {
		{"shape", false, products_only},
		{"experts", false, products_only},
		{"expert-shape", false, products_only},
		{"model", false, products_only},
		{"topk", false, products_only},
		{"sparsity", false, products_only},
		{"result", false, products_only},
		{"cut", false, products_only},
		{"run", false, products_only},
		{"threads", false, products_only},
		{"skew", routes, "models with experts"},
		{"seed", routes, "models with experts"},
		{"force", s->svg != NULL, "--svg"},
		{NULL, true, NULL},
	};
	if (code == EXIT_OK)
		code = options_check_used(uses, error);
	if (code == EXIT_OK && s->svg != NULL)
		code = check_apart(s, error);
	if (code == EXIT_OK && s->svg != NULL)
		code = output_begin_file(&output, s->svg, s->force, error);
	if (code == EXIT_OK)
		code = layer_estimate(layer, error);
	if (code == EXIT_OK)
		code = show_layer(layer, s, &output, error);
	output_abandon(&output);
	if (layer != NULL)
		layer_time_free(&layer->time);
	free(layer);
	return code;
}

static int run_settings(const struct settings *s, struct error *error)
{
	static const char layer[] = "--layer", routing[] = "experts, and there are none";
	struct workload workload = {.cut = s->cut};
	struct engine_report report = {.workload = &workload, .exec = {.size = sizeof report.exec, .threads = s->threads}, .seed = s->seed};
	struct output output = {0};
	int code = set_chip(&report, s, error);

	if (code == EXIT_OK)
		code = set_formats(&report, s, error);
	if (code == EXIT_OK)
		code = make_workload(&workload, s, error);
	const struct option_use uses[] = {
		{"sequences", false, layer},
		{"context", false, layer},
		{"cache", false, layer},
		{"chips", false, layer},
		{"batch", s->experts != 0 || s->model != NULL, "--experts and --model"},
		{"expert-shape", s->experts != 0, "--experts"},
		{"topk", workload.routed, routing},
		{"skew", workload.routed, routing},
		{"seed", workload.routed || s->run, "experts and --run"},
		{"threads", s->run, "--run"},
		{"clock", report.chip.rows != 0, "chips whose geometry is published"},
		{"force", s->svg != NULL, "--svg"},
		{NULL, true, NULL},
	};
	if (code == EXIT_OK)
		code = options_check_used(uses, error);
	if (code == EXIT_OK && s->svg != NULL && s->model != NULL)
		code = output_check_apart(s->svg, s->model, error);
	if (code == EXIT_OK && s->svg != NULL)
		code = output_begin_file(&output, s->svg, s->force, error);
	if (code == EXIT_OK)
		code = engine_estimate(&report, error);
	if (code == EXIT_OK && s->run)
		code = engine_run(&report, error);
	if (code == EXIT_OK)
		code = show(&report, s, &output, error);
	output_abandon(&output);
	engine_free(&report);
	workload_free(&workload);
	return code;
}

static int run(int argc, char **argv, struct error *error)
{
	struct settings settings = defaults;
	const enum parsed parsed = parse(argc, argv, &settings, error);
	if (parsed != PARSED_RUN)
		return parsed_code(parsed);
	return settings.layer != NULL ? run_layer(&settings, error) : run_settings(&settings, error);
}

const struct command command_engine = {"engine", "estimate the time of products or of a layer on a chip", run};
