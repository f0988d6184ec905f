#!/usr/bin/env python3
"""Checks which folder includes which, where TBB and threads are used (docs/architecture.md, "Folders"), how long sources
are, and that no two headers give a type or a constant the same name.

usage: tests/check_layers.py [ROOT]

Reads the .h and .cc files below ROOT (default: this repository), tracked or new, prints each line that breaks a rule as
FILE:LINE: what, and exits with 1 if there is one.
"""
import re
import sys

from repository_files import print_faults, root_of, texts

# The libraries, which are included as "millrace/FOLDER/…" everywhere.
LIBRARIES = {'formats', 'ops', 'pipeline', 'trainer', 'tokenizer', 'command_line'}
# Folder, or part of one that stands above the rest: the folders of ours whose headers its files may include. `*`: all but tests and benchmarks; `**`: all.
MAY_INCLUDE = {
    'formats': {'formats'},
    'ops': {'ops', 'formats'},
    'pipeline': {'pipeline', 'ops', 'formats'},
    'trainer': {'trainer', 'pipeline', 'formats'},
    'trainer/run': {'trainer', 'pipeline', 'formats', 'tokenizer', 'command_line'},
    'tokenizer': {'tokenizer', 'formats'},
    'command_line': {'command_line', 'formats'},
    'tools': {'tools', 'command_line', 'formats'},
    'examples': '*',
    'benchmarks': '*',
    'tests': '**',
}
# The same of folders in them, without those of their own folder and the files at its root.
MAY_INCLUDE_BELOW = {
    'ops': {
        'sources': {'combine', 'flow', 'row_memory', 'features'}, 'combine': {'features'}, 'parse': set(),
        'flow': {'features', 'row_memory'}, 'row_memory': set(), 'batch': {'row_memory', 'parse', 'features'},
        'features': set(), 'tokens': {'batch', 'row_memory'}, 'images': {'parse'}, 'keep': {'row_memory', 'parse'},
    },
    'pipeline': {'plan': set(), 'run': {'plan'}, 'watch': {'run', 'plan'}, 'definition': {'plan'}},
    'trainer': {
        'tensor': set(), 'models': {'tensor', 'checkpoint'}, 'metrics': set(), 'schedules': set(),
        'optimizers': {'schedules'}, 'step': {'optimizers'}, 'checkpoint': {'step', 'optimizers', 'schedules'},
        'tensorboard': set(), 'callbacks': {'tensorboard'},
    },
}
# Lines of a source that is no test.
MOST_LINES = 450
# The only files that may name TBB.
TBB = {
    'pipeline/run/executor.h', 'pipeline/run/executor.cc', 'pipeline/run/segment.cc', 'pipeline/run/worker_arena.h',
    'pipeline/run/worker_arena.cc', 'pipeline/worker_limit.cc',
    'trainer/step/step_graph.cc', 'tools/each_shard.cc', 'trainer/run/ordered_work.cc',
    'benchmarks/pipeline/hand_off_benchmark.cc',
}
# A program of a user's, whose folders have names of ours.
USERS_PROGRAM = 'tests/install/user_program/'
# Folders whose code starts no threads, and the part of one that does: the engine of HTTP.
WITHOUT_THREADS = {'formats', 'ops', 'command_line'}
WITH_A_THREAD = 'formats/storage/remote/'

INCLUDE = re.compile(r'^\s*#\s*include\s+"(millrace/)?((\w+)/[^"]+)"')
OTHER_INCLUDE = re.compile(rf'^\s*#\s*include\s+("\.\.?/|"[^/"]+(?<!\.pb\.h)"|<(millrace|{"|".join(sorted(LIBRARIES))})/)')
USES_TBB = re.compile(r'^\s*#\s*include\s+<(oneapi/)?tbb/|\b(tbb|oneapi)::')
STARTS_THREADS = re.compile(r'^\s*#\s*include\s+<(thread|future|pthread\.h)>')
# A type or a constant of a header, not those in other ones or in functions, which are indented.
DEFINITION = re.compile(r'^(?:(?:class|struct|enum class|enum) (\w+)(?= |$)(?!.*;$)|inline constexpr .*?(\bk[A-Z]\w*) =)')
NAMESPACE = re.compile(r'^namespace ([\w:]+) \{$')


