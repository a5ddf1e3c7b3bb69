/* SPDX-License-Identifier: MIT */
/* The reader and the writer of .npy files. Files are made by hand from the format's description. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/file.h"
#include "io/file_npy.h"
#include "model/model.h"
#include "unit/scratch.h"
#include "suite.h"

static struct error error;

enum { MAX_BYTES = 1 << 17 };

/* A file of a version with this header, not padded, and `n` bytes 0, 1, 2, ... of data. */
static const char *make(const char *name, int version, const char *header, size_t n)
{
	static unsigned char bytes[MAX_BYTES] = {0x93, 'N', 'U', 'M', 'P', 'Y'};
	size_t length = strlen(header), from = version == 1 ? 10 : 12;

	bytes[6] = (unsigned char)version;
	bytes[7] = 0;
	for (size_t i = 8; i < from; i++)
		bytes[i] = (unsigned char)(length >> 8 * (i - 8));
	memcpy(bytes + from, header, length);
	for (size_t i = 0; i < n; i++)
		bytes[from + length + i] = (unsigned char)i;
	return scratch_write(name, bytes, from + length + n);
}

static void refuse(const char *header, size_t n, const char *why)
{
	struct file file;
	const char *path = make("refused.npy", 1, header, n);

	ck_assert_msg(file_open(&file, path, &error) == EXIT_INPUT, "accepted or failed otherwise: %s", header);
	ck_assert_msg(strstr(error.text, why) != NULL, "%s: %s", header, error.text);
	ck_assert_ptr_nonnull(strstr(error.text, "refused.npy: "));
	ck_assert_ptr_null(strchr(error.text, '\n'));
	suite_compared(1);
}

static const struct tensor *accept(struct file *file, int version, const char *header, size_t n)
{
	int code = file_open(file, make("accepted.npy", version, header, n), &error);

	ck_assert_msg(code == EXIT_OK, "%s: %s", header, error.text);
	ck_assert_uint_eq(file->n_tensors, 1);
	ck_assert_uint_eq(file->tensors[0].size, n);
	suite_compared(1);
	return &file->tensors[0];
}

#define HEAD(descr, order, shape) "{'descr': '" descr "', 'fortran_order': " order ", 'shape': " shape ", }\n"
#define F4(shape) HEAD("<f4", "False", shape)

TEST(every_part_of_a_file_is_told)
{
	for (int version = 1; version <= 3; version++) {
		struct file file;
		unsigned char data[24];
		const struct tensor *array = accept(&file, version, F4("(2, 3)"), 24);

		ck_assert_str_eq(file.format->name, "npy");
		ck_assert_str_eq(array->name, NPY_TENSOR);
		ck_assert_int_eq(array->dtype, DTYPE_F32);
		ck_assert_uint_eq(array->rank, 2);
		ck_assert(array->shape[0] == 2 && array->shape[1] == 3 && !array->by_columns);
		ck_assert_ptr_eq(file_find(&file, NPY_TENSOR), array);
		ck_assert_int_eq(file_read(&file, array, 0, data, 24, &error), EXIT_OK);
		for (int i = 0; i < 24; i++)
			ck_assert_uint_eq(data[i], (unsigned)i);
		file_close(&file);
	}
}

TEST(every_dtype_has_its_size)
{
	static const struct {
		const char *descr;
		enum dtype dtype;
		size_t bytes;
	} dtypes[] = {
		{"<f2", DTYPE_F16, 2}, {"<f4", DTYPE_F32, 4}, {"<f8", DTYPE_F64, 8}, {"|b1", DTYPE_BOOL, 1},
		{"|i1", DTYPE_I8, 1}, {"|u1", DTYPE_U8, 1}, {"<i2", DTYPE_I16, 2}, {"<u2", DTYPE_U16, 2},
		{"<i4", DTYPE_I32, 4}, {"<u4", DTYPE_U32, 4}, {"<i8", DTYPE_I64, 8}, {"<u8", DTYPE_U64, 8},
		{"<c8", DTYPE_C64, 8},
	};
	char header[128];
	struct file file;

	for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
		snprintf(header, sizeof header, HEAD("%s", "False", "(3,)"), dtypes[i].descr);
		ck_assert_int_eq(accept(&file, 1, header, 3 * dtypes[i].bytes)->dtype, dtypes[i].dtype);
		file_close(&file);
		refuse(header, 3 * dtypes[i].bytes + 1, "bytes of data but the shape takes");
	}
}

