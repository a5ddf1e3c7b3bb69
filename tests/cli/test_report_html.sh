#!/bin/sh
# SPDX-License-Identifier: MIT
# mxfp report -o report.html: the page holds the JSON and asks for nothing; in a headless Chromium, if there is one, it
# has no error, fits 1280 and 390 pixels in light and dark, and sorts and filters. Screenshots stay in the build tree.
. "${srcdir:-.}/tests/cli/cli.shlib"
model=${srcdir:-.}/examples/charlm.safetensors

code=0
error=$("$mxfp" report -q --activation-rows 1 "$model" -o "$work/charlm.html" 2>&1) || code=$?
case $error in
*"built without Chart.js"*"libjs-chart.js"*)
	same "exit code without Chart.js" 2 $code
	[ "$failures" = 0 ] || finish
	echo "built without Chart.js: pages not tried"
	exit 77
	;;
esac
same "exit code ($error)" 0 $code

# Three tensors in MXFP4 under floor: (7.5, 5, 0.25, -1) has 10 log10(82.3125 / 3.3125) dB, (6, 4, 0.5, -1) is exact,
# and (7.5, 0.25), which becomes (6, 0), has 10 log10(56.3125 / 2.3125) dB. In MXFP8 E4M3 7.5 becomes 7, and the last
# has 10 log10(56.3125 / 0.25) dB, and the first 10 log10(82.3125 / 0.25).
hostile='</script><img/src=x/onerror=hostile=1><!--'
{
	header '{"a.weight":{"dtype":"F32","shape":[1,32],"data_offsets":[0,128]},
		"b.weight":{"dtype":"F32","shape":[1,32],"data_offsets":[128,256]},
		"'"$hostile"'":{"dtype":"F32","shape":[1,32],"data_offsets":[256,384]}}'
	bytes 0000f040 0000a040 0000803e 000080bf
	head -c 112 /dev/zero
	bytes 0000c040 00008040 0000003f 000080bf
	head -c 112 /dev/zero
	bytes 0000f040 0000803e
	head -c 120 /dev/zero
} >"$work/small.safetensors"
small() {
	exits 0 "" report --formats mxfp4,mxfp8-e4m3 --rules floor --include '*' "$work/small.safetensors" "$@"
}
small -o "$work/small.html"

# The data are those of the .json, without a "<" that could end the script.
small -o "$work/small.json"
for name in charlm small; do
	sed -n '/^<script type="application\/json" id="data">$/,/^<\/script>$/p' "$work/$name.html" |
		sed '1d;$d' >"$work/data"
	same "$name: < in the data" 0 "$(grep -c '<' "$work/data")"
	same "$name: lines of data" 1 "$(wc -l <"$work/data" | tr -d ' ')"
	same "$name: scripts" 3 "$(grep -c '^</script>$' "$work/$name.html")"
done
same "data" "$(tr -d ' \n' <"$work/small.json")" "$(sed 's/\\u003c/</g' "$work/data" | tr -d ' \n')"
same "verdicts that take no script" 1 "$(grep -c '^<h2 id="verdict">W4A8: the weights of' "$work/charlm.html")"
same "addresses that are loaded" 0 \
	"$(grep -ciE '(src|href)="?(https?:)?//|url\((https?:)?//|@import' "$work/charlm.html")"
has "licence" "$(cat "$work/charlm.html")" "Permission is hereby granted"

# The same input gives the same bytes; nothing replaces a file unasked; a missed limit still leaves the page.
mv "$work/small.html" "$work/first.html"
small -o "$work/small.html" --threads 1
check "two reports differ" cmp "$work/first.html" "$work/small.html"
exits 2 "--force" report "$work/small.safetensors" -o "$work/small.html"
exits 1 "a.weight" report --formats mxfp4 --rules floor "$work/small.safetensors" --fail-under SQNR=13.96 --ignore "$hostile" \
	-o "$work/limit.html"
same "page of a missed limit" 1 "$(grep -c '^</html>$' "$work/limit.html")"
exits 0 "" report "$work/small.safetensors" --ignore '*' -o "$work/none.html"

