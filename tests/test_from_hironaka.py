"""Old configurations become complete ones of ours, and nothing changes silently."""

import math

import pytest
from cli_tools import hpsearch, refused

from hpsearch import yaml_file
from hpsearch.cli import main
from hpsearch.errors import ConfigError
from hpsearch.schema import value_at
from hpsearch.study.spec import load_spec
from hpsearch.study.templates import write_study_around
from hpsearch.trainers.config import read_config
from hpsearch.trainers.from_hironaka import convert

OLD_ROLE = """
  batch_size: 24
  initial_rollout_size: 12
  steps_before_rollout: 4
  steps_before_update_target: 8
  rollout_size: 6
  max_rollout_step: 6
  optim:
    name: 'adam'
    args:
      lr: 0.00000001
    lr_schedule:  # moved by every call of train()
      mode: 'exponential'
      initial_lr: 0.001
      rate: 0.996
  er: 0.2
  er_schedule:
    mode: 'exponential'
    initial_er: 0.5
    rate: 0.99
  net_arch: [8, 'b', {repeat: 2, net_arch: ['r6']}]
  gamma: 0.9
  tau: 1
"""
OLD_REST = """
use_tensorboard: false
layerwise_logging: true
log_time: true
use_cuda: false
scale_observation: true
version_string: 'host-v7'
dimension: 3
max_num_points: 6
max_value: 9
max_grad_norm: 10
replay_buffer: {type: 'base', buffer_size: 500, use_cuda: false}
"""
FILES = {
    "host": OLD_REST + "host:" + OLD_ROLE,
    "agent": OLD_REST + "agent:" + OLD_ROLE,
    "both": OLD_REST
    + "host:"
    + OLD_ROLE
    + "agent:"
    + OLD_ROLE.replace("steps_before_rollout: 4", "steps_before_rollout: 2").replace(
        "'exponential'\n      initial_lr: 0.001\n      rate: 0.996",
        "'inverse'\n      initial_lr: 0.001\n      rate: 2",
    ),
}


def old(kind="host", **changes):
    """Return an old file as plain data; ``changes`` have __ between keys, ... removes one."""
    data = yaml_file.parse(FILES[kind])
    for path, value in changes.items():
        *parents, key = path.split("__")
        place = data
        for parent in parents:
            place = place[parent]
        if value is ...:
            del place[key]
        else:
            place[key] = value
    return data


def notes_of(data, kind):
    """Return the sentences of a kind by their keys."""
    warnings = convert(data, source="old.yml").notes
    return {note.key: note.text for note in warnings if note.kind == kind}


def problems(data):
    with pytest.raises(ConfigError) as caught:
        convert(data, source="old.yml")
    return caught.value.problems


@pytest.mark.slow
@pytest.mark.parametrize("kind", FILES)
def test_a_converted_file_is_complete_and_trains(kind, tmp_path):
    (tmp_path / "old.yml").write_text(FILES[kind])
    done = hpsearch(tmp_path, "init", "--from-hironaka", "old.yml", "-o", "new.yaml")
    text = (tmp_path / "new.yaml").read_text()
    assert text.splitlines()[:2] == [
        "# old.yml of hironaka.trainer, converted.",
        "# hpsearch train new.yaml",
    ]
    assert "hpsearch train new.yaml" in done.stdout
    config = read_config(yaml_file.parse(text), source="new.yaml")
    assert set(config.learning()) == ({"host", "agent"} if kind == "both" else {kind})
    small = ("steps=12", "evaluation.num_games=20", "evaluation.final_num_games=20")
    trained = hpsearch(tmp_path, "train", "new.yaml", *small)
    for role in config.learning():
        assert f"rho/{role}/random" in trained.stdout


def test_moves_and_updates_keep_their_proportion():
    data = old(host__max_rollout_step=20, host__steps_before_rollout=400)
    config = convert(data, source="").config
    assert (config["rollout_length"], config["updates_per_step"]) == (1, 20)
    assert config["steps"] * config["updates_per_step"] == 100_000
    assert config["max_steps"] == 20


def test_what_is_counted_in_gradient_steps_is_counted_in_steps():
    config = convert(old(host__steps_before_rollout=12), source="").config
    assert (config["rollout_length"], config["updates_per_step"]) == (1, 2)
    host = config["host"]
    assert host["steps_before_update_target"] == 4
    assert host["optim"]["lr_schedule"] == {
        "mode": "exponential",
        "initial": 0.001,
        "rate": pytest.approx(0.996**2),
    }
    assert host["er_schedule"]["rate"] == pytest.approx(0.99**2)
    # Four steps of six games play the first batch of 24.
    assert config["learning_starts"] == 3


