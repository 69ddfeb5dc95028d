"""A trainer configuration alone, as other programs read it."""

import json
from collections.abc import Mapping
from typing import Any, Final, Literal

from hpsearch import yaml_file
from hpsearch.errors import UsageError

Format = Literal["yaml", "json", "hydra"]
HYDRA_HEADER: Final = "# @package _global_"
"""by which Hydra puts the keys of a config group's file at the root"""
_INTERPOLATION: Final = "${"


def config_text(config: Mapping[str, Any], how: Format) -> str:
    """Return a complete trainer configuration as text.

    Args:
        config: plain data.
        how: ``yaml``, which `hpsearch train` runs; ``json``; or ``hydra``, a file of a config
            group, such as conf/trainer/best.yaml, whose keys end up at the root: ``+trainer=best``.

    Raises:
        UsageError: if Hydra would take one of the values for a reference to another one.
    """
    match how:
        case "yaml":
            return yaml_file.dump_portable(dict(config))
        case "json":
            return json.dumps(config, indent=2) + "\n"
        case "hydra":
            return _hydra(config)


def _hydra(config: Mapping[str, Any]) -> str:
    text = yaml_file.dump_portable(dict(config))
    if _INTERPOLATION in text:
        raise UsageError(
            f"Hydra takes {_INTERPOLATION}...}} for a reference to another key, but a value of the "
            "configuration holds one; export it as yaml or json"
        )
    # _self_ last: Hydra warns where the place of the file's own keys is left open.
    return f"{HYDRA_HEADER}\ndefaults:\n- _self_\n\n{text}"
