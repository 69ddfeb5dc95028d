"""From which of their checkpoints the members of a job go on, by plain accounts of the steps."""

from dataclasses import replace
from pathlib import Path

import pytest
from best import write_best

from hpsearch.cluster import resuming
from hpsearch.cluster.failures import StopFlag
from hpsearch.cluster.member import Member
from hpsearch.cluster.records import Assignment, Fresh, Island, Lineage
from hpsearch.cluster.resuming import go_on, resume_step, start_step
from hpsearch.cluster.study_dir import TrialDir
from hpsearch.cluster.team import Team
from hpsearch.population.operators.options import Clone
from hpsearch.population.options import Keep, Matches, Truncation
from hpsearch.trainers import checkpoint
from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.checkpoint import BestRecord, read_best
from hpsearch.trainers.trainer import AnyTrainer

ISLAND = Island("i", 10, Matches(), Truncation(share=0.5, confidence=0.5), Keep("keep"), {})


@pytest.fixture(scope="module")
def trainer(tiny_config) -> AnyTrainer:
    return build_trainer([tiny_config()])


@pytest.fixture
def member(tmp_path: Path, trainer: AnyTrainer):
    """Return a function (steps of its checkpoints, ...) -> a member."""

    def save(folder: Path, steps) -> list[Path]:
        paths = []
        for step in steps:
            trainer.step.fill_(step)
            paths.append(trainer.save(folder, 0))
        return paths

    def make(*steps: int, parent: int | None = None, island: Island | None = None) -> Member:
        number = len(list(tmp_path.iterdir()))
        trial = TrialDir(tmp_path / str(number))
        trial.root.mkdir()
        save(trial.checkpoints, steps)
        parents = save(trial.root / "parent", [] if parent is None else [parent])
        given, config = Assignment(number, 1, "t"), trainer.config
        lineage, attempt = Lineage(Fresh(), 0), trial.attempt(1)
        return Member(given, trial, attempt, config, "m", lineage, tuple(parents), island)

    return make


def chosen(*members: Member, in_step: bool = False) -> list[int | None]:
    return list(resuming._chosen_steps(dict(enumerate(members)), in_step=in_step).values())


def test_each_goes_on_from_its_newest_unless_all_trained_in_step(member) -> None:
    first, second, other = member(2, 4, 6), member(2, 4), member()
    assert chosen(first, second, other) == [6, 4, None]
    assert chosen(first, second, in_step=True) == [4, 4]
    assert chosen(first, second, other, in_step=True) == [6, 4, None]


def test_in_step_are_those_that_have_made_as_many_steps_by_themselves(member) -> None:
    fresh, child = member(4, 8), member(20, 24, 26, parent=20)
    assert [start_step(fresh), start_step(child)] == [0, 20]
    assert chosen(fresh, child, in_step=True) == [4, 24]
    assert chosen(fresh, child) == [8, 26]


def test_an_island_goes_on_as_one_or_begins_anew(member) -> None:
    """Also where others came to it later: each may have become a copy of another one."""
    first, second = member(2, 4, 6, island=ISLAND), member(2, 4, island=ISLAND)
    assert chosen(first, second) == chosen(second, first) == [4, 4]
    assert chosen(first, second, member(8, island=ISLAND)) == [None] * 3
    assert chosen(first) == [6]


def test_one_that_is_to_begin_anew_has_no_checkpoint_any_more(member, tmp_path: Path) -> None:
    anew = member(2, 4, parent=20)
    rules = replace(anew.config.checkpoint, resume="never")
    anew = replace(anew, config=replace(anew.config, checkpoint=rules))
    folder = anew.trial.checkpoints
    write_best(folder, BestRecord(4, "rho/host/random", 1.0))
    assert read_best(folder) is not None
    assert resume_step(anew) == 20
    assert chosen(anew) == [None]
    assert list(folder.iterdir()) == []


def test_a_waiting_member_goes_on_from_its_newest_whole_checkpoint(member) -> None:
    damaged = member(2, 4)
    assert resume_step(damaged) == 4
    (checkpoint.path_of(damaged.trial.checkpoints, 4) / checkpoint.TENSORS).write_bytes(b"x")
    assert resume_step(damaged) == 2
    assert resume_step(member(parent=20)) == 20


@pytest.mark.parametrize("error", [None, "missing", "damaged"])
def test_the_name_of_a_parents_checkpoint_need_not_tell_its_step(member, error: str | None) -> None:
    child = member(parent=20)
    (path,) = child.parents
    copied = path.rename(path.with_name("by hand"))
    child = replace(child, parents=(copied,))
    if error == "missing":
        copied.rename(path)
    elif error == "damaged":
        (copied / checkpoint.STATE).write_text("{}")
    assert start_step(child) == (20 if error is None else 0)


@pytest.mark.parametrize(
    ("parent", "steps", "said"),
    [
        (None, (), "begins at step 0"),
        (None, (8,), "goes on from step 8"),
        (20, (), "is created by clone at step 20"),
        (20, (24,), "goes on from step 24"),
    ],
)
def test_how_a_member_began_is_told(member, capsys, parent, steps, said: str) -> None:
    """And that a warm start is not made where it would change what is there."""
    source = checkpoint.path_of(member(3).trial.checkpoints, 3)
    unused = "; warm_start is for a fresh one" if parent or steps else ""
    for warm_start, told in ((None, said), (str(source), said + unused)):
        begun = member(*steps, parent=parent)
        rules = replace(begun.config.checkpoint, warm_start=warm_start)
        operator = Fresh() if parent is None else Clone()
        begun = replace(
            begun,
            config=replace(begun.config, checkpoint=rules),
            lineage=replace(begun.lineage, operator=operator),
        )
        team = Team(StopFlag())
        team.build([begun.config])
        assert go_on(team, {0: begun}, in_step=False)[1] == {}
        assert capsys.readouterr().out == f"m {told}\n"
