-- Notes that a piece is going to be written; if it never becomes part of the history, it goes.
-- KEYS: meta, sealed, shed
-- ARGV: piece, when to give it up (ms)
-- Returns {"ok"} | {"there"} (it is part of the history) | {"late"} (it is being removed)
--       | {"missing"} | {"hidden"}
local meta, sealed, shed = unpack(KEYS)
local piece, until_ms = ARGV[1], ARGV[2]

local hidden = redis.call('HGET', meta, 'hidden')
if not hidden then return {'missing'} end
if hidden == '1' then return {'hidden'} end
if redis.call('ZSCORE', sealed, piece) then return {'there'} end
if tonumber(redis.call('ZSCORE', shed, piece) or '0') < 0 then return {'late'} end
redis.call('ZADD', shed, until_ms, piece)
return {'ok'}
