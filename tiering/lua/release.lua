-- Takes loans back; a hidden stream that nobody reads through any more is removed.
-- KEYS: meta, records, cuts, producers, blocks (prefix), live (channel), sealed, folded,
--       dead, loans, shed, horizon
-- ARGV: loans
-- Returns {"ok"} | {"removed", log, chain} | {"missing"}
local keys = {meta = KEYS[1], records = KEYS[2], cuts = KEYS[3], producers = KEYS[4],
  blocks = KEYS[5], live = KEYS[6], sealed = KEYS[7], folded = KEYS[8], dead = KEYS[9],
  loans = KEYS[10], shed = KEYS[11], horizon = KEYS[12]}

if #ARGV > 0 then redis.call('ZREM', keys.loans, unpack(ARGV)) end
local found = redis.call('HMGET', keys.meta, 'log', 'chain', 'hidden')
if not found[1] then return {'missing'} end
if found[3] ~= '1' or is_lent(keys) then return {'ok'} end
wipe(keys, now_ms())
return {'removed', found[1], found[2]}
