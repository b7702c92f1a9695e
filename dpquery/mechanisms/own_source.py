"""A law or an accountant of one's own from its source: loaded from the very bytes whose digest an audit names."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import json
import platform
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from importlib.abc import SourceLoader
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, cast

from dpquery.errors import InvalidLossError
from dpquery.mechanisms.own_claims import CURRENCIES, OwnLaw

if TYPE_CHECKING:
    from dpquery.mechanisms.own_composition import OwnAccounting

METHODS = ("sample", "log_chance", "tail")


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A law, and what it was made from.

    Attributes:
        name: MODULE:NAME.
        digest: SHA-256 over the module's source and the versions of all that it imports.
        law: The law.
    """

    name: str
    digest: str
    law: OwnLaw


def load(name: str) -> Loaded:
    """Returns the law MODULE:NAME, an object or a class without arguments, from the module's source as it is now.

    The module is one file, which may import the standard library and installed packages: what else it ran on would be
    in no digest. It runs anew, so an older import of it does not count.

    Raises:
        InvalidLossError: There is no such law, or it lacks what a law has.
    """
    digest, law = _object(name)
    missing = [method for method in METHODS if not callable(getattr(law, method, None))]
    if missing or getattr(law, "currency", None) not in CURRENCIES or not str(getattr(law, "proof", "")).strip():
        raise InvalidLossError(
            f"{name} is not a law: it needs sample, log_chance, tail, a proof, and a currency, epsilon or rho"
        )
    return Loaded(name=name, digest=digest, law=cast(OwnLaw, law))


def load_accountant(name: str) -> tuple[str, OwnAccounting]:
    """Returns the digest of an accountant MODULE:NAME, and the accountant, loaded as `load` loads a law.

    Raises:
        InvalidLossError: There is no such accountant, or it lacks what an accountant has.
    """
    digest, accountant = _object(name)
    if not callable(getattr(accountant, "epsilon", None)) or not str(getattr(accountant, "proof", "")).strip():
        raise InvalidLossError(f"{name} is not an accountant: it needs epsilon(losses, delta), and a proof")
    return digest, cast("OwnAccounting", accountant)


def is_accountant(name: str) -> bool:
    """Whether MODULE:NAME composes losses, and is no law of noise; raises InvalidLossError where nothing is there."""
    found = _object(name)[1]
    return hasattr(found, "epsilon") and not hasattr(found, "sample")


def _object(name: str) -> tuple[str, object]:
    """Returns the digest of MODULE:NAME, and the object, made where it is a class."""
    module, _, attribute = name.partition(":")
    source = _source(module, name)
    digest = _digest(source, module)
    found = getattr(_run(source, f"own_law_{digest[:16]}", module), attribute, None)
    if found is None:
        raise InvalidLossError(f"{module} has no {attribute!r}", advice="Write MODULE:NAME.")
    return digest, found() if isinstance(found, type) else found


def _source(module: str, name: str) -> bytes:
    try:
        spec = importlib.util.find_spec(module) if module and not module.startswith(".") else None
    except (ImportError, ValueError):
        spec = None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        raise InvalidLossError(f"there is no module {module!r} of Python source", advice=f"Not found for {name!r}.")
    return Path(spec.origin).read_bytes()


def _digest(source: bytes, module: str) -> str:
    """Returns the digest of source, and of the versions of Python and of the packages that it imports."""
    versions = {"python": platform.python_version(), "dpquery": metadata.version("dpquery")}
    for top in sorted(set(_imported(source, module)) - {"dpquery", "__future__"}):
        versions |= _version_of(top, module)
    return hashlib.sha256(json.dumps(versions, sort_keys=True).encode() + b"\0" + source).hexdigest()


def _version_of(top: str, module: str) -> dict[str, str]:
    """Returns the versions of what an import names: installed packages; nothing for the standard library."""
    spec = None if top == "." else importlib.util.find_spec(top)
    origin = "" if spec is None else spec.origin or ""
    if top in sys.stdlib_module_names:
        if origin in ("built-in", "frozen") or Path(origin).is_relative_to(sysconfig.get_path("stdlib")):
            return {}
    elif origin and any(_holds(each, origin) for each in _distributions().get(top, [])):
        return {each: metadata.version(each) for each in _distributions()[top]}
    raise InvalidLossError(
        f"{module} imports {top}, which is not an installed package, so that no audit would cover it",
        advice="Write the law in one file.",
    )


def _holds(distribution: str, origin: str) -> bool:
    return Path(origin).is_relative_to(str(metadata.distribution(distribution).locate_file("")))


@cache
def _distributions() -> Mapping[str, list[str]]:
    return metadata.packages_distributions()


def _imported(source: bytes, module: str) -> Iterator[str]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        raise InvalidLossError(f"{module} is not Python source") from None
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." if node.level else (node.module or "").partition(".")[0]


class _Bytes(SourceLoader):
    """Imports a module from bytes, past compiled files that may be of other ones."""

    def __init__(self, place: str, source: bytes) -> None:
        self._place, self._source = place, source

    def get_filename(self, fullname: str) -> str:
        return self._place

    def get_data(self, path: str | bytes) -> bytes:
        if path != self._place:
            raise OSError("no compiled file is read")
        return self._source


def _run(source: bytes, name: str, module: str) -> ModuleType:
    spec = importlib.util.spec_from_loader(name, _Bytes(f"<{module}>", source))
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[name] = made  # dataclasses look for it
    try:
        spec.loader.exec_module(made)
    except Exception as error:
        raise InvalidLossError(f"{module} cannot be run ({type(error).__name__}: {error})") from error
    return made
