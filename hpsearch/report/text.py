"""What a study has come to: as plain data, whose keys are published and stay, and as text."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, get_args

from rich.console import Console

from hpsearch.cluster.records import ActorState, JobHeartbeat
from hpsearch.cluster.study_dir import COMPILING, StudyDir, final_checkpoint
from hpsearch.files import last_lines
from hpsearch.population.operator_record import OperatorRecord
from hpsearch.printable import interval_text
from hpsearch.report.trial_record import plain_record, trial_record
from hpsearch.schema import INSTALL_REMEDY
from hpsearch.study.records import Match, PopulationRecord, Trial
from hpsearch.study.requests import DriverStart, read_note
from hpsearch.study.state import STOPPING
from hpsearch.study.view import (
    INTERRUPTED,
    STARTING,
    StudyView,
    counts_text,
    setting_text,
    unfinished_text,
)
from hpsearch.study.work import cost, is_compiling, time_left
from hpsearch.terminal import print_line
from hpsearch.trainers.checkpoint_name import PROGRAM_FILES

NO_VALUE = "no value yet"


def status_summary(view: StudyView) -> dict[str, Any]:
    best = view.best()
    so_far, note = cost(view), read_note(view.folder) if view.is_driven else None
    hours = {"spent": so_far.gpu_hours_spent, "left": so_far.gpu_hours_left}
    retry = None if view.awaited is None else view.folder.driver_retry.try_read()
    live = view.state.live_jobs()
    heartbeats = _rank_heartbeats(view, [job.name for job in live])
    running = sum(job.began_at is not None for job in live)
    ended = len(view.state.jobs) - len(live)
    return {
        "study": view.name,
        "state": view.status,
        "message": view.state.message,
        "trials": view.state.counts(),
        "budget": view.study.spec.budget.trials,
        "done": view.state.num_done,
        "untrained": view.state.num_untrained,
        "tried_again": view.state.num_retries,
        "failures": dict(view.state.tally.failed),
        "ended_early": dict(view.state.tally.ended),
        "gpu_hours": {**hours, "budget": view.study.spec.budget.gpu_hours},
        "seconds_left": so_far.seconds_left,
        "seconds_left_range": time_left(view, time.time()),
        "jobs": {"queued": len(live) - running, "running": running, "ended": ended},
        "compiling": is_compiling(view),
        "stragglers": _stragglers(heartbeats),
        "actors": _actors(heartbeats),
        "waste": {
            kind: {"attempts": lost.attempts, "hours": lost.hours, "gpu_hours": lost.gpu_hours}
            for kind, lost in sorted(view.state.tally.lost.items())
        },
        "driver": None if note is None else asdict(note),
        "driver_retry": None if retry is None else asdict(retry),
        "best": None if best is None else plain_record(trial_record(view, best)),
        "leader": leader(view) if best is None else None,
        "population": population_summary(view),
        "unread": list(view.unread_faults),
        "folder": str(view.folder.root),
    }


def _rank_heartbeats(view: StudyView, jobs: Sequence[str]) -> dict[str, JobHeartbeat]:
    """Return the heartbeats of ``jobs`` by name, where they have ranks or actors to speak of."""
    if view.study.executor.ranks == 1 and not view.study.has_actors:
        return {}
    beats = {name: view.folder.job(name).heartbeat.try_read() for name in jobs}
    return {name: beat for name, beat in beats.items() if beat is not None and beat.ranks}


def _stragglers(heartbeats: Mapping[str, JobHeartbeat]) -> list[dict[str, Any]]:
    """Return the ranks for which the others of their jobs wait."""
    return [
        {"job": name, "rank": beat.straggler, "host": beat.ranks[beat.straggler].host}
        for name, beat in heartbeats.items()
        if beat.straggler is not None
    ]


def _actors(heartbeats: Mapping[str, JobHeartbeat]) -> dict[str, int]:
    """Return how many actors are in each state, and what was lost by them; empty without any."""
    actors = [a for beat in heartbeats.values() for rank in beat.ranks for a in rank.actors]
    if not actors:
        return {}
    states = Counter(actor.state for actor in actors)
    return {
        **{state: states[state] for state in get_args(ActorState)},
        "age": max(actor.age for actor in actors),
        "too_old": sum(actor.too_old for actor in actors),
        "played_here": sum(actor.played_here for actor in actors),
    }


def population_summary(view: StudyView) -> dict[str, Any] | None:
    """Return how the members of a population stand; None for a search.

    Strengths are mean logarithms of rho over the opponents of the last match that was judged.
    """
    options, record = view.study.spec.population, view.state.population
    if options is None:
        return None
    last = record.matches[record.num_judged] if record.num_judged else None
    return {
        "members": options.members,
        "matches": record.num_judged,
        "match": None if record.match is None else record.match.number,
        "champion": None if last is None else last.champion,
        "standings": [] if last is None else _standings(last),
        "game": None if last is None else last.game,
        "answers": [] if last is None else _answers(record, last),
        "operators": _operators(view),
    }


def _answers(record: PopulationRecord, last: Match) -> list[dict[str, Any]]:
    """Return how the last champion fared against opponents of its own, or the latest known."""
    latest = next(reversed(record.answers.values()), [])
    return latest if last.champion is None else record.answers.get(last.champion, latest)


def _operators(view: StudyView) -> dict[str, dict[str, int]]:
    made, judged = view.state.tally.children, view.state.population.operators
    operators = {}
    for name in sorted(made.keys() | judged.keys()):
        record = judged.get(name, OperatorRecord(0, 0))
        tried = {"tried": int(record.tried), "adopted": int(record.accepted)}
        operators[name] = {"made": made[name], **tried}
    return operators


def _standings(match: Match) -> list[dict[str, Any]]:
    """Return the members of a judged match, the strongest first."""
    strengths, ends = match.strengths, match.intervals
    return [
        {"member": m, "trial": t, "strength": strengths[t], "low": ends[t][0], "high": ends[t][1]}
        for m, t in sorted(match.members.items(), key=lambda item: -strengths[item[1]])
    ]


def unread_text(fault: str) -> str:
    if not fault.endswith(INSTALL_REMEDY):  # the package is here, and the fault says what is wrong
        return f"not read here: {fault}"
    unknown = fault.removesuffix(INSTALL_REMEDY)
    return (
        f"not read here: {unknown}; install its package, in the version that the study began with"
    )


def trials_text(summary: Mapping[str, Any]) -> str:
    """Return how many of the budget's trials have ended, and the number of trials by state."""
    counts = counts_text(summary["trials"], summary["untrained"], summary["tried_again"])
    return f"{summary['done']} of {summary['budget']} ({counts})"


