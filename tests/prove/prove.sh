#!/bin/bash
# SPDX-License-Identifier: MIT
# Proves what README.md of this folder lists, with CBMC: a line for each, with its seconds. Arguments select by name: encode, e4m3, or
# encode e4m3. Exit status 1 if anything is not proved.
set -euo pipefail
cd "${srcdir:-$(dirname "$0")/../..}"

for program in cbmc goto-cc goto-instrument; do
	command -v "$program" >/dev/null || {
		echo "prove.sh: there is no $program, so nothing is proved; it is in the package cbmc of Debian 13" >&2
		exit 1
	}
done
selected=$*
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
proved=0 failed=0

# prove NAME FUNCTION UNWIND INSTRUMENT SOURCES...: INSTRUMENT is options of goto-instrument, SOURCES has options of the compiler
# too. All loops end within UNWIND turns, which CBMC proves as well.
# shellcheck disable=SC2086
prove() {
	local name=$1 function=$2 unwind=$3 instrument=$4 began=$EPOCHREALTIME status=0 why
	shift 4
	[[ -z "$selected" || " $name " == *" $selected "* ]] || return 0
	goto-cc -I include -I lib -I ref -I tests/prove --function "$function" -o "$work/whole" "$@" >"$work/log" 2>&1 &&
		goto-instrument $instrument "$work/whole" "$work/part" >"$work/log" 2>&1 &&
		{ cbmc "$work/part" --unwind "$unwind" --unwinding-assertions --bounds-check --pointer-check --div-by-zero-check \
			--signed-overflow-check --undefined-shift-check --pointer-overflow-check --object-bits 12 --slice-formula --trace >"$work/log" 2>&1 || status=$?; }
	# 10: something failed, which must be the end of the harness, and nothing else.
	if [ $status = 10 ]; then
		why=$(grep ': FAILURE$' "$work/log" | grep -v ' reached: FAILURE$' || true)
	elif grep -q '^VERIFICATION SUCCESSFUL' "$work/log"; then
		why='its assumptions leave nothing to prove: the end is not reached'
	else
		why=$(tail -n 3 "$work/log")
	fi
	LC_ALL=C awk -v name="$name" -v result="${why:+FAILED}" -v a="$began" -v b="$EPOCHREALTIME" \
		'BEGIN { printf "%-28s %-6s %6.1f s\n", name, result == "" ? "proved" : result, b - a }'
	if [ -z "$why" ]; then
		proved=$((proved + 1))
		return
	fi
	failed=$((failed + 1))
	printf '%s\n' "$why" | sed 's/^/  /'
	# The inputs of the first counterexample, unless it is that of the end.
	awk '/^Trace for / { on = !done && !/reached/; lines = "" } on && /^ *INPUT / { lines = lines "  " $0 "\n" }
		on && /^Violated property/ { kept = lines; getline; getline; getline text; if (text !~ /reached/) { printf "%s", kept; done = 1; on = 0 } }' "$work/log"
}

formats='f32 bf16 f16 tf32 e5m2 e4m3 e3m2 e2m3 e2m1 int8 e8m0 ue4m3 e4m3ieee e3m4 e4m3fnuz e5m2fnuz'
rules='mse floor ceil even even_m1 rceil fit trn3 rne log_nearest'
recipes='te torchao torchao_1 compressed_tensors modelopt modelopt_0_45 ggml 4over6 modelopt_4over6'
# Rows of a block and one number.
blocks='mxfp8_e4m3 mxfp8_e5m2 mxfp6_e3m2 mxfp6_e2m3 mxfp4 mxint8'
number='tests/prove/format.c ref/minifloat.c lib/format.c'
block='tests/prove/block.c ref/mx.c ref/nvfp4.c ref/f32.c ref/scale.c ref/pack.c ref/convert.c ref/minifloat.c lib/format.c'
# In the place of these functions anything is returned.
functions='mxfp_minifloat_encode mxfp_minifloat_decode mxfp_f32_add mxfp_f32_sub mxfp_f32_mul mxfp_f32_div mxfp_f32_fma mxfp_f32_scale
	mxfp_nvfp4_block_scale_ref mxfp_philox_word'
any_of() {
	printf -- '--remove-function-body %s ' "$@"
	printf -- '--generate-function-body %s --generate-function-body-options nondet-return' "$(IFS='|' && echo "$*")"
}

# shellcheck disable=SC2086
{
	prove f32_unpack f32_unpack 25 '' -DFORMAT=F32 $number
	for format in $formats; do
		f=-DFORMAT=${format^^}
		prove "decode $format" decode 25 '' $f $number
		prove "round_trip $format" round_trip 25 '' $f $number
		prove "rounding $format" rounding 17 '' $f $number
		prove "monotone $format" monotone 17 '' $f $number
		prove "encode $format" encode 17 \
			'--replace-calls mxfp_f32_unpack:any_unpacked --replace-calls mxfp_minifloat_round:any_rounded' $f $number
	done
	for rule in $rules; do
		prove "rule $rule" rule 42 '--replace-calls mxfp_f32_unpack:any_unpacked' -DRULE=${rule^^} \
			tests/prove/scale.c ref/scale.c ref/minifloat.c lib/format.c
	done
	for bits in 4 6 8; do
		prove "pack $bits" pack 33 '' -DBITS=$bits -DN=32 tests/prove/pack.c ref/pack.c
		prove "unpack $bits" unpack 33 '' -DBITS=$bits -DN=32 tests/prove/pack.c ref/pack.c
	done
	prove f32_round f32_round 15 '' $block
	prove f32_arithmetic f32_arithmetic 15 \
		'--replace-calls mxfp_f32_unpack:any_unpacked --replace-calls mxfp_f32_round:any_rounded' $block
	prove ggml ggml 25 '--replace-calls mxfp_f32_div:any_quotient' $block
	for format in $blocks; do
		f="-DFORMAT=${format^^} -DCOLS=33 -DRECIPE=0"
		prove "quantize $format" quantize 40 "$(any_of $functions)" $f $block
		prove "dequantize $format" dequantize 65 "$(any_of $functions)" $f $block
	done
	f='-DFORMAT=NVFP4 -DCOLS=17'
	for recipe in $recipes; do
		prove "quantize nvfp4 $recipe" quantize 40 "$(any_of $functions)" $f -DRECIPE=MXFP_RECIPE_${recipe^^} $block
	done
	prove "dequantize nvfp4" dequantize 65 "$(any_of $functions)" $f -DRECIPE=0 $block
}
[ $((proved + failed)) != 0 ] || {
	echo "prove.sh: no proof is called '$selected'" >&2
	exit 1
}
echo "$proved passed, $failed failed, 0 skipped"
[ $failed = 0 ]
