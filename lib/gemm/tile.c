/* SPDX-License-Identifier: MIT */
/* Computes one tile of C: starts the sums, multiplies panels, finishes, quantizes and stores. */
#include "run.h"

#include <string.h>

#include "bits.h"
#include "blocks.h"
#include "f32.h"
#include "mma.h"

enum {
	SEGMENT = MXFP_GEMM_MOST_COLS, /* numbers rounded to psum at once: a row of a tile */
	STRIP = 256,                   /* numbers of a row that are finished at once; with what they need, 4 KiB */
	SLAB = 2048,                   /* numbers of whole rows of a tile between finishing and storing: 8 KiB */
	LINE_BYTES = 64,
	AHEAD = 2,                     /* rows between a prefetch and its use */
	AHEAD_BYTES = 16384            /* of W, likewise, in panels */
};

_Static_assert((int)SLAB >= (int)MXFP_GEMM_MOST_COLS, "a slab holds a row");

/* A tile of a unit. */
struct tile {
	const struct mxfp_gemm_call *call;
	const struct mxfp_gemm_unit *unit;
	const struct mxfp_gemm_plan *p;
	size_t row, rows;          /* within the unit */
	size_t col, cols;
	size_t panels, w_panels;   /* of A and of W */
	struct mxfp_gemm_area *area;
};

static struct tile tile_of(const struct mxfp_gemm_call *call, const struct mxfp_gemm_unit *unit, size_t i)
{
	const struct mxfp_gemm_plan *p = unit->plan;
	size_t in_column = mxfp_divide_up(unit->rows, p->tile_rows);
	struct tile t = {.call = call, .unit = unit, .p = p};

	t.row = i % in_column * p->tile_rows;
	t.rows = mxfp_least(p->tile_rows, unit->rows - t.row);
	t.col = i / in_column * unit->tile_cols;
	t.cols = mxfp_least(unit->tile_cols, p->n - t.col);
	if (p->kernel != NULL) {
		t.panels = mxfp_divide_up(t.rows, p->kernel->mr);
		t.w_panels = mxfp_divide_up(t.cols, p->kernel->nr);
	}
	return t;
}

/* Returns the sums of row `row` from column `col` on (both within the tile); *count of them are contiguous. */
static float *sums(const struct tile *t, size_t row, size_t col, size_t *count)
{
	const struct mxfp_gemm_kernel *kernel = t->p->kernel;

	if (kernel == NULL) {
		*count = t->cols - col;
		return t->area->tile + row * t->cols + col;
	}
	*count = mxfp_least(kernel->nr - col % kernel->nr, t->cols - col);
	return t->area->tile + (col / kernel->nr * t->panels + row / kernel->mr) * kernel->mr * kernel->nr +
	       row % kernel->mr * kernel->nr + col % kernel->nr;
}

static void convert_rounded(const struct tile *t, enum mxfp_format to, void *dst, enum mxfp_format from, const void *src,
                            size_t n, struct mxfp_rounding rounding, uint64_t first_index)
{
	struct mxfp_counts counts = {0};
	const struct mxfp_convert_job job = {
		.dst_format = to,
		.src_format = from,
		.dst = dst,
		.src = src,
		.n = n,
		.first_index = first_index,
		.rounding = rounding,
		.counts = &counts,
	};

	if (to == from)
		memcpy(dst, src, n * mxfp_format_get_info(to)->storage_bytes);
	else
		t->call->kernels->convert[to][from](&job);
}

static void convert(const struct tile *t, enum mxfp_format to, void *dst, enum mxfp_format from, const void *src,
                    size_t n)
{
	convert_rounded(t, to, dst, from, src, n, (struct mxfp_rounding){MXFP_ROUND_RNE, MXFP_OVERFLOW_OVF, false, 0, 0}, 0);
}

/* Returns the address of C[row][col] of the tile. */
static uint8_t *result(const struct tile *t, size_t row, size_t col)
{
	const struct mxfp_rows *c = &t->p->c.data;

	return (uint8_t *)(uintptr_t)c->data +
	       ((t->unit->row + t->row + row) * c->stride + t->col + col) * mxfp_format_get_info(c->format)->storage_bytes;
}

/* Whether tensor scales are still to be applied to the sums. In a chain the elements already have them, and if K is 0
   there is no sum. */
static bool scaled(const struct mxfp_gemm_plan *p)
{
	return p->acc != MXFP_ACC_CHAIN && p->k != 0 &&
	       (mxfp_format_get_info(p->a_format)->tensor_scale || mxfp_format_get_info(p->w.format)->tensor_scale);
}

