#!/usr/bin/env python3
"""Bytes from an object store: Millrace against the AWS CRT, Arrow and s3fs, by the same server, in rounds.

usage: benchmarks/side_by_side/object_store.py --bench build/benchmarks/object_store_bench --latency-ms 50

The server is object_store_bench --serve; each side reads all shards in a process of its own. The peers are those that
this Python has: pip install s3torchconnectorclient pyarrow s3fs. Nobody looks for records; ours compares the ends of
each range with what they should be.
"""
import argparse
import concurrent.futures
import importlib
import importlib.util
import json
import os
import resource
import statistics
import subprocess
import sys
import time

BUCKET, PREFIX = "bench", "train/"
PART = 8 << 20
KEYS = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench", "AWS_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null"}


def in_threads(count, function, tasks):
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        return sum(pool.map(lambda task: function(*task), tasks))


def crt(endpoint):
    """As s3torchconnector reads, 16 objects at a time; the CRT splits them into parts."""
    from s3torchconnectorclient._mountpoint_s3_client import MountpointS3Client
    client = MountpointS3Client(region="us-east-1", user_agent_prefix="bench", throughput_target_gbps=10.0,
                                part_size=PART, unsigned=False, endpoint=endpoint, force_path_style=True)
    keys = [(entry.key, entry.size) for page in client.list_objects(BUCKET, PREFIX) for entry in page.object_info]
    return in_threads(16, lambda key, size: sum(len(part) for part in client.get_object(BUCKET, key)), keys)


def arrow(endpoint):
    """32 threads of 8 MiB."""
    import pyarrow
    from pyarrow import fs
    pyarrow.set_io_thread_count(32)
    store = fs.S3FileSystem(endpoint_override=endpoint.removeprefix("http://"), scheme="http", region="us-east-1",
                            access_key="bench", secret_key="bench")
    files = store.get_file_info(fs.FileSelector(f"{BUCKET}/{PREFIX}"))
    paths = [info.path for info in files]
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        opened = dict(zip(paths, pool.map(store.open_input_file, paths), strict=True))
    parts = [(opened[info.path], offset) for info in files for offset in range(0, info.size, PART)]
    return in_threads(32, lambda file, offset: len(file.read_at(PART, offset)), parts)


def s3fs(endpoint):
    """Its defaults, 16 files at a time."""
    import s3fs as package
    store = package.S3FileSystem(key="bench", secret="bench", endpoint_url=endpoint)

    def read(path):
        count = 0
        with store.open(path, "rb") as file:
            while piece := file.read(PART):
                count += len(piece)
        return count
    return in_threads(16, read, [(path,) for path in store.ls(f"{BUCKET}/{PREFIX}")])


# How it reads, its package, and what is imported before the clock starts.
PEERS = {"crt": (crt, "s3torchconnectorclient", "s3torchconnectorclient._mountpoint_s3_client"),
         "arrow": (arrow, "pyarrow", "pyarrow.fs"), "s3fs": (s3fs, "s3fs", "s3fs")}


def run_peer(name, endpoint):
    importlib.import_module(PEERS[name][2])
    begin, cpu = time.perf_counter(), time.process_time()
    count = PEERS[name][0](endpoint)
    print(json.dumps({"bytes": count, "seconds": time.perf_counter() - begin, "cpu_seconds": time.process_time() - cpu,
                      "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}), flush=True)
    os._exit(0)  # threads of the libraries would be waited for


def measure_peer(name, options):
    serving = subprocess.Popen([options.bench, "--serve", *rules(options)], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    try:
        endpoint = serving.stdout.readline().strip()
        done = subprocess.run([sys.executable, __file__, "--peer", name, endpoint], env={**os.environ, **KEYS},
                              stdout=subprocess.PIPE, text=True, check=True)
    finally:
        serving.stdin.close()
        serving.wait()
    measured = json.loads(done.stdout.splitlines()[-1])
    return {"MB/s": measured["bytes"] * 1e-6 / measured["seconds"],
            "CPU s/GB": measured["cpu_seconds"] / (measured["bytes"] * 1e-9),
            "peak MiB": measured["peak_mb"], "bytes": measured["bytes"]}


def measure_ours(options):
    done = subprocess.run([options.bench, "--parts", "bytes", "--csv", *rules(options)], stdout=subprocess.PIPE,
                          text=True, check=True)
    rows = [line.split(",") for line in done.stdout.splitlines()[1:]]
    return {row[2]: float(row[3]) for row in rows}


def rules(options):
    return ["--latency-ms", str(options.latency_ms), "--shards", str(options.shards), "--shard-mb",
            str(options.shard_mb), "--connection-mb", str(options.connection_mb), "--all-mb", str(options.all_mb)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", help="the program object_store_bench")
    parser.add_argument("--latency-ms", type=int, default=50)
    parser.add_argument("--connection-mb", type=float, default=60)
    parser.add_argument("--all-mb", type=float, default=400)
    parser.add_argument("--shards", type=int, default=64)
    parser.add_argument("--shard-mb", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peer", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        run_peer(*options.peer)
    if not options.bench:
        parser.error("--bench is missing")
    sides = {"Millrace": lambda: measure_ours(options)}
    for name, (_, package, _) in PEERS.items():
        if importlib.util.find_spec(package) is None:
            print(f"{name} is left out: this Python has no {package}", file=sys.stderr)
        else:
            sides[name] = lambda name=name: measure_peer(name, options)
    rounds = [{name: measure() for name, measure in sides.items()} for _ in range(options.rounds)]
    counts = {measured["bytes"] for found in rounds for measured in found.values() if "bytes" in measured}
    if len(counts) > 1:
        sys.exit(f"not all have read the same bytes: {counts}")
    print(f"{options.latency_ms} ms to the first byte, {options.connection_mb:g} MB/s a connection, "
          f"{options.all_mb:g} MB/s in all; medians of {options.rounds}\n")
    print("| | MB/s | CPU s/GB | peak MiB | Millrace's MB/s over it |\n|---|--:|--:|--:|--:|")
    for name in sides:
        figures = [statistics.median(found[name][figure] for found in rounds)
                   for figure in ("MB/s", "CPU s/GB", "peak MiB")]
        ratio = statistics.median(found["Millrace"]["MB/s"] / found[name]["MB/s"] for found in rounds)
        print(f"| {name} | {figures[0]:.0f} | {figures[1]:.2f} | {figures[2]:.0f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
