#!/usr/bin/env python3
"""Checks which folder includes which, and where TBB and threads are used (docs/architecture.md, "Folders").

usage: tests/check_layers.py [ROOT]

Reads the .h and .cc files below ROOT (default: this repository), tracked or new, prints each line that breaks a rule as
FILE:LINE: what, and exits with 1 if there is one.
"""
import re
import sys

from repository_files import print_faults, root_of, texts

# Folder: the folders of ours whose headers its files may include. `*`: all but tests and benchmarks.
MAY_INCLUDE = {
    'formats': {'formats'},
    'ops': {'ops', 'formats'},
    'pipeline': {'pipeline', 'ops', 'formats'},
    'trainer': {'trainer', 'pipeline', 'formats'},
    'tokenizer': {'tokenizer', 'formats'},
    'command_line': {'command_line', 'formats'},
    'tools': {'tools', 'command_line', 'formats'},
    'examples': '*',
    'benchmarks': '*',
}
# Folder: single headers of other folders besides.
ALSO = {
    'trainer': {'ops/counter_rng.h', 'ops/philox_words.h'},
    'benchmarks': {'benchmarks'},
}
# The only files that may name TBB.
TBB = {
    'pipeline/executor.h', 'pipeline/executor.cc', 'pipeline/segment.cc', 'pipeline/worker_limit.cc',
    'trainer/step_graph.cc', 'tools/each_shard.cc', 'examples/mlm/shard_preparation.cc',
    'benchmarks/pipeline/hand_off_benchmark.cc',
}
# Folders whose code starts no threads.
WITHOUT_THREADS = {'formats', 'ops', 'command_line'}

INCLUDE = re.compile(r'^\s*#\s*include\s+"((\w+)/[^"]+)"')
USES_TBB = re.compile(r'^\s*#\s*include\s+<(oneapi/)?tbb/|\b(tbb|oneapi)::')
STARTS_THREADS = re.compile(r'^\s*#\s*include\s+<(thread|future|pthread\.h)>')


def broken_rules(path, text):
    """Yields (line number, message) of a file; `path` from the root."""
    folder = path.split('/')[0]
    if folder not in MAY_INCLUDE:
        return
    allowed = MAY_INCLUDE[folder]
    for number, line in enumerate(text.splitlines(), 1):
        code = line.split('//')[0]
        if match := INCLUDE.match(line):
            header, other = match.groups()
            known = other in MAY_INCLUDE or other in ('tests', 'benchmarks')
            fine = (allowed == '*' and other not in ('tests', 'benchmarks')) or other in allowed
            if known and not fine and header not in ALSO.get(folder, ()) and other not in ALSO.get(folder, ()):
                yield number, f'{folder}/ may not include {header}'
        if USES_TBB.search(code) and path not in TBB:
            yield number, 'TBB is used in few files only; this is none of them (tests/check_layers.py lists them)'
        if STARTS_THREADS.match(code) and folder in WITHOUT_THREADS:
            yield number, f'{folder}/ starts no threads'


def main():
    found = texts(root_of(sys.argv[1:], __doc__), '*.h', '*.cc')
    num_broken = print_faults(found, broken_rules)
    missing = sorted(path for path in TBB if path not in found)
    for path in missing:
        print(f'tests/check_layers.py: {path}, which may use TBB, is no file')
    if num_broken or missing or not found:
        return 1
    print(f'{len(found)} files keep to the layers')
    return 0


if __name__ == '__main__':
    sys.exit(main())
