"""hpsearch evaluate of bundles: whether they are what they certify."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.console import Console

from hpsearch.errors import HpsearchError
from hpsearch.report.bundle.contents import shown
from hpsearch.report.bundle.reading import Bundle, read_bundle, reproduce
from hpsearch.report.bundle.rebuilding import uncompared
from hpsearch.report.bundle.rows_text import print_rows, print_verdict
from hpsearch.report.terminal import Terminal

MOST_LINES: Final = 100
"""of what differs"""


def evaluate_bundles(folders: Sequence[Path], signers: Path | None, *, as_json: bool) -> int:
    """Measure what bundles certify again, and print it.

    Args:
        folders: of the bundles.
        signers: the file that lists who may have signed them; None asks for no signature.
        as_json: print plain data instead of tables.

    Raises:
        CorruptError: if one is not signed by them, a file is missing or not as it was written, or
            anything else lies there.
        HpsearchError: if anything is not as certified; it lists what.
    """
    found = {folder: _reproduced(folder, signers) for folder in folders}
    if as_json:
        print(json.dumps([_plain(*one) for one in found.items()], indent=1))
    else:
        for folder, (bundle, differences) in found.items():
            if not differences:
                _print(Terminal(), folder, bundle)
    wrong = {folder: differences for folder, (_, differences) in found.items() if differences}
    if wrong:
        lines = [line for one in wrong.items() for line in _lines(*one)]
        reason = "not everything is as certified; export again to certify it:"
        raise HpsearchError("\n".join([reason, *lines]))
    return 0


def _reproduced(folder: Path, signers: Path | None) -> tuple[Bundle, list[str]]:
    bundle = read_bundle(folder, signers)
    return bundle, reproduce(bundle)


def _lines(folder: Path, differences: Sequence[str]) -> list[str]:
    more = len(differences) - MOST_LINES
    lines = [f"  - {shown(line)}" for line in differences[:MOST_LINES]]
    return [f"{folder}:", *lines, *([f"  - and {more} more"] if more > 0 else [])]


def _plain(folder: Path, found: tuple[Bundle, list[str]]) -> dict[str, object]:
    bundle, differences = found
    return {
        "folder": str(folder),
        "study": bundle.certificate.study,
        "trial": bundle.certificate.trial,
        "signer": bundle.signer,
        "reproduced": not differences,
        "differences": differences,
        "uncompared": uncompared(bundle.contents),
        "rows": bundle.rows,
    }


def _print(console: Console, folder: Path, bundle: Bundle) -> None:
    trial = bundle.certificate.trial
    print_verdict(console, bundle.rows, trial, bundle.config)
    print_rows(console, f"trial {trial}", bundle.rows)
    sentence = (
        f"{folder}: measured again, every number as certified, bit for bit; what the search "
        "measured (search_metrics) and README.md are not part of that"
    )
    console.print(sentence, highlight=False, markup=False, soft_wrap=True)
    if bundle.signer is not None:
        signed = f"{folder}: signed by {bundle.signer}"
        console.print(signed, highlight=False, markup=False, soft_wrap=True)
    elif bundle.is_signed:
        _say(f"{folder} is signed; --signers FILE tells whether by a key that you trust")
    for name in uncompared(bundle.contents):
        _say(
            f"{folder / name} was not compared with the weights: the packages that write it are "
            "not installed; add them with pip install 'hpsearch[onnx]'"
        )


def _say(sentence: str) -> None:
    print(f"hpsearch: {sentence}", file=sys.stderr)
