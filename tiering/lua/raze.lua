-- Removes a bucket that has no streams.
-- KEYS: meta of the bucket, streams of the bucket
-- ARGV: none
-- Returns {"ok"} | {"missing"} | {"not_empty"}
local meta, streams = unpack(KEYS)

if redis.call('EXISTS', meta) == 0 then return {'missing'} end
if redis.call('ZCARD', streams) > 0 then return {'not_empty'} end
redis.call('DEL', meta)
return {'ok'}
