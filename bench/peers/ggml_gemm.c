/* SPDX-License-Identifier: MIT */
/* Times ggml's mul_mat of weights of each type and activations in f32, by the CPU backend that the argument names; and
   with weights in the backend's own order ("repacked") where it has one for the type. */
#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml.h>

#include "product.h"

struct product {
	ggml_backend_t backend;
	struct ggml_cgraph *graph;
};

static void run(void *context)
{
	const struct product *p = context;

	if (ggml_backend_graph_compute(p->backend, p->graph) != GGML_STATUS_SUCCESS)
		exit(1);
}

/* A context for the descriptions of tensors. */
static struct ggml_context *context_make(void)
{
	struct ggml_context *context = ggml_init((struct ggml_init_params){.mem_size = 1 << 20, .no_alloc = true});

	if (context == NULL)
		exit(1);
	return context;
}

static ggml_backend_buffer_t allocate(struct ggml_context *context, ggml_backend_buffer_type_t type)
{
	ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors_from_buft(context, type);

	if (buffer == NULL)
		exit(1);
	return buffer;
}

/* Times one type with weights in this kind of memory, unless the backend does not multiply by them so. */
static void time_type(ggml_backend_t backend, ggml_backend_buffer_type_t memory, const char *name, enum ggml_type type,
                      int m, int threads, float *numbers)
{
	struct ggml_context *weights = context_make(), *rest = context_make();
	struct ggml_tensor *w = ggml_new_tensor_2d(weights, type, PRODUCT_K, PRODUCT_N);
	struct ggml_tensor *a = ggml_new_tensor_2d(rest, GGML_TYPE_F32, PRODUCT_K, m);
	struct ggml_tensor *c = ggml_mul_mat(rest, w, a);
	struct product p = {backend, ggml_new_graph(rest)};
	ggml_backend_buffer_t w_memory = allocate(weights, memory);
	ggml_backend_buffer_t a_memory = allocate(rest, ggml_backend_get_default_buffer_type(backend));
	const size_t bytes = ggml_nbytes(w);
	char *codes = malloc(bytes);
	/* A backend sets tensor->extra in its own memory if it repacks the type. */
	const bool repacks = memory == ggml_backend_get_default_buffer_type(backend) || w->extra != NULL;

	if (codes == NULL)
		exit(1);
	if (repacks) {
		ggml_quantize_chunk(type, numbers, codes, 0, PRODUCT_N, PRODUCT_K, NULL);
		ggml_backend_tensor_set(w, codes, 0, bytes);
		ggml_backend_tensor_set(a, numbers, 0, ggml_nbytes(a));
		ggml_build_forward_expand(p.graph, c);
		product_time("ggml", name, m, threads, run, &p);
	}
	free(codes);
	ggml_backend_buffer_free(w_memory);
	ggml_backend_buffer_free(a_memory);
	ggml_free(weights);
	ggml_free(rest);
}

/* The backend's memory named CPU_REPACK, or NULL. */
static ggml_backend_buffer_type_t repacked(ggml_backend_reg_t library, ggml_backend_dev_t device)
{
	const ggml_backend_dev_get_extra_bufts_t list =
		(ggml_backend_dev_get_extra_bufts_t)ggml_backend_reg_get_proc_address(library, "ggml_backend_dev_get_extra_bufts");
	ggml_backend_buffer_type_t *types = list != NULL ? list(device) : NULL;

	for (; types != NULL && *types != NULL; types++)
		if (strcmp(ggml_backend_buft_name(*types), "CPU_REPACK") == 0)
			return *types;
	return NULL;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name, *repacked_name;
		enum ggml_type type;
	} types[] = {
		{"mxfp4 x f32", "mxfp4 x f32, repacked", GGML_TYPE_MXFP4},
		{"nvfp4 x f32", "nvfp4 x f32, repacked", GGML_TYPE_NVFP4},
		{"bf16 x f32", "bf16 x f32, repacked", GGML_TYPE_BF16},
		{"f16 x f32", "f16 x f32, repacked", GGML_TYPE_F16},
	};
	float *numbers = product_numbers(PRODUCT_N);
	ggml_backend_reg_t library = argc > 1 ? ggml_backend_load(argv[1]) : NULL;

	if (library == NULL) {
		fprintf(stderr, "left out: ggml's products: give the path of its CPU backend\n");
		return 1;
	}
	ggml_backend_dev_t device = ggml_backend_reg_dev_get(library, 0);
	ggml_backend_t backend = ggml_backend_dev_init(device, NULL);
	const ggml_backend_set_n_threads_t set_threads =
		(ggml_backend_set_n_threads_t)ggml_backend_reg_get_proc_address(library, "ggml_backend_set_n_threads");
	ggml_backend_buffer_type_t own = repacked(library, device);

	if (backend == NULL || set_threads == NULL)
		return 1;
	for (size_t t = 0; t < PRODUCT_COUNT(product_threads); t++) {
		set_threads(backend, product_threads[t]);
		for (size_t k = 0; k < PRODUCT_COUNT(types); k++)
			for (size_t i = 0; i < PRODUCT_COUNT(product_rows); i++) {
				const int m = product_rows[i], threads = product_threads[t];
				time_type(backend, ggml_backend_get_default_buffer_type(backend), types[k].name, types[k].type, m,
				          threads, numbers);
				if (own != NULL)
					time_type(backend, own, types[k].repacked_name, types[k].type, m, threads, numbers);
			}
	}
	return 0;
}
