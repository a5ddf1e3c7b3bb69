# SPDX-License-Identifier: MIT
"""For tests of the command whose first two arguments are mxfp and a directory: what it says is checked and counted."""
import subprocess, sys

MXFP, WORK = sys.argv[1:3]
checks = failures = 0


def check(what, good, got=""):
    global checks, failures
    checks += 1
    if not good:
        failures += 1
        print("FAIL: %s %s" % (what, got))


def run(*arguments, **more):
    """Exit code, output, errors."""
    p = subprocess.run([MXFP, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, **more)
    return p.returncode, p.stdout, p.stderr


def finish():
    print("%d checks, %d failures" % (checks, failures))
    sys.exit(failures != 0)
