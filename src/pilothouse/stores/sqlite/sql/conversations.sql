-- name: _row: the columns of Conversation, its address in three
id, channel, place, thread, created_at, private, workspace, engine, model, busy, session_id

-- name: add: store a conversation unless it is known
INSERT INTO conversations ({_row})
VALUES (:id, :channel, :place, :thread, :created_at, :private, :workspace, :engine, :model, :busy, :session_id)
ON CONFLICT (id) DO NOTHING

-- name: save: store a conversation or change what is stored
INSERT INTO conversations ({_row})
VALUES (:id, :channel, :place, :thread, :created_at, :private, :workspace, :engine, :model, :busy, :session_id)
ON CONFLICT (id) DO UPDATE SET channel = :channel, place = :place, thread = :thread, created_at = :created_at,
    private = :private, workspace = :workspace, engine = :engine, model = :model, busy = :busy,
    session_id = :session_id

-- name: get: one conversation by its id
SELECT {_row} FROM conversations WHERE id = :id

-- name: some: those of the given ids that are known
SELECT {_row} FROM conversations WHERE id IN (SELECT value FROM json_each(:ids))

-- name: threads_of: conversations whose id lies in a range, newest first
SELECT {_row} FROM conversations WHERE id >= :first AND id < :last ORDER BY seq DESC LIMIT :limit

-- name: newest: conversations, newest first
SELECT {_row} FROM conversations ORDER BY seq DESC LIMIT :limit
