"""What runs in a job: it trains trials as one population, plays a match, or tries a device.

It speaks with the driver through files alone and never sees the database.
"""

import math
import os
import socket
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from hpsearch.cluster import records
from hpsearch.cluster.failures import StopFlag
from hpsearch.cluster.heartbeats import Heartbeats
from hpsearch.cluster.job_training import LOOK_SECONDS, JobTraining
from hpsearch.cluster.job_trials import TrialQueue
from hpsearch.cluster.machine import VISIBLE
from hpsearch.cluster.member import Member
from hpsearch.cluster.study_dir import JobDir, MatchDir, MatchGames, StudyDir
from hpsearch.cluster.team import Team
from hpsearch.errors import ConflictError, CorruptError, unknown_name
from hpsearch.game.players import AGENTS, HOSTS
from hpsearch.game.rules import GameConfig
from hpsearch.monitor.snapshot import JobPlace
from hpsearch.population.best_response import measure_response, train_response
from hpsearch.population.crossplay import Players, common_game, play_everybody
from hpsearch.schema import INSTALL_REMEDY
from hpsearch.trainers.opponents import load_player


def run_job(job: JobDir, flag: StopFlag, team: Team) -> None:
    """Train the trials of a job until each has finished or has been stopped, or ``flag`` is set.

    A job may be for a match instead, or to try a device. A pilot then waits for more trials or a
    match: what a process pays once (imports, the device, compilation) is paid once for all of them.
    Every result is written before this returns; what it raises is for the job's log.
    """
    plan = job.plan.required()
    if plan.probes is not None:
        job.report.write(_device_report(plan.probes, team.hosts()))
        return
    heartbeats = Heartbeats(job.heartbeat, plan.heartbeat_seconds)
    with heartbeats.until_left():
        _train_and_play(job, plan, heartbeats, flag, team)


def _train_and_play(
    job: JobDir, plan: records.JobPlan, heartbeats: Heartbeats, flag: StopFlag, team: Team
) -> None:
    queue = TrialQueue(job, plan, Member.open)
    place = JobPlace(job.study.root.name, job.name, job.textfile, job.traces)
    while True:
        # Also when the flag is set: each of the first attempts must still write how it ended.
        if members := queue.take():
            refill_queue = queue if plan.refills else None
            JobTraining(
                members,
                flag,
                place,
                heartbeats,
                job.timeline,
                team,
                queue=refill_queue,
                compiles=job.compiles,
            ).run()
        elif (match := queue.take_match()) is not None:
            play_match(job.study, match, flag, team)
        else:
            return
        _wait(queue, plan.pilot_seconds, flag, team)
        if flag.is_set:
            return


def _wait(queue: TrialQueue[Member], seconds: float, flag: StopFlag, team: Team) -> None:
    deadline = time.monotonic() + seconds
    queue.look()
    while not (queue.waiting or queue.matches or queue.is_over or flag.is_set):
        if time.monotonic() >= deadline:
            return
        time.sleep(LOOK_SECONDS)
        queue.look()
        team.listen()


# A match. It is short, so it keeps nothing on the way: it writes all games at once or none.


def play_match(study: StudyDir, number: int, flag: StopFlag, team: Team) -> None:
    """Play a match and write its games, unless they are there or ``flag`` is set meanwhile.

    The ranks of ``team`` share the games out. Raises CorruptError if the plan or a checkpoint is
    missing or damaged, ConflictError if the players know different games or lack a role.
    """
    match = study.match(number)
    plan = match.plan.required()
    if _is_played(match, plan) or flag.is_set:
        return
    match.give_sign()
    played = team.together(_play, study.root, number, plan)
    if played is None:
        return
    games, answers = played
    if answers:
        match.answers.write(records.Answers(tuple(answers)))
    moves, finished = [part.moves for part in games], [part.finished for part in games]
    match.write_games(MatchGames(np.stack(moves), np.stack(finished)))


def _play(
    team: Team, folder: Path, number: int, plan: records.MatchPlan
) -> tuple[list[MatchGames], list[records.Answer]] | None:
    """Return the games of each set of starts, and how responses fared; None if asked to stop."""
    study = StudyDir(folder)
    playing = _Match(study, study.match(number), plan, _device(plan), team)
    hosts = playing.players(plan.hosts, "host")
    agents = playing.players(plan.agents, "agent")
    try:
        games = [playing.play(hosts, agents, split) for split in plan.splits]
        return games, [playing.answer(response) for response in plan.responses]
    except _StopAskedError:
        return None


class _StopAskedError(Exception):
    """A rank was asked to stop, while there is more to play."""


