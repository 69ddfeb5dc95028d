"""A folder that TensorBoard reads: a run a trial, kept up to date.

A run is written wholly whenever its trial has changed; its new event file tells readers to discard
the one before, which stays until the next, for readers that look at it. Where a trial's job wrote
event files (monitor.tensorboard), they are the run ``trial-N/training``, by a link.
"""

import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, redirect_stderr, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard
from uuid import uuid4

from hpsearch.cluster.study_dir import TrialDir
from hpsearch.errors import CorruptError, DiskError, unwritten
from hpsearch.files import open_file
from hpsearch.monitor.tensorboard import EventFile, event_file_name
from hpsearch.parameters import CategoricalParameter, Parameter
from hpsearch.study.records import FAIL, Trial
from hpsearch.study.spec import Study
from hpsearch.study.view import StudyView

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication


Point = tuple[int, float, dict[str, float]]
"""a step, when it was measured in seconds since the epoch, and what was measured, by tag;
TensorBoard groups what shares the text before the first slash"""


def points(trial: Trial, rows: Iterable[Mapping[str, Any]]) -> Iterator[Point]:
    """Yield the evaluations of a trial, the rows of its learning curve.

    A metric's value has the metric's name as its tag. What else was measured with it stands apart,
    so that its charts can be folded: low, high, capped and games before the name.
    """
    for row in rows:
        at = row.get("at")
        values = dict(_numbers(row.get("metrics")))
        values |= {k: v for k, v in _mapping(row.get("entropies")).items() if _is_number(v)}
        yield row["step"], float(at) if _is_number(at) else trial.asked_at, values


def _numbers(metrics: Any) -> Iterator[tuple[str, float]]:
    for name, measured in _mapping(metrics).items():
        for key, value in _mapping(measured).items():
            if _is_number(value):
                yield name if key == "value" else f"{key}/{name}", value


def _mapping(data: Any) -> dict[str, Any]:
    return data if type(data) is dict else {}  # which is what JSON gives; quicker than isinstance


def _is_number(value: Any) -> TypeGuard[float]:
    # Not bool; quicker than isinstance. No whole number that is too large for a float.
    return type(value) is float or (type(value) is int and abs(value) < 2**63)


def experiment_summary(study: Study) -> Any:
    """Return the summary that tells TensorBoard's table of hyperparameters what is searched."""
    from tensorboard.plugins.hparams import summary_v2 as hparams

    searched = []
    for name, parameter in study.space.parameters.items():
        if isinstance(parameter, CategoricalParameter):
            choices = [_shown(parameter, choice) for choice in parameter.choices]
            domain = hparams.Discrete(choices)
        else:
            domain = hparams.RealInterval(float(parameter.low), float(parameter.high))
        searched.append(hparams.HParam(name, domain))
    names = [objective.metric for objective in study.spec.objectives]
    metrics = [hparams.Metric(f"final/{name}", display_name=name) for name in names]
    return hparams.hparams_config_pb(searched, metrics)


def start_summary(study: Study, trial: Trial) -> Any:
    from tensorboard.plugins.hparams import summary_v2 as hparams

    parameters, values = study.space.parameters, study.space.decode(trial.last_params)
    shown = {name: _shown(parameters[name], value) for name, value in values.items()}
    return hparams.hparams_pb(shown, f"trial {trial.number}", trial.asked_at)


def end_summary(trial: Trial, at: float) -> Any:
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.plugins.hparams import api_pb2, metadata
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionEndInfo

    status = api_pb2.STATUS_FAILURE if trial.told == FAIL else api_pb2.STATUS_SUCCESS
    end = SessionEndInfo(status=status, end_time_secs=at)
    shown = metadata.create_summary_metadata(HParamsPluginData(session_end_info=end))
    tag, tensor = metadata.SESSION_END_INFO_TAG, metadata.NULL_TENSOR
    return Summary(value=[Summary.Value(tag=tag, metadata=shown, tensor=tensor)])


def _shown(parameter: Parameter, value: Any) -> bool | float | str:
    """Return a value as one of the three kinds that TensorBoard knows, one kind a parameter."""
    kinds = {float}
    if isinstance(parameter, CategoricalParameter):
        kinds = {float if type(choice) is int else type(choice) for choice in parameter.choices}
    if kinds == {bool}:
        return bool(value)
    if kinds == {float}:
        return float(value)
    return value if isinstance(value, str) else json.dumps(value)


