"""A dataclass is frozen, unless its fields are assigned to."""

import dataclasses
import importlib
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

PACKAGE = Path(__file__).parent.parent / "hpsearch"
CHANGING = {
    "audit.ledger.Attempt",
    "audit.ledger.JobEntry",
    "audit.ledger.Ledger",
    "audit.ledger.MatchEntry",
    "audit.ledger.TrialEntry",
    "cluster.worker._Match",
    "dashboard.app.ResponseCache",
    "dashboard.app.StudyConclusions",
    "study.batched_tpe.Fit",
    "study.batched_tpe.Fits",
    "study.gauges.GaugeServer",
    "study.observe.Observer",
    "study.recorder.Outage",
    "study.records.Job",
    "study.records.Match",
    "study.records.PopulationRecord",
    "study.records.Tally",
    "study.records.Trial",
    "study.snapshots.Stored",
    "study.state.StudyState",
    "trainers.actors.Part",
    "trainers.ranks.Calls",
}
"""the classes whose fields are assigned to"""
PLACES = sorted({path.relative_to(PACKAGE).parts[0] for path in PACKAGE.rglob("*.py")})
"""rooms, and the files that stand beside them"""


def modules(place: str) -> list[str]:
    """Return the names of the modules of a place whose source has a dataclass."""
    paths = sorted((PACKAGE / place).rglob("*.py")) or [PACKAGE / place]
    with_some = [path for path in paths if "@dataclass" in path.read_text()]
    relative = [path.relative_to(PACKAGE.parent).with_suffix("") for path in with_some]
    return [".".join(path.parts).removesuffix(".__init__") for path in relative]


def run_anew(name: str) -> ModuleType:
    """Return a second copy of a module, whose lines are run by the test that asks for it.

    The module itself may have been imported before any test began, and then
    tests/planted_faults.py would see none that runs its classes' first lines.
    """
    importlib.import_module(name)  # dataclasses look up what annotations mean there
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.loader is not None
    copy = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(copy)
    return copy


def is_unfrozen(value: object, name: str) -> bool:
    """Return whether this is a dataclass of the module ``name`` whose fields may be assigned to."""
    if not isinstance(value, type) or value.__module__ != name:
        return False
    return dataclasses.is_dataclass(value) and not value.__dataclass_params__.frozen


@pytest.mark.parametrize("place", [place for place in PLACES if modules(place)])
def test_dataclasses_are_frozen(place: str):
    unfrozen = {
        f"{name.removeprefix('hpsearch.')}.{value.__qualname__}"
        for name in modules(place)
        for value in vars(run_anew(name)).values()
        if is_unfrozen(value, name)
    }
    of_place = {name for name in CHANGING if name.partition(".")[0] == place.removesuffix(".py")}
    assert unfrozen == of_place
