/* SPDX-License-Identifier: MIT */
/*
 * The operations of a decoder layer, several layers one after the other, and the time that a layer adds. Numbers that
 * overflow saturate at UINT64_MAX and are refused at the end.
 */
#include "engine/layer.h"

#include <stdlib.h>

#include "mxfp/quantize.h"

enum {
	LAYERS = 8,          /* of which the last but one is shown: what comes ahead of the first is not typical */
	SHOWN = LAYERS - 2,
	COLUMNS = 128,       /* of an array: pieces of weights have whole tiles */
	BLOCK = 32,          /* an MX block, whole in each core's part of columns */
	GROUPS_MAX = 64,     /* experts are taken in that many groups */
	GROUPS_LEAST = 16,   /* of attention, so that its engines can work at the same time */
	PIECES_MAX = 512,
	PIECE_BYTES = 1 << 20,
	KIB = 1024, MEGA_PS = 1000000
};

#define TOO_MUCH (UINT64_C(1) << 62)

/* Data that was brought ahead, from its first byte's arrival until the operation that reads it ends. */
struct piece {
	uint64_t bytes;
	size_t reader;
};

struct build {
	const struct layer_setup *setup;
	struct schedule *schedule;
	struct error *error;
	int code;                     /* the first failure's */
	unsigned layer;
	bool second, experts;         /* adding the half of the layer after attention; its experts */
	uint64_t ways, heads, kv_heads; /* cores of all chips; heads of one of them */
	uint64_t queries;             /* new tokens of a sequence */
	uint64_t rows_seeing;         /* of them, for all heads that share keys: how many see a key on average */
	const uint64_t *rows;         /* of each expert */
	struct piece *pieces;
	size_t n_pieces, capacity, oldest; /* those before `oldest` are out of the memory */
	uint64_t held, room;          /* bytes */
};

