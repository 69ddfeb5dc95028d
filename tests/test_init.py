"""`hpsearch init` writes studies that load, run, and explain every one of their keys."""

import dataclasses
import re
import shlex
import tomllib
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from cli_tools import hpsearch, read, refused
from full_disk import fill_disk_at

from hpsearch import files as shipped_module
from hpsearch import yaml_file
from hpsearch.errors import DiskError, UsageError
from hpsearch.explained import class_note, explained, field_notes
from hpsearch.population.options import PopulationOptions
from hpsearch.programs.config import ProgramConfig, read_trial_config
from hpsearch.study.options import LocalOptions, SlurmOptions, TPEOptions
from hpsearch.study.spec import StudySpec, load_spec
from hpsearch.study.templates import TEMPLATES, template_file, write_template
from hpsearch.trainers.config import DQNConfig, read_config
from hpsearch.trainers.config.common import LearningRole

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "studies/README.md", ROOT / "docs/guides/program.md"]
README = re.sub("```.*?```", "", "".join(p.read_text() for p in PAGES), flags=re.DOTALL)
SAMPLERS = ("random", "tpe", "qmc", "grid", "cmaes", "gp", "listed")
PRUNERS = ("none", "median", "successive_halving", "hyperband")
ITEMS = ("space", "objectives", "operators")
"""keys below which a line is an item, explained below them"""


def keys_of(node: yaml.Node) -> list[tuple[str, int]]:
    """Return keys with the lines on which they stand, without those of items and flow mappings."""
    if not isinstance(node, yaml.MappingNode) or node.flow_style:
        return []
    keys = []
    for key, value in node.value:
        keys.append((key.value, key.start_mark.line))
        keys += [] if key.value in ITEMS else keys_of(value)
    return keys


@pytest.fixture(params=TEMPLATES)
def written(request, tmp_path):
    return request.param, write_template(request.param, tmp_path)


def test_a_template_says_what_its_study_says(written):
    name, files = written
    source = template_file(name)
    ours, theirs = load_spec(files.study), load_spec(source)
    same = {"name": name, "storage": f"sqlite:///runs/{name}.db", "base": ours.spec.base}
    if files.profile is not None:
        assert files.profile.read_text() == (ROOT / "slurm/a100.yaml").read_text()
        profile = files.profile.name
        same["executor"] = dataclasses.replace(theirs.spec.executor, profile=profile)
    assert ours.spec == dataclasses.replace(theirs.spec, **same)
    assert ours.bases.keys() == theirs.bases.keys()
    for algorithm, base in ours.bases.items():
        expected = read_trial_config(theirs.bases[algorithm], source="")
        own = read_trial_config(base, source="")
        if isinstance(own, ProgramConfig):  # it is another copy of the program
            own = dataclasses.replace(own, command=expected.command)
        assert own == expected


def test_every_key_has_a_comment_beside_or_above_it(written):
    for path in written[1].files:
        if path == written[1].program:
            continue
        text = path.read_text()
        lines = text.splitlines()
        keys = keys_of(yaml.compose(text))
        assert len(keys) > 18
        for key, line in keys:
            beside = re.search(r"\s# \S", lines[line])
            above = line and re.match(r"\s*# \S", lines[line - 1])
            by_its_name = lines[line].endswith(":") and "# " in lines[line + 1]
            assert beside or above or by_its_name, (path.name, key)


def test_every_key_of_the_schema_stands_in_the_files(written):
    name, files = written
    study = yaml_file.load(files.study)
    assert list(study) == [field.name for field in dataclasses.fields(StudySpec)]
    options = LocalOptions if files.profile is None else SlurmOptions
    assert study["executor"].keys() == {f.name for f in dataclasses.fields(options)}
    if study["sampler"]["name"] == "tpe":
        assert study["sampler"].keys() == {f.name for f in dataclasses.fields(TPEOptions)}
    if name == "population":
        wanted = {f.name for f in dataclasses.fields(PopulationOptions)}
        assert study["population"].keys() == wanted
    text = files.study.read_text()
    for block in (LocalOptions, SlurmOptions, PopulationOptions):
        for field in dataclasses.fields(block):
            assert re.search(rf"\b{field.name}\b", text), field.name
    for option in (*SAMPLERS, *PRUNERS):
        assert re.search(rf"name: {option}\b", text), option
    # A trainer configuration has no defaults, so that it loads says that all its keys are there.
    for trainer in files.trainers:
        assert read_config(yaml_file.load(trainer), source="")


