/* SPDX-License-Identifier: MIT */
/*
 * Dequantizes blocks (ref/mx.c, ref/nvfp4.c), one after the other.
 *
 * 4-bit codes look up their value in a vector of 16, which is computed for each block, or in NVFP4 once for each scale
 * code. Float codes of 6 and 8 bits become binary16 by shifts. With the fields in place but binary16's bias, a number
 * is off by a power of two, even if subnormal, and vscalefps corrects that while it applies the block's scale. It
 * rounds once and keeps subnormals, so the result is fl32(code * 2^s) for every scale.
 */
#include "tier.h"

#include "avx512/row_stream.h"
#include "body/slots.h"
#include "scale.h"

/* The scales of RUN blocks of MX are loaded together. */
enum { MX_BLOCK = MXFP_MX_BLOCK, NVFP4_BLOCK = MXFP_NVFP4_BLOCK, RUN = 16, RUN_NUMBERS = RUN * MX_BLOCK };

enum { HALF_EXPONENT_BITS = 5, HALF_SIGNIFICAND_BITS = 10, HALF_BIAS = 15 };

typedef uint16_t vu16 __attribute__((vector_size(VECTOR_BYTES)));

/* The fields of the element formats, which become constants in the inlined functions below. */
struct layout {
	int bits, exponent_bits, significand_bits, bias;
};

static const struct layout layouts[] = {
#define MXFP_ELEMENT(id, value, name, kind, bits, exponent_bits, significand_bits, bias, special, max_code) \
	[MXFP_FORMAT_##id] = {bits, exponent_bits, significand_bits, bias},
#include "format.def"
};

/* The values of the codes 0 to 15 of e2m1. */
ALWAYS_INLINE __m512 e2m1_values(void)
{
	return _mm512_setr_ps(0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6);
}

/* Stores to large results miss the L1 cache, so the line this many bytes ahead is prefetched. */
enum { STORE_AHEAD = 512 };

/* Rounds the lanes in `lanes` to the destination format and stores them from dst[i] on. A NaN is 7FC00000 with either
   sign, so it stays a NaN when it is rounded to bf16 as an integer. */
ALWAYS_INLINE void store_numbers(enum mxfp_format to, void *dst, size_t i, __m512 x, __mmask16 lanes)
{
	if (to == MXFP_FORMAT_F32) {
		_mm_prefetch((const char *)dst + i * sizeof(float) + STORE_AHEAD, _MM_HINT_T0);
		_mm512_mask_storeu_ps((float *)dst + i, lanes, x);
		return;
	}
	__m512i bits = _mm512_castps_si512(x);
	__m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
	__m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
	__m256i half = to == MXFP_FORMAT_F16 ? _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
	                                     : _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16));
	_mm256_mask_storeu_epi16((uint16_t *)dst + i, lanes, half);
}

ALWAYS_INLINE __mmask16 lanes_below(size_t n)
{
	return (__mmask16)_bzhi_u32(0xFFFF, n < 16 ? (unsigned)n : 16);
}

/* Puts nibble j of 8 bytes into the low bits of lane j; vpermps ignores the bits above, which belong to others. */
ALWAYS_INLINE __m512i spread_nibbles(const uint8_t *codes)
{
	const __m512i places = _mm512_setr_epi64(INT64_C(4) << 32, INT64_C(12) << 32 | 8, INT64_C(20) << 32 | 16,
	                                         INT64_C(28) << 32 | 24, INT64_C(36) << 32 | 32, INT64_C(44) << 32 | 40,
	                                         INT64_C(52) << 32 | 48, INT64_C(60) << 32 | 56);
	int64_t nibbles;

	memcpy(&nibbles, codes, sizeof nibbles);
	return _mm512_multishift_epi64_epi8(places, _mm512_set1_epi64(nibbles));
}