TEST(forms_that_python_takes_are_accepted)
{
	struct file file;

	ck_assert_uint_eq(accept(&file, 1, F4("()"), 4)->rank, 0);
	file_close(&file);
	ck_assert_uint_eq(accept(&file, 1, F4("(5,)"), 20)->shape[0], 5);
	file_close(&file);
	ck_assert_uint_eq(accept(&file, 1, F4("(1, 2, 0)"), 0)->rank, 3);
	file_close(&file);
	accept(&file, 1, "{\"shape\":(1,2,),\"fortran_order\":False,\"descr\":\"<f4\"}\n", 8);
	file_close(&file);
	accept(&file, 2, "  { 'shape' : ( 1 , 2 ) , 'descr' : '<f4' , 'fortran_order' : False }    \n", 8);
	file_close(&file);
}

TEST(fortran_order_is_told_where_it_matters)
{
	struct file file;
	struct model model;
	const struct tensor *array = accept(&file, 1, HEAD("<f4", "True", "(2, 3)"), 24);

	ck_assert(array->by_columns && array->shape[0] == 2 && array->shape[1] == 3);
	ck_assert_int_eq(file_check_rows(&file, &error), EXIT_INPUT);
	file_close(&file);
	ck_assert_int_eq(model_open(&model, scratch_path("accepted.npy"), &error), EXIT_INPUT);
	ck_assert_ptr_nonnull(strstr(error.text, "Fortran order; save it in C order"));
	ck_assert_int_eq(model_open_any_order(&model, scratch_path("accepted.npy"), &error), EXIT_OK);
	model_close(&model);
	ck_assert(!accept(&file, 1, HEAD("<f4", "True", "(6,)"), 24)->by_columns);
	ck_assert_int_eq(file_check_rows(&file, &error), EXIT_OK);
	file_close(&file);
	refuse(HEAD("<f4", "True", "(1, 2, 3)"), 24, "Fortran order of 3 dimensions");
}

TEST(bad_headers_are_refused)
{
	refuse(HEAD(">f4", "False", "(1,)"), 4, "big-endian; save it as '<f4'");
	refuse(HEAD("<V2", "False", "(1,)"), 2, "bfloat16");
	refuse(HEAD("|V2", "False", "(1,)"), 2, "bfloat16");
	refuse(HEAD("|O", "False", "(1,)"), 8, "is not known");
	refuse(HEAD("<f16", "False", "(1,)"), 16, "is not known");
	refuse(HEAD("=f4", "False", "(1,)"), 4, "is not known");
	refuse(HEAD("<f4 and more", "False", "(1,)"), 4, "a short string");
	refuse(HEAD("\\x3cf4", "False", "(1,)"), 4, "a short string");
	refuse("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}\n", 4, "records");
	refuse(HEAD("<f4", "0", "(1,)"), 4, "True or False");
	refuse(F4("(1)"), 4, "expected ','");
	refuse(F4("(1 2)"), 8, "expected ','");
	refuse(F4("(,)"), 4, "a whole number");
	refuse(F4("[1]"), 4, "expected '('");
	refuse(F4("(-1,)"), 4, "a whole number");
	refuse(F4("(1L,)"), 4, "expected ','");
	refuse(F4("(1.0,)"), 4, "expected ','");
	refuse(F4("(1,"), 4, "a whole number");
	refuse(F4("(9223372036854775808,)"), 4, "a dimension is too large");
	refuse(F4("(4611686018427387904,)"), 0, "the shape is too large");
	refuse(F4("(0, 4294967296, 4294967296)"), 0, "the shape is too large");
	refuse("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}\n", 4, "key 'more' is not known");
	refuse("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}\n", 4, "twice");
	refuse("{'descr': '<f4', 'fortran_order': False}\n", 4, "lacks");
	refuse("{'descr': '<f4' 'fortran_order': False, 'shape': (1,)}\n", 4, "',' or '}'");
	refuse("{'descr' '<f4', 'fortran_order': False, 'shape': (1,)}\n", 4, "':'");
	refuse("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)\n", 4, "',' or '}'");
	refuse("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x\n", 4, "only spaces");
	refuse("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", 4, "newline");
	refuse("['descr']\n", 4, "expected '{'");
	refuse("", 4, "header length 0");
	refuse(F4("(2, 3)"), 23, "cut off");
	refuse("\x1b[2J\xc2\x9b\n", 4, "'?[2J");
}

TEST(too_many_dimensions_are_refused)
{
	char header[512] = "{'descr': '|u1', 'fortran_order': False, 'shape': (";
	struct file file;

	for (int i = 0; i < 64; i++)
		strcat(header, "1,");
	size_t n = strlen(header);
	strcpy(header + n, ")}\n");
	ck_assert_uint_eq(accept(&file, 1, header, 1)->rank, 64);
	file_close(&file);
	strcpy(header + n, "1)}\n");
	refuse(header, 1, "more than 64 dimensions");
}

