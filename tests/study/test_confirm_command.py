"""hpsearch confirm over a fake executor: what it trains, goes on with, refuses and says."""

import json
import os
import signal
from collections import Counter

import pytest
from drives import drive, new_study
from fakes import FakeExecutor, Fault

from hpsearch import yaml_file
from hpsearch.analysis import held_out
from hpsearch.analysis.candidates import all_candidates
from hpsearch.api import background, driving
from hpsearch.cli import main
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.study.derived import key, write_confirmation
from hpsearch.study.records import FAIL
from hpsearch.study.spec import load_spec
from hpsearch.study.view import open_view

LR = "host.optim.args.lr"


class Place:
    """A folder with a search that has finished, in which commands run over fake jobs."""

    def __init__(self, folder, monkeypatch, capsys):
        self.folder, self.runs = folder, folder / "runs"
        self._patch, self._capsys = monkeypatch, capsys
        monkeypatch.setattr(driving, "poll_seconds", lambda study: 0.0)
        self.jobs()
        self.measured: list[tuple[int, int]] = []
        monkeypatch.setattr(held_out, "held_out_values", self._values)

    def search(self, trials=6, executor=None, **changes):
        study = new_study(
            self.folder, sampler={"name": "random"}, budget={"trials": trials}, **changes
        )
        drive(study, executor or FakeExecutor())
        return study

    def jobs(self, **how):
        self._patch.setattr(driving, "build_executor", lambda study, folder: FakeExecutor(**how))

    def _values(self, view, trials, num_games):
        """A configuration's value is what it was worth in the search, give or take its trial's."""
        self.measured += [(trial.number, num_games) for trial in trials]
        return {
            trial.number: {"rho/host/choose_first": trial.value + 0.001 * (trial.number % 7)}
            for trial in trials
        }

    def run(self, *arguments, code=0):
        done = main([*map(str, arguments), "--runs", str(self.runs)])
        output = self._capsys.readouterr()
        assert done == code, output.err
        return output

    def confirm(self, *arguments, code=0):
        return self.run("confirm", "quick", *arguments, code=code)

    @property
    def plain(self):
        return json.loads((self.runs / "quick" / "confirmation.json").read_text())

    @property
    def trained(self):
        return open_view("quick-confirm", self.runs)

    def seeds(self):
        return [len(trial["seeds"]) for trial in self.plain["trials"]]


@pytest.fixture
def place(tmp_path, monkeypatch, capsys):
    return Place(tmp_path, monkeypatch, capsys)


def best(place, count):
    trials = open_view("quick", place.runs).state.trials.values()
    return [trial.number for trial in sorted(trials, key=lambda trial: -trial.value)][:count]


def test_the_best_are_trained_on_as_many_seeds(place):
    place.search()
    output = place.confirm("--top", 2, "--seeds", 4, "--games", 77)
    assert {trial["trial"] for trial in place.plain["trials"]} == set(best(place, 2))
    assert (place.seeds(), place.plain["favourite"]) == ([4, 4], best(place, 1)[0])
    assert place.measured == [(number, 77) for number in range(8)]
    order = [key(place.trained.study.space.decode(trial.params)) for trial in
             place.trained.state.trials.values()]  # fmt: skip
    assert order == [order[0], order[1]] * 4  # all on one seed before any on two
    used = [seed["seed"] for trial in place.plain["trials"] for seed in trial["seeds"]]
    search = open_view("quick", place.runs)
    assert not set(used) & {search.config(trial)["seed"] for trial in search.state.trials.values()}
    assert output.out.rstrip().splitlines()[-1] == place.plain["advice"]


def test_what_best_responses_take_stands_beside(place, monkeypatch):
    asked = []

    def exploited(view, trial, num_games, steps):
        asked.append((trial.number, num_games, steps))
        return {"exploitability/host": 0.01 * trial.number}

    monkeypatch.setattr(held_out, "exploited_values", exploited)
    place.search()
    output = place.confirm("--top", 2, "--seeds", 2, "--games", 77, "--best-response", 30)
    assert asked == [(number, 77, 30) for number in range(4)]
    assert place.plain["response_steps"] == 30
    means = [
        sum(seed["metrics"]["exploitability/host"] for seed in trial["seeds"]) / 2
        for trial in place.plain["trials"]
    ]
    assert sorted(means) == pytest.approx([0.01, 0.02])
    assert "a best response of 30 steps takes" in output.out
    header, *rows = [line.split() for line in output.out.splitlines()[-4:-1]]
    assert header[-1] == "exploitability"
    assert [row[-1] for row in rows] == [f"{mean:.4f}" for mean in means]


