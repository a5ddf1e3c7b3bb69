/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "analyse/weight_error.h"

#include <math.h>

int weight_errors(struct weight_error *errors, const struct file *file, const struct tensor *tensor,
                  const struct measure_options *options, struct error *error)
{
	struct layer layer = {.file = file, .tensor = tensor};
	int code = measure_layer(&layer, options, error);

	for (size_t v = 0; v < options->variants.n && code == EXIT_OK; v++)
		errors[v] = weight_error_of(&layer.measurements[v]);
	layer_free(&layer, options->variants.n);
	return code;
}

struct weight_error weight_error_of(const struct measurement *measurement)
{
	const struct stats *weights = &measurement->errors.stats;
	struct weight_error error = {.elements = measurement->elements, .bytes = measurement->bytes};

	if (weights->noise != 0)
		error.sum = (double)error.elements * (weights->noise / weights->signal);
	return error;
}

void weight_error_add(struct weight_error *total, const struct weight_error *error)
{
	total->elements += error->elements;
	total->bytes += error->bytes;
	total->sum += error->sum;
}

double weight_error_mean(const struct weight_error *error)
{
	return error->elements == 0 ? 0 : error->sum / (double)error->elements;
}

double weight_error_sqnr(const struct weight_error *error)
{
	return -10 * log10(weight_error_mean(error));
}

double weight_error_bits(const struct weight_error *error)
{
	return error->elements == 0 ? 0 : 8 * (double)error->bytes / (double)error->elements;
}
