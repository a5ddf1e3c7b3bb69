/* SPDX-License-Identifier: MIT */
/* The command: its code is in the library beside the module, which both share. */
#include "reader.h"

int main(int argc, char **argv)
{
	return reader_command(argc, argv);
}
