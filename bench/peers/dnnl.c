/* SPDX-License-Identifier: MIT */
/* Times oneDNN's reorders, functions of one number (eltwise), softmax, RMS norm and layer norm. */
#include <oneapi/dnnl/dnnl.h>

#include "peer.h"

struct reorder {
	dnnl_engine_t engine;
	dnnl_stream_t stream;
	dnnl_data_type_t to, from;
};

/* An operation on rows of f32. */
struct row_case {
	const char *name;
	enum { ELTWISE, SOFTMAX, LAYER_NORM, RMS_NORM } kind;
	dnnl_alg_kind_t algorithm;
	float alpha;
};

static void check(dnnl_status_t status)
{
	if (status != dnnl_success) {
		fprintf(stderr, "oneDNN says %d\n", (int)status);
		exit(1);
	}
}

static dnnl_memory_t memory_of(const struct reorder *r, dnnl_data_type_t type, size_t n, void *bytes)
{
	const dnnl_dims_t dims = {(dnnl_dim_t)(n / PEER_COLS), PEER_COLS};
	dnnl_memory_desc_t desc;
	dnnl_memory_t memory;

	check(dnnl_memory_desc_create_with_tag(&desc, 2, dims, type, dnnl_ab));
	check(dnnl_memory_create(&memory, desc, r->engine, bytes));
	check(dnnl_memory_desc_destroy(desc));
	return memory;
}

/* Creates the reorder every time, which oneDNN's cache of primitives makes cheap. Returns false if it has none. */
static dnnl_status_t run_once(const struct reorder *r, void *dst, const void *src, size_t n)
{
	dnnl_memory_t from = memory_of(r, r->from, n, (void *)src), to = memory_of(r, r->to, n, dst);
	const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
	const_dnnl_memory_desc_t from_desc, to_desc;
	dnnl_primitive_desc_t desc;
	dnnl_primitive_t primitive;

	check(dnnl_memory_get_memory_desc(from, &from_desc));
	check(dnnl_memory_get_memory_desc(to, &to_desc));
	dnnl_status_t status = dnnl_reorder_primitive_desc_create(&desc, from_desc, r->engine, to_desc, r->engine, NULL);
	if (status == dnnl_success) {
		check(dnnl_primitive_create(&primitive, desc));
		check(dnnl_primitive_execute(primitive, r->stream, 2, arguments));
		check(dnnl_stream_wait(r->stream));
		check(dnnl_primitive_destroy(primitive));
		check(dnnl_primitive_desc_destroy(desc));
	}
	check(dnnl_memory_destroy(from));
	check(dnnl_memory_destroy(to));
	return status;
}

static void run(void *dst, const void *src, size_t n, void *context)
{
	check(run_once(context, dst, src, n));
}

/* What run_rows() reads. */
struct row_context {
	const struct reorder *machine;
	const struct row_case *row_case;
};

static dnnl_status_t describe(dnnl_primitive_desc_t *desc, const struct row_context *c, const_dnnl_memory_desc_t rows)
{
	const dnnl_engine_t engine = c->machine->engine;

	switch (c->row_case->kind) {
	case ELTWISE:
		return dnnl_eltwise_forward_primitive_desc_create(desc, engine, dnnl_forward_inference,
		                                                  c->row_case->algorithm, rows, rows, c->row_case->alpha, 0,
		                                                  NULL);
	case SOFTMAX:
		return dnnl_softmax_forward_primitive_desc_create(desc, engine, dnnl_forward_inference,
		                                                  c->row_case->algorithm, rows, rows, 1, NULL);
	default:
		return dnnl_layer_normalization_forward_primitive_desc_create(
			desc, engine, dnnl_forward_inference, rows, rows, NULL, 1e-5F,
			c->row_case->kind == RMS_NORM ? dnnl_rms_norm : dnnl_normalization_flags_none, NULL);
	}
}

/* The primitive comes from oneDNN's cache after the first time. */
static void run_rows(void *dst, const void *src, size_t n, void *context)
{
	const struct row_context *c = context;
	dnnl_memory_t from = memory_of(c->machine, dnnl_f32, n, (void *)src), to = memory_of(c->machine, dnnl_f32, n, dst);
	const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, from}, {DNNL_ARG_DST, to}};
	const_dnnl_memory_desc_t rows;
	dnnl_primitive_desc_t desc;
	dnnl_primitive_t primitive;

	check(dnnl_memory_get_memory_desc(from, &rows));
	check(describe(&desc, c, rows));
	check(dnnl_primitive_create(&primitive, desc));
	check(dnnl_primitive_execute(primitive, c->machine->stream, 2, arguments));
	check(dnnl_stream_wait(c->machine->stream));
	check(dnnl_primitive_destroy(primitive));
	check(dnnl_primitive_desc_destroy(desc));
	check(dnnl_memory_destroy(from));
	check(dnnl_memory_destroy(to));
}

static void time_rows(const struct reorder *machine, const float *row, char *a, char *b)
{
	static const struct row_case cases[] = {
		{"exp", ELTWISE, dnnl_eltwise_exp, 0},
		{"tanh", ELTWISE, dnnl_eltwise_tanh, 0},
		{"sigmoid", ELTWISE, dnnl_eltwise_logistic, 0},
		{"silu", ELTWISE, dnnl_eltwise_swish, 1},
		{"gelu", ELTWISE, dnnl_eltwise_gelu_erf, 0},
		{"gelu-tanh", ELTWISE, dnnl_eltwise_gelu_tanh, 0},
		{"softmax", SOFTMAX, dnnl_softmax_accurate, 0},
		{"rms norm", RMS_NORM, dnnl_alg_kind_undef, 0},
		{"layer norm", LAYER_NORM, dnnl_alg_kind_undef, 0},
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct row_context context = {machine, &cases[i]};

		peer_time(&(struct peer){"oneDNN", cases[i].name, PEER_COLS * 4, PEER_COLS * 4, row, run_rows, &context}, a, b);
	}
}

int main(void)
{
	static const struct {
		const char *to, *from;
		dnnl_data_type_t type;
		size_t bytes;
	} types[] = {
		{"f32 -> bf16", "bf16 -> f32", dnnl_bf16, 2},
		{"f32 -> f16", "f16 -> f32", dnnl_f16, 2},
		{"f32 -> e4m3", "e4m3 -> f32", dnnl_f8_e4m3, 1},
		{"f32 -> e5m2", "e5m2 -> f32", dnnl_f8_e5m2, 1},
	};
	static float row[PEER_COLS];
	static char codes[PEER_COLS * 4];
	char *a = peer_memory(), *b = peer_memory();
	struct reorder r;

	peer_normals(row);
	check(dnnl_engine_create(&r.engine, dnnl_cpu, 0));
	check(dnnl_stream_create(&r.stream, r.engine, dnnl_stream_default_flags));
	for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
		const size_t bytes = types[i].bytes * PEER_COLS;
		r.from = dnnl_f32;
		r.to = types[i].type;
		if (run_once(&r, codes, row, PEER_COLS) != dnnl_success) {
			printf("oneDNN    %-16s not there on a CPU\n", types[i].to);
			continue;
		}
		peer_time(&(struct peer){"oneDNN", types[i].to, PEER_COLS * 4, bytes, row, run, &r}, a, b);
		r.from = types[i].type;
		r.to = dnnl_f32;
		peer_time(&(struct peer){"oneDNN", types[i].from, bytes, PEER_COLS * 4, codes, run, &r}, a, b);
	}
	time_rows(&r, row, a, b);
	return 0;
}
