"""`corral sql`: read-only queries over what was spent."""

from __future__ import annotations

import argparse
import itertools
from typing import TYPE_CHECKING

from corral.cli.command import JSON, Command
from corral.cli.output import print_csv, print_json, print_lines, progress_bar, tell
from corral.cli.screen import cells, paint, table, terminal_width, use_colour
from corral.errors import CorralError
from corral.machine.text import printable
from corral.usage import ask_sql, list_views, update_ledger

if TYPE_CHECKING:
    from corral.usage import Answer

_HELP = """\
Query the ledger in SQL, read-only, over documented views (docs/sql.md).

examples:
  corral sql "SELECT day, sum(cost_usd) FROM usage_events GROUP BY day"
  corral sql "SELECT tool, count(*) FROM tool_calls GROUP BY 1 ORDER BY 2 DESC"
  corral sql --csv "SELECT * FROM usage_sessions" > sessions.csv
  corral sql --schema                  list views and columns

It takes one SELECT, in SQLite's language, and changes nothing.

exit codes: 0 ok · 1 the ledger can't be read, or the time is up · 2 usage, also
            a query that can't be run"""
_SCHEMA = 1
_MOST_ROWS = 1_000_000
_MOST_IN_TABLE = 1000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("query", nargs="?", metavar="SELECT", help="one SELECT, in quotes")
    parser.add_argument("--schema", action="store_true", help="list the views and their columns")
    parser.add_argument("--stale", action="store_true", help="don't read the logs first")
    parser.add_argument("--timeout", metavar="S", type=float, default=10.0, help="seconds it may take (default: 10)")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help=JSON)
    shape.add_argument("--csv", action="store_true", help="print CSV")


def run(args: argparse.Namespace) -> int:
    if args.schema:
        _print_schema(args.json)
        return 0
    if not args.query or not args.query.strip():
        hint = [
            'corral sql "SELECT day, sum(tokens) FROM usage_events GROUP BY day"',
            "corral sql --schema lists views",
        ]
        raise CorralError("no query was given", hint=hint, exit_code=2)
    if not 0 < args.timeout <= 3600:
        raise CorralError("--timeout is in seconds, more than 0 and at most 3600", exit_code=2)
    if not args.stale and (notice := update_ledger(progress_bar())):
        tell(notice)
    with ask_sql(args.query, args.timeout, tell) as answer:
        for loss in answer.losses:
            tell(loss.say())
        if args.csv:
            _print_csv(answer)
        elif args.json:
            rows = _take(answer, _MOST_ROWS)
            print_json(
                {
                    "schema": _SCHEMA,
                    "columns": answer.columns,
                    "losses": answer.losses,
                    "rows": [dict(zip(answer.columns, map(_plain, row), strict=True)) for row in rows],
                }
            )
        else:
            _print_table(answer)
    return 0


def _take(answer: Answer, most: int) -> list[tuple[object, ...]]:
    rows = list(itertools.islice(answer.rows, most + 1))
    if len(rows) > most:
        raise CorralError(f"that is more than {most:,} rows", hint="--csv has no such limit, or use LIMIT")
    return rows


def _print_csv(answer: Answer) -> None:
    rows = (["" if value is None else _plain(value) for value in row] for row in answer.rows)
    print_csv(itertools.chain([answer.columns], rows))


def _print_table(answer: Answer) -> None:
    rows = list(itertools.islice(answer.rows, _MOST_IN_TABLE + 1))
    columns = range(len(answer.columns))
    shown = [[_say(value) for value in row] for row in rows[:_MOST_IN_TABLE]]
    whole = [[printable(name) for name in answer.columns], *shown]
    for column in columns:
        if rows and all(row[column] is None or isinstance(row[column], int | float) for row in rows):
            size = max(cells(line[column]) for line in whole)
            for line in whole:
                line[column] = line[column].rjust(size)
    lines = table(whole, gives_way=tuple(reversed(columns)), width=terminal_width())
    print_lines([paint(lines[0], "grey", use_colour()), *lines[1:]])
    if len(rows) > _MOST_IN_TABLE:
        tell(f"only the first {_MOST_IN_TABLE:,} rows are shown; --csv and --json give all")


def _say(value: object) -> str:
    match value:
        case None:
            return "–"
        case float():
            return f"{value:.10g}"
        case _:
            return printable(str(_plain(value)))


def _plain(value: object) -> object:
    """Bytes are shown in hexadecimal."""
    return value.hex() if isinstance(value, bytes) else value


def _print_schema(as_json: bool) -> None:
    views = list_views()
    if as_json:
        described = [
            {"name": view.name, "meaning": view.meaning, "columns": [column._asdict() for column in view.columns]}
            for view in views
        ]
        print_json({"schema": _SCHEMA, "views": described})
        return
    lines: list[str] = []
    for view in views:
        lines += [paint(view.name, "bold", use_colour()), f"  {view.meaning}"]
        width = max(len(column.name) for column in view.columns)
        lines += [f"    {column.name:<{width}}  {column.meaning}".rstrip() for column in view.columns]
    print_lines(lines)


COMMANDS = {"sql": Command(_HELP, add_arguments, run)}
