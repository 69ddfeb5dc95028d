"""Children: what they are at birth, that they can be made again, and that they go on from there."""

import pytest
import torch
from birth_stories import (
    BIRTH,
    MIXTURES,
    ONE_PARENT,
    PAIR,
    TWO_PARENTS,
    assert_same_state,
    give,
    job_of,
    lineage,
    parents_in,
    saved,
)
from working import Killed, die, on_nth_call, work

from hpsearch.cluster import resuming
from hpsearch.cluster.record_files import RecordFile
from hpsearch.cluster.records import Birth, Fresh
from hpsearch.cluster.study_dir import StudyDir, TrialDir
from hpsearch.population.operators.options import Clone, GaussianMutation, HostAndAgent
from hpsearch.population.options import Adoption
from hpsearch.trainers import checkpoint
from hpsearch.trainers.trainer import Trainer

CHILD = {**PAIR, "seed": 5, "steps": 12}
SURE = Adoption(num_games=200, confidence=0.9)
RUINOUS = GaussianMutation("gaussian_mutation", 50.0)
every_algorithm = pytest.mark.parametrize("algorithm", ["dqn", "ppo"])


@pytest.fixture(scope="module")
def parents(tmp_path_factory, tiny_config):
    """Two trained pairs of each algorithm, of other rates than their children."""
    folder = tmp_path_factory.mktemp("parents")
    return {
        algorithm: parents_in(
            folder / algorithm, [tiny_config({**PAIR, "seed": seed}, algorithm) for seed in (1, 2)]
        )
        for algorithm in ("dqn", "ppo")
    }


@pytest.fixture
def born(tmp_path, plain_config):
    """Return a function (operator, parents, ...) -> the trial, trained to its end."""

    def make(operator, paths, *, changes=None, algorithm="dqn", name="study", **origin):
        study = StudyDir(tmp_path / name)
        config = plain_config({**CHILD, **(changes or {})}, algorithm)
        work(str(job_of(study, [give(study, 0, config, lineage(operator, paths, **origin))]).root))
        return study.trial(0)

    return make


def ended(trial, attempt=1):
    result = trial.attempt(attempt).read_result()
    return result.status, result.step, result.message


@every_algorithm
@pytest.mark.parametrize("name", [*ONE_PARENT, *TWO_PARENTS])
def test_every_operator_makes_a_child_that_learns_on(born, parents, algorithm, name):
    """The same again from the same lineage; what it descends from stays written in it."""
    operator = {**ONE_PARENT, **TWO_PARENTS}[name]
    paths = parents[algorithm][: 1 if name in ONE_PARENT else 2]
    trial = born(operator, paths, algorithm=algorithm)
    assert ended(trial) == ("finished", 12, "")
    assert trial.birth.read() == Birth(name, adopted=True, chance=None)
    at_birth, at_end = saved(trial, BIRTH), saved(trial, 12)
    identities = tuple(checkpoint.identity(path) for path in paths)
    assert at_birth.parents == at_end.parents == identities
    assert [row["step"] for row in trial.read_metrics()] == [12]
    again = born(operator, paths, algorithm=algorithm, name="again")
    assert_same_state(saved(again, BIRTH), at_birth)
    assert_same_state(saved(again, 12), at_end)


@every_algorithm
def test_a_clone_is_its_parent(born, parents, algorithm):
    changes = {"host.optim.args.lr": 0.1}
    trial = born(Clone(), parents[algorithm][:1], changes=changes, algorithm=algorithm)
    child, parent = saved(trial, BIRTH), checkpoint.load(parents[algorithm][0])
    for name, tensor in parent.tensors.items():
        is_own = name.startswith("fused_game") or name.endswith("replay_buffer.last")
        assert is_own or torch.equal(child.tensors[name], tensor), name
    assert child.config["host"]["optim"]["args"]["lr"] == 0.1


