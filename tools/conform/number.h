/* SPDX-License-Identifier: MIT */
/* Single numbers and codes, as the operations of mxfp conform need them; the reference makes all of them. */
#ifndef TOOLS_CONFORM_NUMBER_H
#define TOOLS_CONFORM_NUMBER_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/must_succeed.h"
#include "conform/conform.h"
#include "mxfp/convert.h"

/* The reference: ref/, on the calling thread. */
#define REFERENCE (&(const struct mxfp_exec){.size = sizeof(struct mxfp_exec), .threads = 1, .isa = "ref"})

#define F32_SIGN UINT32_C(0x80000000)
#define F32_INF UINT32_C(0x7F800000)
#define F32_NAN UINT32_C(0x7FC00000)
#define F32_MAX UINT32_C(0x7F7FFFFF)
#define F32_ONE UINT32_C(0x3F800000)

static inline uint32_t load_f32(const uint8_t *bytes)
{
	return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static inline void store_f32(uint8_t *bytes, uint32_t x)
{
	for (int i = 0; i < 4; i++)
		bytes[i] = (uint8_t)(x >> 8 * i);
}

/* A number that is no answer: where a way of computing has none. */
#define F32_NO_ANSWER UINT32_C(0xDEADBEEF)

static inline float f32_value(uint32_t bits)
{
	float value;

	memcpy(&value, &bits, sizeof value);
	return value;
}

static inline uint32_t f32_bits(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof bits);
	return bits;
}

static inline bool f32_is_nan(uint32_t x)
{
	return (x & ~F32_SIGN) > F32_INF;
}

/* A code of a format as it is stored: tf32 at the top of its word. */
uint32_t code_load(const struct mxfp_format_info *f, const uint8_t *bytes);
void code_store(const struct mxfp_format_info *f, uint8_t *bytes, uint32_t code);

/* Whether -0 has no code: that of it is NaN. */
static inline bool is_fnuz(const struct mxfp_format_info *f)
{
	return f->special == MXFP_SPECIAL_FNUZ;
}

uint32_t code_sign(const struct mxfp_format_info *f);
uint32_t code_mask(const struct mxfp_format_info *f);

/* The code of the number with the other sign; of FNUZ, 0 for 0. */
uint32_t code_negated(const struct mxfp_format_info *f, uint32_t code);

/* The binary32 bits of a code. */
uint32_t code_decode(const struct mxfp_format_info *f, uint32_t code);

/* The code of a number. */
uint32_t number_encode(const struct mxfp_format_info *f, uint32_t x, enum mxfp_round round, enum mxfp_overflow overflow);

/* The code of a number in a way, with its quirks. */
uint32_t number_encode_way(const struct mxfp_format_info *f, uint32_t x, const struct way *way, uint64_t seed, uint64_t stream,
                           uint64_t index);

/* How elements of blocks are cast in a way: what happens to numbers before they are divided by a scale is not done again. */
struct way number_element_way(const struct way *way);

/* The value of a code in a way. */
uint32_t code_decode_way(const struct mxfp_format_info *f, uint32_t code, const struct way *way);

/* The class of a number for an element format: "tie", "past the largest", ... */
const char *number_class(const struct mxfp_format_info *f, uint32_t x);

/* Adds every value of the format, what lies between them, their neighbours, and everything beyond, with both signs. */
void numbers_add(const struct mxfp_format_info *f, struct items *items);

/* A number for blocks: random bits whose exponent is in a range of 2^-spread to 2^spread about 2^centre. */
uint32_t number_random(struct items *items, int centre, int spread);

/* A result of binary32 in a way. */
uint32_t f32_result_way(uint32_t y, const struct way *way);

/* Whether results of binary32 are equal, where any NaN is equal to another. */
bool f32_results_same(const struct question *q, const uint8_t *in, const uint8_t *expected, const uint8_t *got);

/* Puts n codes of `bits` bits into bytes, or takes them out, in the order of a way. */
void codes_pack(uint8_t *bytes, const uint8_t *codes, size_t n, unsigned bits, const struct way *way);
void codes_unpack(uint8_t *codes, const uint8_t *bytes, size_t n, unsigned bits, const struct way *way);

#endif
