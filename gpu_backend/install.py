"""Seeing to an adapter: what ``shadertape setup`` does on a machine that has none."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

from .adapter import install_hint

PACKAGE = "mesa-vulkan-drivers"
BACKPORTS = "bookworm-backports"


class SetupError(RuntimeError):
    """No adapter, and no way to install one; the text says what to do."""


def ensure_adapter() -> str:
    """A sentence on the adapter that is there, after installing a software adapter if there was none.

    Installs with apt, as root or through passwordless sudo. Elsewhere SetupError says what to install.
    """
    found = _adapters_in_fresh_process()
    if found:
        return f"Adapter: {found[0]}."
    apt = shutil.which("apt-get")
    prefix = [] if _is_root() else ["sudo", "-n"]
    if apt is None or (prefix and not _sudo_without_password()):
        raise SetupError(f"No adapter was found. {install_hint_for(apt is not None)}")
    environment = ["env", "DEBIAN_FRONTEND=noninteractive"]
    _run([*prefix, apt, "update"])
    suite = ["-t", BACKPORTS] if _has_suite(BACKPORTS) else []
    _run([*prefix, *environment, apt, "install", "-y", "--no-install-recommends", *suite, PACKAGE])
    found = _adapters_in_fresh_process()
    if not found:
        raise SetupError(f"{PACKAGE} is installed, but still no adapter was found; `vulkaninfo` may tell why.")
    return f"Installed {PACKAGE}. Adapter: {found[0]}."


def install_hint_for(has_apt: bool) -> str:
    """One sentence: what the user can install by hand."""
    return f"Run: sudo apt-get install {PACKAGE}" if has_apt else install_hint().replace(": run `shadertape setup`", "")


def _adapters_in_fresh_process() -> list[str]:
    """Summaries of the adapters, seen by a new process: a driver installed meanwhile is not seen by the old one."""
    program = "import json, gpu_backend; print(json.dumps([a.summary for a in gpu_backend.adapters()]))"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    if result.returncode:
        raise SetupError(f"adapters could not be listed: {' '.join(result.stderr.strip().splitlines()[-1:])}")
    summaries: list[str] = json.loads(result.stdout.splitlines()[-1])
    return summaries


def _is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def _sudo_without_password() -> bool:
    sudo = shutil.which("sudo")
    return sudo is not None and subprocess.run([sudo, "-n", "true"], capture_output=True, check=False).returncode == 0


def _has_suite(suite: str) -> bool:
    policy = subprocess.run(["apt-cache", "policy"], capture_output=True, text=True, check=False)
    return f"n={suite}" in policy.stdout or f"a={suite}" in policy.stdout or f"/{suite}" in policy.stdout


def _run(command: list[str]) -> None:
    print("+", " ".join(command), file=sys.stderr, flush=True)
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        last = (result.stderr.strip() or result.stdout.strip()).splitlines()[-1:]
        raise SetupError(f"{' '.join(command)} failed: {' '.join(last)}")
