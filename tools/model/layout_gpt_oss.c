/* SPDX-License-Identifier: MIT */
/*
 * The layout of gpt-oss: weights of experts in MXFP4. A tensor NAME [E, N, K] becomes NAME_blocks U8 [E, N, K/32, 16],
 * the even element in the low nibble, and NAME_scales U8 (E8M0) [E, N, K/32]. Unquantized it is [E, K, N].
 */
#include "config.h"

#include <string.h>

#include "io/file_safetensors.h"
#include "model/layout_config.h"

static const struct layout_form forms[] = {
	{MXFP_FORMAT_MXFP4, "mxfp4", true, false,
	 {[LAYOUT_CODES] = {"", "_blocks", DTYPE_U8}, [LAYOUT_SCALES] = {"", "_scales", DTYPE_U8}}, 0, 0},
	/* OpenAI's own files say NAME.blocks and NAME.scales. */
	{MXFP_FORMAT_MXFP4, "mxfp4", true, false,
	 {[LAYOUT_CODES] = {"", ".blocks", DTYPE_U8}, [LAYOUT_SCALES] = {"", ".scales", DTYPE_U8}}, 0, 0},
};

/* Mxfp4GptOssExperts of transformers, and vLLM: what else has such names is ignored, and its weights are made up. */
static const char *refuses(const struct role_model *model, const struct role *role, const struct tensor *tensor)
{
	if (model->type[0] != '\0' && strcmp(model->type, "gpt_oss") != 0)
		return "loaders of this layout take model_type gpt_oss only";
	return role->kind == ROLE_EXPERTS && tensor->rank == 3 ? NULL : "loaders of this layout take experts only";
}

static json_t *config(const struct layout_facts *facts)
{
	return json_pack("{s:O}", "modules_to_not_convert", facts->ignore);
}

const struct layout layout_gpt_oss = {
	.name = "gpt-oss",
	.meaning = "MXFP4 as in OpenAI's gpt-oss",
	.file_format = &file_safetensors,
	.order = &layout_block_rows,
	.refuses = refuses,
	.forms = forms,
	.n_forms = sizeof forms / sizeof forms[0],
	.transposes = true,
	.method = "mxfp4",
	.config = config,
};
