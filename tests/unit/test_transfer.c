/* SPDX-License-Identifier: MIT */
/* Pieces on their way: read in order and worked on once, whatever the number of threads, and of several failures always
   the first. The jobs here touch no file. */
#include "config.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "io/transfer.h"

#include "suite.h"

enum { PIECES = 100, NO_PIECE = PIECES };

static struct transfer transfer;

/* A job on one row, and what it has done by pieces. libcheck is for one thread, so the job only notes what is wrong. */
struct trial {
	unsigned fails_reading, fails_working[2];
	unsigned n_read;        /* by one thread at a time */
	atomic_uint n_readers;  /* now */
	atomic_uint worked[PIECES];
	atomic_bool disordered, mixed_up;
};

static int failed(struct error *error, const char *what, unsigned number, int code)
{
	snprintf(error->text, sizeof error->text, "%s %u", what, number);
	return code;
}

static unsigned number_of(const struct transfer_piece *piece)
{
	return (unsigned)(piece->piece.col / PIECE_ELEMENTS);
}

static int read_piece(const void *context, const struct transfer_piece *piece, uint64_t *n_bytes, struct error *error)
{
	struct trial *trial = (struct trial *)context;
	unsigned number = number_of(piece);

	if (atomic_fetch_add(&trial->n_readers, 1) != 0 || trial->n_read++ != number)
		trial->disordered = true;
	memset(piece->bytes, (int)number, TRANSFER_READ_BYTES / 16);
	atomic_fetch_sub(&trial->n_readers, 1);
	*n_bytes = piece->piece.cols;
	return number == trial->fails_reading ? failed(error, "reading", number, EXIT_IO) : EXIT_OK;
}

static int work(const void *context, const struct transfer_piece *piece, struct mxfp_counts *counts,
                struct error *error)
{
	struct trial *trial = (struct trial *)context;
	unsigned number = number_of(piece);

	memset(piece->result, (int)number, TRANSFER_RESULT_BYTES / 16);
	for (size_t i = 0; i < TRANSFER_RESULT_BYTES / 16; i++)
		if (piece->bytes[i] != number || piece->result[i] != number)
			trial->mixed_up = true;
	counts->saturated += piece->piece.cols;
	trial->worked[number]++;
	if (number == trial->fails_working[0] || number == trial->fails_working[1])
		return failed(error, "working on", number, EXIT_INPUT);
	return EXIT_OK;
}

static const unsigned threads[] = {1, 2, 0};

static int run_trial(struct trial *trial, unsigned n_threads, struct mxfp_counts *counts, struct error *error)
{
	const struct transfer_job job = {
		.rows = 1,
		.cols = (uint64_t)PIECES * PIECE_ELEMENTS - 5,
		.read = read_piece,
		.work = work,
		.context = trial,
		.counts = counts,
	};

	transfer.threads = n_threads;
	return transfer_run(&transfer, &job, error);
}

TEST_LOOP(every_piece_is_worked_on_once, sizeof threads / sizeof threads[0])
{
	struct trial trial = {.fails_reading = NO_PIECE, .fails_working = {NO_PIECE, NO_PIECE}};
	struct mxfp_counts counts = {.size = sizeof counts, .saturated = 7};
	struct error error;

	ck_assert_int_eq(transfer_begin(&transfer, &error), EXIT_OK);
	ck_assert_int_eq(run_trial(&trial, threads[_i], &counts, &error), EXIT_OK);
	ck_assert(!trial.disordered && !trial.mixed_up);
	ck_assert_uint_eq(trial.n_read, PIECES);
	for (unsigned i = 0; i < PIECES; i++)
		ck_assert_uint_eq(trial.worked[i], 1);
	ck_assert_uint_eq(counts.saturated, (uint64_t)PIECES * PIECE_ELEMENTS - 5 + 7);
	transfer_end(&transfer);
	suite_compared(PIECES);
}

struct failure {
	unsigned reading, working[2];
	int code;
	const char *text;
};

static const struct failure failures[] = {
	{NO_PIECE, {1, 0}, EXIT_INPUT, "working on 0"},
	{NO_PIECE, {41, 40}, EXIT_INPUT, "working on 40"},
	{NO_PIECE, {PIECES - 1, NO_PIECE}, EXIT_INPUT, "working on 99"},
	{0, {1, 2}, EXIT_IO, "reading 0"},
	{11, {12, 10}, EXIT_INPUT, "working on 10"},
	{10, {11, 12}, EXIT_IO, "reading 10"},
};

TEST_LOOP(first_failure_is_told, sizeof failures / sizeof failures[0])
{
	const struct failure *f = &failures[_i];

	ck_assert_int_eq(transfer_begin(&transfer, &(struct error){{0}}), EXIT_OK);
	for (int i = 0; i < 60; i++) {
		struct trial trial = {.fails_reading = f->reading, .fails_working = {f->working[0], f->working[1]}};
		struct error error = {"none"};

		ck_assert_int_eq(run_trial(&trial, threads[i % 3], NULL, &error), f->code);
		ck_assert_str_eq(error.text, f->text);
		for (unsigned k = 0; k < PIECES; k++)
			ck_assert_uint_le(trial.worked[k], k < trial.n_read);
		suite_compared(1);
	}
	transfer_end(&transfer);
}