TRAINING = "training"


class Board:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._written: dict[int, tuple[object, ...]] = {}  # what each trial was like
        self._has_begun = False

    def write(self, view: StudyView) -> int:
        """Write the trials that have changed; return how many. Raises DiskError."""
        try:
            if not self._has_begun:
                at, summary = view.state.started_at or 0.0, experiment_summary(view.study)
                self._replace(self._folder, lambda file: file.write_summary(at, 0, summary))
                self._has_begun = True
            return sum(self._refresh(view, trial) for trial in view.state.trials.values())
        except OSError as error:
            then = "run the same command again, or give another folder by -o"
            raise unwritten(self._folder, error, then) from error

    def _refresh(self, view: StudyView, trial: Trial) -> bool:
        files = view.folder.trial(trial.number)
        stamp = _stamp(trial, files)
        if self._written.get(trial.number) == stamp:
            return False
        run = self._folder / f"trial-{trial.number}"
        self._replace(run, lambda file: _write_trial(file, view, trial, files))
        _link(run / TRAINING, files.tensorboard)
        self._written[trial.number] = stamp
        return True

    def _replace(self, run: Path, write: Callable[[EventFile], None]) -> None:
        run.mkdir(parents=True, exist_ok=True)
        before = sorted(run.glob("events.out.tfevents.*"))
        # Under another name than TensorBoard looks for, in the form that gc knows.
        temporary = self._folder / f".run-{uuid4().hex}"
        try:
            with closing(EventFile(temporary.open("xb"), keeps=-1)) as file:
                write(file)
            temporary.rename(run / event_file_name())
        finally:
            temporary.unlink(missing_ok=True)
        for path in before[:-1]:
            path.unlink(missing_ok=True)


def _write_trial(file: EventFile, view: StudyView, trial: Trial, files: TrialDir) -> None:
    file.write_summary(trial.asked_at, 0, start_summary(view.study, trial))
    step, at = 0, trial.asked_at
    with suppress(CorruptError, DiskError):  # the trial alone, where its curve cannot be read
        for measured_step, at, values in points(trial, files.read_metrics()):
            file.write(at, measured_step, values)
            step = max(step, measured_step)
    if trial.told is not None:
        final = {f"final/{name}": measured["value"] for name, measured in trial.metrics.items()}
        file.write(at, max(step, trial.step), final)
        file.write_summary(at, max(step, trial.step), end_summary(trial, at))


def _stamp(trial: Trial, files: TrialDir) -> tuple[object, ...]:
    curve = None
    # Opened, for a curve that cannot be read now is written when it can be.
    with suppress(CorruptError, OSError), open_file(files.metrics) as file:
        status = os.fstat(file.fileno())
        curve = (status.st_ino, status.st_size, status.st_mtime_ns)
    return curve, trial.told, len(trial.takeovers), files.tensorboard.is_dir()


def _link(link: Path, folder: Path) -> None:
    is_there = folder.is_dir()
    if link.is_symlink() and (not is_there or link.readlink() != folder):
        link.unlink()
    if is_there and not link.is_symlink():
        link.symlink_to(folder, target_is_directory=True)


RELOAD_SECONDS = 5  # between two looks of TensorBoard at the folder


def application(folder: Path) -> "WSGIApplication":
    """Return TensorBoard as a WSGI application; it reads the folder again and again from now on."""
    from tensorboard import default, program

    taken: list[WSGIApplication] = []

    class Taken(program.TensorBoardServer):  # type: ignore[misc]
        def __init__(self, wsgi_app: Any, flags: Any) -> None:
            taken.append(wsgi_app)

        def serve_forever(self) -> None:
            pass

        def get_url(self) -> str:
            return ""

    board = program.TensorBoard(plugins=default.get_plugins(), server_class=Taken)
    options = [f"--logdir={folder}", f"--reload_interval={RELOAD_SECONDS}"]
    with redirect_stderr(io.StringIO()):  # advice on how its own command is run
        board.configure(argv=["tensorboard", *options])
        board.launch()
    return taken[0]
