/* SPDX-License-Identifier: MIT */
/*
 * Exact block sums with a sparse MXFP4 W, of which 4 of 16 or 4 of 8 elements are kept, for the MX formats of A up to
 * E4M3. The others add nothing to an exact sum and are not multiplied; NaN in A is in its block's scale.
 *
 * One vpshufb selects for each of 16 columns two of a run of 16 bytes of A, and vpmaddubsw multiplies them. A's elements
 * are integers (those of E4M3 without their lower 3 bits) of two signed digits, 256 * high + low, each a plane of bytes
 * with 128 added, because the unsigned operand must be A's; each sum starts from -128 times the sum of the block's kept
 * elements. A pair has at most 2 * 255 * 12 = 6120, so nothing saturates, and sums of up to 16 kept elements are at most
 * 16 * 128 * 12 = 24576 in the end, whatever wraps on the way. Integers of a byte have the low plane alone. The lower
 * bits of E4M3 are a third plane, multiplied only in the few blocks where they are not all zeros.
 *
 * Panel of A: head, scales [block][row], elements [row][block][plane][32 bytes]. The head also has for each row which
 * blocks have lower bits.
 * Panel of W: head, codes of scales [block][column], and [block][group][places, then codes][lane] words of 16 bits: the
 * four places of a group's kept elements within their run and their four codes, as they are stored.
 */
#include "tier.h"

#include "body/gemm_blocks.h"
#include "body/slots.h"

enum {
	SPARSE_MR = 4,
	SPARSE_AT_ONCE = 2, /* rows; as many are multiplied by nibbles as they are decoded, for more W is expanded first */
	SPARSE_NR = 2 * LANES,
	SPARSE_RUN = 16,
	SPARSE_BLOCKS = MXFP_GEMM_CHUNK / MXFP_MX_BLOCK,
	SPARSE_GROUPS = MXFP_MX_BLOCK / 8, /* of a block, at most */
	SPARSE_KEPT = 4,                   /* of a group */
	SPARSE_OFFSET = 128,
	SPARSE_LOW_BITS = 3,
	SPARSE_LOW_FLAGS = sizeof(struct blocks_head), /* in the head of A, 32 bits a row */
	SPARSE_MAGNITUDES = 0x7777
};

_Static_assert((int)SPARSE_AT_ONCE < (int)SPARSE_MR, "a panel of rows multiplied at once has padding");

/* Places or codes of a group: two steps of two kept elements a column. */
struct sparse_group {
	vu8 places[2], kept[2];
};

/* A panel of W as bytes. */
struct sparse_expanded {
	struct sparse_group groups[SPARSE_BLOCKS * SPARSE_GROUPS];
	vs16 starts[SPARSE_BLOCKS];
	float scales[SPARSE_BLOCKS * SPARSE_NR];
};

struct sparse_panels {
	const float *a_scales;
	const uint8_t *a, *w_scales, *w;
	const struct sparse_expanded *expanded; /* NULL: W is decoded as it is multiplied */
	size_t a_row;                           /* bytes */
	uint32_t a_low[SPARSE_AT_ONCE];         /* the blocks that have lower bits */
	unsigned low_bits;
	float unit;
};

/* Whether integers of a format have lower bits of their own. */
static bool sparse_has_low(enum mxfp_format format)
{
	return format == MXFP_FORMAT_MXFP8_E4M3;
}

/* Planes of digits: 1 if the integers are of a byte. */
static size_t sparse_planes(enum mxfp_format format)
{
	return sparse_has_low(format) || format == MXFP_FORMAT_MXFP6_E3M2 ? 2 : 1;
}

static size_t sparse_block_bytes(enum mxfp_format format)
{
	return (sparse_planes(format) + sparse_has_low(format)) * MXFP_MX_BLOCK;
}

static size_t sparse_a_bytes(const struct mxfp_gemm_shape *shape, size_t k)
{
	return panel_align(blocks_elements(shape, k, SPARSE_MR) +
	                   SPARSE_MR * blocks_count(shape, k) * sparse_block_bytes(shape->a_format));
}

