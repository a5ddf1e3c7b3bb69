# SPDX-License-Identifier: MIT
# Draws what curves.sh measured, lines of NAME STEP LOSS ERROR DIFFERENCE ERROR, as SVG: losses of all steps on the left, and
# what they are above that of the plain model from when formats come in, with standard errors, on the right.
{
	n++
	name[n] = $1; step[n] = $2; loss[n] = $3; above[n] = $5; error[n] = $6
	largest = $2 > largest ? $2 : largest
	top = $2 >= from && $5 + $6 > top ? $5 + $6 : top
}

function x(s) { return left + (s - first) / (largest - first) * WIDTH }
function y(v) { return v > high ? TOP : TOP + (high - v) / (high - low) * HEIGHT }
function text(at_x, at_y, anchor, what) { printf "<text x='%.1f' y='%.1f' text-anchor='%s'>%s</text>\n", at_x, at_y, anchor, what }

# A panel's frame: values from low to high, steps from first to largest.
function panel(at, title, from_step, from_value, to_value, tick, form, step_tick,    v) {
	left = at; first = from_step; low = from_value; high = to_value
	text(left, TOP - 14, "start", title)
	for (v = low; v < high + tick / 2; v += tick) {
		printf "<path class='g' d='M%.1f %.1fh%d'/>\n", left, y(v), WIDTH
		text(left - 6, y(v) + 4, "end", sprintf(form, v))
	}
	for (v = first; v <= largest; v += step_tick)
		text(x(v), TOP + HEIGHT + 18, "middle", v)
	text(left + WIDTH / 2, TOP + HEIGHT + 38, "middle", "steps of training")
	entries = 0
}

# The line of a name, of value[] by point; a bar for each error if `bars`; an entry in the panel's legend.
function line(of, value, bars, class, title,    i, d) {
	for (i = 1; i <= n; i++) {
		if (name[i] != of || step[i] < first || value[i] > high)
			continue
		d = d sprintf("%s%.1f %.1f", d == "" ? "M" : "L", x(step[i]), y(value[i]))
		if (bars)
			printf "<path class='%s e' d='M%.1f %.1fV%.1f'/>\n", class, x(step[i]), y(value[i] - error[i]), y(value[i] + error[i])
	}
	printf "<path class='%s' d='%s'/>\n", class, d
	printf "<path class='%s' d='M%.1f %.1fh26'/>\n", class, left + WIDTH - 190, TOP + 8 + 18 * entries
	text(left + WIDTH - 156, TOP + 12 + 18 * entries++, "start", title)
}

END {
	WIDTH = 370; HEIGHT = 300; TOP = 40
	split(formats, format, " ")
	print "<svg xmlns='http://www.w3.org/2000/svg' width='920' height='400' font-family='sans-serif' font-size='12'>"
	print "<style>path{fill:none;stroke-width:1.6}.g{stroke:#ddd;stroke-width:1}.f{stroke:#000}.e{stroke-width:1}" \
		".a{stroke-dasharray:5 4}.c1{stroke:#c0392b}.c2{stroke:#2471a3}.c3{stroke:#1e8449}</style>"
	print "<rect width='920' height='400' fill='#fff'/>"
	panel(50, "loss on characters left out of training, nats", 0, 1.6, 3, 0.2, "%.1f", 500)
	line("plain", loss, 0, "f", "f32")
	line("after-" format[1], loss, 0, "a c1", toupper(format[1]) " x MXFP8, quantized")
	line("trained-" format[1], loss, 0, "c1", "the same, trained in it")
	tick = top > 0.03 ? 0.01 : 0.005
	# Clear of the legend.
	panel(520, "the same above f32, mean and standard error", from, 0, tick * int(top * 1.45 / tick + 1), tick, "%.3f", 200)
	for (i = 1; i in format; i++) {
		line("after-" format[i], above, 1, "a c" i, toupper(format[i]) ", quantized")
		line("trained-" format[i], above, 1, "c" i, toupper(format[i]) ", trained in it")
	}
	print "</svg>"
}
