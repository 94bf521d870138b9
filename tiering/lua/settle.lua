-- Reschedules a stream for the sealer, unless somebody has rescheduled it meanwhile.
-- KEYS: schedule
-- ARGV: stream, the score it was claimed with, its next score ('' = nothing is due)
-- Returns {"ok"} | {"changed"}
local schedule = KEYS[1]
local stream, claimed, next_due = ARGV[1], ARGV[2], ARGV[3]

if redis.call('ZSCORE', schedule, stream) ~= claimed then return {'changed'} end
if next_due == '' then
  redis.call('ZREM', schedule, stream)
else
  redis.call('ZADD', schedule, next_due, stream)
end
return {'ok'}
