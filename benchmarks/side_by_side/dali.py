"""NVIDIA DALI on the CPU: the workload mlm without the mask, which it has no operator for, jpeg, and jpeg_scaled, which
it decodes at full size. Prints one JSON object.

usage: dali.py SETS WORKLOAD SECONDS
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
from nvidia.dali import fn, pipeline_def, types

WARMUP_SECONDS = 3
SETS, WORKLOAD, SECONDS = sys.argv[1], sys.argv[2], float(sys.argv[3])
BATCH = 128 if WORKLOAD == "mlm" else 64
FOLDER = "jpeg_large" if WORKLOAD == "jpeg_scaled" else WORKLOAD


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


def rows_of(features, shuffled):
    shards = sorted(glob.glob(f"{SETS}/{FOLDER}/*.tfrecord"))
    return fn.readers.tfrecord(path=shards, index_path=[write_index(shard) for shard in shards], random_shuffle=True,
                               initial_fill=shuffled, features=features)


def masked_language_model():
    spec = {key: tfrecord.FixedLenFeature([512], tfrecord.int64, 0) for key in ("input_ids", "attention_mask")}
    rows = rows_of(spec, shuffled=16384)
    return rows["input_ids"], rows["attention_mask"]


def pictures():
    """Random resized crops, of which only the window is decoded."""
    rows = rows_of({"image/encoded": tfrecord.FixedLenFeature((), tfrecord.string, ""),
                    "image/class/label": tfrecord.FixedLenFeature([1], tfrecord.int64, -1)}, shuffled=1024)
    pixels = fn.decoders.image_random_crop(rows["image/encoded"], device="cpu", output_type=types.RGB,
                                           random_area=[0.08, 1], random_aspect_ratio=[3 / 4, 4 / 3], num_attempts=10)
    pixels = fn.resize(pixels, size=[224, 224], dtype=types.FLOAT, interp_type=types.INTERP_LINEAR,
                       antialias=False)
    pixels = fn.crop_mirror_normalize(pixels, dtype=types.FLOAT, output_layout="HWC", mirror=fn.random.coin_flip(),
                                      mean=[123.675, 116.28, 103.53], std=[58.395, 57.12, 57.375])
    return pixels, rows["image/class/label"]


def main():
    make = pipeline_def(batch_size=BATCH, num_threads=len(os.sched_getaffinity(0)), device_id=None)
    # Before the clock starts: DALI's users have these from tfrecord2idx, beside their data.
    for shard in glob.glob(f"{SETS}/{FOLDER}/*.tfrecord"):
        write_index(shard)
    begin = time.monotonic()
    pipeline = make(masked_language_model if WORKLOAD == "mlm" else pictures)()
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