static void start(const struct tile *t)
{
	const struct mxfp_gemm_kernel *kernel = t->p->kernel;
	size_t all = kernel != NULL ? t->panels * kernel->mr * t->w_panels * kernel->nr : t->rows * t->cols, count;

	memset(t->area->tile, 0, all * sizeof(float));
	if (!t->call->options->accumulate || scaled(t->p))
		return;
	for (size_t row = 0; row < t->rows; row++)
		for (size_t col = 0; col < t->cols; col += count) {
			float *c = sums(t, row, col, &count);

			convert(t, MXFP_FORMAT_F32, c, t->p->c.data.format, result(t, row, col), count);
		}
}

/* Rounds all sums to bf16 after pass `pass`. */
static void round_psum(const struct tile *t, size_t pass)
{
	const struct mxfp_gemm_options *o = t->call->options;
	const struct mxfp_rounding rounding = {o->psum_round, MXFP_OVERFLOW_OVF, false, o->seed, o->stream + pass};
	uint16_t rounded[SEGMENT];
	size_t count;

	for (size_t row = 0; row < t->rows; row++)
		for (size_t col = 0; col < t->cols; col += count) {
			float *c = sums(t, row, col, &count);

			convert_rounded(t, MXFP_FORMAT_BF16, rounded, MXFP_FORMAT_F32, c, count, rounding,
			                (uint64_t)(t->unit->row + t->row + row) * t->p->n + t->col + col);
			convert(t, MXFP_FORMAT_F32, c, MXFP_FORMAT_BF16, rounded, count);
		}
}

/* fl32(a * b). */
static float multiply(float a, float b)
{
	return mxfp_f32_from_bits(mxfp_f32_mul(mxfp_f32_bits(a), mxfp_f32_bits(b)));
}

static void add_scale(struct mxfp_gemm_finish_job *job, const struct mxfp_matrix *matrix, enum mxfp_format format)
{
	float scale = matrix->tensor_scale;

	if (!mxfp_format_get_info(format)->tensor_scale)
		return;
	if (matrix->tensor_scale_divides) {
		job->divide = job->divides ? multiply(job->divide, scale) : scale;
		job->divides = true;
	} else {
		job->multiply = job->multiplies ? multiply(job->multiply, scale) : scale;
		job->multiplies = true;
	}
}

/* Copies n sums of a row, which lie in pieces in the tiles of the kernel, to consecutive memory. */
static void gather(const struct tile *t, size_t row, size_t col, size_t n, float *to)
{
	const struct mxfp_gemm_kernel *kernel = t->p->kernel;
	size_t step = kernel != NULL ? t->panels * kernel->mr * kernel->nr : 0, count;
	const float *from = sums(t, row, col, &count);
	size_t i = mxfp_least(count, n);

	memcpy(to, from, i * sizeof *to);
	for (from += step - (kernel != NULL ? col % kernel->nr : 0); i < n; i += count, from += step) {
		count = mxfp_least(kernel->nr, n - i);
		memcpy(to + i, from, count * sizeof *to);
	}
}

/* Rows of a tile between finishing and storing. */
struct slab {
	size_t row, rows; /* within the tile */
	float *values;
	size_t stride;    /* elements */
};

/* Returns a slab of the tile from row `row` on: in C itself if its format and alignment allow it and it is not to be
   read, which saves a copy, else in `buffer`, which has room for SLAB numbers. The caller's epilogue sees a whole tile. */
static struct slab slab_of(const struct tile *t, size_t row, float *buffer)
{
	const struct mxfp_gemm_options *o = t->call->options;
	const struct mxfp_gemm_plan *p = t->p;
	struct slab s = {.row = row, .rows = t->rows - row, .values = t->area->values, .stride = t->cols};

	if (o->epilogue != NULL)
		return s;
	if (p->c.data.data != NULL && p->c.data.format == MXFP_FORMAT_F32 && (uintptr_t)p->c.data.data % _Alignof(float) == 0 &&
	    !mxfp_gemm_in_place(p, &p->gate) && !mxfp_gemm_in_place(p, &p->residual)) {
		s.values = (float *)(void *)result(t, row, 0);
		s.stride = p->c.data.stride;
	} else {
		s.values = buffer;
	}
	s.rows = mxfp_least(s.rows, SLAB / t->cols);
	return s;
}

/* Returns n numbers of the gate or the residual from (row, col) of the tile on, or NULL if there is none. */
static const float *like_c(const struct tile *t, const struct mxfp_rows *rows, size_t row, size_t col, size_t n,
                           float *buffer)
{
	if (rows->stride == 0)
		return NULL;
	return mxfp_load_strip(t->call->kernels, rows, t->unit->row + t->row + row, t->col + col, n, buffer);
}

