"""Studies whose trials are programs, from the command line: run, killed, bred, pruned and refused.

The program is tests/programs/toy.py, whose values are known: it walks on by `rate` a step.
"""

import random
import signal
import time
from functools import partial
from itertools import accumulate
from pathlib import Path

import pytest
from cli_tools import Run, hpsearch, jobs_of, kill_jobs, outcomes, read, refused, write_study
from tried import tried

import hpsearch as package
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.errors import UsageError

TOY = Path(__file__).parent / "programs/toy.py"
STEPS = 12
STUDY = {
    "base": {
        "command": ["python", str(TOY), "{config}", "{folder}"],
        "parameters": {"rate": 0.5, "seconds": 0.15},
        "steps": STEPS,
    },
    "objectives": [{"metric": "walked", "goal": "maximize"}],
    "space": {"parameters.rate": {"type": "float", "low": 0.1, "high": 1.0}},
    "executor": {"name": "local", "jobs": 1, "members_per_job": 3},
}
POPULATION = {
    "population": {"members": 4, "interval": 3, "selection": {"name": "truncation"}},
    "sampler": {"name": "qmc"},
    "budget": {"trials": 12},
    "executor": {"name": "local", "jobs": 1, "members_per_job": 4},
}


def walked(start: float, rate: float, steps: int) -> list[float]:
    """Return how far a program has walked after each step, added up as it does."""
    return [*accumulate([start] + [rate] * steps)][1:]


def values(folder: Path, number: int) -> list[float]:
    files = StudyDir(folder / "runs/tiny").trial(number)
    rows = sorted(files.read_metrics(), key=lambda row: row["step"])
    return [row["metrics"]["walked"]["value"] for row in rows]


@pytest.fixture(scope="module")
def search(tmp_path_factory):
    """A search that nothing disturbed."""
    folder = tmp_path_factory.mktemp("search")
    write_study(folder, STUDY)
    hpsearch(folder, "run", "study.yaml")
    return folder


@pytest.fixture(scope="module")
def population(tmp_path_factory):
    folder = tmp_path_factory.mktemp("population")
    write_study(folder, STUDY | POPULATION)
    hpsearch(folder, "run", "study.yaml")
    return folder


@pytest.fixture
def folder(tmp_path):
    yield tmp_path
    kill_jobs(tmp_path)


@pytest.mark.slow
def test_a_search_finds_the_longest_walk_and_names_its_folder(search):
    for number, (_, told, params, _) in outcomes(search).items():
        expected = walked(0.0, params["parameters.rate"], STEPS)
        assert values(search, number) == expected
        assert told == expected[-1:]
    best = read(search, "best", "tiny")
    assert best["value"] == max(told[0] for _, told, _, _ in outcomes(search).values())
    shown = hpsearch(search, "best", "tiny").stdout
    (place,) = (line.split()[1] for line in shown.splitlines() if "folder:" in line)
    assert (Path(place) / "state.json").is_file()
    assert "players" not in shown
    assert "no faults" in hpsearch(search, "audit", "tiny").stdout
    assert "finished" in hpsearch(search, "status", "tiny").stdout


@pytest.mark.slow
def test_the_page_of_a_search_says_what_a_program_lacks(search):
    hpsearch(search, "report", "tiny")
    page = (search / "runs/tiny/report.html").read_text()
    assert "its trials are programs, which play no games" in page
    assert "hpsearch export" not in page


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        *(["confirm", "tiny"], ["replay", "tiny"], ["export", "tiny"], ["crossplay", "tiny"]),
        *(["breed", "tiny"], ["evaluate", "runs/tiny/trials/0"]),
    ],
    ids=lambda words: words[0],
)
def test_what_needs_players_is_refused_in_one_sentence(search, command):
    sentence = refused(search, *command, code=4 if command[0] == "evaluate" else 2)
    assert "programs, which play no games" in sentence or "it plays no games" in sentence


@pytest.mark.slow
def test_a_study_of_programs_has_no_player(search, monkeypatch):
    monkeypatch.chdir(search)
    for ask in (package.open_study("tiny").player, partial(package.load_player, "tiny")):
        with pytest.raises(UsageError, match="programs, which play no games"):
            ask()


