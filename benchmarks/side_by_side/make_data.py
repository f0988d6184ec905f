"""Writes the data sets that every side reads, with TensorFlow's own writer.

usage: make_data.py OUT [SCALE [NAME...]]

The same bytes each time (PCG64 with a fixed seed). SCALE multiplies the number of shards; 1 gives about 3.9 GB. With
names of sets of pictures (jpeg, jpeg_large) these only.
"""
import os
import pathlib
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

SEED = 20261121
random = np.random.default_rng(SEED)


def int64s(values):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def floats(values):
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))


def blobs(values):
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))


def example(**features):
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def token_ids(count, vocabulary):
    """Ids whose logarithm is uniform, as the ranks of words in a text nearly are; the first five are special tokens."""
    ranks = np.exp(random.random(count) * np.log(vocabulary - 5)).astype(np.int64)
    return np.minimum(ranks + 4, vocabulary - 1)


def masked_language_model():
    """512 ids that begin with 0, sentences that end with 1, and a mask of ones."""
    ids = token_ids(512, 25000)
    ids[0] = 0
    sentence = random.integers(10, 120)
    ids[sentence::sentence] = 1
    return example(input_ids=int64s(ids), attention_mask=int64s(np.ones(512, np.int64)))


def question_and_answer():
    """Two padded texts with their masks, and 30 labels."""
    features = {}
    for name, room, least in (("question", 416, 60), ("answer", 480, 40)):
        length = random.integers(least, room)
        ids = np.ones(room, np.int64)
        ids[:length] = token_ids(length, 50265)
        features[f"input_ids_{name}"] = int64s(ids)
        features[f"input_mask_{name}"] = int64s((np.arange(room) < length).astype(np.int64))
    return example(labels=floats(random.random(30)), **features)


def text_of_any_length():
    length = int(np.clip(random.lognormal(4.3, 0.8), 4, 1024))
    return example(tokens=int64s(token_ids(length, 32000)), label=int64s([int(random.integers(0, 10))]))


def pair_of_images():
    def image(side):
        return tf.io.serialize_tensor(tf.constant(random.random((side, side, 3), dtype=np.float32) * 255)).numpy()

    return example(low_res_image=blobs([image(128)]), high_res_image=blobs([image(512)]))


class Pictures:
    """Photographs as far as a decoder can tell: noise whose amplitude falls with the frequency, colours that are alike,
    edges, and the grain of a sensor. `count` of them, one after the other again and again; of 500 x 375 pixels they
    have about 125 KB.
    """

    QUALITY = 92

    def __init__(self, height, width, count):
        self.height, self.width, self.count = height, width, count
        # Numbers of their own: the sets are the same with and without the others.
        self.random = np.random.default_rng([SEED, height, width])
        frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None, :])
        self.amplitude = np.maximum(frequency, 1 / width) ** -1.1
        self.encoded = []
        self.next = 0

    def noise(self):
        phase = np.exp(2j * np.pi * self.random.random(self.amplitude.shape))
        return np.fft.irfft2(self.amplitude * phase, s=(self.height, self.width))

    def draw(self):
        grey = self.noise()
        pixels = np.stack([grey, *(0.6 * grey + 0.4 * self.noise() for _ in range(2))], axis=-1)
        pixels = 118 + 50 * (pixels - pixels.mean()) / pixels.std()
        pixels += self.random.normal(0, 9, (self.height, self.width, 1))
        for _ in range(6):
            top, left = self.random.integers(0, self.height - 40), self.random.integers(0, self.width - 40)
            height, width = self.random.integers(20, 160), self.random.integers(20, 200)
            pixels[top:top + height, left:left + width] += self.random.normal(0, 35, 3)
        return np.clip(pixels, 0, 255).astype(np.uint8)

    def record(self):
        number = self.next % self.count
        self.next += 1
        if number == len(self.encoded):
            self.encoded.append(tf.io.encode_jpeg(self.draw(), quality=self.QUALITY).numpy())
        return example(**{"image/encoded": blobs([self.encoded[number]]), "image/class/label": int64s([number])})


def raw_records(size):
    pool = random.bytes(size * 64)

    def record():
        begin = int(random.integers(0, size * 63))
        return pool[begin:begin + size]

    return record


def write(folder, name, shards, records, make, compression=""):
    target = folder / name
    target.mkdir(parents=True)
    for shard in range(shards):
        with tf.io.TFRecordWriter(str(target / f"{name}-{shard:03d}-{records}.tfrecord"), options=compression) as writer:
            for _ in range(records):
                writer.write(make())
        print(f"\r{name}: {shard + 1} of {shards} shards", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)


def main():
    folder = pathlib.Path(sys.argv[1])
    scale = float(sys.argv[2]) if len(sys.argv) > 2 else 1.0

    def scaled(shards):
        return max(1, int(shards * scale))

    only = sys.argv[3:]
    unknown = [name for name in only if name not in ("jpeg", "jpeg_large")]
    if unknown:
        sys.exit(f"no set of pictures {', '.join(unknown)}; there are: jpeg, jpeg_large")
    if not only or "jpeg" in only:
        write(folder, "jpeg", scaled(16), 625, Pictures(375, 500, 1000).record)
    if not only or "jpeg_large" in only:
        write(folder, "jpeg_large", scaled(16), 64, Pictures(750, 1000, 128).record)
    if only:
        return
    write(folder, "mlm", scaled(64), 1000, masked_language_model)
    write(folder, "mlm_gz", scaled(16), 1000, masked_language_model, "GZIP")
    write(folder, "quest", scaled(8), 608, question_and_answer)
    write(folder, "tokens", scaled(32), 4000, text_of_any_length)
    for size, records in ((100, 50000), (1000, 20000), (10000, 3000), (100000, 300)):
        write(folder, f"raw{size}", scaled(16), records, raw_records(size))
    write(folder, "images", scaled(8), 24, pair_of_images)


main()
