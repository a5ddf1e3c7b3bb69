/* SPDX-License-Identifier: MIT */
/*
 * Error compensation: rounds the weights of a linear layer to a block format, column after column, and moves the columns
 * that are still to come so that the layer's outputs change least (GPTQ, Frantar et al. 2022), towards the outputs that
 * the exact model has where the inputs have already changed (GPTAQ, Li et al. 2025).
 *
 * Rows of X are the layer's inputs, of R those of the exact model; W is [rows][cols]. The result Q is to minimise
 *
 *     |R W^T - X Q^T|^2,  of which H = X^T X, F = (R - X)^T X and G = (R - X)^T (R - X) are all that is needed.
 *
 * The best matrix without rounding is T = W + W F H^-1. Rounding column j of it by e adds e U[j][k] / U[j][j] to columns
 * k > j of the best of the rest, where H^-1 = U^T U, U upper triangular. The scales of a block are chosen when its first
 * column is rounded; of NVFP4, several are tried, and the one with the least loss is taken of those that the result has again.
 * With a sparsity, what stays of a block is chosen at that moment too, group after group: what is pruned is rounded to 0, and those
 * stay whose e / U[j][j] would be the largest (SparseGPT, Frantar and Alistarh 2023), on what pruning alone has made of the columns.
 * H has `damping` times the mean of its diagonal added to the diagonal.
 *
 * Sums over tokens and the factor are binary64, what touches W is binary32, by products of the library where these are
 * large. The order of all sums is fixed, so the bytes depend on neither threads nor tier nor the number of ranks.
 */
#ifndef TOOLS_CALIBRATE_COMPENSATE_H
#define TOOLS_CALIBRATE_COMPENSATE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "mxfp/exec.h"
#include "mxfp/format.h"
#include "mxfp/options.h"
#include "mxfp/sparse.h"

/* Memory of products, which grows to what they need; zeroed before, workspace_free() after. */
struct workspace {
	float *product; /* of the rows that are being added */
	void *memory;
	size_t product_bytes, bytes;
};

void workspace_free(struct workspace *workspace);

/* Sums over tokens, [cols][cols] each. */
struct moments {
	size_t cols, tokens;
	double *inputs, *cross, *change; /* H, F, G; of H and G the lower triangle is not kept up */
};

/* Zeroes sums for inputs of so many columns. moments_free() follows in any case. EXIT_MEMORY. */
int moments_begin(struct moments *moments, size_t cols, struct error *error);

/* Adds rows of X and of R - X, which every rank gives (ranks.h): each adds to some rows of the sums. EXIT_MEMORY, signals. */
int moments_add(struct moments *moments, const float *x, const float *difference, size_t rows, struct workspace *workspace,
                const struct mxfp_exec *exec, struct error *error);

/* Puts together what ranks have. */
void moments_join(struct moments *moments);

/* Whether all sums are; if not, the column of one that is NaN or Inf. */
bool moments_are_finite(const struct moments *moments, size_t *column);

void moments_free(struct moments *moments);

/* Energies of the exact outputs, and of what is lost of them by rounding each weight to nearest and by compensation. */
struct compensation {
	double energy, rounded, compensated;
};

/*
 * Makes what compensate() needs for all weights of these inputs: binary32 H, F, G and U, [cols][cols] one after the other in
 * *factor, malloc'ed. The sums are used up. Inputs that are all zeros count as independent of the others. Ranks share the work, each
 * with the same sums, as they do that of compensate(), each with the same weights. EXIT_MEMORY, signals.
 */
int compensate_prepare(float **factor, struct moments *moments, double damping, const struct mxfp_exec *exec,
                       struct error *error);

/* The numbers that weights become. */
struct compensate_grid {
	enum mxfp_format format;
	enum mxfp_rule rule;     /* of MX formats */
	enum mxfp_recipe recipe; /* of NVFP4; not 4over6 */
	float amax;              /* of NVFP4: the largest magnitude of the tensors that share a tensor scale */
	struct mxfp_sparsity sparsity; /* all zero: dense */
};

/*
 * Moves amax by a few ulps to the largest number representable under its own tensor scale, so that quantizing again gives that scale
 * again. False if there is none, which was seen only of an amax near the ends of binary32.
 */
bool compensate_hold(struct compensate_grid *grid);

/*
 * Replaces w by numbers that the format holds exactly, and that quantizing to NVFP4 by the recipe leaves as they are. The tensor
 * scale is kept because the weight that determines it is rounded to grid->amax, which is compensate_hold()'s; a block's scale, because
 * its largest element determines it. With a sparsity no group keeps more numbers than it may, and all zeros are +0. Adds what it did
 * to *done. EXIT_MEMORY, signals.
 */
int compensate(float *w, size_t rows, size_t cols, const float *factor, const struct compensate_grid *grid,
               struct compensation *done, const struct mxfp_exec *exec, struct error *error);

#endif