TEST(starts_that_are_none_are_refused)
{
	static const struct {
		const char *bytes;
		size_t n;
		const char *why;
	} starts[] = {
		{"", 0, "is empty"},
		{"\x93NUMPX\1\0\1\0\n", 11, "does not begin"},
		{"\x93NUMPY\0\0\1\0\n", 11, "version 0.0"},
		{"\x93NUMPY\1\1\1\0\n", 11, "version 1.1"},
		{"\x93NUMPY\4\0\1\0\n", 11, "version 4.0"},
		{"\x93NUMPY\1\0\2\0\n", 11, "cut off"},
		{"\x93NUMPY\2\0\0\0\1\0\n", 13, "more than the 65535 allowed"},
		{"\x93NUMPY\2\0\xff\xff\xff\xff\n", 13, "more than the 65535 allowed"},
	};
	struct file file;

	for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
		const char *path = scratch_write("start.npy", starts[i].bytes, starts[i].n);

		ck_assert_int_eq(file_open(&file, path, &error), EXIT_INPUT);
		ck_assert_msg(strstr(error.text, starts[i].why) != NULL, "%zu: %s", i, error.text);
		suite_compared(1);
	}
}

TEST(every_truncation_is_refused)
{
	struct file file;

	for (int version = 1; version <= 2; version++) {
		size_t n;
		char *bytes = scratch_read(make("whole.npy", version, F4("(1, 2)"), 8), &n);

		for (size_t cut = 0; cut < n; cut++) {
			const char *path = scratch_write("cut.npy", bytes, cut);

			ck_assert_msg(file_open(&file, path, &error) == EXIT_INPUT, "%zu bytes of %zu", cut, n);
			suite_compared(1);
		}
		free(bytes);
	}
}

TEST(format_is_told_by_the_first_bytes)
{
	struct file file;

	ck_assert_int_eq(file_open(&file, make("blob", 1, F4("(1,)"), 4), &error), EXIT_OK);
	ck_assert_str_eq(file.format->name, "npy");
	file_close(&file);
}

/* What numpy.save() writes for array([[1, -2, 0.5]], dtype=float32): format 1.0, 128 bytes before the data. */
TEST(written_bytes_are_those_of_numpy)
{
	static const float numbers[] = {1, -2, 0.5f};
	static const unsigned char data[] = {0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0, 0, 0, 0, 0x3f};
	static const char header[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3), }";
	const char *path = scratch_path("written.npy");
	size_t n;

	ck_assert_int_eq(npy_write(path, numbers, 1, 3, &error), EXIT_OK);
	char *bytes = scratch_read(path, &n);
	ck_assert_uint_eq(n, 128 + sizeof data);
	ck_assert_int_eq(memcmp(bytes, "\x93NUMPY\1\0\x76\0", 10), 0);
	ck_assert_int_eq(memcmp(bytes + 10, header, sizeof header - 1), 0);
	for (size_t i = 10 + sizeof header - 1; i < 127; i++)
		ck_assert_int_eq(bytes[i], ' ');
	ck_assert_int_eq(bytes[127], '\n');
	ck_assert_int_eq(memcmp(bytes + 128, data, sizeof data), 0);
	free(bytes);
	ck_assert_int_eq(npy_write(path, numbers, 1, 3, &error), EXIT_IO); /* never over another file */
}

TEST(what_is_written_can_be_read)
{
	enum { ROWS = 300, COLS = 257 }; /* more than a piece of the writer */
	float *numbers = malloc(ROWS * COLS * sizeof *numbers), *back = malloc(ROWS * COLS * sizeof *back);
	const char *path = scratch_path("large.npy");
	struct file file;

	for (size_t i = 0; i < (size_t)ROWS * COLS; i++)
		numbers[i] = (float)i;
	ck_assert_int_eq(npy_write(path, numbers, ROWS, COLS, &error), EXIT_OK);
	ck_assert_int_eq(file_open(&file, path, &error), EXIT_OK);
	ck_assert(file.tensors[0].shape[0] == ROWS && file.tensors[0].shape[1] == COLS);
	ck_assert_int_eq(file_read(&file, &file.tensors[0], 0, back, ROWS * COLS * sizeof *back, &error), EXIT_OK);
	dtype_swap(DTYPE_F32, back, ROWS * COLS * sizeof *back);
	ck_assert_int_eq(memcmp(back, numbers, ROWS * COLS * sizeof *back), 0);
	file_close(&file);
	free(numbers);
	free(back);
	path = scratch_path("empty.npy");
	ck_assert_int_eq(npy_write(path, NULL, 0, 18446744073709551615u, &error), EXIT_OK); /* the longest header */
	ck_assert_int_eq(file_open(&file, path, &error), EXIT_INPUT);
	ck_assert_ptr_nonnull(strstr(error.text, "a dimension is too large"));
}
