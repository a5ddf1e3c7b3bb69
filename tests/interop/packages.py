# SPDX-License-Identifier: MIT
"""
Reads what mxfp wrote into DIRECTORY by the packages that define the layouts, and writes what they make of the same
models there, with what they decode it to: packages.py DIRECTORY.
"""
import pathlib
import sys

import checks
import file_safetensors
import layout_compressed_tensors
import layout_gpt_oss
import layout_modelopt
import layout_quark


def main():
    directory = pathlib.Path(sys.argv[1])
    for part in (file_safetensors, layout_compressed_tensors, layout_gpt_oss, layout_modelopt, layout_quark):
        part.ours(directory)
        if hasattr(part, "theirs"):
            part.theirs(directory)
    print(f"{checks.checks} checks of the packages, {checks.failures} failures")
    sys.exit(checks.failures != 0)


main()