static size_t sparse_groups(const struct mxfp_gemm_shape *shape)
{
	return MXFP_MX_BLOCK / shape->sparsity.m;
}

static size_t sparse_codes(const struct mxfp_gemm_shape *shape, size_t k)
{
	return BLOCKS_HEAD_BYTES + blocks_count(shape, k) * SPARSE_NR;
}

static size_t sparse_w_bytes(const struct mxfp_gemm_shape *shape, size_t k)
{
	return sparse_codes(shape, k) + blocks_count(shape, k) * sparse_groups(shape) * 2 * VECTOR_BYTES;
}

/* Stores the planes of n elements of a row. Returns the blocks with lower bits. */
static uint32_t sparse_split_row(const uint32_t *row, size_t n, enum mxfp_format format, uint8_t *to)
{
	const size_t planes = sparse_planes(format);
	const unsigned low_bits = sparse_has_low(format) ? SPARSE_LOW_BITS : 0;
	const float factor = power_of_two(fraction_bits(format));
	uint32_t flags = 0;

	for (size_t i = 0; i < n; i += LANES) {
		const vs32 x = __builtin_convertvector((vf32)load(row + i) * factor, vs32);
		const vu32 digits = (vu32)(x >> low_bits) + SPARSE_OFFSET * 0x101, lower = (vu32)x & ((1U << low_bits) - 1);
		uint8_t *at = to + i / MXFP_MX_BLOCK * sparse_block_bytes(format) + i % MXFP_MX_BLOCK;

		store_u8(at, digits & 0xFF);
		if (planes == 2)
			store_u8(at + MXFP_MX_BLOCK, digits >> 8 & 0xFF);
		if (low_bits != 0)
			store_u8(at + planes * MXFP_MX_BLOCK, lower);
		flags |= (uint32_t)any((vs32)lower) << i / MXFP_MX_BLOCK;
	}
	return flags;
}

static void sparse_pack_a(const struct mxfp_gemm_pack_job *job)
{
	const enum mxfp_format format = job->matrix->format;
	const size_t block_bytes = sparse_block_bytes(format), blocks = blocks_count(job->shape, job->k);
	uint8_t *panel = job->panel, *elements = panel + blocks_elements(job->shape, job->k, SPARSE_MR);
	struct blocks_range range = blocks_begin();
	uint32_t flags[SPARSE_MR] = {0};
	panel_rows rows;

	memset(panel, 0, BLOCKS_HEAD_BYTES);
	for (size_t k = 0; k < job->k; k += PANEL_SLICE) {
		const struct mxfp_gemm_pack_job slice = panel_slice(job, k);
		const size_t n = blocks_count(job->shape, slice.k) * MXFP_MX_BLOCK, first = k / MXFP_MX_BLOCK;

		load_elements(&slice, rows);
		pack_blocks(&slice, k, false, true, SPARSE_MR, rows, &range);
		for (size_t r = 0; r < SPARSE_MR; r++)
			flags[r] |= sparse_split_row(rows[r], n, format, elements + (r * blocks + first) * block_bytes) << first;
	}
	const struct blocks_head head = blocks_end(&range);
	memcpy(panel, &head, sizeof head);
	memcpy(panel + SPARSE_LOW_FLAGS, flags, sizeof flags);
}

/* The lane of 16 bits of a column, for vpunpcklwd and vpunpckhwd to leave columns in order. */
static size_t sparse_lane(size_t column)
{
	return (column & 3) | (column & 4) << 1 | (column & 8) >> 1;
}

/* The binary32 of scales: 2^(code - 127), or NaN. */
ALWAYS_INLINE vu32 sparse_scale(vu32 code)
{
	const vu32 scale = blend(code == splat(0), splat(F32_HIDDEN / 2), code << F32_SIGNIFICAND_BITS);

	return blend(code == splat(MXFP_SCALE_NAN), splat(F32_NAN), scale);
}

