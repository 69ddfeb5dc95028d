"""The verdict of the last export, for commands that measure nothing."""

import json

import pytest
from views import rho

from hpsearch.export.text import standing_verdict


@pytest.fixture
def view(story):
    for number, value in ((0, 0.1), (1, 0.3)):
        story.ask(number)
        story.run(number, job=f"0000{number}")
        story.tell(number, "finished", value)
    return story.view


def write(view, data: object) -> None:
    view.folder.best.mkdir(parents=True, exist_ok=True)
    (view.folder.best / "evaluation.json").write_text(json.dumps(data))


def certificate(trial: int) -> dict[str, object]:
    players = {"trained": rho(0.2), "zeillinger": rho(0.05)}
    return {
        "trial": trial,
        "rows": [
            {"player": name, "role": "host", "metrics": {"rho/host/choose_first": metric}}
            for name, metric in players.items()
        ],
    }


def test_what_the_export_of_the_trial_certifies_is_said(view):
    best = view.best()
    assert standing_verdict(view, best) == []
    write(view, certificate(best.number))
    first, *_, last = standing_verdict(view, best)
    name = f"Trial {best.number}, as host,"
    assert first == f"{name} is stronger than zeillinger against choose_first."
    assert "against choose_first alone, which it trained on" in last


def test_of_another_trial_or_a_damaged_file_nothing_is_said(view):
    best = view.best()
    whole = certificate(best.number)
    rows = whole["rows"]
    damaged = [
        certificate(best.number + 1),
        {**whole, "rows": None},
        {**whole, "rows": [{**rows[0], "metrics": {"rho/host/x": {}}}]},
        {**whole, "rows": rows[1:]},
        [],
        "x",
    ]
    for data in damaged:
        write(view, data)
        assert standing_verdict(view, best) == []
