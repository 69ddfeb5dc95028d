"""hpsearch evaluate of bundles: whether they are what they certify."""

import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from hpsearch.errors import HpsearchError
from hpsearch.report.bundle.reading import Bundle, read_bundle, reproduce
from hpsearch.report.bundle.rows_text import print_rows


def evaluate_bundles(folders: Sequence[Path], *, as_json: bool) -> int:
    """Measure what bundles certify again, and print it.

    Raises:
        CorruptError: if a file of one is missing, or not as it was written.
        HpsearchError: if anything is not as certified; it lists what.
    """
    found = {folder: _reproduced(folder) for folder in folders}
    if as_json:
        print(json.dumps([_plain(*one) for one in found.items()], indent=1))
    else:
        for folder, (bundle, differences) in found.items():
            if not differences:
                _print(Console(), folder, bundle)
    wrong = {folder: differences for folder, (_, differences) in found.items() if differences}
    if wrong:
        lines = [line for one in wrong.items() for line in _lines(*one)]
        reason = "not everything is as certified; export again to certify it:"
        raise HpsearchError("\n".join([reason, *lines]))
    return 0


def _reproduced(folder: Path) -> tuple[Bundle, list[str]]:
    bundle = read_bundle(folder)
    return bundle, reproduce(bundle)


def _lines(folder: Path, differences: Sequence[str]) -> list[str]:
    return [f"{folder}:", *(f"  - {line}" for line in differences)]


def _plain(folder: Path, found: tuple[Bundle, list[str]]) -> dict[str, object]:
    bundle, differences = found
    return {
        "folder": str(folder),
        "study": bundle.measures["study"],
        "trial": bundle.measures["trial"],
        "reproduced": not differences,
        "differences": differences,
        "rows": bundle.rows,
    }


def _print(console: Console, folder: Path, bundle: Bundle) -> None:
    print_rows(console, f"trial {bundle.measures['trial']}", bundle.rows)
    sentence = f"{folder}: measured again, every number as certified, bit for bit"
    console.print(sentence, highlight=False, markup=False, soft_wrap=True)
