"""What lies in a bundle, and where.

<bundle>/
    README.md                 how each file is loaded
    config.yaml               the complete trainer configuration
    weights.safetensors       the networks
    policy-<role>.pt2         the greedy policy, for torch alone
    policy-<role>.onnx        the same for ONNX, where it could be written
    evaluation.json           the certificate: what was measured, and how
    lineage.json              who the player descends from, where there is a population
    provenance.json           where it comes from, and the sha256 of every other file
    provenance.json.sig       who made it, where it was signed

Several bundles lie side by side in a folder with bundles.json.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FORMAT: Final = 2
"""of the bundles that are written, in the provenance; 1 where that names none"""
SORTED_POINTS: Final = 1
"""the format whose policies take points that are reduced and sorted already"""
FORMATS: Final = (SORTED_POINTS, FORMAT)
"""those that are read"""
MARK: Final = "evaluation.json"
"""the file by which a folder is known to be a bundle, and may be replaced by a newer one"""
INDEX: Final = "bundles.json"
"""the file by which a folder is known to hold several, and may be replaced likewise"""


@dataclass(frozen=True)
class BundleDir:
    """The folder of one bundle."""

    root: Path

    @property
    def readme(self) -> Path:
        """Return what tells people how to load the rest."""
        return self.root / "README.md"

    @property
    def config(self) -> Path:
        """Return the complete trainer configuration."""
        return self.root / "config.yaml"

    @property
    def weights(self) -> Path:
        """Return the networks, named as torch.nn names layers."""
        return self.root / "weights.safetensors"

    @property
    def certificate(self) -> Path:
        """Return what was measured, and how."""
        return self.root / MARK

    @property
    def lineage(self) -> Path:
        """Return the descent of a population's trial."""
        return self.root / "lineage.json"

    @property
    def provenance(self) -> Path:
        """Return where all of it comes from."""
        return self.root / "provenance.json"

    @property
    def signature(self) -> Path:
        """Return the signature of the provenance, as ssh-keygen names it."""
        return self.root / f"{self.provenance.name}.sig"

    def program(self, role: str) -> Path:
        """Return the greedy policy of a role for torch."""
        return self.root / f"policy-{role}.pt2"

    def onnx(self, role: str) -> Path:
        """Return the greedy policy of a role for ONNX."""
        return self.root / f"policy-{role}.onnx"

    def required(self, roles: Iterable[str]) -> set[str]:
        """Return the names of the files that the provenance of a bundle of these roles lists."""
        fixed = (self.readme, self.config, self.weights, self.certificate)
        return {path.name for path in (*fixed, *map(self.program, roles))}

    def optional(self, roles: Iterable[str]) -> set[str]:
        """Return the names of those that it may list as well."""
        return {path.name for path in (self.lineage, *map(self.onnx, roles))}

    def digests(self) -> dict[str, str]:
        """Return the sha256 of every file but the one that holds them, by name."""
        files = sorted(path for path in self.root.iterdir() if path != self.provenance)
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
