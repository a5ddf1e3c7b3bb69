/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "collective/allreduce.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "analyse/activations.h"
#include "base/clock.h"
#include "base/library.h"
#include "base/must_succeed.h"
#include "io/file.h"
#include "model/operand.h"
#include "mxfp/accumulate.h"
#include "mxfp/convert.h"
#include "mxfp/quantize.h"
#include "quantize/ranks.h"

enum { BLOCK = 32 }; /* of every MX format, and what chunks are multiples of */

/* Streams of random rounding have this bit, those of numbers do not. */
#define STREAM_ROUNDING (UINT64_C(1) << 63)

/* The payload */

bool allreduce_has(enum mxfp_format payload)
{
	const struct mxfp_format_info *info = mxfp_format_get_info(payload);

	return payload == MXFP_FORMAT_F32 || payload == MXFP_FORMAT_BF16 ||
	       (info->kind == MXFP_KIND_BLOCK && !info->tensor_scale);
}

static struct mxfp_blocks blocks_of(enum mxfp_format payload, void *bytes, size_t n)
{
	struct mxfp_blocks blocks = {.size = sizeof blocks, .format = payload, .rows = 1, .cols = n, .codes = bytes};
	struct mxfp_sizes sizes;

	must_succeed(mxfp_blocks_size(&sizes, payload, 1, n));
	blocks.scales = (unsigned char *)bytes + sizes.codes_bytes;
	return blocks;
}

static size_t bytes_of(enum mxfp_format payload, size_t n)
{
	struct mxfp_sizes sizes;

	if (mxfp_format_get_info(payload)->kind != MXFP_KIND_BLOCK)
		return n * mxfp_format_get_info(payload)->storage_bytes;
	must_succeed(mxfp_blocks_size(&sizes, payload, 1, n));
	return sizes.codes_bytes + sizes.scales_bytes;
}

/* Encodes n numbers, which begin with number `first` of their tensor. */
static void encode(const struct allreduce *a, enum mxfp_format payload, unsigned char *to, const float *x, size_t n,
                   size_t first, uint64_t stream)
{
	if (mxfp_format_get_info(payload)->kind != MXFP_KIND_BLOCK) {
		const struct mxfp_convert_options options = {
			.size = sizeof options, .round = payload == MXFP_FORMAT_F32 ? MXFP_ROUND_RNE : a->round, .overflow = MXFP_OVERFLOW_OVF,
			.seed = a->seed, .stream = stream, .first_index = first,
		};

		must_succeed(mxfp_convert_array(to, payload, x, MXFP_FORMAT_F32, n, &options, &a->exec));
	} else {
		const struct mxfp_quantize_options options = {
			.size = sizeof options, .rule = a->rule, .round = a->round, .seed = a->seed, .stream = stream, .first_index = first,
		};
		struct mxfp_blocks blocks = blocks_of(payload, to, n);

		must_succeed(dense_quantize(&blocks, MXFP_FORMAT_F32, x, &options, &a->exec));
	}
}

static void decode(const struct allreduce *a, enum mxfp_format payload, float *to, const unsigned char *bytes, size_t n)
{
	if (mxfp_format_get_info(payload)->kind != MXFP_KIND_BLOCK) {
		must_succeed(mxfp_convert_array(to, MXFP_FORMAT_F32, bytes, payload, n, NULL, &a->exec));
	} else {
		const struct mxfp_blocks blocks = blocks_of(payload, (void *)(uintptr_t)bytes, n);
		const struct mxfp_matrix matrix = mxfp_blocks_matrix(&blocks);

		must_succeed(dense_dequantize(to, MXFP_FORMAT_F32, &matrix, &a->exec));
	}
}

/* y += x. */
static void add(const struct allreduce *a, float *y, const float *x, size_t n)
{
	const struct mxfp_matrix matrix = mxfp_numbers(MXFP_FORMAT_F32, 1, n, x);
	const struct mxfp_result sum = mxfp_to_numbers(MXFP_FORMAT_F32, y);

	must_succeed(mxfp_accumulate(&sum, &matrix, NULL, &a->exec));
}

