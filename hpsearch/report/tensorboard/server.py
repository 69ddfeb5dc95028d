"""TensorBoard's own application, on a folder."""

import io
from contextlib import redirect_stderr
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

RELOAD_SECONDS = 5
"""between two looks of TensorBoard at the folder"""


def application(folder: Path) -> "WSGIApplication":
    """Return TensorBoard as a WSGI application; it reads the folder again and again from now on."""
    from tensorboard import default, program

    taken: list[WSGIApplication] = []

    class Taken(program.TensorBoardServer):  # type: ignore[misc]
        """Takes the application that TensorBoard would serve by itself."""

        def __init__(self, wsgi_app: Any, flags: Any) -> None:
            taken.append(wsgi_app)

        def serve_forever(self) -> None:
            """Do nothing: our server answers."""

        def get_url(self) -> str:
            """Return nothing that anybody reads."""
            return ""

    board = program.TensorBoard(plugins=default.get_plugins(), server_class=Taken)
    said = ["tensorboard", f"--logdir={folder}", f"--reload_interval={RELOAD_SECONDS}"]
    with redirect_stderr(io.StringIO()):  # advice on how its own command is run
        board.configure(argv=said)
        board.launch()
    return taken[0]
