#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Fills the figures of README.md and doc/performance.md from the results in bench/results.

usage: scripts/figures.py [--check]

What stands in a page between <!-- figures: NAME --> and <!-- end of figures --> is section NAME of bench/results/pages.md.
There {FILE:TABLE:ROW:COLUMN} is that cell of bench/results/FILE.json, a ROW being named by its first cells ("keys" says
how many, 1 by default) with ", " between them, and {FILE:commit} what was measured, likewise machine, date and tool.
--check writes nothing and fails if a page is not what the results give, if a measured speed stands elsewhere in it, or if
a file of results does not say its machine, commit, date and tool.
"""
import json
import pathlib
import re
import sys

TOP = pathlib.Path(__file__).resolve().parent.parent
RESULTS = TOP / 'bench/results'
PAGES = ['README.md', 'doc/performance.md']
ORIGIN = ['machine', 'commit', 'date', 'tool']
BLOCK = re.compile(r'(<!-- figures: ([^\n]*) -->\n)(.*?)(<!-- end of figures -->\n)', re.S)
MEASURED = re.compile(r'\d (GB/s|GFLOP/s|GOP/s|tokens/s|tokens a second)|\d times (sgemm|as fast|the speed)')


def read_results():
    """Returns {"FILE": origin, "FILE:TABLE:ROW:COLUMN": cell} with numbers as they are written."""
    cells = {}
    for path in sorted(RESULTS.glob('*.json')):
        result = json.loads(path.read_text(), parse_int=str, parse_float=str)
        for key in ORIGIN:
            if not isinstance(result.get(key), str) or not result[key]:
                raise SystemExit(f'{path.relative_to(TOP)}: no "{key}"')
            cells[f'{path.stem}:{key}'] = result[key]
        for name, table in result['tables'].items():
            for row in table['rows']:
                if len(row) != len(table['columns']):
                    raise SystemExit(f'{path.relative_to(TOP)}: table "{name}": a row of {len(row)} cells: {row}')
                title = ', '.join(cell for cell in row[:int(table.get('keys', 1))] if cell)
                for column, cell in zip(table['columns'], row):
                    place = f'{path.stem}:{name}:{title}:{column}'
                    if place in cells:
                        raise SystemExit(f'{path.relative_to(TOP)}: table "{name}": row "{title}" twice')
                    cells[place] = cell or ''
    return cells


def read_sections(cells):
    """Returns {NAME: text} of bench/results/pages.md."""
    def cell(match):
        if match[1] not in cells:
            raise SystemExit(f'bench/results/pages.md: no result {match[1]}')
        return cells[match[1]]

    parts = re.split(r'^## (.*)\n+', (RESULTS / 'pages.md').read_text(), flags=re.M)
    return {name: re.sub(r'\{([^{}]+)\}', cell, text).strip() + '\n' for name, text in zip(parts[1::2], parts[2::2])}


def filled(page, text, sections):
    def block(match):
        if match[2] not in sections:
            raise SystemExit(f'{page}: bench/results/pages.md has no section "{match[2]}"')
        return match[1] + sections[match[2]] + match[4]

    return BLOCK.sub(block, text)


def main():
    check = sys.argv[1:] == ['--check']
    if sys.argv[1:] and not check:
        raise SystemExit('usage: scripts/figures.py [--check]')
    sections = read_sections(read_results())
    failures = []
    for page in PAGES:
        path = TOP / page
        text = path.read_text()
        wanted = filled(page, text, sections)
        if not check:
            path.write_text(wanted)
        elif wanted != text:
            failures.append(f'{page}: figures differ from bench/results: run scripts/figures.py')
        rest = BLOCK.sub(lambda match: '\n' * match[0].count('\n'), text)
        failures += [f'{page}:{i}: a measured speed that is not from bench/results: {match[0]}'
                     for i, line in enumerate(rest.split('\n'), 1) for match in MEASURED.finditer(line)]
    print('\n'.join(failures), end='\n' if failures else '')
    return bool(failures)


sys.exit(main())