def _actor_lines(actors: Mapping[str, int]) -> Iterator[str]:
    if actors:
        states = [f"{actors[state]} {state}" for state in get_args(ActorState) if actors[state]]
        yield (
            f"actors: {', '.join(states)}; weights up to {actors['age']} steps old; "
            f"{actors['too_old']} rollouts dropped, {actors['played_here']} played by learners"
        )


def endings_text(ended: Mapping[str, int]) -> str:
    """Return how many trials ended before their steps were made, and by which keys of `end`."""
    num = sum(ended.values())
    keys = ", ".join(f"{ended[key]} by end.{key}" for key in sorted(ended))
    return f"{num} trial{'' if num == 1 else 's'} ended before the last step: {keys}"


def leader(view: StudyView) -> dict[str, Any] | None:
    """Return where the best of the trials that have not ended stands by its newest value."""
    is_high = view.study.spec.objectives[0].goal == "maximize"
    measured = [trial for trial in view.state.unfinished() if trial.reported]
    if not measured:
        return None
    newest = [(max(trial.reported), trial) for trial in measured]
    values = [(trial.reported[step], step, trial.number) for step, trial in newest]
    value, step, number = max(values) if is_high else min(values)
    return {"trial": number, "step": step, "metric": view.metric, "value": value}


def leader_text(leader: Mapping[str, Any] | None) -> str:
    """Return the value that a trial has so far, to be shown before the first has ended."""
    if leader is None:
        return NO_VALUE
    where = f"trial {leader['trial']}, step {leader['step']:,}"
    return f"{leader['metric']} {leader['value']:.4f} so far ({where})"


