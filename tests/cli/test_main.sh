#!/bin/sh
# SPDX-License-Identifier: MIT
# The command itself: help, version, unknown words, standard streams that cannot be written, tiers.
. "${srcdir:-.}/tests/cli/cli.shlib"

exits 0 "" --help
text=$(cat "$work/out")
same "lines of --help leave room for a prompt" yes "$([ "$(wc -l <"$work/out")" -lt 24 ] && echo yes)"
same "--help is at most 80 columns wide" "" "$(awk 'length > 80' "$work/out")"
commands=$(sed -n 's/^.\{8\}\([a-z][a-z-]*\)  .*/\1/p' "$work/out")
for command in quantize inspect cast blocks info; do
	has "commands in --help" " $(echo $commands) " " $command "
done
for words in -h help; do
	exits 0 "" $words
	same "mxfp $words" "$text" "$(cat "$work/out")"
done
exits 0 "" --version
same "--version is one line" 1 "$(wc -l <"$work/out" | tr -d ' ')"
has "--version" "$(cat "$work/out")" "mxfp "

exits 2 "mxfp --help"
exits 2 "did you mean 'inspect'?" inspetc
exits 2 "did you mean 'cast'?" csat
exits 2 "unknown command 'frobnicate'" frobnicate
exits 2 "did you mean 'cast'?" help csat
exits 2 "help: unexpected operand 'blocks'" help cast blocks
exits 2 "--help: unexpected operand 'blocks'" --help cast blocks
exits 2 "--version: unexpected operand 'cast'" --version cast
exits 0 "" cast --help
text=$(cat "$work/out")
exits 0 "" --help cast
same "mxfp --help cast" "$text" "$(cat "$work/out")"
exits 2 "unknown option '--frob'" --frob
exits 2 "unknown option '--verison': did you mean '--version'?" --verison
exits 2 "unknown option '-V': did you mean '--version'?" -V
exits 2 "unknown option '--hepl': did you mean '--help'?" --hepl
exits 2 "unknown command 'version': did you mean '--version'?" version
exits 2 "unknown command 'hlep': did you mean 'help'?" hlep
exits 2 "unknown command '?[31mred'" "$(printf '\033[31mred')"

# Processes of mpirun that know nothing of each other would all write OUT.
for size in PMI_SIZE OMPI_COMM_WORLD_SIZE; do
	export $size=2
	for command in quantize calibrate; do
		exits 2 "start mxfp-mpi" $command "${srcdir:-.}/examples/charlm.safetensors" -o "$work/ranks"
	done
	export $size=1
	exits 0 "" quantize "${srcdir:-.}/examples/charlm.safetensors" -o "$work/ranks"
	rm -r "$work/ranks"
	unset $size
done

# Every sub-command: --help alone and after other words, near misses, unknown options.
for command in $commands; do
	exits 0 "" $command --help
	text=$(cat "$work/out")
	has "$command --help" "$text" "Usage: mxfp $command"
	has "$command --help" "$text" "Example:"
	same "$command --help is at most 80 columns wide" "" "$(awk 'length > 80' "$work/out")"
	exits 0 "" $command -h
	same "$command -h prints the same" "$text" "$(cat "$work/out")"
	exits 0 "" help $command
	same "help $command prints the same" "$text" "$(cat "$work/out")"
	exits 2 "did you mean '--help'?" $command --hlep
	exits 2 "unknown option '--zzzzzzzz'" $command --zzzzzzzz
	[ $command = allreduce ] || # which takes a file for each rank
		exits 2 "--help" $command a b c d e f g h
done

# --help shows the defaults whatever was given before it.
exits 0 "" cast --help
text=$(cat "$work/out")
exits 0 "" cast --to e4m3 --round rtz --help
same "defaults in --help after options" "$text" "$(cat "$work/out")"

# Option values.
exits 2 "cast: --to: unknown value 'e4m4': did you mean 'e4m3'?" cast --to e4m4
exits 2 "rne, rna, rhz, rtz, rtp, rtn, sr" cast --to e4m3 --round nearest-ties-up
exits 2 "quantize: unknown option '--cols' (mxfp blocks has it)" quantize --cols 32
exits 2 "unknown option '--stream' (mxfp cast, blocks have it)" info --stream 1
exits 2 "report: unknown option '--rules2': did you mean '--rules'?" report --rules2 mse
exits 2 "blocks: unknown option '--format' (mxfp bench has it)" blocks --format x
exits 2 "cast: '--s' may be --seed, --stream; write more of it" cast --s 1
exits 2 "gemm: unknown option '-output': did you mean '--output'?" gemm a b -output c
exits 2 "cast: unknown option '-to=e4m3': did you mean '--to=e4m3'?" cast -to=e4m3
touch "$work/numbers.f32"
exits 4 "/nubmers.f32: cannot open: No such file or directory: did you mean '$work/numbers.f32'?" \
	cast --to e4m3 "$work/nubmers.f32"