/* The codes of a block, each at the top of a 16-bit word; the bits below may belong to other codes. */
ALWAYS_INLINE __m512i top_of_words(int bits, const uint8_t *codes)
{
	if (bits == 8)
		return _mm512_slli_epi16(_mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)codes)), 8);
	/* Code i is bits 6 i % 8 to 6 i % 8 + 5 of bytes 6 i / 8 and the next; the bits above are shifted out. */
	const __m512i bytes = _mm512_set_epi8(24, 23, 23, 22, 22, 21, 22, 21, 21, 20, 20, 19, 19, 18, 19, 18, 18, 17, 17,
	                                      16, 16, 15, 16, 15, 15, 14, 14, 13, 13, 12, 13, 12, 12, 11, 11, 10, 10, 9,
	                                      10, 9, 9, 8, 8, 7, 7, 6, 7, 6, 6, 5, 5, 4, 4, 3, 4, 3, 3, 2, 2, 1, 1, 0, 1,
	                                      0);
	const __m512i up = _mm512_set1_epi64(INT64_C(8) << 48 | INT64_C(6) << 32 | INT64_C(4) << 16 | 10);
	__m256i packed = _mm256_maskz_loadu_epi8(0xFFFFFF, codes);

	return _mm512_sllv_epi16(_mm512_permutexvar_epi8(bytes, _mm512_castsi256_si512(packed)), up);
}

/* Moves the exponent and significand of codes from the tops of words to their places in a binary16, which with the sign
   is the code's number times 2^(bias - HALF_BIAS). */
ALWAYS_INLINE __m512i half_fields(const struct layout *f, __m512i word)
{
	const int down = HALF_EXPONENT_BITS - f->exponent_bits;
	const int fields = (0x7FFF >> down) & -(1 << (HALF_SIGNIFICAND_BITS - f->significand_bits));

	return _mm512_and_si512((__m512i)((vu16)word >> down), _mm512_set1_epi16((int16_t)fields));
}

/* The lanes of NaN codes: those past e4m3's largest number and past e5m2's Inf. */
ALWAYS_INLINE __mmask32 nan_codes(enum mxfp_format element, __m512i fields)
{
	if (element == MXFP_FORMAT_E4M3)
		return _mm512_cmpgt_epi16_mask(fields, _mm512_set1_epi16(0x7E << 7));
	if (element == MXFP_FORMAT_E5M2)
		return _mm512_cmpgt_epi16_mask(fields, _mm512_set1_epi16(0x7C << 8));
	return 0;
}

/* Replaces the lanes in `nan` by 7FC00000 with the sign of x. */
ALWAYS_INLINE __m512 with_nan(__m512 x, __mmask16 nan)
{
	const __m512i sign = _mm512_set1_epi32(INT32_MIN), canonical = _mm512_set1_epi32(F32_NAN);
	__m512i bits = _mm512_castps_si512(x);

	bits = _mm512_mask_or_epi32(bits, nan, _mm512_and_si512(bits, sign), canonical);
	return _mm512_castsi512_ps(bits);
}

/* Decodes one block of MX; `exponent` is that of the scale plus missing_exponent(). */
ALWAYS_INLINE void decode_mx(enum mxfp_format element, const uint8_t *codes, __m512 exponent, __m512 x[2])
{
	const struct layout *f = &layouts[element];

	if (f->bits == 4) {
		__m512 values = _mm512_scalef_ps(e2m1_values(), exponent);
		for (int i = 0; i < 2; i++)
			x[i] = _mm512_permutexvar_ps(spread_nibbles(codes + 8 * i), values);
		return;
	}
	if (element == MXFP_FORMAT_INT8) {
		for (int i = 0; i < 2; i++) {
			__m512i number = _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(codes + 16 * i)));
			x[i] = _mm512_scalef_ps(_mm512_cvtepi32_ps(number), exponent);
		}
		return;
	}
	const __m512i sign = _mm512_set1_epi16(INT16_MIN);
	__m512i word = top_of_words(f->bits, codes), fields = half_fields(f, word);
	__m512i half = _mm512_ternarylogic_epi32(sign, word, fields, 0xEA); /* (sign & word) | fields */
	__mmask32 nan = nan_codes(element, fields);
	x[0] = _mm512_scalef_ps(_mm512_cvtph_ps(_mm512_castsi512_si256(half)), exponent);
	x[1] = _mm512_scalef_ps(_mm512_cvtph_ps(_mm512_extracti64x4_epi64(half, 1)), exponent);
	if (__builtin_expect(nan != 0, 0)) {
		x[0] = with_nan(x[0], (__mmask16)nan);
		x[1] = with_nan(x[1], (__mmask16)(nan >> 16));
	}
}

/* A code's number is what decode_mx() makes of the code times 2 to this power. */
ALWAYS_INLINE int missing_exponent(enum mxfp_format element)
{
	const struct layout *f = &layouts[element];

	if (f->bits == 4)
		return 0;
	return element == MXFP_FORMAT_INT8 ? -f->significand_bits : HALF_BIAS - f->bias;
}

