/* SPDX-License-Identifier: MIT */
/*
 * A fast path before convert.c: stochastic conversion of binary32 to the narrower signed formats. Each group of numbers
 * records its largest and smallest magnitude. If they show a NaN, an Inf or another rare case, convert.c converts the
 * group again. Numbers after the last whole group also go to convert.c.
 */
#include "tier.h"

#include "body/philox.h"
#include "body/slots.h"
#include "body/stochastic.h"

enum {
	UNIT = 4 * LANES,
	GROUP = 8 * UNIT,
	CHUNK_GROUPS = 8, /* whose random words are made at once */
	CHUNK = CHUNK_GROUPS * GROUP
};

struct group {
	const uint8_t *x;
	const uint32_t *random;
	uint8_t *to;
};

/* The magnitudes of a group, and of formats of bytes, counts of codes; numbers not kept saturate. */
struct tally {
	vu32 min; /* of magnitude - 1 in formats wider than a byte, so that zeros do not count */
	vu32 max;
	vu8 zero_codes, kept; /* at most CHUNK / UNIT in each byte when those of a chunk are added */
};

/* Loads numbers i, i + 1, ... of a group and extends the range by their magnitudes; `less` is subtracted for `min`. */
ALWAYS_INLINE vu32 load_number(const uint8_t *x, size_t i, uint32_t less, struct tally *t)
{
	vu32 v = load(x + 4 * i), magnitude = v & ~F32_SIGN;

	t->min = min_u32(t->min, magnitude - less);
	t->max = max_u32(t->max, magnitude);
	return v;
}

/* Magnitudes past the largest code round as if codes continued, the largest ones to the code after it. */
ALWAYS_INLINE void group_to_bytes(const struct nearest *e, bool negate, bool fnuz, const struct group *g, struct tally *t)
{
	const uint32_t after_max = number_after_max(e);

	for (size_t i = 0; i < GROUP; i += UNIT) {
		vu32 v[4], rounded[4];

#pragma GCC unroll 4
		for (size_t k = 0; k < 4; k++) {
			v[k] = load_number(g->x, i + k * LANES, 0, t);
			rounded[k] = round_stochastically(e, min_u32(v[k] & ~F32_SIGN, splat(after_max)), e->normal_field,
			                                  load(g->random + i + k * LANES));
		}
		const vu8 codes = join_codes(rounded, e->significand_bits, e->normal_field);
		const vu8 clamped = min_u8(codes, (vu8){0} + e->max_code);

		t->kept -= (vu8)(codes == clamped);
		t->zero_codes -= (vu8)(codes == 0);
		const vu8 bytes = signed_bytes(e, negate, clamped, sign_bytes(v));
		store(g->to + i, (vu32)(fnuz ? without_signed_zeros(e, bytes) : bytes));
	}
}

/* A word r below the `below` bits that a format drops, as a fraction of 2^32, is one whose upper bits are below them: the
   sum of the number and their complement carries then. */
ALWAYS_INLINE vu32 add_fraction(vu32 x, vu32 random, unsigned below)
{
	return x + (~random >> (32 - below));
}

ALWAYS_INLINE void group_to_bf16(const struct group *g, struct tally *t)
{
	for (size_t i = 0; i < GROUP; i += 2 * LANES)
		store_u16_pair(g->to + 2 * i, add_fraction(load_number(g->x, i, 1, t), load(g->random + i), 16) >> 16,
		               add_fraction(load_number(g->x, i + LANES, 1, t), load(g->random + i + LANES), 16) >> 16);
}

ALWAYS_INLINE void group_to_tf32(const struct group *g, struct tally *t)
{
	const unsigned below = 32 - 19;

	for (size_t i = 0; i < GROUP; i += LANES)
		store(g->to + 4 * i, add_fraction(load_number(g->x, i, 1, t), load(g->random + i), below) & (UINT32_MAX << below));
}

ALWAYS_INLINE vu32 f16_codes(const struct nearest *e, const struct group *g, size_t i, struct tally *t)
{
	const vu32 v = load_number(g->x, i, 1, t);
	const vu32 rounded = round_stochastically(e, v & ~F32_SIGN, e->normal_field, load(g->random + i));
	const vu32 code = (rounded >> 13) + (rounded & 0xFFFF) - (e->normal_field << 10);

	return code | (v >> 16 & 0x8000);
}

ALWAYS_INLINE void group_to_f16(const struct nearest *e, const struct group *g, struct tally *t)
{
	for (size_t i = 0; i < GROUP; i += 2 * LANES)
		store_u16_pair(g->to + 2 * i, f16_codes(e, g, i, t), f16_codes(e, g, i + LANES, t));
}

static NOINLINE uint64_t count_zeros(const uint8_t *x)
{
	vs32 zeros = {0};

	for (size_t i = 0; i < GROUP; i += LANES)
		zeros -= (load(x + 4 * i) & ~F32_SIGN) == 0;
	return sum_lanes((vu32)zeros);
}

