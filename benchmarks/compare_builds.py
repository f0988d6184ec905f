#!/usr/bin/env python3
"""Compares the speed of two builds: every workload of dataset_bench in both, in turn, again and again.

usage: benchmarks/compare_builds.py BEFORE AFTER [--pairs 12] [--seconds 0.5] [--threads 2] [--max-slowdown 1.03]
       [--workload NAME]...

BEFORE and AFTER are build folders, BEFORE of the preset dev or release, AFTER of dev. The shards are written by AFTER's
write_workload_shards, some 60 MB for each workload, so that both read from the page cache. Which of the two comes first alternates
from pair to pair. Prints for each workload the median over the pairs of AFTER's time divided by BEFORE's, for wall time,
CPU time and peak memory, with the quartiles; above 1 AFTER is slower. Exits with 1 where the lower quartile of a time is
above --max-slowdown (default 1.03).
"""
import argparse
import json
import pathlib
import shutil
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from measured_run import require_counts, run, say  # noqa: E402

# Name: the workload's words, and the folder of its shards.
WORKLOADS = {
    'raw': (['read'], 'mlm'),
    'raw_short': (['read'], 'tokens'),
    'examples': (['examples'], 'tokens'),
    'mlm': (['mlm'], 'mlm'),
    'mlm_gz': (['mlm_gz'], 'mlm_gz'),
    'quest': (['quest'], 'quest'),
    'quest_cached': (['quest', '--cache'], 'quest'),
    'bucket': (['bucket'], 'tokens'),
    'pad': (['pad'], 'tokens'),
    'images': (['images'], 'images'),
    'noop': (['noop'], None),
    'noop_rows': (['noop_rows'], None),
}
BYTES = 60_000_000
MEASURES = {'wall': 'us_wall_per_record', 'cpu': 'us_cpu_per_record', 'memory': 'peak_rss_mb'}


def write_shards(build, folder):
    run([build / 'tests' / 'write_workload_shards', folder])
    for shards in (path for path in folder.iterdir() if path.is_dir()):
        files = sorted(shards.glob('*.tfrecord'))
        copies = min(200, BYTES // max(1, sum(file.stat().st_size for file in files)))
        for file in files:
            for copy in range(copies):
                shutil.copy(file, file.with_suffix(f'.{copy}.tfrecord'))


def measure(build, name, shards, options):
    words, folder = WORKLOADS[name]
    files = ['--shards', shards / folder / '*.tfrecord'] if folder else []
    warm_up = 0.6 if '--cache' in words else 0.15
    return json.loads(run([build / 'benchmarks' / 'dataset_bench', *words, *files, '--threads', options.threads,
                           '--seconds', options.seconds, '--warmup-seconds', warm_up, '--json', '--no-display']))


def compare(name, shards, options):
    """The ratios of each measure, one for each pair."""
    ratios = {measure_name: [] for measure_name in MEASURES}
    for pair in range(options.pairs):
        order = [options.before, options.after] if pair % 2 == 0 else [options.after, options.before]
        results = {build: measure(build, name, shards, options) for build in order}
        for measure_name, key in MEASURES.items():
            ratios[measure_name].append(results[options.after][key] / results[options.before][key])
    return ratios


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('before', type=pathlib.Path)
    parser.add_argument('after', type=pathlib.Path)
    parser.add_argument('--pairs', type=int, default=12)
    parser.add_argument('--seconds', type=float, default=0.5)
    parser.add_argument('--threads', type=int, default=2)
    parser.add_argument('--max-slowdown', type=float, default=1.03)
    parser.add_argument('--workload', action='append', choices=sorted(WORKLOADS), help='default: all')
    options = parser.parse_args()
    require_counts(parser, options, 'pairs', 'threads')
    if options.pairs % 2:
        parser.error('--pairs must be even, so that each build comes first as often as the other')
    options.before, options.after = options.before.resolve(), options.after.resolve()
    slower = []
    with tempfile.TemporaryDirectory() as folder:
        shards = pathlib.Path(folder)
        write_shards(options.after, shards)
        print(f'{options.pairs} pairs of {options.seconds:g} s; after ÷ before, median [quartiles]')
        for name in options.workload or WORKLOADS:
            say(f'{name} …')
            texts = []
            for measure_name, values in compare(name, shards, options).items():
                low, _, high = statistics.quantiles(values, n=4, method='inclusive') if len(values) > 1 else values * 3
                texts.append(f'{measure_name} {statistics.median(values):.3f} [{low:.2f} {high:.2f}]')
                if measure_name != 'memory' and low > options.max_slowdown:
                    slower.append(f'{name}: {measure_name}')
            print(f"{name:14} {'  '.join(texts)}", flush=True)
    if slower:
        sys.exit(f"slower: {', '.join(slower)}")


if __name__ == '__main__':
    main()
