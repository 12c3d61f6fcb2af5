"""The rooms of the house depend on each other downwards only."""

import ast
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "xlvin"

# What every room may import, beside itself; and what each may.
EVERYWHERE = {"errors", "fields", "files", "storage", "observations", "binning", "randomness", "provenance"}
ALLOWED = {
    "mdp": set(),
    "executor": {"mdp"},
    "latent": set(),
    "planner": {"executor", "latent", "mdp"},
    "acting": set(),
    "agents": {"acting", "planner", "executor", "latent"},
    "envs": {"mdp"},
    "training": {"agents", "acting", "planner", "executor", "latent", "envs", "mdp"},
    "report": set(),
    "experiments": {"training", "agents", "planner", "executor", "latent", "mdp", "envs", "report"},
    "commands": {"experiments", "training", "agents", "executor", "mdp", "envs", "report", "export", "cli"},
    "sb3.py": {"agents"},
    "export.py": {"agents"},
}
# Third-party packages that belong to certain rooms only.
CONFINED = {
    "gymnasium": {"envs", "commands"},
    "ale_py": {"envs"},
    "networkx": {"mdp"},
    "matplotlib": {"report"},
    "tyro": {"commands"},
    "PIL": {"report"},
    "imageio_ffmpeg": {"report"},
    "stable_baselines3": {"sb3.py"},
    "ray": {"experiments"},
    "onnx": {"export.py"},
    "onnxruntime": {"export.py"},
    "onnxscript": {"export.py"},
}


def imports(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} uses a relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def test_rooms_import_downwards_only() -> None:
    offences = []
    for room, allowed in ALLOWED.items():
        files = [SOURCE / room] if room.endswith(".py") else list((SOURCE / room).rglob("*.py"))
        assert files, f"room {room} is gone"
        for path in files:
            for name in imports(path):
                parts = name.split(".")
                if parts[0] == "xlvin" and len(parts) > 1 and parts[1] not in allowed | EVERYWHERE | {room}:
                    offences.append(f"{path.relative_to(SOURCE)} imports {name}")
    assert not offences, offences


def test_what_every_room_may_import_imports_no_room() -> None:
    offences = []
    for module in EVERYWHERE:
        for name in imports(SOURCE / f"{module}.py"):
            parts = name.split(".")
            if parts[0] == "xlvin" and parts[1] not in EVERYWHERE:
                offences.append(f"{module}.py imports {name}")
    assert not offences, offences


def test_third_party_packages_stay_in_their_rooms() -> None:
    offences = []
    for path in SOURCE.rglob("*.py"):
        room = path.relative_to(SOURCE).parts[0]
        for name in imports(path):
            package = name.split(".")[0]
            if package in CONFINED and room not in CONFINED[package]:
                offences.append(f"{path.relative_to(SOURCE)} imports {name}")
    assert not offences, offences


def test_report_never_imports_torch() -> None:
    offenders = [
        f"{path.name} imports {name}"
        for path in (SOURCE / "report").rglob("*.py")
        for name in imports(path)
        if name.split(".")[0] == "torch"
    ]
    assert not offenders, offenders
