"""The page in a browser: drawn whole at every width, dark and light, and on paper."""

import functools
import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path

import pytest
from browser import brightness, contrast
from cli_tools import write_study
from views import Story

from hpsearch.analysis.blowup_tree import Tree, TreeNode
from hpsearch.report.page.html import beside, folded
from hpsearch.report.page.material import gather
from hpsearch.report.page.page import page_text, plotly_js
from hpsearch.report.page.players import tree_svg

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
QUICKSTART = Path(__file__).parents[2] / "reports/quickstart/index.html"
MAX_PAGES = 10
"""of paper, for a page on which what is long is folded"""
PATIENCE_SECONDS = 300
"""for a browser that hangs: a look takes it 4 seconds of a core, which a busy machine stretches"""
SCHEMES = {
    390: "--blink-settings=preferredColorScheme=1",  # light
    1280: "--blink-settings=preferredColorScheme=0",  # dark
}
"""by the widths at which the page is looked at"""
FRAME = """<!doctype html><html><body>
<iframe id="frame" src="page.html" style="border:0" width="{width}" height="900"></iframe>
<pre id="found"></pre>
<script>
document.getElementById("frame").onload = function () {{
  setTimeout(function () {{
    const page = document.getElementById("frame").contentDocument;
    const wide = [...page.querySelectorAll("body *")].filter(function (node) {{
      return node.getBoundingClientRect().right > {width} + 1 && !node.closest(".scroll, pre");
    }});
    const moved = [...page.querySelectorAll(".scroll")].filter(function (box) {{
      return box.scrollWidth > box.clientWidth;
    }});
    document.getElementById("found").textContent = JSON.stringify({{
      width: page.documentElement.scrollWidth,
      wide: wide.map((node) => `${{node.tagName}}.${{node.getAttribute("class")}}`),
      plots: page.querySelectorAll(".plot").length,
      drawn: page.querySelectorAll(".plot .main-svg:first-of-type .plot, .plot .xy").length,
      moved: moved.map((box) => getComputedStyle(box).backgroundImage),
      ink: getComputedStyle(page.body).color,
      paper: getComputedStyle(page.body).backgroundColor,
      words: getComputedStyle(page.querySelector(".plot .xtick text")).fill,
    }});
  }}, 2000);
}};
</script></body></html>
"""

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is missing: .ci/run installs it")

