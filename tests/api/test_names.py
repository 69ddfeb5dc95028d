"""The names that `import hpsearch` gives, and their signatures: they stay."""

import inspect
import json
import subprocess
import sys

import pytest

import hpsearch

FUNCTIONS = {
    "breed": "studies, *, name=None, members=None, interval=None, trials=None, seed=None, "
    "runs=runs",
    "build_trainer": "configs, ranks=ALONE, actors=None",
    "create_study": "spec, path, *, base=None, runs=runs",
    "cross_play": "players, *, runs=runs, top=3, panel=True, games=1000, seed=0, sampled=False, "
    "device=cpu",
    "list_studies": "runs=runs",
    "load_player": "name_or_path, *, runs=runs, seed=0",
    "open_study": "name_or_file, runs=runs",
    "read_config": "data, *, source",
}
METHODS = {
    "CrossPlayResult": {"frame": "", "to_dict": ""},
    "Player": {
        "choose_axis": "points, coordinates",
        "choose_coordinates": "points",
        "evaluate": "*, games=4000",
        "play": "agent, points, *, max_steps=None, seed=0",
    },
    "Solver": {"depth": "points"},
    "StudyHandle": {
        "best": "",
        "cancel": "",
        "confirm": "*, top=None, seeds=None, games=10000, best_response=None",
        "enqueue": "params",
        "export": "folder=None, *, trial=None, top=None, pareto=False, games=10000, sign=None",
        "frame": "",
        "lineage": "trial=None",
        "pause": "",
        "player": "trial=None",
        "plot_history": "",
        "plot_learning": "",
        "resume": "",
        "retry": "*, kinds=(), trials=()",
        "run": "*, trials=None",
        "status": "",
        "stop": "",
        "submit": "",
        "trials": "",
        "validate": "",
        "wait": "seconds=None",
    },
}
FIELDS = {
    "StudyCheck": [
        *("study", "configurations", "trials", "warnings", "cost", "sbatch", "example"),
    ],
    "TrialRecord": [
        *("trial", "state", "value", "metrics", "params", "attempts", "failure", "ended_by"),
        *("message", "losses", "retry_of", "origin", "config"),
    ],
}
OTHERS = {
    *("AGENTS", "HOSTS", "Budget", "Callbacks", "CategoricalParameter", "DQNTrainer"),
    *("FloatParameter", "FusedGame", "GameConfig", "HpsearchError", "IntParameter", "Objective"),
    *("PPOTrainer", "StudySpec", "TrainerConfig", "__version__"),
}
"""names whose classes and values are described elsewhere"""


def named(name: str) -> object:
    return vars(hpsearch).get(name) or hpsearch.__getattr__(name)


def signature(function: object) -> str:
    """Return the parameters with their defaults, without types and ``self``."""
    shown = []
    assert callable(function)
    parameters = inspect.signature(function).parameters.values()
    keyword_only = False
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            shown.append("*")
            keyword_only = True
        if parameter.name == "self":
            continue
        default = parameter.default
        is_alone = type(default).__name__ == "Ranks"
        text = "" if default is parameter.empty else f"={'ALONE' if is_alone else default}"
        shown.append(f"{parameter.name}{text}")
    return ", ".join(shown)


def test_there_are_these_names():
    assert set(hpsearch.__all__) == FUNCTIONS.keys() | METHODS.keys() | FIELDS.keys() | OTHERS
    assert set(dir(hpsearch)) == set(hpsearch.__all__)
    for name in hpsearch.__all__:
        assert named(name) is not None


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_take_these_arguments(name):
    assert signature(named(name)) == FUNCTIONS[name]


@pytest.mark.parametrize(
    ("name", "method"), [(name, method) for name, methods in METHODS.items() for method in methods]
)
def test_methods_take_these_arguments(name, method):
    kind = named(name)
    assert signature(vars(kind)[method]) == METHODS[name][method]


@pytest.mark.parametrize("name", FIELDS)
def test_records_have_these_fields(name):
    kind = named(name)
    assert list(kind.__dataclass_fields__) == FIELDS[name]


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'open_stdy'"):
        hpsearch.open_stdy  # noqa: B018
    with pytest.raises(ImportError, match="open_stdy"):
        from hpsearch import open_stdy  # noqa: F401


def test_the_package_alone_loads_nothing_else():
    code = "import json, sys; before = {*sys.modules}; import hpsearch; " + (
        "print(json.dumps(sorted({*sys.modules} - before)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in json.loads(done.stdout)}
    foreign = loaded - {*sys.stdlib_module_names, "hpsearch"}
    assert foreign == set()
    assert {name for name in json.loads(done.stdout) if name.startswith("hpsearch.")} == {
        "hpsearch.package"
    }
