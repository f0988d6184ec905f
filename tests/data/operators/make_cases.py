"""Writes the cases of this folder with TensorFlow's own output: python make_cases.py (README.md says what is in them)."""

import json
import os
import random

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from tensorflow.core.framework import tensor_pb2  # noqa: E402

FOLDER = os.path.dirname(os.path.abspath(__file__))


def write(name, cases):
    with open(os.path.join(FOLDER, name), "w") as file:
        for case in cases:
            file.write(json.dumps(case) + "\n")
    print(name, len(cases))


def failing_at(values):
    """A function that fails for these numbers and gives others back."""
    def check(number):
        bad = tf.reduce_any(tf.equal(tf.constant(values, tf.int64), number)) if values else tf.constant(False)
        with tf.control_dependencies([tf.debugging.Assert(tf.logical_not(bad), ["bad"])]):
            return tf.identity(number)
    return check


def interleave_case(lengths, cycle_length, block_length, bad_inputs=(), bad_calls=(), bad_numbers=()):
    all_lengths = tf.constant(lengths, tf.int64)
    check_call = failing_at(list(bad_calls))
    check_number = failing_at(list(bad_numbers))

    def nested(k):
        begin = 100 * check_call(k)
        return tf.data.Dataset.range(begin, begin + all_lengths[k]).map(check_number)

    dataset = tf.data.Dataset.range(len(lengths)).map(failing_at(list(bad_inputs)))
    dataset = dataset.interleave(nested, cycle_length=cycle_length, block_length=block_length)
    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False
    expect = []
    iterator = iter(dataset.with_options(options))
    while True:
        try:
            expect.append(int(next(iterator)))
        except StopIteration:
            break
        except tf.errors.InvalidArgumentError:
            expect.append("error")
    return {"lengths": list(lengths), "cycle_length": cycle_length, "block_length": block_length,
            "bad_inputs": list(bad_inputs), "bad_calls": list(bad_calls), "bad_numbers": list(bad_numbers),
            "expect": expect}


def interleave():
    cases = [
        interleave_case([], 2, 1),
        interleave_case([0], 2, 1),
        interleave_case([0, 0, 0, 0, 0], 2, 3),
        interleave_case([3], 1, 1),
        interleave_case([3], 7, 2),
        interleave_case([2, 1], 40, 1),
        interleave_case([6] * 5, 2, 4),
        interleave_case([3, 1, 2], 2, 1),
        interleave_case([1, 5, 2, 3], 3, 2),
        interleave_case([0, 3, 0, 2, 0, 3], 2, 1),
        interleave_case([4, 4, 0, 0, 0, 4], 3, 2),
        interleave_case([5, 0, 1, 7, 2], 1, 3),
        interleave_case([5, 0, 1, 7, 2], 2, 100),
        interleave_case([3, 3, 3], 2, 2, bad_inputs=[0]),
        interleave_case([3, 3, 3], 2, 2, bad_inputs=[1]),
        interleave_case([3, 3, 3, 2, 4], 2, 2, bad_inputs=[1, 2, 4]),
        interleave_case([3, 3, 3], 2, 2, bad_calls=[0]),
        interleave_case([3, 3, 3, 2, 4], 3, 2, bad_calls=[1, 2]),
        interleave_case([3, 3, 3], 2, 2, bad_numbers=[0]),
        interleave_case([3, 3, 3], 2, 2, bad_numbers=[1, 2, 101, 201]),
        interleave_case([1, 1, 4], 2, 1, bad_numbers=[0, 100]),
        interleave_case([4, 4, 4, 4], 3, 2, bad_inputs=[1], bad_calls=[2], bad_numbers=[3, 300]),
    ]
    rng = random.Random(1)
    for i in range(80):
        lengths = [rng.choice([0, 0, 1, 2, 3, 5, 9]) for _ in range(rng.randint(0, 12))]

        def some(candidates):
            return sorted(c for c in candidates if i >= 30 and rng.random() < 0.15)

        bad_inputs = some(range(len(lengths)))
        bad_calls = some(k for k in range(len(lengths)) if k not in bad_inputs)
        bad_numbers = some(100 * k + j for k in range(len(lengths)) for j in range(lengths[k]))
        cases.append(interleave_case(lengths, rng.randint(1, 6), rng.randint(1, 4), bad_inputs, bad_calls, bad_numbers))
    return cases


