"""A program of the tests, by Python's own library: walks on by `rate` a step, and says how far.

python toy.py CONFIG FOLDER

It saves its state after every step, and goes on from it. `ends` says how it ends, after its steps.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path


def main(config_path: str, folder: str) -> None:
    config, saved = json.loads(Path(config_path).read_text()), Path(folder) / "state.json"
    state = {"step": 0, "walked": 0.0}
    if saved.exists():
        state = json.loads(saved.read_text())
    print(f"goes on from {state['step']} with rate {config['rate']}", flush=True)
    ends, metrics = config.get("ends", "well"), Path(folder) / "metrics.jsonl"
    if ends == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    steps = {"early": 2, "far beyond": 10**9}.get(ends, config["steps"])
    while state["step"] < steps:
        time.sleep(config.get("seconds", 0.0))
        state = {"step": state["step"] + 1, "walked": state["walked"] + config["rate"]}
        new = saved.with_suffix(".new")
        new.write_text(json.dumps(state))
        new.replace(saved)
        if ends != "silent":
            value = float("nan") if ends == "nan" else state["walked"]
            with metrics.open("a") as file:
                print(json.dumps({"step": state["step"], "walked": value}), file=file)
        if ends == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
    if ends == "badly":
        print("the walk was too long", file=sys.stderr)
        sys.exit(3)


if __name__ == "__main__":
    main(*sys.argv[1:])
