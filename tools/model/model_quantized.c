/* SPDX-License-Identifier: MIT */
/* Signs that a model is already quantized: what its config.json says, else the names and dtypes of its tensors. */
#include "config.h"

#include "model/model_quantized.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/suffix.h"

enum { PHRASE_BYTES = 256 };

/* A tensor *`suffix`, beside one named *`companion` of at most `bits` bits if that is given, shows the layout. */
static const struct sign {
	const char *suffix, *companion;
	unsigned bits;
	const char *phrase;
} signs[] = {
	{".weight_packed", NULL, 0, "tensors named *.weight_packed, as compressed-tensors writes"},
	{".weight_sparse", ".weight_mask", 8, "tensors named *.weight_sparse and *.weight_mask, as mxfp quantize writes"},
	{"_e2m1_x4", NULL, 0, "tensors named *_e2m1_x4, in tiles for Trainium"},
	{"_e4m3_x4", NULL, 0, "tensors named *_e4m3_x4, in tiles for Trainium"},
	{"_e5m2_x4", NULL, 0, "tensors named *_e5m2_x4, in tiles for Trainium"},
	{"_blocks", "_scales", 8, "tensors named *_blocks and *_scales, as in gpt-oss"},
	{".weight_scale", ".weight", 8, "tensors named *.weight_scale beside *.weight of 8 bits"},
	{".weight_scale_inv", ".weight", 8, "tensors named *.weight_scale_inv beside *.weight of 8 bits"},
};

/* The keys of quantization_config that name the method and the format, in the order of the phrase. */
static const char *const config_keys[] = {"quant_method", "format", "quant_algo"};

static int from_config(const json_t *quantization, char *phrase, size_t size)
{
	size_t n = 0;

	for (size_t i = 0; i < sizeof config_keys / sizeof config_keys[0]; i++) {
		const char *value = json_string_value(json_object_get(quantization, config_keys[i]));

		if (value != NULL && n < size)
			n += (size_t)snprintf(phrase + n, size - n, "%s%.64s", n == 0 ? "" : ", ", value);
	}
	if (n == 0)
		snprintf(phrase, size, "quantization_config in config.json");
	return 1;
}

/* Whether the tensor at hand is the first of the sign's pair and the other is there too. 1, 0, or -1 without
   memory. */
static int shows(const struct model *model, const char *name, const struct sign *sign)
{
	size_t n = suffix_stem(name, sign->suffix);
	const struct file *file;

	if (n == 0)
		return 0;
	if (sign->companion == NULL)
		return 1;
	size_t size = n + strlen(sign->companion) + 1;
	char *companion = malloc(size);
	if (companion == NULL)
		return -1;
	snprintf(companion, size, "%.*s%s", (int)n, name, sign->companion);
	const struct tensor *other = model_find(model, companion, &file);
	free(companion);
	return other != NULL && dtype_info(other->dtype)->bits <= sign->bits;
}

/* Whether a tensor's dtype alone shows it. */
static bool has_blocks(const struct tensor *tensor, char *phrase, size_t size)
{
	const struct dtype_info *info = dtype_info(tensor->dtype);

	if (info->block_elements > 1)
		snprintf(phrase, size, "tensors of ggml's type %s", info->name);
	return info->block_elements > 1;
}

/* The sign that a file's tensors show: 1 and the phrase, 0, or -1 without memory. */
static int from_tensors(const struct model *model, const struct file *file, char *phrase, size_t size)
{
	for (size_t i = 0; i < file->n_tensors; i++) {
		if (has_blocks(&file->tensors[i], phrase, size))
			return 1;
		for (size_t k = 0; k < sizeof signs / sizeof signs[0]; k++) {
			int shown = shows(model, file->tensors[i].name, &signs[k]);

			if (shown > 0)
				snprintf(phrase, size, "%s", signs[k].phrase);
			if (shown != 0)
				return shown;
		}
	}
	return 0;
}

int model_find_quantizer(const struct model *model, char **phrase, struct error *error)
{
	const json_t *quantization = json_object_get(model->config, "quantization_config");
	char text[PHRASE_BYTES];
	int found = 0;

	if (quantization != NULL && !json_is_null(quantization))
		found = from_config(quantization, text, sizeof text);
	for (size_t i = 0; i < model->n_files && found == 0; i++)
		found = from_tensors(model, &model->files[i], text, sizeof text);
	*phrase = found > 0 ? strdup(text) : NULL;
	return found < 0 || (found > 0 && *phrase == NULL) ? fail_memory(error) : EXIT_OK;
}
