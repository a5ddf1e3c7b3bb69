/* SPDX-License-Identifier: MIT */
/*
 * libmxfp-engine: mxfp/engine.h describes the model, chip.def has the constants. Of libmxfp it calls public functions alone.
 * Numbers that overflow saturate at UINT64_MAX, so that checking the sums once is enough.
 */
#include "mxfp/engine.h"

#include "mxfp/sparse.h"
#include "sized.h"
#include "gemm/product.h"

enum { WHOLE = 512, QUARTER = 128 }; /* pass_k */
enum { KILO = 1000, MEGA = 1000000 };
#define N_RATES ((enum mxfp_engine_rate)(MXFP_ENGINE_FP8_PLAIN + 1))

static const struct mxfp_engine_chip chips[] = {
#define MXFP_CHIP(...) {.size = sizeof(struct mxfp_engine_chip), __VA_ARGS__},
#include "chip.def"
};

enum { N_CHIPS = sizeof chips / sizeof chips[0] };

/* The sub-arrays and sums of a list of products, computed before anything is written. */
struct sums {
	const struct mxfp_engine_chip *chip;
	struct mxfp_engine_chip chip_copy; /* used if the caller's struct is of another version */
	unsigned cores, split; /* split: sub-arrays per core */
	uint64_t cycles, moving, macs, macs_depth, macs_tiles, bytes, ideal_ps;
};

/* The cost of one product on one sub-array. */
struct cost {
	enum mxfp_engine_rate rate;
	uint64_t depth, cycles, moving, load;
};

const struct mxfp_engine_chip *mxfp_engine_get_chip(int i)
{
	return i >= 0 && i < N_CHIPS ? &chips[i] : NULL;
}

static bool is_block(enum mxfp_format format)
{
	const struct mxfp_format_info *info = mxfp_format_get_info(format);

	return info != NULL && info->kind == MXFP_KIND_BLOCK;
}

/* Whether the format can be quantized. */
static bool is_source(enum mxfp_format format)
{
	return format == MXFP_FORMAT_F32 || format == MXFP_FORMAT_BF16 || format == MXFP_FORMAT_F16;
}