needs_poppler = pytest.mark.skipif(
    shutil.which("pdftotext") is None, reason="needs apt-get install poppler-utils"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the page of a small study."""
    folder = tmp_path_factory.mktemp("page")
    story = Story(write_study(folder))
    for number in range(12):
        story.ask(number, **{"host.gamma": 0.8 + number / 100})
        story.run(number, job=f"{number}", gpus=1.0)
        story.add("job_began", job=f"{number}", at=100.0 * number)
        story.add("reported", number, step=20, value=0.1, prune=False, rungs=0)
        story.tell(number, "finished", 0.1 + number / 100)
        story.add("job_ended", job=f"{number}", at=100.0 * number + 90)
    material = gather(story.view, 0.0, "", lambda view, trial: "it was not asked for")
    (folder / "page.html").write_text(page_text(material, plotly_js()))
    return folder


def chromium(folder, *options: str) -> subprocess.CompletedProcess:
    done = subprocess.run(
        [
            str(CHROMIUM), "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
            f"--user-data-dir={folder / 'profile'}", "--allow-file-access-from-files",
            "--enable-logging=stderr", "--virtual-time-budget=20000", *options,
        ],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert not said, said  # faults of the program, and what the page's policy refused
    return done


@pytest.fixture(scope="module")
def look(folder):
    """Return a function (width) -> what a browser of that width makes of the page."""

    @functools.cache
    def see(width: int) -> dict:
        (folder / f"frame-{width}.html").write_text(FRAME.format(width=width))
        address = (folder / f"frame-{width}.html").as_uri()
        window = f"--window-size={max(width, 600)},1000"
        done = chromium(folder, window, SCHEMES[width], "--dump-dom", address)
        return json.loads(unescape(re.search(r'<pre id="found">(.*?)</pre>', done.stdout)[1]))

    return see


@pytest.mark.slow
@pytest.mark.parametrize("width", SCHEMES)
def test_the_page_fits_a_phone_and_a_desk(folder, look, width):
    seen = look(width)
    assert seen["wide"] == []
    assert seen["width"] <= width
    assert seen["plots"] == (folder / "page.html").read_text().count("data-for=")
    assert seen["drawn"] >= seen["plots"]


@pytest.mark.slow
def test_what_goes_on_beyond_an_edge_is_shaded_there(look):
    seen = look(390)
    assert seen["moved"]
    assert all("gradient" in shade for shade in seen["moved"])


@pytest.mark.slow
def test_words_are_seen_on_dark_and_on_light(look):
    light, dark = look(390), look(1280)
    for palette in (light, dark):
        for colour in (palette["ink"], palette["words"]):
            assert contrast(colour, palette["paper"]) > 7
    assert brightness(light["paper"]) > 0.9
    assert brightness(dark["paper"]) < 0.1


TABLE = """<!doctype html><html><body>
<iframe id="frame" src="page.html" width="1000" height="900"></iframe><pre id="found"></pre>
<script>
document.getElementById("frame").onload = function () {
  setTimeout(function () {
    const page = document.getElementById("frame").contentDocument;
    const rows = () => [...page.querySelectorAll(".sortable tbody tr")];
    const shown = () => rows().filter((row) => !row.hidden).map((row) => row.cells[0].textContent);
    const [trial, state, value] = page.querySelectorAll(".sortable thead th");
    const found = {};
    value.click();
    found.upward = shown();
    value.click();
    found.downward = shown();
    trial.click();
    found.byNumber = shown();
    const field = page.querySelector(".sortable input");
    const write = function (words) {
      field.value = words;
      field.dispatchEvent(new Event("input"));
    };
    write("FINISHED 0.87");
    found.filtered = shown();
    write("");
    found.unfiltered = shown().length;
    page.getElementById("history-0").emit("plotly_click", {points: [{text: "trial 7", data: {}}]});
    found.chosen = [...page.querySelectorAll("tr.chosen")].map((row) => row.cells[0].textContent);
    found.isOpen = page.querySelector(".sortable").closest("details").open;
    document.getElementById("found").textContent = JSON.stringify(found);
  }, 2000);
};
</script></body></html>
"""


@pytest.mark.slow
def test_the_table_of_trials_sorts_filters_and_is_led_to(folder):
    """Values and gamma grow with the number; texts alone would sort 10 before 9."""
    (folder / "table.html").write_text(TABLE)
    done = chromium(folder, "--dump-dom", (folder / "table.html").as_uri())
    answers = json.loads(unescape(re.search(r'<pre id="found">(.*?)</pre>', done.stdout)[1]))
    numbers = [str(number) for number in range(12)]
    assert answers["upward"] == answers["byNumber"] == numbers
    assert answers["downward"] == numbers[::-1]
    assert answers["filtered"] == ["7"]
    assert answers["unfiltered"] == 12
    assert answers["chosen"] == ["7"]
    assert answers["isOpen"]


@pytest.mark.slow
@needs_poppler
def test_the_page_prints_what_is_not_folded(folder):
    paper = folder / "page.pdf"
    chromium(folder, f"--print-to-pdf={paper}", (folder / "page.html").as_uri())
    assert 2 < num_pages(paper) <= MAX_PAGES
    done = subprocess.run(["pdftotext", paper, "-"], capture_output=True, text=True, check=True)
    assert "12 trials (left out on paper: unfold it before printing)" in done.stdout


@pytest.mark.slow
@needs_poppler
def test_the_page_of_the_quick_start_takes_at_most_ten_pages_of_paper(folder):
    paper = folder / "quickstart.pdf"
    chromium(folder, f"--print-to-pdf={paper}", QUICKSTART.as_uri())
    assert 5 < num_pages(paper) <= MAX_PAGES


def num_pages(paper: Path) -> int:
    return len(re.findall(rb"/Type\s*/Page\b", paper.read_bytes()))


@pytest.mark.slow
@needs_poppler
def test_trees_are_whole_on_paper(folder):
    """However wide or high: what lies beyond the edge of the paper is no text of it."""
    trees = [broad(200), high(40)]
    drawn = folded("trees", beside(tree_svg(tree, "a tree") for tree in trees), is_open=True)
    text = (folder / "page.html").read_text().replace("</main>", f"{drawn}</main>")
    (folder / "trees.html").write_text(text)
    paper = folder / "trees.pdf"
    chromium(folder, f"--print-to-pdf={paper}", (folder / "trees.html").as_uri())
    done = subprocess.run(["pdftotext", paper, "-"], capture_output=True, text=True, check=True)
    for tree in trees:
        for node in tree.nodes:
            assert done.stdout.count(node.points) == 1


def broad(number: int) -> Tree:
    root = TreeNode(None, None, 0, "broad", "{0,1}", "played")
    return Tree((root, *(TreeNode(0, 0, 1, f"B{at:04}", "", "cut") for at in range(number))))


def high(number: int) -> Tree:
    return Tree(
        tuple(
            TreeNode(at - 1 if at else None, 0, at, f"H{at:04}", "{0,1}", "played")
            for at in range(number)
        )
    )