/* Chunks */

static size_t chunk_start(const struct allreduce *a, unsigned owner)
{
	const size_t blocks = a->n / BLOCK + (a->n % BLOCK != 0), ranks = a->exchange.n_ranks;
	const size_t start = (blocks / ranks * owner + blocks % ranks * owner / ranks) * BLOCK;

	return start < a->n ? start : a->n;
}

static size_t chunk_length(const struct allreduce *a, unsigned owner)
{
	return chunk_start(a, owner + 1) - chunk_start(a, owner);
}

uint64_t allreduce_bytes(const struct allreduce *a, enum mxfp_format payload)
{
	uint64_t all = 0, most = 0;

	for (unsigned r = 0; r < a->exchange.n_ranks; r++)
		all += bytes_of(payload, chunk_length(a, r));
	for (unsigned r = 0; r < a->exchange.n_ranks; r++) {
		const uint64_t own = bytes_of(payload, chunk_length(a, r)), sent = all - own + (a->exchange.n_ranks - 1) * own;

		most = sent > most ? sent : most;
	}
	return most;
}

/* The numbers of ranks */

/* What does not change with the steps: the file's numbers by rank, or the mean that all ranks share at [0]. */
struct input {
	float *given[RANKS_MAX];
};

static int read_file(struct allreduce *a, struct input *input, unsigned rank, struct error *error)
{
	struct operand operand = {0};
	int code = operand_read(&operand, a->files[rank], OPERAND_ROWS, "summed", error);

	if (code != EXIT_OK)
		return code;
	const size_t n = operand.matrix.rows * operand.matrix.cols;
	if (n == 0 || n > NUMBERS_MAX)
		code = fail(error, EXIT_INPUT, "%.800s: has %zu numbers; from 1 to %d can be summed", a->files[rank], n,
		            (int)NUMBERS_MAX);
	else if (a->n != 0 && a->n != n)
		code = fail(error, EXIT_INPUT, "%.800s: has %zu numbers, but %.800s has %zu; all ranks need the same number", a->files[rank],
		            n, a->files[0], a->n);
	a->n = n;
	input->given[rank] = code == EXIT_OK ? calloc(n, sizeof(float)) : NULL;
	if (code == EXIT_OK && input->given[rank] == NULL)
		code = fail_memory(error);
	if (code == EXIT_OK) {
		const struct mxfp_result sum = mxfp_to_numbers(MXFP_FORMAT_F32, input->given[rank]);

		must_succeed(mxfp_accumulate(&sum, &operand.matrix, NULL, &a->exec));
	}
	operand_free(&operand);
	return code;
}

/* Every rank reads all files, so that all agree on the length; rank 0 keeps all for what it measures. */
static int input_read(struct allreduce *a, struct input *input, struct error *error)
{
	const unsigned own = exchange_own(&a->exchange);
	int code = EXIT_OK;

	if (a->files == NULL) {
		input->given[0] = malloc(a->n * sizeof(float));
		if (input->given[0] == NULL)
			return fail_memory(error);
		activations_fill(input->given[0], 1, a->n, ACTIVATIONS_NORMAL, a->seed, 0);
		return EXIT_OK;
	}
	a->n = 0;
	for (unsigned r = 0; r < a->exchange.n_ranks && code == EXIT_OK; r++) {
		code = read_file(a, input, r, error);
		if (own != 0 && r != own) {
			free(input->given[r]);
			input->given[r] = NULL;
		}
	}
	return code;
}

static void input_free(struct input *input)
{
	for (unsigned r = 0; r < RANKS_MAX; r++)
		free(input->given[r]);
}

/* The numbers of a rank in a step: a mean and noise, both standard normal, or the file's. */
static void input_fill(const struct allreduce *a, const struct input *input, float *x, unsigned rank, unsigned step)
{
	if (a->files != NULL) {
		memcpy(x, input->given[rank], a->n * sizeof *x);
	} else {
		activations_fill(x, 1, a->n, ACTIVATIONS_NORMAL, a->seed, 1 + (uint64_t)step * a->exchange.n_ranks + rank);
		add(a, x, input->given[0], a->n);
	}
}

