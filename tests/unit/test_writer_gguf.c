/* SPDX-License-Identifier: MIT */
/* The writer of GGUF files: bytes made by hand, files of llama-quantize, and what is refused. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit/copies.h"
#include "unit/gguf_bytes.h"
#include "io/file_gguf.h"
#include "unit/scratch.h"
#include "suite.h"

static struct error error;
static struct gguf_bytes b;

/* Writes bytes 1, 2, 3, ... as the data of each tensor. */
static void write_data(struct writer *writer)
{
	for (size_t i = writer->n_tensors; i-- > 0;)
		for (uint64_t at = 0; at < writer->tensors[i].size; at++) {
			unsigned char byte = (unsigned char)(at + 1);

			ck_assert_int_eq(writer_write(writer, &writer->tensors[i], at, &byte, 1, &error), EXIT_OK);
		}
}

static void put_data(size_t n, size_t alignment)
{
	put_padding(&b, alignment);
	for (unsigned char i = 1; i <= n; i++)
		put(&b, &i, 1);
}

/* The file holds the bytes at hand. */
static void check_bytes(const char *path)
{
	size_t n;
	char *bytes = scratch_read(path, &n);

	for (size_t i = 0; i < n && i < b.n; i++)
		ck_assert_msg((unsigned char)bytes[i] == b.bytes[i], "byte %zu is %02x, not %02x", i,
		              (unsigned char)bytes[i], b.bytes[i]);
	ck_assert_uint_eq(n, b.n);
	free(bytes);
	suite_compared(n);
}

TEST(a_file_is_laid_out_in_the_order_given)
{
	static const uint64_t norm[] = {3}, matrix[] = {2, 32};
	struct tensor tensors[] = {
		{.name = "z", .dtype = DTYPE_F32, .rank = 1, .shape = norm},
		{.name = "a", .dtype = DTYPE_MXFP4, .rank = 2, .shape = matrix},
	};
	char rule[] = "?????";
	struct metadata metadata[] = {{"mxfp.rule", rule}};
	struct writer writer = {.path = scratch_path("order.gguf"), .format = &file_gguf, .n_tensors = 2,
	                        .tensors = tensors, .n_metadata = 1, .metadata = metadata, .fd = -1};

	ck_assert_int_eq(writer_open(&writer, &error), EXIT_OK);
	ck_assert_ptr_eq(writer_find(&writer, "a"), &tensors[1]);
	ck_assert_ptr_null(writer_find(&writer, "b"));
	write_data(&writer);
	memcpy(rule, "floor", 5);
	ck_assert_int_eq(writer_close(&writer, &error), EXIT_OK);

	put_start(&b, 2, 3);
	put_pair_text(&b, "mxfp.rule", "floor");
	put_pair_u32(&b, "general.quantization_version", 2);
	put_pair_u32(&b, "general.file_type", 38); /* LLAMA_FTYPE_MOSTLY_MXFP4_MOE */
	put_tensor(&b, "z", 3, 0, 0, 0);
	put_tensor(&b, "a", 32, 2, 39, 32);
	put_data(12, 32);
	put_data(34, 32);
	put_padding(&b, 32);
	check_bytes(writer.path);
}

/* A file whose pairs are carried, opened. */
static void make_source(struct file *source)
{
	put_start(&b, 0, 7);
	put_pair_text(&b, "general.architecture", "llama");
	put_pair_u32(&b, "general.alignment", 64);
	put_pair_u32(&b, "general.file_type", 7);
	put_pair_text(&b, "mxfp.rule", "even");
	put_pair_text(&b, "mxfp.weights", "mxfp8");
	put_text(&b, "tokens");
	put_u32(&b, TYPE_ARRAY);
	put_u32(&b, TYPE_STRING);
	put_u64(&b, 1);
	put_text(&b, "<s>");
	put_pair_u32(&b, "n", 3);
	put_padding(&b, 64);
	ck_assert_msg(file_open(source, scratch_write("source.gguf", b.bytes, b.n), &error) == EXIT_OK, "%s", error.text);
}

