"""Writes with programs of Millrace to a server that others wrote, kills them, and compares with what they do locally."""
import json
import random
import signal
import subprocess
import time

LIMIT = 600  # seconds; only ends what would hang
PART = 8 << 20  # bytes of a part of a shard


def text_of(rows, seed=1):
    """Rows of words of letters."""
    drawn = random.Random(seed)
    words = [''.join(drawn.choice('abcdefgh') for _ in range(drawn.randint(1, 5))) for _ in range(200)]
    return '\n'.join(' '.join(drawn.choices(words, k=drawn.randint(5, 40))) for _ in range(rows)) + '\n'


class Writing:
    """A server and a local folder, into which the same programs write."""

    def __init__(self, programs, paths, server, folder):
        self.programs, self.paths, self.server, self.folder = programs, paths, server, folder
        self.temporary = folder / 'tmp'
        self.temporary.mkdir()
        (folder / 'text.txt').write_text(text_of(4000))

    def environment(self):
        return {**self.server.environment(), 'TMPDIR': str(self.temporary)}

    def places(self, name):
        return (self.folder / 'local' / name, self.server.url(f'written/{name}'))

    def run(self, program, arguments):
        run = self.programs.run(self.paths[program], arguments, self.environment())
        assert run.returncode == 0, f'{program} {arguments} exits with {run.returncode}: {run.stderr}'
        return run

    def same_shards(self, name, what):
        local, remote = self.places(name)
        found = [self.programs.bench(f'{place}/train/*.tfrecord', self.environment(), 50)['stream_hash']
                 for place in (local, remote)]
        assert found[0] == found[1], f'{what}: other records than in a local folder'

    def check_objects(self):
        """Single objects: a tokenizer, indexes, a state."""
        for out in self.places('mlm'):
            self.run('train_unigram', ['--text', self.folder / 'text.txt', '--vocab-size', 60, '--out', out])
        local = (self.folder / 'local/mlm/tokenizer.json').read_bytes()
        assert self.server.get('written/mlm/tokenizer.json') == local, 'the tokenizer is another one'

    def prepare(self, name, rows, records_per_shard):
        (self.folder / 'some.txt').write_text(text_of(rows, seed=rows))
        for out in self.places(name):
            self.run('prepare_tfrecord_shards',
                     ['--tokenizer', self.folder / 'local/mlm/tokenizer.json', '--text', self.folder / 'some.txt', '--out',
                      out, '--records-per-shard', records_per_shard, '--max-length', 32, '--rows-per-group', 100])

    def check_shards(self):
        """A set, a smaller one in its place, and one whose shards are sent in parts."""
        self.prepare('shards', 4000, 200)
        self.same_shards('shards', 'a set')
        self.prepare('shards', 1000, 100)
        self.same_shards('shards', 'a set in the place of another')
        self.prepare('large', 60000, 10 ** 6)
        self.same_shards('large', 'a set of large shards')
        largest = max(path.stat().st_size for path in (self.folder / 'local/large/train').iterdir())
        assert largest > 2 * PART, f'the largest shard has {largest} bytes'

    def training(self, out):
        shards = self.places('shards')[0 if out == self.places('run')[0] else 1]
        return ['--out', out, '--shards', shards, '--tokenizer', self.places('mlm')[0] / 'tokenizer.json', '--layers', 1,
                '--hidden', 16, '--heads', 2, '--max-length', 32, '--global-batch', 8, '--warmup-steps', 2,
                '--steps', 2000, '--checkpoint-every', 100, '--resume', 'last']

    def check_run(self):
        """A training that is killed, and gone on with: the weights of a local one."""
        local, remote = self.places('run')
        self.run('train_mlm', self.training(local))
        environment = {'HOME': str(self.folder), 'PATH': '/usr/bin:/bin', 'LANG': 'C.UTF-8', **self.environment()}
        process = subprocess.Popen([self.paths['train_mlm'], *map(str, self.training(remote))],
                                   env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        end = time.monotonic() + LIMIT
        while self.server.get('written/run/COMMIT') is None and process.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        _, said = process.communicate()
        assert process.returncode == -signal.SIGKILL, f'the training ended by itself: {said.decode()}'
        knows = 'does not look at If-None-Match' not in said.decode()
        assert knows == self.server.knows_conditions, f'conditions: {said.decode()}'
        again = self.run('train_mlm', self.training(remote))
        assert f'{remote}/model' in again.stdout, again.stdout
        expected = (local / 'model/model.safetensors').read_bytes()
        found = self.server.get(self.object_of('run', 'model/model.safetensors'))
        assert found == expected, 'the weights are others than those of a local run'
        assert self.server.get('written/run/LOCK') is None, 'the lock is still there'

    def object_of(self, folder, name):
        manifest = json.loads(self.server.get(f'written/{folder}/COMMIT'))
        [file] = [file for file in manifest['files'] if file['name'] == name]
        return f'written/{folder}/' + file.get('object', f'{manifest["id"]}/{name}')

    def check_leftovers(self):
        """What killed writers left is found and removed, and nothing else."""
        self.server.put('written/shards/20240101T000000Z-01234567/train/dataset-0-1.tfrecord', b'left')
        self.server.look_again()
        said = self.run('bucket_leftovers', [self.server.url('written'), '--json']).stdout
        assert '"objects":1,' in said, said
        self.run('bucket_leftovers', [self.server.url('written'), '--older-than', 0, '--remove'])
        assert '"objects":0,' in self.run('bucket_leftovers', [self.server.url('written'), '--older-than', 0, '--json']).stdout
        self.same_shards('shards', 'after the leftovers were removed')

    def check(self):
        self.server.look_again()
        self.check_objects()
        self.check_shards()
        self.check_run()
        self.check_leftovers()
