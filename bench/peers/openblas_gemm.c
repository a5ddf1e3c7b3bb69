/* SPDX-License-Identifier: MIT */
/* Times OpenBLAS' sgemm. */
#include <cblas.h>

#include "product.h"

struct operands {
	int m;
	const float *a, *w;
	float *c;
};

static void run(void *context)
{
	const struct operands *o = context;

	cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, o->m, PRODUCT_N, PRODUCT_K, 1, o->a, PRODUCT_K, o->w, PRODUCT_K,
	            0, o->c, PRODUCT_N);
}

int main(void)
{
	struct operands o = {.a = product_numbers(PRODUCT_M_MAX), .w = product_numbers(PRODUCT_N),
	                     .c = product_numbers(PRODUCT_M_MAX)};
	char name[64];

	snprintf(name, sizeof name, "sgemm, %s", openblas_get_corename());
	for (size_t t = 0; t < PRODUCT_COUNT(product_threads); t++) {
		openblas_set_num_threads(product_threads[t]);
		for (size_t i = 0; i < PRODUCT_COUNT(product_rows); i++) {
			o.m = product_rows[i];
			product_time("OpenBLAS", name, o.m, product_threads[t], run, &o);
		}
	}
	return 0;
}