/* The places within a run of a group's kept elements, 4 bits each. Bits past the mask keep the places in the run. */
static uint16_t sparse_places(uint32_t mask)
{
	uint32_t places = 0;

	for (size_t i = 0; i < SPARSE_KEPT; i++) {
		places |= (uint32_t)__builtin_ctz(mask | 1U << (SPARSE_RUN - 1)) << 4 * i;
		mask &= mask - 1;
	}
	return (uint16_t)places;
}

/* Packs a row as column r of the panel. A block of zeros has the scale 1, unless it is NaN. */
static void sparse_pack_row(const struct mxfp_gemm_pack_job *job, size_t r)
{
	const struct mxfp_matrix *w = job->matrix;
	const size_t m = w->sparsity.m, in_block = sparse_groups(job->shape), n = (job->k + m - 1) / m, row = job->row + r;
	const uint8_t *codes = (const uint8_t *)w->data + row * w->stride + job->k0 / m * sizeof(uint16_t);
	const uint8_t *masks = (const uint8_t *)w->masks + row * w->masks_stride + job->k0 / 8;
	const uint8_t *from = (const uint8_t *)w->scales + mxfp_scales_offset(w->format, w->scales_stride, row, job->k0);
	uint8_t *scales = (uint8_t *)job->panel + BLOCKS_HEAD_BYTES;
	uint8_t *words = (uint8_t *)job->panel + sparse_codes(job->shape, job->k) + sparse_lane(r) * sizeof(uint16_t);

	for (size_t b = 0; b < blocks_count(job->shape, job->k); b++) {
		bool is_zero = true;

		for (size_t g = b * in_block; g < (b + 1) * in_block && g < n; g++) {
			const uint32_t mask = m == 8 ? (uint32_t)masks[g] << g % 2 * 8 : masks[2 * g] | (uint32_t)masks[2 * g + 1] << 8;
			const uint16_t places = sparse_places(mask);
			uint16_t code;

			memcpy(&code, codes + g * sizeof code, sizeof code);
			memcpy(words + g * 2 * VECTOR_BYTES, &places, sizeof places);
			memcpy(words + (g * 2 + 1) * VECTOR_BYTES, &code, sizeof code);
			is_zero &= (code & SPARSE_MAGNITUDES) == 0;
		}
		scales[b * SPARSE_NR + r] = is_zero && from[b] != MXFP_SCALE_NAN ? MXFP_SCALE_BIAS : from[b];
	}
}

static void sparse_pack_w(const struct mxfp_gemm_pack_job *job)
{
	const size_t codes = sparse_codes(job->shape, job->k), n = codes - BLOCKS_HEAD_BYTES;
	uint8_t *panel = job->panel, *scales = panel + BLOCKS_HEAD_BYTES;
	vu32 least = splat(UINT32_MAX), greatest = {0};

	memset(panel, 0, BLOCKS_HEAD_BYTES);
	memset(scales, MXFP_SCALE_BIAS, n);
	memset(panel + codes, 0, sparse_w_bytes(job->shape, job->k) - codes);
	for (size_t r = 0; r < job->rows; r++)
		sparse_pack_row(job, r);
	for (size_t i = 0; i < n; i += LANES) {
		const vu32 scale = sparse_scale(load_u8(scales + i));

		least = min_u32(least, scale);
		greatest = max_u32(greatest, scale);
	}
	const struct blocks_head head = {~max_across(~least), max_across(greatest), F32_ONE, F32_ONE};
	memcpy(panel, &head, sizeof head);
}

/* Decodes a group of a packed panel. */
ALWAYS_INLINE struct sparse_group sparse_decode(const uint8_t *at)
{
	const vu8 half = (vu8)splat(0x0F0F0F0F), places = (vu8)load(at), codes = (vu8)load(at + VECTOR_BYTES);

	return (struct sparse_group){
		{places & half, (vu8)((vu16)places >> 4) & half},
		{lookup(twice_e2m1, codes & half), lookup(twice_e2m1, (vu8)((vu16)codes >> 4) & half)},
	};
}