exits 4 "did you mean '$work/numbers.f32'?" inspect "$work/Numbers.F32"
exits 4 "/other: cannot open: No such file or directory" inspect "$work/other"
exits 4 "/none/x: cannot open: No such file or directory" inspect "$work/none/x"
exits 2 "did you mean 'rne'?" cast --to e4m3 --round rn
exits 2 "blocks: --to: unknown value 'MXFP4': did you mean 'mxfp4'? (block formats: " blocks --to MXFP4
exits 2 "engine: --chip: unknown value 'tranium3': did you mean 'trainium3'?" engine --experts 4 --chip tranium3
exits 2 "engine: --weights: unknown value 'mxfp5': did you mean 'mxfp4'?" engine --experts 4 --weights mxfp5
exits 2 "--op: unknown value 'dequantise': did you mean 'dequantize'?" bench --op dequantise
exits 2 "--format: unknown value 'mxpf4': did you mean 'mxfp4'?" bench --format mxpf4
exits 2 "'mxfp4' is not an element format: did you mean 'e2m1'?" cast --to mxfp4
exits 2 "'e4m3' is not a block format: did you mean 'mxfp8-e4m3'?" blocks --to e4m3 --cols 32 a b c
exits 2 "'f16' is not a block format" quantize a -o b --weights f16

# What others call it: suggested and not taken. A word may also be how a known one begins, or begin with one.
means() {
	exits 2 "unknown value '$1': did you mean '$2'? (" quantize a -o b "$3" "$1"
}
means fp4 mxfp4 --weights
means FP4 mxfp4 --activations
means fp8 mxfp8-e4m3 --weights
means mxfp6 mxfp6-e2m3 --weights
means nvfp4-w4a4 nvfp4 --weights
means nvfp4-w4a4 nvfp4 --preset
means fp8 mxfp8 --preset
means mxfp4 w4a8 --preset
means vllm compressed-tensors --layout
means hf compressed-tensors --layout
means compressed compressed-tensors --layout
means llama.cpp gguf --layout
means nvidia modelopt --layout
means stochastic sr --round
exits 2 "calibrate: --preset: unknown value 'w8a8': did you mean 'mxfp8'?" calibrate a -o b --text c --preset w8a8
exits 2 "did you mean 'f16'?" cast --to fp16
exits 2 "quantize: unknown option '--exclude': did you mean '--ignore'?" quantize a --exclude b
exits 2 "unknown command 'evaluate': did you mean 'eval'?" evaluate

# Words that are too long for a line leave room for the remedy, and what is no text is not shown.
long=$(printf '%05000d' 0)
exits 2 "...' (block formats: mxfp8-e4m3, " quantize a -o b --weights "$long"
exits 2 "...'; mxfp --help lists them" "$long"
exits 2 "...'; see mxfp info --help" info "$long"
exits 2 "...': expected a number" quantize a -o b --seed "x$long"
exits 2 "unknown value '??' (block formats: " quantize a -o b --weights "$(printf '\377\376')"
exits 2 "unknown value '' (layouts: " quantize a -o b --layout ""
exits 2 "unknown option '--?'" quantize a "$(printf -- '--\377')"
exits 2 "unknown command ''" ""
exits 2 "option --seed needs a value" cast --to e4m3 --seed
exits 2 "option --decode takes no value" cast --to e4m3 --decode=yes
for number in -1 +1 " 1" 1x 0x "" 18446744073709551616; do
	exits 2 "cast: --seed: invalid value '$number'" cast --to e4m3 --seed "$number"
done
for number in 1025 100000 4294967296; do
	exits 2 "cast: --threads: invalid value '$number': expected at most 1024, or 0 for one a processor" cast --to e4m3 --threads $number
done
exits 2 "cast: --threads: invalid value 'two': expected a number" cast --to e4m3 --threads two
exits 2 "unknown option '-Z'" cast -Z
exits 2 "unexpected operand 'c'" cast --to e4m3 a b c
exits 2 "too few operands" blocks --to mxfp4 --cols 32 a
exits 2 "missing operand" inspect

