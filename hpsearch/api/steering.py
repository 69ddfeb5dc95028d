"""What a user asks of a study as plain data, as the dashboard's buttons send it."""

from collections.abc import Iterable, Mapping
from typing import Any, get_args

from hpsearch import yaml_file
from hpsearch.api.study_handle import StudyHandle
from hpsearch.errors import ConfigError, UsageError, unknown_name
from hpsearch.study.requests import Verb
from hpsearch.study.view import standing_line


def steer(study: StudyHandle, asked: Mapping[str, Any]) -> str:
    """Do what ``verb`` says, with ``settings`` for enqueue; return how the study stands then.

    Raises HpsearchError as the method of `StudyHandle` does, UsageError for an unknown verb.
    """
    match asked.get("verb"):
        case "pause":
            study.pause()
        case "resume":
            study.resume()
        case "stop":
            study.stop()
        case "cancel":
            study.cancel()
        case "retry":
            study.retry()
        case "enqueue":
            study.enqueue(read_settings(str(asked.get("settings", "")).split()))
        case verb:
            raise UsageError(unknown_name("request", verb, get_args(Verb)))
    return standing_line(study.view())


def read_settings(settings: Iterable[str]) -> dict[str, Any]:
    """Return values by path of texts such as ``host.gamma=0.9``; raises UsageError."""
    params = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise UsageError(f"a value is written KEY=VALUE, but is {setting!r}")
        try:
            params[name] = yaml_file.parse(text)
        except ConfigError as error:
            raise UsageError(f"the value of {name}: {error}") from error
    return params
