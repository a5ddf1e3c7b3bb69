/* SPDX-License-Identifier: MIT */
/* Files of token ids, in every form, by hand. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eval/token_file.h"
#include "unit/scratch.h"
#include "suite.h"

static struct error error;

/* What a file is read as: "1 2 | 3" is two sequences. */
static void check_read(const char *path, const char *wanted)
{
	struct token_sequences tokens;
	char text[512] = "";
	size_t n = 0;

	ck_assert_msg(tokens_read(&tokens, path, 70000, &error) == EXIT_OK, "%s", error.text);
	for (size_t i = 0; i < tokens.n; i++) {
		n += (size_t)snprintf(text + n, sizeof text - n, "%s", i > 0 ? "| " : "");
		for (size_t k = tokens.starts[i]; k < tokens.starts[i + 1]; k++)
			n += (size_t)snprintf(text + n, sizeof text - n, "%u ", (unsigned)tokens.ids[k]);
	}
	ck_assert_str_eq(text, wanted);
	ck_assert_uint_eq(tokens.n_ids, tokens.starts[tokens.n]);
	tokens_free(&tokens);
	suite_compared(1);
}

static void check_refused(const char *path, uint64_t vocabulary, const char *why)
{
	struct token_sequences tokens;

	ck_assert_msg(tokens_read(&tokens, path, vocabulary, &error) == EXIT_INPUT, "%s was read", path);
	ck_assert_msg(strstr(error.text, why) != NULL, "'%s', not '%s'", error.text, why);
	ck_assert_msg(strncmp(error.text, path, strlen(path)) == 0, "%s", error.text);
	ck_assert_ptr_null(tokens.ids);
	suite_compared(1);
}

TEST(json_has_lists_or_members)
{
	check_read(scratch_text("a.json", "[1, 2, 65536]"), "1 2 65536 ");
	check_read(scratch_text("a.json", " [ [1, 2],[],[3] ] \n"), "1 2 | | 3 ");
	check_read(scratch_text("a.json", "{\"note\": {\"tokens\": [9]}, \"seqs\": [[4,5],[6]], \"n\": 2}"), "4 5 | 6 ");
	check_read(scratch_text("a.json", "{\"tokens\":[7]}"), "7 ");
	check_read(scratch_text("a.json", "{\"attention_mask\":[[1,1]],\"input_ids\":[[0,69999]]}"), "0 69999 ");
}

TEST(json_that_is_wrong_is_refused)
{
	check_refused(scratch_text("b.json", "[1, 500]"), 500,
	              "sequence 0, token 1: id 500 is not one of the model's 0 to 499");
	check_refused(scratch_text("b.json", "[[1],[2,3,-4]]"), 500, "sequence 1, token 2: id -4 is not one");
	check_refused(scratch_text("b.json", "[[1],[2,4294967296]]"), UINT64_MAX, "sequence 1, token 1: id 4294967296 is");
	check_refused(scratch_text("b.json", "[1, [2]]"), 500, "JSON, byte 4: expected a whole number");
	check_refused(scratch_text("b.json", "[[1], 2]"), 500, "JSON, byte 6: expected '['");
	check_refused(scratch_text("b.json", "[1.5]"), 500, "JSON, byte 1: expected a whole number");
	check_refused(scratch_text("b.json", "[1] [2]"), 500, "JSON, byte 4: expected the end of the file");
	check_refused(scratch_text("b.json", "[1,"), 500, "JSON, byte 3");
	check_refused(scratch_text("b.json", "7"), 500, "expected a list of token ids");
	check_refused(scratch_text("b.json", "{\"ids\": [1]}"), 500, "has no member 'seqs', 'tokens' or 'input_ids'");
	check_refused(scratch_text("b.json", "{\"seqs\": [1], \"tokens\": [2]}"), 500, "has members 'seqs' and 'tokens'");
	check_refused(scratch_text("b.json", "{\"seqs\": [1], \"seqs\": [2]}"), 500, "has members 'seqs' and 'seqs'");
	check_refused(scratch_text("b.json", "[[], []]"), 500, "holds no token ids");
	check_refused(scratch_text("b.json", "[0]"), 0, "id 0 is not one");
	check_refused(scratch_text("b.txt", "[0]"), 500, "ends in .json, .npy, .u16, .u32 or .bin");
}

