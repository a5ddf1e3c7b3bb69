/* SPDX-License-Identifier: MIT */
/* The reader of GGUF files. Files are made by hand from the format's description (ggml/docs/gguf.md). */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit/gguf_bytes.h"
#include "io/file.h"
#include "io/file_gguf.h"
#include "unit/scratch.h"
#include "suite.h"

static struct error error;
static struct gguf_bytes b;

/* The bytes at hand are refused as bad input, with this in the text. */
static void refuse(const char *why)
{
	struct file file;
	const char *path = scratch_write("refused.gguf", b.bytes, b.n);

	ck_assert_msg(file_open(&file, path, &error) == EXIT_INPUT, "accepted or failed otherwise, not '%s'", why);
	ck_assert_msg(strstr(error.text, why) != NULL, "'%s', not '%s'", error.text, why);
	ck_assert_ptr_nonnull(strstr(error.text, "refused.gguf: "));
	suite_compared(1);
}

static void accept(struct file *file)
{
	ck_assert_msg(file_open(file, scratch_write("accepted.gguf", b.bytes, b.n), &error) == EXIT_OK, "%s", error.text);
	suite_compared(1);
}

/* Zeros for data, and the padding before them. */
static void put_data(size_t n)
{
	put_padding(&b, 32);
	for (size_t i = 0; i < n; i++)
		put(&b, "", 1);
}

TEST(every_part_of_a_file_is_told)
{
	unsigned char data[17];
	struct file file;

	put_start(&b, 2, 6);
	put_pair_text(&b, "general.architecture", "llama");
	put_pair_u32(&b, "x.n", 4000000000);
	put_text(&b, "x.i");
	put_u32(&b, TYPE_I16);
	put(&b, "\xfe\xff", 2);
	put_text(&b, "x.f");
	put_u32(&b, TYPE_F32);
	put_u32(&b, 0xBF000000);
	put_text(&b, "x.yes");
	put_u32(&b, TYPE_BOOL);
	put(&b, "\1", 1);
	put_text(&b, "x.names");
	put_u32(&b, TYPE_ARRAY);
	put_u32(&b, TYPE_STRING);
	put_u64(&b, 2);
	put_text(&b, "a");
	put_text(&b, "");
	put_tensor(&b, "blk.0.w", 32, 2, 39, 0); /* MXFP4: 2 rows of one block of 17 bytes */
	put_tensor(&b, "norm", 3, 0, 0, 64);
	put_padding(&b, 32);
	size_t header = b.n;
	for (unsigned char i = 0; i < 64 + 12; i++)
		put(&b, &i, 1);
	accept(&file);
	ck_assert_str_eq(file.format->name, "gguf");
	ck_assert_uint_eq(file.header_bytes, header);
	ck_assert_uint_eq(file.data_bytes, 76);
	ck_assert_uint_eq(file.n_tensors, 2);

	const struct tensor *w = file_find(&file, "blk.0.w"), *norm = file_find(&file, "norm");
	ck_assert_ptr_eq(w, &file.tensors[0]);
	ck_assert_int_eq(w->dtype, DTYPE_MXFP4);
	ck_assert_uint_eq(w->rank, 2);
	ck_assert_uint_eq(w->shape[0], 2);
	ck_assert_uint_eq(w->shape[1], 32);
	ck_assert_uint_eq(w->size, 34);
	ck_assert_int_eq(norm->dtype, DTYPE_F32);
	ck_assert_uint_eq(norm->rank, 1);
	ck_assert_uint_eq(norm->shape[0], 3);
	ck_assert_int_eq(file_read(&file, w, 17, data, 17, &error), EXIT_OK);
	ck_assert_uint_eq(data[0], 17);
	ck_assert_int_eq(file_read(&file, norm, 0, data, 12, &error), EXIT_OK);
	ck_assert_uint_eq(data[0], 64);

	ck_assert_uint_eq(file.n_metadata, 5);
	ck_assert_str_eq(file_metadata(&file, "general.architecture"), "llama");
	ck_assert_str_eq(file_metadata(&file, "x.n"), "4000000000");
	ck_assert_str_eq(file_metadata(&file, "x.i"), "-2");
	ck_assert_str_eq(file_metadata(&file, "x.f"), "-0.5");
	ck_assert_str_eq(file_metadata(&file, "x.yes"), "true");
	ck_assert_ptr_null(file_metadata(&file, "x.names"));
	file_close(&file);
}