@dataclass
class _Match:
    study: StudyDir
    files: MatchDir
    plan: records.MatchPlan
    device: torch.device
    team: Team
    num_played: int = 0  # pairs

    def play(self, hosts: Players, agents: Players, split: str) -> MatchGames:
        """Return the games of a set of starts, with hosts and agents in the plan's order."""
        played = play_everybody(
            hosts,
            agents,
            _game(hosts, agents),
            num_games=self.plan.num_games,
            max_steps=self.plan.max_steps,
            split=split,
            sampled=False,
            device=self.device,
            tell=self._give_sign,
            ranks=self.team.ranks,
        )
        cells = np.ix_(
            [played.hosts.index(player.name) for player in self.plan.hosts],
            [played.agents.index(player.name) for player in self.plan.agents],
        )
        return MatchGames(played.moves[cells], played.finished[cells])

    def _give_sign(self, more_pairs: int = 0) -> None:
        """Say how far the match is, and go on only if no rank was asked to stop."""
        self.num_played += more_pairs
        if self.team.ranks.rank == 0:
            self.files.give_sign(self.num_played)
        is_over = self.num_played == math.prod(self.plan.shape[:3]) and not self.plan.responses
        if self.team.is_asked_to_stop() and not is_over:
            raise _StopAskedError

    def answer(self, planned: records.Response) -> records.Answer:
        champion = self.study.checkpoint(planned.checkpoint)
        role, plan = planned.role, self.plan
        response = train_response(
            champion,
            role,
            self.files.response(role),
            steps=planned.steps,
            seed=planned.seed,
            device=plan.device,
            give_sign=self._give_sign,
            ranks=self.team.ranks,
        )
        measured = measure_response(
            champion,
            role,
            response,
            num_games=plan.num_games,
            max_steps=plan.max_steps,
            split=plan.splits[-1],
            device=self.device,
            ranks=self.team.ranks,
        )
        return records.Answer(role, planned.trial, measured.value, measured.low, measured.high)

    def players(self, players: Sequence[records.MatchPlayer], role: str) -> Players:
        names = [player.name for player in players]
        if not names or len(set(names)) < len(names):
            raise CorruptError(f"a match needs {role}s, each name once, but its plan names {names}")
        scripted = tuple(player.name for player in players if player.checkpoint is None)
        known = HOSTS if role == "host" else AGENTS
        for name in scripted:
            if name not in known:
                fault = unknown_name(f"scripted {role}", name, known)
                raise ConflictError(f"{fault}{INSTALL_REMEDY}")
        learned = {
            player.name: load_player(self.study.checkpoint(player.checkpoint), role, self.device)
            for player in players
            if player.checkpoint is not None
        }
        return Players(learned, scripted)


def _is_played(match: MatchDir, plan: records.MatchPlan) -> bool:
    """Return whether the games of the plan lie there whole; damaged ones are played again."""
    try:
        games = match.read_games()
    except CorruptError as error:
        print(error, flush=True)
        return False
    return games is not None and games.moves.shape == plan.shape


def _device(plan: records.MatchPlan) -> torch.device:
    if plan.device == "cuda" and not torch.cuda.is_available():
        raise ConflictError(
            "the match is to be played on cuda, but torch finds no CUDA device on this machine; "
            "play it on cpu, or where there is a GPU"
        )
    return torch.device(plan.device)


def _game(hosts: Players, agents: Players) -> GameConfig:
    """Return the game of the match; scripted players know any."""
    learned = [*hosts.learned.items(), *agents.learned.items()]
    game = common_game((name, player.config) for name, player in learned)
    if game is None:
        raise ConflictError(
            "a match needs a learned player, whose configuration says which game is played; name "
            "one checkpoint at least"
        )
    return game


# A device that `hpsearch doctor` wants to know of.


def _device_report(device: str, hosts: Sequence[str]) -> records.DeviceReport:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")  # in a warning torch says what is wrong with a GPU's driver
        fault = _fault(device)
    indices = range(torch.cuda.device_count()) if fault is None else ()
    gpus = tuple(torch.cuda.get_device_name(index) for index in indices)
    if fault is not None:
        fault = "; ".join([fault, *dict.fromkeys(str(warning.message) for warning in caught)])
    network = tuple(
        f"{name}={value}"
        for name, value in sorted(os.environ.items())
        if name.startswith(("NCCL_", "GLOO_"))
    )
    visible, several = os.environ.get(VISIBLE), tuple(hosts) if len(hosts) > 1 else ()
    if several:
        names = ", ".join(name for _, name in socket.if_nameindex())
        network += (f"interfaces: {names}",)
    return records.DeviceReport(visible, torch.__version__, gpus, fault, several, network)


def _fault(device: str) -> str | None:
    if device == "cuda" and torch.version.cuda is None:
        return "it was built without CUDA"
    if device == "cuda" and not torch.cuda.is_available():
        return "it finds no GPU"
    try:
        torch.ones(2, device=device).sum().item()
    except Exception as error:
        # Whatever a driver or a GPU raises is what has to be told.
        return f"{type(error).__name__}: {error}"
    return None
