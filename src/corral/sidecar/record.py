"""The record that runtime.json holds: its fields, its bytes, and the strict way back from bytes."""

from __future__ import annotations

from corral.sidecar.identity import ProcessIdentity
from corral.sidecar.light import NamedTuple, cast, dumps, loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMA_VERSION = 1
MAX_BYTES = 64 * 1024
MAX_PID = 4_194_304
MAX_WORK_DIR = 32_767
MAX_HOSTNAME = 255
MAX_VERSION = 256
MAX_WORD = 1 << 64
_INFINITE = float("inf")

# Alphabets instead of patterns: compiling patterns would be half of the time that importing this takes.
_LOWER = "abcdefghijklmnopqrstuvwxyz"
_WORD = _LOWER + _LOWER.upper() + "0123456789"
_VERSION_SUFFIX = "_version"


class Refusal(NamedTuple):
    """Why something was not read, written or cleared. `code` is for machines, `reason` is a sentence."""

    code: str
    reason: str


class RuntimeRecord(NamedTuple):
    """Process `pid` on `hostname` served `session_id` at `started_at`. None: the writer did not say."""

    pid: int
    session_id: str
    work_dir: str
    """For people to read; nothing is matched by it."""
    hostname: str
    started_at: float
    """Epoch seconds of the writing, not of the process start: the writer was alive then."""
    cli: str | None = None
    """The `<cli>` of the field `<cli>_version`."""
    version: str | None = None
    provider: str | None = None
    boot_id: str | None = None
    start_ticks: int | None = None
    pid_ns: int | None = None
    dir_device: int | None = None
    dir_inode: int | None = None
    """Of the session directory that it was written into: a copy of that directory has others."""
    reported_by: str | None = None
    """Who wrote it, if not the process itself: "hook"."""

    @property
    def directory_id(self) -> tuple[int, int] | None:
        """Device and inode of the session directory, or None where the writer did not say."""
        if self.dir_device is None or self.dir_inode is None:
            return None
        return self.dir_device, self.dir_inode

    @property
    def identity(self) -> ProcessIdentity | None:
        """The process identity that the writer gave, or None for a record that has only the v1 fields."""
        if self.start_ticks is None or self.pid_ns is None:
            return None
        return ProcessIdentity(self.boot_id or "", self.pid_ns, self.pid, self.start_ticks)


def is_valid_id(session_id: str) -> bool:
    """Ids are keys, not paths: a closed alphabet, no leading dash, never `.` or `..`."""
    if not 1 <= len(session_id) <= 128 or session_id[0] == "-" or session_id in (".", ".."):
        return False
    return _consists_of(session_id, _WORD + "._-")


def is_valid_cli(name: str) -> bool:
    """A name that can stand before `_version`: lower case, digits, `-` and `_`, and not the schema's own."""
    if not 1 <= len(name) <= 64 or name[0] not in _LOWER or name == "schema":
        return False
    return _consists_of(name, _LOWER + "0123456789_-")


def encode(record: RuntimeRecord) -> bytes:
    """The bytes of runtime.json."""
    lines = [f"  {_to_json(name)}: {_to_json(value)}" for name, value in fields_of(record).items()]
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode("utf-8", "surrogatepass")


def fields_of(record: RuntimeRecord) -> dict[str, object]:
    """The fields of runtime.json, by the names and in the order of the file. Those that are None are left out."""
    fields: dict[str, object] = {
        "schema_version": SCHEMA_VERSION,
        "pid": record.pid,
        "session_id": record.session_id,
        "work_dir": record.work_dir,
        "hostname": record.hostname,
        "started_at": record.started_at,
    }
    if record.cli is not None:
        fields[record.cli.replace("-", "_") + _VERSION_SUFFIX] = record.version
    additions = {
        "provider": record.provider,
        "boot_id": record.boot_id,
        "start_ticks": record.start_ticks,
        "pid_ns": record.pid_ns,
        "dir_device": record.dir_device,
        "dir_inode": record.dir_inode,
        "reported_by": record.reported_by,
    }
    fields.update({name: value for name, value in additions.items() if value is not None})
    return fields


def parse(data: bytes) -> RuntimeRecord | Refusal:
    """The record in these bytes, or a named refusal. Nothing is coerced and nothing is raised."""
    if len(data) > MAX_BYTES:
        return Refusal("too-large", f"The record is larger than {MAX_BYTES} bytes.")
    fields = _decode(data)
    if isinstance(fields, Refusal):
        return fields
    try:
        return _validate(fields)
    except _InvalidFieldError as problem:
        return Refusal(f"invalid:{problem.field}", f"The field {problem.field} {problem.fault}.")


def _to_json(value: object) -> str:
    return dumps(value, ascii_only=False)


def _is_valid_boot_id(text: str) -> bool:
    return 1 <= len(text) <= 64 and _consists_of(text, _WORD + "-")


def _consists_of(text: str, alphabet: str) -> bool:
    return not text.strip(alphabet)  # whatever is in the way of stripping is not in the alphabet


