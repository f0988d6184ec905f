"""Reads the shards of prepare_quest and prepare_text_to_text, and gives their rows as the trainers take them."""
import struct

import numpy
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

LENGTH_BYTES, CRC_BYTES = 8, 4


def make_example_class():
    """tensorflow.Example; its map is a list of pairs on the wire."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="prepared_rows.proto", package="rows", syntax="proto3")

    def message(name, *fields):
        entry = file.message_type.add(name=name)
        for number, (key, kind, repeated) in enumerate(fields, 1):
            label = field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL
            if isinstance(kind, str):
                kind = {"type": field.TYPE_MESSAGE, "type_name": f".rows.{kind}"}
            else:
                kind = {"type": kind}
            entry.field.add(name=key, number=number, label=label, **kind)

    message("Bytes", ("value", field.TYPE_BYTES, True))
    message("Floats", ("value", field.TYPE_FLOAT, True))
    message("Ints", ("value", field.TYPE_INT64, True))
    message("Feature", ("bytes", "Bytes", False), ("floats", "Floats", False), ("ints", "Ints", False))
    message("Pair", ("key", field.TYPE_STRING, False), ("value", "Feature", False))
    message("Features", ("feature", "Pair", True))
    message("Example", ("features", "Features", False))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("rows.Example"))


def records(path):
    with open(path, "rb") as file:
        while head := file.read(LENGTH_BYTES + CRC_BYTES):
            length, = struct.unpack("<Q", head[:LENGTH_BYTES])
            yield file.read(length)
            file.read(CRC_BYTES)


def read_rows(path):
    """Each feature as an array [rows, values]; all rows have equally many values."""
    example_class = make_example_class()
    features = {}
    for record in records(path):
        for pair in example_class.FromString(record).features.feature:
            floats = pair.value.floats.value
            values = numpy.array(floats, numpy.float32) if floats else numpy.array(pair.value.ints.value, numpy.int64)
            features.setdefault(pair.key, []).append(values)
    return {key: numpy.stack(rows) for key, rows in features.items()}


def in_order(count, buffer, rng):
    """The numbers of the rows of an epoch, shuffled as tf.data and Millrace do; a buffer of 1 leaves their order."""
    held = list(range(min(buffer, count)))
    for row in range(buffer, count):
        i = int(rng.integers(buffer))
        yield held[i]
        held[i] = row
    rng.shuffle(held)
    yield from held


def batches(count, size, buffer, rng, across_epochs):
    """Numbers of rows for each batch, forever. `across_epochs`: a batch goes on with the next epoch's rows."""
    batch = []
    while True:
        for row in in_order(count, buffer, rng):
            batch.append(row)
            if len(batch) == size:
                yield batch
                batch = []
        if batch and not across_epochs:
            yield batch
            batch = []
