"""What `run` and `lineage` show of a population, beside its events and games."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from drives import opened
from fakes import FakeExecutor
from rich.console import Console
from test_population_study import population_study, teaching

from hpsearch.analysis import lineage as lineage_module
from hpsearch.analysis.lineage import print_lineage, read_lineage
from hpsearch.cli import main
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.report.page import search as search_module
from hpsearch.report.page.descent import descent_chart
from hpsearch.report.page.search import strength_chart
from hpsearch.report.progress import Meter, Progress, generation_text, open_panel, progress_text
from hpsearch.study.spec import Study
from hpsearch.study.state import RUNNING
from hpsearch.study.view import StudyView, open_view

TRIALS = 20


@pytest.fixture(scope="module")
def driven(tmp_path_factory) -> tuple[Study, list[tuple[int, bool, Progress]]]:
    """A population that has been driven to its end, and after each round what was shown.

    With the number of matches judged by then, and whether one was being played.
    """
    study = population_study(
        tmp_path_factory.mktemp("shown"),
        trials=TRIALS,
        operators=[{"name": "gaussian_mutation", "strength": 0.1}],
    )
    folder = StudyDir(study.path.parent / "runs" / study.spec.name)
    shown = []
    with opened(study, FakeExecutor(teaching=teaching)) as driver:
        view = StudyView(study, folder, driver.state, True)
        meter = Meter(view)
        while driver.state.status == RUNNING:
            driver.tick()
            record = driver.state.population
            shown.append((record.num_judged, record.match is not None, meter.read(view)))
    return study, shown


def test_the_display_counts_generations_and_pairs(driven):
    study, shown = driven
    members = study.spec.population.members
    planned = -(-TRIALS // members)
    for num_judged, is_match, progress in shown[:-1]:
        number = num_judged + 1
        if num_judged < planned:
            assert progress.generation.startswith(f"generation {number} of {planned}")
        assert (", match: " in progress.generation) == is_match
        assert f" | {progress.generation} | " in progress_text(progress)
    assert any(is_match for _, is_match, _ in shown)
    assert "steps/s" not in progress_text(shown[-1][2])


def test_a_match_shows_how_many_of_its_pairs_have_played(driven, monkeypatch):
    study, _ = driven
    view = open_view(str(study.path), study.path.parent / "runs")
    last = view.state.population.matches[view.state.population.num_judged]
    plan = view.folder.match(last.number).plan.required()
    pairs = len(plan.splits) * len(plan.hosts) * len(plan.agents)
    monkeypatch.setattr(type(view.state.population), "match", last)
    assert generation_text(view).endswith(f", match: 0 of {pairs} pairs")
    view.folder.match(last.number).give_sign(3)
    assert generation_text(view).endswith(f", match: 3 of {pairs} pairs")
    view.folder.match(last.number).give_sign(pairs)
    assert generation_text(view).endswith(f", match: {pairs} of {pairs} pairs")
    responding = replace(view.study.spec.population.matches, best_response=100)
    population = replace(view.study.spec.population, matches=responding)
    study = replace(view.study, spec=replace(view.study.spec, population=population))
    said = generation_text(replace(view, study=study))
    assert said.endswith(", match: all pairs have played, best responses train")


def test_the_champion_is_called_so(driven, capsys):
    study, shown = driven
    before = [progress.best_word for judged, _, progress in shown if not judged]
    after = [progress.best_word for judged, _, progress in shown if judged]
    assert (set(before), set(after)) == ({"best"}, {"champion"})
    runs = str(study.path.parent / "runs")
    for command in ("best", "status"):
        assert main([command, str(study.path), "--runs", runs]) == 0
        assert re.search(r"^champion: trial \d+, ", capsys.readouterr().out, flags=re.MULTILINE)
    assert main(["ls", "--runs", runs]) == 0
    assert re.search(r"\(champion, trial \d+\)$", capsys.readouterr().out.rstrip())
    file = Path(study.path.parent / "log")
    with file.open("w") as log, open_panel(Console(file=log)) as panel:
        panel.show_progress(shown[-1][2])
    assert " | champion rho/" in file.read_text()


def test_of_a_large_population_the_newest_generations_are_drawn(driven, monkeypatch):
    """A browser cannot draw a hundred thousand."""
    study, _ = driven
    view = open_view(str(study.path), study.path.parent / "runs")
    descent, judged = read_lineage(view), view.state.population.num_judged
    monkeypatch.setattr(lineage_module, "MAX_RELATIVES", 6)
    newest = descent.newest()
    assert len(newest) == 6 < len(descent.relatives)
    others = descent.relatives.keys() - {relative.trial for relative in newest}
    first = newest[0].generation
    assert max(descent.relatives[trial].generation for trial in others) <= first
    drawn = descent_chart(descent, newest)["data"]
    assert min(x for trace in drawn for x in trace["x"] if x is not None) >= first - 1
    monkeypatch.setattr(search_module, "MAX_DRAWN", 2 * len(view.state.population.newest))
    across = {x for trace in strength_chart(view)["data"] for x in trace["x"]}
    assert across == {judged - 1, judged}


def test_lineage_explains_a_child_that_was_not_adopted(driven, tmp_path):
    study, _ = driven
    descent = read_lineage(open_view(str(study.path), study.path.parent / "runs"))
    line = descent.line(descent.champion)
    refused = replace(line[-1], operator="gaussian_mutation", adopted=False, is_child=True)
    for is_terminal in (True, False):
        file = (tmp_path / "out").open("w+")
        with file:
            console = Console(file=file, width=80, force_terminal=is_terminal, no_color=True)
            print_lineage(console, [*line[:-1], refused], descent.champion)
            file.seek(0)
            text = re.sub(r"\x1b\[[0-9;]*m", "", file.read())
        said = " ".join(text.split())
        assert (
            f"trial {refused.trial}, the champion, was not adopted: the child that "
            "gaussian_mutation made lost against a copy of its first parent"
        ) in said
        if is_terminal:
            assert max(map(len, text.splitlines())) <= 80
