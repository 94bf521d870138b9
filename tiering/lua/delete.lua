-- Removes a stream. An expired one is removed too, but was not there any more.
-- KEYS: meta, records, cuts, producers, blocks (prefix), live (channel)
-- ARGV: only if expired ('1' or '')
-- Returns {"ok"} | {"expired"} | {"missing"} | {"alive"}
local keys = {meta = KEYS[1], records = KEYS[2], cuts = KEYS[3], producers = KEYS[4],
  blocks = KEYS[5], live = KEYS[6]}
local only_if_expired = ARGV[1] == '1'

local found = redis.call('HMGET', keys.meta, 'log', 'deadline')
if not found[1] then return {'missing'} end
local expired = has_expired(found[2], now_ms())
if only_if_expired and not expired then return {'alive'} end
wipe(keys)
return {expired and 'expired' or 'ok'}
