/* SPDX-License-Identifier: MIT */
/* Times ggml: blocks by libggml-base, bf16 and f16 by the CPU library that the argument names, because ggml chooses
   among several at run time. */
#include <dlfcn.h>
#include <ggml-cpu.h>
#include <ggml.h>

#include "peer.h"

struct type {
	enum ggml_type type;
	const struct ggml_type_traits *traits;
};

typedef void convert(const void *src, void *dst, int64_t n);

static void quantize(void *dst, const void *src, size_t n, void *context)
{
	const struct type *t = context;

	ggml_quantize_chunk(t->type, src, dst, 0, (int64_t)(n / PEER_COLS), PEER_COLS, NULL);
}

static void dequantize(void *dst, const void *src, size_t n, void *context)
{
	const struct type *t = context;

	t->traits->to_float(src, dst, (int64_t)n);
}

static void convert_all(void *dst, const void *src, size_t n, void *context)
{
	(*(convert **)context)(src, dst, (int64_t)n);
}

static void time_blocks(const char *to, const char *from, enum ggml_type type, const float *row, char *a, char *b)
{
	struct type t = {type, ggml_get_type_traits(type)};
	const size_t bytes = ggml_row_size(type, PEER_COLS);
	char *codes = malloc(bytes);

	if (codes == NULL)
		exit(1);
	quantize(codes, row, PEER_COLS, &t);
	peer_time(&(struct peer){"ggml", to, PEER_COLS * 4, bytes, row, quantize, &t}, a, b);
	peer_time(&(struct peer){"ggml", from, bytes, PEER_COLS * 4, codes, dequantize, &t}, a, b);
	free(codes);
}

static void time_numbers(void *library, const char *name, const char *symbol, const float *row, char *a, char *b)
{
	convert *function = (convert *)dlsym(library, symbol);

	if (function != NULL)
		peer_time(&(struct peer){"ggml", name, PEER_COLS * 4, PEER_COLS * 2, row, convert_all, &function}, a,
		          b);
}

int main(int argc, char **argv)
{
	static float row[PEER_COLS];
	char *a = peer_memory(), *b = peer_memory();
	void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;

	peer_normals(row);
	if (library == NULL)
		fprintf(stderr, "no CPU library, so no bf16 and f16: %s\n", argc > 1 ? dlerror() : "give its path");
	else {
		time_numbers(library, "f32 -> bf16", "ggml_cpu_fp32_to_bf16", row, a, b);
		time_numbers(library, "f32 -> f16", "ggml_cpu_fp32_to_fp16", row, a, b);
	}
	time_blocks("f32 -> mxfp4", "mxfp4 -> f32", GGML_TYPE_MXFP4, row, a, b);
	time_blocks("f32 -> nvfp4", "nvfp4 -> f32", GGML_TYPE_NVFP4, row, a, b);
	return 0;
}
