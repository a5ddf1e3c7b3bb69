/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "conform/probe_ask.h"

#include <math.h>
#include <stdlib.h>

#include "conform/number.h"
#include "conform/products.h"

/* 2^i as a scale of NVFP4, subnormals included, and what an element adds to it. */
enum { NVFP4_SCALE_LOW = -9, NVFP4_SCALE_HIGH = 8 };

static int side_begin(struct side *side, enum mxfp_format format, struct error *error)
{
	const struct mxfp_format_info *info = mxfp_format_get_info(format);
	const struct mxfp_format_info *e = mxfp_format_get_info(info->element);
	uint16_t *codes;

	side->element = e;
	side->scale = info->kind == MXFP_KIND_BLOCK ? mxfp_format_get_info(info->scale) : NULL;
	side->length = info->block_length;
	side->low = 1 - e->bias;
	side->lowest = side->low - (int)e->significand_bits;
	side->high = e->emax;
	if (side->scale != NULL) {
		side->low = side->lowest = side->scale->kind == MXFP_KIND_EXPONENT ? -127 : NVFP4_SCALE_LOW - 1;
		side->high = side->scale->kind == MXFP_KIND_EXPONENT ? 127 : NVFP4_SCALE_HIGH + 2;
	}
	if (e->bits > 16)
		return EXIT_OK;
	const size_t n = (size_t)1 << e->bits;
	side->values = malloc(n * sizeof *side->values);
	codes = malloc(n * sizeof *codes);
	for (size_t i = 0; codes != NULL && i < n; i++) {
		if (e->storage_bytes == 1)
			((uint8_t *)codes)[i] = (uint8_t)i;
		else
			codes[i] = (uint16_t)i;
	}
	const bool made = codes != NULL && side->values != NULL;
	if (made)
		must_succeed(mxfp_convert_array(side->values, MXFP_FORMAT_F32, codes, e->format, n, NULL, REFERENCE));
	free(codes);
	return made ? EXIT_OK : fail_memory(error);
}

int asker_begin(struct asker *asker, struct child *child, enum mxfp_format a, enum mxfp_format w, size_t k, uint64_t seed, struct error *error)
{
	*asker = (struct asker){.child = child, .k = k, .top = 20};
	dot_begin(&asker->q, a, w, "own", k);
	asker->items = (struct items){.item_bytes = asker->q.in_bytes, .random = seed};
	int code = side_begin(&asker->side[0], a, error);
	if (code == EXIT_OK)
		code = side_begin(&asker->side[1], w, error);
	asker->length = 1;
	size_t at = 0, part = 0;
	for (int i = 0; i < 2; i++) {
		struct side *side = &asker->side[i];

		side->codes_at = at;
		at += asker->q.in[part++];
		side->scales_at = at;
		if (side->scale != NULL)
			at += asker->q.in[part++];
		if (side->length > asker->length)
			asker->length = side->length;
	}
	asker->n_leaves = k / asker->length;
	asker->item = malloc(asker->q.in_bytes);
	asker->a = malloc(k * sizeof *asker->a);
	asker->w = malloc(k * sizeof *asker->w);
	if (code == EXIT_OK && (asker->item == NULL || asker->a == NULL || asker->w == NULL))
		code = fail_memory(error);
	return code;
}

void asker_end(struct asker *asker)
{
	free(asker->side[0].values);
	free(asker->side[1].values);
	free(asker->item);
	free(asker->a);
	free(asker->w);
	free(asker->items.bytes);
}

void item_clear(struct asker *asker)
{
	memset(asker->item, 0, asker->q.in_bytes);
}

void item_add(struct asker *asker)
{
	items_add(&asker->items, asker->item);
}

void items_clear(struct asker *asker)
{
	asker->items.n = 0;
}

/* The code of a number that the format has. */
static uint32_t code_of(const struct mxfp_format_info *f, double x)
{
	const double magnitude = fabs(x);
	uint32_t code;

	if (f->kind == MXFP_KIND_FIXED)
		return (uint32_t)(int32_t)ldexp(x, (int)f->significand_bits) & ((UINT32_C(1) << f->bits) - 1);
	if (magnitude < ldexp(1, 1 - f->bias)) {
		code = (uint32_t)ldexp(magnitude, f->bias - 1 + (int)f->significand_bits);
	} else {
		const int e = ilogb(magnitude);

		code = (uint32_t)((uint64_t)(e + f->bias - 1) << f->significand_bits) + (uint32_t)ldexp(magnitude, (int)f->significand_bits - e);
	}
	return signbit(x) ? code_negated(f, code) : code;
}

