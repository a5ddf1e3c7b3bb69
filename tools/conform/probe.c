/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "conform/probe.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/interrupt.h"
#include "conform/number.h"
#include "conform/probe_print.h"
#include "conform/products.h"

static const struct {
	enum mxfp_format a, w;
} pairs[] = {
	{MXFP_FORMAT_F32, MXFP_FORMAT_F32}, {MXFP_FORMAT_TF32, MXFP_FORMAT_TF32}, {MXFP_FORMAT_BF16, MXFP_FORMAT_BF16},
	{MXFP_FORMAT_F16, MXFP_FORMAT_F16}, {MXFP_FORMAT_E4M3, MXFP_FORMAT_E4M3}, {MXFP_FORMAT_E5M2, MXFP_FORMAT_E5M2},
	{MXFP_FORMAT_E4M3, MXFP_FORMAT_E5M2}, {MXFP_FORMAT_E4M3FNUZ, MXFP_FORMAT_E4M3FNUZ},
	{MXFP_FORMAT_E5M2FNUZ, MXFP_FORMAT_E5M2FNUZ}, {MXFP_FORMAT_E4M3FNUZ, MXFP_FORMAT_E5M2FNUZ},
	{MXFP_FORMAT_MXFP8_E4M3, MXFP_FORMAT_MXFP8_E4M3},
	{MXFP_FORMAT_MXFP8_E5M2, MXFP_FORMAT_MXFP8_E5M2}, {MXFP_FORMAT_MXFP8_E4M3, MXFP_FORMAT_MXFP4},
	{MXFP_FORMAT_MXFP6_E3M2, MXFP_FORMAT_MXFP6_E3M2}, {MXFP_FORMAT_MXFP6_E2M3, MXFP_FORMAT_MXFP6_E2M3},
	{MXFP_FORMAT_MXFP4, MXFP_FORMAT_MXFP4}, {MXFP_FORMAT_NVFP4, MXFP_FORMAT_NVFP4}, {MXFP_FORMAT_BF16, MXFP_FORMAT_MXFP4},
};

/* ACCS_MAX is above the number of ways to sum; below LEAVES_MIN there is no order worth the name, and above LEAVES_MOST the cube
   is too much. */
enum { N_PAIRS = sizeof pairs / sizeof pairs[0], ACCS_MAX = 64, LEAVES_MIN = 4, LEAVES_MOST = 32, PRODUCTS_MIN = 64, PRODUCTS_MAX = 4096 };

static int add_random(struct asker *asker, const struct conform_options *options, float **answers, size_t *n_special, struct error *error)
{
	const int each = options->quick ? 20 : 200;

	items_clear(asker);
	for (int style = 0; style < N_STYLES; style++)
		for (int i = 0; i < each; i++) {
			item_random(asker, style);
			item_add(asker);
		}
	*n_special = (size_t)each;
	return asker_ask(asker, answers, error);
}

static uint32_t rounded(uint32_t x, const struct mxfp_format_info *f)
{
	return f->format == MXFP_FORMAT_F32 ? x : code_decode(f, number_encode(f, x, MXFP_ROUND_RNE, MXFP_OVERFLOW_OVF));
}

static bool same(uint32_t x, uint32_t y)
{
	return x == y || (f32_is_nan(x) && f32_is_nan(y));
}

/* The format that all answers are numbers of: bf16, f16 or f32. */
static const struct mxfp_format_info *format_of(const float *answers, size_t n)
{
	static const enum mxfp_format formats[] = {MXFP_FORMAT_BF16, MXFP_FORMAT_F16};

	for (size_t f = 0; f < sizeof formats / sizeof formats[0]; f++) {
		const struct mxfp_format_info *info = mxfp_format_get_info(formats[f]);
		size_t i = 0;

		while (i < n && same(rounded(f32_bits(answers[i]), info), f32_bits(answers[i])))
			i++;
		if (i == n)
			return info;
	}
	return mxfp_format_get_info(MXFP_FORMAT_F32);
}

/* Whether the reference gives all answers so. */
static bool is_named(const struct asker *asker, const float *answers, const struct mxfp_format_info *format, int acc, unsigned pass)
{
	for (size_t i = 0; i < asker->items.n; i++) {
		uint32_t c;

		if (!dot_item(&c, &asker->q, asker->items.bytes + i * asker->q.in_bytes, (enum mxfp_acc)acc, pass) ||
		    !same(rounded(c, format), f32_bits(answers[i])))
			return false;
	}
	return asker->items.n > 0;
}

static void find_names(struct probed *probed, const struct asker *asker, const float *answers)
{
	static const unsigned passes[] = {0, 128, 256, 512};
	const struct mxfp_format_info *format = format_of(answers, asker->items.n);

	probed->answers = format->format == MXFP_FORMAT_F32 ? NULL : format->name;
	for (int acc = 0; acc < ACCS_MAX && probed->n_names < NAMES_MAX; acc++) {
		/* exact is chain where an operand is in no block format. */
		if (mxfp_option_name(MXFP_OPTION_ACC, acc) == NULL ||
		    (acc == MXFP_ACC_EXACT && (asker->side[0].scale == NULL || asker->side[1].scale == NULL)))
			continue;
		for (size_t i = 0; i < sizeof passes / sizeof passes[0]; i++)
			if (is_named(asker, answers, format, acc, passes[i])) {
				probed->names[probed->n_names++] = (struct probed_name){mxfp_option_name(MXFP_OPTION_ACC, acc), passes[i]};
				break;
			}
	}
}

