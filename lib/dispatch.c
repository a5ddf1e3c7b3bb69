/* SPDX-License-Identifier: MIT */
/* Chooses the kernels that run: a function of a mask of tiers to a table, and one table for each tier. */
#include "config.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cpu.h"
#include "internal.h"
#include "kernels.h"
#include "mxfp/isa.h"

static const struct {
	const char *name;
	bool by_name;
	uint32_t features;
	void (*init)(struct mxfp_kernels *table);
} tiers[] = {
#define MXFP_TIER(id, name, by_name, features) {#name, by_name, features, mxfp_kernels_##name},
#include "isa.def"
};

enum { N_TIERS = sizeof tiers / sizeof tiers[0] };

static uint32_t bit_of(int tier)
{
	return UINT32_C(1) << tier;
}

static pthread_once_t once = PTHREAD_ONCE_INIT, named_once = PTHREAD_ONCE_INIT;
static struct mxfp_kernels tables[N_TIERS]; /* by tier: the kernels of all tiers up to it that the machine has */
static int active;
static enum mxfp_status active_status;

void mxfp_kernels_init(struct mxfp_kernels *table, uint32_t isa_mask)
{
	memset(table, 0, sizeof *table);
	table->cpu = mxfp_cpu_features();
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
	*status = MXFP_ERR_ISA;
	return bit_of(0);
}

/* Tiers that run by name alone count in no table but their own. */
static void make_tables(bool by_name)
{
	uint32_t mask = 0;

	for (int i = 0; i < N_TIERS; i++) {
		const uint32_t bit = mxfp_isa_available() & bit_of(i);

		if (tiers[i].by_name == by_name)
			mxfp_kernels_init(&tables[i], mask | bit);
		if (!tiers[i].by_name)
			mask |= bit;
	}
}

/* Only when one is wanted, as it may ask the operating system for something. */
static void make_named_tables(void)
{
	make_tables(true);
}

static void activate(void)
{
	const char *name = secure_getenv("MXFP_ISA");
	const uint32_t mask = mxfp_isa_ceiling(name, mxfp_isa_available(), &active_status);

	make_tables(false);
	for (int i = 0; i < N_TIERS; i++)
		if ((mask & bit_of(i)) != 0 && (!tiers[i].by_name || (name != NULL && strcmp(name, tiers[i].name) == 0)))
			active = i;
	if (tiers[active].by_name)
		pthread_once(&named_once, make_named_tables);
}

const struct mxfp_kernels *mxfp_kernels_get(void)
{
	pthread_once(&once, activate);
	return &tables[active];
}

const struct mxfp_kernels *mxfp_kernels_up_to(const char *name)
{
	const struct mxfp_kernels *table = mxfp_kernels_get();

	for (int i = 0; name != NULL; i++) {
		if (i == N_TIERS)
			return NULL;
		if (strcmp(name, tiers[i].name) == 0) {
			if (tiers[i].by_name)
				pthread_once(&named_once, make_named_tables);
			return &tables[i];
		}
	}
	return table;
}

const char *mxfp_isa_name(int tier)
{
	return tier >= 0 && tier < N_TIERS ? tiers[tier].name : NULL;
}

uint32_t mxfp_isa_missing(int tier)
{
	return tiers[tier].features & ~mxfp_cpu_features();
}

const char *mxfp_isa_lacks(int tier, int i)
{
	uint32_t missing = mxfp_isa_name(tier) != NULL ? mxfp_isa_missing(tier) : 0;
	int bit = 0;

	for (; missing >> bit != 0; bit++)
		if ((missing >> bit & 1) != 0 && i-- == 0)
			return mxfp_cpu_name(bit);
	return NULL;
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
	mxfp_kernels_get();
	return active;
}

enum mxfp_status mxfp_isa_status(void)
{
	mxfp_kernels_get();
	return active_status;
}
