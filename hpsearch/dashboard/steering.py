"""Buttons above the dashboard's pages: what they ask for, and how the study is asked for it.

They send what the commands of the same names do. A page from elsewhere cannot, also one that
another user of this machine serves on another port: what it sends names where it comes from.
"""

import html
from collections.abc import Callable, Mapping
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from hpsearch.dashboard.server import Body, answer, answer_json, refuse
from hpsearch.errors import HpsearchError
from hpsearch.files import parse_json

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

PLACE: Final = "/hpsearch/requests"
PROGRAM: Final = "/hpsearch/steering.js"
"""a file of its own, since the dashboard's pages run no program that stands within them"""
MOST_BYTES: Final = 65_536  # of a request
BUTTONS: Final = {
    "pause": "start nothing new",
    "resume": "go on",
    "stop": "end when what has begun has finished",
    "cancel": "end all jobs at once",
    "retry": "try failed trials again",
}
_STYLE: Final = (
    "padding:10px 16px 10px 84px;display:flex;gap:8px;flex-wrap:wrap;align-items:center;"
    "font:14px/1.4 sans-serif;background:#e8f0fa;color:#222"
)
_SCRIPT: Final = """
const said = document.getElementById("hpsearch-said");
const buttons = document.querySelectorAll("#hpsearch-steering button");
async function ask(wanted) {
  said.textContent = "…";
  for (const button of buttons) button.disabled = true;
  const headers = {"Content-Type": "application/json"};
  const sent = {method: "POST", headers, body: JSON.stringify(wanted)};
  const answer = await fetch("%s", sent).then((it) => it.json()).catch((it) => ({reason: `${it}`}));
  said.textContent = answer.said || answer.reason;
  for (const button of buttons) button.disabled = false;
}
for (const button of document.querySelectorAll("#hpsearch-steering [data-verb]"))
  button.onclick = () => {
    const verb = button.dataset.verb;
    if (verb !== "cancel" || confirm("End all jobs of this study at once?")) ask({verb});
  };
document.querySelector("#hpsearch-steering form").onsubmit = (event) => {
  event.preventDefault();
  ask({verb: "enqueue", settings: new FormData(event.target).get("settings")});
};
"""


def steering_html(example: str) -> str:
    """Return the buttons, with the program that sends what is asked for.

    ``example`` is a setting that the study takes, as NAME=VALUE.
    """
    buttons = "".join(
        f'<button data-verb="{verb}" title="{html.escape(what)}">{verb}</button>'
        for verb, what in BUTTONS.items()
    )
    hint = html.escape(example)
    field = f'<input name="settings" size="40" placeholder="{hint}" aria-label="values">'
    return (
        f'<div id="hpsearch-steering" style="{_STYLE}">{buttons}<form>{field} '
        '<button title="let the next trial have these values">enqueue</button></form>'
        f'<output id="hpsearch-said"></output></div><script src="{PROGRAM}" defer></script>'
    )


class Steering:
    """A WSGI application in front of another one, which takes what the buttons ask for."""

    def __init__(self, inner: "WSGIApplication", act: Callable[[Mapping[str, Any]], str]) -> None:
        """Take what does a request and returns what to say; it may raise HpsearchError."""
        self._inner = inner
        self._act = act
        self._lock = Lock()  # two at once would hinder each other

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Body:
        asked = environ["REQUEST_METHOD"], environ.get("PATH_INFO", "")
        if asked == ("GET", PROGRAM):
            headers = [("Content-Type", "text/javascript; charset=utf-8")]
            return answer(start_response, "200 OK", headers, (_SCRIPT % PLACE).encode())
        if asked != ("POST", PLACE):
            return self._inner(environ, start_response)
        try:
            wanted = _read(environ)
        except ValueError as error:
            return answer_json(start_response, "400 Bad Request", {"reason": str(error)})
        if not _is_from_here(environ):
            return refuse(start_response, "requests are taken from the dashboard's own pages alone")
        try:
            with self._lock:
                said = self._act(wanted)
        except HpsearchError as error:
            return answer_json(start_response, "409 Conflict", {"reason": str(error)})
        except Exception as error:  # such as of a database's library
            reason = f"a fault of hpsearch itself ({type(error).__name__}: {error})"
            return answer_json(start_response, "500 Internal Server Error", {"reason": reason})
        return answer_json(start_response, "200 OK", {"said": said})


def _is_from_here(environ: "WSGIEnvironment") -> bool:
    """Return whether a request comes from a page of this very server, where it says from which."""
    origin = environ.get("HTTP_ORIGIN")
    return origin is None or origin.partition("://")[2] == environ.get("HTTP_HOST")


def _read(environ: "WSGIEnvironment") -> Mapping[str, Any]:
    """Return what was sent; raises ValueError if it is no JSON object of a moderate size."""
    if environ.get("CONTENT_TYPE", "").partition(";")[0].strip() != "application/json":
        raise ValueError("a request is sent as application/json")
    size = int(environ.get("CONTENT_LENGTH") or 0)
    if not 0 < size <= MOST_BYTES:
        raise ValueError(f"a request has 1 to {MOST_BYTES} bytes, got {size}")
    data = parse_json(environ["wsgi.input"].read(size))
    if not isinstance(data, dict):
        raise ValueError("a request is a JSON object")
    return data
