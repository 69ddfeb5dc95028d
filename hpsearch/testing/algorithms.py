"""What every training algorithm promises, on P members that may differ wherever members may.

Configurations are of one shape and of a tiny game, two at least; `PROMISES` lists the functions.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from hpsearch.game.kernels import Step
from hpsearch.game.rules import HostActionEncoder, check_move
from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.config import CommonConfig
from hpsearch.trainers.trainer import AnyTrainer

State = dict[str, Tensor]
NUM_STEPS: Final = 6  # of which the half are made before something happens
HALF: Final = NUM_STEPS // 2


def assert_same(state: State, other: State, *, exact: bool = True) -> None:
    """Compare states; float32 may differ in the last digits where they are not to be ``exact``."""
    assert state.keys() == other.keys(), f"states differ in {state.keys() ^ other.keys()}"
    for name, tensor in state.items():
        if exact or not tensor.is_floating_point():
            assert torch.equal(tensor, other[name]), f"{name} differs"
        else:
            torch.testing.assert_close(tensor, other[name], rtol=1e-3, atol=1e-4, msg=name)


def state_of(trainer: AnyTrainer) -> State:
    return {name: tensor.clone() for name, tensor in trainer.state().items()}


def row(state: State, member: int) -> State:
    return {name: tensor[member] for name, tensor in state.items()}


def training_changes_what_every_role_plays_by(
    configs: Sequence[CommonConfig], folder: Path
) -> None:
    assert len(configs) >= 2, "promises are made to two members or more"
    trainer = build_trainer(configs)
    before = state_of(trainer)
    trainer.train(NUM_STEPS)
    for learner in trainer.learners:
        weights = before[f"{learner.name}.net.weights"]
        moved = (learner.net.weights - weights).abs().amax(dim=1)
        assert (moved > 0).all(), f"the {learner.name} of some member learns nothing"
        assert not torch.equal(weights[0], weights[1]), "members with other seeds begin alike"


def members_train_as_they_do_alone(configs: Sequence[CommonConfig], folder: Path) -> None:
    """Promise that a member's results do not depend on who trains beside it."""
    population = build_trainer(configs)
    first = state_of(population)
    population.train(NUM_STEPS)
    for member, config in enumerate(configs):
        alone = build_trainer([config])
        assert_same(row(first, member), row(alone.state(), 0))
        alone.train(NUM_STEPS)
        assert_same(row(population.state(), member), row(alone.state(), 0), exact=False)


def seeds_decide_everything(configs: Sequence[CommonConfig], folder: Path) -> None:
    """Promise the same weights again, whatever is drawn from torch's own generator meanwhile."""
    trainer, again = build_trainer(configs), build_trainer(configs)
    trainer.train(HALF)
    torch.rand(7)
    again.train(HALF)
    assert_same(trainer.state(), again.state())


def steps_may_be_made_in_any_portions(configs: Sequence[CommonConfig], folder: Path) -> None:
    whole, parts = build_trainer(configs), build_trainer(configs)
    whole.train(NUM_STEPS)
    for steps in (1, 0, NUM_STEPS - 2, 1):
        parts.train(steps)
    assert_same(whole.state(), parts.state())


def training_goes_on_from_a_checkpoint(configs: Sequence[CommonConfig], folder: Path) -> None:
    """Promise that a run that was killed goes on to the same weights, bit for bit."""
    whole, resumed = build_trainer(configs), build_trainer(configs)
    whole.train(HALF)
    for member in range(len(configs)):
        resumed.load(Path(whole.save(folder / str(member), member)), member)
    whole.train(HALF)
    resumed.train(HALF)
    assert_same(whole.state(), resumed.state())


def measuring_and_saving_change_nothing(configs: Sequence[CommonConfig], folder: Path) -> None:
    trainer = build_trainer(configs)
    trainer.train(2)
    before = state_of(trainer)
    trainer.save(folder, 0)
    trainer.evaluate_rho(num_games=5, split="test")
    assert_same(before, trainer.state())


def a_place_passes_to_another_member(configs: Sequence[CommonConfig], folder: Path) -> None:
    """Promise that a new member trains as it would alone, and that the others notice nothing."""
    first, other = configs[0], configs[-1]
    undisturbed, trainer, alone = (
        build_trainer([first, first]),
        build_trainer([first, first]),
        build_trainer([other]),
    )
    for run in (undisturbed, trainer):
        run.train(HALF)
    trainer.begin(1, other)
    for run in (undisturbed, trainer, alone):
        run.train(NUM_STEPS)
    assert_same(row(trainer.state(), 1), row(alone.state(), 0), exact=False)
    assert_same(row(trainer.state(), 0), row(undisturbed.state(), 0))


def members_can_be_selected(configs: Sequence[CommonConfig], folder: Path) -> None:
    """Promise that those who are kept go on as if nothing had happened."""
    trainer = build_trainer(configs)
    trainer.train(HALF)
    order = [*reversed(range(len(configs)))]
    selected = trainer.select(order)
    trainer.train(HALF)
    selected.train(HALF)
    chosen = {name: tensor[order] for name, tensor in trainer.state().items()}
    assert_same(chosen, selected.state(), exact=False)


def only_legal_moves_are_played(configs: Sequence[CommonConfig], folder: Path) -> None:
    """Promise subsets of at least two coordinates, an axis among them, in every game and move."""
    trainer = build_trainer(configs)
    step, moves = trainer.fused_game.step, list[tuple[Tensor, Tensor]]()

    def watched(host_action: Tensor, agent_axis: Tensor) -> Step:
        moves.append((host_action.clone(), agent_axis.clone()))
        return step(host_action, agent_axis)

    vars(trainer.fused_game)["step"] = watched
    trainer.train(NUM_STEPS)
    encoder = HostActionEncoder(trainer.config.dimension)
    for action, axis in moves:
        check_move(encoder.decode(action), axis)
    assert len(moves) >= NUM_STEPS, "a step is one move at least"


def a_member_that_diverges_harms_itself_alone(
    configs: Sequence[CommonConfig], folder: Path
) -> None:
    trainer, healthy = build_trainer(configs), build_trainer(configs)
    for learner in trainer.learners:
        learner.net.weights[0] = torch.inf
    trainer.train(HALF)
    healthy.train(HALF)
    assert len(configs) >= 2, "promises are made to two members or more"
    assert trainer.is_finite() == [False, *[True] * (len(configs) - 1)], "divergence is not seen"
    for member in range(1, len(configs)):
        assert_same(row(trainer.state(), member), row(healthy.state(), member))


Promise = Callable[[Sequence[CommonConfig], Path], None]
PROMISES: Final[tuple[Promise, ...]] = (
    training_changes_what_every_role_plays_by,
    members_train_as_they_do_alone,
    seeds_decide_everything,
    steps_may_be_made_in_any_portions,
    training_goes_on_from_a_checkpoint,
    measuring_and_saving_change_nothing,
    a_place_passes_to_another_member,
    members_can_be_selected,
    only_legal_moves_are_played,
    a_member_that_diverges_harms_itself_alone,
)
"""each is given at least two configurations, and an empty folder"""