/* A file of one value of each kind that can be found. */
static void open_values(struct file *file)
{
	put_start(&b, 0, 11);
	put_pair_text(&b, "text", "llama");
	put_pair_u32(&b, "u32", 4000000000);
	put_text(&b, "u64");
	put_u32(&b, TYPE_U64);
	put_u64(&b, UINT64_MAX);
	put_text(&b, "i16");
	put_u32(&b, TYPE_I16);
	put(&b, "\xfe\xff", 2);
	put_text(&b, "float");
	put_u32(&b, TYPE_F32);
	put_u32(&b, 0xBF000000);
	put_text(&b, "double");
	put_u32(&b, TYPE_F64);
	put_u64(&b, 0x3FF8000000000000);
	put_text(&b, "bool");
	put_u32(&b, TYPE_BOOL);
	put(&b, "\1", 1);
	put_text(&b, "strings");
	put_u32(&b, TYPE_ARRAY);
	put_u32(&b, TYPE_STRING);
	put_u64(&b, 3);
	put_text(&b, "ab");
	put_text(&b, "");
	put_u64(&b, 2);
	put(&b, "\0\xFF", 2);
	put_text(&b, "floats");
	put_u32(&b, TYPE_ARRAY);
	put_u32(&b, TYPE_F32);
	put_u64(&b, 2);
	put_u32(&b, 0x3F800000);
	put_u32(&b, 0xC0000000);
	put_text(&b, "naturals");
	put_u32(&b, TYPE_ARRAY);
	put_u32(&b, TYPE_I16);
	put_u64(&b, 2);
	put(&b, "\xff\x7f\1\0", 4);
	put_text(&b, "bools");
	put_u32(&b, TYPE_ARRAY);
	put_u32(&b, TYPE_BOOL);
	put_u64(&b, 2);
	put(&b, "\0\1", 2);
	accept(file);
}

TEST(values_are_found_by_their_keys)
{
	struct file file;
	uint32_t u32 = 7;
	uint64_t u64 = 7, *naturals = NULL;
	double number = 7;
	bool boolean = false, found, *bools = NULL;
	const char *text = NULL;
	struct gguf_strings strings = {0};
	float *floats = NULL;
	size_t n = 0;

	open_values(&file);
	ck_assert(gguf_find_u32(&file, "u32", &u32, &found, &error) == EXIT_OK && found && u32 == 4000000000);
	ck_assert(gguf_find_u64(&file, "u32", &u64, &found, &error) == EXIT_OK && found && u64 == 4000000000);
	ck_assert(gguf_find_u64(&file, "u64", &u64, &found, &error) == EXIT_OK && found && u64 == UINT64_MAX);
	ck_assert(gguf_find_float(&file, "float", &number, &found, &error) == EXIT_OK && found && number == -0.5);
	ck_assert(gguf_find_float(&file, "double", &number, &found, &error) == EXIT_OK && found && number == 1.5);
	ck_assert(gguf_find_bool(&file, "bool", &boolean, &found, &error) == EXIT_OK && found && boolean);
	ck_assert(gguf_find_string(&file, "text", &text, &found, &error) == EXIT_OK && found && strcmp(text, "llama") == 0);
	ck_assert(gguf_find_strings(&file, "strings", &strings, &found, &error) == EXIT_OK && found && strings.n == 3);
	ck_assert(strings.starts[1] == 2 && strings.starts[2] == 2 && strings.starts[3] == 4);
	ck_assert_mem_eq(strings.bytes, "ab\0\xFF", 4);
	gguf_strings_free(&strings);
	ck_assert(gguf_find_floats(&file, "floats", &floats, &n, &found, &error) == EXIT_OK && found && n == 2);
	ck_assert(floats[0] == 1 && floats[1] == -2);
	free(floats);
	ck_assert(gguf_find_u64s(&file, "naturals", &naturals, &n, &found, &error) == EXIT_OK && found && n == 2);
	ck_assert(naturals[0] == 32767 && naturals[1] == 1);
	free(naturals);
	ck_assert(gguf_find_bools(&file, "bools", &bools, &n, &found, &error) == EXIT_OK && found && n == 2);
	ck_assert(!bools[0] && bools[1]);
	free(bools);
	ck_assert(gguf_find_u32(&file, "none", &u32, &found, &error) == EXIT_OK && !found && u32 == 4000000000);
	ck_assert(gguf_find_strings(&file, "none", &strings, &found, &error) == EXIT_OK && !found && strings.starts == NULL);
	file_close(&file);
	suite_compared(13);
}

