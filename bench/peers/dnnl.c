/* SPDX-License-Identifier: MIT */
/* Times oneDNN's reorders. */
#include <oneapi/dnnl/dnnl.h>

#include "peer.h"

struct reorder {
	dnnl_engine_t engine;
	dnnl_stream_t stream;
	dnnl_data_type_t to, from;
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
	return 0;
}
