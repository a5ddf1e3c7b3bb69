/* SPDX-License-Identifier: MIT */
/* Single numbers: to codes in every rounding mode, from codes, and functions of one number. */
#include "config.h"

#include "conform/number.h"
#include "mxfp/rows.h"

/* Formats that numbers are cast to, smallest first. */
static const enum mxfp_format formats[] = {
	MXFP_FORMAT_E4M3, MXFP_FORMAT_E5M2, MXFP_FORMAT_E2M1, MXFP_FORMAT_E2M3, MXFP_FORMAT_E3M2, MXFP_FORMAT_INT8,
	MXFP_FORMAT_E8M0, MXFP_FORMAT_UE4M3, MXFP_FORMAT_E4M3IEEE, MXFP_FORMAT_E3M4, MXFP_FORMAT_E4M3FNUZ, MXFP_FORMAT_E5M2FNUZ,
	MXFP_FORMAT_BF16, MXFP_FORMAT_F16, MXFP_FORMAT_TF32,
};

enum { N_FORMATS = sizeof formats / sizeof formats[0], N_ROUNDS = MXFP_ROUND_SR + 1 };

/* Whether the overflow modes of a format differ. */
static bool has_overflow(const struct mxfp_format_info *f)
{
	return f->bits <= 8 && f->special != MXFP_SPECIAL_NONE;
}

static bool cast_question(struct question *q, size_t i)
{
	const size_t format = i / (2 * N_ROUNDS), round = i / 2 % N_ROUNDS, overflow = i % 2;

	const struct mxfp_format_info *f = mxfp_format_get_info(formats[format]);
	question_begin(q, OP_CAST);
	q->format = formats[format];
	question_key(q, "to", f->name);
	question_choice(q, "round", MXFP_OPTION_ROUND, (int)round);
	if (has_overflow(f))
		question_choice(q, "overflow", MXFP_OPTION_OVERFLOW, (int)overflow);
	if (round == MXFP_ROUND_SR) {
		q->seed = UINT64_C(0x123456789ABCDEF);
		q->stream = 7;
		question_number(q, "seed", q->seed);
		question_number(q, "stream", q->stream);
	}
	question_in(q, 4, 4);
	question_out(q, f->storage_bytes, f->storage_bytes);
	return overflow == 0 || has_overflow(f);
}

static void cast_items(const struct question *q, struct items *items)
{
	numbers_add(mxfp_format_get_info(q->format), items);
}

static void cast_answer(const struct question *q, const struct way *way, const uint8_t *in, const uint64_t *indices, size_t n,
                        uint8_t *out)
{
	const struct mxfp_format_info *f = mxfp_format_get_info(q->format);

	for (size_t i = 0; i < n; i++)
		code_store(f, out + i * f->storage_bytes,
		           number_encode_way(f, load_f32(in + 4 * i), way, q->seed, q->stream, indices[i]));
}

static const char *cast_class(const struct question *q, const uint8_t *in, const uint8_t *expected)
{
	(void)expected;
	return number_class(mxfp_format_get_info(q->format), load_f32(in));
}

/* NaN may be any code of one, and is nobody's matter in a format that has none. */
static bool cast_same(const struct question *q, const uint8_t *in, const uint8_t *expected, const uint8_t *got)
{
	const struct mxfp_format_info *f = mxfp_format_get_info(q->format);

	if (memcmp(expected, got, f->storage_bytes) == 0)
		return true;
	if (f->special == MXFP_SPECIAL_NONE)
		return f32_is_nan(load_f32(in));
	return f32_is_nan(code_decode(f, code_load(f, expected))) && f32_is_nan(code_decode(f, code_load(f, got)));
}

const struct operation operation_cast = {
	cast_question, N_FORMATS * N_ROUNDS * 2, cast_items, cast_answer, cast_class, cast_same,
};

/* Decoding. */

static bool decode_question(struct question *q, size_t i)
{
	const struct mxfp_format_info *f = mxfp_format_get_info(formats[i]);
	question_begin(q, OP_DECODE);
	q->format = formats[i];
	question_key(q, "from", f->name);
	question_in(q, f->storage_bytes, f->storage_bytes);
	question_out(q, 4, 4);
	return true;
}

/* Every code; of tf32 some, if it is to be quick. */
static void decode_items(const struct question *q, struct items *items)
{
	const struct mxfp_format_info *f = mxfp_format_get_info(q->format);
	const uint32_t stride = items->quick && f->bits > 8 ? 37 : 1;

	for (uint32_t code = 0; code < UINT32_C(1) << f->bits; code += stride) {
		uint8_t bytes[4];

		code_store(f, bytes, code);
		items_add(items, bytes);
	}
}

