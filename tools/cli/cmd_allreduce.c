/* SPDX-License-Identifier: MIT */
/* mxfp allreduce: sums numbers of all ranks with a payload of few bits, and measures error, bytes and time. */
#include "config.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/nearest.h"
#include "base/table.h"
#include "cli/commands.h"
#include "collective/allreduce.h"
#include "io/facts.h"
#include "io/json.h"
#include "model/choices.h"
#include "quantize/ranks.h"

enum { TIMEOUT_MAX = 86400 };

/* The command line. */
struct settings {
	struct string_list payloads;
	uint64_t ranks, numbers, steps, seed, timeout;
	int rule, round;
	unsigned threads;
	bool feedback, json;
	const char *files[RANKS_MAX + 1]; /* ends with NULL */
	size_t n_files;
};

static const struct settings defaults = {
	.ranks = 4, .numbers = 1 << 20, .steps = 1, .timeout = 60, .rule = MXFP_RULE_RCEIL, .threads = 1,
};

/* Without --payload these are sent. */
static const char *const usual_payloads[] = {"f32", "bf16", "mxfp8-e4m3"};
enum { N_USUAL_PAYLOADS = sizeof usual_payloads / sizeof usual_payloads[0] };

/* Whether something is sent that rounds, or only that has a scale rule. A name that is not known counts: it is refused when it
   is read. */
static bool has_payload(const struct settings *s, bool rounds)
{
	const char *const *names = s->payloads.n != 0 ? s->payloads.items : usual_payloads;
	const size_t n = s->payloads.n != 0 ? s->payloads.n : N_USUAL_PAYLOADS;
	enum mxfp_format format;

	for (size_t i = 0; i < n; i++)
		if (mxfp_format_from_name(&format, names[i]) != MXFP_OK || mxfp_format_get_info(format)->kind == MXFP_KIND_BLOCK ||
		    (rounds && format != MXFP_FORMAT_F32))
			return true;
	return false;
}

static enum parsed parse(int argc, char **argv, struct settings *s, struct error *error)
{
	static const struct usage usage = {
		"allreduce [options] [FILE...]",
		"Sums numbers of all ranks, on every rank with the same bits, by reduce-scatter\n"
		"and all-gather with a payload of few bits, and prints what that costs: the error\n"
		"against sums in binary64, the bytes that a rank sends, the time. Ranks are the\n"
		"processes of mxfp-mpi that mpirun has started, else members of this\n"
		"process. FILE or FILE:TENSOR, one a rank, are the numbers; without, they are\n"
		"made, a mean that all ranks share and noise, as gradients are.",
		"  mxfp allreduce --steps 16 --error-feedback\n"
		"  mpirun -n 4 mxfp-mpi allreduce --payload mxfp8-e4m3 --payload mxfp4",
	};
	const struct option_spec options[] = {
		{"payload", 0, OPTION_LIST, "FORMAT|f32|bf16",
		 "what is sent; may be repeated (default f32, bf16, mxfp8-e4m3)", &s->payloads},
		{"error-feedback", 0, OPTION_FLAG, NULL, "add the error of encoding to the numbers of the next step",
		 &s->feedback},
		{"steps", 0, OPTION_UNSIGNED, "N", "number of steps", &s->steps},
		{"numbers", 0, OPTION_UNSIGNED, "N", "numbers of a rank, if no files are given", &s->numbers},
		{"ranks", 0, OPTION_UNSIGNED, "N", "ranks, without mpirun and files", &s->ranks},
		{"rule", 'r', OPTION_RULE, "RULE", "scale rule of MX payloads", &s->rule},
		{"round", 0, OPTION_ROUND, "MODE", "rounding of payloads", &s->round},
		{"seed", 0, OPTION_UNSIGNED, "N", "seed of the numbers and of --round sr", &s->seed},
		{"timeout", 0, OPTION_UNSIGNED, "SECONDS", "give up if a rank does not answer for so long", &s->timeout},
		{"threads", 0, OPTION_THREADS, "N",
		 "use at most this many threads a process, 0: one per processor; does not affect the results", &s->threads},
		{"json", 0, OPTION_FLAG, NULL, "print JSON", &s->json},
		{.kind = OPTION_END},
	};
	const enum parsed parsed = options_parse(argc, argv, options, &usage, 0, RANKS_MAX, s->files, error);

