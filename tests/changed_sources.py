#!/usr/bin/env python3
"""Prints the sources that show what was changed lately, for tests/tidy.sh: each .cc that the last ten commits changed, those
since the branch left origin/main, or nobody has committed; of a header its .cc, or where there is none one that includes it.

usage: tests/changed_sources.py [ROOT]

Where what the sources are looked at by has changed itself, these are all.
"""
import re
import subprocess
import sys

from repository_files import root_of, texts

COMMITS = 10
RULES = {'.clang-tidy', 'tests/tidy.sh', 'tests/changed_sources.py', 'CMakePresets.json'}
INCLUDE = re.compile(r'^\s*#\s*include\s+"(?:millrace/)?([^"]+)"', re.MULTILINE)


def git(root, *arguments):
    """What Git prints, or nothing where it fails."""
    result = subprocess.run(['git', '-C', root, *arguments], capture_output=True, text=True, check=False)
    return result.stdout.strip() if result.returncode == 0 else ''


def changed_files(root):
    """Paths, those of files that are gone included; None: all, since no commit is that old."""
    bases = [git(root, 'rev-parse', '--verify', f'HEAD~{COMMITS}'), git(root, 'merge-base', 'origin/main', 'HEAD')]
    if not bases[0]:
        return None
    changed = git(root, 'ls-files', '--others', '--exclude-standard').splitlines()
    for base in filter(None, bases):
        changed += git(root, 'diff', '--name-only', base).splitlines()
    return set(changed)


def source_of(header, sources, includers):
    """A .cc that reads `header`: its own one, else the nearest by who includes it."""
    known, waiting = {header}, [header]
    for path in waiting:
        if path.endswith('.cc'):
            return path
        if path[:-2] + '.cc' in sources:
            return path[:-2] + '.cc'
        waiting += sorted(includers.get(path, set()) - known)
        known.update(waiting)
    return None


def main():
    """Prints the paths."""
    root = root_of(sys.argv[1:], __doc__)
    sources = {path: text for path, text in texts(root, '*.h', '*.cc').items() if not path.startswith('tests/')}
    includers = {}
    for path, text in sources.items():
        for header in INCLUDE.findall(text):
            includers.setdefault(header, set()).add(path)
    changed = changed_files(root)
    if changed is None or changed & RULES:
        chosen = set(sources)
    else:
        chosen = {source_of(path, sources, includers) for path in changed if path in sources}
    print('\n'.join(sorted(path for path in chosen if path and path.endswith('.cc'))))


main()
