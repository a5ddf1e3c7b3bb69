/* SPDX-License-Identifier: MIT */
/* The summary of a report, and its table of tensors. */
'use strict';

/* Summary. */
function writeHeading() {
	const name = data.source.split('/').filter(Boolean).pop() || data.source;
	const dtypes = [...new Set(tensors.map(t => t.dtype))].join(', ');
	const weights = totals.length > 0 ? totals[0].elements : 0;
	const ways = totals.length === 1 ? 'one way' : `${totals.length} ways`, left = leftOut;
	const done = data.against === null ? `quantized in ${ways} and compared with their float32 values`
		: `compared with those that ${data.against} holds`;

	document.title = `Quantization report: ${name}`;
	byId('source').textContent = name;
	byId('done').textContent = tensors.length === 0 ? 'Nothing was measured.'
		: `${plural(tensors.length, 'tensor')} with ${plural(weights, 'weight')} (${dtypes}, ` +
			`${bytesText(data.total.source_bytes)}) were ${done}; ${plural(left, 'tensor')} ` +
			`${left === 1 ? 'was' : 'were'} left out.`;
	for (const part of document.querySelectorAll('.measured'))
		part.hidden = tensors.length === 0;
	byId('version').textContent = `Written by mxfp ${data.mxfp_version}.`;
}

function writeSettings() {
	const a = data.activations, { weights_quantized: w, both_quantized: both, reference } = data.sums;
	const rows = {
		Source: data.source,
		Quantized: data.against,
		Rounding: data.against === null ? `${data.round}, seed ${data.seed}` : null,
		Activations: a.file === null ? `${plural(a.tokens, 'token')} a layer, seed ${a.seed}; normal: N(0,1); ` +
			`outliers: every ${a.outlier_spacing}th channel times ${a.outlier_factor}`
			: `${a.file}, ${a.tokens < a.file_rows ? `the first ${a.tokens} of up to ${a.file_rows} rows` :
				`all rows, at most ${a.tokens}`} a layer; it fits ${a.covered_tensors} of ` +
				plural(tensors.length, 'tensor'),
		Products: a.product_rows === 0 ? 'of all rows of W' : `of at most ${plural(a.product_rows, 'row')} of W, evenly spaced`,
		'x quantized': `to ${a.format} (${a.rule})`,
		Sums: `W: ${w.rule} in passes of ${w.pass}; W+x: ${both.rule} in passes of ${both.pass}; errors against ` +
			reference,
	};

	for (const [term, text] of Object.entries(rows).filter(([unused, value]) => value !== null))
		byId('settings').append(make('dt', {}, term), make('dd', {}, text));
}

function card(title, big, small, text) {
	return make('div', { className: 'card' }, make('h3', {}, title),
		make('p', { className: 'big' }, big, ' ', make('small', {}, small)), make('p', {}, ...breakable(text)));
}

/* What quantized weights and activations together would make of normal numbers: their noises add. */
function together(a, b) {
	return a === null || b === null ? null : -10 * Math.log10(10 ** (-a / 10) + 10 ** (-b / 10));
}

/* The yardsticks of products with weights of a variant, and with both; null for activations that are not normal. */
function productGaussians(i, activations) {
	const weights = activations === 'normal' ? gaussians[i] : null;

	return [weights, together(weights, data.activations.gaussian_sqnr_db)];
}

const beside = gaussian => gaussian === null ? '' : `a Gaussian ${fixed(gaussian, 2)} dB`;

/* "W4A8" */
function wayOf(v) {
	const bits = format => (/[48]$/.exec(format) || /(?<=mxfp|int)\d/.exec(format) || [''])[0];
	const of = format => format.startsWith('nvfp4') ? '4' : bits(format.replace(/-.*/, ''));

	return `W${of(v.format)}A${of(data.activations.format)}`;
}

function writeCards() {
	const i = chosen.variant, v = totals[i], worst = tensors[worstFirst(i)[0]], y = v.products[0];
	const bits = bytes => fixed(8 * bytes / data.total.whole_elements, 2), total = data.total;

	byId('cards').replaceChildren(
		card('Size of the whole model', bytesText(v.whole_bytes), `${bits(v.whole_bytes)} bits/weight`,
			`from ${bytesText(total.whole_source_bytes)}, ${bits(total.whole_source_bytes)} bits; layers ` +
			`${fixed(v.bits_per_weight, 2)} bits, ${bytesText(v.bytes)}`),
		card('Error of the weights', sqnrText(sqnrValue(v.weights)), 'dB SQNR',
			[beside(gaussians[i]), `relative error ${percent(v.weights.relative_error)}`].filter(Boolean).join('; ')),
		card('Worst layer', sqnrText(worst.sqnr[i]), 'dB SQNR', `${under(underMedian(worst, i))}: ${worst.name}`),
		y === undefined ? '' : card(mixed ? 'Products, activations quantized' : `Products in ${wayOf(v)}`,
			sqnrText(sqnrValue(y.both_quantized)), 'dB SQNR',
			[beside(productGaussians(i, y.activations)[1]),
				`${withUnit(sqnrValue(y.weights_quantized))} with exact activations`].filter(Boolean).join('; ')));
}

