"""The folder of a match: what is written is read, whole or not at all."""

from zipfile import ZipFile

import numpy as np
import pytest

from hpsearch.cluster.records import MatchPlan, MatchPlayer
from hpsearch.cluster.study_dir import MatchGames, StudyDir
from hpsearch.errors import CorruptError

PLAN = MatchPlan(
    hosts=(
        MatchPlayer("0", "trials/0/checkpoints/step-000000100"),
        MatchPlayer("zeillinger", None),
    ),
    agents=(MatchPlayer("choose_first", None),),
    num_games=3,
    max_steps=20,
    splits=("match 1 a", "match 1 b"),
    device="cpu",
)


@pytest.fixture
def match(tmp_path):
    return StudyDir(tmp_path).match(1)


def test_a_plan_is_read_as_it_was_written(match):
    match.plan.write(PLAN)
    assert match.plan.required() == PLAN


def test_a_missing_plan_is_told(match):
    with pytest.raises(CorruptError, match=r"plan\.json is missing"):
        match.plan.required()


def test_games_are_read_as_they_were_written(match):
    moves = np.arange(2 * 2 * 1 * 3).reshape(2, 2, 1, 3)
    assert match.read_games() is None
    match.write_games(MatchGames(moves, moves % 2 == 0))
    games = match.read_games()
    np.testing.assert_array_equal(games.moves, moves)
    np.testing.assert_array_equal(games.finished, moves % 2 == 0)


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 cut off"])
def test_damaged_games_are_told(match, content):
    match.plan.write(PLAN)
    (match.root / "games.npz").write_bytes(content)
    with pytest.raises(CorruptError, match="holds no games"):
        match.read_games()


@pytest.mark.parametrize("name", ["moves.npy", "finished.npy"])
def test_games_with_something_after_an_array_are_damaged(match, name):
    moves = np.ones((2, 2, 1, 3), np.int64)
    match.write_games(MatchGames(moves, moves > 0))
    path = match.root / "games.npz"
    with ZipFile(path) as archive:
        files = {entry: archive.read(entry) for entry in archive.namelist()}
    files[name] += b"\0"
    with ZipFile(path, "w") as archive:
        for entry, content in files.items():
            archive.writestr(entry, content)
    with pytest.raises(CorruptError, match="more than an array"):
        match.read_games()


def test_stored_games_are_not_widened(match):
    moves = np.ones((2, 2, 1, 3), np.int64)
    match.write_games(MatchGames(moves, moves > 0))
    assert [array.itemsize for array in match.stored_games()] == [4, 1]


@pytest.mark.parametrize(
    ("moves", "finished"),
    [
        (np.ones((2, 1, 1, 3), np.float64), np.ones((2, 1, 1, 3), bool)),
        (np.ones((2, 1, 1, 3), np.int32), np.ones((2, 1, 1, 4), bool)),
        (np.full((2, 1, 1, 3), -1, np.int32), np.ones((2, 1, 1, 3), bool)),
    ],
)
def test_arrays_that_are_no_games_are_damaged(match, moves, finished):
    match.root.mkdir(parents=True)
    np.savez_compressed(match.root / "games.npz", moves=moves, finished=finished)
    with pytest.raises(CorruptError, match="holds no games, but"):
        match.read_games()


def test_an_order_of_columns_and_a_lack_of_games_are_read_as_such(match):
    moves = np.arange(24, dtype=np.int32).reshape(2, 3, 4, 1)
    match.root.mkdir(parents=True)
    np.savez(match.root / "games.npz", moves=np.asfortranarray(moves), finished=moves > 5)
    np.testing.assert_array_equal(match.read_games().moves, moves)
    none = np.ones((2, 0, 4, 1), np.int64)
    match.write_games(MatchGames(none, none > 0))
    assert match.read_games().moves.shape == (2, 0, 4, 1)


def test_how_far_a_match_is(match):
    """Four pairs: two sets of starts, two hosts, one agent; another plan's sign says nothing."""
    match.give_sign(3)
    assert match.progress() is None
    match.plan.write(PLAN)
    for pairs, expected in ((3, 3), (4, 4), (5, 0)):
        match.give_sign(pairs)
        assert match.progress() == (expected, 4)
    match.sign.path.unlink()
    assert match.progress() == (0, 4)
