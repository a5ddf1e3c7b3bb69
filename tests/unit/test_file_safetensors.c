/* SPDX-License-Identifier: MIT */
/* The reader of safetensors files. Files are made by hand from the format's description. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/file.h"
#include "unit/scratch.h"
#include "suite.h"

static struct error error;

/* A file with this header and `n` bytes of data is refused as bad input, with this in the text. */
static void refuse(const char *header, size_t n, const char *why)
{
	struct file file;
	const char *path = scratch_safetensors("refused.safetensors", header, n);

	ck_assert_msg(file_open(&file, path, &error) == EXIT_INPUT, "accepted or failed otherwise: %s", header);
	ck_assert_msg(strstr(error.text, why) != NULL, "%s: %s", header, error.text);
	ck_assert_ptr_nonnull(strstr(error.text, "refused.safetensors: "));
	suite_compared(1);
}

static void accept(struct file *file, const char *header, size_t n)
{
	const char *path = scratch_safetensors("accepted.safetensors", header, n);
	int code = file_open(file, path, &error);

	ck_assert_msg(code == EXIT_OK, "%s: %s", header, error.text);
	suite_compared(1);
}

TEST(every_part_of_a_file_is_told)
{
	/* The data are the bytes 0, 1, 2, ...: b is 0..7, a is 8..19. */
	static const char header[] = "{\"a\":{\"shape\":[3,1],\"dtype\":\"F32\",\"data_offsets\":[8,20]},"
				     "\"__metadata__\":{\"k\":\"v\",\"\":\"\\u00e9\\\"\"},"
				     "\"b\":{\"dtype\":\"I16\",\"shape\":[2,1,2],\"data_offsets\":[0,8]}}  ";
	unsigned char bytes[8 + sizeof header - 1 + 20] = {sizeof header - 1};
	unsigned char data[12];
	struct file file;

	memcpy(bytes + 8, header, sizeof header - 1);
	for (int i = 0; i < 20; i++)
		bytes[8 + sizeof header - 1 + i] = (unsigned char)i;
	ck_assert_int_eq(file_open(&file, scratch_write("whole.safetensors", bytes, sizeof bytes), &error), EXIT_OK);
	ck_assert_uint_eq(file.n_tensors, 2);
	ck_assert_uint_eq(file.header_bytes, 8 + sizeof header - 1);
	ck_assert_uint_eq(file.data_bytes, 20);

	const struct tensor *b = &file.tensors[0], *a = &file.tensors[1];
	ck_assert_str_eq(b->name, "b");
	ck_assert_int_eq(b->dtype, DTYPE_I16);
	ck_assert_uint_eq(b->rank, 3);
	ck_assert_uint_eq(b->shape[0], 2);
	ck_assert_uint_eq(b->shape[1], 1);
	ck_assert_uint_eq(b->shape[2], 2);
	ck_assert_uint_eq(b->size, 8);
	ck_assert_uint_eq(tensor_elements(b), 4);
	ck_assert_str_eq(a->name, "a");
	ck_assert_int_eq(a->dtype, DTYPE_F32);
	ck_assert_uint_eq(a->offset, 8);
	ck_assert_ptr_eq(file_find(&file, "a"), a);
	ck_assert_ptr_eq(file_find(&file, "b"), b);
	ck_assert_ptr_null(file_find(&file, "c"));

	ck_assert_uint_eq(file.n_metadata, 2);
	ck_assert_str_eq(file_metadata(&file, "k"), "v");
	ck_assert_str_eq(file_metadata(&file, ""), "\xc3\xa9\"");
	ck_assert_ptr_null(file_metadata(&file, "v"));

	ck_assert_int_eq(file_read(&file, a, 0, data, 12, &error), EXIT_OK);
	for (int i = 0; i < 12; i++)
		ck_assert_uint_eq(data[i], (unsigned)i + 8);
	ck_assert_int_eq(file_read(&file, b, 7, data, 1, &error), EXIT_OK);
	ck_assert_uint_eq(data[0], 7);
	ck_assert_int_eq(file_read(&file, b, 8, data, 0, &error), EXIT_OK);
	file_close(&file);
	file_close(&file);
}

