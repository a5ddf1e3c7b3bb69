/* SPDX-License-Identifier: MIT */
/* The library against other implementations: on tests/vectors, and on the vectors of MXFP_SHARED where it has some. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "suite.h"
#include "interop/vectors.h"

enum { OWN, SHARED, N_SETS, MAX_FOLDER = 2048 };

static struct vector_set *sets; /* whose counts grow from test to test, each a process of its own */
static json_t *manifests[N_SETS]; /* theirs, where LeakSanitizer looks: at what is mapped it does not */

static const struct {
	const char *kind;
	void (*run)(struct vector_set *set, struct vector_case *c);
} kinds[] = {
	{"cast", vectors_run_cast},         {"cast-values", vectors_run_cast_values},
	{"decode", vectors_run_decode},     {"pack", vectors_run_pack},
	{"mx-block", vectors_run_mx_block}, {"mx-scale", vectors_run_mx_scale},
	{"nvfp4", vectors_run_nvfp4},       {"sparse24", vectors_run_sparse24},
};

enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

/* _i: a set and a kind. */
TEST_LOOP(every_case_of_the_kind_agrees, N_SETS * N_KINDS)
{
	struct vector_set *set = &sets[_i / N_KINDS];
	size_t kind = (size_t)_i % N_KINDS, n = 0, total = json_array_size(json_object_get(set->manifest, "cases"));
	uint64_t compared_before = set->n_compared, different_before = set->n_different;

	if (set->manifest == NULL)
		return; /* nothing is shared */
	for (size_t i = 0; i < total; i++) {
		struct vector_case c = vectors_case(set, i);

		if (strcmp(c.kind, kinds[kind].kind) != 0)
			continue;
		uint64_t before = set->n_compared;
		kinds[kind].run(set, &c);
		ck_assert_msg(set->n_compared > before, "%s compared nothing", c.name);
		n++;
	}
	set->n_cases += n;
	printf("%-11s %3zu cases, %8" PRIu64 " numbers compared\n", kinds[kind].kind, n,
	       set->n_compared - compared_before);
	ck_assert_uint_gt(n, 0);
	ck_assert_uint_eq(set->n_different, different_before);
}

/* No case may be left aside because its kind is unknown here. */
TEST_LOOP(the_number_of_cases_is_the_manifests, N_SETS)
{
	struct vector_set *set = &sets[_i];

	if (set->manifest == NULL)
		return;
	ck_assert_uint_eq(set->n_cases, json_array_size(json_object_get(set->manifest, "cases")));
	printf("%s: %" PRIu64 " cases\n", set->folder, set->n_cases);
	for (int item = 1; item <= VECTOR_LAST_ITEM; item++)
		if (set->n_excused[item] != 0)
			printf("differing as item %d of vectors/README.md says: %" PRIu64 "\n", item,
			       set->n_excused[item]);
	printf("differing as the notes of the case say: %" PRIu64 "\n", set->n_excused[VECTOR_NOTES]);
	printf("left out, the implementation was not run on the input: %" PRIu64 "\n",
	       set->n_excused[VECTOR_NOT_RUN]);
	suite_compared(set->n_compared);
}

int main(void)
{
	static char folders[N_SETS][MAX_FOLDER];
	const char *source = getenv("srcdir"), *own = getenv("MXFP_VECTORS"), *shared = getenv("MXFP_SHARED");
	int n_sets = SHARED;

	if (source == NULL)
		source = ".";
	sets = mmap(NULL, N_SETS * sizeof *sets, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (sets == MAP_FAILED)
		return EXIT_FAILURE;
	snprintf(folders[OWN], MAX_FOLDER, "%s%s", own != NULL ? own : source, own != NULL ? "" : "/tests/vectors");
	snprintf(folders[SHARED], MAX_FOLDER, "%s%s/vectors", shared != NULL ? shared : source,
	         shared != NULL ? "" : "/../shared");
	if (!vectors_open(&sets[OWN], folders[OWN])) {
		fprintf(stderr, "no %s/manifest.json\n", folders[OWN]);
		return EXIT_FAILURE;
	}
	if (vectors_open(&sets[SHARED], folders[SHARED]))
		n_sets = N_SETS;
	for (int i = 0; i < n_sets; i++)
		if (sets[i].manifest == NULL)
			return EXIT_FAILURE;
	for (int i = 0; i < n_sets; i++)
		manifests[i] = sets[i].manifest;
	int status = suite_run(NULL);
	for (int i = 0; i < n_sets; i++)
		vectors_close(&sets[i]);
	return status;
}
