"""Who made a bundle: a signature of its provenance by OpenSSH.

The provenance holds the sha256 of every other file, so its signature covers all of them.
"""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from hpsearch.errors import CorruptError, HpsearchError, UsageError
from hpsearch.export.folder import shown

NAMESPACE: Final = "hpsearch"  # what is signed: a signature for anything else does not fit


def sign(path: Path, key: Path) -> None:
    """Write a file's signature beside it, by an OpenSSH key; UsageError if that does not sign."""
    if not key.is_file():
        raise UsageError(f"there is no key {key}; make one with: ssh-keygen -t ed25519")
    done = _ssh_keygen(["-Y", "sign", "-f", key.absolute(), "-n", NAMESPACE, path], b"")
    if done.returncode != 0:
        raise UsageError(f"ssh-keygen cannot sign with {key} ({_reason(done)}); name another key")


def signer_of(content: bytes, signature: bytes, signers: Path) -> str:
    """Return who of the allowed signers signed this content; CorruptError if none did."""
    if not signers.is_file():
        raise UsageError(
            f"there is no file {signers}; write a line for each signer you trust: NAME KEYTYPE KEY"
        )
    with TemporaryDirectory(prefix="hpsearch-") as folder:
        path = Path(folder) / "signature"
        path.write_bytes(signature)
        known: list[str | Path] = ["-f", signers.absolute(), "-s", path]
        done = _ssh_keygen(["-Y", "find-principals", *known], b"")
        for name in done.stdout.decode("utf-8", "replace").splitlines():
            verify = ["-Y", "verify", "-I", name, "-n", NAMESPACE, *known]
            done = _ssh_keygen(verify, content)
            if done.returncode == 0:
                return shown(name)
    raise CorruptError(
        f"the signature is none of a signer in {signers} for this content ({_reason(done)}); do "
        "not trust it, or get the bundle anew"
    )


def _ssh_keygen(
    arguments: Sequence[str | Path], content: bytes
) -> "subprocess.CompletedProcess[bytes]":
    try:
        return subprocess.run(["ssh-keygen", *arguments], input=content, capture_output=True)
    except FileNotFoundError as error:
        raise HpsearchError(
            "signatures need ssh-keygen, which is not installed here; install OpenSSH 8.2 or "
            "newer, or leave out the option"
        ) from error


def _reason(done: "subprocess.CompletedProcess[bytes]") -> str:
    lines = (done.stderr + done.stdout).decode("utf-8", "replace").split("\n")
    return shown(next((line.strip() for line in lines if line.strip()), "it says nothing"))
