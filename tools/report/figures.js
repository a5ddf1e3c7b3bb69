/* SPDX-License-Identifier: MIT */
/* The figures around the charts: each has a sentence that says how to read it, a name that sums it up for screen
   readers, and its numbers as a table. One row of buttons shows and hides formats in all. */
'use strict';

/* What a chart says in one sentence to those who do not see it. */
function spoken(title, drawing) {
	const range = ([name, values]) => {
		const known = values.filter(x => x !== null);

		return known.length === 0 ? `${name}: none` : `${name}: ${Math.min(...known).toFixed(1)} to ` +
			`${Math.max(...known).toFixed(1)} ${drawing.unit}`;
	};

	return `${title}. ${drawing.columns.map(range).join('; ')}`;
}

function fillTable(table, drawing) {
	const heading = drawing.columns.map(([name]) => drawing.unit === '' ? name : `${name}, ${drawing.unit}`);
	const row = (name, k) => make('tr', {}, make('th', { scope: 'row' }, name),
		...drawing.columns.map(([unused, values]) => make('td', {}, fixed(values[k], 2))));

	table.replaceChildren(headRow([drawing.column, ...heading]), make('tbody', {}, ...drawing.rows.map(row)));
}

/* A small picture of how a variant looks: its line and its points, or one of them. */
function swatch(i, points = true) {
	const canvas = make('canvas', { width: 56, height: 28, 'aria-hidden': 'true' }), context = canvas.getContext('2d');
	const style = look(i);

	canvas.style.cssText = 'width: 28px; height: 14px';
	context.scale(2, 2);
	context.strokeStyle = style.borderColor;
	context.lineWidth = 2;
	context.setLineDash(style.borderDash);
	context.beginPath();
	context.moveTo(0, 7);
	context.lineTo(28, 7);
	if (points !== 'alone')
		context.stroke();
	context.setLineDash([]);
	context.fillStyle = style.pointBackgroundColor;
	if (points)
		Chart.helpers.drawPoint(context, { pointStyle: style.pointStyle, radius: 4, borderWidth: 2 }, 14, 7);
	return canvas;
}

function toggle(i) {
	const shown = new Set(chosen.shown);

	if (!shown.delete(i))
		shown.add(i);
	update({ shown });
}

/* The key of all charts, of buttons. */
function writeKey() {
	const focused = document.activeElement.dataset.variant;

	const button = (label, i) => make('button', { type: 'button', 'data-variant': i,
		'aria-pressed': String(chosen.shown.has(i)), onclick: () => toggle(i) }, swatch(i), label);

	byId('key').replaceChildren(...labels.map((label, i) => make('li', {}, button(label, i))));
	if (focused !== undefined)
		byId('key').querySelector(`[data-variant="${focused}"]`).focus();
}

/* The key of a chart: before a text stands a variant's look, the color of bars, or a kind of line. */
function writeColors(list, key) {
	list.replaceChildren(...key.map(([text, sign]) => {
		if (typeof sign === 'object')
			return make('li', {}, swatch(sign.variant, sign.points), text);
		const color = sign.startsWith('--');
		const sample = make('span', { 'aria-hidden': 'true', className: color ? 'square' : sign });

		if (color)
			sample.style.background = `var(${sign})`;
		return make('li', {}, sample, text);
	}));
}

/* Kinds of activations. */
const ACTIVATIONS = {
	normal: 'normal activations',
	outliers: 'activations with outliers',
	file: 'activations of the file',
};
const SCALES_READ = {
	e8m0: 'Steps over many scales are a model with blocks of many magnitudes, which one scale for all would not fit.',
	ue4m3: 'Scales are relative to that of the tensor: blocks at the far left have subnormal ones, and lose precision.',
};

const figures = [
	{
		title: 'SQNR by layer and format',
		wide: true,
		draw: layersChart,
		read: `${byName ? 'Further right' : 'Higher'} is better; a layer that falls behind the others in a format is ` +
			'hurt by it, and is one to keep in a larger format. Dotted lines are where normal numbers would be.',
	},
	...(totals.length > 1 ? [{
		title: 'Bits against error',
		draw: paretoChart,
		read: 'Left is smaller and up is better: for what lies below the dashed line, the Pareto front, there is a ' +
			'better choice with no more bits. Short strokes are where normal numbers are.',
	}] : []),
	{
		title: 'Relative errors of the weights',
		draw: errorsChart,
		read: 'How much of itself a weight is off: steps further left are more exact, and at 100 % are weights that ' +
			'became zero.',
	},
	...data.total.activations_quantized.map((entry, k) => ({
		title: `Error of products, ${ACTIVATIONS[entry.activations]}`,
		draw: () => productsChart(k),
		read: 'Longer is better: the gap between two bars is what quantized activations cost, and the dashed line is ' +
			'about as far as they let any format come.',
	})),
	...Object.keys(SCALES).filter(format => totals.some(v => hasScale(v, format))).map(format => ({
		title: `Block scales, ${format}`,
		draw: () => scalesChart(format),
		read: SCALES_READ[format],
	})),
	...(totals.some((v, i) => prunedOf(i) >= 0) ? [{
		title: 'Cost of sparsity',
		draw: sparsityChart,
		read: 'Longer is better: a bar of pruned weights that ends at the dashed line has nearly all its error from ' +
			'pruning, and a larger format does not help it.',
	}] : []),
];

function drawFigure(figure) {
	const drawing = figure.draw();

	if (figure.chart)
		figure.chart.destroy();
	figure.chart = null;
	figure.element.hidden = drawing === null;
	if (drawing === null)
		return;
	figure.canvas.parentNode.style.height = `${drawing.height}px`;
	figure.canvas.setAttribute('aria-label', spoken(figure.title, drawing));
	figure.chart = new Chart(figure.canvas, drawing.config);
	writeColors(figure.colors, drawing.key || []);
	figure.fill = () => fillTable(figure.table, drawing);
	if (figure.details.open)
		figure.fill();
}

function makeFigure(figure) {
	figure.canvas = make('canvas', { role: 'img' });
	figure.colors = make('ul', { className: 'key' });
	figure.table = make('table');
	const numbers = { className: 'scroll', tabIndex: 0, role: 'region', 'aria-label': `Numbers: ${figure.title}` };

	figure.details = make('details', { ontoggle: () => figure.fill() }, make('summary', {}, 'Numbers of this chart'),
		make('div', numbers, figure.table));
	figure.element = make('figure', { className: figure.wide ? 'wide' : '' }, make('h3', {}, figure.title),
		make('figcaption', {}, figure.read), make('div', { className: 'canvas' }, figure.canvas), figure.colors,
		figure.details);
	byId('charts').append(figure.element);
}

function drawAll(changes) {
	if (!('shown' in changes) && !('theme' in changes))
		return;
	writeKey();
	figures.forEach(drawFigure);
}

function startFigures() {
	Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
	Chart.defaults.font.size = 12;
	figures.forEach(makeFigure);
	listeners.push(drawAll);
	drawAll({ shown: true });
	let wasNarrow = narrow();
	window.addEventListener('resize', () => {
		if (narrow() !== wasNarrow)
			drawAll({ shown: true });
		wasNarrow = narrow();
	});
}