/* a[0] * b[0] + a[1] * b[1] for each pair of bytes, of which those of b have a sign. */
ALWAYS_INLINE vs16 dot_bytes(vu8 a, vu8 b)
{
	return (vs16)_mm256_maddubs_epi16((__m256i)a, (__m256i)b);
}

/* a + b. The compiler must not put off additions, which would leave too many products for the registers. */
ALWAYS_INLINE vs16 plus(vs16 a, vs16 b)
{
	vs16 sum = (vs16)((vu16)a + (vu16)b);

	__asm__("" : "+x"(sum));
	return sum;
}

/* -128 * the sum of the kept elements of a block, which fit bytes: 8 * 12. */
ALWAYS_INLINE vs16 sparse_start(const struct sparse_group *groups, size_t n)
{
	vu8 sum = {0};

#pragma GCC unroll 4
	for (size_t g = 0; g < n; g++)
		sum += groups[g].kept[0] + groups[g].kept[1];
	return (vs16)-(vu16)dot_bytes((vu8)splat(SPARSE_OFFSET * 0x01010101U), sum);
}

static void sparse_expand(struct sparse_expanded *to, const uint8_t *scales, const uint8_t *w, size_t blocks, size_t groups)
{
	for (size_t i = 0; i < blocks * groups; i++)
		to->groups[i] = sparse_decode(w + i * 2 * VECTOR_BYTES);
	for (size_t b = 0; b < blocks; b++)
		to->starts[b] = sparse_start(&to->groups[b * groups], groups);
	for (size_t i = 0; i < blocks * SPARSE_NR; i += LANES)
		store(&to->scales[i], sparse_scale(load_u8(scales + i)));
}

/* Adds the products of step i of a group of a block of a plane of A; g: the group's number. */
ALWAYS_INLINE vs16 add_step(vs16 sum, const uint8_t *plane, const struct sparse_group *group, size_t i, size_t g, size_t groups)
{
	const int8_t *run = (const int8_t *)plane + g * (MXFP_MX_BLOCK / groups) / SPARSE_RUN * SPARSE_RUN;

	return plus(sum, dot_bytes(lookup(run, group->places[i]), group->kept[i]));
}

/* low * unit[0] + high * unit[1] of each column. */
ALWAYS_INLINE void combine(vs16 low, vs16 high, vs16 units, vs32 to[2])
{
	const vs32 zero = {0};

	to[0] = dot_pairs(zero, (vs16)_mm256_unpacklo_epi16((__m256i)low, (__m256i)high), units);
	to[1] = dot_pairs(zero, (vs16)_mm256_unpackhi_epi16((__m256i)low, (__m256i)high), units);
}

/* Adds the products of the lower bits of a block. */
ALWAYS_INLINE void add_low(const uint8_t *plane, const struct sparse_group *group, size_t groups, vs32 sum[2])
{
	const vs16 zero = {0};
	vs16 low = {0};
	vs32 wide[2];

	for (size_t i = 0; i < 2 * groups; i++)
		low = add_step(low, plane, &group[i / 2], i % 2, i / 2, groups);
	combine(low, zero, (vs16)splat(1), wide);
	sum[0] += wide[0];
	sum[1] += wide[1];
}

/* The sums of block b. rows, planes and groups are constants, here and below. */
ALWAYS_INLINE void sparse_block(const struct sparse_panels *t, size_t b, size_t rows, size_t planes, size_t groups,
                                const struct sparse_group *group, vs16 start, vs32 sum[SPARSE_AT_ONCE][2])
{
	const size_t block_bytes = (planes + (t->low_bits != 0)) * MXFP_MX_BLOCK;
	const vs16 units = (vs16)splat(UINT32_C(0x01000001) << t->low_bits);
	vs16 digits[SPARSE_AT_ONCE][2];

#pragma GCC unroll 2
	for (size_t r = 0; r < rows; r++) {
		digits[r][0] = start;
		digits[r][1] = planes == 2 ? start : (vs16){0};
	}
#pragma GCC unroll 8
	for (size_t i = 0; i < 2 * groups; i++)
#pragma GCC unroll 2
		for (size_t r = 0; r < rows; r++)
#pragma GCC unroll 2
			for (size_t p = 0; p < planes; p++)
				digits[r][p] = add_step(digits[r][p], t->a + r * t->a_row + b * block_bytes + p * MXFP_MX_BLOCK,
				                        &group[i / 2], i % 2, i / 2, groups);
#pragma GCC unroll 2
	for (size_t r = 0; r < rows; r++) {
		combine(digits[r][0], digits[r][1], units, sum[r]);
		if (planes == 2 && t->a_low[r] >> b & 1)
			add_low(t->a + r * t->a_row + b * block_bytes + 2 * MXFP_MX_BLOCK, group, groups, sum[r]);
	}
}

