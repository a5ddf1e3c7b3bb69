/* SPDX-License-Identifier: MIT */
/* The numbers and blocks of conformance/vectors, each result against MPFR; tests/house/vectors.py has the other files. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mxfp/philox.h"
#include "oracle/oracle_function.h"
#include "oracle/oracle_mx.h"
#include "oracle/oracle_nvfp4.h"
#include "suite.h"

/* DONT_CARE: two digits that are xx. */
enum { WORDS_MAX = 4096, COLUMNS_MAX = 48, DONT_CARE = -1 };

/* A file of vectors at one of its lines: words of the input, then those of each column. */
struct vectors {
	FILE *file;
	char name[96], columns[COLUMNS_MAX][64];
	size_t n_in, n_columns, n_out[COLUMNS_MAX], n_items;
	int64_t words[WORDS_MAX];
};

/* The words of "32x8+1x8". */
static size_t count_words(const char *layout)
{
	size_t n = 0;

	for (;; layout = strchr(layout, '+') + 1) {
		n += strtoul(layout, NULL, 10);
		if (strchr(layout, '+') == NULL)
			return n;
	}
}

static void open_vectors(struct vectors *v, const char *operation, const char *rest)
{
	char path[4096], line[8192];
	const char *srcdir = getenv("srcdir");

	*v = (struct vectors){.n_columns = 0};
	snprintf(v->name, sizeof v->name, "%s%s%s.hex", operation, rest[0] != '\0' ? "_" : "", rest);
	snprintf(path, sizeof path, "%s/conformance/vectors/%s", srcdir != NULL ? srcdir : ".", v->name);
	v->file = fopen(path, "r");
	ck_assert_msg(v->file != NULL, "%s", path);
	ck_assert_ptr_nonnull(fgets(line, sizeof line, v->file));
	char *at = strstr(line, "A line: ");
	ck_assert_ptr_nonnull(at);
	char *word = strtok(at + strlen("A line: "), " \n");
	v->n_in = count_words(word);
	while ((word = strtok(NULL, " \n")) != NULL) {
		const size_t c = v->n_columns++;

		ck_assert_uint_lt(c, COLUMNS_MAX);
		snprintf(v->columns[c], sizeof v->columns[c], "%.*s", (int)strcspn(word, ":"), word);
		v->n_out[c] = count_words(strchr(word, ':') + 1);
	}
}

/* The next line; false after the last. */
static bool next_item(struct vectors *v)
{
	static char line[1 << 17];
	size_t n = 0, expected = v->n_in;

	do {
		if (fgets(line, sizeof line, v->file) == NULL) {
			ck_assert_uint_gt(v->n_items, 0);
			fclose(v->file);
			return false;
		}
	} while (line[0] == '/');
	for (char *word = strtok(line, "_\n"); word != NULL; word = strtok(NULL, "_\n"), n++)
		v->words[n] = word[0] == 'x' ? DONT_CARE : (int64_t)strtoul(word, NULL, 16);
	for (size_t c = 0; c < v->n_columns; c++)
		expected += v->n_out[c];
	ck_assert_uint_eq(n, expected);
	v->n_items++;
	return true;
}

static void compare(const struct vectors *v, const char *column, int64_t got, uint32_t want)
{
	suite_compared(1);
	if (got != DONT_CARE && got != (int64_t)want)
		ck_abort_msg("%s, item %zu, %s: %08" PRIX64 ", MPFR has %08" PRIX32, v->name, v->n_items - 1, column, got, want);
}

/* The value of an option among the words of a column, which dots divide; the default if it has none. */
static int choice(const char *column, enum mxfp_option option)
{
	char words[64];
	int value = 0, found;

	snprintf(words, sizeof words, "%s", column);
	for (char *save, *word = strtok_r(words, ".", &save); word != NULL; word = strtok_r(NULL, ".", &save))
		if (mxfp_option_from_name(&found, option, word) == MXFP_OK)
			value = found;
	return value;
}

/* The value of an option before the last dot, as in "even-m1.rne" and "modelopt-0.45.rne". */
static int choice_before(const char *column, enum mxfp_option option)
{
	char words[64];
	int value;

	snprintf(words, sizeof words, "%.*s", (int)(strrchr(column, '.') - column), column);
	assert_status(mxfp_option_from_name(&value, option, words), MXFP_OK);
	return value;
}

static const enum mxfp_format elements[] = {
	MXFP_FORMAT_E4M3, MXFP_FORMAT_E5M2,     MXFP_FORMAT_E2M1, MXFP_FORMAT_E2M3, MXFP_FORMAT_E3M2, MXFP_FORMAT_INT8, MXFP_FORMAT_E8M0,
	MXFP_FORMAT_UE4M3, MXFP_FORMAT_E4M3IEEE, MXFP_FORMAT_E3M4, MXFP_FORMAT_BF16, MXFP_FORMAT_F16,  MXFP_FORMAT_TF32,
	MXFP_FORMAT_E4M3FNUZ, MXFP_FORMAT_E5M2FNUZ,
};

