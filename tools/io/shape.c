/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "io/shape.h"

#include <inttypes.h>
#include <stdio.h>

#include "io/facts.h"

const char *shape_text(const struct tensor *tensor, char text[SHAPE_TEXT])
{
	enum { NUMBER = 24 }; /* bytes that one more number, its separator and the end may take */
	size_t n = (size_t)snprintf(text, SHAPE_TEXT, "[");

	for (unsigned i = 0; i < tensor->rank; i++) {
		if (n + 2 * (size_t)NUMBER > SHAPE_TEXT) {
			n += (size_t)snprintf(text + n, SHAPE_TEXT - n, ", ...");
			break;
		}
		n += (size_t)snprintf(text + n, SHAPE_TEXT - n, "%s%" PRIu64, i == 0 ? "" : ", ", tensor->shape[i]);
	}
	snprintf(text + n, SHAPE_TEXT - n, "]");
	return text;
}

json_t *shape_facts(const struct tensor *tensor)
{
	json_t *shape = json_array();

	for (unsigned i = 0; i < tensor->rank; i++)
		shape = facts_append(shape, json_integer((json_int_t)tensor->shape[i]));
	return shape;
}