browser=
for name in chromium-headless-shell chromium chromium-browser; do
	[ -n "$browser" ] || browser=$(command -v $name || true)
done
if [ -z "$browser" ]; then
	echo "no Chromium: pages not looked at"
	finish
fi

# browse FILE WIDTH SCHEME (0 dark, 1 light) PICTURE [FRAGMENT]: the page with report_page.js at its end. What it found
# is in $facts, errors of the console in $console, what it asked of the network in $network.
browse() {
	sed '/^<\/body>$/,$d' "$1" >"$work/page.html"
	{
		echo '<script>'
		cat "${srcdir:-.}/tests/cli/report_page.js"
		echo '</script></body></html>'
	} >>"$work/page.html"
	timeout 60 "$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --no-first-run \
		--disable-extensions --disable-background-networking --user-data-dir="$work/profile" \
		--enable-logging=stderr --log-net-log="$work/net" \
		--window-size="$2,2400" --blink-settings="preferredColorScheme=$3" --virtual-time-budget=5000 \
		--screenshot="$4" --dump-dom "file://$work/page.html${5-}" >"$work/dom" 2>"$work/log" </dev/null ||
		bad "$browser failed: $(tail -n 3 "$work/log")"
	facts=$(sed -n '/^FACTS$/,/^END$/p' "$work/dom" | sed 's/&lt;/</g; s/&gt;/>/g; s/&amp;/\&/g')
	console=$(grep ':CONSOLE' "$work/log" || true)
	network=$(grep -oE '"url":"(https?|wss?):[^"]*' "$work/net" | sort -u || true)
}

# says NAME VALUE: the page found that.
says() {
	same "$1" "$2" "$(printf '%s\n' "$facts" | sed -n "s/^$1: //p")"
}

# What this test would see if a page had an error, or asked for something.
{
	sed '/^<\/body>$/,$d' "$work/small.html" | grep -v Content-Security-Policy
	echo '<script>console.error("seen"); missing();</script><img src="http://127.0.0.1:9/seen.png" alt="">'
	echo '</body>'
} >"$work/control.html"
browse "$work/control.html" 1280 1 "$work/control.png"
same "errors that are seen" 2 "$(printf '%s\n' "$console" | grep -cE '"seen"|missing is not defined')"
has "requests that are seen" "$network" "127.0.0.1:9/seen.png"

mkdir -p tests
for size in 1280 390; do
	for scheme in light dark; do
		picture=$(pwd)/tests/cli/report-$size-$scheme.png
		rm -f "$picture"
		browse "$work/charlm.html" $size "$([ $scheme = light ] && echo 1 || echo 0)" "$picture"
		same "console at $size, $scheme" "" "$console"
		same "network at $size, $scheme" "" "$network"
		says width $size
		says fits true
		says dark "$([ $scheme = dark ] && echo true || echo false)"
		says "text contrast" true
		says "series contrast" true
		says charts 7
		for fault in "charts without ink" "charts without a name" "charts without a sentence" "fields without a label" \
			"headers without a scope" "ids twice"; do
			says "$fault" 0
		done
		says rows 5
		says "names in lines" 0
		says roles "up down other"
		says depths "Layer 0 1 –"
		check "$picture shows little" test "$(wc -c <"$picture")" -gt 40000
	done
done

browse "$work/small.html" 390 1 "$work/small.png"
same "console" "" "$console"
same "network" "" "$network"
says verdict "W4A8 does not suit the weights: 2 of 3 layers lose more than MXFP4 costs a Gaussian, 18.8 dB; keeping those in\
 MXFP8 costs 2.7 bits a weight. Errors of weights say nothing about what the model loses: --eval TEXT measures that."