/* p = fl32(p + sum * scales), where a product of scales may be no normal number. */
static NOINLINE vf32 sparse_add_general(vf32 p, vf32 sum, float a_scale, const float *w_scales)
{
	float at[LANES], part[LANES];

	store(at, (vu32)p);
	store(part, (vu32)sum);
	add_scaled(at, part, a_scale, (const uint8_t *)w_scales);
	return (vf32)load(at);
}

/* One pass over blocks first to end - 1. expanded, a constant: W is. general, a constant: the scales are not ordinary. */
ALWAYS_INLINE void sparse_pass(const struct sparse_panels *t, size_t first, size_t end, size_t rows, size_t planes,
                               size_t groups, bool expanded, bool general, float *c)
{
	vf32 p[SPARSE_AT_ONCE][2] = {0};

	for (size_t b = first; b < end; b++) {
		struct sparse_group decoded[SPARSE_GROUPS];
		vs32 sum[SPARSE_AT_ONCE][2];

		if (expanded) {
			sparse_block(t, b, rows, planes, groups, &t->expanded->groups[b * groups], t->expanded->starts[b], sum);
		} else {
#pragma GCC unroll 4
			for (size_t g = 0; g < groups; g++)
				decoded[g] = sparse_decode(t->w + (b * groups + g) * 2 * VECTOR_BYTES);
			sparse_block(t, b, rows, planes, groups, decoded, sparse_start(decoded, groups), sum);
		}
#pragma GCC unroll 4
		for (size_t i = 0; i < rows * 2; i++) {
			const size_t r = i / 2, v = i % 2;
			const float a_scale = t->a_scales[b * SPARSE_MR + r];
			const vf32 term = __builtin_convertvector(sum[r][v], vf32);

			if (general) {
				p[r][v] = sparse_add_general(p[r][v], term * t->unit, a_scale,
				                             &t->expanded->scales[b * SPARSE_NR + v * LANES]);
				continue;
			}
			/* Where W is not expanded, the panel of A has padding, whose scales are 1: with NaN in W they would not be
			   ordinary, so W's need only be shifted. */
			const vu32 w_scale = expanded ? load(&t->expanded->scales[b * SPARSE_NR + v * LANES])
			                              : load_u8(t->w_scales + b * SPARSE_NR + v * LANES) << F32_SIGNIFICAND_BITS;
			p[r][v] = fma_f32(term, (vf32)w_scale * (splat_f32(a_scale) * t->unit), p[r][v]);
		}
	}
#pragma GCC unroll 4
	for (size_t i = 0; i < rows * 2; i++) {
		float *at = c + i * LANES;

		store(at, (vu32)((vf32)load(at) + p[i / 2][i % 2]));
	}
}

