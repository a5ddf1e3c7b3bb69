/* SPDX-License-Identifier: MIT */
/* The rows of format.def against the tables of doc/numerics.md, typed again by hand from there and from the
   specifications it names. */
#include "mxfp/format.h"

#include <math.h>
#include <string.h>

#include "oracle/oracle.h"
#include "suite.h"

#define NO_CODE (-1)

/* The contract's section 1. Codes without their sign; tf32 as a number of 19 bits. */
static const struct {
	const char *name;
	enum mxfp_format format;
	enum mxfp_kind kind;
	unsigned bits, exponent_bits, significand_bits, storage_bytes;
	int bias;
	double largest;
	int64_t inf, first_nan, last_nan;
} elements[] = {
	{"e5m2", MXFP_FORMAT_E5M2, MXFP_KIND_FLOAT, 8, 5, 2, 1, 15, 57344, 0x7C, 0x7D, 0x7F},
	{"e4m3", MXFP_FORMAT_E4M3, MXFP_KIND_FLOAT, 8, 4, 3, 1, 7, 448, NO_CODE, 0x7F, 0x7F},
	{"e3m2", MXFP_FORMAT_E3M2, MXFP_KIND_FLOAT, 6, 3, 2, 1, 3, 28, NO_CODE, NO_CODE, NO_CODE},
	{"e2m3", MXFP_FORMAT_E2M3, MXFP_KIND_FLOAT, 6, 2, 3, 1, 1, 7.5, NO_CODE, NO_CODE, NO_CODE},
	{"e2m1", MXFP_FORMAT_E2M1, MXFP_KIND_FLOAT, 4, 2, 1, 1, 1, 6, NO_CODE, NO_CODE, NO_CODE},
	{"int8", MXFP_FORMAT_INT8, MXFP_KIND_FIXED, 8, 0, 6, 1, 0, 127.0 / 64, NO_CODE, NO_CODE, NO_CODE},
	{"e8m0", MXFP_FORMAT_E8M0, MXFP_KIND_EXPONENT, 8, 8, 0, 1, 127, 0x1p127, NO_CODE, 0xFF, 0xFF},
	{"ue4m3", MXFP_FORMAT_UE4M3, MXFP_KIND_UFLOAT, 8, 4, 3, 1, 7, 448, NO_CODE, 0x7F, 0x7F},
	{"e4m3ieee", MXFP_FORMAT_E4M3IEEE, MXFP_KIND_FLOAT, 8, 4, 3, 1, 7, 240, 0x78, 0x79, 0x7F},
	{"e3m4", MXFP_FORMAT_E3M4, MXFP_KIND_FLOAT, 8, 3, 4, 1, 3, 15.5, 0x70, 0x71, 0x7F},
	{"e4m3fnuz", MXFP_FORMAT_E4M3FNUZ, MXFP_KIND_FLOAT, 8, 4, 3, 1, 8, 240, NO_CODE, NO_CODE, NO_CODE},
	{"e5m2fnuz", MXFP_FORMAT_E5M2FNUZ, MXFP_KIND_FLOAT, 8, 5, 2, 1, 16, 57344, NO_CODE, NO_CODE, NO_CODE},
	{"bf16", MXFP_FORMAT_BF16, MXFP_KIND_FLOAT, 16, 8, 7, 2, 127, 0x1.FEp127, 0x7F80, 0x7F81, 0x7FFF},
	{"f16", MXFP_FORMAT_F16, MXFP_KIND_FLOAT, 16, 5, 10, 2, 15, 65504, 0x7C00, 0x7C01, 0x7FFF},
	{"tf32", MXFP_FORMAT_TF32, MXFP_KIND_FLOAT, 19, 8, 10, 4, 127, 0x1.FFCp127, 0x3FC00, 0x3FC01, 0x3FFFF},
	{"f32", MXFP_FORMAT_F32, MXFP_KIND_FLOAT, 32, 8, 23, 4, 127, 0x1.FFFFFEp127, 0x7F800000, 0x7F800001,
	 0x7FFFFFFF},
};

