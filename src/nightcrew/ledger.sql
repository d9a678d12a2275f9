-- Every statement of the ledger, each under its name. `schema` makes the file.

-- name: schema
CREATE TABLE cooling (
    account TEXT PRIMARY KEY, until REAL, window TEXT, why TEXT, at REAL, losses INTEGER
) WITHOUT ROWID;
CREATE TABLE turns (id INTEGER PRIMARY KEY, folder TEXT UNIQUE, seen_at REAL, granted INTEGER DEFAULT 0);

-- name: known
SELECT * FROM cooling WHERE account = ?;

-- name: cooling
SELECT * FROM cooling WHERE account IN (?, ?) AND until > ? ORDER BY until DESC LIMIT 1;

-- name: cool
INSERT OR REPLACE INTO cooling VALUES (?, ?, ?, ?, ?, ?);

-- name: warm
DELETE FROM cooling WHERE account IN (?, ?) AND at <= ?;

-- name: queue
-- Asking again within 20 s writes nothing to the disk.
INSERT INTO turns (folder, seen_at) VALUES (?, ?) ON CONFLICT (folder)
DO UPDATE SET seen_at = excluded.seen_at WHERE excluded.seen_at NOT BETWEEN seen_at AND seen_at + 20;

-- name: place
SELECT id, granted FROM turns WHERE folder = ?;

-- name: before
SELECT sum(granted OR (id < ? AND seen_at >= ?)) FROM turns;

-- name: grant
UPDATE turns SET granted = 1 WHERE id = ?;

-- name: release
DELETE FROM turns WHERE folder = ?;

-- name: others
SELECT folder FROM turns WHERE folder != ?;
