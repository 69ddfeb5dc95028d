"""A real SLURM cluster on one machine, for tests and for trying out.

It has accounting (slurmdbd and MariaDB), several nodes with fake GPUs, preemption and requeue. All
of it lives in one folder; nothing of the system's configuration is read or changed.

    layout.py   what a cluster is: its numbers and the places of its files
    texts.py    slurm.conf and its companions
    daemons.py  programs in the background, each with its pid file and log
    cluster.py  up, down, status, fail, restore
    cli.py      the command line

Standard library alone, Linux, as root, SLURM 22.05 or newer.
"""
