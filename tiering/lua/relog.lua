-- Gives a stream a new log that goes on at the border; from there on the old one is void.
-- KEYS: meta, blocks (prefix)
-- ARGV: the log it has, the new log, where the border is ('tail' or 'sealed'), run of Redis
-- Returns {"ok"} | {"gone"}
local meta, blocks = unpack(KEYS)
local old, new, border, run = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local found = redis.call('HMGET', meta, 'log', 'chain', 'base', 'sealed', 'tail')
if found[1] ~= old then return {'gone'} end
local base, tail = tonumber(found[3]), tonumber(found[5])

local start = block_start(base, tonumber(found[4]))
while start < tail do
  redis.call('RENAME', block_key(blocks, old, start), block_key(blocks, new, start))
  start = next_block(start)
end

local at = border == 'tail' and found[5] or found[4]
local ancestor = '{"log":' .. old .. ',"border":' .. at .. ',"kind":"recovery"}'
local chain = '[' .. ancestor .. ']'
if found[2] ~= '' then chain = string.sub(found[2], 1, -2) .. ',' .. ancestor .. ']' end
redis.call('HSET', meta, 'log', new, 'chain', chain, 'run', run, 'manifest', '')
return {'ok'}
