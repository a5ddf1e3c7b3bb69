/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "rewrite/decode.h"

#include <string.h>

#include "base/must_succeed.h"
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

/* The state of decoding a tensor. */
struct decoding {
	struct transfer *transfer;
	const struct quantized *quantized;
	const struct tensor *target;
	bool transposed;            /* it was [.., in, out] */
	struct decode_place place;
	struct layout_bands *bands; /* of columns; NULL: none */
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

static int decode_piece(const void *context, const struct transfer_piece *piece, struct mxfp_counts *counts,
                        struct error *error)
{
	const struct decoding *d = context;
	const struct piece *p = &piece->piece;
	const struct mxfp_blocks blocks = blocks_of(d, piece);
	const struct mxfp_matrix matrix = mxfp_blocks_matrix(&blocks);
	const struct mxfp_exec exec = {.threads = 1};
	size_t width = dtype_info(d->target->dtype)->bits / 8, n = p->rows * p->cols * width;
	(void)counts;
	must_succeed(mxfp_dequantize(&matrix, piece->result, dtype_info(d->target->dtype)->format, 0, &exec));
	dtype_swap(d->target->dtype, piece->result, n);
	if (d->transposed)
		return write_transposed(d, piece, error);
	return writer_write(&d->transfer->writer, d->target,
	                    (d->place.first + p->row * d->quantized->cols + p->col) * width,
	                    piece->result, n, error);
}

int decode_tensor(struct transfer *transfer, const struct quantized *quantized, const char *name,
                  const struct decode_place *place, struct error *error)
{
	struct quantized in_bands = *quantized;
	struct decoding d = {
		.transfer = transfer,
		.quantized = &in_bands,
		.target = writer_find(&transfer->writer, name),
		.transposed = place != NULL ? place->pitch != 0 : quantized->transposed,
	};
	const struct transfer_job job = {
		.rows = quantized->rows,
		.cols = quantized->cols,
		.read = read_piece,
		.work = decode_piece,
		.context = &d,
	};

	layout_read_in_bands(&in_bands);
	if (place != NULL)
		d.place = *place;
	else if (d.transposed)
		d.place.pitch = quantized->shape.dims[quantized->shape.rank - 2];
	if (d.transposed)
		d.bands = layout_bands_new(job.rows, job.cols, 0, (size_t)job.cols * (dtype_info(d.target->dtype)->bits / 8),
		                           LAYOUT_BANDS);
	int code = transfer_run(transfer, &job, error);
	layout_bands_free(d.bands);
	layout_bands_free(in_bands.bands);
	return code;
}

/* The state of decoding a tensor of Q8_0. Its pieces are whole blocks, because its rows are. */
struct decoding_q8_0 {
	struct transfer *transfer;
	const struct tensor *source, *target;
	uint64_t cols;
};

static uint64_t first_of(const struct decoding_q8_0 *d, const struct transfer_piece *piece)
{
	return piece->piece.row * d->cols + piece->piece.col;
}

static int read_q8_0(const void *context, const struct transfer_piece *piece, uint64_t *n_bytes, struct error *error)
{
	const struct decoding_q8_0 *d = context;
	const size_t n = piece->piece.rows * piece->piece.cols / Q8_0_ELEMENTS * Q8_0_BYTES;

	*n_bytes = n;
	return file_read(d->transfer->file, d->source, first_of(d, piece) / Q8_0_ELEMENTS * Q8_0_BYTES, piece->bytes, n,
	                 error);
}

static int decode_q8_0_piece(const void *context, const struct transfer_piece *piece, struct mxfp_counts *counts,
                             struct error *error)
{
	const struct decoding_q8_0 *d = context;
	const struct mxfp_exec exec = {.threads = 1};
	const struct mxfp_convert_options options = {.overflow = MXFP_OVERFLOW_OVF, .exec = &exec};
	const enum dtype dtype = d->target->dtype;
	const size_t n = piece->piece.rows * piece->piece.cols, width = dtype_info(dtype)->bits / 8;

	(void)counts;
	q8_0_decode((float *)(void *)piece->result, piece->bytes, n / Q8_0_ELEMENTS);
	must_succeed(mxfp_convert(piece->bytes, dtype_info(dtype)->format, piece->result, MXFP_FORMAT_F32, n,
	                          &options));
	dtype_swap(dtype, piece->bytes, n * width);
	return writer_write(&d->transfer->writer, d->target, first_of(d, piece) * width, piece->bytes, n * width, error);
}

int decode_q8_0(struct transfer *transfer, const struct tensor *source, const char *name, struct error *error)
{
	struct decoding_q8_0 d = {
		.transfer = transfer,
		.source = source,
		.target = writer_find(&transfer->writer, name),
	};
	struct transfer_job job = {.read = read_q8_0, .work = decode_q8_0_piece, .context = &d};

	tensor_matrix(source, &job.rows, &job.cols);
	d.cols = job.cols;
	return transfer_run(transfer, &job, error);
}
