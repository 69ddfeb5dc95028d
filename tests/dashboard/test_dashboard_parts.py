"""The parts of the dashboard: who is let through, what is remembered, what our figures count."""

import gzip
import json
import random
import re
import socket
from itertools import pairwise
from urllib.parse import urljoin, urlsplit

import pytest
from optuna.distributions import FloatDistribution
from optuna.study import StudyDirection
from optuna.trial import TrialState, create_trial
from views import METRIC

from hpsearch.analysis.importances import Importance, Importances
from hpsearch.dashboard.app import (
    MAX_REMEMBERED,
    MEMORY_SECONDS,
    SHARE,
    ReadOnly,
    ResponseCache,
    StudyConclusions,
)
from hpsearch.dashboard.figures import (
    MAX_JOBS,
    MAX_MOMENTS,
    drawn_importances,
    figure_attrs,
    load,
    timeline,
)
from hpsearch.dashboard.server import Guard, Names, bind, serving
from hpsearch.dashboard.storage import Head, ReadOnlyStorage
from hpsearch.errors import UsageError

HEAD = Head(3, "large", (StudyDirection.MAXIMIZE,))


HOST = "127.0.0.1:8080"


def ask(
    application,
    method="GET",
    path="/api/studies/3",
    cookie=None,
    query="",
    packed=True,
    host=HOST,
    more=(),
):
    """Return status, headers and body of an answer."""
    began = []
    environ = {"REQUEST_METHOD": method, "PATH_INFO": path, "QUERY_STRING": query}
    environ |= dict(more) | ({"HTTP_COOKIE": cookie} if cookie else {})
    environ |= {} if host is None else {"HTTP_HOST": host}
    environ |= {"HTTP_ACCEPT_ENCODING": "gzip, br"} if packed else {}
    body = b"".join(application(environ, lambda *said: began.append(said)))
    (status, headers), *_ = began
    return int(status.split()[0]), dict(headers), body


class Counting:
    """An application that counts what it is asked."""

    def __init__(self, clock=None, seconds=0.0):
        self.asked = []
        self._clock, self._seconds = clock, seconds

    def __call__(self, environ, start_response):
        self.asked.append((environ["REQUEST_METHOD"], environ["PATH_INFO"]))
        if self._clock is not None:
            self._clock.now += self._seconds
        start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "1")])
        return [str(len(self.asked)).encode()]


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


# Who is let through.


def guarded(writes=False, said="127.0.0.1", bound="127.0.0.1"):
    inner = Counting()
    names = Names(said, bound)
    return inner, Guard(
        ReadOnly(inner, writes=writes), token="secret", cookie="hpsearch-1", names=names
    )


@pytest.mark.parametrize(
    "cookie", [None, "", "hpsearch-1=", "hpsearch-1=wrong", "other=secret", "=;;"]
)
def test_without_the_token_nothing_passes(cookie):
    inner, guard = guarded(writes=True)
    for method in ("GET", "HEAD", "PUT", "DELETE"):
        assert ask(guard, method, cookie=cookie)[0] == 403
    assert ask(guard, query="token=")[0] == 403
    assert inner.asked == []


def test_the_token_is_given_for_a_cookie_that_then_passes():
    inner, guard = guarded()
    status, headers, _ = ask(guard, path="/dashboard/studies/3", query="token=secret")
    assert (status, headers["Location"]) == (303, "/dashboard/studies/3")
    cookie, *rules = headers["Set-Cookie"].split("; ")
    assert {"HttpOnly", "SameSite=Strict"} <= set(rules)
    assert ask(guard, cookie=cookie)[0] == 200
    for foreign in ('prefs={"theme":"dark"}', "a b=c", "=", "hpsearch-1=of-another-path", "é"):
        assert ask(guard, cookie=f"{foreign}; {cookie}; {foreign}")[0] == 200, foreign
    assert set(inner.asked) == {("GET", "/api/studies/3")}


@pytest.fixture(scope="module")
def served():
    """Return a function from a path as it stands in a request to the head of the answer."""
    server = bind("127.0.0.1", 0)
    _, guard = guarded()

    def get(path: str) -> list[str]:
        with socket.create_connection(("127.0.0.1", server.server_port), timeout=10) as line:
            line.sendall(f"GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n".encode())
            answer = b"".join(iter(lambda: line.recv(4096), b""))
        return answer.decode("latin-1").split("\r\n\r\n")[0].split("\r\n")

    with serving(server, guard):
        yield get


