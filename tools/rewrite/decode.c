/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "rewrite/decode.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/infinity.h"
#include "base/library.h"
#include "base/must_succeed.h"
#include "io/counts.h"
#include "io/elements.h"
#include "io/ggml_q8.h"
#include "mxfp/convert.h"

enum dtype decode_dtype(enum mxfp_format format)
{
	int dtype = 0;

	while (!dtype_info((enum dtype)dtype)->numeric || dtype_info((enum dtype)dtype)->format != format)
		dtype++;
	return (enum dtype)dtype;
}

void decode_shape(uint64_t *shape, const struct quantized *quantized)
{
	const unsigned rank = quantized->shape.rank;

	memcpy(shape, quantized->shape.dims, rank * sizeof *shape);
	if (quantized->transposed) {
		shape[rank - 1] = quantized->shape.dims[rank - 2];
		shape[rank - 2] = quantized->shape.dims[rank - 1];
	}
}

static bool any_inf(enum mxfp_format format, const unsigned char *words, size_t n)
{
	const uint32_t inf = infinity_word(format);
	uint32_t word;
	uint16_t half;
	bool any = false;

	for (size_t i = 0; format == MXFP_FORMAT_F32 && i < n; i++) {
		memcpy(&word, words + i * sizeof word, sizeof word);
		any |= (word & 0x7FFFFFFF) == inf;
	}
	for (size_t i = 0; format != MXFP_FORMAT_F32 && i < n; i++) {
		memcpy(&half, words + i * sizeof half, sizeof half);
		any |= (half & 0x7FFF) == inf;
	}
	return any;
}

/* Counts the numbers that became Inf though what is stored is finite: its codes are `stored`, or none is Inf. */
static void meet_overflow(enum mxfp_format format, unsigned char *words, size_t n, const float *stored, int overflow,
                          struct mxfp_counts *counts)
{
	const bool saturate = overflow == MXFP_OVERFLOW_SAT;

	for (size_t i = 0; i < n; i++)
		if ((stored == NULL || !isinf(stored[i])) && infinity_replace(format, words, i, saturate))
			*(saturate ? &counts->saturated : &counts->overflowed) += 1;
}

/* Adds the counts of a tensor, or refuses it. */
static int take_counts(const struct decode_target *to, const struct transfer *transfer, const struct tensor *target,
                       const struct mxfp_counts *counts, struct error *error)
{
	const enum mxfp_format format = dtype_info(target->dtype)->format;
	const char *name = mxfp_format_get_info(format)->name;
	const uint32_t word = largest_word(format);
	const uint16_t half = (uint16_t)word;
	float largest;

	if (to->overflow != OPTION_CHOICE_NONE || counts->overflowed == 0) {
		counts_add(to->counts, counts);
		return EXIT_OK;
	}
	must_succeed(mxfp_convert_array(&largest, MXFP_FORMAT_F32, format == MXFP_FORMAT_F32 ? (const void *)&word : &half, format, 1, NULL, NULL));
	return fail_tensor(error, transfer->file->path, target->name, "%" PRIu64 " of %" PRIu64 " numbers are too large for "
	                   "%s, whose largest is %.9g; %s%s%s", counts->overflowed, tensor_elements(target), name,
	                   (double)largest, format == MXFP_FORMAT_F32 ? "" : to->option,
	                   format == MXFP_FORMAT_F32 ? "" : " f32 has more room, ", to->remedy);
}

/* The state of decoding a tensor. */
struct decoding {
	struct transfer *transfer;
	const struct quantized *quantized;
	const struct tensor *target;
	const struct decode_target *to;
	bool transposed;            /* it was [.., in, out] */
	struct decode_place place;
	struct layout_bands *bands; /* of columns; NULL: none */
	float *factors;             /* of columns: quantized_read_pre_quant_scale() */
};

static struct mxfp_blocks blocks_of(const struct decoding *d, const struct transfer_piece *piece)
{
	return quantized_blocks(d->quantized, &piece->piece, piece->bytes, piece->bytes + PIECE_ELEMENTS);
}