static void put_code(struct asker *asker, const struct side *side, size_t i, uint32_t code)
{
	uint8_t *codes = asker->item + side->codes_at;

	if (side->scale == NULL) {
		code_store(side->element, codes + i * side->element->storage_bytes, code);
		return;
	}
	const size_t bit = i * side->element->bits;
	for (unsigned b = 0; b < side->element->bits; b++) {
		const uint8_t mask = (uint8_t)(1U << (bit + b) % 8);

		codes[(bit + b) / 8] = (uint8_t)((codes[(bit + b) / 8] & ~mask) | ((code >> b & 1) != 0 ? mask : 0));
	}
}

static int clamp(int x, int low, int high)
{
	return x < low ? low : x > high ? high : x;
}

bool item_factor(struct asker *asker, int which, size_t leaf, double m, int exponent, bool subnormals)
{
	const struct side *side = &asker->side[which];
	const size_t i = leaf * asker->length;

	if (exponent < (subnormals ? side->lowest : side->low) || exponent > side->high)
		return false;
	if (side->scale == NULL) {
		const uint32_t code = code_of(side->element, ldexp(m, exponent));

		put_code(asker, side, i, code);
		return (code & code_mask(side->element)) <= side->element->max_code;
	}
	const bool power = side->scale->kind == MXFP_KIND_EXPONENT;
	int spread = asker->vary && side->element->kind == MXFP_KIND_FLOAT && side->element->emax > 0 ? (int)(items_random(&asker->items) % 3) : 0;
	spread = clamp(spread, 0, side->element->emax - (side->element->emax > 1));
	const int scale = clamp(exponent - spread, power ? -127 : NVFP4_SCALE_LOW, power ? 127 : NVFP4_SCALE_HIGH);
	const double value = ldexp(m, exponent - scale);

	/* Half of one is there, in e2m1 a subnormal; half of another number may not be. */
	if (exponent < scale && fabs(m) != 1)
		return false;
	put_code(asker, side, i, code_of(side->element, value));
	asker->item[side->scales_at + i / side->length] = (uint8_t)(power ? scale + 127 : (int)code_of(side->scale, ldexp(1, scale)));
	return true;
}

bool item_special(struct asker *asker, int which)
{
	const struct side *side = &asker->side[which];

	if (side->element->special == MXFP_SPECIAL_NONE || side->element->bits != 8 || !item_put(asker, 0, 1, 1, 0, false))
		return false;
	put_code(asker, side, 0, side->element->max_code + 1);
	return true;
}

void side_take_numbers(struct side *side)
{
	const struct mxfp_format_info *e = side->element;

	for (uint32_t code = 0; code >> e->bits == 0; code++) {
		const uint32_t magnitude = code & code_mask(e), hidden = UINT32_C(1) << e->significand_bits;
		const float x = ldexpf((float)(hidden + magnitude % hidden), (int)(magnitude / hidden) - e->bias - (int)e->significand_bits);

		if (!isfinite(side->values[code]))
			side->values[code] = (code & code_sign(e)) != 0 ? -x : x;
	}
}

bool item_put(struct asker *asker, size_t leaf, double ma, double mw, int exponent, bool subnormals)
{
	const struct side *a = &asker->side[0], *w = &asker->side[1];
	const int low_a = subnormals ? a->lowest : a->low, low_w = subnormals ? w->lowest : w->low;
	int ea = clamp((exponent - (exponent & 1)) / 2, low_a, a->high);
	const int ew = clamp(exponent - ea, low_w, w->high);

	ea = clamp(exponent - ew, low_a, a->high);
	return ea + ew == exponent && item_factor(asker, 0, leaf, ma, ea, subnormals) && item_factor(asker, 1, leaf, mw, ew, subnormals);
}

int products_low(const struct asker *asker, bool subnormals)
{
	return subnormals ? asker->side[0].lowest + asker->side[1].lowest : asker->side[0].low + asker->side[1].low;
}

int products_high(const struct asker *asker)
{
	return asker->side[0].high + asker->side[1].high;
}

/* A number of the format at random, about 2^centre. */
static uint32_t random_code(struct asker *asker, const struct mxfp_format_info *e, int centre, int spread)
{
	const uint64_t word = items_random(&asker->items);
	const int exponent = clamp(centre - spread + (int)(word % (uint64_t)(2 * spread + 1)), 1 - e->bias - 1, e->emax);
	const uint64_t fraction = (word >> 32) & ((UINT64_C(1) << e->significand_bits) - 1);
	uint32_t code = (uint32_t)((uint64_t)(exponent + e->bias) << e->significand_bits | fraction);

	code = code > e->max_code ? e->max_code : code;
	return word >> 31 & 1 ? code_negated(e, code) : code;
}

