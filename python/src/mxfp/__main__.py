# SPDX-License-Identifier: MIT
"""The command: `mxfp`, or python -m mxfp."""

import os
import sys


def main() -> None:
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "mxfp")
    if not os.path.exists(path):
        sys.exit(
            f"mxfp: no {path}: the module was built without the command, for which jansson, xxhash, pcre2, utf8proc and sleef "
            "must be there (scripts/dependencies.sh python)"
        )
    os.execv(path, ["mxfp", *sys.argv[1:]])


if __name__ == "__main__":
    main()
