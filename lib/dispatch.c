/* SPDX-License-Identifier: MIT */
/* Which kernels run: a pure function from a mask of ISA tiers to a table, and the one table in use. */
#include "config.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cpu.h"
#include "kernels.h"
#include "mxfp/isa.h"

static const struct {
	const char *name;
	uint32_t features;
	void (*init)(struct mxfp_kernels *table);
} tiers[] = {
#define MXFP_TIER(id, name, features) {#name, features, mxfp_kernels_##name},
#include "isa.def"
};

enum { N_TIERS = sizeof tiers / sizeof tiers[0] };

static uint32_t bit_of(int tier)
{
	return UINT32_C(1) << tier;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct mxfp_kernels active;
static uint32_t active_mask;
static enum mxfp_status active_status;

void mxfp_kernels_init(struct mxfp_kernels *table, uint32_t isa_mask)
{
	memset(table, 0, sizeof *table);
	tiers[0].init(table);
	for (int i = 1; i < N_TIERS; i++)
		if (isa_mask & bit_of(i))
			tiers[i].init(table);
}

uint32_t mxfp_isa_ceiling(const char *name, uint32_t available, enum mxfp_status *status)
{
	uint32_t below = 0;

	*status = MXFP_OK;
	if (name == NULL || *name == '\0')
		return available;
	for (int i = 0; i < N_TIERS; i++) {
		below |= bit_of(i);
		if (strcmp(name, tiers[i].name) == 0)
			return available & below;
	}
	*status = MXFP_ERR_OPTION;
	return bit_of(0);
}

static void activate(void)
{
	active_mask = mxfp_isa_ceiling(secure_getenv("MXFP_ISA"), mxfp_isa_available(), &active_status);
	mxfp_kernels_init(&active, active_mask);
}

const struct mxfp_kernels *mxfp_kernels_get(void)
{
	pthread_once(&once, activate);
	return &active;
}

const char *mxfp_isa_name(int tier)
{
	return tier >= 0 && tier < N_TIERS ? tiers[tier].name : NULL;
}

uint32_t mxfp_isa_missing(int tier)
{
	return tiers[tier].features & ~mxfp_cpu_features();
}

uint32_t mxfp_isa_available(void)
{
	uint32_t available = 0;

	for (int i = 0; i < N_TIERS; i++)
		if (mxfp_isa_missing(i) == 0)
			available |= bit_of(i);
	return available;
}

int mxfp_isa_active(void)
{
	int tier = 0;

	mxfp_kernels_get();
	for (int i = 0; i < N_TIERS; i++)
		if (active_mask & bit_of(i))
			tier = i;
	return tier;
}

enum mxfp_status mxfp_isa_status(void)
{
	mxfp_kernels_get();
	return active_status;
}
