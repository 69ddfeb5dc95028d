"""Configurations of trials as YAML: one text for all that differ in numbers alone.

To write one as YAML takes longer than all else that a driver does to submit a trial.
"""

from collections.abc import Collection, Mapping
from typing import Any

from yaml.representer import SafeRepresenter

from hpsearch import yaml_file
from hpsearch.schema import Config, apply
from hpsearch.study.records import Trial
from hpsearch.study.spec import Study

MARK = "__hpsearch_number__"
_FLOATS = SafeRepresenter()


class ConfigTexts:
    def __init__(self, study: Study) -> None:
        self._study = study
        self._templates: dict[str, Template] = {}

    def of(self, trial: Trial) -> str:
        """Return the configuration of a trial as YAML; its lines may be cut at other places."""
        settings = self._study.settings_of(trial)
        numbers = {path: own for path, own in settings.items() if type(own) in (int, float)}
        rest = sorted((path, own) for path, own in settings.items() if path not in numbers)
        founder = None if trial.origin is None else trial.origin.founder
        key = repr((rest, sorted(numbers), founder))
        if key not in self._templates:
            self._templates[key] = Template(self._study.config_of(trial), numbers)
        return self._templates[key].fill(numbers)


class Template:
    def __init__(self, config: Config, paths: Collection[str]) -> None:
        """Let the numbers at these dotted paths change."""
        text = yaml_file.dump(apply(config, {path: f"{MARK}{path}{MARK}" for path in paths}))
        self._pieces = text.split(MARK)  # text and paths in turn

    def fill(self, numbers: Mapping[str, Any]) -> str:
        """Return the text with whole numbers and floats at their paths."""
        pieces = self._pieces[:]
        pieces[1::2] = [_text(numbers[path]) for path in pieces[1::2]]
        return "".join(pieces)


def _text(number: Any) -> str:
    return str(number if isinstance(number, int) else _FLOATS.represent_float(number).value)
