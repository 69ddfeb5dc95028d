"""The benchmarks run, in tiny sizes, and say what they ought to."""

import csv
import subprocess
import sys
from pathlib import Path

import actors_page
import bench
import headline_page
import page
import pairs_page
import pytest
import quickstart_page
import ranks_page
import rows
import torch
from configurations import dqn_config
from measuring import Case, Contender, Plan, Spread, measure
from shares_suite import REST, PartClock

from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.networks import Network

PLAN = Plan(repeats=4, least_repeats=2, least_seconds=0.0, most_seconds=60.0)
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def case(**contenders: Contender) -> Case:
    return Case(
        name="a case", sizes="", unit="unit", contenders=contenders, baselines=(min(contenders),)
    )


def test_contenders_take_turns():
    order: list[str] = []

    def note(name: str) -> Contender:
        return Contender(lambda: len(order.append(name) or name), calls=1)

    timings = measure(case(a=note("a"), b=note("b"), c=note("c")), PLAN, CPU)
    assert "".join(order) == "abccbaabccba"
    assert [len(timing.wall) for timing in timings.values()] == [4, 4, 4]


def test_contenders_must_do_the_same_work():
    with pytest.raises(ValueError, match="must do the same work"):
        measure(case(a=Contender(lambda: 1), b=Contender(lambda: 2)), PLAN, CPU)


def test_a_ratio_is_that_of_time_a_unit(monkeypatch):
    now = 0.0

    def take(seconds: float):
        def run() -> int:
            nonlocal now
            now += seconds
            return 2

        return run

    monkeypatch.setattr("measuring.time.perf_counter", lambda: now)
    slow = Contender(take(6.0), before=lambda: take(100.0)() and None, calls=1)
    timings = measure(case(a=slow, b=Contender(take(2.0), calls=3)), PLAN, CPU)
    assert timings["a"].wall == [3.0] * 2  # after which 60 seconds have passed
    assert timings["b"].wall == [1.0] * 2
    assert timings["b"].times_faster(timings["a"]) == Spread(3.0, 3.0, 3.0)


def test_rows_of_other_columns_are_refused(tmp_path):
    path = tmp_path / "table.csv"
    rows.append(path, [{"a": 1, "b": 2}])
    with pytest.raises(ValueError, match="has the columns"):
        rows.append(path, [{"a": 1}])
    rows.append(path, [{"a": 3, "b": "x, y"}])
    assert rows.read(path) == [{"a": "1", "b": "2"}, {"a": "3", "b": "x, y"}]


def test_what_is_within_a_part_counts_for_the_inner_one(monkeypatch):
    times = iter([0.0, 1.0, 4.0, 9.0])
    monkeypatch.setattr("shares_suite.time.perf_counter", lambda: next(times))
    clock = PartClock(CPU)
    clock.timed(clock.timed(lambda: None, "game"), REST)()
    assert clock.seconds == {REST: 1.0 + 5.0, "game": 3.0}


