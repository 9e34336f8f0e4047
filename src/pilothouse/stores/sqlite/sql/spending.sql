-- name: _row: the columns of Spent, in its order
day, conversation_id, workspace, engine, cause, turns, untold, cost_usd, assumed_usd

-- name: add: add to the cost of a day, place, engine and cause
INSERT INTO spending ({_row})
VALUES (:day, :conversation_id, :workspace, :engine, :cause, :turns, :untold, :cost_usd, :assumed_usd)
ON CONFLICT (day, conversation_id, workspace, engine, cause) DO UPDATE
SET turns = turns + :turns, untold = untold + :untold, cost_usd = cost_usd + :cost_usd,
    assumed_usd = assumed_usd + :assumed_usd

-- name: of: spending from a day on, oldest first
SELECT {_row} FROM spending WHERE day >= :since ORDER BY day, conversation_id, workspace, engine, cause

-- name: used: spending of one day, in one place or in all
SELECT total(cost_usd), total(assumed_usd) FROM spending WHERE day = :day
  AND (:workspace IS NULL OR workspace = :workspace)
  AND (:conversation_id IS NULL OR conversation_id = :conversation_id)

-- name: average: average cost of the turns that reported one, by engine, from a day on
SELECT sum(cost_usd) / nullif(sum(turns - untold), 0) FROM spending WHERE day >= :since AND engine = :engine

-- name: _reservation: the columns of Reservation, in its order
turn_id, day, workspace, conversation_id, amount_usd, ask_id, share_usd

-- name: reserve: reserve an amount for a turn, or change it
INSERT INTO reservations ({_reservation})
VALUES (:turn_id, :day, :workspace, :conversation_id, :amount_usd, :ask_id, :share_usd)
ON CONFLICT (turn_id) DO UPDATE
SET day = :day, workspace = :workspace, conversation_id = :conversation_id, amount_usd = :amount_usd, ask_id = :ask_id,
    share_usd = :share_usd

-- name: reservation: the reservation of a turn
SELECT {_reservation} FROM reservations WHERE turn_id = :turn_id

-- name: release: delete the reservation of a turn
DELETE FROM reservations WHERE turn_id = :turn_id RETURNING {_reservation}

-- name: reserved: amount and number of the reservations of one day, in one place or in all
SELECT total(max(amount_usd, share_usd)), count(*) FROM reservations WHERE ask_id IS NULL AND day = :day
  AND (:workspace IS NULL OR workspace = :workspace)
  AND (:conversation_id IS NULL OR conversation_id = :conversation_id)

-- name: held: the turns that wait for an ask, oldest first
SELECT {_reservation} FROM reservations WHERE ask_id = :ask_id ORDER BY seq

-- name: cap_day: decisions and notices about one scope on one day
SELECT day, scope, raised_usd, alerted, ask_id FROM cap_days WHERE day = :day AND scope = :scope

-- name: save_cap_day: store decisions and notices
INSERT INTO cap_days (day, scope, raised_usd, alerted, ask_id) VALUES (:day, :scope, :raised_usd, :alerted, :ask_id)
ON CONFLICT (day, scope) DO UPDATE SET raised_usd = :raised_usd, alerted = :alerted, ask_id = :ask_id
