/* SPDX-License-Identifier: MIT */
/* mxfp transform: other weights with the same outputs, of which a format may lose less. */
#include "config.h"

#include <stdlib.h>

#include "cli/commands.h"
#include "transform/transform.h"

struct options {
	struct transform_settings settings;
	const char *exponent;
};

static enum parsed parse(int argc, char **argv, struct options *o, struct error *error)
{
	static const struct usage usage = {
		"transform MODEL -o OUT --scale-norms | --scale-mlp | ... [options]",
		"Changes weights so that a block format loses less and outputs stay the same:\n"
		"scales move from one layer to the next, as in SmoothQuant, and Hadamard matrices\n"
		"rotate values or the residual stream, as in QuaRot. Inference needs no extra\n"
		"operation. Scales are powers of two, so outputs in f32 stay the same in every\n"
		"bit; folding and rotations round. MODEL is a .safetensors file or a model\n"
		"directory of a family that mxfp eval runs, without experts. OUT is a directory,\n"
		"or a file if MODEL is one and OUT ends in .safetensors. Rotations help some\n"
		"models and harm others: measure with mxfp eval, and calibrate afterwards.",
		"  mxfp transform model/ --scale-norms --scale-mlp -o model-scaled\n"
		"  mxfp eval model-scaled --text test.txt --preset w4a8",
	};
	const struct option_spec options[] = {
		{.kind = OPTION_HEADING, .help = "Output"},
		{"output", 'o', OPTION_STRING, "OUT", "directory or .safetensors file to write", &o->settings.out},
		{"force", 'f', OPTION_FLAG, NULL, "replace OUT if it exists", &o->settings.force},
		{.kind = OPTION_HEADING, .help = "Transforms"},
		{"scale-norms", 0, OPTION_FLAG, NULL, "scale between a norm's weight and the columns of the layers behind it",
		 &o->settings.scale_norms},
		{"scale-values", 0, OPTION_FLAG, NULL, "scale between rows of v and columns of o", &o->settings.scale_values},
		{"scale-mlp", 0, OPTION_FLAG, NULL, "scale between rows of up and columns of down", &o->settings.scale_mlp},
		{"exponent", 0, OPTION_STRING, "E", "0: scales even out columns; 1: they even out inputs; between: some of both",
		 &o->exponent},
		{"fold-norms", 0, OPTION_FLAG, NULL, "make norms' weights part of the layers behind them", &o->settings.fold_norms},
		{"rotate-values", 0, OPTION_FLAG, NULL, "rotate rows of v and columns of o by Hadamard matrices",
		 &o->settings.rotate_values},
		{"rotate-stream", 0, OPTION_FLAG, NULL, "rotate the residual stream by Hadamard matrices, with norms folded",
		 &o->settings.rotate_stream},
		{"rotation-size", 0, OPTION_UNSIGNED, "N", "size of Hadamard matrices, a power of two, 0: the largest that divides a head or "
		 "the stream", &o->settings.rotation},
		{.kind = OPTION_HEADING, .help = "Execution"},
		{"threads", 0, OPTION_THREADS, "N", "copy other tensors on at most this many threads, 0: one per processor; does not "
		 "affect the output", &o->settings.threads},
		{"json", 0, OPTION_FLAG, NULL, "print JSON instead of lines", &o->settings.json},
		{"quiet", 'q', OPTION_FLAG, NULL, "do not print progress or lines", &o->settings.quiet},
		OPTION_ALLOW_UNKNOWN,
		{.kind = OPTION_END},
	};

	const enum parsed parsed = options_parse(argc, argv, options, &usage, 1, 1, &o->settings.in, error);
	const struct transform_settings *s = &o->settings;
	const struct option_use uses[] = {
		{"exponent", s->scale_norms || s->scale_values || s->scale_mlp, "--scale-norms, --scale-values and --scale-mlp"},
		{"fold-norms", !s->rotate_stream, "norms that --rotate-stream does not fold"},
		{"rotation-size", s->rotate_values || s->rotate_stream, "--rotate-values and --rotate-stream"},
		{NULL, true, NULL},
	};

	return parsed == PARSED_RUN && options_check_used(uses, error) != EXIT_OK ? PARSED_ERROR : parsed;
}

static int check(struct options *o, struct error *error)
{
	struct transform_settings *s = &o->settings;
	char *end;

	if (s->out == NULL)
		return fail(error, EXIT_USAGE, "transform: no output given; -o OUT names a directory or a .safetensors file");
	if (!s->scale_norms && !s->scale_values && !s->scale_mlp && !s->fold_norms && !s->rotate_values && !s->rotate_stream)
		return fail(error, EXIT_USAGE, "transform: no transform given; give one or more of --scale-norms, --scale-values, "
		            "--scale-mlp, --fold-norms, --rotate-values, --rotate-stream");
	s->exponent = strtod(o->exponent, &end);
	if (end == o->exponent || *end != '\0' || !(s->exponent >= 0 && s->exponent <= 1))
		return fail(error, EXIT_USAGE, "transform: invalid --exponent '%s': expected a number from 0 to 1, for example 0.5",
		            o->exponent);
	if (s->rotation == 1 || (s->rotation & (s->rotation - 1)) != 0)
		return fail(error, EXIT_USAGE, "transform: invalid --rotation-size: expected a power of two from 2 on");
	return EXIT_OK;
}

static int run(int argc, char **argv, struct error *error)
{
	struct options o = {.exponent = "0.5"};
	const enum parsed parsed = parse(argc, argv, &o, error);
	struct transformation done = {0};
	struct model model = {0};
	int code = parsed == PARSED_RUN ? check(&o, error) : parsed_code(parsed);

	if (parsed != PARSED_RUN || code != EXIT_OK)
		return code;
	code = meaning_open(&model, o.settings.in, MEANING_DECODES, error);
	if (code == EXIT_OK)
		code = transform_run(&done, &o.settings, &model, error);
	if (code == EXIT_OK && (o.settings.json || !o.settings.quiet))
		code = transform_print(&done, &o.settings, error);
	else if (code == EXIT_OK)
		transform_losses(&done);
	transform_free(&done);
	model_close(&model);
	return code;
}

const struct command command_transform = {"transform", "scale or rotate weights and keep the outputs", run};
