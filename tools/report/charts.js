/* SPDX-License-Identifier: MIT */
/* The charts of a report: what Chart.js draws. A format has one color; its rules differ in the shape of points and the
   dashes of lines, so that no chart depends on color alone. */
'use strict';

const SHAPES = ['circle', 'rect', 'triangle', 'rectRot', 'rectRounded', 'crossRot', 'star', 'cross'];
const DASHES = [[], [6, 3], [2, 2], [9, 3, 2, 3], [12, 4], [4, 6]];
const NAMES_MAX = 24, POINTS_MAX = 60, GROUPS_MAX = 500;

const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const narrow = () => window.innerWidth < 560;
const shownList = () => [...chosen.shown].sort((a, b) => a - b);
const finiteOrNull = x => Number.isFinite(x) ? x : null;
const weightsSqnr = v => finiteOrNull(sqnrValue(v.weights));

/* How a variant looks everywhere; what is pruned is hollow. */
function look(i) {
	const v = totals[i], color = css(`--series-${formats.indexOf(v.format) % SERIES_COLORS}`);
	const kinds = [...new Set(totals.map(other => other.format + choiceOf(other)))];
	const sibling = totals.filter(other => other.format === v.format).indexOf(v);

	return {
		label: labels[i],
		borderColor: color,
		backgroundColor: color,
		borderWidth: 2,
		borderDash: DASHES[sibling % DASHES.length],
		pointStyle: SHAPES[kinds.indexOf(v.format + choiceOf(v)) % SHAPES.length],
		pointBorderColor: color,
		pointBackgroundColor: v.sparsity ? css('--card') : color,
		pointBorderWidth: 2,
	};
}

/* An axis with a title; `ticks` and `more` are Chart.js's. */
function axis(title, ticks, more) {
	return {
		title: { display: title !== '', text: title, color: css('--muted') },
		ticks: { color: css('--muted'), ...ticks },
		grid: { color: css('--grid'), borderColor: css('--line') },
		...more,
	};
}

const dBAxis = more => axis('SQNR, dB', {}, more);

/* Options of every chart. Tooltips have `callbacks`, and show what `mode` finds: the nearest, or all of one index. */
function common(mode, scales, callbacks, more) {
	return {
		responsive: true,
		maintainAspectRatio: false,
		animation: false,
		interaction: { intersect: false, ...mode },
		scales,
		plugins: {
			legend: { display: false },
			tooltip: {
				backgroundColor: css('--ink'),
				titleColor: css('--page'),
				bodyColor: css('--page'),
				usePointStyle: true,
				callbacks,
			},
		},
		...more,
	};
}

/* Where normal numbers would be: a dotted line for each variant that is shown, across an axis of dB. */
const yardsticks = (shown, axisName) => ({
	id: 'yardsticks',
	beforeDatasetsDraw(chart) {
		const context = chart.ctx, { left, right, top, bottom } = chart.chartArea, scale = chart.scales[axisName];

		context.save();
		context.lineWidth = 1.5;
		context.setLineDash([2, 4]);
		for (const i of shown.filter(k => gaussians[k] !== null)) {
			const at = scale.getPixelForValue(gaussians[i]);

			context.strokeStyle = look(i).borderColor;
			context.beginPath();
			context.moveTo(axisName === 'x' ? at : left, axisName === 'x' ? top : at);
			context.lineTo(axisName === 'x' ? at : right, axisName === 'x' ? bottom : at);
			context.stroke();
		}
		context.restore();
	},
});

/* So that these lines are in sight. */
const withYardsticks = shown => {
	const known = shown.map(i => gaussians[i]).filter(x => x !== null);

	return known.length === 0 ? {} : { suggestedMin: Math.min(...known) - 1, suggestedMax: Math.max(...known) + 1 };
};

/* Entries of the key of a chart: [text, what stands before it], see writeColors(). */
const variantsKey = (shown, points) => shown.map(i => [labels[i], { variant: i, points }]);
const gaussianKey = shown => shown.some(i => gaussians[i] !== null) ? [['a Gaussian in the format', 'dots']] : [];

