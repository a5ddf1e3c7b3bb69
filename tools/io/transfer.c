/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "io/transfer.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/interrupt.h"
#include "internal.h"
#include "io/counts.h"
#include "mxfp/exec.h"

int transfer_begin(struct transfer *transfer, struct error *error)
{
	if (transfer->workers == 0)
		transfer->workers = TRANSFER_WORKERS;
	if (transfer->room.read == 0)
		transfer->room = (struct transfer_room){TRANSFER_READ_BYTES, TRANSFER_RESULT_BYTES};
	const struct transfer_room room = transfer->room;
	const uint64_t each = room.read + room.result;
	unsigned char *next = each <= SIZE_MAX / transfer->workers ? malloc(transfer->workers * (size_t)each) : NULL;

	transfer->memory = next;
	if (next == NULL)
		return fail_memory(error);
	for (unsigned i = 0; i < transfer->workers; i++) {
		transfer->pieces[i] = (struct transfer_piece){
			.worker = i,
			.bytes = next,
			.result = next + room.read,
		};
		next += each;
	}
	return EXIT_OK;
}

void transfer_end(struct transfer *transfer)
{
	free(transfer->memory);
	transfer->memory = NULL;
}

/* What the workers share. The members after the lock may be changed only while holding it. */
struct run {
	struct transfer *transfer;
	const struct transfer_job *job;
	pthread_mutex_t lock;
	struct piece last;          /* the last that was taken */
	uint64_t n_taken;
	int code;                   /* of the first piece that failed, so far */
	uint64_t failed;            /* its number */
	struct error error;
};

/* Notes a failure. Pieces are taken in order and every piece that was taken is finished, so the first failing piece is
   always among those noted. */
static void note_failure(struct run *run, int code, uint64_t number, const struct error *error)
{
	if (code == EXIT_OK || (run->code != EXIT_OK && run->failed < number))
		return;
	run->code = code;
	run->failed = number;
	run->error = *error;
}

/* Takes the next piece and reads it; false if there is none or a piece has failed. */
static bool take_piece(struct run *run, struct transfer_piece *piece, uint64_t *number)
{
	struct error error;
	uint64_t n_bytes = 0;

	if (run->code != EXIT_OK || !piece_next(&run->last, run->job->rows, run->job->cols))
		return false;
	*number = run->n_taken++;
	piece->piece = run->last;
	int code = interrupt_check(&error);
	if (code == EXIT_OK)
		code = run->job->read(run->job->context, piece, &n_bytes, &error);
	note_failure(run, code, *number, &error);
	progress_add(&run->transfer->progress, n_bytes);
	return code == EXIT_OK;
}

/* Takes pieces and works on them until there are no more. */
static void work(void *context, size_t worker)
{
	struct run *run = context;
	struct mxfp_counts counts = {.size = sizeof counts}, *sum = run->job->counts;
	struct transfer_piece *piece = &run->transfer->pieces[worker];
	struct error error;
	uint64_t number;

	pthread_mutex_lock(&run->lock);
	while (take_piece(run, piece, &number)) {
		pthread_mutex_unlock(&run->lock);
		int code = run->job->work(run->job->context, piece, &counts, &error);
		pthread_mutex_lock(&run->lock);
		note_failure(run, code, number, &error);
	}
	if (sum != NULL)
		counts_add(sum, &counts);
	pthread_mutex_unlock(&run->lock);
}

int transfer_run(struct transfer *transfer, const struct transfer_job *job, struct error *error)
{
	struct run run = {.transfer = transfer, .job = job, .lock = PTHREAD_MUTEX_INITIALIZER, .last = {.band = job->band}};
	struct piece next = {.band = job->band};
	bool several = piece_next(&next, job->rows, job->cols) && piece_next(&next, job->rows, job->cols);

	/* With fewer threads than workers, the first workers leave nothing to the others. A single piece is done by this
	   thread: waking others costs milliseconds on a busy machine, and a model has hundreds of small tensors. */
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = several ? transfer->threads : 1};
	mxfp_parallel_for(&exec, transfer->workers, work, &run);
	if (run.code != EXIT_OK)
		*error = run.error;
	return run.code;
}

/* A copy is a job on one row of bytes. */
struct copy {
	struct transfer *transfer;
	const struct tensor *source, *target;
};

static int copy_read(const void *context, const struct transfer_piece *piece, uint64_t *n_bytes, struct error *error)
{
	const struct copy *copy = context;

	size_t n = piece->piece.cols;
	int code = file_read_rows(copy->transfer->file, copy->source, piece->piece.col, piece->bytes, n, error);

	*n_bytes = n;
	if (code == EXIT_OK && copy->transfer->hash != NULL)
		XXH3_128bits_update(copy->transfer->hash, piece->bytes, n);
	return code;
}

static int copy_write(const void *context, const struct transfer_piece *piece, struct mxfp_counts *counts,
                      struct error *error)
{
	const struct copy *copy = context;

	(void)counts;
	return writer_write(&copy->transfer->writer, copy->target, piece->piece.col, piece->bytes, piece->piece.cols,
	                    error);
}

int transfer_copy(struct transfer *transfer, const struct tensor *tensor, struct error *error)
{
	const struct copy copy = {
		.transfer = transfer,
		.source = tensor,
		.target = writer_find(&transfer->writer, tensor->name),
	};
	const struct transfer_job job = {
		.rows = 1,
		.cols = tensor->size,
		.read = copy_read,
		.work = copy_write,
		.context = &copy,
	};

	return transfer_run(transfer, &job, error);
}
