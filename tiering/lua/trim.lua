-- Takes pieces out of a stream's history that lie wholly before what it retained a while ago.
-- KEYS: meta, sealed, cuts, loans, shed, horizon
-- ARGV: the end of that while (ms), how many pieces at most
-- Returns {"ok"} | {"more"} | {"waiting", time of the oldest horizon (ms)} | {"lent"}
--       | {"unnoted"} (object storage does not know yet) | {"missing"}
local meta, sealed, cuts, loans, shed, horizon = unpack(KEYS)
local until_ms, most = ARGV[1], ARGV[2]

local mark = redis.call('HGET', meta, 'manifest')
if not mark then return {'missing'} end
local oldest = redis.call('ZRANGE', horizon, 0, 0, 'WITHSCORES')
if not oldest[1] then return {'ok'} end
local due = redis.call('ZRANGEBYSCORE', horizon, '-inf', until_ms)
if not due[1] then return {'waiting', oldest[2]} end
if redis.call('ZCARD', loans) > 0 then return {'lent'} end

local line = 0
for _, position in ipairs(due) do line = math.max(line, tonumber(position)) end
local noted = string.match(mark, '^%d+:%d+:%d:(%d+)')
if not noted or tonumber(noted) < line then return {'unnoted'} end

local pieces = redis.call('ZRANGEBYSCORE', sealed, '-inf', '(' .. int(line), 'LIMIT', 0, most)
for _, piece in ipairs(pieces) do
  if tonumber(string.match(piece, '^%a+:%d+:(%d+)')) <= line then
    redis.call('ZREM', sealed, piece)
    redis.call('ZADD', shed, 0, piece)
  end
end
if #pieces == tonumber(most) then return {'more'} end
redis.call('ZREMRANGEBYSCORE', cuts, '-inf', '(' .. int(line))
redis.call('ZREMRANGEBYSCORE', horizon, '-inf', until_ms)
return {'ok'}