# What stdout does not take is an I/O error, also when it shows only at the end.
if [ -w /dev/full ]; then
	for arguments in --help --version info "info --json" "cast --help"; do
		code=0
		error=$("$mxfp" $arguments 2>&1 >/dev/full) || code=$?
		same "exit code of '$arguments' on a full disk" 4 $code
		has "error of '$arguments' on a full disk" "$error" "mxfp: standard output: "
	done
fi
code=0
"$mxfp" info >&- 2>/dev/null || code=$?
same "exit code with stdout closed" 4 $code
# A descriptor that the caller left closed is not taken by an input or output file, which would then get the messages.
if [ -d /proc/self/fd ]; then
	mkfifo "$work/fifo"
	"$mxfp" cast --to e4m3 "$work/fifo" "$work/codes" <&- >&- 2>&- &
	exec 3>"$work/fifo"
	sleep 0.2
	for fd in 0 1 2; do
		same "descriptor $fd of a process without it" /dev/null "$(readlink /proc/$!/fd/$fd)"
	done
	exec 3>&-
	wait $!
	same "exit code without standard streams" 0 $?
fi
(
	sleep 0.2
	code=0
	"$mxfp" info 2>/dev/null || code=$?
	echo $code >"$work/code"
) | true
same "exit code with a pipe closed" "$(pipe_code)" "$(cat "$work/code")"
# Without a word, as other filters do; where the caller ignores SIGPIPE, with one. A file that is written is whole.
safetensors_zeros "$work/in.safetensors" '{"a.weight":{"dtype":"F32","shape":[1,32],"data_offsets":[0,128]}}' 128
head -c 128 /dev/zero >"$work/raw"
if env --default-signal=PIPE true 2>/dev/null; then
	for arguments in info --help "inspect $work/in.safetensors" "report $work/in.safetensors" "lint $work/in.safetensors" \
		"diff $work/in.safetensors $work/in.safetensors" "advise $work/in.safetensors" "engine --shape 64,64,64" \
		"cast --to e4m3 $work/raw" "quantize $work/in.safetensors -o $work/piped --force"; do
		for how in default ignore; do
			(
				trap '' PIPE
				while printf .; do :; done 2>"$work/error" # until nobody reads
				code=0
				env --$how-signal=PIPE "$mxfp" $arguments 2>"$work/error" || code=$?
				echo $code >"$work/code"
			) | true
			same "exit code of '$arguments', SIGPIPE $how" "$([ $how = default ] && echo 141 || echo 4)" "$(cat "$work/code")"
			same "stderr of '$arguments', SIGPIPE $how" \
				"$([ $how = default ] || echo "mxfp: standard output: cannot write: Broken pipe")" "$(cat "$work/error")"
		done
	done
	exits 0 "" quantize "$work/in.safetensors" -o "$work/whole" -q
	same "what was written" "" "$(diff -r "$work/whole" "$work/piped")"
fi

# Tiers. --isa goes before MXFP_ISA; both are heeded up to what the machine has.
tier_in_use() {
	sed -n 's/^tier  *//p' "$work/out"
}
unset MXFP_ISA
exits 0 "" info
highest=$(tier_in_use)
best=${highest%%:*}
has "no limit" "$highest" "$best: the highest of this machine"
tiers=$(sed -n '/^Instruction-set tiers/,/^$/s/^  \([a-z0-9]*\) .*/\1/p' "$work/out")
has "tiers" " $(echo $tiers) " " ref "
has "tiers" " $(echo $tiers) " " $best "
known=$(echo $tiers | sed 's/ /, /g')
below=ref
for tier in $tiers; do
	exits 0 "" --isa $tier info
	if grep -q "^  $tier .* lacks " "$work/out"; then
		same "--isa $tier, which is not here" "$below: the highest of this machine up to $tier, which --isa sets" \
			"$(tier_in_use)"
	else
		below=$tier
		same "--isa $tier" "$tier: the highest of this machine up to $tier, which --isa sets" "$(tier_in_use)"
		same "one tier is in use" "  $tier in use" "$(grep ' in use$' "$work/out" | tr -s ' ' | sed 's/^/ /')"
	fi
	exits 0 "" --isa=$tier info --json
	has "--isa=$tier" "$(tr -d ' \n' <"$work/out")" "\"tier_limit\":\"$tier\",\"tier_limit_from\":\"--isa\","