static uint32_t random_element(struct asker *asker, const struct mxfp_format_info *e)
{
	const uint32_t code = (uint32_t)items_random(&asker->items) & ((UINT32_C(1) << e->bits) - 1);

	return e->special != MXFP_SPECIAL_NONE && (code & code_mask(e)) > e->max_code ? e->max_code : code;
}

void item_block(struct asker *asker, size_t leaf, int exponent)
{
	for (int s = 0; s < 2; s++) {
		const struct side *side = &asker->side[s];
		const bool power = side->scale != NULL && side->scale->kind == MXFP_KIND_EXPONENT;
		const int own = s == 0 ? exponent / 2 : exponent - exponent / 2;

		for (size_t i = leaf * asker->length; i < (leaf + 1) * asker->length; i++) {
			put_code(asker, side, i, side->scale == NULL ? random_code(asker, side->element, own, 1) : random_element(asker, side->element));
			if (side->scale != NULL)
				asker->item[side->scales_at + i / side->length] =
					(uint8_t)(power ? clamp(own + 127, 0, 254) :
					          clamp(0x38 + 8 * own + (int)(items_random(&asker->items) % 8), 1 + (int)(items_random(&asker->items) % 8), 0x7E));
		}
	}
}

static void random_side(struct asker *asker, const struct side *side, int style)
{
	/* In styles 4 and 6 products are near the least and near the largest numbers of binary32. */
	static const int spreads[N_STYLES] = {2, 8, 20, 12, 6, 40, 3, 0, 2}, centres[N_STYLES] = {0, 0, 0, 0, -68, 0, 61, 0, 0};
	const bool wide = side->low < -100 || side->scale != NULL;
	const int spread = spreads[style], centre = wide ? centres[style] : 0;

	for (size_t i = 0; i < asker->k; i++) {
		const bool zero = style == 5 && items_random(&asker->items) % 8 != 0;
		const uint32_t code = side->scale == NULL ? random_code(asker, side->element, centre, spread) : random_element(asker, side->element);

		put_code(asker, side, i, zero ? 0 : code);
	}
	for (size_t i = 0; side->scale != NULL && i < asker->k / side->length; i++) {
		const bool power = side->scale->kind == MXFP_KIND_EXPONENT;
		const int exponent = centre - spread + (int)(items_random(&asker->items) % (uint64_t)(2 * spread + 1));

		const uint64_t word = items_random(&asker->items);

		/* Style 5 has the largest and the least alone. */
		asker->item[side->scales_at + i] =
			(uint8_t)(power ? exponent + 127 : style == 5 ? (int)((word & 8) != 0 ? 0x70 + word % 8 : 1 + word % 4) :
			          clamp(0x38 + (int)(word % (uint64_t)(8 * spread)) - 4 * spread, 1, 0x7E));
	}
}

/* Gives leaves the negative product of one before: what is left shows what was lost. */
static void cancel(struct asker *asker)
{
	for (size_t i = asker->n_leaves / 2; i < asker->n_leaves; i++) {
		const size_t from = items_random(&asker->items) % (asker->n_leaves / 2);

		if (items_random(&asker->items) % 8 == 0)
			continue;
		for (int s = 0; s < 2; s++) {
			const struct side *side = &asker->side[s];
			const struct mxfp_format_info *e = side->element;
			const size_t bits = side->scale != NULL ? e->bits : 8 * e->storage_bytes, bytes = asker->length * bits / 8;
			uint8_t *to = asker->item + side->codes_at + i * bytes;

			memcpy(to, asker->item + side->codes_at + from * bytes, bytes);
			for (size_t b = 0; s == 1 && b < asker->length && e->kind == MXFP_KIND_FLOAT; b++)
				if (!is_fnuz(e) || to[b] != 0)
					to[((b + 1) * bits - 1) / 8] ^= (uint8_t)(1U << ((b + 1) * bits - 1) % 8);
			for (size_t b = 0; side->scale != NULL && b < asker->length / side->length; b++) {
				uint8_t *scales = asker->item + side->scales_at;

				scales[i * asker->length / side->length + b] = scales[from * asker->length / side->length + b];
			}
		}
	}
}

