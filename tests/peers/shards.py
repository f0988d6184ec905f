"""Shards of the tests: TFRecords without a library, few different records, whose checksums are made once."""
import functools
import gzip
import struct

ODD_NAMES = ['blank and +.tfrecord', 'percent %41 % and =.tfrecord', 'ü=é & ~.tfrecord',
             "quote ' ; , @ ! $ ().tfrecord", 'hash # and question?.tfrecord']


@functools.cache
def crc_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82f63b78 if byte & 1 else 0)
        table.append(byte)
    return table


def masked_crc(data):
    crc, table = 0xffffffff, crc_table()
    for byte in data:
        crc = table[(crc ^ byte) & 0xff] ^ crc >> 8
    crc ^= 0xffffffff
    return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff


@functools.cache
def framed(data):
    length = struct.pack('<Q', len(data))
    return length + struct.pack('<I', masked_crc(length)) + data + struct.pack('<I', masked_crc(data))


@functools.cache
def record(number):
    """One of 64, of 0 to 20 KB."""
    return bytes((number * 31 + i * 7 + (i >> 8)) & 0xff for i in range(number % 64 * number % 64 * 320))


def shard(first, count):
    return b''.join(framed(record((first + i * i) % 64)) for i in range(count))


def data_set():
    """Key -> bytes: empty, small and large shards, one of them gzip, in two folders."""
    content = {f'data/{folder}/part-{number}.tfrecord': shard(10 * number, count)
               for folder in ('a', 'b') for number, count in enumerate([0, 1, 12, 300])}
    content['data/b/part-4.tfrecord'] = shard(3, 2500)
    content['data/b/part-5.tfrecord'] = gzip.compress(shard(5, 200), 1, mtime=0)
    content['data/other.tfrecord'] = shard(1, 7)
    return content
