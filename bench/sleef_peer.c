/* SPDX-License-Identifier: MIT */
/* Finds SLEEF's functions at run time. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "sleef_peer.h"

static const struct sleef_tier *tier_of(const char *isa)
{
#define BENCH_TIER(name) \
	if (strcmp(isa, #name) == 0) \
		return &sleef_##name;
#include "tier.def"
	return &sleef_ref;
}

#ifdef HAVE_DLOPEN
#include <dlfcn.h>

/* SLEEF's function that this one is, or is made of, as part of its names; NULL: there is none. */
static const char *base_of(enum mxfp_function function)
{
	switch (function) {
	case MXFP_FUNCTION_EXP:
	case MXFP_FUNCTION_SIGMOID:
	case MXFP_FUNCTION_SILU:
		return "exp";
	case MXFP_FUNCTION_EXP2:
		return "exp2";
	case MXFP_FUNCTION_LOG:
		return "log";
	case MXFP_FUNCTION_TANH:
	case MXFP_FUNCTION_GELU_TANH:
		return "tanh";
	case MXFP_FUNCTION_GELU:
		return "erf";
	case MXFP_FUNCTION_SIN:
		return "sin";
	case MXFP_FUNCTION_COS:
		return "cos";
	default:
		return NULL;
	}
}

static void *find(const char *isa, enum mxfp_function function)
{
	static void *library;
	static bool tried;
	const struct sleef_tier *tier = tier_of(isa);
	const char *base = base_of(function);
	char name[64];

	if (!tried)
		library = dlopen("libsleef.so.3", RTLD_NOW | RTLD_LOCAL);
	tried = true;
	if (library == NULL || tier->suffix == NULL || base == NULL)
		return NULL;
	snprintf(name, sizeof name, "Sleef_%sf%s_u10%s", base, tier->lanes, tier->suffix);
	return dlsym(library, name);
}

#else

static void *find(const char *isa, enum mxfp_function function)
{
	(void)isa;
	(void)function;
	return NULL;
}

#endif

bool bench_sleef_has(const char *isa, enum mxfp_function function)
{
	return find(isa, function) != NULL;
}

void bench_sleef(const char *isa, enum mxfp_function function, float *dst, const float *src, size_t n)
{
	tier_of(isa)->run(function, find(isa, function), dst, src, n);
}
