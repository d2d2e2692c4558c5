"""The first lines of the hook program: imports its modules from the comments at the end of this very file."""

from __future__ import annotations

import gc
import sys

# What importlib.machinery offers, without the millisecond that it takes.
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import MAGIC_NUMBER
from binascii import a2b_base64
from marshal import loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any


gc.disable()  # we are gone before it would pay


class Modules:
    """An importer. Compiled code is used by the Python that it was made for; any other compiles the sources."""

    def __init__(self, path: str) -> None:
        self.path = path
        with open(path, "rb") as file:
            _, compiled, sources = file.read().rsplit(b"\n# ", 2)
        magic, code = compiled.split()
        self.is_compiled = magic == MAGIC_NUMBER.hex().encode()
        self.modules: dict[str, bytes] = loads(a2b_base64(code) if self.is_compiled else inflate(sources))

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name not in self.modules:
            return None
        importer: Any = self
        return ModuleSpec(name, importer, origin=self.path, is_package=not self.modules[name])

    def create_module(self, spec: ModuleSpec) -> None:
        """None: an ordinary one."""

    def exec_module(self, module: ModuleType) -> None:
        data = self.modules[module.__name__]
        if data:  # a package is empty here
            code = loads(data) if self.is_compiled else compile(data, module.__name__, "exec", optimize=2)
            exec(code, module.__dict__)


def inflate(sources: bytes) -> bytes:
    from zlib import decompress

    return decompress(a2b_base64(sources))


if __name__ == "__main__":
    modules = Modules(__file__)
    sys.meta_path.insert(0, modules)

    from corral.hooks.program.main import main

    main([name for name in modules.modules if name.endswith(".reporter")])
