import pytest
import torch

from hpsearch.game import HostActionEncoder


@pytest.mark.parametrize("dimension", range(2, 11))
def test_encode_inverts_decode(dimension):
    encoder = HostActionEncoder(dimension)
    assert encoder.num_actions == 2**dimension - dimension - 1
    indices = torch.arange(encoder.num_actions)
    subsets = encoder.decode(indices)
    assert subsets.shape == (encoder.num_actions, dimension)
    assert (subsets.sum(-1) >= 2).all()
    assert torch.equal(encoder.encode(subsets), indices)
    assert subsets[-1].all()


def test_the_actions_in_three_coordinates():
    subsets = HostActionEncoder(3).decode(torch.arange(4).view(2, 2))
    assert subsets.int().tolist() == [[[1, 1, 0], [1, 0, 1]], [[0, 1, 1], [1, 1, 1]]]


def test_the_actions_in_four_coordinates():
    subsets = HostActionEncoder(4).decode(torch.arange(11))
    bits = (subsets * torch.tensor([1, 2, 4, 8])).sum(-1)
    assert bits.tolist() == [3, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15]


@pytest.mark.parametrize("index", [-1, 4])
def test_an_index_out_of_range_is_an_error(index):
    with pytest.raises(ValueError, match=r"must be in 0\.\.3, got"):
        HostActionEncoder(3).decode(torch.tensor([0, index]))


@pytest.mark.parametrize("subset", [[False] * 3, [False, True, False], [True, True]])
def test_an_invalid_subset_is_an_error(subset):
    with pytest.raises(ValueError, match="subset"):
        HostActionEncoder(3).encode(torch.tensor(subset))


@pytest.mark.parametrize("dimension", [1, 17])
def test_an_impossible_dimension_is_an_error(dimension):
    with pytest.raises(ValueError, match=f"dimension={dimension}"):
        HostActionEncoder(dimension)