/* A rank */

struct member {
	unsigned rank;
	float *x;                 /* its numbers; then with the feedback */
	float *residual;          /* what encoding took off x; with feedback only */
	unsigned char *out, *in;  /* what it sends to owners, chunk by chunk, and gets from ranks, for its own chunk */
	float *decoded;           /* of `in` */
	float *sum, *sum_residual;
	unsigned char *coded_sum;
	unsigned char *gathered;  /* the sums of all owners */
	float *result;
	XXH3_state_t *hash;
};

static int member_init(struct member *m, const struct allreduce *a, enum mxfp_format payload, unsigned rank,
                       struct error *error)
{
	const size_t n = a->n, chunk = chunk_length(a, rank) + 1, ranks = a->exchange.n_ranks;
	const size_t bytes = bytes_of(payload, n) + ranks * BLOCK * sizeof(float);

	*m = (struct member){
		.rank = rank,
		.x = malloc(n * sizeof(float)),
		.residual = calloc(n, sizeof(float)),
		.out = malloc(bytes),
		.in = malloc(ranks * bytes_of(payload, chunk)),
		.decoded = malloc(ranks * chunk * sizeof(float)),
		.sum = malloc(chunk * sizeof(float)),
		.sum_residual = calloc(chunk, sizeof(float)),
		.coded_sum = malloc(bytes_of(payload, chunk)),
		.gathered = malloc(bytes),
		.result = malloc(n * sizeof(float)),
		.hash = XXH3_createState(),
	};
	if (m->x == NULL || m->residual == NULL || m->out == NULL || m->in == NULL || m->decoded == NULL || m->sum == NULL ||
	    m->sum_residual == NULL || m->coded_sum == NULL || m->gathered == NULL || m->result == NULL || m->hash == NULL)
		return fail_memory(error);
	XXH3_64bits_reset(m->hash);
	return EXIT_OK;
}

static void member_free(struct member *m)
{
	free(m->x);
	free(m->residual);
	free(m->out);
	free(m->in);
	free(m->decoded);
	free(m->sum);
	free(m->sum_residual);
	free(m->coded_sum);
	free(m->gathered);
	free(m->result);
	XXH3_freeState(m->hash);
}

/* Encodes x, to which with feedback the residual is added; the new residual is what that takes off. */
static void encode_with_feedback(const struct allreduce *a, enum mxfp_format payload, unsigned char *to, float *x,
                                 float *residual, size_t n, size_t first, uint64_t stream)
{
	if (a->feedback)
		add(a, x, residual, n);
	encode(a, payload, to, x, n, first, stream);
	if (!a->feedback)
		return;
	decode(a, payload, residual, to, n);
	for (size_t i = 0; i < n; i++)
		residual[i] = x[i] - residual[i];
}

static uint64_t stream_of(const struct allreduce *a, unsigned step, unsigned rank)
{
	return STREAM_ROUNDING | ((uint64_t)step * (a->exchange.n_ranks + 1) + rank);
}

static void member_contribute(struct member *m, const struct allreduce *a, enum mxfp_format payload, unsigned step,
                              struct mail *mail)
{
	const size_t own = bytes_of(payload, chunk_length(a, m->rank));
	unsigned char *to = m->out;

	for (unsigned r = 0; r < a->exchange.n_ranks; r++) {
		const size_t first = chunk_start(a, r), n = chunk_length(a, r);

		encode_with_feedback(a, payload, to, m->x + first, m->residual + first, n, first, stream_of(a, step, m->rank));
		mail[r] = (struct mail){to, bytes_of(payload, n), m->in + r * own, own};
		to += mail[r].send_bytes;
	}
}

