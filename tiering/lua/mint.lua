-- Takes the next log id: never used before, and growing with time even if Redis starts from nothing.
-- KEYS: counter
-- ARGV: epoch (ms)
-- Returns {"ok", log}
local counter = KEYS[1]
local epoch = tonumber(ARGV[1])

local last = tonumber(redis.call('GET', counter) or '0')
local log = math.max(last + 1, (now_ms() - epoch) * 4096)
redis.call('SET', counter, int(log))
return {'ok', int(log)}
