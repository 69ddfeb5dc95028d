"""A process that drives a study loads nothing that only looks at one, up to its last round."""

import json
import subprocess
import sys

import pytest
from cli_tools import write_study, write_trainer
from views import Story

from hpsearch.api import background
from hpsearch.cluster.failures import StopFlag

LOOKING = ("analysis", "audit", "dashboard", "doctor", "export", "report")
"""rooms that a driver must not load"""
DRIVEN = """
import json, sys
from pathlib import Path
import hpsearch.cli
from hpsearch.api import driving
from hpsearch.study.driver import Driver

class NoMachines:
    max_batch, num_threads, ranks, num_calls, max_jobs = 4, 1, 1, 0, None
    patience = pilot_seconds = gpus_per_job = 0.0
    def submit(self, jobs): return {job.name: job.name for job in jobs}
    def look(self, jobs): return {}
    def cancel_strays(self): pass
    def interrupt(self, jobs): pass
    def cancel(self, jobs): pass
    def log(self, job, job_id): return job.root / "none.log"

loaded = []
tick = Driver.tick
def noted_tick(driver):
    tick(driver)
    loaded.append(sorted(sys.modules))

Driver.tick = noted_tick
driving.build_executor = lambda study, folder: NoMachines()
driving.poll_seconds = lambda study: 0.0
code = hpsearch.cli.main(sys.argv[1:])
print(json.dumps([code, len(loaded), loaded[-1]]))
"""


@pytest.mark.parametrize(
    ("command", "code"), [pytest.param("tick", 0, marks=pytest.mark.slow), ("drive", 8)]
)
def test_a_driver_loads_no_room_that_only_looks(tmp_path, command, code):
    write_trainer(tmp_path)
    study = write_study(tmp_path, {"max_failures": 0})
    words = [sys.executable, "-c", DRIVEN, command, str(study.relative_to(tmp_path))]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    ended, num_rounds, loaded = json.loads(done.stdout.splitlines()[-1])
    assert ended == code, done.stderr
    assert num_rounds >= (1 if command == "tick" else 2)
    forbidden = {"torch", *(f"hpsearch.{room}" for room in LOOKING)}
    assert [name for name in loaded if ".".join(name.split(".")[:2]) in forbidden] == []


def test_a_driver_without_a_display_says_when_trials_have_changed(tmp_path, monkeypatch, capsys):
    path = write_study(tmp_path)
    story = Story(path)

    class Rounds:
        def __init__(self, study, runs, flag, watch, *, is_detached):
            assert is_detached
            self.watch = watch

        def run(self):
            for _ in range(2):
                self.watch(story.view)
            story.ask(0)
            story.run(0, job="job-0")
            self.watch(story.view)
            return story.view

    monkeypatch.setattr(background, "Drive", Rounds)
    assert background.drive_patiently(story.view.study, tmp_path, StopFlag()) == story.view
    assert capsys.readouterr().out.splitlines() == [
        "tiny: running, none yet",
        "tiny: running, 1 running",
    ]
