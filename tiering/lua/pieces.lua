-- The sealed pieces that hold a range, of one instant: a compaction may put one in the place of many.
-- KEYS: sealed
-- ARGV: start, end
-- Returns {"ok", piece, ...}
local sealed = KEYS[1]
local from, to = ARGV[1], ARGV[2]

local answer = {'ok'}
for _, piece in ipairs(redis.call('ZREVRANGEBYSCORE', sealed, from, '-inf', 'LIMIT', 0, 1)) do
  answer[#answer + 1] = piece
end
for _, piece in ipairs(redis.call('ZRANGEBYSCORE', sealed, '(' .. from, '(' .. to)) do
  answer[#answer + 1] = piece
end
return answer
