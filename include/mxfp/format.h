/* SPDX-License-Identifier: MIT */
/* Formats and their properties: element formats (one number per code) and block formats (elements that share a scale).
   doc/numerics.md, sections 1, 3 and 4, defines them. */
#ifndef MXFP_FORMAT_H
#define MXFP_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Values are dense from 0, so a loop until mxfp_format_get_info() returns NULL visits them all. */
enum mxfp_format {
	MXFP_FORMAT_F32 = 0, /* f32 */
	MXFP_FORMAT_BF16 = 1, /* bf16 */
	MXFP_FORMAT_F16 = 2, /* f16 */
	MXFP_FORMAT_TF32 = 3, /* tf32 */
	MXFP_FORMAT_E5M2 = 4, /* e5m2 */
	MXFP_FORMAT_E4M3 = 5, /* e4m3 */
	MXFP_FORMAT_E3M2 = 6, /* e3m2 */
	MXFP_FORMAT_E2M3 = 7, /* e2m3 */
	MXFP_FORMAT_E2M1 = 8, /* e2m1 */
	MXFP_FORMAT_INT8 = 9, /* int8 */
	MXFP_FORMAT_E8M0 = 10, /* e8m0 */
	MXFP_FORMAT_UE4M3 = 11, /* ue4m3 */
	MXFP_FORMAT_E4M3IEEE = 12, /* e4m3ieee */
	MXFP_FORMAT_E3M4 = 13, /* e3m4 */
	MXFP_FORMAT_MXFP8_E4M3 = 14, /* mxfp8-e4m3 */
	MXFP_FORMAT_MXFP8_E5M2 = 15, /* mxfp8-e5m2 */
	MXFP_FORMAT_MXFP6_E3M2 = 16, /* mxfp6-e3m2 */
	MXFP_FORMAT_MXFP6_E2M3 = 17, /* mxfp6-e2m3 */
	MXFP_FORMAT_MXFP4 = 18, /* mxfp4 */
	MXFP_FORMAT_MXINT8 = 19, /* mxint8 */
	MXFP_FORMAT_NVFP4 = 20, /* nvfp4 */
	MXFP_FORMAT_E4M3FNUZ = 21, /* e4m3fnuz */
	MXFP_FORMAT_E5M2FNUZ = 22, /* e5m2fnuz */
};

enum mxfp_kind {
	MXFP_KIND_FLOAT,    /* sign, exponent, significand; subnormals; signed zero */
	MXFP_KIND_UFLOAT,   /* the same without a sign: its bit is 0 when encoded, ignored when decoded */
	MXFP_KIND_FIXED,    /* two's complement times 2^-significand_bits; one zero; the lowest code is never produced */
	MXFP_KIND_EXPONENT, /* 2^(code - bias): no sign, no zero */
	MXFP_KIND_BLOCK     /* elements of `element`, block_length of them sharing a scale of `scale` */
};

enum mxfp_special {
	MXFP_SPECIAL_NONE, /* every code is finite */
	MXFP_SPECIAL_NAN,  /* the code with all magnitude bits set is NaN; no Inf */
	MXFP_SPECIAL_IEEE, /* the top exponent holds Inf (significand 0) and NaN */
	MXFP_SPECIAL_FNUZ  /* the sign bit alone is NaN, and zero has no sign; no Inf */
};

/* Properties of a format. In a block format the fields from special to storage_bytes are 0: ask for its element's. Only the
   library has structs of this type, so it may grow. */
struct mxfp_format_info {
	const char *name;
	enum mxfp_format format;
	enum mxfp_kind kind;
	enum mxfp_special special;
	unsigned bits;             /* of one code */
	unsigned exponent_bits;
	unsigned significand_bits; /* as stored, without the hidden bit */
	int bias;
	int emax;                  /* exponent of the largest finite value: floor(log2 max) */
	uint32_t max_code;         /* code of the largest finite value */
	unsigned storage_bytes;    /* of one unpacked code: 1, 2 or 4 */
	enum mxfp_format element;  /* block formats: the element; element formats: itself */
	enum mxfp_format scale;    /* block formats: format of a block's scale */
	unsigned block_length;     /* elements per scale; 1 in an element format */
	bool tensor_scale;         /* whether the whole tensor has a binary32 scale besides */
};

/* Returns the properties of a format, or NULL if there is no format of that number. */
MXFP_API const struct mxfp_format_info *mxfp_format_get_info(enum mxfp_format format);

/*
 * Finds a format by name or alias ("mxfp4", "e4m3fn"; exact, lower case).
 *
 * MXFP_ERR_FORMAT  no format has that name
 */
MXFP_API enum mxfp_status mxfp_format_from_name(enum mxfp_format *format, const char *name);

#ifdef __cplusplus
}
#endif
#endif
