-- Puts one stored piece in the place of several, which together hold the same.
-- KEYS: meta, sealed, cuts, shed
-- ARGV: the new piece as it is listed, start, end, kind ("chunk" or "part"), then the old ones
-- Returns {"ok"} | {"moved"} (they are not the history any more) | {"late"} | {"missing"}
--       | {"hidden"}
local meta, sealed, cuts, shed = unpack(KEYS)
local piece, from, to, kind = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local now = int(now_ms())

-- Its objects may have been written again after somebody else's had been removed.
local function lost(why)
  if not redis.call('ZSCORE', sealed, piece) then redis.call('ZADD', shed, 'NX', now, piece) end
  return {why}
end

local hidden = redis.call('HGET', meta, 'hidden')
if not hidden then return lost('missing') end
if hidden == '1' then return lost('hidden') end
for i = 5, #ARGV do
  if not redis.call('ZSCORE', sealed, ARGV[i]) then return lost('moved') end
end
if tonumber(redis.call('ZSCORE', shed, piece) or '-1') < 0 then return lost('late') end
redis.call('ZREM', shed, piece)

for i = 5, #ARGV do
  redis.call('ZREM', sealed, ARGV[i])
  redis.call('ZADD', shed, now, ARGV[i])
end
redis.call('ZADD', sealed, from, piece)
-- The chunk's object says where it ends; a chunk in parts is only known by its cut.
if kind == 'chunk' then redis.call('ZREM', cuts, to) end
return {'ok'}