/* Converts a group and counts what it saturates and flushes, codes to the tally `sum`. Returns false, without having counted, if
   convert.c must convert it again. */
ALWAYS_INLINE bool convert_group(enum mxfp_format format, const struct nearest *e, const struct group *g,
                                 struct tally *sum, struct mxfp_counts *counts)
{
	struct tally t = {.min = splat(UINT32_MAX)};

	if (format == MXFP_FORMAT_BF16)
		group_to_bf16(g, &t);
	else if (format == MXFP_FORMAT_TF32)
		group_to_tf32(g, &t);
	else if (format == MXFP_FORMAT_F16)
		group_to_f16(e, g, &t);
	else
		group_to_bytes(e, format == MXFP_FORMAT_INT8, format == MXFP_FORMAT_E4M3FNUZ, g, &t);
	if (format == MXFP_FORMAT_BF16 || format == MXFP_FORMAT_TF32 || format == MXFP_FORMAT_F16)
		return !any((vs32)t.max > (int32_t)e->max) && !any((vs32)(t.min < e->smallest - 1));
	if (any((vs32)t.max > (int32_t)(e->clamps ? F32_MAX : e->max)))
		return false;
	sum->zero_codes += t.zero_codes;
	sum->kept += t.kept;
	if (any(t.min == 0))
		counts->flushed -= count_zeros(g->x);
	return true;
}

static void convert_part(const struct mxfp_convert_job *job, size_t i, size_t n)
{
	struct mxfp_convert_job part = *job;

	part.n = n;
	part.src = (const uint8_t *)job->src + 4 * i;
	part.dst = (uint8_t *)job->dst + i * mxfp_format_get_info(job->dst_format)->storage_bytes;
	part.first_index += i;
	TIER(convert)(&part);
}

/* Converts the groups from i on that are whole, at most CHUNK_GROUPS. */
ALWAYS_INLINE void convert_chunk(enum mxfp_format format, const struct mxfp_convert_job *job, const struct nearest *e, size_t i)
{
	const size_t bytes = mxfp_format_get_info(job->dst_format)->storage_bytes;
	const size_t left = (job->n - i) / GROUP, groups = left < CHUNK_GROUPS ? left : CHUNK_GROUPS;
	const struct mxfp_rounding *r = &job->rounding;
	struct tally sum = {.min = {0}};
	uint64_t zero_codes = 0, dropped = 0;
	uint32_t words[CHUNK + PHILOX_SLACK];
	const uint32_t *random = philox_fill(words, r->seed, r->stream, job->first_index + i, groups * GROUP);

	for (size_t k = 0; k < groups; k++, i += GROUP) {
		const struct group g = {
			.x = (const uint8_t *)job->src + 4 * i, .random = random + k * GROUP, .to = (uint8_t *)job->dst + i * bytes,
		};

		if (!convert_group(format, e, &g, &sum, job->counts))
			convert_part(job, i, GROUP);
		else if (bytes == 1)
			dropped += GROUP;
	}
	for (size_t k = 0; k < VECTOR_BYTES; k++) {
		zero_codes += sum.zero_codes[k];
		dropped -= sum.kept[k];
	}
	job->counts->flushed += zero_codes;
	job->counts->saturated += dropped;
}

static NOINLINE void convert_stochastic(const struct mxfp_convert_job *job)
{
	struct nearest e;

	nearest_init(&e, mxfp_format_get_info(job->dst_format), job->rounding.overflow);
	for (size_t i = 0; i + GROUP <= job->n; i += CHUNK)
		switch (job->dst_format) {
		case MXFP_FORMAT_BF16:
			convert_chunk(MXFP_FORMAT_BF16, job, &e, i);
			break;
		case MXFP_FORMAT_TF32:
			convert_chunk(MXFP_FORMAT_TF32, job, &e, i);
			break;
		case MXFP_FORMAT_F16:
			convert_chunk(MXFP_FORMAT_F16, job, &e, i);
			break;
		case MXFP_FORMAT_INT8:
			convert_chunk(MXFP_FORMAT_INT8, job, &e, i);
			break;
		case MXFP_FORMAT_E4M3FNUZ:
		case MXFP_FORMAT_E5M2FNUZ:
			convert_chunk(MXFP_FORMAT_E4M3FNUZ, job, &e, i);
			break;
		default:
			convert_chunk(MXFP_FORMAT_E4M3, job, &e, i);
		}
}

void TIER(convert_stochastic)(const struct mxfp_convert_job *job)
{
	const struct mxfp_format_info *to = mxfp_format_get_info(job->dst_format);
	const size_t rest = job->n % GROUP;

	if ((to->kind != MXFP_KIND_FLOAT && to->kind != MXFP_KIND_FIXED) || job->rounding.no_negative_zero) {
		TIER(convert)(job);
		return;
	}
	struct fp_state state = fp_enter_down();

	convert_stochastic(job);
	fp_leave(state);
	if (rest != 0)
		convert_part(job, job->n - rest, rest);
}
