-- What `corral sql` offers: views over ledger.db. Their names and columns stay; the tables beneath them may change.
-- Each column is on a line of its own, with what it means: `corral sql --schema` and docs/sql.md are made from this.

-- Every request that a provider recorded, once, on the session that first recorded it.
CREATE TEMP VIEW usage_events AS SELECT
    homes.provider AS provider,                 -- claude-code, kimi-cli, kimi-code, qwen-code
    homes.path AS home,                         -- the provider's data root
    sessions.scope AS scope,                    -- the provider's own container, where it has them
    sessions.session_id AS session_id,
    sessions.work_dir AS project,               -- the directory in which the session ran
    events.agent AS agent,                      -- the sub-agent; NULL for the main one
    events.at AS at,                            -- epoch seconds
    datetime(events.at, 'unixepoch', 'localtime') AS time,  -- local time
    date(events.at, 'unixepoch', 'localtime') AS day,       -- local date
    events.model AS model,                      -- NULL if nothing names it
    events.model_source AS model_source,        -- recorded, journal, config (as first seen), unknown
    events.ambiguous AS ambiguous,              -- 1 if several sessions hold it and nobody says which is the original
    events.branch AS branch,                    -- of git, where the CLI records it
    events.input AS input,                      -- tokens that no cache served or took; the six kinds do not overlap
    events.cache_read AS cache_read,            -- tokens served by a cache
    events.cache_write AS cache_write,          -- tokens written to a cache for five minutes, or not said
    events.cache_write_1h AS cache_write_1h,    -- tokens written to a cache for an hour
    events.output AS output,                    -- tokens of output that are not reasoning
    events.reasoning AS reasoning,              -- tokens of reasoning
    events.input + events.cache_read + events.cache_write + events.cache_write_1h + events.output + events.reasoning AS tokens,  -- all six
    cost_usd(events.model, events.at, events.input, events.cache_read, events.cache_write, events.cache_write_1h, events.output, events.reasoning) AS cost_usd  -- US dollars, priced by this request's day and size; NULL if it has no price
FROM main.events JOIN main.sessions ON sessions.id = events.session JOIN main.homes ON homes.id = sessions.home;

-- Every session that was ever counted, also those whose logs are gone.
CREATE TEMP VIEW usage_sessions AS SELECT
    homes.provider AS provider,
    homes.path AS home,
    sessions.scope AS scope,
    sessions.session_id AS session_id,
    sessions.work_dir AS project,
    spent.first_at AS first_at,                 -- epoch seconds of its first request; NULL without one
    spent.last_at AS last_at,
    coalesce(spent.requests, 0) AS requests,
    coalesce(spent.tokens, 0) AS tokens,        -- all six kinds
    spent.cost_usd AS cost_usd,                 -- of the requests that have a price
    coalesce(spent.unpriced, 0) AS unpriced,    -- requests that have none
    coalesce(done.turns, 0) AS turns,
    coalesce(done.tool_calls, 0) AS tool_calls
FROM main.sessions JOIN main.homes ON homes.id = sessions.home
LEFT JOIN (
    SELECT session, min(at) AS first_at, max(at) AS last_at, count(*) AS requests, sum(tokens) AS tokens,
        sum(cost) AS cost_usd, count(*) - count(cost) AS unpriced
    FROM (
        SELECT session, at, input + cache_read + cache_write + cache_write_1h + output + reasoning AS tokens,
            cost_usd(model, at, input, cache_read, cache_write, cache_write_1h, output, reasoning) AS cost
        FROM main.events
    ) GROUP BY session
) AS spent ON spent.session = sessions.id
LEFT JOIN (
    SELECT session, sum(kind = 'turn') AS turns, sum(kind = 'tool') AS tool_calls FROM main.actions GROUP BY session
) AS done ON done.session = sessions.id;

-- Every time a person asked something: prompts, and messages that steer a running turn.
CREATE TEMP VIEW turns AS SELECT
    homes.provider AS provider,
    homes.path AS home,
    sessions.session_id AS session_id,
    sessions.work_dir AS project,
    actions.at AS at,                             -- epoch seconds
    datetime(actions.at, 'unixepoch', 'localtime') AS time,   -- local time
    date(actions.at, 'unixepoch', 'localtime') AS day         -- local date
FROM main.actions JOIN main.sessions ON sessions.id = actions.session JOIN main.homes ON homes.id = sessions.home
WHERE actions.kind = 'turn';

-- Every call of a tool.
CREATE TEMP VIEW tool_calls AS SELECT
    homes.provider AS provider,
    homes.path AS home,
    sessions.session_id AS session_id,
    sessions.work_dir AS project,
    actions.at AS at,                             -- epoch seconds
    datetime(actions.at, 'unixepoch', 'localtime') AS time,   -- local time
    date(actions.at, 'unixepoch', 'localtime') AS day,        -- local date
    substr(actions.name, 1, instr(actions.name || ' ', ' ') - 1) AS tool,           -- its name
    nullif(substr(actions.name, instr(actions.name || ' ', ' ') + 1), '') AS program  -- of a shell command, what it runs first
FROM main.actions JOIN main.sessions ON sessions.id = actions.session JOIN main.homes ON homes.id = sessions.home
WHERE actions.kind = 'tool';

-- Requests that left a trace and no tokens: compactions, interrupted and killed turns.
CREATE TEMP VIEW unrecorded_calls AS SELECT
    homes.provider AS provider,
    homes.path AS home,
    sessions.session_id AS session_id,
    sessions.work_dir AS project,
    unrecorded.at AS at,                        -- epoch seconds
    datetime(unrecorded.at, 'unixepoch', 'localtime') AS time,  -- local time
    date(unrecorded.at, 'unixepoch', 'localtime') AS day,       -- local date
    unrecorded.kind AS kind                     -- what kind of call it was
FROM main.unrecorded JOIN main.sessions ON sessions.id = unrecorded.session JOIN main.homes ON homes.id = sessions.home;

-- Lines that could not be read or counted.
CREATE TEMP VIEW skipped_lines AS SELECT
    sources.path AS path,
    skips.offset AS byte_offset,                -- where the line begins
    skips.reason AS reason
FROM main.skips JOIN main.sources ON sources.id = skips.source;

-- Every log that was read, and how far; and those that wait to be read, with 0 bytes.
CREATE TEMP VIEW log_files AS SELECT
    sources.path AS path,
    sources.size AS size,                       -- bytes, when it was last read or listed
    sources.offset AS read_to                   -- bytes that are in the ledger
FROM main.sources;