static void decode_answer(const struct question *q, const struct way *way, const uint8_t *in, const uint64_t *indices, size_t n,
                          uint8_t *out)
{
	const struct mxfp_format_info *f = mxfp_format_get_info(q->format);

	(void)indices;
	for (size_t i = 0; i < n; i++)
		store_f32(out + 4 * i, code_decode_way(f, code_load(f, in + i * f->storage_bytes), way));
}

static const char *decode_class(const struct question *q, const uint8_t *in, const uint8_t *expected)
{
	const struct mxfp_format_info *f = mxfp_format_get_info(q->format);
	const uint32_t code = code_load(f, in), x = load_f32(expected);

	if (f32_is_nan(x))
		return "NaN";
	if ((x & ~F32_SIGN) == F32_INF)
		return "Inf";
	if ((x & ~F32_SIGN) == 0)
		return x == 0 ? "+0" : "-0";
	if (f->kind == MXFP_KIND_FIXED)
		return code == 0x80 ? "-2" : "number";
	if (f->kind == MXFP_KIND_EXPONENT)
		return code == 0 ? "2^-127" : "number";
	if ((code & code_mask(f)) >> f->significand_bits == 0)
		return "subnormal";
	return (code & code_mask(f)) >> f->significand_bits == code_mask(f) >> f->significand_bits ? "top exponent" : "number";
}

const struct operation operation_decode = {
	decode_question, N_FORMATS, decode_items, decode_answer, decode_class, f32_results_same,
};

/* Functions. */

static bool function_question(struct question *q, size_t i)
{
	question_begin(q, OP_FUNCTION);
	question_choice(q, "name", MXFP_OPTION_FUNCTION, (int)i);
	question_in(q, 4, 4);
	question_out(q, 4, 4);
	return true;
}

static void function_items(const struct question *q, struct items *items)
{
	static const uint32_t edges[] = {0, 1, 2, 3, 0x007FFFFF, 0x00800000, 0x33000000, 0x3F800000, 0x40490FDB, 0x42AEAC50, 0x42B17218,
	                                 0x42CFF1B5, 0x43160000, 0x7F7FFFFF, 0x7F800000, 0x7FC00000, 0x7F800001};

	(void)q;
	for (size_t i = 0; i < sizeof edges / sizeof edges[0]; i++)
		for (uint32_t sign = 0; sign < 2; sign++) {
			uint8_t bytes[4];

			store_f32(bytes, edges[i] | sign << 31);
			items_add(items, bytes);
		}
	for (int i = 0; i < (items->quick ? 400 : 20000); i++) {
		uint8_t bytes[4];

		store_f32(bytes, i % 4 == 0 ? (uint32_t)items_random(items) : number_random(items, 0, i % 4 == 1 ? 30 : 7));
		items_add(items, bytes);
	}
}

static void function_answer(const struct question *q, const struct way *way, const uint8_t *in, const uint64_t *indices, size_t n,
                            uint8_t *out)
{
	const enum mxfp_function function = (enum mxfp_function)way->choice[MXFP_OPTION_FUNCTION];

	(void)indices;
	(void)q;
	for (size_t i = 0; i < n; i++) {
		uint32_t x = load_f32(in + 4 * i), y;
		const struct mxfp_result result = mxfp_to_numbers(MXFP_FORMAT_F32, &y);
		struct mxfp_matrix matrix;

		if (has_quirk(way, QUIRK_FLUSH_SOURCE) && (x & F32_INF) == 0)
			x &= F32_SIGN;
		matrix = mxfp_numbers(MXFP_FORMAT_F32, 1, 1, &x);
		must_succeed(mxfp_function_apply(&result, function, &matrix, NULL, REFERENCE));
		store_f32(out + 4 * i, f32_result_way(y, way));
	}
}

static const char *function_class(const struct question *q, const uint8_t *in, const uint8_t *expected)
{
	const uint32_t x = load_f32(in), y = load_f32(expected);

	(void)q;
	if (f32_is_nan(x))
		return "NaN";
	if ((x & ~F32_SIGN) == F32_INF)
		return "Inf";
	if ((x & F32_INF) == 0)
		return (x & ~F32_SIGN) == 0 ? "zero" : "subnormal";
	if (f32_is_nan(y))
		return "NaN of a number";
	if ((y & ~F32_SIGN) == F32_INF)
		return "overflow";
	return (y & F32_INF) == 0 ? "tiny result" : "number";
}

const struct operation operation_function = {
	function_question, MXFP_FUNCTION_COS + 1, function_items, function_answer, function_class, f32_results_same,
};