	if (parsed != PARSED_RUN)
		return parsed;
	while (s->n_files < RANKS_MAX && s->files[s->n_files] != NULL)
		s->n_files++;
	const bool rounds = has_payload(s, true);
	const struct option_use uses[] = {
		{"rule", has_payload(s, false), "MX payloads"},
		{"round", rounds, "payloads of fewer bits than f32"},
		{"seed", s->n_files == 0 || (rounds && s->round == MXFP_ROUND_SR), "numbers that are made, and --round sr"},
		{"timeout", ranks_started(), "ranks that mpirun starts"},
		{"numbers", s->n_files == 0, "numbers that are made, not read from files"},
		{"ranks", s->n_files == 0 && !ranks_started(), "ranks without mpirun and files"},
		{"error-feedback", s->steps != 1, "--steps of 2 or more"},
		{"error-feedback", rounds, "payloads of fewer bits than f32"},
		{NULL, false, NULL},
	};
	return options_check_used(uses, error) == EXIT_OK ? PARSED_RUN : PARSED_ERROR;
}

static int check_range(const char *option, uint64_t value, uint64_t least, uint64_t most, struct error *error)
{
	if (value >= least && value <= most)
		return EXIT_OK;
	return fail(error, EXIT_USAGE, "allreduce: --%s: %" PRIu64 " is not a number from %" PRIu64 " to %" PRIu64, option,
	            value, least, most);
}

static int add_payload(struct allreduce *a, const char *name, struct error *error)
{
	enum mxfp_format format;

	if (mxfp_format_from_name(&format, name) != MXFP_OK || !allreduce_has(format))
		return fail(error, EXIT_USAGE, "allreduce: --payload: '%.100s' is not f32, bf16 or an MX format, which have no "
		            "scale for the whole tensor; mxfp info lists them", name);
	if (a->n_rows == PAYLOADS_MAX)
		return fail(error, EXIT_USAGE, "allreduce: --payload: at most %d", (int)PAYLOADS_MAX);
	a->rows[a->n_rows++].format = format;
	return EXIT_OK;
}

static int set_payloads(struct allreduce *a, const struct settings *s, struct error *error)
{
	const char *const *names = s->payloads.n != 0 ? s->payloads.items : usual_payloads;
	const size_t n = s->payloads.n != 0 ? s->payloads.n : N_USUAL_PAYLOADS;
	int code = EXIT_OK;

	for (size_t i = 0; i < n && code == EXIT_OK; i++)
		code = add_payload(a, names[i], error);
	return code;
}

/* Who takes part: mpirun's processes, or members of this one. */
static int set_ranks(struct allreduce *a, const struct settings *s, struct error *error)
{
	a->exchange.apart = ranks_number() > 1;
	a->exchange.n_ranks = ranks_number();
	if (a->exchange.n_ranks > RANKS_MAX)
		return fail(error, EXIT_USAGE, "allreduce: mpirun has started %u ranks; at most %d can be", a->exchange.n_ranks,
		            (int)RANKS_MAX);
	if (!a->exchange.apart)
		a->exchange.n_ranks = s->n_files != 0 ? (unsigned)s->n_files : (unsigned)s->ranks;
	if (s->n_files == 0 || s->n_files == a->exchange.n_ranks)
		return EXIT_OK;
	return fail(error, EXIT_USAGE, "allreduce: %zu files for the %u ranks of mpirun; give one for each", s->n_files,
	            a->exchange.n_ranks);
}

