/* SPDX-License-Identifier: MIT */
/* The evaluation in a report: the model run on tokens, and what its layers and kinds of weights cost alone. */
'use strict';

const PARTS_MAX = 200;

const plusMinus = (mean, digits) => mean === undefined || mean.mean === null ? '–'
	: [fixed(mean.mean, digits), make('small', {}, `± ${fixed(mean.error, digits)}`)];

/* What a run adds to the perplexity of the base. */
function costOf(run) {
	const base = run.base_perplexity;

	return base === undefined || base.mean === null || run.perplexity.mean === null ? null
		: run.perplexity.mean / base.mean - 1;
}

const besideHeading = ['Cost', 'Mean KLD', '99 % KLD', 'Same top', 'RMS change'];

function besideCells(run) {
	const k = run.kl_divergence;

	return k === undefined ? besideHeading.map(() => '–') : [percent(costOf(run)), plusMinus(k, 5), fixed(k.percentile_99, 4),
		percent(run.same_top.mean, 1), percent(run.probability_change_rms.mean)];
}

/* Rows of cells, of which the first is a name. */
function fill(table, heading, rows) {
	const cell = children => make('td', {}, ...[children].flat());

	table.replaceChildren(headRow(heading), make('tbody', {}, ...rows.map(([name, ...cells]) =>
		make('tr', {}, make('th', { scope: 'row' }, ...breakable(name)), ...cells.map(cell)))));
}

function writeRuns(table, runs) {
	fill(byId(table), ['Run', 'Perplexity', ...besideHeading, 'Bits/weight', 'Weights', 'Activations'],
		runs.map(run => [run.name, plusMinus(run.perplexity, 4), ...besideCells(run),
			[fixed(run.bits_per_weight, 3), make('small', {}, bytesText(run.weight_bytes))], run.weights, run.activations]));
}

/* Layers by depth or kinds by what they cost, of more than fit the costliest. */
function writeParts(name, parts, text) {
	const list = parts.slice(0, PARTS_MAX), most = largest(list.map(part => part.kl_divergence.mean));

	if (name === 'layers')
		list.sort((a, b) => a.layer - b.layer);
	byId(`${name}-alone`).hidden = parts.length === 0;
	fill(byId(`${name}-table`), [text, 'Weights', ...besideHeading, 'Mean KLD'], list.map(part => [
		part.kind === undefined ? `layer ${part.layer}` : part.kind, grouped(part.elements), ...besideCells(part),
		bar(part.kl_divergence.mean, most)]));
}

/* Seconds of a run, and their share of all. */
const timeCell = (x, p) => x === 0 ? '–' : [x < 1 ? `${(1000 * x).toPrecision(3)} ms` : `${x.toPrecision(3)} s`,
	make('small', {}, percent(x / p.seconds, 1))];

const limitCell = work => work.limit === undefined ? '–' : [percent(work.share_of_limit, 0), make('small', {}, `of ${work.limit}`)];

/* A table of the layers of a run, the last row of which is of no layer. */
function layerTimes({ name, profile: p }, works, open) {
	const table = make('table', { className: 'parts' });
	const all = layer => works.reduce((sum, work) => sum + layer[work].seconds, 0), most = largest(p.layers.map(all));

	fill(table, ['Layer', ...works, 'Products of\ntheir limit', 'All', 'Time'], p.layers.map(layer => [
		layer.layer === undefined ? 'embedding, head' : `layer ${layer.layer}`, ...works.map(work => timeCell(layer[work].seconds, p)),
		limitCell(layer.products), timeCell(all(layer), p), bar(all(layer), most)]));
	return make('details', { open }, make('summary', {}, `${name} by layer`),
		make('div', { className: 'scroll', tabIndex: 0, role: 'region', 'aria-label': `Time of ${name} by layer` }, table));
}

/* Where the time of the runs went; the layers of the second, which the verdict is about, are open. */
function writeProfiles(runs) {
	const profiled = runs.filter(run => run.profile !== undefined);

	byId('time').hidden = profiled.length === 0;
	if (profiled.length === 0)
		return;
	const works = Object.keys(profiled[0].profile.work), { operations_per_second: flops, bytes_per_second: bytes } =
		profiled[0].profile.limits;

	fill(byId('time-table'), ['Run', 'Tokens\na second', ...works, 'load', 'other', 'Products of\ntheir limit'],
		profiled.map(({ name, profile: p }) => [name, grouped(Math.round(p.tokens / (p.seconds - p.load_seconds))),
			...works.map(work => timeCell(p.work[work].seconds, p)), timeCell(p.load_seconds, p), timeCell(p.other_seconds, p),
			limitCell(p.work.products)]));
	byId('time-layers').replaceChildren(...profiled.map(run => layerTimes(run, works, run === runs[1])));
	byId('time-limits').textContent = flops && bytes ? `, which computes ${(flops / 1e9).toPrecision(3)} GFLOP/s and reads ` +
		`${(bytes / 1e9).toPrecision(3)} GB/s` : '';
}

function writeEvaluation() {
	const e = data.evaluation;

	byId('evaluation').hidden = e === undefined;
	if (e === undefined)
		return;
	byId('evaluation-done').textContent = `${e.source}: ${plural(e.tokens, 'token')} in ${plural(e.windows, 'window')} of ` +
		`at most ${e.context}, ${grouped(e.predictions)} of them predicted.`;
	writeRuns('runs', e.runs);
	byId('sums-alone').hidden = data.accumulator === undefined;
	writeRuns('sums', data.accumulator?.runs ?? []);
	writeParts('layers', e.layers || [], 'Layer');
	writeParts('kinds', e.kinds || [], 'Kind');
	writeProfiles(e.runs);
}
