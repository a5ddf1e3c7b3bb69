/* SPDX-License-Identifier: MIT */
/* mxfp cast: converts a stream of raw numbers from one element format to another, in bounded memory. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/byte_order.h"
#include "base/infinity.h"
#include "base/progress.h"
#include "cli/commands.h"
#include "io/counts.h"
#include "io/facts.h"
#include "io/stream.h"
#include "mxfp.h"

/* The most numbers converted at a time: enough for every thread, in 2 MiB of buffers. */
enum { PIECE = 1 << 18 };

struct cast {
	/* The options. */
	enum mxfp_format to, from;
	int round, overflow;
	uint64_t seed, stream;
	unsigned threads;
	bool no_negative_zero, decode, counts_wanted, json, force, quiet;
	const char *output_path;
	/* The work. */
	enum mxfp_format src_format, dst_format; /* from and to, or the other way round when decoding */
	struct source source;
	struct sink sink;
	uint64_t n;
	struct mxfp_counts counts;
	struct progress progress;
};

static const struct usage usage = {
	"cast --to FORMAT [options] [FILE [OUT]]",
	"Converts a stream of raw little-endian numbers in the format --from to codes in\n"
	"the format --to, or back with --decode. A code of at most 8 bits takes one byte,\n"
	"bf16 and f16 two, f32 and tf32 four. FILE and OUT are files, or -, the default,\n"
	"for standard input and output.",
	"  printf '\\0\\0\\350\\103' | mxfp cast --to e4m3 | xxd    # 464.0 -> 7e\n"
	"  mxfp cast --to e4m3 --decode codes.bin numbers.bin",
};

/* Whether --overflow sat is asked of a format in which the library rounds what is too large to Inf. */
static bool replaces_infinity(const struct cast *cast)
{
	return cast->overflow == MXFP_OVERFLOW_SAT && mxfp_format_get_info(cast->dst_format)->storage_bytes > 1;
}

static int convert_piece(struct cast *cast, const void *src, void *dst, size_t n, struct error *error)
{
	const struct mxfp_convert_options options = {
		.size = sizeof options, .round = (enum mxfp_round)cast->round,
		.overflow = cast->overflow == MXFP_OVERFLOW_OVF ? MXFP_OVERFLOW_OVF : MXFP_OVERFLOW_SAT,
		.no_negative_zero = cast->no_negative_zero,
		.seed = cast->seed,
		.stream = cast->stream,
		.first_index = cast->n,
	};
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = cast->threads};
	const struct mxfp_matrix from = mxfp_numbers(cast->src_format, 1, n, src);
	struct mxfp_result to = mxfp_to_numbers(cast->dst_format, dst);

	to.counts = &cast->counts;
	enum mxfp_status status = mxfp_convert(&to, &from, &options, &exec);

	if (status != MXFP_OK)
		return fail(error, EXIT_INPUT, "%s: number %" PRIu64 ": %s", cast->source.name, cast->n,
		            mxfp_status_text(status));
	for (size_t i = 0; replaces_infinity(cast) && i < n; i++)
		infinity_replace(cast->dst_format, dst, i, true);
	cast->n += n;
	return EXIT_OK;
}

/* Converts until the input ends. Writes what has arrived at once, so that a slow pipe is never held up. */
static int cast_stream(struct cast *cast, uint8_t *src, uint8_t *dst, struct error *error)
{
	const unsigned src_bytes = mxfp_format_get_info(cast->src_format)->storage_bytes;
	const unsigned dst_bytes = mxfp_format_get_info(cast->dst_format)->storage_bytes;
	size_t held = 0, got; /* bytes of a number whose rest has not arrived yet */

	for (;;) {
		int code = source_read(&cast->source, src + held, (size_t)PIECE * src_bytes - held, &got, error);
		if (code != EXIT_OK)
			return code;
		if (got == 0)
			break;
		held += got;
		size_t n = held / src_bytes;
		little_endian(src, n, src_bytes);
		code = convert_piece(cast, src, dst, n, error);
		if (code != EXIT_OK)
			return code;
		little_endian(dst, n, dst_bytes);
		code = sink_write(&cast->sink, dst, n * dst_bytes, error);
		if (code != EXIT_OK)
			return code;
		held -= n * src_bytes;
		memmove(src, src + n * src_bytes, held);
		progress_add(&cast->progress, got);
	}
	if (held != 0)
		return fail(error, EXIT_INPUT,
		            "%s: %" PRIu64 " bytes are not a whole number of %s words of %u bytes: %zu left over",
		            cast->source.name, cast->n * src_bytes + held, mxfp_format_get_info(cast->src_format)->name,
		            src_bytes, held);
	return EXIT_OK;
}

