"""TensorBoard files, read by TensorBoard's own reader."""

import warnings

import pytest
from event_files import read_texts

from hpsearch.monitor.snapshot import MemberTexts
from hpsearch.monitor.tensorboard import TensorBoard


@pytest.fixture(scope="module")
def read_scalars():
    """Return a function (folder) -> {tag: [(step, value)]}."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of the reader's own imports
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    def read(folder):
        events = EventAccumulator(str(folder))
        events.Reload()
        return {
            tag: [(event.step, event.value) for event in events.Scalars(tag)]
            for tag in events.Tags()["scalars"]
        }

    return read


def test_every_value_under_its_tag(make_look, make_places, read_scalars):
    board = TensorBoard()
    for step in (10, 20):
        board.write(make_look(step, 0.5 * step, 1.5))
    board.close()
    first, second = make_places(0, 0)
    assert read_scalars(first.tensorboard) == {
        "host/loss": [(10, 5.0), (20, 10.0)],
        "agent/er": [(10, 0.5), (20, 0.5)],
        "layers/host/0/weight_std": [(10, 2.0), (20, 2.0)],
        "milliseconds/rollout": [(10, 7.5), (20, 7.5)],
        "job/cpu_percent": [(10, 150.0), (20, 150.0)],
    }
    assert read_scalars(second.tensorboard)["host/loss"] == [(10, 1.5), (20, 1.5)]


def test_a_look_can_be_read_while_the_run_goes_on(make_look, make_places, read_scalars):
    board = TensorBoard()
    board.write(make_look(10, 1.0))
    assert read_scalars(make_places(0)[0].tensorboard)["host/loss"] == [(10, 1.0)]
    board.close()


def test_steps_that_are_made_again_replace_the_old_ones(make_look, make_places, read_scalars):
    killed = TensorBoard()
    for step in (10, 20, 30):
        killed.write(make_look(step, 1.0))
    resumed = TensorBoard()
    for step in (30, 40):
        resumed.write(make_look(step, 2.0, places=make_places(20)))
    resumed.close()
    killed.close()
    scalars = read_scalars(make_places(0)[0].tensorboard)
    assert scalars["host/loss"] == [(10, 1.0), (20, 1.0), (30, 2.0), (40, 2.0)]


def test_a_record_that_a_kill_cut_off(make_look, make_places, read_scalars):
    killed = TensorBoard()
    for step in (10, 20):
        killed.write(make_look(step, 1.0))
    killed.close()
    (place,) = make_places(10)
    (file,) = place.tensorboard.iterdir()
    file.write_bytes(file.read_bytes()[:-5])
    resumed = TensorBoard()
    resumed.write(make_look(20, 2.0, places=[place]))
    resumed.close()
    assert read_scalars(place.tensorboard)["host/loss"] == [(10, 1.0), (20, 2.0)]


def test_texts_beside_values(make_look, make_places, read_scalars):
    board = TensorBoard()
    first, second = make_places(0, 0)
    board.write_texts(1.0, [MemberTexts(first, 5, {"games/host": "| a |\n| é |"})])
    board.write(make_look(10, 1.0, 2.0))
    board.write_texts(
        2.0, [MemberTexts(place, 10, {"games/host": "b"}) for place in (first, second)]
    )
    board.close()
    assert read_texts(first.tensorboard) == {"games/host": [(5, "| a |\n| é |"), (10, "b")]}
    assert read_texts(second.tensorboard) == {"games/host": [(10, "b")]}
    assert read_scalars(first.tensorboard)["host/loss"] == [(10, 1.0)]


def test_texts_of_steps_that_are_made_again_replace_the_old_ones(make_places):
    for begin, steps in ((0, (10, 20, 30)), (20, (30, 40))):
        board = TensorBoard()
        (place,) = make_places(begin)
        for step in steps:
            board.write_texts(1.0, [MemberTexts(place, step, {"games/host": f"{begin} {step}"})])
        board.close()
    assert read_texts(make_places(0)[0].tensorboard) == {
        "games/host": [(10, "0 10"), (20, "0 20"), (30, "20 30"), (40, "20 40")]
    }
