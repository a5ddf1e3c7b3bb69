/* SPDX-License-Identifier: MIT */
/* Times oneDNN's matmul: W reordered once to the order that oneDNN chooses, sums in f32, or s32 for bytes. */
#include <oneapi/dnnl/dnnl.h>
#include <omp.h>
#include <stdbool.h>

#include "product.h"

struct product {
	dnnl_primitive_t primitive;
	dnnl_stream_t stream;
	dnnl_exec_arg_t arguments[3];
};

static void check(dnnl_status_t status)
{
	if (status != dnnl_success) {
		fprintf(stderr, "oneDNN says %d\n", (int)status);
		exit(1);
	}
}

static dnnl_memory_desc_t describe(int rows, int cols, dnnl_data_type_t type, dnnl_format_tag_t tag)
{
	const dnnl_dims_t dims = {rows, cols};
	dnnl_memory_desc_t desc;

	check(dnnl_memory_desc_create_with_tag(&desc, 2, dims, type, tag));
	return desc;
}

/* Memory of oneDNN's own, or `numbers`. */
static dnnl_memory_t memory_of(const_dnnl_memory_desc_t desc, dnnl_engine_t engine, void *numbers)
{
	dnnl_memory_t memory;

	check(dnnl_memory_create(&memory, desc, engine, numbers != NULL ? numbers : DNNL_MEMORY_ALLOCATE));
	return memory;
}

static void convert(dnnl_memory_t to, dnnl_memory_t from, dnnl_engine_t engine, dnnl_stream_t stream)
{
	const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
	const_dnnl_memory_desc_t from_desc, to_desc;
	dnnl_primitive_desc_t desc;
	dnnl_primitive_t primitive;

	check(dnnl_memory_get_memory_desc(from, &from_desc));
	check(dnnl_memory_get_memory_desc(to, &to_desc));
	check(dnnl_reorder_primitive_desc_create(&desc, from_desc, engine, to_desc, engine, NULL));
	check(dnnl_primitive_create(&primitive, desc));
	check(dnnl_primitive_execute(primitive, stream, 2, arguments));
	check(dnnl_stream_wait(stream));
	check(dnnl_primitive_destroy(primitive));
	check(dnnl_primitive_desc_destroy(desc));
}

static void run(void *context)
{
	const struct product *p = context;

	check(dnnl_primitive_execute(p->primitive, p->stream, 3, p->arguments));
	check(dnnl_stream_wait(p->stream));
}

struct types {
	const char *name;
	dnnl_data_type_t a, w, c;
	float scale;  /* makes bytes of normals */
};

/* One shape, if oneDNN has the product on this processor; the few objects live until the end of the process. */
static bool time_shape(const struct types *types, int m, int threads, const float *numbers)
{
	static dnnl_engine_t engine;
	struct product p;
	dnnl_primitive_desc_t desc;
	float *scaled = malloc((size_t)PRODUCT_N * PRODUCT_K * sizeof *scaled);

	if (scaled == NULL)
		exit(1);
	for (size_t i = 0; i < (size_t)PRODUCT_N * PRODUCT_K; i++)
		scaled[i] = numbers[i] * types->scale;
	if (engine == NULL)
		check(dnnl_engine_create(&engine, dnnl_cpu, 0));
	check(dnnl_stream_create(&p.stream, engine, dnnl_stream_default_flags));
	dnnl_memory_desc_t a = describe(m, PRODUCT_K, types->a, dnnl_ab), c = describe(m, PRODUCT_N, types->c, dnnl_ab);
	dnnl_memory_desc_t w = describe(PRODUCT_K, PRODUCT_N, types->w, dnnl_format_tag_any);
	if (dnnl_matmul_primitive_desc_create(&desc, engine, a, w, NULL, c, NULL) != dnnl_success) {
		free(scaled);
		return false;
	}
	check(dnnl_primitive_create(&p.primitive, desc));
	const_dnnl_memory_desc_t w_chosen = dnnl_primitive_desc_query_md(desc, dnnl_query_weights_md, 0);
	dnnl_memory_desc_t a_f32 = describe(m, PRODUCT_K, dnnl_f32, dnnl_ab);
	dnnl_memory_desc_t w_f32 = describe(PRODUCT_K, PRODUCT_N, dnnl_f32, dnnl_ba);
	p.arguments[0] = (dnnl_exec_arg_t){DNNL_ARG_SRC, memory_of(a, engine, NULL)};
	p.arguments[1] = (dnnl_exec_arg_t){DNNL_ARG_WEIGHTS, memory_of(w_chosen, engine, NULL)};
	p.arguments[2] = (dnnl_exec_arg_t){DNNL_ARG_DST, memory_of(c, engine, NULL)};
	convert(p.arguments[0].memory, memory_of(a_f32, engine, scaled), engine, p.stream);
	convert(p.arguments[1].memory, memory_of(w_f32, engine, scaled), engine, p.stream);
	product_time("oneDNN", types->name, m, threads, run, &p);
	for (int i = 0; i < 3; i++)
		check(dnnl_memory_destroy(p.arguments[i].memory));
	check(dnnl_primitive_destroy(p.primitive));
	free(scaled);
	return true;
}

int main(void)
{
	static const struct types types[] = {
		{"u8 x s8 -> s32", dnnl_u8, dnnl_s8, dnnl_s32, 30},
		{"bf16", dnnl_bf16, dnnl_bf16, dnnl_f32, 1},
		{"f16", dnnl_f16, dnnl_f16, dnnl_f32, 1},
		{"f32", dnnl_f32, dnnl_f32, dnnl_f32, 1},
	};
	const float *numbers = product_numbers(PRODUCT_N);

	for (size_t t = 0; t < PRODUCT_COUNT(product_threads); t++) {
		omp_set_num_threads(product_threads[t]);
		for (size_t k = 0; k < PRODUCT_COUNT(types); k++)
			for (size_t i = 0; i < PRODUCT_COUNT(product_rows); i++)
				if (!time_shape(&types[k], product_rows[i], product_threads[t], numbers)) {
					printf("oneDNN    %-24s not there on this processor\n", types[k].name);
					break;
				}
	}
	return 0;
}
