/* SPDX-License-Identifier: MIT */
/*
 * Errors of one tensor's weights in several variants, for choosing among them. The measure is the relative squared
 * error
 *
 *   r = sum (w - q)^2 / sum w^2
 *
 * over all weights w that are finite and what they are after quantizing and decoding, q; SQNR is -10 log10 r. Of many
 * tensors together it is the mean of r over their weights, so that a layer counts by its size and not by its scale.
 */
#ifndef TOOLS_ANALYSE_WEIGHT_ERROR_H
#define TOOLS_ANALYSE_WEIGHT_ERROR_H

#include "analyse/measure.h"

struct weight_error {
	uint64_t elements, bytes; /* codes, masks, scales, tensor scale */
	double sum;               /* of r, over the elements */
};

/* Measures a tensor in every variant of the options, which need no input. As measure_layer(). */
int weight_errors(struct weight_error *errors, const struct file *file, const struct tensor *tensor,
                  const struct measure_options *options, struct error *error);

/* Of a measurement. */
struct weight_error weight_error_of(const struct measurement *measurement);

/* Adds one to another. */
void weight_error_add(struct weight_error *total, const struct weight_error *error);

/* The mean of r; in dB; and bits an element. */
double weight_error_mean(const struct weight_error *error);
double weight_error_sqnr(const struct weight_error *error);
double weight_error_bits(const struct weight_error *error);

#endif
