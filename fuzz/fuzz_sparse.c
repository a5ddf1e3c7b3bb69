/* SPDX-License-Identifier: MIT */
/*
 * Structured sparsity (doc/numerics.md, section 7) of a small matrix in any format with arbitrary masks.
 *
 * Properties: masks are refused unless each group has n bits set, and a refused call writes nothing; nothing is written
 * outside the rows; expanding and then compressing restores the kept codes; compressing and then expanding preserves
 * the elements in the masks; masks from pruning are accepted, and pruning again changes nothing.
 *
 * Input: format, pattern, flags (1 gaps between rows), rows, columns, then masks and codes.
 */
#include "format.h"
#include "fuzz.h"
#include "mxfp/sparse.h"

enum { MAX_ROWS = 3, MAX_COLS = 80, MAX_BYTES = 2048, GAP = 3, UNTOUCHED = 0xA5, N_PATTERNS = 7 };

struct matrix {
	struct mxfp_sparse head;
	struct mxfp_sparse_sizes sizes;
	size_t unit; /* bytes in a unit of codes_stride */
	uint8_t codes[MAX_BYTES], masks[MAX_BYTES];
};

static void check_gaps(const uint8_t *bytes, size_t rows, size_t row_bytes, size_t stride)
{
	for (size_t i = 0; i < MAX_BYTES; i++)
		if (stride == 0 || i / stride >= rows || i % stride >= row_bytes)
			fuzz_check(bytes[i] == UNTOUCHED, "nothing is written outside the rows");
}

static void clear(uint8_t *bytes)
{
	memset(bytes, UNTOUCHED, MAX_BYTES);
}

static void point(struct matrix *m, enum mxfp_format format, size_t gap)
{
	const struct mxfp_format_info *info = mxfp_format_get_info(format);

	m->head.size = sizeof m->head;
	m->head.format = format;
	m->unit = info->kind == MXFP_KIND_BLOCK ? 1 : info->storage_bytes;
	fuzz_check(mxfp_sparse_size(&m->sizes, format, m->head.sparsity, m->head.rows, m->head.cols) == MXFP_OK,
	           "a small matrix has a size");
	m->head.codes = m->codes;
	m->head.codes_stride = m->sizes.codes_row_bytes / m->unit + gap;
	m->head.masks = m->masks;
	m->head.masks_stride = m->sizes.masks_row_bytes + gap;
}

/* Whether each group of the masks has n bits set. */
static int groups_are_full(const struct matrix *m)
{
	for (size_t row = 0; row < m->head.rows; row++)
		for (size_t k = 0; k < m->head.cols; k += m->head.sparsity.m) {
			unsigned n = 0;

			for (size_t i = k; i < k + m->head.sparsity.m; i++)
				n += m->masks[row * m->head.masks_stride + i / 8] >> i % 8 & 1;
			if (n != m->head.sparsity.n)
				return 0;
		}
	return 1;
}

static int same_rows(const uint8_t *a, const uint8_t *b, const struct matrix *m)
{
	for (size_t row = 0; row < m->head.rows; row++) {
		size_t at = row * m->head.codes_stride * m->unit;

		if (memcmp(a + at, b + at, m->sizes.codes_row_bytes) != 0)
			return 0;
	}
	return 1;
}

