/* SPDX-License-Identifier: MIT */
/* mxfp blocks: converts rows of K raw numbers to a block format's codes and scales in two files, and back. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "io/block_stream.h"
#include "io/counts.h"
#include "io/facts.h"
#include "model/layout.h"
#include "mxfp.h"

struct blocks {
	struct block_stream stream;
	const char *amax, *tensor_scale; /* as typed, or NULL */
	bool decode, counts_wanted, json, force, quiet;
};

static const struct usage usage = {
	"blocks --to FORMAT --cols K [options] FILE CODES SCALES",
	"Quantizes raw little-endian numbers in rows of K to a block format, and writes\n"
	"packed codes to the file CODES and scales, one byte per block, to the file\n"
	"SCALES, both row by row. A row that is not a multiple of the block is padded\n"
	"with zeros. FILE may be - for standard input. For nvfp4 the tensor scale is\n"
	"printed, and FILE is read twice unless --amax gives its largest magnitude.\n"
	"With --decode the operands are CODES SCALES [OUT].",
	"  mxfp blocks --to mxfp4 --rule rceil --cols 64 w.f32 w.codes w.scales\n"
	"  mxfp blocks --to mxfp4 --cols 64 --decode w.codes w.scales back.f32",
};

static bool has_tensor_scale(const struct blocks *blocks)
{
	return mxfp_format_get_info(blocks->stream.format)->tensor_scale;
}

/* Prints the tensor scale even if not asked to, because decoding needs it. */
static void print_text(const struct block_stream *stream, const struct blocks *blocks)
{
	if (has_tensor_scale(blocks))
		printf("tensor scale %.9g (%s: --nvfp4-recipe %s)\n", (double)stream->tensor_scale,
		       stream->tensor_scale_divides ? "divides" : "multiplies",
		       mxfp_option_name(MXFP_OPTION_RECIPE, stream->recipe));
	if (blocks->counts_wanted)
		counts_print(stderr, stream->n, &stream->counts);
}

static json_t *facts(const struct block_stream *stream, bool tensor_scale)
{
	json_t *facts = json_pack("{s:s, s:I, s:I, s:o}", "format", mxfp_format_get_info(stream->format)->name, "rows",
	                          (json_int_t)(stream->n / stream->cols), "cols", (json_int_t)stream->cols, "counts",
	                          counts_facts(stream->n, &stream->counts));

	if (facts == NULL || !tensor_scale)
		return facts;
	if (json_object_update_new(facts, json_pack("{s:f, s:f, s:b, s:s}", "amax", (double)stream->amax, "tensor_scale",
	                                            (double)stream->tensor_scale, "tensor_scale_divides",
	                                            stream->tensor_scale_divides, "recipe",
	                                            mxfp_option_name(MXFP_OPTION_RECIPE, stream->recipe))) == 0)
		return facts;
	json_decref(facts);
	return NULL;
}

static int encode_open(struct blocks *blocks, const struct source *source, const struct sink sinks[2],
                       struct error *error)
{
	struct block_stream *stream = &blocks->stream;
	const bool two_passes = has_tensor_scale(blocks) && blocks->amax == NULL;
	int code = block_stream_begin(stream, error);

	if (code != EXIT_OK)
		return code;
	progress_start(&stream->progress, "quantizing", two_passes ? 2 * source->size : source->size, blocks->quiet);
	if (two_passes)
		code = block_stream_amax(stream, source, error);
	if (code == EXIT_OK)
		code = block_stream_encode(stream, source, sinks, error);
	progress_end(&stream->progress);
	block_stream_end(stream);
	return code;
}

static int encode(struct blocks *blocks, const char *const *operands, struct error *error)
{
	struct source source;
	struct sink sinks[2] = {{.fd = -1}, {.fd = -1}};
	int code = source_open(&source, operands[0], error);

	if (code != EXIT_OK)
		return code;
	for (int i = 0; i < 2 && code == EXIT_OK; i++)
		code = source_check_apart(&source, operands[1 + i], error);
	for (int i = 0; i < 2 && code == EXIT_OK; i++)
		code = sink_open(&sinks[i], operands[1 + i], blocks->force, error);
	if (code == EXIT_OK && output_same_name(&sinks[0].output, &sinks[1].output))
		code = fail(error, EXIT_USAGE, "blocks: '%s' is named for both codes and scales", operands[2]);
	if (code == EXIT_OK)
		code = encode_open(blocks, &source, sinks, error);
	if (code == EXIT_OK)
		code = sink_commit_pair(sinks, error);
	for (int i = 0; i < 2; i++)
		sink_end(&sinks[i]);
	source_close(&source);
	if (code != EXIT_OK)
		return code;
	if (blocks->json)
		return facts_print(stdout, facts(&blocks->stream, has_tensor_scale(blocks)), error);
	print_text(&blocks->stream, blocks);
	return EXIT_OK;
}

