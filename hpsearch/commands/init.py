"""hpsearch init: a study to begin with, or a trainer configuration from one of another program."""

from collections.abc import Sequence
from pathlib import Path

from hpsearch import yaml_file
from hpsearch.errors import UsageError
from hpsearch.files import write_text
from hpsearch.study.templates import DEFAULT, TEMPLATES, write_study_around, write_template
from hpsearch.trainers.from_hironaka import CHANGED, CHOSEN, LEFT_OUT, Remark, convert

HEADINGS = {
    CHANGED: "has another meaning or place:",
    LEFT_OUT: "left out:",
    CHOSEN: "chosen, because the old file does not say:",
}


def init(
    target: Path | None,
    *,
    template: str | None,
    lists: bool,
    old: Path | None,
    output: Path | None,
) -> int:
    """Write a study from a template or around an old configuration, or list the templates."""
    if old is not None:
        if target is None:
            return from_hironaka(old, output)
        if output is not None:
            raise UsageError(
                "-o names the configuration alone, without a study; leave out -o, or DIR|FILE"
            )
        return study_from_hironaka(old, target)
    if output is not None:
        raise UsageError("-o belongs to --from-hironaka; name the study file without it")
    if lists:
        return list_templates()
    return from_template(template or DEFAULT, target or Path())


def from_template(name: str, target: Path) -> int:
    """Write a study and its trainer configuration, every key explained; say what comes next."""
    files = write_template(name, target)
    print(f"{files.study}: {TEMPLATES[name].summary}")
    print(f"{files.trainer}: the trainer configuration that it searches around")
    print(f"look: hpsearch validate {files.study}")
    print(f"run:  hpsearch run {files.study}")
    return 0


def list_templates() -> int:
    """Print a line for each template."""
    width = max(map(len, TEMPLATES))
    for name, template in TEMPLATES.items():
        print(f"{name:<{width}}  {template.summary}")
    return 0


def study_from_hironaka(old: Path, target: Path) -> int:
    """Write a study around a configuration of hironaka.trainer; print what changed in that."""
    converted = convert(yaml_file.load(old), source=str(old))
    files = write_study_around(converted.config, old, target)
    print(f"{files.study}: searches rates and discounts around those of {old}")
    print(f"{files.trainer}: {old} as a complete trainer configuration")
    print(f"look: hpsearch validate {files.study}")
    print(f"run:  hpsearch run {files.study}")
    _print_remarks(converted.remarks)
    return 0


def from_hironaka(old: Path, output: Path | None) -> int:
    """Write a complete configuration from one of hironaka.trainer; print what changed."""
    target = output or Path(f"{old.stem}.yaml")
    if target.exists():
        raise UsageError(f"{target} exists and is not overwritten; name another file with -o")
    converted = convert(yaml_file.load(old), source=str(old))
    header = f"# {old.name} of hironaka.trainer, converted.\n# hpsearch train {target}\n"
    write_text(target, header + yaml_file.dump(converted.config))
    print(f"{target} is a complete configuration; train it with: hpsearch train {target}")
    _print_remarks(converted.remarks)
    return 0


def _print_remarks(remarks: Sequence[Remark]) -> None:
    for kind, heading in HEADINGS.items():
        _print_list(heading, [remark for remark in remarks if remark.kind == kind])


def _print_list(heading: str, remarks: Sequence[Remark]) -> None:
    if remarks:
        print(f"\n{heading}")
    for remark in remarks:
        print(f"  {remark.key}: {remark.text}")
