"""tf.data's save, load, cache with a file and snapshot, as saved_elements_bench does ours. Prints one JSON object.

usage: tf_data_saved.py FOLDER ELEMENTS BATCH
"""
import json
import os
import shutil
import sys
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf  # noqa: E402

AUTO = tf.data.AUTOTUNE
IDS = 512
FOLDER, ELEMENTS, BATCH = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])


def rows():
    return tf.data.Dataset.range(ELEMENTS).map(lambda i: {"ids": i + tf.range(IDS, dtype=tf.int64)},
                                               num_parallel_calls=AUTO, deterministic=True)


def check(dataset):
    row = 0
    for batch in dataset.batch(BATCH, num_parallel_calls=AUTO, deterministic=True).prefetch(AUTO):
        ids = batch["ids"]
        row += ids.shape[0]
        assert int(ids[-1, -1]) == row - 1 + IDS - 1, row
    assert row == ELEMENTS, row


seconds = {}


def measure(name, work):
    begin = time.perf_counter()
    work()
    seconds[name] = time.perf_counter() - begin


shutil.rmtree(FOLDER, ignore_errors=True)
os.makedirs(FOLDER)
measure("generate", lambda: check(rows()))
measure("save", lambda: rows().save(f"{FOLDER}/saved"))
measure("load", lambda: check(tf.data.Dataset.load(f"{FOLDER}/saved")))
for name, kept in (("cache", lambda: rows().cache(f"{FOLDER}/cache")),
                   ("snapshot", lambda: rows().snapshot(f"{FOLDER}/snapshot"))):
    measure(f"{name}_write", lambda: check(kept()))
    measure(f"{name}_read", lambda: check(kept()))
shutil.rmtree(FOLDER)
print(json.dumps(seconds))
