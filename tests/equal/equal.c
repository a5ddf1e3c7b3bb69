/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "equal/equal.h"

#include <assert.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "body/fp_state.h"
#include "mxfp/isa.h"
#include "suite.h"

/* Bytes on either side of an array that must stay as they are, where the region has them. */
enum { MARGIN = 192 };

static sigjmp_buf escape; /* from the handler of a kernel's fault */
static volatile sig_atomic_t in_kernel;

static void on_fault(int number)
{
	if (in_kernel)
		siglongjmp(escape, number);
	signal(number, SIG_DFL);
	raise(number);
}

void equal_catch_faults(void (*handler)(int number))
{
	static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_NODEFER};

	sigemptyset(&action.sa_mask);
	for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
		sigaction(faults[i], &action, NULL);
}

/* Memory of EQUAL_REGION bytes between two pages that cannot be touched. */
static uint8_t *guarded(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *p = mmap(NULL, EQUAL_REGION + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED || mprotect(p + page, EQUAL_REGION, PROT_READ | PROT_WRITE) != 0)
		abort();
	return p + page;
}

static void equal_init(struct equal *e)
{
	const char *rounds = getenv("MXFP_TEST_ROUNDS");
	uint32_t available = mxfp_isa_available();

	memset(e, 0, sizeof *e);
	mxfp_kernels_init(&e->reference, 1);
	for (int i = 1; mxfp_isa_name(i) != NULL; i++)
		if (available >> i & 1) {
			assert(e->n_tiers < EQUAL_MAX_TIERS);
			e->tier[e->n_tiers].name = mxfp_isa_name(i);
			mxfp_kernels_init(&e->tier[e->n_tiers++].table, UINT32_C(1) << i);
		}
	e->share = suite_shares();
	e->rounds = rounds != NULL && *rounds != '\0' ? (unsigned)strtoul(rounds, NULL, 10) : 1;
	for (size_t i = 0; i < EQUAL_MAX_ARRAYS; i++) {
		e->region[i] = guarded();
		e->image[i] = malloc(EQUAL_REGION);
		if (e->image[i] == NULL)
			abort();
	}
	equal_catch_faults(on_fault);
}

static void equal_clear(struct equal *e)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	for (size_t i = 0; i < EQUAL_MAX_ARRAYS; i++) {
		munmap(e->region[i] - page, EQUAL_REGION + 2 * page);
		free(e->image[i]);
	}
}

/* Each test and turn draws numbers of its own. */
static struct equal *seeded;

static void seed(void)
{
	seeded->random.state = suite_seed_of_turn();
}

int equal_main(struct equal *e, const char *(*case_name)(int i))
{
	equal_init(e);
	seeded = e;
	int status = suite_run(&(struct suite_options){.before = seed, .case_name = case_name});
	equal_clear(e);
	return status;
}

int equal_place(struct random *r)
{
	switch (random_below(r, 4)) {
	case 0:
		return EQUAL_AT_END;
	case 1:
		return 0;
	case 2:
		return EQUAL_AT_END - (int)random_below(r, 64);
	default:
		return (int)random_below(r, 64);
	}
}

/* Offset of an array in its region. */
static size_t offset_of(const struct equal_array *a)
{
	assert(a->bytes + 64 <= EQUAL_REGION);
	return a->place >= 0 ? (size_t)a->place : EQUAL_REGION - a->bytes - (size_t)(EQUAL_AT_END - a->place);
}

/* The part of the region that is watched: the array and its margins. */
static size_t window_start(const struct equal_array *a)
{
	size_t at = offset_of(a);

	return at < MARGIN ? 0 : at - MARGIN;
}

static size_t window_bytes(const struct equal_array *a)
{
	size_t end = offset_of(a) + a->bytes + MARGIN;

	return (end < EQUAL_REGION ? end : EQUAL_REGION) - window_start(a);
}

/* Fills the windows of `memory` with canaries, the same for every call with the same `canary`, and the inputs. */
static void prepare(const struct equal_case *c, uint8_t *const memory[], uint8_t canary)
{
	for (size_t i = 0; i < EQUAL_MAX_ARRAYS; i++) {
		const struct equal_array *a = &c->array[i];
		uint8_t *window = memory[i] + window_start(a);

		for (size_t j = 0, n = window_bytes(a); j < n; j++)
			window[j] = (uint8_t)(canary + 37 * j);
		if (a->input != NULL)
			memcpy(memory[i] + offset_of(a), a->input, a->bytes);
	}
}

static void addresses(const struct equal_case *c, uint8_t *const memory[], uint8_t *array[])
{
	for (size_t i = 0; i < EQUAL_MAX_ARRAYS; i++)
		array[i] = memory[i] + offset_of(&c->array[i]);
}

/* What a call did. */
struct result {
	struct equal_outcome outcome;
	uint64_t state_before, state_after;
	int fault; /* the signal that ended it, or 0 */
};

static void call(const struct equal_case *c, equal_kernel *kernel, uint8_t *const memory[], uint64_t state,
                 struct result *r)
{
	const uint64_t saved = fp_state_get();
	uint8_t *array[EQUAL_MAX_ARRAYS];

