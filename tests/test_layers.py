"""The shape of the package: imports point downwards, files and functions stay small, the surface is documented."""

from __future__ import annotations

import ast
import inspect
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

import colonnade
from colonnade.core.settings import USUAL, TrainOptions

SOURCE = Path(colonnade.__file__).parent
ARCHITECTURE = Path(__file__).parents[1] / "ARCHITECTURE.md"


def layers() -> list[list[str]]:
    """The folders of the table in ARCHITECTURE.md, row by row: what a reader is told is what is checked."""
    section = ARCHITECTURE.read_text().partition("## The order of folders")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return [re.findall(r"`(\w+)`", row) for row in rows]


def inner_layers(folder: str) -> dict[str, int]:
    """The rows of the table about one folder's own modules: each module's row by the module's name below the folder."""
    section = ARCHITECTURE.read_text().partition(f"### Inside {folder}/")[2].partition("\n#")[0]
    rows = [re.findall(r"`([\w/]+)`", line) for line in section.splitlines() if line.startswith("| `")]
    return {name.replace("/", "."): rank for rank, names in enumerate(rows) for name in names}


RANK = {name: rank for rank, names in enumerate(layers()) for name in names}
EDGE = {"cli", "__main__"}  # stands above the package, so may use its surface
# Thin methods of Run that call what stands above it; the import is inside the function.
EXCEPTIONS = {("training.py", "report"): "report", ("training.py", "study"): "summarise"}
FILES = sorted(SOURCE.rglob("*.py"))


