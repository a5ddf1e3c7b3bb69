/* SPDX-License-Identifier: MIT */
/* The writer of safetensors files: bytes made by hand, files of the reference writer, and what is refused. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit/copies.h"
#include "io/file.h"
#include "io/resumed.h"
#include "unit/scratch.h"
#include "suite.h"

static struct error error;

/* Writes bytes 0, 1, 2, ... as each tensor's data, in pieces, the last piece first. */
static void write_data(struct writer *writer)
{
	for (size_t i = writer->n_tensors; i-- > 0;) {
		const struct tensor *tensor = &writer->tensors[i];

		for (uint64_t at = tensor->size; at-- > 0;) {
			unsigned char byte = (unsigned char)(tensor->offset + at);

			ck_assert_int_eq(writer_write(writer, tensor, at, &byte, 1, &error), EXIT_OK);
		}
	}
}

/* The file at `path` holds this header, spaces so that the data begin at a multiple of 8, and `n` bytes 0, 1, 2,
   ... */
static void check_file(const char *path, const char *header, size_t n)
{
	size_t size, length = strlen(header), padded = (8 + length + 7) / 8 * 8;
	char *bytes = scratch_read(path, &size);

	ck_assert_uint_eq(size, padded + n);
	ck_assert_int_eq(memcmp(bytes + 8, header, length), 0);
	ck_assert_uint_eq((unsigned char)bytes[0], padded - 8); /* these headers have less than 256 bytes */
	for (int i = 1; i < 8; i++)
		ck_assert_int_eq(bytes[i], 0);
	for (size_t i = 8 + length; i < padded; i++)
		ck_assert_int_eq(bytes[i], ' ');
	for (size_t i = 0; i < n; i++)
		ck_assert_int_eq((unsigned char)bytes[padded + i], (int)i);
	free(bytes);
	suite_compared(size);
}

TEST(tensors_are_sorted_by_dtype_then_name)
{
	static const uint64_t two[] = {2}, matrix[] = {2, 1};
	struct tensor tensors[] = {
		{.name = "b", .dtype = DTYPE_U8, .rank = 1, .shape = two},
		{.name = "z", .dtype = DTYPE_F32, .rank = 0},
		{.name = "a", .dtype = DTYPE_BF16, .rank = 2, .shape = matrix},
		{.name = "B", .dtype = DTYPE_F32, .rank = 1, .shape = two},
	};
	struct writer writer = {.path = scratch_path("sorted"), .n_tensors = 4, .tensors = tensors, .fd = -1};

	ck_assert_int_eq(writer_open(&writer, &error), EXIT_OK);
	write_data(&writer);
	ck_assert_int_eq(writer_close(&writer, &error), EXIT_OK);
	check_file(writer.path, "{\"B\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
	                        "\"z\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[8,12]},"
	                        "\"a\":{\"dtype\":\"BF16\",\"shape\":[2,1],\"data_offsets\":[12,16]},"
	                        "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[16,18]}}", 18);
}

