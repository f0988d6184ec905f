"""tf.data on one workload, as its guide says is best, in order. Prints one JSON object.

usage: tf_data.py SETS WORKLOAD SECONDS
"""
import glob
import json
import math
import os
import resource
import sys
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf  # noqa: E402

AUTO = tf.data.AUTOTUNE
WARMUP_SECONDS = 3
SETS, WORKLOAD, SECONDS = sys.argv[1], sys.argv[2], float(sys.argv[3])


def shards(name):
    return tf.data.Dataset.from_tensor_slices(sorted(glob.glob(f"{SETS}/{name}/*.tfrecord")))


def records(name, cycle_length=16, compression=""):
    return shards(name).interleave(lambda file: tf.data.TFRecordDataset(file, compression), cycle_length=cycle_length,
                                   block_length=1, num_parallel_calls=AUTO, deterministic=True)


def parsed(dataset, spec, then=lambda features: features):
    return dataset.map(lambda record: then(tf.io.parse_single_example(record, spec)), num_parallel_calls=AUTO,
                       deterministic=True)


def mask_tokens(batch):
    ids = tf.cast(batch["input_ids"], tf.int32)
    special = (batch["attention_mask"] == 0) | (ids == 0) | (ids == 1)
    chosen = (tf.random.uniform(tf.shape(ids)) < 0.15) & ~special
    labels = tf.where(chosen, ids, -100)
    masked = chosen & (tf.random.uniform(tf.shape(ids)) < 0.8)
    other = chosen & ~masked & (tf.random.uniform(tf.shape(ids)) < 0.5)
    random_ids = tf.random.uniform(tf.shape(ids), 0, 25000, tf.int32)
    ids = tf.where(masked, 4, tf.where(other, random_ids, ids))
    return {"input_ids": ids, "attention_mask": batch["attention_mask"], "labels": labels}


def mlm(examples):
    spec = {key: tf.io.FixedLenFeature([512], tf.int64) for key in ("input_ids", "attention_mask")}
    rows = examples.shuffle(16384).repeat().batch(128, drop_remainder=True)
    return rows.map(lambda batch: mask_tokens(tf.io.parse_example(batch, spec)), num_parallel_calls=AUTO,
                    deterministic=True)


def quest(cached):
    spec = {"labels": tf.io.FixedLenFeature([30], tf.float32)}
    for key, length in (("question", 416), ("answer", 480)):
        spec[f"input_ids_{key}"] = tf.io.FixedLenFeature([length], tf.int64)
        spec[f"input_mask_{key}"] = tf.io.FixedLenFeature([length], tf.int64)

    def cast(features):
        return {key: value if key == "labels" else tf.cast(value, tf.int32) for key, value in features.items()}

    rows = parsed(records("quest", cycle_length=4), spec, cast)
    if cached:
        rows = rows.cache()
    return rows.shuffle(2048).repeat().batch(64, drop_remainder=True)


def texts():
    spec = {"tokens": tf.io.RaggedFeature(tf.int64), "label": tf.io.FixedLenFeature([], tf.int64)}
    return parsed(records("tokens"), spec).repeat()


def bucket():
    return texts().bucket_by_sequence_length(lambda row: tf.shape(row["tokens"])[0], [32, 64, 128, 256, 512],
                                             [256, 256, 128, 64, 32, 16])


def images():
    spec = {key: tf.io.FixedLenFeature([], tf.string) for key in ("low_res_image", "high_res_image")}

    def decode(features):
        return {key: tf.ensure_shape(tf.io.parse_tensor(features[key], tf.float32), [side, side, 3])
                for key, side in (("low_res_image", 128), ("high_res_image", 512))}

    return parsed(records("images", cycle_length=8), spec, decode).repeat().batch(8, drop_remainder=True)


