"""What starts without PyTorch: counted in modules that are loaded, since seconds depend on the machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import colonnade
from colonnade.federation.certificates import make_keys

CLI = Path(colonnade.__file__).parent / "cli"
SLOW = {"torch", "numpy", "sklearn", "grpc", "pyarrow", "scipy"}
VERBS = sorted(path.stem.removesuffix("_command") for path in CLI.glob("*_command.py"))
NAMED = {"audit": "audit-log", "federation": "party", "privacy": "audit"}  # the other verbs are named like their files


def loaded_by(*words: str, cwd: Path) -> tuple[int, set[str]]:
    """The command's exit code, and which packages it had loaded at its end."""
    script = (
        "import sys\n"
        "from colonnade.cli import main\n"
        "try:\n    main()\n"
        "finally:\n    print('loaded', *{name.split('.')[0] for name in sys.modules})"
    )
    command = [sys.executable, "-c", script, *words]
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, set(done.stdout.splitlines()[-1].split()[1:])


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("start") / "keys"
    make_keys(folder, ["owner.example"], ["shop"])
    return folder


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--help"], 0),
        (["--version"], 0),
        (["keys", "more", "--owner", "owner.example", "bank"], 0),
        (["keys", "revoke", "keys", "shop"], 0),
        (["status", "."], 2),
        (["audit-log", "verify", "log"], 1),
        (["train"], 2),
    ],
)
def test_these_need_no_torch(words: list[str], code: int, keys: Path) -> None:
    (keys.parent / "log").write_text("{}\n")
    done, loaded = loaded_by(*words, cwd=keys.parent)
    assert done == code and not loaded & SLOW


@pytest.mark.parametrize("verb", VERBS)
def test_no_verb_needs_torch_to_explain_itself(verb: str, tmp_path: Path) -> None:
    done, loaded = loaded_by(NAMED.get(verb, verb), "--help", cwd=tmp_path)
    assert done == 0 and not loaded & SLOW


def test_a_report_needs_torch(tmp_path: Path) -> None:
    """The control: such a process is seen to load it. What messages show stands in the methods, which compute."""
    done, loaded = loaded_by("report", "nothing", cwd=tmp_path)
    assert done == 2 and "torch" in loaded


def test_the_package_loads_its_names_when_they_are_used() -> None:
    script = (
        "import sys, colonnade as cn\n"
        "assert cn.__version__ and not hasattr(cn, '_nothing') and 'torch' not in sys.modules\n"
        "import colonnade.methods.vafl\n"
        "assert 'torch' in sys.modules and 'colonnade.surface' not in sys.modules\n"
        "assert cn.methods()['vafl'] is cn.VAFL and 'colonnade.surface' in sys.modules\n"
        "from colonnade import *\n"
        "assert train is cn.train and Table is cn.Table and dir(cn) == sorted(cn.__all__)\n"
        "try:\n    cn.trian\nexcept AttributeError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "module 'colonnade' has no attribute 'trian'"
