/* SPDX-License-Identifier: MIT */
/* main() of a test program that has none: the linker takes this file from the library only then. */
#include "suite.h"

int main(void)
{
	return suite_run(NULL);
}
