-- name: _row: the columns of Node, its info and its roles spread out
epoch, name, host, pid, started, engines, channels, scheduler, lease_until, beats, fenced

-- name: join: a new node
INSERT INTO nodes (name, host, pid, started, engines, channels, scheduler, lease_until, beats, fenced)
VALUES (:name, :host, :pid, :started, :engines, :channels, :scheduler, :lease_until, 0, 0)
RETURNING epoch

-- name: beat: count a heartbeat and renew the lease
UPDATE nodes SET lease_until = :lease_until, beats = beats + 1 WHERE epoch = :epoch

-- name: add_role: one more role
UPDATE nodes SET engines = max(engines, :engines), channels = max(channels, :channels),
    scheduler = max(scheduler, :scheduler) WHERE epoch = :epoch

-- name: leave: give up every role and the right to write
UPDATE nodes SET fenced = 1, engines = 0, channels = 0, scheduler = 0 WHERE epoch = :epoch

-- name: alive: the nodes that were not fenced
SELECT {_row} FROM nodes WHERE fenced = 0 ORDER BY epoch

-- name: get: one node by its epoch
SELECT {_row} FROM nodes WHERE epoch = :epoch

-- name: engines: the node that holds the engines role
SELECT {_row} FROM nodes WHERE engines = 1 AND fenced = 0

-- name: fence: take a node's right to write
UPDATE nodes SET fenced = 1 WHERE epoch = :epoch

-- name: may_write: whether a node is there and was not fenced
SELECT 1 FROM nodes WHERE epoch = :epoch AND fenced = 0

-- name: claimants: fenced nodes that still hold a claim or a live turn
SELECT held.epoch FROM (
    SELECT epoch FROM inbox WHERE status = 'claimed'
    UNION SELECT epoch FROM outbox WHERE status = 'claimed'
    UNION SELECT epoch FROM turns WHERE status IN ('running', 'waiting')
) AS held
CROSS JOIN nodes ON nodes.epoch = held.epoch
WHERE nodes.fenced = 1 ORDER BY held.epoch

-- name: prune: forget fenced nodes that hold nothing
DELETE FROM nodes WHERE epoch IN (
    SELECT epoch FROM nodes AS old WHERE fenced = 1 AND lease_until < :before
      AND NOT EXISTS (SELECT 1 FROM inbox WHERE inbox.epoch = old.epoch AND status = 'claimed')
      AND NOT EXISTS (SELECT 1 FROM outbox WHERE outbox.epoch = old.epoch AND status = 'claimed')
      AND NOT EXISTS (SELECT 1 FROM turns WHERE turns.epoch = old.epoch AND status IN ('running', 'waiting'))
    LIMIT :limit
)
