/* SPDX-License-Identifier: MIT */
/*
 * Writer of GGUF files, whose layout file_gguf.c describes. Tensors keep the order that they are given. The key-values
 * are those of the source file to the byte, and the metadata as strings where the source lacks the key. Of both, keys
 * of our own are those of the metadata, since the source's may not hold any more. Two numbers follow from the tensors:
 * general.quantization_version if there are blocks, and general.file_type, which llama.cpp shows as the kind of file.
 */
#include "config.h"

#include "io/file_gguf.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/descriptor.h"

enum {
	QUANTIZATION_VERSION = 2,    /* GGML_QNT_VERSION */
	NAME_BYTES_MAX = 63,         /* readers that follow ggml take no longer ones, whatever the format says */
	COPY_BYTES = 1 << 14,
	PAIRS_AT = 4 + 4 + 8,        /* where the number of pairs stands */
	N_DERIVED = 2
};

/* enum llama_ftype (llama.cpp/include/llama.h) of files whose tensors are mostly of a dtype. */
static const struct {
	enum dtype dtype;
	uint32_t file_type;
} file_types[] = {
	{DTYPE_F32, 0}, {DTYPE_F16, 1}, {DTYPE_Q8_0, 7}, {DTYPE_BF16, 32}, {DTYPE_MXFP4, 38}, {DTYPE_NVFP4, 39},
};

static const char own_prefix[] = "mxfp.";

/* A pair that follows from the tensors. */
struct derived {
	const char *key;
	uint32_t value;
};

/* A header being put together in memory. */
struct header {
	const struct writer *writer;
	unsigned n_derived;
	struct derived derived[N_DERIVED];
	FILE *stream;
	char *bytes;
	size_t n;
	uint64_t n_pairs;
};

/* The number that the file's general.file_type becomes, or -1: blocks decide if there are any, and among them, as among
   numbers, the dtype with the most elements. */
static int64_t file_type(const struct writer *writer)
{
	uint64_t elements[N_DTYPES] = {0};
	int most = -1;

	for (size_t i = 0; i < writer->n_tensors; i++)
		elements[writer->tensors[i].dtype] += tensor_elements(&writer->tensors[i]);
	for (int d = 0; d < N_DTYPES; d++) {
		const bool blocks = dtype_info((enum dtype)d)->block_elements > 1;
		const bool instead = most < 0 || (blocks && dtype_info((enum dtype)most)->block_elements == 1) ||
		                     elements[d] > elements[most];

		if (elements[d] > 0 && instead)
			most = d;
	}
	for (size_t i = 0; i < sizeof file_types / sizeof file_types[0]; i++)
		if ((int)file_types[i].dtype == most)
			return file_types[i].file_type;
	return -1;
}

static bool has_blocks(const struct writer *writer)
{
	for (size_t i = 0; i < writer->n_tensors; i++)
		if (dtype_info(writer->tensors[i].dtype)->block_elements > 1)
			return true;
	return false;
}

/* The pairs that follow from the tensors; returns how many. */
static unsigned derive_pairs(const struct writer *writer, struct derived derived[N_DERIVED])
{
	const int64_t type = file_type(writer);
	unsigned n = 0;

	if (has_blocks(writer))
		derived[n++] = (struct derived){GGUF_KEY_QUANTIZATION, QUANTIZATION_VERSION};
	if (type >= 0)
		derived[n++] = (struct derived){GGUF_KEY_FILE_TYPE, (uint32_t)type};
	return n;
}

/* The state of the file whose pairs are carried along, or NULL. */
static const struct gguf *source_of(const struct writer *writer)
{
	return writer->source != NULL && writer->source->format == &file_gguf ? writer->source->state : NULL;
}

static uint32_t alignment_of(const struct writer *writer)
{
	const struct gguf *source = source_of(writer);

	return source != NULL ? source->alignment : GGUF_ALIGNMENT;
}

static bool is_own(const char *key)
{
	return strncmp(key, own_prefix, strlen(own_prefix)) == 0;
}

static bool is_derived(const struct header *h, const char *key)
{
	for (unsigned i = 0; i < h->n_derived; i++)
		if (strcmp(h->derived[i].key, key) == 0)
			return true;
	return false;
}