@pytest.mark.slow
def test_the_memory_of_a_process_is_its_own():
    """However much the one that started it holds."""
    code = "from own_memory import peak_megabytes; print(peak_megabytes())"
    small, own = subprocess.run(
        [sys.executable, "-c", SMALL_AND_OWN, code],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert float(own) == pytest.approx(float(small), rel=0.1)


SMALL_AND_OWN = """
import subprocess, sys
command = [sys.executable, "-c", sys.argv[1]]
print(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
ballast = b"x" * 1_000_000_000
print(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
"""


@pytest.mark.parametrize("name", ["__call__", "update_pass"])
def test_a_networks_pass_counts_for_the_networks(name):
    """Those of updates too: else the rest seems to take the most."""
    trainer = build_trainer([dqn_config({}, {})])
    clock, seen = PartClock(CPU), trainer.fused_game.observation
    with clock.installed():
        clock.timed(vars(Network)[name], REST)(trainer.host_net, seen)
    assert clock.seconds.keys() == {REST, "networks, forward"}


IN_SECONDS = ("dqn", "ppo", "learner", "crossplay", "shares")
"""suites that are as fast as other tests are"""
IN_A_MINUTE = ("memory", "looks")
"""suites that take a minute"""


def _slow(name: str) -> pytest.MarkDecorator:
    return pytest.mark.exhaustive if name in IN_A_MINUTE else pytest.mark.slow


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in IN_SECONDS else _slow(name)) for name in bench.SUITES],
)
def test_a_suite_runs(name, tmp_path, capsys):
    bench.main(["--quick", "--device", "cpu", "--only", name, "--out", str(tmp_path)])
    with (tmp_path / f"{name}.csv").open(newline="") as file:
        suite_rows = list(csv.DictReader(file))
    assert suite_rows
    assert all(row["commit"] and "torch" in row["versions"] for row in suite_rows)
    text = (tmp_path / "README.md").read_text()
    assert all(row["case"] in text for row in suite_rows)
    assert "Nothing has been measured on a GPU yet." in text


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_its_part_is_skipped(tmp_path, capsys):
    bench.main(["--quick", "--device", "cuda", "--only", "step", "--out", str(tmp_path)])
    assert "the GPU part is skipped" in capsys.readouterr().out
    assert not (tmp_path / "step.csv").exists()


def test_quick_rows_stay_out_of_the_reports(capsys):
    with pytest.raises(SystemExit):
        bench.main(["--quick"])
    assert "give --out another folder" in capsys.readouterr().err


def test_the_page_shows_the_newest_rows():
    old = {"case": "step", "sizes": "", "machine": "x", "device": "cpu", "commit": "1"}
    other = old | {"case": "rollout"}
    assert page.newest([old, other, old | {"commit": "2"}]) == [old | {"commit": "2"}, other]


@pytest.mark.parametrize(
    ("seconds", "text"), [(2.0, "2 s"), (0.0123, "12.3 ms"), (4.5e-6, "4.5 µs"), (5e-8, "50 ns")]
)
def test_durations(seconds, text):
    assert page.duration(seconds) == text


def test_the_page_counts_the_players_that_the_champion_beats():
    """Three members: one is beaten surely, one perhaps, one has the champion's own host."""
    gains = [(0.2, 0.1, 0.3), (0.1, -0.1, 0.3), (0.0, 0.0, 0.0)]
    rows = [
        {"machine": "here", "seed": "1", "member": str(member)}
        | {f"{part}_{end}": str(value) for part in ("host", "agent", "both") for end, value in ends}
        for member, three in enumerate(gains)
        for ends in [list(zip(("gain", "low", "high"), three, strict=True))]
    ]
    _, text = pairs_page.sections({"pairs": rows}, Path())
    assert text.splitlines()[-1].startswith("| 1 | 2 of 2, 1 surely | +0.150 [+0.100, +0.200] |")


def test_the_page_compares_ways_seed_by_seed(tmp_path):
    def rows(way: str, *seconds: str, limit: str = "900") -> list[dict[str, str]]:
        about = {"machine": "a", "commit": "new", "rho": "0.155", "way": way}
        return [
            about | {"seed": str(seed), "seconds": own, "limit_seconds": limit}
            for seed, own in enumerate(seconds)
        ]

    table = rows("hpsearch", "10", "40", "20") + rows("ours, one member", "30", "40", "200")
    table += rows("seed as published", "", "", "", limit="300")
    _, _, text = headline_page.sections({"headline": table}, tmp_path)[:3]
    *_, published, ours, hpsearch = text.splitlines()
    assert published.endswith("| 3 | > 300 | > 15.0 |")
    assert ours.endswith("| 3 | 40 [30, 200] | 3.0 |")
    assert hpsearch.endswith("| 3 | 20 [10, 40] |  |")


def test_the_readme_shows_the_seconds_of_the_newest_machine():
    with (rows.REPORTS / "headline.csv").open() as file:
        table = list(csv.DictReader(file))
    machine = [row for row in table if row["machine"] == table[-1]["machine"]]
    assert headline_page.table(machine) in (rows.ROOT / "README.md").read_text()


