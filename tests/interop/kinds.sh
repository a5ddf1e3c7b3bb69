#!/bin/sh
# SPDX-License-Identifier: MIT
# Small models in every kind that makers publish, read by mxfp and by four other programs: the table of doc/layout.md. mxfp must read
# each to the bit; what the others read is what that table says. These programs are in the lab that scripts/interop-lab.sh makes, and
# MXFP_LAB names its directory.
lab_venv=/opt/transformers
. "${srcdir:-.}/tests/interop/lab.shlib"
ls "$lab$lab_venv"/lib/python3*/site-packages/mlx_lm >/dev/null 2>&1 || skip "$lab has no mlx-lm; scripts/interop-lab.sh adds it"

cp "${srcdir:-.}/doc/layout.md" "$work"
lab_python kinds_models
lab_venv=/opt/python
lab_python kinds_packages
lab_venv=/opt/transformers
for plain in "$work"/*.plain; do
	name=${plain%.plain}
	file=
	if [ -e "$name/model.gguf" ]; then
		file=/model.gguf
		mkdir "$name.mxfp"
	fi
	"$mxfp" dequantize "$name$file" -o "$name.mxfp$file" -q --to f32 2>"$name.error" || rm -rf "$name.mxfp"
done
for program in mxfp transformers compressed-tensors mlx-lm; do
	lab_python kinds "$program"
done
lab_venv=/opt/python # with Debian's transformers, as Debian's converter has it
lab_python kinds llama.cpp
lab_python kinds table
sed -n '/^|/p' "$work/log"
finish