/* Asks for row `row` of the tile of the gate or the residual. Rows of a tile are short and lie far apart, so that no
   processor foresees them; without this a gate takes a third more time. */
static void prefetch(const struct tile *t, const struct mxfp_rows *rows, size_t row)
{
	if (rows->stride == 0 || row >= t->rows)
		return;
	size_t width = mxfp_format_get_info(rows->format)->storage_bytes;
	const uint8_t *at = (const uint8_t *)rows->data +
	                    ((t->unit->row + t->row + row) * rows->stride + t->col) * width;

	for (size_t i = 0; i < t->cols * width; i += LINE_BYTES)
		__builtin_prefetch(at + i);
}

/* Finishes n sums, at most STRIP, from (row, col) of the tile on. `scales` has the tensor scales. */
static void finish_strip(const struct tile *t, const struct mxfp_gemm_finish_job *scales, size_t row, size_t col,
                         size_t n, float *values)
{
	const struct mxfp_gemm_options *o = t->call->options;
	float sum[STRIP], given[STRIP], gate[STRIP], residual[STRIP];
	struct mxfp_gemm_finish_job job = *scales;

	gather(t, row, col, n, sum);
	job.n = n;
	job.sum = sum;
	job.result = values;
	if (o->accumulate && scaled(t->p)) {
		convert(t, MXFP_FORMAT_F32, given, t->p->c.data.format, result(t, row, col), n);
		job.given = given;
	}
	job.bias = t->p->bias != NULL ? t->p->bias + t->col + col : NULL;
	if (o->activation != MXFP_FUNCTION_IDENTITY) {
		const struct mxfp_apply_job apply = {
			.function = o->activation,
			.parameter = t->call->activation_parameter,
			.src = values,
			.dst = values,
			.n = n,
		};

		t->call->kernels->gemm_finish(&job);
		t->call->kernels->apply[o->activation](&apply);
		if (t->p->gate.stride == 0 && t->p->residual.stride == 0)
			return;
		job = (struct mxfp_gemm_finish_job){.n = n, .sum = values, .result = values};
	}
	job.gate = like_c(t, &t->p->gate, row, col, n, gate);
	job.residual = like_c(t, &t->p->residual, row, col, n, residual);
	t->call->kernels->gemm_finish(&job);
}

static void call_epilogue(const struct tile *t, const struct slab *s)
{
	const struct mxfp_gemm_options *o = t->call->options;
	const struct mxfp_gemm_tile shown = {
		.product = t->p->index,
		.row = t->unit->row + t->row + s->row,
		.col = t->col,
		.rows = s->rows,
		.cols = t->cols,
		.values = s->values,
		.stride = s->stride,
	};

	const struct mxfp_fp_state before = mxfp_fp_state_get();
	mxfp_fp_state_set(t->call->fp_state);
	o->epilogue(o->epilogue_context, &shown);
	mxfp_fp_state_set(before);
	for (size_t row = 0; row < s->rows; row++) {
		float *values = s->values + row * s->stride;
		/* Adds nothing, but makes the NaNs of the caller's function canonical. */
		const struct mxfp_gemm_finish_job job = {.n = t->cols, .sum = values, .result = values};

		t->call->kernels->gemm_finish(&job);
	}
}

/* Quantizes a slab. Indices of a job's rows follow each other, so where they matter a row is a job. */
static void store_blocks(const struct tile *t, const struct slab *s)
{
	const struct mxfp_quantize_job *whole = &t->p->c.job;
	size_t first = t->unit->row + t->row + s->row, step = whole->rounding.mode == MXFP_ROUND_SR ? 1 : s->rows;
	struct mxfp_quantize_job job = *whole;

	job.cols = t->cols;
	job.src_stride = s->stride;
	job.counts = t->area->counts;
	for (size_t row = 0; row < s->rows; row += step) {
		job.rows = step;
		job.src = s->values + row * s->stride;
		job.codes = whole->codes + mxfp_codes_offset(job.format, job.codes_stride, first + row, t->col);
		job.scales = whole->scales + mxfp_scales_offset(job.format, job.scales_stride, first + row, t->col);
		job.first_index = whole->first_index + (uint64_t)(first + row) * t->p->n + t->col;
		t->call->kernels->quantize[job.format](&job);
	}
}

static void store(const struct tile *t, const struct slab *s)
{
	if (t->p->c.data.data != NULL && (uint8_t *)s->values != result(t, s->row, 0))
		for (size_t row = 0; row < s->rows; row++)
			convert(t, t->p->c.data.format, result(t, s->row + row, 0), MXFP_FORMAT_F32,
			        s->values + row * s->stride, t->cols);
	if (t->p->c.blocks != NULL)
		store_blocks(t, s);
}