def one_hot():
    cases = []
    for indices in [0, 2, 3, -1, [1, 0], [2, -1, 7, 1], [], [[0, 1], [2, 5]]]:
        for depth in [0, 1, 3]:
            for dtype, on, off in [("float32", 1, 0), ("float32", 2.5, -0.5), ("int64", 7, -3), ("int32", 1, 0)]:
                values = tf.one_hot(np.array(indices, np.int64), depth, tf.constant(on, dtype), tf.constant(off, dtype))
                cases.append({"indices": indices, "depth": depth, "dtype": dtype, "on_value": on, "off_value": off,
                              "shape": values.shape.as_list(), "values": values.numpy().reshape(-1).tolist()})
    return cases


def parsed(message, dtype):
    """What TensorFlow reads, as `dtype`."""
    proto = tensor_pb2.TensorProto.FromString(message)
    case = {"message": message.decode("latin-1"), "dtype": dtype}
    try:
        tensor = tf.io.parse_tensor(message, tf.dtypes.as_dtype(proto.dtype))
    except tf.errors.OpError:
        return {**case, "error": True}
    case.update(error=False, shape=tensor.shape.as_list())
    if dtype == "bytes":
        values = [value.decode("latin-1") for value in tf.reshape(tensor, [-1]).numpy().tolist()]
    elif dtype == "float32":
        values = tf.cast(tensor, tf.float32).numpy().reshape(-1).view(np.uint32).tolist()
    else:
        values = [int(value) for value in tf.reshape(tensor, [-1]).numpy().tolist()]
    return {**case, "values": values}


FLOATS = [0.0, -0.0, 1.0, -2.5, 0.1, 65504.0, 1e-7, 6.1e-5, float("inf"), float("-inf"), 3.1415926535, -1e-3]
KINDS = [
    # dtype, the list of values, the values
    ("float32", "float_val", FLOATS),
    ("float64", "double_val", FLOATS + [1e-300, 3.4028235e38, 16777217.0]),
    ("float16", "half_val", FLOATS),
    ("bfloat16", "half_val", FLOATS),
    ("int32", "int_val", [0, -1, 2**31 - 1, -2**31]),
    ("int16", "int_val", [0, -1, 2**15 - 1, -2**15]),
    ("int8", "int_val", [0, -1, 127, -128]),
    ("uint8", "int_val", [0, 1, 255]),
    ("uint16", "int_val", [0, 1, 65535]),
    ("uint32", "uint32_val", [0, 1, 2**32 - 1]),
    ("uint64", "uint64_val", [0, 1, 2**63 - 1]),
    ("int64", "int64_val", [0, -1, 2**63 - 1, -2**63]),
    ("bool", "bool_val", [True, False, True]),
    ("string", "string_val", [b"", b"a", b"\x00\xff" * 3]),
]


def parse_tensor():
    cases = []

    def add(message):
        name = tf.dtypes.as_dtype(tensor_pb2.TensorProto.FromString(message).dtype).name
        kind = "bytes" if name == "string" else "float32" if "float" in name else "int64"
        cases.append(parsed(message, kind))
        if name in ("int32", "int16", "int8", "uint8", "uint16", "bool"):
            cases.append(parsed(message, "int32"))

    for name, field, values in KINDS:
        dtype = tf.dtypes.as_dtype(name)
        array = np.array(values, object if name == "string" else dtype.as_numpy_dtype)
        add(tf.io.serialize_tensor(tf.constant(array, dtype)).numpy())
        add(tf.io.serialize_tensor(tf.constant(array[0], dtype)).numpy())
        add(tf.io.serialize_tensor(tf.reshape(tf.constant(array[:2], dtype), [2, 1])).numpy())
        # As lists: whole, too short, none, too long.
        listed = array.view(np.uint16).tolist() if field == "half_val" else array.tolist()
        for count in [len(listed), 2, 0]:
            for size in [len(listed), 1, 0]:
                proto = tensor_pb2.TensorProto(dtype=dtype.as_datatype_enum)
                proto.tensor_shape.dim.add(size=size)
                getattr(proto, field).extend(listed[:count])
                add(proto.SerializeToString(deterministic=True))
        # Content of another size.
        for content in [b"\x01", b"\x01" * 24]:
            proto = tensor_pb2.TensorProto(dtype=dtype.as_datatype_enum, tensor_content=content)
            proto.tensor_shape.dim.add(size=2)
            if name != "string":
                add(proto.SerializeToString(deterministic=True))
    # Values of a list that the type cuts off, and bits of every kind of half.
    for name, values in [("int8", [300, -300]), ("uint8", [300, -1]), ("int16", [70000, -70000]), ("uint16", [70000, -1])]:
        proto = tensor_pb2.TensorProto(dtype=tf.dtypes.as_dtype(name).as_datatype_enum, int_val=values)
        proto.tensor_shape.dim.add(size=2)
        add(proto.SerializeToString(deterministic=True))
    bits = [0x0001, 0x03ff, 0x0400, 0x7bff, 0x7c00, 0xfc00, 0x8001, 0x8000, 0x3555, 0xc248]
    for name in ["float16", "bfloat16"]:
        proto = tensor_pb2.TensorProto(dtype=tf.dtypes.as_dtype(name).as_datatype_enum, half_val=bits)
        proto.tensor_shape.dim.add(size=len(bits))
        add(proto.SerializeToString(deterministic=True))
    return cases