static int read_piece(const void *context, const struct transfer_piece *piece, uint64_t *n_bytes, struct error *error)
{
	const struct decoding *d = context;
	const struct mxfp_blocks blocks = blocks_of(d, piece);

	if (d->bands != NULL)
		layout_bands_announce(d->bands, &piece->piece);
	return quantized_read(d->quantized, &piece->piece, &blocks, n_bytes, error);
}

/* Writes columns of rows from `row` on: `rows` numbers each, of which the next column's are `stride` bytes further. */
static int write_columns(const struct decoding *d, uint64_t row, size_t rows, uint64_t col, size_t cols,
                         const unsigned char *bytes, size_t stride, struct error *error)
{
	const uint64_t height = d->quantized->shape.dims[d->quantized->shape.rank - 2], width_of_all = d->quantized->cols;
	const size_t width = dtype_info(d->target->dtype)->bits / 8;
	int code = EXIT_OK;

	for (size_t i = 0; i < cols; i++)
		for (size_t at = 0, n; at < rows && code == EXIT_OK; at += n) {
			const uint64_t matrix = (row + at) / height, within = (row + at) % height;

			n = height - within < rows - at ? (size_t)(height - within) : rows - at;
			code = writer_write(&d->transfer->writer, d->target,
			                    (d->place.first + (matrix * width_of_all + col + i) * d->place.pitch + within) *
			                    width,
			                    bytes + i * stride + at * width, n * width, error);
		}
	return code;
}

/* Takes the columns of a piece together, into a band or into the piece's other memory, and writes what is complete. */
static int write_transposed(const struct decoding *d, const struct transfer_piece *piece, struct error *error)
{
	const struct piece *p = &piece->piece;
	const size_t width = dtype_info(d->target->dtype)->bits / 8;
	struct layout_band *band = d->bands != NULL ? layout_bands_find(d->bands, p) : NULL;
	unsigned char *to = band != NULL ? band->bytes + (p->row - band->row) * width : piece->bytes;
	const size_t stride = (band != NULL ? d->bands->rows : p->rows) * width;

	for (size_t row = 0; row < p->rows; row++)
		for (size_t col = 0; col < p->cols; col++)
			memcpy(to + col * stride + row * width, piece->result + (row * p->cols + col) * width, width);
	if (band == NULL)
		return write_columns(d, p->row, p->rows, p->col, p->cols, to, stride, error);
	if (!layout_bands_add(d->bands, band, p))
		return EXIT_OK;
	int code = write_columns(d, band->row, band->rows, 0, p->cols, band->bytes, stride, error);
	layout_bands_release(d->bands, band);
	return code;
}

/* Decodes a piece and multiplies its columns: each product is rounded to binary32, and from that to the target. */
static void decode_and_fold(const struct decoding *d, const struct transfer_piece *piece, const struct mxfp_matrix *matrix)
{
	const struct piece *p = &piece->piece;
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = 1};
	const struct mxfp_convert_options options = {.size = sizeof options, .overflow = MXFP_OVERFLOW_OVF};
	const enum mxfp_format format = dtype_info(d->target->dtype)->format;
	float *numbers = (float *)(void *)piece->result;
	const size_t n = p->rows * p->cols;

	must_succeed(dense_dequantize(numbers, MXFP_FORMAT_F32, matrix, &exec));
	for (size_t i = 0; i < n; i++)
		numbers[i] *= d->factors[p->col + i % p->cols];
	if (format == MXFP_FORMAT_F32)
		return;
	must_succeed(mxfp_convert_array(piece->bytes, format, numbers, MXFP_FORMAT_F32, n, &options, &exec));
	memcpy(piece->result, piece->bytes, n * dtype_info(d->target->dtype)->bits / 8);
}

/* The codes of a piece as numbers, in the piece's memory behind its codes and scales, of which the scales become 1; NULL
   if no code is Inf. */
