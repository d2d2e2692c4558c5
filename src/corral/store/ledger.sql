-- ledger.db, schema 1: what every provider recorded of its use, each request once, kept when the logs are gone.

CREATE TABLE about (schema INTEGER NOT NULL, made_by TEXT NOT NULL);

-- One file that was read, how far, and how to know it again.
CREATE TABLE sources (
    id INTEGER PRIMARY KEY,
    path TEXT NOT NULL UNIQUE,
    device INTEGER NOT NULL,
    inode INTEGER NOT NULL,
    size INTEGER NOT NULL,          -- bytes, when last read
    mtime_ns INTEGER NOT NULL,
    head INTEGER NOT NULL,          -- checksum of the first bytes: a rewritten file differs here
    head_size INTEGER NOT NULL,     -- how many bytes that is
    offset INTEGER NOT NULL,        -- where the next reading begins
    tail INTEGER NOT NULL           -- checksum of the last bytes before that
);

CREATE TABLE homes (
    id INTEGER PRIMARY KEY,
    provider TEXT NOT NULL,
    path TEXT NOT NULL,
    UNIQUE (provider, path)
);

CREATE TABLE sessions (
    id INTEGER PRIMARY KEY,
    home INTEGER NOT NULL REFERENCES homes (id),
    scope TEXT NOT NULL,
    session_id TEXT NOT NULL,
    work_dir TEXT,                  -- the project, as the provider names it
    has_log INTEGER NOT NULL,       -- 1 if its own log was read; 0 if only copies or a file of the home name it
    UNIQUE (home, scope, session_id)
);

-- One request that was billed. `key` is the provider's own event id: copies have the same one.
CREATE TABLE events (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions (id),
    key TEXT NOT NULL,
    home INTEGER NOT NULL REFERENCES homes (id), -- the provider's first: copies in another home are copies
    rank TEXT NOT NULL,             -- of several sessions that hold a copy, the one with the least rank owns it
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
    UNIQUE (home, key)
);
CREATE INDEX events_by_time ON events (at);
CREATE INDEX events_of_shared_files ON events (session) WHERE rank >= '80';

-- Turns and calls of tools: counted, never quoted.
CREATE TABLE deeds (
    session INTEGER NOT NULL REFERENCES sessions (id),
    key TEXT NOT NULL,
    home INTEGER NOT NULL REFERENCES homes (id), -- the provider's first: copies in another home are copies
    rank TEXT NOT NULL,
    at REAL NOT NULL,
    kind TEXT NOT NULL,             -- turn, tool
    name TEXT NOT NULL,             -- of a tool; of a shell command, after a space, its program
    PRIMARY KEY (home, key)
) WITHOUT ROWID;

-- Requests that left a trace and no tokens.
CREATE TABLE unrecorded (
    session INTEGER NOT NULL REFERENCES sessions (id),
    key TEXT NOT NULL,
    home INTEGER NOT NULL REFERENCES homes (id), -- the provider's first: copies in another home are copies
    rank TEXT NOT NULL,
    at REAL NOT NULL,
    kind TEXT NOT NULL,
    PRIMARY KEY (home, key)
) WITHOUT ROWID;

-- Lines that looked like usage and could not be counted.
CREATE TABLE skips (
    source INTEGER NOT NULL REFERENCES sources (id),
    offset INTEGER NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (source, offset)
) WITHOUT ROWID;
