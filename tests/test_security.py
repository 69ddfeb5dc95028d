"""What study files, names and checkpoints cannot do.

Of who may read what is written, see tests/test_cli.py.
"""

import pickle
from pathlib import Path

import pytest
from cli_tools import refused, write_study, write_trainer
from test_train import same_threads_afterwards, train

__all__ = ["same_threads_afterwards", "train"]

SHORT = {"steps": 20, "evaluation/interval": 20, "evaluation/final_num_games": 50}


@pytest.mark.parametrize(
    "name", ["../elsewhere", "a/b", "a b", "$(touch x)", "-rf", "", ".hidden", "x" * 65, "a\nb"]
)
def test_names_that_would_reach_a_path_or_a_shell(tmp_path: Path, name: str) -> None:
    write_study(tmp_path, {"name": name})
    message = refused(tmp_path, "run", "study.yaml", code=3)
    assert "name must begin with a letter or digit" in message
    assert sorted(path.name for path in tmp_path.iterdir()) == ["study.yaml", "trainer.yaml"]


@pytest.mark.parametrize(
    "text",
    [
        "!!python/object/apply:os.system ['touch x']",
        "!!python/name:os.system",
        "!!python/module:os",
    ],
)
def test_a_study_file_imports_no_code(tmp_path: Path, text: str) -> None:
    study = write_study(tmp_path)
    study.write_text(study.read_text() + f"\nmax_failures: {text}\n")
    refused(tmp_path, "validate", "study.yaml", code=3)
    assert not (tmp_path / "x").exists()


class Malice:
    def __reduce__(self):
        return Path.touch, (Path("x"),)


@pytest.mark.slow
def test_a_pickle_in_a_checkpoint_is_not_loaded(tmp_path: Path, train) -> None:
    """Whatever stands in for a checkpoint's tensors is read as safetensors, or refused."""
    write_trainer(tmp_path, SHORT)
    assert train(config="trainer.yaml")[0] == 0
    for path in (tmp_path / "runs/trainer/checkpoints").glob("step-*/*.safetensors"):
        path.write_bytes(pickle.dumps(Malice()))
    message = refused(tmp_path, "evaluate", "runs/trainer", "--match-steps", "0", code=2)
    assert "holds no whole checkpoint" in message
    assert not (tmp_path / "x").exists()