TEST_LOOP(casts, sizeof elements / sizeof elements[0])
{
	static struct vectors v;
	struct oracle o;
	struct mxfp_counts counts = {.size = sizeof counts};

	oracle_init(&o, elements[_i]);
	open_vectors(&v, "cast", o.format->name);
	while (next_item(&v))
		for (size_t c = 0; c < v.n_columns; c++) {
			struct mxfp_rounding r = {.mode = (enum mxfp_round)choice(v.columns[c], MXFP_OPTION_ROUND),
			                          .overflow = (enum mxfp_overflow)choice(v.columns[c], MXFP_OPTION_OVERFLOW)};
			/* "sr.sat.81985529216486895.7": seed and stream. */
			const uint32_t random = mxfp_philox_word(UINT64_C(81985529216486895), 7, v.n_items - 1);
			compare(&v, v.columns[c], v.words[1 + c], oracle_encode(&o, (uint32_t)v.words[0], 0, &r, random, &counts));
		}
	oracle_clear(&o);
}

TEST_LOOP(values, sizeof elements / sizeof elements[0])
{
	static struct vectors v;
	const struct mxfp_format_info *f = mxfp_format_get_info(elements[_i]);

	open_vectors(&v, "decode", f->name);
	while (next_item(&v))
		compare(&v, "value", v.words[1], oracle_decode(f, (uint32_t)v.words[0]));
}

static const enum mxfp_format blocks[] = {MXFP_FORMAT_MXFP4, MXFP_FORMAT_MXFP8_E4M3, MXFP_FORMAT_MXFP8_E5M2,
                                          MXFP_FORMAT_MXFP6_E2M3, MXFP_FORMAT_MXFP6_E3M2, MXFP_FORMAT_MXINT8};

/* Byte i of codes of so many bits, the first in the low ones. */
static uint32_t packed(const uint8_t *codes, unsigned bits, size_t i)
{
	uint32_t byte = 0;

	for (unsigned b = 0; b < 8; b++)
		byte |= (uint32_t)(codes[(8 * i + b) / bits] >> (8 * i + b) % bits & 1) << b;
	return byte;
}

TEST_LOOP(scales, sizeof blocks / sizeof blocks[0])
{
	static struct vectors v;
	struct oracle o;

	oracle_init(&o, mxfp_format_get_info(blocks[_i])->element);
	open_vectors(&v, "scale", mxfp_format_get_info(blocks[_i])->name);
	while (next_item(&v))
		for (size_t c = 0; c < v.n_columns; c++) {
			const enum mxfp_rule rule = (enum mxfp_rule)choice(v.columns[c], MXFP_OPTION_RULE);
			const uint32_t amax = (uint32_t)v.words[0];

			compare(&v, v.columns[c], v.words[1 + c],
			        amax == 0 ? 0 : (uint32_t)(oracle_scale_clamp(oracle_scale_unclamped(rule, &o, amax)) + 127));
		}
	oracle_clear(&o);
}

TEST_LOOP(mx_blocks, sizeof blocks / sizeof blocks[0])
{
	static struct vectors v;
	const unsigned bits = mxfp_format_get_info(mxfp_format_get_info(blocks[_i])->element)->bits;
	struct oracle o, bf16;

	oracle_init(&o, mxfp_format_get_info(blocks[_i])->element);
	oracle_init(&bf16, MXFP_FORMAT_BF16);
	open_vectors(&v, "mx", mxfp_format_get_info(blocks[_i])->name);
	while (next_item(&v)) {
		struct oracle_source source = {.n = MX_BLOCK};
		const int64_t *result = v.words + MX_BLOCK;

		for (int i = 0; i < MX_BLOCK; i++)
			source.x[i] = (uint32_t)v.words[i];
		for (size_t c = 0; c < v.n_columns; result += v.n_out[c++]) {
			const struct mxfp_quantize_options options = {
				.size = sizeof options, .rule = (enum mxfp_rule)choice_before(v.columns[c], MXFP_OPTION_RULE),
				.round = (enum mxfp_round)choice(strrchr(v.columns[c], '.'), MXFP_OPTION_ROUND)};
			struct mxfp_counts counts = {.size = sizeof counts};
			struct oracle_block block;

			oracle_block(&block, &o, &bf16, &source, &options, &counts);
			for (size_t i = 0; i < v.n_out[c] - 1; i++)
				compare(&v, v.columns[c], result[i], packed(block.codes, bits, i));
			compare(&v, v.columns[c], result[v.n_out[c] - 1], block.scale);
		}
	}
	oracle_clear(&o);
	oracle_clear(&bf16);
}

/* A value times 2^exponent. */
static uint32_t times_power(uint32_t value, int exponent)
{
	MPFR_DECL_INIT(x, 24);

	oracle_set_f32(x, value);
	oracle_f32_begin();
	const int ternary = mpfr_mul_2si(x, x, exponent, MPFR_RNDN);
	const uint32_t bits = oracle_f32_bits(x, ternary);
	oracle_f32_end();
	return bits;
}

