-- Notes that a stream is in a bucket, or is about to be. Can be repeated.
-- KEYS: meta of the bucket, streams of the bucket
-- ARGV: entry of a stream that exists, entry of one that does not yet,
--       the lowest entry that the same stream can have,
--       the stream exists, and older entries are of its predecessors ('1' or '')
-- Returns {"ok"} | {"missing"}
local meta, streams = unpack(KEYS)
local entry, promise, lowest, exists = ARGV[1], ARGV[2], ARGV[3], ARGV[4] == '1'

if redis.call('EXISTS', meta) == 0 then return {'missing'} end
if exists then
  redis.call('ZADD', streams, 0, entry)
  redis.call('ZREM', streams, promise)
  redis.call('ZREMRANGEBYLEX', streams, '[' .. lowest, '(' .. entry)
else
  redis.call('ZADD', streams, 0, promise)
end
return {'ok'}
