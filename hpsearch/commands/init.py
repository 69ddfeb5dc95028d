"""hpsearch init: a study to begin with, or a trainer configuration from one of another program."""

from pathlib import Path

from hpsearch.commands.command import argument, command, flag, option
from hpsearch.errors import UsageError


@command(
    "write a study to begin with, every key explained; or convert from hironaka",
    argument(
        "target",
        "DIR|FILE",
        "folder, or study file ending in .yaml, whose name becomes the study's; default: here",
        Path,
        count="?",
    ),
    (
        option("--template NAME", "of --list; default: search"),
        flag("--list", "name the templates, a line each", to="lists"),
        option(
            "--from-hironaka OLD",
            "turn a configuration of hironaka.trainer into a complete one of ours, with a study "
            "around it where DIR|FILE is given, and list what changed meaning; OLD stays as it is",
            Path,
            to="old",
        ),
    ),
    option(
        "-o --output FILE",
        "of --from-hironaka without a study; default: the old name with .yaml, here",
        Path,
    ),
    examples=["--template ppo my_study.yaml"],
)
def init(
    target: Path | None, *, template: str | None, lists: bool, old: Path | None, output: Path | None
) -> int:
    from hpsearch.study.templates import DEFAULT, TEMPLATES, write_template

    if output is not None and old is None:
        raise UsageError("-o belongs to --from-hironaka; name the study file without it")
    if output is not None and target is not None:
        raise UsageError(
            "-o names the configuration alone, without a study; leave out -o, or DIR|FILE"
        )
    if old is not None:
        _convert(old, target, output or Path(f"{old.stem}.yaml"))
    elif lists:
        width = max(map(len, TEMPLATES))
        for name, listed in TEMPLATES.items():
            print(f"{name:<{width}}  {listed.summary}")
    else:
        name = template or DEFAULT
        written = write_template(name, target or Path())
        print(f"{written.study}: {TEMPLATES[name].summary}")
        print(f"{written.trainer}: the trainer configuration that it searches around")
        _say_what_comes_next(written.study)
    return 0


def _convert(old: Path, study: Path | None, output: Path) -> None:
    from hpsearch import yaml_file
    from hpsearch.files import write_text
    from hpsearch.study.templates import write_study_around
    from hpsearch.trainers.from_hironaka import CHANGED, CHOSEN, LEFT_OUT, convert

    if study is None and output.exists():
        raise UsageError(f"{output} exists and is not overwritten; name another file with -o")
    converted = convert(yaml_file.load(old), source=str(old))
    if study is None:
        header = f"# {old.name} of hironaka.trainer, converted.\n# hpsearch train {output}\n"
        write_text(output, header + yaml_file.dump(converted.config))
        print(f"{output} is a complete configuration; train it with: hpsearch train {output}")
    else:
        written = write_study_around(converted.config, old, study)
        print(f"{written.study}: searches rates and discounts around those of {old}")
        print(f"{written.trainer}: {old} as a complete trainer configuration")
        _say_what_comes_next(written.study)
    headings = {
        CHANGED: "has another meaning or place:",
        LEFT_OUT: "left out:",
        CHOSEN: "chosen, because the old file does not say:",
    }
    for kind, heading in headings.items():
        remarks = [remark for remark in converted.remarks if remark.kind == kind]
        if remarks:
            print(f"\n{heading}")
        for remark in remarks:
            print(f"  {remark.key}: {remark.text}")


def _say_what_comes_next(study: Path) -> None:
    print(f"look: hpsearch validate {study}")
    print(f"run:  hpsearch run {study}")