static uint64_t multiply(uint64_t a, uint64_t b)
{
	return b != 0 && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

static uint64_t add(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t parts(uint64_t n, uint64_t size)
{
	return n / size + (n % size != 0);
}

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t cycles_ps(uint64_t cycles, uint32_t clock_mhz)
{
	return multiply(cycles, MEGA_PS) / clock_mhz;
}

/* Picoseconds of `bytes` at a number of 10^6 bytes per second, of which 1 / share is there. */
static uint64_t bytes_ps(uint64_t bytes, uint64_t mb_s, uint64_t share)
{
	return multiply(multiply(bytes, MEGA_PS), share) / mb_s;
}

/* Bytes of a matrix as it is stored; sizes that the library refuses are too much. */
static uint64_t matrix_bytes(enum mxfp_format format, uint64_t rows, uint64_t cols)
{
	struct mxfp_sizes sizes;

	if (mxfp_format_get_info(format)->storage_bytes != 0)
		return multiply(multiply(rows, cols), mxfp_format_get_info(format)->storage_bytes);
	if (rows > SIZE_MAX || cols > SIZE_MAX || mxfp_blocks_size(&sizes, format, (size_t)rows, (size_t)cols) != MXFP_OK)
		return UINT64_MAX;
	return add(sizes.codes_bytes, sizes.scales_bytes);
}

/* Bytes of `rows` of keys or values as they lie in memory for attention to read. */
static uint64_t cached_bytes(const struct layer_setup *s, uint64_t rows)
{
	enum { MEASURED = 128 }; /* elements of chip.cache_bytes */
	const bool has = s->cache == MXFP_FORMAT_MXFP8_E4M3 || s->cache == MXFP_FORMAT_MXFP8_E5M2;

	if (!has || s->chip.cache_bytes == 0)
		return matrix_bytes(s->cache, rows, s->decoder.head_dim);
	return parts(multiply(multiply(rows, s->decoder.head_dim), s->chip.cache_bytes), MEASURED);
}

static bool is_block(enum mxfp_format format)
{
	return mxfp_format_get_info(format)->storage_bytes == 0;
}

/* Whether activations between products have more than 16 bits. */
static bool is_wide(const struct build *b)
{
	return b->setup->a == MXFP_FORMAT_F32 || b->setup->a == MXFP_FORMAT_TF32;
}

/* Adds an operation that starts after another, NO_OPERATION: of none. Returns its number. */
static size_t append(struct build *b, const struct operation *x, size_t after)
{
	struct schedule *s = b->schedule;

	if (b->code != EXIT_OK)
		return 0;
	if (s->n == s->capacity) {
		const size_t capacity = 2 * s->capacity + 256;
		struct operation *operations = realloc(s->operations, capacity * sizeof *operations);

		if (operations == NULL) {
			b->code = fail_memory(b->error);
			return 0;
		}
		s->operations = operations;
		s->capacity = capacity;
	}
	s->operations[s->n] = *x;
	s->operations[s->n].layer = b->layer;
	s->operations[s->n].experts = b->experts;
	if (after != NO_OPERATION)
		s->operations[s->n].causes[s->operations[s->n].n_causes++] = after;
	return s->n++;
}

/* Makes an operation start after one more. */
static void also(struct build *b, size_t operation, size_t after)
{
	struct operation *x = &b->schedule->operations[operation];

	x->causes[x->n_causes++] = after;
}

/* What an engine does with each element; `two` of two tensors. */
enum kind { KIND_ONE, KIND_TWO, KIND_WIDE, KIND_FUNCTION, KIND_EXPONENTIAL, KIND_QUANTIZE };

static uint32_t elements_per_cycle(const struct build *b, enum mxfp_engine_unit unit, enum kind kind)
{
	const uint32_t rates[] = {
		[KIND_ONE] = is_wide(b) ? b->setup->chip.units[unit].one_32 : b->setup->chip.units[unit].one_16,
		[KIND_TWO] = is_wide(b) ? b->setup->chip.units[unit].two_32 : b->setup->chip.units[unit].two_16,
		[KIND_WIDE] = b->setup->chip.units[unit].one_32,
		[KIND_FUNCTION] = b->setup->chip.units[unit].functions,
		[KIND_EXPONENTIAL] = b->setup->chip.units[unit].exponential,
		[KIND_QUANTIZE] = b->setup->chip.units[unit].quantize,
	};

	return rates[kind];
}

/* Adds an operation of the vector, scalar or GPSIMD engine on elements that lie over all partitions. */
static size_t elementwise(struct build *b, const char *name, enum part part, enum mxfp_engine_unit unit, enum kind kind,
                          uint64_t elements, size_t after)
{
	static const enum lane lanes[] = {LANE_VECTOR, LANE_SCALAR, LANE_GPSIMD};
	const uint32_t start = b->setup->chip.units[unit].start_cycles;
	const uint64_t cycles = parts(elements, elements_per_cycle(b, unit, kind));

	return append(b, &(struct operation){
		.name = name, .lane = lanes[unit], .part = part, .elements = elements,
		.ps = cycles_ps(unit == MXFP_ENGINE_GPSIMD ? add(cycles, start) : larger(cycles, start),
		                b->setup->chip.units[unit].clock_mhz)}, after);
}

/* Adds the quantization of `elements` to the activations' or cache's format, by the instruction for it or, if the chip
   has none or it is FP8 without block scales, as a copy that converts. Formats of 16 and 32 bits need none. */
static size_t quantize(struct build *b, enum part part, enum mxfp_format format, uint64_t elements, size_t after)
{
	const bool has = is_block(format) && b->setup->chip.units[MXFP_ENGINE_VECTOR].quantize != 0;

	if (mxfp_format_get_info(format)->storage_bytes > 1)
		return after;
	return elementwise(b, part == PART_NORM && b->second ? "quantize 2" : part == PART_NORM ? "quantize 1" : "quantize", part, MXFP_ENGINE_VECTOR, has ? KIND_QUANTIZE : KIND_ONE, elements, after);
}

/* Cycles of C[m][n] = A[m][k] W[n][k]^T on one array that is busy before: what a second such product adds. */
static uint64_t product_cycles(struct build *b, uint64_t m, uint64_t n, uint64_t k, enum mxfp_format a,
                               enum mxfp_format w)
{
	const struct mxfp_matrix left = {.size = sizeof left, .format = a, .rows = (size_t)m, .cols = (size_t)k};
	const struct mxfp_matrix right = {.size = sizeof right, .format = w, .rows = (size_t)n, .cols = (size_t)k};
	const struct mxfp_product products[2] = {{.size = sizeof(struct mxfp_product), .a = &left, .w = &right}, {.size = sizeof(struct mxfp_product), .a = &left, .w = &right}};
	struct mxfp_engine_place places[2];
	uint64_t busy[1], cycles[2] = {0, 0};
	struct mxfp_engine engine = {
		.size = sizeof engine, .chip = &b->setup->chip, .cores = 1, .places = places, .busy = busy, .n_busy = 1};

	for (size_t i = 0; i < 2 && b->code == EXIT_OK; i++) {
		const enum mxfp_status status = mxfp_engine_estimate(&engine, NULL, products, i + 1, NULL);

		cycles[i] = engine.cycles;
		if (status == MXFP_ERR_FORMAT)
			b->code = fail(b->error, EXIT_USAGE, "engine: --layer: %s multiplies no %s by %s", b->setup->chip.name,
			               mxfp_format_get_info(a)->name, mxfp_format_get_info(w)->name);
		else if (status != MXFP_OK)
			b->code = fail(b->error, EXIT_USAGE, "engine: --layer: a product of %llu x %llu x %llu: %s",
			               (unsigned long long)m, (unsigned long long)n, (unsigned long long)k,
			               mxfp_status_text(status));
	}
	return cycles[1] - cycles[0];
}

/* A product, or several one after the other, and what it reads from memory. */
struct work {
	const char *name, *data;
	enum part part;
	uint64_t cycles, macs, bytes;
};

static void add_product(struct build *b, struct work *w, uint64_t times, uint64_t m, uint64_t n, uint64_t k,
                        enum mxfp_format left, enum mxfp_format right)
{
	w->cycles = add(w->cycles, multiply(times, product_cycles(b, m, n, k, left, right)));
	w->macs = add(w->macs, multiply(times, multiply(multiply(m, n), k)));
}

/* Adds the transfer of data that its reader, which comes next, needs: as soon as there is room. */
static size_t bring(struct build *b, const struct work *w)
{
	const struct mxfp_engine_chip *chip = &b->setup->chip;
	const uint64_t dma = (uint64_t)chip->dma_engines * chip->dma_mb_s;
	size_t after = NO_OPERATION;

	while (b->oldest < b->n_pieces && add(b->held, w->bytes) > b->room) {
		b->held -= b->pieces[b->oldest].bytes;
		after = b->pieces[b->oldest++].reader;
	}
	if (b->n_pieces == b->capacity && b->code == EXIT_OK) {
		const size_t capacity = 2 * b->capacity + 256;
		struct piece *pieces = realloc(b->pieces, capacity * sizeof *pieces);

		if (pieces == NULL) {
			b->code = fail_memory(b->error);
			return 0;
		}
		b->pieces = pieces;
		b->capacity = capacity;
	}
	if (b->code != EXIT_OK)
		return 0;
	b->pieces[b->n_pieces++] = (struct piece){.bytes = w->bytes, .reader = b->schedule->n + 1};
	b->held = add(b->held, w->bytes);
	return append(b, &(struct operation){
		.name = w->data, .lane = LANE_DMA, .ahead = true, .part = w->part, .bytes = w->bytes,
		.ps = bytes_ps(w->bytes, smaller(chip->memory_mb_s, dma), chip->cores)}, after);
}

/* Adds a product, and before it the transfer of what it reads. */
static size_t multiply_on(struct build *b, const struct work *w, size_t after)
{
	const size_t data = w->bytes != 0 ? bring(b, w) : NO_OPERATION;
	struct operation x = {.name = w->name, .lane = LANE_TENSOR, .part = w->part, .macs = w->macs,
	                      .ps = cycles_ps(w->cycles, b->setup->chip.clock_mhz)};

	if (data != NO_OPERATION)
		x.causes[x.n_causes++] = data;
	return append(b, &x, after);
}

/* How weights [n][k] are cut into pieces of whole tiles: the columns of each but the last. */
static uint64_t piece_columns(const struct build *b, uint64_t n, uint64_t k)
{
	const uint64_t pieces = smaller(parts(matrix_bytes(b->setup->w, n, k), PIECE_BYTES), PIECES_MAX);

	return multiply(parts(parts(n, larger(pieces, 1)), COLUMNS), COLUMNS);
}

/* A product with weights [n][k], in pieces, each of which `then` follows (NULL: nothing). Returns the last operation. */
typedef size_t follow(struct build *b, enum part part, uint64_t columns, size_t after);

static size_t weighted(struct build *b, const char *name, const char *data, enum part part, uint64_t n, uint64_t k,
                       follow *then, size_t after)
{
	const uint64_t step = piece_columns(b, n, k);
	size_t last = after;

	for (uint64_t at = 0; at < n && b->code == EXIT_OK; at += step) {
		const uint64_t columns = smaller(step, n - at);
		struct work w = {.name = name, .data = data, .part = part, .bytes = matrix_bytes(b->setup->w, columns, k)};

		add_product(b, &w, 1, b->setup->tokens, columns, k, b->setup->a, b->setup->w);
		last = multiply_on(b, &w, after);
		if (then != NULL)
			last = then(b, part, columns, last);
	}
	return last;
}

/* Adds transfers to other cores and chips of a part of `bytes` that all hold together: (n - 1) / n of it between n. */
static size_t exchange(struct build *b, const char *name, uint64_t bytes, bool adds, size_t after)
{
	const struct layer_setup *s = b->setup;
	const uint64_t cores = multiply(bytes, s->cores - 1) / s->cores;
	const uint64_t chips = multiply(bytes / s->cores, s->chips - 1) / s->chips;
	const uint64_t dma = (uint64_t)s->chip.dma_engines * s->chip.dma_mb_s / 100 * (adds ? s->chip.dma_add_percent : 100);
	const struct operation steps[2] = {
		{.name = name, .lane = LANE_DMA, .part = PART_EXCHANGE, .bytes = cores, .ps = bytes_ps(cores, dma, s->chip.cores)},
		{.name = name, .lane = LANE_LINKS, .part = PART_EXCHANGE, .bytes = chips,
	     .ps = s->chips == 1 ? 0 : bytes_ps(chips, s->chip.link_mb_s, (uint64_t)2 * s->cores)},
	};

	/* Sums go from core to core first, and results to the cores of a chip last. */
	for (size_t i = 0; i < 2; i++) {
		const struct operation *x = &steps[adds ? i : 1 - i];

		if (x->bytes != 0)
			after = append(b, x, after);
	}
	return after;
}

/* RMS norm of this core's part of the tokens, and the way of the result to all cores. `router`: experts are chosen. */
static size_t norm(struct build *b, bool router, size_t after)
{
	const struct layer_setup *s = b->setup;
	const struct decoder *d = &s->decoder;
	const uint64_t all = multiply(s->tokens, d->hidden), part = parts(all, b->ways);

	after = elementwise(b, b->second ? "norm 2: squares" : "norm 1: squares", PART_NORM, MXFP_ENGINE_SCALAR, KIND_FUNCTION, part, after);
	after = elementwise(b, b->second ? "norm 2: scale" : "norm 1: scale", PART_NORM, MXFP_ENGINE_VECTOR, KIND_TWO, part, after);
	size_t chosen = after;
	if (router) {
		struct work w = {.name = "router", .data = "router weights", .part = PART_NORM,
		                 .bytes = matrix_bytes(MXFP_FORMAT_BF16, d->experts, d->hidden)};
		const uint64_t tokens = parts(s->tokens, b->ways);

		/* nki.isa.topk: 4 n + K cycles; n scores of a token lie in the 16 partitions of one of eight processors. */
		add_product(b, &w, 1, tokens, d->experts, d->hidden, MXFP_FORMAT_BF16, MXFP_FORMAT_BF16);
		chosen = multiply_on(b, &w, after);
		const uint64_t cycles = multiply(parts(tokens, 8), 4 * d->experts + d->experts_per_token);
		chosen = append(b, &(struct operation){
			.name = "top experts", .lane = LANE_GPSIMD, .part = PART_NORM, .elements = multiply(tokens, d->experts),
			.ps = cycles_ps(add(cycles, s->chip.units[MXFP_ENGINE_GPSIMD].start_cycles),
			                s->chip.units[MXFP_ENGINE_GPSIMD].clock_mhz)}, chosen);
	}
	const size_t first = b->schedule->n;
	after = quantize(b, PART_NORM, s->a, part, after);
	const size_t gather = b->schedule->n;
	after = exchange(b, b->second ? "all-gather 2" : "all-gather 1", matrix_bytes(s->a, s->tokens, d->hidden), false, after);
	if (!router || b->code != EXIT_OK)
		return after;
	/* What tells the experts goes with the gathered tokens. */
	if (b->schedule->n == first)
		return chosen;
	also(b, b->schedule->n > gather ? gather : first, chosen);
	return after;
}

/* The sums of all cores are added, and each adds its part to what came in. */
static size_t residual(struct build *b, size_t after)
{
	const uint64_t all = multiply(b->setup->tokens, b->setup->decoder.hidden);

	after = exchange(b, b->second ? "reduce-scatter 2" : "reduce-scatter 1", multiply(all, is_wide(b) ? 4 : 2), true, after);
	return elementwise(b, b->second ? "residual 2" : "residual 1", PART_NORM, MXFP_ENGINE_VECTOR, KIND_TWO, parts(all, b->ways), after);
}

/* Attention of a group: of `times` sequences and heads of keys, of `rows` queries of all heads that share these, and of
   `keys` of the context. `seeing` of the rows see a key on average; `load`: keys and values are not in SBUF yet. */
struct group {
	uint64_t times, rows, seeing, keys;
	bool load;
	size_t scores;
};

/* A product of attention: queries by keys, or weights by values. */
static struct work attention_work(struct build *b, const struct group *g, bool values)
{
	const struct layer_setup *s = b->setup;
	const enum mxfp_format left = is_block(s->cache) ? s->cache : MXFP_FORMAT_BF16;
	const uint64_t dim = s->decoder.head_dim;
	/* Keys of the sequence's new tokens are not read: they have just been made. */
	const uint64_t stored = g->load ? multiply(g->keys, s->context - b->queries) / s->context : 0;
	struct work w = {
		.name = values ? "values" : "scores", .data = "cached keys, values", .part = PART_ATTENTION,
		.bytes = stored == 0 ? 0 : multiply(g->times, cached_bytes(s, stored))};

	add_product(b, &w, g->times, g->seeing, values ? dim : g->keys, values ? g->keys : dim, left, s->cache);
	return w;
}

static size_t group_values(struct build *b, const struct group *g, size_t softmax)
{
	const uint64_t outputs = multiply(multiply(g->times, g->rows), b->setup->decoder.head_dim);
	const struct work w = attention_work(b, g, true);

	softmax = multiply_on(b, &w, softmax);
	return elementwise(b, "divide by sums", PART_ATTENTION, MXFP_ENGINE_SCALAR, KIND_WIDE, outputs, softmax);
}

static size_t group_softmax(struct build *b, const struct group *g)
{
	const bool fast = b->setup->chip.units[MXFP_ENGINE_VECTOR].exponential != 0;
	const uint64_t scores = multiply(multiply(g->times, g->seeing), g->keys);
	size_t after = g->scores;

	if (b->queries > 1)
		after = elementwise(b, "causal mask", PART_ATTENTION, MXFP_ENGINE_GPSIMD, KIND_WIDE,
		                    multiply(multiply(g->times, g->rows), smaller(g->keys, COLUMNS)), after);
	after = elementwise(b, "softmax: maxima", PART_ATTENTION, MXFP_ENGINE_VECTOR, KIND_WIDE, scores, after);
	after = elementwise(b, "softmax: exp", PART_ATTENTION, fast ? MXFP_ENGINE_VECTOR : MXFP_ENGINE_SCALAR,
	                    KIND_EXPONENTIAL, scores, after);
	return quantize(b, PART_ATTENTION, b->setup->cache, scores, after);
}

/*
 * Attention in groups of sequences and heads; if there are few of these, of queries, or of keys if there are few
 * queries. Scores of the next group are made while the vector engine has those of the last.
 */
static size_t attention(struct build *b, size_t after)
{
	const struct layer_setup *s = b->setup;
	const uint64_t units = multiply(s->sequences, b->kv_heads);
	const uint64_t bytes = multiply(units, cached_bytes(s, s->context));
	const uint64_t groups = smaller(larger(parts(bytes, PIECE_BYTES), GROUPS_LEAST), PIECES_MAX);
	const uint64_t times = parts(units, smaller(groups, units)), cuts = parts(groups, units);
	const uint64_t rows = multiply(b->queries, parts(b->heads, b->kv_heads));
	const uint64_t row_cuts = rows < COLUMNS ? 1 : smaller(cuts, rows / COLUMNS);
	const uint64_t keys = rows < COLUMNS ? multiply(parts(parts(s->context, cuts), COLUMNS), COLUMNS) : s->context;
	struct group waiting = {0};

	for (uint64_t at = 0; at < units; at += times)
		for (uint64_t cut = 0, key = 0; key < s->context && b->code == EXIT_OK;) {
			struct group g = {.times = smaller(times, units - at), .rows = parts(rows, row_cuts),
			                  .seeing = parts(b->rows_seeing, row_cuts), .keys = smaller(keys, s->context - key),
			                  .load = cut == 0};
			const struct work w = attention_work(b, &g, false);

			g.scores = multiply_on(b, &w, after);
			if (waiting.times != 0)
				group_values(b, &waiting, group_softmax(b, &waiting));
			waiting = g;
			cut = (cut + 1) % row_cuts;
			key += cut == 0 ? keys : 0;
		}
	return group_values(b, &waiting, group_softmax(b, &waiting));
}

/* Sums of a product go to SBUF. */
static size_t follow_copy(struct build *b, enum part part, uint64_t columns, size_t after)
{
	return elementwise(b, "copy sums", part, MXFP_ENGINE_SCALAR, KIND_WIDE, multiply(b->setup->tokens, columns), after);
}

/* SwiGLU of `elements` gates and as many others. */
static size_t gate(struct build *b, uint64_t elements, size_t after)
{
	after = elementwise(b, "SiLU", PART_UP, MXFP_ENGINE_SCALAR, KIND_FUNCTION, elements, after);
	after = elementwise(b, "gate * up", PART_UP, MXFP_ENGINE_VECTOR, KIND_TWO, elements, after);
	return quantize(b, PART_UP, b->setup->a, elements, after);
}

static size_t follow_gate(struct build *b, enum part part, uint64_t columns, size_t after)
{
	(void)part;
	return gate(b, multiply(b->setup->tokens, parts(columns, 2)), after);
}

/* A core's columns of `width` that all cores share, in whole blocks of weights. */
static uint64_t core_columns(const struct build *b, uint64_t width)
{
	const uint64_t columns = parts(width, b->ways);

	return smaller(is_block(b->setup->w) ? multiply(parts(columns, BLOCK), BLOCK) : columns, width);
}

static size_t dense(struct build *b, size_t after)
{
	const struct decoder *d = &b->setup->decoder;
	const uint64_t width = core_columns(b, d->intermediate);

	after = weighted(b, "gate, up", "gate, up weights", PART_UP, 2 * width, d->hidden, follow_gate, after);
	return weighted(b, "down", "down weights", PART_DOWN, d->hidden, width, follow_copy, after);
}

/* The experts from *first on that make a group: their products, and how many tokens they have together. */
static struct work expert_group(struct build *b, uint64_t first, uint64_t end, bool down, uint64_t *tokens)
{
	const struct layer_setup *s = b->setup;
	const uint64_t width = core_columns(b, s->decoder.expert_intermediate), hidden = s->decoder.hidden;
	const uint64_t n = down ? hidden : 2 * width, k = down ? width : hidden;
	struct work w = {.name = down ? "experts: down" : "experts: gate, up", .part = down ? PART_DOWN : PART_UP,
	                 .data = "expert weights"};

	*tokens = 0;
	for (uint64_t e = first; e < end && b->code == EXIT_OK; e++) {
		if (b->rows[e] == 0)
			continue;
		add_product(b, &w, 1, b->rows[e], n, k, s->a, s->w);
		w.bytes = add(w.bytes, matrix_bytes(s->w, n, k));
		*tokens += b->rows[e];
	}
	return w;
}

static size_t group_down(struct build *b, uint64_t first, uint64_t end, size_t after)
{
	uint64_t tokens;
	const struct work w = expert_group(b, first, end, true, &tokens);

	after = multiply_on(b, &w, after);
	return elementwise(b, "weigh, add", PART_DOWN, MXFP_ENGINE_VECTOR, KIND_TWO,
	                   multiply(tokens, b->setup->decoder.hidden), after);
}

/* Experts in groups: the next group's first product runs while the last one's SwiGLU does. */
static size_t experts(struct build *b, size_t after)
{
	const struct decoder *d = &b->setup->decoder;
	const uint64_t step = parts(d->experts, GROUPS_MAX), width = core_columns(b, d->expert_intermediate);
	uint64_t waiting = 0, waiting_end = 0;
	size_t gated = after, last = after;

	for (uint64_t e = 0; e < d->experts && b->code == EXIT_OK; e += step) {
		uint64_t tokens;
		const struct work w = expert_group(b, e, smaller(e + step, d->experts), false, &tokens);

		if (tokens == 0)
			continue;
		const size_t product = multiply_on(b, &w, after);
		if (waiting_end != 0)
			last = group_down(b, waiting, waiting_end, gated);
		gated = gate(b, multiply(tokens, width), product);
		waiting = e;
		waiting_end = smaller(e + step, d->experts);
	}
	return waiting_end != 0 ? group_down(b, waiting, waiting_end, gated) : last;
}

static size_t add_layer(struct build *b, size_t after)
{
	const struct layer_setup *s = b->setup;
	const struct decoder *d = &s->decoder;
	const uint64_t new_rows = multiply(s->tokens, multiply(2, b->kv_heads));
	const uint64_t dma = (uint64_t)s->chip.dma_engines * s->chip.dma_mb_s;
	const uint64_t outputs = multiply(b->heads, d->head_dim);

	b->second = false;
	after = norm(b, false, after);
	after = weighted(b, "Q K V", "Q K V weights", PART_QKV, multiply(b->heads + 2 * b->kv_heads, d->head_dim), d->hidden,
	                 NULL, after);
	/* x cos + turned x sin, of queries and keys: two products and a sum. */
	after = elementwise(b, "rotary", PART_QKV, MXFP_ENGINE_VECTOR, KIND_TWO,
	                    multiply(3, multiply(s->tokens, multiply(b->heads + b->kv_heads, d->head_dim))), after);
	after = quantize(b, PART_QKV, s->cache, multiply(s->tokens, multiply(b->heads + 2 * b->kv_heads, d->head_dim)), after);
	const uint64_t stored = cached_bytes(s, new_rows);
	append(b, &(struct operation){
		.name = "store keys, values", .lane = LANE_DMA, .part = PART_QKV, .bytes = stored,
		.ps = bytes_ps(stored, smaller(s->chip.memory_mb_s, dma), s->chip.cores)}, after);
	after = attention(b, after);
	after = quantize(b, PART_OUTPUT, s->a, multiply(s->tokens, outputs), after);
	after = weighted(b, "output", "output weights", PART_OUTPUT, d->hidden, outputs, follow_copy, after);
	after = residual(b, after);
	b->second = true;
	after = norm(b, d->experts != 0, after);
	if (d->intermediate != 0)
		after = dense(b, after);
	b->experts = d->experts != 0;
	if (b->experts)
		after = experts(b, after);
	b->experts = false;
	return residual(b, after);
}

static uint64_t layer_weights(const struct layer_setup *s)
{
	const struct decoder *d = &s->decoder;
	const uint64_t heads = multiply(d->heads, d->head_dim);
	uint64_t bytes = matrix_bytes(s->w, add(heads, multiply(2 * d->kv_heads, d->head_dim)), d->hidden);

	bytes = add(bytes, matrix_bytes(s->w, d->hidden, heads));
	bytes = add(bytes, multiply(3, matrix_bytes(s->w, d->intermediate, d->hidden)));
	bytes = add(bytes, multiply(multiply(3, d->experts), matrix_bytes(s->w, d->expert_intermediate, d->hidden)));
	return add(bytes, matrix_bytes(MXFP_FORMAT_BF16, d->experts, d->hidden));
}

static uint64_t layer_cache(const struct layer_setup *s, uint64_t context)
{
	return multiply(multiply(2 * s->decoder.kv_heads, s->sequences), cached_bytes(s, context));
}

uint64_t layer_window(const struct layer_setup *s)
{
	return s->decoder.window == 0 ? s->context
	                              : smaller(larger(s->decoder.window, s->tokens / larger(s->sequences, 1)), s->context);
}

uint64_t layer_weights_held(const struct layer_setup *s)
{
	return multiply(larger(s->decoder.layers, 1), layer_weights(s));
}

uint64_t layer_cache_held(const struct layer_setup *s)
{
	return add(multiply(larger(s->decoder.layers, 1) - s->decoder.windowed, layer_cache(s, s->context)),
	           multiply(s->decoder.windowed, layer_cache(s, layer_window(s))));
}

/* Each chip has its part of the weights, and whole heads of keys and values. */
bool layer_fits(const struct layer_setup *s)
{
	const uint64_t heads = s->decoder.kv_heads;
	const uint64_t cache = multiply(layer_cache_held(s) / heads, parts(heads, s->chips));

	return add(parts(layer_weights_held(s), s->chips), cache) <= (uint64_t)s->chip.memory_gib << 30;
}

/* Bytes that all cores together hold for one layer. */
static void set_sizes(struct layer_time *t, const struct build *b)
{
	const struct layer_setup *s = b->setup;
	const struct decoder *d = &s->decoder;
	const uint64_t wide = is_wide(b) ? 4 : 2;
	const uint64_t width = larger(core_columns(b, d->intermediate),
	                              multiply(core_columns(b, d->expert_intermediate), d->experts_per_token));

	t->weight_bytes = layer_weights(s);
	t->cache_bytes = layer_cache(s, s->context);
	/* The gathered tokens, and what the gated part makes of them. */
	t->activation_bytes = add(matrix_bytes(s->a, s->tokens, d->hidden),
	                          multiply(multiply(s->tokens, width), mxfp_format_get_info(s->a)->storage_bytes <= 1 ? 1 : wide));
}

/* Follows the chain of operations that the end of the layer waited for back to its begin. */
static void trace(struct layer_time *t, size_t at)
{
	struct schedule *s = &t->schedule;

	for (at = s->operations[at].cause; at != NO_OPERATION && s->operations[at].end > t->begin;
	     at = s->operations[at].cause) {
		struct operation *x = &s->operations[at];

		x->critical = true;
		t->lanes[x->lane].critical += x->end - larger(x->start, t->begin);
	}
}

/* Fills in the account of a schedule, in which first[i] is the first operation of layer i. */
static int account(struct layer_time *t, const size_t *first, struct error *error)
{
	const struct schedule *s = &t->schedule;

	t->layer = SHOWN;
	t->begin = s->operations[first[SHOWN]].start;
	t->end = s->operations[first[SHOWN + 1]].start;
	for (size_t i = 0; i < s->n; i++) {
		const struct operation *x = &s->operations[i];
		struct layer_lane *lane = &t->lanes[x->lane];

		if (x->start < t->end && x->end > t->begin)
			lane->busy += smaller(x->end, t->end) - larger(x->start, t->begin);
		if (x->layer == SHOWN) {
			lane->macs += x->macs;
			lane->bytes += x->bytes;
			lane->elements += x->elements;
		}
	}
	if (t->end - t->begin > LAYER_PS_MAX)
		return fail(error, EXIT_USAGE, "engine: --layer: a layer takes more than 100 seconds; give fewer tokens");
	for (enum lane lane = 0; lane < N_LANES; lane++)
		if (t->lanes[lane].busy > t->lanes[t->limit].busy)
			t->limit = lane;
	trace(t, first[SHOWN + 1]);
	return EXIT_OK;
}

/* Refuses what would overflow in the schedule or its sums. */
static int check_sums(const struct schedule *s, struct error *error)
{
	uint64_t ps = 0, work = 0;

	for (size_t i = 0; i < s->n; i++) {
		const struct operation *x = &s->operations[i];

		ps = add(ps, x->ps);
		work = add(work, add(x->macs, add(x->bytes, x->elements)));
	}
	return larger(ps, work) < TOO_MUCH ? EXIT_OK
	                                   : fail(error, EXIT_USAGE, "engine: --layer: a time, or a number of bytes or "
	                                          "products, overflows; give fewer tokens");
}

static int build(struct layer_time *t, struct build *b)
{
	size_t first[LAYERS], last = NO_OPERATION;

	for (b->layer = 0; b->layer < LAYERS && b->code == EXIT_OK; b->layer++) {
		first[b->layer] = b->schedule->n;
		last = add_layer(b, last);
	}
	if (b->code == EXIT_OK)
		b->code = check_sums(b->schedule, b->error);
	if (b->code == EXIT_OK)
		b->code = schedule_run(b->schedule, b->error);
	if (b->code == EXIT_OK)
		b->code = account(t, first, b->error);
	set_sizes(t, b);
	return b->code;
}

static int check(const struct layer_setup *s, uint64_t ways, struct error *error)
{
	if (s->chip.rows == 0 || s->chip.units[MXFP_ENGINE_VECTOR].clock_mhz == 0)
		return fail(error, EXIT_USAGE, "engine: --layer: of the engines of %s nothing is published", s->chip.name);
	if (s->a == MXFP_FORMAT_MXFP4)
		return fail(error, EXIT_USAGE, "engine: --activations: no engine quantizes to mxfp4; mxfp8-e4m3 is nearest");
	if (ways > s->decoder.heads)
		return fail(error, EXIT_USAGE, "engine: --layer: %llu heads cannot be shared by %llu cores",
		            (unsigned long long)s->decoder.heads, (unsigned long long)ways);
	if (s->tokens == 0)
		return fail(error, EXIT_USAGE, "engine: --batch: a layer needs at least one");
	if (s->tokens % s->sequences != 0)
		return fail(error, EXIT_USAGE, "engine: --sequences: %llu tokens are not equally many of each of %llu sequences",
		            (unsigned long long)s->tokens, (unsigned long long)s->sequences);
	if (s->context < s->tokens / s->sequences || s->context > CONTEXT_MAX)
		return fail(error, EXIT_USAGE, "engine: --context: %llu is less than the %llu tokens of a sequence, or more than %d",
		            (unsigned long long)s->context, (unsigned long long)(s->tokens / s->sequences), (int)CONTEXT_MAX);
	return EXIT_OK;
}

int layer_run(struct layer_time *t, const struct layer_setup *s, struct error *error)
{
	const uint64_t ways = (uint64_t)s->cores * s->chips;
	uint64_t *rows = calloc((size_t)s->decoder.experts + 1, sizeof *rows);
	const struct routing routing = {.tokens = s->tokens, .topk = s->decoder.experts_per_token, .seed = s->routing.seed,
	                                .skew = s->routing.skew};
	int code = rows == NULL ? fail_memory(error) : check(s, ways, error);

	*t = (struct layer_time){0};
	if (code == EXIT_OK && s->decoder.experts != 0)
		code = route(rows, s->decoder.experts, &routing, error);
	if (code == EXIT_OK) {
		struct build b = {
			.setup = s, .schedule = &t->schedule, .error = error, .ways = ways, .rows = rows,
			.heads = parts(s->decoder.heads, ways), .kv_heads = parts(s->decoder.kv_heads, ways),
			.queries = s->tokens / s->sequences, .room = (uint64_t)s->chip.sbuf_kib * KIB / 2};

		/* Query i of q, from 0, sees context - (q - 1 - i) keys: with those of one query, on average. */
		b.rows_seeing = parts(multiply(multiply(b.queries, parts(b.heads, b.kv_heads)),
		                               2 * s->context - (b.queries - 1)), larger(2 * s->context, 1));
		code = build(t, &b);
		free(b.pieces);
	}
	free(rows);
	return code;
}

void layer_time_free(struct layer_time *t)
{
	free(t->schedule.operations);
	t->schedule = (struct schedule){0};
}