def print_status(console: Console, view: StudyView, summary: Mapping[str, Any]) -> None:
    console.print(f"{summary['study']}: {summary['state']}", style="bold", highlight=False)
    lines = [
        *([summary["message"]] if summary["message"] else ()),
        f"trials: {trials_text(summary)}",
        *([endings_text(ended)] if (ended := summary["ended_early"]) else ()),
        *population_lines(summary["population"]),
        *cost_lines(summary),
        *([COMPILING] if summary["compiling"] else ()),
        *(
            f"job {slow['job']} waits for its rank {slow['rank']} on {slow['host']}"
            for slow in summary["stragglers"]
        ),
        *_actor_lines(summary["actors"]),
        *(
            f"{kind}: {lost['attempts']} attempts, {duration_text(3600 * lost['hours'])} of "
            f"training ({lost['gpu_hours']:.2f} GPU-hours) lost with them"
            for kind, lost in summary["waste"].items()
        ),
        *driver_lines(summary["driver"]),
        *(awaited_lines(view) if summary["state"] == STARTING else ()),
        *([unfinished_text(view)] if _is_to_stop(view, summary["state"]) else ()),
        *(last_words(view) if summary["state"] == INTERRUPTED else ()),
    ]
    for line in lines:
        print_line(console, line)
    for line in failures_lines(view):
        print_line(console, line, style="red")
    for fault in summary["unread"]:
        print_line(console, unread_text(fault), style="yellow")
    if (best := view.best()) is not None:
        print_best(console, view, best)
    elif summary["leader"] is not None:
        print_line(console, f"best: {leader_text(summary['leader'])}")


def _is_to_stop(view: StudyView, status: str) -> bool:
    return status == INTERRUPTED and view.state.status == STOPPING


def population_lines(population: Mapping[str, Any] | None) -> list[str]:
    if population is None:
        return []
    now = "" if population["match"] is None else f", match {population['match']} is played"
    matches = "1 match" if population["matches"] == 1 else f"{population['matches']} matches"
    lines = [f"population: {population['members']} members, {matches}{now}"]
    if population["standings"]:
        strengths = (
            f"{standing['member']} (trial {standing['trial']}) {standing['strength']:+.3f}"
            for standing in population["standings"]
        )
        lines.append(f"members by strength: {', '.join(strengths)}")
    lines += game_lines(population["game"], str(population["champion"]))
    for answer in population["answers"]:
        when = "the champion" if answer["trial"] == population["champion"] else "a champion before"
        lines.append(
            f"the {answer['role']} of trial {answer['trial']}, {when}, against an opponent "
            f"trained for it alone: rho {interval_text(answer)}"
        )
    lines += [operator_line(name, record) for name, record in population["operators"].items()]
    return lines


def operator_line(name: str, record: Mapping[str, int]) -> str:
    """Return how many children an operator made, and how many of those that were tried live on."""
    if not record["tried"]:
        return f"operator {name}: {record['made']} made, adopted untried"
    return f"operator {name}: {record['adopted']} of {record['tried']} children adopted"


def game_lines(game: Mapping[str, Any] | None, champion: str) -> list[str]:
    if game is None:
        return []
    played = []
    for side in ("hosts", "agents"):
        likeliest = sorted(game[side].items(), key=lambda item: -item[1])
        played.append(f"{side} {', '.join(f'{name} {share:.0%}' for name, share in likeliest)}")
    lines = [f"the match's equilibrium: rho {game['value']:.4f}, played by {'; '.join(played)}"]
    gaps = [
        f"its {role} {gap[champion]:.4f}" for role, gap in game["gaps"].items() if champion in gap
    ]
    lines.append(f"a best answer in the match takes from the champion, in rho: {', '.join(gaps)}")
    share = f"{game['cyclic_share']:.0%} of the differences are cyclic"
    rounds = []
    for cycle in game["cycles"]:
        pairs = reversed(list(zip(cycle["agents"], cycle["hosts"], strict=True)))
        names = [name for agent, host in pairs for name in (f"agent {agent}", f"host {host}")]
        rounds.append(" beats ".join([*names, names[0]]))
    lines.append(f"{share}{': ' if rounds else ''}{'; '.join(rounds)}")
    return lines


