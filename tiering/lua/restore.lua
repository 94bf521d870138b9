-- Puts a stream back as object storage knows it. One that is there already stays as it is.
-- KEYS: meta, producers, folded, cuts, sealed
-- ARGV: {"meta": {field: value}, "producers": {id: "epoch:seq"}, "cuts": [position],
--        "sealed": [[start, piece]]}, all values strings
-- Returns {"ok"} | {"exists"}
local meta, producers, folded, cuts, sealed = unpack(KEYS)
local state = cjson.decode(ARGV[1])

if redis.call('EXISTS', meta) == 1 then return {'exists'} end
for id, tuple in pairs(state.producers) do
  redis.call('HSET', producers, id, tuple)
  redis.call('HSET', folded, id, tuple)
end
for _, cut in ipairs(state.cuts) do redis.call('ZADD', cuts, cut, cut) end
for _, piece in ipairs(state.sealed) do redis.call('ZADD', sealed, piece[1], piece[2]) end
-- Small hashes are searched from their beginning, and appends ask for these first.
for _, field in ipairs({'log', 'tail', 'closed', 'media', 'deadline', 'chunk', 'grid', 'base',
    'sealed', 'run', 'hidden', 'written'}) do
  redis.call('HSET', meta, field, state.meta[field])
end
for field, value in pairs(state.meta) do redis.call('HSET', meta, field, value) end
return {'ok'}
