/* SPDX-License-Identifier: MIT */
/* The controls of a report's page, and its start. */
'use strict';

function writeControls() {
	byId('variant').value = String(chosen.variant);
	byId('columns').value = chosen.columns;
	byId('filter').value = chosen.filter;
	byId('under').value = chosen.under;
	const dark = matchMedia('(prefers-color-scheme: dark)').matches;
	const theme = document.documentElement.dataset.theme || (dark ? 'dark' : 'light');
	byId('theme').textContent = theme === 'dark' ? 'Light' : 'Dark';
	byId('theme').dataset.next = theme === 'dark' ? 'light' : 'dark';
}

function listen() {
	const option = (label, i) => make('option', { value: String(i) }, label);

	byId('variant').append(...labels.map(option));
	byId('columns').append(make('option', { value: 'all' }, 'SQNR of every format shown'),
		...labels.map((label, i) => option(`Every measure of ${label}`, i)));
	byId('variant').onchange = event => update({ variant: Number(event.target.value) });
	byId('columns').onchange = event => update({ columns: event.target.value });
	byId('filter').oninput = event => update({ filter: event.target.value });
	byId('under').oninput = event => update({ under: event.target.value });
	byId('more').onclick = () => update({ all: true });
	byId('theme').onclick = event => {
		document.documentElement.dataset.theme = event.target.dataset.next;
		update({ theme: event.target.dataset.next });
	};
	matchMedia('(prefers-color-scheme: dark)').onchange = () => update({ theme: null });
	window.onhashchange = () => {
		readAddress();
		update({ ...chosen, theme: null });
	};
}

/* Only what depends on a change is written again. */
function refresh(changes) {
	writeControls();
	if (tensors.length === 0)
		return;
	if ('variant' in changes) {
		writeCards();
		writeSummary();
		writeHeat();
		writeWorst();
	}
	if (['variant', 'columns', 'filter', 'under', 'sort', 'all', 'shown'].some(key => key in changes))
		writeTable();
}

function start() {
	readAddress();
	writeHeading();
	writeEvaluation();
	writeSettings();
	writeNotMeasured();
	listen();
	listeners.push(refresh);
	refresh(chosen);
	if (tensors.length > 0)
		startFigures();
}

start();