def span_noise():
    """The numbers of random_spans_noise_mask (t5/data/preprocessors.py), by the same operations."""
    cases = []
    for density, mean in [(0.15, 3.0), (0.5, 3.0), (0.15, 8.0), (0.25, 2.0), (0.45, 1.0), (0.1, 1.5), (0.3, 10.0)]:
        length = tf.range(2, 700)
        tokens = tf.cast(tf.round(tf.cast(length, tf.float32) * density), tf.int32)
        tokens = tf.minimum(tf.maximum(tokens, 1), length - 1)
        spans = tf.maximum(tf.cast(tf.round(tf.cast(tokens, tf.float32) / mean), tf.int32), 1)
        cases.append({"density": density, "mean": mean, "tokens": tokens.numpy().tolist(),
                      "spans": spans.numpy().tolist()})
    return cases


def resize():
    """tf.image.resize; float32 results as the shortest decimals that are them."""
    rng = np.random.default_rng(5)
    pairs = [
        # shape, size, dtype
        ((1, 1, 3), (3, 2), "float32"), ((1, 1, 1), (1, 1), "uint8"), ((2, 3, 1), (7, 5), "float32"),
        ((5, 7, 3), (5, 7), "uint8"), ((5, 7, 3), (3, 2), "uint8"), ((5, 7, 3), (11, 16), "float32"),
        ((8, 6, 4), (4, 3), "uint8"), ((8, 6, 4), (16, 12), "float32"), ((8, 6, 1), (4, 12), "int32"),
        ((6, 8, 2), (1, 1), "float32"), ((13, 9, 3), (6, 4), "float32"), ((13, 9, 3), (4, 13), "uint8"),
        ((9, 13, 1), (13, 4), "float32"), ((1, 9, 1), (4, 20), "float32"), ((9, 1, 5), (3, 3), "uint8"),
        ((10, 4, 3), (3, 9), "int32"), ((23, 31, 1), (16, 16), "uint8"), ((16, 16, 1), (23, 31), "float32"),
        ((40, 3, 1), (3, 1), "float32"), ((3, 3, 3), (1, 8), "uint8"), ((2, 6, 5, 3), (4, 8), "uint8"),
        ((3, 4, 4, 1), (3, 3), "float32"),
    ]
    cases = []
    for shape, size, dtype in pairs:
        if dtype == "float32":
            image = rng.integers(0, 10001, shape).astype(np.float32) / np.float32(10000)
        elif dtype == "uint8":
            image = rng.integers(0, 256, shape).astype(np.uint8)
        else:
            image = rng.integers(-1000, 100000, shape).astype(np.int32)
        for method in ["nearest", "bilinear", "bicubic", "area"]:
            for antialias in [False, True] if method in ("bilinear", "bicubic") else [False]:
                out = tf.image.resize(tf.constant(image), size, method=method, antialias=antialias).numpy()
                cases.append({"method": method, "antialias": antialias, "dtype": dtype, "shape": list(shape),
                              "size": list(size), "image": [float(str(x)) for x in image.reshape(-1)],
                              "gives": str(out.dtype), "values": [float(str(x)) for x in out.reshape(-1)]})
    return cases


write("interleave.jsonl", interleave())
write("one_hot.jsonl", one_hot())
write("parse_tensor.jsonl", parse_tensor())
write("span_noise.jsonl", span_noise())
write("resize.jsonl", resize())
