/* SPDX-License-Identifier: MIT */
/* The table of formats as an array, with look-up by number and by name. */
#include "format.h"

#include <string.h>

/* floor(log2) of the largest finite value: its exponent field minus the bias. */
#define EMAX(kind, bits, significand_bits, bias, max_code) \
	(MXFP_KIND_##kind == MXFP_KIND_FIXED ? (int)(bits)-2 - (significand_bits) \
	                                     : (int)((uint32_t)(max_code) >> (significand_bits)) - (bias))

/* Bytes of one unpacked code. */
#define STORAGE_BYTES(bits) ((bits) <= 8 ? 1 : (bits) <= 16 ? 2 : 4)

enum {
#define MXFP_ELEMENT(id, value, name, kind, bits, exponent_bits, significand_bits, bias, special, max_code) \
	ROW_##id,
#define MXFP_BLOCK(id, value, name, element, block_length, scale, tensor_scale) ROW_##id,
#include "format.def"
};

/* Values must be dense from 0 in row order, because arrays are indexed by format. */
#define MXFP_ELEMENT(id, value, name, kind, bits, exponent_bits, significand_bits, bias, special, max_code) \
	_Static_assert((value) == ROW_##id, "format.def: value of " name " is not its row number");
#define MXFP_BLOCK(id, value, name, element, block_length, scale, tensor_scale) \
	_Static_assert((value) == ROW_##id, "format.def: value of " name " is not its row number");
#include "format.def"

static const struct mxfp_format_info formats[MXFP_N_FORMATS] = {
#define MXFP_ELEMENT(id, value, name_, kind_, bits_, exponent_bits_, significand_bits_, bias_, special_, max_code_) \
	{.name = name_, .format = MXFP_FORMAT_##id, .kind = MXFP_KIND_##kind_, .special = MXFP_SPECIAL_##special_, \
	 .bits = bits_, .exponent_bits = exponent_bits_, .significand_bits = significand_bits_, .bias = bias_, \
	 .emax = EMAX(kind_, bits_, significand_bits_, bias_, max_code_), .max_code = max_code_, \
	 .storage_bytes = STORAGE_BYTES(bits_), .element = MXFP_FORMAT_##id, .scale = MXFP_FORMAT_##id, \
	 .block_length = 1, .tensor_scale = false},
#define MXFP_BLOCK(id, value, name_, element_, block_length_, scale_, tensor_scale_) \
	{.name = name_, .format = MXFP_FORMAT_##id, .kind = MXFP_KIND_BLOCK, .element = MXFP_FORMAT_##element_, \
	 .scale = MXFP_FORMAT_##scale_, .block_length = block_length_, .tensor_scale = tensor_scale_},
#include "format.def"
};

static const struct {
	const char *name;
	enum mxfp_format format;
} aliases[] = {
#define MXFP_FORMAT_ALIAS(alias, id) {alias, MXFP_FORMAT_##id},
#include "format.def"
};

const struct mxfp_format_info *mxfp_format_get_info(enum mxfp_format format)
{
	return (unsigned)format < MXFP_N_FORMATS ? &formats[format] : NULL;
}

enum mxfp_status mxfp_format_from_name(enum mxfp_format *format, const char *name)
{
	if (name == NULL || format == NULL)
		return MXFP_ERR_NULL;
	for (int i = 0; i < MXFP_N_FORMATS; i++)
		if (strcmp(name, formats[i].name) == 0) {
			*format = formats[i].format;
			return MXFP_OK;
		}
	for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++)
		if (strcmp(name, aliases[i].name) == 0) {
			*format = aliases[i].format;
			return MXFP_OK;
		}
	return MXFP_ERR_FORMAT;
}
