-- The call that an ask is about, as JSON; empty where nothing runs, and for asks from before this column.
ALTER TABLE asks ADD COLUMN call TEXT NOT NULL DEFAULT '';
