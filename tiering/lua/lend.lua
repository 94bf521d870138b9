-- Notes that a fork reads through a stream up to a position. Can be repeated.
-- KEYS: meta, loans
-- ARGV: log the stream must have ('' = the fork exists, whatever became of the stream),
--       position, loan, the earliest position that it must have
-- Returns {"ok"} | {"missing"} | {"expired"} | {"hidden"} | {"other_log"} | {"moved"}
local meta, loans = unpack(KEYS)
local log, position, loan, earliest = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local found = redis.call('HMGET', meta, 'log', 'deadline', 'hidden', 'lent', 'earliest')
if not found[1] then return {'missing'} end
local now = now_ms()
if not redis.call('ZSCORE', loans, loan) then
  if log ~= '' then
    if has_expired(found[2], now) then return {'expired'} end
    if found[3] == '1' then return {'hidden'} end
    if log ~= found[1] then return {'other_log'} end
    if earliest ~= found[5] then return {'moved'} end
  end
  redis.call('ZADD', loans, int(now), loan)
end
-- What is lent must be stored before the fork's own data: see the sealer.
if tonumber(position) > tonumber(found[4]) then redis.call('HSET', meta, 'lent', position) end
return {'ok'}
