"""Children that come while others train: they begin at their parent's step, beside the others."""

import pytest
from birth_stories import BIRTH, assert_same_state, give, job_of, lineage, parents_in, saved
from slot_stories import assert_same_training, counted, curve, ended
from working import work

from hpsearch.cluster import team
from hpsearch.cluster.records import Fresh
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.population.operators.options import Clone, GaussianMutation
from hpsearch.trainers.trainer import Trainer

NOISE = GaussianMutation("gaussian_mutation", 0.1)
KEEP = {"checkpoint.keep_last": 9}
PILOT = {"pilot_seconds": 0.3, "refills": True}


@pytest.fixture
def parent(tmp_path, tiny_config):
    return parents_in(tmp_path / "parents", [tiny_config({"seed": 9})])[0]


@pytest.fixture
def story(tmp_path, plain_config, no_waiting):
    """Return a function (trials as (changes, lineage), ...) -> the study, and their assignments."""

    def make(trials, name="study"):
        study = StudyDir(tmp_path / name)
        configs = [plain_config(changes) for changes, _ in trials]
        return study, [
            give(study, number, config, origin)
            for number, (config, (_, origin)) in enumerate(zip(configs, trials, strict=True))
        ]

    return make


def fresh(seed, steps):
    return {"seed": seed, "steps": steps, **KEEP}, lineage(Fresh(), [], seed)


def child(seed, steps, path, operator=NOISE):
    return {"seed": seed, "steps": steps, **KEEP}, lineage(operator, [path], seed)


def test_a_child_joins_those_who_train(story, parent, monkeypatch):
    """Nothing is built, all are measured together, and it becomes what it would alone."""
    new = child(3, 16, parent)
    study, given = story([fresh(1, 4), fresh(2, 16), new])
    job = job_of(study, given[:2], **PILOT)
    job.write_next(1, given[2:])
    with monkeypatch.context() as patch:
        built, measured = counted(patch, team, "build_trainer"), counted(patch, Trainer, "evaluate")
        work(str(job.root))
    assert len(built) == 1
    assert [ended(job, number) for number in range(3)] == [
        ("finished", 4),
        ("finished", 16),
        ("finished", 16),
    ]
    # At 4, 8, 12 and 16 of the long one; the child ends at its 12, the first at its 4.
    assert len(measured) == 4 + 3
    assert list(curve(study.trial(2))) == [12, 16]
    alone, given = story([new], "alone")
    work(str(job_of(alone, given).root))
    assert_same_state(saved(study.trial(2), BIRTH), saved(alone.trial(0), BIRTH))
    assert_same_training(study.trial(2), alone.trial(0), 16)


def test_a_child_begins_where_it_is_measured_with_the_others(story, tmp_path, tiny_config):
    """Of a parent that was saved between two evaluations."""
    [path] = parents_in(tmp_path / "odd", [tiny_config({"seed": 9})], steps=6)
    study, given = story([fresh(1, 4), fresh(2, 16), child(3, 14, path)])
    job = job_of(study, given[:2], **PILOT)
    job.write_next(1, given[2:])
    work(str(job.root))
    assert ended(job, 2) == ("finished", 14)
    assert list(curve(study.trial(2))) == [8, 12]


def test_a_generation_of_children_fills_a_pilot(story, parent):
    first = [child(seed, 12, parent, Clone()) for seed in (1, 2)]
    later = [child(seed, 12, parent) for seed in (3, 4, 5)]
    study, given = story([*first, *later])
    job = job_of(study, given[:2], **PILOT)
    job.write_next(1, given[2:])
    work(str(job.root))
    for number in range(5):
        assert ended(job, number) == ("finished", 12)
        assert study.trial(number).birth.read().adopted
        assert list(curve(study.trial(number))) == [12]


def test_a_child_without_a_parent_ends_no_other_trial(story, parent, tmp_path):
    new = child(3, 12, tmp_path / "nowhere")
    study, given = story([fresh(1, 4), fresh(2, 16), new, child(4, 12, parent)])
    job = job_of(study, given[:2], **PILOT)
    job.write_next(1, given[2:])
    work(str(job.root))
    assert [ended(job, number) for number in (0, 1, 3)] == [
        ("finished", 4),
        ("finished", 16),
        ("finished", 12),
    ]
    result = study.trial(2).attempt(1).read_result()
    assert result.status == "failed"
    assert "nowhere is no whole checkpoint" in result.message


def test_a_child_shows_life_before_it_is_born(story, parent, monkeypatch):
    """An operator may take minutes, and what then ends the job may be its fault."""
    study, given = story([child(3, 12, parent)])

    def die(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("hpsearch.cluster.resuming.offspring", die)
    with pytest.raises(KeyboardInterrupt):
        work(str(job_of(study, given).root))
    beat = study.heartbeat(0, 1)
    assert (beat.is_busy, beat.step) == (True, BIRTH)