static void check_why(int code, const char *why)
{
	ck_assert_int_eq(code, EXIT_INPUT);
	ck_assert_msg(strstr(error.text, why) != NULL, "'%s', not '%s'", error.text, why);
	ck_assert_ptr_nonnull(strstr(error.text, "accepted.gguf: key '"));
	suite_compared(1);
}

TEST(values_of_other_kinds_are_not)
{
	struct file file;
	uint32_t u32;
	uint64_t u64, *naturals = NULL;
	double number;
	bool boolean, found, *bools = NULL;
	const char *text;
	struct gguf_strings strings = {0};
	float *floats = NULL;
	size_t n;

	open_values(&file);
	check_why(gguf_find_u32(&file, "u64", &u32, &found, &error), "18446744073709551615 is 2^32 or more");
	check_why(gguf_find_u64(&file, "i16", &u64, &found, &error), "holds a negative number");
	check_why(gguf_find_u64(&file, "float", &u64, &found, &error), "is a float, not a whole number");
	check_why(gguf_find_float(&file, "u32", &number, &found, &error), "is a u32, not a float");
	check_why(gguf_find_bool(&file, "u32", &boolean, &found, &error), "is a u32, not a bool");
	check_why(gguf_find_string(&file, "strings", &text, &found, &error), "an array whose elements are each a string, not");
	check_why(gguf_find_strings(&file, "text", &strings, &found, &error), "is a string, not an array of strings");
	check_why(gguf_find_floats(&file, "naturals", &floats, &n, &found, &error), "are each an i16, not an array of floats");
	check_why(gguf_find_u64s(&file, "floats", &naturals, &n, &found, &error), "are each a float, not an array of whole");
	check_why(gguf_find_bools(&file, "strings", &bools, &n, &found, &error), "are each a string, not an array of bools");
	ck_assert(strings.bytes == NULL && floats == NULL && naturals == NULL && bools == NULL);
	file_close(&file);
}

TEST(every_type_has_its_number_and_size)
{
	/* gguf-py's table of elements and bytes a block; Q8_1 and Q2_0 by ggml's ggml-common.h. */
	static const struct {
		const char *name;
		unsigned type, elements, bytes;
	} types[] = {
		{"F32", 0, 1, 4}, {"F16", 1, 1, 2}, {"Q4_0", 2, 32, 18}, {"Q4_1", 3, 32, 20}, {"Q5_0", 6, 32, 22},
		{"Q5_1", 7, 32, 24}, {"Q8_0", 8, 32, 34}, {"Q8_1", 9, 32, 36}, {"Q2_K", 10, 256, 84},
		{"Q3_K", 11, 256, 110}, {"Q4_K", 12, 256, 144}, {"Q5_K", 13, 256, 176}, {"Q6_K", 14, 256, 210},
		{"Q8_K", 15, 256, 292}, {"IQ2_XXS", 16, 256, 66}, {"IQ2_XS", 17, 256, 74}, {"IQ3_XXS", 18, 256, 98},
		{"IQ1_S", 19, 256, 50}, {"IQ4_NL", 20, 32, 18}, {"IQ3_S", 21, 256, 110}, {"IQ2_S", 22, 256, 82},
		{"IQ4_XS", 23, 256, 136}, {"I8", 24, 1, 1}, {"I16", 25, 1, 2}, {"I32", 26, 1, 4}, {"I64", 27, 1, 8},
		{"F64", 28, 1, 8}, {"IQ1_M", 29, 256, 56}, {"BF16", 30, 1, 2}, {"TQ1_0", 34, 256, 54},
		{"TQ2_0", 35, 256, 66}, {"MXFP4", 39, 32, 17}, {"NVFP4", 40, 64, 36}, {"Q1_0", 41, 128, 18},
		{"Q2_0", 42, 64, 18},
	};
	size_t known = 0;
	struct file file;

	for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
		put_start(&b, 1, 0);
		put_tensor(&b, "w", types[i].elements * 2, 3, types[i].type, 0);
		put_data((size_t)6 * types[i].bytes);
		accept(&file);
		ck_assert_str_eq(dtype_info(file.tensors[0].dtype)->name, types[i].name);
		ck_assert_uint_eq(file.tensors[0].size, 6 * types[i].bytes);
		file_close(&file);
		b.n--;
		refuse("cut off");
		if (types[i].elements == 1)
			continue;
		put_start(&b, 1, 0);
		put_tensor(&b, "w", types[i].elements * 2 - 1, types[i].elements, types[i].type, 0);
		put_data((size_t)6 * 292);
		refuse("whole blocks");
	}
	for (uint32_t type = 0; type < 1000; type++) {
		put_start(&b, 1, 0);
		put_tensor(&b, "w", 256, 0, type, 0);
		put_data(0);
		refuse("tensor 'w'"); /* for its type, or for having no data */
		known += strstr(error.text, "is not known") == NULL;
	}
	ck_assert_uint_eq(known, sizeof types / sizeof types[0]);
}

