"""Records of event files, beside those of tensorboard's own writer."""

import io
import random
import tracemalloc

from tensorboard.summary.writer.record_writer import RecordWriter

from hpsearch.monitor.tensorboard import crc32c, record


def test_files_are_the_same_byte_for_byte():
    chance = random.Random(1)
    lengths = [4, 5, 7, 8, 9, 255, 256, 257, 1000, 6, 999, 1023, 1024, 1025, 1027, 1028, 2048]
    records = [chance.randbytes(length) for length in lengths] + [bytes(300), b"\xff" * 300]
    file = io.BytesIO()
    writer = RecordWriter(file)
    for data in records:
        writer.write(data)
    writer.flush()
    assert b"".join(map(record, records)) == file.getvalue()


def test_a_long_event_needs_little_memory():
    data = random.Random(2).randbytes(2**17 + 3)
    tracemalloc.start()
    ours = record(data)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 32 * len(data)
    file = io.BytesIO()
    RecordWriter(file).write(data)
    assert ours == file.getvalue()


def test_the_published_check_value():
    """RFC 3720, appendix B.4: 32 bytes of zeros."""
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"123456789") == 0xE3069283