def random_window(shape):
    """RandomResizedCrop of torchvision, as the other sides draw it: [top, left, height, width]."""
    attempts, least_ratio, most_ratio = 10, 3 / 4, 4 / 3
    sides = tf.cast(shape[:2], tf.float32)
    areas = sides[0] * sides[1] * tf.random.uniform([attempts], 0.08, 1)
    ratios = tf.exp(tf.random.uniform([attempts], math.log(least_ratio), math.log(most_ratio)))
    sizes = tf.round(tf.sqrt(tf.stack([areas / ratios, areas * ratios], axis=1)))
    fits = tf.reduce_all((sizes >= 1) & (sizes <= sides), axis=1)
    # Where none fits, the largest in the centre.
    whole = tf.minimum(sides, tf.round(tf.stack([sides[1] / least_ratio, sides[0] * most_ratio])))
    any_fits = tf.reduce_any(fits)
    size = tf.where(any_fits, sizes[tf.argmax(fits)], whole)
    room = sides - size
    place = tf.where(any_fits, tf.floor(tf.random.uniform([2]) * (room + 1)), tf.floor(room / 2))
    return tf.cast(tf.concat([place, size], axis=0), tf.int32)


def pictures(name, scaled=False):
    """Random resized crops: only the window is decoded, with the pixels of libjpeg's accurate transform; if `scaled` at
    the least of 1/8, 1/4, 1/2 and 1 of its size at which no side is below 224, as our `least_side` has it.
    """
    side = 224
    spec = {"image/encoded": tf.io.FixedLenFeature([], tf.string),
            "image/class/label": tf.io.FixedLenFeature([], tf.int64)}

    def decoded(encoded, window, scale=1):
        window = tf.concat([window[:2] // scale, (window[2:] + scale - 1) // scale], axis=0)
        return tf.io.decode_and_crop_jpeg(encoded, window, channels=3, ratio=scale, dct_method="INTEGER_ACCURATE")

    def make(features):
        encoded = features["image/encoded"]
        window = random_window(tf.io.extract_jpeg_shape(encoded))
        if scaled:
            scales = [2, 4, 8]
            least = tf.reduce_min(window[2:])
            fitting = tf.reduce_sum(tf.cast((least + tf.constant(scales) - 1) // scales >= side, tf.int32))
            pixels = tf.switch_case(fitting, [lambda scale=scale: decoded(encoded, window, scale)
                                              for scale in (1, *scales)])
        else:
            pixels = decoded(encoded, window)
        pixels = tf.image.random_flip_left_right(tf.image.resize(pixels, [side, side]))
        pixels = (pixels - [123.675, 116.28, 103.53]) / [58.395, 57.12, 57.375]
        return {"image/encoded": pixels, "image/class/label": features["image/class/label"]}

    return parsed(records(name).shuffle(1024).repeat(), spec, make).batch(64, drop_remainder=True)


def noop():
    numbers = tf.data.Dataset.range(10**12)
    for _ in range(4):
        numbers = numbers.map(lambda number: number + 1)
    return numbers.batch(1024)


def read(name):
    return records(name).repeat().batch(16 if name == "raw100000" else 256, drop_remainder=True)


BUILD = {
    "mlm": lambda: mlm(records("mlm")),
    "mlm_parallel_reads": lambda: mlm(tf.data.TFRecordDataset(shards("mlm"), num_parallel_reads=AUTO)),
    "mlm_gz": lambda: mlm(records("mlm_gz", compression="GZIP")),
    "quest": lambda: quest(False),
    "quest_cached": lambda: quest(True),
    "bucket": bucket,
    "pad": lambda: texts().shuffle(4096).padded_batch(128),
    "images": images,
    "noop": noop,
    "jpeg": lambda: pictures("jpeg"),
    "jpeg_scaled": lambda: pictures("jpeg_large"),
    "jpeg_scaled_by_picture": lambda: pictures("jpeg_large", scaled=True),
}


def rows_of(batch):
    first = next(iter(batch.values())) if isinstance(batch, dict) else batch
    return int(first.shape[0])


def main():
    dataset = read(WORKLOAD) if WORKLOAD.startswith("raw") else BUILD[WORKLOAD]()
    begin = time.monotonic()
    batches = iter(dataset.prefetch(AUTO))
    next(batches)
    first_batch = time.monotonic() - begin
    while time.monotonic() < begin + first_batch + WARMUP_SECONDS:
        next(batches)
    cpu, wall, count = time.process_time(), time.monotonic(), 0
    while time.monotonic() < wall + SECONDS:
        count += rows_of(next(batches))
    cpu, wall = time.process_time() - cpu, time.monotonic() - wall
    print(json.dumps({
        "version": tf.__version__,
        "us_wall_per_record": 1e6 * wall / count,
        "us_cpu_per_record": 1e6 * cpu / count,
        "first_batch_ms": 1e3 * first_batch,
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }))


main()
