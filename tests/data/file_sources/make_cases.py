"""Writes the cases of this folder with TensorFlow's own output: python make_cases.py (README.md says what is in them)."""

import json
import os
import random
import struct
import tempfile
import zlib

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf  # noqa: E402

FOLDER = os.path.dirname(os.path.abspath(__file__))
SCRATCH = tempfile.mkdtemp()


def text(data):
    return data.decode("latin-1")


def written(data):
    path = os.path.join(SCRATCH, "file")
    with open(path, "wb") as file:
        file.write(data)
    return path


def run(dataset, value):
    """The elements before the first error, and whether there is one."""
    elements = []
    try:
        for element in dataset.as_numpy_iterator():
            elements.append(value(element))
    except tf.errors.OpError:
        return {"expect": elements, "error": True}
    return {"expect": elements, "error": False}


def write(name, cases):
    with open(os.path.join(FOLDER, name), "w") as file:
        for case in cases:
            file.write(json.dumps(case) + "\n")
    print(name, len(cases), sum(case["error"] for case in cases), "errors")


def text_lines():
    contents = [b"", b"\n", b"a", b"a\n", b"a\r\nb\r\n", b"a\rb\nc", b"\r", b"\r\n", b"a\r", b"\n\nx\n\n", b"a\n\r",
                b"a\r\r\nb", b"\0\n\xff", b"\xef\xbb\xbfa\n", b"x" * 300 + b"\n" + b"\r" * 300 + b"\ny"]
    rng = random.Random(1)
    for _ in range(60):
        contents.append(bytes(rng.choice(b"ab\r\n\n") for _ in range(rng.randint(1, 14))))
    return [{"content": text(content), **run(tf.data.TextLineDataset(written(content)), text)} for content in contents]


def fixed_length():
    cases = []
    rng = random.Random(2)
    kinds = [(b"HHaabbF", 2, 2, 1), (b"HHaabbcF", 2, 2, 1), (b"HHF", 2, 2, 1), (b"HF", 2, 2, 1), (b"", 2, 2, 1),
             (b"", 2, 0, 0), (b"abcde", 2, 0, 0), (b"HH", 2, 2, 1), (b"H", 1, 2, 0)]
    for _ in range(40):
        kinds.append((bytes(rng.randint(0, 255) for _ in range(rng.randint(0, 24))), rng.randint(1, 5),
                      rng.randint(0, 3), rng.randint(0, 3)))
    for content, record, header, footer in kinds:
        for compression in ["", "ZLIB"]:
            data = zlib.compress(content) if compression else content
            dataset = tf.data.FixedLengthRecordDataset(written(data), record, header, footer,
                                                       compression_type=compression)
            case = {"content": text(content), "record_bytes": record, "header_bytes": header,
                    "footer_bytes": footer, "compression": compression, **run(dataset, text)}
            # The size of the body wraps around in TensorFlow, and fits by chance.
            if len(content) >= header + footer or case["error"]:
                cases.append(case)
    return cases


TYPES = {"int64": tf.int64, "float": tf.float32, "bytes": tf.string}


def csv_value(element):
    values = []
    for value in element:
        if isinstance(value, bytes):
            values.append(text(value))
        elif value.dtype.kind == "f":
            values.append(struct.pack(">f", value).hex())
        else:
            values.append(int(value))
    return values


def csv_case(content, types, defaults=None, **options):
    """`defaults`: by column, None where a value is needed."""
    defaults = defaults or [None] * len(types)
    records = [TYPES[kind] if default is None else tf.constant([default], TYPES[kind])
               for kind, default in zip(types, defaults)]
    dataset = tf.data.experimental.CsvDataset(written(content), records, **options)
    return {"content": text(content), "types": types, "defaults": defaults, **options, **run(dataset, csv_value)}


