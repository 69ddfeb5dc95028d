"""Certificates of versions that did not know all metrics of today."""

from dataclasses import replace

import torch

from hpsearch.export.certificate import certify, differences
from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.opponents import load_player

PANEL = ["choose_first", "choose_last", "random"]


def test_one_that_names_no_worst_opponent_is_kept_but_must_name_all_or_none(tiny_config, tmp_path):
    trainer = build_trainer([tiny_config({"evaluation.opponents": PANEL})])
    path = trainer.save(tmp_path, 0)
    players = {"host": load_player(path, "host", torch.device("cpu"))}
    conditions, rows = certify(players, 20)
    assert "worst/host" in rows[0].metrics
    assert differences(players, conditions, rows) == []
    older = tuple(
        replace(row, metrics={k: v for k, v in row.metrics.items() if not k.startswith("worst")})
        for row in rows
    )
    assert differences(players, conditions, older) == []
    told = {k: v for k, v in rows[0].metrics.items() if k != "worst/host"}
    some = (replace(rows[0], metrics=told), *rows[1:])
    (*_, line) = differences(players, conditions, some)
    assert line.startswith("trained, worst/host")
    wrong = {**rows[0].metrics, "worst/host": {**rows[0].metrics["worst/host"], "value": 0.5}}
    (line,) = differences(players, conditions, (replace(rows[0], metrics=wrong), *rows[1:]))
    assert "certified 0.5" in line