static int decode_open(struct blocks *blocks, const struct source sources[2], struct sink *sink, struct error *error)
{
	struct block_stream *stream = &blocks->stream;
	int code = block_stream_begin(stream, error);

	if (code != EXIT_OK)
		return code;
	progress_start(&stream->progress, "dequantizing", sources[0].size, blocks->quiet);
	code = block_stream_decode(stream, sources, sink, error);
	progress_end(&stream->progress);
	block_stream_end(stream);
	return code == EXIT_OK ? sink_commit(sink, error) : code;
}

static int decode(struct blocks *blocks, const char *const *operands, struct error *error)
{
	struct source sources[2] = {{.fd = -1}, {.fd = -1}};
	struct sink sink = {.fd = -1};
	int code = EXIT_OK;

	for (int i = 0; i < 2 && code == EXIT_OK; i++)
		code = source_open(&sources[i], operands[i], error);
	for (int i = 0; i < 2 && code == EXIT_OK; i++)
		code = source_check_apart(&sources[i], operands[2], error);
	if (code == EXIT_OK)
		code = sink_open(&sink, operands[2], blocks->force, error);
	if (code == EXIT_OK)
		code = decode_open(blocks, sources, &sink, error);
	sink_end(&sink);
	for (int i = 0; i < 2; i++)
		source_close(&sources[i]);
	return code;
}

static int take_float(const char *option, const char *text, float *value, struct error *error)
{
	char *end;

	*value = strtof(text, &end);
	if (end == text || *end != '\0' || !isfinite(*value) || signbit(*value))
		return fail(error, EXIT_USAGE, "blocks: %s: '%s' is not a finite positive binary32 number", option, text);
	return EXIT_OK;
}

/* Parses --amax and --tensor-scale. The library knows which recipes divide by the tensor scale. */
static int take_tensor_scale(struct blocks *blocks, struct error *error)
{
	struct block_stream *stream = &blocks->stream;
	int code = EXIT_OK;

	if (!has_tensor_scale(blocks))
		return blocks->amax == NULL && blocks->tensor_scale == NULL
		               ? EXIT_OK
		               : fail(error, EXIT_USAGE, "blocks: %s: %s has no tensor scale",
		                      blocks->amax != NULL ? "--amax" : "--tensor-scale",
		                      mxfp_format_get_info(stream->format)->name);
	/* Nothing in the files says either, and with the other recipe a scale that divides would multiply. */
	if (blocks->decode && ((blocks->amax == NULL && blocks->tensor_scale == NULL) || !options_given("nvfp4-recipe")))
		return fail(error, EXIT_USAGE,
		            "blocks: --decode of %s needs --tensor-scale and --nvfp4-recipe as encoding printed them",
		            mxfp_format_get_info(stream->format)->name);
	if (blocks->amax != NULL)
		code = take_float("--amax", blocks->amax, &stream->amax, error);
	if (code == EXIT_OK)
		code = block_stream_tensor_scale(stream, error);
	if (code == EXIT_OK && blocks->tensor_scale != NULL)
		code = take_float("--tensor-scale", blocks->tensor_scale, &stream->tensor_scale, error);
	return code;
}

/* Checks what the option table cannot. */
static int check(struct blocks *blocks, const char *const *operands, struct error *error)
{
	const struct block_stream *stream = &blocks->stream;

	if (stream->format == OPTION_FORMAT_NONE)
		return fail(error, EXIT_USAGE, "blocks: --to FORMAT is missing; mxfp blocks --help lists the formats");
	if (stream->cols == OPTION_UNSIGNED_NONE || stream->cols == 0)
		return fail(error, EXIT_USAGE, "blocks: --cols K, the length of a row, is missing or 0");
	if (!blocks->decode && operands[2] == NULL)
		return fail(error, EXIT_USAGE, "blocks: too few operands: FILE CODES SCALES are needed");
	if (!blocks->decode && (strcmp(operands[1], "-") == 0 || strcmp(operands[2], "-") == 0))
		return fail(error, EXIT_USAGE, "blocks: codes and scales go to two files, not to standard output");
	if (blocks->decode && strcmp(operands[0], operands[1]) == 0)
		return fail(error, EXIT_USAGE, "blocks: '%s' is named for both codes and scales", operands[1]);
	if (has_tensor_scale(blocks) && stream->via_bf16)
		return fail(error, EXIT_USAGE, "blocks: --via-bf16: is for the MX formats; leave it out for %s",
		            mxfp_format_get_info(stream->format)->name);
	return take_tensor_scale(blocks, error);
}

