"""The study that confirms another one: an ordinary one, on seeds that the other never uses."""

from pathlib import Path

import pytest
from study_files import LR, NET_ARCH, load

from hpsearch import yaml_file
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.errors import ConfigError, ConflictError, UsageError
from hpsearch.study.derived import (
    CONFIRM_SUFFIX,
    CONFIRMATION,
    HELD_OUT,
    begun_derived,
    configurations,
    derived_name,
    key,
    num_seeds,
    with_more_seeds,
    write_confirmation,
)
from hpsearch.study.options import ListedOptions, NoPruning
from hpsearch.study.spec import SEEDS_PER_STUDY, load_spec
from hpsearch.study.stored_spec import spec_hash

CHOSEN = [
    {"host.optim.args.lr": 0.00123456789012345, "host.net_arch": [64, 64]},
    {"host.optim.args.lr": 1e-05, "host.net_arch": [128, 128]},
]


@pytest.fixture
def folder(tmp_path: Path) -> StudyDir:
    return StudyDir(tmp_path / "runs" / "quick-confirm")


def test_it_trains_what_was_chosen_and_shares_what_is_fair(tmp_path, folder):
    search = load(tmp_path, seed=7, max_failures=9, pruner={"name": "median"})
    study = write_confirmation(search, CHOSEN, 3, folder)
    assert study.spec.name == "quick-confirm"
    assert study.spec.sampler == ListedOptions("listed", tuple(CHOSEN))
    assert study.spec.pruner == NoPruning()
    assert (study.spec.budget.trials, num_seeds(study)) == (6, 3)
    for same in ("storage", "objectives", "space", "max_failures", "executor"):
        assert getattr(study.spec, same) == getattr(search.spec, same)
    assert study.bases == search.bases
    assert folder.study_file.read_text().startswith("# hpsearch confirm quick\n")
    assert begun_derived(folder, CONFIRMATION) == study


def test_nothing_is_left_of_a_study_that_would_be_wrong(tmp_path, folder):
    with pytest.raises(ConfigError):
        write_confirmation(load(tmp_path), [CHOSEN[0] | {"host.optim.args.lr": 9.0}], 2, folder)
    assert list(folder.root.iterdir()) == []


def test_seeds_never_meet_those_of_the_search_or_its_neighbours(tmp_path, folder):
    held_out = set()
    for seed in range(5):
        search = load(tmp_path, seed=seed)
        study = write_confirmation(search, CHOSEN, 50, folder)
        params = {"host.optim.args.lr": 1e-3, "host.net_arch": "[64, 64]"}
        seeds = {study.trial_config(number, params)["seed"] for number in range(100)}
        assert len(seeds) == 100
        assert not seeds & held_out
        held_out |= seeds
        assert min(seeds) >= HELD_OUT * SEEDS_PER_STUDY
    assert max(held_out) < 2**53  # whole in any program that reads the JSON


def test_more_seeds_are_the_same_study(tmp_path, folder):
    begun = write_confirmation(load(tmp_path), CHOSEN, 2, folder)
    data = yaml_file.load(folder.study_file)
    folder.study_file.write_text(yaml_file.dump(data | {"max_failures": 77}))
    more = with_more_seeds(load_spec(folder.study_file), 5, folder, "quick")
    assert (num_seeds(more), more.spec.max_failures) == (5, 77)
    assert spec_hash(more) == spec_hash(begun)


def test_a_searched_seed_is_held_out_too(tmp_path, folder):
    seeds = {"type": "int", "low": 0, "high": 9}
    search = load(tmp_path, space={"host.optim.args.lr": LR, "seed": seeds})
    chosen = [{"host.optim.args.lr": 1e-3, "seed": 4}]
    study = write_confirmation(search, chosen, 2, folder)
    assert configurations(study) == ({"host.optim.args.lr": 1e-3},)
    assert study.trial_config(0, {"host.optim.args.lr": 1e-3})["seed"] >= HELD_OUT
    assert key(chosen[0]) == key(configurations(study)[0])


@pytest.mark.parametrize(
    ("space", "words"),
    [
        ({"seed": {"type": "int", "low": 0, "high": 9}}, "nothing else"),
        (
            {
                "seed": {"type": "categorical", "choices": [1, 2]},
                "host.net_arch": NET_ARCH | {"when": {"seed": 1}},
            },
            "little else",
        ),
    ],
)
def test_a_search_of_seeds_cannot_be_confirmed(tmp_path, folder, space, words):
    search = load(tmp_path, space=space)
    with pytest.raises(UsageError, match=f"quick searches the seed, and {words}"):
        write_confirmation(search, [{"seed": 1}], 2, folder)
    assert not folder.root.exists()


def test_a_profile_is_found_from_the_new_place(tmp_path, folder):
    profile = Path(__file__).parents[2] / "slurm/a100.yaml"
    (tmp_path / "site.yaml").write_text(profile.read_text())
    executor = {"name": "slurm", "profile": "site.yaml", "jobs": 4}
    study = write_confirmation(load(tmp_path, executor=executor), CHOSEN, 2, folder)
    assert study.spec.executor.profile == str(tmp_path / "site.yaml")


def test_algorithms_keep_their_bases(tmp_path, folder):
    bases = Path(__file__).parents[2] / "studies/trainers"
    search = load(
        tmp_path,
        base={name: str(bases / f"{name}_20x3.yaml") for name in ("dqn", "ppo")},
        space={
            "algorithm": {"type": "categorical", "choices": ["dqn", "ppo"]},
            "host.optim.args.lr": LR,
        },
    )
    study = write_confirmation(
        search, [{"algorithm": "ppo", "host.optim.args.lr": 1e-3}], 2, folder
    )
    assert study.bases == search.bases


def test_names(tmp_path, folder):
    assert derived_name("quick", CONFIRM_SUFFIX, "confirmed") == "quick-confirm"
    with pytest.raises(UsageError, match="search under a shorter name"):
        derived_name("x" * 60, CONFIRM_SUFFIX, "confirmed")


def test_a_folder_of_another_study_is_left_alone(tmp_path, folder):
    assert begun_derived(folder, CONFIRMATION) is None
    folder.root.mkdir(parents=True)
    folder.spec.write_text("{}")
    with pytest.raises(ConflictError, match="belongs to a study that is no confirmation"):
        begun_derived(folder, CONFIRMATION)
    load(tmp_path)
    folder.study_file.write_text((tmp_path / "study.yaml").read_text())
    with pytest.raises(ConflictError, match="belongs to a study that is no confirmation"):
        begun_derived(folder, CONFIRMATION)