@pytest.mark.parametrize("name", ["gaussian_mutation", "safe_mutation", *MIXTURES])
def test_new_weights_have_targets_of_their_own(born, parents, name):
    """The moments of gradients stay where the weights are nearly the same."""
    is_mixture = name in MIXTURES
    operator = {**ONE_PARENT, **TWO_PARENTS}[name]
    trial = born(operator, parents["dqn"][: 2 if is_mixture else 1])
    child, parent = saved(trial, BIRTH).tensors, checkpoint.load(parents["dqn"][0]).tensors
    names = ("host.net.weights", "agent.net.weights")
    assert not all(torch.equal(child[name], parent[name]) for name in names)
    for role in ("host", "agent"):
        weights = child[f"{role}.net.weights"]
        assert torch.equal(weights, child[f"{role}.target_net.weights"])
        moments = [key for key in child if key.startswith(f"{role}.optimizer.")]
        assert moments
        for key in moments:
            expected = torch.zeros_like(parent[key]) if is_mixture else parent[key]
            assert torch.equal(child[key], expected), key


@every_algorithm
def test_host_and_agent_takes_exactly_the_two(born, parents, algorithm):
    trial = born(HostAndAgent(), parents[algorithm], algorithm=algorithm)
    child = saved(trial, BIRTH).tensors
    for role, path in zip(("host", "agent"), parents[algorithm], strict=True):
        names = [name for name in child if name.startswith(f"{role}.")]
        assert any(".optimizer." in name for name in names)
        for name in names:
            expected = checkpoint.load(path).tensors[name]
            assert name.endswith("replay_buffer.last") or torch.equal(child[name], expected), name


def test_siblings_of_other_seeds_differ(born, parents):
    """Though they begin with the same networks and have the same rates."""
    child = born(Clone(), parents["dqn"][:1])
    other = born(Clone(), parents["dqn"][:1], changes={"seed": 6}, name="other")
    births, ends = ([saved(t, step).tensors for t in (child, other)] for step in (BIRTH, 12))
    assert torch.equal(*(tensors["host.net.weights"] for tensors in births))
    assert not torch.equal(*(tensors["fused_game.points"] for tensors in births))
    assert not torch.equal(*(tensors["host.net.weights"] for tensors in ends))


def test_what_is_drawn_follows_the_lineages_seed(born, parents):
    operator = ONE_PARENT["gaussian_mutation"]
    child = born(operator, parents["dqn"][:1], seed=5)
    other = born(operator, parents["dqn"][:1], seed=6, name="other")
    assert not torch.equal(*(saved(t, BIRTH).tensors["host.net.weights"] for t in (child, other)))


def test_batch_norms_of_a_mixture_know_what_it_computes(born, tmp_path, tiny_config):
    """Not what either parent did: their statistics are not an average of the parents'."""
    norms = {"host.net_arch": [8, "b"], "agent": {"player": "random"}}
    paths = parents_in(tmp_path, [tiny_config({**norms, "seed": seed}) for seed in (1, 2)])
    trial = born(TWO_PARENTS["aligned_average"], paths, changes=norms)
    child, *others = (
        state.tensors["host.net.statistics"]
        for state in (saved(trial, BIRTH), *map(checkpoint.load, paths))
    )
    assert child.isfinite().all()
    assert not torch.allclose(child, (others[0] + others[1]) / 2, rtol=0.05)


# Trying.


@pytest.fixture(scope="module")
def strong(tmp_path_factory, tiny_config):
    """A pair that has learned to play."""
    return parents_in(tmp_path_factory.mktemp("strong"), [tiny_config(PAIR)], steps=200)


def test_a_child_that_is_surely_weaker_is_not_adopted(born, strong):
    """A copy of its parent takes its place, which is as a clone would be."""
    changes = {"steps": 204}
    trial = born(RUINOUS, strong, changes=changes, trying=SURE)
    birth = trial.birth.read()
    assert (birth.operator, birth.adopted) == ("gaussian_mutation", False)
    assert birth.chance > SURE.confidence
    copy = born(Clone(), strong, changes=changes, name="clone")
    for step in (200, 204):
        assert_same_state(saved(trial, step), saved(copy, step))


def test_without_a_trial_every_child_is_adopted(born, strong):
    trial = born(RUINOUS, strong, changes={"steps": 204})
    assert trial.birth.read() == Birth("gaussian_mutation", adopted=True, chance=None)
    child, parent = saved(trial, 200).tensors, checkpoint.load(strong[0]).tensors
    assert child["host.net.weights"].norm() > 20 * parent["host.net.weights"].norm()


