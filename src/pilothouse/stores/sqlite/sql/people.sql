-- name: _row: the columns of Grant, in its order
user, role, workspace, name, granted_by, granted_at

-- name: grant: give a role, or another one
INSERT INTO people ({_row}) VALUES (:user, :role, :workspace, :name, :by, :at)
ON CONFLICT (user, workspace) DO UPDATE
SET role = :role, name = :name, granted_by = :by, granted_at = :at

-- name: revoke: take a role, in one workspace or all of them
DELETE FROM people WHERE user = :user AND (:workspace IS NULL OR workspace = :workspace) RETURNING {_row}

-- name: of: what somebody was granted
SELECT {_row} FROM people WHERE user = :user ORDER BY workspace

-- name: everybody: everybody who was granted something
SELECT {_row} FROM people ORDER BY user, workspace
