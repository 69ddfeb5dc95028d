"""The command line of the one-machine cluster."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from dev_cluster.cluster import Cluster, check_machine, existing_cluster, open_cluster
from dev_cluster.layout import ClusterError

DEFAULT_DIR = Path(__file__).resolve().parents[2] / ".slurm-dev"

DESCRIPTION = """\
A real SLURM cluster on this machine, for tests and for trying out: accounting, fake GPUs,
preemption (a job in the partition `urgent` takes the place of one in `normal` or `short`).

  up            start it, or what of it doesn't run; prints the SLURM_CONF to export
  down          end its jobs and daemons; the folder stays
  status        every daemon and node; exit code 1 unless all is well
  fail NODE     let a node fail; what ran there runs on, as behind a broken network
  restore NODE  bring it back
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return the exit code."""
    options = _parser().parse_args(arguments)
    try:
        return _run(options)
    except ClusterError as error:
        print(f"dev-cluster: {error}", file=sys.stderr)
        return 1


def _run(options: argparse.Namespace) -> int:
    if options.command == "up":
        return _up(open_cluster(options.dir, options.nodes, options.gpus))
    check_machine()
    cluster = existing_cluster(options.dir)
    if options.command == "down":
        if cluster is not None:
            cluster.down()
        return 0
    if cluster is None:
        raise ClusterError(f"{options.dir} holds no cluster; run up first")
    if options.command == "status":
        return _status(cluster)
    act = cluster.fail if options.command == "fail" else cluster.restore
    act(options.node)
    return 0


def _up(cluster: Cluster) -> int:
    cluster.up()
    print(f"export SLURM_CONF={cluster.layout.slurm_conf}")
    return 0


def _status(cluster: Cluster) -> int:
    lines, well = cluster.report()
    print("\n".join(lines))
    return 0 if well else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dev-cluster",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in ("up", "down", "status", "fail", "restore"):
        command = commands.add_parser(name)
        command.add_argument("--dir", type=Path, default=DEFAULT_DIR, help="the cluster's folder")
        if name == "up":
            command.add_argument("--nodes", type=_positive, help="how many nodes (4)")
            command.add_argument("--gpus", type=_natural, help="fake A100s of each (8)")
        elif name in ("fail", "restore"):
            command.add_argument("node", help="n1, n2, ...")
    return parser


def _natural(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be a whole number, but is {text!r}")
    return int(text)


def _positive(text: str) -> int:
    number = _natural(text)
    if number == 0:
        raise argparse.ArgumentTypeError("must be at least 1, but is 0")
    return number