/* The numbers of the 16 codes for each scale code without its spare bit 7: (code * scale) * g or (code * scale) / g. */
struct nvfp4_values {
	float of[1 << 7][16];
};

/* The values of scale codes. Code n below the smallest normal one is n times the smallest number. */
static void ue4m3_values(float values[1 << 7])
{
	const __m512i rebias = _mm512_set1_epi32((F32_BIAS - MXFP_UE4M3_BIAS) << F32_SIGNIFICAND_BITS);
	const unsigned up = F32_SIGNIFICAND_BITS - MXFP_UE4M3_SIGNIFICAND_BITS;

	for (int code = 0; code < 1 << 7; code += LANES) {
		__m512i codes = _mm512_add_epi32((__m512i)lane_numbers(), _mm512_set1_epi32(code));
		__m512 subnormal = _mm512_mul_ps(_mm512_cvtepi32_ps(codes), _mm512_set1_ps(MXFP_UE4M3_MIN));
		__m512i normal = _mm512_add_epi32(_mm512_slli_epi32(codes, up), rebias);
		__mmask16 is_normal = _mm512_cmpge_epu32_mask(codes, _mm512_set1_epi32(1 << MXFP_UE4M3_SIGNIFICAND_BITS));

		_mm512_storeu_ps(values + code, _mm512_mask_mov_ps(subnormal, is_normal, _mm512_castsi512_ps(normal)));
	}
}

static void nvfp4_values_init(struct nvfp4_values *values, const struct mxfp_dequantize_job *job)
{
	const __m512 nan = _mm512_castsi512_ps(_mm512_set1_epi32(F32_NAN));
	const __m512 g = _mm512_castsi512_ps(_mm512_set1_epi32((int32_t)job->tensor_scale));
	float scales[1 << 7];

	ue4m3_values(scales);
	for (int scale = 0; scale < MXFP_UE4M3_NAN; scale++) {
		__m512 x = _mm512_mul_ps(e2m1_values(), _mm512_set1_ps(scales[scale]));
		x = job->tensor_scale_divides ? _mm512_div_ps(x, g) : _mm512_mul_ps(x, g);
		/* A NaN in g may have a payload, and a NaN that x86 generates has the sign set. */
		x = _mm512_mask_mov_ps(x, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), nan);
		_mm512_storeu_ps(values->of[scale], x);
	}
	_mm512_storeu_ps(values->of[MXFP_UE4M3_NAN], nan);
}

/* Blocks of a row that are decoded together: RUN of MX, or as many numbers of NVFP4. The formats are constants where
   functions of a run are inlined. */
struct run {
	enum mxfp_format element, to;
	const struct nvfp4_values *values; /* NULL except in NVFP4 */
	const uint8_t *codes, *scales;
	void *dst;
	size_t n; /* numbers */
};

/* Dequantizes the first n numbers of block b. */
ALWAYS_INLINE void mx_block(const struct run *run, size_t b, __m512 exponent, size_t n)
{
	const size_t block_bytes = MX_BLOCK * (size_t)layouts[run->element].bits / 8, at = b * MX_BLOCK;
	const __m512 nan = _mm512_castsi512_ps(_mm512_set1_epi32(F32_NAN));
	__m512 x[2] = {nan, nan};

	if (__builtin_expect(run->scales[b] != MXFP_SCALE_NAN, 1))
		decode_mx(run->element, run->codes + b * block_bytes, exponent, x);
	store_numbers(run->to, run->dst, at, x[0], lanes_below(n));
	if (n > LANES)
		store_numbers(run->to, run->dst, at + LANES, x[1], lanes_below(n - LANES));
}

ALWAYS_INLINE void mx_run(const struct run *run)
{
	const __m512i rebias = _mm512_set1_epi32(missing_exponent(run->element) - MXFP_SCALE_BIAS);
	const size_t whole = run->n / MX_BLOCK, rest = run->n % MX_BLOCK;
	__m128i scales = _mm_maskz_loadu_epi8(lanes_below(whole + (rest != 0)), run->scales);
	float exponents[RUN];

	_mm512_storeu_ps(exponents, _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_cvtepu8_epi32(scales), rebias)));
	for (size_t b = 0; b < whole; b++)
		mx_block(run, b, _mm512_set1_ps(exponents[b]), MX_BLOCK);
	if (rest != 0)
		mx_block(run, whole, _mm512_set1_ps(exponents[whole]), rest);
}

