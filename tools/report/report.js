/* SPDX-License-Identifier: MIT */
/* The page of a report: its data, numbers for people, and what is chosen, which the address keeps so that a view can be
   linked. Names come from files that are not trusted: text reaches the page as text nodes only. */
'use strict';

const data = JSON.parse(document.getElementById('data').textContent);
const totals = data.total.variants, tensors = data.tensors;
const WORST_MAX = 10, ROWS_MAX = 300, SERIES_COLORS = 8, SHOWN_MAX = 8;

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
const breakable = name => name.split(/(?<=[._/])/).flatMap(part => [part, make('wbr')]);

function choiceOf(v) {
	if (v.format === 'f32')
		return '-';
	return v.rule || v.recipe || 'as written';
}

/* "mxfp4 4:16 mse" */
function labelOf(v) {
	return [v.format, v.sparsity, v.format === 'f32' ? null : choiceOf(v)].filter(Boolean).join(' ');
}

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

const chosen = { variant: 0, columns: 'all', filter: '', under: '', sort: '', descending: false, all: false,
	shown: shownAtFirst() };
const listeners = [];

/* The address holds what differs from the start. */
function writeAddress() {
	const address = new URLSearchParams();
	const initial = [...shownAtFirst()].join('.'), shown = [...chosen.shown].sort((a, b) => a - b).join('.');

	const values = {
		variant: chosen.variant || '',
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
	chosen.variant = variantNumber(address.get('variant')) || 0;
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
