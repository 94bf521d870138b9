-- Removes a stream. An expired one is removed too, but was not there any more.
-- KEYS: meta, records, cuts, producers, blocks (prefix), live (channel), sealed, folded
-- ARGV: only if expired ('1' or ''), only this log ('' = any)
-- Returns {"ok", log} | {"expired", log} | {"missing"} | {"alive"} | {"other_log"}
local keys = {meta = KEYS[1], records = KEYS[2], cuts = KEYS[3], producers = KEYS[4],
  blocks = KEYS[5], live = KEYS[6], sealed = KEYS[7], folded = KEYS[8]}
local only_if_expired, only_log = ARGV[1] == '1', ARGV[2]

local found = redis.call('HMGET', keys.meta, 'log', 'deadline')
if not found[1] then return {'missing'} end
local expired = has_expired(found[2], now_ms())
if only_if_expired and not expired then return {'alive'} end
if only_log ~= '' and only_log ~= found[1] then return {'other_log'} end
wipe(keys)
return {expired and 'expired' or 'ok', found[1]}
