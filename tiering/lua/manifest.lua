-- Notes what the manifest in object storage says of a stream.
-- KEYS: meta
-- ARGV: log, mark
-- Returns {"ok"} | {"gone"}
local meta = KEYS[1]
local log, mark = ARGV[1], ARGV[2]

if redis.call('HGET', meta, 'log') ~= log then return {'gone'} end
redis.call('HSET', meta, 'manifest', mark)
return {'ok'}
