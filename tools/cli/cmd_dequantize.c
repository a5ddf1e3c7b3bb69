/* SPDX-License-Identifier: MIT */
/* mxfp dequantize: turns a quantized model back into plain numbers. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/printable.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "io/facts.h"
#include "rewrite/dequantize.h"

static enum parsed parse(int argc, char **argv, struct dequantize_settings *s, struct error *error)
{
	static const struct usage usage = {
		"dequantize IN -o OUT [options]",
		"Decodes the quantized tensors of a model and copies the others. It reads every\n"
		"supported layout, whether written by mxfp quantize or by another program. IN is\n"
		"a .safetensors or .gguf file or a model directory. OUT is a directory or,\n"
		"depending on its name, a file: .safetensors if IN is not sharded, .npy if it\n"
		"also has only one tensor, .gguf if IN is a GGUF file. Numbers of MX blocks are\n"
		"exact in f32, those of NVFP4 are products with a tensor scale, rounded to it;\n"
		"bf16 and f16 are f32 rounded to nearest even. Numbers that are too large for\n"
		"the format are an error without --overflow. Other files of a directory, such as\n"
		"the tokenizer's, are copied into a directory.",
		"  mxfp dequantize model-mxfp4 -o decoded.safetensors --to bf16",
	};
	const struct option_spec options[] = {
		{"output", 'o', OPTION_STRING, "OUT", "file or directory to write", &s->out},
		{"to", 't', OPTION_ELEMENT, "f32|bf16|f16", "format of the numbers", &s->to},
		{"all", 0, OPTION_FLAG, NULL, "convert tensors that were not quantized, too: norms, embeddings and others of numbers, not those "
		 "of integers", &s->all},
		{"overflow", 0, OPTION_OVERFLOW, "sat|ovf",
		 "write numbers that are too large for --to as its largest (sat) or as Inf (ovf), and count them", &s->overflow},
		{"threads", 0, OPTION_THREADS, "N",
		 "use at most this many threads, 0: one per processor; does not affect the output", &s->threads},
		{"force", 'f', OPTION_FLAG, NULL, "replace OUT if it exists", &s->force},
		{"json", 0, OPTION_FLAG, NULL, "print JSON instead of the summary", &s->json},
		{"resume", 0, OPTION_FLAG, NULL, "resume the interrupted run in OUT.partial", &s->resume},
		{"quiet", 'q', OPTION_FLAG, NULL, "do not print progress or the summary, but what is lost, on stderr", &s->quiet},
		OPTION_ALLOW_UNKNOWN,
		{.kind = OPTION_END},
	};

	return options_parse(argc, argv, options, &usage, 1, 1, &s->in, error);
}

static int check(const struct dequantize_settings *s, struct error *error)
{
	if (s->out == NULL)
		return fail(error, EXIT_USAGE,
		            "dequantize: no output given; -o OUT names a directory, a .safetensors or a .gguf file");
	return EXIT_OK;
}

static void print_lost(FILE *file)
{
	fputs("kv_cache_scheme, how keys and values are quantized, was left out with quantization_config; their scales were copied\n",
	      file);
}

static int print_summary(const struct dequantize_settings *s, const struct dequantize_done *done, struct error *error)
{
	const char *to = mxfp_format_get_info(s->to)->name;

	if (s->json)
		return facts_print(stdout, json_pack("{s:o, s:o, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:s?, s:o, s:o}", "input",
		                                     facts_text(s->in), "output", facts_text(s->out), "to", to, "tensors_decoded",
		                                     (json_int_t)done->decoded, "tensors_converted", (json_int_t)done->converted,
		                                     "tensors_kept", (json_int_t)done->kept,
		                                     "saturated", (json_int_t)done->counts.saturated, "overflowed",
		                                     (json_int_t)done->counts.overflowed, "pre_quant_scales_folded",
		                                     (json_int_t)done->folded, "kv_cache_scheme",
		                                     done->cache_lost ? "left out" : NULL, "copied",
		                                     carry_facts(&done->carry), "not_copied", carry_left_facts(&done->carry)), error);
	printf("%zu tensors decoded to %s", done->decoded, to);
	if (s->all)
		printf(", %zu converted", done->converted);
	printf(", %zu kept\n", done->kept);
	if (done->folded > 0)
		printf("%zu of them were multiplied by their pre_quant_scale\n", done->folded);
	if (done->counts.saturated > 0)
		printf("%" PRIu64 " numbers were too large for %s and became its largest\n", done->counts.saturated, to);
	if (done->counts.overflowed > 0)
		printf("%" PRIu64 " numbers were too large for %s and became Inf\n", done->counts.overflowed, to);
	if (done->cache_lost)
		print_lost(stdout);
	carry_print(&done->carry, stdout);
	fputs("written to ", stdout);
	print_printable(stdout, s->out);
	putchar('\n');
	return EXIT_OK;
}

static int run(int argc, char **argv, struct error *error)
{
	struct dequantize_settings settings = {.to = MXFP_FORMAT_F32, .overflow = OPTION_CHOICE_NONE};
	struct dequantize_done done;
	struct model model;

	const enum parsed parsed = parse(argc, argv, &settings, error);
	if (parsed != PARSED_RUN)
		return parsed_code(parsed);
	int code = check(&settings, error);
	if (code == EXIT_OK)
		code = meaning_open(&model, settings.in, MEANING_FOLDS, error);
	if (code != EXIT_OK)
		return code;
	code = dequantize_run(&settings, &model, &done, error);
	model_close(&model);
	if (code == EXIT_OK && (settings.json || !settings.quiet))
		code = print_summary(&settings, &done, error);
	/* --quiet does not hide a loss. */
	if (code == EXIT_OK && settings.quiet && !settings.json && done.cache_lost) {
		fputs("mxfp: ", stderr);
		print_lost(stderr);
	}
	if (code == EXIT_OK && settings.quiet && !settings.json)
		carry_losses(&done.carry, stderr);
	dequantize_free(&done);
	return code;
}

const struct command command_dequantize = {"dequantize", "decode a quantized model to f32, bf16 or f16", run};
