"""The number of trials that `run --trials` gave, in place of the one that the study file says.

It counts for as long as the file says the number that it said then, so that going on with the study
does not fall back to it. Another number in the file takes its place, and it is forgotten.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from hpsearch.atomic import write_json
from hpsearch.cluster.record_file import read_record
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.errors import CorruptError
from hpsearch.study.spec import Study, load_spec

NEVER: Final = 0
"""stands for the number in a file where no total is given any more; no file says it"""


@dataclass(frozen=True)
class GivenTotal:
    """What `run --trials` said, and what the file said then."""

    trials: int
    in_file: int


def load_study(path: Path, runs: Path, trials: int | None = None) -> Study:
    """Return the study of a file, with the total that is given now or was given before.

    A damaged record of what was given before counts as none.

    Raises:
        ConfigError: if the file is wrong, or would be with this total.
        DiskError: if what was given before cannot be read now.
    """
    study = load_spec(path)
    in_file = study.spec.budget.trials
    if trials is None:
        before = _given_before(StudyDir(runs / study.spec.name))
        trials = in_file if before is None or before.in_file != in_file else before.trials
        return study if trials == in_file else load_spec(path, trials=trials)
    return load_spec(path, trials=trials)


def _given_before(folder: StudyDir) -> GivenTotal | None:
    if not folder.root.is_dir():
        return None
    try:
        return read_record(GivenTotal, folder.given_total)
    except CorruptError:
        return None


def note_given_total(study: Study, folder: StudyDir) -> None:
    """Note the total that was given in place of the file's; forget one that counts no more.

    Raises:
        DiskError: if that cannot be written.
    """
    if study.trials_in_file is not None:
        given = GivenTotal(study.spec.budget.trials, study.trials_in_file)
        write_json(folder.given_total, asdict(given))
        return
    before = _given_before(folder)
    if before is not None and before.trials != study.spec.budget.trials:
        write_json(folder.given_total, asdict(GivenTotal(study.spec.budget.trials, NEVER)))
