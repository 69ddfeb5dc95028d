"""Learns to tell two spirals apart: what any program looks like that hpsearch is to search.

python spirals.py --config CONFIG --folder FOLDER
"""

import argparse
import json
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy


def spirals(num: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return points float32 (num, 2) of two spirals with noise, and to which each belongs."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(num) % 2
    turn = torch.rand(num, generator=generator).sqrt() * 3 * torch.pi
    angle = turn + labels * torch.pi
    points = torch.stack([angle.cos(), angle.sin()], dim=1) * turn[:, None] / (3 * torch.pi)
    return points + 0.02 * torch.randn(num, 2, generator=generator), labels


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    arguments = parser.parse_args()
    # 1. Parameters: those of the space, and the trial's seed and steps.
    config = json.loads(arguments.config.read_text())
    torch.manual_seed(config["seed"])
    width = config["width"]
    net = nn.Sequential(
        *(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 2))
    )
    optimizer = torch.optim.Adam(net.parameters(), weight_decay=config["weight_decay"])
    # 2. What an earlier attempt left in the folder, or the member whose copy this one is.
    saved, first = arguments.folder / "state.pt", 0
    if saved.exists():
        state = torch.load(saved)
        net.load_state_dict(state["net"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["epoch"]
    for group in optimizer.param_groups:  # a copy learns by rates of its own
        group["lr"], group["weight_decay"] = config["lr"], config["weight_decay"]
    points, labels = spirals(1000, seed=0)
    unseen, answers = spirals(1000, seed=1)
    for epoch in range(first + 1, config["steps"] + 1):
        for batch in torch.randperm(len(points)).split(100):
            loss = cross_entropy(net(points[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            accuracy = (net(unseen).argmax(dim=1) == answers).float().mean().item()
        # 3. A line of what was measured, before the state: no epoch may lack one.
        with (arguments.folder / "metrics.jsonl").open("a") as file:
            print(json.dumps({"step": epoch, "accuracy": accuracy, "loss": loss.item()}), file=file)
        # 4. State: whole, or that of the epoch before.
        state = {"net": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
        torch.save(state, saved.with_suffix(".new"))
        saved.with_suffix(".new").replace(saved)


if __name__ == "__main__":
    main()
