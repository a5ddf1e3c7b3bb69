/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "collective/exchange.h"

#include <stdio.h>
#include <string.h>

#ifdef HAVE_MPI
#include <mpi.h>
#endif

#include "base/clock.h"
#include "quantize/ranks.h"

unsigned exchange_own(const struct exchange *e)
{
	return e->apart ? ranks_own() : 0;
}

static void copy(const struct mail *to, const struct mail *from)
{
	if (from->send_bytes != 0)
		memcpy(to->receive, from->send, from->send_bytes);
}

#ifdef HAVE_MPI

enum { TAG = 1, TEXT = 256 };

/* Names the ranks that requests, the receiving ones first, still wait for. */
static int fail_late(struct exchange *e, const MPI_Request *receiving, const MPI_Request *sending, struct error *error)
{
	const MPI_Request *waiting = sending;
	char text[TEXT] = "";

	e->broken = true;
	for (unsigned r = 0; r < e->n_ranks; r++)
		if (receiving[r] != MPI_REQUEST_NULL)
			waiting = receiving;
	for (unsigned r = 0; r < e->n_ranks; r++)
		if (waiting[r] != MPI_REQUEST_NULL && strlen(text) < TEXT - 8)
			snprintf(text + strlen(text), TEXT - strlen(text), "%s%u", *text != '\0' ? ", " : "", r);
	return fail(error, EXIT_IO, "allreduce: rank %u: rank %s does not answer for %g s: it was killed or stopped, or is "
	            "late, and a longer --timeout would wait for it", ranks_own(), text, e->timeout);
}

/* Tests n requests once. Whether all are complete is in *done. False if MPI fails. */
static bool test_all(MPI_Request *requests, unsigned n, bool *done)
{
	*done = true;
	for (unsigned r = 0; r < n; r++) {
		int complete = 1;

		if (requests[r] != MPI_REQUEST_NULL && MPI_Test(&requests[r], &complete, MPI_STATUS_IGNORE) != MPI_SUCCESS)
			return false;
		*done = *done && complete;
	}
	return true;
}

/* Waits until the deadline, which is later for a higher rank, so that one rank speaks of a failure that all see: mpirun
   ends the others when that one has ended. */
static int wait_for(struct exchange *e, MPI_Request *requests, struct error *error)
{
	static const double apart = 0.25;
	const double end = clock_seconds() + e->timeout + apart * ranks_own();
	long pause = 0;

	for (;;) {
		bool late = clock_seconds() > end, done;

		if (!test_all(requests, 2 * e->n_ranks, &done)) {
			e->broken = true;
			return fail(error, EXIT_IO, "allreduce: rank %u: the connection to another rank broke", ranks_own());
		}
		if (done)
			return EXIT_OK;
		if (late)
			return fail_late(e, requests, requests + e->n_ranks, error);
		clock_pause(&pause);
	}
}

static int exchange_apart(struct exchange *e, const struct mail *mail, struct error *error)
{
	MPI_Request requests[2 * RANKS_MAX];
	const unsigned own = ranks_own();

	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	for (unsigned r = 0; r < 2 * e->n_ranks; r++)
		requests[r] = MPI_REQUEST_NULL;
	/* Each pair has at most one message a way, in the order of the calls, so one tag will do. A failure leaves the
	   request null and shows in the peer's deadline. */
	for (unsigned r = 0; r < e->n_ranks; r++)
		if (r != own && mail[r].receive_bytes != 0)
			MPI_Irecv(mail[r].receive, (int)mail[r].receive_bytes, MPI_BYTE, (int)r, TAG, MPI_COMM_WORLD, &requests[r]);
	for (unsigned r = 0; r < e->n_ranks; r++)
		if (r != own && mail[r].send_bytes != 0)
			MPI_Isend(mail[r].send, (int)mail[r].send_bytes, MPI_BYTE, (int)r, TAG, MPI_COMM_WORLD,
			          &requests[e->n_ranks + r]);
	copy(&mail[own], &mail[own]);
	return wait_for(e, requests, error);
}

#else

static int exchange_apart(struct exchange *e, const struct mail *mail, struct error *error)
{
	(void)e, (void)mail, (void)error;
	return EXIT_OK; /* ranks are never apart */
}

#endif

int exchange(struct exchange *e, const struct mail *mail, struct error *error)
{
	if (e->apart)
		return exchange_apart(e, mail, error);
	for (unsigned m = 0; m < e->n_ranks; m++)
		for (unsigned r = 0; r < e->n_ranks; r++)
			copy(&mail[r * e->n_ranks + m], &mail[m * e->n_ranks + r]);
	return EXIT_OK;
}

/* What came of a rank's work. */
struct outcome {
	int code;
	struct error error;
};

int exchange_share(struct exchange *e, int code, struct error *error)
{
	static struct outcome outcomes[RANKS_MAX];
	struct outcome mine = {.code = code, .error = *error};
	struct mail mail[RANKS_MAX];
	unsigned from = 0;

	if (!e->apart || e->broken)
		return code;
	for (unsigned r = 0; r < e->n_ranks; r++)
		mail[r] = (struct mail){&mine, sizeof mine, &outcomes[r], sizeof outcomes[r]};
	code = exchange(e, mail, error);
	if (code != EXIT_OK)
		return code;
	while (from < e->n_ranks && outcomes[from].code == EXIT_OK)
		from++;
	if (from == e->n_ranks)
		return EXIT_OK;
	code = outcomes[from].code;
	if (ranks_own() != 0)
		error->text[0] = '\0';
	else if (from != 0)
		fail(error, code, "rank %u: %.*s", from, (int)sizeof error->text - 32, outcomes[from].error.text);
	return code;
}