/* Dequantizes the first n numbers of block b. */
ALWAYS_INLINE void nvfp4_block(const struct run *run, size_t b, size_t n)
{
	const float *values = run->values->of[run->scales[b] & MXFP_UE4M3_NAN];
	__m512i codes = spread_nibbles(run->codes + b * NVFP4_BLOCK / 2);

	store_numbers(run->to, run->dst, b * NVFP4_BLOCK, _mm512_permutexvar_ps(codes, _mm512_loadu_ps(values)),
	              lanes_below(n));
}

ALWAYS_INLINE void nvfp4_run(const struct run *run)
{
	const size_t whole = run->n / NVFP4_BLOCK, rest = run->n % NVFP4_BLOCK;

	for (size_t b = 0; b < whole; b++)
		nvfp4_block(run, b, NVFP4_BLOCK);
	if (rest != 0)
		nvfp4_block(run, whole, rest);
}

/* Dequantizes one row in runs. A row that bypasses the caches goes through the buffer of a row_stream. */
ALWAYS_INLINE void dequantize_row(const struct mxfp_dequantize_job *job, struct run run, size_t row)
{
	const size_t block = run.values != NULL ? NVFP4_BLOCK : MX_BLOCK, bits = (size_t)layouts[run.element].bits;
	const size_t width = run.to == MXFP_FORMAT_F32 ? sizeof(float) : sizeof(uint16_t);
	uint8_t *dst = (uint8_t *)job->dst + row * job->dst_stride * width;
	struct row_stream stream;

	row_stream_begin(&stream, dst);
	for (size_t k = 0; k < job->cols; k += RUN_NUMBERS) {
		run.codes = job->codes + row * job->codes_stride + k * bits / 8;
		run.scales = job->scales + row * job->scales_stride + k / block;
		run.n = job->cols - k < RUN_NUMBERS ? job->cols - k : RUN_NUMBERS;
		run.dst = job->past_caches ? row_stream_room(&stream) : dst + k * width;
		if (run.values != NULL)
			nvfp4_run(&run);
		else
			mx_run(&run);
		if (job->past_caches)
			row_stream_write(&stream, run.n * width);
	}
	if (job->past_caches)
		row_stream_end(&stream);
}

ALWAYS_INLINE void dequantize_mx(const struct mxfp_dequantize_job *job, enum mxfp_format element, enum mxfp_format to)
{
	for (size_t row = 0; row < job->rows; row++)
		dequantize_row(job, (struct run){.element = element, .to = to}, row);
}

ALWAYS_INLINE void dequantize_nvfp4(const struct mxfp_dequantize_job *job, enum mxfp_format element,
                                    enum mxfp_format to)
{
	struct nvfp4_values values;

	nvfp4_values_init(&values, job);
	for (size_t row = 0; row < job->rows; row++)
		dequantize_row(job, (struct run){.element = element, .to = to, .values = &values}, row);
}

/* Each block format has its own copy of the loop. */
ALWAYS_INLINE void dequantize_to(const struct mxfp_dequantize_job *job, enum mxfp_format to)
{
	switch (job->format) {
#define MXFP_BLOCK(id, value, name, element, block_length, scale, tensor_scale) \
	case MXFP_FORMAT_##id: \
		(tensor_scale ? dequantize_nvfp4 : dequantize_mx)(job, MXFP_FORMAT_##element, to); \
		break;
#include "format.def"
	default:
		break;
	}
}

#define DEQUANTIZE_TO(name, format) \
	static NOINLINE void name(const struct mxfp_dequantize_job *job) \
	{ \
		dequantize_to(job, format); \
	}
DEQUANTIZE_TO(to_f32, MXFP_FORMAT_F32)
DEQUANTIZE_TO(to_bf16, MXFP_FORMAT_BF16)
DEQUANTIZE_TO(to_f16, MXFP_FORMAT_F16)
#undef DEQUANTIZE_TO

void TIER(dequantize)(const struct mxfp_dequantize_job *job)
{
	struct fp_state state = fp_enter();

	if (job->dst_format == MXFP_FORMAT_F32)
		to_f32(job);
	else if (job->dst_format == MXFP_FORMAT_BF16)
		to_bf16(job);
	else
		to_f16(job);
	if (job->past_caches && !job->continued)
		stream_end();
	fp_leave(state);
}
