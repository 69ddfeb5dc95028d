"""Records of event files, beside those of tensorboard's own writer."""

import io
import random

from tensorboard.summary.writer.record_writer import RecordWriter as Theirs

from hpsearch.monitor.event_file import RecordWriter


def test_files_are_the_same_byte_for_byte():
    chance = random.Random(1)
    lengths = [0, 1, 2, 7, 8, 9, 255, 256, 257, 1000, 3, 999]
    records = [chance.randbytes(length) for length in lengths] + [bytes(300), b"\xff" * 300]
    written = []
    for kind in (RecordWriter, Theirs):
        file = io.BytesIO()
        writer = kind(file)
        for record in records:
            writer.write(record)
        writer.flush()
        written.append(file.getvalue())
    assert written[0] == written[1]


def test_the_published_check_value():
    """RFC 3720, appendix B.4: 32 bytes of zeros."""
    from hpsearch.monitor.event_file import _Checksums

    assert _Checksums().of(bytes(32)) == 0x8A9136AA
    assert _Checksums().of(b"123456789") == 0xE3069283