/* Sections 3 and 4. */
static const struct {
	const char *name;
	enum mxfp_format format, element, scale;
	unsigned block_length;
	bool tensor_scale;
} blocks[] = {
	{"mxfp8-e4m3", MXFP_FORMAT_MXFP8_E4M3, MXFP_FORMAT_E4M3, MXFP_FORMAT_E8M0, 32, false},
	{"mxfp8-e5m2", MXFP_FORMAT_MXFP8_E5M2, MXFP_FORMAT_E5M2, MXFP_FORMAT_E8M0, 32, false},
	{"mxfp6-e3m2", MXFP_FORMAT_MXFP6_E3M2, MXFP_FORMAT_E3M2, MXFP_FORMAT_E8M0, 32, false},
	{"mxfp6-e2m3", MXFP_FORMAT_MXFP6_E2M3, MXFP_FORMAT_E2M3, MXFP_FORMAT_E8M0, 32, false},
	{"mxfp4", MXFP_FORMAT_MXFP4, MXFP_FORMAT_E2M1, MXFP_FORMAT_E8M0, 32, false},
	{"mxint8", MXFP_FORMAT_MXINT8, MXFP_FORMAT_INT8, MXFP_FORMAT_E8M0, 32, false},
	{"nvfp4", MXFP_FORMAT_NVFP4, MXFP_FORMAT_E2M1, MXFP_FORMAT_UE4M3, 16, true},
};

enum { N_ELEMENTS = sizeof elements / sizeof elements[0], N_BLOCKS = sizeof blocks / sizeof blocks[0] };

static double value(const struct mxfp_format_info *f, uint32_t code)
{
	mpfr_t x;

	mpfr_init2(x, 24);
	oracle_set_f32(x, oracle_decode(f, f->format == MXFP_FORMAT_TF32 ? code << 13 : code));
	double v = mpfr_get_d(x, MPFR_RNDN);
	mpfr_clear(x);
	return v;
}

TEST_LOOP(element_facts_are_those_of_the_contract, N_ELEMENTS)
{
	const struct mxfp_format_info *f = mxfp_format_get_info(elements[_i].format);

	ck_assert_ptr_nonnull(f);
	ck_assert_str_eq(f->name, elements[_i].name);
	ck_assert_int_eq((int)f->format, (int)elements[_i].format);
	ck_assert_int_eq((int)f->kind, (int)elements[_i].kind);
	ck_assert_uint_eq(f->bits, elements[_i].bits);
	ck_assert_uint_eq(f->exponent_bits, elements[_i].exponent_bits);
	ck_assert_uint_eq(f->significand_bits, elements[_i].significand_bits);
	ck_assert_uint_eq(f->storage_bytes, elements[_i].storage_bytes);
	ck_assert_int_eq(f->bias, elements[_i].bias);
	ck_assert_int_eq(f->emax, ilogb(elements[_i].largest));
	ck_assert_int_eq((int)f->element, (int)f->format);
	ck_assert_uint_eq(f->block_length, 1);
	ck_assert(!f->tensor_scale);
	ck_assert_double_eq(value(f, f->max_code), elements[_i].largest);
}

/* Every code's class, and that no finite one lies above the largest; of f32 a sample around the largest. A sign alone is zero, but
   in the FNUZ formats NaN. */