/* Finishes the sums and stores them in C and its blocks. */
static void finish(const struct tile *t)
{
	struct mxfp_gemm_finish_job scales = {0};
	float buffer[SLAB];
	struct slab s;

	if (scaled(t->p)) {
		add_scale(&scales, &t->p->a, t->p->a_format);
		add_scale(&scales, &t->p->w, t->p->w.format);
	}
	for (size_t row = 0; row < t->rows; row += s.rows) {
		s = slab_of(t, row, buffer);
		for (size_t i = 0; i < s.rows; i++) {
			prefetch(t, &t->p->gate, row + i + AHEAD);
			prefetch(t, &t->p->residual, row + i + AHEAD);
			for (size_t col = 0; col < t->cols; col += STRIP)
				finish_strip(t, &scales, row + i, col, mxfp_least(STRIP, t->cols - col),
				             s.values + i * s.stride + col);
		}
		if (t->call->options->epilogue != NULL)
			call_epilogue(t, &s);
		store(t, &s);
	}
}

/* Returns the panel of W some panels after panel i of a tile's chunk at k0, in the order in which they are multiplied. */
static const uint8_t *later_panel(const struct tile *t, const uint8_t *w, size_t w_bytes, size_t k0, size_t i)
{
	const struct mxfp_gemm_plan *p = t->p;
	const size_t later = i + mxfp_divide_up(AHEAD_BYTES, w_bytes), last = t->w_panels - 1;

	if (later <= last || p->w_panels == NULL)
		return w + mxfp_least(later, last) * w_bytes;
	if (p->k - k0 <= p->chunk)
		return w + last * w_bytes;
	return w + mxfp_divide_up(p->n, p->kernel->nr) * w_bytes + mxfp_least(later - t->w_panels, last) * w_bytes;
}

/* Returns how many panels of W, from the tile's first on, are multiplied where they lie: for few rows packing would take
   longer than multiplying. A last panel that W does not fill is packed. */
static size_t panels_in_place(const struct tile *t)
{
	const struct mxfp_gemm_plan *p = t->p;

	if (!p->kernel->reads_lines || p->w_panels != NULL || !p->w.transposed || p->w.format != MXFP_FORMAT_F32 ||
	    t->rows > p->kernel->mr)
		return 0;
	return t->cols / p->kernel->nr;
}

/* Multiplies by panels `from` to end - 1 of a tile's chunk at k0, where panel 0 is w. */
static void multiply_panels(const struct tile *t, struct mxfp_gemm_multiply_job *job, const uint8_t *w, size_t k0, size_t from,
                            size_t end)
{
	const struct mxfp_gemm_kernel *kernel = t->p->kernel;

	job->panels = kernel->takes_panels ? end - from : 1;
	for (size_t i = from; i < end; i += job->panels) {
		job->c = t->area->tile + i * t->panels * kernel->mr * kernel->nr;
		job->w = w + i * job->w_bytes;
		job->w_later = later_panel(t, w, job->w_bytes, k0, i);
		kernel->multiply(job);
	}
}

static void multiply_chunk(const struct tile *t, size_t k0)
{
	const struct mxfp_gemm_plan *p = t->p;
	const struct mxfp_gemm_kernel *kernel = p->kernel;
	size_t k = mxfp_least(p->chunk, p->k - k0), chunks = k0 / p->chunk;
	size_t a_bytes = kernel->a_panel_bytes(&p->shape, k), w_bytes = kernel->w_panel_bytes(&p->shape, k);
	size_t a_before = chunks == 0 ? 0 : chunks * kernel->a_panel_bytes(&p->shape, p->chunk);
	size_t w_before = chunks == 0 ? 0 : chunks * kernel->w_panel_bytes(&p->shape, p->chunk);
	struct mxfp_gemm_multiply_job job = {
		.shape = &p->shape,
		.a = t->area->a,
		.rows = t->rows,
		.scratch = t->area->scratch,
		.k = k,
		.cpu = t->call->kernels->cpu,
	};
	const uint8_t *w = t->area->w, *lines = p->w.data;
	const size_t in_place = panels_in_place(t);

	if (p->span < p->k)
		mxfp_gemm_pack_span(t->call, t->unit, t->row, t->rows, k0, t->area);
	else
		job.a = t->unit->a + mxfp_divide_up(t->unit->rows, kernel->mr) * a_before + t->row / kernel->mr * a_bytes;
	if (p->w_panels != NULL)
		w = p->w_panels + mxfp_divide_up(p->n, kernel->nr) * w_before + t->col / kernel->nr * w_bytes;
	else
		mxfp_gemm_pack_w(t->call, p, t->col / kernel->nr + in_place, t->w_panels - in_place, k0, t->area->dense,
		                 t->area->w + in_place * w_bytes);
	if (in_place > 0) {
		job.w_stride = p->w.stride;
		job.w_bytes = kernel->nr * sizeof(float);
		multiply_panels(t, &job, lines + (k0 * p->w.stride + t->col) * sizeof(float), k0, 0, in_place);
	}
	job.w_stride = 0;
	job.w_bytes = w_bytes;
	multiply_panels(t, &job, w, k0, in_place, t->w_panels);
}

