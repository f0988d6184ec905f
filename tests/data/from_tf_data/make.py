"""What TensorFlow gives for the Python of docs/from_tf_data.md: writes data/ and expected.json beside this file.

    python make.py    # needs tensorflow
"""
import json
import os
import re

import numpy as np
import tensorflow as tf

os.chdir(os.path.dirname(os.path.abspath(__file__)))
os.makedirs("data", exist_ok=True)


def write_files():
    number = 0
    for shard, lengths in enumerate([[1, 4, 2, 6, 3, 2, 1, 5], [3, 0, 2]]):
        with tf.io.TFRecordWriter(f"data/train-{shard}.tfrecord") as writer:
            for length in lengths:
                features = {
                    "id": tf.train.Feature(int64_list=tf.train.Int64List(value=[number])),
                    "tokens": tf.train.Feature(int64_list=tf.train.Int64List(value=range(10, 10 + length))),
                }
                example = tf.train.Example(features=tf.train.Features(feature=features))
                writer.write(example.SerializeToString(deterministic=True))
                number += 1
    with open("data/lines.txt", "wb") as file:
        file.write(b"title\nfirst line\n\nsecond line\r\nlast")
    with open("data/table.csv", "wb") as file:
        file.write(b'id,score,name\n1,0.25,one\n2,,"two, ""quoted"""\n3,4,\n')


def plain(value):
    value = value.numpy()
    shape = list(np.shape(value))
    flat = np.asarray(value).reshape(-1).tolist()
    return {"shape": shape, "values": [v.decode() if isinstance(v, bytes) else v for v in flat]}


write_files()
with open("../../../docs/from_tf_data.md", encoding="utf-8") as page:
    blocks = re.findall(r"```python\n(.*?)```", page.read(), re.S)
expected = []
for block in blocks:
    names = {"tf": tf, "np": np}
    exec(block, names)
    expected.append([{name: plain(value) for name, value in sorted(element.items())} for element in names["dataset"]])
with open("expected.json", "w", encoding="utf-8") as file:
    file.write("[\n" + ",\n".join(json.dumps(elements) for elements in expected) + "\n]\n")
