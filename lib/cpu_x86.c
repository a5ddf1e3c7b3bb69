/* SPDX-License-Identifier: MIT */
/* Features on x86: CPUID, and XGETBV for saved registers (Intel SDM volume 1, sections 13.2 and 14.3). */
#include "config.h"

#include <cpuid.h>
#include <string.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "cpu.h"

/* XCR0: bits 1 and 2 are the XMM and YMM state, 5 to 7 the mask registers and the ZMM state, 17 and 18 tiles and their shape. */
enum { XCR0_YMM = 0x06, XCR0_ZMM = 0xE6, XCR0_TILE = 0x60000 };

enum { EAX, EBX, ECX, EDX, N_REGISTERS };

/* Where CPUID reports each feature, and the XCR0 state the feature needs. */
static const struct {
	uint32_t feature, leaf, xcr0;
	int word, bit;
} places[] = {
	{MXFP_CPU_FMA, 1, XCR0_YMM, ECX, 12},
	{MXFP_CPU_POPCNT, 1, 0, ECX, 23},
	{MXFP_CPU_F16C, 1, XCR0_YMM, ECX, 29},
	{MXFP_CPU_AVX2, 7, XCR0_YMM, EBX, 5},
	{MXFP_CPU_BMI2, 7, 0, EBX, 8},
	{MXFP_CPU_AVX512F, 7, XCR0_ZMM, EBX, 16},
	{MXFP_CPU_AVX512DQ, 7, XCR0_ZMM, EBX, 17},
	{MXFP_CPU_AVX512BW, 7, XCR0_ZMM, EBX, 30},
	{MXFP_CPU_AVX512VL, 7, XCR0_ZMM, EBX, 31},
	{MXFP_CPU_AVX512VBMI, 7, XCR0_ZMM, ECX, 1},
	{MXFP_CPU_AVX512VBMI2, 7, XCR0_ZMM, ECX, 6},
	{MXFP_CPU_AVX512VNNI, 7, XCR0_ZMM, ECX, 11},
	{MXFP_CPU_AMX_TILE, 7, XCR0_TILE, EDX, 24},
	{MXFP_CPU_AMX_INT8, 7, XCR0_TILE, EDX, 25},
};

/*
 * CPUID has no bit for it. AMD: Zen 4 starts one of each in a cycle, Zen 5 two. Intel shuffles 512 bits on port 5 alone, its
 * servers multiply there, too, and on port 0; those of its other processors that have AVX-512 VNNI multiply on port 0 alone
 * (counts per instruction: uops.info; ports: Intel's optimization manual). An unknown processor is taken for a server: to
 * decode into memory costs a twelfth where it was not necessary, not to do so a quarter where it was.
 */
static bool shuffles_fast(const char vendor[12], uint32_t signature)
{
	/* Ice Lake, Tiger Lake, Rocket Lake, Alder Lake */
	static const uint8_t clients[] = {0x7D, 0x7E, 0x8C, 0x8D, 0xA7, 0x97, 0x9A};
	const uint32_t family = signature >> 8 & 15, model = signature >> 4 & 15, extended_model = signature >> 16 & 15;

	if (memcmp(vendor, "AuthenticAMD", 12) == 0 || memcmp(vendor, "HygonGenuine", 12) == 0)
		return true;
	return memcmp(vendor, "GenuineIntel", 12) == 0 && family == 6 &&
	       memchr(clients, (int)(extended_model << 4 | model), sizeof clients) != NULL;
}

/* Returns the low word of XCR0, or 0 if the operating system does not use XSAVE (CPUID.1:ECX.OSXSAVE). */
static uint32_t saved_state(uint32_t leaf1_ecx)
{
	uint32_t low, high;

	if (!(leaf1_ecx >> 27 & 1))
		return 0;
	__asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	return low;
}

uint32_t mxfp_cpu_features(void)
{
	uint32_t leaf0[N_REGISTERS] = {0}, leaf1[N_REGISTERS] = {0}, leaf7[N_REGISTERS] = {0}, features = 0;

	__get_cpuid(1, &leaf1[EAX], &leaf1[EBX], &leaf1[ECX], &leaf1[EDX]);
	__get_cpuid_count(7, 0, &leaf7[EAX], &leaf7[EBX], &leaf7[ECX], &leaf7[EDX]);
	uint32_t xcr0 = saved_state(leaf1[ECX]);
	for (unsigned i = 0; i < sizeof places / sizeof places[0]; i++) {
		const uint32_t *leaf = places[i].leaf == 1 ? leaf1 : leaf7;

		if ((leaf[places[i].word] >> places[i].bit & 1) && (xcr0 & places[i].xcr0) == places[i].xcr0)
			features |= places[i].feature;
	}
	__get_cpuid(0, &leaf0[EAX], &leaf0[EBX], &leaf0[ECX], &leaf0[EDX]);
	const uint32_t vendor[] = {leaf0[EBX], leaf0[EDX], leaf0[ECX]};
	if (shuffles_fast((const char *)vendor, leaf1[EAX]))
		features |= MXFP_CPU_FAST_SHUFFLES;
	return features;
}

/* Linux' arch_prctl(2): ARCH_REQ_XCOMP_PERM for the data of tiles, since 5.16. */
enum { REQUEST_STATE = 0x1023, TILE_DATA = 18 };

bool mxfp_cpu_permit_tiles(void)
{
#if defined(__linux__) && defined(SYS_arch_prctl)
	return syscall(SYS_arch_prctl, REQUEST_STATE, TILE_DATA) == 0;
#else
	return false;
#endif
}

struct mxfp_fp_state mxfp_fp_state_get(void)
{
	struct mxfp_fp_state state = {{0}};
	uint32_t mxcsr;
	uint16_t x87; /* the control word, of long double */

	__asm__ volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(mxcsr), "=m"(x87));
	state.words[0] = mxcsr;
	state.words[1] = x87;
	return state;
}

void mxfp_fp_state_set(struct mxfp_fp_state state)
{
	const uint32_t mxcsr = (uint32_t)state.words[0];
	const uint16_t x87 = (uint16_t)state.words[1];

	__asm__ volatile("ldmxcsr %0\n\tfldcw %1" : : "m"(mxcsr), "m"(x87) : "memory");
}
