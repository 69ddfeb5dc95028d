"""Trials as CSV: what another reader makes of it is what the events said."""

import csv
import io
import json

import pytest
from cli_tools import write_study
from views import METRIC, Story, rho

from hpsearch.cli import parse
from hpsearch.report.listing import write_csv

GAMMA, LR, ARCH = "host.gamma", "host.optim.args.lr", "host.net_arch"
SAMPLED = "rho_sampled/host/choose_first"
CHOICES = [[8, "b"], [16]]


@pytest.fixture
def story(tmp_path):
    """A study of two objectives, with a parameter that is a list."""
    changes = {
        "objectives": [{"metric": name, "goal": "maximize"} for name in (METRIC, SAMPLED)],
        f"space/{ARCH}": {"type": "categorical", "choices": CHOICES},
        "sampler": {"name": "random"},
    }
    return Story(write_study(tmp_path, changes))


def written(story: Story) -> str:
    file = io.StringIO(newline="")
    write_csv(story.view, file)
    return file.getvalue()


def test_every_trial_is_a_row_with_intervals_and_every_parameter(story):
    labels = [json.dumps(choice) for choice in CHOICES]
    story.ask(1, **{GAMMA: 0.1 + 0.2, ARCH: labels[1]})
    story.ask(0, **{ARCH: labels[0]})
    story.run(0, 1, job="00001")
    metrics = {METRIC: rho(0.5), SAMPLED: rho(0.25)}
    how = {"failure": None, "message": ""}
    story.add("told", 0, state="finished", value=0.5, metrics=metrics, **how)
    text = written(story)
    assert text.count("\r\n") == text.count("\n") == 3  # RFC 4180: also behind the last line
    header, *rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    values = [f"{name}{end}" for name in (METRIC, SAMPLED) for end in ("", " low", " high")]
    assert header == ["number", "state", *values, LR, GAMMA, ARCH]
    assert rows[0][:2] == ["0", "finished"]
    assert [float(cell) for cell in rows[0][2:8]] == [0.5, 0.49, 0.51, 0.25, 0.24, 0.26]
    assert json.loads(rows[0][-1]) == CHOICES[0]
    assert rows[1][:8] == ["1", "running", *[""] * 6]
    assert float(rows[1][-2]) == 0.1 + 0.2  # all digits, unlike the list for people


def test_json_and_csv_exclude_each_other(capsys):
    with pytest.raises(SystemExit):
        parse(["trials", "tiny", "--json", "--csv"])
    assert "not allowed with" in capsys.readouterr().err
