-- ledger.db, schema 5: what every provider recorded of its use, each request once, kept when the logs are gone.
--
-- Each row ends with a checksum of itself (`sum`), and `seals` has the number of rows and the total of their checksums:
-- SQLite notices broken pages, and neither a changed number nor a row that is gone. See checks.py.

-- `shape` is a checksum of this row and of all definitions: tables and indices are as they were made.
CREATE TABLE about (schema INTEGER NOT NULL, made_by TEXT NOT NULL, shape INTEGER NOT NULL);

-- One file that was read, how far, and how to know it again; or one that waits to be read.
CREATE TABLE sources (
    id INTEGER PRIMARY KEY,
    path TEXT NOT NULL UNIQUE,
    device INTEGER NOT NULL,
    inode INTEGER NOT NULL,
    size INTEGER NOT NULL,          -- bytes, when last read or listed
    mtime_ns INTEGER NOT NULL,
    head INTEGER NOT NULL,          -- checksum of the first bytes: a rewritten file differs here
    head_size INTEGER NOT NULL,     -- how many bytes that is
    offset INTEGER NOT NULL,        -- where the next reading begins
    tail INTEGER NOT NULL,          -- checksum of the last bytes before that
    deferred INTEGER NOT NULL DEFAULT 0, -- 1 while nothing of it was read: no question needed a file as old as this
    described TEXT,                 -- whose file it is, as JSON: it can be read on without listing its home
    sum INTEGER NOT NULL DEFAULT 4294967295
);

CREATE TABLE homes (
    id INTEGER PRIMARY KEY,
    provider TEXT NOT NULL,
    path TEXT NOT NULL,
    sum INTEGER NOT NULL DEFAULT 4294967295,
    UNIQUE (provider, path)
);

CREATE TABLE sessions (
    id INTEGER PRIMARY KEY,
    home INTEGER NOT NULL REFERENCES homes (id),
    scope TEXT NOT NULL,
    session_id TEXT NOT NULL,
    work_dir TEXT,                  -- the project, as the provider names it
    has_log INTEGER NOT NULL,       -- 1 if its own log was read; 0 if only copies or a file of the home name it
    sum INTEGER NOT NULL DEFAULT 4294967295,
    UNIQUE (home, scope, session_id)
);

-- One request that was billed. `key` is 64 bits of a digest of the provider and its own event id: copies have the same
-- one, wherever they lie.
CREATE TABLE events (
    key INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions (id),
    rank INTEGER NOT NULL,          -- of several sessions that hold a copy, the one with the least rank owns it
    at REAL NOT NULL,               -- epoch seconds
    agent TEXT,                     -- the sub-agent
    model TEXT,
    model_source TEXT NOT NULL,     -- recorded, journal, config, unknown
    input INTEGER NOT NULL,
    cache_read INTEGER NOT NULL,
    cache_write INTEGER NOT NULL,   -- five minutes, or not said
    cache_write_1h INTEGER NOT NULL,
    output INTEGER NOT NULL,
    reasoning INTEGER NOT NULL,
    branch TEXT,
    ambiguous INTEGER NOT NULL DEFAULT 0, -- 1 if several sessions hold it and nobody says which is the original
    dollars INTEGER,                -- whole US dollars, by the prices that `memo` names; NULL: no known price
    picos INTEGER,                  -- and millionths of a millionth of one
    assumed INTEGER NOT NULL DEFAULT 0, -- 1 if priced by a model or rate that is assumed
    sum INTEGER NOT NULL DEFAULT 4294967295
);
CREATE INDEX events_by_session ON events (session, at);
CREATE INDEX events_of_shared_files ON events (session) WHERE rank >= 80;

-- Turns and tool calls: counted, never quoted.
CREATE TABLE actions (
    key INTEGER PRIMARY KEY,        -- as for events
    session INTEGER NOT NULL REFERENCES sessions (id),
    rank INTEGER NOT NULL,
    at REAL NOT NULL,
    kind TEXT NOT NULL,             -- turn, tool
    name TEXT NOT NULL,             -- of a tool; of a shell command, after a space, its program
    sum INTEGER NOT NULL DEFAULT 4294967295
);
CREATE INDEX turns_by_session ON actions (session, at) WHERE kind = 'turn';

