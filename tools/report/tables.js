/* SPDX-License-Identifier: MIT */
/* The summary of a report, and its table of tensors. */
'use strict';

/* Summary. */
function writeHeading() {
	const name = data.source.split('/').filter(Boolean).pop() || data.source;
	const dtypes = [...new Set(tensors.map(t => t.dtype))].join(', ');
	const weights = totals.length > 0 ? totals[0].elements : 0;
	const ways = totals.length === 1 ? 'one way' : `${totals.length} ways`, left = data.not_measured.length;
	const done = data.against === null ? `quantized in ${ways} and compared with their float32 values`
		: `compared with those that ${data.against} holds`;

	document.title = `Quantization report: ${name}`;
	byId('source').textContent = name;
	byId('done').textContent = tensors.length === 0 ? 'Nothing was measured; --include names tensors to measure.'
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
			: `${a.file}, at most ${plural(a.tokens, 'token')} a layer; it fits ${a.covered_tensors} of ` +
				plural(tensors.length, 'tensor'),
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

/* Indices of the tensors by rising SQNR in a variant, those of one value in the order of the file, NaN last. */
function worstFirst(variant) {
	const values = tensors.map(t => sqnrValue(t.variants[variant].weights));
	const rank = x => Number.isNaN(x) ? [1, 0] : [0, x];
	const order = (a, b) => a[0] - b[0] || (a[1] === b[1] ? 0 : a[1] < b[1] ? -1 : 1);

	return tensors.map((t, i) => i).sort((a, b) => order(rank(values[a]), rank(values[b])) || a - b);
}

function writeCards() {
	const v = totals[chosen.variant], worst = tensors[worstFirst(chosen.variant)[0]], y = v.products[0];

	byId('cards').replaceChildren(
		card('Size', fixed(v.bits_per_weight, 2), 'bits per weight',
			`${bytesText(v.bytes)}, ${percent(v.bytes / data.total.source_bytes, 1)} of the source`),
		card('Error of the weights', sqnrText(sqnrValue(v.weights)), 'dB SQNR',
			`relative error ${percent(v.weights.relative_error)}`),
		card('Worst layer', sqnrText(sqnrValue(worst.variants[chosen.variant].weights)), 'dB SQNR', worst.name),
		y === undefined ? '' : card(`Products, ${data.activations.format} activations`,
			sqnrText(sqnrValue(y.both_quantized)), 'dB SQNR',
			`${withUnit(sqnrValue(y.weights_quantized))} with exact activations (${y.activations})`));
}

/* A bar as long as x is of `most`. */
function bar(x, most) {
	const element = make('span', { className: 'bar' });

	element.style.width = `${Number.isFinite(x) && most > 0 ? Math.max(0, Math.min(1, x / most)) * 100 : 0}%`;
	return element;
}

const largest = values => Math.max(0, ...values.filter(Number.isFinite));

function headRow(cells) {
	return make('thead', {}, make('tr', {}, ...cells.map(cell => make('th', { scope: 'col' }, cell))));
}

function writeSummary() {
	const kinds = totals[0].products.map(p => p.activations);
	const most = largest(totals.map(v => sqnrValue(v.weights)));
	const heading = ['Format, rule', 'Bits per\nweight', 'SQNR,\ndB', 'Pareto', 'Size', 'Relative\nerror', 'Saturated',
		'Flushed', 'NaN,\nInf', ...kinds.flatMap(k => [`y ${k}\nW, dB`, `y ${k}\nW+x, dB`])];
	const name = i => make('th', { scope: 'row' }, make('button', { type: 'button',
		onclick: () => update({ variant: i }), 'aria-pressed': String(i === chosen.variant) }, labels[i]));
	const cells = v => [
		[fixed(v.bits_per_weight, 3)],
		[sqnrText(sqnrValue(v.weights)), bar(sqnrValue(v.weights), most)],
		v.pareto ? [make('span', { className: 'front' }, 'front')] : [],
		[bytesText(v.bytes)],
		[percent(v.weights.relative_error)],
		[percent(v.saturated_share)],
		[percent(v.flushed_share)],
		[grouped(v.weights.excluded)],
		...v.products.flatMap(p => [p.weights_quantized, p.both_quantized]).map(y => [sqnrText(sqnrValue(y))]),
	];
	const rows = totals.map((v, i) => make('tr', { className: i === chosen.variant ? 'chosen' : '' }, name(i),
		...cells(v).map(children => make('td', {}, ...children))));

	byId('summary').replaceChildren(headRow(heading), make('tbody', {}, ...rows));
}

function writeWorst() {
	const value = i => sqnrValue(tensors[i].variants[chosen.variant].weights);
	const order = worstFirst(chosen.variant).slice(0, WORST_MAX), most = largest(tensors.map((t, i) => value(i)));

	byId('worst-heading').textContent = `Worst layers in ${labels[chosen.variant]}`;
	byId('worst').replaceChildren(...order.map(i => make('li', {},
		make('span', { className: 'name' }, ...breakable(tensors[i].name)), bar(value(i), most),
		make('span', { className: 'number' }, withUnit(value(i))))));
}

/* The table of tensors: its columns have a key for the address, a title, and for each tensor a value to sort by and a
   text. */
function sqnrColumn(key, title, statsOf) {
	return { key, title, number: true, value: t => sqnrValue(statsOf(t)), text: x => sqnrText(x) };
}

function measureColumns(i) {
	const of = f => t => f(t.variants[i]);
	const number = (key, title, value, text) => ({ key, title, number: true, value: of(value), text });

	return [
		sqnrColumn('sqnr', 'SQNR, dB', t => t.variants[i].weights),
		number('relative', 'Relative error', v => v.weights.relative_error, x => percent(x)),
		number('absolute', 'Largest error', v => v.weights.max_absolute_error, precise),
		number('ratio', 'Largest relative error', v => v.weights.max_relative_error, precise),
		number('cosine', 'Cosine', v => v.weights.cosine, x => fixed(x, 6)),
		number('saturated', 'Saturated', v => v.saturated_share, x => percent(x)),
		number('flushed', 'Flushed', v => v.flushed_share, x => percent(x)),
		number('bits', 'Bits per weight', v => v.bits_per_weight, x => fixed(x, 3)),
		...totals[i].products.flatMap((p, k) => [
			sqnrColumn(`w${k}`, `y ${p.activations}\nW, dB`, t => t.variants[i].products[k].weights_quantized),
			sqnrColumn(`b${k}`, `y ${p.activations}\nW+x, dB`, t => t.variants[i].products[k].both_quantized)])];
}

function sqnrColumns() {
	return [...chosen.shown].sort((a, b) => a - b).map(i => sqnrColumn(`v${i}`,
		`${[totals[i].format, totals[i].sparsity].filter(Boolean).join(' ')}\n${choiceOf(totals[i])}, dB`,
		t => t.variants[i].weights));
}

function tableColumns() {
	return [
		{ key: 'name', title: 'Tensor', value: t => t.name, text: x => x },
		...(chosen.columns === 'all' ? sqnrColumns() : measureColumns(Number(chosen.columns))),
		{ key: 'weights', title: 'Weights', number: true, value: t => t.variants[0].elements, text: grouped },
		{ key: 'shape', title: 'Shape', value: t => t.shape.join(' × '), text: x => x },
		{ key: 'dtype', title: 'Type', value: t => t.dtype, text: x => x },
	];
}

/* Tensors that are looked for; "under" is about any SQNR of weights that the table shows. */
function selectedTensors() {
	const filter = chosen.filter.toLowerCase(), under = chosen.under === '' ? Infinity : Number(chosen.under);
	const variants = chosen.columns === 'all' ? [...chosen.shown] : [Number(chosen.columns)];

	return tensors.filter(t => t.name.toLowerCase().includes(filter) && (under === Infinity ||
		variants.some(i => !(sqnrValue(t.variants[i].weights) >= under))));
}

function compareValues(a, b) {
	if (typeof a === 'string')
		return a.localeCompare(b, 'en', { numeric: true });
	return a - b;
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

function writeTable() {
	const columns = tableColumns(), sort = columns.find(column => column.key === chosen.sort);
	const found = selectedTensors(), rows = sort ? sortRows(found, sort) : found;
	const visible = chosen.all ? rows : rows.slice(0, ROWS_MAX);
	const cell = (t, column, i) => i === 0 ? make('th', { scope: 'row' }, ...breakable(t.name))
		: make('td', { className: column.number ? '' : 'text' }, column.text(column.value(t)));

	byId('table').replaceChildren(make('thead', {}, make('tr', {}, ...columns.map(sortButton))),
		make('tbody', {}, ...visible.map(t => make('tr', {}, ...columns.map((column, i) => cell(t, column, i))))));
	byId('count').textContent = `${grouped(rows.length)} of ${plural(tensors.length, 'tensor')}` +
		(visible.length < rows.length ? `, the first ${visible.length} shown` : '');
	byId('more').hidden = visible.length === rows.length;
}

function writeNotMeasured() {
	const part = byId('left-out'), list = data.not_measured;

	part.hidden = list.length === 0;
	part.querySelector('summary').textContent = `${plural(list.length, 'tensor')} left out`;
	part.querySelector('details').open = tensors.length === 0;
	part.querySelector('table').append(headRow(['Tensor', 'Why']), make('tbody', {}, ...list.map(t => make('tr', {},
		make('th', { scope: 'row' }, ...breakable(t.name)), make('td', { className: 'text' }, t.reason)))));
}
