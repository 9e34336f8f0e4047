-- name: _row: the columns of Spent, in its order
day, conversation_id, workspace, engine, cause, turns, untold, cost_usd, assumed_usd

-- name: add: add to what a day, place, engine and cause cost
INSERT INTO spending ({_row})
VALUES (:day, :conversation_id, :workspace, :engine, :cause, :turns, :untold, :cost_usd, :assumed_usd)
ON CONFLICT (day, conversation_id, workspace, engine, cause) DO UPDATE
SET turns = turns + :turns, untold = untold + :untold, cost_usd = cost_usd + :cost_usd,
    assumed_usd = assumed_usd + :assumed_usd

-- name: of: what was spent from one day on, oldest first
SELECT {_row} FROM spending WHERE day >= :since ORDER BY day, conversation_id, workspace, engine, cause

-- name: used: what was spent on one day, in one place or in all
SELECT total(cost_usd), total(assumed_usd) FROM spending WHERE day = :day
  AND (:workspace IS NULL OR workspace = :workspace)
  AND (:conversation_id IS NULL OR conversation_id = :conversation_id)

-- name: average: what a turn of an engine cost that told it, from one day on
SELECT sum(cost_usd) / nullif(sum(turns - untold), 0) FROM spending WHERE day >= :since AND engine = :engine

-- name: _reservation: the columns of Reservation, in its order
turn_id, day, workspace, conversation_id, amount_usd, ask_id, share_usd

-- name: reserve: take what a turn may cost, or another amount for it
INSERT INTO reservations ({_reservation})
VALUES (:turn_id, :day, :workspace, :conversation_id, :amount_usd, :ask_id, :share_usd)
ON CONFLICT (turn_id) DO UPDATE
SET day = :day, workspace = :workspace, conversation_id = :conversation_id, amount_usd = :amount_usd, ask_id = :ask_id,
    share_usd = :share_usd

-- name: reservation: what one turn has reserved
SELECT {_reservation} FROM reservations WHERE turn_id = :turn_id

-- name: release: give back what one turn has reserved
DELETE FROM reservations WHERE turn_id = :turn_id RETURNING {_reservation}

-- name: reserved: what unended turns may spend on one day, in one place or in all, and how many they are
SELECT total(max(amount_usd, share_usd)), count(*) FROM reservations WHERE ask_id IS NULL AND day = :day
  AND (:workspace IS NULL OR workspace = :workspace)
  AND (:conversation_id IS NULL OR conversation_id = :conversation_id)

-- name: held: the turns that wait for an ask, oldest first
SELECT {_reservation} FROM reservations WHERE ask_id = :ask_id ORDER BY seq

-- name: cap_day: what was decided and told about one scope on one day
SELECT day, scope, raised_usd, alerted, ask_id FROM cap_days WHERE day = :day AND scope = :scope

-- name: save_cap_day: keep what was decided and told
INSERT INTO cap_days (day, scope, raised_usd, alerted, ask_id) VALUES (:day, :scope, :raised_usd, :alerted, :ask_id)
ON CONFLICT (day, scope) DO UPDATE SET raised_usd = :raised_usd, alerted = :alerted, ask_id = :ask_id
