"""Plants faults in the program on purpose, and reports the share of them that the tests catch.

    python tests/planted_faults.py --work FOLDER --faults 300 --seed 1

A fault is one small change of the source: a comparison, an operator or a constant is replaced, a
condition is negated, a statement is left out. Each room gets the same number, drawn by the seed.
The tests of `make test` run once to learn which test runs which line and for how long. Each fault
is then met by the tests that run its line, the quickest first, for at most SECONDS of them; it is
caught if one fails, or if none ends in time. A fault in a line that no test runs is not caught. The
folder keeps what was learnt and what became of each fault: the same command goes on where it was
interrupted.

mutmut 3 rewrites functions in a way that numba does not compile, and cosmic-ray gives every fault
the same tests, which take minutes.
"""

import argparse
import ast
import compileall
import contextlib
import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from py_compile import PycInvalidationMode
from queue import Queue
from random import Random

import coverage
import pytest

ROOT = Path(__file__).parent.parent
ROOMS = ("game", "trainers", "population", "study", "cluster")
SECONDS = 30.0
"""of tests that a fault meets, by what they took when they passed"""
MOST_TESTS = 150
COMPILED = {
    "hpsearch/game/kernels/": "tests/contract/test_kernels.py",
    "hpsearch/trainers/optim/": "tests/contract/test_adam_passes.py",
}
"""tests that lines meet which no test runs in Python, because numba and triton compile them"""
IN_COMPILED = ("hpsearch/game/", "hpsearch/trainers/optim/")
"""what compiled programs may contain; numba keeps them without a look at the files they call"""
MARKERS = "not slow and not exhaustive and not slurm"
SETTINGS = """\
[run]
source = hpsearch
parallel = true
sigterm = true
patch = _exit
context = ${PYTEST_CURRENT_TEST-}
data_file = {data_file}
"""
SWAPPED_WORDS = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
    ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "*", ast.Mod: "*",
    ast.Pow: "*", ast.BitAnd: "|", ast.BitOr: "&", ast.LShift: ">>", ast.RShift: "<<",
    ast.And: "or", ast.Or: "and",
}  # fmt: skip


@dataclass(frozen=True)
class Fault:
    """One change: the text from ``start`` to ``end`` of a file becomes ``text``."""

    file: str
    line: int
    start: int
    end: int
    text: str
    was: str


class Faults(ast.NodeVisitor):
    """Lists every fault that can be planted in a file."""

    def __init__(self, file: str, source: str) -> None:
        self.file, self.source, self.faults = file, source, list[Fault]()
        self._lines = [0]
        for line in source.encode().splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))
        self.visit(ast.parse(source))

    def _place(self, line: int, column: int) -> int:
        """Return the offset in bytes, which is what ast counts columns in."""
        return self._lines[line - 1] + column

    def _add(self, node: ast.AST, start: int, end: int, text: str) -> None:
        was = self.source.encode()[start:end].decode()
        self.faults.append(Fault(self.file, node.lineno, start, end, text, was))

    def _replace(self, node: ast.expr | ast.stmt, text: str) -> None:
        start = self._place(node.lineno, node.col_offset)
        self._add(node, start, self._place(node.end_lineno, node.end_col_offset), text)

    def _swap(self, node: ast.AST, left: ast.expr, operator: ast.AST, right: ast.expr) -> None:
        """Replace the operator between two operands, parentheses around them left as they are."""
        start = self._place(left.end_lineno, left.end_col_offset)
        end = self._place(right.lineno, right.col_offset)
        between = self.source.encode()[start:end].decode()
        before = between[: len(between) - len(between.lstrip(") \n"))]
        after = between[len(between.rstrip("( \n")) :]
        if type(operator) in SWAPPED_WORDS and "#" not in between:
            text = f"{before} {SWAPPED_WORDS[type(operator)]} {after}"
            self._add(node, start, end, text)

    def visit_Compare(self, node: ast.Compare) -> None:
        """Replace each comparison."""
        operands = [node.left, *node.comparators]
        for left, operator, right in zip(operands, node.ops, operands[1:], strict=False):
            self._swap(node, left, operator, right)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        """Replace an arithmetic operator."""
        self._swap(node, node.left, node.op, node.right)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        """Replace ``and`` by ``or``."""
        self._swap(node, node.values[0], node.op, node.values[1])
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """Replace a number or a truth value; texts are for people."""
        if isinstance(node.value, bool):
            self._replace(node, str(not node.value))
        elif isinstance(node.value, int | float):
            self._replace(node, f"({node.value + 1})")

    def visit_If(self, node: ast.If | ast.While | ast.IfExp) -> None:
        """Negate a condition."""
        self._replace(node.test, f"(not ({ast.get_source_segment(self.source, node.test)}))")
        self.generic_visit(node)

    visit_While = visit_IfExp = visit_If

    def visit_Expr(self, node: ast.Expr) -> None:
        """Leave out a call whose value is not used; a docstring is not one."""
        if isinstance(node.value, ast.Call):
            self._replace(node, "pass")
            self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """Leave it out."""
        self._replace(node, "pass")
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Look at defaults and body; annotations are not run."""
        for part in (*node.args.defaults, *node.args.kw_defaults, *node.body):
            if part is not None:
                self.visit(part)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Look at the value alone."""
        if node.value is not None:
            self.visit(node.value)