TEST(every_dtype_has_its_name_and_size)
{
	/* formats.md 6.1 and safetensors/src/tensor.rs; bytes of 24 elements, 24 being whole for 4 and 6 bits. */
	static const struct {
		const char *name;
		unsigned bytes;
	} dtypes[] = {
		{"BOOL", 24}, {"F4", 12}, {"F6_E2M3", 18}, {"F6_E3M2", 18}, {"U8", 24}, {"I8", 24}, {"F8_E5M2", 24},
		{"F8_E4M3", 24}, {"F8_E8M0", 24}, {"F8_E4M3FNUZ", 24}, {"F8_E5M2FNUZ", 24}, {"I16", 48}, {"U16", 48},
		{"F16", 48}, {"BF16", 48}, {"I32", 96}, {"U32", 96}, {"F32", 96}, {"C64", 192}, {"F64", 192},
		{"I64", 192}, {"U64", 192},
	};
	char header[256];
	struct file file;

	for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
		snprintf(header, sizeof header, "{\"w\":{\"dtype\":\"%s\",\"shape\":[2,12],\"data_offsets\":[0,%u]}}",
		         dtypes[i].name, dtypes[i].bytes);
		accept(&file, header, dtypes[i].bytes);
		ck_assert_int_eq(file.tensors[0].dtype, (int)i);
		ck_assert_str_eq(dtype_info((enum dtype)i)->name, dtypes[i].name);
		file_close(&file);
		snprintf(header, sizeof header, "{\"w\":{\"dtype\":\"%s\",\"shape\":[2,12],\"data_offsets\":[0,%u]}}",
		         dtypes[i].name, dtypes[i].bytes + 1);
		refuse(header, dtypes[i].bytes + 1, "tensor 'w': has ");
	}
	refuse("{\"w\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]}}", 2, "not whole bytes");
	refuse("{\"w\":{\"dtype\":\"F6_E2M3\",\"shape\":[3],\"data_offsets\":[0,2]}}", 2, "not whole bytes");
	refuse("{\"w\":{\"dtype\":\"f32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "dtype 'f32'");
	/* What follows in the table belongs to GGUF. */
	for (size_t i = sizeof dtypes / sizeof dtypes[0]; i < N_DTYPES; i++) {
		snprintf(header, sizeof header, "{\"w\":{\"dtype\":\"%s\",\"shape\":[0],\"data_offsets\":[0,0]}}",
		         dtype_info((enum dtype)i)->name);
		refuse(header, 0, "is not known");
	}
}

TEST(dtypes_hold_elements_of_their_format)
{
	ck_assert_int_eq(dtype_info(DTYPE_F4)->format, MXFP_FORMAT_E2M1);
	ck_assert_int_eq(dtype_info(DTYPE_F8_E4M3)->format, MXFP_FORMAT_E4M3);
	ck_assert_int_eq(dtype_info(DTYPE_BF16)->format, MXFP_FORMAT_BF16);
	ck_assert(dtype_info(DTYPE_F32)->numeric);
	ck_assert_int_eq(dtype_info(DTYPE_F8_E4M3FNUZ)->format, MXFP_FORMAT_E4M3FNUZ); /* another bias than E4M3: not to be read as it */
	ck_assert_int_eq(dtype_info(DTYPE_F8_E5M2FNUZ)->format, MXFP_FORMAT_E5M2FNUZ);
	ck_assert(!dtype_info(DTYPE_U8)->numeric);
}

TEST(unusual_headers_are_accepted)
{
	struct file file;
	uint64_t rows, cols;

	accept(&file, "{}", 0);
	ck_assert_uint_eq(file.n_tensors, 0);
	ck_assert_ptr_null(file_find(&file, "w"));
	file_close(&file);
	accept(&file, "{ \"__metadata__\" : { } \r\n\t}      ", 0);
	file_close(&file);
	accept(&file, "{\"\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}", 4);
	ck_assert_uint_eq(tensor_elements(&file.tensors[0]), 1);
	tensor_matrix(&file.tensors[0], &rows, &cols);
	ck_assert(rows == 1 && cols == 1);
	file_close(&file);
	accept(&file, "{\"w\":{\"dtype\":\"U8\",\"shape\":[4294967296,0,8],\"data_offsets\":[0,0]}}", 0);
	ck_assert_uint_eq(tensor_elements(&file.tensors[0]), 0);
	tensor_matrix(&file.tensors[0], &rows, &cols);
	ck_assert(rows == 0 && cols == 8);
	file_close(&file);
	accept(&file, "{\"w\":{\"dtype\":\"U8\",\"shape\":[2,3,4],\"data_offsets\":[0,24]}}", 24);
	tensor_matrix(&file.tensors[0], &rows, &cols);
	ck_assert(rows == 6 && cols == 4);
	file_close(&file);
	/* Tensors without data stand before the one that begins where they are, whatever the order in the header. */
	accept(&file, "{\"c\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
	              "\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[2,2]},"
	              "\"b\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", 2);
	ck_assert_str_eq(file.tensors[0].name, "b");
	ck_assert_str_eq(file.tensors[1].name, "c");
	ck_assert_str_eq(file.tensors[2].name, "a");
	file_close(&file);
	accept(&file, "{\"\\ud83d\\ude00\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}", 1);
	ck_assert_str_eq(file.tensors[0].name, "\xf0\x9f\x98\x80");
	file_close(&file);
}

