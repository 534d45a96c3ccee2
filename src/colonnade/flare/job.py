"""A job folder for FLARE. It holds only names: data, keys and permissions stay with each side's operator."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path

from colonnade.errors import ConfigError, FolderError
from colonnade.federation.extended_job import job_terms
from colonnade.federation.side_sections import OwnerFile
from colonnade.federation.terms import digest


def check_installed() -> None:
    """Refuse to go on without nvflare, and say what to install."""
    if find_spec("nvflare") is None:
        raise ConfigError("nvflare is not installed; install it with: pip install 'colonnade[flare]'.")


def export(job_file: OwnerFile, folder: Path) -> Path:
    """Write the job's folder into ``folder``, and give its path; the sites are those of the parties' names."""
    check_installed()
    from nvflare.apis.utils.format_check import name_check
    from nvflare.job_config.api import FedJob

    from colonnade.flare.owner import Owner
    from colonnade.flare.site import Site

    name, sites = job_file.job.name, list(job_file.others)
    for what, kind, used_name in (("job", "job_name", name), *(("site", "client", site) for site in sites)):
        if name_check(used_name, kind)[0]:
            raise ConfigError(f"FLARE takes no {what} of the name '{used_name}'; use letters, digits and '-'.")
    place = folder / name
    if place.exists() and not (place / "meta.json").is_file():
        raise FolderError(f"{place} is there and is no job of FLARE's; choose another folder.")
    shutil.rmtree(place, ignore_errors=True)
    job = FedJob(name=name, min_clients=len(sites), mandatory_clients=sites)
    job.set_app_packages(["colonnade"])  # installed at every side, and not sent along
    job.to_server(Owner(job_name=name, job_terms=digest(job_terms(job_file)).hex()), id="owner")
    for site in sites:
        job.to(Site(), site, tasks=["*"])
    job.export_job(str(folder))
    return place
