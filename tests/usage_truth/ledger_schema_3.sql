BEGIN TRANSACTION;
CREATE TABLE about (schema INTEGER NOT NULL, made_by TEXT NOT NULL);
INSERT INTO "about" VALUES(3,'0.1.0');
CREATE TABLE deeds (
    key INTEGER PRIMARY KEY,        -- as for events
    session INTEGER NOT NULL REFERENCES sessions (id),
    rank INTEGER NOT NULL,
    at REAL NOT NULL,
    kind TEXT NOT NULL,             -- turn, tool
    name TEXT NOT NULL              -- of a tool; of a shell command, after a space, its program
);
INSERT INTO "deeds" VALUES(-8545879168475033675,1,1,1794000000.5,'turn','');
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
    assumed INTEGER NOT NULL DEFAULT 0 -- 1 if priced by a model or rate that is assumed
);
INSERT INTO "events" VALUES(-8554336883903149602,2,1,1794000006.0,NULL,'kimi-k2.5','config',400,600,0,0,13,0,NULL,0,0,339000000,1);
INSERT INTO "events" VALUES(-8156488705995486074,3,1,1794000005.0,NULL,'kimi-k2.5','config',400,600,0,0,13,0,NULL,0,0,339000000,1);
INSERT INTO "events" VALUES(-7423658033919560804,1,1,1794000001.0,NULL,'kimi-k2.5','config',400,600,0,0,13,0,NULL,1,0,339000000,1);
INSERT INTO "events" VALUES(3076049876502544822,1,1,1794000002.0,NULL,'kimi-k2.5','config',400,600,0,0,13,0,NULL,1,0,339000000,1);
INSERT INTO "events" VALUES(6707186053728412526,3,1,1794000004.0,NULL,'kimi-k2.5','config',400,600,0,0,13,0,NULL,0,0,339000000,1);
INSERT INTO "events" VALUES(8781522377278128981,1,1,1794000003.0,NULL,'kimi-k2.5','config',400,600,0,0,13,0,NULL,1,0,339000000,1);
CREATE TABLE homes (
    id INTEGER PRIMARY KEY,
    provider TEXT NOT NULL,
    path TEXT NOT NULL,
    UNIQUE (provider, path)
);
INSERT INTO "homes" VALUES(1,'kimi-cli','/home/ada/.kimi');
CREATE TABLE memo (name TEXT PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE prices (
    model TEXT NOT NULL,
    listed_as TEXT NOT NULL,        -- as the source calls it
    source TEXT NOT NULL,
    dated TEXT NOT NULL,            -- the day of which the source is; empty for one's own prices
    assumed INTEGER NOT NULL,       -- 1 if the model that it stands for is assumed
    PRIMARY KEY (model, listed_as, source, dated)
) WITHOUT ROWID;
INSERT INTO "prices" VALUES('kimi-k2.5','kimi-k2.5','genai-prices 0.2.1','2026-11-15',0);
CREATE TABLE quarters (
    quarter INTEGER NOT NULL,       -- epoch seconds / 900
    session INTEGER NOT NULL REFERENCES sessions (id),
    model TEXT NOT NULL,            -- empty: not known
    branch TEXT NOT NULL,
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
    PRIMARY KEY (quarter, session, model, branch)
) WITHOUT ROWID;
INSERT INTO "quarters" VALUES(1993333,1,'kimi-k2.5','',1,3,1200,1800,0,0,39,0,0,1017000000,0,3);
INSERT INTO "quarters" VALUES(1993333,2,'kimi-k2.5','',0,1,400,600,0,0,13,0,0,339000000,0,1);
INSERT INTO "quarters" VALUES(1993333,3,'kimi-k2.5','',0,2,800,1200,0,0,26,0,0,678000000,0,2);
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY,
    home INTEGER NOT NULL REFERENCES homes (id),
    scope TEXT NOT NULL,
    session_id TEXT NOT NULL,
    work_dir TEXT,                  -- the project, as the provider names it
    has_log INTEGER NOT NULL,       -- 1 if its own log was read; 0 if only copies or a file of the home name it
    UNIQUE (home, scope, session_id)
);
INSERT INTO "sessions" VALUES(1,1,'4a7d47fa6394e050c46476bfd65b7031','aaaa','/home/ada/app',1);
INSERT INTO "sessions" VALUES(2,1,'4a7d47fa6394e050c46476bfd65b7031','cccc','/home/ada/app',1);
INSERT INTO "sessions" VALUES(3,1,'4a7d47fa6394e050c46476bfd65b7031','bbbb','/home/ada/app',1);
CREATE TABLE skips (
    source INTEGER NOT NULL REFERENCES sources (id),
    offset INTEGER NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (source, offset)
) WITHOUT ROWID;
INSERT INTO "skips" VALUES(2,0,'not a record that kimi-cli writes, or its numbers are none');
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
    tail INTEGER NOT NULL,          -- checksum of the last bytes before that
    described TEXT                  -- whose file it is, as JSON: it can be read on without listing its home
);
INSERT INTO "sources" VALUES(1,'/home/ada/.kimi/sessions/4a7d47fa6394e050c46476bfd65b7031/aaaa/wire.jsonl',65024,4280525,715,1794896871297321474,22507475,715,715,22507475,'{"provider":"kimi-cli","home":"/home/ada/.kimi","scope":"4a7d47fa6394e050c46476bfd65b7031","session_id":"aaaa","path":"/home/ada/.kimi/sessions/4a7d47fa6394e050c46476bfd65b7031/aaaa/wire.jsonl","agent":null,"work_dir":"/home/ada/app","parent_id":null,"generation":0}');
INSERT INTO "sources" VALUES(2,'/home/ada/.kimi/sessions/4a7d47fa6394e050c46476bfd65b7031/cccc/wire.jsonl',65024,4280531,303,1794896871322817464,1250555520,303,303,1250555520,'{"provider":"kimi-cli","home":"/home/ada/.kimi","scope":"4a7d47fa6394e050c46476bfd65b7031","session_id":"cccc","path":"/home/ada/.kimi/sessions/4a7d47fa6394e050c46476bfd65b7031/cccc/wire.jsonl","agent":null,"work_dir":"/home/ada/app","parent_id":null,"generation":0}');
INSERT INTO "sources" VALUES(3,'/home/ada/.kimi/sessions/4a7d47fa6394e050c46476bfd65b7031/bbbb/wire.jsonl',65024,4280528,1035,1794896871303668722,1714026590,1024,1035,3104403279,'{"provider":"kimi-cli","home":"/home/ada/.kimi","scope":"4a7d47fa6394e050c46476bfd65b7031","session_id":"bbbb","path":"/home/ada/.kimi/sessions/4a7d47fa6394e050c46476bfd65b7031/bbbb/wire.jsonl","agent":null,"work_dir":"/home/ada/app","parent_id":null,"generation":0}');
CREATE TABLE unrecorded (
    key INTEGER PRIMARY KEY,        -- as for events
    session INTEGER NOT NULL REFERENCES sessions (id),
    rank INTEGER NOT NULL,
    at REAL NOT NULL,
    kind TEXT NOT NULL
);
CREATE INDEX events_of_shared_files ON events (session) WHERE rank >= 80;
CREATE INDEX turns_by_session ON deeds (session, at) WHERE kind = 'turn';
CREATE INDEX quarters_by_session ON quarters (session);
CREATE INDEX events_by_session ON events (session, at);
COMMIT;
