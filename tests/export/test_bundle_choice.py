"""Which trials are exported, and their configurations in the forms of other programs."""

import json

import pytest
import yaml
from cli_tools import write_study
from views import METRIC, Story, rho

from hpsearch import yaml_file
from hpsearch.analysis.candidates import the_front, the_top
from hpsearch.analysis.confirmation import the_best
from hpsearch.errors import CorruptError, HpsearchError, UsageError
from hpsearch.export.text import config_text

OTHER = "rho_sampled/host/choose_first"
CONFIRM = "hpsearch confirm tiny"
FINE = {"failure": None, "message": ""}
JUDGED = {"game": None, "answers": [], "children": []}


def finish(story, number: int, value: float, other: float = 0.1, lr: float | None = None) -> None:
    story.ask(number, **{"host.optim.args.lr": 1e-3 + number * 1e-4 if lr is None else lr})
    story.run(number, job=f"0000{number}")
    metrics = {METRIC: rho(value), OTHER: rho(other)}
    story.add("told", number, state="finished", value=value, metrics=metrics, **FINE)


def numbers(trials) -> list[int]:
    return [trial.number for trial in trials]


def test_the_best_few_are_of_different_configurations(story):
    for number, value in enumerate((0.1, 0.4, 0.2, 0.3)):
        finish(story, number, value, lr=1e-3 if number < 2 else None)
    best, remark = the_best(story.view, CONFIRM)
    assert best.number == 1
    assert remark == (
        f"tiny is not confirmed: its best may be the luckiest; compare with: {CONFIRM}"
    )
    assert numbers(the_top(story.view, 2, best)) == [1, 3]
    assert numbers(the_top(story.view, 9, best)) == [1, 3, 2]  # 0 is as 1 is


def test_what_was_confirmed_goes_first(story):
    for number, value in enumerate((0.1, 0.4, 0.2)):
        finish(story, number, value)
    story.view.folder.confirmation.parent.mkdir(parents=True)
    said = {"best": 2, "top": 2, "trials": [{"trial": 1}, {"trial": 2}]}
    story.view.folder.confirmation.write_text(json.dumps(said))
    best, remark = the_best(story.view, CONFIRM)
    assert best.number == 2
    assert remark == "exported is trial 2, the best when confirmed; the search's is 1"
    assert numbers(the_top(story.view, 3, best)) == [2, 1, 0]


def test_a_confirmation_of_a_trial_that_there_is_not(story):
    finish(story, 0, 0.1)
    story.view.folder.confirmation.parent.mkdir(parents=True)
    said = {"best": 7, "top": 1, "trials": [{"trial": 0}]}
    story.view.folder.confirmation.write_text(json.dumps(said))
    with pytest.raises(CorruptError, match="is damaged; write it anew with: hpsearch confirm tiny"):
        the_best(story.view, CONFIRM)


def test_of_a_population_they_are_the_members_of_its_last_match(story):
    for number, value in enumerate((0.4, 0.1, 0.3, 0.2)):
        finish(story, number, value)
    strengths = {"1": 0.9, "2": 0.1, "3": 0.5}
    members = {str(place): int(trial) for place, trial in enumerate(strengths)}
    story.add("match_called", match=1, members=members, ended=[], archive=[])
    story.add("bred", match=1, champion=1, strengths=strengths, intervals={}, **JUDGED)
    best, _ = the_best(story.view, CONFIRM)
    assert numbers(the_top(story.view, 9, best)) == [1, 3, 2]


@pytest.mark.parametrize(("goal", "expected"), [("maximize", [3, 1, 4, 0]), ("minimize", [2])])
def test_the_front_is_what_is_not_dominated(tmp_path, goal, expected):
    """The first is good where high; the other as the case says."""
    objectives = [{"metric": METRIC, "goal": "maximize"}, {"metric": OTHER, "goal": goal}]
    story = Story(write_study(tmp_path, {"objectives": objectives}))
    # 2 is beaten by 1 in the second where high is good, and beats all where low is.
    points = [(0.1, 0.9), (0.5, 0.5), (0.8, 0.1), (0.8, 0.4), (0.5, 0.5)]
    for number, point in enumerate(points):
        finish(story, number, *point)
    assert numbers(the_front(story.view)) == expected


def test_a_study_of_one_objective_has_no_front(story):
    finish(story, 0, 0.1)
    with pytest.raises(UsageError, match="so there is no front"):
        the_front(story.view)


def test_an_empty_front(tmp_path):
    objectives = [{"metric": name, "goal": "maximize"} for name in (METRIC, OTHER)]
    with pytest.raises(HpsearchError, match="no trial of tiny has finished"):
        the_front(Story(write_study(tmp_path, {"objectives": objectives})).view)


# Forms.


@pytest.fixture
def awkward(plain_config):
    """A configuration whose texts some reader of YAML takes for other things."""
    texts = {"a": "off", "b": "1e-3", "c": "1.5", "d": "yes", "e": "null", "f": "0o7", "g": "1_0"}
    return {**plain_config(), "texts": texts, "small": 1e-7, "large": 1e22, "none": None}


def test_every_reader_of_yaml_reads_the_same(awkward):
    text = config_text(awkward, "yaml")
    assert yaml_file.parse(text) == awkward
    assert yaml.safe_load(text) == awkward


def test_json_is_the_same(awkward):
    assert json.loads(config_text(awkward, "json")) == awkward


def test_hydra_finds_the_keys_at_the_root(awkward):
    text = config_text(awkward, "hydra")
    assert text.splitlines()[0] == "# @package _global_"
    data = yaml.safe_load(text)
    assert data.pop("defaults") == ["_self_"]
    assert data == awkward


def test_what_hydra_would_take_for_a_reference(plain_config):
    with pytest.raises(UsageError, match="Hydra takes"):
        config_text({**plain_config(), "path": "${HOME}/best"}, "hydra")


def test_hydra_composes_it(awkward, tmp_path):
    hydra = pytest.importorskip("hydra")
    (tmp_path / "trainer").mkdir()
    (tmp_path / "config.yaml").write_text("defaults:\n- _self_\nmine: 1\n")
    (tmp_path / "trainer" / "best.yaml").write_text(config_text(awkward, "hydra"))
    with hydra.initialize_config_dir(str(tmp_path), version_base=None):
        composed = hydra.compose("config", overrides=["+trainer=best"])
    assert composed == {**awkward, "mine": 1}