@pytest.mark.slow
def test_members_go_on_from_copies_of_the_folders_of_the_best(population):
    trials = {row["trial"]: row for row in read(population, "trials", "tiny")}
    assert len(trials) == 12
    children = 0
    for number in trials:
        files = StudyDir(population / "runs/tiny").trial(number)
        lineage, rate = files.lineage.required(), outcomes(population)[number][2]["parameters.rate"]
        start = 0.0
        if lineage.parents:
            (parent,) = lineage.parents
            assert parent.trial is not None
            start = values(population, parent.trial)[-1]
            children += outcomes(population)[parent.trial][2]["parameters.rate"] != rate
        assert values(population, number) == walked(start, rate, 3)
    assert children, "no member took another one's place"
    status = read(population, "status", "tiny")
    assert status["population"]["matches"] == 3
    assert "no faults" in hpsearch(population, "audit", "tiny").stdout
    lineage = read(population, "lineage", "tiny")
    assert lineage["line"][-1] == status["population"]["champion"]


@pytest.mark.slow
def test_the_page_of_a_population_says_that_programs_play_no_games(population, tmp_path):
    hpsearch(population, "report", "tiny", "-o", str(tmp_path / "page.html"))
    page = (tmp_path / "page.html").read_text()
    assert "its members are programs, which play no games: their values decide" in page
    assert "Strength of the members in each match: walked; the champion" in page
    assert "mean logarithm of rho" not in page


@pytest.mark.parametrize("kind", ["search", "population"])
@pytest.mark.parametrize("seed", tried(range(5), slow=[0]))
def test_killed_at_random_it_comes_to_the_same(folder, kind, seed, request):
    """Jobs, drivers or both are killed, then it is interrupted, and goes on."""
    whole = request.getfixturevalue(kind)
    write_study(folder, STUDY | (POPULATION if kind == "population" else {}))
    moments = random.Random(seed)
    for _ in range(3):
        run = Run(folder)
        time.sleep(moments.uniform(2.0, 5.0))
        if run.process.poll() is not None:
            run.wait()
            break
        run.process.kill()
        run.wait()
        if moments.random() < 0.7:
            kill_jobs(folder)
    run = Run(folder)
    time.sleep(moments.uniform(2.0, 4.0))
    run.end(signal.SIGINT)
    assert not jobs_of(folder)
    hpsearch(folder, "run", "study.yaml")
    assert outcomes(folder) == outcomes(whole)
    assert "no faults" in hpsearch(folder, "audit", "tiny").stdout


@pytest.mark.slow
def test_a_wrong_command_is_mended_and_the_study_goes_on(folder):
    wrong = STUDY["base"] | {"command": ["python", "typo.py", "{config}"]}
    short = STUDY | {"budget/trials": 3, "max_failures": 2}
    write_study(folder, short | {"base": wrong})
    hpsearch(folder, "run", "study.yaml", code=8)
    write_study(folder, short)
    said = hpsearch(folder, "retry", "tiny")
    assert "runs another command from now on" in said.stderr
    hpsearch(folder, "status", "tiny", "--watch")  # to the end
    states = [row["state"] for row in read(folder, "trials", "tiny")]
    assert states == ["failed"] * 3 + ["finished"] * 3
    assert "no faults" in hpsearch(folder, "audit", "tiny").stdout


@pytest.mark.slow
def test_walks_that_fall_behind_are_pruned(folder):
    base = STUDY["base"] | {"parameters": {"rate": 0.5, "seconds": 0.1}, "steps": 60}
    pruner = {"name": "median", "n_startup_trials": 1, "n_warmup_steps": 3}
    write_study(folder, STUDY | {"base": base, "pruner": pruner, "budget/trials": 8})
    hpsearch(folder, "run", "study.yaml")
    states = [row["state"] for row in read(folder, "trials", "tiny")]
    assert {*states} == {"finished", "pruned"}
    assert "no faults" in hpsearch(folder, "audit", "tiny").stdout


@pytest.mark.slow
def test_the_job_of_a_program_that_failed_is_given_more(folder):
    """Before, the job of one that had failed was given no more."""
    space = {
        "parameters.seconds": {"type": "categorical", "choices": [0.02, 0.5]},
        "parameters.ends": {"type": "categorical", "choices": ["well", "badly"]},
    }
    given = [(0.5, "well"), (0.02, "badly"), (0.02, "well"), (0.02, "well")]
    names = list(space)
    listed = [dict(zip(names, values, strict=True)) for values in given]
    changes = {
        "base": STUDY["base"] | {"parameters": {"rate": 0.5, "seconds": 0.02, "ends": "well"}},
        "space": space,
        "sampler": {"name": "listed", "configurations": listed},
        "budget/trials": len(given),
        "max_failures": 1,
        "executor": {"name": "local", "jobs": 1, "members_per_job": 2, "pilot": True},
    }
    write_study(folder, STUDY | changes)
    hpsearch(folder, "run", "study.yaml")
    states = [row["state"] for row in read(folder, "trials", "tiny")]
    assert states == ["finished", "failed", "finished", "finished"]
    assert [job.name for job in (folder / "runs/tiny/jobs").iterdir()] == ["00001"]