/* Expands kept codes, compresses the result and expands it again. */
static void check_expansion(struct matrix *m)
{
	static uint8_t dense[MAX_BYTES], again[MAX_BYTES], kept[MAX_BYTES];
	struct mxfp_sparse compressed = m->head;

	clear(dense);
	enum mxfp_status status = mxfp_sparse_expand(dense, 0, &m->head, NULL);
	fuzz_check(status == MXFP_OK || status == MXFP_ERR_MASK, "only masks are refused");
	if (status != MXFP_OK) {
		check_gaps(dense, 0, 0, 1);
		return;
	}
	fuzz_check(groups_are_full(m), "each group has n elements");
	clear(kept);
	compressed.codes = kept;
	fuzz_check(mxfp_sparse_compress(&compressed, dense, 0, NULL) == MXFP_OK, "what expands compresses");
	check_gaps(kept, m->head.rows, m->sizes.codes_row_bytes, m->head.codes_stride * m->unit);
	/* The padding and unused bits of kept codes are now 0, so the codes no longer change. */
	clear(again);
	fuzz_check(mxfp_sparse_expand(again, 0, &compressed, NULL) == MXFP_OK, "what was compressed expands");
	fuzz_check(memcmp(dense, again, MAX_BYTES) == 0, "compressing keeps every code that expanding wrote");
	memcpy(m->codes, kept, MAX_BYTES);
	clear(kept);
	fuzz_check(mxfp_sparse_compress(&compressed, again, 0, NULL) == MXFP_OK, "and compresses again");
	fuzz_check(same_rows(kept, m->codes, m), "kept codes come back");
}

static void check_pruning(struct matrix *m, const uint8_t *src, size_t src_bytes)
{
	static uint8_t pruned[MAX_BYTES], again[MAX_BYTES], masks[MAX_BYTES];
	const enum mxfp_format format = m->head.format;
	const struct mxfp_result to = mxfp_to_numbers(format, pruned), to_again = mxfp_to_numbers(format, again);
	const struct mxfp_matrix from = mxfp_numbers(format, m->head.rows, m->head.cols, src);
	const struct mxfp_matrix from_again = mxfp_numbers(format, m->head.rows, m->head.cols, again);

	clear(m->masks);
	clear(pruned);
	fuzz_check(mxfp_sparse_prune(&m->head, &to, &from, NULL) == MXFP_OK, "a small matrix is pruned");
	check_gaps(m->masks, m->head.rows, m->sizes.masks_row_bytes, m->head.masks_stride);
	check_gaps(pruned, 1, src_bytes, src_bytes);
	memcpy(again, pruned, MAX_BYTES);
	memcpy(masks, m->masks, MAX_BYTES);
	fuzz_check(mxfp_sparse_prune(&m->head, &to_again, &from_again, NULL) == MXFP_OK, "and pruned again in place");
	fuzz_check(memcmp(again, pruned, MAX_BYTES) == 0, "pruning what was pruned changes nothing");
	/* The masks may have changed: among zeros the first are kept. */
	memcpy(m->masks, masks, MAX_BYTES);
	clear(m->codes);
	fuzz_check(mxfp_sparse_compress(&m->head, src, 0, NULL) == MXFP_OK, "masks of pruning are not refused");
	clear(again);
	fuzz_check(mxfp_sparse_expand(again, 0, &m->head, NULL) == MXFP_OK, "masks of pruning are not refused");
	fuzz_check(memcmp(again, pruned, MAX_BYTES) == 0, "kept numbers expand to the pruned matrix");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum { GAPS = 1 };
	struct fuzz_bytes in = {data, size};
	static struct matrix m;
	static uint8_t src[MAX_BYTES];

	enum mxfp_format format = fuzz_byte(&in) % MXFP_N_FORMATS;
	m.head.sparsity = *mxfp_sparsity_pattern(fuzz_byte(&in) % N_PATTERNS);
	size_t gap = (fuzz_byte(&in) & GAPS) != 0 ? GAP : 0;
	m.head.rows = fuzz_byte(&in) % (MAX_ROWS + 1);
	m.head.cols = fuzz_byte(&in) % (MAX_COLS + 1);
	point(&m, format, gap);
	fuzz_take(&in, m.masks, m.head.masks_stride * m.head.rows);
	fuzz_take(&in, m.codes, m.head.codes_stride * m.unit * m.head.rows);
	memcpy(src, m.codes, MAX_BYTES);
	check_expansion(&m);
	size_t width = mxfp_format_get_info(format)->storage_bytes;
	if (format == MXFP_FORMAT_F32 || format == MXFP_FORMAT_BF16 || format == MXFP_FORMAT_F16)
		check_pruning(&m, src, m.head.rows * m.head.cols * width);
	return 0;
}
