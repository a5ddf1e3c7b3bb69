/* SPDX-License-Identifier: MIT */
/*
 * A quantized model as plain numbers, for commands that make other numbers of them: quantize, calibrate, report, advise,
 * transform. What they write is rounded a second time, which they say.
 */
#ifndef TOOLS_MODEL_DECODED_H
#define TOOLS_MODEL_DECODED_H

#include <stdio.h>

#include "base/error.h"
#include "model/model.h"

/* Replaces each quantized tensor by its numbers, F32 of the shape that it had before it was quantized, multiplied by its
   pre_quant_scale if it has one, and takes its parts out of the model: model->n_decoded is their number, together with those
   of model_decode_scaled(). The model is not quantized any more: model_quantized_by() is NULL, and model_config_copy() gives
   a config.json without what said so. As quantized_find(). */
int model_decode(struct model *model, struct error *error);

/* The same of those alone whose matrices have tensor scales of their own: nobody else takes such for blocks. The rest of the model
   stays quantized. */
int model_decode_each(struct model *model, struct error *error);

/* What quantized a model of which n_decoded is not 0, as one phrase. */
const char *decoded_from(const struct model *model);

/* For commands that quantize: a line that it is rounded a second time, if it is. */
void decoded_print(FILE *file, const char *prefix, const struct model *model);

#endif
