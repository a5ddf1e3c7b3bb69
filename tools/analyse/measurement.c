/* SPDX-License-Identifier: MIT */
/* Measurements: setting up, merging, releasing. */
#include <stdlib.h>
#include <string.h>

#include "analyse/measure.h"

int measurement_init(struct measurement *total, const struct variant *variant, struct error *error)
{
	*total = (struct measurement){.variant = *variant, .saturated_known = true, .n_scales = N_SCALE_CODES};
	total->scales = calloc(N_SCALE_CODES, sizeof *total->scales);
	return total->scales == NULL ? fail_memory(error) : EXIT_OK;
}

int measurement_keep_scales(struct measurement *measurement, const uint64_t histogram[N_SCALE_CODES],
                            struct error *error)
{
	unsigned first = 0, end = N_SCALE_CODES;

	while (first < end && histogram[first] == 0)
		first++;
	while (end > first && histogram[end - 1] == 0)
		end--;
	measurement->first_scale = first;
	measurement->n_scales = end - first;
	measurement->scales = malloc((end - first + 1) * sizeof *measurement->scales);
	if (measurement->scales == NULL)
		return fail_memory(error);
	memcpy(measurement->scales, histogram + first, (end - first) * sizeof *measurement->scales);
	return EXIT_OK;
}

void measurement_merge(struct measurement *total, const struct measurement *part)
{
	total->elements += part->elements;
	total->bytes += part->bytes;
	total->saturated += part->saturated;
	total->saturated_known &= part->saturated_known;
	total->flushed += part->flushed;
	stats_merge(&total->weights, &part->weights);
	for (int k = 0; k < N_ACTIVATION_KINDS; k++) {
		stats_merge(&total->products[k].weights_only, &part->products[k].weights_only);
		stats_merge(&total->products[k].both, &part->products[k].both);
	}
	for (unsigned i = 0; i < N_ERROR_BINS; i++)
		total->relative[i] += part->relative[i];
	for (unsigned i = 0; i < part->n_scales; i++)
		total->scales[part->first_scale + i] += part->scales[i];
}

double measurement_bits(const struct measurement *measurement)
{
	return measurement->elements == 0 ? 0 : 8 * (double)measurement->bytes / (double)measurement->elements;
}

void measurement_free(struct measurement *measurement)
{
	free(measurement->scales);
	measurement->scales = NULL;
}

void layer_free(struct layer *layer, size_t n_variants)
{
	for (size_t v = 0; layer->measurements != NULL && v < n_variants; v++)
		measurement_free(&layer->measurements[v]);
	free(layer->measurements);
	layer->measurements = NULL;
}
