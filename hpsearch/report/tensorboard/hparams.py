"""The HParams tab of TensorBoard: which parameters are searched, and which a trial has."""

import json
from typing import Any

from hpsearch.parameters import CategoricalParameter, Parameter
from hpsearch.report.tensorboard.curves import final_tag
from hpsearch.study.records import FAIL, Trial
from hpsearch.study.spec import Study


def experiment_summary(study: Study) -> Any:
    """Return the summary that names a study's parameters and objectives."""
    from tensorboard.plugins.hparams import api_pb2, metadata
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    experiment = api_pb2.Experiment(
        hparam_infos=[_info(name, one) for name, one in study.space.parameters.items()],
        metric_infos=[
            api_pb2.MetricInfo(
                name=api_pb2.MetricName(tag=final_tag(one.metric)), display_name=one.metric
            )
            for one in study.spec.objectives
        ],
    )
    return _summary(metadata.EXPERIMENT_TAG, HParamsPluginData(experiment=experiment))


def start_summary(study: Study, trial: Trial) -> Any:
    """Return the summary of a trial's parameters, those with which it ended."""
    from tensorboard.plugins.hparams import metadata
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionStartInfo

    start = SessionStartInfo(start_time_secs=trial.asked_at, group_name=f"trial {trial.number}")
    for name, value in study.space.decode(trial.last_params).items():
        _set(start.hparams[name], _shown(study.space.parameters[name], value))
    return _summary(metadata.SESSION_START_INFO_TAG, HParamsPluginData(session_start_info=start))


def end_summary(trial: Trial, at: float) -> Any:
    """Return the summary of how a trial ended."""
    from tensorboard.plugins.hparams import api_pb2, metadata
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionEndInfo

    status = api_pb2.STATUS_FAILURE if trial.told == FAIL else api_pb2.STATUS_SUCCESS
    end = SessionEndInfo(status=status, end_time_secs=at)
    return _summary(metadata.SESSION_END_INFO_TAG, HParamsPluginData(session_end_info=end))


def _info(name: str, parameter: Parameter) -> Any:
    from tensorboard.plugins.hparams import api_pb2

    if not isinstance(parameter, CategoricalParameter):
        interval = api_pb2.Interval(min_value=parameter.low, max_value=parameter.high)
        kind = api_pb2.DATA_TYPE_FLOAT64
        return api_pb2.HParamInfo(name=name, type=kind, domain_interval=interval)
    choices = [_shown(parameter, choice) for choice in parameter.choices]
    kind = {
        bool: api_pb2.DATA_TYPE_BOOL,
        float: api_pb2.DATA_TYPE_FLOAT64,
        str: api_pb2.DATA_TYPE_STRING,
    }[type(choices[0])]
    info = api_pb2.HParamInfo(name=name, type=kind)
    info.domain_discrete.extend(choices)
    return info


def _shown(parameter: Parameter, value: Any) -> bool | float | str:
    """Return a value as one of the three kinds that TensorBoard knows, one kind a parameter."""
    kinds = {float}
    if isinstance(parameter, CategoricalParameter):
        kinds = {float if type(one) is int else type(one) for one in parameter.choices}
    if kinds == {bool}:
        return bool(value)
    if kinds == {float}:
        return float(value)
    return value if isinstance(value, str) else json.dumps(value)


def _set(place: Any, value: bool | float | str) -> None:
    """Set a value of protobuf's kind of JSON."""
    if isinstance(value, bool):
        place.bool_value = value
    elif isinstance(value, float):
        place.number_value = value
    else:
        place.string_value = value


def _summary(tag: str, data: Any) -> Any:
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.plugins.hparams import metadata

    shown = metadata.create_summary_metadata(data)
    return Summary(value=[Summary.Value(tag=tag, metadata=shown, tensor=metadata.NULL_TENSOR)])
