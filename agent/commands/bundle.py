"""`gpudiag bundle`: one file about one finding, for a ticket."""

from __future__ import annotations

import os
import time
from importlib.metadata import version
from pathlib import Path

import click
import msgspec

from gpudiag.agent import asking, files, units
from gpudiag.agent.bundling import configuration as handed_on
from gpudiag.agent.bundling import gather
from gpudiag.agent.bundling.gather import Place
from gpudiag.agent.bundling.pack import MANIFEST, Pack
from gpudiag.agent.bundling.redact import Redactor, environment_secrets
from gpudiag.agent.commands import options
from gpudiag.agent.doctor.examine import examine_here
from gpudiag.agent.state import state_folder
from gpudiag.probes.errors import UsageError

LOOK_SECONDS = 6.0
DEADLINE_SECONDS = 20.0


@click.command()
@click.argument("finding")
@click.option(
    "-o", "--out", required=True, type=click.Path(path_type=Path), help="A .tar.gz, written anew."
)
@options.agent
@click.option(
    "--state", type=click.Path(path_type=Path), help="Its state; else as the agent has it."
)
@click.option("--config", "path", type=click.Path(path_type=Path), envvar="GPUDIAG_CONFIG")
@click.option("--max-size", default="64MiB", show_default=True, help="Of all files, unpacked.")
def command(
    finding: str, out: Path, url: str, state: Path | None, path: Path | None, max_size: str
) -> None:
    """Gather what a ticket about FINDING needs: an id that `gpudiag findings` lists.

    The finding, a draft incident, the recording, decisions, snapshots' names, what doctor sees now,
    the configuration. Secrets, option values and addresses' paths are taken out; what is missing
    is listed with the reason. It works without a running agent, from its state folder.
    Example: gpudiag bundle 'gpu-xid{uuid=GPU-1}' -o ticket.tar.gz
    """
    if not out.name.endswith(".tar.gz"):
        raise UsageError(f"{out} must end in .tar.gz")
    text = files.text(path, "the configuration") if path else ""
    told = [*handed_on.secrets_in(text), *environment_secrets(os.environ)]
    redactor = Redactor(told)
    folder = state or state_folder(os.environ, os.getuid())
    place = Place(folder, time.time(), redactor, lambda what: asking.listed(url, what))
    known, why = gather.found(place, finding)
    if known is None:
        raise UsageError(f"no finding {finding!r} is known: `gpudiag findings` lists ids. {why}")
    pack = Pack(units.size(max_size))
    if why:
        pack.missing["agent"] = why
    gather.gather(pack, place, known)
    _configuration(pack, text, redactor)
    pack.trying("doctor.json", lambda: _doctor(pack, path, redactor))
    about = {"gpudiag": version("gpudiag"), "made_at": place.now, "finding": known.id}
    pack.write(out, {key: redactor.plain(value) for key, value in about.items()})
    _tell(pack, out)


def _configuration(pack: Pack, text: str, redactor: Redactor) -> None:
    if text:
        pack.put("config.yaml", handed_on.redacted(text, redactor).encode())
    else:
        pack.missing["config.yaml"] = "none was named: --config or GPUDIAG_CONFIG"


def _doctor(pack: Pack, path: Path | None, redactor: Redactor) -> None:
    seen = examine_here(path, seconds=LOOK_SECONDS, deadline=DEADLINE_SECONDS)
    plain = msgspec.json.decode(msgspec.json.encode(seen.to_json()))
    pack.plain("doctor.json", redactor.plain(plain))


def _tell(pack: Pack, out: Path) -> None:
    click.echo(f"{out}: {MANIFEST}, {', '.join(sorted(pack.files))}")
    for name, why in sorted(pack.missing.items()):
        click.echo(f"missing {name}: {why}")
    click.echo("Secrets that look like none stay: read it before you hand it on.")
