"""A real SLURM cluster on this machine, once a session."""

import os
import shutil
from pathlib import Path

import pytest
from slurm_tools import SlurmCluster

PROGRAMS = ("munged", "mariadbd", "slurmdbd", "slurmctld", "slurmd", "sbatch")


@pytest.fixture(scope="session")
def slurm_cluster(tmp_path_factory):
    """Return a running cluster, with SLURM_CONF set.

    With HPSEARCH_TEST_SLURM in the environment it is the one that SLURM_CONF names, which stays up.
    """
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not found; slurm/README.md says what to install")
    if os.geteuid() != 0:
        pytest.skip("slurmd must be root to run jobs")
    if os.environ.get("HPSEARCH_TEST_SLURM"):
        yield SlurmCluster(Path(os.environ["SLURM_CONF"]).parent)
        return
    cluster = SlurmCluster(tmp_path_factory.mktemp("slurm"))
    try:
        up = cluster.dev("up")
        assert up.returncode == 0, up.stderr
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SLURM_CONF", str(cluster.folder / "slurm.conf"))
            yield cluster
    finally:
        cluster.dev("down")