/* Small numbers, and two leaves that cancel and take with them what is added between. Few bits of an answer show that. */
static void put_masks(struct asker *asker)
{
	const int high = products_high(asker) < 50 ? products_high(asker) : 50, low = products_low(asker, false);
	const size_t first = items_random(&asker->items) % asker->n_leaves;
	const size_t other = (first + 1 + items_random(&asker->items) % (asker->n_leaves - 1)) % asker->n_leaves;

	for (size_t i = 0; i < asker->n_leaves; i++)
		item_put(asker, i, 1, items_random(&asker->items) % 2 == 0 ? 1 : 1.5, (low > -12 ? low : -12) + (int)(items_random(&asker->items) % 3), false);
	item_put(asker, first, 1, 1, high, false);
	item_put(asker, other, -1, 1, high, false);
}

void item_random(struct asker *asker, int style)
{
	item_clear(asker);
	if (style == STYLE_MASKS) {
		put_masks(asker);
		return;
	}
	for (int s = 0; s < 2; s++)
		random_side(asker, &asker->side[s], style);
	if (style == 3 || style == 2)
		cancel(asker);
	for (int i = 0; style == STYLE_SPECIAL && i < 3; i++) {
		const struct side *side = &asker->side[i % 2];
		const struct mxfp_format_info *e = side->element;
		const uint64_t word = items_random(&asker->items);

		if (e->special != MXFP_SPECIAL_NONE)
			put_code(asker, side, (size_t)(word >> 8) % asker->k,
			         (word & 1 ? code_sign(e) : 0) | ((word & 6) != 0 ? e->max_code + 1 : word & 8 ? code_mask(e) : 0));
	}
}

static uint32_t code_at(const struct side *side, const uint8_t *codes, size_t i)
{
	if (side->scale == NULL)
		return code_load(side->element, codes + i * side->element->storage_bytes);
	const size_t bit = i * side->element->bits;
	const unsigned word = codes[bit / 8] | (bit % 8 + side->element->bits > 8 ? (unsigned)codes[bit / 8 + 1] << 8 : 0);
	return word >> bit % 8 & ((1U << side->element->bits) - 1);
}

static void find_factors(const struct side *side, const uint8_t *item, size_t k, struct factor *to)
{
	const struct mxfp_format_info *e = side->element;

	for (size_t i = 0; i < k; i++) {
		const uint32_t code = code_at(side, item + side->codes_at, i);
		const float x = side->values != NULL ? side->values[code] : f32_value(code << (32 - e->bits));
		const int least = e->kind == MXFP_KIND_FIXED ? 0 : 1 - e->bias;
		struct factor f = {.value = (double)x, .exponent = least};

		if (x != 0 && isfinite(x)) {
			f.exponent = e->kind == MXFP_KIND_FIXED ? 0 : ilogbf(x) > least ? ilogbf(x) : least;
			f.subnormal = e->kind == MXFP_KIND_FLOAT && ilogbf(x) < least;
		}
		if (side->scale != NULL) {
			const uint8_t scale = item[side->scales_at + i / side->length];

			f.scale = side->scale->kind == MXFP_KIND_EXPONENT ? scale - 127 : scale < 8 ? scale != 0 ? -6 : -126 : (scale >> 3) - 7;
			f.value *= side->scale->kind == MXFP_KIND_EXPONENT ? ldexp(1, scale - 127) :
			           ldexp(scale < 8 ? scale : 8 + scale % 8, (scale < 8 ? 1 : scale >> 3) - 7 - 3);
			f.exponent += f.scale;
		}
		to[i] = f;
	}
}

struct products item_products(struct asker *asker, size_t i)
{
	const uint8_t *item = asker->items.bytes + i * asker->q.in_bytes;

	find_factors(&asker->side[0], item, asker->k, asker->a);
	find_factors(&asker->side[1], item, asker->k, asker->w);
	return (struct products){asker->a, asker->w, asker->length};
}

int asker_ask(struct asker *asker, float **answers, struct error *error)
{
	uint8_t *got = malloc(asker->items.n * 4 + 1);

	*answers = malloc(asker->items.n * sizeof **answers + 1);
	int code = got != NULL && *answers != NULL && !asker->items.out_of_memory ? EXIT_OK : fail_memory(error);
	if (code == EXIT_OK)
		code = question_ask(asker->child, &asker->q, asker->items.bytes, 0, asker->items.n, got, error);
	for (size_t i = 0; i < asker->items.n && code == EXIT_OK && !asker->child->unsupported; i++)
		(*answers)[i] = f32_value(load_f32(got + 4 * i));
	free(got);
	if (code != EXIT_OK || asker->child->unsupported) {
		free(*answers);
		*answers = NULL;
	}
	return code;
}
