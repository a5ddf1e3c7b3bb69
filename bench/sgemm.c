/* SPDX-License-Identifier: MIT */
/*
 * OpenBLAS, loaded at run time, so that the command does not depend on it. A version that does not know the processor
 * would choose a core without AVX-512, so the core is set in the environment before it is loaded, unless the user has
 * set one.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gemm_bench.h"
#include "mxfp/isa.h"

#ifdef HAVE_OPENBLAS
#include <cblas.h>
#include <dlfcn.h>

typedef void sgemm_function(CBLAS_ORDER, CBLAS_TRANSPOSE, CBLAS_TRANSPOSE, blasint, blasint, blasint, float,
                            const float *, blasint, const float *, blasint, float, float *, blasint);

static sgemm_function *sgemm;
static void (*set_threads)(int n);
static char name[64];

/* POSIX guarantees that a void pointer can hold a function's address; C does not. */
static void find(void *library, const char *symbol, void *function)
{
	void *address = dlsym(library, symbol);

	memcpy(function, &address, sizeof address);
}

void bench_sgemm_load(unsigned threads)
{
	char *(*core)(void), number[16];

	for (int tier = 0; mxfp_isa_name(tier) != NULL; tier++)
		if (strcmp(mxfp_isa_name(tier), "avx512") == 0 && (mxfp_isa_available() >> tier & 1) != 0)
			(void)setenv("OPENBLAS_CORETYPE", "SKYLAKEX", 0);
	snprintf(number, sizeof number, "%u", threads); /* idle threads beyond these would wake up now and then */
	(void)setenv("OPENBLAS_NUM_THREADS", number, 1);
	void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
	if (library == NULL)
		return;
	find(library, "cblas_sgemm", &sgemm);
	find(library, "openblas_set_num_threads", &set_threads);
	find(library, "openblas_get_corename", &core);
	if (sgemm != NULL && set_threads != NULL && core != NULL)
		snprintf(name, sizeof name, "OpenBLAS %s", core());
}

const char *bench_sgemm_name(void)
{
	return name[0] != '\0' ? name : NULL;
}

void bench_sgemm(size_t m, size_t n, size_t k, const float *a, const float *w, float *c, unsigned threads)
{
	set_threads((int)threads);
	sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)m, (blasint)n, (blasint)k, 1, a, (blasint)k, w,
	      (blasint)k, 0, c, (blasint)n);
}

#else

void bench_sgemm_load(unsigned threads)
{
	(void)threads;
}

const char *bench_sgemm_name(void)
{
	return NULL;
}

void bench_sgemm(size_t m, size_t n, size_t k, const float *a, const float *w, float *c, unsigned threads)
{
	(void)m;
	(void)n;
	(void)k;
	(void)a;
	(void)w;
	(void)c;
	(void)threads;
}

#endif