done
exits 2 "option --isa needs a value" --isa
exits 2 "no command given" --isa ref
exits 2 "--isa stands before the command: mxfp --isa TIER cast" cast --isa ref
for tier in nonsense ""; do
	exits 2 "--isa: unknown value '$tier' (tiers: $known)" --isa "$tier" info
	exits 2 "--isa: unknown value '$tier' (tiers: $known)" "--isa=$tier" cast --to e4m3
done
for tier in REF re; do
	exits 2 "--isa: unknown value '$tier': did you mean 'ref'? (tiers: $known)" --isa "$tier" info
done
exits 2 "unknown option '--isaref'" --isaref info
export MXFP_ISA=nonsense
exits 2 "MXFP_ISA: unknown value 'nonsense' (tiers: $known)" cast --to e4m3
exits 0 "" --version
exits 0 "" --isa ref info
export MXFP_ISA=ref
exits 0 "" info
same "MXFP_ISA" "ref: the highest of this machine up to ref, which MXFP_ISA sets" "$(tier_in_use)"
exits 0 "" info --json
has "MXFP_ISA" "$(tr -d ' \n' <"$work/out")" '"tier":"ref","tier_limit":"ref","tier_limit_from":"MXFP_ISA",'
exits 0 "" --isa $best info
has "--isa before MXFP_ISA" "$(tier_in_use)" "$best: "
export MXFP_ISA=
exits 0 "" info
same "empty MXFP_ISA" "$highest" "$(tier_in_use)"
unset MXFP_ISA
exits 0 "" info --json
has "no limit" "$(tr -d ' \n' <"$work/out")" '"tier_limit":null,"tier_limit_from":null,'
has "tiers" "$(tr -d ' \n' <"$work/out")" '"tiers":[{"name":"ref","available":true,"missing":[]}'

# Color: on a terminal, which script(1) makes, and not with NO_COLOR or a dumb one; never elsewhere.
if script -qec true /dev/null </dev/null >/dev/null 2>&1; then
	# on_terminal VARIABLE... COMMAND: what the command line shows on a terminal with these variables.
	on_terminal() {
		env -u NO_COLOR TERM=xterm "$@" </dev/null | tr -d '\r'
	}
	escape=$(printf '\033[')
	printed=$(on_terminal script -qec "'$mxfp' cast --to e4m4" /dev/null)
	same "an error in color" "${escape}1;31mmxfp:${escape}0m cast: --to" "$(printf '%s' "$printed" | cut -d : -f 1-3)"
	printed=$(on_terminal script -qec "'$mxfp' cast --help" /dev/null)
	has "headings in color" "$printed" "${escape}1mOptions:${escape}0m"
	for plain in NO_COLOR=1 TERM=dumb TERM=; do
		printed=$(on_terminal $plain script -qec "'$mxfp' cast --help; '$mxfp' csat; '$mxfp'" /dev/null)
		has "$plain" "$printed" "mxfp: unknown command 'csat'"
		same "$plain" "" "$(printf '%s' "$printed" | grep "$(printf '\033')")"
	done
	printed=$(on_terminal NO_COLOR= script -qec "'$mxfp' cast --help" /dev/null)
	has "empty NO_COLOR" "$printed" "${escape}1mOptions:"
	printed=$(on_terminal script -qec "'$mxfp' cast --help | cat" /dev/null)
	has "no color in a pipe" "$printed" "
Options:"
else
	echo "no script(1): color is not tested"
fi

# info: facts that numerics.md states.
exits 0 "" info
text=$(tr -s ' ' <"$work/out")
has "info" "$text" " e4m3 8 float 4/3 7 448 NaN"
has "info" "$text" " e5m2 8 float 5/2 15 57344 Inf, NaN"
has "info" "$text" " int8 8 fixed point 0/6 0 1.984375 none"
has "info" "$text" " e8m0 8 exponent 8/0 127 1.70141183e+38 NaN"
has "info" "$text" " mxfp4 e2m1 32 e8m0 - 4.25"
has "info" "$text" " nvfp4 e2m1 16 ue4m3 f32 4.5"
exits 0 "" info --json
text=$(tr -d ' \n' <"$work/out")
has "info --json" "$text" '"tier":"'
has "info --json" "$text" '{"name":"e2m1","kind":"float","bits":4,"exponent_bits":2,"significand_bits":1,'
has "info --json" "$text" '"significand_bits":1,"bias":1,"emax":2,"max":6.0,"max_code":7,"inf":false,"nan":false,'
has "info --json" "$text" '{"name":"rceil","meaning":"'
finish