TEST(raw_numbers_are_little_endian)
{
	check_read(scratch_write("a.u16", "\1\0\xFF\xFF\0\1", 6), "1 65535 256 ");
	check_read(scratch_write("a.bin", "\1\0\2\0", 4), "1 2 ");
	check_read(scratch_write("a.u32", "\1\0\1\0\2\0\0\0", 8), "65537 2 ");
	check_refused(scratch_write("b.u16", "\1\0\2", 3), 500, "has 3 bytes, which are not whole ids of 2 bytes");
	check_refused(scratch_write("b.u32", "\1\0\0\0\xF4\1\0\0", 8), 500, "sequence 0, token 1: id 500 is not");
	check_refused(scratch_write("c.u32", "", 0), 500, "holds no token ids");
}

TEST(raw_numbers_beyond_one_reading)
{
	enum { N = 100000 }; /* more than the 65536 bytes that are read at once */
	static unsigned char bytes[2 * N];
	struct token_sequences tokens;

	for (unsigned i = 0; i < N; i++) {
		bytes[2 * i] = (unsigned char)(i % 50000);
		bytes[2 * i + 1] = (unsigned char)(i % 50000 >> 8);
	}
	ck_assert_int_eq(tokens_read(&tokens, scratch_write("long.u16", bytes, sizeof bytes), 50000, &error), EXIT_OK);
	ck_assert_uint_eq(tokens.n, 1);
	ck_assert_uint_eq(tokens.n_ids, N);
	for (unsigned i = 0; i < N; i++)
		ck_assert_uint_eq(tokens.ids[i], i % 50000);
	tokens_free(&tokens);
	suite_compared(N);
}

/* A file of NumPy's format 1.0: the header of 118 bytes, then the data. */
static const char *write_npy(const char *name, const char *descr, const char *order, const char *shape,
                             const void *data, size_t n)
{
	char bytes[512] = "\x93NUMPY\1\0v\0";
	const int length = snprintf(bytes + 10, 118, "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }", descr, order,
	                            shape);

	memset(bytes + 10 + length, ' ', (size_t)(117 - length));
	bytes[127] = '\n';
	memcpy(bytes + 128, data, n);
	return scratch_write(name, bytes, 128 + n);
}

TEST(numpy_arrays_have_a_sequence_a_row)
{
	check_read(write_npy("a.npy", "<u2", "False", "(3,)", "\1\0\2\0\0\1", 6), "1 2 256 ");
	check_read(write_npy("a.npy", "<i4", "False", "(2, 2)", "\1\0\0\0\2\0\0\0\3\0\0\0\4\0\1\0", 16), "1 2 | 3 65540 ");
	check_read(write_npy("a.npy", "<u4", "False", "(1, 2)", "\1\0\0\0\2\0\0\0", 8), "1 2 ");
	check_read(write_npy("a.npy", "<i8", "False", "(1,)", "\7\0\0\0\0\0\0\0", 8), "7 ");
	check_read(write_npy("a.npy", "<u2", "True", "(2, 3)", "\1\0\4\0\2\0\5\0\3\0\6\0", 12), "1 2 3 | 4 5 6 ");
}

TEST(numpy_arrays_that_are_wrong_are_refused)
{
	check_refused(write_npy("b.npy", "<i4", "False", "(2, 1)", "\1\0\0\0\xFE\xFF\xFF\xFF", 8), 500,
	              "sequence 1, token 0: id -2 is not");
	check_refused(write_npy("b.npy", "<i8", "False", "(1,)", "\0\0\0\0\0\0\0\x80", 8), 500,
	              "id -9223372036854775808 is not");
	check_refused(write_npy("b.npy", "<f4", "False", "(1,)", "\0\0\0\0", 4), 500, "is an array of F32");
	check_refused(write_npy("b.npy", "<u2", "False", "(1, 1, 1)", "\0\0", 2), 500, "is an array of 3 dimensions");
	check_refused(write_npy("b.npy", "<u2", "False", "()", "\0\0", 2), 500, "is an array of 0 dimensions");
	check_refused(write_npy("b.npy", "<u2", "False", "(0, 4)", "", 0), 500, "holds no token ids");
}

TEST(sequences_are_cut_into_windows)
{
	struct token_sequences tokens;
	static const size_t starts[] = {0, 3, 6, 7, 7, 9, 12};

	ck_assert_int_eq(tokens_read(&tokens, scratch_text("a.json", "[[1,2,3,4,5,6,7],[],[8,9],[1,2,3]]"), 500, &error),
	                 EXIT_OK);
	ck_assert_int_eq(tokens_cut(&tokens, 3, &error), EXIT_OK);
	ck_assert_uint_eq(tokens.n, 6);
	for (size_t i = 0; i <= tokens.n; i++)
		ck_assert_uint_eq(tokens.starts[i], starts[i]);
	ck_assert_uint_eq(tokens.ids[6], 7);
	tokens_free(&tokens);
	suite_compared(7);
}