/* Sums what has come, in the order of the ranks. */
static void member_sum(struct member *m, const struct allreduce *a, enum mxfp_format payload, unsigned step,
                       struct mail *mail)
{
	const bool direct = payload == MXFP_FORMAT_F32 || payload == MXFP_FORMAT_BF16;
	const size_t n = chunk_length(a, m->rank), bytes = bytes_of(payload, n);
	const void *src[RANKS_MAX];
	unsigned char *to = m->gathered;

	for (unsigned r = 0; r < a->exchange.n_ranks; r++) {
		src[r] = direct ? (const void *)(m->in + r * bytes) : m->decoded + r * n;
		if (!direct)
			decode(a, payload, m->decoded + r * n, m->in + r * bytes, n);
	}
	must_succeed(mxfp_sum_arrays(m->sum, MXFP_FORMAT_F32, src, a->exchange.n_ranks, direct ? payload : MXFP_FORMAT_F32, n, NULL, &a->exec));
	encode_with_feedback(a, payload, m->coded_sum, m->sum, m->sum_residual, n, chunk_start(a, m->rank),
	                     stream_of(a, step, a->exchange.n_ranks));
	for (unsigned r = 0; r < a->exchange.n_ranks; r++) {
		mail[r] = (struct mail){m->coded_sum, bytes, to, bytes_of(payload, chunk_length(a, r))};
		to += mail[r].receive_bytes;
	}
}

static void member_finish(struct member *m, const struct allreduce *a, enum mxfp_format payload)
{
	const unsigned char *from = m->gathered;

	for (unsigned r = 0; r < a->exchange.n_ranks; r++) {
		decode(a, payload, m->result + chunk_start(a, r), from, chunk_length(a, r));
		from += bytes_of(payload, chunk_length(a, r));
	}
}

static void member_hash(struct member *m, const struct allreduce *a)
{
	dtype_swap(DTYPE_F32, m->result, a->n * sizeof(float));
	XXH3_64bits_update(m->hash, m->result, a->n * sizeof(float));
	dtype_swap(DTYPE_F32, m->result, a->n * sizeof(float));
}

/* Errors */

static void errors_add(struct allreduce_errors *e, const double *exact, const double *result, size_t n)
{
	stats_add_double(&e->stats, exact, result, n);
	for (size_t i = 0; i < n; i++) {
		if (!isfinite(exact[i])) {
			e->excluded++;
			continue;
		}
		e->compared++;
		e->not_finite += !isfinite(result[i]);
	}
}

double allreduce_sqnr(const struct allreduce_errors *errors)
{
	return errors->not_finite > 0 ? -(double)INFINITY : stats_sqnr(&errors->stats);
}

double allreduce_relative_error(const struct allreduce_errors *errors)
{
	return errors->not_finite > 0 ? (double)INFINITY : stats_relative_error(&errors->stats);
}

double allreduce_max_absolute(const struct allreduce_errors *errors)
{
	if (errors->compared == 0)
		return (double)NAN;
	return errors->not_finite > 0 ? (double)INFINITY : errors->stats.max_absolute;
}

/* What rank 0 compares with: sums in binary64. */
struct measure {
	float *x;
	double *exact, *result, *total_exact, *total_result;
};

static int measure_init(struct measure *m, const struct allreduce *a, struct error *error)
{
	*m = (struct measure){
		malloc(a->n * sizeof(float)), malloc(a->n * sizeof(double)), malloc(a->n * sizeof(double)),
		calloc(a->n, sizeof(double)), calloc(a->n, sizeof(double)),
	};
	return m->x == NULL || m->exact == NULL || m->result == NULL || m->total_exact == NULL || m->total_result == NULL
	               ? fail_memory(error) : EXIT_OK;
}

static void measure_free(struct measure *m)
{
	free(m->x);
	free(m->exact);
	free(m->result);
	free(m->total_exact);
	free(m->total_result);
}