def opened(location: str) -> str:
    """Return what a browser opens: it takes \\ for / and passes over tabs and ends of lines."""
    return urljoin("http://here/", re.sub(r"[\t\r\n]", "", location).replace("\\", "/"))


@pytest.mark.parametrize(
    "path",
    [
        *("//elsewhere.org/x", "///elsewhere.org", "/%2F/elsewhere.org", "/%2felsewhere.org"),
        *("/%5Celsewhere.org", "/%5C%5Celsewhere.org", "/%09/elsewhere.org", "/%0A/elsewhere.org"),
        *("http://elsewhere.org/x", "//user@elsewhere.org", "/.//elsewhere.org", "/%3Fa=b#c"),
        *("/x%0D%0ASet-Cookie:%20stolen=1", "/x%0ASet-Cookie:%20stolen=1", "/%0D%0A%0D%0A<script>"),
        *("/x%00y", "/%E4%BD%A0", "/%FF", "/a%20b"),
    ],
)
def test_the_token_leads_nowhere_else(served, path):
    status, *lines = served(f"{path}?token=secret")
    assert status.split()[1] == "303"
    headers = [line.partition(": ")[::2] for line in lines]
    assert sorted(name for name, _ in headers) == ["Content-Length", "Date", "Location", "Server",
                                                   "Set-Cookie"]  # fmt: skip
    said = dict(headers)
    assert "stolen" not in said["Set-Cookie"]
    assert said["Location"].isascii()
    assert said["Location"].isprintable()
    assert urlsplit(opened(said["Location"])).netloc == "here"


@pytest.mark.parametrize(
    ("said", "bound", "allowed", "refused"),
    [
        ("127.0.0.1", "127.0.0.1", ["127.0.0.1", "127.0.0.1:8080", "localhost:1", "[::1]:80",
                                    "LocalHost"], ["10.0.0.7", "box"]),
        ("box.site.org", "10.0.0.7", ["box.site.org:8080", "10.0.0.7", "localhost"],
         ["10.0.0.8", "site.org", "evil.box.site.org"]),
        ("0.0.0.0", "0.0.0.0", [socket.gethostname(), "10.0.0.7:80", "[fe80::1]:80"], ["site.org"]),
    ],
)  # fmt: skip
def test_only_names_of_its_own_are_answered(said, bound, allowed, refused):
    """A name of an attacker's can be made to lead here, and a browser then believes its pages."""
    for host in allowed:
        inner, guard = guarded(said=said, bound=bound)
        assert ask(guard, cookie="hpsearch-1=secret", host=host)[0] == 200, host
        assert len(inner.asked) == 1
    evil = ["evil.example", "127.0.0.1.evil.example", "evil.example:127", "", None, ":80"]
    for host in [*refused, *evil, "evil.example,127.0.0.1", "127.0.0.1,evil.example", "a@b"]:
        inner, guard = guarded(said=said, bound=bound)
        for query in ("", "token=secret"):
            status, headers, body = ask(guard, cookie="hpsearch-1=secret", query=query, host=host)
            assert (status, inner.asked) == (403, []), host
            assert "Set-Cookie" not in headers
            assert "--host" in json.loads(body)["reason"]


@pytest.mark.parametrize(
    ("method", "path", "passes"),
    [
        ("GET", "/api/studies/3", (True, True)),
        ("HEAD", "/api/studies/3", (True, True)),
        ("PUT", "/api/studies/3/note", (False, True)),
        ("PUT", "/api/studies/3/17/note", (False, True)),
        ("PUT", "/api/studies/3/preference_feedback_component", (False, False)),
        ("PUT", "/api/studies/3/note/../x", (False, False)),
        ("POST", "/api/studies/3/note", (False, False)),
        ("DELETE", "/api/studies/3", (False, False)),
        ("POST", "/api/trials/17/tell", (False, False)),
        ("POST", "/api/artifacts/3", (False, False)),
        ("OPTIONS", "/api/studies/3", (False, False)),
        ("get", "/api/studies/3", (False, False)),
    ],
)
def test_what_passes(method, path, passes):
    for writes in (False, True):
        inner, guard = guarded(writes)
        status, _, body = ask(guard, method, path, cookie="hpsearch-1=secret")
        assert (status == 200) == bool(inner.asked) == passes[writes]
        assert status == 200 or "changed" in json.loads(body)["reason"]


# What is remembered.


def cache_of_a_counter(seconds=0.5):
    clock = Clock()
    inner = Counting(clock, seconds)
    changed = [0.0]
    return clock, inner, changed, ResponseCache(inner, lambda: changed[0], clock)


