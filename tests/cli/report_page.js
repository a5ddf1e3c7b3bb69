/* SPDX-License-Identifier: MIT */
/* What test_report_html.sh asks of a page of mxfp report, which it appends this to: facts as lines NAME: VALUE in an
   element that the browser dumps with the page. drive() is for the page of the test's own small model. */
'use strict';

const facts = [];
const fact = (name, value) => facts.push(`${name}: ${value}`);
const all = selector => [...document.querySelectorAll(selector)];
const one = selector => document.querySelector(selector);

/* WCAG's contrast of two colors "rgb(r, g, b)". */
function contrast(a, b) {
	const luminance = color => {
		const [r, g, b] = color.match(/[\d.]+/g).map(x => x / 255).map(x => x <= 0.04045 ? x / 12.92
			: ((x + 0.055) / 1.055) ** 2.4);

		return 0.2126 * r + 0.7152 * g + 0.0722 * b;
	};
	const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);

	return (high + 0.05) / (low + 0.05);
}

/* A custom property that is a color, as "rgb(r, g, b)". */
function color(name) {
	const probe = document.createElement('i');

	probe.style.color = `var(${name})`;
	document.body.append(probe);
	const text = getComputedStyle(probe).color;
	probe.remove();
	return text;
}

/* The smallest contrast of some colors with both backgrounds. */
function least(names) {
	return Math.min(...names.flatMap(name => ['--page', '--card'].map(ground => contrast(color(name), color(ground)))));
}

function hasInk(canvas) {
	const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);

	return data.some(byte => byte !== 0);
}

function inspect() {
	fact('width', innerWidth);
	fact('fits', document.documentElement.scrollWidth <= innerWidth);
	fact('dark', contrast(getComputedStyle(document.body).backgroundColor, 'rgb(0, 0, 0)') < 3);
	fact('text contrast', least(['--ink', '--muted', '--accent', '--warn']) >= 4.5);
	fact('series contrast', least([0, 1, 2, 3, 4, 5, 6, 7].map(i => `--series-${i}`)) >= 3);
	const charts = all('figure canvas[role=img]');

	fact('charts', charts.length);
	fact('charts without ink', charts.filter(canvas => !hasInk(canvas)).length);
	fact('charts without a name', charts.filter(c => !/\d/.test(c.getAttribute('aria-label'))).length);
	fact('charts without a sentence', all('figcaption').filter(text => !/\w\.$/.test(text.textContent)).length);
	fact('fields without a label', all('input, select').filter(field => field.labels.length === 0).length);
	fact('headers without a scope', all('th').filter(th => !th.scope).length);
	fact('ids twice', all('[id]').filter((e, i, list) => list.findIndex(other => other.id === e.id) !== i).length);
	fact('names in lines', all('#table tbody th').filter(th => th.getClientRects().length > 1 || th.offsetHeight > 60).length);
	fact('roles', all('#heat tbody th').map(th => th.textContent).join(' '));
	fact('depths', all('#heat thead th').map(th => th.textContent).join(' '));
	fact('yardsticks', all('#table .reference td').map(td => td.textContent).join(' ').trim()
		.replace(/ +/g, ' '));
	fact('rows', all('#table tbody tr').length);
	const count = id => all(`#${id} tbody tr`).length;

	fact('evaluation', one('#evaluation').hidden ? 'none' : `${count('runs')} runs, ${count('layers-table')} layers, ` +
		`${count('kinds-table')} kinds, ${count('time-table')} profiles`);
	fact('runs', all('#runs tbody th').map(th => th.textContent).join(' '));
	fact('bits', all('#runs tbody td:nth-of-type(7)').map(td => td.firstChild.textContent).join(' '));
	fact('time by layer', `${count('time-layers')} rows of ${all('#time-layers details').length} runs, open: ` +
		all('#time-layers [open] summary, #time-layers [open] tbody th').map(part => part.textContent).join(', '));
	const longest = all('#layers-table tbody tr').find(row => row.querySelector('.bar').style.width === '100%');

	fact('longest bar', longest === undefined ? 'none' : longest.querySelector('th').textContent);
}

function set(selector, value, event) {
	one(selector).value = value;
	one(selector).dispatchEvent(new Event(event, { bubbles: true }));
}

const names = () => all('#table tbody th').map(th => th.textContent).join(' ');
const cells = () => all('#table tbody tr:first-child td').map(td => td.textContent).join(' ');

function drive() {
	const sort = () => one('[data-key="v0"] button').click();

	fact('verdict', one('#verdict').textContent);
	fact('worst first', names());
	sort();
	fact('rising', names());
	fact('sort state', one('[data-key="v0"]').getAttribute('aria-sort'));
	fact('focus', document.activeElement === one('[data-key="v0"] button'));
	fact('first row', cells());
	sort();
	fact('falling', names());
	fact('address', location.hash);
	set('#filter', 'WEIGHT', 'input');
	fact('filtered', names());
	fact('count', one('#count').textContent);
	set('#filter', '', 'input');
	set('#under', '13.9', 'input');
	fact('under', names());
	set('#under', '', 'input');
	set('#variant', '1', 'change');
	fact('variant', one('#worst-heading').textContent);
	fact('chosen row', one('#summary .chosen th').textContent);
	one('#key [data-variant="0"]').click();
	fact('hidden column', one('[data-key="v0"]') === null && one('[data-key="v1"]') !== null);
	fact('pressed', one('#key [data-variant="0"]').getAttribute('aria-pressed'));
	set('#columns', '0', 'change');
	fact('all measures', all('#table thead tr:first-child th').length);
	fact('still fits', document.documentElement.scrollWidth <= innerWidth);
	one('#theme').click();
	fact('theme', document.documentElement.dataset.theme);
	one('figure details').open = true;
	fact('elements of names', all('#table img, #worst img, script[src]').length);
	fact('scripts of names', typeof window.hostile);
}

addEventListener('load', () => {
	inspect();
	if (tensors.some(tensor => tensor.name === 'a.weight'))
		drive();
	const list = document.createElement('pre');

	list.id = 'facts';
	list.textContent = `\nFACTS\n${facts.join('\n')}\nEND\n`;
	document.body.append(list);
});