def broken_rules_below(path, header):
    """Yields messages; of files in one of the folders with rules for the folders in them."""
    top, below = (path.split('/') + [''])[:2]
    rules = MAY_INCLUDE_BELOW.get(top, {})
    other = header.split('/')[1]
    if below not in rules or header.split('/')[0] != top or other not in rules or other == below:
        return
    if other not in rules[below]:
        yield f'{top}/{below}/ may not include {header}'


def broken_rules(path, text):
    """Yields (line number, message) of a file; `path` from the root."""
    folder = path.split('/')[0]
    if folder not in MAY_INCLUDE or path.startswith(USERS_PROGRAM):
        return
    part = '/'.join(path.split('/')[:2])
    allowed = MAY_INCLUDE.get(part, MAY_INCLUDE[folder])
    lines = text.splitlines()
    if folder != 'tests' and len(lines) > MOST_LINES:
        yield MOST_LINES + 1, f'it has {len(lines)} lines; at most {MOST_LINES}, so that one sitting is enough to read it'
    for number, line in enumerate(lines, 1):
        code = line.split('//')[0]
        if match := INCLUDE.match(line):
            form, header, other = match.groups()
            if bool(form) != (other in LIBRARIES) and not header.endswith('.pb.h'):
                yield number, f'{header} is included as "{"millrace/" if other in LIBRARIES else ""}{header}"'
            fine = allowed == '**' or (allowed == '*' and other not in ('tests', 'benchmarks')) or \
                other in allowed or other == folder
            of_part = '/'.join(header.split('/')[:2])
            if other == folder and of_part in MAY_INCLUDE and of_part != part:
                yield number, f'{folder}/ may not include {header}, which stands above it'
            if other in MAY_INCLUDE and not fine:
                yield number, f'{folder}/ may not include {header}'
            yield from ((number, message) for message in broken_rules_below(path, header))
        elif OTHER_INCLUDE.match(line):
            yield number, 'headers of ours are included as "millrace/FOLDER/…" or "FOLDER/…"'
        if folder != 'tests' and USES_TBB.search(code) and path not in TBB:
            yield number, 'TBB is used in few files only; this is none of them (tests/check_layers.py lists them)'
        if STARTS_THREADS.match(code) and folder in WITHOUT_THREADS and not path.startswith(WITH_A_THREAD):
            yield number, f'{folder}/ starts no threads'


def defined_before(places, path, text):
    """Yields (line number, message) of a header of libraries and programs; `places`: where each name is defined."""
    if not path.endswith('.h') or path.split('/')[0] in ('tests', 'benchmarks'):
        return
    namespace = ''
    for number, line in enumerate(text.splitlines(), 1):
        if match := NAMESPACE.match(line):
            namespace = match[1]
        elif match := DEFINITION.match(line):
            name = f'{namespace}::{match[1] or match[2]}'
            first = places.setdefault(name, path)
            if first != path:
                yield number, f'{name} is also defined in {first}'


def main():
    found = texts(root_of(sys.argv[1:], __doc__), '*.h', '*.cc')
    num_broken = print_faults(found, broken_rules)
    places = {}
    num_broken += print_faults(found, lambda path, text: defined_before(places, path, text))
    missing = sorted(path for path in TBB if path not in found)
    for path in missing:
        print(f'tests/check_layers.py: {path}, which may use TBB, is no file')
    if num_broken or missing or not found:
        return 1
    print(f'{len(found)} files keep to the layers')
    return 0


if __name__ == '__main__':
    sys.exit(main())
