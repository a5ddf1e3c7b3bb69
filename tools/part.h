/* SPDX-License-Identifier: MIT */
#ifndef TOOLS_PART_H
#define TOOLS_PART_H

#define PART_FILE "mxfp-part.json"

#endif