static int set_up(struct allreduce *a, const struct settings *s, struct error *error)
{
	int code = check_range("ranks", s->ranks, 1, RANKS_MAX, error);

	if (code == EXIT_OK)
		code = check_range("numbers", s->numbers, 1, NUMBERS_MAX, error);
	if (code == EXIT_OK)
		code = check_range("steps", s->steps, 1, STEPS_MAX, error);
	if (code == EXIT_OK)
		code = check_range("timeout", s->timeout, 1, TIMEOUT_MAX, error);
	if (code == EXIT_OK)
		code = set_ranks(a, s, error);
	a->exchange.timeout = (double)s->timeout;
	a->n = (size_t)s->numbers;
	a->steps = (unsigned)s->steps;
	a->seed = s->seed;
	a->feedback = s->feedback;
	a->rule = (enum mxfp_rule)s->rule;
	a->round = (enum mxfp_round)s->round;
	a->exec = (struct mxfp_exec){.size = sizeof a->exec, .threads = s->threads};
	a->files = s->n_files != 0 ? s->files : NULL;
	return code == EXIT_OK ? set_payloads(a, s, error) : code;
}

/* A cell of a table: "-" for what there is not. */
static void number_cell(struct table *table, const char *format, double x)
{
	char text[64];

	snprintf(text, sizeof text, format, x);
	table_cell(table, "%s", isnan(x) ? "-" : text);
}

static void print_head(const struct allreduce *a)
{
	const bool alone = a->exchange.n_ranks == 1;

	printf("%u rank%s, %s, %zu number%s%s%s, %u step%s%s, rule %s, rounding %s\n\n", a->exchange.n_ranks,
	       alone ? "" : "s",
	       a->exchange.apart ? "processes of mpirun" : alone ? "in this process" : "members of this process", a->n,
	       a->n == 1 ? "" : "s", alone ? "" : " each",
	       a->files == NULL ? ": a mean and noise, standard normal" : alone ? " from a file" : " from files", a->steps,
	       a->steps == 1 ? "" : "s", a->feedback ? " with error feedback" : "",
	       mxfp_option_name(MXFP_OPTION_RULE, (int)a->rule), mxfp_option_name(MXFP_OPTION_ROUND, (int)a->round));
}

/* Says what the table does not count, or cannot. */
static void print_not_finite(const struct allreduce *a)
{
	for (size_t i = 0; i < a->n_rows; i++) {
		const struct allreduce_errors *e = &a->rows[i].step;

		if (e->not_finite > 0)
			printf("%s: %" PRIu64 " of %" PRIu64 " results %s Inf or NaN, but their sums in binary64 are finite: an "
			       "infinite error.\n", mxfp_format_get_info(a->rows[i].format)->name, e->not_finite,
			       e->compared + e->excluded, e->not_finite == 1 ? "is" : "are");
	}
	/* The same for every payload. */
	if (a->rows[0].step.excluded > 0)
		printf("Without %" PRIu64 " of %" PRIu64 " results, to whose sums a rank gave Inf or NaN.\n",
		       a->rows[0].step.excluded, a->rows[0].step.compared + a->rows[0].step.excluded);
}

static int show_text(const struct allreduce *a, struct error *error)
{
	struct table table = {.n_columns = 8, .n_left = 1};
	const char *const headings[] = {
		"payload", "bytes/rank", "of f32", "SQNR dB, a step", "all steps", "rel. error, a step", "all steps", "ms/step",
	};

	print_head(a);
	const uint64_t f32 = allreduce_bytes(a, MXFP_FORMAT_F32); /* 0 of one rank */

	for (size_t i = 0; i < sizeof headings / sizeof headings[0]; i++)
		table_cell(&table, "%s", headings[i]);
	for (size_t i = 0; i < a->n_rows; i++) {
		const struct allreduce_row *row = &a->rows[i];

		table_cell(&table, "%s", mxfp_format_get_info(row->format)->name);
		table_cell(&table, "%" PRIu64, row->bytes);
		number_cell(&table, "%.4f", f32 == 0 ? (double)NAN : (double)row->bytes / (double)f32);
		number_cell(&table, "%.2f", allreduce_sqnr(&row->step));
		number_cell(&table, "%.2f", allreduce_sqnr(&row->total));
		number_cell(&table, "%.4g", allreduce_relative_error(&row->step));
		number_cell(&table, "%.4g", allreduce_relative_error(&row->total));
		table_cell(&table, "%.3f", 1e3 * row->seconds);
	}
	int code = table_print(&table, stdout, error);
	if (code != EXIT_OK)
		return code;
	print_not_finite(a);
	printf("The results of all ranks have the same bits, XXH3-64:");
	for (size_t i = 0; i < a->n_rows; i++)
		printf("%s %s %016" PRIx64, i == 0 ? "" : ",", mxfp_format_get_info(a->rows[i].format)->name, a->rows[i].hash);
	printf("\n");
	return EXIT_OK;
}

