"""hpsearch init, validate: a study to begin with; a study file checked, with what it costs."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from hpsearch.commands.command import JSON, STUDY, argument, command, flag, option
from hpsearch.errors import UsageError

if TYPE_CHECKING:
    from hpsearch.study.templates import Written


@command(
    "write a first study, with every key explained; or convert from hironaka",
    argument(
        "target",
        "DIR|FILE",
        "folder, or study file ending in .yaml, whose name becomes the study's; default: here",
        Path,
        count="?",
    ),
    (
        option("--template NAME", "template to use; see --list; default: search"),
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
        "write the converted configuration here (with --from-hironaka, without a study); "
        "default: the old name with .yaml, in this folder",
        Path,
    ),
    examples=["--template ppo my_study.yaml"],
)
def init(
    target: Path | None, *, template: str | None, lists: bool, old: Path | None, output: Path | None
) -> None:
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
        for name, summary in TEMPLATES.items():
            print(f"{name:<{width}}  {summary}")
    else:
        name = template or DEFAULT
        written = write_template(name, target or Path())
        print(f"{written.study}: {TEMPLATES[name]}")
        for trainer in written.trainers:
            print(f"{trainer}: the trainer configuration that it searches around")
        if written.program is not None:
            print(f"{written.program}: the program that it runs, to be replaced by yours")
        if written.profile is not None:
            print(f"{written.profile}: the profile of your cluster, to be filled in")
        _say_what_comes_next(written)


def _convert(old: Path, study: Path | None, output: Path) -> None:
    from hpsearch import yaml_file
    from hpsearch.files import write_text
    from hpsearch.study.templates import write_study_around
    from hpsearch.trainers.from_hironaka import convert

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
        print(f"{written.trainers[0]}: {old} as a complete trainer configuration")
        _say_what_comes_next(written)
    headings = {
        "changed": "has another meaning or place:",
        "left out": "left out:",
        "chosen": "chosen, because the old file does not say:",
    }
    for kind, heading in headings.items():
        lines = [f"  {note.key}: {note.text}" for note in converted.notes if note.kind == kind]
        if lines:
            print(f"\n{heading}", *lines, sep="\n")


def _say_what_comes_next(written: "Written") -> None:
    print(f"look: hpsearch validate {written.study}")
    print(f"run:  hpsearch {written.verb} {written.study}")


@command(
    "check a study file and show what it would search",
    *STUDY,
    JSON,
    examples=["studies/quickstart.yaml"],
)
def validate(study: str, runs: Path, *, as_json: bool) -> None:
    from hpsearch import yaml_file
    from hpsearch.api.study_check import check_study
    from hpsearch.extensions import all_installed

    path = Path(study)
    check = check_study(path, runs)
    if as_json:
        plain = {
            "study": check.study,
            "configurations": check.configurations,
            "trials": check.trials,
            "remarks": check.warnings,
            "cost": asdict(check.cost),
            "sbatch": check.sbatch,
            "example": check.example.config,
            "example_params": check.example.params,
            "extensions": [str(part) for part in all_installed()],
        }
        print(json.dumps(plain, indent=1))
        return
    print(f"{path} is a valid study: {check.size}")
    for sentence in check.sentences():
        print(sentence)
    for part in all_installed():
        print(f"another package adds: {part}")
    for job, lines in check.sbatch.items():
        whose = "the driver" if job == "driver" else f"a job of {job}"
        print(f"\n{whose} is submitted with:\n", *lines, sep="\n")
    example = check.example
    print(f"\n{example.what}:\n\n{yaml_file.dump(example.params)}")
    print(f"its complete configuration:\n\n{yaml_file.dump(example.config)}")
