-- name: add: append one row
INSERT INTO audit (seq, at, who, what, detail, hash) VALUES (:seq, :at, :who, :what, :detail, :hash)

-- name: last: the row that the next one is chained to
SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1

-- name: newest: the newest rows, newest first
SELECT seq, at, who, what, detail, hash FROM audit
WHERE :since IS NULL OR at >= :since ORDER BY seq DESC LIMIT :limit

-- name: head: the highest number ever given out, and the hash that a trigger kept of it
SELECT ifnull((SELECT seq FROM sqlite_sequence WHERE name = 'audit'), 0),
    ifnull((SELECT value FROM facts WHERE key = 'audit.head'), '')

-- name: after: some rows after one, oldest first
SELECT seq, at, who, what, detail, hash FROM audit WHERE seq > :seq ORDER BY seq LIMIT :limit
