-- Of what is shed, decides what will be removed now: nobody can take it up any more.
-- KEYS: meta, sealed, loans, shed
-- ARGV: what the keys of the stream's own snapshots begin with, then what may go
-- Returns {"ok", what goes, ...}
local meta, sealed, loans, shed = unpack(KEYS)
local own = ARGV[1]

-- Forks may still have a snapshot that the stream itself has not any more.
local is_lent = redis.call('ZCARD', loans) > 0
local current = redis.call('HGET', meta, 'snapshot') or ''
local answer = {'ok'}
for i = 2, #ARGV do
  local is_snapshot = string.sub(ARGV[i], 1, #own) == own
  local is_needed = redis.call('ZSCORE', sealed, ARGV[i])
  if is_snapshot then is_needed = is_lent or string.find(current, ARGV[i], 1, true) end
  if not is_needed and redis.call('ZSCORE', shed, ARGV[i]) then
    redis.call('ZADD', shed, -1, ARGV[i])
    answer[#answer + 1] = ARGV[i]
  end
end
return answer