static void measure_step(struct measure *m, const struct allreduce *a, const struct input *input, const float *result,
                         unsigned step, struct allreduce_row *row)
{
	memset(m->exact, 0, a->n * sizeof(double));
	for (unsigned r = 0; r < a->exchange.n_ranks; r++) {
		input_fill(a, input, m->x, r, step);
		for (size_t i = 0; i < a->n; i++)
			m->exact[i] += (double)m->x[i];
	}
	for (size_t i = 0; i < a->n; i++) {
		m->result[i] = (double)result[i];
		m->total_exact[i] += m->exact[i];
		m->total_result[i] += m->result[i];
	}
	errors_add(&row->step, m->exact, m->result, a->n);
}

/* The whole of one payload */

struct group {
	size_t n_members; /* in this process */
	struct member *members;
	struct mail *mail;
};

static int group_init(struct group *g, const struct allreduce *a, enum mxfp_format payload, struct error *error)
{
	int code = EXIT_OK;

	g->n_members = a->exchange.apart ? 1 : a->exchange.n_ranks;
	g->members = calloc(g->n_members, sizeof *g->members);
	g->mail = calloc(g->n_members * a->exchange.n_ranks, sizeof *g->mail);
	if (g->members == NULL || g->mail == NULL)
		return fail_memory(error);
	for (size_t i = 0; i < g->n_members && code == EXIT_OK; i++)
		code = member_init(&g->members[i], a, payload, exchange_own(&a->exchange) + (unsigned)i, error);
	return code;
}

static void group_free(struct group *g)
{
	for (size_t i = 0; g->members != NULL && i < g->n_members; i++)
		member_free(&g->members[i]);
	free(g->members);
	free(g->mail);
}

static int run_step(struct allreduce *a, struct group *g, enum mxfp_format payload, unsigned step, struct error *error)
{
	const unsigned ranks = a->exchange.n_ranks;
	int code;

	for (size_t i = 0; i < g->n_members; i++)
		member_contribute(&g->members[i], a, payload, step, g->mail + i * ranks);
	code = exchange(&a->exchange, g->mail, error);
	for (size_t i = 0; i < g->n_members && code == EXIT_OK; i++)
		member_sum(&g->members[i], a, payload, step, g->mail + i * ranks);
	if (code == EXIT_OK)
		code = exchange(&a->exchange, g->mail, error);
	for (size_t i = 0; i < g->n_members && code == EXIT_OK; i++)
		member_finish(&g->members[i], a, payload);
	return code;
}

/* What ranks tell each other in the end. */
struct report {
	uint64_t hash;
	double seconds;
};

static int collect(struct allreduce *a, struct group *g, struct allreduce_row *row, struct error *error)
{
	struct report mine[RANKS_MAX], theirs[RANKS_MAX];
	const unsigned ranks = a->exchange.n_ranks;
	int code = EXIT_OK;

	for (size_t i = 0; i < g->n_members; i++) {
		mine[i] = (struct report){XXH3_64bits_digest(g->members[i].hash), row->seconds};
		for (unsigned r = 0; r < ranks; r++)
			g->mail[i * ranks + r] = (struct mail){
				&mine[i], sizeof mine[i], &theirs[r], i == 0 ? sizeof theirs[r] : 0,
			};
	}
	if (a->exchange.apart)
		code = exchange(&a->exchange, g->mail, error);
	else
		memcpy(theirs, mine, sizeof theirs);
	row->hash = theirs[0].hash;
	for (unsigned r = 0; r < ranks && code == EXIT_OK; r++) {
		if (theirs[r].seconds > row->seconds)
			row->seconds = theirs[r].seconds;
		if (theirs[r].hash != row->hash)
			code = fail(error, EXIT_CHECK, "allreduce: %s: rank %u has the result %016" PRIx64 ", but rank 0 %016" PRIx64
			            "; both need the same version of mxfp", mxfp_format_get_info(row->format)->name, r, theirs[r].hash,
			            row->hash);
	}
	return code;
}

/* Runs step 0 once, so that the timed ones find memory and connections in use, and leaves nothing of it. */
static int warm_up(struct allreduce *a, const struct input *input, struct group *g, enum mxfp_format payload,
                   struct error *error)
{
	for (size_t i = 0; i < g->n_members; i++)
		input_fill(a, input, g->members[i].x, g->members[i].rank, 0);
	const int code = run_step(a, g, payload, 0, error);

