/* SPDX-License-Identifier: MIT */
/* Detection, from a mask of tiers to a table of kernels, and MXFP_ISA. */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cpu.h"
#include "internal.h"
#include "mxfp/isa.h"
#include "mxfp/version.h"
#include "ref.h"
#include "suite.h"

/* The environment is read once a process, so each value needs a child; this is the first test, before anything
   read it. */
static int in_child(const char *isa, int tier, enum mxfp_status status)
{
	int result = 0;
	pid_t child = fork();

	ck_assert_int_ge(child, 0);
	if (child == 0) {
		if (isa == NULL)
			unsetenv("MXFP_ISA");
		else
			setenv("MXFP_ISA", isa, 1);
		_exit(mxfp_isa_active() != tier || mxfp_isa_status() != status);
	}
	ck_assert_int_eq(waitpid(child, &result, 0), child);
	return result;
}

TEST(the_environment_is_heeded)
{
	int highest = 0;

	for (int tier = 0; mxfp_isa_name(tier) != NULL; tier++) {
		const bool available = mxfp_isa_available() >> tier & 1;

		if (strcmp(mxfp_isa_name(tier), "amx") != 0) /* which runs by name alone */
			highest = available ? tier : highest;
		else if (available)
			ck_assert_int_eq(in_child("amx", tier, MXFP_OK), 0);
	}
	ck_assert_int_eq(in_child(NULL, highest, MXFP_OK), 0);
	ck_assert_int_eq(in_child("", highest, MXFP_OK), 0);
	ck_assert_int_eq(in_child("ref", 0, MXFP_OK), 0);
	ck_assert_int_eq(in_child("nonsense", 0, MXFP_ERR_ISA), 0);
}

static bool is_source(int f)
{
	return f == MXFP_FORMAT_F32 || f == MXFP_FORMAT_BF16 || f == MXFP_FORMAT_F16;
}

static bool is_block(int f)
{
	return mxfp_format_get_info((enum mxfp_format)f)->kind == MXFP_KIND_BLOCK;
}

/* How many of n kernels are the same function in both. */
static size_t count_shared(const void *a, const void *b, size_t n)
{
	size_t shared = 0;

	for (size_t i = 0; i < n; i++) {
		void (*x)(void), (*y)(void);

		memcpy(&x, (const char *)a + i * sizeof x, sizeof x);
		memcpy(&y, (const char *)b + i * sizeof y, sizeof y);
		shared += x != NULL && x == y;
	}
	return shared;
}

