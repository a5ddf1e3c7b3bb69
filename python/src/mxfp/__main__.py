# SPDX-License-Identifier: MIT
"""python -m mxfp: runs the command."""

import os
import sys
import sysconfig


def main() -> None:
    path = os.path.join(sysconfig.get_path("scripts"), "mxfp")
    if not os.path.exists(path):
        sys.exit(
            f"mxfp: no {path}: the module was built without the command, for which jansson, xxhash, pcre2, utf8proc and sleef "
            "must be there (scripts/dependencies.sh python)"
        )
    os.execv(path, [path, *sys.argv[1:]])


main()