def test_every_key_is_one_that_the_readme_explains(written):
    named = set(re.findall(r"[a-z]+[a-z0-9_]*", " ".join(re.findall(r"`[^`]+`", README))))
    for path in (*written[1].trainers, written[1].study):
        keys = {key for key, _ in keys_of(yaml.compose(path.read_text()))}
        assert keys <= named | {"args"}, keys - named


def test_comments_explain_a_key_once(written):
    text = written[1].study.read_text()
    for comments in re.findall(r"(?:^ *#.*\n)+", text, re.MULTILINE):
        keys = re.findall(r"^ *# (\w+): ", comments, re.MULTILINE)
        assert len(set(keys)) == len(keys), comments


def test_comments_are_what_the_code_says(tmp_path):
    files = write_template("search", tmp_path)
    text = " ".join(re.sub(r"\n *#", "", files.study.read_text()).split())
    assert "max_failures: 3 # the study stops when more trials than this have failed (the d" in text
    assert "n_startup_trials: 8 # finished trials before the first that is not random (def" in text
    assert "(default: 10)" in text
    text = " ".join(re.sub(r"\n *#", "", files.trainers[0].read_text()).split())
    assert "gamma: 0.93 # discount a move; P" in text
    assert "batch_size: 256 # transitions an update rollout" not in text
    assert "rollout_size: 256 # games played at once in which this role learns, B batch" in text


def test_the_study_is_named_by_its_file(tmp_path):
    done = hpsearch(tmp_path, "init", "deep/mine.yaml", "--template", "ppo")
    assert done.stdout.splitlines()[-1] == "run:  hpsearch run deep/mine.yaml"
    assert {path.name for path in (tmp_path / "deep").iterdir()} == {
        "mine.yaml",
        "mine_trainer.yaml",
    }
    assert read(tmp_path, "validate", "deep/mine.yaml")["study"] == "mine"
    first = (tmp_path / "deep/mine.yaml").read_text().splitlines()[0]
    assert first == "# hpsearch run deep/mine.yaml"
    hpsearch(tmp_path, "init", "deep")
    assert (tmp_path / "deep/search.yaml").exists()


def test_a_study_for_a_cluster_comes_with_its_profile(tmp_path):
    done = hpsearch(tmp_path, "init", "--template", "a100", "big.yaml")
    assert done.stdout.splitlines()[-1] == "run:  hpsearch submit big.yaml"
    names = {"big.yaml", "big_dqn.yaml", "big_ppo.yaml", "big_profile.yaml"}
    assert {path.name for path in tmp_path.iterdir()} == names
    assert (tmp_path / "big.yaml").read_text().startswith("# hpsearch submit big.yaml\n")
    assert read(tmp_path, "validate", "big.yaml")["trials"] == 256
    (tmp_path / "big.yaml").unlink()
    message = refused(tmp_path, "init", "--template", "a100", "big.yaml", code=2)
    assert message.startswith("big_dqn.yaml exists and is not overwritten")


def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "search_trainer.yaml").write_text("mine")
    message = refused(tmp_path, "init", code=2)
    assert message.startswith("search_trainer.yaml exists and is not overwritten; name another")
    assert [path.name for path in tmp_path.iterdir()] == ["search_trainer.yaml"]
    assert (tmp_path / "search_trainer.yaml").read_text() == "mine"


@pytest.mark.parametrize("fatal", range(8))
def test_a_full_disk_leaves_all_files_or_none(tmp_path, monkeypatch, fatal):
    fill_disk_at(monkeypatch, fatal)
    with suppress(DiskError):
        write_template("a100", tmp_path)
    assert len(list(tmp_path.iterdir())) in (0, 4)


def test_what_cannot_be_written_is_refused(tmp_path):
    message = refused(tmp_path, "init", "--template", "sarch", code=2)
    assert message.startswith(
        "unknown template 'sarch' (did you mean 'search'?); valid: a100, a100_popul"
    )
    message = refused(tmp_path, "init", "_a.yaml", code=2)
    assert message.startswith("the name of a study must begin with a letter or digit")
    message = refused(tmp_path, "init", "x.txt", code=2)
    assert message.startswith("a study is a .yaml file, got 'x.txt'; change its ending")
    message = refused(tmp_path, "init", "-o", "x.yaml", code=2)
    assert message.startswith("-o belongs to --from-hironaka")
    assert list(tmp_path.iterdir()) == []