/* Names without what all begin or end with; of long ones the last parts. */
function shortNames(names, length) {
	const parts = names.map(name => name.split('.'));
	const least = Math.min(...parts.map(p => p.length)) - 1;
	const alike = at => parts.every(p => p[at(p)] === parts[0][at(parts[0])]);
	let head = 0, tail = 0;

	while (head < least && alike(() => head))
		head++;
	while (tail < least - head && alike(p => p.length - 1 - tail))
		tail++;
	return parts.map(p => {
		const own = p.slice(head, p.length - tail);
		let from = 0;

		while (from < own.length - 1 && own.slice(from).join('.').length >= length)
			from++;
		const name = own.slice(from).join('.');
		return name.length > length ? '…' + name.slice(1 - length) : (from > 0 ? '…' : '') + name;
	});
}

/* A few layers have a row each, with their names, and variants lie apart in it; many are numbered along the x axis. */
const byName = tensors.length <= NAMES_MAX;

function layerRows(shown) {
	const names = shortNames(tensors.map(t => t.name), narrow() ? 15 : 40);
	const apart = k => 0.7 * ((k + 0.5) / shown.length - 0.5);
	const points = (i, k) => tensors.map((t, row) => ({ x: finiteOrNull(t.sqnr[i]), y: row + apart(k) }))
		.filter(point => point.x !== null);
	const y = axis('', { color: css('--ink'), autoSkip: false, callback: value => names[value] }, {
		reverse: true,
		min: -0.5,
		max: tensors.length - 0.5,
		afterBuildTicks: scale => {
			scale.ticks = tensors.map((t, value) => ({ value }));
		},
	});

	return {
		type: 'scatter',
		data: { datasets: shown.map((i, k) => ({ ...look(i), pointRadius: 5, data: points(i, k) })) },
		options: common({ mode: 'nearest' }, { x: dBAxis(withYardsticks(shown)), y }, {
			label: item => ` ${item.dataset.label}: ${item.raw.x.toFixed(2)} dB`,
			title: items => tensors[Math.round(items[0].raw.y)].name,
		}),
		plugins: [yardsticks(shown, 'x')],
	};
}

/* Neighbours that share a point, the worst of them, so that no more points than a screen has are drawn. */
function layerGroups() {
	const size = Math.ceil(tensors.length / GROUPS_MAX);

	return Array.from({ length: Math.ceil(tensors.length / size) }, (unused, k) =>
		tensors.slice(k * size, (k + 1) * size));
}

function groupName(group) {
	return group.length === 1 ? group[0].name : `${group[0].name} to ${group[group.length - 1].name}`;
}

function layerLines(shown, groups, dB) {
	const pointRadius = groups.length > POINTS_MAX ? 0 : 3, size = groups[0].length;
	const title = 'tensor, in the order of the file';

	return {
		type: 'line',
		data: {
			labels: groups.map((group, k) => k * size + 1),
			datasets: shown.map((i, k) => ({ ...look(i), data: dB[k], pointRadius, spanGaps: true })),
		},
		options: common({ mode: 'index' }, {
			x: axis(size === 1 ? title : `${title}; a point is the worst of ${size}`,
				{ maxRotation: 0, autoSkipPadding: 12 }),
			y: dBAxis(withYardsticks(shown)),
		}, {
			label: item => ` ${item.dataset.label}: ${item.raw.toFixed(2)} dB`,
			title: items => groupName(groups[items[0].dataIndex]),
		}),
		plugins: [yardsticks(shown, 'y')],
	};
}

/* Each chart, of what is shown: its height, what Chart.js draws, and its numbers; or null for nothing to draw. */
function layersChart() {
	const shown = shownList(), groups = layerGroups();
	const worst = (group, i) => finiteOrNull(Math.min(...group.map(t => t.sqnr[i]).filter(Number.isFinite)));
	const dB = shown.map(i => groups.map(group => worst(group, i)));

	return {
		height: byName ? 70 + tensors.length * Math.max(30, 6 * shown.length) : 380,
		config: byName ? layerRows(shown) : layerLines(shown, groups, dB),
		key: [...variantsKey(shown, byName || groups.length <= POINTS_MAX), ...gaussianKey(shown)],
		unit: 'dB',
		column: 'Tensor',
		rows: [...groups.map(groupName), 'A Gaussian'],
		columns: shown.map((i, k) => [labels[i], [...dB[k], gaussians[i]]]),
	};
}

