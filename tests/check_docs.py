#!/usr/bin/env python3
"""Checks the documents: the *.md files of the repository, tracked or new.

usage: tests/check_docs.py [ROOT]

Prints as FILE:LINE and exits with 1 for
- a line of prose with more than 120 columns (rows of tables, code and lines of one link excepted),
- a relative link to a file that is not there,
- a page of docs/decisions/ that docs/decisions/README.md does not link, where there is such an index.
"""
import os
import re
import sys

from repository_files import print_faults, root_of, texts

MOST_COLUMNS = 120
# The end of a link: its text may have begun on a line before.
LINK = re.compile(r'\]\(([^)\s]+)\)')
ONLY_A_LINK = re.compile(r'^\s*([-*]\s+)?\S+$|^\s*([-*]\s+)?\[[^\]]*\]\(\S+\)[.,;:)]*$')


def prose_lines(text):
    """Yields (line number, line) outside of code blocks; those of tables too."""
    fence = False
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(r'^\s*(```|~~~)', line):
            fence = not fence
        elif not fence:
            yield number, line


def faults_of(root, path, text):
    links = set()
    after_blank = True
    in_list = False
    for number, line in prose_lines(text):
        indented_code = line.startswith('    ') and after_blank and not in_list
        if re.match(r'^\s*([-*+]|\d+[.)])\s', line):
            in_list = True
        elif line.strip() and not line.startswith(' '):
            in_list = False
        if not indented_code:
            after_blank = not line.strip()
        excepted = line.lstrip().startswith('|') or ONLY_A_LINK.match(line) or indented_code
        if len(line) > MOST_COLUMNS and not excepted:
            yield number, f'{len(line)} columns; at most {MOST_COLUMNS}'
        if indented_code:
            continue
        for target in LINK.findall(re.sub(r'`[^`]*`', '', line)):
            if re.match(r'^[a-z]+:', target) or target.startswith('#'):
                continue
            there = os.path.normpath(os.path.join(os.path.dirname(path), target.split('#')[0]))
            links.add(there)
            if not os.path.exists(os.path.join(root, there)):
                yield number, f'{target} is not there'
    if path == 'docs/decisions/README.md':
        folder = os.path.join(root, 'docs/decisions')
        for page in sorted(os.listdir(folder)):
            if page.endswith('.md') and page != 'README.md' and f'docs/decisions/{page}' not in links:
                yield 1, f'{page} is not in the index'


def main():
    root = root_of(sys.argv[1:], __doc__)
    found = texts(root, '*.md')
    if print_faults(found, lambda path, text: faults_of(root, path, text)) or not found:
        return 1
    print(f'{len(found)} documents have lines of at most {MOST_COLUMNS} columns and links that lead somewhere')
    return 0


if __name__ == '__main__':
    sys.exit(main())
