#!/usr/bin/env python3
"""Reads and writes with programs of Millrace at a server that others wrote, and compares with local files.

usage: tests/peers/check_peer.py SERVER --bench dataset_bench --verify dataset_verify --venv FOLDER
           [--writers PROGRAM...]

Exits with 77, and says why, where the server is not installed.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import servers  # noqa: E402
import shards  # noqa: E402
import writing  # noqa: E402

SKIPPED = 77
BATCHES = 260     # of 16 records: more than one epoch
STATE_EVERY = 7
LIMIT = 600       # seconds; only ends what would hang
PAGED = 1203      # keys of a listing of more than one page


class Programs:
    def __init__(self, options, home):
        self.options, self.home = options, home

    def run(self, program, arguments, environment):
        """The program by itself: of the environment only what is given."""
        return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, timeout=LIMIT,
                              env={'HOME': str(self.home), 'PATH': '/usr/bin:/bin', 'LANG': 'C.UTF-8', **environment})

    def bench(self, pattern, environment, batches=BATCHES, *more):
        run = self.run(self.options.bench, ['read', '--shards', pattern, '--batch', 16, '--cycle-length', 3, '--json',
                                            '--batches', batches, *more], environment)
        require(run.returncode == 0, f'dataset_bench {pattern} exits with {run.returncode}: {run.stderr}')
        return json.loads(run.stdout)

    def verify(self, patterns, environment):
        run = self.run(self.options.verify, [*patterns, '--json'], environment)
        require(run.returncode == 0, f'dataset_verify {patterns} exits with {run.returncode}: {run.stderr}{run.stdout}')
        return json.loads(run.stdout)

    def error(self, pattern, environment, *parts):
        """What dataset_bench says of shards that cannot be read; it has these parts, and no secret."""
        run = self.run(self.options.bench, ['read', '--shards', pattern, '--batches', 1], environment)
        require(run.returncode != 0, f'{pattern} is read')
        for part in parts:
            require(part in run.stderr, f'{pattern}: {part!r} is not in the message: {run.stderr}')
        for secret in (servers.ACCESS_KEY_ID, servers.SECRET_ACCESS_KEY, 'another-key'):
            require(secret not in run.stderr + run.stdout, f'{pattern}: a secret is in the message')


def require(holds, message):
    if not holds:
        raise AssertionError(message)


def equal(found, expected, what):
    require(found == expected, f'{what}: {found!r}, of local files {expected!r}')


def check_stream(programs, server, local, folder):
    """The same stream as of local files, by a pattern and by a list; and where a run went on from a state."""
    of_local = folder / 'local.hashes'
    expected = programs.bench(local / 'data/*/part-*.tfrecord', {}, BATCHES, '--hash-log', of_local)
    if server.scheme == 'http':
        names = [f'data/{name}/part-{{0..{last}}}.tfrecord' for name, last in (('a', 3), ('b', 5))]
        listed = [server.url(name.replace(f'{{0..{last}}}', str(i))) for name, last in zip(names, (3, 5))
                  for i in range(last + 1)]
        server.put('part.txt', '\n'.join(listed).encode())
        remote = '@' + server.url('part.txt')
        equal(programs.verify([server.url(name) for name in names], server.environment())['records'],
              programs.verify([local / 'data/*/part-*'], {})['records'], 'records by numbers in braces')
    else:
        remote = server.url('data/*/part-*.tfrecord')
        paths = sorted(str(path.relative_to(local)) for path in local.glob('data/*/part-*.tfrecord'))
        server.put('list.txt', '\n'.join(['# a list', '', *map(server.url, paths)]).encode())
        equal(programs.bench('@' + server.url('list.txt'), server.environment())['stream_hash'],
              expected['stream_hash'], 'stream of a list')
    found = programs.bench(remote, server.environment())
    equal(found['stream_hash'], expected['stream_hash'], 'stream')
    equal(found['shards']['files'], expected['shards']['files'], 'shards')

    state, hashes = folder / 'state', folder / 'remote.hashes'
    programs.bench(remote, server.environment(), BATCHES // 3, '--state', state, '--state-every', STATE_EVERY,
                   '--hash-log', hashes)
    require(state.exists(), 'no state was written')
    programs.bench(remote, server.environment(), BATCHES, '--resume', state, '--hash-log', hashes)
    lines = hashes.read_text().splitlines()
    equal(lines, of_local.read_text().splitlines(), 'hashes of batches around a resumed state')
    require(len(lines) == BATCHES, f'{len(lines)} batches of two runs: the second one began elsewhere')


def check_odd_keys(programs, server, local):
    """Names of which each is found by itself, by a pattern, and read as it stands."""
    content = {f'odd keys/{key}': shards.shard(i, 20) for i, key in enumerate(shards.ODD_NAMES)}
    server.put_all(content.items())
    for key, shard in content.items():
        write(local / key, shard)
    expected = programs.verify([local / 'odd keys/*.tfrecord'], {})
    for key in content:
        found = programs.verify([server.url(key)], server.environment())
        equal((found['records'], found['shards'][0]['shard']), (20, server.url(key)), key)
    if server.scheme != 'http':
        found = programs.verify([server.url('odd keys/*.tfrecord')], server.environment())
        equal([shard['shard'] for shard in found['shards']],
              [server.url(os.path.relpath(shard['shard'], local)) for shard in expected['shards']], 'odd keys listed')
        equal(programs.bench(server.url('odd keys/*.tfrecord'), server.environment(), 9)['stream_hash'],
              programs.bench(local / 'odd keys/*.tfrecord', {}, 9)['stream_hash'], 'stream of odd keys')


def check_pages(programs, server):
    """A listing of more keys than a page has, of which the pattern takes some."""
    one = shards.framed(b'one')
    server.put_all((f'many/{number:05}.{"tfrecord" if number % 3 else "txt"}', one) for number in range(PAGED))
    found = programs.verify([server.url('many/*.tfrecord')], server.environment())
    equal(found['records'], sum(1 for number in range(PAGED) if number % 3), 'records of many objects')


def check_errors(programs, server, folder):
    """Of one object by its name, which a list has, and of a pattern."""
    def named(url):
        (folder / 'one.txt').write_text(url)
        return f"@{folder / 'one.txt'}"
    missing = server.url('data/missing.tfrecord')
    programs.error(named(missing), server.environment(), missing, '404')
    if server.scheme == 'http':
        return
    of_other = f'{server.scheme}://no-such-bucket/part'
    programs.error(named(of_other), server.environment(), of_other, '404')
    programs.error(of_other + '-*', server.environment(), of_other + '-*')
    programs.error(server.url('data/nothing-*'), server.environment(), server.url('data/nothing-*'), 'no file matches')
    if server.scheme == 's3' and server.checks_signatures:
        wrong = {**server.environment(), 'AWS_SECRET_ACCESS_KEY': 'another-key'}
        unsigned = {**server.environment(), 'AWS_NO_SIGN_REQUEST': 'YES'}
        for shards_of in (named(server.url('data/a/part-3.tfrecord')), server.url('data/a/*')):
            url = shards_of if shards_of.startswith('s3') else server.url('data/a/part-3.tfrecord')
            programs.error(shards_of, wrong, url, '403', 'SignatureDoesNotMatch',
                           'credentials: environment', server.endpoint)
            programs.error(shards_of, unsigned, url, 'unsigned', server.endpoint)


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('server', choices=sorted(servers.SERVERS))
    parser.add_argument('--bench', required=True)
    parser.add_argument('--verify', required=True)
    parser.add_argument('--venv', required=True)
    parser.add_argument('--writers', nargs='*', default=[], help='programs that write (writing.py); none: only reading')
    options = parser.parse_args()
    venv = os.environ.get('MILLRACE_PEERS') or options.venv
    if not os.path.exists(os.path.join(venv, 'bin/python3')):
        print(f'SKIPPED: {options.server} is not installed: there is no {venv}. tests/peers/setup.sh {options.venv} '
              'makes it; MILLRACE_PEERS names another one.')
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix='millrace-peers-') as name:
        folder = pathlib.Path(name)
        for below in ('server', 'home', 'local', 'out'):
            (folder / below).mkdir()
        programs = Programs(options, folder / 'home')
        with servers.SERVERS[options.server](os.path.abspath(venv), folder / 'server') as server:
            content = {key: shard for key, shard in shards.data_set().items() if shard or server.takes_empty_objects}
            server.put_all(content.items())
            for key, shard in content.items():
                write(folder / 'local' / key, shard)
            check_stream(programs, server, folder / 'local', folder / 'out')
            check_odd_keys(programs, server, folder / 'local')
            check_errors(programs, server, folder / 'out')
            if server.has_pages:
                check_pages(programs, server)
            if server.takes_writing and options.writers:
                paths = {os.path.basename(path): path for path in options.writers}
                (folder / 'written').mkdir()
                writing.Writing(programs, paths, server, folder / 'written').check()
    print(f'{options.server}: all is read{" and written" if options.writers else ""} as from local files')
    return 0


if __name__ == '__main__':
    sys.exit(main())
