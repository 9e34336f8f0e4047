-- name: _row: the columns of Session, its resume token in three
id, conversation_id, engine, workspace, created_at, used_at, model, resume_engine, resume_value, resume_cwd, retired,
failed_resumes, turns, cost_usd

-- name: add: store a new session
INSERT INTO sessions ({_row})
VALUES (:id, :conversation_id, :engine, :workspace, :created_at, :used_at, :model, :resume_engine, :resume_value,
        :resume_cwd, :retired, :failed_resumes, :turns, :cost_usd)

-- name: save: change a stored session
UPDATE sessions
SET conversation_id = :conversation_id, engine = :engine, workspace = :workspace, created_at = :created_at,
    used_at = :used_at, model = :model, resume_engine = :resume_engine, resume_value = :resume_value,
    resume_cwd = :resume_cwd, retired = :retired, failed_resumes = :failed_resumes, turns = :turns,
    cost_usd = :cost_usd
WHERE id = :id

-- name: get: one session by its id
SELECT {_row} FROM sessions WHERE id = :id

-- name: find: sessions whose id lies in a range, newest first
SELECT {_row} FROM sessions WHERE id >= :first AND id < :last ORDER BY seq DESC LIMIT 20

-- name: newest: all sessions, newest first
SELECT {_row} FROM sessions ORDER BY seq DESC LIMIT :limit

-- name: of: the sessions of a conversation, newest first
SELECT {_row} FROM sessions WHERE conversation_id = :conversation_id ORDER BY seq DESC LIMIT :limit

-- name: by_resume: the session with a resume token
SELECT {_row} FROM sessions
WHERE resume_value = :value AND resume_value IS NOT NULL AND resume_engine = :engine ORDER BY seq DESC LIMIT 1
