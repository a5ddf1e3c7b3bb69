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

function besideCells(run) {
	const k = run.kl_divergence;

	return k === undefined ? ['–', '–', '–', '–'] : [percent(costOf(run)), plusMinus(k, 5), fixed(k.percentile_99, 4),
		percent(run.same_top.mean, 1)];
}

/* Rows of cells, of which the first is a name. */
function fill(table, heading, rows) {
	const cell = children => make('td', {}, ...[children].flat());

	table.replaceChildren(headRow(heading), make('tbody', {}, ...rows.map(([name, ...cells]) =>
		make('tr', {}, make('th', { scope: 'row' }, ...breakable(name)), ...cells.map(cell)))));
}

const besideHeading = ['Cost', 'Mean KLD', '99 % KLD', 'Same top'];

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

/* Where the time of the runs went. */
function writeProfiles(runs) {
	const profiled = runs.filter(run => run.profile !== undefined);

	byId('time').hidden = profiled.length === 0;
	if (profiled.length === 0)
		return;
	const works = Object.keys(profiled[0].profile.work);
	const share = (x, p) => [`${x.toPrecision(3)} s`, make('small', {}, percent(x / p.seconds, 1))];

	fill(byId('time-table'), ['Run', 'Tokens\na second', ...works, 'load', 'other', 'Products of\ntheir limit'],
		profiled.map(({ name, profile: p }) => [name, grouped(Math.round(p.tokens / (p.seconds - p.load_seconds))),
			...works.map(work => share(p.work[work].seconds, p)), share(p.load_seconds, p), share(p.other_seconds, p),
			p.work.products.limit === undefined ? '–'
				: `${percent(p.work.products.share_of_limit, 0)} of ${p.work.products.limit}`]));
}

function writeEvaluation() {
	const e = data.evaluation;

	byId('evaluation').hidden = e === undefined;
	if (e === undefined)
		return;
	byId('evaluation-done').textContent = `${e.source}: ${plural(e.tokens, 'token')} in ${plural(e.windows, 'window')} of ` +
		`at most ${e.context}, ${grouped(e.predictions)} of them predicted.`;
	fill(byId('runs'), ['Run', 'Weights', 'Activations', 'Size', 'Perplexity', ...besideHeading], e.runs.map(run => [run.name,
		run.weights, run.activations, run.weight_bytes === undefined ? '–' : bytesText(run.weight_bytes),
		plusMinus(run.perplexity, 4), ...besideCells(run)]));
	writeParts('layers', e.layers || [], 'Layer');
	writeParts('kinds', e.kinds || [], 'Kind');
	writeProfiles(e.runs);
}