static int cast_all(struct cast *cast, struct error *error)
{
	uint8_t *src = malloc((size_t)PIECE * mxfp_format_get_info(cast->src_format)->storage_bytes);
	uint8_t *dst = malloc((size_t)PIECE * mxfp_format_get_info(cast->dst_format)->storage_bytes);
	int code;

	progress_start(&cast->progress, "casting", cast->source.size, cast->quiet);
	code = src != NULL && dst != NULL ? cast_stream(cast, src, dst, error) : fail_memory(error);
	progress_end(&cast->progress);
	if (code == EXIT_OK)
		code = sink_commit(&cast->sink, error);
	free(src);
	free(dst);
	return code;
}

/* Prints the counts to stderr, since the numbers may go to stdout. */
static int print_counts(struct cast *cast, struct error *error)
{
	if (replaces_infinity(cast)) {
		cast->counts.saturated = cast->counts.overflowed + cast->counts.inf;
		cast->counts.overflowed = 0;
	}
	if (cast->json)
		return facts_print(stderr, counts_facts(cast->n, &cast->counts), error);
	if (cast->counts_wanted)
		counts_print(stderr, cast->n, &cast->counts);
	return EXIT_OK;
}

static int run_cast(struct cast *cast, const char *input, struct error *error)
{
	int code = source_open(&cast->source, input, error);

	if (code != EXIT_OK)
		return code;
	code = source_check_apart(&cast->source, cast->output_path, error);
	if (code == EXIT_OK)
		code = sink_open(&cast->sink, cast->output_path, cast->force, error);
	if (code == EXIT_OK)
		code = cast_all(cast, error);
	sink_end(&cast->sink);
	source_close(&cast->source);
	return code == EXIT_OK ? print_counts(cast, error) : code;
}

/* Checks what the option table cannot, and decides the direction. */
static int check(struct cast *cast, const char *output, struct error *error)
{
	if (cast->to == OPTION_FORMAT_NONE)
		return fail(error, EXIT_USAGE, "cast: --to FORMAT is missing; mxfp cast --help lists the formats");
	if (output != NULL && cast->output_path != NULL)
		return fail(error, EXIT_USAGE, "cast: two outputs: '%s' and --output '%s'", output, cast->output_path);
	if (output != NULL)
		cast->output_path = output;
	cast->src_format = cast->decode ? cast->to : cast->from;
	cast->dst_format = cast->decode ? cast->from : cast->to;
	return EXIT_OK;
}

enum { SAMPLES = 1 << 16 };

/* Fills in codes of the source: all of at most 16 bits; of others numbers that round, overflow or vanish in any smaller
   format, with both signs. */
static size_t make_samples(uint32_t samples[SAMPLES], const struct mxfp_format_info *info)
{
	static const uint32_t numbers[] = {0, 1, 0x3f800001, 0x3f801fff, 0x7f7fffff, 0x7f800000};
	const uint32_t mask = ~(uint32_t)0 << (32 - (info->bits < 32 ? info->bits : 32));
	size_t n = 0;

	for (uint32_t code = 0; info->storage_bytes == 1 && code < 1U << info->bits; code++)
		((uint8_t *)samples)[n++] = (uint8_t)code;
	for (uint32_t code = 0; info->storage_bytes == 2 && code < 1U << info->bits; code++)
		((uint16_t *)samples)[n++] = (uint16_t)code;
	for (size_t i = 0; info->storage_bytes == 4 && i < sizeof numbers / sizeof numbers[0]; i++) {
		/* The least bit that a format of fewer than 32 bits has, instead of one below it. */
		samples[n++] = (numbers[i] & mask) | (i < 3 && i > 0 && mask != UINT32_MAX ? ~mask + 1 : 0);
		samples[n] = samples[n - 1] | 0x80000000;
		n++;
	}
	return n;
}

/* Whether two ways of converting differ for some number. */
static bool differ(const struct cast *cast, const struct mxfp_convert_options *a, const struct mxfp_convert_options *b)
{
	static uint32_t samples[SAMPLES], results[2][SAMPLES];
	const size_t n = make_samples(samples, mxfp_format_get_info(cast->src_format));

	memset(results, 0, sizeof results);
	return mxfp_convert_array(results[0], cast->dst_format, samples, cast->src_format, n, a, NULL) != MXFP_OK ||
	       mxfp_convert_array(results[1], cast->dst_format, samples, cast->src_format, n, b, NULL) != MXFP_OK ||
	       memcmp(results[0], results[1], sizeof results[0]) != 0;
}