static int compare_keys(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Whether a pair of the metadata is written: a source says its alignment itself. */
static bool is_added(const struct header *h, const char *key)
{
	const struct gguf *source = source_of(h->writer);

	if (is_own(key))
		return true;
	if (is_derived(h, key) || strcmp(key, GGUF_KEY_ALIGNMENT) == 0)
		return false;
	return source == NULL || source->n_pairs == 0 ||
	       bsearch(&key, source->keys, source->n_pairs, sizeof *source->keys, compare_keys) == NULL;
}

static void put_number(struct header *h, uint64_t number, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		putc((int)(number >> 8 * i & 0xFF), h->stream);
}

static void put_string(struct header *h, const char *text)
{
	put_number(h, strlen(text), 8);
	fputs(text, h->stream);
}

static int put_carried(struct header *h, const struct gguf_pair *pair, struct error *error)
{
	const struct file *source = h->writer->source;
	char bytes[COPY_BYTES];
	int code = EXIT_OK;

	for (uint64_t done = 0; done < pair->size && code == EXIT_OK;) {
		uint64_t left = pair->size - done;
		size_t n = left < sizeof bytes ? (size_t)left : sizeof bytes;

		code = descriptor_read(source->fd, source->path, pair->from + done, bytes, n, error);
		if (code == EXIT_OK)
			fwrite(bytes, 1, n, h->stream);
		done += n;
	}
	h->n_pairs++;
	return code;
}

static int put_added(struct header *h, const struct metadata *metadata, struct error *error)
{
	if (strlen(metadata->key) > GGUF_KEY_MAX)
		return fail(error, EXIT_INPUT, "%s: metadata key '%.48s...' has more than the %d bytes that GGUF allows",
		            h->writer->path, metadata->key, (int)GGUF_KEY_MAX);
	put_string(h, metadata->key);
	put_number(h, GGUF_STRING, 4);
	put_string(h, metadata->value);
	h->n_pairs++;
	return EXIT_OK;
}

static int put_pairs(struct header *h, struct error *error)
{
	const struct gguf *source = source_of(h->writer);
	int code = EXIT_OK;

	for (size_t i = 0; source != NULL && i < source->n_pairs && code == EXIT_OK; i++)
		if (!is_own(source->pairs[i].key) && !is_derived(h, source->pairs[i].key))
			code = put_carried(h, &source->pairs[i], error);
	for (size_t i = 0; i < h->writer->n_metadata && code == EXIT_OK; i++)
		if (is_added(h, h->writer->metadata[i].key))
			code = put_added(h, &h->writer->metadata[i], error);
	for (unsigned i = 0; i < h->n_derived; i++, h->n_pairs++) {
		put_string(h, h->derived[i].key);
		put_number(h, GGUF_UINT32, 4);
		put_number(h, h->derived[i].value, 4);
	}
	return code;
}

static void put_tensor(struct header *h, const struct tensor *tensor)
{
	put_string(h, tensor->name);
	put_number(h, tensor->rank, 4);
	for (unsigned i = tensor->rank; i-- > 0;)
		put_number(h, tensor->shape[i], 8);
	put_number(h, (uint64_t)gguf_type(tensor->dtype), 4);
	put_number(h, tensor->offset, 8);
}

static int put_all(struct header *h, struct error *error)
{
	const struct writer *writer = h->writer;

	fputs(GGUF_MAGIC, h->stream);
	put_number(h, GGUF_VERSION, 4);
	put_number(h, writer->n_tensors, 8);
	put_number(h, 0, 8);
	int code = put_pairs(h, error);
	for (size_t i = 0; i < writer->n_tensors; i++)
		put_tensor(h, &writer->tensors[i]);
	while (ftell(h->stream) % alignment_of(writer) != 0)
		putc(0, h->stream);
	return code;
}

/* The whole header, with the padding after it. The caller frees the bytes, failed or not. */
static int format_header(struct header *h, const struct writer *writer, struct error *error)
{
	*h = (struct header){.writer = writer};
	h->n_derived = derive_pairs(writer, h->derived);
	h->stream = open_memstream(&h->bytes, &h->n);
	if (h->stream == NULL)
		return fail_memory(error);
	int code = put_all(h, error);
	bool failed = ferror(h->stream) != 0;
	failed = fclose(h->stream) != 0 || failed;
	if (code == EXIT_OK && failed)
		code = fail_memory(error);
	for (unsigned i = 0; i < 8 && code == EXIT_OK; i++)
		h->bytes[PAIRS_AT + i] = (char)(h->n_pairs >> 8 * i);
	return code;
}

static int check_tensor(const struct writer *writer, const struct tensor *tensor, struct error *error)
{
	if (gguf_type(tensor->dtype) < 0)
		return fail_tensor(error, writer->path, tensor->name, "GGUF has no type for %s / give the output a name "
		                   "that ends in .safetensors", dtype_info(tensor->dtype)->name);
	if (tensor->rank > GGUF_RANK_MAX)
		return fail_tensor(error, writer->path, tensor->name, "has %u dimensions, more than the %d of GGUF",
		                   tensor->rank, (int)GGUF_RANK_MAX);
	if (strlen(tensor->name) > NAME_BYTES_MAX)
		return fail_tensor(error, writer->path, tensor->name, "has a name of %zu bytes, more than the %d that "
		                   "readers of GGUF take", strlen(tensor->name), (int)NAME_BYTES_MAX);
	return EXIT_OK;
}

int gguf_lay_out(struct writer *writer, struct error *error)
{
	uint64_t end = 0;
	struct header header;
	int code = EXIT_OK;

	for (size_t i = 0; i < writer->n_tensors && code == EXIT_OK; i++) {
		struct tensor *tensor = &writer->tensors[i];

		code = check_tensor(writer, tensor, error);
		tensor->offset = gguf_align(end, alignment_of(writer));
		end = tensor->offset + tensor->size;
	}
	if (code != EXIT_OK)
		return code;
	code = format_header(&header, writer, error);
	writer->header_bytes = header.n;
	free(header.bytes);
	return code;
}

int gguf_finish(const struct writer *writer, struct error *error)
{
	const struct tensor *last = writer->n_tensors > 0 ? &writer->tensors[writer->n_tensors - 1] : NULL;
	uint64_t end = last != NULL ? gguf_align(last->offset + last->size, alignment_of(writer)) : 0;
	struct header header;
	int code = format_header(&header, writer, error);

	/* What nobody wrote, the padding, reads as zeros. */
	if (code == EXIT_OK && ftruncate(writer->fd, (off_t)(writer->header_bytes + end)) != 0)
		code = fail_errno(error, writer->path, "cannot be extended");
	if (code == EXIT_OK)
		code = descriptor_write(writer->fd, writer->path, 0, header.bytes, header.n, error);
	free(header.bytes);
	return code;
}