static const float *decode_codes(const struct decoding *d, const struct transfer_piece *piece)
{
	struct mxfp_blocks blocks = blocks_of(d, piece);
	const struct mxfp_matrix matrix = mxfp_blocks_matrix(&blocks);
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = 1};
	enum { SCALE_ONE = 127, SCALE_NAN = 255 };
	unsigned char *scales = blocks.scales, *numbers = piece->bytes + (size_t)PIECE_ELEMENTS * sizeof(float);
	struct mxfp_sizes size;

	_Static_assert(2 * PIECE_ELEMENTS * sizeof(float) <= TRANSFER_READ_BYTES, "room for codes, scales and numbers");
	if (mxfp_format_get_info(mxfp_format_get_info(blocks.format)->element)->special != MXFP_SPECIAL_IEEE)
		return NULL;
	must_succeed(mxfp_blocks_size(&size, blocks.format, blocks.rows, blocks.cols));
	for (size_t i = 0; i < size.scales_bytes; i++)
		if (scales[i] != SCALE_NAN)
			scales[i] = SCALE_ONE;
	must_succeed(dense_dequantize(numbers, MXFP_FORMAT_F32, &matrix, &exec));
	return (const float *)(const void *)numbers;
}

static int decode_piece(const void *context, const struct transfer_piece *piece, struct mxfp_counts *counts,
                        struct error *error)
{
	const struct decoding *d = context;
	const struct piece *p = &piece->piece;
	const struct mxfp_blocks blocks = blocks_of(d, piece);
	const struct mxfp_matrix matrix = mxfp_blocks_matrix(&blocks);
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = 1};
	const enum mxfp_format format = dtype_info(d->target->dtype)->format;
	const size_t width = dtype_info(d->target->dtype)->bits / 8, n = p->rows * p->cols;

	if (d->factors != NULL)
		decode_and_fold(d, piece, &matrix);
	else
		must_succeed(dense_dequantize(piece->result, format, &matrix, &exec));
	if (any_inf(format, piece->result, n))
		meet_overflow(format, piece->result, n, decode_codes(d, piece), d->to->overflow, counts);
	dtype_swap(d->target->dtype, piece->result, n * width);
	if (d->transposed)
		return write_transposed(d, piece, error);
	return writer_write(&d->transfer->writer, d->target,
	                    (d->place.first + p->row * d->quantized->cols + p->col) * width, piece->result, n * width, error);
}

int decode_tensor(struct transfer *transfer, const struct quantized *quantized, const struct decode_target *to,
                  struct error *error)
{
	struct mxfp_counts counts = {.size = sizeof counts};
	const struct decode_place *place = to->place;
	struct quantized in_bands = *quantized;
	struct decoding d = {
		.transfer = transfer,
		.quantized = &in_bands,
		.to = to,
		.target = writer_find(&transfer->writer, to->name),
		.transposed = place != NULL ? place->pitch != 0 : quantized->transposed,
	};
	const struct transfer_job job = {
		.rows = quantized->rows,
		.cols = quantized->cols,
		.read = read_piece,
		.work = decode_piece,
		.context = &d,
		.counts = &counts,
	};

	int code = quantized_read_pre_quant_scale(quantized, &d.factors, error);
	if (code != EXIT_OK)
		return code;
	layout_read_in_bands(&in_bands);
	if (place != NULL)
		d.place = *place;
	else if (d.transposed)
		d.place.pitch = quantized->shape.dims[quantized->shape.rank - 2];
	if (d.transposed)
		d.bands = layout_bands_new(job.rows, job.cols, 0, (size_t)job.cols * (dtype_info(d.target->dtype)->bits / 8),
		                           LAYOUT_BANDS);
	code = transfer_run(transfer, &job, error);
	free(d.factors);
	layout_bands_free(d.bands);
	layout_bands_free(in_bands.bands);
	return code == EXIT_OK ? take_counts(to, transfer, d.target, &counts, error) : code;
}

/* The state of decoding a tensor of Q8_0, whose pieces are whole blocks, because its rows are, or one of numbers. */
struct decoding_numbers {
	struct transfer *transfer;
	const struct tensor *source, *target;
	const struct decode_target *to;
	uint64_t cols;
};

