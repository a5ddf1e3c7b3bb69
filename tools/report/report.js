/* SPDX-License-Identifier: MIT */
/* The page of a report: its data, numbers for people, and what is chosen, which the address keeps so that a view can be
   linked. Names come from files that are not trusted: text reaches the page as text nodes only. */
'use strict';

const data = JSON.parse(document.getElementById('data').textContent);
const totals = data.total.variants;
const WORST_MAX = 10, ROWS_MAX = 300, ROWS_ALL_MAX = 3000, SERIES_COLORS = 8, SHOWN_MAX = 8;

const byId = id => document.getElementById(id);

/* An element with properties and children; strings become text. */
function make(tag, properties, ...children) {
	const element = document.createElement(tag);

	for (const [name, value] of Object.entries(properties || {}))
		if (name in element)
			element[name] = value;
		else
			element.setAttribute(name, value);
	element.append(...children.filter(child => child !== null));
	return element;
}

/* A name in pieces between which a line may break. */
const breakable = name => name.split(/(?<=[._/])(?!\d)/).flatMap(part => [part, make('wbr')]);

function choiceOf(v) {
	if (v.format === 'f32')
		return '-';
	return v.rule || v.recipe || 'as written';
}

/* "mxfp4 4:16 mse" */
function labelOf(v) {
	return [v.format, v.sparsity, v.format === 'f32' ? null : choiceOf(v)].filter(Boolean).join(' ');
}

/* A page holds all measures of every tensor if they are few. Of many it holds those of the worst, and of each its name
   (how many characters it shares with the one before, and the rest), its shape and type (where another begins) and the
   SQNR of its weights in every variant, in hundredths of dB, as words of two bytes, the low one first. */
function readTensors() {
	const full = data.tensors.map(t => ({ ...t, sqnr: t.variants.map(v => sqnrValue(v.weights)),
		gaussian: t.variants.map(v => v.gaussian_sqnr_db), elements: t.variants[0].elements }));

	if (data.every === undefined)
		return full;
	const { variants, names, kinds, sqnr } = data.every, known = new Map(full.map(t => [t.name, t]));
	const words = new DataView(Uint8Array.from(atob(sqnr), c => c.charCodeAt(0)).buffer), special =
		new Map([[-32768, NaN], [-32767, -Infinity], [32767, Infinity]]);
	const list = [];

	for (let i = 0, kind = -1, name = ''; 2 * i < names.length; i++) {
		if (kind + 1 < kinds.length && kinds[kind + 1].from === i)
			kind++;
		name = name.slice(0, names[2 * i]) + names[2 * i + 1];
		const { shape, dtype, gaussian_sqnr_db: own } = kinds[kind], dB = [];

		for (let v = 0; v < variants; v++) {
			const word = words.getInt16(2 * (i * variants + v), true);

			dB.push(special.has(word) ? special.get(word) : word / 100);
		}
		list.push(known.get(name) || { name, shape, dtype, elements: shape.reduce((a, b) => a * b, 1), sqnr: dB,
			gaussian: own === undefined ? gaussians : [own] });
	}
	return list;
}

/* The yardsticks: SQNR of normal numbers in each variant, or null. */
const gaussians = totals.map(v => v.gaussian_sqnr_db);
const tensors = readTensors();
/* Of tensors that were not measured, a page may name the first ones only. */
const leftOut = data.left_out === undefined ? data.not_measured.length : data.left_out;
const labels = totals.map(labelOf);
const formats = [...new Set(totals.map(v => v.format))];

/* Numbers for people. JSON has null for what is no number: with a relative error of 0 SQNR is infinite. */
const grouped = n => n.toString().replace(/\B(?=(\d{3})+$)/g, '\u202f');
const fixed = (x, digits) => x === null ? '–' : x.toFixed(digits);
const percent = (x, digits = 2) => x === null ? '–' : (100 * x).toFixed(digits) + ' %';
const precise = x => x === null ? '–' : Number(x.toPrecision(4)).toString();
const plural = (n, noun) => `${grouped(n)} ${noun}${n === 1 ? '' : 's'}`;

function sqnrValue(stats) {
	if (stats.sqnr_db !== null)
		return stats.sqnr_db;
	if (stats.measured === 0)
		return NaN;
	return stats.relative_error === 0 ? Infinity : -Infinity;
}

function sqnrText(x, digits = 2) {
	if (Number.isNaN(x))
		return '–';
	if (!Number.isFinite(x))
		return x > 0 ? 'exact' : 'no signal';
	return x.toFixed(digits);
}

/* A quantized model of several formats, whose layers have a yardstick each. */
const mixed = totals.length > 0 && totals[0].format === 'mixed';