/* A bar as long as x is of `most`. */
function bar(x, most) {
	const element = make('span', { className: 'bar' });

	element.style.width = `${Number.isFinite(x) && most > 0 ? Math.max(0, Math.min(1, x / most)) * 100 : 0}%`;
	return element;
}

const largest = values => values.reduce((most, x) => Number.isFinite(x) && x > most ? x : most, 0);

function headRow(cells) {
	return make('thead', {}, make('tr', {}, ...cells.map(cell => make('th', { scope: 'col' }, cell))));
}

/* A number of dB over its yardstick. */
const besideSmall = (value, gaussian) => [sqnrText(value), gaussian === null ? null
	: make('small', { title: 'what the format makes of normal numbers' }, fixed(gaussian, 2))];

function writeSummary() {
	const kinds = totals[0].products.map(p => p.activations);
	const heading = ['Format, rule', 'Bits per\nweight', 'SQNR, dB\nGaussian', 'Pareto', 'Whole\nmodel', 'Relative\nerror',
		 'Saturated', 'Flushed', 'NaN,\nInf', ...kinds.flatMap(k => [`y ${k}\nW, dB`, `y ${k}\nW+x, dB`])];
	const name = i => make('th', { scope: 'row' }, make('button', { type: 'button',
		onclick: () => update({ variant: i }), 'aria-pressed': String(i === chosen.variant) }, labels[i]));
	const products = i => totals[i].products.flatMap(p => {
		const [weights, both] = productGaussians(i, p.activations);

		return [besideSmall(sqnrValue(p.weights_quantized), weights), besideSmall(sqnrValue(p.both_quantized), both)];
	});
	const cells = (v, i) => [
		[fixed(v.bits_per_weight, 3)],
		besideSmall(sqnrValue(v.weights), gaussians[i]),
		v.pareto ? [make('span', { className: 'front' }, 'front')] : [],
		[bytesText(v.whole_bytes)],
		[percent(v.weights.relative_error)],
		[percent(v.saturated_share)],
		[percent(v.flushed_share)],
		[grouped(v.weights.excluded)],
		...products(i),
	];
	const rows = totals.map((v, i) => make('tr', { className: i === chosen.variant ? 'chosen' : '' }, name(i),
		...cells(v, i).map(children => make('td', {}, ...children))));

	byId('summary').replaceChildren(headRow(heading), make('tbody', {}, ...rows));
}

function writeWorst() {
	const i = chosen.variant, order = worstFirst(i).slice(0, WORST_MAX);
	const most = largest(order.map(k => underMedian(tensors[k], i)));
	const row = t => make('li', {}, make('span', { className: 'name' }, ...breakable(t.name)),
		bar(underMedian(t, i), Math.max(most, 1)), make('span', { className: 'number' }, withUnit(t.sqnr[i]), ', ',
			under(underMedian(t, i))));

	byId('worst-heading').textContent = `Worst layers in ${labels[i]}`;
	byId('worst-read').textContent = `The median is ${withUnit(medianOf(i))}` +
		`${gaussians[i] === null ? '' : `, what the format makes of normal numbers ${fixed(gaussians[i], 2)} dB`}.`;
	byId('worst').replaceChildren(...order.map(k => row(tensors[k])));
}

/* The table of tensors: its columns have a key for the address, a title, for each tensor a value to sort by and a text,
   and the variant whose SQNR of weights they show, if they do. */
function sqnrColumn(key, title, value, variant) {
	return { key, title, number: true, value, text: x => sqnrText(x), variant };
}

function measureColumns(i) {
	/* Of many tensors the page has these of the worst only. */
	const of = f => t => t.variants === undefined ? null : f(t.variants[i]);
	const ofProducts = f => t => t.variants === undefined ? NaN : sqnrValue(f(t.variants[i].products));
	const number = (key, title, value, text) => ({ key, title, number: true, value: of(value), text });

	return [
		sqnrColumn('sqnr', 'SQNR, dB', t => t.sqnr[i], i),
		number('relative', 'Relative error', v => v.weights.relative_error, x => percent(x)),
		number('absolute', 'Largest error', v => v.weights.max_absolute_error, precise),
		number('ratio', 'Largest relative error', v => v.weights.max_relative_error, precise),
		number('cosine', 'Cosine', v => v.weights.cosine, x => fixed(x, 6)),
		number('saturated', 'Saturated', v => v.saturated_share, x => percent(x)),
		number('flushed', 'Flushed', v => v.flushed_share, x => percent(x)),
		number('bits', 'Bits per weight', v => v.bits_per_weight, x => fixed(x, 3)),
		...totals[i].products.flatMap((p, k) => [
			sqnrColumn(`w${k}`, `y ${p.activations}\nW, dB`, ofProducts(y => y[k].weights_quantized)),
			sqnrColumn(`b${k}`, `y ${p.activations}\nW+x, dB`, ofProducts(y => y[k].both_quantized))])];
}

