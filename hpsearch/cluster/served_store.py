"""The store of torch.distributed at which processes meet, served by the first one."""

import socket

from torch.distributed import TCPStore  # type: ignore[attr-defined]

LOOPBACK = "127.0.0.1"


def serve(address: str = "") -> TCPStore:
    """Return a store that this process serves at a free port.

    It listens on ``address`` alone, or on all that the machine has.
    """
    listener = socket.create_server((address, 0))
    port = listener.getsockname()[1]
    return TCPStore(
        address or socket.gethostname(),
        port,
        is_master=True,
        wait_for_workers=False,
        master_listen_fd=listener.detach(),
    )
