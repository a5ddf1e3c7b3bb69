/* SPDX-License-Identifier: MIT */
/* Comparing two tensors, in pieces: bits where the dtypes agree, values where both are known. */
#include "config.h"

#include "analyse/compare.h"

#include <string.h>

#include "io/elements.h"

enum { WIDEST = 8 }; /* bytes of an element */

struct piece_pair {
	unsigned char a[VALUES_PIECE * WIDEST], b[VALUES_PIECE * WIDEST];
	double x[VALUES_PIECE], y[VALUES_PIECE];
};

bool compare_differs(enum compare_result result)
{
	return result != COMPARE_EQUAL && result != COMPARE_SAME_VALUE;
}

static bool same_shape(const struct tensor *a, const struct tensor *b)
{
	return a->rank == b->rank && (a->rank == 0 || memcmp(a->shape, b->shape, a->rank * sizeof *a->shape) == 0);
}

static int read_piece(const struct file *file, const struct tensor *tensor, uint64_t first, unsigned char *bytes,
                      size_t n, struct error *error)
{
	/* Pieces begin at whole bytes, since VALUES_PIECE elements of any dtype are whole bytes. */
	uint64_t from = first / VALUES_PIECE * values_bytes(tensor->dtype, VALUES_PIECE);

	return file_read(file, tensor, from, bytes, values_bytes(tensor->dtype, n), error);
}

/* Elements below 8 bits are compared by the byte, and blocks whole: how many elements there are in them does not matter
   for equality. */
static void count_bits(struct comparison *c, const struct piece_pair *pair, uint64_t first, size_t n)
{
	const unsigned bits = dtype_info(c->a->dtype)->bits, block = dtype_info(c->a->dtype)->block_elements;
	size_t width = bits < 8 ? 1 : bits / 8, units = values_bytes(c->a->dtype, n) / width;

	for (size_t i = 0; i < units; i++)
		if (memcmp(pair->a + i * width, pair->b + i * width, width) != 0 && c->unequal_bits++ == 0 &&
		    !c->measured)
			c->first_unequal = first + (bits < 8 ? i * 8 / bits : i * block);
}

static int compare_piece(struct comparison *c, struct piece_pair *pair, uint64_t first, size_t n, struct error *error)
{
	int code = read_piece(c->file_a, c->a, first, pair->a, n, error);
	if (code == EXIT_OK)
		code = read_piece(c->file_b, c->b, first, pair->b, n, error);
	if (code != EXIT_OK)
		return code;
	if (c->a->dtype == c->b->dtype)
		count_bits(c, pair, first, n);
	if (c->measured) {
		values_decode(c->a->dtype, pair->a, pair->x, n);
		values_decode(c->b->dtype, pair->b, pair->y, n);
		stats_add_double(&c->stats, pair->x, pair->y, n);
	}
	return EXIT_OK;
}

/* Floats have more bit patterns than values; in every other dtype other bits are another value. */
static bool bits_are_values(enum dtype dtype)
{
	return !dtype_info(dtype)->numeric && dtype != DTYPE_F64 && dtype != DTYPE_Q8_0;
}

static enum compare_result conclude(const struct comparison *c)
{
	if (c->a->dtype != c->b->dtype)
		return COMPARE_DTYPE;
	if (c->unequal_bits == 0)
		return COMPARE_EQUAL;
	if (bits_are_values(c->a->dtype) || c->stats.unequal > 0)
		return COMPARE_VALUE;
	return COMPARE_SAME_VALUE;
}

int compare_tensors(struct comparison *c, struct progress *progress, struct error *error)
{
	struct piece_pair pair;
	int code = EXIT_OK;

	if (c->a == NULL || c->b == NULL || !same_shape(c->a, c->b)) {
		c->result = c->a == NULL ? COMPARE_ONLY_B : c->b == NULL ? COMPARE_ONLY_A : COMPARE_SHAPE;
		return EXIT_OK;
	}
	uint64_t n = tensor_elements(c->a);
	c->measured = values_are_known(c->a->dtype) && values_are_known(c->b->dtype);
	for (uint64_t first = 0; first < n && code == EXIT_OK; first += VALUES_PIECE) {
		size_t piece = n - first < VALUES_PIECE ? (size_t)(n - first) : VALUES_PIECE;

		code = compare_piece(c, &pair, first, piece, error);
		progress_add(progress, values_bytes(c->a->dtype, piece));
	}
	if (c->measured && c->stats.unequal > 0)
		c->first_unequal = c->stats.first_unequal;
	c->result = conclude(c);
	return code;
}