/* Refuses options that this run would ignore. */
static int check_used(const struct blocks *blocks, struct error *error)
{
	static const char encoding[] = "quantizing, not for --decode";
	const bool encodes = !blocks->decode, random = blocks->stream.round == MXFP_ROUND_SR;
	const struct recipe_uses format = {.rule = !has_tensor_scale(blocks), .nvfp4_recipe = has_tensor_scale(blocks)};
	const struct option_use uses[] = {
		{"rule", encodes, encoding},       {"round", encodes, encoding},
		{"non-finite", encodes, encoding}, {"no-negative-zero", encodes, encoding},
		{"via-bf16", encodes, encoding},   {"counts", encodes, encoding},
		{"json", encodes, encoding},       {"tensor-scale", blocks->decode, "--decode; --amax sets it when quantizing"},
		{"via-bf16", blocks->stream.number_format != MXFP_FORMAT_BF16, "numbers that are not bf16"},
		{"amax", encodes || blocks->tensor_scale == NULL, "a tensor scale that --tensor-scale does not give"},
		{"seed", encodes && random, "--round sr"}, {"stream", encodes && random, "--round sr"},
		{NULL, true, NULL},
	};
	int code = options_check_used(uses, error);

	return code == EXIT_OK ? options_check_weights(&format, error) : code;
}

static int run(int argc, char **argv, struct error *error)
{
	struct blocks blocks = {
		.stream.counts.size = sizeof(struct mxfp_counts),
		.stream.format = OPTION_FORMAT_NONE,
		.stream.number_format = MXFP_FORMAT_F32,
		.stream.cols = OPTION_UNSIGNED_NONE,
		.stream.recipe = (int)layouts[0]->recipe,
	};
	struct block_stream *s = &blocks.stream;
	const struct option_spec options[] = {
		{"to", 't', OPTION_BLOCK, "FORMAT", "block format", &s->format},
		{"cols", 'k', OPTION_UNSIGNED, "K", "numbers per row", &s->cols},
		{"from", 0, OPTION_ELEMENT, "f32|bf16|f16", "format of the numbers",
		 &s->number_format},
		{"decode", 'd', OPTION_FLAG, NULL, "read codes and scales, write numbers", &blocks.decode},
		{"rule", 'r', OPTION_RULE, "RULE", "scale rule of the MX formats", &s->rule},
		{"nvfp4-recipe", 0, OPTION_RECIPE, "RECIPE", "how nvfp4 scales are computed", &s->recipe},
		{"amax", 0, OPTION_STRING, "X", "nvfp4: largest magnitude of the tensor", &blocks.amax},
		{"tensor-scale", 0, OPTION_STRING, "X", "nvfp4 with --decode: the tensor scale",
		 &blocks.tensor_scale},
		{"round", 0, OPTION_ROUND, "MODE", "rounding of the elements", &s->round},
		{"non-finite", 0, OPTION_NON_FINITE, "POLICY", "treatment of blocks with NaN or Inf", &s->non_finite},
		{"seed", 0, OPTION_UNSIGNED, "N", "seed of --round sr", &s->seed},
		{"stream", 0, OPTION_UNSIGNED, "N", "words 2 and 3 of the counter of --round sr: one N per tensor",
		 &s->stream_number},
		{"no-negative-zero", 0, OPTION_FLAG, NULL, "write +0 for -0 and for negative numbers that round to zero",
		 &s->no_negative_zero},
		{"via-bf16", 0, OPTION_FLAG, NULL, "round each number to bf16 first: Trainium3 quantizes bf16 and f16 alone",
		 &s->via_bf16},
		{"threads", 0, OPTION_THREADS, "N",
		 "use at most this many threads, 0: one per processor; does not affect the output", &s->threads},
		{"counts", 0, OPTION_FLAG, NULL, "print on stderr how many numbers saturated, overflowed, "
		 "were flushed to zero, and were NaN or Inf", &blocks.counts_wanted},
		{"json", 0, OPTION_FLAG, NULL, "print the tensor scale and the counts as JSON", &blocks.json},
		{"force", 'f', OPTION_FLAG, NULL, "replace existing outputs", &blocks.force},
		{"quiet", 'q', OPTION_FLAG, NULL, "do not print progress", &blocks.quiet},
		{.kind = OPTION_END},
	};
	const char *operands[3] = {NULL, NULL, NULL};
	int code;

	const enum parsed parsed = options_parse(argc, argv, options, &usage, 2, 3, operands, error);
	if (parsed != PARSED_RUN)
		return parsed_code(parsed);
	code = check(&blocks, operands, error);
	if (code == EXIT_OK)
		code = check_used(&blocks, error);
	if (code != EXIT_OK)
		return code;
	return blocks.decode ? decode(&blocks, operands, error) : encode(&blocks, operands, error);
}

const struct command command_blocks = {"blocks", "convert raw numbers to block codes and scales and back", run};
