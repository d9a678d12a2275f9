-- Every statement of the journal, each under its name. `schema` makes the file; the rest is read by `store` and by lists.

-- name: schema
CREATE TABLE runs (
    run TEXT PRIMARY KEY, repo TEXT NOT NULL, title TEXT NOT NULL, created_at REAL NOT NULL, fence INTEGER NOT NULL DEFAULT 0,
    line TEXT NOT NULL DEFAULT '' -- a cache of a view: how the run stands after its newest fact
) WITHOUT ROWID;
CREATE INDEX runs_by_time ON runs (created_at DESC, run DESC);
CREATE INDEX runs_by_repo ON runs (repo, created_at DESC, run DESC);
CREATE TABLE entries (
    run TEXT NOT NULL REFERENCES runs (run), seq INTEGER NOT NULL, at REAL NOT NULL, schema INTEGER NOT NULL, event BLOB NOT NULL,
    PRIMARY KEY (run, seq)
) WITHOUT ROWID;
CREATE TABLE snapshots (
    run TEXT PRIMARY KEY REFERENCES runs (run), seq INTEGER NOT NULL, key TEXT NOT NULL, state BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE inbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT, run TEXT NOT NULL REFERENCES runs (run), at REAL NOT NULL,
    schema INTEGER NOT NULL, word BLOB NOT NULL, taken INTEGER
);
CREATE INDEX inbox_open ON inbox (run, id) WHERE taken IS NULL;
CREATE TABLE places (name TEXT PRIMARY KEY, path TEXT NOT NULL) WITHOUT ROWID;

-- name: create_run
INSERT INTO runs (run, repo, title, created_at) VALUES (?, ?, ?, ?);

-- name: fence
SELECT fence FROM runs WHERE run = ?;

-- name: set_fence
UPDATE runs SET fence = ? WHERE run = ?;

-- name: last_seq
SELECT seq FROM entries WHERE run = ? ORDER BY seq DESC LIMIT 1;

-- name: append
INSERT INTO entries (run, seq, at, schema, event) VALUES (?, ?, ?, ?, ?);

-- name: say_line
UPDATE runs SET line = ?2 WHERE run = ?1 AND line <> ?2;

-- name: entries
SELECT seq, at, schema, event FROM entries WHERE run = ? AND seq > ? ORDER BY seq LIMIT ?;

-- name: save_snapshot
INSERT OR REPLACE INTO snapshots (run, seq, key, state) VALUES (?, ?, ?, ?);

-- name: snapshot
SELECT seq, state, key FROM snapshots WHERE run = ?;

-- name: recent
SELECT run, repo, title, created_at,
    (SELECT at FROM entries WHERE entries.run = runs.run ORDER BY seq DESC LIMIT 1), line
FROM runs ORDER BY created_at DESC, run DESC LIMIT ?;

-- name: recent_of
SELECT run FROM runs WHERE repo = ? ORDER BY created_at DESC, run DESC LIMIT ?;

-- name: find
SELECT run FROM runs
WHERE substr(run, 1, length(?1)) = ?1 OR substr(run, -length(?1) - 1) = '-' || ?1
ORDER BY created_at DESC, run DESC;

-- name: say
INSERT INTO inbox (run, at, schema, word) VALUES (?, ?, ?, ?) RETURNING id;

-- name: words
SELECT id, schema, word FROM inbox WHERE run = ? AND taken IS NULL ORDER BY id;

-- name: take
UPDATE inbox SET taken = ? WHERE id = ? AND run = ? AND taken IS NULL;

-- name: set_place
INSERT OR REPLACE INTO places (name, path) VALUES (?, ?);

-- name: place
SELECT path FROM places WHERE name = ?;