def test_an_inverse_schedule_has_the_same_values_at_the_same_gradient_steps():
    data = old(host__steps_before_rollout=12)
    schedule = {"mode": "inverse", "initial_lr": 0.01, "rate": 3.0}
    data["host"]["optim"]["lr_schedule"] = schedule
    new = convert(data, source="").config["host"]["optim"]["lr_schedule"]
    for step in (0, 5, 1000):
        ours = new["rate"] / (step + new["rate"] / new["initial"])
        assert ours == pytest.approx(3.0 / (2 * step + 3.0 / 0.01))


def test_a_target_that_followed_within_a_step_takes_over_as_much():
    data = old(host__steps_before_rollout=24, host__steps_before_update_target=1, host__tau=0.1)
    host = convert(data, source="").config["host"]
    assert host["steps_before_update_target"] == 1
    assert host["tau"] == pytest.approx(1 - 0.9**4)


@pytest.mark.parametrize("schedule", [..., {"mode": "constant"}])
def test_without_a_schedule_rates_are_constant(schedule):
    data = old(host__optim__lr_schedule=schedule, host__er_schedule=schedule)
    host = convert(data, source="").config["host"]
    assert host["optim"]["lr_schedule"] == host["er_schedule"] == {"mode": "constant"}
    assert host["optim"]["args"]["lr"] == 1e-8
    assert host["er"] == 0.2


def test_the_switches_have_other_places():
    data = old(use_cuda=True, use_tensorboard=True, log_time=False)
    config = convert(data, source="").config
    assert config["device"] == "cuda"
    watched = {
        key: config["monitor"][key] for key in ("tensorboard", "layer_statistics", "timings")
    }
    assert watched == {"tensorboard": True, "layer_statistics": True, "timings": False}
    warnings = notes_of(data, "changed")
    assert {"use_tensorboard", "layerwise_logging", "log_time"} <= set(warnings)
    assert "device: cuda" in warnings["replay_buffer.use_cuda"]


@pytest.mark.parametrize("kind", FILES)
def test_nothing_that_slows_training_is_on_unasked(kind):
    """Old files have no key for it."""
    config = convert(old(kind), source="").config
    assert (config["deterministic"], config["detect_anomaly"]) == (False, False)
    assert config["monitor"]["profiler"] is None


def test_a_missing_role_is_played_by_a_script_that_is_named():
    for kind, other, player in (("host", "agent", "choose_first"), ("agent", "host", "random")):
        assert convert(old(kind), source="").config[other] == {"player": player}
        assert player in notes_of(old(kind), "chosen")[other]


def test_schedules_that_move_are_told_with_their_half_life():
    warnings = notes_of(old(), "changed")
    half_life = round(math.log(2) / -math.log(0.996))
    assert f"after {half_life} gradient steps" in warnings["host.optim.lr_schedule"]
    assert "stood still" in warnings["host.er_schedule"]
    rollouts = "rollout_size, max_rollout_step, steps_before_rollout"
    assert "pace" not in warnings[f"host.{rollouts}"]
    assert "used to draw" not in warnings["host.er"]
    warnings = notes_of(old("both"), "changed")
    assert "used to draw" not in warnings["host.er"]
    assert "used to draw" in warnings["agent.er"]
    assert "pace" not in warnings[f"host.{rollouts}"]
    assert "halved after 2000 gradient steps" in warnings["agent.optim.lr_schedule"]
    assert "another pace" in warnings[f"agent.{rollouts}"]


def test_what_was_never_read_is_left_out_and_told():
    data = old(host__optim__lr=0.1, use_wandb=True, host__gradient_steps_per_loop=10)
    assert convert(data, source="").config == convert(old(), source="").config
    warnings = notes_of(data, "left out")
    assert "optim.args.lr" in warnings["host.optim.lr"]
    assert {"use_wandb", "host.gradient_steps_per_loop", "version_string"} <= set(warnings)


def test_a_comma_behind_a_number_is_no_part_of_it():
    data = yaml_file.parse(FILES["host"].replace("gamma: 0.9", "gamma: 0.9,"))
    assert data["host"]["gamma"] == "0.9,"
    assert convert(data, source="").config["host"]["gamma"] == 0.9
    assert "0.9" in notes_of(data, "changed")["host.gamma"]