/* Looks for the machine with dot products of k elements, and keeps what describes more answers than *best. */
static int probe_with(struct found *best, struct child *child, enum mxfp_format a, enum mxfp_format w, size_t k, bool one_by_one,
                      const struct conform_options *options, struct error *error)
{
	struct asker asker;
	struct found found = {.k = 0};
	float *answers = NULL;
	size_t n_special = 0;
	int code = asker_begin(&asker, child, a, w, k, options->seed + 1, error);

	if (code == EXIT_OK && (asker.n_leaves < LEAVES_MIN || (one_by_one && asker.n_leaves > LEAVES_MOST))) {
		asker_end(&asker);
		return EXIT_OK;
	}
	if (code == EXIT_OK)
		code = find_machine(&found, &asker, one_by_one, error);
	if (code == EXIT_OK && found.has_order)
		code = add_random(&asker, options, &answers, &n_special, error);
	if (code == EXIT_OK && answers != NULL)
		code = find_equal(&found, &asker, answers, n_special, error);
	free(answers);
	asker_end(&asker);
	if (code == EXIT_OK && found.has_order && (!best->has_order || found_score(&found) > found_score(best))) {
		found_free(best);
		*best = found;
	} else {
		found_free(&found);
	}
	return code;
}

/* Fewer products are tried where more give answers that no order explains: a sum of many ones reaches what is cut. */
static int probe_order(struct found *found, struct child *child, enum mxfp_format a, enum mxfp_format w,
                       const struct conform_options *options, struct error *error)
{
	int code = EXIT_OK;

	for (int one_by_one = 0; one_by_one < 2 && code == EXIT_OK && !child->unsupported && !found_all(found); one_by_one++)
		for (size_t k = options->products; k >= PRODUCTS_MIN / 4 && code == EXIT_OK && !child->unsupported; k /= 2) {
			code = probe_with(found, child, a, w, k, one_by_one != 0, options, error);
			if (found_equal(found) && found->k >= k)
				break;
		}
	return code;
}

static int probe_pair(struct probed *probed, struct child *child, size_t pair, const struct conform_options *options, struct error *error)
{
	struct asker asker;
	float *answers;
	size_t n_special;

	*probed = (struct probed){.a = mxfp_format_get_info(pairs[pair].a)->name, .w = mxfp_format_get_info(pairs[pair].w)->name};
	int code = asker_begin(&asker, child, pairs[pair].a, pairs[pair].w, options->products, options->seed, error);
	if (code == EXIT_OK)
		code = add_random(&asker, options, &answers, &n_special, error);
	if (code == EXIT_OK && answers != NULL) {
		probed->supported = true;
		probed->n = asker.items.n;
		find_names(probed, &asker, answers);
		free(answers);
	}
	asker_end(&asker);
	if (code == EXIT_OK && probed->supported)
		code = probe_order(&probed->found, child, pairs[pair].a, pairs[pair].w, options, error);
	return code;
}

static bool is_wanted(size_t pair, const struct string_list *only)
{
	bool wanted = only->n == 0;
	char label[96];

	snprintf(label, sizeof label, "%s %s", mxfp_format_get_info(pairs[pair].a)->name, mxfp_format_get_info(pairs[pair].w)->name);
	for (size_t i = 0; i < only->n; i++)
		wanted |= strcmp(only->items[i], label) == 0;
	return wanted;
}

static int check(const struct conform_options *options, struct error *error)
{
	bool any = false;

	for (size_t pair = 0; pair < N_PAIRS; pair++)
		any |= is_wanted(pair, options->only);
	if (!any)
		return fail(error, EXIT_USAGE, "conform: --probe --only '%s': no such pair of formats; give two, such as 'bf16 bf16'",
		            options->only->items[0]);
	if (options->products < PRODUCTS_MIN || options->products > PRODUCTS_MAX || options->products % PRODUCTS_MIN != 0)
		return fail(error, EXIT_USAGE, "conform: --products is a multiple of %d from %d to %d", PRODUCTS_MIN, PRODUCTS_MIN, PRODUCTS_MAX);
	return EXIT_OK;
}

int probe_run(const struct conform_options *options, struct error *error)
{
	static struct probed probed[N_PAIRS];
	struct child child = {.pid = 0};
	size_t n = 0;
	int code = check(options, error);

	if (code != EXIT_OK)
		return code;
	interrupt_hold();
	code = child_start(&child, options->command, (double)options->timeout, error);
	for (size_t pair = 0; pair < N_PAIRS && code == EXIT_OK; pair++)
		if (is_wanted(pair, options->only))
			code = probe_pair(&probed[n++], &child, pair, options, error);
	if (code == EXIT_OK)
		code = child_end(&child, error);
	child_kill(&child);
	interrupt_release();
	if (code == EXIT_OK)
		code = probed_print(probed, n, child.name, options, error);
	for (size_t i = 0; i < n; i++)
		found_free(&probed[i].found);
	return code;
}
