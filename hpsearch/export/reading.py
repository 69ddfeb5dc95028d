"""Reads a bundle back, and measures its players again.

Nothing of what a bundle holds is run: its players are built from its configuration and weights, and
its programs are compared, byte for byte, with those that these players give.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from hpsearch.analysis.examination import CPU, device_of
from hpsearch.cluster.code_snapshot import PACKAGES, versions
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.errors import ConfigError, CorruptError
from hpsearch.export import folder as bundles
from hpsearch.export.certificate import Certificate, Conditions, differences, signer_of
from hpsearch.export.folder import INDEX, BundleDir, Contents, plain_json, read_file, shown
from hpsearch.export.programs import onnx_differences, program_differences
from hpsearch.names import is_name
from hpsearch.schema import read, value_at
from hpsearch.trainers.config import TrainerConfig, read_config
from hpsearch.trainers.opponents import SavedPlayer
from hpsearch.trainers.policies import build_net
from hpsearch.trainers.rollouts import game_config

MOST_POINTS: Final = 4096  # of a start
MOST_COORDINATES: Final = 2**31  # of the points of all games that are measured at once
_MOST_HEADER: Final = 2**20  # bytes of what names the tensors in a file of weights


@dataclass(frozen=True)
class Bundle:
    folder: BundleDir
    contents: Contents
    certificate: Certificate
    rows: list[dict[str, Any]]  # the certified rows, as the file holds them
    config: dict[str, Any]
    players: dict[str, SavedPlayer]  # by role, on the CPU
    measured: dict[str, SavedPlayer]  # the same on the certificate's device, if it is here
    signer: str | None  # who signed it, None where that was not asked


def bundles_in(folder: Path) -> list[Path]:
    """Return the bundles at a path, or in its list; CorruptError if that names others."""
    bundle = BundleDir(folder)
    if any(path.is_symlink() or path.exists() for path in (bundle.certificate, bundle.provenance)):
        return [folder]
    index = folder / INDEX
    if not index.is_file():
        return []
    listed = plain_json(read_file(index), index)
    bundle_rows = listed.get("bundles") if isinstance(listed, dict) else None
    rows = bundle_rows if isinstance(bundle_rows, list) else []
    names = [row.get("folder") if isinstance(row, dict) else None for row in rows]
    if not 0 < len(names) == len(set(map(str, names))) <= bundles.MOST_FILES:
        raise CorruptError(f"{index} lists no bundles, or one twice; export them again")
    return [_within(folder, name) for name in names]


def _within(folder: Path, name: object) -> Path:
    path = folder / name if isinstance(name, str) and name not in ("", ".", "..") else folder
    if path.parent != folder or path.name != name or path.is_symlink() or not path.is_dir():
        raise CorruptError(f"{folder / INDEX} lists {name!r}, which is no folder in it")
    return path


def read_bundle(folder: Path, signers: Path | None = None) -> Bundle:
    """Return the bundle in a folder, signed by one of ``signers`` if given; else CorruptError."""
    bundle = BundleDir(folder)
    provenance = read_file(bundle.provenance)
    signer = None if signers is None else _signer(bundle, provenance, signers)
    contents = bundles.read_contents(bundle, provenance)
    certificate, rows = _certificate(contents, bundle)
    plain, config = _config(contents, bundle, certificate.provenance)
    _check_roles(bundle, contents.digests, config.learning())
    _check_size(bundle, config, certificate.conditions)
    tensors = _tensors(contents.data[bundle.weights.name], bundle.weights)
    players = _players(bundle, config, tensors, CPU)
    device = device_of(certificate.conditions.device)
    measured = players if device == CPU else _players(bundle, config, tensors, device)
    return Bundle(bundle, contents, certificate, rows, plain, players, measured, signer)


def take_bundles(
    names: Sequence[str], runs: Path, device: torch.device
) -> tuple[list[str], dict[Path, Mapping[str, SavedPlayer]]]:
    """Return the names that stand for no bundle, and the players of the bundles, by their folders.

    A study below ``runs`` goes before a folder of its name.
    """
    others: list[str] = []
    players: dict[Path, Mapping[str, SavedPlayer]] = {}
    for name in names:
        is_study = is_name(name) and StudyDir(runs / name).spec.exists()
        folders = [] if is_study else bundles_in(Path(name))
        players |= {
            folder.resolve(): _players_on(read_bundle(folder), device) for folder in folders
        }
        others += [] if folders else [name]
    return others, players


def _players_on(bundle: Bundle, device: torch.device) -> Mapping[str, SavedPlayer]:
    if device == CPU:
        return bundle.players
    folder = bundle.folder
    _, config = _config(bundle.contents, folder, bundle.certificate.provenance)
    tensors = _tensors(bundle.contents.data[folder.weights.name], folder.weights)
    return _players(folder, config, tensors, device)


def reproduce(bundle: Bundle) -> list[str]:
    """Measure a bundle again; return a line for all that is not as certified, bit for bit."""
    certificate = bundle.certificate
    lines = _other_params(bundle)
    lines += differences(bundle.measured, certificate.conditions, certificate.rows)
    lines += program_differences(bundle.folder, bundle.contents, bundle.players)
    if not lines:  # last, because writing them takes seconds
        lines = onnx_differences(bundle.folder, bundle.contents, bundle.players)
    here = versions()
    other_versions = [
        f"version of {name}: {version} when certified, {here.get(name, 'none')} here"
        for name, version in certificate.provenance.items()
        if here.get(name) != version
    ]
    return [*lines, *other_versions] if lines else []  # which may be why


def _signer(bundle: BundleDir, provenance: bytes, signers: Path) -> str:
    if not bundle.signature.is_symlink() and not bundle.signature.exists():
        raise CorruptError(
            f"{bundle.root} is not signed: it has no {bundle.signature.name}; ask for one that is, "
            "or leave out --signers"
        )
    return signer_of(provenance, read_file(bundle.signature), signers)


def _certificate(contents: Contents, bundle: BundleDir) -> tuple[Certificate, list[dict[str, Any]]]:
    path = bundle.certificate
    data = plain_json(contents.data[path.name], path)
    try:
        return read(Certificate, data, source=str(path)), data["rows"]
    except ConfigError as error:
        raise CorruptError(
            f"{path} is no certificate of this version ({shown(error.problems[0])}); export again"
        ) from error


def _config(
    contents: Contents, bundle: BundleDir, made_with: Mapping[str, str]
) -> tuple[dict[str, Any], TrainerConfig]:
    path = bundle.config
    try:
        plain = bundles.plain_yaml(contents.data[path.name], path)
        return plain, read_config(plain, source=str(path))
    except ConfigError as error:
        faults = [shown(problem) for problem in error.problems[:20]]
        known = {*versions(), *PACKAGES}
        faults += [
            f"it was made with the package {shown(name)} {shown(release)}, which is missing here"
            for name, release in made_with.items()
            if name not in known
        ]
        raise ConfigError(str(path), faults) from error


def _check_roles(bundle: BundleDir, listed: Mapping[str, str], roles: Iterable[str]) -> None:
    """Refuse programs of roles that have no weights, and roles without a program."""
    required, known = bundle.required(roles), bundle.required(roles) | bundle.optional(roles)
    if wrong := sorted((required - listed.keys()) | (listed.keys() - known)):
        raise CorruptError(
            f"{bundle.provenance} lists other files than the players of {bundle.config.name} have "
            f"({wrong[0]}); export the bundle again"
        )


def _check_size(bundle: BundleDir, config: TrainerConfig, conditions: Conditions) -> None:
    """Refuse what no machine could measure, before memory is asked for."""
    most_games = MOST_COORDINATES // (config.max_num_points * config.dimension)
    if config.max_num_points > MOST_POINTS or conditions.games > most_games:
        raise CorruptError(
            f"{bundle.root} certifies {conditions.games} games of {config.max_num_points} points, "
            f"but at most {MOST_POINTS} points and {MOST_COORDINATES} coordinates in all can be "
            "measured; export it again"
        )
    try:
        game_config(config)
    except ValueError as error:
        raise CorruptError(f"{bundle.config} is of no game: {error}; export it again") from error


def _other_params(bundle: Bundle) -> list[str]:
    lines = []
    for path, certified in bundle.certificate.params.items():
        try:
            value = value_at(bundle.config, path)
        except KeyError:
            value = "nothing"
        if value != certified:
            lines.append(f"{path}: {certified} when certified, {value} in config.yaml")
    return lines


def _tensors(content: bytes, path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load

    if int.from_bytes(content[:8], "little") > _MOST_HEADER:
        raise CorruptError(f"{path} names too many tensors for a bundle; export it again")
    try:
        tensors = load(content)
    # KeyError and TypeError: a dtype that torch does not have.
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        why = shown(str(error))
        raise CorruptError(f"{path} holds no weights ({why}); export it again") from error
    if any(tensor.dtype != torch.float32 for tensor in tensors.values()):
        raise CorruptError(f"{path} holds other numbers than float32; export it again")
    return tensors


def _players(
    bundle: BundleDir, config: TrainerConfig, tensors: Mapping[str, Tensor], device: torch.device
) -> dict[str, SavedPlayer]:
    roles = config.learning()
    own: dict[str, dict[str, Tensor]] = {role: {} for role in roles}
    for name, tensor in sorted(tensors.items()):
        role, _, layer = name.partition(".")
        if role not in roles:
            raise CorruptError(
                f"{bundle.weights} holds {name!r}, of no player of {bundle.config}; export it again"
            )
        own[role][layer] = tensor
    players = {}
    wrong = f"{bundle.weights} is not of the networks of {bundle.config}"
    for role, layers in own.items():
        # Counted before anything is built: a configuration can ask for networks of any size.
        if config.weight_layout(role).size > sum(layer.numel() for layer in layers.values()):
            raise CorruptError(f"{wrong}, which are larger; export it again")
        net = build_net(role, config, [config.seed], device)
        try:
            net.set_layers(0, layers)
        except ValueError as error:
            raise CorruptError(f"{wrong}: {shown(str(error))}") from error
        players[role] = SavedPlayer(config, config.steps, net)
    return players