says yardsticks "18.79 30.64 13.95 25.18"
says "worst first" "$hostile a.weight b.weight"
says rising "$hostile a.weight b.weight"
says "sort state" ascending
says focus true
says "first row" "13.87 23.53 32 1 × 32 F32"
says falling "b.weight a.weight $hostile"
says address "#sort=v0&order=down"
says filtered "b.weight a.weight"
says count "2 of 3 tensors"
says under "$hostile"
says variant "Worst layers in mxfp8-e4m3 floor"
says "chosen row" "mxfp8-e4m3 floor"
says "hidden column" true
says pressed false
says "all measures" 16
says "still fits" true
says theme dark
says "elements of names" 0
says "scripts of names" undefined

# The evaluation, which a page without one hides: of six layers, layer 2 alone is not zeros.
says evaluation none
cat >"$work/evaluate.py" <<'END'
import json, struct, sys
names = {"model.embed_tokens": 256, "lm_head": 256, "model.norm": 0}
for i in range(6):
    names["model.layers.%d.input_layernorm" % i] = names["model.layers.%d.post_attention_layernorm" % i] = 0
    names.update({"model.layers.%d.self_attn.%s_proj" % (i, p): 32 for p in "qkvo"})
    names.update({"model.layers.%d.mlp.%s_proj" % (i, p): 32 for p in ("gate", "up", "down")})
header, data = {}, b""
for name, rows in names.items():
    own = "layers." not in name or ".2." in name
    values = [own * ((k * k * 37 + k * 11) % 101 - 50) / 50 for k in range(32 * rows)] or [1.0] * 32
    header[name + ".weight"] = {"dtype": "F32", "shape": [rows, 32] if rows else [32],
                                "data_offsets": [len(data), len(data) + 4 * len(values)]}
    data += struct.pack("<%df" % len(values), *values)
text = json.dumps(header).encode()
with open(sys.argv[1] + "/model.safetensors", "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text + data)
with open(sys.argv[1] + "/config.json", "w") as file:
    json.dump({"model_type": "llama", "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 6,
               "num_attention_heads": 1, "num_key_value_heads": 1, "vocab_size": 256, "max_position_embeddings": 512,
               "rms_norm_eps": 1e-5, "tie_word_embeddings": False, "hidden_act": "silu"}, file)
END
mkdir "$work/model"
if command -v python3 >/dev/null && python3 "$work/evaluate.py" "$work/model"; then
	# A text that the model draws itself: what changes it is worse.
	exits 0 "" eval -q "$work/model" --generate 500 --prompt x --temperature 1 --json
	sed 's/"ids":/"tokens":/' "$work/out" >"$work/model/tokens.json"
	exits 0 "" report -q "$work/model" --eval "$work/model/tokens.json" --profile --try nvfp4,mxfp8 -o "$work/evaluation.html"
	has "the page's headline" "$(grep '<h2 id="verdict">' "$work/evaluation.html")" ", most of it in layer 2 of 6, which is too much."
	for size in 1280 390; do
		browse "$work/evaluation.html" $size 1 "$(pwd)/tests/cli/report-evaluation-$size.png"
		same "console of an evaluation" "" "$console"
		says fits true
		says evaluation "4 runs, 6 layers, 7 kinds, 4 profiles"
		# 6 * 7 matrices of 32 x 32 take 17 bytes a block of 32 in MXFP4 and 33 in MXFP8, 9 a block of 16 in NVFP4 and 4
		# more; 2 * 256 * 32 + 13 * 32 numbers stay f32.
		says runs "f32 W4A8 nvfp4 mxfp8"
		says bits "32.000 12.045 12.247 14.921"
		says "time by layer" "28 rows of 4 runs, open: W4A8 by layer, layer 0, layer 1, layer 2, layer 3, layer 4, layer 5,\
 embedding, head"
		says "longest bar" "layer 2"
		says "headers without a scope" 0
	done
fi

# A view by its address, and a page with nothing measured.
browse "$work/charlm.html" 390 1 "$work/view.png" '#columns=0&filter=up_proj&sort=sqnr&order=down&theme=dark'
says rows 2
says dark true
browse "$work/none.html" 390 1 "$work/none.png"
same "console" "" "$console"
says fits true
says charts 0
finish
