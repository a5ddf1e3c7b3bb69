/* SPDX-License-Identifier: MIT */
/* The library against other implementations, on the vectors that shared/vectors holds. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "suite.h"
#include "vectors.h"

enum { EXIT_SKIP = 77 /* automake's */ };

static struct vector_set set;

/* run is NULL for what the library has no function for yet. */
static const struct {
	const char *kind;
	void (*run)(struct vector_set *set, struct vector_case *c);
} kinds[] = {
	{"cast", vectors_run_cast},         {"cast-values", vectors_run_cast_values},
	{"decode", vectors_run_decode},     {"pack", vectors_run_pack},
	{"mx-block", vectors_run_mx_block}, {"mx-scale", vectors_run_mx_scale},
	{"nvfp4", vectors_run_nvfp4},       {"sparse24", NULL},
};

enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

static size_t n_of_kind(const char *kind)
{
	size_t n = 0, total = json_array_size(json_object_get(set.manifest, "cases"));

	for (size_t i = 0; i < total; i++)
		n += strcmp(vectors_case(&set, i).kind, kind) == 0;
	return n;
}

START_TEST(every_case_of_the_kind_agrees)
{
	size_t total = json_array_size(json_object_get(set.manifest, "cases"));
	uint64_t compared_before = set.n_compared, different_before = set.n_different;

	for (size_t i = 0; i < total; i++) {
		struct vector_case c = vectors_case(&set, i);

		if (strcmp(c.kind, kinds[_i].kind) != 0)
			continue;
		uint64_t before = set.n_compared;
		if (kinds[_i].run != NULL)
			kinds[_i].run(&set, &c);
		ck_assert_msg(kinds[_i].run == NULL || set.n_compared > before, "%s compared nothing",
		              c.name);
		set.n_cases++;
	}
	printf("%-11s %3zu cases, %8" PRIu64 " numbers compared%s\n", kinds[_i].kind,
	       n_of_kind(kinds[_i].kind), set.n_compared - compared_before,
	       kinds[_i].run == NULL ? " (left out: structured sparsity is to come)" : "");
	ck_assert_uint_gt(n_of_kind(kinds[_i].kind), 0);
	ck_assert_uint_eq(set.n_different, different_before);
}
END_TEST

/* No case may be left aside because its kind is unknown here. */
START_TEST(the_number_of_cases_is_the_manifests)
{
	ck_assert_uint_eq(set.n_cases, json_array_size(json_object_get(set.manifest, "cases")));
	for (int item = 1; item <= VECTOR_LAST_ITEM; item++)
		if (set.n_excused[item] != 0)
			printf("differing as item %d of vectors/README.md says: %" PRIu64 "\n", item,
			       set.n_excused[item]);
	printf("differing as the notes of the case say: %" PRIu64 "\n", set.n_excused[VECTOR_NOTES]);
	printf("left out, the implementation was not run on the input: %" PRIu64 "\n",
	       set.n_excused[VECTOR_NOT_RUN]);
	suite_compared(set.n_compared);
}
END_TEST

int main(void)
{
	if (!vectors_open(&set)) {
		printf("skipped: no %s (set MXFP_SHARED to the folder that holds vectors/)\n", set.folder);
		return EXIT_SKIP;
	}
	if (set.manifest == NULL)
		return EXIT_FAILURE;
	Suite *suite = suite_create("vectors");
	TCase *tcase = tcase_create("vectors_oracle");
	tcase_add_loop_test(tcase, every_case_of_the_kind_agrees, 0, N_KINDS);
	tcase_add_test(tcase, the_number_of_cases_is_the_manifests);
	suite_add_tcase(suite, tcase);
	int status = suite_run(suite);
	vectors_close(&set);
	return status;
}
