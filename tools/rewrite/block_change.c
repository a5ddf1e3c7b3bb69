/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "rewrite/block_change.h"

#include <string.h>

enum {
	SCALE_ZERO = 0x00,
	E8M0_NAN = 0xFF,
	E8M0_BIAS = 127,
	UE4M3_NAN = 0x7F,
	UE4M3_PRECISION = 4,
	UE4M3_UNIT = -9,           /* 2^-9 is its least number, */
	UE4M3_LARGEST = 448 << 9,  /* and this its largest in units of that */
	F32_SIGNIFICAND = 23,
	F32_BIAS = 127,
	ODD_MAX_BITS = 16          /* no product of a code and a scale has so many: more is held by nothing */
};

/* A number of a block: odd x 2^exponent; odd is 0 for zeros. */
struct number {
	uint64_t odd;
	int exponent;
	bool negative, nan, inf, never; /* never: no integer times a power of two, or too many bits for any format */
};

/* A scale: odd x 2^exponent. */
struct scale {
	uint64_t odd; /* 0: the scale is zero, or there is none */
	int exponent;
	bool nan;
};

static unsigned bit_length(uint64_t x)
{
	return x == 0 ? 0 : 64 - (unsigned)__builtin_clzll(x);
}

/* Takes the factors of two out of x, which is not 0. */
static uint64_t take_odd(uint64_t x, int *exponent)
{
	const int zeros = __builtin_ctzll(x);

	*exponent += zeros;
	return x >> zeros;
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
	while (b != 0) {
		const uint64_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

/* The word of a finite binary32 number other than 0 as odd x 2^*exponent. */
static uint64_t split_f32(uint32_t word, int *exponent)
{
	const uint32_t field = word >> F32_SIGNIFICAND & 0xFF, fraction = word & 0x7FFFFF;

	*exponent = (field == 0 ? 1 : (int)field) - F32_BIAS - F32_SIGNIFICAND;
	return take_odd(field == 0 ? fraction : fraction | UINT32_C(1) << F32_SIGNIFICAND, exponent);
}

static uint32_t word_of(float x)
{
	uint32_t word;

	memcpy(&word, &x, sizeof word);
	return word;
}

bool block_factor_is_valid(const struct block_factor *factor)
{
	const uint32_t word = word_of(factor->scale);

	return word > 0 && word < UINT32_C(0xFF) << F32_SIGNIFICAND;
}

static struct block_form form_of(enum mxfp_format format)
{
	const struct mxfp_format_info *block = mxfp_format_get_info(format), *element = mxfp_format_get_info(block->element);
	const bool fixed = element->kind == MXFP_KIND_FIXED;
	struct block_form form = {
		.format = format,
		.element = block->element,
		.bits = element->bits,
		.length = block->block_length,
		.ue4m3 = block->scale == MXFP_FORMAT_UE4M3,
		.significand_bits = element->significand_bits,
		.precision = element->significand_bits + 1,
		.nan = BLOCK_NO_CODE,
		.fixed = fixed,
	};

	if (fixed) {
		form.unit = -(int)element->significand_bits;
		form.largest = element->max_code;
		return form;
	}
	const uint32_t field = element->max_code >> element->significand_bits;
	const uint64_t hidden = UINT64_C(1) << element->significand_bits;
	form.unit = 1 - element->bias - (int)element->significand_bits;
	form.largest = (hidden | (element->max_code & (hidden - 1))) << (field - 1);
	/* That of IEEE formats is the quiet one. */
	if (element->special == MXFP_SPECIAL_NAN)
		form.nan = (uint16_t)((1U << (element->bits - 1)) - 1);
	else if (element->special == MXFP_SPECIAL_IEEE)
		form.nan = (uint16_t)(((UINT32_C(1) << element->exponent_bits) - 1) << element->significand_bits | hidden >> 1);
	return form;
}

/* What a code of a form means. */
static struct block_code code_of(const struct block_form *form, unsigned code)
{
	const struct mxfp_format_info *element = mxfp_format_get_info(form->element);
	const unsigned sign = 1U << (form->bits - 1), magnitude = code & (sign - 1);
	struct block_code meant = {.negative = (code & sign) != 0};
	uint64_t significand = magnitude;
	int exponent = form->unit;

	if (form->fixed) {
		significand = meant.negative ? (2 * sign - code) & (2 * sign - 1) : code;
	} else {
		const unsigned field = magnitude >> element->significand_bits, hidden = 1U << element->significand_bits;

		/* Beyond the largest are Inf, of IEEE formats just there, and NaN. */
		if (magnitude > element->max_code) {
			meant.inf = element->special == MXFP_SPECIAL_IEEE && magnitude == element->max_code + 1;
			meant.nan = !meant.inf;
			return meant;
		}
		if (field > 0) {
			significand = hidden | (magnitude & (hidden - 1));
			exponent += (int)field - 1;
		}
	}
	if (significand != 0)
		meant.odd = (uint8_t)take_odd(significand, &exponent);
	meant.exponent = (int8_t)exponent;
	return meant;
}

/* Whether the elements of a form hold a number, after it was divided by the scale. */
static bool holds(const struct block_form *form, uint64_t odd, int exponent)
{
	const int shift = exponent - form->unit;

	return bit_length(odd) <= form->precision && shift >= 0 && shift < 48 && odd << shift <= form->largest;
}

/* The code of a number that is held; BLOCK_NO_CODE for the -0 of a format with one zero. */
static uint16_t encode(const struct block_form *form, uint64_t odd, int exponent, bool negative)
{
	const unsigned sign = negative ? 1U << (form->bits - 1) : 0;
	const uint64_t value = odd == 0 ? 0 : odd << (exponent - form->unit);
	const unsigned length = bit_length(value);

	if (form->fixed)
		return negative && value == 0 ? BLOCK_NO_CODE : (uint16_t)((negative ? -value : value) & 0xFF);
	if (length <= form->significand_bits)
		return (uint16_t)(value | sign);
	const unsigned field = length - form->significand_bits, fraction = (unsigned)(value >> (field - 1));
	return (uint16_t)(field << form->significand_bits | (fraction & ((1U << form->significand_bits) - 1)) | sign);
}

static void set_ratio(struct block_change *change, const struct block_factor *from, const struct block_factor *to)
{
	int above, below;
	const uint64_t a = split_f32(word_of(from->scale), &above), b = split_f32(word_of(to->scale), &below);

	change->p = (from->divides ? 1 : a) * (to->divides ? b : 1);
	change->q = (from->divides ? a : 1) * (to->divides ? 1 : b);
	change->exponent = (from->divides ? -above : above) - (to->divides ? -below : below);
	const uint64_t common = common_divisor(change->p, change->q);
	change->p /= common;
	change->q /= common;
}

static struct scale scale_of(const struct block_form *form, uint8_t byte)
{
	if (!form->ue4m3)
		return (struct scale){.odd = byte != E8M0_NAN, .exponent = byte - E8M0_BIAS, .nan = byte == E8M0_NAN};
	const unsigned magnitude = byte & UE4M3_NAN, field = magnitude >> 3;
	struct scale scale = {.exponent = UE4M3_UNIT, .nan = magnitude == UE4M3_NAN};

	if (magnitude != 0 && !scale.nan)
		scale.odd = take_odd(field == 0 ? magnitude : (uint64_t)(8 | (magnitude & 7)) << (field - 1), &scale.exponent);
	return scale;
}

/* A scale of the source as one of the target, of which not every one is held; odd is 0 if there is none. */
static struct scale same_scale(const struct block_change *change, struct scale scale)
{
	if (scale.odd == 0 || scale.odd % change->q != 0 || bit_length(change->p) > ODD_MAX_BITS)
		return (struct scale){0};
	scale.odd = scale.odd / change->q * change->p;
	scale.exponent += change->exponent;
	return scale;
}

/* The exponents of a scale of that odd part, from the least to the most. */
static void scale_range(const struct block_form *form, uint64_t odd, int *least, int *most)
{
	if (!form->ue4m3) {
		*least = -E8M0_BIAS;
		*most = odd == 1 ? E8M0_BIAS : -E8M0_BIAS - 1;
		return;
	}
	*least = UE4M3_UNIT;
	*most = UE4M3_UNIT - 1;
	if (bit_length(odd) <= UE4M3_PRECISION)
		while (odd << (*most + 1 - UE4M3_UNIT) <= UE4M3_LARGEST)
			*most += 1;
}

static bool scale_is_held(const struct block_form *form, const struct scale *scale)
{
	int least, most;

	if (scale->odd == 0)
		return false;
	scale_range(form, scale->odd, &least, &most);
	return scale->exponent >= least && scale->exponent <= most;
}

/* The byte of a scale that is held. */
static uint8_t scale_byte(const struct block_form *form, const struct scale *scale)
{
	if (!form->ue4m3)
		return (uint8_t)(scale->exponent + E8M0_BIAS);
	const unsigned value = (unsigned)(scale->odd << (scale->exponent - UE4M3_UNIT)), length = bit_length(value);

	return (uint8_t)(length < UE4M3_PRECISION ? value
	                                          : (length - 3) << 3 | (value >> (length - UE4M3_PRECISION) & 7));
}

void block_change_begin(struct block_change *change, enum mxfp_format from, const struct block_factor *from_factor,
                        enum mxfp_format to, const struct block_factor *to_factor)
{
	memset(change, 0, sizeof *change);
	change->numbers = from == MXFP_FORMAT_F32;
	change->to = form_of(to);
	set_ratio(change, from_factor, to_factor);
	if (change->numbers)
		return;
	change->from = form_of(from);
	change->all_same = true;
	for (unsigned i = 0; i < 1U << change->from.bits; i++) {
		const struct block_code code = change->codes[i] = code_of(&change->from, i);

		change->same[i] = BLOCK_NO_CODE;
		if (code.nan && change->to.nan != BLOCK_NO_CODE)
			change->same[i] = (uint16_t)(change->to.nan | (code.negative ? 1U << (change->to.bits - 1) : 0));
		else if (!code.nan && !code.inf && (code.odd == 0 || holds(&change->to, code.odd, code.exponent)))
			change->same[i] = encode(&change->to, code.odd, code.exponent, code.negative);
		change->all_same &= change->same[i] != BLOCK_NO_CODE;
	}
	for (unsigned i = 0; i < 256 && change->from.bits == 4; i++)
		change->same_pairs[i] = (uint16_t)((change->same[i & 15] & 0xFF) | change->same[i >> 4] << 8);
	for (unsigned i = 0; i < 256; i++) {
		const struct scale own = scale_of(&change->from, (uint8_t)i), scale = same_scale(change, own);

		change->kept[i] = scale_is_held(&change->to, &scale) ? scale_byte(&change->to, &scale) : BLOCK_NO_CODE;
	}
}

/* A unit of the source: the codes or numbers of a few blocks, one code a byte. */
struct unit {
	size_t n;            /* elements; those behind are zeros */
	uint8_t codes[BLOCK_UNIT];
	const float *numbers;
	struct scale scales[BLOCK_UNIT]; /* of blocks */
	unsigned length;     /* of a block; BLOCK_UNIT for numbers */
};

static void unpack(uint8_t codes[BLOCK_UNIT], const uint8_t *bytes, unsigned bits, size_t n)
{
	if (bits == 8) {
		memcpy(codes, bytes, n);
	} else if (bits == 4) {
		for (size_t i = 0; i < n; i += 2) {
			codes[i] = bytes[i / 2] & 15;
			codes[i + 1] = bytes[i / 2] >> 4;
		}
	} else {
		for (size_t i = 0; i < n / 4; i++) {
			const uint32_t word = (uint32_t)bytes[3 * i] | (uint32_t)bytes[3 * i + 1] << 8 | (uint32_t)bytes[3 * i + 2] << 16;

			for (unsigned k = 0; k < 4; k++)
				codes[4 * i + k] = word >> 6 * k & 63;
		}
	}
}

static void pack(uint8_t *bytes, const uint8_t *codes, unsigned bits, size_t n)
{
	if (bits == 8) {
		memcpy(bytes, codes, n);
	} else if (bits == 4) {
		for (size_t i = 0; i < n / 2; i++)
			bytes[i] = (uint8_t)(codes[2 * i] | codes[2 * i + 1] << 4);
	} else {
		for (size_t i = 0; i < n / 4; i++) {
			const uint32_t word = (uint32_t)codes[4 * i] | (uint32_t)codes[4 * i + 1] << 6 | (uint32_t)codes[4 * i + 2] << 12 |
			                      (uint32_t)codes[4 * i + 3] << 18;

			bytes[3 * i] = (uint8_t)word;
			bytes[3 * i + 1] = (uint8_t)(word >> 8);
			bytes[3 * i + 2] = (uint8_t)(word >> 16);
		}
	}
}

/* Element i of a unit, divided by the target's tensor scale. */
static struct number number_of(const struct block_change *change, const struct unit *unit, size_t i)
{
	struct number x = {0};
	uint64_t odd;

	if (i >= unit->n)
		return x;
	if (change->numbers) {
		const uint32_t word = word_of(unit->numbers[i]), magnitude = word & 0x7FFFFFFF;
		const uint32_t inf = UINT32_C(0xFF) << F32_SIGNIFICAND;

		x = (struct number){.negative = word >> 31 != 0, .nan = magnitude > inf, .inf = magnitude == inf};
		if (magnitude == 0 || x.nan || x.inf)
			return x;
		odd = split_f32(magnitude, &x.exponent);
	} else {
		const struct block_code *code = &change->codes[unit->codes[i]];
		const struct scale *scale = &unit->scales[i / unit->length];

		x = (struct number){.negative = code->negative, .nan = code->nan, .inf = code->inf};
		if (scale->nan) /* whatever the code */
			x = (struct number){.nan = true};
		odd = (uint64_t)code->odd * scale->odd;
		if (x.nan || x.inf || odd == 0)
			return x;
		x.exponent = code->exponent + scale->exponent;
	}
	x.exponent += change->exponent;
	x.never = odd % change->q != 0 || bit_length(change->p) > ODD_MAX_BITS;
	x.odd = x.never ? 1 : odd / change->q * change->p;
	return x;
}

/* What the numbers of a target's block have in common. */
struct summary {
	struct number x[BLOCK_UNIT];
	size_t n;
	bool any, all_nan, only_nan, special, never; /* any: not zero; all_nan: by the scale; only_nan: or by codes, without a sign */
	uint64_t least, most;              /* odd parts */
};

static void sum_up(struct summary *s, const struct block_change *change, const struct unit *unit, size_t first)
{
	*s = (struct summary){.n = change->to.length, .all_nan = true, .only_nan = true, .least = UINT64_MAX};
	for (size_t i = 0; i < s->n; i++) {
		const struct number x = s->x[i] = number_of(change, unit, first + i);

		s->only_nan &= first + i >= unit->n || (x.nan && !x.negative);
		s->special |= x.inf || (x.nan && change->to.nan == BLOCK_NO_CODE);
		s->never |= x.never || (x.odd == 0 && !x.nan && !x.inf && x.negative && change->to.fixed);
		if (x.odd == 0)
			continue;
		s->any = true;
		s->least = x.odd < s->least ? x.odd : s->least;
		s->most = x.odd > s->most ? x.odd : s->most;
	}
	for (size_t i = first; i < first + s->n && i < unit->n; i += unit->length)
		s->all_nan &= !change->numbers && unit->scales[i / unit->length].nan;
}

/* The exponents that a scale with that odd part may have so that all numbers are held; false if there are none. */
static bool exponents(const struct block_change *change, const struct summary *s, uint64_t odd, int *least, int *most)
{
	const struct block_form *to = &change->to;

	*least = -(1 << 20);
	*most = 1 << 20;
	for (size_t i = 0; i < s->n; i++) {
		const struct number *x = &s->x[i];
		int shift = 0;

		if (x->odd == 0)
			continue;
		const uint64_t code = x->odd / odd;
		if (x->odd % odd != 0 || bit_length(code) > to->precision)
			return false;
		while (code << (shift + 1) <= to->largest)
			shift++;
		const int from = x->exponent - to->unit - shift, till = x->exponent - to->unit;
		*least = from > *least ? from : *least;
		*most = till < *most ? till : *most;
	}
	return *least <= *most;
}

/* The odd parts that a scale of the target may have for these numbers: 1, or in NVFP4 those that leave every number an element's
   odd part, of which there are 1 and 3. Returns how many. */
static unsigned odd_parts(const struct block_change *change, const struct summary *s, uint64_t parts[2])
{
	unsigned n = 0;

	if (!change->to.ue4m3) {
		parts[0] = 1;
		return 1;
	}
	if (s->most == s->least && s->most % 3 == 0)
		parts[n++] = s->most / 3;
	if (s->most == s->least || s->most == 3 * s->least)
		parts[n++] = s->least;
	return n;
}

/* The smallest scale that holds the numbers, which are not all zeros; odd is 0 if there is none. */
static struct scale smallest(const struct block_change *change, const struct summary *s)
{
	struct scale best = {0};
	uint64_t parts[2];
	const unsigned n = odd_parts(change, s, parts);

	for (unsigned i = 0; i < n; i++) {
		struct scale scale = {.odd = parts[i]};
		int least, most, from, till;

		if (!exponents(change, s, parts[i], &least, &most))
			continue;
		scale_range(&change->to, parts[i], &from, &till);
		scale.exponent = least > from ? least : from;
		if (scale.exponent > most || scale.exponent > till)
			continue;
		/* Bytes are in the order of the numbers. */
		if (best.odd == 0 || scale_byte(&change->to, &scale) < scale_byte(&change->to, &best))
			best = scale;
	}
	return best;
}

/* Writes the codes of numbers that a scale holds, one a byte; false if one has none, a -0. */
static bool encode_all(const struct block_change *change, const struct summary *s, const struct scale *scale, uint8_t *codes)
{
	for (size_t i = 0; i < s->n; i++) {
		const struct number *x = &s->x[i];
		uint16_t code;

		if (x->nan)
			code = (uint16_t)(change->to.nan | (x->negative ? 1U << (change->to.bits - 1) : 0));
		else
			code = encode(&change->to, x->odd == 0 ? 0 : x->odd / scale->odd, x->exponent - scale->exponent, x->negative);
		if (code == BLOCK_NO_CODE)
			return false;
		codes[i] = (uint8_t)code;
	}
	return true;
}

static bool all_zero(const struct block_change *change, const struct unit *unit, size_t first)
{
	for (size_t i = first; i < first + unit->length && i < unit->n; i++) {
		const struct block_code *code = &change->codes[unit->codes[i]];

		if (code->odd != 0 || code->nan || code->inf)
			return false;
	}
	return true;
}

/* The source's scale of the numbers from `first` on, as one of the target; odd is 0 if blocks that are not zero have others. */
static struct scale kept_scale(const struct block_change *change, const struct unit *unit, size_t first)
{
	const unsigned length = change->to.length;
	struct scale kept = {0};
	bool decided = false;

	if (change->numbers)
		return kept;
	for (size_t i = first; i < first + length && i < unit->n; i += unit->length) {
		const struct scale *own = &unit->scales[i / unit->length];
		const struct scale scale = same_scale(change, *own);

		if (length <= unit->length)
			return scale;
		if (own->nan)
			continue;
		if (own->odd != 0 && !all_zero(change, unit, i)) {
			if (decided && (scale.odd != kept.odd || scale.exponent != kept.exponent))
				return (struct scale){0};
			kept = scale;
			decided = true;
		} else if (!decided && kept.odd == 0) {
			kept = scale; /* of zeros, if nothing better follows */
		}
	}
	return kept;
}

/* Whether a scale holds the numbers as it is. */
static bool is_held_by(const struct block_change *change, const struct summary *s, const struct scale *scale)
{
	int least, most;

	return scale_is_held(&change->to, scale) && exponents(change, s, scale->odd, &least, &most) &&
	       scale->exponent >= least && scale->exponent <= most;
}

/* One block of the target: its codes, one a byte, and its scale. */
static enum block_fit change_block(const struct block_change *change, const struct unit *unit, size_t first, uint8_t *codes,
                                   uint8_t *byte)
{
	const struct scale kept = kept_scale(change, unit, first);
	struct scale scale = kept;
	struct summary s;

	sum_up(&s, change, unit, first);
	if (s.all_nan || (s.special && s.only_nan)) {
		*byte = change->to.ue4m3 ? UE4M3_NAN : E8M0_NAN;
		memset(codes, 0, change->to.length);
		return BLOCK_SAME;
	}
	if (s.special)
		return BLOCK_SPECIAL;
	if (s.never)
		return BLOCK_ROUNDED;
	const bool keeps = scale_is_held(&change->to, &kept);
	if (!s.any) {
		*byte = keeps ? scale_byte(&change->to, &kept) : SCALE_ZERO;
		scale.odd = 1;
		return encode_all(change, &s, &scale, codes) ? BLOCK_SAME : BLOCK_ROUNDED;
	}
	const bool same = keeps && is_held_by(change, &s, &kept);
	if (!same)
		scale = smallest(change, &s);
	if (scale.odd == 0 || !encode_all(change, &s, &scale, codes))
		return BLOCK_ROUNDED;
	*byte = scale_byte(&change->to, &scale);
	return same ? BLOCK_SAME : BLOCK_EXACT;
}

/* Takes a unit out of a row. */
static void load(const struct block_change *change, struct unit *unit, size_t cols, size_t at, const void *codes,
                 const uint8_t *scales)
{
	const size_t left = cols - at;

	unit->n = left < BLOCK_UNIT ? left : BLOCK_UNIT;
	if (change->numbers) {
		unit->length = BLOCK_UNIT;
		unit->numbers = (const float *)codes + at;
		return;
	}
	const unsigned length = unit->length = change->from.length;
	const size_t n_blocks = (unit->n + length - 1) / length;

	if (n_blocks * length < BLOCK_UNIT)
		memset(unit->codes, 0, sizeof unit->codes);
	unit->n = n_blocks * length;
	unpack(unit->codes, (const uint8_t *)codes + at * change->from.bits / 8, change->from.bits, unit->n);
	for (size_t i = 0; i < BLOCK_UNIT / length; i++)
		unit->scales[i] = i < n_blocks ? scale_of(&change->from, scales[at / length + i]) : (struct scale){0};
}

/* Codes of a whole unit that mean what they meant; false if one cannot. */
static bool translate_unit(const struct block_change *change, const uint8_t *from, uint8_t *to)
{
	const unsigned bits = change->from.bits;
	uint8_t codes[BLOCK_UNIT];
	uint16_t all = 0;

	if (change->from.element == change->to.element) {
		memcpy(to, from, BLOCK_UNIT / 8 * bits);
		return true;
	}
	if (bits == 4 && change->to.bits == 8 && change->all_same) {
		for (size_t i = 0; i < BLOCK_UNIT / 2; i++) {
			to[2 * i] = (uint8_t)change->same_pairs[from[i]];
			to[2 * i + 1] = (uint8_t)(change->same_pairs[from[i]] >> 8);
		}
		return true;
	}
	unpack(codes, from, bits, BLOCK_UNIT);
	for (size_t i = 0; i < BLOCK_UNIT; i++) {
		const uint16_t code = change->same[codes[i]];

		all |= code;
		codes[i] = (uint8_t)code;
	}
	if ((all & 0xFF00) != 0)
		return false;
	pack(to, codes, change->to.bits, BLOCK_UNIT);
	return true;
}

/* Changes a whole unit of which every scale can be kept, and every code means the same; false if it is not such a one. */
static bool keep_unit(const struct block_change *change, const uint8_t *codes, const uint8_t *scales, uint8_t *to_codes,
                      uint8_t *to_scales, uint8_t *fits)
{
	const uint16_t first = change->kept[scales[0]];
	const uint16_t second = change->from.length == BLOCK_UNIT ? first : change->kept[scales[1]];

	if (first == BLOCK_NO_CODE || second == BLOCK_NO_CODE || (change->to.length == BLOCK_UNIT && first != second) ||
	    !translate_unit(change, codes, to_codes))
		return false;
	to_scales[0] = (uint8_t)first;
	fits[0] = BLOCK_SAME;
	if (change->to.length < BLOCK_UNIT) {
		to_scales[1] = (uint8_t)second;
		fits[1] = BLOCK_SAME;
	}
	return true;
}

void block_change_row(const struct block_change *change, size_t cols, const void *codes, const uint8_t *scales,
                      uint8_t *to_codes, uint8_t *to_scales, uint8_t *fits)
{
	const unsigned length = change->to.length, bits = change->to.bits;
	struct unit unit;

	for (size_t at = 0; at < cols; at += BLOCK_UNIT) {
		if (!change->numbers && cols - at >= BLOCK_UNIT &&
		    keep_unit(change, (const uint8_t *)codes + at * change->from.bits / 8, scales + at / change->from.length,
		              to_codes + at * bits / 8, to_scales + at / length, fits + at / length))
			continue;
		load(change, &unit, cols, at, codes, scales);
		for (size_t i = 0; i < BLOCK_UNIT && at + i < cols; i += length) {
			const size_t block = (at + i) / length;
			uint8_t own[BLOCK_UNIT];
			const enum block_fit fit = change_block(change, &unit, i, own, &to_scales[block]);

			fits[block] = (uint8_t)fit;
			if (fit == BLOCK_ROUNDED || fit == BLOCK_SPECIAL) {
				memset(own, 0, sizeof own);
				to_scales[block] = SCALE_ZERO;
			}
			pack(to_codes + (at + i) * bits / 8, own, bits, length);
		}
	}
}

/* Adds 1 for each t from `least` to `most`. */
static void add_range(int64_t *differences, int least, int most, int64_t n)
{
	least = least < -BLOCK_SPREAD_MAX ? -BLOCK_SPREAD_MAX : least;
	most = most > BLOCK_SPREAD_MAX ? BLOCK_SPREAD_MAX : most;
	if (least > most)
		return;
	differences[least + BLOCK_SPREAD_MAX] += n;
	differences[most + 1 + BLOCK_SPREAD_MAX] -= n;
}

/* The t with which a scale of that odd part and an exponent from `least` to `most` is one of the target's: what is divided by
   2^t is one. */
static bool factors(const struct block_form *to, uint64_t odd, int least, int most, int *from, int *till)
{
	int first, last;

	scale_range(to, odd, &first, &last);
	*from = least - last;
	*till = most - first;
	return first <= last;
}

static void spread_block(struct block_spread *spread, const struct block_change *change, const struct unit *unit, size_t first)
{
	const struct block_form *to = &change->to;
	const struct scale kept = kept_scale(change, unit, first);
	int from[2], till[2], least, most;
	uint64_t parts[2];
	unsigned n = 0;
	struct summary s;

	sum_up(&s, change, unit, first);
	if (s.all_nan || s.special || s.never || !s.any)
		return;
	spread->blocks++;
	if (kept.odd != 0 && exponents(change, &s, kept.odd, &least, &most) && kept.exponent >= least &&
	    kept.exponent <= most && factors(to, kept.odd, kept.exponent, kept.exponent, &from[0], &till[0]))
		add_range(spread->same, from[0], till[0], 1);
	const unsigned n_parts = odd_parts(change, &s, parts);
	for (unsigned i = 0; i < n_parts; i++)
		if (exponents(change, &s, parts[i], &least, &most) && factors(to, parts[i], least, most, &from[n], &till[n]))
			n++;
	for (unsigned i = 0; i < n; i++)
		add_range(spread->exact, from[i], till[i], 1);
	/* A t that both allow counts once. */
	if (n == 2)
		add_range(spread->exact, from[0] > from[1] ? from[0] : from[1], till[0] < till[1] ? till[0] : till[1], -1);
}

void block_spread_row(struct block_spread *spread, const struct block_change *change, size_t cols, const void *codes,
                      const uint8_t *scales)
{
	struct unit unit;

	for (size_t at = 0; at < cols; at += BLOCK_UNIT) {
		load(change, &unit, cols, at, codes, scales);
		for (size_t i = 0; i < BLOCK_UNIT && at + i < cols; i += change->to.length)
			spread_block(spread, change, &unit, i);
	}
}

void block_spread_scale(struct block_spread *spread, const struct block_change *change, uint8_t scale, uint64_t n)
{
	const struct scale own = scale_of(&change->from, scale), kept = same_scale(change, own);
	int from, till;

	if (own.nan || n == 0)
		return;
	spread->blocks += n;
	if (kept.odd == 0 || !factors(&change->to, kept.odd, kept.exponent, kept.exponent, &from, &till))
		return;
	add_range(spread->same, from, till, (int64_t)n);
	add_range(spread->exact, from, till, (int64_t)n);
}

void block_spread_add(struct block_spread *sum, const struct block_spread *spread)
{
	sum->blocks += spread->blocks;
	for (size_t i = 0; i < sizeof sum->exact / sizeof sum->exact[0]; i++) {
		sum->exact[i] += spread->exact[i];
		sum->same[i] += spread->same[i];
	}
}

int block_spread_best(const struct block_spread *spread, int least, int most, uint64_t *exact, uint64_t *same)
{
	int64_t now_exact = 0, now_same = 0, best_exact = -1, best_same = -1;
	int best = 0;

	for (int t = -BLOCK_SPREAD_MAX; t <= most; t++) {
		now_exact += spread->exact[t + BLOCK_SPREAD_MAX];
		now_same += spread->same[t + BLOCK_SPREAD_MAX];
		if (t < least || now_exact < best_exact || (now_exact == best_exact && now_same <= best_same))
			continue;
		best = t;
		best_exact = now_exact;
		best_same = now_same;
	}
	*exact = (uint64_t)best_exact;
	*same = (uint64_t)best_same;
	return spread->blocks == 0 ? 0 : best;
}
