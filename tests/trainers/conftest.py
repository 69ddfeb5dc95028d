"""One thread: nets this small lose by sharing, above all on a busy machine."""

import numba
import pytest
import torch


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    numba.get_num_threads()  # launches its threads, which sets torch's number to all
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