TEST(metadata_come_first_and_may_change_until_the_end)
{
	static const uint64_t one[] = {1};
	char hash[] = "0000";
	struct tensor tensor = {.name = "w", .dtype = DTYPE_U8, .rank = 1, .shape = one};
	struct metadata metadata[] = {{"hash", hash}, {"a\"\\/\n\x01\xc3\xa9", ""}};
	struct writer writer = {.path = scratch_path("metadata.safetensors"), .n_tensors = 1, .tensors = &tensor,
	                        .n_metadata = 2, .metadata = metadata, .fd = -1};

	ck_assert_int_eq(writer_open(&writer, &error), EXIT_OK);
	write_data(&writer);
	memcpy(hash, "beef", 4);
	ck_assert_int_eq(writer_close(&writer, &error), EXIT_OK);
	check_file(writer.path, "{\"__metadata__\":{\"format\":\"pt\",\"hash\":\"beef\",\"a\\\"\\\\/\\n\\u0001\xc3\xa9\":\"\"},"
	                        "\"w\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1);

	struct file file;
	ck_assert_int_eq(file_open(&file, writer.path, &error), EXIT_OK);
	ck_assert_str_eq(file_metadata(&file, metadata[1].key), "");
	file_close(&file);
}

TEST(file_without_tensors_is_written)
{
	struct writer writer = {.path = scratch_path("empty.safetensors"), .fd = -1};

	ck_assert_int_eq(writer_open(&writer, &error), EXIT_OK);
	ck_assert_int_eq(writer_close(&writer, &error), EXIT_OK);
	check_file(writer.path, "{}", 0);
}

TEST(what_cannot_be_a_file_is_refused)
{
	static const uint64_t huge[] = {UINT64_C(1) << 62}, odd[] = {3}, block[] = {32};
	struct tensor twice[] = {{.name = "w", .dtype = DTYPE_U8}, {.name = "v", .dtype = DTYPE_U8},
	                         {.name = "w", .dtype = DTYPE_F32}};
	struct tensor reserved = {.name = "__metadata__", .dtype = DTYPE_U8};
	struct tensor large[] = {{.name = "a", .dtype = DTYPE_F4, .rank = 1, .shape = huge},
	                         {.name = "b", .dtype = DTYPE_U8, .rank = 1, .shape = huge}};
	struct tensor part = {.name = "w", .dtype = DTYPE_F4, .rank = 1, .shape = odd};
	struct tensor latin = {.name = "\xe9", .dtype = DTYPE_U8};
	struct tensor blocks = {.name = "w", .dtype = DTYPE_MXFP4, .rank = 1, .shape = block};
	const struct {
		struct tensor *tensors;
		size_t n;
		const char *why;
	} cases[] = {{twice, 3, "tensor 'w': the output would hold it twice"}, {&reserved, 1, "'__metadata__'"},
	             {large, 2, "too large"}, {&part, 1, "not whole bytes"}, {&latin, 1, "not UTF-8"},
	             {&blocks, 1, "dtype MXFP4 cannot"}};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct writer writer = {.path = scratch_path("refused"), .n_tensors = cases[i].n,
		                        .tensors = cases[i].tensors, .fd = -1};

		ck_assert_int_eq(writer_open(&writer, &error), EXIT_INPUT);
		ck_assert_msg(strstr(error.text, cases[i].why) != NULL, "%s", error.text);
		ck_assert_int_ne(access(writer.path, F_OK), 0);
		writer_abandon(&writer);
	}
}

TEST(existing_files_are_left)
{
	struct writer writer = {.path = scratch_write("there", "text", 4), .fd = -1};
	size_t n;

	ck_assert_int_eq(writer_open(&writer, &error), EXIT_IO);
	char *bytes = scratch_read(writer.path, &n);
	ck_assert_str_eq(bytes, "text");
	free(bytes);
}

TEST(missing_bytes_are_noticed)
{
	struct tensor tensor = {.name = "w", .dtype = DTYPE_U16};
	struct writer writer = {.path = scratch_path("missing"), .n_tensors = 1, .tensors = &tensor, .fd = -1};

	ck_assert_int_eq(writer_open(&writer, &error), EXIT_OK);
	ck_assert_int_eq(writer_write(&writer, &tensor, 1, "", 1, &error), EXIT_OK);
	ck_assert_int_eq(writer_close(&writer, &error), EXIT_IO);
	ck_assert_int_eq(writer.fd, -1);
}

static void carry(struct writer *writer, const struct file *file)
{
	writer->metadata = file->metadata;
	writer->n_metadata = file->n_metadata;
}

TEST(files_of_the_reference_writer_are_copied_to_the_byte)
{
	/* Written by the reference implementation, each of one dtype. */
	static const char *const names[] = {
		"weights/textgenrnn.f32.safetensors", "weights/stories260K/stories260K.hf.f32.safetensors",
		"weights/stories260K/stories260K.hf.bf16.safetensors",
		"weights/stories260K/sharded/model-00001-of-00003.safetensors",
	};

	copies_check(names, sizeof names / sizeof names[0], carry);
}

enum { ITEMS = 4, HALF_LINE = 32 };

static const char *const item_names[ITEMS] = {"a", "b", "c", "d"};

/* What a job does of a file that can be continued: which items it writes, each a byte, and whether the journal has those before them
   alone. One that is deleted cannot be written again. */
struct items {
	const char *journal;
	struct writer *writer;
	size_t lines; /* that the journal has to have */
	unsigned written, deleted;
	bool is_true;
};

/* Lines of the journal. */
static size_t count_lines(const char *path)
{
	size_t n, lines = 0;
	char *bytes = scratch_read(path, &n);

	for (size_t i = 0; i < n; i++)
		lines += bytes[i] == '\n';
	free(bytes);
	return lines;
}

static int write_item(const void *context, size_t i, struct journal_record *record, struct error *unused)
{
	struct items *items = (struct items *)context;

	items->is_true = items->is_true && count_lines(items->journal) == items->lines++;
	items->written |= 1U << i;
	record->counts.saturated += i;
	return writer_write(items->writer, writer_find(items->writer, item_names[i]), 0, item_names[i], 1, unused);
}

