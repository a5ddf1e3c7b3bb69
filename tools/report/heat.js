/* SPDX-License-Identifier: MIT */
/* The layers by what they are for and where they stand, colored by how far they are under the median. Names tell. */
'use strict';

/* The first that fits. Names are those of transformers, llama.cpp and OpenAI. */
const ROLES = [
	['q, k, v', /qkv|c_attn|query_key_value|kv_a_proj|Wqkv/],
	['q', /q_proj|q_[ab]_proj|attn_q|\bwq\b|query/],
	['k', /k_proj|attn_k|\bwk\b|\bkey\b/],
	['v', /v_proj|attn_v|\bwv\b|value|kv_b_proj/],
	['o', /o_proj|attn_output|\bwo\b|attn.*(out_proj|c_proj)|attention.*(dense|output)|out_proj/],
	['gate, up', /gate_up/],
	['gate', /gate|\bw1\b/],
	['up', /up_proj|ffn_up|\bw3\b|c_fc|fc1|fc_in|h_to_4h|intermediate|mlp1/],
	['down', /down|\bw2\b|c_proj|fc2|fc_out|4h_to_h|mlp2/],
];
const OTHER = 'other', ORDER = ROLES.map(([role]) => role);

function roleOf(name) {
	const found = ROLES.find(([unused, pattern]) => pattern.test(name)), role = found === undefined ? OTHER : found[0];

	if (!/experts?\.|_exps|\.experts/.test(name) || /shared/.test(name))
		return role;
	return role === OTHER ? 'experts' : `experts ${role}`;
}

/* The number of the layer, or null. */
function depthOf(name) {
	const found = /(?:^|\.)(?:layers?|h|blk|blocks?|decoder|encoder)\.(\d+)\./.exec(name) || /\.(\d+)\./.exec(name);

	return found === null ? null : Number(found[1]);
}

/* Dense roles in their order, then those of experts, then others. */
const roleRank = role => role === OTHER ? 100 : (role.startsWith('experts') ? 50 : 0) +
	Math.max(0, ORDER.indexOf(role.replace(/^experts ?/, '')));

/* Tensors of a role and a depth. */
const cellsOfRoles = (() => {
	const cells = new Map();

	for (const t of tensors) {
		const role = roleOf(t.name), depth = depthOf(t.name);

		if (!cells.has(role))
			cells.set(role, new Map());
		if (!cells.get(role).has(depth))
			cells.get(role).set(depth, []);
		cells.get(role).get(depth).push(t);
	}
	return cells;
})();
const roles = [...cellsOfRoles.keys()].sort((a, b) => roleRank(a) - roleRank(b));
const depths = [...new Set([...cellsOfRoles.values()].flatMap(of => [...of.keys()]))]
	.sort((a, b) => (a === null ? Infinity : a) - (b === null ? Infinity : b));

/* A cell shows the worst of its tensors; of many, which are experts, what all but a tenth have stands in its title. */
function heatCell(group, i) {
	if (group === undefined)
		return make('td', { className: 'none' });
	const sorted = [...group].sort((a, b) => a.sqnr[i] - b.sqnr[i]);
	const worst = sorted[0], tenth = sorted[Math.floor(group.length / 10)];
	const dB = underMedian(worst, i), many = group.length === 1 ? ''
		: `\nthe worst of ${group.length}; nine of ten have ${withUnit(tenth.sqnr[i])} or more`;

	return heat(make('td', { title: `${worst.name}\n${withUnit(worst.sqnr[i])}, ${under(dB)}${many}` },
		Number.isNaN(dB) ? '–' : dB < 0.25 ? '' : dB < 9.95 ? dB.toFixed(1) : dB.toFixed(0)), dB);
}

function writeHeat() {
	const i = chosen.variant, several = [...cellsOfRoles.values()].some(of => [...of.values()].some(group => group.length > 1));
	const head = make('thead', {}, make('tr', {}, make('th', { scope: 'col' }, 'Layer'),
		...depths.map(depth => make('th', { scope: 'col' }, depth === null ? '–' : String(depth)))));
	const rows = roles.map(role => make('tr', {}, make('th', { scope: 'row' }, role),
		...depths.map(depth => heatCell(cellsOfRoles.get(role).get(depth), i))));

	byId('heat').replaceChildren(head, make('tbody', {}, ...rows));
	byId('heat-read').textContent = `dB of SQNR in ${labels[i]} under ${mixed ? level
		: `the median layer, ${withUnit(medianOf(i))}`}${several ? ', of the worst where several tensors have one role in a layer'
		: ''}: the stronger the color, the more is lost; empty is within a quarter of a dB, or better.`;
}