def quick_row(machine: str, commit: str, seconds: float, **changes: str) -> dict[str, str]:
    return {
        "machine": machine,
        "commit": commit,
        **dict.fromkeys(quickstart_page.COLUMNS, f"{seconds}"),
        **changes,
    }


def test_the_page_of_the_quick_start_shows_each_machines_newest_commit(tmp_path):
    table = [
        quick_row("a", "old", 90.0),
        quick_row("a", "new", 30.0, printed_pages="9"),
        quick_row("b", "new", 7.0, choose_first_rho=""),
        quick_row("a", "new", 10.0, printed_pages="9"),
        quick_row("a", "new", 20.0, printed_pages="9"),
    ]
    head, lines = quickstart_page.sections({"quickstart": table}, tmp_path)
    assert head.startswith("## quick start")
    header, rule, first, second = lines.splitlines()
    assert header.count("|") == rule.count("|") == first.count("|") == second.count("|")
    assert first.startswith("| a, new, 3 | 20 [10, 30] | ")
    assert "| 9 |" in first, "of equal values one stands alone"
    assert second.startswith("| b, new, 1 | 7 | ")
    assert second.endswith("| not measured |")
    assert quickstart_page.sections({}, tmp_path) == []


@pytest.mark.parametrize(
    ("gpus", "by_hand"),
    [
        (8, 2 * 20 + 2 * 7 / 8 * 0.16),  # 48 kB at 300 GB/s are 0.16 us
        (512, 2 * (20 + 6 * 10) + 2 * 511 / 512 * 1.92),  # 64 nodes; at 25 GB/s they are 1.92 us
    ],
)
def test_communication_on_paper(gpus, by_hand):
    assert ranks_page.communication(2, 48_000, gpus) == pytest.approx(by_hand)


def test_the_page_compares_actors_with_the_faster_inline_contender_seed_by_seed():
    def run(contender: str, seed: int, steps: float, rho: float, **changes: str) -> dict[str, str]:
        about = {"machine": "a", "case": "dqn", "commit": "new", "seconds": "10", "age": "0.5"}
        counts = {"greatest_age": "1", "dropped": "4", "moves_per_second": f"{256 * steps}"}
        times = {"learns": "0.75", "plays": "0.5", "both": "0.25"}
        if contender.startswith("inline"):
            times, counts = dict.fromkeys(times, ""), {**counts, "greatest_age": "", "dropped": ""}
            about["age"] = ""
        measured = {"steps_per_second": f"{steps}", "rho": f"{rho}", "seed": f"{seed}"}
        return about | times | counts | measured | {"contender": contender} | changes

    table = [
        run("fixed, one actor", 1, 999.0, 0.9, commit="old"),
        run("inline, two threads", 1, 10.0, 0.1),
        run("inline, one thread", 1, 20.0, 0.1),
        run("fixed, one actor", 1, 10.0, 0.2),
        run("fixed, one actor", 2, 30.0, 0.3),
        run("inline, one thread", 2, 20.0, 0.1),
        run("inline, two threads", 2, 10.0, 0.1),
    ]
    head, text = actors_page.sections({"actors": table}, Path())
    assert head.startswith("## actors")
    title, _, header, rule, *lines, said = text.splitlines()
    assert title == "### dqn, 10 s, 2 seeds, on a, new"
    fixed = "| 20 ± 10 | 1 ± 0.5 | 5120 ± 2560 | 75% | 50% | 25% | 0.5 | 1 | 4 | 0.25 ± 0.05 |"
    assert f"| fixed, one actor {fixed}" in lines
    assert all(line.count("|") == header.count("|") == rule.count("|") for line in lines if line)
    assert said.startswith(
        "Of 1 contenders with actors 0 made more steps a second than inline, one"
    )
    assert "0 fewer, and 1 came to a higher rho" in said
    assert actors_page.sections({}, Path()) == []
