"""The guide to adding things is true: every name that it gives is where it says."""

import re
from pathlib import Path

import pytest
import torch

from hpsearch.game.stream import Stream
from hpsearch.trainers.config.net_arch import parse
from hpsearch.trainers.config.players import FlattenEncoder
from hpsearch.trainers.config.weight_layout import Inputs, Tower
from hpsearch.trainers.networks import Arithmetic, Network

GUIDE = Path(__file__).parent.parent / "hpsearch/ADDING.md"
TEXT = " ".join(GUIDE.read_text().split())
# `name`, `name` and `name` in [file.py](file.py)
NAMED = re.findall(
    r"((?:`\w+`(?:, | and )?)+)(?: in| of| there)? ?\(?\[[^]]+\]\(([^)]+\.py)\)", TEXT
)


@pytest.mark.parametrize(("names", "path"), NAMED)
def test_names_are_where_the_guide_says(names, path):
    text = (GUIDE.parent / path).read_text()
    for name in re.findall(r"`(\w+)`", names):
        assert re.search(rf"(?:def|class) {name}\b|^{name}\b.*=", text, flags=re.MULTILINE), name


def test_the_guide_names_places_in_every_part():
    parts = GUIDE.read_text().split("\n## ")[1:]
    assert [part.partition("\n")[0] for part in parts] == [
        "An operator on weights",
        "A training algorithm",
        "A layer or an encoder",
        "A command",
        "A variant of the game",
        "An executor",
    ]
    for part in parts:
        flat = " ".join(part.split())
        assert sum(flat.count(f"]({path})") for _, path in NAMED) >= 1


def test_what_is_added_most_touches_three_places():
    parts = GUIDE.read_text().split("\n## ")[1:5]
    for part in parts:
        assert re.findall(r"^(\d)\. ", part, flags=re.MULTILINE) == ["1", "2", "3"]


def test_files_of_tests_that_the_guide_names_exist():
    root = GUIDE.parent.parent
    named = re.findall(r"`((?:tests|studies)/[\w/.]+)`", TEXT)
    assert len(named) >= 8
    for path in named:
        assert (root / path).exists(), path


def test_the_operator_that_the_guide_shows_works():
    (code,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL)
    names: dict = {}
    exec(code, names)
    tower = Tower(
        encoder=FlattenEncoder("flatten", 4),
        layers=parse([7]),
        activation="relu",
        num_outputs=4,
        init="uniform",
        last_scale=1.0,
        dueling=False,
    )
    keys = torch.tensor([1, 2, 3])
    stream = Stream(keys, torch.zeros_like(keys))
    net = Network(Inputs(4, 3, 0), [tower], Arithmetic("fp32", "off"), stream)
    share = torch.linspace(0.5, 1.0, net.weights.shape[0])
    shrunk = names["shrunk"](net, share=share)
    assert torch.equal(shrunk.weights, net.weights * share[:, None])
    assert shrunk.weights.data_ptr() != net.weights.data_ptr()