def test_templates_are_listed(tmp_path):
    lines = hpsearch(tmp_path, "init", "--list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(TEMPLATES)
    assert all(len(line.split()) > 5 for line in lines)


def test_every_study_of_the_repository_is_a_template():
    files = {path.name for path in (ROOT / "studies").glob("*.yaml")}
    assert {template_file(name).name for name in TEMPLATES} == files


@pytest.mark.slow
def test_a_new_study_runs(tmp_path):
    """With its numbers made small in the text, the comments left as they are."""
    hpsearch(tmp_path, "init", "s.yaml")
    small = {
        "s.yaml": {"trials": 2, "n_startup_trials": 1, "jobs": 1, "members_per_job": 2},
        "s_trainer.yaml": {"interval": 10, "num_games": 10, "final_num_games": 20},
    }
    for name, values in small.items():
        path = tmp_path / name
        text = path.read_text()
        for key, value in values.items():
            text, count = re.subn(rf"(?m)^( *{key}:) \d+ ", rf"\1 {value} ", text)
            assert count
        path.write_text(re.sub(r"(?m)^steps: 2400 ", "steps: 20 ", text))
    done = hpsearch(tmp_path, "run", "s.yaml", "--no-export")
    assert done.stdout.splitlines()[-5].startswith("best: trial ")
    assert read(tmp_path, "status", "s")["trials"]["finished"] == 2


# What templates are made of.


@dataclasses.dataclass(frozen=True)
class Inner:
    """What is inside.

    And more of it.
    """

    size: int = 3
    """how large,
    in metres"""


@dataclasses.dataclass(frozen=True)
class Outer(Inner):
    """What is outside."""

    inner: Inner | None = None
    other: str = "x"

    def method(self) -> int:
        """Return no note of a field."""
        return self.size


def test_notes_are_the_texts_under_fields():
    assert field_notes(Outer) == {"size": "how large, in metres"}
    assert class_note(Inner) == "What is inside"


def test_a_configuration_is_explained():
    assert explained(Outer(inner=Inner(4))) == (
        "size: 3                         # how large, in metres (the default)\n"
        "\n"
        "inner:                          # (default: null)\n"
        "  size: 4                       # how large, in metres (default: 3)\n"
        "\n"
        "other: x                        # the default\n"
    )
    assert yaml.safe_load(explained(Outer())) == {"size": 3, "inner": None, "other": "x"}


def test_every_field_of_a_learning_role_is_explained():
    names = {field.name for field in dataclasses.fields(LearningRole)}
    assert names == field_notes(LearningRole).keys()
    assert {"seed", "device", "reward", "algorithm"} <= field_notes(DQNConfig).keys()


def test_one_line_of_yaml_reads_back():
    values = [
        "sqlite:///a b.db",
        "a: b",
        "1e-3",
        None,
        True,
        1e-5,
        [1, "x y"],
        {"k": [1, {"a": 2}]},
    ]
    for value in values:
        text = yaml_file.dump_inline(value)
        assert "\n" not in text
        assert yaml_file.parse(f"k: {text}") == {"k": value}


def test_a_wheel_holds_what_is_shipped(tmp_path, monkeypatch):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    for source, target in included.items():
        assert (ROOT / source).exists()
        assert target == f"hpsearch/files/{source}"
    assert shipped_module.shipped("studies/quickstart.yaml") == ROOT / "studies/quickstart.yaml"
    monkeypatch.setattr(shipped_module, "__file__", str(tmp_path / "files.py"))
    (tmp_path / "files/studies").mkdir(parents=True)
    (tmp_path / "files/studies/quickstart.yaml").write_text("")
    assert shipped_module.shipped("studies/quickstart.yaml").parent.parent.name == "files"


@pytest.mark.parametrize(
    ("name", "proposed"),
    [
        ("my study", "my-study"),
        ("Études für Ødipus (2)", "Etudes-fur-dipus-2"),
        ("_hidden", "hidden"),
        ("многочлен", "study"),
        ("a" * 70, "a" * 64),
    ],
)
def test_a_name_that_is_allowed_is_proposed(tmp_path, name, proposed):
    with pytest.raises(UsageError, match=r"name the file .*, for example") as raised:
        write_template("search", tmp_path / f"{name}.yaml")
    said = str(raised.value).partition("name the file ")[2].removesuffix(", for example")
    (target,) = shlex.split(said)
    assert Path(target) == tmp_path / f"{proposed}.yaml"
    assert write_template("search", Path(target)).study == Path(target)
