"""hpsearch: hyperparameter and population-based search for players of the polyhedral game.

The names below are the Python API, which docs/api.md describes. Each is imported when it is first
asked for, so that ``import hpsearch`` takes next to no time.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from hpsearch.package import __version__

if TYPE_CHECKING:
    from hpsearch.api.matches import CrossPlayResult as CrossPlayResult
    from hpsearch.api.matches import cross_play as cross_play
    from hpsearch.api.player import Player as Player
    from hpsearch.api.player import load_player as load_player
    from hpsearch.api.study_check import StudyCheck as StudyCheck
    from hpsearch.api.study_handle import StudyHandle as StudyHandle
    from hpsearch.api.study_handle import breed as breed
    from hpsearch.api.study_handle import create_study as create_study
    from hpsearch.api.study_handle import open_study as open_study
    from hpsearch.api.study_reader import list_studies as list_studies
    from hpsearch.errors import HpsearchError as HpsearchError
    from hpsearch.game.fused_game import FusedGame as FusedGame
    from hpsearch.game.players import AGENTS as AGENTS
    from hpsearch.game.players import HOSTS as HOSTS
    from hpsearch.game.rules import GameConfig as GameConfig
    from hpsearch.game.rules import HostActionEncoder as HostActionEncoder
    from hpsearch.game.solver import Solver as Solver
    from hpsearch.parameters import CategoricalParameter as CategoricalParameter
    from hpsearch.parameters import FloatParameter as FloatParameter
    from hpsearch.parameters import IntParameter as IntParameter
    from hpsearch.report.trial_record import TrialRecord as TrialRecord
    from hpsearch.study.spec import Budget as Budget
    from hpsearch.study.spec import Objective as Objective
    from hpsearch.study.spec import StudySpec as StudySpec
    from hpsearch.trainers.algorithms import build_trainer as build_trainer
    from hpsearch.trainers.callbacks import Callbacks as Callbacks
    from hpsearch.trainers.config import TrainerConfig as TrainerConfig
    from hpsearch.trainers.config import read_config as read_config
    from hpsearch.trainers.dqn import DQNTrainer as DQNTrainer
    from hpsearch.trainers.ppo import PPOTrainer as PPOTrainer

_PLACES: Final = {
    "AGENTS": "game.players",
    "Budget": "study.spec",
    "Callbacks": "trainers.callbacks",
    "CategoricalParameter": "parameters",
    "CrossPlayResult": "api.matches",
    "DQNTrainer": "trainers.dqn",
    "FloatParameter": "parameters",
    "FusedGame": "game.fused_game",
    "GameConfig": "game.rules",
    "HOSTS": "game.players",
    "HostActionEncoder": "game.rules",
    "HpsearchError": "errors",
    "IntParameter": "parameters",
    "Objective": "study.spec",
    "PPOTrainer": "trainers.ppo",
    "Player": "api.player",
    "Solver": "game.solver",
    "StudyCheck": "api.study_check",
    "StudyHandle": "api.study_handle",
    "StudySpec": "study.spec",
    "TrainerConfig": "trainers.config",
    "TrialRecord": "report.trial_record",
    "breed": "api.study_handle",
    "build_trainer": "trainers.algorithms",
    "create_study": "api.study_handle",
    "cross_play": "api.matches",
    "list_studies": "api.study_reader",
    "load_player": "api.player",
    "open_study": "api.study_handle",
    "read_config": "trainers.config",
}
"""the module of each name"""

__all__ = ["__version__", *_PLACES]

if not TYPE_CHECKING:  # to which every name would be one of the package

    def __getattr__(name: str) -> Any:
        if name not in _PLACES:
            raise AttributeError(f"module 'hpsearch' has no attribute {name!r}")
        module = import_module(f"hpsearch.{_PLACES[name]}")
        value = globals()[name] = vars(module)[name]
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