def test_what_has_not_changed_is_answered_from_memory():
    clock, inner, _, front = cache_of_a_counter()
    for _ in range(3):
        status, headers, body = ask(front)
        assert (status, gzip.decompress(body)) == (200, b"1")
        assert headers["Content-Encoding"] == "gzip"
        assert int(headers["Content-Length"]) == len(body)
        clock.now += 1000.0
    assert len(inner.asked) == 1


def test_what_has_changed_is_asked_anew_but_no_more_often_than_its_share():
    clock, inner, changed, front = cache_of_a_counter(seconds=0.5)
    first = clock.now
    for _ in range(400):
        changed[0] = clock.now
        ask(front)
        clock.now += 1.0
    assert len(inner.asked) * 0.5 <= SHARE * (clock.now - first) + 0.5
    assert len(inner.asked) > 50


def test_the_last_change_is_shown_in_the_end():
    """Optuna's dashboard may answer with what it remembers, so one answer is not enough."""
    clock, inner, changed, front = cache_of_a_counter(seconds=0.01)
    ask(front)
    changed[0] = clock.now
    for _ in range(20):
        clock.now += 1.0
        ask(front)
    late = len(inner.asked)
    assert late >= MEMORY_SECONDS
    clock.now += 1000.0
    ask(front)
    assert len(inner.asked) <= late + 1


def test_a_note_that_was_written_is_shown_at_once():
    *_, front = cache_of_a_counter()
    ask(front)
    ask(front, "PUT", "/api/studies/3/note")
    assert gzip.decompress(ask(front)[2]) == b"3"


def test_questions_differ_and_few_are_remembered():
    _, inner, _, front = cache_of_a_counter()
    for after in range(3 * MAX_REMEMBERED):
        ask(front, query=f"after={after}")
    assert len(inner.asked) == 3 * MAX_REMEMBERED
    ask(front, query=f"after={3 * MAX_REMEMBERED - 1}")
    assert len(inner.asked) == 3 * MAX_REMEMBERED
    assert len(front._known) == MAX_REMEMBERED


def test_other_answers_and_other_browsers_get_them_as_they_are():
    _, inner, _, front = cache_of_a_counter()
    for _ in range(2):
        assert ask(front, path="/api/meta")[1].get("Content-Encoding") is None
        assert ask(front, packed=False)[2].isdigit()
    assert len(inner.asked) == 4


# What is shown.


def trial(number, **changes):
    made = create_trial(
        value=float(number), params={"x": 0.5}, distributions={"x": FloatDistribution(0, 1)}
    )
    made.number, made._trial_id = number, 100 + number
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def test_a_study_is_shown_as_its_trials_change():
    shown = ReadOnlyStorage(HEAD, None)
    shown.take([trial(0), trial(1)])
    before = shown.get_all_trials(3, deepcopy=False)
    shown.take([trial(1, values=[9.0]), trial(2)])
    assert [trial.values for trial in shown.get_all_trials(3)] == [[0.0], [9.0], [2.0]]
    assert [row.values for row in before] == [[0.0], [1.0]]
    assert shown.get_trial(101).values == [9.0]
    assert shown.get_best_trial(3).number == 1
    assert shown.get_all_trials(3, states=(TrialState.RUNNING,)) == []
    with pytest.raises(KeyError, match="no study 4 is shown"):
        shown.get_all_trials(4)


def test_of_system_attributes_violated_constraints_alone_are_shown():
    """As the dashboard asks for them, whatever else samplers have noted."""
    shown = ReadOnlyStorage(HEAD, None)
    noted = trial(1, system_attrs={"constraints:gpu_memory": 1.0, "tpe:relative_params:0": "{}"})
    shown.take([trial(0), noted])
    attrs = [trial.system_attrs for trial in shown.get_all_trials(3)]
    assert attrs == [{}, {"constraints": [1.0]}]


def test_nothing_of_it_can_be_changed():
    for shown in (ReadOnlyStorage(HEAD, None), ReadOnlyStorage(HEAD, lambda key, value: None)):
        shown.take([trial(0)])
        for change in (
            lambda shown=shown: shown.delete_study(3),
            lambda shown=shown: shown.create_new_study([StudyDirection.MAXIMIZE], "other"),
            lambda shown=shown: shown.create_new_trial(3),
            lambda shown=shown: shown.set_trial_state_values(100, TrialState.FAIL),
            lambda shown=shown: shown.set_trial_user_attr(100, "x", 1),
            lambda shown=shown: shown.set_trial_system_attr(100, "x", 1),
            lambda shown=shown: shown.set_study_user_attr(3, "x", 1),
            lambda shown=shown: shown.set_study_system_attr(3, "study:metric_names", ["x"]),
        ):
            with pytest.raises(UsageError, match="not to be changed"):
                change()
    with pytest.raises(UsageError, match="not to be changed"):
        ReadOnlyStorage(HEAD, None).set_study_system_attr(3, "dashboard:note_ver", 1)