-- Requests that left a trace and no tokens.
CREATE TABLE unrecorded (
    key INTEGER PRIMARY KEY,        -- as for events
    session INTEGER NOT NULL REFERENCES sessions (id),
    rank INTEGER NOT NULL,
    at REAL NOT NULL,
    kind TEXT NOT NULL,
    sum INTEGER NOT NULL DEFAULT 4294967295
);

-- Lines that could not be read or counted.
CREATE TABLE skips (
    source INTEGER NOT NULL REFERENCES sources (id),
    offset INTEGER NOT NULL,
    reason TEXT NOT NULL,
    sum INTEGER NOT NULL DEFAULT 4294967295,
    PRIMARY KEY (source, offset)
) WITHOUT ROWID;

-- What requests are told apart by in `quarters`: numbers alone can be checked where they are added up.
CREATE TABLE labels (
    id INTEGER PRIMARY KEY,
    model TEXT NOT NULL,            -- empty: not known
    branch TEXT NOT NULL,
    sum INTEGER NOT NULL DEFAULT 4294967295,
    UNIQUE (model, branch)
);

-- Sums of `events` and of turns by quarter of an hour, so that a report reads few rows. Always derivable from them:
-- every offset of a time zone is a multiple of a quarter, and every request was priced before it was added.
CREATE TABLE quarters (
    quarter INTEGER NOT NULL,       -- epoch seconds / 900
    session INTEGER NOT NULL REFERENCES sessions (id),
    label INTEGER NOT NULL REFERENCES labels (id),
    turns INTEGER NOT NULL,         -- of the session in that quarter, on one of its rows
    events INTEGER NOT NULL,
    input INTEGER NOT NULL,
    cache_read INTEGER NOT NULL,
    cache_write INTEGER NOT NULL,
    cache_write_1h INTEGER NOT NULL,
    output INTEGER NOT NULL,
    reasoning INTEGER NOT NULL,
    dollars INTEGER NOT NULL,
    picos INTEGER NOT NULL,
    unpriced INTEGER NOT NULL,      -- events without a price
    assumed INTEGER NOT NULL,
    sum INTEGER NOT NULL DEFAULT 4294967295, -- of the numbers, in SQL
    PRIMARY KEY (quarter, session, label)
) WITHOUT ROWID;
CREATE INDEX quarters_by_session ON quarters (session);

-- Where the price of a model comes from, for every model that was priced, by the prices that `memo` names.
CREATE TABLE prices (
    model TEXT NOT NULL,
    listed_as TEXT NOT NULL,        -- as the source calls it
    source TEXT NOT NULL,
    dated TEXT NOT NULL,            -- the day of which the source is; empty for one's own prices
    assumed INTEGER NOT NULL,       -- 1 if the model that it stands for is assumed
    sum INTEGER NOT NULL DEFAULT 4294967295,
    PRIMARY KEY (model, listed_as, source, dated)
) WITHOUT ROWID;

-- What spares work the next time: which prices were used, and how every directory and file looked.
CREATE TABLE memo (
    name TEXT PRIMARY KEY,
    value BLOB NOT NULL,
    sum INTEGER NOT NULL DEFAULT 4294967295
) WITHOUT ROWID;

-- How many rows a table has, and the total of their checksums; of `quarters` also by day.
CREATE TABLE seals (
    name TEXT NOT NULL,
    part INTEGER NOT NULL,          -- of `quarters` the day, as epoch days; -1: the whole table
    rows INTEGER NOT NULL,
    total INTEGER NOT NULL,
    sum INTEGER NOT NULL DEFAULT 4294967295,
    PRIMARY KEY (name, part)
) WITHOUT ROWID;

-- What was counted once and could not be saved when the ledger was found damaged. Said until it is acknowledged.
CREATE TABLE losses (
    id INTEGER PRIMARY KEY,
    noticed_at REAL NOT NULL,       -- epoch seconds
    what TEXT NOT NULL,             -- requests, turns and calls of tools, calls without tokens, notes on skipped lines
    rows INTEGER,                   -- at least so many; NULL: can't be told, perhaps none
    since REAL,                     -- of which time it was; NULL: can't be told
    until REAL,
    acknowledged INTEGER NOT NULL DEFAULT 0,
    sum INTEGER NOT NULL DEFAULT 4294967295
);
