-- A stored chunk is a part from now on.
-- KEYS: meta, sealed, cuts
-- ARGV: the chunk as it is listed, start, end, log, "1" if a chunk of forks ends there too
-- Returns {"ok"} | {"gone"}
local meta, sealed, cuts = unpack(KEYS)
local chunk, from, to, log, is_cut = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5] == '1'

if redis.call('ZREM', sealed, chunk) == 0 then return {'gone'} end
redis.call('ZADD', sealed, from, 'part:' .. from .. ':' .. to .. ':' .. log)
if is_cut then redis.call('ZADD', cuts, to, to) end
return {'ok'}
