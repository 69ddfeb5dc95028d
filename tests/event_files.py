"""Texts in TensorBoard's files, by the reader of what it shows."""

import warnings
from pathlib import Path


def read_texts(folder: Path) -> dict[str, list[tuple[int, str]]]:
    """Return the steps and texts of each tag of the plugin for texts."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of the reader's own imports
        from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator
    events = EventAccumulator(str(folder))
    events.Reload()
    return {
        tag: [
            (event.step, event.tensor_proto.string_val[0].decode()) for event in events.Tensors(tag)
        ]
        for tag in events.PluginTagToContent("text")
    }