/* Whether both are NaN, or the same. */
static uint32_t or_nan(int64_t got, uint32_t want)
{
	return (got & ~F32_SIGN) > F32_INF && (want & ~F32_SIGN) > F32_INF ? (uint32_t)got : want;
}

/* Code i of bytes. */
static uint32_t unpacked(const int64_t *bytes, unsigned bits, size_t i)
{
	uint32_t code = 0;

	for (size_t b = i * bits; b < (i + 1) * bits; b++)
		code |= (uint32_t)(bytes[b / 8] >> b % 8 & 1) << (b - i * bits);
	return code;
}

TEST_LOOP(mx_values, sizeof blocks / sizeof blocks[0])
{
	static struct vectors v;
	const struct mxfp_format_info *e = mxfp_format_get_info(mxfp_format_get_info(blocks[_i])->element);

	open_vectors(&v, "mx-decode", mxfp_format_get_info(blocks[_i])->name);
	while (next_item(&v)) {
		const int64_t scale = v.words[v.n_in - 1];

		for (size_t i = 0; i < MX_BLOCK; i++) {
			const uint32_t value = oracle_decode(e, unpacked(v.words, e->bits, i));
			const bool is_nan = scale == 0xFF || (value & ~F32_SIGN) > F32_INF;

			compare(&v, "values", v.words[v.n_in + i],
			        or_nan(v.words[v.n_in + i], is_nan ? UINT32_C(0x7FC00000) : times_power(value, (int)scale - 127)));
		}
	}
}

TEST(nvfp4_tensors)
{
	static struct vectors v;
	struct oracle_nvfp4 o;

	oracle_nvfp4_init(&o);
	open_vectors(&v, "nvfp4-tensor", "");
	while (next_item(&v))
		for (size_t c = 0; c < v.n_columns; c++) {
			bool divides;

			o.recipe = (enum mxfp_recipe)choice(v.columns[c], MXFP_OPTION_RECIPE);
			compare(&v, v.columns[c], v.words[1 + c], oracle_nvfp4_tensor_scale(&o, (uint32_t)v.words[0], &divides));
		}
	oracle_nvfp4_clear(&o);
}

TEST_LOOP(nvfp4_blocks, 2)
{
	static const char *const amaxes[] = {"45280000", "4048F5C3"};
	static struct vectors v;
	struct oracle_nvfp4 o;

	oracle_nvfp4_init(&o);
	open_vectors(&v, "nvfp4", amaxes[_i]);
	while (next_item(&v)) {
		const int64_t *result = v.words + NVFP4_BLOCK;
		uint32_t x[NVFP4_BLOCK];

		for (int i = 0; i < NVFP4_BLOCK; i++)
			x[i] = (uint32_t)v.words[i];
		for (size_t c = 0; c < v.n_columns; result += v.n_out[c++]) {
			struct mxfp_quantize_options options = {.size = sizeof options};
			struct mxfp_counts counts = {.size = sizeof counts};
			struct oracle_nvfp4_block block;

			o.recipe = options.recipe = (enum mxfp_recipe)choice_before(v.columns[c], MXFP_OPTION_RECIPE);
			options.round = (enum mxfp_round)choice(strrchr(v.columns[c], '.'), MXFP_OPTION_ROUND);
			oracle_nvfp4_block(&block, &o, (uint32_t)strtoul(amaxes[_i], NULL, 16), x, NVFP4_BLOCK, &options, 0, &counts);
			for (size_t i = 0; i < NVFP4_BLOCK / 2; i++)
				compare(&v, v.columns[c], result[i], packed(block.codes, 4, i));
			compare(&v, v.columns[c], result[NVFP4_BLOCK / 2], block.scale);
		}
	}
	oracle_nvfp4_clear(&o);
}

TEST(nvfp4_values)
{
	static struct vectors v;
	struct oracle_nvfp4 o;

	oracle_nvfp4_init(&o);
	open_vectors(&v, "nvfp4-decode", "");
	while (next_item(&v))
		for (size_t c = 0; c < v.n_columns; c++)
			for (size_t i = 0; i < NVFP4_BLOCK; i++) {
				const int64_t got = v.words[v.n_in + c * NVFP4_BLOCK + i];
				const uint32_t g = (uint32_t)strtoul(strchr(v.columns[c], '.') + 1, NULL, 16);
				const uint32_t want = oracle_nvfp4_decode(&o, (uint8_t)unpacked(v.words, 4, i), (uint8_t)v.words[v.n_in - 1],
				                                          g, strncmp(v.columns[c], "divides", 7) == 0);

				compare(&v, v.columns[c], got, or_nan(got, want));
			}
	oracle_nvfp4_clear(&o);
}

TEST(functions)
{
	static struct vectors v;

	open_vectors(&v, "function", "");
	while (next_item(&v))
		for (size_t c = 0; c < v.n_columns; c++) {
			const enum mxfp_function f = (enum mxfp_function)choice(v.columns[c], MXFP_OPTION_FUNCTION);

			compare(&v, v.columns[c], v.words[1 + c],
			        or_nan(v.words[1 + c], oracle_function(f, (uint32_t)v.words[0], oracle_function_parameter(f))));
		}
}
