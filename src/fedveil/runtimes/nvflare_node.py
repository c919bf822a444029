"""The process in which NVFlare runs: `python -m fedveil.runtimes.nvflare_node DIRECTORY`, started by `nvflare.py`.

NVFlare changes the working directory and the logging of its process and ends it abruptly. And a process that has no
records in its memory can't send any.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

from nvflare.fuel.f3.mpm import MainProcessMonitor
from nvflare.private.fed.app.client import client_train
from nvflare.private.fed.app.server import server_train

from fedveil.runtimes.startup_kit import kit_arguments


def run_nvflare(kit: Path) -> int:
    """Be NVFlare's server or client of this kit until told to end."""
    role, settings = kit_arguments(kit)
    arguments = Namespace(
        workspace=str(kit), fed_server="fed_server.json", fed_client="fed_client.json", set=settings, local_rank=0
    )
    program = server_train.main if role == "server" else client_train.main
    return MainProcessMonitor.run(main_func=program, run_dir=str(kit), args=arguments) or 0


if __name__ == "__main__":
    sys.exit(run_nvflare(Path(sys.argv[1]).resolve()))