/* Whether some number is too large for the format that is written, or Inf becomes a number there. */
static bool exceeds(const struct cast *cast)
{
	static uint32_t samples[SAMPLES], results[SAMPLES];
	const struct mxfp_matrix from =
		mxfp_numbers(cast->src_format, 1, make_samples(samples, mxfp_format_get_info(cast->src_format)), samples);
	struct mxfp_result to = mxfp_to_numbers(cast->dst_format, results);
	struct mxfp_counts counts = {.size = sizeof counts};

	to.counts = &counts;
	return mxfp_convert(&to, &from, NULL, NULL) != MXFP_OK || counts.saturated + counts.overflowed != 0;
}

/* Refuses options that this conversion would ignore. */
static int check_used(const struct cast *cast, struct error *error)
{
	const struct mxfp_convert_options up = {.size = sizeof up, .round = MXFP_ROUND_RTP}, down = {.size = sizeof down, .round = MXFP_ROUND_RTN};
	const struct mxfp_convert_options plain = {.size = sizeof plain, .no_negative_zero = false}, unsigned_zero = {.size = sizeof unsigned_zero, .no_negative_zero = true};
	const bool rounds = differ(cast, &up, &down), random = rounds && cast->round == MXFP_ROUND_SR;
	const struct mxfp_format_info *from = mxfp_format_get_info(cast->src_format), *to = mxfp_format_get_info(cast->dst_format);
	char rounding[128], range[128];

	snprintf(rounding, sizeof rounding, "conversions that round, and no number of %s lies between two of %s", from->name, to->name);
	snprintf(range, sizeof range, "formats with a smaller range, and no number of %s is too large for %s", from->name, to->name);
	const struct option_use uses[] = {
		{"round", rounds, rounding},
		{"overflow", exceeds(cast), range},
		{"seed", random, "--round sr"},
		{"stream", random, "--round sr"},
		{"no-negative-zero", differ(cast, &plain, &unsigned_zero), "conversions that make -0"},
		{NULL, true, NULL},
	};

	if (cast->overflow == MXFP_OVERFLOW_OVF && to->special == MXFP_SPECIAL_NONE)
		return fail(error, EXIT_USAGE, "cast: --overflow ovf: %s has neither Inf nor NaN; numbers that are too large become its "
		            "largest (sat)", to->name);
	return options_check_used(uses, error);
}

static int run(int argc, char **argv, struct error *error)
{
	struct cast cast = {.counts = {.size = sizeof cast.counts}, .to = OPTION_FORMAT_NONE, .from = MXFP_FORMAT_F32, .overflow = OPTION_CHOICE_NONE, .sink.fd = -1};
	const struct option_spec options[] = {
		{"to", 't', OPTION_ELEMENT, "FORMAT", "format of the codes", &cast.to},
		{"from", 0, OPTION_ELEMENT, "FORMAT", "format of the numbers", &cast.from},
		{"decode", 'd', OPTION_FLAG, NULL, "read codes and write numbers", &cast.decode},
		{"round", 0, OPTION_ROUND, "MODE", "rounding mode", &cast.round},
		{"overflow", 0, OPTION_OVERFLOW, "MODE", "numbers that are too large, and Inf, become the largest (sat), or Inf or NaN (ovf); default: "
		 "sat, but ovf in bf16, f16 and tf32", &cast.overflow},
		{"seed", 0, OPTION_UNSIGNED, "N", "seed of --round sr", &cast.seed},
		{"stream", 0, OPTION_UNSIGNED, "N", "words 2 and 3 of the counter of --round sr: one N per tensor",
		 &cast.stream},
		{"no-negative-zero", 0, OPTION_FLAG, NULL, "write +0 for -0 and for negative numbers that round to zero",
		 &cast.no_negative_zero},
		{"threads", 0, OPTION_THREADS, "N",
		 "use at most this many threads, 0: one per processor; does not affect the output", &cast.threads},
		{"counts", 0, OPTION_FLAG, NULL, "print on stderr how many numbers saturated, overflowed, "
		 "were flushed to zero, and were NaN or Inf", &cast.counts_wanted},
		{"json", 0, OPTION_FLAG, NULL, "print the counts as JSON", &cast.json},
		{"output", 'o', OPTION_STRING, "OUT", "the same as naming OUT after FILE", &cast.output_path},
		{"force", 'f', OPTION_FLAG, NULL, "replace OUT if it exists", &cast.force},
		{"quiet", 'q', OPTION_FLAG, NULL, "do not print progress", &cast.quiet},
		{.kind = OPTION_END},
	};
	const char *operands[2] = {NULL, NULL};
	int code;

	const enum parsed parsed = options_parse(argc, argv, options, &usage, 0, 2, operands, error);
	if (parsed != PARSED_RUN)
		return parsed_code(parsed);
	code = check(&cast, operands[1], error);
	if (code == EXIT_OK)
		code = check_used(&cast, error);
	return code == EXIT_OK ? run_cast(&cast, operands[0], error) : code;
}

const struct command command_cast = {"cast", "convert raw numbers to element codes and back", run};