def test_a_remark_stands_in_for_a_note_until_there_is_one():
    note = pytest.importorskip("optuna_dashboard._note")
    written = {}
    shown = ReadOnlyStorage(HEAD, written.__setitem__)

    def seen():
        return note.get_note_from_system_attrs(shown.get_study_system_attrs(3), None)

    nothing = {"system_attrs": {}, "user_attrs": {}, "of_trials": {}}
    shown.add("who is the champion", **nothing)
    assert seen() == {"version": 0, "body": "who is the champion"}
    note.save_note_with_version(shown, 3, None, 1, "mine")
    assert seen() == {"version": 1, "body": "mine"}
    assert set(written.values()) == {1, "mine"}
    shown.add("who is the champion now", **nothing)
    assert seen()["body"] == "mine"


# Our figures.


def run_jobs(story, spans):
    """Let jobs begin and end at moments; an end of None is still to come."""
    for number, (began, ended) in enumerate(spans):
        story.ask(number)
        story.run(number, job=f"job-{number:05}")
        story.add("job_began", job=f"job-{number:05}", at=began)
        if ended is not None:
            story.add("job_ended", job=f"job-{number:05}", at=ended)


def test_the_load_counts_the_jobs_that_run(story):
    rng = random.Random(3)
    begins = [rng.randrange(100) for _ in range(60)]
    spans = [(at, at + rng.randrange(1, 50) if rng.random() < 0.7 else None) for at in begins]
    run_jobs(story, spans)
    bars = [bar for bar in timeline(story.view, until=200.0)["data"] if bar["name"] != "waited"]
    assert sum(len(bar["y"]) for bar in bars) == 60
    ran = [trace for trace in load(story.view, until=200.0)["data"] if trace["name"] != "waited"]
    for moment, *numbers in zip(ran[0]["x"], *(trace["y"] for trace in ran), strict=True):
        at = moment / 1000
        assert sum(numbers) == sum(a <= at < (200 if b is None else b) for a, b in spans)
    lengths = {name: ms for bar in bars for name, ms in zip(bar["y"], bar["x"], strict=True)}
    for number, (a, b) in enumerate(spans):
        assert lengths[f"job job-{number:05}"] == 1000 * ((200 if b is None else b) - a)


@pytest.mark.parametrize(("ended", "end"), [(90.0, 90.0), (None, 5000.0)])
def test_the_load_ends_with_the_last_job_unless_one_runs(story, ended, end):
    run_jobs(story, [(10.0, 70.0), (30.0, ended)])
    assert load(story.view, until=5000.0)["data"][-1]["x"][-1] == 1000 * end


def test_the_figures_of_ten_thousand_jobs_are_small(story):
    run_jobs(story, [(at, at + 7) for at in range(10_000)])
    bars = timeline(story.view, until=10_010.0)["data"]
    assert len({name for bar in bars for name in bar["y"]}) == MAX_JOBS
    drawn = load(story.view, until=10_010.0)
    for trace in drawn["data"]:
        assert len(trace["x"]) <= MAX_MOMENTS
        assert all(a < b for a, b in pairwise(trace["x"]))
    assert len(json.dumps(drawn)) < 100_000


def test_importances_within_the_noise_are_drawn_as_zero(story):
    by_name = {
        "host.gamma": Importance(0.7, 0.5, 0.9, 0.3),
        "host.optim.args.lr": Importance(0.3, 0.0, 0.6, 1.4),
    }
    measured = {METRIC: Importances(by_name, 20, 20, 0.4)}
    assert drawn_importances(story.view, measured) == [
        [
            {"name": "host.gamma", "importance": 0.7, "distribution": "FloatDistribution"},
            {"name": "host.optim.args.lr", "importance": 0.0, "distribution": "FloatDistribution"},
        ]
    ]
    assert drawn_importances(story.view, {}) == [[]]


def test_a_study_of_which_nothing_has_happened_has_no_figures(story):
    assert figure_attrs(story.view, 0.0, {}) == {}


