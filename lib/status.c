/* SPDX-License-Identifier: MIT */
#include "mxfp/status.h"

const char *mxfp_status_text(enum mxfp_status status)
{
	switch (status) {
#define MXFP_STATUS(id, value, text) \
	case MXFP_##id: \
		return text;
#include "status.def"
	}
	return "unknown status";
}