def test_other_optimizers_keep_their_arguments():
    adam = {"name": "adam", "args": {"lr": 1e-3, "betas": [0.8, 0.99], "weight_decay": 0.1}}
    data = old(host__optim=adam)
    args = convert(data, source="").config["host"]["optim"]["args"]
    assert args == {"lr": 1e-3, "beta1": 0.8, "beta2": 0.99, "eps": 1e-8}
    assert "adamw" in notes_of(data, "left out")["host.optim.args.weight_decay"]
    sgd = {"name": "sgd", "args": {"lr": 1e-2, "momentum": 0.9}}
    args = convert(old(host__optim=sgd), source="").config["host"]["optim"]["args"]
    assert args == {"lr": 1e-2, "momentum": 0.9, "weight_decay": 0.0}


def test_buffers_that_fill_the_memory_are_told():
    assert "replay_buffer.buffer_size" not in notes_of(old(), "changed")
    data = old("both", replay_buffer__buffer_size=100_000_000)
    # 2 positions of 6 points of 3 coordinates of 4 bytes.
    assert "14 GB" in notes_of(data, "changed")["replay_buffer.buffer_size"]


def test_all_faults_are_listed_by_their_old_names():
    data = old(
        max_value="high",
        host__gamma=...,
        host__tau=1.5,
        host__net_arch=[8, "x"],
        host__optim__name="adagrad",
        host__er_schedule={"mode": "exponential", "initial_er": 0.5},
    )
    text = "\n".join(problems(data))
    for key in ("max_value must", "host.gamma is missing", "host.tau must lie", "host.optim.name"):
        assert key in text
    assert "host.er_schedule.rate is missing" in text


def test_a_network_out_of_the_grammar_is_told():
    (problem,) = problems(old(host__net_arch=[8, "x"]))
    assert "host.net_arch is not of the grammar" in problem


def test_a_role_must_learn():
    (problem,) = problems(old(host=...))
    assert "both are missing" in problem


@pytest.mark.parametrize("kind", FILES)
def test_a_study_around_an_old_file_is_one_to_run(kind, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old.yml").write_text(FILES[kind])
    assert main(["init", "new.yaml", "--from-hironaka", "old.yml"]) == 0
    output = capsys.readouterr().out
    assert "run:  hpsearch run new.yaml" in output
    assert "has another meaning or place:" in output
    study = load_spec(tmp_path / "new.yaml")
    (base,) = study.bases.values()
    assert base == convert(old(kind), source="").config
    assert study.spec.name == "new"
    roles = ("host", "agent") if kind == "both" else (kind,)
    keys = ("optim.lr_schedule.initial", "gamma")
    assert set(study.spec.space) == {f"{role}.{key}" for role in roles for key in keys}
    for path, parameter in study.spec.space.items():
        assert parameter.low < value_at(base, path) < parameter.high
    (objective,) = study.spec.objectives
    assert objective.metric == f"panel/{roles[0]}"
    assert objective.goal == ("minimize" if kind == "agent" else "maximize")
    assert main(["validate", "new.yaml"]) == 0


def test_without_a_schedule_the_rate_itself_is_searched(tmp_path):
    config = convert(old(host__optim__lr_schedule=..., host__gamma=1.0), source="").config
    files = write_study_around(config, tmp_path / "old.yml", tmp_path)
    assert files.study == tmp_path / "old.yaml"
    assert set(load_spec(files.study).spec.space) == {"host.optim.args.lr"}


def test_o_is_of_a_configuration_without_a_study(tmp_path):
    (tmp_path / "old.yml").write_text(FILES["host"])
    options = ("--from-hironaka", "old.yml", "-o", "other.yaml")
    assert "-o names" in refused(tmp_path, "init", "new.yaml", *options, code=2)
    assert [path.name for path in tmp_path.iterdir()] == ["old.yml"]


def test_no_file_is_overwritten(tmp_path):
    (tmp_path / "old.yml").write_text(FILES["host"])
    (tmp_path / "old.yaml").write_text("mine")
    message = refused(tmp_path, "init", "--from-hironaka", "old.yml", code=2)
    assert "old.yaml exists" in message
    assert "-o" in message
    assert (tmp_path / "old.yaml").read_text() == "mine"


def test_a_file_of_another_kind_is_refused(tmp_path):
    (tmp_path / "old.yml").write_text("[1, 2]")
    message = refused(tmp_path, "init", "--from-hironaka", "old.yml", code=3)
    assert "must be a mapping" in message
    assert not (tmp_path / "old.yaml").exists()