def drawn_faults(tree: Path, count: int, seed: int) -> list[Fault]:
    """Return as many of each room, in an order that the seed decides."""
    random, drawn = Random(seed), list[Fault]()
    for room in ROOMS:
        files = sorted((tree / "hpsearch" / room).rglob("*.py"))
        every = [fault for file in files for fault in _faults(tree, file)]
        drawn += random.sample(every, count // len(ROOMS))
    random.shuffle(drawn)
    return drawn


def _faults(tree: Path, file: Path) -> list[Fault]:
    return Faults(str(file.relative_to(tree)), file.read_text()).faults


@dataclass(frozen=True)
class Known:
    """What was learnt from one run of all tests without a fault."""

    tests: dict[str, dict[int, list[str]]]
    """by file and line: those that run it"""
    seconds: dict[str, float]

    def chosen(self, fault: Fault) -> list[str]:
        """Return the tests that a fault meets."""
        known = self.tests.get(fault.file, {}).get(fault.line, [])
        compiled = next((tests for start, tests in COMPILED.items() if start in fault.file), None)
        if not known and compiled is not None:
            known = [test for test in self.seconds if test.startswith(compiled)]
        quickest = sorted(known, key=lambda test: (self.seconds.get(test, SECONDS), test))
        total, chosen = 0.0, list[str]()
        for test in quickest[:MOST_TESTS]:
            total += self.seconds.get(test, SECONDS)
            if chosen and total > SECONDS:
                break
            chosen.append(test)
        return chosen


class Recorder:
    """The plugin of pytest that tells coverage which test runs, and notes what each test takes."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Name the test to coverage."""
        measured = coverage.Coverage.current()
        if measured is not None:
            measured.switch_context(item.nodeid)
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add what its parts take."""
        self.seconds[report.nodeid] += report.duration

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write it down, once: not in each of xdist's processes."""
        if not hasattr(session.config, "workerinput"):
            Path(os.environ["HPSEARCH_SECONDS"]).write_text(json.dumps(self.seconds))


def pytest_configure(config: pytest.Config) -> None:
    """Take part where this file is given as a plugin, by ``-p``."""
    config.pluginmanager.register(Recorder())


def learn(work: Path, tree: Path) -> Known:
    """Run all tests once, unless that was done before."""
    kept, seconds = work / "tests.json", work / "seconds.json"
    if not kept.exists():
        data_file, settings = work / "coverage", work / "coveragerc"
        settings.write_text(SETTINGS.replace("{data_file}", str(data_file)))
        environment = {
            **_environment(tree), "COVERAGE_PROCESS_START": str(settings),
            "HPSEARCH_SECONDS": str(seconds),
        }  # fmt: skip
        command = [*PYTEST, "-p", "planted_faults", "-n", "auto", "--dist", "worksteal"]
        subprocess.run([*command, "-m", MARKERS, "-q"], cwd=tree, env=environment, check=False)
        kept.write_text(json.dumps(_tests_by_line(data_file, tree)))
    by_line = json.loads(kept.read_text())
    return Known(
        {
            file: {int(line): tests for line, tests in lines.items()}
            for file, lines in by_line.items()
        },
        json.loads(seconds.read_text()),
    )


def _tests_by_line(data_file: Path, tree: Path) -> dict[str, dict[int, list[str]]]:
    combined = coverage.Coverage(data_file=str(data_file), config_file=False)
    combined.combine()
    data, by_line = combined.get_data(), dict[str, dict[int, list[str]]]()
    for file in data.measured_files():
        lines = data.contexts_by_lineno(file)
        by_line[str(Path(file).relative_to(tree))] = {
            line: sorted({_test(context) for context in contexts} - {""})
            for line, contexts in lines.items()
        }
    return by_line


def _test(context: str) -> str:
    """Return the test of a context: its name, or that of the process that started this one."""
    return context.strip("|").removesuffix(" (call)").removesuffix(" (setup)").split("|")[-1]


PYTEST = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider")


def _environment(tree: Path) -> dict[str, str]:
    """Let a tree's own files come first; an older one has not got this file."""
    paths = os.pathsep.join([str(tree), str(tree / "tests"), str(ROOT / "tests")])
    return {**os.environ, "PYTHONPATH": paths}


def is_caught(fault: Fault, tests: Sequence[str], tree: Path) -> bool:
    """Plant a fault in a tree, and return whether one of the tests fails."""
    if not tests:
        return False
    file = tree / fault.file
    source = file.read_bytes()
    file.write_bytes(source[: fault.start] + fault.text.encode() + source[fault.end :])
    try:
        with tempfile.TemporaryDirectory() as empty:
            compiled = {"NUMBA_CACHE_DIR": empty} if fault.file.startswith(IN_COMPILED) else {}
            return _fails([*PYTEST, "-x", "-q", "--timeout", "60", *tests], tree, compiled)
    finally:
        file.write_bytes(source)


def _fails(command: Sequence[str], tree: Path, more: dict[str, str]) -> bool:
    """Return whether a command fails or takes too long, and end what it started."""
    process = subprocess.Popen(
        command, cwd=tree, env=_environment(tree) | more, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        return process.wait(timeout=6 * SECONDS) != 0
    except subprocess.TimeoutExpired:
        return True
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def try_all(
    faults: Sequence[Fault], known: Known, tree: Path, work: Path, jobs: int
) -> dict[Fault, bool]:
    """Plant one fault after another, in as many copies of the tree as there are jobs.

    Each outcome is written down as soon as it is known, and not asked for again.
    """
    outcome = _outcomes(work / OUTCOMES)
    trees: Queue[Path] = Queue()
    for job in range(jobs):
        copy = work / f"tree-{job}"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(tree, copy, ignore=shutil.ignore_patterns(".venv", ".git", "__pycache__"))
        compileall.compile_dir(  # a change of one file is seen whatever the clock says
            copy / "hpsearch", quiet=1, invalidation_mode=PycInvalidationMode.CHECKED_HASH
        )
        trees.put(copy)

    def attempt(fault: Fault) -> bool:
        place = trees.get()
        try:
            caught = is_caught(fault, known.chosen(fault), place)
        finally:
            trees.put(place)
        print("caught  " if caught else "MISSED  ", f"{fault.file}:{fault.line}", end="  ")
        print(f"{fault.was!r} -> {fault.text!r}", flush=True)
        return caught

    rest = [fault for fault in faults if fault not in outcome]
    with (work / OUTCOMES).open("a", newline="") as file, ThreadPoolExecutor(jobs) as pool:
        writer = csv.DictWriter(file, COLUMNS)
        if file.tell() == 0:
            writer.writeheader()
        for fault, caught in zip(rest, pool.map(attempt, rest), strict=True):
            writer.writerow({**asdict(fault), "caught": caught})
            file.flush()
            outcome[fault] = caught
    return {fault: outcome[fault] for fault in faults}


OUTCOMES = "faults.csv"
COLUMNS = [*(column.name for column in fields(Fault)), "caught"]


def _outcomes(path: Path) -> dict[Fault, bool]:
    """Return what an earlier run in the same folder came to."""
    if not path.exists():
        return {}
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {
        Fault(
            row["file"], int(row["line"]), int(row["start"]), int(row["end"]),
            row["text"], row["was"],
        ): row["caught"] == str(True)
        for row in rows
    }  # fmt: skip


def main() -> None:
    """Learn, plant, report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--work", type=Path, required=True, help="folder for what is learnt")
    parser.add_argument("--tree", type=Path, default=ROOT, help="the project; default: this one")
    parser.add_argument("--faults", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    work, tree = options.work.absolute(), options.tree.absolute()
    work.mkdir(parents=True, exist_ok=True)
    known = learn(work, tree)
    faults = drawn_faults(tree, options.faults, options.seed)
    outcome = try_all(faults, known, tree, work, options.jobs)
    total, caught = Counter[str](), Counter[str]()
    for fault, was_caught in outcome.items():
        for name in (fault.file.split("/")[1], "all"):
            total[name] += 1
            caught[name] += was_caught
    for name, number in total.items():
        print(f"{name:12} {caught[name]:4} of {number:4}  {caught[name] / number:.0%}")


if __name__ == "__main__":
    main()
