"""The price table in force: the one in the package, or a newer one that `corral prices refresh` has made."""

from __future__ import annotations

import os

import msgspec
from msgspec import Struct

from corral.model.prices import PriceTable
from corral.prices import TABLE
from corral.system.places import data_dir

_NAME = "prices.json"
_SCHEMA = 1
_MOST_BYTES = 1 << 24


class ReadTable(Struct, frozen=True, kw_only=True):
    """A table, the file it is from, and why the person's own table was passed over, if it was."""

    table: PriceTable
    path: str
    problem: str | None = None


def read_price_table() -> ReadTable:
    """The newer of the two tables; the package's, if the other is not there or can't be used."""
    with open(TABLE, "rb") as file:
        shipped = msgspec.json.decode(file.read(), type=PriceTable)
    path = refreshed_path()
    try:
        with open(path, "rb") as file:
            refreshed = parse_table(file.read(_MOST_BYTES))
    except FileNotFoundError:
        return ReadTable(table=shipped, path=TABLE)
    except (OSError, ValueError) as error:
        return ReadTable(table=shipped, path=TABLE, problem=f"{path}: {error}")
    if refreshed.dated < shipped.dated:
        return ReadTable(table=shipped, path=TABLE)
    return ReadTable(table=refreshed, path=path)


def refreshed_path() -> str:
    """Where a refreshed table lies, whether it exists or not."""
    return os.path.join(data_dir(), _NAME)


def parse_table(data: bytes) -> PriceTable:
    """Raises ValueError for anything but a whole table of this schema."""
    table = msgspec.json.decode(data, type=PriceTable)
    if table.schema != _SCHEMA:
        raise ValueError(f"schema {table.schema} is unknown")
    return table


def write_price_table(text: str) -> PriceTable:
    """Keep a refreshed table, readable by its owner alone. Raises OSError, or ValueError if it is no table."""
    from corral.sidecar.atomic import Directory, replace

    data = text.encode()
    table = parse_table(data)
    os.makedirs(data_dir(), mode=0o700, exist_ok=True)
    with Directory(data_dir()) as directory:
        replace(directory, _NAME, data, None)
    return table
