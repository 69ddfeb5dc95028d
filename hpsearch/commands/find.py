"""Finding the study that a command should drive."""

from pathlib import Path

from hpsearch.cluster.study_dir import StudyDir
from hpsearch.report.view import open_view
from hpsearch.study.spec import Study, load_spec


def find_study(name_or_file: str, runs: Path) -> tuple[Study, StudyDir]:
    """Return the study of a file as it is now, or a started one as it was; and its folder."""
    path = Path(name_or_file)
    if path.suffix in (".yaml", ".yml"):
        study = load_spec(path)
        return study, StudyDir((runs / study.spec.name).absolute())
    view = open_view(name_or_file, runs)
    return view.study, view.folder


def runs_option(runs: Path) -> str:
    """Return what a command line needs besides, where studies don't lie in the usual folder."""
    return "" if runs == Path("runs") else f" --runs {runs}"
