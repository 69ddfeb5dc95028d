"""A job that plays a match: every host against every agent, by what their checkpoints hold.

A match is short, so it keeps nothing on the way: it writes all games at once or none.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from hpsearch.cluster.failures import StopFlag
from hpsearch.cluster.match_dir import (
    Answer,
    MatchDir,
    MatchGames,
    MatchPlan,
    MatchPlayer,
    Response,
)
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.errors import ConflictError, CorruptError
from hpsearch.game.players import AGENTS, HOSTS
from hpsearch.game.rules import GameConfig
from hpsearch.population.best_response import measure_response, train_response
from hpsearch.population.crossplay import CrossPlay, Players, common_game, play_everybody
from hpsearch.trainers.opponents import load_player


def play_match(study: StudyDir, number: int, flag: StopFlag) -> None:
    """Play a match of a study and write its games, unless they lie there already.

    Nothing is written if ``flag`` is set before the last set of starts is begun.

    Raises:
        CorruptError: if the plan or a checkpoint is missing or damaged.
        ConflictError: if the entrants know different games, or one knows no such role.
    """
    match = study.match(number)
    plan = match.plan.required()
    if _is_played(match, plan) or flag.is_set:
        return
    num_played = 0

    def give_sign(more_pairs: int = 0) -> None:
        nonlocal num_played
        num_played += more_pairs
        match.give_sign(num_played)

    give_sign()
    device = _device(plan)
    hosts = _players(study, plan.hosts, "host", device)
    agents = _players(study, plan.agents, "agent", device)
    game = _game(hosts, agents)
    parts = []
    for split in plan.splits:
        if flag.is_set:
            return
        played = play_everybody(
            hosts,
            agents,
            game,
            num_games=plan.num_games,
            max_steps=plan.max_steps,
            split=split,
            sampled=False,
            device=device,
            tell=give_sign,
        )
        parts.append(_in_order(played, plan))
    answers = []
    for response in plan.responses:
        if flag.is_set:
            return
        answers.append(_answer(study, match, plan, response, device, give_sign))
    if answers:
        match.write_answers(answers)
    match.write_games(
        MatchGames(
            np.stack([part.moves for part in parts]), np.stack([part.finished for part in parts])
        )
    )


def _answer(
    study: StudyDir,
    match: MatchDir,
    plan: MatchPlan,
    planned: Response,
    device: torch.device,
    give_sign: Callable[[], None],
) -> Answer:
    """Train an opponent against a player and let them meet."""
    champion = study.checkpoint(planned.checkpoint)
    response = train_response(
        champion,
        planned.role,
        match.response(planned.role),
        steps=planned.steps,
        seed=planned.seed,
        device=plan.device,
        give_sign=give_sign,
    )
    measured = measure_response(
        champion,
        planned.role,
        response,
        num_games=plan.num_games,
        max_steps=plan.max_steps,
        split=plan.splits[-1],
        device=device,
    )
    return Answer(planned.role, planned.trial, measured.value, measured.low, measured.high)


def _is_played(match: MatchDir, plan: MatchPlan) -> bool:
    """Return whether the games of the plan lie there whole; damaged ones are played again."""
    try:
        games = match.read_games()
    except CorruptError as error:
        print(error, flush=True)
        return False
    return games is not None and games.moves.shape == plan.shape


def _device(plan: MatchPlan) -> torch.device:
    if plan.device == "cuda" and not torch.cuda.is_available():
        raise ConflictError(
            "the match is to be played on cuda, but torch finds no CUDA device on this machine; "
            "play it on cpu, or where there is a GPU"
        )
    return torch.device(plan.device)


def _players(
    study: StudyDir, entrants: Sequence[MatchPlayer], role: str, device: torch.device
) -> Players:
    names = [entrant.name for entrant in entrants]
    if not names or len(set(names)) < len(names):
        raise CorruptError(f"a match needs {role}s, each name once, but its plan names {names}")
    scripted = tuple(entrant.name for entrant in entrants if entrant.checkpoint is None)
    known = HOSTS if role == "host" else AGENTS
    unknown = [name for name in scripted if name not in known]
    if unknown:
        raise ConflictError(
            f"{', '.join(unknown)} is no scripted {role}; there are {', '.join(known)}"
        )
    learned = {
        entrant.name: load_player(study.checkpoint(entrant.checkpoint), role, device)
        for entrant in entrants
        if entrant.checkpoint is not None
    }
    return Players(learned, scripted)


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


def _in_order(played: CrossPlay, plan: MatchPlan) -> CrossPlay:
    """Return games with hosts and agents in the plan's order."""
    hosts, agents = (tuple(player.name for player in side) for side in (plan.hosts, plan.agents))
    cells = np.ix_(
        [played.hosts.index(name) for name in hosts],
        [played.agents.index(name) for name in agents],
    )
    return CrossPlay(hosts, agents, played.moves[cells], played.finished[cells])
