"""NVIDIA DALI on the CPU: the workload mlm without the mask, which it has no operator for. Prints one JSON object.

usage: dali.py SETS SECONDS
"""
import glob
import importlib.metadata
import json
import os
import resource
import struct
import sys
import time

import nvidia.dali.tfrecord as tfrecord
from nvidia.dali import fn, pipeline_def

WARMUP_SECONDS = 3
BATCH = 128
SETS, SECONDS = sys.argv[1], float(sys.argv[2])


def write_index(shard):
    """DALI wants the offset and the size of each record in a text file; it is made once."""
    path = f"{SETS}/dali_index/{os.path.basename(shard)}.idx"
    if os.path.exists(path):
        return path
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(shard, "rb") as records, open(path + ".part", "w", encoding="ascii") as index:
        offset = 0
        while len(header := records.read(12)) == 12:
            size = struct.unpack("<Q", header[:8])[0] + 16
            index.write(f"{offset} {size}\n")
            offset += size
            records.seek(offset)
    os.rename(path + ".part", path)
    return path


def main():
    shards = sorted(glob.glob(f"{SETS}/mlm/*.tfrecord"))
    indexes = [write_index(shard) for shard in shards]

    @pipeline_def(batch_size=BATCH, num_threads=len(os.sched_getaffinity(0)), device_id=None)
    def mlm():
        spec = {key: tfrecord.FixedLenFeature([512], tfrecord.int64, 0) for key in ("input_ids", "attention_mask")}
        rows = fn.readers.tfrecord(path=shards, index_path=indexes, random_shuffle=True, initial_fill=16384,
                                   features=spec)
        return rows["input_ids"], rows["attention_mask"]

    begin = time.monotonic()
    pipeline = mlm()
    pipeline.build()
    pipeline.run()
    first_batch = time.monotonic() - begin
    while time.monotonic() < begin + first_batch + WARMUP_SECONDS:
        pipeline.run()
    cpu, wall, count = time.process_time(), time.monotonic(), 0
    while time.monotonic() < wall + SECONDS:
        pipeline.run()
        count += BATCH
    cpu, wall = time.process_time() - cpu, time.monotonic() - wall
    print(json.dumps({
        "version": importlib.metadata.version("nvidia-dali-cuda120"),
        "us_wall_per_record": 1e6 * wall / count,
        "us_cpu_per_record": 1e6 * cpu / count,
        "first_batch_ms": 1e3 * first_batch,
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }))


main()