static json_t *errors_facts(const struct allreduce_errors *e)
{
	return json_pack("{s:o, s:o, s:o, s:I, s:I, s:I}", "sqnr_db", facts_number(allreduce_sqnr(e)), "relative_error",
	                 facts_number(allreduce_relative_error(e)), "max_absolute", facts_number(allreduce_max_absolute(e)),
	                 "n", (json_int_t)e->compared, "not_finite", (json_int_t)e->not_finite, "excluded",
	                 (json_int_t)e->excluded);
}

static int show_json(const struct allreduce *a, struct error *error)
{
	json_t *payloads = json_array();

	for (size_t i = 0; i < a->n_rows; i++) {
		const struct allreduce_row *row = &a->rows[i];
		char hash[17];

		snprintf(hash, sizeof hash, "%016" PRIx64, row->hash);
		payloads = facts_append(payloads, json_pack(
			"{s:s, s:I, s:I, s:o, s:o, s:f, s:s}", "payload", mxfp_format_get_info(row->format)->name, "bytes_per_rank",
			(json_int_t)row->bytes, "bytes_per_rank_f32", (json_int_t)allreduce_bytes(a, MXFP_FORMAT_F32), "step",
			errors_facts(&row->step), "all_steps", errors_facts(&row->total), "seconds_per_step", row->seconds, "xxh3_64",
			hash));
	}
	json_prepare();
	return facts_print(stdout, json_pack(
		"{s:i, s:b, s:I, s:i, s:I, s:b, s:s, s:s, s:o}", "ranks", (int)a->exchange.n_ranks, "processes",
		a->exchange.apart, "numbers", (json_int_t)a->n, "steps", (int)a->steps, "seed", (json_int_t)a->seed,
		"error_feedback", a->feedback, "rule", mxfp_option_name(MXFP_OPTION_RULE, (int)a->rule), "round",
		mxfp_option_name(MXFP_OPTION_ROUND, (int)a->round), "payloads", payloads), error);
}

/* What one rank does. */
static int run_rank(int argc, char **argv, struct allreduce *a, struct error *error)
{
	struct settings settings = defaults;

	const enum parsed parsed = parse(argc, argv, &settings, error);
	if (parsed != PARSED_RUN)
		return parsed_code(parsed);
	int code = set_up(a, &settings, error);
	if (code == EXIT_OK && ranks_started() && ranks_number() == 1)
		code = fail(error, EXIT_USAGE, "allreduce: mpirun has started one process; start at least 2 of mxfp-mpi, or leave "
		            "mpirun out and give --ranks");
	if (code == EXIT_OK)
		code = allreduce_run(a, error);
	if (code != EXIT_OK || exchange_own(&a->exchange) != 0)
		return code;
	return settings.json ? show_json(a, error) : show_text(a, error);
}

static int run(int argc, char **argv, struct error *error)
{
	struct allreduce a = {0};
	int code = ranks_begin(error);

	if (code == EXIT_OK)
		code = run_rank(argc, argv, &a, error);
	if (a.exchange.broken)
		return code; /* MPI_Finalize() would wait; this one says why, and mpirun ends the others */
	if (ranks_own() != 0)
		error->text[0] = '\0'; /* all have the same */
	return ranks_end(code);
}

const struct command command_allreduce = {"allreduce", "sum numbers over ranks with a payload of few bits", run};