static uint64_t first_of(const struct decoding_numbers *d, const struct transfer_piece *piece)
{
	return piece->piece.row * d->cols + piece->piece.col;
}

/* What is finite in binary64 and not in binary32, which that does not tell from an Inf that is stored. */
static int check_range(const struct decoding_numbers *d, uint64_t first, const float *numbers, size_t n, struct error *error)
{
	for (size_t i = 0; i < n && d->source->dtype == DTYPE_F64; i++) {
		double x;

		if (!isinf(numbers[i]))
			continue;
		const int code = file_read(d->transfer->file, d->source, (first + i) * sizeof x, &x, sizeof x, error);
		dtype_swap(DTYPE_F64, &x, sizeof x);
		if (code != EXIT_OK || isfinite(x))
			return code != EXIT_OK ? code : fail_tensor(error, d->transfer->file->path, d->source->name, "element %" PRIu64 " is "
			                                            "%g, too large for f32; leave --all out", first + i, x);
	}
	return EXIT_OK;
}

static int read_numbers(const void *context, const struct transfer_piece *piece, uint64_t *n_bytes, struct error *error)
{
	const struct decoding_numbers *d = context;
	const struct file *file = d->transfer->file;
	const size_t n = piece->piece.rows * piece->piece.cols;
	const uint64_t first = first_of(d, piece);
	float *numbers = (float *)(void *)piece->bytes;

	*n_bytes = (uint64_t)(dtype_bits(d->source->dtype) * (double)n / 8);
	if (d->source->dtype == DTYPE_Q8_0)
		return file_read(file, d->source, first / Q8_0_ELEMENTS * Q8_0_BYTES, piece->bytes, n / Q8_0_ELEMENTS * Q8_0_BYTES, error);
	int code = elements_read(file, d->source, first, numbers, n, error);
	return code == EXIT_OK ? check_range(d, first, numbers, n, error) : code;
}

static int decode_numbers_piece(const void *context, const struct transfer_piece *piece, struct mxfp_counts *counts,
                                struct error *error)
{
	const struct decoding_numbers *d = context;
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = 1};
	const struct mxfp_convert_options options = {.size = sizeof options, .overflow = MXFP_OVERFLOW_OVF};
	const enum dtype dtype = d->target->dtype;
	const enum mxfp_format format = dtype_info(dtype)->format;
	const size_t n = piece->piece.rows * piece->piece.cols, width = dtype_info(dtype)->bits / 8;
	float *numbers = (float *)(void *)piece->result;

	/* A product of a finite f16 number and 127 is finite in binary32. */
	if (d->source->dtype == DTYPE_Q8_0)
		q8_0_decode(numbers, piece->bytes, n / Q8_0_ELEMENTS);
	else
		memcpy(numbers, piece->bytes, n * sizeof *numbers);
	must_succeed(mxfp_convert_array(piece->bytes, format, numbers, MXFP_FORMAT_F32, n, &options, &exec));
	if (any_inf(format, piece->bytes, n))
		meet_overflow(format, piece->bytes, n, numbers, d->to->overflow, counts);
	dtype_swap(dtype, piece->bytes, n * width);
	return writer_write(&d->transfer->writer, d->target, first_of(d, piece) * width, piece->bytes, n * width, error);
}

int decode_numbers(struct transfer *transfer, const struct tensor *source, const struct decode_target *to,
                   struct error *error)
{
	struct mxfp_counts counts = {.size = sizeof counts};
	struct decoding_numbers d = {
		.transfer = transfer,
		.source = source,
		.to = to,
		.target = writer_find(&transfer->writer, to->name),
	};
	struct transfer_job job = {.read = read_numbers, .work = decode_numbers_piece, .context = &d, .counts = &counts};

	tensor_matrix(source, &job.rows, &job.cols);
	d.cols = job.cols;
	const int code = transfer_run(transfer, &job, error);
	return code == EXIT_OK ? take_counts(to, transfer, d.target, &counts, error) : code;
}
