"""Environments of the user's own: their names say which module or file to import, for it registers them.

my_package.envs:Maze-v0      a module, also of the current folder
envs/my_maze.py:Maze-v0      a file
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
import sysconfig
import traceback
from pathlib import Path

import gymnasium

from xlvin.errors import XLVINError, unknown

# Whose files are not the user's: Python's, installed packages', ours.
LIBRARIES = (
    *(Path(sysconfig.get_paths()[name]) for name in ("stdlib", "purelib", "platlib")),
    Path(__file__).parents[1],
)
# What each source has registered: it is executed once, and another may since have taken a name of its.
_ADDED: dict[str, dict[str, gymnasium.envs.registration.EnvSpec]] = {}


def import_source(name: str) -> str:
    """Import what stands before the colon of an environment's name; returns what follows it."""
    source, colon, registered = name.rpartition(":")
    if not colon:
        return name
    if not source or not registered:
        raise XLVINError(f'"{name}" names no environment; write it like "my_env.py:Name-v0".')
    before = dict(gymnasium.registry)
    is_file = source.endswith(".py")
    try:
        if is_file:
            _import_file(Path(source), registered)
        else:
            _import_module(source)
    except XLVINError:
        raise
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and error.name == source.partition(".")[0]:
            hint = f'is it a file? Write "{source}.py:{registered}"'
            raise XLVINError(f'There is no environment "{name}", as no module {source}; {hint}.') from error
        reason = f"SyntaxError: {error}" if isinstance(error, SyntaxError) else f"{error!r}{place(error)}"
        raise XLVINError(f"{source} could not be imported: {reason}.") from error
    added = {id_: spec for id_, spec in gymnasium.registry.items() if spec is not before.get(id_)}
    own = _ADDED.setdefault(str(Path(source).resolve()) if is_file else source, {})
    own.update(added)
    gymnasium.registry.update(own)
    if registered not in gymnasium.registry:
        if not added:
            raise XLVINError(f'{source} registers no "{registered}"; call gymnasium.register in it.')
        raise unknown(f"environment in {source} named", registered, sorted(added))
    return registered


def source_file(name: str) -> Path | None:
    """The file that registers an environment, if its name says one."""
    source, _, _ = name.rpartition(":")
    return Path(source).resolve() if source.endswith(".py") else None


def with_source(name: str, source: str | None) -> str:
    """The name with another file before the colon, if its own is not there and the other is."""
    own = source_file(name)
    if own is None or own.is_file() or source is None or not Path(source).is_file():
        return name
    return f"{source}:{name.rpartition(':')[2]}"


def place(error: BaseException) -> str:
    """Where in the user's own files an error arose, as " (corridor.py, line 37)"; "" if in none of them."""
    lines = [
        f" ({path.name}, line {frame.lineno})"
        for frame in traceback.extract_tb(error.__traceback__)
        if (path := Path(frame.filename)).is_file()
        and not any(path.is_relative_to(library) for library in LIBRARIES)
    ]
    return lines[-1] if lines else ""


def _import_module(source: str) -> None:
    here = str(Path.cwd())
    if here not in sys.path:  # an installed `xlvin` does not look there by itself
        sys.path.append(here)
    importlib.invalidate_caches()
    importlib.import_module(source)


def _import_file(path: Path, registered: str) -> None:
    """Execute a file once per process, with its own folder to import from."""
    if not path.is_file():
        raise XLVINError(f"There is no file {path} to register {registered}; check its path.")
    resolved = path.resolve()
    if str(resolved.parent) not in sys.path:
        sys.path.append(str(resolved.parent))
    importlib.invalidate_caches()
    name = resolved.stem
    found = importlib.util.find_spec(name) if "." not in name else None
    if found is not None and found.origin == str(resolved):
        importlib.import_module(name)
        return
    # Another module has this name: the file gets one that nobody else can have.
    name = f"xlvin_user_{hashlib.sha256(str(resolved).encode()).hexdigest()[:16]}"
    if name not in sys.modules:
        _execute(name, resolved)


def _execute(name: str, path: Path) -> None:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
