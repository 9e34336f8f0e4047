-- What an engine was told that a turn may spend: at least its reservation, and nobody else may reserve it meanwhile.
ALTER TABLE reservations ADD COLUMN share_usd REAL NOT NULL DEFAULT 0;
