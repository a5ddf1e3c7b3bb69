/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "quantize/ranks.h"

#include <stdlib.h>

/* The names by which MPICH, Slurm and Open MPI tell a process of the others. */
bool ranks_started(void)
{
	static const char *const names[] = {"PMI_SIZE", "PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_SIZE"};

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		if (getenv(names[i]) != NULL)
			return true;
	return false;
}

#ifdef HAVE_MPI
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

/* Bytes of a message, of which MPI takes memory once more where it joins them. */
enum { MESSAGE = 1 << 24 };

static int rank, n_ranks = 1;
static bool joined, failed;

int ranks_begin(struct error *error)
{
	int level;

	if (!ranks_started()) /* MPI_Init() would take a tenth of a second */
		return EXIT_OK;
	if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level) != MPI_SUCCESS)
		return fail(error, EXIT_IO, "MPI could not be started");
	joined = true;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
	return EXIT_OK;
}

/* MPI's own waiting takes a whole CPU, which another rank or thread may need. */
static void wait_for(MPI_Request *request)
{
	long pause = 0;

	for (int done = 0; MPI_Test(request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done;)
		clock_pause(&pause);
}

static void broadcast(void *items, size_t n, MPI_Datatype type, int from)
{
	MPI_Request request = MPI_REQUEST_NULL;

	MPI_Ibcast(items, (int)n, type, from, MPI_COMM_WORLD, &request);
	wait_for(&request);
}

static void reduce(void *items, size_t n, MPI_Datatype type, MPI_Op op)
{
	MPI_Request request = MPI_REQUEST_NULL;

	MPI_Iallreduce(MPI_IN_PLACE, items, (int)n, type, op, MPI_COMM_WORLD, &request);
	wait_for(&request);
}

/* The lowest rank that failed, or -1. */
static int find_failed(int code)
{
	int lowest = code != EXIT_OK ? rank : n_ranks;

	reduce(&lowest, 1, MPI_INT, MPI_MIN);
	return lowest < n_ranks ? lowest : -1;
}

int ranks_share(int code, struct error *error)
{
	if (n_ranks == 1 || failed)
		return code;
	int from = find_failed(code);
	if (from < 0)
		return EXIT_OK;
	failed = true;
	struct error theirs = *error;
	broadcast(&code, 1, MPI_INT, from);
	broadcast(theirs.text, sizeof theirs.text, MPI_CHAR, from);
	if (rank != 0)
		error->text[0] = '\0';
	else if (from != 0)
		fail(error, code, "rank %d: %.*s", from, (int)sizeof theirs.text - 32, theirs.text);
	return code;
}

void ranks_tell(unsigned from, void *bytes, size_t n)
{
	for (size_t at = 0, part; n_ranks > 1 && at < n; at += part) {
		part = n - at < MESSAGE ? n - at : MESSAGE;
		broadcast((char *)bytes + at, part, MPI_BYTE, (int)from);
	}
}

void ranks_join(void *bytes, size_t n)
{
	for (size_t at = 0, part; n_ranks > 1 && at < n; at += part) {
		part = n - at < MESSAGE ? n - at : MESSAGE;
		reduce((char *)bytes + at, part, MPI_BYTE, MPI_BOR);
	}
}

void ranks_sum(uint64_t *numbers, size_t n)
{
	if (n_ranks > 1)
		reduce(numbers, n, MPI_UINT64_T, MPI_SUM);
}

uint64_t ranks_least(uint64_t number)
{
	if (n_ranks > 1)
		reduce(&number, 1, MPI_UINT64_T, MPI_MIN);
	return number;
}

int ranks_end(int code)
{
	if (joined)
		MPI_Finalize();
	return rank == 0 ? code : EXIT_OK;
}

unsigned ranks_own(void)
{
	return (unsigned)rank;
}

unsigned ranks_number(void)
{
	return (unsigned)n_ranks;
}

#else

int ranks_begin(struct error *error)
{
	static const char *const sizes[] = {"PMI_SIZE", "OMPI_COMM_WORLD_SIZE"};

	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		const char *size = getenv(sizes[i]);

		if (size != NULL && strtol(size, NULL, 10) > 1)
			return fail(error, EXIT_USAGE, "mpirun has started %s processes of mxfp, which know nothing of each other; "
			            "start mxfp-mpi (configure --with-mpi)", size);
	}
	return EXIT_OK;
}

int ranks_share(int code, struct error *error)
{
	(void)error;
	return code;
}

void ranks_tell(unsigned from, void *bytes, size_t n)
{
	(void)from, (void)bytes, (void)n;
}

void ranks_join(void *bytes, size_t n)
{
	(void)bytes, (void)n;
}

void ranks_sum(uint64_t *numbers, size_t n)
{
	(void)numbers, (void)n;
}

uint64_t ranks_least(uint64_t number)
{
	return number;
}

int ranks_end(int code)
{
	return code;
}

unsigned ranks_own(void)
{
	return 0;
}

unsigned ranks_number(void)
{
	return 1;
}

#endif