def test_a_pair_is_tried_in_both_roles(born, strong):
    """An agent that plays badly spoils a pair, one that plays better improves another."""
    ruined = born(RUINOUS, strong, changes={"steps": 204, "checkpoint.keep_last": 9})
    worse = checkpoint.path_of(ruined.checkpoints, 200)
    births = [
        born(HostAndAgent(), both, changes={"steps": 204}, trying=SURE, name=name).birth.read()
        for name, both in (("spoilt", [strong[0], worse]), ("improved", [worse, strong[0]]))
    ]
    assert [birth.adopted for birth in births] == [False, True]


@every_algorithm
def test_a_child_that_may_be_as_strong_is_adopted(born, parents, algorithm):
    operator = GaussianMutation("gaussian_mutation", 1e-6)
    trial = born(operator, parents[algorithm][:1], algorithm=algorithm, trying=SURE)
    birth = trial.birth.read()
    assert birth.adopted
    assert birth.chance == 0.5


# Kills.


MOMENTS = [
    (resuming, "inherit", 1),
    (resuming, "offspring", 1),
    (RecordFile, "write", 1),
    (checkpoint, "write_part", 1),
    (checkpoint, "flush", 2),
    (TrialDir, "forget_metrics_after", 1),
    (Trainer, "train", 1),
    (checkpoint, "keep_last", 1),
    (checkpoint, "write_part", 3),
]


@pytest.mark.parametrize(("owner", "name", "n"), MOMENTS, ids=[f"{m[1]} {m[2]}" for m in MOMENTS])
def test_killed_at_any_moment_it_becomes_what_it_would_have(
    tmp_path, plain_config, parents, born, monkeypatch, owner, name, n
):
    origin = lineage(TWO_PARENTS["unit_crossover"], parents["dqn"], trying=Adoption(20, 0.99))
    config = plain_config({**CHILD, "steps": 2 * BIRTH})
    study = StudyDir(tmp_path / "killed")
    job = job_of(study, [give(study, 0, config, origin)])
    with monkeypatch.context() as patch:
        on_nth_call(patch, owner, name, n, die)
        with pytest.raises(Killed):
            work(str(job.root))
    again = give(study, 0, config, origin, attempt=2)
    work(str(job_of(study, [again], name="job-2").root))
    assert ended(study.trial(0), 2)[:2] == ("finished", 2 * BIRTH)
    whole = born(
        origin.operator, parents["dqn"], changes={"steps": 2 * BIRTH}, trying=origin.trying
    )
    assert_same_state(saved(study.trial(0), 2 * BIRTH), saved(whole, 2 * BIRTH))
    assert study.trial(0).birth.read() == whole.birth.read()
    curves = [
        [(row["step"], row["metrics"]) for row in t.read_metrics()] for t in (study.trial(0), whole)
    ]
    assert curves[0] == curves[1]


@pytest.mark.parametrize("n", [1, 3, 4, 5, 6, 7])
def test_a_fresh_one_and_a_child_go_on_side_by_side(
    tmp_path, plain_config, parents, monkeypatch, capsys, n
):
    """From where they were together, though at other steps."""
    origins = [lineage(Fresh(), []), lineage(Clone(), parents["dqn"][:1])]
    configs = [plain_config({**CHILD, "seed": 3}), plain_config({**CHILD, "steps": BIRTH + 12})]

    def job(name, attempt):
        study = StudyDir(tmp_path / name)
        given = [give(study, k, configs[k], origins[k], attempt) for k in range(2)]
        left = [
            assignment for assignment in given if not has_finished(study.trial(assignment.trial))
        ]
        return study, job_of(study, left, name=f"job-{attempt}")

    study, first = job("killed", 1)
    with monkeypatch.context() as patch:
        on_nth_call(patch, checkpoint, "write_part", n, die)
        with pytest.raises(Killed):
            work(str(first.root))
    capsys.readouterr()
    _, second = job("killed", 2)
    work(str(second.root))
    output = capsys.readouterr().out.splitlines()
    whole, alone = job("whole", 1)
    work(str(alone.root))
    for number, steps in ((0, 12), (1, BIRTH + 12)):
        assert_same_state(saved(study.trial(number), steps), saved(whole.trial(number), steps))
    resumed = [int(line.split()[-1]) for line in output if "goes on from" in line]
    # What the first ones saved is all that the second one lacks, and after its birth nothing.
    assert resumed == {1: [], 3: [4, 8], 4: [4, 12], 5: [4, 12], 6: [8, 16], 7: [8, 16]}[n]