static uint64_t add(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t multiply(uint64_t a, uint64_t b)
{
	return b != 0 && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

/* Returns a * b / d rounded down. b and d are below 2^32, and at most one is above MEGA: no overflow of a % d * b. */
static uint64_t scale(uint64_t a, uint64_t b, uint64_t d)
{
	return a == UINT64_MAX ? a : add(multiply(a / d, b), a % d * b / d);
}

static uint64_t parts(uint64_t n, uint64_t size)
{
	return n / size + (n % size != 0);
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Returns the rate of an operand, or N_RATES if the chip has none for it. */
static enum mxfp_engine_rate operand_rate(const struct mxfp_engine_chip *chip, enum mxfp_format format)
{
	enum mxfp_engine_rate rate = N_RATES;

	if (format == MXFP_FORMAT_MXFP4)
		rate = MXFP_ENGINE_FP4;
	else if (format == MXFP_FORMAT_MXFP8_E4M3 || format == MXFP_FORMAT_MXFP8_E5M2)
		rate = MXFP_ENGINE_FP8;
	else if (format == MXFP_FORMAT_E4M3 || format == MXFP_FORMAT_E5M2)
		rate = MXFP_ENGINE_FP8_PLAIN;
	else if (format == MXFP_FORMAT_BF16 || format == MXFP_FORMAT_F16 || format == MXFP_FORMAT_TF32)
		rate = MXFP_ENGINE_16BIT;
	else if (format == MXFP_FORMAT_F32)
		rate = MXFP_ENGINE_F32;
	return rate != N_RATES && chip->rates[rate].peak_gflop_s != 0 ? rate : N_RATES;
}

/* Returns the format in which the engine multiplies A. */
static enum mxfp_format engine_a_format(const struct mxfp_product *p, const struct mxfp_gemm_options *options)
{
	return options->a_format != MXFP_FORMAT_F32 ? options->a_format : p->a->format;
}

/* The format of C, of a product that has passed is_known(). */
static enum mxfp_format c_format(const struct mxfp_product *p)
{
	return p->c != NULL ? p->c->format : MXFP_FORMAT_F32;
}

/* Whether the structs of a product are of versions that are known; their members that are read here are the first version's. */
static bool is_known(const struct mxfp_product *p)
{
	struct mxfp_matrix matrix;
	struct mxfp_result result;

	return MXFP_SIZED(p->a, &matrix) != NULL && MXFP_SIZED(p->w, &matrix) != NULL && MXFP_SIZED(p->c, &result) != NULL;
}

/* Computes the bytes of a matrix in memory: numbers, or codes and scales; if it is sparse, kept codes and masks. */
static enum mxfp_status matrix_bytes(const struct mxfp_matrix *x, uint64_t *bytes)
{
	struct mxfp_sizes blocks = {0};
	struct mxfp_sparse_sizes sparse;
	enum mxfp_status status = MXFP_OK;

	if (is_block(x->format))
		status = mxfp_blocks_size(&blocks, x->format, x->rows, x->cols);
	*bytes = add(blocks.codes_bytes, blocks.scales_bytes);
	if (status == MXFP_OK && (x->sparsity.n != 0 || x->sparsity.m != 0)) {
		status = mxfp_sparse_size(&sparse, x->format, x->sparsity, x->rows, x->cols);
		*bytes = add(blocks.scales_bytes, add(sparse.codes_bytes, sparse.masks_bytes));
	} else if (!is_block(x->format)) {
		*bytes = multiply(multiply(x->rows, x->cols), mxfp_format_get_info(x->format)->storage_bytes);
	}
	return status;
}

/* Returns the dense elements of K that one sub-array takes at once. */
static uint64_t depth(const struct sums *s, enum mxfp_engine_rate rate, const struct mxfp_sparsity *sparsity)
{
	uint64_t products = s->chip->rates[rate].products;

	if (rate == MXFP_ENGINE_SPARSE)
		products = smaller(products, sparsity->m / sparsity->n);
	return s->chip->rows / s->split * products;
}

/* Returns the cycles of `columns` columns of W: each group of rows whose sums fit the banks passes once per tile of
   K. */
static uint64_t strip_cycles(const struct sums *s, enum mxfp_format c, uint64_t m, uint64_t columns)
{
	uint64_t bank_rows = c == MXFP_FORMAT_BF16 && s->chip->bank_rows_16 != 0 ? s->chip->bank_rows_16 : s->chip->bank_rows;
	uint64_t group = bank_rows * s->chip->banks / s->split;
	uint64_t load = smaller(s->chip->load_cycles, columns);

	return add(multiply(m / group, larger(group, load)), m % group != 0 ? larger(m % group, load) : 0);
}

static struct cost product_cost(const struct sums *s, const struct mxfp_product *p, enum mxfp_engine_rate rate)
{
	struct cost cost = {.rate = rate};

	if (s->chip->rows == 0 || p->a->rows == 0 || p->w->rows == 0 || p->a->cols == 0)
		return cost;
	cost.depth = depth(s, rate, &p->w->sparsity);
	const uint64_t columns = s->chip->columns, n = p->w->rows;
	uint64_t tiles = multiply(parts(p->a->cols, cost.depth), s->chip->rates[rate].row_cycles);
	uint64_t strips = add(multiply(n / columns, strip_cycles(s, c_format(p), p->a->rows, columns)),
	                      n % columns != 0 ? strip_cycles(s, c_format(p), p->a->rows, n % columns) : 0);
	cost.cycles = multiply(tiles, strips);
	cost.moving = multiply(tiles, multiply(parts(n, columns), p->a->rows));
	cost.load = smaller(s->chip->load_cycles, smaller(n, columns)) * s->chip->rates[rate].row_cycles;
	return cost;
}

/* Returns the slower of two operands' rates. */
static enum mxfp_engine_rate slower(enum mxfp_engine_rate a, enum mxfp_engine_rate b)
{
	static const unsigned char order[] = {
		[MXFP_ENGINE_FP4] = 0,   [MXFP_ENGINE_FP8] = 1, [MXFP_ENGINE_FP8_PLAIN] = 2,
		[MXFP_ENGINE_16BIT] = 3, [MXFP_ENGINE_F32] = 4, [N_RATES] = 5,
	};

	return order[a] > order[b] ? a : b;
}

/* Returns the rate of a product, or N_RATES if the chip cannot multiply these operands. */
static enum mxfp_engine_rate product_rate(const struct sums *s, const struct mxfp_product *p,
                                          const struct mxfp_gemm_options *options)
{
	enum mxfp_engine_rate a = operand_rate(s->chip, engine_a_format(p, options));
	enum mxfp_engine_rate w = operand_rate(s->chip, p->w->format);
	enum mxfp_engine_rate rate = slower(a, w);
	bool sparse = rate == MXFP_ENGINE_16BIT && w == rate && p->w->sparsity.m != 0;

	return sparse && s->chip->rates[MXFP_ENGINE_SPARSE].peak_gflop_s != 0 ? MXFP_ENGINE_SPARSE : rate;
}

static void add_product(struct sums *s, const struct mxfp_product *p, const struct mxfp_gemm_options *options,
                        enum mxfp_engine_rate rate)
{
	const struct cost cost = product_cost(s, p, rate);
	const uint64_t area = multiply(p->a->rows, p->w->rows), macs = multiply(area, p->a->cols);
	const uint64_t c_bytes = mxfp_format_get_info(c_format(p))->storage_bytes;
	const uint64_t peak = (uint64_t)s->chip->rates[rate].peak_gflop_s * s->cores / s->chip->cores;

	/* An upper bound: any product may be the first of its sub-array and wait for its first tile. */
	s->cycles = add(s->cycles, add(cost.cycles, cost.load));
	s->moving = add(s->moving, cost.moving);
	s->macs = add(s->macs, macs);
	if (cost.depth != 0) {
		uint64_t k = multiply(parts(p->a->cols, cost.depth), cost.depth);
		uint64_t n = multiply(parts(p->w->rows, s->chip->columns), s->chip->columns);

		s->macs_depth = add(s->macs_depth, multiply(area, k));
		s->macs_tiles = add(s->macs_tiles, multiply(multiply(p->a->rows, n), k));
	}
	s->bytes = add(s->bytes, multiply(area, options->accumulate ? 2 * c_bytes : c_bytes));
	s->ideal_ps = add(s->ideal_ps, scale(multiply(macs, 2), KILO, peak));
}

/* Checks a product and adds it to the sums. */
static enum mxfp_status check_product(struct sums *s, const struct mxfp_product *p,
                                      const struct mxfp_gemm_options *options)
{
	uint64_t a_bytes, w_bytes;

	if (p == NULL)
		return MXFP_ERR_VERSION;
	if (p->a == NULL || p->w == NULL)
		return MXFP_ERR_NULL;
	if (!is_known(p))
		return MXFP_ERR_VERSION;
	if (c_format(p) != MXFP_FORMAT_F32 && c_format(p) != MXFP_FORMAT_BF16)
		return MXFP_ERR_FORMAT;
	if (mxfp_format_get_info(p->a->format) == NULL || (options->a_format != MXFP_FORMAT_F32 &&
	                                               options->a_format != p->a->format && !is_source(p->a->format)))
		return MXFP_ERR_FORMAT;
	enum mxfp_engine_rate rate = product_rate(s, p, options);
	if (rate == N_RATES)
		return MXFP_ERR_FORMAT;
	if (p->a->cols != p->w->cols)
		return MXFP_ERR_SHAPE;
	enum mxfp_status status = matrix_bytes(p->a, &a_bytes);
	if (status == MXFP_OK)
		status = matrix_bytes(p->w, &w_bytes);
	if (status != MXFP_OK)
		return status;
	s->bytes = add(s->bytes, add(a_bytes, w_bytes));
	add_product(s, p, options, rate);
	return MXFP_OK;
}

/* Whether the constants of a chip make sense. */
static bool is_chip(const struct mxfp_engine_chip *chip)
{
	if (chip->cores == 0 || chip->memory_mb_s / chip->cores == 0)
		return false;
	for (int r = 0; r < (int)N_RATES; r++) {
		bool has = chip->rates[r].peak_gflop_s != 0;
		bool works = chip->rows == 0 || (chip->rates[r].products != 0 && chip->rates[r].row_cycles != 0);

		if (has && (!works || chip->rates[r].peak_gflop_s / chip->cores == 0))
			return false;
	}
	return chip->rows == 0 || (chip->rows % 4 == 0 && chip->columns != 0 && chip->clock_mhz != 0 &&
	                           (uint64_t)chip->bank_rows * chip->banks >= WHOLE / QUARTER);
}

static enum mxfp_status check(struct sums *s, size_t *failed, const struct mxfp_engine *engine,
                              const struct mxfp_product *products, size_t n, const struct mxfp_gemm_options *options)
{
	unsigned pass = options->pass_k == 0 ? WHOLE : options->pass_k;
	struct mxfp_engine copy;

	if (engine != NULL && MXFP_SIZED(engine, &copy) == NULL)
		return MXFP_ERR_VERSION;
	if (engine == NULL || (n != 0 && (products == NULL || engine->places == NULL)) || engine->busy == NULL)
		return MXFP_ERR_NULL;
	s->chip = engine->chip == NULL ? &chips[0] : MXFP_SIZED(engine->chip, &s->chip_copy);
	if (s->chip == NULL)
		return MXFP_ERR_VERSION;
	s->cores = engine->cores != 0 ? engine->cores : s->chip->cores;
	if ((pass != WHOLE && pass != WHOLE / 2 && pass != QUARTER) || !is_chip(s->chip) || s->cores > s->chip->cores)
		return MXFP_ERR_OPTION;
	s->split = WHOLE / pass;
	if (engine->n_busy / s->split < s->cores)
		return MXFP_ERR_SIZE;
	if (options->a_format != MXFP_FORMAT_F32 && !is_block(options->a_format))
		return MXFP_ERR_FORMAT;
	enum mxfp_status status = MXFP_OK;
	struct mxfp_product product;
	for (size_t i = 0; i < n && status == MXFP_OK; i++) {
		status = check_product(s, mxfp_product_at(products, i, &product), options);
		if (status != MXFP_OK && failed != NULL)
			*failed = i;
	}
	bool fits = larger(s->cycles, s->moving) != UINT64_MAX && larger(s->macs, s->macs_tiles) != UINT64_MAX &&
	            larger(s->bytes, s->ideal_ps) != UINT64_MAX && scale(s->bytes, MEGA, 1) != UINT64_MAX &&
	            scale(s->cycles, MEGA, 1) != UINT64_MAX;
	return status == MXFP_OK && !fits ? MXFP_ERR_SIZE : status;
}

/* Whether a is placed before b: longest first, then by index. */
static bool before(const struct mxfp_engine_place *a, const struct mxfp_engine_place *b)
{
	return a->cycles > b->cycles || (a->cycles == b->cycles && a->product < b->product);
}

static void swap(struct mxfp_engine_place *a, struct mxfp_engine_place *b)
{
	const struct mxfp_engine_place t = *a;

	*a = *b;
	*b = t;
}

/* Sifts down the place at `root` in a heap whose top comes last in the order. */
static void sink(struct mxfp_engine_place *heap, size_t root, size_t n)
{
	for (size_t child = 2 * root + 1; child < n; root = child, child = 2 * root + 1) {
		if (child + 1 < n && before(&heap[child], &heap[child + 1]))
			child++;
		if (!before(&heap[root], &heap[child]))
			return;
		swap(&heap[root], &heap[child]);
	}
}

/* Heapsort, because qsort() may allocate. */
static void sort(struct mxfp_engine_place *places, size_t n)
{
	for (size_t i = n / 2; i-- > 0;)
		sink(places, i, n);
	for (size_t end = n; end-- > 1;) {
		swap(&places[0], &places[end]);
		sink(places, 0, end);
	}
}

static size_t least_busy(const uint64_t *busy, size_t n)
{
	size_t least = 0;

	for (size_t i = 1; i < n; i++)
		if (busy[i] < busy[least])
			least = i;
	return least;
}

/* Places the sorted products, whose `cycles` are still without the wait for a first tile. */
static void place(struct mxfp_engine *engine, const struct sums *s, const struct mxfp_product *products, size_t n)
{
	for (size_t i = 0; i < engine->arrays; i++)
		engine->busy[i] = 0;
	for (size_t i = 0; i < n; i++) {
		struct mxfp_engine_place *at = &engine->places[i];
		size_t array = least_busy(engine->busy, engine->arrays);
		struct mxfp_product copy;

		at->array = (unsigned)array;
		at->start = engine->busy[array];
		if (at->start == 0)
			at->cycles += product_cost(s, mxfp_product_at(products, at->product, &copy), at->rate).load;
		engine->busy[array] += at->cycles;
		engine->cycles = larger(engine->cycles, engine->busy[array]);
	}
}

/* Fills in the account of checked products. */
static void account(struct mxfp_engine *engine, const struct sums *s, const struct mxfp_product *products, size_t n,
                    const struct mxfp_gemm_options *options)
{
	for (size_t i = 0; i < n; i++) {
		struct mxfp_product copy;
		const struct mxfp_product *p = mxfp_product_at(products, i, &copy);
		const struct cost cost = product_cost(s, p, product_rate(s, p, options));

		engine->places[i] = (struct mxfp_engine_place){
			.product = i, .rate = cost.rate, .depth = cost.depth, .cycles = cost.cycles};
	}
	sort(engine->places, n);
	engine->arrays = (size_t)s->cores * s->split;
	engine->cycles = 0;
	engine->moving = s->moving;
	engine->macs = s->macs;
	engine->macs_depth = s->macs_depth;
	engine->macs_tiles = s->macs_tiles;
	engine->bytes = s->bytes;
	engine->ideal_ps = s->ideal_ps;
	engine->memory_ps = scale(s->bytes, MEGA, (uint64_t)s->chip->memory_mb_s * s->cores / s->chip->cores);
	place(engine, s, products, n);
	engine->compute_ps = s->chip->rows == 0 ? 0 : scale(engine->cycles, MEGA, s->chip->clock_mhz);
}

/* How products run; NULL: they do not. */
struct run {
	void *workspace;
	size_t workspace_bytes;
	const struct mxfp_exec *exec;
};

/* Checks the products, runs them, and fills in their account. */
static enum mxfp_status estimate(struct mxfp_engine *engine, size_t *failed, const struct mxfp_product *products, size_t n,
                                 const struct mxfp_gemm_options *options, const struct run *run)
{
	struct mxfp_gemm_options copy;
	const struct mxfp_gemm_options *o = MXFP_SIZED(options, &copy);
	struct sums s = {0};

	if (o == NULL)
		return MXFP_ERR_VERSION;
	enum mxfp_status status = check(&s, failed, engine, products, n, o);

	if (status == MXFP_OK && run != NULL)
		status = mxfp_gemm_grouped(failed, products, n, options, run->workspace, run->workspace_bytes, run->exec);
	if (status == MXFP_OK)
		account(engine, &s, products, n, o);
	return status;
}

enum mxfp_status mxfp_engine_estimate(struct mxfp_engine *engine, size_t *failed, const struct mxfp_product *products,
                                      size_t n, const struct mxfp_gemm_options *options)
{
	return estimate(engine, failed, products, n, options, NULL);
}

enum mxfp_status mxfp_engine_run(struct mxfp_engine *engine, size_t *failed, const struct mxfp_product *products, size_t n,
                                 const struct mxfp_gemm_options *options, void *workspace, size_t workspace_bytes,
                                 const struct mxfp_exec *exec)
{
	const struct run run = {workspace, workspace_bytes, exec};

	return estimate(engine, failed, products, n, options, &run);
}