/* Indices of the tensors by rising SQNR in a variant, or in a mixture by what they are over their yardstick; those of one
   value in the order of the file, NaN last. */
const orders = new Map();

function worstFirst(variant) {
	if (orders.has(variant))
		return orders.get(variant);
	const values = Float64Array.from(tensors, t => t.sqnr[variant] - (mixed ? t.gaussian[variant] : 0));
	const missing = Array.from(values, Number.isNaN);
	const order = (a, b) => missing[a] - missing[b] || (values[a] < values[b] ? -1 : values[a] > values[b] ? 1 : a - b);

	orders.set(variant, tensors.map((t, i) => i).sort(order));
	return orders.get(variant);
}

/* SQNR of the layer in the middle of a variant; and how far a layer is under it, or in a mixture under its yardstick, 0 if
   it is not. */
const medianOf = i => tensors[worstFirst(i)[(tensors.length - 1) >> 1]].sqnr[i];

function underMedian(t, i) {
	const dB = (mixed ? t.gaussian[i] : medianOf(i)) - t.sqnr[i];

	return t.sqnr[i] === Infinity ? 0 : dB > 0 ? dB : Number.isNaN(dB) ? NaN : 0;
}

const level = mixed ? 'its yardstick' : 'the median';
const under = dB => dB < 0.05 ? `not under ${level}` : `${sqnrText(dB, 1)} dB under ${level}`;

/* A color that says how far something is under the median: none to a quarter of a dB, the most from 6 dB on. */
function heat(element, dB) {
	const strength = dB === Infinity ? 1 : dB > 0.25 ? Math.min(1, 0.12 + dB / 6.5) : 0;

	if (strength > 0)
		element.style.backgroundColor = `rgb(var(--heat) / ${(0.55 * strength).toFixed(3)})`;
	return element;
}

const withUnit = x => Number.isFinite(x) ? sqnrText(x) + ' dB' : sqnrText(x);

function bytesText(n) {
	const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
	let unit = 0;

	while (n >= 999.5 && unit < units.length - 1) {
		n /= 1024;
		unit++;
	}
	return `${unit === 0 ? n : n.toPrecision(3)} ${units[unit]}`;
}

/* What is chosen. At first the charts show every dense variant, or of each format one if these are many. */
function shownAtFirst() {
	let shown = totals.map((v, i) => i).filter(i => totals[i].sparsity === null);

	if (shown.length === 0)
		shown = totals.map((v, i) => i);
	if (shown.length > SHOWN_MAX)
		shown = shown.filter(i => shown.find(j => totals[j].format === totals[i].format) === i);
	return new Set(shown);
}

const chosen = { variant: data.verdict.variant || 0, columns: 'all', filter: '', under: '', sort: '', descending: false,
	all: false, shown: shownAtFirst() };
const listeners = [];

/* The address holds what differs from the start. */
function writeAddress() {
	const address = new URLSearchParams();
	const initial = [...shownAtFirst()].join('.'), shown = [...chosen.shown].sort((a, b) => a - b).join('.');

	const values = {
		variant: chosen.variant === (data.verdict.variant || 0) ? '' : chosen.variant,
		columns: chosen.columns === 'all' ? '' : chosen.columns,
		filter: chosen.filter,
		under: chosen.under,
		sort: chosen.sort,
		order: chosen.descending ? 'down' : '',
		shown: shown === initial ? '' : shown,
		theme: document.documentElement.dataset.theme || '',
	};

	for (const [key, value] of Object.entries(values))
		if (value !== '')
			address.set(key, value);
	history.replaceState(null, '', String(address) === '' ? location.pathname + location.search : '#' + address);
}

function variantNumber(text) {
	const number = Number(text);

	return text !== null && text !== '' && totals[number] !== undefined ? number : null;
}

/* An address without "=" names a place on the page. */
function readAddress() {
	const address = new URLSearchParams(location.hash.slice(1));

	if (!location.hash.includes('='))
		return;
	chosen.variant = variantNumber(address.get('variant')) ?? (data.verdict.variant || 0);
	chosen.columns = variantNumber(address.get('columns')) === null ? 'all' : address.get('columns');
	chosen.filter = address.get('filter') || '';
	chosen.under = Number.isFinite(Number(address.get('under'))) ? address.get('under') || '' : '';
	chosen.sort = address.get('sort') || '';
	chosen.descending = address.get('order') === 'down';
	if (address.get('shown') !== null)
		chosen.shown = new Set(address.get('shown').split('.').map(variantNumber).filter(v => v !== null));
	if (['light', 'dark'].includes(address.get('theme')))
		document.documentElement.dataset.theme = address.get('theme');
}

function update(changes) {
	Object.assign(chosen, changes);
	writeAddress();
	for (const listener of listeners)
		listener(changes);
}
