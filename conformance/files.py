# SPDX-License-Identifier: MIT
"""
For those who cannot run a program. What is asked of a program that answers, as files:

    mxfp conform 'python3 files.py save DIRECTORY ./library' --seed 1

For each question NAME.json is the request, NAME.in its bytes, and NAME.out the answer; unsupported ones have none. The answers
of another, made anywhere and put there as NAME.got, are then read with the same options:

    mxfp conform 'python3 files.py read DIRECTORY' --seed 1
"""
import json
import pathlib
import subprocess
import sys

stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
if len(sys.argv) < 3 or sys.argv[1] not in ("save", "read"):
    sys.exit("usage: files.py save DIRECTORY PROGRAM..., files.py read DIRECTORY")
directory = pathlib.Path(sys.argv[2])


def name_of(request):
    """Its operation and options, and the first item of those after the first batch."""
    values = [str(value) for key, value in request.items() if key not in ("first", "n", "bytes")]
    return "_".join(values).replace(":", "-") + (f"_{request['first']}" if request["first"] else "")


def save():
    directory.mkdir()
    program = subprocess.Popen(sys.argv[3:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    for line in stdin:
        request = json.loads(line)
        data = stdin.read(request.get("bytes", 0))
        program.stdin.write(line + data)
        program.stdin.flush()
        answer = program.stdout.readline()
        result = program.stdout.read(json.loads(answer).get("bytes", 0))
        if request["op"] == "hello":
            (directory / "hello.json").write_bytes(answer)
        elif "bytes" in json.loads(answer):
            for suffix, part in ((".json", line), (".in", data), (".out", result)):
                (directory / (name_of(request) + suffix)).write_bytes(part)
        yield answer + result
    program.stdin.close()
    if program.wait() != 0:
        sys.exit(1)


def read():
    for line in stdin:
        request = json.loads(line)
        data = stdin.read(request.get("bytes", 0))
        if request["op"] == "hello":
            hello = json.loads((directory / "hello.json").read_text())  # whose batches questions were cut into
            yield json.dumps({**hello, "name": str(directory)}).encode() + b"\n"
            continue
        name = directory / name_of(request)
        if not name.with_name(name.name + ".got").exists():
            yield b'{"unsupported":true}\n'
            continue
        if name.with_name(name.name + ".in").read_bytes() != data:
            sys.exit(f"{name}.in is not what is asked: another --seed, --quick or version of mxfp")
        result = name.with_name(name.name + ".got").read_bytes()
        yield b'{"bytes":%d}\n' % len(result) + result


for answer in save() if sys.argv[1] == "save" else read():
    stdout.write(answer)
    stdout.flush()