static bool item_output(const void *context, size_t i, size_t k, const char **name)
{
	(void)context;
	*name = item_names[i];
	return k == 0;
}

static const char *item_lacks(const void *context, size_t i)
{
	const struct items *items = context;

	return (items->deleted >> i & 1) != 0 ? "source" : NULL;
}

/* So much that each item is waited for. */
static void item_sizes(const void *context, size_t i, uint64_t *read, uint64_t *written)
{
	(void)context, (void)i;
	*read = 0;
	*written = UINT64_C(1) << 30;
}

enum { REFUSED = 0x100 };

/* Runs the job; returns the items that it wrote, or that it was refused. */
static unsigned run_items(const char *path, const char *journal, unsigned deleted)
{
	static const uint64_t one[] = {1};
	static struct transfer transfer;
	struct tensor tensors[ITEMS];
	struct items items = {.journal = journal, .writer = &transfer.writer, .deleted = deleted, .is_true = true};
	const struct resumed_job job = {write_item, item_sizes, item_output, NULL, item_lacks, &items};
	struct resumed resumed = {.path = strdup(path), .journal_path = strdup(journal), .n = ITEMS,
	                          .records = calloc(ITEMS, sizeof *resumed.records)};

	for (size_t i = 0; i < ITEMS; i++)
		tensors[i] = (struct tensor){.name = item_names[i], .dtype = DTYPE_U8, .rank = 1, .shape = one};
	ck_assert_int_eq(journal_open(&resumed.journal, resumed.journal_path, resumed.records, ITEMS, &error), EXIT_OK);
	items.lines = count_lines(journal);
	transfer.writer = (struct writer){.path = resumed.path, .n_tensors = ITEMS, .tensors = tensors, .fd = -1};
	const int code = resumed_write(&resumed, &transfer, &job, &error);
	ck_assert_int_eq(code, items.deleted == 0 || code == EXIT_OK ? EXIT_OK : EXIT_INPUT);
	for (size_t i = 0; i < ITEMS && code == EXIT_OK; i++)
		ck_assert_uint_eq(resumed.records[i].counts.saturated, i);
	writer_abandon(&transfer.writer);
	resumed_end(&resumed);
	ck_assert(items.is_true);
	ck_assert(code == EXIT_OK || items.written == 0);
	return code == EXIT_OK ? items.written : REFUSED;
}

TEST(the_journal_has_what_is_written)
{
	char *path = strdup(scratch_path("continued")), *journal = strdup(scratch_path("continued.journal"));
	size_t n, size;

	remove(path);
	remove(journal);
	ck_assert_uint_eq(run_items(path, journal, 0), 0xF);
	ck_assert_uint_eq(count_lines(journal), ITEMS);
	ck_assert_uint_eq(run_items(path, journal, 0), 0);
	/* Half a line: the last item again. */
	char *bytes = scratch_read(journal, &n), *file = scratch_read(path, &size);
	ck_assert_int_eq(truncate(journal, (off_t)n - HALF_LINE), 0);
	ck_assert_uint_eq(run_items(path, journal, 8), REFUSED);
	ck_assert_uint_eq(run_items(path, journal, 7), 8);
	/* A number that is not what was written: that item. */
	bytes[strchr(bytes, '\n') - bytes + 1] = '3';
	scratch_write("continued.journal", bytes, n);
	ck_assert_uint_eq(run_items(path, journal, 2), REFUSED);
	ck_assert_uint_eq(run_items(path, journal, 0xD), 2);
	ck_assert_uint_eq(run_items(path, journal, 0xF), 0);
	/* A byte, the third of the data, that is not what was written: that item. */
	file[size - 2] ^= 1;
	scratch_write("continued", file, size);
	ck_assert_uint_eq(run_items(path, journal, 4), REFUSED);
	ck_assert_uint_eq(run_items(path, journal, 0xB), 4);
	file[size - 2] ^= 1;
	/* A file that is longer is cut, one that is shorter lacks its last item; unless that cannot be. */
	scratch_write("continued", file, size + 1);
	ck_assert_uint_eq(run_items(path, journal, 1), REFUSED);
	ck_assert_uint_eq(run_items(path, journal, 0), 0);
	ck_assert_int_eq(truncate(path, (off_t)size - 1), 0);
	ck_assert_uint_eq(run_items(path, journal, 1), REFUSED);
	ck_assert_uint_eq(run_items(path, journal, 0), 8);
	remove(path);
	ck_assert_uint_eq(run_items(path, journal, 1), REFUSED);
	ck_assert_uint_eq(run_items(path, journal, 0), 0xF);
	free(file);
	free(bytes);
	free(path);
	free(journal);
}
