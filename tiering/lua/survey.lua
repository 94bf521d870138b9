-- What a sealer must know of a stream, of one instant.
-- KEYS: meta, records, cuts, sealed, folded
-- ARGV: none
-- Returns {"ok", now, first chunk end beyond the frontier (-1: none),
--          a chunk begins at the frontier ('1' or ''),
--          time of the oldest unsealed append (ms, -1: none), {meta: field, value, ...},
--          {producers as of the frontier: id, "epoch:seq", ...}}
--       | {"missing"}
local meta, records, cuts, sealed, folded = unpack(KEYS)

local facts = redis.call('HGETALL', meta)
if #facts == 0 then return {'missing'} end
local frontier = redis.call('HGET', meta, 'sealed')
local cut = redis.call('ZRANGEBYSCORE', cuts, '(' .. frontier, '+inf', 'LIMIT', 0, 1)[1]
local oldest = redis.call('XRANGE', records, int(tonumber(frontier) + 1), '+', 'COUNT', 1)[1]
local last = redis.call('ZREVRANGE', sealed, 0, 0)[1]
local begins = not last or string.sub(last, 1, 5) == 'chunk' or redis.call('ZSCORE', cuts, frontier)
return {'ok', int(now_ms()), cut or '-1', begins and '1' or '', oldest and oldest[2][2] or '-1',
  facts, redis.call('HGETALL', folded)}
