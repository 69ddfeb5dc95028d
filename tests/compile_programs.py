"""Compile every program, of the game and of the optimizer, for an H200; it needs no device.

    python tests/compile_programs.py

A process of its own, because TRITON_INTERPRET decides when triton is imported what a program is.
Fails where the compiler refuses one, or divides otherwise than IEEE 754 has it.
"""

import os
import re

os.environ["TRITON_INTERPRET"] = "0"

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from hpsearch.game.kernels import cuda, cuda_programs
from hpsearch.game.rules import REWARDS
from hpsearch.trainers.optim import adam_cuda

H200 = GPUTarget("cuda", 90, 32)
SIZES = {"N": 20, "D": 3, "ROWS": 32, "BLOCK": 1, "REPOSITION": True}
STEPS = [{"REWARD": name, "OBSERVES": True} for name in REWARDS]
STEPS.append({"REWARD": "terminal", "OBSERVES": False})
POINTERS = {
    "*i32": ("points", "next_points", "lengths", "next_lengths", "result"),
    "*i64": ("starts", "keys", "lanes", "counters", "actions", "axes", "subsets"),
    "*i1": ("done", "truncated", "capped"),
    "*fp32": ("reward", "observation", "next_observation"),
}
TYPES = {name: kind for kind, names in POINTERS.items() for name in names}
RESULTS = {"observe": "*fp32", "uniform": "*fp32", "zeillinger": "*i64"}


def compile_program(name: str, program: triton.JITFunction, constants: dict[str, object]) -> None:
    types = TYPES | {"result": RESULTS.get(name, "*i32")}
    if name == "adam":
        types = dict.fromkeys(program.arg_names, "*fp32") | {"active": "*i1", "num_weights": "i32"}
    signature = {
        argument: "constexpr" if argument in constants else types.get(argument, "i32")
        for argument in program.arg_names
    }
    source = ASTSource(program, signature, {k: v for k, v in constants.items() if k in signature})
    options = {"num_warps": cuda.NUM_WARPS, "debug": name == "step", "sanitize_overflow": False}
    compiled = triton.compile(source, target=H200, options=options)
    if name != "adam":  # which promises no bits
        divisions = set(re.findall(r"div\.\w+\.f32", compiled.asm["ptx"]))
        assert divisions <= {"div.rn.f32"}, divisions
    print(f"{name}: {len(compiled.asm['cubin'])} bytes")


for name in cuda.__all__:
    for more in STEPS if name == "step" else [{}]:
        compile_program(name, vars(cuda_programs)[name], SIZES | more)
for has_target in (True, False):
    compile_program(
        "adam", adam_cuda.update_weights, {"HAS_TARGET": has_target, "BLOCK": adam_cuda.BLOCK}
    )
