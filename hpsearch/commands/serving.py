"""What commands that serve a page have in common: where, and how one comes there."""

import getpass
import socket

from hpsearch.dashboard.server import EVERY_ADDRESS, LOOPBACK, Server
from hpsearch.terminal import say


def tell_address(server: Server, what: str, path: str) -> None:
    """Say where a page is, and how to reach it from elsewhere.

    Args:
        server: that answers.
        what: the page is.
        path: of the page, from the first slash.
    """
    host, port = server.server_name, server.server_port
    shown_host = f"[{host}]" if ":" in host else host
    is_local = host in LOOPBACK
    at = shown_host if is_local or host not in EVERY_ADDRESS else socket.gethostname()
    print(f"{what}, until Ctrl-C:")
    print(f"  http://{at}:{port}{path}", flush=True)
    if is_local:
        way = f"ssh -L {port}:{shown_host}:{port} {getpass.getuser()}@{socket.gethostname()}"
        print("from another machine, first run there, then open the same address there:")
        print(f"  {way}", flush=True)
    else:
        say(f"{shown_host} is reached from other machines too; everyone with the address can look")