def cost_lines(summary: Mapping[str, Any]) -> list[str]:
    jobs, hours = summary["jobs"], summary["gpu_hours"]
    lines = []
    if jobs["running"] or jobs["queued"]:
        lines.append(f"jobs: {jobs['running']} running, {jobs['queued']} queued")
        lines += left_lines(summary)
    if hours["spent"]:
        more = "" if hours["left"] is None else f", about {hours['left']:.2f} more to come"
        cap = "" if hours["budget"] is None else f", of {hours['budget']:g}"
        lines.append(f"GPU-hours: {hours['spent']:.2f} spent{more}{cap}")
    if hours["budget"] is not None and hours["spent"] >= hours["budget"]:
        lines.append("budget.gpu_hours is spent: no more jobs are started")
    return lines


def left_lines(summary: Mapping[str, Any]) -> list[str]:
    left = time_left_text(summary["seconds_left_range"])
    return [f"time left: {left}"] if summary["jobs"]["running"] else []


def awaited_lines(view: StudyView) -> list[str]:
    if view.awaited is None:
        return []
    job = view.awaited.slurm_job
    how = "" if job is None else f"; how it is says: squeue --job {job}"
    return [f"driver: {awaited_text(view.folder, view.awaited)}; it does not drive yet{how}"]


def awaited_text(folder: StudyDir, start: DriverStart) -> str:
    retry = folder.driver_retry.try_read()
    if retry is None:
        return f"{start.who}, started {duration_text(time.time() - start.at)} ago"
    return f"{start.who}, trying again since {clock_text(retry.since)} ({retry.reason})"


def clock_text(at: float) -> str:
    day, clock = time.strftime("%Y-%m-%d %H:%M", time.localtime(at)).split()
    return clock if day == time.strftime("%Y-%m-%d") else f"{day} {clock}"


def driver_lines(driver: Mapping[str, Any] | None) -> list[str]:
    if driver is None:
        return []
    what = f"SLURM job {driver['slurm_job']}" if driver["slurm_job"] else f"process {driver['pid']}"
    lines = [
        f"driver: {what} on {driver['host']}, {driver['calls_per_minute']:.1f} calls a minute to "
        f"the scheduler, rounds of {driver['tick_seconds']:.2f} s"
    ]
    if driver["refusal"]:
        lines.append(f"the last submission of jobs failed: {driver['refusal']}")
    return lines


def last_words(view: StudyView) -> list[str]:
    if not view.folder.output.exists():
        return []
    said = (f"    {line}" for line in last_lines(view.folder.output, 3))
    return ["no driver is there; what the last one printed:", *said]


def failures_lines(view: StudyView) -> list[str]:
    shown, num_failed = view.state.tally.newest_failed, view.state.tally.failed.total()
    lines, logs = list[str](), set[tuple[str, ...]]()
    for trial in (view.state.trials[number] for number in sorted(shown)):
        lines.append(f"trial {trial.number} failed ({trial.failure}): {trial.message}")
        log = trial.losses[-1].log if trial.losses else ()
        # What a job printed last is the same for all its trials.
        lines += [f"    {line}" for line in log if log not in logs]
        logs.add(log)
    if num_failed > len(shown):
        every = f"hpsearch trials {view.name} --json"
        lines.append(f"{num_failed - len(shown):,} more trials failed before; see: {every}")
    return lines


def duration_text(seconds: float) -> str:
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def time_left_text(left: Sequence[float] | None) -> str:
    """Return a range of seconds as text, rounded as far as it is known; or that it is measured."""
    if left is None:
        return "measuring"
    low, high = (duration_text(_rounded(seconds)) for seconds in left)
    return low if low == high else f"{low} to {high}"


def _rounded(seconds: float) -> float:
    step = 5 if seconds < 600 else 60 if seconds < 3600 else 300
    return max(step, round(seconds / step) * step) if seconds else 0.0


def print_best(console: Console, view: StudyView, trial: Trial) -> None:
    measured = trial.metrics[view.metric]
    line = f"{view.best_word}: trial {trial.number}, {view.metric} {interval_text(measured)}"
    if "games" in measured:  # a program plays none
        line = f"{line} on {measured['games']:,.0f} games of the search"
    console.print(line, style="bold", highlight=False, soft_wrap=True)
    if trial.ended_by is not None:
        print_line(console, f"  {trial.message}")
    for name, setting in view.settings(trial).items():
        console.print(f"  {name}: {setting_text(setting)}", highlight=False, markup=False)
    if view.study.is_program:
        folder = view.folder.root / final_checkpoint(trial.number, view.last_step(trial))
        print_line(console, f"  folder: {folder / PROGRAM_FILES}")
