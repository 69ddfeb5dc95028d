"""`run --trials`: another total than the file's, which no later command forgets or hides."""

import time
from pathlib import Path

import pytest
from drives import check_books, new_study, opened
from fakes import FakeExecutor

from hpsearch import yaml_file
from hpsearch.api import background, driving
from hpsearch.api.driving import study_to_resume
from hpsearch.cli import main
from hpsearch.study.driver import Driver
from hpsearch.study.spec import Study, load_spec
from hpsearch.study.view import open_view


@pytest.fixture
def study(tmp_path, monkeypatch) -> Study:
    """A study whose file says three trials; its jobs do not train."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(driving, "build_executor", lambda study, folder: FakeExecutor())
    monkeypatch.setattr(driving, "poll_seconds", lambda study: 0.0)
    return new_study(tmp_path, budget={"trials": 3})


def run(study: Study, *options: str) -> int:
    return main(["run", str(study.path), "--no-export", *options])


def finished() -> tuple[int, int]:
    """Return the trials that have finished, and those that the study may have."""
    view = open_view("quick", Path("runs"))
    return view.state.counts()["finished"], view.study.spec.budget.trials


def rewrite(study: Study, trials: int) -> None:
    data = yaml_file.load(study.path)
    study.path.write_text(yaml_file.dump(data | {"budget": {"trials": trials}}))


def test_the_given_total_counts_in_place_of_the_files(study, capsys):
    text = study.path.read_text()
    assert run(study, "--trials", "5") == 0
    assert finished() == (5, 5)
    assert study.path.read_text() == text
    assert "--trials" not in capsys.readouterr().err
    check_books(load_spec(study.path, trials=5), FakeExecutor())
    assert main(["validate", str(study.path)]) == 0
    assert "is a valid study: 5 trials of" in capsys.readouterr().out


def test_a_finished_study_goes_on_to_a_larger_total(study):
    assert run(study) == 0
    assert finished() == (3, 3)
    assert run(study, "--trials", "4") == 0
    assert main(["run", "quick", "--no-export", "--trials", "6"]) == 0
    assert finished() == (6, 6)


@pytest.mark.parametrize("again", ["run", "resume"])
def test_going_on_keeps_to_the_given_total(study, again, capsys, monkeypatch):
    given = ["run", str(study.path), "--no-export", "--trials", "5"]
    with monkeypatch.context() as patch:  # killed in the first round
        patch.setattr(Driver, "write_snapshot", lambda driver, *, if_due: 1 / 0)
        assert main(given) == 1
    assert finished()[1] == 5
    capsys.readouterr()
    if again == "run":
        assert run(study) == 0
        assert finished() == (5, 5)
    else:
        started: list[Study] = []
        monkeypatch.setattr(background, "_start_driver", lambda study, *_: started.append(study))
        view = open_view("quick", Path("runs"))
        background.ask(view, study_to_resume(view), Path("runs"), background.Request("resume"))
        assert [study.spec.budget.trials for study in started] == [5]
        assert finished()[1] == 5
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith(
        "hpsearch: quick has 5 trials in all, as --trials or run(trials=...) said; "
    )
    assert said.endswith(f"budget.trials in {study.path}, now 3, for another total")


def test_a_command_by_name_does_not_forget_the_given_total(study):
    """As the driver of a submitted study does it, or a pause of a study without a driver."""
    assert run(study, "--trials", "5") == 0
    assert main(["run", "quick", "--no-export"]) == 0
    assert finished() == (5, 5)
    assert run(study) == 0
    assert finished() == (5, 5)


def test_another_number_in_the_file_is_heard(study, capsys):
    assert run(study, "--trials", "5") == 0
    rewrite(study, 7)
    assert run(study) == 0
    assert finished() == (7, 7)
    assert "--trials" not in capsys.readouterr().err


def test_the_files_own_number_takes_the_given_one_back(study, capsys):
    assert run(study, "--trials", "5") == 0
    assert run(study, "--trials", "3") == 0
    capsys.readouterr()
    assert run(study) == 0
    assert finished() == (5, 3)
    assert "--trials" not in capsys.readouterr().err


def test_a_total_below_what_has_begun_is_refused(study, capsys):
    assert run(study, "--trials", "5") == 0
    assert run(study, "--trials", "4") == 2
    assert main(["run", "quick", "--no-export", "--trials", "4"]) == 2
    assert "has begun 5 trials, so a total of 4 is too low" in capsys.readouterr().err
    assert finished() == (5, 5)


def test_a_total_that_was_refused_leaves_nothing(study):
    with opened(study, FakeExecutor(), time.time):
        assert run(study, "--trials", "9") == 4
    assert run(study) == 0
    assert finished() == (3, 3)


@pytest.mark.parametrize("total", ["0", "-1", "many"])
def test_a_total_is_a_positive_number(study, total, capsys):
    with pytest.raises(SystemExit) as ended:
        run(study, f"--trials={total}")
    assert ended.value.code == 2
    assert "--trials" in capsys.readouterr().err


def test_a_total_that_the_file_took_back_does_not_return(study):
    assert run(study, "--trials", "4") == 0
    rewrite(study, 5)
    assert run(study) == 0
    assert finished() == (5, 5)
    rewrite(study, 3)  # as it was when 4 was given
    assert run(study) == 0
    assert finished()[1] == 3


def test_a_damaged_record_of_a_total_ends_no_command(study):
    assert run(study, "--trials", "4") == 0
    (Path("runs") / "quick" / "given-total.json").write_text("{")
    assert run(study) == 0
    assert finished() == (4, 3)