/* The passes of all rows of a job. */
ALWAYS_INLINE void sparse_rows_of(const struct mxfp_gemm_multiply_job *job, size_t planes, size_t groups, unsigned low_bits)
{
	const struct mxfp_gemm_shape *shape = job->shape;
	const size_t blocks = blocks_count(shape, job->k), a_bytes = sparse_a_bytes(shape, job->k);
	const size_t pass = shape->pass / MXFP_MX_BLOCK;
	const uint8_t *w = job->w;
	struct sparse_expanded *expanded = job->scratch;
	struct sparse_panels t = {
		.a_row = blocks * sparse_block_bytes(shape->a_format),
		.w_scales = w + BLOCKS_HEAD_BYTES,
		.w = w + sparse_codes(shape, job->k),
		.low_bits = low_bits,
		.unit = power_of_two(-(fraction_bits(shape->a_format) + fraction_bits(shape->w_format))),
	};
	struct blocks_head a_head, w_head;

	memcpy(&w_head, w, sizeof w_head);
	for (size_t row = 0; row < job->rows; row += SPARSE_AT_ONCE) {
		const uint8_t *a = (const uint8_t *)job->a + row / SPARSE_MR * a_bytes;
		const size_t r = row % SPARSE_MR;
		float *c = job->c + row * SPARSE_NR;

		memcpy(&a_head, a, sizeof a_head);
		memcpy(t.a_low, a + SPARSE_LOW_FLAGS + r * sizeof t.a_low[0], sizeof t.a_low);
		t.a_scales = (const float *)(a + BLOCKS_HEAD_BYTES) + r;
		t.a = a + blocks_elements(shape, job->k, SPARSE_MR) + r * t.a_row;
		const bool ordinary = scales_are_ordinary(&a_head, &w_head);
		if (t.expanded == NULL && (!ordinary || job->rows > SPARSE_AT_ONCE)) {
			sparse_expand(expanded, t.w_scales, t.w, blocks, groups);
			t.expanded = expanded;
		}
		for (size_t first = 0; first < blocks; first += pass) {
			const size_t end = blocks - first < pass ? blocks : first + pass;

			if (!ordinary)
				sparse_pass(&t, first, end, SPARSE_AT_ONCE, planes, groups, true, true, c);
			else if (t.expanded != NULL)
				sparse_pass(&t, first, end, SPARSE_AT_ONCE, planes, groups, true, false, c);
			else if (job->rows == 1)
				sparse_pass(&t, first, end, 1, planes, groups, false, false, c);
			else
				sparse_pass(&t, first, end, SPARSE_AT_ONCE, planes, groups, false, false, c);
		}
	}
}

/* Defines the function for a number of planes and groups. */
#define ROWS(name, planes, groups, low_bits) \
	static NOINLINE void name(const struct mxfp_gemm_multiply_job *job) \
	{ \
		sparse_rows_of(job, planes, groups, low_bits); \
	}
ROWS(sparse_byte_4_16, 1, 2, 0)
ROWS(sparse_byte_4_8, 1, 4, 0)
ROWS(sparse_two_4_16, 2, 2, 0)
ROWS(sparse_two_4_8, 2, 4, 0)
ROWS(sparse_low_4_16, 2, 2, SPARSE_LOW_BITS)
ROWS(sparse_low_4_8, 2, 4, SPARSE_LOW_BITS)
#undef ROWS

static NOINLINE void sparse_rows(const struct mxfp_gemm_multiply_job *job)
{
	const bool many = job->shape->sparsity.m == 8;

	if (sparse_has_low(job->shape->a_format))
		(many ? sparse_low_4_8 : sparse_low_4_16)(job);
	else if (sparse_planes(job->shape->a_format) == 2)
		(many ? sparse_two_4_8 : sparse_two_4_16)(job);
	else
		(many ? sparse_byte_4_8 : sparse_byte_4_16)(job);
}

static PANELS_KERNEL(sparse_multiply, SPARSE_MR, SPARSE_NR, sparse_rows)

const struct mxfp_gemm_kernel TIER(gemm_sparse_fp4) = {
	.id = 0x0502,
	.name = "sparse-fp4-" TIER_NAME,
	.mr = SPARSE_MR,
	.nr = SPARSE_NR,
	.a_panel_bytes = sparse_a_bytes,
	.w_panel_bytes = sparse_w_bytes,
	.takes_panels = true,
	.scratch_bytes = sizeof(struct sparse_expanded),
	.pack_a = sparse_pack_a,
	.pack_w = sparse_pack_w,
	.multiply = sparse_multiply,
};
