"""slurm.conf and its companions."""

import os
import socket

from dev_cluster.layout import Layout, Numbers

CPUS_PER_GPU = 8
CLUSTER = "dev"

_SLURM_CONF = """\
# Written by slurm/dev-cluster; `up` writes it anew.
ClusterName={cluster}
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
StateSaveLocation={root}/state
SlurmctldPidFile={root}/run/slurmctld.pid
SlurmdPidFile={root}/run/%n.pid
SlurmdSpoolDir={root}/spool/%n
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
# A node that was failed stays so: an answer that it gave just before comes after that at times.
ReturnToService=1

# Accounting, without which there is no sacct.
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={accounting_port}
AccountingStorageTRES=gres/gpu
JobAcctGatherType=jobacct_gather/none

# As real sites have it.
MinJobAge=300
MaxArraySize=1001
EnforcePartLimits=ALL
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmctldParameters=preempt_send_user_signal

# Tests wait for these. A requeued job waits until its credentials expire: 2 minutes by default.
AuthInfo=cred_expire=10
KillWait=10
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0

SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
SlurmdParameters=config_overrides
{nodes}
PartitionName=DEFAULT Nodes=ALL State=UP
PartitionName=normal Default=YES MaxTime=INFINITE DefaultTime=10 PriorityTier=1 GraceTime={grace}
PartitionName=urgent MaxTime=INFINITE DefaultTime=10 PriorityTier=10 PreemptMode=OFF
PartitionName=short MaxTime=10 DefaultTime=5 PriorityTier=1 GraceTime={grace}
"""

GRACE_SECONDS = 5
"""what a job of `normal` has left once `urgent` takes its place"""

_SLURMDBD_CONF = """\
# Written by slurm/dev-cluster.
AuthType=auth/munge
DbdHost={host}
DbdAddr=127.0.0.1
DbdPort={port}
SlurmUser=root
PidFile={root}/run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm_acct_db
"""


def write_texts(layout: Layout, numbers: Numbers) -> None:
    """Write the configuration files."""
    layout.slurm_conf.write_text(_slurm_conf(layout, numbers))
    (layout.root / "gres.conf").write_text(_gres_conf(layout, numbers))
    (layout.root / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n")
    dbd_conf = layout.root / "slurmdbd.conf"
    dbd_conf.touch(mode=0o600)  # slurmdbd refuses any other mode
    dbd_conf.write_text(
        _SLURMDBD_CONF.format(host=_host(), port=numbers.first_port + 1, root=layout.root)
    )


def node_names(numbers: Numbers) -> list[str]:
    """Return the nodes' names."""
    return [f"n{index}" for index in range(1, numbers.nodes + 1)]


def _slurm_conf(layout: Layout, numbers: Numbers) -> str:
    return _SLURM_CONF.format(
        cluster=CLUSTER,
        host=_host(),
        root=layout.root,
        port=numbers.first_port,
        accounting_port=numbers.first_port + 1,
        nodes="\n".join(_node_lines(numbers)),
        grace=GRACE_SECONDS,
    )


def _node_lines(numbers: Numbers) -> list[str]:
    cpus = CPUS_PER_GPU * max(1, numbers.gpus)
    gres = f" Gres=gpu:a100:{numbers.gpus}" if numbers.gpus else ""
    return [
        f"NodeName={name} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} "
        f"CPUs={cpus} RealMemory={_memory_mib()}{gres}"
        for port, name in enumerate(node_names(numbers), numbers.first_port + 2)
    ]


def _gres_conf(layout: Layout, numbers: Numbers) -> str:
    lines = ["AutoDetect=off"]
    if numbers.gpus:
        files = f"{layout.gpu(0)}" if numbers.gpus == 1 else _range(layout, numbers.gpus)
        lines += [f"NodeName={n} Name=gpu Type=a100 File={files}" for n in node_names(numbers)]
    return "\n".join(lines) + "\n"


def _range(layout: Layout, count: int) -> str:
    return f"{layout.root}/gpu/nvidia[0-{count - 1}]"


def _host() -> str:
    return socket.gethostname().partition(".")[0]


def _memory_mib() -> int:
    """Return a little less than the machine has, which each node claims for itself."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20 * 9 // 10
