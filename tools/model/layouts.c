/* SPDX-License-Identifier: MIT */
/* The table of layouts, and what is known of their loaders. */
#include "config.h"

#include "model/layout.h"

const struct layout *const layouts[] = {
#define LAYOUT(id) &layout_##id,
#include "model/layout.def"
	NULL,
};

const char *layout_caution(const struct layout *layout, enum mxfp_format format, bool *misread)
{
	static const struct {
		const struct layout *layout;
		enum mxfp_format format;
		bool misread;
		const char *text;
	} rows[] = {
#define CAUTION(layout, format, misread, text) {&layout_##layout, MXFP_FORMAT_##format, misread, text},
#include "model/target.def"
	};

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		if (rows[i].layout == layout && rows[i].format == format) {
			*misread = rows[i].misread;
			return rows[i].text;
		}
	}
	return NULL;
}