/* Boxes are [left, top, right, bottom]. */
const overlap = (a, b) => a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];
const within = (a, b) => a[0] >= b[0] && a[2] <= b[2] && a[1] >= b[1] && a[3] <= b[3];

/* Points of the front have their names beside them, where these are in the way of nothing else. */
function drawFrontNames(chart) {
	const context = chart.ctx, { left, top, right, bottom } = chart.chartArea, far = 10, high = 15;
	const points = chart.data.datasets.map((dataset, k) => ({ dataset, point: chart.getDatasetMeta(k).data[0] }))
		.filter(({ dataset }) => dataset.front !== undefined);
	const taken = points.map(({ point: { x, y } }) => [x - 7, y - 7, x + 7, y + 7]);

	context.font = `600 12px ${Chart.defaults.font.family}`;
	context.fillStyle = css('--ink');
	context.textAlign = 'left';
	context.textBaseline = 'middle';
	for (const { dataset, point: { x, y } } of points.filter(({ dataset }) => dataset.front)) {
		const wide = context.measureText(dataset.label).width;
		const box = [[x + far, y - high], [x + far, y + high], [x - far - wide, y - high], [x - far - wide, y + high],
			[x - wide / 2, y - 1.6 * high], [x - wide / 2, y + 1.6 * high]]
			.map(([from, middle]) => [from, middle - high / 2, from + wide, middle + high / 2])
			.find(b => within(b, [left, top, right, bottom]) && !taken.some(other => overlap(b, other)));

		if (box !== undefined) {
			taken.push(box);
			context.fillText(dataset.label, box[0], box[1] + high / 2);
		}
	}
}

function paretoChart() {
	const point = i => ({ x: totals[i].bits_per_weight, y: weightsSqnr(totals[i]) });
	const drawn = shownList().filter(i => point(i).y !== null);
	const points = drawn.map(i => ({ ...look(i), data: [point(i)], pointRadius: 6, front: totals[i].pareto }));
	const known = drawn.filter(i => gaussians[i] !== null);
	const ticks = known.map(i => ({ ...look(i), data: [{ x: totals[i].bits_per_weight, y: gaussians[i] }], pointStyle: 'line',
		pointRadius: 11, pointBorderWidth: 1.5 }));
	const line = {
		label: 'Pareto front',
		data: drawn.filter(i => totals[i].pareto).map(point).sort((a, b) => a.x - b.x),
		showLine: true,
		stepped: 'before',
		pointRadius: 0,
		borderColor: css('--muted'),
		borderWidth: 1.5,
		borderDash: [4, 4],
		order: 1,
	};
	const options = common({ mode: 'nearest' }, {
		x: axis('bits per weight', {}, { grace: '15%' }),
		y: dBAxis({ grace: '15%' }),
	}, {
		label: item => ` ${item.dataset.label}: ${item.raw.x.toFixed(3)} bits, ${item.raw.y.toFixed(2)} dB`,
	});

	options.plugins.tooltip.filter = item => item.dataset.front !== undefined;
	return {
		height: 360,
		config: {
			type: 'scatter',
			data: { datasets: [...points, ...ticks, line] },
			options,
			plugins: [{ id: 'frontNames', afterDatasetsDraw: drawFrontNames }],
		},
		key: [...variantsKey(drawn, 'alone'), ...(known.length > 0 ? [['a Gaussian in the format', 'level']] : [])],
		unit: '',
		column: 'Format, rule',
		rows: drawn.map(i => labels[i]),
		columns: [['bits per weight', drawn.map(i => point(i).x)], ['SQNR, dB', drawn.map(i => point(i).y)],
			['a Gaussian, dB', drawn.map(i => gaussians[i])]],
	};
}

/* Histograms as steps, [variant, share of a bin in per cent], over bins that are numbers, or null for a gap. A step is as
   wide as its bin, so there is an empty bin before the first and after the last. */
