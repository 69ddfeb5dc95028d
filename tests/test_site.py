"""The site of docs/: it is built without a warning, and its pages hold what they are made of."""

import dataclasses
import json
import os
import re
import subprocess
import sys
import threading
from functools import partial
from html import unescape
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from browser import brightness, contrast, laid, opened

import hpsearch
from hpsearch.analysis.confirmation import Confirmation
from hpsearch.cli import NAMES
from hpsearch.report.listing import ListedStudy

ROOT = Path(__file__).parent.parent
OUTER = re.compile(r'(?:src|href)="(https?://[^"]+)"')
PAGES = (
    "index.html",
    "tutorial/",
    "guides/extending/",
    "concepts/",
    "pains/",
    "protocol/",
    "reference/study/",
    "reference/commands/",
    "reference/api/",
    "studies/",
    "reports/benchmarks/",
    "glossary/",
    "files/docs/example/hpsearch_example/reward.py/",
)
"""one of each kind, which are looked at"""
WIDTH, HEIGHT = 390, 844
WHITE = "rgb(255, 255, 255)"
MIN_PIXELS = {"text": 14.0, "code": 13.0, "picture": 12.5}
MIN_CONTRAST = 4.5  # of WCAG 2, for text of usual size
LOOK = """<!doctype html><html><body>
<pre id="found"></pre>
<script>
function look(frame) {
  const page = frame.contentDocument, known = new Map(), texts = new Map(), cut = [];
  const about = function (node) {  // its style, and what it has of the nodes around it
    if (!node) return {papers: [], opacity: 1, scrolls: false};
    if (!known.has(node)) {
      const style = frame.contentWindow.getComputedStyle(node), around = about(node.parentElement);
      known.set(node, {
        style,
        papers: [...around.papers, style.backgroundColor],
        opacity: around.opacity * style.opacity,
        scrolls: around.scrolls || (node !== page.body && /auto|scroll/.test(style.overflowX)),
      });
    }
    return known.get(node);
  };
  const range = page.createRange();
  const walker = page.createTreeWalker(page.body, NodeFilter.SHOW_TEXT);
  for (let text; (text = walker.nextNode());) {
    const node = text.parentElement, {style, papers, opacity, scrolls} = about(node);
    range.selectNodeContents(text);
    const box = range.getBoundingClientRect();
    if (!text.data.trim() || !box.width || style.visibility !== "visible" || !opacity) continue;
    const isContent = node.closest("article") !== null, picture = node.closest("svg");
    if (isContent && !scrolls && box.right > frame.width + 1) cut.push(text.data);
    const seen = {
      kind: picture ? "picture" : node.closest("code") ? "code" : isContent ? "text" : "menu",
      size: parseFloat(style.fontSize) * (picture ? node.getScreenCTM().a : 1),
      ink: picture ? style.fill : style.color,
      opacity,
      papers,
    };
    texts.set(JSON.stringify(seen), {words: text.data.trim(), ...seen});
  }
  return {width: page.documentElement.scrollWidth, cut, texts: [...texts.values()]};
}

window.onload = function () {
  const seen = [...document.querySelectorAll("iframe")].map(look);
  document.getElementById("found").textContent = JSON.stringify(seen);
};
</script>
FRAMES
</body></html>
"""
"""looks at pages in frames, as a window cannot be as narrow as a phone"""


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
    assert ">build<" not in api, "a signature has the name that is imported"
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
    guide = (site / "guides/extending/index.html").read_text()
    link = re.findall(r'href="([^"]+)">docs/example</a>', guide)[0]
    files = (site / "guides/extending" / link / "index.html").read_text()
    (link,) = re.findall(r'href="([^"]+)">hpsearch_example/reward.py</a>', files)
    assert (site / "files/docs/example" / link / "index.html").exists()


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


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        """Print nothing."""


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_pages_are_readable_on_a_phone(site, dark):
    """Only what scrolls in a box of its own is wider than the screen; no text is small or faint."""
    size = f'width="{WIDTH}" height="{HEIGHT}"'
    frames = (f'<iframe src="{place}" {size}></iframe>' for place in PAGES)
    (site / "look.html").write_text(LOOK.replace("FRAMES", "\n".join(frames)))
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=site)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/look.html"
        looked_at = opened(address, dark=dark)
        server.shutdown()
    assert looked_at.console == []
    found = json.loads(unescape(re.search(r'<pre id="found">(.*?)</pre>', looked_at.dom)[1]))
    faults = []
    for place, page in zip(PAGES, found, strict=True):
        if page["width"] > WIDTH or page["cut"]:
            faults.append(f"/{place} is {page['width']} pixels wide, cut off: {page['cut']}")
        for text in page["texts"]:
            words = f"/{place}: {text['words'][:40]!r}"
            if text["size"] < MIN_PIXELS.get(text["kind"], 0):
                faults.append(f"{words} has {text['size']} pixels")
            paper = WHITE
            for colour in text["papers"]:
                paper = laid(colour, paper)
            ratio = contrast(laid(text["ink"], paper, text["opacity"]), paper)
            if ratio < MIN_CONTRAST:
                faults.append(f"{words} has a contrast of {ratio:.2f} with {paper}")
            if text["kind"] == "text" and dark != (brightness(paper) < 0.1):
                faults.append(f"{words} is shown on {paper}")
    assert not faults, "\n".join(faults)
