"""A study steered from its dashboard: a real server, a real browser, and the driver that obeys."""

import json
import re

import pytest
from browser import opened, tab
from dashboards import Dashboard
from drives import new_study, tick_until
from drives import opened as opened_driver
from fakes import FakeExecutor

from hpsearch.study.spec_checks import example_setting

pytest.importorskip(
    "optuna_dashboard", reason="needs optuna-dashboard: pip install hpsearch[dashboard]"
)

PLACE = "/hpsearch/requests"


@pytest.fixture
def study(tmp_path):
    return new_study(tmp_path, budget={"trials": 6})


@pytest.mark.slow
def test_buttons_ask_as_the_commands_do(study):
    executor = FakeExecutor()
    with opened_driver(study, executor):
        pass  # it has begun, and no job has
    served = Dashboard(study.path.parent, study.spec.name, "--write")
    try:
        page = opened(served.url)
        assert 'data-verb="pause"' in page.dom
        assert page.console == []
        (hint,) = re.findall(r'placeholder="(.*?)"', page.dom)
        assert hint == example_setting(study.spec.space)

        def ask(**wanted):
            status, body = served.ask("POST", PLACE, wanted)
            return status, json.loads(body)

        said = "document.getElementById('hpsearch-said')"
        with tab(served.url) as buttons:
            pause = "document.querySelector('[data-verb=pause]')"
            buttons.wait_for(f"{pause}?.onclick && !{pause}.click()")
            paused = f"{study.spec.name}: paused"
            buttons.wait_for(f"{said}.textContent.startsWith('{paused}')")
            field = "document.querySelector('#hpsearch-steering [name=settings]')"
            buttons.evaluate(f"{field}.value = 'host.gamma=0.77'; {field}.form.requestSubmit()")
            buttons.wait_for(f"{said}.textContent.startsWith('{paused}')")
        assert ask(verb="pause")[0] == 409
        status, answer = ask(verb="enqueue", settings="host.gama=0.77")
        assert (status, "did you mean 'host.gamma'" in answer["reason"]) == (409, True)
        status, answer = ask(verb="delete")
        assert (status, "unknown request 'delete'" in answer["reason"]) == (409, True)
        assert served.ask("POST", PLACE)[0] == 400
        assert served.ask_as_stranger("POST", PLACE)[0] == 403
        served._browser.addheaders = [("Origin", "http://127.0.0.1:9")]  # a page on another port
        assert ask(verb="cancel")[0] == 403
    finally:
        served.close()
    with opened_driver(study, executor) as driver:
        state = tick_until(driver, lambda: not driver.is_busy)
    assert [trial.params["host.gamma"] for trial in state.trials.values()].count(0.77) == 1
    assert len(state.trials) == 6
