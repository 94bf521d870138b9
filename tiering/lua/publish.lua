-- Puts a stored snapshot in force: from now on nothing before it is retained.
-- KEYS: meta, shed, horizon, live (channel), recalls
-- ARGV: log, position, snapshot (JSON), its object's key, what the keys of the stream's own
--       snapshots begin with, caches may have what is not retained any more ('1' or '')
-- Returns {"ok"} | {"same"} | {"other"} (body or type, at the same position)
--       | {"beyond"} | {"behind", earliest} | {"late"} (the object may be gone already)
--       | {"missing"} | {"expired"} | {"hidden"} | {"other_log"}
local meta, shed, horizon, live, recalls = unpack(KEYS)
local log, position, text, key, own = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5]
local is_cached = ARGV[6] == '1'

local found = redis.call('HMGET', meta, 'log', 'deadline', 'hidden', 'tail', 'earliest', 'snapshot')
if not found[1] then return {'missing'} end
if found[3] == '1' then return {'hidden'} end
local now = now_ms()
if has_expired(found[2], now) then return {'expired'} end
if found[1] ~= log then return {'other_log'} end
if position > tonumber(found[4]) then return {'beyond'} end
if position < tonumber(found[5]) then return {'behind', found[5]} end

local old = found[6] ~= '' and cjson.decode(found[6])
if old and position == old.position then
  local new = cjson.decode(text)
  local is_same = old.digest == new.digest and old.size == new.size
    and old.content_type == new.content_type
  return {is_same and 'same' or 'other'}
end
if tonumber(redis.call('ZSCORE', shed, key) or '-1') < 0 then return {'late'} end
redis.call('ZREM', shed, key)
if old and string.sub(old.key, 1, #own) == own then redis.call('ZADD', shed, int(now), old.key) end
redis.call('HSET', meta, 'earliest', int(position), 'snapshot', text)
redis.call('ZADD', horizon, int(now), int(position))
if is_cached then redis.call('HSET', recalls, key, int(now)) end
redis.call('PUBLISH', live, log .. ' ' .. int(position) .. ' ' .. found[4] .. ' trimmed -1\n')
return {'ok'}
