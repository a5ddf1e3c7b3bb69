/* SPDX-License-Identifier: MIT */
/* Parses sizes in bytes on the command line, such as 64M. */
#include "config.h"

#include "base/byte_size.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int byte_size_parse(const char *text, const char *where, uint64_t *bytes, struct error *error)
{
	static const char units[] = "KMGT";
	char *end;
	unsigned shift = 0;

	errno = 0;
	unsigned long long number = strtoull(text, &end, 10);
	const char *unit = *end != '\0' ? strchr(units, *end) : NULL;
	if (unit != NULL) {
		shift = 10 * (unsigned)(unit - units + 1);
		end++;
	}
	if (!isdigit((unsigned char)text[0]) || *end != '\0' || number == 0)
		return fail(error, EXIT_USAGE, "%s: invalid size '%s': expected a number of bytes, for example 64M or 5G", where,
		            text);
	if (errno == ERANGE || number > UINT64_MAX >> shift)
		return fail(error, EXIT_USAGE, "%s: invalid size '%s': it does not fit 64 bits", where, text);
	*bytes = number << shift;
	return EXIT_OK;
}
