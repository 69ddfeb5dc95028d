"""Hooks of MkDocs: pages that lie elsewhere in the repository, pages made of the code, pictures.

Pages link to each other by their places in the repository, so that they also lead somewhere where
they are read as files. Here a link to a page of the site, or to an example, becomes one within the
site; a link to another file leaves its text alone.
"""

import posixpath
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

import reference
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).resolve().parents[2]
OUTSIDE: Final = (
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "studies/README.md",
    "slurm/README.md",
    "monitoring/README.md",
    "reports/README.md",
    "reports/benchmarks/README.md",
    "hpsearch/README.md",
    "hpsearch/ADDING.md",
    *(str(page.relative_to(ROOT)) for page in sorted((ROOT / "hpsearch").glob("*/README.md"))),
)
"""pages that lie outside docs/, by their places in the repository, which are those of the site"""
PACKAGE: Final = "docs/example"
EXAMPLES: Final = (
    "studies/programs/spirals.py",
    "studies/spirals.yaml",
    "studies/spirals_population.yaml",
    *(
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / PACKAGE).rglob("*"))
        if path.suffix in (".py", ".toml", ".yaml")
    ),
)
"""files that a page of the site shows each"""
LANGUAGES: Final = {".py": "python", ".toml": "toml", ".yaml": "yaml"}
PLACES: Final = {"README.md": "index.md", **{page: page for page in OUTSIDE}}
"""pages of the site by their places in the repository; those of docs/ are added"""
GENERATED: Final[dict[str, Callable[[], str]]] = {
    "reference/study.md": reference.study_page,
    "reference/trainer.md": reference.trainer_page,
    "reference/profile.md": reference.profile_page,
    "reference/commands.md": reference.commands_page,
    "reference/api.md": reference.api_page,
}
LINK: Final = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
CODE: Final = re.compile(r"(^```.*?^```[ ]*$)", flags=re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that lie elsewhere, and those that are made."""
    for page in files.documentation_pages():
        PLACES[f"docs/{page.src_uri}"] = page.src_uri
    for source, place in PLACES.items():
        if not source.startswith("docs/"):
            files.append(File.generated(config, place, content=(ROOT / source).read_text()))
    for source in EXAMPLES:
        path = ROOT / source
        content = (
            f"# {path.name}\n\n`{source}`\n\n```{LANGUAGES[path.suffix]}\n{path.read_text()}```\n"
        )
        PLACES[source] = f"files/{source}.md"
        files.append(File.generated(config, PLACES[source], content=content))
    own = [path.removeprefix(f"{PACKAGE}/") for path in EXAMPLES if path.startswith(PACKAGE)]
    content = f"# {PACKAGE}\n\n" + "".join(f"- [{path}]({path})\n" for path in own)
    PLACES[f"{PACKAGE}/README.md"] = f"files/{PACKAGE}/index.md"
    files.append(File.generated(config, f"files/{PACKAGE}/index.md", content=content))
    for place, make in GENERATED.items():
        files.append(File.generated(config, place, content=make()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links lead to pages of the site, and put pictures in the page itself."""
    place = page.file.src_uri
    source = next((own for own, of_site in PLACES.items() if of_site == place), f"docs/{place}")

    def replaced(link: re.Match[str]) -> str:
        mark, text, target = link.groups()
        if re.match(r"[a-z]+:|#", target):
            return link[0]
        path, hash_mark, anchor = target.partition("#")
        wanted = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        if mark:
            return _picture(wanted, text, place, files, config)
        if (ROOT / wanted).is_dir():
            wanted = f"{wanted}/README.md"
        if wanted not in PLACES:
            return text
        return f"[{text}]({_relative(PLACES[wanted], place)}{hash_mark}{anchor})"

    parts = CODE.split(markdown)
    parts[::2] = [LINK.sub(replaced, part) for part in parts[::2]]
    return "".join(parts)


def _picture(wanted: str, text: str, place: str, files: Files, config: MkDocsConfig) -> str:
    """Return an SVG as part of the page, in whose colours it is drawn; link to other pictures."""
    path = ROOT / wanted
    if path.suffix == ".svg" and wanted.startswith("docs/pictures/"):
        drawn = f'<figure class="picture" role="img" aria-label="{text}">'
        return f"{drawn}{path.read_text()}</figure>"
    if files.get_file_from_path(wanted) is None:
        files.append(File.generated(config, wanted, abs_src_path=str(path)))
    return f"![{text}]({_relative(wanted, place)})"


def _relative(target: str, place: str) -> str:
    return posixpath.relpath(target, posixpath.dirname(place) or ".")
