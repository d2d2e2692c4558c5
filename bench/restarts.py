"""A server killed again and again with many tabs: does every tab come back? `python bench/restarts.py`

    python bench/restarts.py [--tabs 20] [--kills 200] [--seed 1] [--json]

Each kill is a SIGKILL at another moment, from the first instruction of the server to its first answers; every tenth
time it is started whole and each tab is compared: the same process, the same session, and no terminal that no
tab shows. It ends with an error at the first difference.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.integration.server.restarts import endure, start_tabs
from tests.integration.server.serving import Serving
from tests.integration.terminals.world import World


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tabs", type=int, default=20)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="corral-restarts-") as root:
        world = World(Path(root))
        serving = Serving(world)
        try:
            found = endure(serving, start_tabs(serving, args.tabs), args.kills, args.seed)
        finally:
            serving.kill()
            world.end()
    if args.json:
        print(json.dumps({"tabs": args.tabs, **found._asdict()}))
    else:
        print(f"{found.kills} kills with {args.tabs} tabs in {found.seconds:.0f} s, {found.looks} looks: none lost")
    return 0


if __name__ == "__main__":
    sys.exit(main())
