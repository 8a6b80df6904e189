from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

from tests.agent.analysis.memory.seam import played
from tests.allocsim.snapshot import dump

ROOT = Path(__file__).parents[1]
TOPS = [t for t in ("agent", "alerts", "dashboards", "probes", "runbooks") if (ROOT / t).is_dir()]
HEAVY = {"httpx", "jinja2", "numpy", "opentelemetry", "prometheus_client", "psutil", "uvicorn"}
HELP = f"""
import sys
from gpudiag.agent.cli import main
sys.argv = ["gpudiag", "--help"]
try:
    main()
finally:
    sys.stderr.write(" ".join({HEAVY} & set(sys.modules)))
"""
EVERY_PROBE = """
import importlib, pkgutil, sys
sys.path.insert(0, sys.argv[1])
import gpudiag.probes
for module in pkgutil.walk_packages(gpudiag.probes.__path__, "gpudiag.probes."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
ours = {n.partition(".")[0] for n in sys.modules} - {"__main__", "__mp_main__"}
print(*ours - sys.stdlib_module_names)
"""


def packaged() -> Iterator[Path]:
    """The folders that are packages, relative to the root."""
    for top in TOPS:
        for init in (ROOT / top).rglob("__init__.py"):
            yield init.parent.relative_to(ROOT)


def shipped() -> set[str]:
    """Every file that belongs into the wheel, as it is called there."""
    return {
        f"gpudiag/{folder.as_posix()}/{file.name}"
        for folder in packaged()
        for file in (ROOT / folder).iterdir()
        if file.is_file() and file.suffix not in {".pyc", ".pyi"}
    }


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy so that the tree stays clean and no other copy interferes."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for top in (*TOPS, "tests"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / top, source / top, ignore=ignored)
    done = run(
        sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation",
        "--disable-pip-version-check", "--wheel-dir", out, source,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return next(out.glob("*.whl"))


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unpacked")
    zipfile.ZipFile(wheel).extractall(folder)
    return folder


@pytest.fixture(scope="module")
def base(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`bin` of an environment with the wheel and its base dependencies alone."""
    folder = tmp_path_factory.mktemp("base")
    venv.create(folder, with_pip=False, symlinks=True)
    done = run(
        sys.executable, "-m", "pip", "--python", folder / "bin/python", "install", "--quiet",
        "--disable-pip-version-check", wheel,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder / "bin"


def test_every_folder_of_modules_is_a_listed_package() -> None:
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = {f"gpudiag.{'.'.join(folder.parts)}" for folder in packaged()}
    assert set(setuptools["packages"]) == folders


def test_the_wheel_holds_every_file_of_the_packages_and_no_other(wheel: Path) -> None:
    names = {n for n in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in n}
    assert names == shipped()
    assert "gpudiag/probes/catalog/metrics.toml" in names
    assert {"gpudiag/agent/py.typed", "gpudiag/probes/py.typed"} <= names


def test_probes_need_the_standard_library_alone(unpacked: Path) -> None:
    done = run(sys.executable, "-I", "-S", "-c", EVERY_PROBE, unpacked)
    assert done.stdout.split() == ["gpudiag"], done.stderr


def test_a_resource_reads_alike_from_the_tree_and_from_the_wheel(unpacked: Path) -> None:
    ask = "import sys; sys.path.insert(0, sys.argv[1]); from gpudiag.probes import catalog"
    ask += "; print(len(catalog.metrics()), len(catalog.symptoms()), len(catalog.xids()))"
    done = run(sys.executable, "-I", "-S", "-c", ask, unpacked)
    here = run(sys.executable, "-I", "-S", "-c", ask, ROOT / ".typing")
    assert done.stdout == here.stdout != ""


@pytest.mark.parametrize("package", ["runbooks", "probes.catalog", "agent.exporters.page"])
def test_data_folders_are_packages_so_that_resources_are_found(package: str) -> None:
    names = {entry.name for entry in files(f"gpudiag.{package}").iterdir()}
    assert "__init__.py" in names
    assert len(names - {"__init__.py", "__pycache__"}) > 0


def test_help_imports_nothing_heavy() -> None:
    done = run(sys.executable, "-c", HELP)
    assert "doctor" in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize("call", [["--help"], ["--version"], ["runbook"]])
def test_the_light_commands_work_on_the_base_alone(base: Path, call: list[str]) -> None:
    done = run(base / "gpudiag", *call)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_leak_report_needs_neither_torch_nor_the_agent(base: Path, tmp_path: Path) -> None:
    case, _ = played("growing_cat")
    files = [
        dump(plain, tmp_path / f"step{step}.pickle")
        for step, plain in zip(case.steps, case.snapshots, strict=True)
    ]
    done = run(base / "gpudiag", "leak-report", *files)
    assert (done.returncode, done.stderr) == (1, "")
    assert "llm/eval.py:44 collect keeps what it allocates" in done.stdout


def test_explain_needs_the_base_alone(base: Path, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(
        "RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed."
    )
    done = run(base / "gpudiag", "explain", tmp_path / "log")
    assert (done.returncode, done.stderr) == (1, "")
    assert "gpudiag runbook" in done.stdout


@pytest.mark.parametrize("name", ["alerts", "dashboards"])
def test_the_generated_files_come_out_of_the_base_alone(
    base: Path, tmp_path: Path, name: str
) -> None:
    done = run(base / "gpudiag", name, "export", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == [str(path) for path in sorted(tmp_path.iterdir())] != []


@pytest.mark.parametrize("name", ["agent", "doctor", "replay", "record"])
def test_a_heavy_command_says_what_to_install(base: Path, name: str) -> None:
    done = run(base / "gpudiag", name)
    assert done.returncode == 3
    assert "pip install 'gpudiag[agent]'" in done.stderr