def name_of(path: Path) -> str:
    """The module or package right below ``colonnade`` that a file belongs to."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[tuple[ast.stmt, str]]:
    """Every import of the package's own modules, wherever it stands, as dotted names below ``colonnade``."""
    package = ["colonnade", *path.relative_to(SOURCE).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            modules = [f"{module}.{alias.name}" for alias in node.names]
        else:
            continue
        for module in modules:
            if module.split(".")[0] == "colonnade":
                yield node, module.removeprefix("colonnade").removeprefix(".")


def modules() -> list[Path]:
    return [path for path in FILES if path != SOURCE / "__init__.py"]


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_downwards(path: Path) -> None:
    own = name_of(path)
    assert own in RANK, f"{own} has no row in the table of ARCHITECTURE.md; give it one"
    for _, module in imports(path):
        other = module.split(".")[0]
        if other == own or (path.name, other) in EXCEPTIONS or (own in EDGE and other not in RANK):
            continue
        assert other in RANK, f"{path.name} imports colonnade.{other}; import the module that defines it"
        assert RANK[other] < RANK[own], f"{own} imports {other}, which is not below it"


@pytest.mark.parametrize("folder", ["seal", "runtime", "federation"])
def test_imports_inside_a_folder_point_downwards(folder: str) -> None:
    rank = inner_layers(folder)
    paths = {path for path in (SOURCE / folder).rglob("*.py") if path.name != "__init__.py"}
    names = {".".join(path.relative_to(SOURCE / folder).with_suffix("").parts): path for path in paths}
    assert names.keys() == rank.keys(), "the table in ARCHITECTURE.md lists exactly the modules that there are"
    for name, path in names.items():
        own = [module.removeprefix(f"{folder}.") for _, module in imports(path) if module.startswith(f"{folder}.")]
        used = {other for module in own for other in names if module == other or module.startswith(f"{other}.")}
        assert all(rank[other] < rank[name] for other in used), f"{folder}/{name} imports {used}"


@pytest.mark.parametrize(("above", "method"), [(above, method) for (_, above), method in EXCEPTIONS.items()])
def test_an_exception_is_inside_its_function(above: str, method: str) -> None:
    tree = ast.parse((SOURCE / "run" / "training.py").read_text())
    (run,) = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Run"]
    (function,) = [node for node in run.body if isinstance(node, ast.FunctionDef) and node.name == method]
    inside = {node.lineno for node in ast.walk(function) if isinstance(node, ast.ImportFrom)}
    lines = {node.lineno for node, module in imports(SOURCE / "run" / "training.py") if module.split(".")[0] == above}
    assert lines == inside and len(lines) == 1


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_what_is_slow_to_import_is_imported_where_it_is_used(path: Path) -> None:
    """A command must not wait two seconds for a package that it does not use."""
    slow = {"sklearn", "scipy", "pandas", "pyarrow", "duckdb", "ray", "mlflow", "tensorboard"}
    slow |= {"xgboost", "lightgbm", "skops"}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            assert not slow & {name.split(".")[0] for name in names}, f"line {node.lineno}"


def test_methods_and_runtimes_do_not_know_each_other() -> None:
    for path in modules():
        others = {module.split(".")[0] for _, module in imports(path)}
        if name_of(path) == "methods":
            assert not others & {"runtime", "wire", "run", "seal"}, path
        if name_of(path) == "runtime":
            assert "methods" not in others, path


def test_no_method_knows_another() -> None:
    """What methods share lies in files of its own; a method's file is imported by nobody but the package."""
    files = {path.stem: path for path in (SOURCE / "methods").glob("*.py") if path.name != "__init__.py"}
    shared = {name for name, path in files.items() if "@register" not in path.read_text()}
    assert {"steps", "heads"} <= shared < files.keys()
    for name, path in files.items():
        siblings = {module.split(".")[1] for _, module in imports(path) if module.startswith("methods.")}
        assert siblings <= shared - {name}, f"{path.name} imports {siblings - shared}"


def test_the_imports_are_found() -> None:
    """The checks above are worth something only if ``imports`` sees what is there."""
    found = {module.split(".")[0] for _, module in imports(SOURCE / "run" / "training.py")}
    assert {"core", "runtime", "tables", "report"} <= found
    assert {"models", "core.optim"} <= {module for _, module in imports(SOURCE / "run" / "train.py")}


def test_the_tests_have_the_folders_of_the_source() -> None:
    """Who looks for the tests of a folder finds them under its name; attacks and pages have folders of their own."""
    tests = Path(__file__).parent
    folders = {path.name for path in tests.iterdir() if path.is_dir() and path.name != "__pycache__"}
    source = {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders - source == {"attacks", "docs"}
    assert source - folders <= {"disk"}, "what is below all others is tested with what uses it"
    assert [path.name for path in tests.glob("test_*.py")] == ["test_layers.py"]


# Size


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def lines_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from ``def`` to the end, without the docstring."""
    first = function.body[0]
    is_doc = (
        isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    )
    documentation = first.end_lineno - first.lineno + 1 if is_doc and first.end_lineno else 0
    return (function.end_lineno or 0) - function.lineno + 1 - documentation


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_files_and_functions_stay_small(path: Path) -> None:
    lines = len(path.read_text().splitlines())
    assert lines <= (180 if name_of(path) == "methods" else 400), f"{path} has {lines} lines"
    for function in functions(path):
        assert lines_of(function) <= 60, f"{path}: {function.name} has {lines_of(function)} lines"


# Parameters and inheritance

MOST_PARAMETERS = 7
# Verbs of the command line have an argument for each of their flags; these functions are the public API.
PUBLIC = [
    "align",
    "audit",
    "describe",
    "distil",
    "load",
    "prepare",
    "read",
    "resume",
    "score",
    "select",
    "split",
    "sweep",
    "train",
]
HOOKS = {
    "Attack": "an attack on a part of a secret says which part it is judged by",
    "Method": "a method replaces what it does otherwise than most",
    "SplitNetworks": "a method whose parties never learn declares no gradients",
    "SeveralOwners": "what methods of several owners share is a method without a round",
    "Task": "a task replaces what differs from plain outputs",
    "Mine": "a stacked group gives a shared message a party axis",
    "Codec": "few bits cut values off, and other codes do not",
    "FedAdam": "FedYogi is FedAdam with another second moment, as the paper writes it",
}
"""Classes with methods that may be overridden, each with the reason; all others are abstract or final."""


def classes() -> dict[str, tuple[Path, ast.ClassDef]]:
    found = [(path, node) for path in FILES for node in ast.walk(ast.parse(path.read_text()))]
    return {node.name: (path, node) for path, node in found if isinstance(node, ast.ClassDef)}


def bases(node: ast.ClassDef) -> list[str]:
    names = [base.value if isinstance(base, ast.Subscript) else base for base in node.bases]
    return [name.attr if isinstance(name, ast.Attribute) else getattr(name, "id", "") for name in names]


def implemented(node: ast.ClassDef) -> set[str]:
    """The names of methods with a body of their own; a protocol's have none."""
    if "Protocol" in bases(node):
        return set()
    plain = [part for part in node.body if isinstance(part, ast.FunctionDef) and not part.name.startswith("__")]
    return {part.name for part in plain if "abstractmethod" not in map(ast.unparse, part.decorator_list)}


def test_classes_are_abstract_or_final() -> None:
    """No method that a class implements is overridden below it, outside a short list with reasons."""
    known, overridden = classes(), set()
    for name, (_, node) in known.items():
        ancestors = [base for base in bases(node) if base in known and base != name]
        while ancestors:
            base = ancestors.pop()
            ancestors += [more for more in bases(known[base][1]) if more in known and more != base]
            if base not in HOOKS and implemented(known[base][1]) & implemented(node):
                overridden.add(f"{name} overrides {implemented(known[base][1]) & implemented(node)} of {base}")
    assert overridden == set()
    assert HOOKS.keys() <= known.keys()


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_functions_have_few_parameters(path: Path) -> None:
    for function in functions(path):
        names = [one.arg for one in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]
        count = len([name for name in names if name not in ("self", "cls")])
        public = function.name in PUBLIC or name_of(path) == "cli"
        assert count <= MOST_PARAMETERS or public, f"{function.name} has {count} parameters"


# Options of training


def test_train_lists_the_options_that_are_declared() -> None:
    """``cn.train`` names them for its users; what it says must be what job files, sweeps and plans read."""
    listed = inspect.signature(colonnade.train).parameters
    for option in fields(TrainOptions):
        assert listed[option.name].default == USUAL.get(option.name, option.default), option.name


# The public surface


def test_what_is_reachable_is_what_is_listed() -> None:
    """No internal name leaks from the package, and no function of the surface is hidden by a folder of its name."""
    listed = set(colonnade.__all__)  # asking for it loads the names
    public = {name for name, thing in vars(colonnade).items() if not name.startswith("_") and not is_module(thing)}
    assert public | {"__version__"} == listed
    assert dir(colonnade) == sorted(colonnade.__all__)


def is_module(thing: object) -> bool:
    return inspect.ismodule(thing) and thing.__name__.startswith("colonnade.")


def test_no_folder_or_file_has_the_name_of_a_public_function() -> None:
    names = {name_of(path) for path in modules()}
    assert names & set(colonnade.__all__) <= {"methods"}  # the folder of the methods; cn.methods() lists them
    assert inspect.isfunction(colonnade.methods)


def test_no_module_and_no_class_has_a_name_twice() -> None:
    stems = Counter(path.stem for path in FILES if path.name != "__init__.py")
    stems.update(path.name for path in SOURCE.rglob("*") if path.is_dir() and path.name != "__pycache__")
    assert {name for name, count in stems.items() if count > 1} == set()
    classes = Counter(
        node.name for path in FILES for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef)
    )
    # FLARE's operators allow colonnade.flare.owner.Owner by its path; cn.Owner is what a method sees.
    assert {name for name, count in classes.items() if count > 1} == {"Owner"}


def test_the_surface_is_sorted_and_complete() -> None:
    assert len(set(colonnade.__all__)) == len(colonnade.__all__)
    assert [name for name in colonnade.__all__ if not hasattr(colonnade, name)] == []
    settled = {"Table", "datasets", "load", "methods", "resume", "split", "train", "Run", "Method", "ColonnadeError"}
    assert settled <= set(colonnade.__all__)
    registered = {cls.__name__ for cls in colonnade.methods().values() if cls.__module__.startswith("colonnade.")}
    assert registered <= set(colonnade.__all__)


@pytest.mark.parametrize("name", sorted(colonnade.__all__))
def test_everything_public_is_documented(name: str) -> None:
    thing = getattr(colonnade, name)
    assert (inspect.getdoc(thing) or "").strip(), f"{name} has no docstring"
    if inspect.isclass(thing):
        assert thing.__doc__ and not thing.__doc__.startswith(f"{name}("), f"{name} has only what dataclass wrote"
        for member, value in vars(thing).items():
            if not member.startswith("_") and (inspect.isfunction(value) or isinstance(value, property)):
                assert inspect.getdoc(value), f"{name}.{member} has no docstring"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_every_module_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text())), f"{path} has no docstring"


def test_every_method_describes_itself() -> None:
    for name, cls in colonnade.methods().items():
        if not cls.__module__.startswith("colonnade."):
            continue
        assert cls.name == name
        assert cls.summary and cls.party_sends and cls.owner_sends
        steps = cls.steps() | cls.owner_steps()
        assert steps, f"{name} has no steps"
        assert cls.steps() or cls.party_sends == "nothing", f"{name} has no party steps"
        assert all(step.__doc__ for step in steps.values()), name