/* A kernel of the tier below has the same bits, so that nothing else shows it. */
TEST(a_tier_has_kernels_of_its_own)
{
	uint32_t mask = 1;

	for (int tier = 1; mxfp_isa_name(tier) != NULL; tier++) {
		const char *name = mxfp_isa_name(tier);
		const bool is_avx512 = strcmp(name, "avx512") == 0;
		struct mxfp_kernels below, own;

		if ((mxfp_isa_available() >> tier & 1) == 0 || strcmp(name, "amx") == 0) /* which has products alone */
			continue;
		mxfp_kernels_init(&below, mask);
		mask |= UINT32_C(1) << tier;
		mxfp_kernels_init(&own, mask);
#define MXFP_KERNEL(slot, dimensions, job) \
		if (strcmp(#slot, "gemm_ref") != 0 && \
		    !(is_avx512 && (strcmp(#slot, "quantize_squares") == 0 || strcmp(#slot, "transpose") == 0))) \
			ck_assert_msg(count_shared(&below.slot, &own.slot, sizeof own.slot / sizeof(void *)) == 0, \
			              "%s has " #slot " of the tier below", name);
#include "kernel.def"
	}
}

/* Every subset of what is available, over a table that held something else, has exactly the slots that formats need. */
TEST(every_subset_of_tiers_fills_every_slot)
{
	uint32_t available = mxfp_isa_available();

	for (uint32_t mask = 0; mask <= available; mask++) {
		struct mxfp_kernels first, again;
		if ((mask & ~available) != 0)
			continue;
		memset(&first, 0, sizeof first);
		memset(&again, 0xFF, sizeof again);
		mxfp_kernels_init(&first, mask);
		mxfp_kernels_init(&again, mask);
		ck_assert_mem_eq(&first, &again, sizeof first);
		for (int to = 0; to < MXFP_N_FORMATS; to++) {
			for (int from = 0; from < MXFP_N_FORMATS; from++)
				ck_assert_int_eq(first.convert[to][from] != NULL, !is_block(to) && !is_block(from));
			ck_assert_int_eq(first.quantize[to] != NULL, is_block(to));
			ck_assert_int_eq(first.dequantize[to] != NULL, is_block(to));
			ck_assert(first.scan[to] != NULL || !is_source(to));
			ck_assert(first.prune[to] != NULL || !is_source(to));
			ck_assert(first.compress[to] != NULL && first.expand[to] != NULL);
		}
	}
}

TEST(the_reference_is_always_there)
{
	struct mxfp_kernels none, reference;

	ck_assert_uint_eq(mxfp_isa_available() & 1, 1);
	mxfp_kernels_init(&none, 0);
	mxfp_kernels_init(&reference, 1);
	ck_assert_mem_eq(&none, &reference, sizeof none);
	for (int to = 0; to < MXFP_N_FORMATS; to++) {
		const bool block = is_block(to), nvfp4 = mxfp_format_get_info((enum mxfp_format)to)->tensor_scale;

		for (int from = 0; from < MXFP_N_FORMATS; from++)
			ck_assert(reference.convert[to][from] == (block || is_block(from) ? NULL : mxfp_convert_ref));
		ck_assert(reference.quantize[to] ==
		          (nvfp4 ? mxfp_quantize_nvfp4_ref : block ? mxfp_quantize_mx_ref : NULL));
		ck_assert(reference.dequantize[to] ==
		          (nvfp4 ? mxfp_dequantize_nvfp4_ref : block ? mxfp_dequantize_mx_ref : NULL));
		ck_assert(reference.scan[to] == (block ? NULL : mxfp_scan_ref));
	}
}

/* A table without its names: every slot is a pointer to a function. */
typedef void slot_function(void);

union slots {
	struct mxfp_kernels table;
	slot_function *at[sizeof(struct mxfp_kernels) / sizeof(slot_function *)];
};

/* Puts the slots of a tier that are not the reference's. A tier with products of all numbers takes no family of those below. */
static void put_own_slots(union slots *to, const union slots *tier, const union slots *reference)
{
	if (tier->table.gemm[MXFP_GEMM_CHAIN] != NULL)
		memset(to->table.gemm, 0, sizeof to->table.gemm);
	for (size_t i = 0; i < sizeof to->at / sizeof to->at[0]; i++)
		if (tier->at[i] != reference->at[i])
			to->at[i] = tier->at[i];
}

/* So no tier's kernels depend on which others are there. */
TEST(each_slot_is_of_the_highest_tier_that_has_it)
{
	uint32_t available = mxfp_isa_available();
	union slots reference, expected, got, alone;

	mxfp_kernels_init(&reference.table, 1);
	for (uint32_t mask = 0; mask <= available; mask++) {
		if ((mask & ~available) != 0)
			continue;
		expected = reference;
		for (int tier = 1; mxfp_isa_name(tier) != NULL; tier++) {
			mxfp_kernels_init(&alone.table, mask & UINT32_C(1) << tier);
			put_own_slots(&expected, &alone, &reference);
		}
		mxfp_kernels_init(&got.table, mask);
		ck_assert_mem_eq(&got, &expected, sizeof got);
	}
}

TEST(a_tier_is_available_if_no_feature_is_missing)
{
	uint32_t features = mxfp_cpu_features(), available = mxfp_isa_available();

	ck_assert_uint_eq(mxfp_isa_missing(0), 0);
	for (int tier = 0; mxfp_isa_name(tier) != NULL; tier++) {
		ck_assert_uint_eq(available >> tier & 1, mxfp_isa_missing(tier) == 0);
		ck_assert_uint_eq(mxfp_isa_missing(tier) & features, 0);
	}
	/* Detection tells the same again, also after the table was made. */
	mxfp_kernels_get();
	ck_assert_uint_eq(mxfp_cpu_features(), features);
	ck_assert_uint_eq(mxfp_isa_available(), available);
}

TEST(features_have_names)
{
	uint32_t known = 0;
	int n = 0;

	ck_assert_ptr_null(mxfp_cpu_name(-1));
	for (; mxfp_cpu_name(n) != NULL; n++) {
		known |= UINT32_C(1) << n;
		for (int i = 0; i < n; i++)
			ck_assert_str_ne(mxfp_cpu_name(i), mxfp_cpu_name(n));
	}
	ck_assert_int_le(n, 32);
	ck_assert_ptr_null(mxfp_cpu_name(n + 1));
	ck_assert_uint_eq(mxfp_cpu_features() & ~known, 0);
	for (int tier = 0; mxfp_isa_name(tier) != NULL; tier++)
		ck_assert_uint_eq(mxfp_isa_missing(tier) & ~known, 0);
}

TEST(tiers_have_names)
{
	int n = 0;

	ck_assert_str_eq(mxfp_isa_name(0), "ref");
	ck_assert_ptr_null(mxfp_isa_name(-1));
	while (mxfp_isa_name(n) != NULL)
		n++;
	ck_assert_int_le(n, 32);
	ck_assert_ptr_null(mxfp_isa_name(n + 1));
	ck_assert_uint_eq((uint64_t)mxfp_isa_available() >> n, 0);
}

TEST(a_named_tier_is_the_ceiling)
{
	enum mxfp_status status = MXFP_ERR_NULL;

	ck_assert_uint_eq(mxfp_isa_ceiling(NULL, 0x5, &status), 0x5);
	ck_assert_int_eq((int)status, (int)MXFP_OK);
	ck_assert_uint_eq(mxfp_isa_ceiling("", 0x5, &status), 0x5);
	ck_assert_int_eq((int)status, (int)MXFP_OK);
	/* Of tiers up to the named one, those that are available. */
	for (int tier = 0; mxfp_isa_name(tier) != NULL; tier++) {
		uint32_t upto = (uint32_t)((UINT64_C(2) << tier) - 1);
		ck_assert_uint_eq(mxfp_isa_ceiling(mxfp_isa_name(tier), UINT32_MAX, &status), upto);
		ck_assert_int_eq((int)status, (int)MXFP_OK);
		ck_assert_uint_eq(mxfp_isa_ceiling(mxfp_isa_name(tier), 1, &status), 1);
		ck_assert_uint_eq(mxfp_isa_ceiling(mxfp_isa_name(tier), ~upto, &status), 0);
	}
}

TEST(an_unknown_tier_leaves_the_reference)
{
	static const char *const unknown[] = {"REF", "re", "reff", "avx1024", " ref"};

	for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
		enum mxfp_status status = MXFP_OK;
		ck_assert_uint_eq(mxfp_isa_ceiling(unknown[i], UINT32_MAX, &status), 1);
		ck_assert_int_eq((int)status, (int)MXFP_ERR_ISA);
	}
}

TEST(version_and_build_are_stated)
{
	ck_assert_str_eq(mxfp_version(), PACKAGE_VERSION);
	ck_assert_uint_gt(strlen(mxfp_build_info()), 0);
	ck_assert_ptr_null(strchr(mxfp_build_info(), '\n'));
}
