"""Compile every program, of the game and of the optimizer, for an A100 and an H200 without either.

    python tests/compile_programs.py [--rows]

Prints of each program how many registers a thread has, how many bytes of shared memory a block
has, and how long compiling takes; --rows appends that to reports/benchmarks/gpu_programs.csv.
Fails where the compiler refuses one, where registers do not suffice, so that it spills some into
memory, or where it divides otherwise than IEEE 754 has it.

A process of its own, because TRITON_INTERPRET decides when triton is imported what a program is.
"""

import argparse
import io
import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

os.environ |= {
    "TRITON_INTERPRET": "0",
    "TRITON_ALWAYS_COMPILE": "1",  # what is kept on disk leaves no log
    "TRITON_DUMP_PTXAS_LOG": "1",  # in which the registers stand
}
sys.path.append(str(Path(__file__).parent / "benchmarks"))

import triton
from rows import REPORTS, append, context
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from hpsearch.game.kernels import cuda, cuda_programs
from hpsearch.game.rules import REWARDS
from hpsearch.trainers.optim import adam_cuda

TARGETS = {"A100": 80, "H200": 90}  # compute capabilities
SIZES = {
    "20x3": {"N": 20, "D": 3, "ROWS": 32, "BLOCK": 1, "REPOSITION": True},
    "100x10": {"N": 100, "D": 10, "ROWS": 128, "BLOCK": 1, "REPOSITION": True},
}
POINTERS = {
    "*i32": ("points", "next_points", "lengths", "result"),
    "*i64": ("starts", "keys", "lanes", "counters", "actions", "axes", "subsets"),
    "*i1": ("done", "truncated", "last", "capped"),
    "*fp32": ("reward", "observation", "next_observation"),
}
TYPES = {name: kind for kind, names in POINTERS.items() for name in names}
RESULTS = {"observe": "*fp32", "uniform": "*fp32", "zeillinger": "*i64"}
STEPS = {name: {"REWARD": name, "OBSERVES": True} for name in REWARDS}
STEPS["terminal, unobserved"] = {"REWARD": "terminal", "OBSERVES": False}
ADAM = {"with a target": {"HAS_TARGET": True}, "without one": {"HAS_TARGET": False}}
USES = re.compile(r"Used (\d+) registers")
SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")


def cases() -> Iterator[tuple[str, str, triton.JITFunction, dict[str, object]]]:
    """Yield the size, the name, and what is compiled, with its constants."""
    for size, constants in SIZES.items():
        for name in cuda.__all__:
            program = vars(cuda_programs)[name]
            if name != "step":
                yield size, name, program, constants
                continue
            # The larger games take some seconds each, and rewards differ by a few operations.
            for reward in STEPS if size == "20x3" else ["terminal"]:
                yield size, f"step ({reward})", program, constants | STEPS[reward]
    for kind, more in ADAM.items():
        yield "any", f"adam ({kind})", adam_cuda.update_weights, more | {"BLOCK": adam_cuda.BLOCK}


def measured(
    device: str, size: str, name: str, program: triton.JITFunction, constants: dict[str, object]
) -> dict[str, object]:
    """Return the row of a program; an AssertionError if it spills, or divides otherwise."""
    kind = name.partition(" ")[0]
    types = TYPES | {"result": RESULTS.get(kind, "*i32")}
    if kind == "adam":
        types = dict.fromkeys(program.arg_names, "*fp32") | {"active": "*i1", "num_weights": "i32"}
    signature = {
        argument: "constexpr" if argument in constants else types.get(argument, "i32")
        for argument in program.arg_names
    }
    source = ASTSource(program, signature, {k: v for k, v in constants.items() if k in signature})
    target = GPUTarget("cuda", TARGETS[device], 32)
    # As they are launched: the optimizer's with triton's own number of warps.
    options = {"debug": kind == "step", "sanitize_overflow": False}
    if kind != "adam":
        options["num_warps"] = cuda.NUM_WARPS
    began, log = time.perf_counter(), io.StringIO()
    with redirect_stdout(log):
        compiled = triton.compile(source, target=target, options=options)
    seconds = time.perf_counter() - began
    if kind != "adam":  # which promises no bits
        divisions = set(re.findall(r"div\.\w+\.f32", compiled.asm["ptx"]))
        assert divisions <= {"div.rn.f32"}, (name, divisions)
    said = log.getvalue()
    (registers,) = USES.findall(said)
    assert {*SPILLS.findall(said)} == {("0", "0")}, f"{name}, {size}, on {device}: {said}"
    return {
        "gpu": device,
        "program": name,
        "case": size,
        "registers": registers,
        "shared_bytes": compiled.metadata.shared,
        "seconds": f"{seconds:.2f}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", action="store_true", help="append the rows to the table")
    arguments = parser.parse_args()
    table = []
    for device in TARGETS:
        for case in cases():
            table.append(measured(device, *case))
            print(", ".join(f"{name} {value}" for name, value in table[-1].items()), flush=True)
    if arguments.rows:
        where = context("cpu", 1)
        append(REPORTS / "gpu_programs.csv", [where | row for row in table])


if __name__ == "__main__":
    main()
