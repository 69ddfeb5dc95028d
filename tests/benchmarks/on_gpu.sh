#!/usr/bin/env bash
# GPU tests and benchmarks in one go, under ten minutes, on a node that has only Python 3.12, torch,
# triton, numpy and numba:
#
#     OUT=rows BENCH_COMMIT=1a2b3c4 tests/benchmarks/on_gpu.sh
#
# Rows and page are written to $OUT (reports/benchmarks if it is not set); BENCH_COMMIT says which
# commit this is where there is no git. With pytest the tests marked gpu run; without it
# gpu_checks.py does. To bring pytest along, prepare a folder beforehand:
#
#     pip install --target .gpu-packages --python-version 3.12 --only-binary=:all: \
#         pytest pytest-timeout hypothesis safetensors pyyaml
set -uo pipefail
cd "$(dirname "$0")/../.."
PYTHON=${PYTHON:-python3}
OUT=${OUT:-reports/benchmarks}
export PYTHONPATH="$PWD:$PWD/.gpu-packages${PYTHONPATH:+:$PYTHONPATH}"
status=0

"$PYTHON" -c 'import torch; assert torch.cuda.is_available(), "torch finds no CUDA device"' || exit 1

if "$PYTHON" -c 'import pytest, pytest_timeout, hypothesis' 2>/dev/null; then
    # Only the files that have such tests: others import what a bare node lacks.
    mapfile -t files < <(grep -rl --include='test_*.py' 'mark\.gpu' tests)
    timeout 180 "$PYTHON" -m pytest -m gpu --continue-on-collection-errors "${files[@]}" || status=1
else
    timeout 120 "$PYTHON" tests/benchmarks/gpu_checks.py || status=1
fi

# What is closest to the goals comes first, in case the time is up before the end.
timeout 400 "$PYTHON" tests/benchmarks/bench.py --device cuda --out "$OUT" \
    --only step --only population --only dqn --only ppo --only crossplay --only rollout \
    --only shares --only memory || status=1
"$PYTHON" tests/benchmarks/page.py "$OUT" # also of what was measured before the time was up
exit "$status"