TEST(bad_starts_are_refused)
{
	put_start(&b, 0, 0);
	b.bytes[0] = 'g';
	refuse("does not begin with GGUF");
	put_start(&b, 0, 0);
	memcpy(b.bytes + 4, "\0\0\0\3", 4);
	refuse("big-endian");
	memcpy(b.bytes + 4, "\4\0\0\0", 4);
	refuse("version 4");
	memcpy(b.bytes + 4, "\1\0\0\0", 4);
	refuse("version 1");
	/* Counts that the file's bytes cannot be, by one; the file has 26 more. */
	put_start(&b, 0, 3);
	put(&b, "........................................", 26);
	refuse("3 key-values, more than");
	put_start(&b, UINT64_MAX, 0);
	refuse("18446744073709551615 tensors, more than");
	/* A file long enough for more pairs than are allowed, which takes no space: pairs of 13 zeros. */
	put_start(&b, 0, (1 << 20) + 1);
	const char *path = scratch_write("many.gguf", b.bytes, b.n);
	struct file file;
	ck_assert_int_eq(truncate(path, 1 << 28), 0);
	ck_assert_int_eq(file_open(&file, path, &error), EXIT_INPUT);
	ck_assert_ptr_nonnull(strstr(error.text, "1048577 key-values, more than the 1048576 allowed"));
}

TEST(bad_pairs_are_refused)
{
	put_start(&b, 0, 2);
	put_pair_text(&b, "a.b", "1");
	put_pair_u32(&b, "a.b", 1);
	refuse("key 'a.b': occurs in the file twice");
	put_start(&b, 0, 1);
	put_pair_u32(&b, "\xe9", 1);
	refuse("key 1: is not UTF-8 text");
	put_start(&b, 0, 1);
	put_pair_u32(&b, "general.alignment", 48);
	put_data(0);
	refuse("general.alignment: 48");
	put_start(&b, 0, 1);
	put_pair_u32(&b, "general.alignment", 4);
	put_data(0);
	refuse("general.alignment: 4 ");
	put_start(&b, 0, 1);
	put_pair_text(&b, "general.alignment", "32");
	refuse("general.alignment: is not a u32");
	put_start(&b, 0, 1);
	put_text(&b, "x");
	put_u32(&b, 13);
	put_u64(&b, 0);
	refuse("key 'x': value type 13");
	put_start(&b, 0, 1);
	put_text(&b, "x");
	put_u32(&b, TYPE_ARRAY);
	put_u32(&b, TYPE_U32);
	put_u64(&b, (UINT64_C(1) << 62) + 1); /* times 4 bytes it wraps to 4 */
	put_u64(&b, 0);
	refuse("key 'x': is an array of 4611686018427387905 elements");
	put_start(&b, 0, 1);
	put_text(&b, "x");
	put_u32(&b, TYPE_ARRAY);
	put_u32(&b, 13);
	put_u64(&b, 0);
	refuse("key 'x': is an array of what is not known (type 13)");
	put_start(&b, 0, 1);
	put_text(&b, "x");
	put_u32(&b, TYPE_STRING);
	put_u64(&b, UINT64_MAX);
	refuse("key 'x': takes 18446744073709551615 bytes");
	put_start(&b, 0, 1);
	put_u64(&b, (UINT64_C(1) << 30) + 1);
	const char *path = scratch_write("long.gguf", b.bytes, b.n);
	struct file file;
	ck_assert_int_eq(truncate(path, INT64_C(1) << 32), 0);
	ck_assert_int_eq(file_open(&file, path, &error), EXIT_INPUT);
	ck_assert_ptr_nonnull(strstr(error.text, "1 GiB allowed"));
}

