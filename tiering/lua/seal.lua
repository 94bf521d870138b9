-- Makes a stored piece part of a stream's history and drops what the hot tier held of it.
-- KEYS: meta, records, cuts, blocks (prefix), sealed, folded
-- ARGV: log, start, end, kind ("chunk" or "part"), Stream-Seq as of the end,
--       then for each producer in the piece: id, "epoch:seq"
-- Returns {"ok"} | {"gone"} (the log is not there any more) | {"moved", frontier}
--       | {"hidden"} (only parts of it may be stored any more)
local meta, records, cuts, blocks, sealed, folded = unpack(KEYS)
local log, from, to, kind, seq = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local found = redis.call('HMGET', meta, 'log', 'sealed', 'tail', 'base', 'hidden')
if found[1] ~= log then return {'gone'} end
-- A tail that has become shorter belongs to a Redis that has lost what the sealer read.
if found[2] ~= from or tonumber(found[3]) < tonumber(to) then return {'moved', found[2]} end
if kind == 'chunk' and found[5] == '1' then return {'hidden'} end

redis.call('ZADD', sealed, from, kind .. ':' .. from .. ':' .. to .. ':' .. log)
redis.call('HSET', meta, 'sealed', to, 'sealed_seq', seq)
if #ARGV > 5 then redis.call('HSET', folded, unpack(ARGV, 6)) end
-- The chunk's object says where it ends; a chunk in parts is only known by its cut.
if kind == 'chunk' then redis.call('ZREM', cuts, to) end

local base = tonumber(found[4])
if found[3] == to then
  drop_blocks(blocks, log, base, tonumber(from), next_block(tonumber(to)))
  redis.call('HSET', meta, 'base', to)
  redis.call('UNLINK', records)
else
  drop_blocks(blocks, log, base, tonumber(from), tonumber(to))
  redis.call('XTRIM', records, 'MINID', '=', to .. '-2')
end
return {'ok'}