	addresses(c, memory, array);
	r->outcome = c->start;
	r->fault = sigsetjmp(escape, 0);
	if (r->fault == 0) {
		in_kernel = 1;
		fp_state_set(state);
		r->state_before = fp_state_get(); /* a machine may lack some of the bits */
		c->call(kernel, c->job, array, &r->outcome);
		r->state_after = fp_state_get();
	}
	in_kernel = 0;
	fp_state_set(saved);
}

/* Writes how two outcomes differ; false if they do not. */
static bool outcomes_differ(const struct equal_outcome *got, const struct equal_outcome *want, char *text, size_t size)
{
	const struct mxfp_counts *g = &got->counts, *w = &want->counts;

	if (g->saturated == w->saturated && g->overflowed == w->overflowed && g->flushed == w->flushed &&
	    g->nan == w->nan && g->inf == w->inf && got->amax == want->amax &&
	    got->first_non_finite == want->first_non_finite)
		return false;
	snprintf(text, size, "counts, which had a start (want): saturated %" PRId64 " (%" PRId64 "), overflowed %"
	         PRId64 " (%" PRId64 "), flushed %" PRId64 " (%" PRId64 "), nan %" PRId64 " (%" PRId64 "), inf %" PRId64
	         " (%" PRId64 "); amax %08" PRIX32 " (%08" PRIX32 "), first non-finite %" PRIu64 " (%" PRIu64 ")",
	         (int64_t)g->saturated, (int64_t)w->saturated, (int64_t)g->overflowed, (int64_t)w->overflowed,
	         (int64_t)g->flushed, (int64_t)w->flushed, (int64_t)g->nan, (int64_t)w->nan, (int64_t)g->inf,
	         (int64_t)w->inf, got->amax, want->amax, got->first_non_finite, want->first_non_finite);
	return true;
}

/* The same for the bytes of all arrays and around them. */
static bool arrays_differ(const struct equal *e, const struct equal_case *c, char *text, size_t size)
{
	for (int i = 0; i < EQUAL_MAX_ARRAYS; i++) {
		const struct equal_array *a = &c->array[i];
		const uint8_t *got = e->region[i], *want = e->image[i];
		size_t at = window_start(a), n = window_bytes(a);

		if (memcmp(got + at, want + at, n) == 0)
			continue;
		while (got[at] == want[at])
			at++;
		snprintf(text, size, "%s array %d of %zu bytes, byte %td is %02X, must be %02X", a->input == NULL ? "output" :
		         "input", i, a->bytes, (ptrdiff_t)at - (ptrdiff_t)offset_of(a), got[at], want[at]);
		return true;
	}
	return false;
}

/* Runs the case once and compares it with the images. */
static bool compare(struct equal *e, const struct equal_case *c, const struct equal_tier *tier, uint64_t state,
                    const struct equal_outcome *want, uint8_t canary)
{
	char what[500], job[500];
	struct result r;

	prepare(c, e->region, canary);
	call(c, c->kernel(&tier->table, c), e->region, state, &r);
	if (r.fault != 0)
		snprintf(what, sizeof what, "ended by signal %d", r.fault);
	else if (r.state_before != r.state_after)
		snprintf(what, sizeof what, "floating-point state %" PRIX64 " became %" PRIX64, r.state_before, r.state_after);
	else if (!arrays_differ(e, c, what, sizeof what) && !outcomes_differ(&r.outcome, want, what, sizeof what))
		return true;
	c->describe(c, job, sizeof job);
	snprintf(e->message, sizeof e->message, "%s %s: %s; places %d %d %d, floating-point state %" PRIX64
	         ", MXFP_TEST_SEED=%" PRIu64, tier->name, job, what, c->array[0].place, c->array[1].place,
	         c->array[2].place, state, suite_seed());
	return false;
}

bool equal_is_wanted(const struct equal *e, const struct equal_case *c)
{
	for (size_t i = 0; i < e->n_tiers; i++)
		if (c->kernel(&e->tier[i].table, c) != c->kernel(&e->reference, c))
			return true;
	return false;
}

/* States first to end - 1 of the hostile ones. */
static bool run(struct equal *e, const struct equal_case *c, unsigned first, unsigned end)
{
	uint8_t canary = (uint8_t)random_u64(&e->random);
	struct result want;

	if (!equal_is_wanted(e, c) || (e->share > 1 && random_below(&e->random, e->share) != 0))
		return true;
	prepare(c, e->image, canary);
	call(c, c->kernel(&e->reference, c), e->image, fp_state_get(), &want);
	assert(want.fault == 0);
	for (size_t i = 0; i < e->n_tiers; i++) {
		if (c->kernel(&e->tier[i].table, c) == c->kernel(&e->reference, c))
			continue;
		suite_compared(c->n_elements);
		for (unsigned state = first; state < end; state++)
			if (!compare(e, c, &e->tier[i], fp_state_hostile(state), &want.outcome, canary))
				return false;
	}
	return true;
}

bool equal_run(struct equal *e, const struct equal_case *c)
{
	unsigned state = random_below(&e->random, FP_STATE_N_HOSTILE);

	return run(e, c, state, state + 1);
}

bool equal_run_in_every_state(struct equal *e, const struct equal_case *c)
{
	return run(e, c, 0, FP_STATE_N_HOSTILE);
}