TEST_LOOP(special_codes_are_those_of_the_contract, N_ELEMENTS)
{
	const struct mxfp_format_info *f = mxfp_format_get_info(elements[_i].format);
	int64_t n_magnitudes = INT64_C(1) << (f->kind == MXFP_KIND_EXPONENT ? f->bits : f->bits - 1);

	if (f->format == MXFP_FORMAT_F32)
		n_magnitudes = elements[_i].inf + 1000;
	for (int64_t c = f->format == MXFP_FORMAT_F32 ? elements[_i].inf - 1000 : 0; c < n_magnitudes; c++) {
		double v = value(f, (uint32_t)c);
		bool nan = elements[_i].first_nan != NO_CODE && c >= elements[_i].first_nan && c <= elements[_i].last_nan;
		if (c == elements[_i].inf)
			ck_assert(isinf(v));
		else if (nan != (isnan(v) != 0) || (!nan && v > elements[_i].largest))
			ck_abort_msg("%s code %llX is %a", f->name, (unsigned long long)c, v);
		suite_compared(1);
	}
	if (f->kind == MXFP_KIND_FLOAT)
		ck_assert_int_eq(isnan(value(f, UINT32_C(1) << (f->bits - 1))), strstr(f->name, "fnuz") != NULL);
}

TEST_LOOP(block_facts_are_those_of_the_contract, N_BLOCKS)
{
	const struct mxfp_format_info *f = mxfp_format_get_info(blocks[_i].format);

	ck_assert_ptr_nonnull(f);
	ck_assert_str_eq(f->name, blocks[_i].name);
	ck_assert_int_eq((int)f->format, (int)blocks[_i].format);
	ck_assert_int_eq((int)f->kind, (int)MXFP_KIND_BLOCK);
	ck_assert_int_eq((int)f->element, (int)blocks[_i].element);
	ck_assert_int_eq((int)f->scale, (int)blocks[_i].scale);
	ck_assert_uint_eq(f->block_length, blocks[_i].block_length);
	ck_assert_int_eq(f->tensor_scale, blocks[_i].tensor_scale);
	ck_assert_uint_eq(f->storage_bytes, 0);
	ck_assert_uint_eq(f->max_code, 0);
	ck_assert_uint_eq(f->bits, 0);
}

TEST(no_format_is_missing_above)
{
	ck_assert_int_eq(N_ELEMENTS + N_BLOCKS, MXFP_N_FORMATS);
	for (int f = 0; f < MXFP_N_FORMATS; f++)
		ck_assert_ptr_nonnull(mxfp_format_get_info((enum mxfp_format)f));
}

TEST(numbers_that_are_no_format_have_no_facts)
{
	ck_assert_ptr_null(mxfp_format_get_info((enum mxfp_format)MXFP_N_FORMATS));
	ck_assert_ptr_null(mxfp_format_get_info((enum mxfp_format)-1));
	ck_assert_ptr_null(mxfp_format_get_info((enum mxfp_format)1000));
}

TEST(names_and_aliases_are_found)
{
	static const struct {
		const char *alias;
		enum mxfp_format format;
	} aliases[] = {{"e4m3fn", MXFP_FORMAT_E4M3},
	               {"mxfp8", MXFP_FORMAT_MXFP8_E4M3},
	               {"mxfp8-e4m3fn", MXFP_FORMAT_MXFP8_E4M3}};

	for (int f = 0; f < MXFP_N_FORMATS; f++) {
		enum mxfp_format found = (enum mxfp_format)((f + 1) % MXFP_N_FORMATS);
		ck_assert_int_eq((int)mxfp_format_from_name(&found, mxfp_format_get_info((enum mxfp_format)f)->name), (int)MXFP_OK);
		ck_assert_int_eq((int)found, f);
	}
	for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++) {
		enum mxfp_format found = MXFP_FORMAT_F32;
		ck_assert_int_eq((int)mxfp_format_from_name(&found, aliases[i].alias), (int)MXFP_OK);
		ck_assert_int_eq((int)found, (int)aliases[i].format);
	}
}

TEST(unknown_names_are_refused)
{
	static const char *const unknown[] = {"", "E4M3", "e4m3 ", "mxfp", "mxfp44", "f3", "fp32"};
	enum mxfp_format found = MXFP_FORMAT_E2M1;

	for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++)
		ck_assert_int_eq((int)mxfp_format_from_name(&found, unknown[i]), (int)MXFP_ERR_FORMAT);
	ck_assert_int_eq((int)found, (int)MXFP_FORMAT_E2M1);
}
