/* SPDX-License-Identifier: MIT */
/* mxfp info: prints the version, which implementation runs and why, and the properties of every format and choice. */
#include "config.h"

#include <jansson.h>
#include <stdio.h>

#include "cli/commands.h"
#include "cli/isa.h"
#include "io/facts.h"
#include "model/choices.h"
#include "mxfp.h"

static const char *const kind_names[] = {
	[MXFP_KIND_FLOAT] = "float",       [MXFP_KIND_UFLOAT] = "unsigned float", [MXFP_KIND_FIXED] = "fixed point",
	[MXFP_KIND_EXPONENT] = "exponent", [MXFP_KIND_BLOCK] = "block",
};
static const char *const special_names[] = {
	[MXFP_SPECIAL_NONE] = "none",
	[MXFP_SPECIAL_NAN] = "NaN",
	[MXFP_SPECIAL_IEEE] = "Inf, NaN",
	[MXFP_SPECIAL_FNUZ] = "NaN, no -0",
};

/* The choices that have a section of their own, and their keys in --json. */
static const struct {
	enum option_kind kind;
	const char *key;
} sections[] = {
	{OPTION_ROUND, "rounding_modes"}, {OPTION_OVERFLOW, "overflow_modes"}, {OPTION_RULE, "scale_rules"},
	{OPTION_RECIPE, "nvfp4_recipes"}, {OPTION_NON_FINITE, "non_finite_policies"},
};

enum { N_SECTIONS = sizeof sections / sizeof sections[0] };

/* Returns the largest finite value of an element format. */
static double largest(const struct mxfp_format_info *info)
{
	/* Codes of more than 16 bits stand at the top of their 32-bit word. */
	uint32_t word = info->max_code << (info->storage_bytes == 4 ? 32 - info->bits : 0);
	uint16_t half = (uint16_t)word;
	uint8_t byte = (uint8_t)word;
	float value = 0;
	const void *const codes[] = {[1] = &byte, [2] = &half, [4] = &word};

	mxfp_convert_array(&value, MXFP_FORMAT_F32, codes[info->storage_bytes], info->format, 1, NULL, NULL);
	return (double)value;
}

/* Returns the bits of one element of a block format with its share of the scale. */
static double bits_per_element(const struct mxfp_format_info *info)
{
	return mxfp_format_get_info(info->element)->bits + (double)mxfp_format_get_info(info->scale)->bits / info->block_length;
}

static bool is_available(int tier)
{
	return (mxfp_isa_available() >> tier & 1) != 0;
}

/* A tier above the one in use that runs only if it is named, as none is; -1: there is none. */
static int tier_by_name(void)
{
	for (int i = mxfp_isa_active() + 1; isa_limit().from == NULL && mxfp_isa_name(i) != NULL; i++)
		if (is_available(i))
			return i;
	return -1;
}

/* Prints the tier in use and why. */
static void print_tier_in_use(void)
{
	const struct isa_limit limit = isa_limit();

	printf("tier      %s: the highest of this machine", mxfp_isa_name(mxfp_isa_active()));
	if (limit.from != NULL)
		printf(" up to %s, which %s sets", limit.name, limit.from);
	if (tier_by_name() >= 0)
		printf(" but %s, which runs by name alone", mxfp_isa_name(tier_by_name()));
	putchar('\n');
}

static void print_tiers(void)
{
	printf("\nInstruction-set tiers\n");
	for (int i = 0; mxfp_isa_name(i) != NULL; i++) {
		printf("  %-20s%s", mxfp_isa_name(i),
		       i == mxfp_isa_active() ? "in use" : i == tier_by_name() ? "available by name" : is_available(i) ? "available" : "lacks");
		for (int f = 0; mxfp_isa_lacks(i, f) != NULL; f++)
			printf(" %s", mxfp_isa_lacks(i, f));
		putchar('\n');
	}
}

static void print_elements(void)
{
	printf("\nElement formats\n  %-10s %4s  %-14s %-5s %5s %15s  %s\n", "name", "bits", "kind", "e/m", "bias",
	       "largest", "special");
	const struct mxfp_format_info *info;

	for (int f = 0; (info = mxfp_format_get_info((enum mxfp_format)f)) != NULL; f++) {
		char fields[32];
		if (info->kind == MXFP_KIND_BLOCK)
			continue;
		snprintf(fields, sizeof fields, "%u/%u", info->exponent_bits, info->significand_bits);
		printf("  %-10s %4u  %-14s %-5s %5d %15.9g  %s\n", info->name, info->bits, kind_names[info->kind],
		       fields, info->bias, largest(info), special_names[info->special]);
	}
}