@pytest.mark.slow
def test_five_of_each_are_the_default(place):
    place.search(trials=7)
    place.confirm()
    assert place.seeds() == [5] * 5
    assert {games for _, games in place.measured} == {10_000}


@pytest.mark.slow
def test_the_same_command_goes_on(place, monkeypatch):
    place.search()
    seen = []

    def interrupt(config, step):
        seen.append(step)
        if len(seen) == 6:
            os.kill(os.getpid(), signal.SIGINT)
        return 0.1

    place.jobs(curve=interrupt)
    output = place.confirm("--top", 2, "--seeds", 2, "--games", 77, code=130)
    again = f"hpsearch confirm quick --runs {place.runs} --games 77"
    assert output.err.endswith(f"interrupted; go on with: {again}\n")
    assert not (place.runs / "quick" / "confirmation.json").exists()
    place.jobs()
    place.confirm()
    assert place.seeds() == [2, 2]
    assert len(place.trained.state.trials) == 4
    place.confirm()
    assert len(place.trained.state.trials) == 4


def test_more_seeds_are_added_and_fewer_are_not_taken_away(place):
    place.search()
    place.confirm("--top", 2, "--seeds", 2)
    place.confirm("--seeds", 4)
    assert place.seeds() == [4, 4]
    output = place.confirm("--top", 2, "--seeds", 3)
    assert "quick-confirm goes on with the 4 seeds of each that were begun" in output.err
    assert place.seeds() == [4, 4]


def test_another_set_is_refused(place):
    place.search()
    place.confirm("--top", 2, "--seeds", 2)
    output = place.confirm("--top", 3, code=4)
    numbers = ", ".join(map(str, best(place, 3)))
    assert f"cannot change to {numbers}; leave out --top to go on" in output.err
    assert output.out == ""


def test_what_was_written_and_never_driven_is_written_again(place):
    search = place.search()
    folder = StudyDir(place.runs / "quick-confirm")
    candidate = all_candidates(open_view("quick", place.runs))[0]
    write_confirmation(search, [candidate.values], 9, folder)
    place.confirm("--top", 2, "--seeds", 2)
    assert place.seeds() == [2, 2]


def test_what_a_search_found_later_is_not_taken_for_confirmed(place):
    place.search(trials=4)
    place.confirm("--top", 2, "--seeds", 2)
    before = best(place, 2)
    place.search(trials=40)
    assert best(place, 2) != before
    output = place.confirm()
    assert "the best of quick are others by now; compared are trials" in output.err
    assert {trial["trial"] for trial in place.plain["trials"]} == set(before)
    assert place.plain["favourite"] == best(place, 1)[0]


def test_fewer_than_asked_for_are_taken_and_told(place):
    place.search(trials=2)
    output = place.confirm("--top", 5, "--seeds", 2)
    assert "quick has only 2 different configurations that have finished" in output.err
    assert place.seeds() == [2, 2]
    place.confirm("--top", 5)


def test_a_failed_training_is_told_and_the_rest_compared(place):
    place.search()
    place.jobs(faults={(number, 1): Fault("nan", 4) for number in (1, 3)})
    output = place.confirm("--top", 2, "--seeds", 3)
    second = best(place, 2)[1]
    assert f"trial {second} of quick: 2 of its trainings failed (nan)" in output.err
    compared = {trial["trial"]: trial for trial in place.plain["trials"]}
    assert (len(compared[second]["seeds"]), compared[second]["failed"]) == (1, 2)
    assert compared[second]["chance"] is not None
    assert "1, 2 failed" in output.out


def test_a_configuration_that_never_finishes_comes_last(place):
    place.search()
    place.jobs(faults={(number, 1): Fault("nan", 4) for number in (0, 2, 4)})
    place.confirm("--top", 2, "--seeds", 3)
    first, last = place.plain["trials"]
    assert (last["trial"], last["mean"], last["seeds"]) == (best(place, 1)[0], None, [])
    assert first["trial"] == place.plain["best"]
    assert "nothing is known" in place.plain["advice"]


def test_a_training_that_broke_off_is_compared_as_far_as_it_got(place):
    place.search(max_failures=0)
    place.jobs(faults={(4, 1): Fault("nan", 4)})
    output = place.confirm("--top", 2, "--seeds", 3)
    assert place.trained.state.status == "failed"
    assert "the study quick-confirm stopped: more than 0 trials failed" in output.err
    assert len(place.trained.state.told(FAIL)) == 1


def test_nothing_to_compare(place):
    place.search(max_failures=0)
    place.jobs(faults={(number, 1): Fault("nan", 4) for number in range(6)})
    output = place.confirm("--top", 2, "--seeds", 3, code=8)
    assert "the study quick-confirm stopped" in output.err