function sqnrColumns() {
	return [...chosen.shown].sort((a, b) => a - b).map(i => sqnrColumn(`v${i}`,
		`${[totals[i].format, totals[i].sparsity].filter(Boolean).join(' ')}\n${choiceOf(totals[i])}, dB`,
		t => t.sqnr[i], i));
}

function tableColumns() {
	return [
		{ key: 'name', title: 'Tensor', value: t => t.name, text: x => x },
		...(chosen.columns === 'all' ? sqnrColumns() : measureColumns(Number(chosen.columns))),
		{ key: 'weights', title: 'Weights', number: true, value: t => t.elements, text: grouped },
		{ key: 'shape', title: 'Shape', value: t => t.shape.join(' × '), text: x => x },
		{ key: 'dtype', title: 'Type', value: t => t.dtype, text: x => x },
	];
}

/* Tensors that are looked for; "under" is about any SQNR of weights that the table shows. */
function selectedTensors() {
	const filter = chosen.filter.toLowerCase(), under = chosen.under === '' ? Infinity : Number(chosen.under);
	const variants = chosen.columns === 'all' ? [...chosen.shown] : [Number(chosen.columns)];

	return tensors.filter(t => t.name.toLowerCase().includes(filter) && (under === Infinity ||
		variants.some(i => !(t.sqnr[i] >= under))));
}

const collator = new Intl.Collator('en', { numeric: true });

function compareValues(a, b) {
	return typeof a === 'string' ? collator.compare(a, b) : a - b;
}

/* What is no number goes last in either direction. */
function sortRows(rows, column) {
	const value = new Map(rows.map(t => [t, column.value(t)]));
	const missing = t => value.get(t) === null || Number.isNaN(value.get(t));
	const sign = chosen.descending ? -1 : 1;

	return rows.sort((a, b) => missing(a) - missing(b) || (missing(a) || value.get(a) === value.get(b) ? 0
		: sign * compareValues(value.get(a), value.get(b))));
}

function sortButton(column) {
	const sorted = chosen.sort === column.key;
	const state = sorted ? (chosen.descending ? 'descending' : 'ascending') : 'none';
	const sort = () => {
		update({ sort: column.key, descending: sorted && !chosen.descending });
		byId('table').querySelector(`[data-key="${column.key}"] button`).focus();
	};

	return make('th', { scope: 'col', className: column.number ? '' : 'text', 'aria-sort': state,
		'data-key': column.key }, make('button', { type: 'button', onclick: sort }, column.title));
}

/* Without another order the worst come first, of the variant that is looked at. */
function worstOf(found) {
	const wanted = new Set(found);

	return worstFirst(chosen.variant).map(i => tensors[i]).filter(t => wanted.has(t));
}

/* What numbers of dB are to be seen against. */
function referenceRow(title, columns, text) {
	return make('tr', { className: 'reference' }, make('th', { scope: 'row' }, title), ...columns.slice(1).map(column =>
		make('td', {}, column.variant === undefined ? '' : text(column.variant))));
}

function writeTable() {
	const columns = tableColumns(), sort = columns.find(column => column.key === chosen.sort);
	const found = selectedTensors(), rows = sort ? sortRows(found, sort) : worstOf(found);
	const visible = rows.slice(0, chosen.all ? ROWS_ALL_MAX : ROWS_MAX), partly = chosen.columns !== 'all' &&
		data.every !== undefined;
	const plain = (t, column) => make('td', { className: column.number ? '' : 'text' }, column.text(column.value(t)));
	const cell = (t, column, i) => i === 0 ? make('th', { scope: 'row', title: t.name }, t.name)
		: column.variant === undefined ? plain(t, column)
			: heat(plain(t, column), underMedian(t, column.variant));

	byId('table').replaceChildren(make('thead', {}, make('tr', {}, ...columns.map(sortButton)),
		referenceRow('A Gaussian', columns, i => data.against === null ? fixed(gaussians[i], 2) : ''),
		referenceRow('Median layer', columns, i => sqnrText(medianOf(i)))),
		make('tbody', {}, ...visible.map(t => make('tr', {}, ...columns.map((column, i) => cell(t, column, i))))));
	byId('count').textContent = `${grouped(rows.length)} of ${plural(tensors.length, 'tensor')}` +
		(visible.length < rows.length ? `, the first ${visible.length} shown` : '') +
		(partly ? `; of ${plural(data.tensors.length, 'tensor')}, the worst, this page has every measure` : '');
	byId('more').hidden = visible.length === Math.min(rows.length, ROWS_ALL_MAX);
}

function writeNotMeasured() {
	const part = byId('left-out'), list = data.not_measured, more = leftOut - list.length;

	part.hidden = list.length === 0;
	part.querySelector('summary').textContent = `${plural(leftOut, 'tensor')} left out` +
		(more > 0 ? `, the first ${grouped(list.length)} shown` : '');
	part.querySelector('details').open = tensors.length === 0;
	part.querySelector('table').append(headRow(['Tensor', 'Why']), make('tbody', {}, ...list.map(t => make('tr', {},
		make('th', { scope: 'row' }, ...breakable(t.name)), make('td', { className: 'text' }, t.reason)))));
}
