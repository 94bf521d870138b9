-- Removes a stream, or hides it when forks read through it. An expired one is removed too, but
-- was not there any more.
-- KEYS: meta, records, cuts, producers, blocks (prefix), live (channel), sealed, folded,
--       dead, loans, shed, horizon, recalls
-- ARGV: only if expired ('1' or ''), only this log ('' = any),
--       edges or caches may have something of it ('1' or '')
-- Returns {"ok", log, chain} | {"expired", log, chain} | {"hidden"} | {"already_hidden"}
--       | {"missing"} | {"alive"} | {"other_log"}
local keys = {meta = KEYS[1], records = KEYS[2], cuts = KEYS[3], producers = KEYS[4],
  blocks = KEYS[5], live = KEYS[6], sealed = KEYS[7], folded = KEYS[8], dead = KEYS[9],
  loans = KEYS[10], shed = KEYS[11], horizon = KEYS[12]}
local recalls = KEYS[13]
local only_if_expired, only_log, is_cached = ARGV[1] == '1', ARGV[2], ARGV[3] == '1'

local found = redis.call('HMGET', keys.meta, 'log', 'deadline', 'chain', 'hidden')
if not found[1] then return {'missing'} end
local now = now_ms()
local expired = has_expired(found[2], now)
if only_if_expired and not expired then return {'alive'} end
if only_log ~= '' and only_log ~= found[1] then return {'other_log'} end
if found[4] == '1' then return {'already_hidden'} end
-- What has expired is in no cache: none keeps it longer than that.
local is_recalled = is_cached and not expired
if is_lent(keys) then
  hide(keys)
  if is_recalled then note_recalls(recalls, now, found[1], found[3], true) end
  return {'hidden'}
end
local has_objects = wipe(keys, now)
if is_recalled then note_recalls(recalls, now, found[1], found[3], has_objects) end
return {expired and 'expired' or 'ok', found[1], found[3]}
