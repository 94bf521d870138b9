-- Creates a stream, or finds that it is there already.
-- KEYS: meta, records, cuts, producers, blocks (prefix), live (channel), sealed, folded
-- ARGV: log, content type, media type, grid, ttl (s or ''), expires (ms or ''), expires text,
--       closed ('1' or ''), data, message lengths
-- Returns {"created", log, tail} | {"exists", log, tail, content type}
--       | {"conflict", what differs} | {"created_over_expired", log, tail}
local keys = {meta = KEYS[1], records = KEYS[2], cuts = KEYS[3], producers = KEYS[4],
  blocks = KEYS[5], live = KEYS[6], sealed = KEYS[7], folded = KEYS[8]}
local log, content_type, media, grid = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local ttl, expires, expires_text, closed = ARGV[5], ARGV[6], ARGV[7], ARGV[8]
local data, lengths = ARGV[9], ARGV[10]

local now = now_ms()
local outcome = 'created'
local found = redis.call('HMGET', keys.meta, 'log', 'tail', 'type', 'media', 'ttl', 'expires',
  'closed', 'deadline')
if found[1] then
  if not has_expired(found[8], now) then
    if found[4] ~= media then return {'conflict', 'content type'} end
    if found[5] ~= ttl or found[6] ~= expires then return {'conflict', 'lifetime'} end
    if found[7] ~= closed then return {'conflict', 'closure'} end
    return {'exists', found[1], found[2], found[3]}
  end
  wipe(keys)
  outcome = 'created_over_expired'
end

local deadline = expires
if ttl ~= '' then deadline = int(now + tonumber(ttl) * 1000) end
store_bytes(keys.blocks, log, 0, 0, data)
local chunk = store_cuts(keys.cuts, 0, grid, 0, data, lengths)
if #data > 0 or closed == '1' then
  store_record(keys.records, 0, data, lengths, now, '', '', closed == '1')
end
-- What every append asks for comes first: a small hash is searched from its beginning.
redis.call('HSET', keys.meta, 'log', log, 'tail', int(#data), 'closed', closed, 'media', media,
  'deadline', deadline, 'chunk', int(chunk), 'grid', int(grid), 'base', '0', 'sealed', '0',
  'type', content_type, 'ttl', ttl, 'seq', '', 'closed_by', '', 'chain', '', 'created', int(now),
  'expires', expires, 'expires_text', expires_text, 'earliest', '0', 'sealed_seq', '',
  'manifest', '')
return {outcome, log, int(#data)}