#define W(shape, offsets) "{\"w\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"

/* What safetensors 0.8.0 accepts and refuses behind the object: what serde_json takes for white space. */
TEST(white_space_may_follow_the_header)
{
	static const char *const spaces[] = {" ", "\t", "\n", "\r", " \n\r\t  "};
	char header[128];
	struct file file;

	for (size_t i = 0; i < sizeof spaces / sizeof spaces[0]; i++) {
		snprintf(header, sizeof header, "%s%s", W("[1]", "[0,4]"), spaces[i]);
		accept(&file, header, 4);
		ck_assert_uint_eq(file.data_bytes, 4);
		file_close(&file);
	}
}

TEST(bad_headers_are_refused)
{
	refuse(" " W("[1]", "[0,4]"), 4, "does not begin with '{'");
	refuse(W("[1]", "[0,4]") "\f", 4, "only white space may follow");
	refuse(W("[1]", "[0,4]") "\v", 4, "only white space may follow");
	refuse(W("[1]", "[0,4]") " \xc2\xa0", 4, "only white space may follow");
	refuse(W("[1]", "[0,4]") "\n x", 4, "only white space may follow");
	refuse(W("[1]", "[0,4]") "{}", 4, "only white space may follow");
	refuse("{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"extra\":1}}", 4, "field 'extra'");
	refuse("{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "'shape' occurs");
	refuse("{\"w\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "lacks");
	refuse("{\"__metadata__\":{\"a\":\"1\",\"b\":\"2\",\"\\u0061\":\"1\"}}", 0, "metadata key 'a'");
	refuse("{\"__metadata__\":{\"a\":1}}", 0, "expected a string");
	refuse("{\"__metadata__\":{},\"__metadata\\u005f_\":{}}", 0, "twice");
	refuse("{\"w\\u0000\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "NUL");
	refuse("{\"w\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
	       "\"v\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]},"
	       "\"\\u0077\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,3]}}", 3, "tensor 'w': occurs in the");
	refuse(W("[1]", "[4,0]"), 4, "are not a begin and an end");
	refuse(W("[1]", "[0]"), 4, "are not a begin and an end");
	refuse(W("[1]", "[0,4,8]"), 4, "too long");
	refuse(W("[1]", "[0,4.0]"), 4, "whole number");
	refuse(W("[1]", "[0,9223372036854775808]"), 4, "too big");
	refuse(W("[-1]", "[0,4]"), 4, "whole number");
	refuse(W("[1 2]", "[0,4]"), 4, "expected ',' or ']'");
	refuse(W("[1,]", "[0,4]"), 4, "expected a whole number");
	refuse(W("[1]", "[4,8]"), 8, "hole");
	/* Of as many bytes as the file has. */
	refuse("{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
	       "\"v\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 8, "they overlap");
	refuse("{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
	       "\"v\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[2,6]}}", 8, "they overlap");
	refuse(W("[1]", "[0,4]"), 5, "bytes that no tensor has at the end: 1");
	refuse(W("[1]", "[0,4]"), 3, "cut off");
	refuse(W("[9223372036854775807]", "[0,4]"), 4, "too large");
	/* Products that overflow, wherever the zero stands. 2^30 * 2^31 * 32 = 2^66. */
	refuse(W("[0,1073741824,2147483648]", "[0,0]"), 0, "too large");
	refuse(W("[1073741824,2147483648,0]", "[0,0]"), 0, "too large");
	/* 2^62 * 32 bits wraps to 0 bytes. */
	refuse(W("[4611686018427387904]", "[0,0]"), 0, "too large");
}

TEST(names_in_errors_cannot_steer_a_terminal)
{
	refuse("{\"a\\u001b[2J\\n\\u202e\\u009b\":{}}", 0, "tensor 'a?[2J?\?\?': lacks");
}

TEST(every_truncation_is_refused)
{
	static const char header[] = "{\"__metadata__\":{\"k\":\"v\"},"
				     "\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}  ";
	size_t n;
	char *bytes = scratch_read(scratch_safetensors("long.safetensors", header, 8), &n);
	struct file file;

	for (size_t cut = 0; cut < n; cut++) {
		const char *path = scratch_write("cut.safetensors", bytes, cut);

		ck_assert_msg(file_open(&file, path, &error) == EXIT_INPUT, "%zu bytes of %zu", cut, n);
		suite_compared(1);
	}
	free(bytes);
}

TEST(header_length_is_limited)
{
	/* A length of 100,000,001, and a file that is long enough, without its bytes taking space. */
	static const unsigned char first[9] = {0x01, 0xe1, 0xf5, 0x05, 0, 0, 0, 0, '{'};
	const char *path = scratch_write("huge.safetensors", first, sizeof first);
	struct file file;

	ck_assert_int_eq(truncate(path, 200000000), 0);
	ck_assert_int_eq(file_open(&file, path, &error), EXIT_INPUT);
	ck_assert_ptr_nonnull(strstr(error.text, "100,000,000 allowed"));
}

TEST(only_regular_files_are_opened)
{
	struct file file;

	ck_assert_int_eq(file_open(&file, scratch_path("none.safetensors"), &error), EXIT_IO);
	ck_assert_int_eq(file_open(&file, scratch_path(""), &error), EXIT_INPUT);
	const char *fifo = scratch_path("fifo.safetensors");
	ck_assert_int_eq(mkfifo(fifo, 0600), 0);
	ck_assert_int_eq(file_open(&file, fifo, &error), EXIT_INPUT); /* and does not wait for a writer */
	ck_assert_ptr_nonnull(strstr(error.text, "FIFO"));
	const char *device = scratch_path("device.safetensors");
	ck_assert_int_eq(symlink("/dev/zero", device), 0);
	ck_assert_int_eq(file_open(&file, device, &error), EXIT_INPUT);
	ck_assert_ptr_nonnull(strstr(error.text, "is a device"));
	const char *loop = scratch_path("loop.safetensors");
	ck_assert_int_eq(symlink("loop.safetensors", loop), 0);
	ck_assert_int_eq(file_open(&file, loop, &error), EXIT_IO);
	scratch_safetensors("target", "{}", 0);
	const char *link = scratch_path("link.safetensors");
	ck_assert_int_eq(symlink("target", link), 0);
	ck_assert_int_eq(file_open(&file, link, &error), EXIT_OK);
	file_close(&file);
}

TEST(format_is_told_by_the_first_bytes)
{
	struct file file;

	ck_assert_int_eq(file_open(&file, scratch_safetensors("blob", "{}", 0), &error), EXIT_OK);
	ck_assert_str_eq(file.format->name, "safetensors");
	file_close(&file);
	ck_assert_int_eq(file_open(&file, scratch_write("text", "{\"a\":1}", 7), &error), EXIT_INPUT);
	ck_assert_ptr_nonnull(strstr(error.text, "is JSON"));
	ck_assert_int_eq(file_open(&file, scratch_write("bytes", "\1\2\3\4\5", 5), &error), EXIT_INPUT);
	ck_assert_ptr_nonnull(strstr(error.text, "not in a known file format"));
}

TEST(file_that_shrinks_is_noticed)
{
	const char *path = scratch_safetensors("shrinks.safetensors", W("[2]", "[0,8]"), 8);
	struct stat status;
	struct file file;
	char data[8];

	ck_assert_int_eq(file_open(&file, path, &error), EXIT_OK);
	ck_assert_int_eq(stat(path, &status), 0);
	ck_assert_int_eq(truncate(path, status.st_size - 1), 0);
	ck_assert_int_eq(file_read(&file, &file.tensors[0], 0, data, 7, &error), EXIT_OK);
	ck_assert_int_eq(file_read(&file, &file.tensors[0], 0, data, 8, &error), EXIT_INPUT);
	file_close(&file);
}

/* A sanitizer's own memory is not the reader's. */
#if defined __has_feature
#if __has_feature(address_sanitizer) || __has_feature(memory_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#elif defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define SANITIZED 1
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

/* Bytes of memory this process has used at most. */
static size_t peak_bytes(void)
{
	struct rusage usage;

	ck_assert_int_eq(getrusage(RUSAGE_SELF, &usage), 0);
	return (size_t)usage.ru_maxrss * 1024;
}

TEST(memory_and_time_grow_with_the_header)
{
	/* 40,000 of the smallest entries; a tree of them would take some 20 times their text. */
	enum { N = 40000, ENTRY = 70 };
	char *header = malloc((size_t)N * ENTRY), *end = header;
	struct file file;

	for (int i = 0; i < N; i++)
		end += sprintf(end, "%c\"%x\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}",
		               i == 0 ? '{' : ',', i);
	strcpy(end, "}");
	const char *path = scratch_safetensors("many.safetensors", header, 0);
	size_t header_bytes = strlen(header), before = peak_bytes();
	ck_assert_int_eq(file_open(&file, path, &error), EXIT_OK);
	ck_assert_uint_eq(file.n_tensors, N);
	ck_assert_ptr_nonnull(file_find(&file, "9c3f"));
	if (!SANITIZED)
		ck_assert_uint_le(peak_bytes() - before, 8 * header_bytes);
	file_close(&file);
	free(header);
}
