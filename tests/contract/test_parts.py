"""Our own rewards and players keep the promises that other packages' parts are held to."""

import pytest

from hpsearch.game.players import AGENTS, HOSTS
from hpsearch.game.rules import REWARDS
from hpsearch.testing.game_parts import check_agent, check_host, check_reward


@pytest.mark.parametrize("name", REWARDS.own)
def test_a_reward(name: str) -> None:
    check_reward(REWARDS[name])


@pytest.mark.parametrize("name", HOSTS.own)
def test_a_host(name: str) -> None:
    check_host(HOSTS[name])


@pytest.mark.parametrize("name", AGENTS.own)
def test_an_agent(name: str) -> None:
    check_agent(AGENTS[name])