def test_one_seed_tells_nothing_of_the_spread(place):
    place.search()
    output = place.confirm("--top", 2, "--seeds", 1)
    assert "one seed of each tells nothing of the spread" in output.out
    assert {trial["chance"] for trial in place.plain["trials"]} == {None}


def test_without_a_finished_trial(place):
    place.search(
        trials=2,
        max_failures=9,
        executor=FakeExecutor(faults={(number, 1): Fault("nan", 4) for number in (0, 1)}),
    )
    output = place.confirm(code=1)
    assert "no trial of quick has finished, 2 failed (nan: " in output.err
    assert not (place.runs / "quick-confirm").exists()
    assert "there is none" not in output.err
    assert "no study 'missing'" in place.run("confirm", "missing", code=2).err


def test_a_search_that_goes_on_is_confirmed_as_far_as_it_is(place):
    from drives import Clock, opened

    study = new_study(place.folder, sampler={"name": "random"}, budget={"trials": 9})
    with opened(study, FakeExecutor(), Clock()) as driver:
        while len(driver.state.told("finished")) < 3:
            driver.tick()
    output = place.confirm("--top", 2, "--seeds", 2)
    assert (
        "quick is interrupted: what has finished so far is confirmed, 3 of 9 trials" in output.err
    )


def test_a_file_that_was_changed_to_something_else(place):
    study = place.search()
    place.confirm("--top", 2, "--seeds", 2)
    file = place.runs / "quick-confirm" / "study.yaml"
    data = yaml_file.load(file)
    data["sampler"]["configurations"][0][LR] = 0.0123
    file.write_text(yaml_file.dump(data))
    assert load_spec(file).spec.space == study.spec.space
    output = place.confirm(code=4)
    assert "lists configurations that no finished trial of quick has" in output.err


def test_every_trial_counts_once_by_its_configuration(place, monkeypatch):
    """A failed training that is tried again is another trial, of another place in the turn."""
    place.search()
    place.jobs(faults={(0, 1): Fault("nan", 4)})
    place.confirm("--top", 2, "--seeds", 2)
    place.jobs()
    monkeypatch.setattr(background, "_start_driver", lambda *_: None)
    place.run("retry", "quick-confirm", "--trial", 0)
    place.confirm()
    counts = Counter(place.seeds())
    assert counts == {2: 2}
    assert [trial["failed"] for trial in place.plain["trials"]] == [0, 0]


def test_json_is_what_the_file_holds(place):
    place.search()
    output = place.confirm("--top", 2, "--seeds", 2, "--json")
    assert json.loads(output.out) == place.plain


def test_what_is_left_to_a_driver_prints_no_json_and_nothing_in_its_place(place, monkeypatch):
    place.search()
    monkeypatch.setattr(background, "start_detached", lambda *_: "job 17")
    output = place.confirm("--top", 2, "--seeds", 2, "--submit", "--json")
    assert output.out == ""
    assert "quick-confirm: driven by job 17" in output.err
    assert "when it has finished, compare with: hpsearch confirm quick" in output.err


def test_export_goes_by_a_confirmation_that_is_current(place, monkeypatch):
    exported = []

    def write(view, trial, folder, how):
        exported.append(trial.number)
        return {"rows": []}

    monkeypatch.setattr("hpsearch.api.exporting.export_bundle", write)
    place.search(trials=4)
    output = place.run("export", "quick", "--json")
    assert output.err == (
        "hpsearch: quick is not confirmed: its best may be the luckiest; "
        f"compare with: hpsearch confirm quick --runs {place.runs}\n"
    )
    assert exported == best(place, 1)
    place.confirm("--top", 2, "--seeds", 2)
    assert place.run("export", "quick", "--json").err == ""
    second = best(place, 2)[1]
    file = place.runs / "quick" / "confirmation.json"
    file.write_text(json.dumps(place.plain | {"best": second}))
    output = place.run("export", "quick", "--json")
    assert exported[-1] == second
    assert output.err.startswith(f"hpsearch: exported is trial {second}, the best when confirmed; ")
    assert place.run("export", "quick", "--json", "--trial", 0).err == ""
    assert exported[-1] == 0
    place.search(trials=40)
    output = place.run("export", "quick", "--json")
    assert "the confirmation of quick is out of date, its best are others by now" in output.err
    assert exported[-1] == best(place, 1)[0]
    file.write_text("{}")
    assert "is damaged; write it anew with: hpsearch confirm quick" in place.run(
        "export", "quick", code=7
    ).err  # fmt: skip