def test_curves_of_the_best_stand_out_with_their_intervals(story):
    for number in range(9):
        story.ask(number)
        for step in (20, 40):
            value = number + step / 100
            story.add("reported", number, step=step, value=value, prune=False, rungs=0)
            row = {"value": value, "low": value - 0.5, "high": value + 0.25}
            files = story.view.folder.trial(number)
            files.append_metrics({"step": step, "metrics": {METRIC: row}})
        if number < 8:
            story.run(number, job=f"job-{number}")
            story.tell(number, "finished", float(number))
    (text,) = figure_attrs(story.view, 0.0, {}).values()
    others, *best = json.loads(text)["data"]
    assert others["name"] == "all others"
    assert others["x"] == [20, 40, None] * 4
    areas, curves = best[::2], best[1::2]
    assert [curve["name"] for curve in curves] == [f"trial {number}" for number in (7, 6, 5, 4, 3)]
    assert len({curve["line"]["color"] for curve in curves}) == 5
    assert curves[0]["y"] == pytest.approx([7.2, 7.4])
    assert areas[0]["y"] == pytest.approx([6.7, 6.9, 7.65, 7.45])
    assert not any(area["showlegend"] for area in areas)


# The port.


def test_ports_that_are_taken_are_passed_by():
    first = bind("127.0.0.1", 0)
    taken = first.server_port
    other = bind("127.0.0.1", taken)
    try:
        assert taken < other.server_port <= taken + 100
    finally:
        first.server_close()
        other.server_close()


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6")
@pytest.mark.parametrize(
    ("host", "bound", "reached"),
    [
        ("::1", "::1", ["::1"]),
        ("::", "::", ["::1", "127.0.0.1"]),
        ("localhost", "127.0.0.1", ["127.0.0.1"]),
    ],
)
def test_addresses_of_both_kinds_are_served(host, bound, reached):
    server = bind(host, 0)
    with serving(server, _page):
        assert server.server_name == bound
        for address in reached:
            with socket.create_connection((address, server.server_port), timeout=10) as line:
                line.sendall(b"GET / HTTP/1.0\r\n\r\n")
                assert line.recv(4096).startswith(b"HTTP/1.0 200 OK"), address


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid", "é" * 64])
def test_an_address_of_another_machine(host):
    with pytest.raises(UsageError, match=host):
        bind(host, 0)


def test_a_port_that_there_is_not():
    with pytest.raises(UsageError, match="a port is 0 to 65535, got 99999"):
        bind("127.0.0.1", 99999)


def _page(environ, start_response):
    status = "304 Not Modified" if "HTTP_IF_MODIFIED_SINCE" in environ else "200 OK"
    moment = ("Last-Modified", "Mon, 23 Nov 2026 00:00:00 GMT")
    start_response(status, [("Content-Type", "text/html"), ("Content-Length", "42"), moment])
    return [b"<html><body><div></div></body></html>"] if status == "200 OK" else []


def test_the_verdict_stands_above_every_page():
    conclusions = StudyConclusions(_page)
    assert (
        ask(conclusions, path="/dashboard/studies/3")[2] == b"<html><body><div></div></body></html>"
    )
    conclusions.verdict = "Trial 2 is weaker than <zeillinger>."
    status, headers, body = ask(conclusions, path="/dashboard/studies/3")
    assert status == 200
    assert int(headers["Content-Length"]) == len(body)
    above, _, below = body.decode().partition("</p>")
    assert above.endswith("Trial 2 is weaker than &lt;zeillinger&gt;.")
    assert below == "</div><div></div></body></html>"


@pytest.mark.parametrize("verdict", ["", "Trial 2 is strong."])
def test_a_browser_never_goes_on_with_an_older_verdict(verdict):
    conclusions = StudyConclusions(_page)
    conclusions.verdict = verdict
    known = {"HTTP_IF_MODIFIED_SINCE": "Tue, 24 Nov 2026 00:00:00 GMT"}
    status, headers, body = ask(conclusions, path="/dashboard/studies/3", more=known)
    assert (status, headers["Cache-Control"]) == (200, "no-store")
    assert (b"<p" in body) == bool(verdict)
    assert "Last-Modified" not in headers


def test_the_chart_of_importances_draws_ours():
    conclusions = StudyConclusions(_page)
    conclusions.importances = [
        [{"name": "lr", "importance": 0.5, "distribution": "FloatDistribution"}]
    ]
    _, headers, body = ask(conclusions, path="/api/studies/3/param_importances")
    assert json.loads(body) == {"param_importances": conclusions.importances}
    assert headers["Content-Type"] == "application/json"
