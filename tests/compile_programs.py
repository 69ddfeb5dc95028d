"""Compile every program of the GPU backend for an H200, which needs no such device.

    python tests/compile_programs.py

A process of its own, because TRITON_INTERPRET decides when triton is imported what a program is.
Fails where the compiler refuses one.
"""

import os

os.environ["TRITON_INTERPRET"] = "0"

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from hpsearch.game.kernels import cuda, cuda_programs

H200 = GPUTarget("cuda", 90, 32)
SIZES = {"N": 20, "D": 3, "ROWS": 32, "BLOCK": 1, "REPOSITION": True}
POINTERS = {
    "*i32": ("points", "next_points", "lengths", "next_lengths", "result"),
    "*i64": ("starts", "keys", "counters", "actions", "axes", "subsets"),
    "*i1": ("done", "truncated", "capped"),
}
TYPES = {name: kind for kind, names in POINTERS.items() for name in names}
RESULTS = {"observe": "*fp32", "uniform": "*fp32", "zeillinger": "*i64"}


def compile_program(name: str, program: triton.JITFunction) -> None:
    types = TYPES | {"result": RESULTS.get(name, "*i32")}
    signature = {
        argument: "constexpr" if argument in SIZES else types.get(argument, "i32")
        for argument in program.arg_names
    }
    source = ASTSource(program, signature, {k: v for k, v in SIZES.items() if k in signature})
    options = {"num_warps": cuda.NUM_WARPS, "debug": name == "step", "sanitize_overflow": False}
    compiled = triton.compile(source, target=H200, options=options)
    print(f"{name}: {len(compiled.asm['cubin'])} bytes")


for name in cuda_programs.__all__:
    if name != "INTERPRETED":
        compile_program(name, vars(cuda_programs)[name])