TEST(pairs_of_the_source_are_carried_as_they_are)
{
	static const uint64_t two[] = {2};
	struct file source;
	struct tensor tensors[] = {{.name = "w", .dtype = DTYPE_BF16, .rank = 1, .shape = two},
	                           {.name = "v", .dtype = DTYPE_BF16, .rank = 1, .shape = two}};
	struct metadata metadata[] = {{"n", "3"}, {"general.alignment", "64"}, {"general.file_type", "7"},
	                              {"mxfp.rule", "floor"}, {"more", "text"}};
	struct writer writer = {.path = scratch_path("carried.gguf"), .format = &file_gguf, .source = &source,
	                        .n_tensors = 2, .tensors = tensors, .n_metadata = 5, .metadata = metadata, .fd = -1};

	make_source(&source);
	ck_assert_int_eq(writer_open(&writer, &error), EXIT_OK);
	write_data(&writer);
	ck_assert_int_eq(writer_close(&writer, &error), EXIT_OK);
	file_close(&source);

	put_start(&b, 2, 7);
	put_pair_text(&b, "general.architecture", "llama");
	put_pair_u32(&b, "general.alignment", 64);
	put_text(&b, "tokens");
	put_u32(&b, TYPE_ARRAY);
	put_u32(&b, TYPE_STRING);
	put_u64(&b, 1);
	put_text(&b, "<s>");
	put_pair_u32(&b, "n", 3);
	put_pair_text(&b, "mxfp.rule", "floor");
	put_pair_text(&b, "more", "text");
	put_pair_u32(&b, "general.file_type", 32); /* LLAMA_FTYPE_MOSTLY_BF16 */
	put_tensor(&b, "w", 2, 0, 30, 0);
	put_tensor(&b, "v", 2, 0, 30, 64);
	put_data(4, 64);
	put_data(4, 64);
	put_padding(&b, 64);
	check_bytes(writer.path);
}

TEST(files_without_tensors_are_written)
{
	struct file source;
	struct writer writer = {.path = scratch_path("none.gguf"), .format = &file_gguf, .source = &source, .fd = -1};

	put_start(&b, 0, 1);
	put_pair_text(&b, "a", "b");
	put_padding(&b, 32);
	ck_assert_int_eq(file_open(&source, scratch_write("only.gguf", b.bytes, b.n), &error), EXIT_OK);
	ck_assert_int_eq(writer_open(&writer, &error), EXIT_OK);
	ck_assert_int_eq(writer_close(&writer, &error), EXIT_OK);
	file_close(&source);
	check_bytes(writer.path);
}

TEST(what_cannot_be_a_file_is_refused)
{
	static const uint64_t ones[] = {1, 1, 1, 1, 1}, odd[] = {33};
	static const char long_name[] = "1234567890123456789012345678901234567890123456789012345678901234";
	struct tensor twice[] = {{.name = "w", .dtype = DTYPE_I8}, {.name = "w", .dtype = DTYPE_I8}};
	struct tensor none = {.name = "w", .dtype = DTYPE_U8};
	struct tensor deep = {.name = "w", .dtype = DTYPE_F32, .rank = 5, .shape = ones};
	struct tensor part = {.name = "w", .dtype = DTYPE_MXFP4, .rank = 1, .shape = odd};
	struct tensor named = {.name = long_name, .dtype = DTYPE_F32};
	const struct {
		struct tensor *tensors;
		size_t n;
		const char *why;
	} cases[] = {{twice, 2, "hold it twice"}, {&none, 1, "no type for U8"}, {&deep, 1, "5 dimensions"},
	             {&part, 1, "too large or not whole"}, {&named, 1, "a name of 64 bytes"}};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct writer writer = {.path = scratch_path("refused.gguf"), .format = &file_gguf,
		                        .n_tensors = cases[i].n, .tensors = cases[i].tensors, .fd = -1};

		ck_assert_int_eq(writer_open(&writer, &error), EXIT_INPUT);
		ck_assert_msg(strstr(error.text, cases[i].why) != NULL, "%s", error.text);
		ck_assert_int_ne(access(writer.path, F_OK), 0);
	}
}

static void carry(struct writer *writer, const struct file *file)
{
	writer->source = file;
}

TEST(files_of_llama_quantize_are_copied_to_the_byte)
{
	/* It writes the two pairs that follow from the tensors last, as we do. */
	static const char *const names[] = {
		"weights/stories260K/stories260K.mxfp4.llama-quantize.gguf",
		"weights/stories260K/stories260K.bf16.llama-quantize.gguf",
	};

	copies_check(names, sizeof names / sizeof names[0], carry);
}
