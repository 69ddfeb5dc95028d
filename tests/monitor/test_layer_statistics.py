"""Layer statistics against numpy."""

import numpy as np
import torch

from hpsearch.monitor.resources import LayerTensors, layer_statistics


def test_they_are_those_of_numpy_for_every_member():
    generator = torch.Generator().manual_seed(0)
    shapes = {"host/0.weight": (3, 5, 7), "host/0.bias": (3, 1, 5), "agent/1.weight": (3, 2)}
    draw = {
        name: 3 + 0.1 * torch.randn(shape, generator=generator) for name, shape in shapes.items()
    }
    gradients = {name: -tensor for name, tensor in draw.items()}
    names, values = layer_statistics(LayerTensors(draw, gradients))
    statistics = {name: values[:, index].numpy() for index, name in enumerate(names)}
    assert len(statistics) == 4 * len(shapes)
    for name, tensor in draw.items():
        for kind, numbers in (("weight", tensor.numpy()), ("gradient", -tensor.numpy())):
            for member in range(3):
                mean, std = numbers[member].mean(), numbers[member].std()
                np.testing.assert_allclose(
                    statistics[f"{name}/{kind}_mean"][member], mean, rtol=1e-5
                )
                np.testing.assert_allclose(statistics[f"{name}/{kind}_std"][member], std, rtol=1e-5)


def test_a_layer_of_one_number_has_no_spread():
    names, values = layer_statistics(LayerTensors({"a": torch.tensor([2.0, 3.0])}, {}))
    assert names == ["a/weight_mean", "a/weight_std"]
    assert values.tolist() == [[2.0, 0.0], [3.0, 0.0]]


def test_what_is_not_there_is_left_out():
    weights = {"a": torch.ones(2, 3), "b": torch.ones(2, 3), "empty": torch.ones(2, 0)}
    gradients = {"a": None, "empty": torch.ones(2, 0)}
    names, values = layer_statistics(LayerTensors(weights, gradients))
    assert names == ["a/weight_mean", "a/weight_std", "b/weight_mean", "b/weight_std"]
    assert values.shape == (2, 4)
    assert layer_statistics(LayerTensors({}, {}))[0] == []


def test_weights_that_require_gradients_are_no_obstacle():
    weight = torch.ones(2, 3, requires_grad=True)
    _, values = layer_statistics(LayerTensors({"a": weight}, {}))
    assert not values.requires_grad