function histogram(bins, lines, titles, text) {
	const names = bins.map(bin => bin === null ? '…' : text(bin));
	const columns = lines.map(([i, share]) => [labels[i], bins.map(bin => bin === null ? null : share(bin))]);
	const line = ([i], k) => ({ ...look(i), data: [0, ...columns[k][1], 0], pointRadius: 0, pointHitRadius: 8,
		stepped: 'middle' });

	return {
		height: 320,
		config: {
			type: 'line',
			data: { labels: ['', ...names, ''], datasets: lines.map(line) },
			options: common({ mode: 'index' }, {
				x: axis(titles.x, { maxRotation: 0, autoSkipPadding: 8 }),
				y: axis(titles.y, {}, { beginAtZero: true }),
			}, { label: item => ` ${item.dataset.label}: ${item.raw.toFixed(3)} %` }),
		},
		key: variantsKey(lines.map(([i]) => i), false),
		unit: '%',
		column: titles.column,
		rows: names,
		columns,
	};
}

/* The bin before the first is of no error at all. */
function errorsChart() {
	const shown = shownList(), errorsOf = i => totals[i].errors;
	const some = shown.map(errorsOf).filter(errors => errors.counts.length > 0);
	const none = Math.min(0, ...some.map(errors => errors.first_exponent)) - 1;
	const end = Math.max(1, ...some.map(errors => errors.first_exponent + errors.counts.length));
	const count = (errors, bin) => bin === none ? errors.exact : errors.counts[bin - errors.first_exponent] || 0;
	const bins = Array.from({ length: end - none }, (unused, k) => none + k);
	const share = i => bin => 100 * count(errorsOf(i), bin) / Math.max(1, totals[i].weights.measured);
	const text = bin => bin === none ? 'none' : `${Number((100 * 2 ** bin).toPrecision(bin < 0 ? 2 : 4))} %`;
	const titles = {
		x: 'relative error of a weight, from that to twice of it',
		y: 'share of the weights, %',
		column: 'Error',
	};

	return histogram(bins, shown.map(i => [i, share(i)]), titles, text);
}

/* Bits of the significand in codes of the two scale formats, and the bias of their exponents: codes of one exponent
   make one bin. All-zero blocks have the lowest scale, far from the others, so bins that are empty leave a gap. */
const SCALES = { e8m0: { bits: 0, bias: 127 }, ue4m3: { bits: 3, bias: 7 } };

const superscript = n => String(n).replace(/[-\d]/g, c => c === '-' ? '⁻' : '⁰¹²³⁴⁵⁶⁷⁸⁹'[c]);
const hasScale = (v, format) => v.scales !== null && v.scales.scale_format === format;

function countExponents({ scale_format: format, first_code: first, counts }) {
	const { bits, bias } = SCALES[format], bins = new Map();

	counts.forEach((count, k) => {
		const exponent = ((first + k) >> bits) - bias;

		if (count > 0)
			bins.set(exponent, (bins.get(exponent) || 0) + count);
	});
	return bins;
}

function scalesChart(format) {
	const { bits, bias } = SCALES[format], shown = shownList().filter(i => hasScale(totals[i], format));
	const bins = new Map(shown.map(i => [i, countExponents(totals[i].scales)]));
	const all = [...new Set([...bins.values()].flatMap(counts => [...counts.keys()]))].sort((a, b) => a - b);
	const withGaps = all.flatMap((bin, k) => k > 0 && bin > all[k - 1] + 1 ? [null, bin] : [bin]);
	const sum = i => totals[i].scales.counts.reduce((a, b) => a + b, 0);
	const share = i => bin => 100 * (bins.get(i).get(bin) || 0) / sum(i);
	const text = bin => bits === 0 && bin === bias + 1 ? 'NaN'
		: bits > 0 && bin === -bias ? `< 2${superscript(bin + 1)}` : `2${superscript(bin)}`;
	const titles = { x: 'scale of a block', y: 'share of the blocks, %', column: 'Scale' };

	return all.length === 0 ? null : histogram(withGaps, shown.map(i => [i, share(i)]), titles, text);
}