/* A file of two tensors of 32 bytes, F32. */
static void put_two(const char *first, uint64_t offset, const char *second, uint64_t second_offset, size_t data)
{
	put_start(&b, 2, 0);
	put_tensor(&b, first, 8, 0, 0, offset);
	put_tensor(&b, second, 8, 0, 0, second_offset);
	put_data(data);
}

TEST(bad_tensors_are_refused)
{
	put_two("w", 0, "w", 32, 64);
	refuse("tensor 'w': occurs in the file twice");
	put_two("v", 0, "w", 16, 64);
	refuse("tensor 'w': data begin at 16 but");
	put_two("v", 0, "w", 64, 96);
	refuse("tensor 'w': data begin at 64 but");
	put_two("v", 0, "w", UINT64_MAX - 31, 64);
	refuse("tensor 'w': data begin at 18446744073709551584");
	put_two("v", 0, "w", 32, 63);
	refuse("tensor 'w': data take 32 bytes from 32 on, but the file has 63");
	put_two("v", 0, "w", 32, 64 + 32);
	refuse("bytes that no tensor has at the end: 32");
	put_two("v\x1b", 0, "w\xff", 32, 64);
	refuse("tensor 2: the name is not UTF-8");
	put_start(&b, 1, 0);
	put_tensor(&b, "12345678901234567890123456789012345678901234567890123456789012345", 8, 0, 0, 0);
	put_data(32);
	refuse("of at most 64 bytes");
	put_start(&b, 1, 0);
	put_tensor(&b, "w", UINT64_C(1) << 32, UINT64_C(1) << 30, 0, 0); /* 2^64 bytes */
	put_data(32);
	refuse("tensor 'w': size by its shape");
	put_start(&b, 1, 0);
	put_text(&b, "w");
	put_u32(&b, 5);
	put_data(64);
	refuse("tensor 'w': has 5 dimensions");
}

TEST(unusual_files_are_accepted)
{
	struct file file;

	put_start(&b, 0, 0);
	accept(&file);
	ck_assert_uint_eq(file.n_tensors, 0);
	ck_assert_uint_eq(file.data_bytes, 0);
	file_close(&file);
	put_two("v", 32, "w", 0, 64 + 31); /* any order, and padding after the last */
	accept(&file);
	ck_assert_str_eq(file.tensors[0].name, "w");
	file_close(&file);
	put_start(&b, 2, 1);
	put_pair_u32(&b, "general.alignment", 8);
	put_tensor(&b, "w", 2, 0, 24, 0);
	put_tensor(&b, "", 0, 0, 0, 8); /* of rank 0 */
	put_padding(&b, 8);
	put(&b, "............", 12);
	accept(&file);
	ck_assert_uint_eq(file.header_bytes % 8, 0);
	ck_assert_uint_eq(file_find(&file, "")->rank, 0);
	ck_assert_uint_eq(file_find(&file, "")->size, 4);
	file_close(&file);
	put_start(&b, 0, 1); /* what no metadata can say is left out, not refused */
	put_pair_text(&b, "x", "\xff");
	put_data(0);
	accept(&file);
	ck_assert_uint_eq(file.n_metadata, 0);
	file_close(&file);
}

TEST(every_truncation_is_refused)
{
	struct file file;

	put_start(&b, 1, 2);
	put_pair_text(&b, "general.architecture", "llama");
	put_pair_u32(&b, "x.n", 1);
	put_tensor(&b, "w", 32, 2, 39, 0);
	put_data(34);
	for (size_t cut = 0; cut < b.n; cut++) {
		const char *path = scratch_write("cut.gguf", b.bytes, cut);

		ck_assert_msg(file_open(&file, path, &error) == EXIT_INPUT, "%zu bytes of %zu", cut, b.n);
		suite_compared(1);
	}
}

TEST(format_is_told_by_the_first_bytes)
{
	struct file file;

	put_start(&b, 0, 0);
	ck_assert_int_eq(file_open(&file, scratch_write("blob", b.bytes, b.n), &error), EXIT_OK);
	ck_assert_str_eq(file.format->name, "gguf");
	file_close(&file);
}