static void run_kernel(const struct tile *t)
{
	const struct mxfp_gemm_plan *p = t->p;

	for (size_t k0 = 0; k0 < p->k; k0 += p->chunk) {
		multiply_chunk(t, k0);
		if (t->call->options->psum == MXFP_FORMAT_BF16)
			round_psum(t, k0 / p->chunk);
	}
}

/* Returns A as rows for the reference, packed or the caller's, over the span at k0; *row is the tile's first row in it. */
static struct mxfp_matrix rows_of_a(const struct tile *t, size_t k0, size_t k, size_t *row)
{
	const struct mxfp_gemm_plan *p = t->p;
	const struct mxfp_gemm_row bytes = mxfp_gemm_row(p->a_format, k);
	const bool packed = t->unit->a_bytes != 0;
	struct mxfp_matrix a = p->a;

	*row = t->unit->row + t->row;
	if (mxfp_gemm_a_bytes(p, t->rows, k) == 0) {
		mxfp_gemm_columns(&a, k0, k);
		return a;
	}
	if (!packed)
		mxfp_gemm_pack_span(t->call, t->unit, t->row, t->rows, k0, t->area);
	*row = packed ? t->row : 0;
	a.format = p->a_format;
	a.transposed = false;
	a.rows = packed ? t->unit->rows : t->rows;
	a.cols = k;
	a.data = packed ? t->unit->a : t->area->a;
	a.stride = bytes.data / mxfp_stride_unit(p->a_format);
	a.scales = (const uint8_t *)a.data + a.rows * bytes.data;
	a.scales_stride = bytes.scales;
	return a;
}

/* Adds the sums over the span at k0, which begins with a pass, to those that the tile holds. Without passes C is rounded to
   psum once, in the end. */
static void reference_span(const struct tile *t, size_t k0)
{
	const struct mxfp_gemm_options *o = t->call->options;
	const struct mxfp_gemm_plan *p = t->p;
	const size_t k = mxfp_least(p->span, p->k - k0);
	const bool passes = p->shape.pass != MXFP_GEMM_NO_PASSES;
	size_t first;
	struct mxfp_matrix a = rows_of_a(t, k0, k, &first), w = p->w;
	struct mxfp_gemm_slice slice = {t->col, t->cols, k0, k};

	if (p->expands)
		w = mxfp_gemm_expand(t->call, &p->w, &slice, t->area->dense);
	else
		mxfp_gemm_columns(&w, k0, k);
	const struct mxfp_gemm_ref_job job = {
		.a = &a,
		.w = &w,
		.row = first,
		.rows = t->rows,
		.col = slice.row,
		.cols = t->cols,
		.acc = p->acc,
		.pass = p->shape.pass,
		.psum = passes || k == p->k - k0 ? o->psum : MXFP_FORMAT_F32,
		.psum_round = o->psum_round,
		.seed = o->seed,
		.stream = o->stream + (passes ? k0 / p->shape.pass : 0),
		.first_index = (uint64_t)(t->unit->row + t->row) * p->n + t->col,
		.index_stride = p->n,
		.c = t->area->tile,
	};

	(mxfp_mma_is(p->acc) ? t->call->kernels->gemm_mma : t->call->kernels->gemm_ref)(&job);
}

static void run_reference(const struct tile *t)
{
	for (size_t k0 = 0; k0 < t->p->k; k0 += t->p->span)
		reference_span(t, k0);
}

void mxfp_gemm_tile(const struct mxfp_gemm_call *call, const struct mxfp_gemm_unit *unit, size_t tile,
                    struct mxfp_gemm_area *area)
{
	struct tile t = tile_of(call, unit, tile);

	t.area = area;
	start(&t);
	if (t.p->kernel != NULL)
		run_kernel(&t);
	else
		run_reference(&t);
	finish(&t);
}
