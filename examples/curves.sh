#!/bin/sh
# SPDX-License-Identifier: MIT
# What training in a format brings the character model of this folder: draws the losses while it is trained as
# FILE.svg, and prints the last ones with their standard errors over SEEDS trainings (5) that differ in initial values and
# batches: curves.sh FILE.svg [SEEDS]. Losses are of characters left out of training, by charlm_loss, of the models as they
# are every 200 steps, in blocks that `mxfp quantize` made, with activations in MXFP8. The programs are found in PATH; all
# seeds are trained at once, each in about two minutes of a core.
set -eu
formats='mxfp4 nvfp4 mxfp8'
steps=3000 every=200

[ $# -ge 1 ] || {
	echo 'usage: curves.sh FILE.svg [SEEDS]' >&2
	exit 2
}
text=$(dirname "$0")/charlm.txt
picture=$1 seeds=${2:-5}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# loss NAME STEP MODEL ACTIVATIONS: prints a line of the data: what the loss is of, and after which step.
loss() {
	line=$(charlm_loss "$3" "$text" "$4")
	echo "$seed $1 $2 ${line%% *}"
}

# quantized NAME STEP MODEL FORMAT
quantized() {
	mxfp quantize -q "$3" -o "$3.blocks" --weights "$4"
	loss "$1" "$2" "$3.blocks/model.safetensors" mxfp8
	rm -r "$3.blocks"
}

# one SEED: the lines of all models of one seed. Before the last third of the steps all trainings are one.
one() {
	seed=$1
	for format in none $formats; do
		activations=mxfp8
		[ $format != none ] || activations=none
		charlm_train "$text" "$work/$seed.$format" $steps $format $activations "$seed" $every >"$work/$seed.log"
	done
	for step in $(seq $every $every $steps); do
		loss plain "$step" "$work/$seed.none.$step" none
		for format in $formats; do
			quantized "after-$format" "$step" "$work/$seed.none.$step" "$format"
			[ "$step" -lt $((steps - steps / 3)) ] ||
				quantized "trained-$format" "$step" "$work/$seed.$format.$step" "$format"
		done
	done
}

running=
for seed in $(seq "$seeds"); do
	one "$seed" >"$work/$seed.lines" &
	running="$running $!"
done
for process in $running; do
	wait "$process"
done

# Means and standard errors over seeds, of losses and of what they are above that of the plain model of the same seed and
# step: NAME STEP MEAN ERROR DIFFERENCE ERROR.
cat "$work"/*.lines | awk '
	{ loss[$2, $3, $1] = $4; names[$2]; steps[$3]; seeds[$1] }
	function spread(sum, squares, n) { return n > 1 ? sqrt((squares - sum * sum / n) / (n - 1) / n) : 0 }
	END {
		for (name in names) for (step in steps) {
			n = sum = squares = above = above_squares = 0
			for (seed in seeds) if ((name, step, seed) in loss) {
				x = loss[name, step, seed]
				d = x - loss["plain", step, seed]
				n++; sum += x; squares += x * x; above += d; above_squares += d * d
			}
			if (n)
				printf "%s %d %.4f %.4f %.4f %.4f\n", name, step, sum / n, spread(sum, squares, n),
					above / n, spread(above, above_squares, n)
		}
	}' | sort -k1,1 -k2,2n >"$work/curves"

# last NAME: "LOSS +- ERROR" or, with columns 5 and 6, the difference.
last() {
	awk -v name="$1" -v step=$steps -v column="$2" '$1 == name && $2 == step { print $column " +- " $(column + 1) }' "$work/curves"
}
echo '| weights x activations | quantized after training | above f32 | trained in it | above f32 |'
echo '|---|---:|---:|---:|---:|'
echo "| f32 | $(last plain 3) | | | |"
for format in $formats; do
	name=$(echo "$format" | tr a-z A-Z)
	echo "| $name x MXFP8 | $(last "after-$format" 3) | $(last "after-$format" 5) | $(last "trained-$format" 3) | $(last "trained-$format" 5) |"
done

awk -v formats="$formats" -v from=$((steps - steps / 3)) -f "$(dirname "$0")/curves.awk" "$work/curves" >"$picture"