def csv():
    i, f, b = "int64", "float", "bytes"
    cases = [
        csv_case(b'1,a,2.5\n2,"b,c",3\n', [i, b, f]),
        csv_case(b'1,"x""y"\n2,"new\nline"\r\n3,\r\n', [i, b], [None, ""]),
        csv_case(b'1,"x\r\ny"\n', [i, b]),
        csv_case(b"1,\n", [i, b]),
        csv_case(b",a\n", [i, b], [7, None]),
        csv_case(b"h1,h2\n1,a\n", [i, b], header=True),
        csv_case(b'"h\n2",x\n1,a\n', [i, b], header=True),
        csv_case(b"h\n", [i], header=True),
        csv_case(b"", [i], header=True),
        csv_case(b"", [i, b]),
        csv_case(b"1,a,3\n4,b,6\n", [i, i], select_cols=[0, 2]),
        csv_case(b"1,2\n3\n", [i], select_cols=[0]),
        csv_case(b"1,2\n3\n", [i], select_cols=[1]),
        csv_case(b"1,2\n3\n", [i], [9], select_cols=[1]),
        csv_case(b"1,2,3,4\n", [i], select_cols=[1]),
        csv_case(b'1,2,a"b\n', [i], select_cols=[1]),
        csv_case(b'1,"2"x,3\n4,5,6\n', [i], select_cols=[0]),
        csv_case(b"1,a\n2\n3,c\n", [i, b]),
        csv_case(b"1,a,b\n", [i, b]),
        csv_case(b"1,a,\n", [i, b]),
        csv_case(b"1,a,\n", [i, b, i], [None, None, 5]),
        csv_case(b"1;a\n", [i, b], field_delim=";"),
        csv_case(b"1\ta\n", [i, b], field_delim="\t"),
        csv_case(b"1,NA\n", [i, f], na_value="NA"),
        csv_case(b'1,NA\n2,"NA"\n3,\n', [i, f], [None, 0.5], na_value="NA"),
        csv_case(b"1,\n", [i, b], [None, "d"], na_value="NA"),
        csv_case(b'1,a"b\n', [i, b]),
        csv_case(b'1,"a"b\n', [i, b]),
        csv_case(b'1,"ab\n', [i, b]),
        csv_case(b'1,a"b\n2,"c"\n', [i, b], use_quote_delim=False),
        csv_case(b'1,"a,b"\n', [i, b, b], use_quote_delim=False),
        csv_case(b"\n1,a\n", [i, b]),
        csv_case(b"\n\n", [b], ["x"]),
        csv_case(b"a\n\nb", [b], ["x"]),
        csv_case(b"a\n\nb\n", [b]),
        csv_case(b"1,a\r2,b\r", [i, b]),
        csv_case(b"1,a\r\n\r\n2,b", [i, b]),
        csv_case(b"1,a\rb\n", [i, b]),
        csv_case(b'1, "a"\n', [i, b]),
        csv_case(b'"1","a"\n', [i, b]),
        csv_case(b'"",""\n', [i, b], [3, "d"]),
        csv_case(b'1,"a"', [i, b]),
        csv_case(b"1,", [i, b], [None, "d"]),
        csv_case(b"1,\r", [i, b], [None, "d"]),
        csv_case(b'1,"a"\r', [i, b]),
        csv_case(b"\xef\xbb\xbf1,a\n", [b, b]),
        csv_case(b"1\n2\nx\n4\n", [i]),
    ]
    for number in [b"0", b"-0", b" 1", b"1 ", b"\t1", b"1.5", b"99999999999999999999", b"9223372036854775807",
                   b"-9223372036854775808", b"9223372036854775808", b"+5", b"++5", b"0x10", b"1e3", b"1_000", b"--1",
                   b"-", b"+", b" ", b"007", b"1 2", b"\x0b1", b"1\x0c"]:
        cases.append(csv_case(number + b",x\n", [i, b]))
    for number in [b"0", b"-0.0", b" 1.5 ", b".5", b"5.", b"+1", b"1e3", b"1E-3", b"1e50", b"-1e-60", b"1e39", b"3.4028236e38",
                   b"1e-45", b"7e-46", b"inf", b"-inf", b"nan", b"NaN", b"-nan", b"Infinity", b"INF", b"abc", b"1.5f", b"0x1p3", b"0x10", b"1,5",
                   b"0.1", b"16777217", b"1.00000005960464477539", b".", b"-", b"e5", b"1e", b"1 2", b"--1", b"nan(1)", b"infinit",
                   b"0.1000000014901161193847656250000000000000000000001"]:
        cases.append(csv_case(b"x," + number + b"\n", [b, f]))
    rng = random.Random(3)
    pieces = [b"a", b"1", b"", b'"x"', b'"x""y"', b'"p\nq"', b'"r,s"', b"7", b"-3", b"2.5", b'b"c', b'"d"e', b" ", b'""']
    while len(cases) < 330:
        columns = rng.randint(1, 3)
        weights = [4] * 10 + [1] * 4
        rows = []
        for _ in range(rng.randint(1, 4)):
            wrong = 0 if rng.random() < 0.85 else rng.choice([-1, 1])
            fields = rng.choices(pieces, weights, k=max(1, columns + wrong))
            rows.append(b",".join(fields) + rng.choice([b"\n", b"\n", b"\r\n", b"\r"]))
        content = b"".join(rows)
        if rng.random() < 0.3:
            content = content[:rng.randint(0, len(content))]
        types = [rng.choices(["int64", "bytes", "float"], [1, 8, 1])[0] for _ in range(columns)]
        defaults = [None if rng.random() < 0.3 else {"int64": 9, "float": 0.25, "bytes": "d"}[kind] for kind in types]
        options = {}
        if rng.random() < 0.2:
            options["header"] = True
        if rng.random() < 0.2:
            options["na_value"] = "a"
        if rng.random() < 0.1:
            options["use_quote_delim"] = False
        if rng.random() < 0.25:
            options["select_cols"] = sorted(rng.sample(range(columns + 1), columns))
        cases.append(csv_case(content, types, defaults, **options))
    return cases


write("text_lines.jsonl", text_lines())
write("fixed_length.jsonl", fixed_length())
write("csv.jsonl", csv())
