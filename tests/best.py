"""The record of a best checkpoint, as a job leaves it."""

from dataclasses import asdict
from pathlib import Path

from hpsearch.files import write_json
from hpsearch.trainers.checkpoint import RECORD, BestRecord


def write_best(folder: Path, best: BestRecord) -> None:
    write_json(folder / RECORD, asdict(best))