static void print_blocks(void)
{
	printf("\nBlock formats\n  %-12s %-8s %6s  %-6s %-13s %s\n", "name", "element", "length", "scale",
	       "tensor scale", "bits per element");
	const struct mxfp_format_info *info;

	for (int f = 0; (info = mxfp_format_get_info((enum mxfp_format)f)) != NULL; f++) {
		if (info->kind == MXFP_KIND_BLOCK)
			printf("  %-12s %-8s %6u  %-6s %-13s %g\n", info->name,
			       mxfp_format_get_info(info->element)->name, info->block_length,
			       mxfp_format_get_info(info->scale)->name, info->tensor_scale ? "f32" : "-",
			       bits_per_element(info));
	}
}

static void print_text(void)
{
	struct choice choice;

	printf("mxfp      %s\nbuild     %s\n", mxfp_version(), mxfp_build_info());
	print_tier_in_use();
	print_tiers();
	print_elements();
	print_blocks();
	for (int s = 0; s < N_SECTIONS; s++) {
		printf("\nChoices: %s (the first is the library's default)\n", choice_title(sections[s].kind));
		for (int i = 0; choice_at(sections[s].kind, i, &choice); i++)
			printf("  %-20s%s\n", choice.name, choice.meaning);
	}
}

static json_t *element_facts(const struct mxfp_format_info *info)
{
	return json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:f, s:i, s:b, s:b, s:i}", "name", info->name, "kind",
	                 kind_names[info->kind], "bits", (int)info->bits, "exponent_bits", (int)info->exponent_bits,
	                 "significand_bits", (int)info->significand_bits, "bias", info->bias, "emax", info->emax,
	                 "max", largest(info), "max_code", (int)info->max_code, "inf",
	                 info->special == MXFP_SPECIAL_IEEE, "nan", info->special != MXFP_SPECIAL_NONE,
	                 "storage_bytes", (int)info->storage_bytes);
}

static json_t *block_facts(const struct mxfp_format_info *info)
{
	return json_pack("{s:s, s:s, s:i, s:s, s:b, s:f}", "name", info->name, "element",
	                 mxfp_format_get_info(info->element)->name, "block_length", (int)info->block_length, "scale",
	                 mxfp_format_get_info(info->scale)->name, "tensor_scale", info->tensor_scale, "bits_per_element",
	                 bits_per_element(info));
}

static json_t *formats(bool blocks)
{
	json_t *array = json_array();
	const struct mxfp_format_info *info;

	for (int f = 0; (info = mxfp_format_get_info((enum mxfp_format)f)) != NULL; f++) {
		if ((info->kind == MXFP_KIND_BLOCK) == blocks)
			array = facts_append(array, blocks ? block_facts(info) : element_facts(info));
	}
	return array;
}

static json_t *choices(enum option_kind kind)
{
	json_t *array = json_array();
	struct choice choice;

	for (int i = 0; choice_at(kind, i, &choice); i++)
		array = facts_append(array, json_pack("{s:s, s:s}", "name", choice.name, "meaning", choice.meaning));
	return array;
}

static json_t *missing_features(int tier)
{
	json_t *array = json_array();

	for (int f = 0; mxfp_isa_lacks(tier, f) != NULL; f++)
		array = facts_append(array, json_string(mxfp_isa_lacks(tier, f)));
	return array;
}

static json_t *tiers(void)
{
	json_t *array = json_array();

	for (int i = 0; mxfp_isa_name(i) != NULL; i++)
		array = facts_append(array, json_pack("{s:s, s:b, s:o}", "name", mxfp_isa_name(i), "available",
		                                      (int)is_available(i), "missing", missing_features(i)));
	return array;
}

static json_t *all_facts(void)
{
	const struct isa_limit limit = isa_limit();
	json_t *facts = json_pack("{s:s, s:s, s:s, s:s?, s:s?, s:o, s:o, s:o}", "version", mxfp_version(), "build",
	                          mxfp_build_info(), "tier", mxfp_isa_name(mxfp_isa_active()), "tier_limit", limit.name,
	                          "tier_limit_from", limit.from, "tiers", tiers(), "element_formats", formats(false),
	                          "block_formats", formats(true));

	for (int s = 0; s < N_SECTIONS; s++)
		facts = facts_set(facts, sections[s].key, choices(sections[s].kind));
	return facts;
}

static int run(int argc, char **argv, struct error *error)
{
	static const struct usage usage = {
		"info [--json]",
		"Prints the version, the instruction-set tiers, and the properties of every\n"
		"format, rounding mode, scale rule and recipe.",
		"  mxfp info --json",
	};
	bool json = false;
	const struct option_spec options[] = {
		{"json", 0, OPTION_FLAG, NULL, "print JSON", &json},
		{.kind = OPTION_END},
	};

	const enum parsed parsed = options_parse(argc, argv, options, &usage, 0, 0, NULL, error);
	if (parsed != PARSED_RUN)
		return parsed_code(parsed);
	if (json)
		return facts_print(stdout, all_facts(), error);
	print_text();
	return EXIT_OK;
}

const struct command command_info = {"info", "show version, tiers, formats and rules", run};
