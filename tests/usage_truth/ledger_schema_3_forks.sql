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
INSERT INTO "deeds" VALUES(-7102258568055996040,4,1,1791000000.05,'turn','');
INSERT INTO "deeds" VALUES(-3086966903294187665,4,1,1791000000.4,'turn','');
INSERT INTO "deeds" VALUES(-1102563843176293712,4,1,1791000000.1,'turn','');
INSERT INTO "deeds" VALUES(1775394769563814717,1,3,1791000000.3,'turn','');
INSERT INTO "deeds" VALUES(2313999983211407274,2,2,1791000000.2,'turn','');
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
INSERT INTO "events" VALUES(-7646880666583674057,2,2,1791000000.202,NULL,'m','recorded',10,0,0,0,0,0,NULL,0,NULL,NULL,0);
INSERT INTO "events" VALUES(-6996506423610279158,4,1,1791000000.102,NULL,'m','recorded',1,0,0,0,0,0,NULL,1,NULL,NULL,0);
INSERT INTO "events" VALUES(871442003054223345,1,3,1791000000.302,NULL,'m','recorded',100,0,0,0,0,0,NULL,0,NULL,NULL,0);
INSERT INTO "events" VALUES(2170085813263962029,4,1,1791000000.402,NULL,'m','recorded',1000,0,0,0,0,0,NULL,0,NULL,NULL,0);
CREATE TABLE homes (
    id INTEGER PRIMARY KEY,
    provider TEXT NOT NULL,
    path TEXT NOT NULL,
    UNIQUE (provider, path)
);
INSERT INTO "homes" VALUES(1,'kimi-code','/home/ada/.kimi-code');
CREATE TABLE memo (name TEXT PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE prices (
    model TEXT NOT NULL,
    listed_as TEXT NOT NULL,        -- as the source calls it
    source TEXT NOT NULL,
    dated TEXT NOT NULL,            -- the day of which the source is; empty for one's own prices
    assumed INTEGER NOT NULL,       -- 1 if the model that it stands for is assumed
    PRIMARY KEY (model, listed_as, source, dated)
) WITHOUT ROWID;
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
INSERT INTO "quarters" VALUES(1990000,1,'m','',1,1,100,0,0,0,0,0,0,0,1,0);
INSERT INTO "quarters" VALUES(1990000,2,'m','',1,1,10,0,0,0,0,0,0,0,1,0);
INSERT INTO "quarters" VALUES(1990000,4,'m','',3,2,1001,0,0,0,0,0,0,0,2,0);
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY,
    home INTEGER NOT NULL REFERENCES homes (id),
    scope TEXT NOT NULL,
    session_id TEXT NOT NULL,
    work_dir TEXT,                  -- the project, as the provider names it
    has_log INTEGER NOT NULL,       -- 1 if its own log was read; 0 if only copies or a file of the home name it
    UNIQUE (home, scope, session_id)
);
INSERT INTO "sessions" VALUES(1,1,'wd_app_0123456789ab','session_55555555-0000-4000-8000-000000000000','/src/app',1);
INSERT INTO "sessions" VALUES(2,1,'wd_app_0123456789ab','session_bbbbbbbb-0000-4000-8000-000000000000','/src/app',1);
INSERT INTO "sessions" VALUES(3,1,'wd_app_0123456789ab','session_99999999-0000-4000-8000-000000000000','/src/app',1);
INSERT INTO "sessions" VALUES(4,1,'wd_app_0123456789ab','session_77777777-0000-4000-8000-000000000000','/src/app',1);
CREATE TABLE skips (
    source INTEGER NOT NULL REFERENCES sources (id),
    offset INTEGER NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (source, offset)
) WITHOUT ROWID;
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
INSERT INTO "sources" VALUES(1,'/home/ada/.kimi-code/sessions/wd_app_0123456789ab/session_55555555-0000-4000-8000-000000000000/agents/main/wire.jsonl',65024,1597491,2102,1794899313508096909,3466437475,1024,2102,3979906889,'{"provider":"kimi-code","home":"/home/ada/.kimi-code","scope":"wd_app_0123456789ab","session_id":"session_55555555-0000-4000-8000-000000000000","path":"/home/ada/.kimi-code/sessions/wd_app_0123456789ab/session_55555555-0000-4000-8000-000000000000/agents/main/wire.jsonl","agent":null,"work_dir":"/src/app","parent_id":"session_bbbbbbbb-0000-4000-8000-000000000000","generation":2}');
INSERT INTO "sources" VALUES(2,'/home/ada/.kimi-code/sessions/wd_app_0123456789ab/session_bbbbbbbb-0000-4000-8000-000000000000/agents/main/wire.jsonl',65024,1597486,1499,1794899313507957021,3466437475,1024,1499,4212200884,'{"provider":"kimi-code","home":"/home/ada/.kimi-code","scope":"wd_app_0123456789ab","session_id":"session_bbbbbbbb-0000-4000-8000-000000000000","path":"/home/ada/.kimi-code/sessions/wd_app_0123456789ab/session_bbbbbbbb-0000-4000-8000-000000000000/agents/main/wire.jsonl","agent":null,"work_dir":"/src/app","parent_id":"session_99999999-0000-4000-8000-000000000000","generation":1}');
INSERT INTO "sources" VALUES(3,'/home/ada/.kimi-code/sessions/wd_app_0123456789ab/session_99999999-0000-4000-8000-000000000000/agents/main/wire.jsonl',65024,1597481,897,1794899313507784185,3667944845,897,897,3667944845,'{"provider":"kimi-code","home":"/home/ada/.kimi-code","scope":"wd_app_0123456789ab","session_id":"session_99999999-0000-4000-8000-000000000000","path":"/home/ada/.kimi-code/sessions/wd_app_0123456789ab/session_99999999-0000-4000-8000-000000000000/agents/main/wire.jsonl","agent":null,"work_dir":"/src/app","parent_id":null,"generation":0}');
INSERT INTO "sources" VALUES(4,'/home/ada/.kimi-code/sessions/wd_app_0123456789ab/session_77777777-0000-4000-8000-000000000000/agents/main/wire.jsonl',65024,1597496,1445,1794899313508300231,2294290687,1024,1445,2253035961,'{"provider":"kimi-code","home":"/home/ada/.kimi-code","scope":"wd_app_0123456789ab","session_id":"session_77777777-0000-4000-8000-000000000000","path":"/home/ada/.kimi-code/sessions/wd_app_0123456789ab/session_77777777-0000-4000-8000-000000000000/agents/main/wire.jsonl","agent":null,"work_dir":"/src/app","parent_id":null,"generation":0}');
CREATE TABLE unrecorded (
    key INTEGER PRIMARY KEY,        -- as for events
    session INTEGER NOT NULL REFERENCES sessions (id),
    rank INTEGER NOT NULL,
    at REAL NOT NULL,
    kind TEXT NOT NULL
);
INSERT INTO "unrecorded" VALUES(9017727534600496363,4,1,1791000000.051,'killed turn');
CREATE INDEX events_of_shared_files ON events (session) WHERE rank >= 80;
CREATE INDEX turns_by_session ON deeds (session, at) WHERE kind = 'turn';
CREATE INDEX quarters_by_session ON quarters (session);
CREATE INDEX events_by_session ON events (session, at);
COMMIT;