/* A line at a value that all bars are to be seen against. */
function drawReference(chart, value) {
	const context = chart.ctx, { top, bottom } = chart.chartArea, x = chart.scales.x.getPixelForValue(value);

	context.save();
	context.strokeStyle = css('--ink');
	context.lineWidth = 2;
	context.setLineDash([5, 4]);
	context.beginPath();
	context.moveTo(x, top);
	context.lineTo(x, bottom);
	context.stroke();
	context.restore();
}

/* What normal numbers would have, as strokes across the bars. */
const strokes = values => ({
	id: 'strokes',
	afterDatasetsDraw(chart) {
		const context = chart.ctx;

		context.save();
		context.strokeStyle = css('--ink');
		context.lineWidth = 2;
		values.forEach((column, k) => column.forEach((value, row) => {
			const { y, height } = chart.getDatasetMeta(k).data[row], x = chart.scales.x.getPixelForValue(value);

			if (value === null)
				return;
			context.beginPath();
			context.moveTo(x, y - height / 2 - 1);
			context.lineTo(x, y + height / 2 + 1);
			context.stroke();
		}));
		context.restore();
	},
});

/* Bars, a group for each variant; sets are [label, color, value of a variant, its yardstick], and the reference [label,
   value]. */
function bars(shown, sets, [referenceLabel, reference]) {
	const names = shown.map(i => labels[i]), known = Number.isFinite(reference);
	const columns = sets.map(([label, color, value]) => [label, shown.map(i => finiteOrNull(value(i)))]);
	const normal = sets.map(([label, color, value, gaussian]) => shown.map(gaussian));
	const measured = normal.some(column => column.some(x => x !== null));

	return {
		height: 70 + shown.length * 46,
		config: {
			type: 'bar',
			data: {
				labels: names,
				datasets: sets.map(([label, color], k) =>
					({ label, backgroundColor: css(color), data: columns[k][1] })),
			},
			options: common({ mode: 'index', axis: 'y' }, {
				x: dBAxis({ suggestedMax: known ? 1.05 * reference : 0 }),
				y: axis('', { color: css('--ink'), autoSkip: false }),
			}, { label: item => ` ${item.dataset.label}: ${fixed(item.raw, 2)} dB` }, { indexAxis: 'y' }),
			plugins: [strokes(normal), ...(known
				? [{ id: 'reference', afterDatasetsDraw: chart => drawReference(chart, reference) }] : [])],
		},
		key: [...sets, [referenceLabel, 'dashes'], ...(measured ? [['a Gaussian', 'stroke']] : [])],
		unit: 'dB',
		column: 'Format, rule',
		rows: names,
		columns: [...columns, [referenceLabel, shown.map(() => finiteOrNull(reference))]],
	};
}

function productsChart(k) {
	const products = i => totals[i].products[k], { activations } = totals[0].products[k];
	const x = data.activations.format;

	return bars(shownList(), [
		['weights quantized', '--series-0', i => sqnrValue(products(i).weights_quantized),
			i => productGaussians(i, activations)[0]],
		[`activations quantized too, to ${x}`, '--series-1', i => sqnrValue(products(i).both_quantized),
			i => productGaussians(i, activations)[1]],
	], ['activations quantized, weights not', sqnrValue(data.total.activations_quantized[k].products)]);
}

/* The variant that is another one pruned, or -1. */
function prunedOf(i) {
	const dense = totals[i];

	return dense.sparsity ? -1
		: totals.findIndex(v => v.sparsity && v.format === dense.format && choiceOf(v) === choiceOf(dense));
}

function sparsityChart() {
	const pairs = totals.map((v, i) => i).filter(i => prunedOf(i) >= 0);
	const only = totals.find(v => v.sparsity && v.format === 'f32');

	return bars(pairs, [
		['dense', '--series-0', i => sqnrValue(totals[i].weights), i => gaussians[i]],
		[`pruned to ${only.sparsity} and quantized`, '--series-1', i => sqnrValue(totals[prunedOf(i)].weights), () => null],
	], [`pruned to ${only.sparsity} only`, sqnrValue(only.weights)]);
}
