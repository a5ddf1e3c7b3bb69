/* SPDX-License-Identifier: MIT */
#include "cpu.h"

#include <stddef.h>

const char *mxfp_cpu_name(int bit)
{
	static const char *const names[] = {
#define MXFP_CPU(id, place, name) [place] = name,
#include "cpu.def"
	};

	return bit >= 0 && bit < (int)(sizeof names / sizeof names[0]) ? names[bit] : NULL;
}