	for (size_t i = 0; i < g->n_members; i++) {
		memset(g->members[i].residual, 0, a->n * sizeof(float));
		memset(g->members[i].sum_residual, 0, chunk_length(a, g->members[i].rank) * sizeof(float));
	}
	return code;
}

static int run_steps(struct allreduce *a, const struct input *input, struct group *g, struct measure *measure,
                     struct allreduce_row *row, struct error *error)
{
	int code = warm_up(a, input, g, row->format, error);

	for (unsigned step = 0; step < a->steps && code == EXIT_OK; step++) {
		for (size_t i = 0; i < g->n_members; i++)
			input_fill(a, input, g->members[i].x, g->members[i].rank, step);
		code = exchange_share(&a->exchange, EXIT_OK, error);
		if (code != EXIT_OK)
			break;
		const double start = clock_seconds();
		code = run_step(a, g, row->format, step, error);
		row->seconds += clock_seconds() - start;
		for (size_t i = 0; i < g->n_members && code == EXIT_OK; i++)
			member_hash(&g->members[i], a);
		if (code == EXIT_OK && measure != NULL)
			measure_step(measure, a, input, g->members[0].result, step, row);
	}
	row->seconds /= a->steps;
	if (code == EXIT_OK && measure != NULL)
		errors_add(&row->total, measure->total_exact, measure->total_result, a->n);
	return code;
}

static int run_payload(struct allreduce *a, const struct input *input, struct allreduce_row *row, struct error *error)
{
	struct group group = {0};
	struct measure measure = {0};
	const bool first = exchange_own(&a->exchange) == 0;
	int code = group_init(&group, a, row->format, error);

	if (code == EXIT_OK && first)
		code = measure_init(&measure, a, error);
	code = exchange_share(&a->exchange, code, error);
	if (code == EXIT_OK)
		code = run_steps(a, input, &group, first ? &measure : NULL, row, error);
	if (code == EXIT_OK)
		code = collect(a, &group, row, error);
	row->bytes = allreduce_bytes(a, row->format);
	measure_free(&measure);
	/* MPI may still write to what it has not received. */
	if (!a->exchange.broken)
		group_free(&group);
	return code;
}

/* Whether all ranks were asked for the same, without which they would wait for each other. */
static int check_terms(struct allreduce *a, struct error *error)
{
	enum { TERMS = 7 };
	uint64_t mine[TERMS + PAYLOADS_MAX] = {a->n, a->steps, a->seed, a->feedback, a->rule, a->round, a->n_rows};
	uint64_t theirs[RANKS_MAX][TERMS + PAYLOADS_MAX];
	struct mail mail[RANKS_MAX];

	if (!a->exchange.apart)
		return EXIT_OK;
	for (size_t i = 0; i < a->n_rows; i++)
		mine[TERMS + i] = (uint64_t)a->rows[i].format;
	for (unsigned r = 0; r < a->exchange.n_ranks; r++)
		mail[r] = (struct mail){mine, sizeof mine, theirs[r], sizeof theirs[r]};
	int code = exchange(&a->exchange, mail, error);
	for (unsigned r = 1; r < a->exchange.n_ranks && code == EXIT_OK; r++)
		if (memcmp(theirs[r], theirs[0], sizeof mine) != 0)
			code = fail(error, EXIT_USAGE, "allreduce: rank %u has other numbers or options than rank 0; all need the same",
			            r);
	return code;
}

int allreduce_run(struct allreduce *a, struct error *error)
{
	struct input input = {0};
	int code = exchange_share(&a->exchange, input_read(a, &input, error), error);

	if (code == EXIT_OK)
		code = check_terms(a, error);
	for (size_t i = 0; i < a->n_rows && code == EXIT_OK; i++)
		code = run_payload(a, &input, &a->rows[i], error);
	input_free(&input);
	return code;
}
