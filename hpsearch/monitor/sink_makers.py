"""Which sinks a configuration switches on; the module of one that is off is not imported."""

from collections.abc import Callable

from hpsearch.monitor.config import MonitorConfig
from hpsearch.monitor.places import JobPlace
from hpsearch.monitor.sinks import Sink


def sink_makers(config: MonitorConfig, job: JobPlace) -> dict[str, Callable[[], Sink]]:
    """Return what makes each sink that is switched on, by the name that a sentence gives it."""
    makers: dict[str, Callable[[], Sink]] = {}
    if config.training_log:
        from hpsearch.monitor.training_log import TrainingLog

        makers["the training log"] = TrainingLog
    if config.tensorboard:
        from hpsearch.monitor.tensorboard import TensorBoard

        makers["TensorBoard"] = TensorBoard
    if config.prometheus is not None:
        from hpsearch.monitor.prometheus import Server, Textfile

        port = config.prometheus.port
        if config.prometheus.textfile:
            makers["the textfile for Prometheus"] = lambda: Textfile(job)
        if port is not None:
            makers["the HTTP server for Prometheus"] = lambda: Server(job, port)
    return makers