def has_finished(trial) -> bool:
    result = trial.attempt(1).read_result()
    return result is not None and result.status == "finished"


# What is wrong with a lineage.


@pytest.mark.parametrize("how", ["missing", "damaged", "of another shape", "too few", "no agent"])
def test_a_birth_that_is_impossible_fails_with_one_sentence(
    tmp_path, plain_config, tiny_config, how
):
    alone = {"agent": {"player": "random"}}
    paths = parents_in(tmp_path / "parents", [tiny_config(alone)])
    operator, said = Clone(), "damaged"
    match how:
        case "missing":
            paths, said = [tmp_path / "nowhere"], "no whole checkpoint"
        case "damaged":
            (paths[0] / checkpoint.TENSORS).write_bytes(b"x")
        case "of another shape":
            alone, said = {**alone, "host.net_arch": [9]}, "differs in host.net_arch"
        case "too few":
            operator, said = TWO_PARENTS["layer_crossover"], "2 parents, but the lineage of trial 0"
        case "no agent":
            operator, paths, said = HostAndAgent(), paths * 2, "only the host learns"
    study = StudyDir(tmp_path / "study")
    given = give(study, 0, plain_config({**alone, "steps": 12}), lineage(operator, paths))
    with pytest.raises(Exception, match=said):
        work(str(job_of(study, [given]).root))
    status, _, message = ended(study.trial(0))
    assert status == "failed"
    assert said in message
    assert study.trial(0).birth.read() is None


def test_a_parent_is_found_from_the_studys_folder(tmp_path, plain_config, tiny_config):
    study = StudyDir(tmp_path / "study")
    [path] = parents_in(study.trial(0).root, [tiny_config(PAIR)])
    origin = lineage(Clone(), [path.relative_to(study.root)])
    work(str(job_of(study, [give(study, 1, plain_config(CHILD), origin)]).root))
    assert ended(study.trial(1)) == ("finished", 12, "")


def test_fresh_and_born_members_train_together(tmp_path, plain_config, parents):
    study = StudyDir(tmp_path / "study")
    origins = [lineage(Fresh(), []), lineage(Clone(), parents["dqn"][:1])]
    configs = [plain_config({**CHILD, "seed": seed}) for seed in (3, 4)]
    given = [give(study, n, *pair) for n, pair in enumerate(zip(configs, origins, strict=True))]
    work(str(job_of(study, given).root))
    for number, steps in ((0, [4, 8, 12]), (1, [12])):
        assert ended(study.trial(number)) == ("finished", 12, "")
        assert [row["step"] for row in study.trial(number).read_metrics()] == steps
    assert study.trial(0).birth.read() is None
    assert saved(study.trial(0), 12).parents == ()


@pytest.mark.parametrize("wrong", [0, 1])
def test_one_whose_parent_is_gone_keeps_no_other_from_training(
    tmp_path, plain_config, parents, wrong
):
    study = StudyDir(tmp_path / "study")
    origins = [lineage(Clone(), parents["dqn"][:1]) for _ in range(2)]
    origins[wrong] = lineage(Clone(), [tmp_path / "nowhere"])
    configs = [plain_config({**CHILD, "seed": seed}) for seed in (3, 4)]
    given = [give(study, n, *pair) for n, pair in enumerate(zip(configs, origins, strict=True))]
    work(str(job_of(study, given).root))
    status, _, message = ended(study.trial(wrong))
    assert status == "failed"
    assert "no whole checkpoint" in message
    assert ended(study.trial(1 - wrong)) == ("finished", 12, "")
