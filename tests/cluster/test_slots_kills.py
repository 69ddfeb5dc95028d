"""Jobs that die with refilled slots: the next attempt goes on."""

from dataclasses import replace

import pytest
from slot_stories import LONG, NEW, SHORT, assert_same_training, ended
from working import Killed, die, on_nth_call, work

from hpsearch.trainers import checkpoint
from hpsearch.trainers.trainer import Trainer


def test_a_trial_shows_life_before_it_refills_a_slot(pilot, monkeypatch) -> None:
    """What then ends the job may be its fault."""
    job, (new,) = pilot([SHORT, LONG], [NEW])
    job.write_next(1, [new])

    on_nth_call(monkeypatch, Trainer, "begin", 1, die)
    with pytest.raises(Killed):
        work(str(job.root))
    assert job.study.heartbeat(2, 1).is_busy


@pytest.mark.parametrize("n", [3, 5, 7, 9])
def test_killed_with_refilled_slots_the_next_attempt_goes_on(pilot, alone, monkeypatch, n) -> None:
    """Each from its own newest checkpoint: none goes back for one that came later."""
    changes = [SHORT, LONG, NEW, {**NEW, "seed": 4, "steps": 8}]
    job, given = pilot(changes[:2], changes[2:])
    job.write_next(1, given[:1])
    job.write_next(2, given[1:])
    with monkeypatch.context() as patch:
        on_nth_call(patch, checkpoint, "write_part", n, die)
        with pytest.raises(Killed):
            work(str(job.root))
    newest = {
        number: max(checkpoint.valid_steps(job.study.trial(number).checkpoints), default=0)
        for number in range(4)
    }
    left = [number for number in range(4) if ended(job, number) is None]
    assert left
    job, _ = pilot(changes, attempt=2)
    plan = job.plan.required()
    job.plan.write(replace(plan, assignments=tuple(a for a in plan.assignments if a.trial in left)))
    loaded = []
    with monkeypatch.context() as patch:
        load = Trainer.load
        patch.setattr(
            Trainer, "load", lambda self, path, row: (loaded.append(path), load(self, path, row))
        )
        work(str(job.root))
    resumed = {number: step for number, step in newest.items() if number in left and step}
    folders = [checkpoint.path_of(job.study.trial(n).checkpoints, s) for n, s in resumed.items()]
    assert sorted(loaded) == sorted(folders)
    for number in left:
        steps = changes[number]["steps"]
        assert ended(job, number, 2) == ("finished", steps)
        assert_same_training(job.study.trial(number), alone(changes[number]), steps)
