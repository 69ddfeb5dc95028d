"""The site of docs/: it is built without a warning, and its pages hold what they are made of."""

import dataclasses
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import hpsearch
from hpsearch.analysis.confirmation import Confirmation
from hpsearch.cli import NAMES
from hpsearch.report.listing import ListedStudy

ROOT = Path(__file__).parent.parent
OUTER = re.compile(r'(?:src|href)="(https?://[^"]+)"')


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("mkdocs", reason="needs mkdocs: pip install hpsearch[docs]")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


@pytest.mark.slow
def test_the_reference_has_every_key_command_and_name(site):
    def page(name: str) -> str:
        return (site / "reference" / name / "index.html").read_text()

    assert all(f'id="{name}"' in page("commands") for name in NAMES)
    api, names = page("api"), set(hpsearch.__all__) - {"__version__"}
    headings = {heading.strip() for heading in re.findall(r">\s*(\w+)\s*<", api)}
    assert names - headings == set()
    given = {name: getattr(hpsearch, name) for name in names}
    for cls in filter(dataclasses.is_dataclass, (Confirmation, ListedStudy, *given.values())):
        place = f"{cls.__module__}.{cls.__qualname__}"
        fields = {f'id="{place}.{field.name}"' for field in dataclasses.fields(cls)}
        assert {field for field in fields if field not in api} == set()
    for key in ("stalled_hours", "min_resource", "gpu_hours", "members_per_job"):
        assert f"<code>{key}</code>" in page("study")
    assert "<code>replay_buffer</code>" in page("trainer")
    assert "<code>max_calls_per_minute</code>" in page("profile")


@pytest.mark.slow
def test_examples_are_shown(site):
    guide = (site / "guides/program/index.html").read_text()
    (link,) = re.findall(r'href="([^"]+)">programs/spirals.py</a>', guide)
    shown = (site / "guides/program" / link / "index.html").read_text()
    assert "argparse" in shown
    assert (site / "files/docs/example/hpsearch_example/reward.py/index.html").exists()


@pytest.mark.slow
def test_pages_load_nothing_from_elsewhere(site):
    """Their links may lead elsewhere; programs, styles and pictures come with the site."""
    for page in site.rglob("*.html"):
        text = page.read_text()
        loaded = re.findall(r"<(?:script|img|link)[^>]*>", text)
        outer = [url for tag in loaded for url in OUTER.findall(tag)]
        assert outer == [], page


@pytest.mark.slow
def test_pictures_are_drawn_in_the_colours_of_the_page(site):
    concepts = (site / "concepts/index.html").read_text()
    assert concepts.count("<svg viewBox") >= 4
    assert 'stroke="currentColor"' in concepts
