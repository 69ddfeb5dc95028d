"""What a newcomer waits for: the quick start, its report, a trained opponent, and a strong host.

    python tests/benchmarks/quickstart.py --repeats 3

Runs studies/quickstart.yaml with compiled kernels, as `make quickstart` does after its first time;
then `hpsearch report` twice, of which the second finds its measurements kept, and `hpsearch
evaluate` with best responses of two budgets. Last comes studies/choose_first.yaml, and what its
best host reaches in fresh games. Each row appended to reports/benchmarks/quickstart.csv is one
repetition; `quickstart_page` shows the newest of a machine.
"""

import argparse
import json
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import page
import rows
from breeding import run_command

from hpsearch.cluster.machine import num_cores

STUDY = rows.ROOT / "studies/quickstart.yaml"
AGAINST_ONE = rows.ROOT / "studies/choose_first.yaml"
FRESH_GAMES = 10_000
RESPONSES = (300, 1200)
"""steps for which an opponent trains against the best host alone"""
BROWSER = "chromium"


def measured(folder: Path) -> dict[str, object]:
    """Run everything in an empty folder and return the columns of a row."""
    hpsearch = [sys.executable, "-m", "hpsearch.cli"]
    began = time.time()
    run_command([*hpsearch, "run", str(STUDY)], folder)
    ended = time.time()
    study = folder / "runs" / "quickstart"
    first = min(path.stat().st_mtime for path in study.glob("trials/*/result.json"))
    with closing(sqlite3.connect(folder / "runs" / "quickstart.db")) as database:
        reported = "SELECT MIN(at) FROM hpsearch_events WHERE kind = 'reported'"
        ((first_shown,),) = database.execute(reported)
    report = [*hpsearch, "report", "quickstart", "-o", "page.html"]
    seconds = [_seconds(report, folder) for _ in range(2)]
    row: dict[str, object] = {
        "first_shown_seconds": f"{first_shown - began:.1f}",
        "first_value_seconds": f"{first - began:.1f}",
        "run_seconds": f"{ended - began:.1f}",
        "report_seconds": f"{seconds[0]:.1f}",
        "second_report_seconds": f"{seconds[1]:.1f}",
        "page_megabytes": f"{(folder / 'page.html').stat().st_size / 1e6:.2f}",
        "printed_pages": _printed_pages(folder),
    }
    best = json.loads(run_command([*hpsearch, "best", "quickstart", "--json"], folder))["trial"]
    evaluate = [*hpsearch, "evaluate", str(study / "trials" / str(best)), "--json"]
    evaluate += ["--match-steps", "0", "--games", "2000"]
    for steps in RESPONSES:
        command = [*evaluate, "--best-response", str(steps)]
        host = json.loads(run_command(command, folder))["roles"]["host"]
        row[f"exploitability_{steps}"] = f"{host['exploitability']['value']:.4f}"
    row["choose_first_seconds"] = f"{_seconds([*hpsearch, 'run', str(AGAINST_ONE)], folder):.1f}"
    best = json.loads(run_command([*hpsearch, "best", "choose_first", "--json"], folder))["trial"]
    # By its folder: `choose_first` alone is the scripted player.
    trial = folder / "runs/choose_first/trials" / str(best)
    evaluate = [*hpsearch, "evaluate", str(trial), "--json", "--match-steps", "0"]
    told = json.loads(run_command([*evaluate, "--games", str(FRESH_GAMES)], folder))
    rho = told["roles"]["host"]["evaluation"]["metrics"]["rho/host/choose_first"]["value"]
    row["choose_first_rho"] = f"{rho:.4f}"
    return row


def _seconds(command: list[str], folder: Path) -> float:
    began = time.perf_counter()
    run_command(command, folder)
    return time.perf_counter() - began


def _printed_pages(folder: Path) -> int | str:
    """Return how many pages a browser prints; empty where there is no browser."""
    if not shutil.which(BROWSER) or not shutil.which("pdfinfo"):
        return ""
    options = ["--headless", "--no-sandbox", "--virtual-time-budget=10000"]
    command = [BROWSER, *options, "--print-to-pdf=page.pdf", (folder / "page.html").as_uri()]
    run_command(command, folder)
    text = subprocess.run(["pdfinfo", "page.pdf"], cwd=folder, capture_output=True, text=True)
    return int(re.findall(r"^Pages: *(\d+)", text.stdout, re.MULTILINE)[0])


def main() -> None:
    """Measure as often as asked, append the rows and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=rows.REPORTS)
    options = parser.parse_args()
    for _ in range(options.repeats):
        context = rows.context("cpu", num_cores())
        with tempfile.TemporaryDirectory() as name:
            row = context | measured(Path(name))
        rows.append(options.out / "quickstart.csv", [row])
        print(row, flush=True)
    page.write(options.out)


if __name__ == "__main__":
    main()