def _is_unicode(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False  # half of a surrogate pair
    return True


class _MalformedError(ValueError):
    """The bytes are no JSON that we accept."""


class _InvalidFieldError(Exception):
    def __init__(self, field: str, fault: str) -> None:
        super().__init__(field, fault)
        self.field = field
        self.fault = fault


def _decode(data: bytes) -> dict[str, object] | Refusal:
    try:
        # json.loads(bytes) would guess UTF-16 and UTF-32 and skip a BOM: decode here, as plain UTF-8.
        text = data.decode("utf-8")
        value: object = loads(text, object_pairs_hook=_unique, parse_constant=_refuse)
    except UnicodeDecodeError as error:
        return Refusal("malformed", f"The record is not UTF-8: {error.reason} at byte {error.start}.")
    except RecursionError:
        return Refusal("malformed", "The record is nested too deeply.")
    except _MalformedError as error:
        return Refusal("malformed", f"The record is not acceptable JSON: {error}.")
    except ValueError as error:
        return Refusal("malformed", f"The record is not JSON: {_where(error)}.")
    if not isinstance(value, dict):
        return Refusal("malformed", "The record is not a JSON object.")
    return cast("dict[str, object]", value)


def _where(error: ValueError) -> str:
    from json import JSONDecodeError  # not before it is needed

    return f"{error.msg} at character {error.pos}" if isinstance(error, JSONDecodeError) else str(error)


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise _MalformedError("a key appears twice in one object")
    return fields


def _refuse(constant: str) -> object:
    raise _MalformedError(f"{constant} is not a JSON number")


def _validate(fields: dict[str, object]) -> RuntimeRecord | Refusal:
    if "schema_version" not in fields:
        raise _InvalidFieldError("schema_version", "is missing")
    version = fields["schema_version"]
    if type(version) is not int or version != SCHEMA_VERSION:
        return Refusal("unsupported", f"The schema_version is not the integer {SCHEMA_VERSION}.")
    pid = _whole(fields, "pid", 1, MAX_PID + 1)
    session_id = _text(fields, "session_id", 128)
    if not is_valid_id(session_id):
        raise _InvalidFieldError("session_id", "is not a valid session id")
    cli, cli_version = _cli_version(fields)
    return RuntimeRecord(
        pid=pid,
        session_id=session_id,
        work_dir=_text(fields, "work_dir", MAX_WORK_DIR),
        hostname=_text(fields, "hostname", MAX_HOSTNAME),
        started_at=_seconds(fields, "started_at"),
        cli=cli,
        version=cli_version,
        provider=_optional(fields, "provider", is_valid_id),
        boot_id=_optional(fields, "boot_id", _is_valid_boot_id),
        start_ticks=_word(fields, "start_ticks"),
        pid_ns=_word(fields, "pid_ns"),
        dir_device=_word(fields, "dir_device"),
        dir_inode=_word(fields, "dir_inode"),
        reported_by=_optional(fields, "reported_by", is_valid_id),
    )


def _required(fields: dict[str, object], name: str) -> object:
    if name not in fields:
        raise _InvalidFieldError(name, "is missing")
    return fields[name]


def _whole(fields: dict[str, object], name: str, low: int, end: int) -> int:
    value = _required(fields, name)
    if type(value) is not int:  # not isinstance: True is an int to Python
        raise _InvalidFieldError(name, "is not an integer")
    if not low <= value < end:
        raise _InvalidFieldError(name, f"is not between {low} and {end - 1}")
    return value


def _word(fields: dict[str, object], name: str) -> int | None:
    return _whole(fields, name, 0, MAX_WORD) if name in fields else None


def _seconds(fields: dict[str, object], name: str) -> float:
    value = _required(fields, name)
    if type(value) is not int and type(value) is not float:
        raise _InvalidFieldError(name, "is not a number")
    try:
        seconds = float(value)
    except OverflowError:
        seconds = _INFINITE
    if not abs(seconds) < _INFINITE:  # nor is NaN
        raise _InvalidFieldError(name, "is not finite")
    return seconds


def _text(fields: dict[str, object], name: str, limit: int) -> str:
    value = _required(fields, name)
    if type(value) is not str:
        raise _InvalidFieldError(name, "is not a string")
    if not value or len(value) > limit:
        raise _InvalidFieldError(name, f"is not between 1 and {limit} characters long")
    if "\0" in value:
        raise _InvalidFieldError(name, "contains a NUL character")
    if not _is_unicode(value):
        raise _InvalidFieldError(name, "is not valid Unicode text")
    return value


def _optional(fields: dict[str, object], name: str, is_valid: Callable[[str], bool]) -> str | None:
    if name not in fields:
        return None
    value = _text(fields, name, 128)
    if not is_valid(value):
        raise _InvalidFieldError(name, "has characters that it may not have")
    return value


def _cli_version(fields: dict[str, object]) -> tuple[str | None, str | None]:
    """The first `<cli>_version` that holds a text. Others are unknown fields, hence accepted as they are."""
    for name, value in fields.items():
        cli = name.removesuffix(_VERSION_SUFFIX)
        if cli == name or not is_valid_cli(cli) or type(value) is not str:
            continue
        if len(value) <= MAX_VERSION and "\0" not in value and _is_unicode(value):
            return cli, value
    return None, None
